"""block.c against lists of bytes: records taken from chunks, slices of blocks, blocks joined."""

import bisect
import gc
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.formats.record_block import PlainChunk, PlainRecordBlock
from beam_datasets.native import core
from tests.native.gil import when_it_is_free
from tests.native.records import framed, take

if core is None:
    pytest.skip("the native module was not built", allow_module_level=True)

RECORDS = st.lists(st.binary(max_size=300), min_size=1, max_size=40)
PLACES = st.integers(-50, 50) | st.none()


def block_of(records: list[bytes]) -> Any:
    block, stop = core.RecordBlock(), len(records)
    assert take(block, {0: core.chunk(*framed(records), 0)}, [(0, 0, stop)])[0] == 1
    return block


@dataclass(frozen=True)
class Reading:
    """What is to be read: records of runs in chunks, of which one may be damaged, and visits to them."""

    runs: list[list[bytes]]
    cuts: list[list[int]]
    visits: list[tuple[int, int, int]]
    most: int
    limit: int
    bad: tuple[int, int]

    def chunk(self, make: Any, run: int, record: int) -> Any:
        """The chunk of a run that has a record."""
        cuts = [0, *self.cuts[run], len(self.runs[run])]
        place = bisect.bisect_right(cuts, record) - 1
        data, places = framed(self.runs[run][cuts[place] : cuts[place + 1]])
        if self.bad[0] == run and cuts[place] <= self.bad[1] < cuts[place + 1]:
            data[places[self.bad[1] - cuts[place] + 1] - 1] ^= 1
        return make(memoryview(data), places, cuts[place])

    def outcome(self, block_type: Any, make: Any) -> Any:
        """The blocks that are read, each with the chunks that are there behind it, and where it all ended."""
        visits, chunks, found = self.visits, {}, []
        block = block_type()
        while visits:
            at, left = take(block, chunks, visits, self.most, self.limit)
            visits = [] if left is None else [tuple(left), *visits[at + 1 :]]
            found.append((list(block), block.num_bytes, sorted(chunks), visits[:1]))
            if len(block) >= self.most or block.num_bytes >= self.limit:
                block = block_type()
            elif visits:
                run, record = visits[0][:2]
                if run in chunks:
                    return found, "damaged"
                chunks[run] = self.chunk(make, run, record)
        return found, "all"


@st.composite
def readings(draw: Any) -> Reading:
    runs = draw(st.lists(st.lists(st.binary(max_size=60), min_size=1, max_size=30), min_size=1, max_size=4))
    cuts = [sorted(draw(st.sets(st.integers(1, max(len(run) - 1, 1)), max_size=4)) - {len(run)}) for run in runs]
    done, visits = [0] * len(runs), []
    for run, count in draw(st.lists(st.tuples(st.integers(0, len(runs) - 1), st.integers(1, 9)), max_size=20)):
        count = min(count, len(runs[run]) - done[run])
        if count:
            visits.append((run, done[run], count))
            done[run] += count
    most, limit = draw(st.integers(1, 40)), draw(st.integers(1, 2000))
    return Reading(runs, cuts, visits, most, limit, draw(st.tuples(st.integers(0, 5), st.integers(0, 40))))


@given(readings())
def test_takes_what_a_list_would(reading: Reading) -> None:
    got = reading.outcome(core.RecordBlock, core.chunk)
    assert got == reading.outcome(PlainRecordBlock, PlainChunk)
    read: list[bytes] = []
    before = 0
    for records, num_bytes, _, _ in got[0]:
        assert num_bytes == sum(map(len, records))
        assert len(records) <= reading.most
        read += records[before:]
        full = len(records) >= reading.most or num_bytes >= reading.limit
        before = 0 if full else len(records)
    wanted = [(run, first + i) for run, first, count in reading.visits for i in range(count)]
    good = wanted.index(reading.bad) if reading.bad in wanted else len(wanted)
    assert read == [reading.runs[run][record] for run, record in wanted[:good]]
    assert got[1] == ("damaged" if good < len(wanted) else "all")


@pytest.mark.parametrize(
    "visits", [[(0, 0, 1), (0, 2, 0), (0, 1, 1)], [(0, 0, 2), (0, 2, 0)], [(0, 3, 1)], [(1, 0, 0)]]
)
def test_a_visit_of_nothing_or_of_what_is_not_there(visits: Any) -> None:
    found = []
    for block, make in ((core.RecordBlock(), core.chunk), (PlainRecordBlock(), PlainChunk)):
        data, places = framed([b"a", b"b"])
        chunks = {0: make(memoryview(data), places, 0)}
        found.append((take(block, chunks, visits), list(block), list(chunks)))
    assert found[0] == found[1]


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
        take(block, {0: core.chunk(buffer, places, 0)}, [(0, 0, 2)])
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


@pytest.mark.parametrize("lie", [-1, 2**40, -(2**63), 2**63 - 1, 3])
def test_offsets_and_numbers_that_lie(lie: int) -> None:
    data, places = framed([b"a", b"b"])
    for offsets in ([0, lie], [lie, 17]):
        assert take(core.RecordBlock(), {0: core.chunk(data, np.array(offsets), 0)}, [(0, 0, 1)]) == (0, [0, 0, 1])
    assert take(core.RecordBlock(), {0: core.chunk(data, places, 0)}, [(0, lie, 1)]) == (0, [0, lie, 1])
    for first in (-1, -(2**63), 2**63 - 1):
        with pytest.raises(ValueError, match="first is"):
            core.chunk(data, places, first)
    assert take(core.RecordBlock(), {lie: core.chunk(data, places, 0)}, [(lie, 0, 2)]) == (1, None)
    block = core.RecordBlock()
    assert take(block, {0: core.chunk(data, places, 0)}, [(0, 0, lie)], most=9)[0] == (lie < 0)
    assert list(block) == ([] if lie < 0 else [b"a", b"b"])


def test_large_records_before_a_bad_one_are_taken() -> None:
    records = [bytes([i]) * 50_000 for i in range(10)]
    data, places = framed(records)
    data[places[7] + 100] ^= 1
    block = core.RecordBlock()
    assert take(block, {0: core.chunk(data, places, 0)}, [(0, 2, 8)]) == (0, [0, 7, 3])
    assert list(block) == records[2:7]


def test_another_thread_runs_while_large_records_are_checked() -> None:
    ran: list[int] = []
    data, places = framed([bytes(16 << 20)])
    chunk = core.chunk(data, places, 0)
    with when_it_is_free(lambda: ran.append(1)):
        for _ in range(1000):
            take(core.RecordBlock(), {0: chunk}, [(0, 0, 1)])
            if ran:
                break
        assert ran
