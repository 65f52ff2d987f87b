"""Distinct and most frequent values.

Up to `MAX_VALUES` distinct values are all kept and counted. Of more, those with the smallest hashes are kept; the
largest of these hashes gives an estimate of the number of distinct values (Bar-Yossef et al., "Counting distinct
elements in a data stream"). The most frequent values are then found in a sample of occurrences chosen by hash, and
counted by a table of counters (Cormode and Muthukrishnan, "the count-min sketch"). The result does not depend on the
order of the values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.statistics.codes import mixed

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from beam_datasets.statistics.codes import Codes

MAX_VALUES = 4096
SAMPLE = 1024
ROWS, COLUMNS = 4, 2048
MIN_SHARE = 0.005
"""Values with a smaller share are not among the most frequent, unless all values are kept."""


@dataclass
class Values:
    """Distinct values.

    Attributes:
        shown: what to show of each value that is kept.
        hashes: of these values, ascending.
        counts: of each of these values.
        complete: whether all values are kept.
        sampled: the sample: hashes of occurrences, ascending, and hashes of their values.
        sampled_shown: what to show of each value of the sample.
        table: counters, by row and part of the hash.
    """

    shown: NDArray[Any]
    sampled_shown: NDArray[Any]
    hashes: Codes = field(default_factory=lambda: np.zeros(0, np.uint64))
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    complete: bool = True
    sampled: NDArray[np.uint64] = field(default_factory=lambda: np.zeros((2, 0), np.uint64))
    table: NDArray[np.int64] = field(default_factory=lambda: np.zeros((ROWS, COLUMNS), np.int64))

    @classmethod
    def empty(cls, dtype: Any) -> Values:
        """Returns no values; `shown` has this dtype."""
        return cls(np.zeros(0, dtype), np.zeros(0, dtype))

    def add(self, hashes: Codes, counts: NDArray[np.int64], shown: NDArray[Any]) -> None:
        """Adds distinct values.

        Args:
            hashes: of each value, all distinct.
            counts: of each value.
            shown: what to show of each value.
        """
        for row in range(ROWS):
            np.add.at(self.table[row], _columns(hashes, row), counts)
        self._keep(hashes, counts, shown)

    def sample(self, occurrences: Codes, pick: Callable[[NDArray[np.intp]], tuple[Codes, NDArray[Any]]]) -> None:
        """Adds occurrences of values to the sample.

        Args:
            occurrences: hash of each occurrence.
            pick: function from indices of occurrences to the hashes of their values, and what to show of these.
        """
        last = self.sampled[0, -1] if self.sampled.shape[1] == SAMPLE else np.uint64((1 << 64) - 1)
        some = np.flatnonzero(occurrences <= last)
        if len(some) > SAMPLE:
            some = some[np.argpartition(occurrences[some], SAMPLE - 1)[:SAMPLE]]
        if len(some):
            hashes, shown = pick(some)
            self._keep_sampled(np.stack([occurrences[some], hashes]), shown)

    def merge(self, other: Values) -> None:
        """Merges `other` into this in place."""
        self.table = self.table + other.table
        self.complete = self.complete and other.complete
        self._keep(other.hashes, other.counts, other.shown)
        self._keep_sampled(other.sampled, other.sampled_shown)

    def _keep(self, hashes: Codes, counts: NDArray[np.int64], shown: NDArray[Any]) -> None:
        # A dropped value always has MAX_VALUES smaller hashes before it, so counts of kept values are complete.
        if not self.complete and len(self.hashes) == MAX_VALUES:
            some = np.flatnonzero(hashes <= self.hashes[-1])
            hashes, counts, shown = hashes[some], counts[some], shown[some]
        both = np.concatenate([self.hashes, hashes])
        found, first, which = np.unique(both, return_index=True, return_inverse=True)
        sums = np.zeros(len(found), np.int64)
        np.add.at(sums, which, np.concatenate([self.counts, counts]))
        self.complete = self.complete and len(found) <= MAX_VALUES
        kept = first[:MAX_VALUES]
        self.hashes, self.counts = found[:MAX_VALUES], sums[:MAX_VALUES]
        self.shown = np.concatenate([self.shown, shown])[kept]

    def _keep_sampled(self, sampled: NDArray[np.uint64], shown: NDArray[Any]) -> None:
        both = np.concatenate([self.sampled, sampled], axis=1)
        kept = np.argsort(both[0], kind="stable")[:SAMPLE]
        self.sampled = both[:, kept]
        self.sampled_shown = np.concatenate([self.sampled_shown, shown])[kept]

    # ----------------------------------------------------------------------------------------------------- what follows

    def distinct(self) -> int:
        """Returns the number of distinct values; an estimate if not all are kept."""
        if self.complete:
            return len(self.hashes)
        return round((MAX_VALUES - 1) / ((int(self.hashes[-1]) + 1) / 2**64))

    def top(self, number: int, total: int) -> list[tuple[Any, int]]:
        """Returns the most frequent values, as they are shown, with their counts; see `MIN_SHARE`.

        Args:
            number: maximum number of values.
            total: number of occurrences of all values.
        """
        if self.complete:
            shown, hashes, counts = self.shown, self.hashes, self.counts
        else:
            hashes, first = np.unique(self.sampled[1], return_index=True)
            shown = self.sampled_shown[first]
            counts = np.stack([self.table[row][_columns(hashes, row)] for row in range(ROWS)]).min(axis=0)
            frequent = counts >= max(MIN_SHARE * total, 2)
            shown, hashes, counts = shown[frequent], hashes[frequent], counts[frequent]
        order = np.lexsort((hashes, -counts))
        if shown.dtype.kind != "O":
            order = np.lexsort((shown, -counts))
        return [(shown[i], int(counts[i])) for i in order[:number].tolist()]


def _columns(hashes: Codes, row: int) -> NDArray[Any]:
    """Returns which counter of a row belongs to each hash."""
    return (mixed(hashes ^ np.uint64(row << 56)) % np.uint64(COLUMNS)).astype(np.intp)
