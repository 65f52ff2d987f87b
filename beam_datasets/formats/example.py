"""Records of shards: serialized tf.train.Examples, read and written without protobuf objects.

An Example is a map from names to features, and a feature is one list: of bytes, of float32, or of int64::

    record   0a <length> entry entry ...                    the map's entries, here in the byte order of their names
    entry    0a <length>  0a <length> name  12 <length> feature
    feature  0a <length> (0a <length> bytes)*               a list of bytes
             12 <length> [0a <length> float32 ...]          packed, little-endian
             1a <length> [0a <length> varint ...]           packed

Written records are canonical: entries are sorted by the raw UTF-8 of their names, lists are packed, and empty lists
have no payload. Any serialization can be read: records without the regular form of `scan` are parsed by protobuf.
Source: https://protobuf.dev/programming-guides/encoding and tensorflow/core/example/{example,feature}.proto.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from beam_datasets.errors import BeamDatasetsError

_MAX_BYTES = 10  # ceil(64 / 7)
_SMALL = tuple(bytes((i,)) for i in range(128))


class ExampleError(BeamDatasetsError, ValueError):
    """Error of bytes that are not a serialized tf.train.Example."""


def varint(number: int) -> bytes:
    """Returns the varint of an integer in [-2**63, 2**64).

    >>> varint(300).hex(), varint(-1).hex()
    ('ac02', 'ffffffffffffffffff01')
    """
    if 0 <= number < 128:
        return _SMALL[number]
    if 128 <= number < 16384:
        return bytes((number & 127 | 128, number >> 7))
    number &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Returns the unsigned varint at a byte position, and the position after it.

    >>> read_varint(varint(300), 0)
    (300, 2)

    Raises:
        ExampleError: the varint has more than ten bytes.
        IndexError: the data end within the varint.
    """
    byte = data[position]
    if byte < 128:
        return byte, position + 1
    second = data[position + 1]
    if second < 128:
        return byte & 127 | second << 7, position + 2
    number = byte & 127 | (second & 127) << 7
    shift = 14
    for index in range(position + 2, position + _MAX_BYTES):
        byte = data[index]
        number |= (byte & 127) << shift
        if byte < 128:
            return number, index + 1
        shift += 7
    raise ExampleError(f"the varint at byte {position} has more than {_MAX_BYTES} bytes")


def encode_varints(values: NDArray[np.int64]) -> bytes:
    """Returns the varints of a one-dimensional array of int64, one after the other."""
    if len(values) <= 8:
        return b"".join(map(varint, values.tolist()))
    from beam_datasets.formats.example_pb2 import Int64List  # type: ignore[attr-defined]

    serialized: bytes = Int64List(value=values.tolist()).SerializeToString()
    return serialized[read_varint(serialized, 1)[1] :]


Buffer: TypeAlias = "bytes | bytearray | memoryview"
Values: TypeAlias = "list[bytes] | NDArray[np.float32] | NDArray[np.int64]"

Kind: TypeAlias = Literal["bytes", "float", "int64"]
"""The kind of a list: of bytes, of float32, or of int64."""

_ENTRY, _NAME, _FEATURE, _VALUES = b"\x0a", b"\x0a", b"\x12", b"\x0a"
_BYTES, _FLOATS, _INTS = b"\x0a", b"\x12", b"\x1a"
_DTYPES = {"float": np.float32, "int64": np.int64}


# ---------------------------------------------------------------------------------------------------------- writing


def record(entries: bytes) -> bytes:
    """Returns the record, 0a <length> <entries>, of concatenated map entries."""
    return b"\x0a" + varint(len(entries)) + entries


def entry(name: bytes, feature: bytes) -> bytes:
    """Returns the framed map entry (0a <length> ...) of a name, in UTF-8, and a serialized tf.train.Feature."""
    body = entry_start(name) + varint(len(feature)) + feature
    return _ENTRY + varint(len(body)) + body


def entry_start(name: bytes) -> bytes:
    r"""Returns the first bytes of an entry of `Features.feature`; the length of the Feature message follows them.

    >>> entry_start(b"id")
    b'\n\x02id\x12'
    """
    return _NAME + varint(len(name)) + name + _FEATURE


def list_entry(name: bytes, kind: Kind, values: Any) -> bytes:
    r"""Returns the serialized entry of the map `Features.feature` for one list.

    Args:
        name: the name of the feature, in UTF-8.
        kind: the kind of the list: "bytes", "float" or "int64".
        values: a list of bytes for "bytes"; a contiguous array of shape (n,), of float32 for "float" and of int64 for
            "int64".

    >>> list_entry(b"t", "bytes", [b"xy"])
    b'\n\x0b\n\x01t\x12\x06\n\x04\n\x02xy'
    """
    if kind == "bytes" and len(values) == 1:
        return _build_single_entry(name, _BYTES, values[0])
    if kind == "bytes":
        payload = b"".join([_VALUES + varint(len(value)) + value for value in values])
        return entry(name, _BYTES + varint(len(payload)) + payload)
    tag = _FLOATS if kind == "float" else _INTS
    payload = values.astype("<f4", copy=False).tobytes() if kind == "float" else encode_varints(values)
    return _build_single_entry(name, tag, payload) if payload else entry(name, tag + b"\x00")


