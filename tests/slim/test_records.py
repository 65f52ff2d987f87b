"""Readers of TFRecords and lines, against the records that were written."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets import storage
from beam_datasets.errors import CorruptRecordError
from beam_datasets.formats import tfrecord
from beam_datasets.slim import TextLineReader, TFRecordReader, provider
from tests.cases import cases

PACK = {None: lambda data: data, "gzip": gzip.compress}
RECORDS = [b"", b"one", bytes(range(99)), b"x" * 70, b"last"]
LINES = [b"one", b"", b"two \xff", b"three\rfour", b"five"]
TEXT = b"one\n\r\ntwo \xff\r\nthree\rfour\nfive"


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(provider, "CHUNK_BYTES", 37)


def write(path, data):
    storage.write_bytes(path, data)
    return str(path)


CASES = [
    (kind, compression, data, records)
    for compression in PACK
    for kind, data, records in [
        (TFRecordReader, b"".join(tfrecord.frame_all(RECORDS)), RECORDS),
        (TextLineReader, TEXT, LINES),
        (TextLineReader, TEXT + b"\n", LINES),
        (TFRecordReader, b"", []),
        (TextLineReader, b"", []),
    ]
]


@pytest.mark.parametrize("kind, compression, data, records", CASES)
def test_records_from_any_of_them_on(tmp_path, kind, compression, data, records):
    path = write(tmp_path / "f", PACK[compression](data))
    reader = kind(compression)
    found = list(reader.records(path))
    assert [record for _, record in found] == records
    assert [place.number for place, _ in found] == list(range(len(records)))
    assert [place.start for place, _ in found] == [0, *(place.stop for place, _ in found)][: len(found)]
    for i, (place, _) in enumerate(found):
        assert list(reader.records(path, place.number, place.start)) == found[i:]
    assert list(reader.records(path, len(records), len(data))) == []


@pytest.mark.parametrize("compression", PACK)
def test_header_lines(tmp_path, compression):
    path = write(tmp_path / "f", PACK[compression](TEXT))
    reader = TextLineReader(compression, skip_header_lines=2)
    found = list(reader.records(path))
    assert [record for _, record in found] == LINES[2:]
    place = found[1][0]
    assert list(reader.records(path, place.number, place.start)) == found[1:]
    assert list(TextLineReader(compression, 9).records(path)) == []


@cases(60)
@given(st.lists(st.binary(max_size=300), max_size=8), st.data())
def test_compressed_files_may_be_joined(tmp_path_factory, records, data):
    whole = b"".join(tfrecord.frame_all(records))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=3)))
    parts = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)])]
    path = write(tmp_path_factory.mktemp("joined") / "f", b"".join(gzip.compress(part) for part in parts))
    assert [record for _, record in TFRecordReader("gzip").records(path)] == records


@pytest.mark.parametrize("compression", PACK)
def test_a_cut_file_is_an_error_or_ends_between_records(tmp_path, compression):
    data = PACK[compression](b"".join(tfrecord.frame_all(RECORDS)))
    ends = [0]
    for record in RECORDS:
        ends.append(ends[-1] + len(record) + tfrecord.OVERHEAD)
    for stop in range(1, len(data)):
        path = write(tmp_path / "f", data[:stop])
        if compression is None and stop in ends:
            assert len(list(TFRecordReader().records(path))) == ends.index(stop)
            continue
        with pytest.raises(CorruptRecordError, match="/f, byte ") as error:
            list(TFRecordReader(compression).records(path))
        assert error.value.path == path


@pytest.mark.parametrize("compression", PACK)
def test_damage_names_byte_and_record(tmp_path, compression):
    data = bytearray(b"".join(tfrecord.frame_all(RECORDS)))
    second = len(RECORDS[0]) + tfrecord.OVERHEAD
    for place, text in [(second + 13, "data CRC"), (second + 2, "length CRC"), (second + 9, "length CRC")]:
        damaged = bytearray(data)
        damaged[place] ^= 1
        path = write(tmp_path / "f", PACK[compression](damaged))
        with pytest.raises(CorruptRecordError, match=rf"byte {second} \(record 1\): {text}"):
            list(TFRecordReader(compression).records(path))


def test_damaged_compression(tmp_path):
    data = bytearray(gzip.compress(b"".join(tfrecord.frame_all(RECORDS))))
    data[-6] ^= 1
    path = write(tmp_path / "f", bytes(data))
    with pytest.raises(CorruptRecordError, match="the compressed file cannot be decompressed"):
        list(TFRecordReader("gzip").records(path))


@pytest.mark.parametrize("kind", [TFRecordReader, TextLineReader])
@pytest.mark.parametrize("compression", PACK)
def test_a_file_that_was_replaced_by_a_shorter_one(tmp_path, kind, compression):
    path = write(tmp_path / "f", PACK[compression](tfrecord.frame(b"x\n")))
    with pytest.raises(CorruptRecordError, match="the file ends at byte 18, before byte 999"):
        next(kind(compression).records(path, 5, 999))


def test_compression_is_checked_at_birth():
    assert TFRecordReader("GZIP") == TFRecordReader("gzip")
    assert TFRecordReader("") == TFRecordReader()
    with pytest.raises(ValueError, match="compression must be 'gzip' or None, got 'bz2'"):
        TextLineReader("bz2")
    with pytest.raises(FileNotFoundError):
        list(TFRecordReader("gzip").records("/no/such/file"))
