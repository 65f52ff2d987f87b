"""Units of a split's source, and the records of those that are encoded, from which a later run continues.

A unit is one element of a source: a file, a range of one, a day. A run that spills its payload writes a *checkpoint*
next to the blocks from time to time: the names of the units that were finished since the last one, and the blocks that
contain their examples and no others. Checkpoints are only ever created, each under a name of its own. So attempts that
work side by side, or late, do no harm: of checkpoints with a unit in common, one is used.
"""

from __future__ import annotations

import hashlib
import json
import struct
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

import crc32c
import numpy as np

from beam_datasets import storage
from beam_datasets.errors import BeamDatasetsError, CorruptRecordError, StorageError
from beam_datasets.formats import tfrecord
from beam_datasets.generate.blocks import FileRange, SpilledBlocks
from beam_datasets.generate.runs import CHECKPOINT_SUFFIX

MAX_NAME = 200  # characters of a unit's name
READS_AT_ONCE = 16
_CHUNK_BYTES = 8 << 20


@dataclass(frozen=True, eq=False)
class SourceUnits:
    """A split's source that consists of independent units, such as files, which are read in parallel.

    A failed run that is started again with `--resume` reads the units that were not finished. A unit is identified by
    its `repr`, so give paths, numbers, or tuples and dataclasses of them, and let a unit's `repr` differ if its content
    does (add the size of a file, or its version).

    Attributes:
        units: what `read` is called with, on a worker.
        read: unit -> iterable of (key, example), or of (key, example, split) if it chooses the split of each example.
            Splits with the same two objects as `units` and `read` are read once.
        keep: key -> whether the example belongs to the split; None for all.
    """

    units: Sequence[Any]
    read: Callable[[Any], Iterable[tuple[Any, ...]]]
    keep: Callable[[Any], bool] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.units, (str, bytes)) or not isinstance(self.units, Sequence):
            raise TypeError(f"units: expected a sequence such as a list of paths, got {self.units!r:.200}.")
        if not callable(self.read):
            raise TypeError(f"read: expected a function from a unit to (key, example) pairs, got {self.read!r:.200}.")


def pair_and_splits(
    item: Any, keeps: Mapping[str, Callable[[Any], bool] | None]
) -> tuple[tuple[Any, Any], Collection[str]]:
    """Returns the (key, example) of what `read` yields, and the splits that it belongs to.

    Args:
        item: what `read` yields.
        keeps: split -> its `keep`, of the splits that are read together.

    Raises:
        BeamDatasetsError: it is neither a pair nor a pair with one of the splits.
    """
    if type(item) is tuple and len(item) == 3:
        key, example, split = item
        if split not in keeps:
            known = ", ".join(map(repr, keeps))
            raise BeamDatasetsError(f"key {key!r:.60}: expected one of the splits {known}, got {split!r:.60}.")
        return (key, example), (split,)
    pair = pair_of(item, ", ".join(keeps))
    return pair, [split for split, keep in keeps.items() if keep is None or keep(pair[0])]


def pair_of(element: Any, split: str) -> tuple[Any, Any]:
    """Returns the key and the example that an element of a split's source is.

    Raises:
        BeamDatasetsError: it is not a pair; nor is a dict or a text of two, as of an example whose key was forgotten.
    """
    try:
        if not isinstance(element, (dict, str, bytes)):
            key, example = element
            return key, example
    except (TypeError, ValueError):
        pass
    raise BeamDatasetsError(f"split {split!r}: an element is {element!r:.200}; expected a pair (key, example).")


def named_units(splits: Sequence[str], units: Sequence[Any]) -> list[tuple[str, Any]]:
    """Returns (name, unit) of all units that some splits are read from.

    Raises:
        BeamDatasetsError: two units have the same name.
    """
    label = ", ".join(splits)
    named = [(f"{label}: {_short(repr(unit))}", unit) for unit in units]
    name, count = Counter(name for name, _ in named).most_common(1)[0] if named else ("", 0)
    if count > 1:
        raise BeamDatasetsError(f"{name}: expected units that differ in their repr, got {count} such. Give each once.")
    return named


