"""The longest row of a column chunk: pyarrow, which reads all values, is the oracle."""

import contextlib
import io
import itertools
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_datasets.errors import InputError
from beam_datasets.intake import parquet_rows
from beam_datasets.intake.parquet import MAX_BATCH, ParquetContent
from beam_datasets.intake.parquet_footer import ColumnChunk, PageHeader
from beam_datasets.intake.parquet_rows import UnknownLevelsError, longest_row, num_values_of_pages
from tests.cases import repeated

OPTIONS = [
    {"compression": compression, "data_page_version": version, "use_dictionary": dictionary, "data_page_size": size}
    for compression, version, dictionary, size in itertools.product(
        ("NONE", "SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4"), ("1.0", "2.0"), (True, False), (64, 1 << 20)
    )
]


def lists(draw):
    """Returns rows of lists: None, empty, short, or long, with equal or different values."""
    return draw.choices([None, [], [1], [7] * 5000, list(range(300)), [None, 2]], [1, 3, 3, 0.2, 0.5, 1], k=2000)


def written(rows, kind, **options):
    file = io.BytesIO()
    table = pa.table({"x": pa.array(rows, kind)})
    pq.write_table(table, file, row_group_size=1500, **options)
    return file.getvalue()


def number_of_values(value):
    """Returns the number of values that a row takes in Parquet: at least one for each list."""
    return max(1, sum(map(number_of_values, value))) if isinstance(value, list) else 1


def content_of(data, path="in/a.parquet"):
    return ParquetContent(io.BytesIO(data), str(path), len(data))


@pytest.mark.parametrize("options", OPTIONS[:: max(1, round(12 / repeated(12)))][::5], ids=str)
@pytest.mark.parametrize("depth", [1, 2])
def test_longest_rows(options, depth):
    draw = random.Random(str(options))
    rows = lists(draw)
    kind = pa.list_(pa.int64())
    if depth == 2:
        rows = [draw.choice([None, [], [row], [row, [3]], [row] * 9]) for row in rows]
        kind = pa.list_(kind)
    content = content_of(data := written(rows, kind, **options))
    level = content._file.schema.column(0).max_repetition_level
    assert level == depth
    for group, [chunk] in enumerate(content.chunks):
        in_group = rows[group * 1500 : (group + 1) * 1500]
        assert longest_row(io.BytesIO(data), chunk, level) == max(map(number_of_values, in_group))
        assert num_values_of_pages(io.BytesIO(data), chunk) == sum(map(number_of_values, in_group))


def test_levels_that_are_packed_in_the_old_way():
    levels = [0, 1, 1, 0, 0, 1, 0, 1, 1, 1]
    packed = int("".join(map(str, levels)).ljust(16, "0"), 2).to_bytes(2, "big")
    header = PageHeader(0, 2, 2, num_values=10, level_encoding=4)
    [starts] = parquet_rows._levels_of_page(header, packed, ColumnChunk(), 1)
    assert starts.tolist() == [level == 0 for level in levels]


def test_a_long_row_between_empty_ones_is_refused(tmp_path, monkeypatch):
    """Their average is small; memory for the values is not taken."""
    rows = [[]] * 1000 + [[7] * 200_000] + [[]] * 1000
    path = tmp_path / "a.parquet"
    path.write_bytes(data := written(rows, pa.list_(pa.int64())))
    content = content_of(data, path)
    assert [batch.num_rows for batch in content.batches(0, ["x"])] == [MAX_BATCH, 1500 - MAX_BATCH]
    monkeypatch.setattr("beam_datasets.intake.parquet.MAX_LIST", 100_000)
    with pytest.raises(InputError, match=r"a.parquet, row group 0, column 'x': a row has 200000 values, more than"):
        next(content.batches(0, ["x"]))
    assert sum(batch.num_rows for batch in content.batches(1, ["x"])) == 501
    monkeypatch.setenv("BEAM_DATASETS_MAX_ELEMENTS", "200000")
    assert sum(batch.num_rows for batch in content.batches(0, ["x"])) == 1500


def test_long_rows_are_read_one_at_a_time(tmp_path, monkeypatch):
    """Also those between empty rows, if all of them together may not fit in memory."""
    path = tmp_path / "a.parquet"
    path.write_bytes(data := written([[7] * 5000] * 40 + [[]] * 1400, pa.list_(pa.int64())))
    monkeypatch.setattr("beam_datasets.intake.parquet.MAX_LIST", 50_000)
    monkeypatch.setattr("beam_datasets.intake.parquet.MAX_BATCH_BYTES", 8 * 5000 * 2)
    assert max(batch.num_rows for batch in content_of(data, path).batches(0, ["x"])) == 2


def varint(number, size):
    """Returns an integer of Thrift in so many bytes."""
    return bytes([(number * 2) >> 7 * i & 0x7F | 0x80 * (i < size - 1) for i in range(size)])


def test_pages_with_more_values_than_the_footer_declares(tmp_path):
    """pyarrow reads them all, whatever the footer says, so that its number is no limit."""
    data = written([[], [7] * 100_000], pa.list_(pa.int64()), write_statistics=False)
    before, stated, after = data.rpartition(varint(100_001, 3))
    assert stated
    path = tmp_path / "a.parquet"
    path.write_bytes(data := before + varint(3, 3) + after)
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).num_values == 3
    assert pq.read_table(path)["x"].to_pylist()[1] == [7] * 100_000
    with pytest.raises(InputError, match=r"column 'x': expected 3 values, got 100001 in its pages\. The file"):
        next(content_of(data, path).batches(0, ["x"]))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_damaged_pages(version, tmp_path, monkeypatch):
    """Levels that cannot be read leave the number of values in the row group as the limit."""
    data = written(lists(random.Random(1)), pa.list_(pa.int64()), data_page_version=version)
    [[chunk], _] = content_of(data).chunks
    for at in (*range(4, 60), *random.Random(2).sample(range(60, len(data) - 4), repeated(100))):
        damaged = data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
        with contextlib.suppress(UnknownLevelsError):
            assert longest_row(io.BytesIO(damaged), chunk, 1) > 0
    path = tmp_path / "a.parquet"
    path.write_bytes(data[:4] + bytes(200) + data[204:])
    monkeypatch.setattr("beam_datasets.intake.parquet.MAX_LIST", 1000)
    with pytest.raises(InputError, match=r"a.parquet, row group 0, column 'x': a row may have \d+ values, more than"):
        next(content_of(path.read_bytes(), path).batches(0, ["x"]))
