"""Shards as they are read: opened when they are needed, a few kept open, and never believed without a check.

A shard's index says where its records are; without one (as in a directory that TFDS wrote) they are found by walking
through the file, once. What is recorded of a shard, what its index says and what the file has must agree: where they do
not, that is an error, and no example is read.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from beam_datasets import storage
from beam_datasets.errors import CorruptRecordError, MetadataError, PathNotFoundError
from beam_datasets.extras import Buffer
from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import Index
from beam_datasets.metadata.shards import FileInstructions
from beam_datasets.native import core
from beam_datasets.storage import caching
from beam_datasets.storage.backend import Reader

Ints = NDArray[np.int64]

T = TypeVar("T")

INDEX_SUFFIX = ".index"
SCAN_BYTES = 1 << 20
"""How much is read at a time of a shard that has no index."""

_MAX_ATTEMPTS = 5  # to get good bytes from a store that answers with others each time
_MAX_OPEN = 100  # shards; each needs at most two file descriptors, and a process often has 1024
_MAX_FOUND = 256 << 20  # bytes of indexes, and of offsets of shards without one, that are not open
_NUM_BYTES = 24  # of a record in an index

_run = getattr(core, "run", None)
_read_record = getattr(core, "read_record", None)
_read_records = getattr(core, "read_records", None)


class Shard:
    """An open shard. Threads may share it; its file is closed when nobody has it any more.

    Attributes:
        path: the file.
        num_records: in the file, as the dataset's metadata say; checked against the index, or as the file is read.
        index: None where the shard has none.
        is_plain: whether it is a file of this machine with an index, which a process can go on reading after a fork.
    """

    def __init__(
        self, path: str, num_records: int, *, indexed: bool = True, cached_index: Index | NDArray[Any] | None = None
    ) -> None:
        """Opens the shard and, where there is one, its index.

        Args:
            path: the file.
            num_records: in the file.
            indexed: whether there may be an index.
            cached_index: the index, or the offsets, that it had before; not used where the file has another size now.

        Raises:
            StorageError: the file cannot be read; PathNotFoundError where it is missing.
            MetadataError: the index is damaged, or is not of this shard.
        """
        self.path = path
        self.num_records = num_records
        self.index = None if not indexed else cached_index if isinstance(cached_index, Index) else read_index(path)
        self.reader = caching.cached(storage.open_reader(path))
        if cached_index is not None and _size(cached_index) != self.reader.size:
            cached_index, self.index = None, read_index(path) if indexed else None
        self._offsets: NDArray[Any] | None = None
        self._scanning = threading.Lock()
        if self.index is not None:
            _check_count(self.index, path, num_records)
            self._offsets = self.index.offsets
        elif cached_index is not None and not isinstance(cached_index, Index):
            self._offsets = cached_index
        self.is_plain = self.index is not None and self.reader.descriptor is not None
        if self.index is not None and self.index.shard_size != self.reader.size:
            raise MetadataError(
                f"{path}{INDEX_SUFFIX} is of a shard of {self.index.shard_size} bytes, but {path} has "
                f"{self.reader.size}: the shard is cut off or replaced, or the index is of another one. Restore both."
            )

    def __del__(self) -> None:
        reader = self.__dict__.get("reader")
        if reader is not None:
            reader.close()

    @property
    def known_offsets(self) -> NDArray[Any] | None:
        """Where each record begins, and where the last one ends; None while that would take a walk through the file."""
        return self._offsets

    @property
    def offsets(self) -> NDArray[Any]:
        """The same, found if need be; shape (num_records + 1,).

        Raises:
            CorruptRecordError: the file is damaged, or has another number of records than recorded.
        """
        if self._offsets is None:
            with self._scanning:
                if self._offsets is None:
                    parts = self._scanned()
                    self._offsets = np.append(np.concatenate(parts), self.reader.size).astype(np.uint64)
        return self._offsets

    def _scanned(self) -> list[NDArray[Any]]:
        """Returns the offsets of all records; reads them again if lengths are damaged, which the store may not have."""
        for _ in range(_MAX_ATTEMPTS - 1):
            try:
                return [chunk.offsets[:-1] + chunk.start for chunk in self.scan()]
            except CorruptRecordError as error:
                if not self.forget(error.offset):
                    raise
        return [chunk.offsets[:-1] + chunk.start for chunk in self.scan()]

    def forget(self, offset: int) -> bool:
        """Removes what a cache has of the shard around a byte; returns whether the store may have other bytes there."""
        start = min(max(offset - SCAN_BYTES, 0), self.reader.size)
        stop = min(offset + SCAN_BYTES, self.reader.size)
        return start < stop and self.reader.read_anew(start, stop) is not None

    def scan(self) -> Iterator[tfrecord.Chunk]:
        """Yields all records, a bounded number of bytes at a time; their data are not checked.

        Raises:
            CorruptRecordError: a length is damaged, the file ends in a record, or has another number of records than
                recorded. It comes before the last records do.
        """
        num_scanned = 0
        for chunk in tfrecord.scan_file(self.reader, self.path, chunk_size=SCAN_BYTES, check=False):
            num_scanned = chunk.first_record + len(chunk.offsets) - 1
            end = chunk.start + int(chunk.offsets[-1])
            if num_scanned > self.num_records:
                self._raise_count(
                    chunk.start + int(chunk.offsets[self.num_records - chunk.first_record]), "more follow"
                )
            if num_scanned == self.num_records and end < self.reader.size:
                self._raise_count(end, f"{self.reader.size - end} bytes follow")
            yield chunk
        if num_scanned < self.num_records:
            self._raise_count(self.reader.size, f"the file ends after {num_scanned}", num_scanned)

    def _raise_count(self, offset: int, found: str, record: int | None = None) -> None:
        """Raises the error for a shard whose number of records differs from the one in the metadata.

        Raises:
            CorruptRecordError: always.
        """
        raise CorruptRecordError(
            f"by the dataset's metadata the shard has {self.num_records} records, but {found}. The file was cut off or "
            "replaced, or the metadata are of another one; restore both",
            path=self.path,
            offset=offset,
            record=self.num_records if record is None else record,
        )

    def run(self, first: int, stop: int, chunk_bytes: int) -> Any:
        """Returns what a block takes records of [first, stop) from, and reads them by itself, a chunk at a time.

        None where it has to be given the chunks: without the native module or offsets, and where the file is remote and
        the first record is not in the cache.
        """
        if _run is None or self._offsets is None or not self.reader.is_near(self._offsets.item(first)):
            return None
        pieces = self.reader.pieces
        if pieces is None:
            return _run(self, self.reader.descriptor, self._offsets, first, stop, chunk_bytes)
        return _run(self, -1, self._offsets, first, stop, chunk_bytes, *pieces)

    def pieces_of(self, ranges: tuple[Ints, Ints]) -> Ints:
        """Returns the numbers of the pieces of the cache with records of ranges, ascending; none if `run` reads none.

        Args:
            ranges: the first record of each, and the one after its last.
        """
        if _run is None or self._offsets is None or self.reader.pieces is None:
            return np.empty(0, np.int64)
        size = self.reader.pieces[1]
        starts, stops = (self._offsets[records].astype(np.int64) for records in ranges)
        changes = np.zeros(self.reader.size // size + 2, np.int64)
        np.add.at(changes, starts // size, 1)
        np.add.at(changes, (stops - 1) // size + 1, -1)
        return np.flatnonzero(np.cumsum(changes))

    def read_one(self, record: int) -> bytes:
        """Returns the data of one record, checked.

        Raises:
            CorruptRecordError: it is damaged.
        """
        if _read_record is not None and self._offsets is not None:
            descriptor = self.reader.descriptor
            data = None if descriptor is None else _read_record(descriptor, self._offsets, record)
            if data is not None:
                return data  # type: ignore[no-any-return]
        offsets = self.offsets
        start, stop = offsets.item(record), offsets.item(record + 1)

        def unframed(data: Buffer) -> bytes:
            return tfrecord.unframe(data, (0, stop - start), path=self.path, offset=start, first_record=record)[0]

        return checked(self.reader, start, stop, unframed)

    def read_many(self, records: Ints) -> list[bytes]:
        """Returns the data of records in ascending order, checked; adjacent ones alone are read in one piece.

        Raises:
            CorruptRecordError: one of them is damaged.
        """
        if len(records) == 1:
            return [self.read_one(int(records[0]))]
        offsets, descriptor = self.offsets, self.reader.descriptor
        is_stretch = records[-1] - records[0] < len(records)  # then one read is faster than one for each record
        if _read_records is not None and descriptor is not None and not is_stretch:
            read: list[bytes] = _read_records(descriptor, offsets, records)
            if len(read) == len(records):
                return read
        payloads: list[bytes] = []
        cuts = np.flatnonzero(np.diff(records) != 1) + 1
        firsts, lasts = records[np.append(0, cuts)], records[np.append(cuts, len(records)) - 1]
        starts, stops = offsets[firsts].tolist(), offsets[lasts + 1].tolist()
        buffers = self.reader.read_many(list(zip(starts, stops)))
        for first, last, buffer in zip(firsts.tolist(), lasts.tolist(), buffers):
            places = offsets[first : last + 2].astype(np.int64)
            start = int(places[0])
            payloads += tfrecord.unframe(buffer, places - start, path=self.path, offset=start, first_record=first)
        return payloads


class ShardPool:
    """Opens the shards of a dataset, and keeps the last ones open. Threads may share it; pickled, it keeps none.

    Attributes:
        directory: where the shards are.
        indexed: whether they may have indexes.
    """

    def __init__(self, directory: str, *, indexed: bool = True) -> None:
        self.directory = directory
        self.indexed = indexed
        self._forget()

    def open(self, filename: str, num_records: int) -> Shard:
        """Returns a shard; it stays usable while the caller has it.

        Args:
            filename: of the shard, relative to the directory.
            num_records: in the file.

        Raises:
            StorageError: the file cannot be read; PathNotFoundError where it is missing.
            MetadataError: its index is damaged, or is not of this shard.
        """
        shard = self._open.get(filename)
        if (shard is None or not shard.is_plain) and self._process != os.getpid():
            self._forget()  # after a fork: connections may be shared, a lock may be held by a thread that is not there
            shard = None
        if shard is not None:
            return shard
        path, cached_index = storage.join(self.directory, filename), self._found.get(filename)
        shard = Shard(path, num_records, indexed=self.indexed, cached_index=cached_index)
        with self._lock:
            shard = self._open.setdefault(filename, shard)
            if len(self._open) > _MAX_OPEN:
                self._close_one()
        return shard

    def namer(self, instructions: FileInstructions) -> Callable[[str], str]:
        """Returns the function from the name of a shard of these runs to the one in `tfds_id`."""
        del instructions  # names in one directory differ
        return storage.basename

    def _close_one(self) -> None:
        """Closes the shard opened first; where its records are is kept, if that is not too much."""
        filename, shard = self._open.popitem(last=False)
        index = shard.known_offsets if shard.index is None else shard.index
        if index is not None:
            self._found_bytes += 0 if filename in self._found else _NUM_BYTES * shard.num_records
            self._found[filename] = index
        while self._found_bytes > _MAX_FOUND:
            evicted = self._found.popitem(last=False)[1]
            self._found_bytes -= _NUM_BYTES * (len(evicted) if isinstance(evicted, Index) else len(evicted) - 1)

    def count_bytes(self, instructions: FileInstructions) -> int | None:
        """Returns the size of the records of file instructions in bytes, without framing; from the indexes alone.

        Returns:
            None where a shard has no index: to know would take a walk through it.

        Raises:
            MetadataError: an index is damaged, or is not of its shard.
        """
        total = 0
        for run in instructions:
            index = read_index(storage.join(self.directory, run.filename)) if self.indexed else None
            if index is None:
                return None
            _check_count(index, run.filename, run.examples_in_shard)
            size = int(index.offsets[run.skip + run.take]) - int(index.offsets[run.skip])
            total += size - tfrecord.OVERHEAD * run.take
        return total

    def _forget(self) -> None:
        self._open: OrderedDict[str, Shard] = OrderedDict()
        self._found: OrderedDict[str, Index | NDArray[Any]] = OrderedDict()
        self._found_bytes = 0
        self._lock = threading.Lock()
        self._process = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        return {"directory": self.directory, "indexed": self.indexed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _size(found: Index | NDArray[Any]) -> int:
    return found.shard_size if isinstance(found, Index) else int(found[-1])


def read_index(path: str) -> Index | None:
    """Returns the index of a shard; None where there is none.

    Raises:
        MetadataError: it is damaged.
    """
    index_path = path + INDEX_SUFFIX
    try:
        if not storage.is_remote(index_path):
            return Index.from_bytes(storage.memory_map(index_path), path=index_path)
        if not caching.is_on(index_path):  # one request, without that for the size
            with contextlib.suppress(MetadataError):
                return _with_keys(storage.read_bytes(index_path), index_path)
        with caching.cached(storage.open_reader(index_path)) as reader:
            return _remote_index(reader)
    except PathNotFoundError:
        return None


def _remote_index(reader: Reader) -> Index:
    """Returns an index from a store, asked for again if it is damaged."""
    try:
        return checked(reader, 0, reader.size, lambda data: _with_keys(data, reader.path))
    except MetadataError:
        return Index.from_bytes(reader.read(), path=reader.path)


def _with_keys(data: Buffer, path: str) -> Index:
    """Returns an index whose keys are checked, as they too may be changed on the way; else they are at first use."""
    index = Index.from_bytes(data, path=path)
    _ = index.keys
    return index


def checked(reader: Reader, start: int, stop: int, check: Callable[[Buffer], T]) -> T:
    """Returns what `check` makes of bytes of a file. If they are damaged, asks the store again, without the cache.

    Raises:
        CorruptRecordError, MetadataError: by `check`, of bytes that the store has sent twice, or of each attempt.
    """
    data: Buffer | None = reader.read(start, stop)
    before: bytes | None = None
    for _ in range(_MAX_ATTEMPTS):
        try:
            return check(data)  # type: ignore[arg-type]
        except (CorruptRecordError, MetadataError):
            if (data := reader.read_anew(start, stop)) is None or bytes(data) == before:
                raise
            before = bytes(data)
    return check(data)  # type: ignore[arg-type]


def _check_count(index: Index, path: str, num_records: int) -> None:
    if len(index) != num_records:
        raise MetadataError(
            f"{path}{INDEX_SUFFIX} has {len(index)} records, but by the dataset's metadata the shard has "
            f"{num_records}. One of the two is damaged or of another dataset; restore it."
        )
