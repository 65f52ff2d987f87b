"""Parquet files that are damaged, encrypted or odd: pyarrow writes them, and they are patched by byte."""

import io
import random
import re
import struct

import pytest

from beam_datasets.errors import InputError
from beam_datasets.intake.parquet import MAX_BATCH_BYTES, ParquetContent
from beam_datasets.intake.parquet_footer import ColumnChunk, column_chunks
from tests.facts import raises_with
from tests.parquet_files import encrypted, written

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = 777  # as a varint, zigzag 0x92 0x0c, it is found in a footer


def footer_of(data):
    [size] = struct.unpack("<I", data[-8:-4])
    return data[-8 - size : -8]


def with_footer(data, footer):
    """Returns a file with another footer of the same size."""
    assert len(footer) == len(footer_of(data))
    return data[: -8 - len(footer)] + footer + data[-8:]


def opened(data, path="in/a.parquet"):
    return ParquetContent(io.BytesIO(data), path, len(data))


def rows_read(data, *names):
    content = opened(data)
    found = []
    for group in range(len(content.groups)):
        for batch in content.batches(group, names or content.schema.names):
            found += batch.to_pylist()
    return found


@pytest.mark.parametrize(
    "change, why",
    [
        (lambda data: b"", r"\(0 bytes\): it is empty"),
        (lambda data: b"id,n\n1,2\n", r"\(9 bytes\): it is CSV. Build it as such: `beam-datasets build csv`"),
        (lambda data: b"some words", r"\(10 bytes\): Parquet magic bytes not found"),
        (lambda data: data[:4], r"smaller than the minimum|is not a Parquet file \(4 bytes\)"),
        (lambda data: data[:-5], "its end is missing; get it again"),
        (lambda data: data[: len(data) // 2], "its end is missing; get it again"),
        (lambda data: data[:-4] + b"PARE", "it is encrypted; write it without encryption"),
        (lambda data: b"PARE" + data[4:-4] + b"PARE", "it is encrypted; write it without encryption"),
        (lambda data: data[:-8] + b"\xff\xff\xff\x7f" + data[-4:], "smaller than"),
        (lambda data: data[:-8] + struct.pack("<I", 3) + data[-4:], "deserialize thrift"),
        (
            lambda data: b"ARROW1\0\0" + data[8:-4] + b"ROW1",
            r"it is an Arrow IPC file \(Feather\). Write it as Parquet",
        ),
        (lambda data: b"\x1f\x8b\x08" + data[3:-4] + b"abcd", "it is compressed by gzip; decompress it"),
        (lambda data: data.replace(b"text", b"te\xb3t"), r"the name b'te\\xb3t' of a column is not UTF-8; rename it"),
    ],
)
def test_what_is_no_parquet_file(change, why):
    data = change(written({"id": [1, 2], "text": ["a", "b"]}, store_schema=False))
    with pytest.raises(InputError, match=rf"^in/a\.parquet is not a Parquet file .*{why}") as caught:
        opened(data)
    assert "\n" not in str(caught.value)


def test_a_damaged_schema_of_arrow():
    """Columns of 16 bytes are not taken for integers of 128 bits; with Parquet's own schema, the file can be read."""
    data = written({"hash": pa.array([b"x" * 16], pa.binary(16)), "text": ["a"]})
    start = data.index(b"ARROW:schema")
    num_damaged = 0
    for place in range(start + 20, start + 200, 20):
        try:
            opened(data[:place] + bytes([data[place] ^ 0x15]) + data[place + 1 :])
        except InputError as error:
            num_damaged += 1
            assert "its schema of Arrow cannot be read: " in str(error)  # noqa: PT017
            assert "integers of up to" not in str(error)  # noqa: PT017
    assert num_damaged > 3


def test_integers_of_128_bits():
    """The error names their columns, and its advice works."""
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"id": [1], "x": pl.Series([2**70], dtype=pl.Int128)})

    def content_of(frame):
        frame.write_parquet(stream := io.BytesIO())
        return opened(stream.getvalue())

    path, advice = "in/a.parquet", re.compile(r"cast\(pl\.String\)")
    with raises_with(InputError, path=path, got=re.compile("in the column 'x'$"), advice=advice):
        content_of(frame)
    nested = frame.select("id", pl.struct("x").alias("s"), pl.concat_list("x").alias("l"))
    with raises_with(InputError, path=path, got=re.compile(r"in the column 's\.x' or 'l\.list\.element'$")):
        content_of(nested)
    assert content_of(frame.with_columns(pl.col("x").cast(pl.String))).num_rows == 1


