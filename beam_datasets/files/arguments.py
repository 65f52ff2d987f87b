"""Types of the keyword arguments that builders of files pass to their base classes.

`help()` of a builder shows its own arguments; these types tell an editor and mypy the others. `beam-datasets build
FORMAT --help` shows all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from beam_datasets.files.split_assignment import SplitBy


class FilesArguments(TypedDict, total=False):
    """Keyword arguments of `FilesBuilder`; its docstring explains them."""

    data_dir: str | None
    name: str | None
    version: str
    skip_bad: bool
    description: str
    config: object


class RowsArguments(FilesArguments, total=False):
    """Keyword arguments of `RowsBuilder`; its docstring explains them."""

    pattern: str | None
    splits: Mapping[str, str | Sequence[str]] | None
    split_by: SplitBy | None
    train_until: str | None
    stratify: str | None
    features: Mapping[str, str] | None
    key: str | None
    infer_rows: int
    exif_orientation: str | None
    frames: str | None


class LabeledFolderArguments(FilesArguments, total=False):
    """Keyword arguments of `LabeledFolder`; its docstring explains them."""

    root: str
    splits: Mapping[str, str | Sequence[str]] | None
    split_by: SplitBy | None
    stratify: str | None