def _build_single_entry(name: bytes, kind: bytes, payload: bytes) -> bytes:
    """Returns the framed map entry of a list: of one value of bytes, or of packed numbers. Copies the payload once.

    Args:
        name: the name of the feature, in UTF-8.
        kind: the tag of the list, one of `_BYTES`, `_FLOATS` and `_INTS`.
        payload: the value of bytes, or the packed numbers.
    """
    size = len(payload)
    values_head = _VALUES + varint(size)
    list_head = kind + varint(len(values_head) + size) + values_head
    entry_head = entry_start(name) + varint(len(list_head) + size) + list_head
    return b"".join((_ENTRY, varint(len(entry_head) + size), entry_head, payload))


def serialize(features: Mapping[str, Values | Sequence[int] | Sequence[float]]) -> bytes:
    """Returns the canonical record of a dict from the name of a feature to its list.

    A list is a list of bytes, an array of floats, or an array of integers. A list of Python numbers counts as an array,
    and an empty list as a list of bytes.

    >>> serialize({"a": [300]}).hex()
    '0a0d0a0b0a016112061a040a02ac02'
    """
    encoded_items = sorted((name.encode("utf-8"), values) for name, values in features.items())
    return record(b"".join(_serialize_list(name, values) for name, values in encoded_items))


def _serialize_list(name: bytes, values: Values | Sequence[int] | Sequence[float]) -> bytes:
    """Returns the map entry of a named list whose kind is derived from the values.

    Raises:
        TypeError: the values are not bytes, floats or integers.
    """
    if not isinstance(values, np.ndarray) and (len(values) == 0 or isinstance(values[0], bytes)):
        return list_entry(name, "bytes", values)
    array = np.asarray(values)
    if array.dtype.kind == "f":
        return list_entry(name, "float", array.ravel().astype(np.float32))
    if array.dtype.kind in "iub":
        return list_entry(name, "int64", array.ravel().astype(np.int64))
    raise TypeError(f"feature {name.decode()!r} holds {array.dtype}; expected bytes, floats or integers")


# ---------------------------------------------------------------------------------------------------------- reading


def scan(data: bytes) -> dict[bytes, tuple[int, int]]:
    """Returns the byte range [start, stop) of each feature in a regular record, by name, in the order of the record.

    A record is regular if it is one map whose entries are a name and then a feature, and each name occurs once. All
    known writers make regular records.

    Raises:
        IrregularRecord: the record has another form; it may still be a serialized Example, see `canonicalize`.

    >>> data = serialize({"a": [300], "b": [b"xy"]})
    >>> {name: data[start:stop].hex() for name, (start, stop) in scan(data).items()}
    {b'a': '1a040a02ac02', b'b': '0a040a027879'}
    """
    spans: dict[bytes, tuple[int, int]] = {}
    total = len(data)
    try:
        position = _find_map_start(data, total)
        while position < total:
            if data[position] != 10:
                raise IrregularRecord(f"byte {position} is not the start of a map entry")
            size = data[position + 1]
            position += 2
            if size > 127:
                size, position = read_varint(data, position - 1)
            stop = position + size
            size = data[position + 1]
            name = position + 2
            if size > 127:
                size, name = read_varint(data, position + 1)
            name_end = name + size
            size = data[name_end + 1]
            start = name_end + 2
            if size > 127:
                size, start = read_varint(data, name_end + 1)
            if data[position] != 10 or data[name_end] != 18 or start + size != stop:
                raise IrregularRecord(f"the map entry at byte {position} is not a name and a feature")
            key = data[name:name_end]
            if key in spans:
                raise IrregularRecord(f"the name {key!r} occurs twice")
            spans[key] = start, stop
            position = stop
        if position > total:
            raise IndexError
    except IndexError:
        raise IrregularRecord(f"the record ends after {total} bytes, within a map entry") from None
    return spans


def _find_map_start(data: bytes, total: int) -> int:
    """Returns the byte position of the first map entry; the map must fill the rest of the record of `total` bytes.

    Raises:
        IrregularRecord: the record has another form.
        IndexError: the record ends within the length of the map.
    """
    if not total:
        return 0
    size, position = read_varint(data, 1)
    if data[0] != 10 or position + size != total:
        raise IrregularRecord("the record is not one map of features")
    return position


