"""Keys of splits that ignore duplicates: counted once, after merging them by ranges of hashes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from beam_datasets.shuffle.blocks import KEY_BYTES, Block, key_array, size_array
from beam_datasets.shuffle.histogram import Histogram, count_keys

BUCKET_KEYS = 1 << 22  # 80 MB of keys and sizes, which one call merges


def num_buckets(total: int) -> int:
    """Returns the number of buckets for the keys of `total` examples: a power of two, 256 or more.

    >>> num_buckets(10**6), num_buckets(10**9), num_buckets(10**11)
    (256, 256, 32768)
    """
    return max(256, 1 << (max(1, total // BUCKET_KEYS) - 1).bit_length())


def split_by_key(block: Block, buckets: int = 256) -> Iterator[tuple[tuple[str, int], tuple[bytes, bytes]]]:
    """Yields ((split, bucket), (keys, framed sizes)) of the block's records, to count each of repeated keys once.

    The keys are 16 bytes each, the sizes little-endian uint32, in the order of the block. The bucket is the lowest bits
    of a key, which are spread evenly both for hashes and for integers.

    Args:
        block: the block.
        buckets: the number of buckets, a power of two.
    """
    rows = np.frombuffer(block.keys, np.uint8).reshape(-1, KEY_BYTES)
    all_sizes = np.frombuffer(block.sizes, "<u4")
    bucket_of = np.frombuffer(block.keys, ">u4")[3::4] & np.uint32(buckets - 1)
    order = np.argsort(bucket_of, kind="stable")
    used_buckets, starts = np.unique(bucket_of[order], return_index=True)
    for bucket, positions in zip(used_buckets.tolist(), np.split(order, starts[1:])):
        yield (block.split, bucket), (rows[positions].tobytes(), all_sizes[positions].tobytes())


def merge_unique(parts: Iterable[tuple[bytes, bytes]]) -> Histogram:
    """Returns the histogram of a bucket in which each key counts once, with the smallest of its sizes.

    Args:
        parts: (keys, framed sizes) of the bucket from all blocks; see `split_by_key`.
    """
    parts = list(parts)
    keys = key_array(b"".join(keys for keys, _ in parts))
    sizes = size_array(b"".join(sizes for _, sizes in parts))
    order = np.lexsort((sizes, keys[:, 1], keys[:, 0]))
    keys, sizes = keys[order], sizes[order]
    first = np.ones(len(keys), np.bool_)
    first[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    return count_keys(keys[first], sizes[first])
