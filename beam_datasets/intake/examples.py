"""Reading and checking of TFRecord files of tf.train.Examples: complete records, or an error that names the record.

protobuf silently ignores unknown fields: it parses the context of a SequenceExample as an Example, and most other
messages as an empty Example. Therefore the fields of a record are checked before it is used. Nearly all records have
the regular form (`formats.example`), for which one pass over their lengths is enough.
"""

from __future__ import annotations

import io
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from beam_datasets.errors import CorruptRecordError, InputError
from beam_datasets.formats import tfrecord
from beam_datasets.formats.columns import ANY, KINDS, FeatureGroup
from beam_datasets.formats.example import (
    ExampleError,
    IrregularRecord,
    Kind,
    Values,
    list_of_message,
    parse_message,
    read_varint,
    scan,
    varint,
)
from beam_datasets.intake.contents import HEAD_BYTES, other_content, text_format
from beam_datasets.intake.errors import foreign_errors
from beam_datasets.intake.streams import ZLIB, codec_of, codec_of_content, decompressed, open_bytes
from beam_datasets.native import core

READ_BYTES = 1 << 20
_HEAD_BYTES = 64 << 10  # of a file, by which its compression is recognized


# --------------------------------------------------------------------------------------------------------------- files


class Block(NamedTuple):
    """Consecutive intact records of a file, and the problem of the record after them, if it is damaged.

    Attributes:
        first: number of the first record in the file, from 0.
        offsets: byte offset in the file of each of the n records, and of the end of the last one; n + 1 numbers.
        records: data of each record.
        problem: error text for damaged data of the record at `offsets[-1]`; '' if that record is not damaged, or not
            read yet.
    """

    first: int
    offsets: list[int]
    records: list[bytes]
    problem: str = ""


def place_of(offset: int, record: int) -> str:
    """Returns the position of a record in a file for errors: "byte 1200 (record 7)"."""
    return f"byte {offset} (record {record})"


def open_records(path: str) -> io.BufferedReader:
    """Opens a TFRecord file, and decompresses it if its name or its content is that of a compressed file.

    Raises:
        InputError: the file cannot be opened.
    """
    stream = open_bytes(path)
    head = stream.peek(_HEAD_BYTES) if codec_of(path) is None else b""
    is_other = bool(tfrecord.find_signature_problem(head))
    codec = codec_of_content(head) if is_other else None
    other = other_content(head[:HEAD_BYTES]) or text_format(head[:HEAD_BYTES]) if is_other and codec is None else ""
    if other:
        stream.close()
        raise InputError(expected="a TFRecord file", got=other, path=path)
    is_compressed = codec is not None and (codec is not ZLIB or _is_zlib(head))
    return decompressed(stream, codec, path) if codec is not None and is_compressed else stream


def _is_zlib(head: bytes) -> bool:
    """Returns whether `head` is the beginning of a zlib-compressed TFRecord file; two magic bytes are not enough."""
    try:
        return not tfrecord.find_signature_problem(zlib.decompressobj().decompress(head, tfrecord.HEADER.size))
    except zlib.error:
        return False


class Readable(Protocol):
    """A binary stream to read records from, such as an `io.BufferedReader`."""

    def read1(self, size: int, /) -> bytes:
        """Returns at least one and at most `size` bytes; b'' at the end of the stream."""


def record_blocks(stream: Readable, path: str) -> Iterator[Block]:
    """Yields the records of a stream in blocks, up to the end of the stream.

    A record whose data have a wrong checksum is skipped, and `Block.problem` reports it. Memory is allocated for the
    bytes that the file has, not for the length that a record declares.

    Args:
        stream: stream of a TFRecord file, at its beginning.
        path: path of the file, for errors.

    Raises:
        CorruptRecordError: the length of a record is damaged, so that the next one cannot be found, or the file ends
            within a record. The records before it are yielded first.
        InputError: the stream cannot be read to its end. The records before that position are yielded first.
    """
    view, start, number, want = memoryview(b""), 0, 0, READ_BYTES  # start: offset of `view` in the file
    while want:
        data, failure = _read_up_to(stream, want - len(view), path, start + len(view))
        view = memoryview(b"".join((view, data)))
        is_end = failure is None and len(view) < want
        while want:
            step = _complete_block(view, start, number, is_end=is_end)
            if step.block.records or step.block.problem:
                yield step.block
            if step.fatal_problem:
                raise CorruptRecordError(
                    step.fatal_problem, path=path, offset=step.stop, record=step.number, repairable=False
                )
            view, start, number = view[step.stop - start :], step.stop, step.number
            want = step.want
            if not step.block.problem:
                break
        if failure is not None:
            raise failure


