"""A walk through a shard, from record to record, past what is damaged."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.errors import CorruptRecordError, FeatureError, StorageError
from beam_datasets.formats import tfrecord
from beam_datasets.formats.example import ExampleError, parse
from beam_datasets.formats.tfrecord import crc32c
from beam_datasets.reading.record_checks import block_check, block_names_check, decoding_check, names_check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from beam_datasets import storage
    from beam_datasets.formats.example import Buffer
    from beam_datasets.formats.index import Index
    from beam_datasets.reading.record_checks import Check

READ_BYTES = 1 << 20
"""How much is read at a time: what is checked twice, by records and as a file, is then still in the cache."""

_MOST_DAMAGES = 1000  # stretches that are told apart in one file
_HEADER = struct.Struct("<QI")


@dataclass(frozen=True, slots=True)
class Damage:
    """A stretch of a shard without a good record.

    Attributes:
        offset: byte where it begins.
        record: number in the file of its first record.
        count: how many records it takes; None where all the rest of the file is lost.
        kind: 'record', 'cut', 'unreadable' or 'example', as of a finding.
        problem: what is wrong with the first.
    """

    offset: int
    record: int
    count: int | None
    kind: str
    problem: str


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first place where an index and its shard differ.

    Attributes:
        record: number in the file.
        indexed: byte where it begins by the index; None where the index ends before.
        found: byte where it begins in the file.
    """

    record: int
    indexed: int | None
    found: int


@dataclass(frozen=True)
class RecordChecks:
    """What records must pass: made once for all shards of a dataset.

    Attributes:
        one: what is asked of the first of each read; it raises where that is not so.
        each: what is asked of each; None where only samples are looked at.
        block: whether all of a list of records pass `each`; False where they are to be asked singly, None where always.
        ones: the same of `one`, always a function.
    """

    one: Check
    each: Check | None = None
    block: Callable[[list[Buffer]], bool] | None = None
    ones: Callable[[list[Buffer]], bool] = lambda records: False

    @classmethod
    def of(cls, features: Any, *, decode: bool) -> RecordChecks:
        """Returns what records must pass that should have some features; None where nothing says which."""
        if features is None:
            return cls(_parses)
        stored, names = decoding_check(features.stored()), names_check(features)

        def fits(record: Buffer) -> None:
            names(record)
            stored(record)

        have_names, all_stored = block_names_check(features), block_check(features.stored())

        def all_fit(records: list[Buffer]) -> bool:
            return all_stored is not None and have_names(records) and all_stored(records)

        if decode:
            return cls(fits, decoding_check(features), block_check(features), ones=all_fit)
        return cls(fits, ones=all_fit)


def _parses(record: Buffer) -> None:
    parse(record)


