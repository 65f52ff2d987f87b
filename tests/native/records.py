"""Chunks of records, and what a block takes of them."""

from typing import Any

import numpy as np

from beam_datasets.formats import tfrecord


def framed(records: list[bytes]) -> tuple[bytearray, np.ndarray]:
    """Returns the bytes of a file of these records, and where each begins."""
    places = np.cumsum([0, *(len(record) + tfrecord.OVERHEAD for record in records)])
    return bytearray(b"".join(map(tfrecord.frame, records))), places


def take(block: Any, chunks: Any, visits: Any, most: int = 1 << 40, limit: int = 1 << 40) -> tuple[int, Any]:
    """Takes what there is of visits; returns where that ended, and what is left of that visit."""
    runs, firsts, counts = np.array(visits, np.int64).reshape(-1, 3).T.copy()
    at = block.take(chunks, runs, firsts, counts, 0, len(runs), most, limit)
    left = [list(visit) for visit in zip(runs.tolist(), firsts.tolist(), counts.tolist())]
    assert left[at + 1 :] == [list(visit) for visit in visits[at + 1 :]]
    return at, left[at] if at < len(left) else None
