"""Parquet files: complete reading, or an error that names the file, the row group and the column.

pyarrow reads the pages and verifies their checksums. It does not compare the numbers of rows that a file declares with
those that it reads, and wraps INT96 times outside of the years 1677 to 2262 around; so this module checks both. Each
exception of pyarrow becomes an InputError.
"""

from __future__ import annotations

import io
import re
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import BeamDatasetsError, InputError
from beam_datasets.extras import needs
from beam_datasets.intake.contents import HEAD_BYTES, other_content, text_format
from beam_datasets.intake.errors import foreign_errors, reason
from beam_datasets.intake.int96 import exact_times
from beam_datasets.intake.parquet_footer import ColumnChunk, column_chunks, columns_with_variants, is_footer
from beam_datasets.intake.parquet_pages import PageLimitedStream
from beam_datasets.intake.parquet_rows import UnknownLevelsError, has_pages, longest_row, num_values_of_pages
from beam_datasets.intake.signatures import PARQUET_PREFIX
from beam_datasets.intake.streams import codec_of, codec_of_content, open_bytes
from beam_datasets.limits import MAX_LIST, check_num_elements

if TYPE_CHECKING:
    from types import ModuleType
    from typing import BinaryIO

    import pyarrow


MAX_BATCH = 1024  # rows that are in memory at once
MAX_BATCH_BYTES = 64 << 20  # of such rows, as declared
_HEAD_ROWS = 16
_VALUE_BYTES = 8  # of a value in memory, about
_ENCRYPTED_MAGIC = b"PARE"
_MIN_SIZE = len(PARQUET_PREFIX) + 8  # bytes of a file that are neither pages nor a footer
_END_AND_START = re.compile(b"(?:%b|%b)%b" % (PARQUET_PREFIX, _ENCRYPTED_MAGIC, PARQUET_PREFIX))
"""The last bytes of a file, and the first of a file that is appended to it."""
_SEARCH_BLOCK = 1 << 20
_DAMAGED = "The file is damaged; write it again"

# Before these versions, statistics of types without a sign were wrong (PARQUET-686), and those of bytes (PARQUET-251).
_OLD_WRITER = re.compile(r"(parquet-mr|parquet-cpp) version (\d+)\.(\d+)")
_VERSIONS_WITHOUT_SIGN = {"parquet-mr": (1, 10), "parquet-cpp": (1, 3)}
_VERSIONS_WITHOUT_BYTES = {"parquet-mr": (1, 8), "parquet-cpp": (0, 0)}


