"""Records of staged shards, so that a resumed run can use the shards of an earlier run."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from beam_datasets import storage
from beam_datasets.errors import StorageError
from beam_datasets.publishing import staged_files
from beam_datasets.publishing.runs import SHARDS_SUFFIX
from beam_datasets.publishing.shard_file import Destination, WrittenShard
from beam_datasets.reading.records.shards import INDEX_SUFFIX
from beam_datasets.shuffle.plan import Plan

# -------------------------------------------------------------------------------------------------------- staged shards


@dataclass(frozen=True)
class ShardRecords:
    """Location of this run's record of staged shards, and of those of earlier runs.

    Attributes:
        spill_dir: spill directory of this run.
        earlier: spill directories of earlier runs.
        source: digest of all that decides the bytes of shards: fingerprint, names of units, options.
    """

    spill_dir: str
    earlier: Sequence[str]
    source: str

    @classmethod
    def of(cls, spill_dir: str, earlier: Sequence[str], *source: Any) -> ShardRecords:
        """Returns the records of a run, given all that decides the bytes of shards as JSON values."""
        return cls(spill_dir, earlier, hashlib.sha256(json.dumps(source, sort_keys=True).encode()).hexdigest())

    def _record_name(self, number: int, plan: Plan) -> str:
        """Returns the name of the record of a group's files, which depends on all that decides their content."""
        group = plan.group(number)
        split = plan.split(group.split)
        start = int(split.takes[: number - split.first_group].sum())
        ranks = split.num_examples, split.num_shards, group.shard, group.part, group.num_parts, start, group.take
        return hashlib.sha256(f"{self.source} {group.split} {ranks}".encode()).hexdigest()[:32] + SHARDS_SUFFIX

    def save(self, number: int, plan: Plan, shard: WrittenShard) -> None:
        """Records the file of a group.

        Args:
            number: number of the group in the plan.
            plan: the plan.
            shard: the file.
        """
        content = json.dumps(dataclasses.asdict(shard)).encode()
        storage.write_bytes(storage.join(self.spill_dir, self._record_name(number, plan)), content)

    def reuse(self, number: int, plan: Plan, destination: Destination) -> WrittenShard | None:
        """Copies the file of a group that an earlier run has staged into the staging directory, and returns the shard.

        Returns None if there is no such file, or its checksums are not the recorded ones.

        Args:
            number: number of the group in the plan.
            plan: the plan.
            destination: the staging directory of this run.
        """
        name = self._record_name(number, plan) if self.earlier else ""
        for directory in self.earlier:
            try:
                content = json.loads(storage.read_bytes(storage.join(directory, name)))
                shard = WrittenShard(**{**content, "requests": storage.Requests()})
                if _is_staged(shard):
                    return _take_shard(shard, destination.group_path(plan.group(number)))
            except (StorageError, ValueError, TypeError):  # missing, damaged, or deleted in the meantime
                continue
        return None


def _is_staged(shard: WrittenShard) -> bool:
    """Returns whether a shard and its index are in the staging directory with the recorded size and checksums.

    Raises:
        StorageError: a file does not exist or cannot be read.
    """
    size, checksum = staged_files.content_of(shard.path)
    return (size, checksum) == (shard.file_bytes, shard.crc32c) and (
        staged_files.content_of(shard.path + INDEX_SUFFIX)[1] == shard.index_crc32c
    )


def _take_shard(shard: WrittenShard, path: str) -> WrittenShard:
    """Links or copies a shard and its index of a previous run to a path; returns the shard with this path."""
    storage.make_dirs(storage.dirname(path))
    for suffix in ("", INDEX_SUFFIX):
        storage.remove(path + suffix)  # of an attempt of the engine before
    return shard.linked(path)