def _read_up_to(stream: Readable, size: int, path: str, start: int) -> tuple[bytes, InputError | None]:
    """Returns (data, error that ended the read or None); the data are `size` bytes, or fewer at the end or an error.

    Args:
        stream: the stream.
        size: number of bytes.
        path: path of the file, for errors.
        start: byte offset of the stream in the file, for errors.
    """
    parts: list[bytes] = []
    try:
        with foreign_errors(path, f"byte {start}"):
            while size > 0 and (piece := stream.read1(min(size, tfrecord.PIECE_BYTES))):
                parts.append(piece)
                size -= len(piece)
    except InputError as error:
        return b"".join(parts), error
    return b"".join(parts), None


class _Step(NamedTuple):
    """A block, and where to go on reading.

    Attributes:
        block: the block; it may be empty.
        stop: byte offset in the file of the next block.
        number: number in the file of its first record.
        want: number of bytes to hold from `stop` on before the next block is read; 0 at the end.
        fatal_problem: error text if the record at `stop` is so damaged that the next one cannot be found; else ''.
    """

    block: Block
    stop: int
    number: int
    want: int
    fatal_problem: str = ""


def _complete_block(view: memoryview, start: int, number: int, *, is_end: bool) -> _Step:
    """Returns the block of the records that are complete in `view`, up to the first damaged one.

    Args:
        view: bytes of the file from offset `start` on.
        start: byte offset in the file of the first record.
        number: number in the file of the first record.
        is_end: whether `view` reaches the end of the file.
    """
    offsets = tfrecord.good_offsets(view, True)
    records = tfrecord.good_records(view, offsets, False)
    stop, next_number = int(offsets[-1]), number + len(records)
    size, problem = 0, None  # of the record at `stop`; a damaged one without a size has no known end
    if stop < len(view):
        size, problem = tfrecord.next_size(view[stop:], len(view) - stop if is_end else sys.maxsize)
    file_offsets = (offsets + start).tolist()
    if problem and not size:
        fatal_problem = (tfrecord.find_signature_problem(view) if start + stop == 0 else "") or problem
        return _Step(Block(number, file_offsets, records), start + stop, next_number, 0, fatal_problem)
    if problem:
        block = Block(number, file_offsets, records, problem)
        return _Step(block, start + stop + size, next_number + 1, READ_BYTES)
    want = 0 if is_end else max(READ_BYTES, size)
    return _Step(Block(number, file_offsets, records), start + stop, next_number, want)


# ------------------------------------------------------------------------------------------------------------ examples

_Lists: TypeAlias = "dict[bytes, tuple[int, int, int]]"
"""Name of a feature -> (tag of its kind, 0 if it has no list; start and end of its values in the record)."""

_BYTES, _FLOATS, _INTS = KINDS["bytes"], KINDS["float"], KINDS["int64"]
_VALUES = 10  # tag of the field `value` of a list, with a length
_LENGTH, _ONE_FLOAT, _ONE_INT = 2, 5, 0  # wire types
_WIRE_SIZES = {1: 8, 5: 4}  # wire type -> bytes of a field of fixed size
_SHOWN = 3  # names in a message
ADVICE = "Write the records as tf.train.Examples, or read them in a builder of your own (bd.SourceUnits)"
SEQUENCES = (
    "Read it in a builder of your own by beam_datasets.slim.TFSequenceExampleDecoder; docs/how-to/slim.md has one"
)


def lists_of(record: bytes) -> dict[str, Values]:
    """Returns {name of a feature: its values}: a list of bytes, an array of float32 or an array of int64.

    The values of a feature without a list are [].

    Raises:
        ExampleError: the record is not a tf.train.Example, or has fields that protobuf would ignore.
    """
    lists = _regular_lists(record)
    if lists is None:
        _check_fields(record)
        features = parse_message("Example", record).features.feature
        kinds = {name: feature.WhichOneof("kind") for name, feature in features.items()}
        return {
            name: list_of_message(features[name], kind.removesuffix("_list")) if kind else []
            for name, kind in kinds.items()
        }
    try:
        return {name.decode(): _read_values(record, *span) for name, span in lists.items()}
    except UnicodeDecodeError as error:
        raise ExampleError(f"the name {error.object!r:.100} is not UTF-8") from error


def has_features(record: bytes) -> bool:
    """Returns whether a record is anything but an Example without features."""
    return record not in (b"", b"\x0a\x00")


