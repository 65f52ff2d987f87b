"""Columnar parsing: the lists of features of many records, with one column for each group of features.

`parser(groups)` returns the function from records to columns. The native module parses records in canonical form, and
others after protobuf has rewritten them. Without the native module, `parse` parses records with protobuf. It is also
the oracle of the tests, and raises the errors.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from beam_datasets.errors import FeatureValueError
from beam_datasets.formats.example import Buffer, ExampleError, Kind, canonicalize, parse_message, parse_spans
from beam_datasets.native import core

KINDS: dict[Kind, int] = {"bytes": 0x0A, "float": 0x12, "int64": 0x1A}
"""The number of each kind of list: its tag in a record."""
ANY, PADDED = -1, -2
"""Values of `num_values`: any number of values; any number, padded with zeros to the length of the longest list."""

_MAX_VALUES = 2**31 - 1  # of a group that the native module parses
_MIN_ARRAY_VALUES = 16  # of a list, from which on an array is faster than a list of Python
_KINDS_BY_NUMBER = {number: kind for kind, number in KINDS.items()}

Parse: TypeAlias = Callable[[Sequence[Buffer]], tuple[Any, ...]]
"""A function from n records to a tuple with the column of each group; see `parse`."""


class FeatureGroup(NamedTuple):
    """Features of one kind whose lists are parsed in one piece.

    Attributes:
        kind: the kind of the lists, a number of `KINDS`.
        num_values: the number of values of each list; `ANY` or `PADDED` if the group has one name.
        is_optional: whether records may lack the features.
        names: the names of the features in the record, as UTF-8.
    """

    kind: int
    num_values: int
    is_optional: bool
    names: tuple[bytes, ...]


def parser(groups: tuple[FeatureGroup, ...]) -> Parse:
    """Returns the function from records to the column of each group; `parse` describes the columns and errors."""
    in_python = functools.partial(parse, groups)
    names = [name for group in groups for name in group.names]
    is_large = any(group.num_values > _MAX_VALUES for group in groups)
    if core is None or is_large or len(set(names)) < len(names):
        return in_python
    schema, native = core.schema(groups), core.parse

    def parse_records(records: Sequence[Buffer]) -> tuple[Any, ...]:
        """Returns the column of each group; parses in Python if the native module returns None."""
        columns: tuple[Any, ...] | None = native(schema, records, _canonicalize)
        return in_python(records) if columns is None else columns

    return parse_records


def _canonicalize(record: bytes) -> bytes | None:
    """Returns a record in canonical form; None if it is not a serialized Example: `parse` then raises the error."""
    try:
        return canonicalize(record)
    except ExampleError:
        return None


def parse(groups: Sequence[FeatureGroup], records: Sequence[Buffer]) -> tuple[Any, ...]:
    """Returns the column of each group for n records.

    * Numbers with a fixed count: a bytearray of float32 or int64 of shape (names, n, count). If the group is optional,
      a tuple of this bytearray and a list of (index of the name, index of the record) of the missing lists, for which
      the bytearray contains zeros.
    * Bytes with a fixed count: a list of names * n * count values; None for missing values.
    * `ANY`: a tuple of the values of all records in order (a bytearray for numbers, a list for bytes), and a bytearray
      of n int64: the number of values of each record, -1 if the record lacks the feature.
    * `PADDED`: as `ANY`, but all lists are padded to the length of the longest one.

    Args:
        groups: the groups of features to parse.
        records: serialized tf.train.Examples.

    Raises:
        ExampleError: a record is not a serialized tf.train.Example.
        FeatureValueError: a list has another kind or number of values, or is missing.
    """
    examples = [_parse_features(record) for record in records]
    return tuple([_build_group_column(group, examples) for group in groups])


def parse_lists(record: Buffer, kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """Returns lists of one record by name: lists of bytes, arrays of float32 or int64; None for those that it lacks.

    Args:
        record: a serialized tf.train.Example.
        kinds: the kind ('bytes', 'float' or 'int64') of each list, by name.

    Raises:
        ExampleError: the bytes are not a serialized tf.train.Example.
        FeatureValueError: a list has another kind.

    >>> from beam_datasets.formats.example import serialize
    >>> parse_lists(serialize({"a": [1, 2]}), {"a": "int64", "b": "bytes"})
    {'a': array([1, 2]), 'b': None}
    """
    features = _parse_features(record)
    lists: dict[str, Any] = {}
    for name, kind in kinds.items():
        raw_name = name.encode(errors="surrogateescape")
        [values] = _read_lists(FeatureGroup(KINDS[kind], ANY, True, (raw_name,)), raw_name, [features])
        dtype = {"float": np.float32, "int64": np.int64}.get(kind)
        lists[name] = None if values is None else list(values) if dtype is None else np.array(values, dtype)
    return lists


def _parse_features(record: Buffer) -> Any:
    """Returns the Feature messages of a record by name, as an object with the method `get(name)`.

    Raises:
        ExampleError: the record is not a serialized tf.train.Example.
    """
    try:
        return parse_message("Example", record).features.feature
    except ExampleError:
        return _DamagedFeatures(*parse_spans(record))


class _DamagedFeatures:
    """The features of a record that protobuf refuses as a whole; parsed on request, as some may be intact."""

    def __init__(self, record: bytes, spans: dict[bytes, tuple[int, int]]) -> None:
        self._record = record
        self._spans = spans

    def get(self, name: str) -> Any:
        """Returns the Feature message with a name; None if the record has none.

        Raises:
            FeatureValueError: it is damaged.
        """
        span = self._spans.get(name.encode(errors="surrogateescape"))
        try:
            return None if span is None else parse_message("Feature", self._record[slice(*span)])
        except ExampleError as error:
            raise FeatureValueError(str(error), feature=name) from error


def _build_group_column(group: FeatureGroup, examples: list[Any]) -> Any:
    """Returns the column of a group; `parse` describes its forms.

    Args:
        group: the group of features to parse.
        examples: for each record its Feature messages by name.
    """
    lists = [values for name in group.names for values in _read_lists(group, name, examples)]
    if group.num_values < 0:
        counts = np.array([-1 if values is None else len(values) for values in lists], np.int64)
        longest = max(counts.max(initial=0), 0) if group.num_values == PADDED else 0
        return _concatenate_lists(group, lists, longest), bytearray(counts.tobytes())
    values_of_group = _concatenate_lists(group, lists, group.num_values)
    if not group.is_optional or group.kind == KINDS["bytes"]:
        return values_of_group
    return values_of_group, [divmod(i, len(examples)) for i, values in enumerate(lists) if values is None]


def _read_lists(group: FeatureGroup, name: bytes, examples: list[Any]) -> list[Any]:
    """Returns the list of a feature in each record, see `_list_reader`; None if the record lacks it.

    Args:
        group: the group of the feature.
        name: the name of the feature in the record, as UTF-8.
        examples: for each record its Feature messages by name.

    Raises:
        FeatureValueError: a list has another kind or number of values, or is missing and not optional.
    """
    key, num_values, read_list = name.decode(errors="surrogateescape"), group.num_values, _list_reader(group)
    messages = [features.get(key) for features in examples]
    lists = [None if message is None else read_list(message) for message in messages]
    for i, values in enumerate(lists):
        count = 0 if values is None else len(values)
        # a list with values is of the right kind; others may be empty or another member of the oneof
        if not count or (count != num_values and num_values >= 0):
            lists[i] = _check_list(group, name, messages[i], values)
    return lists


def _has_short_lists(group: FeatureGroup) -> bool:
    """Returns whether each list has a fixed count, above 0, of fewer than `_MIN_ARRAY_VALUES` values."""
    return 0 < group.num_values < _MIN_ARRAY_VALUES


def _list_reader(group: FeatureGroup) -> Callable[[Any], Any]:
    """Returns the function from a Feature message to its list of the group's kind, which is empty if it has none.

    The list is a repeated field of protobuf, or an array of numbers unless the group `_has_short_lists`.
    """
    get_list = operator.attrgetter(f"{_KINDS_BY_NUMBER[group.kind]}_list.value")
    if group.kind == KINDS["bytes"] or _has_short_lists(group):
        return get_list
    if group.kind == KINDS["int64"]:
        return lambda feature: np.array(get_list(feature)[:], np.int64)  # a slice is faster than iteration

    def read_floats(feature: Any) -> NDArray[np.float32]:
        """Returns the floats from their serialized form; as objects of Python they take 30 times as long."""
        message = feature.float_list
        num_bytes = 4 * len(message.value)
        if not num_bytes:
            return np.empty(0, np.float32)
        message.DiscardUnknownFields()  # so that the serialized form ends with the floats
        return np.frombuffer(message.SerializeToString()[-num_bytes:], "<f4").astype(np.float32, copy=False)

    return read_floats


def _check_list(group: FeatureGroup, name: bytes, feature: Any, values: Any) -> Any:
    """Returns the list of a feature after checking it; None if it is missing.

    Args:
        group: the group of the feature.
        name: the name of the feature in the record, as UTF-8.
        feature: the Feature message; None if the record lacks it.
        values: the list of the group's kind in the message.

    Raises:
        FeatureValueError: the list has another kind or number of values, or it is missing and not optional.
    """
    path, kind = name.decode(errors="replace"), None if feature is None else feature.WhichOneof("kind")
    if kind is None:
        if not group.is_optional:
            raise FeatureValueError("the record does not have this feature, and it is not optional", feature=path)
        return None
    if kind != f"{_KINDS_BY_NUMBER[group.kind]}_list":
        raise FeatureValueError(f"expected a list of {_KINDS_BY_NUMBER[group.kind]}, found {kind}", feature=path)
    if group.num_values >= 0 and len(values) != group.num_values:
        expected = "one" if group.num_values == 1 else str(group.num_values)
        raise FeatureValueError(f"the record has {len(values)} values, expected {expected}", feature=path)
    return values


def _concatenate_lists(group: FeatureGroup, lists: list[Any], length: int) -> Any:
    """Returns the values of all lists in order: a bytearray of float32 or int64 for numbers, a list for bytes.

    For bytes, lists [[b'a', b'b'], None] and length 2 become [b'a', b'b', None, None]; for int64, lists [[1], [2, 3]]
    and length 2 become the 32 bytes of [1, 0, 2, 3].

    Args:
        group: the group of the lists.
        lists: the results of `_list_reader`; None for missing ones.
        length: the number of values to which shorter lists are padded, with zeros, or with None for bytes; 0 for no
            padding.
    """
    is_bytes, dtype = group.kind == KINDS["bytes"], np.float32 if group.kind == KINDS["float"] else np.int64
    if is_bytes or _has_short_lists(group):
        filler = None if is_bytes else 0
        if group.num_values == 1:
            values = [items[0] if items else filler for items in lists]
        else:
            parts = [[] if items is None else items[:] for items in lists]
            values = [value for part in parts for value in part + [filler] * (length - len(part))]
        return values if is_bytes else bytearray(np.array(values, dtype).tobytes())
    if not length:
        arrays = [items for items in lists if items is not None]
        return bytearray(np.concatenate([np.empty(0, dtype), *arrays]).tobytes())
    rows = np.zeros((len(lists), length), dtype)
    for row, items in zip(rows, lists):
        if items is not None:
            row[: len(items)] = items
    return bytearray(rows.tobytes())