class Walk:
    """A walk through a file, from record to record.

    Attributes:
        damages: what is not good, in the order of the file.
        num_records: whose place is known, damaged ones included.
    """

    def __init__(
        self,
        reader: storage.Reader,
        path: str,
        index: Index | None,
        checks: RecordChecks,
        progress: Callable[[int], None],
    ) -> None:
        self._reader = reader
        self._path = path
        self._index = index
        self._checks = checks
        self._progress = progress
        self._offset = self.num_records = self._crc = 0
        self._whole = self._sampling = True
        self.damages: list[Damage] = []
        self._mismatch: Mismatch | None = None

    def run(self) -> None:
        """Reads to the end of the file, or to where no next record can be found."""
        while self._offset < self._reader.size:
            try:
                for chunk in self._scan():
                    self._take(chunk)
            except CorruptRecordError as error:
                if not self._pass(error):
                    return
            except StorageError as error:
                self._note(self._offset, self.num_records, None, "unreadable", without(self._path, error))
                return

    @property
    def crc32c(self) -> int | None:
        """Of the file, once it is read; None where a record is damaged."""
        return self._crc if self._whole else None

    @property
    def mismatch(self) -> Mismatch | None:
        """The first place where the index is not as the file, once that is read."""
        return self._mismatch or self._difference_at_end()

    def _scan(self) -> Iterator[tfrecord.Chunk]:
        return tfrecord.scan_file(
            self._reader, self._path, start=self._offset, first_record=self.num_records, chunk_size=READ_BYTES
        )

    def _take(self, chunk: tfrecord.Chunk) -> None:
        """Takes good records."""
        self._compare(chunk)
        self._crc = crc32c(chunk.buffer, self._crc)
        self._check_records(chunk)
        self.num_records += len(chunk.offsets) - 1
        self._offset += len(chunk.buffer)
        self._progress(len(chunk.buffer))

    def _pass(self, error: CorruptRecordError) -> bool:
        """Passes a bad record; returns whether it is known where the next one begins."""
        bad = error.record or 0
        self._whole = False
        behind, kind = self._behind(error.offset, bad)
        self._note(error.offset, bad, None if behind is None else 1, kind, _fact(error.problem))
        if behind is None:
            self._progress(self._reader.size - error.offset)
            return False
        self._progress(behind - error.offset)
        self._offset, self.num_records = behind, bad + 1
        return True

    def _behind(self, offset: int, record: int) -> tuple[int | None, str]:
        """Returns where the record behind a bad one begins, if that is known, and the kind of damage."""
        size = self._reader.size
        header = bytes(self._reader.read(offset, min(offset + _HEADER.size, size)))
        if len(header) < _HEADER.size:
            return None, "cut"
        length, crc = _HEADER.unpack(header)
        if tfrecord.masked_crc32c(header[:8]) == crc:
            stop = offset + length + tfrecord.OVERHEAD
            return (stop, "record") if stop <= size else (None, "cut")
        if self._index is not None and self._mismatch is None and record < len(self._index):
            start, stop = self._index.offsets[record : record + 2].tolist()
            if start == offset and stop <= size:
                return stop, "record"
        return None, "record"

    def _note(self, offset: int, record: int, count: int | None, kind: str, problem: str) -> None:
        """Adds a damage; what stands directly behind the last one, or has no place any more, is joined to it."""
        last = self.damages[-1] if self.damages else None
        if last is not None and last.kind == kind and last.count is not None:
            if record < last.record + last.count:
                return  # it is told already
            many = len(self.damages) >= _MOST_DAMAGES
            if many or last.record + last.count == record:
                whole = None if count is None else record + count - last.record
                more = " (from here on all damaged records are told as one stretch)" if many else ""
                problem = last.problem.removesuffix(more) + more
                self.damages[-1] = replace(last, count=whole, problem=problem)
                return
        self.damages.append(Damage(offset, record, count, kind, problem))

    def _compare(self, chunk: tfrecord.Chunk) -> None:
        """Looks for the first place where the index says another thing."""
        if self._index is None or self._mismatch is not None:
            return
        found = chunk.offsets + chunk.start
        indexed = self._index.offsets[chunk.first_record : chunk.first_record + len(found)].astype(np.int64)
        differ = np.flatnonzero(indexed != found[: len(indexed)])
        place = int(differ[0]) if len(differ) else len(indexed)
        if place < len(found):
            at = int(indexed[place]) if place < len(indexed) else None
            self._mismatch = Mismatch(chunk.first_record + place, at, int(found[place]))

    def _difference_at_end(self) -> Mismatch | None:
        """Returns where the index goes on behind the end of the file, if it does."""
        if self._index is None or not self._whole or len(self._index) == self.num_records:
            return None
        return Mismatch(self.num_records, int(self._index.offsets[self.num_records]), self._reader.size)

    def _check_records(self, chunk: tfrecord.Chunk) -> None:
        """Asks the first record, and where that is wanted each, whether it is an example of the dataset."""
        if self._checks.each is None:
            few = chunk._replace(offsets=chunk.offsets[: 2 if self._sampling else 1])
            self._check_each(few, few.records(), self._checks.one)
            return
        records = chunk.records()
        self._check_each(chunk, records[:1], self._checks.one)
        if self._checks.block is None or not self._checks.block(records):  # type: ignore[arg-type]
            self._check_each(chunk, records, self._checks.each)

    def _check_each(self, chunk: tfrecord.Chunk, records: list[bytes], check: Check) -> None:
        for number, record in enumerate(records):
            try:
                check(record)
            except (ExampleError, FeatureError) as error:
                what = "is no tf.train.Example" if isinstance(error, ExampleError) else "does not fit the features"
                offset = chunk.start + int(chunk.offsets[number])
                self._note(offset, chunk.first_record + number, 1, "example", f"the record {what}: {error}")
                self._sampling = False  # one tells enough


def without(path: str, error: Exception) -> str:
    """Returns what an error says, without the path at its beginning."""
    return _fact(str(error).removeprefix(path).lstrip(": "))


def _fact(message: str) -> str:
    """Returns an error's message without the advice at its end, which a finding has itself."""
    return re.split(r"\. The (?:file|index) is (?:damaged|cut off)[;:]", message)[0]
