"""The tf.train.SequenceExample: named features of a record (its context), and named lists of a feature a time step.

    record         0a <length> context   12 <length> lists
    context, lists as the map of an Example; the value of an entry of `lists` is
    feature list   (0a <length> feature)*                        one feature a time step

So both halves are scanned as Examples are, and nothing is parsed but what is asked for. Whatever has another form is
parsed by protobuf first.
Source: tensorflow/core/example/example.proto.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from beam_datasets.formats import example
from beam_datasets.formats.varint import ExampleError, read_varint, varint

if TYPE_CHECKING:
    from beam_datasets.formats.example import Buffer

Spans = dict[bytes, tuple[int, int]]
"""For each name, where its value begins and ends in the bytes that belong to it."""


class Halves(NamedTuple):
    """A SequenceExample, taken apart.

    Attributes:
        context: the record of the context, of the regular form of an Example.
        context_spans: where the features are in it.
        lists: the record of the feature lists.
        list_spans: where the feature lists are in it; `steps` says where the features of one are.
    """

    context: bytes
    context_spans: Spans
    lists: bytes
    list_spans: Spans


def spans_of(data: Buffer) -> Halves:
    """Returns where the features and feature lists of a record are.

    Raises:
        ExampleError: the bytes are not a serialized SequenceExample.
    """
    whole = data if type(data) is bytes else bytes(data)
    try:
        context, lists = _split(whole)
        return Halves(context, example.scan(context), lists, example.scan(lists))
    except example.IrregularRecord:
        context, lists = _regular(whole)
        return Halves(context, example.scan(context), lists, example.scan(lists))


def steps(data: bytes, start: int, stop: int) -> tuple[bytes, list[tuple[int, int]]]:
    """Returns where the feature of each time step is, of the feature list at [start, stop) of a record.

    Returns:
        The bytes that hold the features, and the beginning and end of each in them.

    Raises:
        ExampleError: the bytes are no feature list.
    """
    try:
        return data, [span for _, span in _fields(data, start, stop, known=b"\x0a")]
    except example.IrregularRecord:
        regular = _message("FeatureList", data[start:stop])
        again = b"".join(b"\x0a" + _sized(feature) for feature in regular.feature)
        return again, [span for _, span in _fields(again, 0, len(again), known=b"\x0a")]


def _split(data: bytes) -> tuple[bytes, bytes]:
    """Returns the records of the context and of the lists. Protobuf merges fields that come twice: as joined here."""
    entries = {10: b"", 18: b""}
    for tag, (start, stop) in _fields(data, 0, len(data), known=b"\x0a\x12"):
        entries[tag] += data[start:stop]
    return example.record(entries[10]), example.record(entries[18])


def _fields(data: bytes, start: int, stop: int, *, known: bytes) -> list[tuple[int, tuple[int, int]]]:
    """Returns the tag, and the beginning and end, of each field of bytes [start, stop).

    Raises:
        IrregularRecord: a field has a tag that is not known, or the bytes end within one.
    """
    found = []
    place = start
    try:
        while place < stop:
            tag = data[place]
            size, begin = read_varint(data, place + 1)
            place = begin + size
            if tag not in known or place > stop:
                raise example.IrregularRecord(f"the field at byte {begin} is none of a SequenceExample, or is cut off")
            found.append((tag, (begin, place)))
    except IndexError:
        raise example.IrregularRecord(f"the bytes end at {stop}, within a field") from None
    return found


def _regular(data: bytes) -> tuple[bytes, bytes]:
    """Returns the two records of any serialized SequenceExample."""
    message = _message("SequenceExample", data)
    return _record_of(message.context.feature), _record_of(message.feature_lists.feature_list)


def _record_of(named: Any) -> bytes:
    entries = [example.entry(name.encode("utf-8"), value.SerializeToString()) for name, value in sorted(named.items())]
    return example.record(b"".join(entries))


def _sized(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return varint(len(data)) + data


def _message(name: str, data: bytes) -> Any:
    from google.protobuf.message import DecodeError

    from beam_datasets.formats import example_pb2

    message = getattr(example_pb2, name)()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise ExampleError(f"{len(data)} bytes are not a serialized tf.train.{name}: {error}") from error
    return message
