"""Examples with many single numbers, as the rows of tables: all numbers at once instead of one by one.

A record's numbers are found by a regular expression that is made of the order of its names, which is the same for all
records of a writer. What does not fit (another order, a value of another type or out of range) is done one by one, by
the features themselves, who also know what to say of it; so this changes the time that it takes, and nothing else.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from itertools import groupby
from operator import ge, itemgetter, le
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.errors import FeatureError
from beam_datasets.features.leaf import Leaf, Number
from beam_datasets.features.numbers import FLOATS, INTEGERS, lift
from beam_datasets.formats import example
from beam_datasets.formats.varint import decode_varints, fast_varint, read_varint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from beam_datasets.features.base import Decode, Encode, FeatureConnector, Spans
    from beam_datasets.formats.example import Buffer

_WORTH_IT = 8  # numbers in an example
_MAX_NAME = 100  # so that all lengths in an entry are single bytes
_MAX_LAYOUTS = 4

_NUMBERS = FLOATS | {int, bool}


@dataclass(frozen=True)
class Column:
    """A field of an example that is a single number.

    Attributes:
        key: its name in the example.
        wire: its name in the record.
        number: what it can be.
    """

    key: str
    wire: bytes
    number: Number


def columns_of(fields: Sequence[tuple[str, str, FeatureConnector]]) -> list[Column]:
    """Returns the fields (key, name in the record, feature) that are single numbers; none where they are too few."""
    found = []
    for key, wire, feature in fields:
        number = feature.number() if isinstance(feature, Leaf) else None
        if number is not None and len(wire.encode()) <= _MAX_NAME:
            found.append(Column(key, wire.encode(), number))
    return found if len(found) >= _WORTH_IT else []


# ---------------------------------------------------------------------------------------------------------- encoding


def encoder(fields: Sequence[tuple[str, str, FeatureConnector, Encode]]) -> Encode | None:
    """Returns the function from a dict, whose keys have been checked, to its entries; None where it is not worth it.

    Args:
        fields: key, name in the record, feature and encoder of all, in the order in which they stand in the record.
    """
    columns = columns_of([field[:3] for field in fields])
    integers = [column for column in columns if column.number.kind == "int64"]
    floats = [column for column in columns if column.number.kind == "float"]
    integers, floats = (group if len(group) > 1 else [] for group in (integers, floats))
    if not integers and not floats:
        return None
    taken = [column.key for column in (*integers, *floats)]
    one_by_one = [(key, encode) for key, _, _, encode in fields]
    others = [(key, encode) for key, encode in one_by_one if key not in taken]
    keys = [*taken, *(key for key, _ in others)]
    arrange = itemgetter(*(keys.index(key) for key, *_ in fields))
    encode_integers, encode_floats = _integers_encoder(integers), _floats_encoder(floats)

    def encode(value: Any) -> bytes:
        parts = encode_integers(value)
        more = encode_floats(value)
        if parts is None or more is None:
            return b"".join([part(value[key]) for key, part in one_by_one])
        parts += more
        parts += [part(value[key]) for key, part in others]
        return b"".join(arrange(parts))

    return encode


def _integers_encoder(columns: list[Column]) -> Callable[[Any], list[bytes] | None]:
    """Returns the function from a dict to the entries of its integers; it yields None where one is unusual."""
    if not columns:
        return lambda value: []
    get = itemgetter(*(column.key for column in columns))
    lows, highs = [column.number.low for column in columns], [column.number.high for column in columns]
    heads = []
    for column in columns:
        frame = example.int_scalar_framer(column.wire)
        heads.append([b"", *(frame(b"\0" * length)[:-length] for length in range(1, 11))])
    varint = fast_varint()

    def encode(value: Any) -> list[bytes] | None:
        numbers = get(value)
        kinds = set(map(type, numbers))
        if len(kinds) != 1 or int not in kinds:
            if not kinds <= INTEGERS:
                return None
            numbers = tuple(map(int, numbers))
        if not (all(map(le, lows, numbers)) and all(map(ge, highs, numbers))):
            return None
        return [head[len(digits)] + digits for head, digits in zip(heads, map(varint, numbers))]

    return encode


def _floats_encoder(columns: list[Column]) -> Callable[[Any], list[bytes] | None]:
    """Returns the function from a dict to the entries of its floats; it yields None where one is unusual."""
    if not columns:
        return lambda value: []
    get = itemgetter(*(column.key for column in columns))
    floats = struct.Struct(f"<{len(columns)}f")
    prefixes = [(example.one_float_prefix(column.wire), 4 * i, 4 * i + 4) for i, column in enumerate(columns)]

    def encode(value: Any) -> list[bytes] | None:
        numbers = get(value)
        if not set(map(type, numbers)) <= _NUMBERS:
            return None
        try:
            packed = floats.pack(*numbers)
        except (OverflowError, struct.error):  # one would become an infinity
            return None
        if floats.unpack(packed) != numbers:  # one would be rounded, or is NaN
            return None
        return [prefix + packed[start:stop] for prefix, start, stop in prefixes]

    return encode


# ---------------------------------------------------------------------------------------------------------- decoding


class TableDecoder:
    """Decodes records with many numbers. It learns the order of the names that it meets twice in a row."""

    def __init__(self, columns: list[Column], fields: dict[str, Decode], one_by_one: Decode) -> None:
        self.columns = columns
        self.fields = fields
        self.one_by_one = one_by_one
        self.layouts: list[_Layout] = []
        self.last_order: tuple[bytes, ...] = ()

    def __call__(self, data: Buffer) -> Any:
        """Returns the example of a record."""
        whole = data if type(data) is bytes else bytes(data)
        for layout in self.layouts:
            value = layout.decode(whole)
            if value is not None:
                return value
        whole, spans = example.spans_of(whole)
        if len(self.layouts) < _MAX_LAYOUTS:
            self._learn(tuple(spans))
        return self.one_by_one(whole, spans)

    def columns_at_once(self, records: Sequence[Buffer]) -> tuple[dict[str, Any], list[bytes], list[Spans]] | None:
        """Returns the numbers of records by column, the records and the spans of their other features.

        None where not all have one of the known layouts, or one has unusual numbers.
        """
        datas = [data if type(data) is bytes else bytes(data) for data in records]
        found = (layout.columns_at_once(datas) for layout in self.layouts)
        columns, spans = next((each for each in found if each is not None), (None, []))
        return None if columns is None else (columns, datas, spans)

    def _learn(self, order: tuple[bytes, ...]) -> None:
        if order != self.last_order:
            self.last_order = order
        elif all(layout.order != order for layout in self.layouts) and {c.wire for c in self.columns} <= set(order):
            self.layouts = [_Layout(order, self.columns, self.fields), *self.layouts]


class _Layout:
    """How records with one order of names are decoded."""

    def __init__(self, order: tuple[bytes, ...], columns: list[Column], fields: dict[str, Decode]) -> None:
        self.order = order
        by_wire = {column.wire: column for column in columns}
        self.steps = [
            step
            for numeric, names in groupby(order, key=by_wire.__contains__)
            for step in ([_run([by_wire[name] for name in names])] if numeric else map(_entry, names))
        ]
        found = [by_wire[name] for name in order if name in by_wire]
        integers, self.integer_lifts = _grouped(found, "int64")
        floats, self.float_lifts = _grouped(found, "float")
        self.integer_columns, self.float_columns = integers, floats
        self.integers, self.floats = _getter(found, integers), _getter(found, floats)
        numbers = [column.key for column in (*integers, *floats)]
        self.others = [(key, decode) for key, decode in fields.items() if key not in numbers]
        self.keys = list(fields)
        made = [*numbers, *(key for key, _ in self.others)]
        self.arrange = itemgetter(*(made.index(key) for key in self.keys))

    def decode(self, data: bytes) -> dict[str, Any] | None:
        """Returns the example of a record; None where the record does not have this layout, or has unusual numbers."""
        found = self._read(data)
        if found is None:
            return None
        groups, spans = found
        try:
            values: list[Any] = []
            if self.integer_lifts:
                numbers = decode_varints(b"".join(self.integers(groups)))
                for start, stop, raise_to in self.integer_lifts:
                    values += raise_to(numbers[start:stop])
            if self.float_lifts:
                floats = np.frombuffer(b"".join(self.floats(groups)), "<f4")
                for start, stop, raise_to in self.float_lifts:
                    values += raise_to(floats[start:stop])
        except FeatureError:  # a number that does not fit its dtype: one by one, the message says whose
            return None
        if self.others:
            values += [decode(data, spans) for _, decode in self.others]
        return dict(zip(self.keys, self.arrange(values)))

    def columns_at_once(self, datas: list[bytes]) -> tuple[dict[str, Any], list[Spans]] | None:
        """Returns the numbers of records by column, and the spans of the other features; None as `decode` does."""
        read = []
        for data in datas:
            found = self._read(data)
            if found is None:
                return None
            read.append(found)
        columns: dict[str, Any] = {}
        try:
            if self.integer_lifts:
                joined = b"".join([b"".join(self.integers(groups)) for groups, _ in read])
                columns |= _by_column(decode_varints(joined), self.integer_columns)
            if self.float_lifts:
                joined = b"".join([b"".join(self.floats(groups)) for groups, _ in read])
                columns |= _by_column(np.frombuffer(joined, "<f4"), self.float_columns)
        except FeatureError:
            return None
        return columns, [spans for _, spans in read]

    def _read(self, data: bytes) -> tuple[list[bytes], Spans] | None:
        """Returns the varints and floats in the order of the names, and the spans of the other features."""
        groups: list[bytes] = []
        spans: Spans = {}
        try:
            size, position = read_varint(data, 1)
            if data[0] != 10 or position + size != len(data):
                return None
            for match, name, field in self.steps:
                if match is not None:
                    matched = match(data, position)
                    if matched is None:
                        return None
                    groups += matched.groups()
                    position = matched.end()
                    continue
                size, start = read_varint(data, position + 1)
                if data[position] != 10 or not data.startswith(field, start):
                    return None
                position = start + size
                size, start = read_varint(data, start + len(field))
                if start + size != position:
                    return None
                spans[name] = start, position
        except (IndexError, example.ExampleError):
            return None
        return (groups, spans) if position == len(data) else None


_Step = "tuple[Callable[[bytes, int], re.Match[bytes] | None] | None, bytes, bytes]"


def _entry(name: bytes) -> Any:
    """Returns the step that finds an entry of any feature: no expression, its name, and how its body begins."""
    return None, name, example.name_field(name)


def _run(columns: list[Column]) -> Any:
    """Returns the step that finds the entries of consecutive numbers: an expression with one group for each number."""
    return re.compile(b"".join(map(_pattern, columns)), re.DOTALL).match, b"", b""


def _pattern(column: Column) -> bytes:
    """Returns the expression for the entry of a number, whose lengths must all be right."""
    if column.number.kind == "float":
        return re.escape(example.one_float_prefix(column.wire)) + b"(....)"
    frame = example.int_scalar_framer(column.wire)
    heads = [frame(b"\0" * length)[1:-length] for length in range(1, 11)]
    tails = [b"(?=[\x80-\xff]{%d}[\x00-\x7f])" % (length - 1) for length in range(1, 11)]
    choices = b"|".join(re.escape(head) + tail for head, tail in zip(heads, tails))
    return b"\n(?:" + choices + b")([\x80-\xff]*[\x00-\x7f])"


def _grouped(
    columns: list[Column], kind: str
) -> tuple[list[Column], list[tuple[int, int, Callable[[Any], list[Any]]]]]:
    """Returns the columns of a kind, equal dtypes together, and for each dtype its range and what makes its values."""
    ordered = sorted((c for c in columns if c.number.kind == kind), key=lambda column: column.number.dtype.str)
    lifts, start = [], 0
    for dtype, group in groupby(ordered, key=lambda column: column.number.dtype):
        stop = start + len(list(group))
        lifts.append((start, stop, _scalars(dtype)))
        start = stop
    return ordered, lifts


def _by_column(numbers: NDArray[Any], columns: list[Column]) -> dict[str, NDArray[Any]]:
    """Returns the numbers of records, which follow each other, as an array of its own for each column."""
    turned = np.ascontiguousarray(numbers.reshape(-1, len(columns)).T)
    return {column.key: lift(column.number.dtype, "")(row) for column, row in zip(columns, turned)}


def _scalars(dtype: np.dtype[Any]) -> Callable[[Any], list[Any]]:
    """Returns the function from stored numbers to NumPy scalars of a dtype."""
    raise_to = lift(dtype, "")
    return lambda numbers: list(raise_to(numbers))


def _getter(found: list[Column], wanted: list[Column]) -> Callable[[list[bytes]], Sequence[bytes]]:
    """Returns the function that picks the groups of some columns."""
    places = [found.index(column) for column in wanted]
    if len(places) == 1:
        return lambda groups: (groups[places[0]],)
    return itemgetter(*places) if places else lambda groups: ()