def regularity_checker(lists: Mapping[bytes, Kind]) -> Callable[[Sequence[bytes]], bool]:
    """Returns a fast function from serialized records to whether `check_example` accepts all of them.

    True is certain. False only means that the caller must call `check_example` for each record: one of the records may
    have a valid form that is not the regular form of `_regular_lists`, in which numbers are packed.

    Args:
        lists: name of a feature that is read, as UTF-8 -> its kind: "bytes", "float" or "int64". The native module does
            not check the lists of other features; without the native module all features are checked, in any kind.
    """
    if core is None:
        return lambda records: all(_regular_lists(record) is not None for record in records)
    groups = tuple(FeatureGroup(KINDS[kind], ANY, True, (name,)) for name, kind in lists.items())
    schema, parse = core.schema(groups), core.parse
    return lambda records: parse(schema, records) is not None


def check_example(record: bytes) -> None:
    """Checks that a record is a tf.train.Example without fields that protobuf would ignore.

    Raises:
        ExampleError: the record is not an Example, or has such a field; the message names the first one.
    """
    lists = _regular_lists(record)
    if lists is None or not _are_utf8(lists):
        _check_fields(record)


def _check_fields(record: bytes) -> None:
    """Checks a record field by field, in any form that protobuf accepts.

    Raises:
        ExampleError: it has a field that protobuf would ignore.
    """
    parse_message("Example", record)
    names: set[bytes] = set()
    for number, wire, start, stop in _fields(record, 0, len(record)):
        if (number, wire) != (1, _LENGTH):
            raise ExampleError(_describe_message(record, number, start))
        for entry in _read_map_entries(record, start, stop):
            name = _check_entry(record, *entry)
            if name in names:
                raise ExampleError(
                    f"the feature {_quote_name(name)} occurs twice, and protobuf reads the last one alone"
                )
            names.add(name)


def _describe_message(record: bytes, number: int, start: int) -> str:
    """Returns the error text for a record that is not an Example but another message of protobuf.

    Args:
        record: the message.
        number: number of that field.
        start: its byte offset in the record.
    """
    if number == 2:
        try:
            lists = sorted(parse_message("SequenceExample", record).feature_lists.feature_list)
        except ExampleError:
            lists = []
        if lists:
            names = ", ".join(map(repr, lists[:_SHOWN])) + (", ..." if len(lists) > _SHOWN else "")
            return f"it is a tf.train.SequenceExample with the feature lists {names}. {SEQUENCES}"
    return f"it is another message: its field {number} at byte {start} is unknown. {ADVICE}"


def _check_entry(record: bytes, start: int, stop: int) -> bytes:
    """Checks the entry [start, stop) of the map of features, and returns the name of its feature.

    Raises:
        ExampleError: it has a field that protobuf would ignore.
    """
    name, numbers = b"", set[int]()
    for number, wire, inner, end in _fields(record, start, stop):
        if number not in (1, 2) or wire != _LENGTH or number in numbers:
            raise ExampleError(_unknown_field(number, inner, "an entry of the map"))
        numbers.add(number)
        if number == 1:
            name = record[inner:end]
        else:
            _check_feature(record, inner, end)
    return name


def _check_feature(record: bytes, start: int, stop: int) -> None:
    """Checks the message Feature at [start, stop): it has one kind of list, and the list holds values only.

    Raises:
        ExampleError: it has a field that protobuf would ignore.
    """
    kinds = set[int]()
    for number, wire, inner, end in _fields(record, start, stop):
        if number not in (1, 2, 3) or wire != _LENGTH:
            raise ExampleError(_unknown_field(number, inner, "a Feature"))
        kinds.add(number)
        single_value_wire = {1: _LENGTH, 2: _ONE_FLOAT, 3: _ONE_INT}[number]
        for value_number, value_wire, value_start, _ in _fields(record, inner, end):
            if value_number != 1 or value_wire not in (_LENGTH, single_value_wire):
                raise ExampleError(_unknown_field(value_number, value_start, "a list"))
    if len(kinds) > 1:
        raise ExampleError(f"the Feature at byte {start} has lists of two kinds, and protobuf reads the last one alone")


