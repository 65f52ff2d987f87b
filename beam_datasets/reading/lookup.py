"""Key lookup: binary search for the example with a key, in the sorted keys of the shards' indexes."""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import InvalidKeyError, MetadataError

if TYPE_CHECKING:
    from beam_datasets.formats.index import Index
    from beam_datasets.metadata.lineage import KeyRule
    from beam_datasets.metadata.shards import FileInstructions
    from beam_datasets.reading.records.source import Source


@dataclass(frozen=True)
class Lookup:
    """Key lookup in a slice.

    Attributes:
        source: the records of the slice.
        parts: pairs (rules of the keys, number of examples), in order, for each part of the slice in which the sort
            keys ascend.
    """

    source: Source
    parts: Sequence[tuple[tuple[KeyRule, ...], int]]

    def find(self, key: Any) -> int | None:
        """Returns the index in the source of the first example with a key; None if there is none.

        Raises:
            MetadataError: a shard has no keys.
            InvalidKeyError: the key has a type that keys cannot have.
        """
        sort_keys = self._sort_keys(key)
        for rules, num_before, runs in self._runs_of_parts:
            candidates = [self._find_in_runs(runs, sort_keys[rule]) for rule in rules if rule in sort_keys]
            indices = [index for index in candidates if index is not None]
            if indices:
                return self.source.index_in_source(num_before + min(indices))
        return None

    @functools.cached_property
    def _runs_of_parts(self) -> list[tuple[tuple[KeyRule, ...], int, FileInstructions]]:
        """(rules of the keys, number of examples of the slice before it, its file instructions) of each part."""
        stops = list(itertools.accumulate(num_examples for _, num_examples in self.parts))
        return [
            (rules, stop - num_examples, self.source.instructions.part(stop - num_examples, stop))
            for (rules, num_examples), stop in zip(self.parts, stops)
        ]

    def _sort_keys(self, key: Any) -> dict[KeyRule, bytes]:
        """Returns the sort key of a key by each rule of the slice, without the rules for which the key is invalid.

        Raises:
            InvalidKeyError: the key is invalid for all rules.
        """
        sort_keys, last_error = {}, None
        for rule in dict.fromkeys(rule for rules, _ in self.parts for rule in rules):
            try:
                sort_keys[rule] = rule.sort_key(key)
            except InvalidKeyError as error:
                last_error = error
        if last_error is not None and not sort_keys:
            raise last_error
        return sort_keys

    def _find_in_runs(self, runs: FileInstructions, sort_key: bytes) -> int | None:
        """Returns the index, among the examples of all runs, of the first one with a sort key; None if there is none.

        The sort keys ascend, also from run to run.
        """
        run = bisect.bisect_right(range(len(runs)), sort_key, key=lambda i: self._first_key(runs, i)) - 1
        if run < 0:
            return None
        skip, take = int(runs.skip[run]), int(runs.take[run])
        record = self._index_of(runs, run).find(sort_key, skip, skip + take)
        return None if record is None else int(runs.take[:run].sum()) + record - skip

    def _first_key(self, runs: FileInstructions, run: int) -> bytes:
        """Returns the sort key of the first example of a run; raises a MetadataError if the shard has no keys."""
        keys = self._index_of(runs, run).keys
        if keys is None:
            raise self._missing_keys_error(runs.filename(run))
        first: bytes = keys[int(runs.skip[run])].tobytes()
        return first

    def _index_of(self, runs: FileInstructions, run: int) -> Index:
        """Returns the index of the shard of a run; raises a MetadataError if the shard has no index."""
        filename = runs.filename(run)
        index = self.source.pool.open(filename, int(runs.examples_in_shard[run])).index
        if index is None:
            raise self._missing_keys_error(filename)
        return index

    def _missing_keys_error(self, filename: str) -> MetadataError:
        """Returns the error for a shard without sort keys, which TensorFlow Datasets wrote."""
        return MetadataError(
            f"find() needs the sort keys of an index, and {filename} has none, like shards that TensorFlow Datasets "
            "wrote, and copies of them",
            path=self.source.pool.directory,
            expected="sort keys",
            advice="Get examples by their number, or read all of them.",
        )
