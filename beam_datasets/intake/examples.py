"""TFRecords of tf.train.Examples that others wrote: every record whole, or an error that names its place.

protobuf drops what it does not know without a word: of a SequenceExample it reads the context alone, of any other
message an empty Example. So the fields of a record are compared with those of an Example before it is used. Nearly all
records have the regular form (`formats.example`), for which one pass over their lengths is enough.
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
    message,
    read_varint,
    scan,
    values_of,
    varint,
)
from beam_datasets.intake.errors import foreign_errors
from beam_datasets.intake.streams import ZLIB, codec_of, codec_of_content, decompressed, open_bytes
from beam_datasets.native import core

READ_BYTES = 1 << 20
_HEAD_BYTES = 64 << 10


# --------------------------------------------------------------------------------------------------------------- files


class Block(NamedTuple):
    """Consecutive good records of a file, and what is wrong with the one after them.

    Attributes:
        first: number in the file of the first record.
        offsets: where each record begins in the file, and where the last one ends, in bytes; n + 1 numbers.
        records: the data of each.
        problem: what is wrong with the data of the record at `offsets[-1]`; '' if nothing is, or if there is none.
    """

    first: int
    offsets: list[int]
    records: list[bytes]
    problem: str = ""


def place_of(offset: int, record: int) -> str:
    """Returns what names a record in a file."""
    return f"byte {offset} (record {record})"


def open_records(path: str) -> io.BufferedReader:
    """Returns the bytes of a TFRecord file, uncompressed: writers give compressed ones any name.

    Raises:
        InputError: the file cannot be opened.
    """
    stream = open_bytes(path)
    head = stream.peek(_HEAD_BYTES) if codec_of(path) is None else b""
    codec = codec_of_content(head) if tfrecord.not_tfrecord(head) else None
    is_compressed = codec is not None and (codec is not ZLIB or _is_zlib(head))
    return decompressed(stream, codec, path) if codec is not None and is_compressed else stream


def _is_zlib(head: bytes) -> bool:
    """Returns whether bytes are the start of a TFRecord file that is compressed by zlib, whose two bytes say little."""
    try:
        return not tfrecord.not_tfrecord(zlib.decompressobj().decompress(head, tfrecord.HEADER.size))
    except zlib.error:
        return False


class Readable(Protocol):
    """What records are read from, such as an `io.BufferedReader`."""

    def read1(self, size: int, /) -> bytes:
        """Returns some bytes, at most `size`; none at the end."""


def record_blocks(stream: Readable, path: str) -> Iterator[Block]:
    """Yields the records of a stream to its end, or to where the next record cannot be found.

    A record is passed over if the checksum of its data alone is wrong, and its block says so. Memory is taken for what
    the file has, not for what a length promises.

    Args:
        stream: of a TFRecord file, at its beginning.
        path: its name, for errors.

    Raises:
        CorruptRecordError: the length of a record is damaged, or the file ends within it.
        InputError: the stream cannot be read to its end. In both cases the records before are yielded first.
    """
    view, start, number, want = memoryview(b""), 0, 0, READ_BYTES
    while want:
        more, failure = _read(stream, want - len(view), path, start + len(view))
        view = memoryview(b"".join((view, more)))
        is_end = failure is None and len(view) < want
        while want:
            found = _next_block(view, start, number, is_end=is_end)
            if found.block.records or found.block.problem:
                yield found.block
            if found.lost:
                raise CorruptRecordError(
                    found.lost, path=path, offset=found.stop, record=found.number, repairable=False
                )
            view, start, number = view[found.stop - start :], found.stop, found.number
            want = found.want
            if not found.block.problem:
                break
        if failure is not None:
            raise failure


def _read(stream: Readable, size: int, path: str, start: int) -> tuple[bytes, InputError | None]:
    """Returns so many bytes, or fewer at the end, and why no more can be read."""
    parts: list[bytes] = []
    try:
        with foreign_errors(path, f"byte {start}"):
            while size > 0 and (part := stream.read1(min(size, tfrecord.PIECE_BYTES))):
                parts.append(part)
                size -= len(part)
    except InputError as error:
        return b"".join(parts), error
    return b"".join(parts), None


class _Found(NamedTuple):
    """A block.

    Attributes:
        block: the block.
        stop: where the next one begins.
        number: of its first record.
        want: how many bytes it needs; 0 if there is none.
        lost: why no record can be found there; '' if one can.
    """

    block: Block
    stop: int
    number: int
    want: int
    lost: str = ""


def _next_block(view: memoryview, start: int, number: int, *, is_end: bool) -> _Found:
    """Returns the block that begins at byte `start` of the file with record `number`, as far as it is in the view.

    Args:
        view: the bytes from there on.
        start: see above.
        number: see above.
        is_end: whether the view ends with the file.
    """
    offsets = tfrecord.good_offsets(view, True)
    records = tfrecord.good_records(view, offsets, False)
    stop, after = int(offsets[-1]), number + len(records)
    size, problem = 0, None
    if stop < len(view):
        size, problem = tfrecord.next_size(view[stop:], len(view) - stop if is_end else sys.maxsize)
    places = (offsets + start).tolist()
    if problem and not size:
        lost = (tfrecord.not_tfrecord(view) if start + stop == 0 else "") or problem
        return _Found(Block(number, places, records), start + stop, after, 0, lost)
    if problem:
        return _Found(Block(number, places, records, problem), start + stop + size, after + 1, READ_BYTES)
    return _Found(Block(number, places, records), start + stop, after, 0 if is_end else max(READ_BYTES, size))


# ------------------------------------------------------------------------------------------------------------ examples

_Lists: TypeAlias = "dict[bytes, tuple[int, int, int]]"
"""Name of a feature -> tag of its kind, 0 if it has no list, and where the values begin and end."""

_BYTES, _FLOATS, _INTS = KINDS["bytes"], KINDS["float"], KINDS["int64"]
_VALUES = 10  # the tag of values with a length
_LENGTH, _ONE_FLOAT, _ONE_INT = 2, 5, 0  # wire types
_WIRE_SIZES = {1: 8, 5: 4}
_SHOWN = 3
ADVICE = "Write the records as tf.train.Examples, or read them in a builder of your own (bd.SourceUnits)"
SEQUENCES = (
    "Read it in a builder of your own by beam_datasets.slim.TFSequenceExampleDecoder; docs/how-to/slim.md has one"
)


def lists_of(record: bytes) -> dict[str, Values]:
    """Returns the named lists of a record: a list of bytes, an array of float32 or an array of int64 each.

    A feature without a list is an empty list of bytes.

    Raises:
        ExampleError: the record holds something else than a tf.train.Example, or more than protobuf reads of it.
    """
    lists = _regular_lists(record)
    if lists is None:
        _check_irregular(record)
        features = message("Example", record).features.feature
        kinds = {name: feature.WhichOneof("kind") for name, feature in features.items()}
        return {
            name: values_of(features[name], kind.removesuffix("_list")) if kind else [] for name, kind in kinds.items()
        }
    try:
        return {name.decode(): _values(record, *where) for name, where in lists.items()}
    except UnicodeDecodeError as error:
        raise ExampleError(f"the name {error.object!r:.100} is not UTF-8") from error


def has_features(record: bytes) -> bool:
    """Returns whether a record is not just an empty Example."""
    return record not in (b"", b"\x0a\x00")


def regularity(lists: Mapping[bytes, Kind]) -> Callable[[Sequence[bytes]], bool]:
    """Returns the function that returns whether records are surely whole; of others `check_example` knows it.

    Args:
        lists: the kind of each list that is read, by its name. Others may have anything in them.
    """
    if core is None:
        return lambda records: all(_regular_lists(record) is not None for record in records)
    groups = tuple(FeatureGroup(KINDS[kind], ANY, True, (name,)) for name, kind in lists.items())
    schema, parse = core.schema(groups), core.parse
    return lambda records: parse(schema, records) is not None


def check_example(record: bytes) -> None:
    """Checks that a record is a tf.train.Example and nothing besides: protobuf reads all of it.

    Raises:
        ExampleError: it is not; the message says what would be lost.
    """
    lists = _regular_lists(record)
    if lists is None or not _is_text(lists):
        _check_irregular(record)


def _check_irregular(record: bytes) -> None:
    """Checks a record of any form, field by field."""
    message("Example", record)
    names: set[bytes] = set()
    for number, wire, start, stop in _fields(record, 0, len(record)):
        if (number, wire) != (1, _LENGTH):
            raise ExampleError(_other_message(record, number, start))
        for entry in _entries(record, start, stop):
            name = _check_entry(record, *entry)
            if name in names:
                raise ExampleError(f"the feature {_text(name)} occurs twice, and protobuf reads the last one alone")
            names.add(name)


def _other_message(record: bytes, number: int, start: int) -> str:
    """Returns what a record is that has a field which an Example does not have."""
    if number == 2:
        try:
            lists = sorted(message("SequenceExample", record).feature_lists.feature_list)
        except ExampleError:
            lists = []
        if lists:
            shown = ", ".join(map(repr, lists[:_SHOWN])) + (", ..." if len(lists) > _SHOWN else "")
            return f"it is a tf.train.SequenceExample with the feature lists {shown}. {SEQUENCES}"
    return f"it is another message: its field {number} at byte {start} is unknown. {ADVICE}"


def _check_entry(record: bytes, start: int, stop: int) -> bytes:
    """Checks an entry of the map of features and returns its name."""
    name, found = b"", set[int]()
    for number, wire, inner, end in _fields(record, start, stop):
        if number not in (1, 2) or wire != _LENGTH or number in found:
            raise ExampleError(_unknown(number, inner, "an entry of the map"))
        found.add(number)
        if number == 1:
            name = record[inner:end]
        else:
            _check_feature(record, inner, end)
    return name


def _check_feature(record: bytes, start: int, stop: int) -> None:
    kinds = set[int]()
    for number, wire, inner, end in _fields(record, start, stop):
        if number not in (1, 2, 3) or wire != _LENGTH:
            raise ExampleError(_unknown(number, inner, "a Feature"))
        kinds.add(number)
        one = {1: _LENGTH, 2: _ONE_FLOAT, 3: _ONE_INT}[number]
        for of_value, wire_of_value, place, _ in _fields(record, inner, end):
            if of_value != 1 or wire_of_value not in (_LENGTH, one):
                raise ExampleError(_unknown(of_value, place, "a list"))
    if len(kinds) > 1:
        raise ExampleError(f"the Feature at byte {start} has lists of two kinds, and protobuf reads the last one alone")


def _entries(record: bytes, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yields where the entries of the map of features begin and end."""
    for number, wire, inner, end in _fields(record, start, stop):
        if (number, wire) != (1, _LENGTH):
            raise ExampleError(_unknown(number, inner, "the features"))
        yield inner, end


