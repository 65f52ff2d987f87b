"""Finds TFRecord files without metadata; their names give the split, the dataset and the number of files."""

from __future__ import annotations

import os
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from beam_datasets import storage
from beam_datasets.errors import BeamDatasetsError, InputError
from beam_datasets.metadata.names import (
    DEFAULT_FILENAME_TEMPLATE,
    NUM_DIGITS,
    RESERVED_SPLITS,
    FilenameTemplate,
    ShardFilename,
    check_split_name,
)

if TYPE_CHECKING:
    Pattern: TypeAlias = str | os.PathLike[str]
    Patterns: TypeAlias = Pattern | Sequence[Pattern]

_INDEX = ".index"
_X_OF_Y = re.compile(r"(\d+)-of-(\d+)")


@dataclass(frozen=True)
class BareFiles:
    """The files of each split, in the order of their examples.

    Attributes:
        splits: split -> paths.
        dataset: the dataset that all names contain; None if they differ or contain none.
    """

    splits: Mapping[str, Sequence[str]]
    dataset: str | None = None

    @property
    def directory(self) -> str:
        """The innermost directory that all files are in or below."""
        paths = [path for files in self.splits.values() for path in files]
        parts = [storage.dirname(path).split("/") for path in paths]
        common = posixpath.commonprefix(parts)  # which compares lists item by item, too
        return "/".join(common) or "/"

    def template(self, split: str, dataset: str, directory: str) -> str | None:
        """Returns the template of the names of a split's files, relative to a directory; None if there is none."""
        names = [path[len(directory.rstrip("/")) + 1 :] for path in self.splits[split]]
        for template in _templates(names[0], len(names)):
            try:
                expected = FilenameTemplate(dataset, split, template=template).filenames(len(names))
                if list(expected) == names:
                    return template
            except BeamDatasetsError:
                continue  # such as a name with braces
        return None


def find_files(pattern: Patterns | Mapping[str, Patterns], split: str | None = None) -> BareFiles:
    """Returns the files that patterns match.

    Args:
        pattern: a path with `*`, `?` and `[...]`, or several; or such for each split.
        split: whose files they are. None goes by their names where these are like
            'digits-train.tfrecord-00000-of-00004', else it is 'train'.

    Raises:
        InputError: a pattern matches nothing or a directory, a file is there twice, or one is missing by the names.
        ValueError: a split cannot be called so.
    """
    if isinstance(pattern, Mapping):
        if split is not None:
            raise ValueError(f"split={split!r} means nothing where patterns are given for each split: leave it out.")
        splits = {name: _matches(patterns) for name, patterns in pattern.items()}
    else:
        splits = _by_split(_matches(pattern), split)
    if not splits:
        raise InputError("no patterns are given, so there are no files to adopt.")
    for name, files in splits.items():
        check_split_name(name, reserved=RESERVED_SPLITS)
        _check_complete(name, files)
    found = Counter(path for files in splits.values() for path in files)
    if twice := [path for path, count in found.items() if count > 1]:
        raise InputError(f"{twice[0]} is matched twice; its examples would be in the dataset twice.")
    datasets = {shard.dataset for files in splits.values() for shard in _shards(files) or []}
    return BareFiles(splits, datasets.pop() if len(datasets) == 1 else None)


def _matches(patterns: Patterns) -> list[str]:
    """Returns the files that match, in the order of the patterns, each one's sorted by name; no index files."""
    listed = [patterns] if isinstance(patterns, (str, os.PathLike)) else list(patterns)
    found: list[str] = []
    for pattern in listed:
        paths = storage.glob(pattern)
        if not paths:
            raise InputError(f"{os.fspath(pattern)}: no file matches.")
        for path in paths:
            if storage.is_dir(path):
                raise InputError(f"{path} is a directory; write a pattern of its files, such as {path}/*.tfrecord*.")
        found += paths
    indexes = {path + _INDEX for path in found}
    return [path for path in found if path not in indexes]


def _shards(paths: Sequence[str]) -> list[ShardFilename] | None:
    """Returns the parts of the names; None if one of them is not of the default form."""
    names = [storage.basename(path) for path in paths]
    return [ShardFilename.parse(name) for name in names] if all(map(ShardFilename.is_valid, names)) else None


def _by_split(paths: list[str], split: str | None) -> dict[str, list[str]]:
    shards = _shards(paths)
    if split is not None or shards is None:
        return {split or "train": paths} if paths else {}
    found = defaultdict(list)
    for path, shard in zip(paths, shards):
        found[shard.split].append(path)
    return dict(found)


def _check_complete(split: str, paths: Sequence[str]) -> None:
    """Checks that no file is missing of those that the names, if they contain `<i>-of-<n>`, announce."""
    there = defaultdict(set)
    for path in paths:
        if match := _X_OF_Y.search(path, path.rfind("/") + 1):
            there[path[: match.start()], int(match[2]), path[match.end() :]].add(int(match[1]))
    for (before, total, after), indices in there.items():
        missing = next((index for index in range(total) if index not in indices), None)
        if missing is not None:
            raise InputError(
                f"split {split!r}: by their names {before}*-of-{total}{after} are {total} files, but {len(indices)} "
                f"are there; the first that is missing is number {missing}."
            )


def _templates(first: str, count: int) -> list[str]:
    """Returns possible templates of the first file's name: the default, then those made of its own text."""
    width = max(NUM_DIGITS, len(str(count)))
    zero, total = "0" * width, f"{count:0{width}d}"
    candidates = [DEFAULT_FILENAME_TEMPLATE]
    for text, variable in ((f"{zero}-of-{total}", "{SHARD_X_OF_Y}"), (zero, "{SHARD_INDEX}")):
        places = [place for place in range(len(first)) if first.startswith(text, place)]
        candidates += [first[:place] + variable + first[place + len(text) :] for place in places]
    return candidates if count > 1 else [*candidates, first]
