"""`builder_from_directories`, which reads several directories of one dataset as if their shards were in one."""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from beam_datasets import storage
from beam_datasets.features.trees import find_difference
from beam_datasets.metadata.lineage import Ascent
from beam_datasets.metadata.splits import SplitDict, SplitInfo
from beam_datasets.reading.opening import ReadOnlyBuilder
from beam_datasets.reading.records.shards import ShardPool

if TYPE_CHECKING:
    from beam_datasets.metadata.shards import FileInstructions


class _Pool(ShardPool):
    """A pool of the shards of several directories; file names are relative to a directory that contains them all."""

    def namer(self, instructions: FileInstructions) -> Callable[[str], str]:
        """Returns the function from the file name of a shard to its name in `tfds_id`.

        The name begins at the last folder that differs between the directories of the runs. For the runs of a slice in
        'monday/1.0.0/a' and 'tuesday/1.0.0/b' it converts the former to 'monday/1.0.0/a'.
        """
        folders = {storage.dirname(instructions.filename(run)) for run in range(len(instructions))}
        if len(folders) < 2:
            return storage.basename
        common = _common_start([folder[::-1] for folder in folders])[::-1]
        return functools.partial(_matching_part, re.compile(rf"[^/]+{re.escape(common)}/[^/]+\Z"))


def _common_start(sequences: Sequence[Any]) -> Any:
    """Returns the longest common prefix of texts or lists.

    >>> _common_start(["abc", "abx"])
    'ab'
    """
    first, last = min(sequences), max(sequences)  # their common prefix is that of all
    common_pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last))
    return first[: sum(1 for _ in common_pairs)]


def _matching_part(pattern: re.Pattern[str], filename: str) -> str:
    """Returns the part of a file name that matches a pattern; the whole name if no part does."""
    match = pattern.search(filename)
    return match[0] if match else filename


@dataclass(frozen=True, repr=False)
class _SplitInfo(SplitInfo):
    """A split of several directories.

    Attributes:
        names: file names of the shards, relative to `directory`.
    """

    names: tuple[str, ...] = ()

    @property
    def shard_names(self) -> Any:
        """The shards' names, relative to the directory."""
        return self.names

    def file_spec(self, file_format: str = "tfrecord") -> str | None:
        """Raises a ValueError: one text names the shards of one directory."""
        raise ValueError(f"split {self.name!r} has shards in several directories; see filepaths.")


class _Builder(ReadOnlyBuilder):
    """A builder that reads several directories. Everything but the splits is taken from the first directory."""

    def __init__(self, dirs: Sequence[str]) -> None:
        """Reads the metadata of all directories; raises the errors of `builder_from_directories`."""
        builders = [ReadOnlyBuilder(directory) for directory in dirs]
        vars(self).update(vars(builders[0]))  # its constructor would read the first directory again
        for other in builders[1:]:
            _check_equal(builders[0], other)
        root = _common_folder([builder.dataset_dir for builder in builders])
        self.pool = _Pool(root, indexed=all(builder.pool.indexed for builder in builders))
        names = dict.fromkeys(name for builder in builders for name in builder.info.splits)
        by_split = {name: [builder for builder in builders if name in builder.info.splits] for name in names}
        split_infos = [_merge_split(name, root, split_builders) for name, split_builders in by_split.items()]
        splits = SplitDict(split_infos, dataset_name=self.info.name, count_bytes=self.pool.count_bytes)
        self._ascents = {name: tuple(_merge_ascents(name, split_builders)) for name, split_builders in by_split.items()}
        self.info = self.info.replace(splits=splits)
        self.manifest = None
        self.digest = hashlib.sha256("".join(builder.digest for builder in builders).encode()).hexdigest()
        self._dirs = [builder.dataset_dir for builder in builders]

    def ascents(self, split: str) -> tuple[Ascent, ...]:
        """Returns the ranges of examples of a split in which the sort keys ascend: the ranges of all directories."""
        return self._ascents[split]

    def __repr__(self) -> str:
        return f"<ReadOnlyBuilder {self.info.display_name} in {', '.join(self._dirs)}>"


def builder_from_directories(builder_dirs: Iterable[str | os.PathLike[str]]) -> ReadOnlyBuilder:
    """Returns a builder that reads several directories of versions as one dataset.

    A split consists of the shards of all directories that have it, in the given order. Slices, `find`, states and the
    read order are the same as if these shards were in one directory.

    Args:
        builder_dirs: directories of versions, such as ['/data/monday/clicks/1.0.0', '/data/tuesday/clicks/1.0.0'], or
            URLs of one store.

    Raises:
        DatasetNotFoundError: a directory is not a published version.
        MetadataError: metadata are damaged, or need another version of this library.
        ValueError: no directory is given, or their features or orders differ.
    """
    dirs = [builder_dirs] if isinstance(builder_dirs, (str, os.PathLike)) else list(builder_dirs)
    if not dirs:
        raise ValueError("builder_from_directories: expected one or more directories, got none.")
    return _Builder([storage.normalize(directory) for directory in dirs])


def _check_equal(first: ReadOnlyBuilder, other: ReadOnlyBuilder) -> None:
    """Checks that the examples of the directories of two builders can be in one dataset.

    Raises:
        ValueError: the directories differ in features or in `disable_shuffling`.
    """
    both = f"{first.dataset_dir} and {other.dataset_dir}"
    if problem := find_difference(first.info.features, other.info.features):
        raise ValueError(f"{both} have different features, so they cannot be read as one: {problem}.")
    if first.info.disable_shuffling != other.info.disable_shuffling:
        raise ValueError(f"{both} differ in disable_shuffling, so they cannot be read as one dataset.")


def _common_folder(dirs: list[str]) -> str:
    """Returns the innermost directory that contains all directories.

    Raises:
        ValueError: the directories are in different stores.
    """
    parents = [storage.dirname(directory).split("/") for directory in dirs]
    common = _common_start(parents)
    if not common or (any(map(storage.is_remote, dirs)) and len(common) < 3):  # "s3:", "", the bucket
        raise ValueError(f"the directories {', '.join(dirs)} are in different stores. Copy them to one.")
    return "/".join(common) or "/"


def _merge_split(name: str, root: str, builders: list[ReadOnlyBuilder]) -> SplitInfo:
    """Returns the split with the shards of several directories.

    Args:
        name: name of the split.
        root: directory that contains all directories.
        builders: the builder of each directory that has the split.
    """
    infos = [builder.info.splits[name] for builder in builders]
    folders = [builder.dataset_dir[len(root) :].lstrip("/") for builder in builders]
    return _SplitInfo(
        name,
        [length for info in infos for length in info.shard_lengths],
        sum(info.num_bytes for info in infos),
        infos[0].filename_template,
        root,
        names=tuple(f"{folder}/{shard}" for folder, info in zip(folders, infos) for shard in info.shard_names),
    )


def _merge_ascents(name: str, builders: list[ReadOnlyBuilder]) -> Iterable[Ascent]:
    """Yields the ascents of a split of several directories, with `start` counted from the first directory.

    Args:
        name: name of the split.
        builders: the builder of each directory that has the split.
    """
    start = 0
    for builder in builders:
        yield from (replace(ascent, start=start + ascent.start) for ascent in builder.ascents(name))
        start += builder.info.splits[name].num_examples
