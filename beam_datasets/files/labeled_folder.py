"""Files in folders named after their labels: the layout, the splits and the rows that image and sound folders share."""

from __future__ import annotations

import abc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar

from beam_datasets.errors import InputError
from beam_datasets.files.builder import Assignment, Bad, FilesBuilder, Item, SplitBy, assigned, assignment, read_piece
from beam_datasets.files.inputs import InputFile, find
from beam_datasets.generate.units import SourceUnits

LabeledFile = tuple[str, InputFile]
"""A label, '' for a file that is in no label's folder, and a file."""

_BATCH = 32  # files that a worker is given at once
_CLUTTER = ("Thumbs.db", "desktop.ini", "__MACOSX")


class LabeledFolder(FilesBuilder, abc.ABC, skip_registration=True):
    """Files in folders named after their labels.

    Args:
        root: the folder above the labels, or above the splits.
        splits: name -> percentage ("80%"), if the folders name labels alone; or what `split_by` says.
        split_by: what decides the split of a file: `group=COLUMN` or `column=COLUMN` of its label or file name.
        stratify: `label`, of each of which every split has its share.
        common: see FilesBuilder.
    """

    _content: ClassVar[str]  # the name of the feature that holds a file: `image` or `audio`

    def __init__(
        self,
        *,
        root: str,
        splits: Mapping[str, str | Sequence[str]] | None = None,
        split_by: SplitBy | None = None,
        stratify: str | None = None,
        **common: Any,
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
        """What reads a batch of files as examples."""

    @cached_property
    def _folder(self) -> tuple[dict[str, list[LabeledFile]], list[InputFile]]:
        splits, misplaced = look_into(self._files_root, self._content)
        if misplaced and not self._skip_bad:
            shown = ", ".join(file.path for file in misplaced[:5])
            raise InputError(
                f"{len(misplaced)} files are not in the folder of a label: {shown}\n"
                "Move them away, or leave them out by --skip_bad."
            )
        if "" not in splits and self._assign is not None:
            raise InputError(f"{self._files_root} has the splits {[*splits]} as folders; give none by --split")
        return splits, misplaced

    @property
    def _labels(self) -> list[str]:
        return sorted({label for files in self._folder[0].values() for label, _ in files})

    def _split_generators(self) -> dict[str, SourceUnits]:
        splits, rest = self._folder
        misplaced = [("", file) for file in rest]  # to be counted, once
        read = partial(read_piece, reader=self._reader, skip_bad=self._skip_bad)
        sources = {}
        for split, files in splits.items():
            listed, misplaced = [*files, *misplaced], []
            batches = [listed[i : i + _BATCH] for i in range(0, len(listed), _BATCH)]
            sources[split or "train"] = SourceUnits(batches, read)
        return assigned(sources, self._assign)


def look_into(root: str, content: str) -> tuple[dict[str, list[LabeledFile]], list[InputFile]]:
    """Returns {split: files} of `root/split/label/` or `root/label/`, whichever has most files, and the other files.

    The split is "" if folders name labels alone. Files of operating systems (names that begin with a dot, Thumbs.db,
    desktop.ini, __MACOSX) are left out.

    Args:
        root: the folder.
        content: what its files are, for the error: `image` or `audio`.

    Raises:
        InputError: the folder has no file at either depth.
    """
    files = [(file.name.split("/"), file) for file in find(root, hidden=())]
    files = [(parts, file) for parts, file in files if not any(p.startswith(".") or p in _CLUTTER for p in parts)]
    depths = Counter(len(parts) for parts, _ in files)
    depth = max((2, 3), key=lambda d: depths[d])
    if not depths[depth]:
        shown = ", ".join(file.name for _, file in files[:3])
        layout = f"label/{content} or split/label/{content}"
        raise InputError(f"{root}: expected files as {layout}, got {shown or 'no file'}")
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
    """Yields the files of a batch as examples with the features `<content>/filename`, `label` and those of `read`.

    Args:
        piece: (label, file) of each; a file with an empty label is in no label's folder.
        content: `image` or `audio`.
        read: the features of a file's content.
        assign: names the split of each file; None if all belong to one.
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
