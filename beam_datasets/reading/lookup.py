"""Finding an example by its key: a binary search among the shards of a split, then in the index of one."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import MetadataError
from beam_datasets.model.keys import hash_key, ordered_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from beam_datasets.formats.index import Index
    from beam_datasets.model.shards import FileInstructions
    from beam_datasets.reading.source import Source


@dataclass(frozen=True)
class Lookup:
    """What finds keys in a slice.

    Attributes:
        source: the records of the slice.
        parts: for each range of the slice, the split's name and the range's runs.
        ordered: whether the examples stand in the order of integer keys, not of hashes.
    """

    source: Source
    parts: tuple[tuple[str, FileInstructions], ...]
    ordered: bool

    def find(self, key: Any) -> int | None:
        """Returns the index in the slice of the example with a key; None where there is none.

        Raises:
            MetadataError: a shard has no keys.
            InvalidKeyError: the key is of another type than keys are.
        """
        before = 0
        for split, runs in self.parts:
            sort_key = ordered_key(key) if self.ordered else hash_key(split, key)
            found = self._find(runs, sort_key)
            if found is not None:
                return self.source.index_among_read(before + found)
            before += runs.num_examples
        return None

    def _find(self, runs: FileInstructions, sort_key: bytes) -> int | None:
        """Returns the index among the examples of runs, which stand in ascending order of keys."""
        run = bisect.bisect_right(range(len(runs)), sort_key, key=lambda i: self._keys(runs, i)[0].tobytes()) - 1
        if run < 0:
            return None
        record = self._index(runs, run).find(sort_key)
        place = -1 if record is None else record - int(runs.skip[run])
        if not 0 <= place < int(runs.take[run]):
            return None
        return int(runs.take[:run].sum()) + place

    def _keys(self, runs: FileInstructions, run: int) -> NDArray[Any]:
        keys = self._index(runs, run).keys
        if keys is None:
            raise self._no_keys(runs.filename(run))
        return keys

    def _index(self, runs: FileInstructions, run: int) -> Index:
        filename = runs.filename(run)
        index = self.source.pool.open(filename, int(runs.examples_in_shard[run])).index
        if index is None:
            raise self._no_keys(filename)
        return index

    def _no_keys(self, filename: str) -> MetadataError:
        return MetadataError(
            f"{self.source.pool.directory}: find() needs the sort keys of an index, and {filename} has none, as shards "
            "that TensorFlow Datasets wrote. Ask for examples by their number, or read them all."
        )
