"""Headers of Parquet pages that declare more bytes than there are: refused before pyarrow allocates them."""

import io
import itertools
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_datasets.errors import InputError
from beam_datasets.intake import parquet_pages
from beam_datasets.intake.parquet import ParquetContent
from beam_datasets.intake.parquet_footer import column_chunks, page_header
from beam_datasets.limits import VARIABLE
from tests.facts import raises_with

NUM_ROWS = 1000
GIB = 1 << 30


def varint(number):
    """Returns an unsigned number of Thrift's compact protocol."""
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def header_of(size, stored_size, num_values, length):
    """Returns the header of a data page without levels of repetition, padded to a length by a field that is unknown."""
    i32, binary, struct = 5, 8, 12
    inner = b"".join(bytes([0x10 | i32]) + varint(2 * number) for number in (num_values, 0, 3, 3)) + b"\0"
    head = b"".join(bytes([0x10 | i32]) + varint(2 * number) for number in (0, size, stored_size))
    head += bytes([0x20 | struct]) + inner
    padding = length - len(head) - 3
    assert 0 <= padding < 128
    return head + bytes([0x40 | binary]) + varint(padding) + bytes(padding) + b"\0"


def declaring(size, *, compression="gzip"):
    """Returns a Parquet file with one page, which declares this many bytes when it is decompressed."""
    stream = io.BytesIO()
    table = pa.table({"x": pa.array([b"0123456789" * 3] * NUM_ROWS)})
    pq.write_table(table, stream, compression=compression, use_dictionary=False, write_page_checksum=False)
    data = stream.getvalue()
    [[chunk]] = column_chunks(data[-8 - int.from_bytes(data[-8:-4], "little") : -8])
    old = page_header(data[chunk.start :])
    new = header_of(size or old.size, old.stored_size, NUM_ROWS, old.header_size)
    assert page_header(new).size == (size or old.size)
    return data[: chunk.start] + new + data[chunk.start + old.header_size :]


def read(data, path="in/a.parquet"):
    """Reads a file in the process, and returns its rows."""
    content = ParquetContent(io.BytesIO(data), path, len(data))
    return [value for batch in content.batches(0, ["x"]) for value in batch.column(0).to_pylist()]


def peak():
    """Returns the greatest number of bytes that pyarrow has allocated at once in this process."""
    return pa.default_memory_pool().max_memory() or 0


@pytest.mark.parametrize("path", ["in/a.parquet", "s3://bucket/a.parquet"])
@pytest.mark.parametrize("compression", ["gzip", "snappy", "zstd", "brotli"])
def test_a_page_that_declares_gigabytes_is_refused_before_they_are_allocated(compression, path):
    assert read(declaring(0, compression=compression)) == [b"0123456789" * 3] * NUM_ROWS
    before = peak()
    with raises_with(InputError, path=path, offset=4, got=re.compile("2,147,483,647$")):
        read(declaring(2 * GIB - 1, compression=compression), path)
    assert peak() - before < GIB


def test_a_page_of_more_than_the_limit_is_read_if_the_limit_is_raised(monkeypatch):
    monkeypatch.setattr(parquet_pages, "MAX_PAGE_BYTES", 20_000)
    monkeypatch.setattr(parquet_pages, "_MAX_TRUSTED_BYTES", 10_000)
    with pytest.raises(
        InputError, match="a page of the file declares 34007 bytes when it is decompressed, more than 20,000"
    ) as error:
        read(declaring(0))
    assert f"{VARIABLE}=34007" in str(error.value)
    monkeypatch.setenv(VARIABLE, "34007")
    assert len(read(declaring(0))) == NUM_ROWS


def test_the_head_of_a_column_is_checked():
    data = declaring(2 * GIB - 1)
    with raises_with(InputError, path="a.parquet", offset=4, expected=re.compile("page")):
        list(ParquetContent(io.BytesIO(data), "a.parquet", len(data)).head("x"))


@pytest.mark.parametrize(
    "version, dictionary, page_size", [*itertools.product(("1.0", "2.0"), (True, False), (64, 1 << 20))]
)
def test_all_pages_are_seen_whatever_is_read(monkeypatch, version, dictionary, page_size):
    """The sizes that are checked are those of all pages of the columns that are read, each once."""
    sizes = []
    monkeypatch.setattr(
        parquet_pages.PageLimitedStream, "_check_size", lambda self, header, chunk, at: sizes.append(at)
    )
    stream = io.BytesIO()
    table = pa.table({"x": [n % 7 for n in range(3000)], "y": [str(n) for n in range(3000)]})
    options = {"data_page_version": version, "use_dictionary": dictionary, "data_page_size": page_size}
    pq.write_table(table, stream, row_group_size=1100, **options)
    data = stream.getvalue()
    content = ParquetContent(io.BytesIO(data), "s3://bucket/a.parquet", len(data))
    rows = [row for group in range(3) for batch in content.batches(group, ["x", "y"]) for row in batch.to_pylist()]
    assert rows == table.to_pylist()
    expected = []
    for chunk in itertools.chain(*content.chunks):
        position = chunk.start
        while position < chunk.start + chunk.stored_size:
            header = page_header(data[position:])
            expected.append(position)
            position += header.header_size + header.stored_size
    assert sorted(sizes) == sorted(expected)
    assert len(set(sizes)) == len(sizes)


def test_reads_of_a_few_bytes_in_any_order_meet_each_page_once(monkeypatch):
    sizes = []
    monkeypatch.setattr(
        parquet_pages.PageLimitedStream, "_check_size", lambda self, header, chunk, at: sizes.append(at)
    )
    stream = io.BytesIO()
    pq.write_table(pa.table({"x": list(range(5000))}), stream, use_dictionary=False, data_page_size=500)
    data = stream.getvalue()
    content = ParquetContent(io.BytesIO(data), "a.parquet", len(data))
    limited = parquet_pages.PageLimitedStream(io.BytesIO(data), "a.parquet")
    limited.watch(content.chunks)
    for start in [*range(0, len(data), 7), *range(len(data), 0, -1000)]:
        limited.seek(start)
        assert limited.read(7) == data[start : start + 7]
        assert limited.tell() == min(start + 7, len(data))
    assert len(sizes) == len(set(sizes)) > 3
