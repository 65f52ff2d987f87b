"""Framing against a slow reader and writer that follow the format word by word, and against Beam's record codec."""

import io
import struct

import crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import CorruptRecordError
from beam_datasets.formats import tfrecord
from beam_datasets.native import core
from tests.cases import cases
from tests.facts import raises_with

RECORD_LISTS = st.lists(st.binary(max_size=40), max_size=40)
SMALL = [b"", b"a", b"hello", bytes(20)]


@pytest.fixture(params=["native", "python"], scope="module", autouse=True)
def way(request):
    """Everything here holds with the native module and without."""
    if request.param == "native" and core is None:
        pytest.skip("the native module was not built")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setattr(tfrecord, "core", None)
        yield


def slow_mask(data):
    crc = crc32c.crc32c(data)
    rotated = (crc >> 15 | crc << 17) % 2**32
    return (rotated + 0xA282EAD8) % 2**32


def slow_write(records):
    out = b""
    for record in records:
        length = len(record).to_bytes(8, "little")
        out += length + slow_mask(length).to_bytes(4, "little")
        out += record + slow_mask(record).to_bytes(4, "little")
    return out


def slow_read(data):
    """Returns the records, or (offset, number of the first bad record, a word of the problem)."""
    records, place = [], 0
    while place < len(data):
        header, rest = data[place : place + 12], data[place + 12 :]
        problem = None
        if len(header) < 12:
            problem = "cut off"
        elif slow_mask(header[:8]) != int.from_bytes(header[8:], "little"):
            problem = "length CRC"
        else:
            length = int.from_bytes(header[:8], "little")
            if len(rest) < length + 4:
                problem = "cut off"
            elif slow_mask(rest[:length]) != int.from_bytes(rest[length : length + 4], "little"):
                problem = "data CRC"
        if problem:
            return place, len(records), problem
        records.append(rest[:length])
        place += 16 + length
    return records


def offsets_of(records):
    return np.cumsum([0] + [len(record) + 16 for record in records])


class BytesReader:
    """A reader of bytes in memory that remembers what was asked of it."""

    def __init__(self, data):
        self.data = data
        self.size = len(data)
        self.calls = []

    def read(self, start, stop):
        assert 0 <= start < stop <= self.size
        self.calls.append((start, stop))
        return self.data[start:stop]


def read_all(data, chunk_size=30, records=None, **kwargs):
    records = [] if records is None else records
    for chunk in tfrecord.scan_file(BytesReader(data), "f", chunk_size=chunk_size, **kwargs):
        assert chunk.first_record == len(records)
        assert chunk.start == sum(len(record) + 16 for record in records)
        records += [bytes(record) for record in chunk.records()]
    return records


def test_golden_bytes():  # as tf.io.TFRecordWriter (TensorFlow 2.21) writes them
    assert tfrecord.frame(b"").hex() == "000000000000000029039807d8ea82a2"
    assert tfrecord.frame(b"123456789").hex() == "090000000000000037f97139313233343536373839e5b08ac7"
    assert crc32c.crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C
    assert tfrecord.masked_crc32c(b"123456789") == 0xC78AB0E5


@given(RECORD_LISTS)
def test_frames_as_the_slow_writer_does(records):
    assert b"".join(tfrecord.frame_all(records)) == slow_write(records)


@given(RECORD_LISTS, st.integers(1, 200))
def test_round_trip(records, chunk_size):
    data = slow_write(records)
    offsets = tfrecord.scan(data, path="f")
    assert offsets.dtype == np.int64
    assert offsets.tolist() == offsets_of(records).tolist()
    assert tfrecord.unframe(data, offsets, path="f") == records
    for check in (True, False):
        assert read_all(data, chunk_size, check=check) == records


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, "i1")])
def test_takes_any_buffer(kind):
    records = SMALL * 10
    data = kind(slow_write(records))
    offsets = tfrecord.scan(data, path="f")
    assert [bytes(view) for view in tfrecord.unframe(data, offsets, path="f")] == records


