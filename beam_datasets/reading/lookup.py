"""Search for the example with a key, in the sorted keys of the shards' indexes."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import InvalidKeyError, MetadataError

if TYPE_CHECKING:
    from beam_datasets.formats.index import Index
    from beam_datasets.metadata.manifest import KeyRule
    from beam_datasets.metadata.shards import FileInstructions
    from beam_datasets.reading.records.source import Source


@dataclass(frozen=True)
class Lookup:
    """What finds keys in a slice.

    Attributes:
        source: the records of the slice.
        parts: the stretches of the slice in which the sort keys ascend, in order: the rules of its keys, and its runs.
    """

    source: Source
    parts: tuple[tuple[tuple[KeyRule, ...], FileInstructions], ...]

    def find(self, key: Any) -> int | None:
        """Returns the index in the slice of the first example with a key; None where there is none.

        Raises:
            MetadataError: a shard has no keys.
            InvalidKeyError: the key is of another type than keys are.
        """
        sort_keys = self._sort_keys(key)
        before = 0
        for rules, runs in self.parts:
            candidates = [self._find(runs, sort_keys[rule]) for rule in rules if rule in sort_keys]
            places = [index for index in candidates if index is not None]
            if places:
                return self.source.index_in_source(before + min(places))
            before += runs.num_examples
        return None

    def _sort_keys(self, key: Any) -> dict[KeyRule, bytes]:
        """Returns what the key is by each rule, where it can be a key."""
        sort_keys, refusal = {}, None
        for rule in dict.fromkeys(rule for rules, _ in self.parts for rule in rules):
            try:
                sort_keys[rule] = rule.sort_key(key)
            except InvalidKeyError as error:
                refusal = error
        if refusal is not None and not sort_keys:
            raise refusal
        return sort_keys

    def _find(self, runs: FileInstructions, sort_key: bytes) -> int | None:
        """Returns the index among the examples of runs, which are in ascending order of keys."""
        run = bisect.bisect_right(range(len(runs)), sort_key, key=lambda i: self._first_key(runs, i)) - 1
        if run < 0:
            return None
        skip, take = int(runs.skip[run]), int(runs.take[run])
        record = self._index(runs, run).find(sort_key, skip, skip + take)
        return None if record is None else int(runs.take[:run].sum()) + record - skip

    def _first_key(self, runs: FileInstructions, run: int) -> bytes:
        keys = self._index(runs, run).keys
        if keys is None:
            raise self._no_keys(runs.filename(run))
        first: bytes = keys[int(runs.skip[run])].tobytes()
        return first

    def _index(self, runs: FileInstructions, run: int) -> Index:
        filename = runs.filename(run)
        index = self.source.pool.open(filename, int(runs.examples_in_shard[run])).index
        if index is None:
            raise self._no_keys(filename)
        return index

    def _no_keys(self, filename: str) -> MetadataError:
        return MetadataError(
            f"{self.source.pool.directory}: find() needs the sort keys of an index, and {filename} has none, as shards "
            "that TensorFlow Datasets wrote, and copies of them. Ask for examples by their number, or read them all."
        )