def _unknown(number: int, start: int, where: str) -> str:
    return f"field {number} of {where}, at byte {start}, is unknown and would be lost. {ADVICE}"


def _fields(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields number and wire type of the fields of a message that protobuf can parse, and where they begin and end.

    What begins with a length begins after it. A group ends the iteration: no message of an Example has one.
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


def _is_text(names: Iterable[bytes]) -> bool:
    """Returns whether each of the names is UTF-8."""
    try:
        b"\0".join(names).decode()
    except UnicodeDecodeError:
        return False
    return True


def _text(name: bytes) -> str:
    return repr(name.decode(errors="replace"))


# ---------------------------------------------------------------------------------------------------- regular records


def _regular_lists(data: bytes) -> _Lists | None:
    """Returns the lists of a record of the regular form, with all numbers packed; None of others."""
    try:
        return {name: _regular_list(data, start, stop) for name, (start, stop) in scan(data).items()}
    except (IndexError, ExampleError):
        return None


def _regular_list(data: bytes, start: int, stop: int) -> tuple[int, int, int]:
    """Returns the tag of a Feature's kind, 0 if it has none, and where its values begin and end.

    Raises:
        IrregularRecord, IndexError: it is not of the regular form.
    """
    if start == stop:
        return 0, start, stop
    kind, size, at = data[start], data[start + 1], start + 2
    if size > 127:
        size, at = read_varint(data, start + 1)
    is_whole = kind in (_BYTES, _FLOATS, _INTS) and at + size == stop
    if kind == _BYTES:
        place = at
        while place < stop:
            is_whole = is_whole and data[place] == _VALUES
            size, place = data[place + 1], place + 2
            if size > 127:
                size, place = read_varint(data, place - 1)
            place += size
        is_whole = is_whole and place == stop
    elif size:
        size, after = data[at + 1], at + 2
        if size > 127:
            size, after = read_varint(data, at + 1)
        is_whole = is_whole and data[at] == _VALUES and after + size == stop
        is_whole = is_whole and (size % 4 == 0 if kind == _FLOATS else _are_varints(data, after, stop))
        at = after
    if not is_whole:
        raise IrregularRecord(f"the list at byte {start} is not regular")
    return kind, at, stop


def _are_varints(data: bytes, start: int, stop: int) -> bool:
    """Returns whether bytes [start, stop) are varints."""
    if stop - start == 1:
        return data[start] < 128
    follows = data[start:stop].translate(_FOLLOWS)  # for each byte whether the varint goes on after it
    return not follows.endswith(_TOO_LONG[:1]) and _TOO_LONG not in follows


_FOLLOWS = bytes(byte > 127 for byte in range(256))
_TOO_LONG = b"\x01" * 10


def _values(data: bytes, kind: int, start: int, stop: int) -> Values:
    """Returns the values of a regular list."""
    if kind == _FLOATS:
        return np.frombuffer(data, "<f4", (stop - start) // 4, start)
    if kind == _INTS:
        if stop - start == 1 and data[start] < 128:
            return np.array([data[start]], np.int64)
        numbers = message("Int64List", b"\x0a" + varint(stop - start) + data[start:stop]).value
        return np.fromiter(numbers, np.int64, len(numbers))
    values = []
    while start < stop:
        size, start = read_varint(data, start + 1)
        values.append(data[start : start + size])
        start += size
    return values