class IrregularRecord(ExampleError):
    """Error of a record without the regular form of `scan`; protobuf may be able to parse it."""


def canonicalize(data: bytes) -> bytes:
    """Returns the canonical record with the features of any serialized Example.

    Entries that protobuf merges (a name twice) are merged as it does: the last one counts. Unknown fields are dropped.
    Empty bytes stay empty.

    Raises:
        ExampleError: the bytes are not a serialized Example.
    """
    example = parse_message("Example", data)
    example.DiscardUnknownFields()
    canonical: bytes = example.SerializeToString(deterministic=True)  # maps are then sorted by key
    return canonical


def parse_message(name: str, data: Buffer) -> Any:
    """Returns the protobuf message of a serialized tf.train.`name`.

    Args:
        name: the name of the message type, such as "Example" or "Feature".
        data: the serialized message.

    Raises:
        ExampleError: the bytes are not a serialized message of this type.
    """
    message_type, decode_error = _message_type(name)
    try:
        return message_type.FromString(bytes(data))
    except decode_error as error:
        raise ExampleError(f"{len(data)} bytes are not a serialized tf.train.{name}: {error}") from error


@functools.cache
def _message_type(name: str) -> tuple[Any, type[Exception]]:
    """Returns the class of tf.train.`name`, and the error of its parser; imports protobuf at the first call."""
    from google.protobuf.message import DecodeError

    from beam_datasets.formats import example_pb2

    return getattr(example_pb2, name), DecodeError


def list_of_message(feature: Any, kind: Kind) -> Values:
    """Returns the list of a Feature message: a list of bytes, or an array of float32 or int64.

    Raises:
        ExampleError: the message contains a list of another kind.
    """
    field_name = feature.WhichOneof("kind")
    if field_name != f"{kind}_list":
        raise ExampleError(f"expected a list of {kind}, found {field_name or 'none'}")
    values = getattr(feature, field_name).value
    return list(values) if kind == "bytes" else np.fromiter(values, _DTYPES[kind], len(values))


def parse(data: Buffer) -> dict[str, Values]:
    """Returns the lists of a record by name: each a list of bytes, an array of float32, or an array of int64.

    A name with an empty feature, which has no list, gets an empty list of bytes.

    Raises:
        ExampleError: the bytes are not a serialized Example.

    >>> parse(serialize({"a": [1, 2], "b": [b"x"]}))
    {'a': array([1, 2]), 'b': [b'x']}
    """
    regular_data, spans = parse_spans(data)
    lists: dict[str, Values] = {}
    for raw, (start, stop) in spans.items():
        try:
            name = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ExampleError(f"the name {raw!r} is not UTF-8") from error
        lists[name] = parse_feature(regular_data, start, stop)
    return lists


def parse_feature(data: bytes, start: int, stop: int) -> Values:
    """Returns the list of the feature in bytes [start, stop) of a record; [] for an empty feature."""
    feature = parse_message("Feature", data[start:stop])
    kind = feature.WhichOneof("kind")
    return list_of_message(feature, kind.removesuffix("_list")) if kind else []


def parse_spans(data: Buffer) -> tuple[bytes, dict[bytes, tuple[int, int]]]:
    """Returns a record in the regular form of `scan`, and the byte range [start, stop) of each feature in it, by name.

    Raises:
        ExampleError: the bytes are not a serialized Example.
    """
    record_bytes = data if type(data) is bytes else bytes(data)
    try:
        return record_bytes, scan(record_bytes)
    except IrregularRecord:
        record_bytes = canonicalize(record_bytes)
        return record_bytes, scan(record_bytes)


def sort_entries(entries: Iterable[bytes]) -> bytes:
    """Returns serialized map entries joined in the byte order of their names."""
    data = record(b"".join(entries))
    spans = scan(data)
    return b"".join(entry(name, data[slice(*spans[name])]) for name in sorted(spans))


def filter_entries(data: Buffer, names: Collection[bytes]) -> bytes:
    """Returns a copy of a record with only the entries of some names, in the order of the record.

    >>> from beam_datasets.formats.example import parse, serialize
    >>> parse(filter_entries(serialize({"a": [1], "b": [2], "c": [b"x"]}), {b"a", b"c"}))
    {'a': array([1]), 'c': [b'x']}

    Raises:
        ExampleError: the bytes are not a serialized tf.train.Example.
    """
    regular_data, spans = parse_spans(data)
    bounds = [read_varint(regular_data, 1)[1] if regular_data else 0, *(stop for _, stop in spans.values())]
    entries = [regular_data[start:stop] for name, (start, stop) in zip(spans, pairwise(bounds)) if name in names]
    return record(b"".join(entries))
