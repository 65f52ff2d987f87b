"""Reads a shard and its index completely, and reports their content without comparing it with the metadata."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beam_datasets import storage
from beam_datasets.errors import CorruptRecordError, FeatureError, MetadataError, PathNotFoundError, StorageError
from beam_datasets.features.stored_files import damage_finder
from beam_datasets.formats import tfrecord
from beam_datasets.formats.example import Buffer, ExampleError, parse
from beam_datasets.formats.index import Index
from beam_datasets.formats.tfrecord import OVERHEAD
from beam_datasets.intake.errors import reason
from beam_datasets.native import crc32c
from beam_datasets.reading.elements.error_location import Check, block_check, decoding_check, names_check
from beam_datasets.reading.records.shards import INDEX_SUFFIX

READ_BYTES = 1 << 20
"""Bytes of a shard that are read at a time; one record of each read is parsed."""

OF_CONTENT = ("example", "value", "decoding")
"""Kinds of damage of records whose checksums are right; `decoding` only of findings."""

NOT_LOST = ("limit", *OF_CONTENT)
"""Kinds of damage of records that are not lost: those of `OF_CONTENT`, and records that are too large to be read."""

_MAX_DAMAGES = 1000  # damaged ranges that are reported separately in one file
_MAX_DESCENTS = 100_000  # places in one index where keys begin again

UNCHECKED = (ExampleError, FeatureError, MemoryError)
"""Exceptions of the check of a record; decoding an image may need more memory than there is."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Consecutive damaged records of a shard.

    Attributes:
        offset: byte where they begin.
        record: number in the file of the first.
        count: number of records; None if the rest of the file is lost.
        kind: 'record', 'limit', 'cut', 'unreadable', 'example' or 'value'; see `Finding.kind`.
        problem: description of the first damage.
        key: the sort key of the first record in the index; None if the index has no keys.
        length: of a record over the limit, in bytes, by its header; 0 for another kind.
        indexed_length: the same by the index; None if it is not known.
    """

    offset: int
    record: int
    count: int | None
    kind: str
    problem: str
    key: bytes | None = None
    length: int = 0
    indexed_length: int | None = None


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first difference between an index and its shard.

    Attributes:
        record: number in the file.
        indexed: offset of the record in bytes according to the index; None if the index ends before it.
        actual: offset of the record in the file, in bytes.
    """

    record: int
    indexed: int | None
    actual: int


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """Content of an index file.

    Attributes:
        problem: why it is not an index; None if it is one. Else the attributes below `crc32c` are empty.
        crc32c: CRC-32C of the file; None if it cannot be read.
        num_records: number of records in the index.
        has_keys: whether there are sort keys.
        first_key: the first sort key; None if there are no keys.
        last_key: the last sort key.
        descents: numbers of records whose key is not less than the next key, up to a maximum number of them.
        keys_problem: description of a problem of the keys; None if they are valid.
        mismatch: the first difference from the shard.
    """

    problem: str | None
    crc32c: int | None
    num_records: int = 0
    has_keys: bool = False
    first_key: bytes | None = None
    last_key: bytes | None = None
    descents: tuple[int, ...] = ()
    keys_problem: str | None = None
    mismatch: Mismatch | None = None


@dataclass(frozen=True, slots=True)
class ShardFacts:
    """Content of a shard.

    Attributes:
        problem: why it cannot be read at all; None if it can. Else the attributes below are empty.
        missing: whether the file is missing.
        size: in bytes.
        crc32c: CRC-32C of the file; None if a record is damaged.
        num_records: records whose place is known, including damaged ones.
        damages: in the order of the file.
        index: content of its index; None without an index.
    """

    problem: str | None = None
    missing: bool = False
    size: int = 0
    crc32c: int | None = None
    num_records: int = 0
    damages: tuple[Damage, ...] = ()
    index: IndexFacts | None = None

    @property
    def broken(self) -> bool:
        """Whether the file is damaged according to its own checksums."""
        return self.problem is not None or any(damage.kind not in OF_CONTENT for damage in self.damages)

    @property
    def num_bytes(self) -> int:
        """Size in bytes of the records without framing."""
        return self.size - OVERHEAD * self.num_records


