"""Blocks joined and cut, against lists."""

import itertools
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.formats import tfrecord
from beam_datasets.formats.record_block import RecordBlock, chunk
from beam_datasets.reading.blocks import joined, regrouped

RECORDS = st.lists(st.lists(st.binary(max_size=5), max_size=9), max_size=9)


def block_of(records: list[bytes]) -> Any:
    block = RecordBlock()
    places = np.cumsum([0, *(len(record) + tfrecord.OVERHEAD for record in records)])
    data = memoryview(b"".join(map(tfrecord.frame, records)))
    runs, firsts, counts = np.array([[0], [0], [len(records)]], np.int64)
    block.take({0: chunk(data, places, 0)}, runs, firsts, counts, 0, 1, 100, 1 << 30)
    return block


@given(RECORDS)
def test_joined(records: list[list[bytes]]) -> None:
    want = list(itertools.chain.from_iterable(records))
    assert list(joined(map(block_of, records))) == want
    assert list(joined(map(list, records))) == want


@given(RECORDS, st.integers(1, 12))
def test_regrouped(records: list[list[bytes]], size: int) -> None:
    items = list(itertools.chain.from_iterable(records))
    want = [items[start : start + size] for start in range(0, len(items), size)]
    assert list(map(list, regrouped(map(block_of, records), size))) == want
    assert list(regrouped(map(list, records), size)) == want
