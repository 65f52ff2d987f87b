"""Which shards are as they should be, so that nothing need be said of them: asked of all shards of a split at once.

Whatever is not so is judged by `judging`, which says what it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.formats.tfrecord import OVERHEAD
from beam_datasets.reading.glancing import HAS_KEYS, INDEXED, REFUSED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from beam_datasets.verifying.known import KnownSplit
    from beam_datasets.verifying.many_shards import ShardTable


def are_usual(split: KnownSplit, table: ShardTable, *, indexed: bool) -> NDArray[np.bool_]:
    """Returns for each shard of a split whether it is certain that nothing is wrong with it or its index alone.

    Args:
        split: what should be.
        table: what its shards hold.
        indexed: whether each should have an index.
    """
    rows = table.rows
    usual: NDArray[np.bool_] = rows["state"] != REFUSED
    has_index = rows["state"] == INDEXED
    if indexed:
        usual &= has_index
    if split.num_examples is not None:
        usual &= rows["num_records"] == np.array(split.num_examples, np.int64)
    if split.columns is not None:
        usual &= rows["crc32c"] == np.array(split.columns.crc32c, np.uint32)
        usual &= ~has_index | (rows["index_crc32c"] == np.array(split.columns.index_crc32c, np.uint32))
    return usual


def is_usual(split: KnownSplit, table: ShardTable) -> bool:
    """Returns whether it is certain that nothing is wrong between the shards of a split, each of which is usual."""
    rows = table.rows
    if split.num_bytes is not None and split.num_examples is not None:
        found = int(rows["size"].sum()) - OVERHEAD * int(rows["num_records"].sum())
        if found != split.num_bytes:
            return False
    indexes = rows[rows["state"] == INDEXED]
    keyed = indexes[indexes["flags"] & HAS_KEYS != 0]
    return len(keyed) in (0, len(indexes)) and _ascend(keyed)


def _ascend(rows: NDArray[Any]) -> bool:
    """Whether the first key of each is above the last one of that before it."""
    (last, last_rest), (first, first_rest) = rows["last_key"][:-1].T, rows["first_key"][1:].T
    return bool(((last < first) | ((last == first) & (last_rest < first_rest))).all())