def test_records_are_bytes_of_their_own():
    data = bytearray(slow_write([b"abc", b"de"]))
    records = tfrecord.unframe(data, [0, 19, 37], path="f")
    data[12] ^= 1
    assert set(map(type, records)) == {bytes}
    assert records == [b"abc", b"de"]


def check_against_slow_reader(data, records):
    """Each way of reading `data` ends as the slow reader does."""
    expected = slow_read(data)
    known = offsets_of(records)
    ways = {
        "scan": lambda: tfrecord.scan(data, path="dir/f", offset=1000, first_record=50),
        "scan_file": lambda: read_all(data),
    }
    if len(data) == known[-1]:
        ways["unframe"] = lambda: tfrecord.unframe(data, known, path="dir/f", offset=1000, first_record=50)
    for name, way in ways.items():
        if isinstance(expected, list):
            way()
            continue
        offset, record, problem = expected
        with pytest.raises(CorruptRecordError) as error:
            way()
        base = (0, 0) if name == "scan_file" else (1000, 50)
        assert (error.value.offset, error.value.record) == (offset + base[0], record + base[1])
        assert problem in str(error.value)
        assert error.value.path in str(error.value)


def test_every_flip_of_a_byte_is_found():
    records = SMALL * 2
    data = slow_write(records)
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        assert not isinstance(slow_read(damaged), list)
        check_against_slow_reader(bytes(damaged), records)


def test_every_cut_is_found_or_is_between_records():
    records = SMALL * 2
    data = slow_write(records)
    for end in range(len(data)):
        check_against_slow_reader(data[:end], records)
        if end not in offsets_of(records):
            assert not isinstance(slow_read(data[:end]), list)


@cases(200)
@given(st.binary(max_size=100), st.integers(0, 5))
def test_garbage_ends_as_with_the_slow_reader(garbage, good):
    check_against_slow_reader(slow_write(SMALL[:good]) + garbage, SMALL[:good])


@pytest.mark.parametrize("chunk_size", [10, 30, 100, 10_000])
@pytest.mark.parametrize("check", [True, False])
def test_scan_file_yields_all_before_the_bad_one(chunk_size, check):
    records = SMALL * 3
    data, places = slow_write(records), offsets_of(records)
    for bad in range(len(records)):
        for place in (places[bad] + 9, places[bad + 1] - 1):  # CRC of the length, CRC of the data
            damaged = bytearray(data)
            damaged[place] ^= 1
            found = []
            if place == places[bad + 1] - 1 and not check:
                assert read_all(bytes(damaged), chunk_size, check=False) == records
                continue
            with pytest.raises(CorruptRecordError):
                read_all(bytes(damaged), chunk_size, found, check=check)
            assert found == records[:bad]


@pytest.mark.parametrize("length", [2**60, 2**63, 2**64 - 1, 2**64 - 16, 1000])
@pytest.mark.parametrize("right_crc", [True, False])
@pytest.mark.parametrize("check", [True, False])
def test_a_hostile_length_is_an_error_and_allocates_nothing(length, right_crc, check):
    header = struct.pack("<Q", length)
    header += struct.pack("<I", slow_mask(header) ^ (not right_crc))
    data = slow_write(SMALL) + header + bytes(200)
    expected = "bytes and 4 of CRC, but only 200 are left" if right_crc else "length CRC is 0x"
    start = len(slow_write(SMALL))
    place = {"path": "f", "offset": start, "record": 4}
    with raises_with(CorruptRecordError, **place) as error:
        tfrecord.scan(data, path="f")
    assert expected in error.value.problem
    reader = BytesReader(data)
    with raises_with(CorruptRecordError, **place) as error:
        list(tfrecord.scan_file(reader, "f", chunk_size=64, check=check))
    assert expected in error.value.problem
    assert all(stop - start <= 64 for start, stop in reader.calls)
    with pytest.raises(CorruptRecordError):
        tfrecord.unframe(data, [start, start + 256], path="f")


