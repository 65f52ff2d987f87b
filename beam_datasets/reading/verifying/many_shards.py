"""Many small shards looked at by few calls, and what is known of all shards of a dataset, good or not, in one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from beam_datasets.errors import FeatureError
from beam_datasets.formats.example import ExampleError
from beam_datasets.reading.glancing import GLANCED, HAS_KEYS, INDEXED, ORDERED, REFUSED, glance_at_files
from beam_datasets.reading.shards import INDEX_SUFFIX
from beam_datasets.reading.verifying.shard_facts import IndexFacts, ShardFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from beam_datasets.reading.verifying.walking import RecordChecks


@dataclass(frozen=True)
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
        return ShardTable(self.rows[index], others if self.others else {})


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


def look(
    directory: str, names: Sequence[str], rows: NDArray[Any], checks: RecordChecks, told: Callable[[int], None]
) -> None:
    """Fills the rows of those local shards that are small and good, as are their indexes and their first records.

    Args:
        directory: of the dataset.
        names: of the shards, relative to it.
        rows: of zeros, one a shard.
        checks: what first records must pass.
        told: called with how many bytes of shards that are good were read since the last call.
    """
    place = 0
    while place < len(names):
        done, firsts = glance_at_files(directory, names[place:], INDEX_SUFFIX, rows[place:])
        seen = rows[place : place + done]
        if not checks.ones(firsts):  # type: ignore[arg-type]
            _check_singly(seen, firsts, checks)
        told(int(seen["size"].sum()))
        place += done


def _check_singly(rows: NDArray[Any], firsts: list[bytes], checks: RecordChecks) -> None:
    """Refuses the shards whose first record does not pass."""
    for number, first in zip(np.flatnonzero(rows["state"]), firsts, strict=True):
        try:
            checks.one(first)
        except (ExampleError, FeatureError):
            rows[number] = np.zeros((), GLANCED)
