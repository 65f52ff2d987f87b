"""Many small shards looked at by few calls, and what is known of all shards of a dataset, good or not, in one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from beam_datasets.errors import FeatureError
from beam_datasets.formats.example import ExampleError
from beam_datasets.formats.record_block import RecordBlock
from beam_datasets.native import core
from beam_datasets.reading.glancing import (
    GLANCED,
    HAS_KEYS,
    INDEXED,
    ORDERED,
    REFUSED,
    can_glance_at_files,
    glance_at_files,
)
from beam_datasets.reading.shards import INDEX_SUFFIX
from beam_datasets.verifying.shard_facts import IndexFacts, ShardFacts, ShardTask, read_shard
from beam_datasets.verifying.walking import RecordChecks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from beam_datasets.formats.example import Buffer

_TOGETHER_BYTES = 256 << 10  # of shards whose records are decoded at once; of larger ones, the native module reads none


@dataclass(frozen=True, eq=False)
class ShardTable(Sequence[ShardFacts]):
    """What shards hold, made into `ShardFacts` when it is asked for: of thousands that are good, few ever are.

    Attributes:
        rows: of `GLANCED`, one a shard; of those that were refused, num_records and size are there too.
        others: by their number in the table, what those hold.
    """

    rows: NDArray[Any]
    others: Mapping[int, ShardFacts]

    @classmethod
    def of(cls, facts: Sequence[ShardFacts]) -> ShardTable:
        """Returns the table of what is known already."""
        return facts if isinstance(facts, ShardTable) else cls.completed(np.zeros(len(facts), GLANCED), facts)

    @classmethod
    def joined(cls, tables: Sequence[ShardTable]) -> ShardTable:
        """Returns the table of the shards of all tables, in their order."""
        firsts = accumulate(map(len, tables), initial=0)
        others = {
            first + number: facts for first, table in zip(firsts, tables) for number, facts in table.others.items()
        }
        return cls(np.concatenate([np.zeros(0, GLANCED), *(table.rows for table in tables)]), others)

    @classmethod
    def completed(cls, rows: NDArray[Any], others: Sequence[ShardFacts]) -> ShardTable:
        """Returns the table of rows, and of what the shards hold that were refused, in their order."""
        refused = np.flatnonzero(rows["state"] == REFUSED).tolist()
        for number, facts in zip(refused, others, strict=True):
            rows[number]["num_records"], rows[number]["size"] = facts.num_records, facts.size
        return cls(rows, dict(zip(refused, others)))

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> ShardFacts: ...
    @overload
    def __getitem__(self, index: slice) -> ShardTable: ...
    def __getitem__(self, index: int | slice) -> ShardFacts | ShardTable:
        places = range(len(self))[index]
        if isinstance(places, int):
            found = self.others.get(places)
            return _facts(self.rows[places].item()) if found is None else found
        others = {place: self.others[number] for place, number in enumerate(places) if number in self.others}
        return ShardTable(self.rows[index], others)


def _facts(row: Any) -> ShardFacts:
    """Returns what a row says."""
    num_records, size, _, crc, index_crc, flags, state, first, last = row
    index = None
    if state == INDEXED:
        has_keys = bool(flags & HAS_KEYS)
        keys = (_key(first), _key(last)) if has_keys else (None, None)
        index = IndexFacts(None, index_crc, num_records, size, has_keys, bool(flags & ORDERED), *keys)
    return ShardFacts(None, False, size, crc, num_records, (), index)


def _key(numbers: NDArray[Any]) -> bytes:
    return np.asarray(numbers, ">u8").tobytes()


@dataclass(frozen=True)
class ShardsTask:
    """Shards that are to be read by one worker.

    Attributes:
        directory: of the dataset.
        filenames: relative to it.
        features: see `ShardTask`.
        decode: see there.
    """

    directory: str
    filenames: tuple[str, ...]
    features: Any = None
    decode: bool = False

    def shard(self, number: int) -> ShardTask:
        """Returns one of them."""
        return ShardTask(self.directory, self.filenames[number], self.features, self.decode)


def read_shards(task: ShardsTask) -> ShardTable:
    """Returns what shards and their indexes hold: the small ones are looked at by few calls."""
    checks = RecordChecks.of(task.features, decode=task.decode)
    rows = np.zeros(len(task.filenames), GLANCED)
    if can_look(task.directory, checks):
        look(task.directory, task.filenames, rows, checks, lambda num_bytes: None)
    rest = np.flatnonzero(rows["state"] == REFUSED).tolist()
    return ShardTable.completed(rows, [read_shard(task.shard(number), None, checks) for number in rest])


def can_look(directory: str, checks: RecordChecks) -> bool:
    """Returns whether `look` may see anything: in a local directory, where the native module is.

    Where each record is to be decoded, it must be small once it is decoded: many are then held at once.
    """
    return can_glance_at_files(directory) and (checks.each is None or checks.block is not None)


def look(
    directory: str, names: Sequence[str], rows: NDArray[Any], checks: RecordChecks, told: Callable[[int], None]
) -> None:
    """Fills the rows of those local shards that are small and good, as are their indexes and their records.

    Args:
        directory: of the dataset; see `can_look`.
        names: of the shards, relative to it.
        rows: of zeros, one a shard.
        checks: what first records must pass, and where it says so each.
        told: called with how many bytes of shards that are good were read since the last call.
    """
    place = 0
    while place < len(names):
        done, firsts = glance_at_files(directory, names[place:], INDEX_SUFFIX, rows[place:])
        seen = rows[place : place + done]
        if not checks.ones(firsts):  # type: ignore[arg-type]
            _check_singly(seen, firsts, checks)
        if checks.block is not None:
            _check_each(directory, names[place : place + done], seen, checks.block)
        told(int(seen["size"].sum()))
        place += done


def _check_singly(rows: NDArray[Any], firsts: list[bytes], checks: RecordChecks) -> None:
    """Refuses the shards whose first record does not pass."""
    for number, first in zip(np.flatnonzero(rows["state"]), firsts, strict=True):
        try:
            checks.one(first)
        except (ExampleError, FeatureError):
            rows[number] = np.zeros((), GLANCED)


def _check_each(
    directory: str, names: Sequence[str], rows: NDArray[Any], check: Callable[[list[Buffer]], bool]
) -> None:
    """Refuses the shards whose records do not all pass, and those that cannot be read together with others."""
    together = (rows["state"] == INDEXED) & (rows["size"] <= _TOGETHER_BYTES)
    rows[~together] = np.zeros((), GLANCED)
    places = np.flatnonzero(together & (rows["num_records"] > 0))
    groups = rows["size"][places].cumsum() // _TOGETHER_BYTES
    for group in np.split(places, np.flatnonzero(np.diff(groups)) + 1):
        records = _read_together(directory, [names[place] for place in group.tolist()], rows["num_records"][group])
        if records is None or not check(records):
            rows[group] = np.zeros((), GLANCED)


def _read_together(directory: str, names: list[str], counts: NDArray[np.int64]) -> Any:
    """Returns all records, checked, of local shards that have so many; None where they cannot all be read so."""
    firsts, n = np.zeros_like(counts), len(names)
    opened = core.directory(directory)  # type: ignore[union-attr]
    if opened is None:
        return None
    numbers = np.concatenate([counts, firsts, counts])
    found = dict(enumerate(core.runs(opened, names, numbers, _TOGETHER_BYTES)))  # type: ignore[union-attr]
    block, left, total = RecordBlock(), counts.copy(), int(counts.sum())
    read = block.take(found, np.arange(n), firsts, left, 0, n, total, n * _TOGETHER_BYTES)  # more than they have
    return block if read == n else None