@dataclass(frozen=True)
class RecordChecks:
    """Checks of records, compiled once for all shards of a dataset.

    Attributes:
        first: check of the first record of each read.
        each: check of each record; None to check only the first ones.
        block: returns whether a list of records passes `each`; None if only `each` can tell.
        files: finds damaged images and sounds in records; None if there are none. See `damage_finder`.
    """

    first: Check
    each: Check | None = None
    block: Callable[[list[Buffer]], bool] | None = None
    files: Callable[[list[bytes]], Iterator[tuple[int, str]]] | None = None

    @classmethod
    def of(cls, features: Any, *, decode: bool) -> RecordChecks:
        """Returns the checks of records against features, of which only the form is checked if they are None.

        `decode` is whether values are decoded, too, not only compared with their stored form.
        """
        if features is None:
            return cls(parse)
        stored, names = decoding_check(features.stored()), names_check(features)
        files = damage_finder(features, decode_flac=False)  # with `decode`, `each` decodes them

        def fits(record: Buffer) -> None:
            """Checks the names of the features in a record and their stored form; raises the errors of both checks."""
            names(record)
            stored(record)

        if not decode:
            return cls(fits, files=files)
        return cls(fits, decoding_check(features), block_check(features), files)

    def problems(self, records: list[bytes], sample: int) -> dict[int, tuple[str, str]]:
        """Returns {number of a damaged record: (kind of the damage, description)}.

        Args:
            records: to check.
            sample: number of records to check first, apart from their files, if not each is checked.
        """
        problems_by_record: dict[int, tuple[str, str]] = {}
        if self.files is not None:
            for number, problem in self._damaged_files(records):
                problems_by_record.setdefault(number, ("value", f"a stored file cannot be read: {problem}"))
        if self.each is None:
            self._apply_check(records[:sample], self.first, problems_by_record)
            return problems_by_record
        self._apply_check(records[:1], self.first, problems_by_record)
        if not self._decode_together(records):
            self._apply_check(records, self.each, problems_by_record)
        return problems_by_record

    def _damaged_files(self, records: list[bytes]) -> Iterator[tuple[int, str]]:
        """Yields (index of the record, problem) of each damaged file that `files` finds in records.

        Records that do not fit the features are left out; another check reports them.
        """
        assert self.files is not None
        try:
            yield from list(self.files(records))
        except UNCHECKED:
            for number, record in enumerate(records):
                with contextlib.suppress(*UNCHECKED):  # another check says why
                    yield from [(number, problem) for _, problem in self.files([record])]

    def _decode_together(self, records: list[bytes]) -> bool:
        """Returns whether all records pass `block`; False if they must be checked one by one to be certain."""
        try:
            return self.block is not None and self.block(records)  # type: ignore[arg-type]
        except MemoryError:
            return False

    def _apply_check(self, records: list[bytes], check: Check, problems: dict[int, tuple[str, str]]) -> None:
        """Adds {index: description of the problem} of the records that do not pass a check to `problems`."""
        for number, record in enumerate(records):
            try:
                check(record)
            except UNCHECKED as error:
                problems.setdefault(number, self._describe_failed_check(record, error))

    def _describe_failed_check(self, record: bytes, error: Exception) -> tuple[str, str]:
        """Returns (kind of a damage, problem) of a record that fails a check.

        The kind is 'example' if the record is not an Example or does not fit the features, and 'value' otherwise.
        """
        if isinstance(error, ExampleError):
            return "example", f"the record is not a tf.train.Example: {error}"
        try:
            self.first(record)
        except UNCHECKED as other:
            return "example", f"the record does not fit the features: {reason(other)}"
        return "value", f"a stored value does not decode: {reason(error)}"


def read_shard(path: str, checks: RecordChecks, progress: Callable[[int], None] = lambda num_bytes: None) -> ShardFacts:
    """Returns the content of a shard and its index; a part that cannot be read is a fact in the result, not an error.

    Args:
        path: path of the shard.
        checks: checks of its records.
        progress: called with the number of bytes read since the last call.
    """
    index, index_facts = _read_index(path + INDEX_SUFFIX)
    try:
        with storage.open_reader(path) as reader:
            walk = _Walk(reader, path, index, checks, progress)
            walk.run()
    except StorageError as error:
        return ShardFacts(_strip_path(path, error), isinstance(error, PathNotFoundError), index=index_facts)
    if index_facts is not None:
        index_facts = replace(index_facts, mismatch=walk.mismatch)
    crc = walk.crc32c if walk.is_undamaged else None
    return ShardFacts(None, False, reader.size, crc, walk.num_records, tuple(walk.damages), index_facts)