def test_compressed_as_a_whole():
    class NoSeek(io.BytesIO):
        def seekable(self):
            return False

        def seek(self, *_):
            raise io.UnsupportedOperation("seek")

    with pytest.raises(InputError, match=r"a\.parquet\.gz is not .* compressed by gzip; decompress it"):
        ParquetContent(NoSeek(b"..."), "in/a.parquet.gz", 3)


def places_of_number(footer):
    """Returns where a footer has ROWS."""
    return [i for i in range(len(footer)) if footer[i : i + 2] == b"\x92\x0c"]


@pytest.mark.parametrize("number", [0, 776, 778])
@pytest.mark.parametrize("which", [0, -1], ids=["footer", "row group"])
def test_declared_rows_that_differ(which, number):
    data = written({"x": range(ROWS)})
    footer = bytearray(footer_of(data))
    place = places_of_number(footer)[which]
    footer[place : place + 2] = bytes([2 * number & 0x7F | 0x80, 2 * number >> 7])
    numbers = {"expected": re.compile(r"^\d+ rows"), "got": re.compile(r"^\d+ in its 1 row")}
    with raises_with(InputError, path="in/a.parquet", **numbers):
        opened(with_footer(data, bytes(footer)))


@pytest.mark.parametrize("number", [776, 778])
def test_declared_rows_that_are_not_those_of_the_pages(number):
    data = written({"x": range(ROWS), "y": [["a"]] * ROWS})
    footer, places = footer_of(data), places_of_number(footer_of(data))
    other = bytes([2 * number & 0x7F | 0x80, 2 * number >> 7])
    for place in (places[0], places[-1]):
        footer = footer[:place] + other + footer[place + 2 :]
    changed = with_footer(data, footer)
    assert opened(changed).num_rows == number
    with pytest.raises(InputError, match=rf"row group 0, column 'x': expected {number} rows, got 777 values"):
        opened(changed).chunks  # noqa: B018
    if number > ROWS:
        with pytest.raises(InputError, match=rf"row group 0 .*, column 'y': expected {number} rows, got 777 rows"):
            rows_read(changed, "y")
    assert len(rows_read(data)) == ROWS


def test_columns_of_different_lengths():
    data = written({"x": range(ROWS), "y": ["a"] * ROWS})
    footer = bytearray(footer_of(data))
    _, place, *_ = (place for place in places_of_number(footer) if footer[place - 1] == 0x16)  # of 64 bits
    footer[place : place + 2] = b"\x90\x0c"  # the number of values of x
    changed = with_footer(data, bytes(footer))
    with pytest.raises(InputError, match=r"column 'x': expected 777 rows, got 776 values"):
        opened(changed).chunks  # noqa: B018


def test_page_checksums_are_verified():
    data = written(
        {"x": range(100), "y": [5] * 100}, write_page_checksum=True, use_dictionary=False, compression="none"
    )
    place = data.index(struct.pack("<q", 50))
    damaged = data[:place] + b"\x33" + data[place + 1 :]
    with pytest.raises(InputError, match=r"row group 0 \(from row 0\), column 'x': expected 100 rows, .*CRC checksum"):
        rows_read(damaged)
    assert len(rows_read(damaged, "y")) == 100
    assert rows_read(data)[50] == {"x": 50, "y": 5}


_BY_ONE = pa.array(range(121), pa.int32())
_NESTINGS = {
    "none": lambda texts, other: texts,
    "struct": lambda texts, other: pa.StructArray.from_arrays([other, texts], ["t", "d"]),
    "list": lambda texts, other: pa.ListArray.from_arrays(_BY_ONE, _NESTINGS["struct"](texts, other)),
    "large_list": lambda texts, other: pa.LargeListArray.from_arrays(_BY_ONE, _NESTINGS["struct"](texts, other)),
    "fixed_size_list": lambda texts, other: pa.FixedSizeListArray.from_arrays(_NESTINGS["struct"](texts, other), 1),
    "list_view": lambda texts, other: pa.ListViewArray.from_arrays(
        _BY_ONE[:-1], pa.array([1] * 120, pa.int32()), _NESTINGS["struct"](texts, other)
    ),
    "map": lambda texts, other: pa.MapArray.from_arrays(_BY_ONE, other, texts),
    "struct in list in struct": lambda texts, other: pa.StructArray.from_arrays(
        [_NESTINGS["list"](texts, other)], ["l"]
    ),
    "extension": lambda texts, other: pa.ExtensionArray.from_storage(
        pa.opaque((storage := _NESTINGS["struct"](texts, other)).type, "t", "v"), storage
    ),
}
"""Kind of nesting -> function (dictionary of 120 texts, 120 other texts) -> column of 120 rows."""


