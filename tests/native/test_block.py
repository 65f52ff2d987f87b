"""block.c against lists of bytes: records taken from chunks, slices of blocks, blocks joined."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.formats import record_block, tfrecord
from beam_datasets.formats.record_block import PlainRecordBlock
from beam_datasets.native import core

if core is None:
    pytest.skip("the native module was not built", allow_module_level=True)

RECORDS = st.lists(st.binary(max_size=300), min_size=1, max_size=40)
PLACES = st.integers(-50, 50) | st.none()


def framed(records: list[bytes]) -> tuple[bytearray, np.ndarray]:
    places = np.cumsum([0, *(len(record) + tfrecord.OVERHEAD for record in records)])
    return bytearray(b"".join(map(tfrecord.frame, records))), places


def block_of(records: list[bytes]) -> Any:
    block, stop = core.RecordBlock(), len(records)
    assert block.take(core.chunk(*framed(records)), 0, stop, 1 << 30) == stop
    return block


@given(RECORDS, st.integers(0, 40), st.integers(0, 40), st.integers(0, 2000), st.integers(0, 60))
def test_takes_what_a_list_would(records: list[bytes], first: int, count: int, most: int, bad: int) -> None:
    first = min(first, len(records) - 1)
    stop = min(first + max(count, 1), len(records))
    data, places = framed(records)
    if bad < len(records):
        data[places[bad + 1] - 1] ^= 1
    sizes = np.cumsum([len(record) + tfrecord.OVERHEAD for record in records[first:stop]])
    want = records[first : first + max(int((sizes <= most).sum()), 1)]
    if first <= bad:
        want = want[: bad - first]
    for block, chunk in (
        (core.RecordBlock(), core.chunk(data, places)),
        (PlainRecordBlock(), record_block._plain_chunk(data, places)),
    ):
        assert block.take(chunk, first, stop, most) == len(want)
        assert list(block) == want
        assert len(block) == len(want)
        assert block.num_bytes == sum(map(len, want))


@given(RECORDS, PLACES, PLACES, st.integers(-5, 5).filter(bool) | st.none())
def test_slices_are_those_of_lists(records: list[bytes], start: Any, stop: Any, step: Any) -> None:
    block = block_of(records)
    part = block[start:stop:step]
    assert type(part) is type(block)
    assert list(part) == records[start:stop:step]
    for i in range(-len(records), len(records)):
        assert block[i] == records[i]
    for i in (len(records), -len(records) - 1, 2**70):
        with pytest.raises(IndexError):
            block[i]
    assert bool(part) == bool(records[start:stop:step])


@given(RECORDS, RECORDS)
def test_blocks_are_joined(records: list[bytes], more: list[bytes]) -> None:
    block = block_of(records)
    first, before = block[:1], block
    block += block_of(more)
    assert block is before
    assert list(block) == records + more
    assert list(first) == records[:1]
    block += block
    assert list(block) == 2 * (records + more)
    assert block.num_bytes == 2 * sum(map(len, records + more))
    with pytest.raises(TypeError, match="RecordBlock"):
        block += [b"a"]


def test_a_block_holds_the_buffers_of_its_records_and_no_others() -> None:
    class Owner(np.ndarray):
        """An array that weak references may be made to."""

    def owned(records: list[bytes]) -> Any:
        data, places = framed(records)
        return np.frombuffer(bytes(data), np.uint8).view(Owner), places

    block, alive = core.RecordBlock(), []
    for records in ([b"a", b"b"], [b"c", b"d"]):
        buffer, places = owned(records)
        alive.append(weakref.ref(buffer))
        block.take(core.chunk(buffer, places), 0, 2, 100)
        del buffer
    gc.collect()
    assert all(reference() is not None for reference in alive)
    block = block[3:]
    gc.collect()
    assert alive[0]() is None
    assert list(block) == [b"d"]
    del block
    gc.collect()
    assert alive[1]() is None


def test_records_that_are_parsed_in_place() -> None:
    entry = b"\x0a\x01a\x12\x05\x1a\x03\x0a\x01\x07"
    record = b"\x0a" + bytes([len(entry) + 2]) + b"\x0a" + bytes([len(entry)]) + entry
    schema = core.schema(((0x1A, 1, False, (b"a",)),))
    assert core.parse(schema, block_of([record] * 3)) == core.parse(schema, [record] * 3)
    assert core.parse(schema, block_of([record, record[:-1]])) is None
    with pytest.raises(TypeError, match="RecordBlock"):
        core.parse(schema, (record,))


def test_what_cannot_be_taken() -> None:
    data, places = framed([b"a", b"b"])
    chunk = core.chunk(data, places)
    for first, stop, most in ((-1, 1, 9), (0, 3, 9), (2, 1, 9), (3, 3, 9), (0, 1, -1), (2**62, 2**63 - 1, 9)):
        with pytest.raises(ValueError, match="of a chunk of 2 records"):
            core.RecordBlock().take(chunk, first, stop, most)
    with pytest.raises((TypeError, ValueError)):
        core.RecordBlock().take(b"", 0, 1, 9)
    with pytest.raises(ValueError, match="int64"):
        core.chunk(data, places.astype(np.int32))
    for lie in (-1, 2**40, -(2**63), 2**63 - 1):
        assert core.RecordBlock().take(core.chunk(data, [0, lie]), 0, 1, 9) == 0
        assert core.RecordBlock().take(core.chunk(data, [lie, 17]), 0, 1, 9) == 0


def test_large_records_are_checked_without_the_gil() -> None:
    records = [bytes([i]) * 50_000 for i in range(10)]
    data, places = framed(records)
    data[places[7] + 100] ^= 1
    block = core.RecordBlock()
    assert block.take(core.chunk(data, places), 2, 10, 1 << 30) == 5
    assert list(block) == records[2:7]
