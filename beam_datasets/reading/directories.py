"""Several directories of one dataset, read as if their shards were in one."""

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
from beam_datasets.features.sequence import find_difference
from beam_datasets.metadata.manifest import Ascent
from beam_datasets.metadata.splits import SplitDict, SplitInfo
from beam_datasets.reading.opening import ReadOnlyBuilder
from beam_datasets.reading.records.shards import ShardPool

if TYPE_CHECKING:
    from beam_datasets.metadata.shards import FileInstructions


class _Pool(ShardPool):
    """Shards of several directories; their names are relative to a directory above these."""

    def namer(self, instructions: FileInstructions) -> Callable[[str], str]:
        """Returns the function from a shard's name to that in `tfds_id`: it begins at the folder that differs."""
        folders = {storage.dirname(instructions.filename(run)) for run in range(len(instructions))}
        if len(folders) < 2:
            return storage.basename
        common = _common_start([folder[::-1] for folder in folders])[::-1]
        return functools.partial(_end_of, re.compile(rf"[^/]+{re.escape(common)}/[^/]+\Z"))


def _common_start(some: Sequence[Any]) -> Any:
    """Returns what texts or lists have in common at their beginning."""
    least, most = min(some), max(some)
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(least, most))
    return least[: sum(1 for _ in same)]


def _end_of(pattern: re.Pattern[str], filename: str) -> str:
    match = pattern.search(filename)
    return match[0] if match else filename


@dataclass(frozen=True, repr=False)
class _SplitInfo(SplitInfo):
    """A split of several directories.

    Attributes:
        names: of the shards, relative to `directory`.
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
    """A reader of several directories; what is not in the splits is that of the first."""

    def __init__(self, dirs: Sequence[str]) -> None:
        super().__init__(dirs[0])
        builders = [ReadOnlyBuilder(directory) for directory in dirs]
        for other in builders[1:]:
            _check_alike(builders[0], other)
        root = _common_folder([builder.dataset_dir for builder in builders])
        self._pool = _Pool(root, indexed=all(builder.pool.indexed for builder in builders))
        names = dict.fromkeys(name for builder in builders for name in builder.info.splits)
        parts = {name: [each for each in builders if name in each.info.splits] for name in names}
        merged = [_merged(name, root, split_builders) for name, split_builders in parts.items()]
        splits = SplitDict(merged, dataset_name=self.info.name, count_bytes=self._pool.count_bytes)
        self._ascents = {name: tuple(_ascents(name, split_builders)) for name, split_builders in parts.items()}
        self.info = self.info.replace(splits=splits)
        self.manifest = None
        self.digest = hashlib.sha256("".join(builder.digest for builder in builders).encode()).hexdigest()
        self._dirs = [builder.dataset_dir for builder in builders]

    def ascents(self, split: str) -> tuple[Ascent, ...]:
        """Returns the stretches of a split in which sort keys ascend: those of each directory."""
        return self._ascents[split]

    def __repr__(self) -> str:
        return f"<ReadOnlyBuilder {self.info.display_name} in {', '.join(self._dirs)}>"


def builder_from_directories(builder_dirs: Iterable[str | os.PathLike[str]]) -> ReadOnlyBuilder:
    """Returns the builder of several directories of versions, whose splits are read one after the other as one.

    A split is made up of the shards of the directories that have it, in the order given. Slices, `find`, states and
    the reading order are those of a split with all these shards.

    Args:
        builder_dirs: such as ['/data/monday/clicks/1.0.0', '/data/tuesday/clicks/1.0.0'], or URLs of one store.

    Raises:
        DatasetNotFoundError: a directory is not a published version.
        MetadataError: metadata are damaged, or need another version of this library.
        ValueError: no directory is given, or their features or orders differ.
    """
    dirs = [builder_dirs] if isinstance(builder_dirs, (str, os.PathLike)) else list(builder_dirs)
    if not dirs:
        raise ValueError("builder_from_directories: expected one or more directories, got none.")
    return _Builder([storage.normalize(directory) for directory in dirs])


def _check_alike(first: ReadOnlyBuilder, other: ReadOnlyBuilder) -> None:
    """Refuses directories whose examples cannot be in one dataset."""
    both = f"{first.dataset_dir} and {other.dataset_dir}"
    if problem := find_difference(first.info.features, other.info.features):
        raise ValueError(f"{both} have different features, so they cannot be read as one: {problem}.")
    if first.info.disable_shuffling != other.info.disable_shuffling:
        raise ValueError(f"{both} differ in disable_shuffling, so they cannot be read as one dataset.")


def _common_folder(dirs: list[str]) -> str:
    """Returns the directory above all."""
    above = [storage.dirname(directory).split("/") for directory in dirs]
    common = _common_start(above)
    if not common or (any(map(storage.is_remote, dirs)) and len(common) < 3):  # "s3:", "", the bucket
        raise ValueError(f"the directories {', '.join(dirs)} are in different stores. Copy them to one.")
    return "/".join(common) or "/"


def _merged(name: str, root: str, builders: list[ReadOnlyBuilder]) -> SplitInfo:
    """Returns the split of several directories."""
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


def _ascents(name: str, builders: list[ReadOnlyBuilder]) -> Iterable[Ascent]:
    start = 0
    for builder in builders:
        yield from (replace(ascent, start=start + ascent.start) for ascent in builder.ascents(name))
        start += builder.info.splits[name].num_examples