@pytest.mark.parametrize("nesting", _NESTINGS)
def test_damaged_indices_of_a_dictionary(nesting, tmp_path):
    """pyarrow reads them, and raises an error, of another class, when a value is taken."""
    texts = pa.array(["a", "b", "c"] * 40).dictionary_encode()
    data = written({"s": _NESTINGS[nesting](texts, pa.array(["x"] * 120))}, compression="NONE")
    path = tmp_path / "a.parquet"
    num_damaged = 0
    for place in range(4, len(data) - 8 - len(footer_of(data))):
        changed = data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]
        try:
            table = pq.read_table(io.BytesIO(changed))
        except (OSError, pa.ArrowException, ValueError):
            continue
        try:
            table.validate(full=True)
        except pa.ArrowInvalid as error:
            if "indices" in str(error):
                num_damaged += 1
                path.write_bytes(changed)  # which lists of a fixed size are read from once more
                content = opened(changed, str(path))
                with pytest.raises(
                    InputError, match=rf"^{path}, row group 0 \(from row 0\), column 's': .* (?:[iI]ndex|[iI]ndices)"
                ):
                    list(content.batches(0, ["s"]))
                with pytest.raises(InputError, match=rf"^{path}"):
                    list(content.head("s"))
    assert num_damaged > 5


@pytest.mark.parametrize("nesting", _NESTINGS)
def test_text_that_is_not_utf8_beside_a_dictionary(nesting):
    """It was an error of all rows that follow, which --skip_bad left out."""
    texts = pa.array(["a", "b", None] * 40).dictionary_encode()
    other = pa.array([b"x"] * 50 + [b"\xff"] + [b"x"] * 69).cast(pa.string(), safe=False)
    table = pa.table({"id": range(120), "s": _NESTINGS[nesting](texts, other)})
    content = opened(written(table, row_group_size=40))
    batches = [batch for group in range(3) for batch in content.batches(group, ["id", "s"])]
    assert [number for batch in batches for number in batch.column("id").to_pylist()] == [*range(120)]
    columns = [batch.column("s") for batch in batches]
    if nesting == "list_view":  # which pyarrow does not cast
        columns, nesting = [column.flatten() for column in columns], "struct"
    if nesting == "extension":
        columns, nesting = [column.storage for column in columns], "struct"
    as_bytes = _NESTINGS[nesting](pa.array(["a", "b", None] * 40), other.view(pa.binary()))
    assert pa.concat_arrays([column.cast(as_bytes.type) for column in columns]).equals(as_bytes)


def test_damage_of_one_row_group():
    data = written(
        {"x": range(30)}, row_group_size=10, write_page_checksum=True, use_dictionary=False, compression="none"
    )
    place = data.index(struct.pack("<q", 15))
    content = opened(data[:place] + b"\x33" + data[place + 1 :])
    assert [batch.num_rows for group in (0, 2) for batch in content.batches(group, ["x"])] == [10, 10]
    with pytest.raises(InputError, match=r"row group 1 \(from row 10\), column 'x'"):
        list(content.batches(1, ["x"]))
    with raises_with(InputError, expected=re.compile("^4 "), got="3"):
        list(content.batches(3, ["x"]))


@pytest.mark.parametrize(
    "second", [{"x": range(ROWS)}, {"x": [1, 2]}, {"x": range(5 * ROWS)}], ids=["equal", "fewer", "more"]
)
def test_files_that_were_joined(second):
    """pyarrow reads the rows of one of the files."""
    options = {"write_page_index": True}
    first, joined = written({"x": range(ROWS)}, **options), written(second, **options)
    for data in (first, joined):
        opened(data).chunks  # noqa: B018
    with pytest.raises(InputError, match=r"^in/a\.parquet, ") as caught:
        rows_read(first + joined)
    if len(joined) <= len(first):
        assert caught.value.got == "several that were joined"
        assert caught.value.offset == len(first)


_FAKE_ENDS = [
    end + magic + b"PAR1"
    for end in (b"", bytes(4), b"\0\1\0\0\0", b"\x15\4\x19\0\4\0\0\0", b"\x1c\0\0\3\0\0\0", b"\xff\xff\xff\xff")
    for magic in (b"PAR1", b"PARE")
]


