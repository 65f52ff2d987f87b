"""Checkpoints of encoded units, which a later run reuses to continue a failed one.

A run that spills its payload writes a checkpoint beside the blocks from time to time: the names of the units that were
finished since the last one, and the blocks with their examples and no others. Checkpoints are only created, each under
a new name. So concurrent and late attempts do no harm: of several checkpoints with a common unit, one is used.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from beam_datasets import storage
from beam_datasets.errors import CorruptRecordError, StorageError
from beam_datasets.formats import tfrecord
from beam_datasets.native import crc32c
from beam_datasets.publishing import runs
from beam_datasets.publishing.runs import CHECKPOINT_SUFFIX
from beam_datasets.shuffle.blocks import FileRange, SpilledBlocks, cuts, size_array
from beam_datasets.shuffle.rejected import Rejections

READS_AT_ONCE = 16
_CHUNK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Units that are encoded, and the blocks with all of their examples and no others.

    Attributes:
        units: names of the units.
        blocks: in one directory, each alone in its file.
        crc32c: CRC-32C of the keys and sizes of each block; its records contain their own.
        libraries: the libraries whose versions determined bytes of the examples.
        rejections: split -> counts of the examples of the units that the builder rejected.
    """

    units: tuple[str, ...]
    blocks: tuple[SpilledBlocks, ...]
    crc32c: tuple[int, ...]
    libraries: tuple[str, ...] = ()
    rejections: Mapping[str, Rejections] = field(default_factory=dict)

    def save(self, directory: str) -> None:
        """Writes the checkpoint into the directory of its blocks, atomically, under a new name."""
        blocks = [
            {**asdict(block), "path": storage.basename(block.path), "crc32c": crc}
            for block, crc in zip(self.blocks, self.crc32c, strict=True)
        ]
        rejections = {split: each.by_reason for split, each in self.rejections.items()}
        content = {"units": self.units, "blocks": blocks, "libraries": self.libraries, "rejections": rejections}
        name = f"{uuid.uuid4().hex}-{len(self.units)}{CHECKPOINT_SUFFIX}"  # `progress.measure` reads the number
        storage.write_bytes(storage.join(directory, name), json.dumps(content).encode())

    @classmethod
    def load(cls, path: str) -> Checkpoint | None:
        """Returns the checkpoint of a file; None if it is damaged or deleted."""
        folder = storage.dirname(path)
        try:
            content = json.loads(storage.read_bytes(path))
            checksums = [block.pop("crc32c") for block in content["blocks"]]
            blocks = [SpilledBlocks(**block) for block in content["blocks"]]
            rejections = {
                split: Rejections({reason: (number, tuple(texts)) for reason, (number, texts) in by_reason.items()})
                for split, by_reason in content.get("rejections", {}).items()
            }
            return cls(
                tuple(content["units"]),
                tuple(replace(block, path=storage.join(folder, block.path)) for block in blocks),
                tuple(checksums),
                tuple(content["libraries"]),
                rejections,
            )
        except (StorageError, ValueError, KeyError, TypeError, AttributeError):
            return None

    @property
    def is_intact(self) -> bool:
        """Whether the checksums of all keys, sizes and records of its blocks are right; reads all of them."""
        try:
            return all(_is_intact(block, crc) for block, crc in zip(self.blocks, self.crc32c, strict=True))
        except (StorageError, CorruptRecordError, ValueError, struct.error):
            return False


def checksum(keys: bytes, sizes: bytes) -> int:
    """Returns the CRC-32C of a block's keys and sizes, as a checkpoint records it."""
    return crc32c(sizes, crc32c(keys))


def _is_intact(blocks: SpilledBlocks, crc: int) -> bool:
    """Returns whether the CRC-32C of a block's keys and sizes is `crc`; checks all records, a chunk at a time.

    Args:
        blocks: one spilled block.
        crc: the CRC-32C of its keys and sizes when it was written.

    Raises:
        CorruptRecordError: a record is damaged.
    """
    (block,) = blocks.load()
    if checksum(block.keys, block.sizes) != crc or not isinstance(block.payload, FileRange):
        return False
    sizes = size_array(block.sizes)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for first, stop in cuts(sizes, _CHUNK_BYTES):
        start, end = starts[[first, stop]].tolist()
        tfrecord.scan(
            block.payload.read(start, end), path=block.path, offset=block.payload.start + start, first_record=first
        )
    return int(starts[-1]) == len(block.payload)


def load_checkpoints(directories: Iterable[str]) -> list[Checkpoint]:
    """Returns the readable checkpoints in these directories."""
    all_paths = [
        storage.join(directory, name) for directory in directories for name in sorted(runs.names_in(directory))
    ]
    paths = [path for path in all_paths if path.endswith(CHECKPOINT_SUFFIX)]
    with ThreadPoolExecutor(READS_AT_ONCE) as executor:
        return [checkpoint for checkpoint in executor.map(Checkpoint.load, paths) if checkpoint is not None]


def choose(checkpoints: Iterable[Checkpoint], units: Collection[str]) -> list[Checkpoint]:
    """Returns checkpoints that have only requested units, and no unit twice; prefers those with many units."""
    remaining_units, selected = set(units), []
    for checkpoint in sorted(checkpoints, key=lambda each: (-len(each.units), each.units)):
        if checkpoint.units and remaining_units.issuperset(checkpoint.units):
            remaining_units.difference_update(checkpoint.units)
            selected.append(checkpoint)
    return selected