def _read_index(path: str) -> tuple[Index | None, IndexFacts | None]:
    """Returns the index of a shard, or None if it is damaged; and the facts about its file, or None if it is missing.

    Args:
        path: path of the index file.
    """
    try:
        content = storage.memory_map(path)
    except PathNotFoundError:
        return None, None
    except StorageError as error:
        return None, IndexFacts(_strip_path(path, error), None)
    crc = crc32c(content)
    try:
        index = Index.from_bytes(content, path=path)
    except MetadataError as error:
        return None, IndexFacts(_strip_path(path, error), crc)
    facts = IndexFacts(None, crc, len(index), index.has_keys)
    try:
        keys = index.keys
    except MetadataError as error:
        return index, replace(facts, keys_problem=_strip_path(path, error))
    if keys is not None and len(keys):
        descents = tuple(index.descents[:_MAX_DESCENTS].tolist())
        facts = replace(facts, first_key=keys[0].tobytes(), last_key=keys[-1].tobytes(), descents=descents)
    return index, facts


class _Walk:
    """Reads a file record by record, past damaged ones.

    Args:
        reader: reader of the file.
        path: path of the file, for errors.
        index: index of the file; None if it has no valid one.
        checks: checks of the records.
        progress: called with the number of bytes read since the last call.

    Attributes:
        damages: in the order of the file.
        num_records: records whose place is known, including damaged ones.
        crc32c: CRC-32C of the good records so far.
        is_undamaged: whether all records so far are good.
        mismatch: the first difference between index and file.
    """

    def __init__(
        self,
        reader: storage.Reader,
        path: str,
        index: Index | None,
        checks: RecordChecks,
        progress: Callable[[int], None],
    ) -> None:
        self._reader, self._path, self._index = reader, path, index
        self._checks, self._progress = checks, progress
        self._offset = self.num_records = self.crc32c = 0
        self.is_undamaged = self._sampling = True
        self._keys: NDArray[np.uint8] | None = None
        self.damages: list[Damage] = []
        self.mismatch: Mismatch | None = None

    def run(self) -> None:
        """Reads to the end of the file, or to where the next record cannot be found."""
        while self._offset < self._reader.size:
            start, first = self._offset, self.num_records
            try:
                for chunk in tfrecord.scan_file(
                    self._reader, self._path, start=start, first_record=first, chunk_size=READ_BYTES
                ):
                    self._add(chunk)
            except CorruptRecordError as error:
                if not self._skip(error):
                    return
            except StorageError as error:
                self._note(self._offset, self.num_records, None, "unreadable", _strip_path(self._path, error))
                return
        if (
            self._index is not None
            and self.is_undamaged
            and self.mismatch is None
            and len(self._index) > self.num_records
        ):
            indexed = int(self._index.offsets[self.num_records])
            self.mismatch = Mismatch(self.num_records, indexed, self._reader.size)

    def _add(self, chunk: tfrecord.Chunk) -> None:
        """Adds the records of an intact chunk to the counts."""
        self._compare_with_index(chunk)
        self.crc32c = crc32c(chunk.buffer, self.crc32c)
        self._check_records(chunk)
        self.num_records += len(chunk.offsets) - 1
        self._offset += len(chunk.buffer)
        self._progress(len(chunk.buffer))

    def _skip(self, error: CorruptRecordError) -> bool:
        """Skips a damaged record; returns whether the place of the next one is known."""
        record = error.record or 0
        self.is_undamaged = False
        stop, kind = self._end_of_damaged(error.offset, record)
        self._note(error.offset, record, None if stop is None else 1, kind, _without_advice(error.problem))
        if kind == "limit" and stop is not None:
            self._add_lengths(error.offset, record, stop - error.offset - OVERHEAD)
        self._progress((self._reader.size if stop is None else stop) - error.offset)
        if stop is not None:
            self._offset, self.num_records = stop, record + 1
        return stop is not None

    def _end_of_damaged(self, offset: int, record: int) -> tuple[int | None, str]:
        """Returns (offset of the byte after a damaged record, or None if it is not known; kind of the damage).

        Args:
            offset: byte offset of the record.
            record: number of the record in the file.
        """
        size = self._reader.size
        header = bytes(self._reader.read(offset, min(offset + tfrecord.HEADER.size, size)))
        if len(header) < tfrecord.HEADER.size:
            return None, "cut"
        length, crc = tfrecord.HEADER.unpack(header)
        if tfrecord.masked_crc32c(header[:8]) == crc:
            stop = offset + length + OVERHEAD
            if stop > size:
                return None, "cut"
            return stop, "limit" if tfrecord.exceeds_limit(length) else "record"
        indexed_stop = self._indexed_stop(offset, record)
        return (None if indexed_stop is None or indexed_stop > size else indexed_stop), "record"

    def _indexed_stop(self, offset: int, record: int) -> int | None:
        """Returns the offset of the byte after a record by the index; None if the index does not know the record.

        Args:
            offset: byte offset of the record in the shard.
            record: number of the record in the shard.
        """
        if self._index is None or self.mismatch is not None or record >= len(self._index):
            return None
        start, stop = self._index.offsets[record : record + 2].tolist()
        return int(stop) if start == offset else None

    def _add_lengths(self, offset: int, record: int, length: int) -> None:
        """Adds the lengths of a record over the limit to the last damage, if it is this record.

        Args:
            offset: byte offset of the record in the shard.
            record: number of the record in the shard.
            length: length of the record by its header, in bytes.
        """
        if self.damages[-1].record == record:
            stop = self._indexed_stop(offset, record)
            indexed_length = None if stop is None else stop - offset - OVERHEAD
            self.damages[-1] = replace(self.damages[-1], length=length, indexed_length=indexed_length)

    def _note(self, offset: int, record: int, count: int | None, kind: str, problem: str) -> None:
        """Adds a damage, or joins it to the last one if they are adjacent or if there are too many.

        Args:
            offset: byte offset of the damage in the shard.
            record: number of the first damaged record in the shard, from 0.
            count: number of damaged records; None for the rest of the shard.
            kind: kind of the damage; see `Damage`.
            problem: description of the damage.
        """
        last = self.damages[-1] if self.damages else None
        if last is not None and last.kind == kind and last.count is not None:
            if record < last.record + last.count:
                return  # this record was added before
            is_full = len(self.damages) >= _MAX_DAMAGES
            if is_full or (kind not in ("value", "limit") and last.record + last.count == record):
                num_records = None if count is None else record + count - last.record
                range_note = " (from here on all damaged records are reported as one range)" if is_full else ""
                problem = last.problem.removesuffix(range_note) + range_note
                self.damages[-1] = replace(last, count=num_records, problem=problem)
                return
        self.damages.append(Damage(offset, record, count, kind, problem, self._key_of(record)))

    def _compare_with_index(self, chunk: tfrecord.Chunk) -> None:
        """Sets `mismatch`, if there is none yet, to the first record whose offset differs from the index."""
        if self._index is None or self.mismatch is not None:
            return
        offsets = chunk.offsets + chunk.start
        indexed = self._index.offsets[chunk.first_record : chunk.first_record + len(offsets)].astype(np.int64)
        differ = np.flatnonzero(indexed != offsets[: len(indexed)])
        position = int(differ[0]) if len(differ) else len(indexed)
        if position < len(offsets):
            at = int(indexed[position]) if position < len(indexed) else None
            self.mismatch = Mismatch(chunk.first_record + position, at, int(offsets[position]))

    def _check_records(self, chunk: tfrecord.Chunk) -> None:
        """Adds the damages of a chunk's records that fail the checks.

        Without a check of each record, it checks only the first one, until one does not fit the features; stored
        images and sounds are always checked.
        """
        checks, sample = self._checks, 1 if self._sampling else 0
        if checks.each is None and checks.files is None:  # the others are not even copied
            chunk = chunk._replace(offsets=chunk.offsets[: sample + 1])
        problems = checks.problems(chunk.records(), sample)
        for number in sorted(problems):
            kind, problem = problems[number]
            self._note(chunk.start + int(chunk.offsets[number]), chunk.first_record + number, 1, kind, problem)
            self._sampling = self._sampling and kind != "example"  # one sample is enough

    def _key_of(self, record: int) -> bytes | None:
        """Returns the sort key of a record; None if the index has none."""
        if self._keys is None:
            with contextlib.suppress(MetadataError):  # a finding of its own
                self._keys = None if self._index is None else self._index.keys
        return None if self._keys is None or record >= len(self._keys) else self._keys[record].tobytes()


def _strip_path(path: str, error: Exception) -> str:
    """Returns the message of an error without the path at its beginning."""
    return _without_advice(str(error).removeprefix(path).lstrip(": "))


def _without_advice(message: str) -> str:
    """Returns a message up to ". The file is damaged" or a similar sentence: a finding has its own advice."""
    return re.split(r"\. The (?:file|index) is (?:damaged|cut off)[;:]", message)[0]
