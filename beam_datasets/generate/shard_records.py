"""Records of the shards, and parts of shards, that a run has staged, from which a later run takes them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from beam_datasets import storage
from beam_datasets.errors import StorageError
from beam_datasets.generate import runs
from beam_datasets.generate.shard_writer import WrittenShard
from beam_datasets.generate.spill_dir import SHARDS_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from beam_datasets.generate.plan import Plan
    from beam_datasets.generate.shard_writer import Destination


@dataclass(frozen=True)
class ShardRecords:
    """Where a run records what it has staged, and where earlier runs did.

    Attributes:
        spill_dir: of this run.
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

    def _name(self, number: int, plan: Plan) -> str:
        """Returns the name of the record of a group's files, which depends on all that decides their content."""
        group = plan.group(number)
        split = plan.split(group.split)
        start = int(split.takes[: split.firsts[number - split.first_group]].sum())
        ranks = split.num_examples, split.num_shards, group.shard, group.part, group.num_parts, start, group.takes
        return hashlib.sha256(f"{self.source} {group.split} {ranks}".encode()).hexdigest()[:32] + SHARDS_SUFFIX

    def save(self, number: int, plan: Plan, written: Sequence[WrittenShard]) -> None:
        """Records the files of a group."""
        content = json.dumps([asdict(shard) for shard in written]).encode()
        storage.write_bytes(storage.join(self.spill_dir, self._name(number, plan)), content)

    def reuse(self, number: int, plan: Plan, destination: Destination) -> list[WrittenShard] | None:
        """Puts the files of a group that an earlier run has staged into the staging directory, and returns them.

        Returns None if there are none, or they do not have the checksums that were recorded.
        """
        name = self._name(number, plan) if self.earlier else ""
        for directory in self.earlier:
            try:
                content = json.loads(storage.read_bytes(storage.join(directory, name)))
                found = [
                    WrittenShard(**{**shard, "requests": storage.Requests(), "core_seconds": 0.0}) for shard in content
                ]
                if all(map(_is_whole, found)):
                    folder = storage.dirname(destination.group_path(plan.group(number)))
                    return [_taken(shard, storage.join(folder, storage.basename(shard.path))) for shard in found]
            except (StorageError, ValueError, TypeError):  # missing, damaged, or deleted in the meantime
                continue
        return None


def _is_whole(shard: WrittenShard) -> bool:
    size, checksum = runs.content_of(shard.path)
    return (size, checksum) == (shard.file_bytes, shard.crc32c) and (
        runs.content_of(f"{shard.path}.index")[1] == shard.index_crc32c
    )


def _taken(shard: WrittenShard, path: str) -> WrittenShard:
    storage.make_dirs(storage.dirname(path))
    for suffix in ("", ".index"):
        storage.remove(path + suffix)  # of an attempt of the engine before
        runs.take(shard.path + suffix, path + suffix)
    return replace(shard, path=path)
