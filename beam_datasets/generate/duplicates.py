"""Counting keys that may occur more than once, for builds that ignore duplicates.

Ranks are exact only if each key counts once, wherever its copies are. So keys and sizes, without payload, meet in
buckets by the lowest byte of the sort key, which spreads hashes and integers alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from beam_datasets.generate.blocks import AnyBlock, key_array, size_array
from beam_datasets.generate.histogram import Histogram, count_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BUCKETS = 256


def split_by_key(block: AnyBlock) -> Iterator[tuple[tuple[str, int], tuple[bytes, bytes]]]:
    """Yields ((split, bucket), (keys, framed sizes)) of the block's records."""
    keys, sizes = block.load()
    rows = np.frombuffer(keys, np.uint8).reshape(-1, 16)
    all_sizes = np.frombuffer(sizes, "<u4")
    order = np.argsort(rows[:, 15], kind="stable")
    stops = np.cumsum(np.bincount(rows[:, 15], minlength=BUCKETS))
    for bucket, places in enumerate(np.split(order, stops[:-1])):
        if len(places):
            yield (block.split, bucket), (rows[places].tobytes(), all_sizes[places].tobytes())


def merge_unique(parts: Iterable[tuple[bytes, bytes]]) -> Histogram:
    """Returns the histogram of a bucket in which each key counts once, with the smallest of its sizes."""
    parts = list(parts)
    keys = key_array(b"".join(keys for keys, _ in parts))
    sizes = size_array(b"".join(sizes for _, sizes in parts))
    order = np.lexsort((sizes, keys[:, 1], keys[:, 0]))
    keys, sizes = keys[order], sizes[order]
    first = np.ones(len(keys), np.bool_)
    first[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    return count_keys(keys[first], sizes[first])
