"""The footer of a Parquet file: the encryption, the statistics and the position of its column chunks; headers of pages.

pyarrow decodes the metadata of a column chunk when it is accessed, and an exception there, as for an encrypted column
or damaged statistics, ends the process. So this module decodes them itself.

Sources: parquet.thrift of the Parquet format, and the specification of Thrift's compact protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = range(1, 14)
_NUM_BYTES = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8, _UUID: 16}
_NUM_BYTES_IN_LIST = {**_NUM_BYTES, _TRUE: 1, _FALSE: 1}
_REQUIRED_FIELDS = {(1, _I32), (2, _LIST), (3, _I64), (4, _LIST)}  # FileMetaData: version, schema, num_rows, row_groups
_REQUIRED_CRYPTO_FIELDS = {(1, _STRUCT)}  # FileCryptoMetaData.encryption_algorithm
_VARIANT = 16  # LogicalType.VARIANT
MAX_DEPTH = 32  # of structs and lists; the format has fewer


@dataclass(frozen=True)
class ColumnChunk:
    """The declarations about a column in a row group.

    Attributes:
        num_values: number of its values and nulls, including one for each empty list; -1 if they are encrypted.
        is_encrypted: its pages cannot be read without a key.
        num_nulls: number of nulls; None if that is not declared.
        bounds: its least and its greatest value in the order of the column's type, as they are stored; None if they are
            not declared.
        start: byte offset of its first page in the file.
        codec: Thrift's number for the compression of its pages.
        size: number of bytes of all of its pages, decompressed; 0 if that is not declared.
        stored_size: number of bytes of all of its pages in the file; 0 if that is not declared.
    """

    num_values: int = -1
    is_encrypted: bool = False
    num_nulls: int | None = None
    bounds: tuple[bytes, bytes] | None = None
    start: int = 0
    codec: int = 0
    size: int = 0
    stored_size: int = 0


@dataclass(frozen=True)
class PageHeader:
    """The header of a page.

    Attributes:
        header_size: number of bytes of the header.
        size: number of bytes of the page, decompressed.
        stored_size: number of bytes of the page in the file.
        num_values: number of values, nulls and empty lists in a data page; None for a page of another kind.
        level_encoding: Thrift's number for the encoding of the repetition levels of a data page of version 1.
        level_size: number of bytes of the repetition levels, for a data page of version 2; None for version 1.
    """

    header_size: int
    size: int
    stored_size: int
    num_values: int | None = None
    level_encoding: int = 0
    level_size: int | None = None


def column_chunks(footer: bytes) -> list[list[ColumnChunk]]:
    """Returns the column chunks of each row group.

    Args:
        footer: the serialized FileMetaData.

    Raises:
        ValueError: it is damaged.
    """
    reader = _Reader(footer)
    groups: list[list[ColumnChunk]] = []
    try:
        for field, kind in reader.fields():
            if (field, kind) == (4, _LIST):  # FileMetaData.row_groups
                groups += [_row_group(reader) for _ in range(reader.num_structs())]
            else:
                reader.skip(kind)
    except (IndexError, KeyError) as error:
        raise reader.damage() from error
    return groups


def columns_with_variants(footer: bytes) -> frozenset[str]:
    """Returns the names of the columns that are values of the logical type VARIANT, or contain such values.

    Args:
        footer: the serialized FileMetaData.

    Raises:
        ValueError: it is damaged.
    """
    reader = _Reader(footer)
    elements: list[tuple[str, int, bool]] = []
    try:
        for field, kind in reader.fields():
            if (field, kind) == (2, _LIST):  # FileMetaData.schema
                elements += [_read_schema_element(reader) for _ in range(reader.num_structs())]
                break  # row groups, which take longest, come later
            reader.skip(kind)
    except (IndexError, KeyError) as error:
        raise reader.damage() from error
    names: set[str] = set()
    column = ""
    remaining_children: list[int] = []  # of the elements around, from the outside in
    for name, num_children, is_variant in elements[1:]:  # after the root, depth first
        if remaining_children:
            remaining_children[-1] -= 1
        else:
            column = name
        if is_variant:
            names.add(column)
        remaining_children.append(num_children)
        while remaining_children and remaining_children[-1] <= 0:
            remaining_children.pop()
    return frozenset(names)


def _read_schema_element(reader: _Reader) -> tuple[str, int, bool]:
    """Reads a SchemaElement, and returns (name, number of children, whether its logical type is VARIANT)."""
    name, num_children, is_variant = "", 0, False
    for field, kind in reader.fields():
        if (field, kind) == (4, _BINARY):  # SchemaElement.name
            name = reader.take(reader.unsigned()).decode("utf-8", "replace")
        elif (field, kind) == (5, _I32):  # SchemaElement.num_children
            num_children = reader.signed()
        elif (field, kind) == (10, _STRUCT):  # SchemaElement.logicalType
            for member, member_kind in reader.fields():
                is_variant |= member == _VARIANT
                reader.skip(member_kind)
        else:
            reader.skip(kind)
    return name, num_children, is_variant


def is_footer(data: bytes) -> bool:
    """Returns whether bytes may be a serialized FileMetaData, or the FileCryptoMetaData before an encrypted one."""
    reader = _Reader(data)
    fields: set[tuple[int, int]] = set()
    try:
        for field, kind in reader.fields():
            fields.add((field, kind))
            reader.skip(kind)
    except (IndexError, KeyError, ValueError):
        return False
    return fields >= _REQUIRED_FIELDS or fields >= _REQUIRED_CRYPTO_FIELDS


def _row_group(reader: _Reader) -> list[ColumnChunk]:
    """Reads a RowGroup struct, and returns its column chunks; skips all other fields."""
    columns: list[ColumnChunk] = []
    for field, kind in reader.fields():
        if (field, kind) == (1, _LIST):  # RowGroup.columns
            columns += [_read_column_chunk(reader) for _ in range(reader.num_structs())]
        else:
            reader.skip(kind)
    return columns


def _read_column_chunk(reader: _Reader) -> ColumnChunk:
    """Reads a ColumnChunk struct; the bounds are None unless the statistics contain both of them."""
    is_encrypted = False
    numbers: dict[int, int] = {}
    statistics: dict[int, Any] = {}
    for field, kind in reader.fields():
        if (field, kind) == (3, _STRUCT):  # ColumnChunk.meta_data
            numbers, statistics = _read_column_metadata(reader)
        else:
            is_encrypted |= field == 8  # ColumnChunk.crypto_metadata
            reader.skip(kind)
    minimum, maximum = statistics.get(6), statistics.get(5)  # Statistics.min_value, max_value
    bounds = None if minimum is None or maximum is None else (minimum, maximum)
    offsets = [numbers[field] for field in (9, 11) if numbers.get(field)]  # data_page_offset, dictionary_page_offset
    return ColumnChunk(
        numbers.get(5, -1),  # ColumnMetaData.num_values
        is_encrypted,
        statistics.get(3),  # Statistics.null_count
        bounds,
        start=min(offsets, default=0),
        codec=numbers.get(4, 0),  # ColumnMetaData.codec
        size=numbers.get(6, 0),  # ColumnMetaData.total_uncompressed_size
        stored_size=numbers.get(7, 0),  # ColumnMetaData.total_compressed_size
    )


def page_header(data: bytes) -> PageHeader:
    """Returns the header of a page.

    Args:
        data: bytes that begin with the header.

    Raises:
        ValueError: it is damaged, or longer than `data`.
    """
    reader = _Reader(data)
    numbers: dict[int, int] = {}
    data_page: dict[int, int] | None = None
    level_size: int | None = None
    try:
        for field, kind in reader.fields():
            if kind == _STRUCT and field in (5, 8):  # PageHeader.data_page_header, data_page_header_v2
                data_page = _numbers_of(reader)
                level_size = data_page.get(6, 0) if field == 8 else None  # repetition_levels_byte_length
            elif kind in (_I32, _I64):
                numbers[field] = reader.signed()
            else:
                reader.skip(kind)
    except (IndexError, KeyError) as error:
        raise reader.damage() from error
    sizes = numbers.get(2, -1), numbers.get(3, -1)  # uncompressed_page_size, compressed_page_size
    num_values = None if data_page is None else data_page.get(1, -1)
    if min(sizes) < 0 or (num_values is not None and num_values < 0):
        raise reader.damage()
    level_encoding = (data_page or {}).get(4, 0)  # repetition_level_encoding
    return PageHeader(reader.position, *sizes, num_values, level_encoding, level_size)


def _numbers_of(reader: _Reader) -> dict[int, int]:
    """Reads a struct, and returns {field number: value} of its integers."""
    numbers: dict[int, int] = {}
    for field, kind in reader.fields():
        if kind in (_I32, _I64):
            numbers[field] = reader.signed()
        else:
            reader.skip(kind)
    return numbers


def _read_column_metadata(reader: _Reader) -> tuple[dict[int, int], dict[int, Any]]:
    """Reads a ColumnMetaData.

    Returns:
        ({field number: value} of its integers, {field number of its Statistics: integer or bytes}).
    """
    numbers: dict[int, int] = {}
    statistics: dict[int, Any] = {}
    for field, kind in reader.fields():
        if kind in (_I32, _I64):
            numbers[field] = reader.signed()
            continue
        if (field, kind) != (12, _STRUCT):  # ColumnMetaData.statistics
            reader.skip(kind)
            continue
        for inner, inner_kind in reader.fields():
            if inner_kind == _I64:
                statistics[inner] = reader.signed()
            elif inner_kind == _BINARY:
                statistics[inner] = reader.take(reader.unsigned())
            else:
                reader.skip(inner_kind)
    return numbers, statistics


class _Reader:
    """Reads values of Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def position(self) -> int:
        """The number of bytes that were read."""
        return self._position

    def damage(self) -> ValueError:
        """Returns the error that names the current position."""
        return ValueError(f"the footer is damaged at its byte {self._position}")

    def take(self, size: int) -> bytes:
        """Returns the next `size` bytes."""
        start = self._position
        self._position = start + size
        if self._position > len(self._data):
            raise IndexError(self._position)
        return self._data[start : self._position]

    def unsigned(self) -> int:
        r"""Returns the next unsigned integer.

        The integer is a varint: 7 bits per byte, low bits first; b"\xac\x02" is 300.
        """
        data, position = self._data, self._position
        byte = data[position]
        number, shift = byte & 0x7F, 7
        while byte & 0x80:
            position += 1
            byte = data[position]
            number |= (byte & 0x7F) << shift
            shift += 7
        self._position = position + 1
        return number

    def signed(self) -> int:
        """Returns the next signed integer."""
        number = self.unsigned()
        return (number >> 1) ^ -(number & 1)

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yields (field number, Thrift type) of each field of a struct; the types are numbers such as `_I64`.

        The caller must read or skip the value of each field before it takes the next one.
        """
        data, number = self._data, 0
        while header := data[self._position]:
            self._position += 1
            number = number + (header >> 4) if header >> 4 else self.signed()
            yield number, header & 15
        self._position += 1

    def _read_list_header(self) -> tuple[int, int]:
        """Returns (number of items, their Thrift type) of the list at the current position; the items come next."""
        header = self._data[self._position]
        self._position += 1
        size = header >> 4
        return (self.unsigned() if size == 15 else size), header & 15

    def num_structs(self) -> int:
        """Returns the number of items of the list of structs that begins here.

        Raises:
            ValueError: they are not structs.
        """
        size, kind = self._read_list_header()
        if size and kind != _STRUCT:
            raise self.damage()
        return size

    def skip(self, kind: int, depth: int = 0) -> None:
        """Reads a value without returning it.

        Args:
            kind: the Thrift type of the value, such as `_I32` or `_STRUCT`.
            depth: number of structs and lists around the value, below the root.

        Raises:
            ValueError: it is nested too deeply.
        """
        if kind in (_I64, _I32, _I16):
            self.unsigned()
        elif kind == _BINARY:
            size = self.unsigned()
            self._position += size
        elif kind in _NUM_BYTES:
            self._position += _NUM_BYTES[kind]
        elif depth == MAX_DEPTH:
            raise self.damage()
        elif kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        elif kind in (_LIST, _SET):
            self._skip_items(*self._read_list_header(), depth)
        elif kind == _MAP:
            size = self.unsigned()
            kinds = self.take(1)[0] if size else 0
            self._skip_items(size, kinds >> 4, depth, kinds & 15)
        else:
            raise self.damage()

    def _skip_items(self, size: int, kind: int, depth: int, value_kind: int | None = None) -> None:
        """Reads the items of a list, or the keys and values of a map.

        Args:
            size: number of items, or of pairs of a map.
            kind: Thrift's number for the type of the items, or of the keys of a map.
            depth: number of structs, lists and maps around the items, without this one.
            value_kind: the same for the values of a map; None for a list.
        """
        if value_kind is None and kind in _NUM_BYTES_IN_LIST:
            self._position += size * _NUM_BYTES_IN_LIST[kind]
            return
        for _ in range(size):
            for each in (kind,) if value_kind is None else (kind, value_kind):
                if each in _NUM_BYTES_IN_LIST:
                    self.take(_NUM_BYTES_IN_LIST[each])
                else:
                    self.skip(each, depth + 1)