@pytest.mark.parametrize("end", _FAKE_ENDS)
def test_files_with_the_bytes_where_joined_files_meet(end):
    """They may be in statistics, page indexes and metadata; such files were refused."""
    values = [end * number + suffix for number in (1, 2, 60) for suffix in (b"", b"x")] * 3
    table = pa.table({"b": values, "x": range(18)}).replace_schema_metadata({"m" + str(end): end, "n": end * 99})
    for options in ({}, {"write_page_index": True}, {"use_dictionary": False, "store_schema": False}):
        for rows in (1, 18):
            data = written(table.slice(0, rows), **options)
            assert rows_read(data) == table.slice(0, rows).to_pylist()


def test_files_in_files():
    """Values that are joined files are in the page index, too."""
    small = written({"a": [1]}, store_schema=False)
    for value in (small * 2, small * 3, b"z" * 300 + small + b"PAR1"):
        for options in ({}, {"use_dictionary": False}, {"compression": "zstd"}):
            for num_rows in (1, 2, 50):
                data = written({"a": [value] * num_rows}, write_page_index=True, **options)
                assert rows_read(data) == [{"a": value}] * num_rows


def test_an_encrypted_file_that_was_joined():
    table, end = pa.table({"x": range(ROWS)}), {"a": range(3)}
    for options in ({"uniform_encryption": True}, {"plaintext_footer": True, "column_keys": {"k": ["x"]}}):
        first = encrypted(table, **options)
        with raises_with(InputError, path="in/a.parquet", got="several that were joined", offset=len(first)):
            opened(first + written(end)).chunks  # noqa: B018


@pytest.mark.parametrize("size", [1, 7, 100, 1 << 20])
def test_several_files_that_were_joined(size, monkeypatch):
    """Page indexes with the bytes where files meet precede and follow the place; these may be in two reads."""
    monkeypatch.setattr("beam_datasets.intake.parquet._SEARCH_BLOCK", size)
    odd = written({"x": [b"\0\0\0\0PAR1PAR1"] * 99}, write_page_index=True)
    for first, last in ((odd, odd), (written({"x": range(ROWS)}), odd), (odd * 2, odd), (odd, written({"x": []}))):
        with raises_with(InputError, path="in/a.parquet", got="several that were joined"):
            opened(first + last).chunks  # noqa: B018


def test_encrypted_columns():
    """Statistics of encrypted columns end the process if pyarrow is asked for them."""
    table = pa.table({"open": [1, None], "secret": [3, 4], "o": [{"x": 1, "y": 2}] * 2})
    content = opened(encrypted(table, column_keys={"k": ["secret", "o.y"]}, plaintext_footer=True))
    assert content.encrypted == {"secret", "o"}
    assert content.has_nulls(0)
    assert [batch.to_pydict() for batch in content.batches(0, ["open"])] == [{"open": [1, None]}]
    with raises_with(InputError, path="in/a.parquet", expected=re.compile("column 'secret'"), got="it encrypted"):
        list(content.batches(0, ["open", "secret"]))
    assert opened(written(table)).encrypted == frozenset()
    with pytest.raises(InputError, match="it is encrypted; write it without encryption"):
        opened(encrypted(table, column_keys={"k": ["secret"]}, plaintext_footer=False))


def test_statistics_are_those_of_pyarrow():
    columns = {
        "i": pa.array([1, None, -3, 4], pa.int32()),
        "s": ["a", None, None, ""],
        "o": [{"x": [1, None]}, None, {"x": []}, {"x": None}],
        "n": pa.nulls(4),
        "l": pa.array([2**40, -(2**40), 0, 1]),
    }
    for options in ({}, {"write_statistics": False}, {"row_group_size": 3}, {"compression": "none"}):
        data = written(columns, **options)
        content, metadata = opened(data), pq.read_metadata(io.BytesIO(data))
        for leaf in range(metadata.num_columns):
            found = [metadata.row_group(group).column(leaf) for group in range(metadata.num_row_groups)]
            known = all(column.is_stats_set and column.statistics.has_null_count for column in found)
            assert content.has_nulls(leaf) == (not known or any(column.statistics.null_count for column in found))
        expected = None if "write_statistics" in options else (-3, 4)
        assert content.bounds(0) == expected
        assert content.bounds(4) == (expected and (-(2**40), 2**40))
        assert content.bounds(1) is content.bounds(3) is None
    assert content.leaves == ["i", "s", "o", "n", "l"]