def _read_map_entries(record: bytes, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yields the (start, stop) of each entry of the map of features at [start, stop)."""
    for number, wire, inner, end in _fields(record, start, stop):
        if (number, wire) != (1, _LENGTH):
            raise ExampleError(_unknown_field(number, inner, "the features"))
        yield inner, end


def _unknown_field(number: int, start: int, message_name: str) -> str:
    """Returns the error text about an unknown field of a protobuf message, with its number and its first byte.

    Args:
        number: number of the field.
        start: offset of its first byte in the record.
        message_name: name of the message for the text, such as "a Feature".
    """
    return f"field {number} of {message_name}, at byte {start}, is unknown and would be lost. {ADVICE}"


def _fields(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    r"""Yields (field number, wire type, start, stop) of each field of the message in the bytes [start, stop).

    Start and stop are byte offsets in `data`; the start is behind the field's tag and length. Protobuf must be able to
    parse the message. Groups are not supported: callers stop at one, because no message of an Example has groups.

    >>> list(_fields(b"\x0a\x02ab\x10\x05", 0, 6))
    [(1, 2, 2, 4), (2, 0, 5, 6)]
    """
    while start < stop:
        tag, start = read_varint(data, start)
        number, wire = tag >> 3, tag & 7
        size = _WIRE_SIZES.get(wire, 0)
        if wire == _LENGTH:
            size, start = read_varint(data, start)
        elif wire == 0:
            size = read_varint(data, start)[1] - start
        yield number, wire, start, start + size
        start += size


def _are_utf8(names: Iterable[bytes]) -> bool:
    """Returns whether each of the names is UTF-8."""
    try:
        b"\0".join(names).decode()
    except UnicodeDecodeError:
        return False
    return True


def _quote_name(name: bytes) -> str:
    """Returns the name of a feature in quotes; bytes that are not UTF-8 are replaced."""
    return repr(name.decode(errors="replace"))


# ---------------------------------------------------------------------------------------------------- regular records


def _regular_lists(data: bytes) -> _Lists | None:
    """Returns the lists of a record of the regular form, in which numbers are packed; None if it has another form."""
    try:
        return {name: _regular_list(data, start, stop) for name, (start, stop) in scan(data).items()}
    except (IndexError, ExampleError):
        return None


def _regular_list(data: bytes, start: int, stop: int) -> tuple[int, int, int]:
    """Returns (tag of its kind, start, end of its values) of the Feature at [start, stop); the tag is 0 for no list.

    Raises:
        IrregularRecord, IndexError: it does not have the regular form.
    """
    if start == stop:
        return 0, start, stop
    kind, size, values_start = data[start], data[start + 1], start + 2
    if size > 127:
        size, values_start = read_varint(data, start + 1)
    is_regular = kind in (_BYTES, _FLOATS, _INTS) and values_start + size == stop
    if kind == _BYTES:
        position = values_start
        while position < stop:
            is_regular = is_regular and data[position] == _VALUES
            size, position = data[position + 1], position + 2
            if size > 127:
                size, position = read_varint(data, position - 1)
            position += size
        is_regular = is_regular and position == stop
    elif size:
        size, packed_start = data[values_start + 1], values_start + 2
        if size > 127:
            size, packed_start = read_varint(data, values_start + 1)
        is_regular = is_regular and data[values_start] == _VALUES and packed_start + size == stop
        is_regular = is_regular and (size % 4 == 0 if kind == _FLOATS else _are_varints(data, packed_start, stop))
        values_start = packed_start
    if not is_regular:
        raise IrregularRecord(f"the list at byte {start} is not regular")
    return kind, values_start, stop


def _are_varints(data: bytes, start: int, stop: int) -> bool:
    """Returns whether bytes [start, stop) are a sequence of complete varints of at most 10 bytes."""
    if stop - start == 1:
        return data[start] < 128
    flags = data[start:stop].translate(_CONTINUES)
    return not flags.endswith(b"\x01") and _TOO_LONG not in flags


_CONTINUES = bytes(byte > 127 for byte in range(256))  # byte of a varint -> 1 if another one follows, else 0
_TOO_LONG = b"\x01" * 10


def _read_values(data: bytes, kind: int, start: int, stop: int) -> Values:
    """Returns the values at [start, stop) of a regular list; `kind` is the tag of its kind, or 0 for no list."""
    if kind == _FLOATS:
        return np.frombuffer(data, "<f4", (stop - start) // 4, start)
    if kind == _INTS:
        if stop - start == 1 and data[start] < 128:
            return np.array([data[start]], np.int64)
        numbers = parse_message("Int64List", b"\x0a" + varint(stop - start) + data[start:stop]).value
        return np.fromiter(numbers, np.int64, len(numbers))
    values = []
    while start < stop:
        size, start = read_varint(data, start + 1)
        values.append(data[start : start + size])
        start += size
    return values
