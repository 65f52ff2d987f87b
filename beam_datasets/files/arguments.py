"""Types of the keyword arguments that the builders of files pass on to their base classes.

`help()` of a builder shows its own arguments; these types tell an editor and mypy the others. `beam-datasets build
FORMAT --help` shows all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from beam_datasets.files.builder import SplitBy


class FilesArguments(TypedDict, total=False):
    """Arguments of `FilesBuilder`."""

    data_dir: str | None
    name: str | None
    version: str
    skip_bad: bool
    description: str


class RowsArguments(FilesArguments, total=False):
    """Arguments of `RowsBuilder`."""

    pattern: str | None
    splits: Mapping[str, str | Sequence[str]] | None
    split_by: SplitBy | None
    train_until: str | None
    stratify: str | None
    features: Mapping[str, str] | None
    key: str | None
    infer_rows: int
    exif_orientation: str
    frames: str


class LabeledFolderArguments(FilesArguments, total=False):
    """Arguments of `LabeledFolder`; `root` is required."""

    root: str
    splits: Mapping[str, str | Sequence[str]] | None
    split_by: SplitBy | None
    stratify: str | None