@pytest.mark.parametrize(
    "writer, unreliable",
    [
        (b"parquet-mr version 1.7.9 abcdefg", {"s", "u", "d"}),
        (b"parquet-mr version 1.9.0 abcdefg", {"s", "u"}),
        (b"parquet-mr version 1.12.0 abcdef", set()),
        (b"parquet-cpp version 1.2.9 abcdef", {"s", "u"}),
        (b"parquet-mr version 9.\xff.0 abcdefg", set()),
    ],
)
def test_statistics_of_old_writers(writer, unreliable):
    """As pyarrow has it: see PARQUET-251 and PARQUET-686."""
    columns = {
        "i": [1, 2],
        "s": ["a", "b"],
        "u": pa.array([1, 2], pa.uint32()),
        "d": pa.array([1, 2]).cast(pa.decimal128(25, 2)),
    }
    data = written(columns)
    made_by = pq.read_metadata(io.BytesIO(data)).created_by.encode()
    assert len(writer) == len(made_by)
    content = opened(data.replace(made_by, writer))
    assert {name for leaf, name in enumerate(columns) if content.has_nulls(leaf)} == unreliable


def test_footers_that_are_damaged():
    """Any change of a byte gives the chunks of some file, or a ValueError."""
    footer = footer_of(written({"x": [1, None], "o": [{"a": "b"}] * 2, "l": [[1], []]}, row_group_size=1))
    assert [len(columns) for columns in column_chunks(footer)] == [3, 3]
    rng = random.Random(3)
    outcomes = set()
    for place in range(len(footer)):
        changed = bytearray(footer)
        changed[place] ^= rng.randrange(1, 256)
        for data in (bytes(changed), footer[:place]):
            try:
                outcomes.add(type(column_chunks(data)))
            except ValueError as error:
                outcomes.add("the footer is damaged at its byte" in str(error))
    assert outcomes == {list, True}


@pytest.mark.parametrize("store_schema", [True, False])
def test_files_that_are_damaged(store_schema):
    """Any change of a byte of the footer is an InputError, or a file whose rows are as many as it declares."""
    columns = {
        "x": [1, None, 3],
        "s": ["a", "b", "c"],
        "o": [{"a": [1]}] * 3,
        "d": pa.array(["u"] * 3).dictionary_encode(),
    }
    data = written(columns, row_group_size=2, store_schema=store_schema)
    rng, problems = random.Random(5), 0
    for place in range(len(data) - 8 - len(footer_of(data)), len(data), 3):
        changed = bytearray(data)
        changed[place] ^= 1 << rng.randrange(8)
        try:
            content = opened(bytes(changed))
            assert all(isinstance(chunk, ColumnChunk) for columns in content.chunks for chunk in columns)
            for leaf in range(len(content.leaves)):
                content.has_nulls(leaf), content.bounds(leaf)
            assert len(rows_read(bytes(changed))) == content.num_rows
        except InputError as error:
            problems += "in/a.parquet" in str(error)
        except UnicodeDecodeError:  # of values, which the caller checks
            pass
    assert problems > 100


@pytest.mark.slow
def test_batches_of_large_rows():
    """Rows of many bytes are read few at once."""
    data = written({"x": [b"a" * (8 << 20)] * 20}, use_dictionary=False)
    assert max(batch.num_rows for batch in opened(data).batches(0, ["x"])) < 10
    assert sum(batch.num_rows for batch in opened(data).batches(0, [])) == 20


def test_lists_of_many_equal_values_take_few_rows_at_once(monkeypatch):
    """In the file they are a few bytes."""
    table = pa.table({"id": range(40), "x": [[7] * 200_000] * 40})
    pq.write_table(table, stream := io.BytesIO())
    assert len(stream.getvalue()) < 100_000
    content = opened(stream.getvalue())
    sizes = [batch.num_rows for batch in content.batches(0, ["id", "x"])]
    assert sum(sizes) == 40
    assert max(sizes) * 200_000 * 8 <= MAX_BATCH_BYTES + 200_000 * 8
    monkeypatch.setattr("beam_datasets.intake.parquet.MAX_LIST", 199_999)
    with pytest.raises(
        InputError, match=r"^in/a\.parquet, row group 0, column 'x': a row has 200000 values on average, more than"
    ):
        list(content.batches(0, ["x"]))
    assert sum(batch.num_rows for batch in content.batches(0, ["id"])) == 40


def test_long_lists_beside_lists_of_a_fixed_size(monkeypatch):
    """A column of a fixed size, for which a group is read again, must not hide why the other is refused."""
    table = pa.table({"y": [[1, 2, 3, 4, 5]], "x": pa.array([[1, 2]], pa.list_(pa.int64(), 2))})
    pq.write_table(table, stream := io.BytesIO())
    monkeypatch.setattr("beam_datasets.intake.parquet.MAX_LIST", 3)
    with pytest.raises(InputError, match=r"column 'y': a row has 5 values on average, more than 3"):
        list(opened(stream.getvalue()).batches(0, ["y", "x"]))
