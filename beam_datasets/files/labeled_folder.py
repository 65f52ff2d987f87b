"""Base class of the builders of image and sound folders: files in folders that are named after their labels."""

from __future__ import annotations

import abc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from beam_datasets.errors import InputError
from beam_datasets.files.bad_rows import Bad, read_piece
from beam_datasets.files.builder import FilesBuilder
from beam_datasets.files.glob import warn_of_left_out
from beam_datasets.files.inputs import InputFile, find
from beam_datasets.files.rows import Item
from beam_datasets.files.split_assignment import Assignment, SplitBy, assign_sources, assignment
from beam_datasets.sources.units import SourceUnits

if TYPE_CHECKING:
    from beam_datasets.files.arguments import FilesArguments

LabeledFile = tuple[str, InputFile]
"""(label, file); the label is '' if the file is not in the folder of a label."""

_BATCH = 32  # number of files of a piece
_SYSTEM_FILES = ("Thumbs.db", "desktop.ini", "__MACOSX")


class LabeledFolder(FilesBuilder, abc.ABC, skip_registration=True):
    """Files in folders named after their labels.

    Args:
        root: folder that contains the folders of the labels, or of the splits.
        splits: split -> its share of the files ("80%"), or its values for `split_by`; only if `root` has no folders of
            splits.
        split_by: what determines the split of a file: `group=COLUMN` or `column=COLUMN`, where the column is the label
            or the file name.
        stratify: `label` gives each split its share of the files of each label.
        common: arguments of FilesBuilder.
    """

    _content: ClassVar[str]  # the name of the feature that holds a file: `image` or `audio`

    def __init__(
        self,
        *,
        root: str,
        splits: Mapping[str, str | Sequence[str]] | None = None,
        split_by: SplitBy | None = None,
        stratify: str | None = None,
        **common: Unpack[FilesArguments],
    ) -> None:
        self._files_root = root
        self._assign = assignment(splits or {}, root, split_by, stratify=stratify)
        if self._assign is not None:
            column, columns = self._assign.column, ("label", f"{self._content}/filename")
            if column not in (None, *columns) or self._assign.split_of is None:
                raise ValueError(f"expected a column of {columns} and the splits to split by, got {column!r}, {splits}")
        super().__init__(**common)

    @property
    @abc.abstractmethod
    def _reader(self) -> Callable[[Sequence[LabeledFile]], Iterator[Item | Bad]]:
        """The function that yields the examples and bad rows of a batch of files."""

    @cached_property
    def _labeled_files(self) -> tuple[dict[str, list[LabeledFile]], list[InputFile]]:
        """({split: its files with labels}, other files) of the folder; see `find_labeled_files`.

        Raises:
            InputError: there are other files and bad files are not left out, or the folder has splits and `--split` is
                given.
        """
        splits, misplaced = find_labeled_files(self._files_root, self._content)
        if misplaced and not self._skip_bad:
            paths_text = ", ".join(file.path for file in misplaced[:5])
            verb = "file is" if len(misplaced) == 1 else "files are"
            raise InputError(
                f"{len(misplaced)} {verb} not in the folder of a label: {paths_text}\n"
                "Move them away, or leave them out by --skip_bad."
            )
        if "" not in splits and self._assign is not None:
            raise InputError(f"{self._files_root} has the splits {[*splits]} as folders; give none by --split")
        return splits, misplaced

    @property
    def _labels(self) -> list[str]:
        """Returns the labels of the files of all splits, sorted."""
        return sorted({label for files in self._labeled_files[0].values() for label, _ in files})

    def _split_generators(self) -> dict[str, SourceUnits]:
        """Returns batches of files for each split; files outside the label folders are added to the first split."""
        splits, other_files = self._labeled_files
        misplaced = [("", file) for file in other_files]  # read with the first split, to be counted as bad once
        read = partial(read_piece, reader=self._reader, skip_bad=self._skip_bad)
        sources = {}
        for split, files in splits.items():
            labeled_files, misplaced = [*files, *misplaced], []
            batches = [labeled_files[i : i + _BATCH] for i in range(0, len(labeled_files), _BATCH)]
            sources[split or "train"] = SourceUnits(batches, read)
        return assign_sources(sources, self._assign)


def find_labeled_files(root: str, content: str) -> tuple[dict[str, list[LabeledFile]], list[InputFile]]:
    """Returns ({split: its files with labels}, other files) of a folder.

    The layout is `root/split/label/file` or `root/label/file`, whichever more files have; the split of the latter is
    "". Files at other depths are the other files. Files of operating systems (names that begin with a dot, Thumbs.db,
    desktop.ini, __MACOSX) are left out with a warning.

    Args:
        root: the folder.
        content: content of its files, for the error: `image` or `audio`.

    Raises:
        InputError: the folder has no file at either depth.
    """
    listed = [(file.name.split("/"), file) for file in find(root, hidden=())]
    hidden = [file.path for parts, file in listed if any(p.startswith(".") or p in _SYSTEM_FILES for p in parts)]
    if hidden:
        warn_of_left_out(root, "it is hidden, or a file of an operating system", hidden)
    hidden_paths = frozenset(hidden)
    files = [(parts, file) for parts, file in listed if file.path not in hidden_paths]
    depths = Counter(len(parts) for parts, _ in files)
    depth = max((2, 3), key=lambda d: depths[d])
    if not depths[depth]:
        names_text = ", ".join(file.name for _, file in files[:3])
        layout = f"label/{content} or split/label/{content}"
        way = f"Files without labels are named in a column of a CSV or JSON lines file: --feature NAME={content}."
        raise InputError(f"{root}: expected files as {layout}, got {names_text or 'no file'}. {way}")
    splits: dict[str, list[LabeledFile]] = {}
    for parts, file in sorted(files, key=lambda each: each[0][:-2]):
        if len(parts) == depth:
            splits.setdefault(parts[0] if depth == 3 else "", []).append((parts[-2], file))
    return splits, [file for parts, file in files if len(parts) != depth]


def labeled_rows(
    piece: Sequence[LabeledFile],
    content: str,
    read: Callable[[InputFile], Mapping[str, Any]],
    assign: Assignment | None,
) -> Iterator[Item | Bad]:
    """Yields an `Item` for each file of a batch, or `Bad` for a file without a label or with bad content.

    The example has the features `<content>/filename`, `label` and those that `read` returns.

    Args:
        piece: the files with their labels.
        content: `image` or `audio`.
        read: function from a file to the features of its content.
        assign: function that returns the split of a file; None if all files belong to one split.
    """
    for label, file in piece:
        try:
            if not label:
                raise ValueError("it is not in the folder of a label")
            example = {**read(file), f"{content}/filename": file.name, "label": label}
            split = assign and (assign(file.name, example),)
        except ValueError as error:
            yield Bad(file.path, str(error))
        else:
            yield (file.name, example, *(split or ()))