class ParquetContent:
    """An open Parquet file.

    Attributes:
        path: path of the file.
        schema: the Arrow schema.
        leaves: for each column of values, of which a struct has several, the name of its column in the schema.
        num_rows: number of rows that the footer declares.
        groups: the number of rows that each row group declares.
    """

    def __init__(self, stream: BinaryIO, path: str, size: int) -> None:
        """Opens the file.

        Args:
            stream: its bytes.
            path: path of the file.
            size: in bytes, for errors.

        Raises:
            InputError: it is not a Parquet file, or declares numbers of rows that differ.
        """
        with needs("Parquet files need pyarrow", "files"):
            import pyarrow.parquet as pq
        self.path = path
        self._stream = PageLimitedStream(stream, path)
        try:
            self._file = _open_parquet(pq, self._stream)
            self.schema = self._file.schema_arrow
            self.leaves = [field.name for field in self.schema for _ in _leaf_types(field.type)]
            metadata = self._file.metadata
            self.num_rows: int = metadata.num_rows
            self.groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        except Exception as error:
            if wide_columns := _wide_integers(stream, error):
                raise InputError(
                    expected="integers of up to 64 bits",
                    got=f"a type of more, which pyarrow does not read, in the column {' or '.join(wide_columns)}",
                    advice="Write it as text, decimal numbers or int64, in Polars by `cast(pl.String)`",
                    path=path,
                ) from error
            problem = _explain_open_error(stream, path, error)
            raise InputError(f"{path} is not a Parquet file ({size} bytes): {problem}") from error
        self._check_declarations()

    def _check_declarations(self) -> None:
        """Raises InputError if declared numbers differ, or two columns have one name."""
        if twice := [repr(name) for name, count in Counter(self.schema.names).items() if count > 1]:
            raise InputError(f"the columns {', '.join(twice)} occur twice; rename them", path=self.path)
        if sum(self.groups) != self.num_rows or min(self.groups, default=0) < 0:
            raise InputError(
                expected=f"{self.num_rows} rows, as the footer declares",
                got=f"{sum(self.groups)} in its {len(self.groups)} row groups",
                advice=_DAMAGED,
                path=self.path,
            )
        if len(self.leaves) != self._file.metadata.num_columns:
            raise InputError(
                expected=f"{self._file.metadata.num_columns} columns of values",
                got=f"{len(self.leaves)} in the schema",
                advice=_DAMAGED,
                path=self.path,
            )

    # ------------------------------------------------------------------------------------------------------ statistics

    @cached_property
    def chunks(self) -> list[list[ColumnChunk]]:
        """The column chunks of each row group, in the order of `leaves`.

        Raises:
            InputError: the footer is damaged, or a column has more or fewer values than rows are declared.
        """
        for leaf in range(len(self.leaves)):
            self._check_values(leaf, [columns[leaf] for columns in self._declared_chunks])
        return self._declared_chunks

    @cached_property
    def _declared_chunks(self) -> list[list[ColumnChunk]]:
        """The column chunks of each row group, whose numbers of values are not compared with the rows.

        Raises:
            InputError: the footer is damaged.
        """
        try:
            row_groups = column_chunks(_footer_of(self._stream))
        except (ValueError, OSError) as error:
            raise InputError(expected="a Parquet file", got=f"an error: {reason(error)}", path=self.path) from error
        if [len(columns) for columns in row_groups] != [len(self.leaves)] * len(self.groups):
            raise InputError(f"expected {len(self.leaves)} columns in each row group. {_DAMAGED}", path=self.path)
        self._check_is_one_file(row_groups)
        return row_groups

    def _check_is_one_file(self, row_groups: Sequence[Sequence[ColumnChunk]]) -> None:
        """Raises InputError if another Parquet file precedes this one; pyarrow reads only one of the two.

        Then the end of one and the start of the other lie between the pages and the last footer, where a file has page
        indexes and Bloom filters at most. These may contain the same bytes, so the file before must have a footer, and
        the pages of the last file must be behind it.
        """
        chunks = [chunk for columns in row_groups for chunk in columns]
        readable = [chunk for chunk in chunks if chunk.num_values > 0 and not chunk.is_encrypted][:1]
        pages_end = max((chunk.start + chunk.stored_size for chunk in chunks), default=0)
        footer_start = self._stream.seek(0, 2) - 8 - len(_footer_of(self._stream))
        for offset in _offsets_of_joints(self._stream, pages_end, footer_start):
            moved = [replace(chunk, start=offset + chunk.start) for chunk in readable]
            if (
                offset + pages_end <= footer_start
                and _has_footer_before(self._stream, offset)
                and all(has_pages(self._stream, chunk) for chunk in moved)
            ):
                raise InputError(
                    expected="one Parquet file",
                    got="several that were joined",
                    advice="Join them with the library that wrote them, or give the original files",
                    path=self.path,
                    offset=offset,
                )

    def _check_values(self, leaf: int, chunks: Sequence[ColumnChunk]) -> None:
        """Raises InputError if a column has fewer or more values than its row groups have rows.

        Args:
            leaf: index of the column among the columns of values.
            chunks: the chunk of the column in each row group.
        """
        is_flat = self._file.schema.column(leaf).max_repetition_level == 0  # otherwise a list of several is one row
        for group, (chunk, num_rows) in enumerate(zip(chunks, self.groups)):
            is_enough = chunk.num_values == num_rows if is_flat else chunk.num_values >= num_rows
            if not is_enough and not chunk.is_encrypted:
                raise InputError(
                    f"{self.path}, row group {group}, column {self.leaves[leaf]!r}: expected {num_rows} rows, got "
                    f"{chunk.num_values} values. {_DAMAGED}"
                )

    @cached_property
    def encrypted(self) -> frozenset[str]:
        """The columns that cannot be read, because they are encrypted at least in part."""
        return frozenset(
            name for columns in self.chunks for name, chunk in zip(self.leaves, columns) if chunk.is_encrypted
        )

    @property
    def intervals(self) -> list[str]:
        """The columns that contain intervals of months, days and milliseconds, which pyarrow reads as 12 bytes."""
        schema = self._file.schema
        return [name for leaf, name in enumerate(self.leaves) if schema.column(leaf).converted_type == "INTERVAL"]

    @property
    def variants(self) -> frozenset[str]:
        """The columns that contain values of the logical type VARIANT, which pyarrow reads as structs of bytes.

        Raises:
            InputError: the footer is damaged.
        """
        columns = map(self._file.schema.column, range(len(self.leaves)))
        if not any(column.path.endswith(".metadata") for column in columns):  # avoids to read the footer again
            return frozenset()
        try:
            return columns_with_variants(_footer_of(self._stream))
        except (ValueError, OSError) as error:
            raise InputError(expected="a Parquet file", got=f"an error: {reason(error)}", path=self.path) from error

    def has_nulls(self, leaf: int) -> bool:
        """Returns whether the column of values at index `leaf` has nulls, or might have some, by its statistics."""
        if not self._has_reliable_statistics(leaf):
            return True
        return any(columns[leaf].num_nulls != 0 for columns in self.chunks)

    @cached_property
    def _writer_with_history(self) -> re.Match[str] | None:
        """The program (group 1) and its version (2, 3) that wrote the file, if old versions wrote wrong statistics."""
        try:
            return _OLD_WRITER.match(self._file.metadata.created_by or "")
        except UnicodeDecodeError:
            return None

    def _has_reliable_statistics(self, leaf: int) -> bool:
        """Returns whether statistics of column `leaf` can be trusted: some old writers wrote wrong ones."""
        writer = self._writer_with_history
        if writer is None:
            return True
        name, version = writer[1], (int(writer[2]), int(writer[3]))
        column = self._file.schema.column(leaf)
        is_bytes = column.physical_type in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
        has_sign = not (is_bytes or str(column.converted_type).startswith("UINT"))
        has_sign = has_sign or column.logical_type.type == "DECIMAL"
        if not has_sign and version < _VERSIONS_WITHOUT_SIGN[name]:
            return False
        return not is_bytes or version >= _VERSIONS_WITHOUT_BYTES[name]

    def bounds(self, leaf: int) -> tuple[int, int] | None:
        """Returns (least, greatest) value of a column of integers; None if not all row groups declare them.

        Args:
            leaf: the index of the column among the columns of values, as Parquet counts them.
        """
        formats = {"INT32": "<i", "INT64": "<q"}
        form = formats.get(self._file.schema.column(leaf).physical_type)
        values: list[int] = []
        for columns in self.chunks:
            declared_bounds = columns[leaf].bounds
            if (
                form is None
                or declared_bounds is None
                or {len(each) for each in declared_bounds} != {struct.calcsize(form)}
            ):
                return None
            values += [struct.unpack(form, each)[0] for each in declared_bounds]
        return (min(values), max(values)) if values else None

    # ---------------------------------------------------------------------------------------------------------- values

    def batches(self, group: int, names: Sequence[str]) -> Iterator[Any]:
        """Yields the `pyarrow.RecordBatch` objects of a row group.

        Columns of INT96 times are converted by `exact_times`.

        Args:
            group: the number of the row group.
            names: names of the columns.

        Raises:
            InputError: the row group is missing or damaged, or has another number of rows than it declares.
        """
        if group >= len(self.groups):
            raise InputError(expected=f"{group + 1} row groups or more", got=str(len(self.groups)), path=self.path)
        num_rows, start = self.groups[group], 0
        problem: Exception | None = None
        try:
            for batch in self._batches(group, names):
                yield self._with_exact_times(batch, group, start)
                start += batch.num_rows
        except BeamDatasetsError:
            raise
        except Exception as error:
            problem = error
        if problem is None and start == num_rows:
            return
        name, culprit = self._culprit(group, names)
        if "decrypt" in culprit and name in self.encrypted:
            raise InputError(
                expected=f"column {name!r} without encryption",
                got="it encrypted",
                advice="Write it again, or leave it out",
                path=self.path,
            ) from problem
        column = f", column {name!r}" if name is not None else ""
        description = culprit or (f"{start} rows" if problem is None else f"an error: {reason(problem)}")
        raise InputError(
            f"{self.path}, row group {group} (from row {sum(self.groups[:group]) + start}){column}: "
            f"expected {num_rows} rows, got {description.rstrip('.')}. {_DAMAGED}"
        ) from problem

    def head(self, name: str) -> Iterator[Any]:
        """Yields Arrow arrays of the values of a column, `_HEAD_ROWS` rows at a time, without reading ahead.

        Raises:
            InputError: the column is damaged.
        """
        import pyarrow.parquet as pq

        with foreign_errors(self.path, f"column {name!r}"):
            self._stream.watch(self._declared_chunks)
            file = _open_parquet(pq, self._stream, pre_buffer=False)
            for batch in file.iter_batches(_HEAD_ROWS, columns=[name]):
                _check_indices(batch.column(name))
                yield batch.column(name)

    def _batches(self, group: int, names: Sequence[str]) -> Iterator[Any]:
        """Yields the record batches of a row group with the types of `schema`; INT96 times are not converted.

        pyarrow does not read nulls among lists of a fixed size. Such columns are read as lists of any size, and cast.

        Args:
            group: the number of the row group.
            names: names of the columns.
        """
        start = 0
        num_values = self._values_per_row(group, names)
        self._stream.watch(self._declared_chunks)
        try:
            for batch in _read_row_group(self._file, group, names, num_values):
                yield batch
                start += batch.num_rows
        except Exception:  # pyarrow raises many classes; the second read raises if it was something else
            if not any(_has_fixed_lists(self.schema.field(name).type) for name in names):
                raise
            with self._second_stream() as stream:  # because pyarrow reads ahead in threads
                for batch in _read_row_group(_without_arrow_types(stream), group, names, num_values):
                    if batch.num_rows > start:
                        yield _cast(batch.slice(start), self.schema)
                    start = max(0, start - batch.num_rows)

    def _values_per_row(self, group: int, names: Sequence[str]) -> int:
        """Returns how many values a row has in all columns of these names together, on average or in the longest row.

        The longest row counts if the row group has so many values that a few of its rows might not fit in memory.

        Raises:
            InputError: a column has more values in a row than the limit; a few bytes can declare 2^31 equal values.
        """
        leaves = [
            (leaf, chunk.num_values) for leaf, chunk in zip(self.leaves, self._declared_chunks[group]) if leaf in names
        ]
        num_rows = max(1, self.groups[group])
        for name, num_values in leaves:
            problem = (
                f"{self.path}, row group {group}, column {name!r}: a row has {num_values // num_rows} values on average"
            )
            check_num_elements(num_values // num_rows, MAX_LIST, problem)
        average = int(sum(num_values for _, num_values in leaves) // num_rows)
        return max(average, self._longest_row(group, names))

    def _longest_row(self, group: int, names: Sequence[str]) -> int:
        """Returns the number of values in the longest row of a row group, in columns that need a check of each row.

        These are columns with more than MAX_LIST values: one long row may hide among empty ones, although the average
        is small. Their repetition levels are read twice. Returns 0 if there are no such columns, as in most files.

        Args:
            group: index of the row group.
            names: names of the columns.

        Raises:
            InputError: a row has more values than the limit; or the levels cannot be read, and it might have; or the
                pages of a column have more values than the footer declares.
        """
        longest_of_all, num_rows = 0, self.groups[group]
        for leaf, (name, chunk) in enumerate(zip(self.leaves, self._declared_chunks[group])):
            max_level = self._file.schema.column(leaf).max_repetition_level
            if name not in names or not max_level or chunk.is_encrypted:
                continue
            location = f"{self.path}, row group {group}, column {name!r}"
            self._check_pages(chunk, location)
            if chunk.num_values - num_rows < MAX_LIST:
                continue
            longest, verb = chunk.num_values - num_rows + 1, "may have"
            with suppress(UnknownLevelsError, InputError), open_bytes(self.path) as stream:  # pyarrow reads in its own
                longest, verb = longest_row(stream, chunk, max_level), "has"
            check_num_elements(longest, MAX_LIST, f"{location}: a row {verb} {longest} values")
            longest_of_all = max(longest_of_all, longest)
        return longest_of_all

    def _check_pages(self, chunk: ColumnChunk, location: str) -> None:
        """Raises InputError if the pages of a column chunk have more values than the footer declares.

        Damaged pages are ignored, because pyarrow raises their error, and so are files in a store, where each header
        would need a request.

        Args:
            chunk: the column chunk.
            location: names file, row group and column, for errors.
        """
        if "://" in self.path:
            return
        num_values = 0
        with suppress(UnknownLevelsError, InputError), open_bytes(self.path) as stream:
            num_values = num_values_of_pages(stream, chunk)
        if num_values > chunk.num_values:
            raise InputError(
                f"{location}: expected {chunk.num_values} values, got {num_values} in its pages. {_DAMAGED}"
            )

    def _culprit(self, group: int, names: Sequence[str]) -> tuple[str | None, str]:
        """Returns (name of the first column that cannot be read as declared, "an error: ..." or "7 rows").

        Returns (None, '') if all columns can be read.

        Args:
            group: index of the row group.
            names: names of the columns to read.
        """
        for name in names:
            try:
                num_rows = sum(batch.num_rows for batch in self._batches(group, [name]))
            except Exception as error:
                return name, f"an error: {reason(error)}"
            if num_rows != self.groups[group]:
                return name, f"{num_rows} rows"
        return None, ""

    # ----------------------------------------------------------------------------------------------------- INT96 times

    @cached_property
    def int96_columns(self) -> list[str]:
        """The columns that contain times as INT96, which pyarrow reads as nanoseconds modulo 2^64."""
        schema = self._file.schema
        columns = [name for leaf, name in enumerate(self.leaves) if schema.column(leaf).physical_type == "INT96"]
        return list(dict.fromkeys(columns))

    def _with_exact_times(self, batch: pyarrow.RecordBatch, group: int, start: int) -> pyarrow.RecordBatch:
        """Returns a record batch whose INT96 columns are converted by `exact_times`.

        Args:
            batch: record batch of a row group.
            group: its number.
            start: the number of the batch's first row in the row group.
        """
        for name in self.int96_columns:
            if name in batch.schema.names:
                seconds = self._seconds(group).column(name).slice(start, batch.num_rows).combine_chunks()
                column = exact_times(batch.column(name), seconds)
                batch = batch.set_column(batch.schema.names.index(name), name, column)
        return batch

    def _seconds(self, group: int) -> pyarrow.Table:
        """Returns a `pyarrow.Table` of the INT96 columns of a row group, with times in seconds."""
        import pyarrow.parquet as pq

        if self._seconds_of_group is None or self._seconds_of_group[0] != group:
            with self._second_stream() as stream:  # because pyarrow reads ahead in threads
                file = _open_parquet(pq, stream, int96_unit="s")
                self._seconds_of_group = group, file.read_row_group(group, columns=self.int96_columns)
        return self._seconds_of_group[1]

    @contextmanager
    def _second_stream(self) -> Iterator[PageLimitedStream]:
        """Opens the file once more, with checks of its pages."""
        with open_bytes(self.path) as stream:
            limited = PageLimitedStream(stream, self.path)
            limited.watch(self._declared_chunks)
            yield limited

    _seconds_of_group: tuple[int, Any] | None = None


def _open_parquet(
    pq: ModuleType,
    stream: BinaryIO | PageLimitedStream,
    *,
    metadata: Any = None,
    pre_buffer: bool = True,
    int96_unit: str | None = None,
) -> pyarrow.parquet.ParquetFile:
    """Opens a Parquet file so that page checksums are verified.

    Args:
        pq: the module `pyarrow.parquet`.
        stream: the opened file.
        metadata: the metadata of the file, if it is known already.
        pre_buffer: whether the bytes of a row group are read together, ahead.
        int96_unit: the unit of INT96 times; None for nanoseconds.
    """
    return pq.ParquetFile(
        stream,
        page_checksum_verification=True,
        arrow_extensions_enabled=True,
        metadata=metadata,
        pre_buffer=pre_buffer,
        coerce_int96_timestamp_unit=int96_unit,
    )


def _read_row_group(file: Any, group: int, names: Sequence[str], values_per_row: int) -> Iterator[Any]:
    """Yields the record batches of a row group, each of at most `MAX_BATCH` rows and about `MAX_BATCH_BYTES` bytes.

    Args:
        file: the `pyarrow.parquet.ParquetFile`.
        group: the number of the row group.
        names: names of the columns, in the order of the result.
        values_per_row: their values in a row, which may take much less space in the file if they are equal.
    """
    row_group = file.metadata.row_group(group)
    row_size = max(1, row_group.total_byte_size) // max(1, row_group.num_rows) + 1
    row_size = max(row_size, _VALUE_BYTES * values_per_row)
    num_rows = max(1, min(MAX_BATCH, MAX_BATCH_BYTES // row_size))
    for batch in file.iter_batches(num_rows, row_groups=[group], columns=names):
        for column in batch.columns:
            _check_indices(column)
        yield batch.select(names)


def _check_indices(column: pyarrow.Array) -> None:
    """Checks that the indices of dictionaries in a column are those of values; pyarrow does not when it reads a page.

    Nothing else is checked, as `validate(full=True)` does: text that is not UTF-8 is an error of its row alone.

    Raises:
        ValueError: an index is too large or negative.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    pending = [column]
    while pending:
        array = pending.pop()
        if not any(map(pa.types.is_dictionary, _leaf_types(array.type))):
            continue
        if not pa.types.is_dictionary(array.type):
            pending += _children(array)
            continue
        bounds, size = pc.min_max(array.indices).as_py(), len(array.dictionary)
        for index in (bounds["min"], bounds["max"]):
            if index is not None and not 0 <= index < size:
                raise ValueError(f"the index {index} of a dictionary that has {size} values")


def _children(array: Any) -> list[pyarrow.Array]:
    """Returns the arrays of the values in a nested array, without those outside of its slice."""
    import pyarrow as pa

    if isinstance(array.type, pa.BaseExtensionType):
        return [array.storage]
    if pa.types.is_struct(array.type):
        return [array.field(index) for index in range(array.type.num_fields)]
    if pa.types.is_map(array.type):  # which has no `flatten`
        first, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        return [each.slice(first, end - first) for each in (array.keys, array.items)]
    return [array.flatten()]


def _footer_of(stream: BinaryIO | PageLimitedStream) -> bytes:
    """Returns the serialized FileMetaData of a Parquet file."""
    stream.seek(-8, 2)
    [size] = struct.unpack("<I", stream.read(4))
    stream.seek(-8 - size, 2)
    footer: bytes = stream.read(size)
    return footer


def _offsets_of_joints(stream: PageLimitedStream, start: int, end: int) -> Iterator[int]:
    """Yields the offsets where one file may end and another one begin, by their first and last bytes.

    Args:
        stream: the joined file.
        start: offset to search from.
        end: offset behind the last byte to search.
    """
    overlap = b""
    while start < end:
        stream.seek(start)
        block = overlap + stream.read(min(_SEARCH_BLOCK, end - start))
        if len(block) == len(overlap):
            return
        for match in _END_AND_START.finditer(block):
            yield start - len(overlap) + match.end() - len(PARQUET_PREFIX)
        start += len(block) - len(overlap)
        overlap = block[1 - 2 * len(PARQUET_PREFIX) :]


def _has_footer_before(stream: PageLimitedStream, end: int) -> bool:
    """Returns whether bytes from the start of a stream to an offset end with the footer of a Parquet file.

    Args:
        stream: the bytes.
        end: offset behind the last four bytes of the footer, which are magic bytes.
    """
    if end < _MIN_SIZE:
        return False
    stream.seek(end - 8)
    [size] = struct.unpack("<I", stream.read(4))
    if not 0 < size <= end - _MIN_SIZE:
        return False
    stream.seek(end - 8 - size)
    return is_footer(stream.read(size))


def _without_arrow_types(stream: BinaryIO | PageLimitedStream) -> pyarrow.parquet.ParquetFile:
    """Returns the `ParquetFile` of a stream with the types of Parquet's own schema.

    The schema of Arrow in the metadata of the file is ignored.
    """
    import pyarrow.parquet as pq

    footer = _footer_of(stream).replace(b"ARROW:schema", b"ARROW.schema")
    alone = b"".join((PARQUET_PREFIX, footer, struct.pack("<I", len(footer)), PARQUET_PREFIX))
    return _open_parquet(pq, stream, metadata=pq.read_metadata(io.BytesIO(alone)))


def _has_fixed_lists(kind: pyarrow.DataType) -> bool:
    """Returns whether an Arrow type has lists of a fixed size inside."""
    return "fixed_size_list" in str(kind) or "fixed_shape_tensor" in str(kind)


def _cast(batch: pyarrow.RecordBatch, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    """Returns a record batch with its columns cast to the types of the columns of the same names in an Arrow schema."""
    import pyarrow as pa

    for index, name in enumerate(batch.schema.names):
        column, kind = batch.column(index), schema.field(name).type
        if isinstance(kind, pa.BaseExtensionType) and column.type != kind:
            column = pa.ExtensionArray.from_storage(kind, column.cast(kind.storage_type))
        elif "list_view" not in str(kind):  # to which pyarrow does not cast; the values are the same
            column = column.cast(kind)
        batch = batch.set_column(index, name, column)
    return batch


def _leaf_types(kind: pyarrow.DataType) -> Iterator[pyarrow.DataType]:
    """Yields the types inside an Arrow type that are not nested: twice int8 for struct<a: int8, b: list<int8>>.

    Parquet has a column of values for each.

    Raises:
        UnicodeDecodeError: the name of a field is not UTF-8.
    """
    import pyarrow as pa

    pending = [kind]
    while pending:
        each = pending.pop()
        if isinstance(each, pa.BaseExtensionType):
            pending.append(each.storage_type)
        elif pa.types.is_nested(each):
            fields = [each.field(i) for i in range(each.num_fields)]
            pending += [field.type for field in fields if isinstance(field.name, str)]
        else:
            yield each


def _wide_integers(stream: BinaryIO, error: Exception) -> list[str]:
    """Returns the columns that may have integers of 128 bits, if they are why a file does not open.

    Polars writes them as 16 bytes, and their type in the schema of Arrow only, which pyarrow does not read then.

    Args:
        stream: the file.
        error: the error of pyarrow.
    """
    import pyarrow as pa

    if not isinstance(error, pa.ArrowNotImplementedError) or "64 bits" not in str(error):
        return []
    schema = _parquet_schema(stream)
    columns = [schema.column(leaf) for leaf in range(len(schema))] if schema else []
    return [repr(each.path) for each in columns if each.length == 16 and each.logical_type.type == "NONE"]


def _parquet_schema(stream: BinaryIO) -> pyarrow.parquet.ParquetSchema | None:
    """Returns Parquet's own schema of a file, without that of Arrow; None if that prevents reading the file."""
    try:
        return _without_arrow_types(stream).metadata.schema
    except Exception:  # pyarrow and struct raise many classes
        return None


def _explain_open_error(stream: BinaryIO, path: str, error: Exception) -> str:
    """Returns a clause for errors: why content is not a Parquet file, and a remedy, such as "it is empty".

    Args:
        stream: the content, which can be sought.
        path: path of the file, whose suffix may name a compression.
        error: the error of pyarrow.
    """
    if isinstance(error, UnicodeDecodeError):
        return f"the name {error.object[:60]!r} of a column is not UTF-8; rename it"
    if (codec := codec_of(path)) is not None:
        return f"it is compressed by {codec.name}; decompress it"
    stream.seek(0)
    head = stream.read(HEAD_BYTES)
    stream.seek(max(0, stream.seek(0, 2) - 4))
    tail = stream.read()
    if not head:
        return "it is empty"
    if _ENCRYPTED_MAGIC in (head[:4], tail):
        return "it is encrypted; write it without encryption"
    if head.startswith(PARQUET_PREFIX) and tail != PARQUET_PREFIX:
        return f"it ends with {tail!r} instead of {PARQUET_PREFIX!r}, so its end is missing; get it again"
    if head.startswith(PARQUET_PREFIX):
        is_readable = _parquet_schema(stream) is not None
        advice = "; write it again, in pyarrow with store_schema=False" if is_readable else ""
        return f"{'its schema of Arrow cannot be read: ' if is_readable else ''}{reason(error).rstrip('.')}{advice}"
    if other := other_content(head):
        return f"it is {other}"
    if tail != PARQUET_PREFIX and (codec := codec_of_content(head)) is not None:
        return f"it is compressed by {codec.name}; decompress it"
    if other := text_format(head):
        return f"it is {other}"
    return reason(error)