def _short(text: str) -> str:
    if len(text) <= MAX_NAME:
        return text
    return f"{text[: MAX_NAME - 36]}... {hashlib.md5(text.encode('utf-8', 'replace')).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Units that are encoded, and the blocks with all of their examples and no others.

    Attributes:
        units: names of the units.
        blocks: in one directory, each alone in its file.
        crc32c: of each block, CRC-32C of its keys and sizes; its records contain their own.
        libraries: whose versions determined bytes of the examples.
    """

    units: tuple[str, ...]
    blocks: tuple[SpilledBlocks, ...]
    crc32c: tuple[int, ...]
    libraries: tuple[str, ...] = ()

    def save(self, directory: str) -> None:
        """Writes the checkpoint into the directory of its blocks, atomically, under a new name."""
        blocks = [
            {**asdict(block), "path": storage.basename(block.path), "crc32c": crc}
            for block, crc in zip(self.blocks, self.crc32c, strict=True)
        ]
        content = {"units": self.units, "blocks": blocks, "libraries": self.libraries}
        storage.write_bytes(
            storage.join(directory, f"{uuid.uuid4().hex}{CHECKPOINT_SUFFIX}"), json.dumps(content).encode()
        )

    @classmethod
    def load(cls, path: str) -> Checkpoint | None:
        """Returns the checkpoint of a file; None if it is damaged or deleted."""
        folder = storage.dirname(path)
        try:
            content = json.loads(storage.read_bytes(path))
            checksums = [block.pop("crc32c") for block in content["blocks"]]
            blocks = [SpilledBlocks(**block) for block in content["blocks"]]
            return cls(
                tuple(content["units"]),
                tuple(replace(block, path=storage.join(folder, block.path)) for block in blocks),
                tuple(checksums),
                tuple(content["libraries"]),
            )
        except (StorageError, ValueError, KeyError, TypeError):
            return None

    @property
    def is_whole(self) -> bool:
        """Whether the checksums of all keys, sizes and records of its blocks are right; reads all of them."""
        try:
            return all(_is_whole(block, crc) for block, crc in zip(self.blocks, self.crc32c, strict=True))
        except (StorageError, CorruptRecordError, ValueError, struct.error):
            return False


def checksum(keys: bytes, sizes: bytes) -> int:
    """Returns the CRC-32C of a block's keys and sizes, as a checkpoint records it."""
    return crc32c.crc32c(sizes, crc32c.crc32c(keys))


def _is_whole(blocks: SpilledBlocks, crc: int) -> bool:
    (block,) = blocks.load()
    if checksum(block.keys, block.sizes) != crc or not isinstance(block.payload, FileRange):
        return False
    ends = np.cumsum(np.frombuffer(block.sizes, "<u4"), dtype=np.int64)
    first = start = 0
    while first < len(ends):
        stop = max(first + 1, int(np.searchsorted(ends, start + _CHUNK_BYTES, side="right")))
        end = int(ends[stop - 1])
        tfrecord.scan(
            block.payload.read(start, end), path=block.path, offset=block.payload.start + start, first_record=first
        )
        first, start = stop, end
    return start == len(block.payload)


def load_checkpoints(directories: Iterable[str]) -> list[Checkpoint]:
    """Returns the readable checkpoints in these directories."""
    paths = [path for directory in directories for path in _checkpoint_paths(directory)]
    with ThreadPoolExecutor(READS_AT_ONCE) as executor:
        return [checkpoint for checkpoint in executor.map(Checkpoint.load, paths) if checkpoint is not None]


def _checkpoint_paths(directory: str) -> Iterator[str]:
    try:
        names = storage.list_dir(directory)
    except StorageError:  # deleted in the meantime
        return
    yield from (storage.join(directory, name) for name in sorted(names) if name.endswith(CHECKPOINT_SUFFIX))


def choose(checkpoints: Iterable[Checkpoint], wanted: Collection[str]) -> list[Checkpoint]:
    """Returns checkpoints that have no unit in common and only wanted ones, those of many units first."""
    left, chosen = set(wanted), []
    for checkpoint in sorted(checkpoints, key=lambda each: (-len(each.units), each.units)):
        if checkpoint.units and left.issuperset(checkpoint.units):
            left.difference_update(checkpoint.units)
            chosen.append(checkpoint)
    return chosen


def read_together(sources: Mapping[str, SourceUnits]) -> list[list[str]]:
    """Returns the splits whose units are read once, together."""
    together: dict[tuple[int, int], list[str]] = {}
    for split, source in sources.items():
        together.setdefault((id(source.units), id(source.read)), []).append(split)
    return list(together.values())