@pytest.mark.parametrize("is_good", [True, False])
def test_a_large_record_is_checked_in_pieces(monkeypatch, is_good):
    monkeypatch.setattr(tfrecord, "LARGE_BYTES", 200)
    monkeypatch.setattr(tfrecord, "PIECE_BYTES", 90)
    records = [*SMALL, bytes(range(256)) * 4, *SMALL]
    data = bytearray(slow_write(records))
    start = len(slow_write(SMALL))
    data[start + 700] ^= not is_good
    reader, found = BytesReader(bytes(data)), []
    if is_good:
        found += [one for chunk in tfrecord.scan_file(reader, "f", chunk_size=64) for one in chunk.records()]
        assert found == records
        return
    with pytest.raises(CorruptRecordError, match="data CRC is 0x") as error:
        found.extend(one for chunk in tfrecord.scan_file(reader, "f", chunk_size=64) for one in chunk.records())
    assert (found, error.value.offset, error.value.record) == (SMALL, start, len(SMALL))
    assert max(stop - start for start, stop in reader.calls) <= 90


def test_error_text():
    data = bytearray(slow_write([b"abc", b"abcdef"]))
    data[19 + 12] ^= 0xFF
    with pytest.raises(CorruptRecordError) as error:
        tfrecord.scan(data, path="/d/x.tfrecord", offset=100, first_record=7)
    got, stored = slow_mask(data[31:37]), slow_mask(b"abcdef")
    assert str(error.value) == (
        f"/d/x.tfrecord, byte 119 (record 8): data CRC is {got:#010x}, stored {stored:#010x}. "
        "The file is damaged; rebuild or restore it"
    )


@pytest.mark.parametrize("shift", [[0, 1], [1, 0], [-5, 0], [0, -1], [0, -20], [0, 900], [900, 900]])
def test_offsets_of_another_file_are_an_error(shift):
    records = [b"hello"] * 5
    data = slow_write(records)
    places = offsets_of(records)
    places[-2:] += shift
    with pytest.raises(CorruptRecordError) as error:
        tfrecord.unframe(data, places, path="f")
    assert error.value.record >= 3


def test_scan_file_begins_anywhere_and_reads_no_byte_before():
    records = [bytes([i]) * i for i in range(50)]
    data, places = slow_write(records), offsets_of(records)
    reader = BytesReader(data)
    chunks = list(tfrecord.scan_file(reader, "f", start=int(places[20]), first_record=20, chunk_size=100))
    assert chunks[0].first_record == 20
    assert [bytes(record) for chunk in chunks for record in chunk.records()] == records[20:]
    assert min(start for start, _ in reader.calls) == places[20]


def test_scan_file_reads_a_bounded_number_of_bytes():
    records = [b"x" * 50] * 100 + [b"y" * 500] + [b"z" * 50] * 10
    reader = BytesReader(slow_write(records))
    assert sum(len(chunk.records()) for chunk in tfrecord.scan_file(reader, "f", chunk_size=300)) == len(records)
    assert max(stop - start for start, stop in reader.calls) == 516
    assert sum(stop - start for start, stop in reader.calls) < 2 * reader.size


@pytest.mark.filterwarnings("ignore")
def test_beam_reads_ours_and_we_read_beams(monkeypatch):
    tfrecordio = pytest.importorskip("apache_beam.io.tfrecordio")
    monkeypatch.setattr(tfrecordio._default_crc32c_fn, "fn", crc32c.crc32c)  # it finds none of those it knows
    codec = tfrecordio._TFRecordUtil
    records = [*SMALL, bytes(range(256)) * 300]
    ours = io.BytesIO(b"".join(tfrecord.frame_all(records)))
    assert [codec.read_record(ours) for _ in records] == records
    assert codec.read_record(ours) is None
    theirs = io.BytesIO()
    for record in records:
        codec.write_record(theirs, record)
    assert theirs.getvalue() == ours.getvalue()


def test_reads_a_file_that_tensorflow_wrote(request):
    path = next(request.config.rootpath.joinpath("tests/data/tfds/spec_inter").rglob("*.tfrecord-*"))
    data = path.read_bytes()
    records = read_all(data, chunk_size=100)
    assert records == slow_read(data)
    assert b"".join(tfrecord.frame_all(records)) == data
