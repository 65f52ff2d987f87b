"""Shards, opened on demand and always validated, and `ShardPool`, which keeps the most recent shards open.

The index of a shard contains the offsets of its records. Without an index (as in a directory that TFDS wrote), the file
is scanned once to find them. The dataset's metadata, the index and the file must agree; if they do not, an error is
raised, and no example is read.
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
from beam_datasets.errors import CorruptRecordError, MetadataError, PathNotFoundError, repair_advice
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
"""Number of bytes that are read at a time when a shard without an index is scanned."""

_MAX_ATTEMPTS = 5  # to read valid bytes from a store that returns different ones each time
_MAX_OPEN = 100  # shards; each needs at most two file descriptors, and a process often has 1024
_MAX_INDEX_BYTES = 256 << 20  # maximum bytes of the indexes, and offsets, of shards that are not open
_BYTES_PER_RECORD = 24  # of an index

_run = getattr(core, "run", None)
_read_record = getattr(core, "read_record", None)
_read_records = getattr(core, "read_records", None)


class Shard:
    """An open shard. Threads may share it; its file is closed when the object is deleted.

    Attributes:
        path: the file.
        num_records: number of records in the file according to the dataset's metadata; checked against the index, or
            when the file is read.
        index: the index of the shard; None if there is none.
        reader: reader of the file.
        is_plain: whether it is a local file with an index, which a forked process can continue to read.
    """

    def __init__(
        self, path: str, num_records: int, *, indexed: bool = True, cached_index: Index | NDArray[Any] | None = None
    ) -> None:
        """Opens the shard and its index, if there is one.

        Args:
            path: the file.
            num_records: number of records in the file.
            indexed: whether there may be an index.
            cached_index: the index, or the offsets, of an earlier `Shard` of this file; ignored if the size of the file
                has changed.

        Raises:
            StorageError: the file cannot be read; PathNotFoundError if it is missing.
            MetadataError: the index is damaged, or belongs to another shard.
        """
        self.path = path
        self.num_records = num_records
        self.index = None if not indexed else cached_index if isinstance(cached_index, Index) else read_index(path)
        try:
            self.reader = caching.cached(storage.open_reader(path))
        except PathNotFoundError as error:
            raise PathNotFoundError("the shard does not exist", path=path, advice=repair_advice(path)) from error
        if cached_index is not None and _shard_size(cached_index) != self.reader.size:
            cached_index, self.index = None, read_index(path) if indexed else None
        self._offsets: NDArray[Any] | None = None
        self._scan_lock = threading.Lock()
        if self.index is not None:
            _check_num_records(self.index, path, num_records)
            self._offsets = self.index.offsets
        elif cached_index is not None and not isinstance(cached_index, Index):
            self._offsets = cached_index
        self.is_plain = self.index is not None and self.reader.descriptor is not None
        if self.index is not None and self.index.shard_size != self.reader.size:
            raise MetadataError(
                f"the shard has {self.reader.size} bytes, but {os.path.basename(path)}{INDEX_SUFFIX} is the index of a "
                f"shard of {self.index.shard_size} bytes; one of the two was cut off or replaced",
                expected=f"{self.index.shard_size} bytes",
                got=f"{self.reader.size} bytes",
                path=path,
                advice=repair_advice(path),
            )

    def __del__(self) -> None:
        """Closes the file, if it was opened."""
        reader = self.__dict__.get("reader")
        if reader is not None:
            reader.close()

    @property
    def known_offsets(self) -> NDArray[Any] | None:
        """The `offsets`; None if the file would have to be scanned to find them."""
        return self._offsets

    @property
    def offsets(self) -> NDArray[Any]:
        """The byte offset of each record, followed by the end of the last one; shape (num_records + 1,), uint64.

        Scans the file if the shard has no index.

        Raises:
            CorruptRecordError: the file is damaged, or its number of records is not `num_records`.
        """
        if self._offsets is None:
            with self._scan_lock:
                if self._offsets is None:
                    parts = self._scan_offsets()
                    self._offsets = np.append(np.concatenate(parts), self.reader.size).astype(np.uint64)
        return self._offsets

    def _scan_offsets(self) -> list[NDArray[Any]]:
        """Scans the file; returns arrays of the byte offsets of all records, without the end of the last one.

        If a length is damaged, reads the file again, as the damage may be in the cache and not in the store.
        """
        for _ in range(_MAX_ATTEMPTS - 1):
            try:
                return [chunk.offsets[:-1] + chunk.start for chunk in self.scan()]
            except CorruptRecordError as error:
                if not self.drop_cached(error.offset):
                    raise
        return [chunk.offsets[:-1] + chunk.start for chunk in self.scan()]

    def drop_cached(self, offset: int) -> bool:
        """Removes the bytes near an offset of the shard from the cache.

        Returns:
            Whether the store may have other bytes there, so that it makes sense to read them again.
        """
        start = min(max(offset - SCAN_BYTES, 0), self.reader.size)
        stop = min(offset + SCAN_BYTES, self.reader.size)
        return start < stop and self.reader.read_again(start, stop) is not None

    def scan(self) -> Iterator[tfrecord.Chunk]:
        """Yields all records in chunks of bounded size. The checksums of the data are not checked.

        Raises:
            CorruptRecordError: a length is damaged, the file ends within a record, or its number of records is not
                `num_records`. It is raised before the last records are yielded.
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

    def _raise_count(self, offset: int, actual: str, record: int | None = None) -> None:
        """Raises the error for a shard whose number of records differs from the one in the metadata.

        Args:
            offset: the byte at which the difference was noticed.
            actual: description of the file's records, for the message, such as "more follow".
            record: number of the record there; None for `num_records`.

        Raises:
            CorruptRecordError: always.
        """
        raise CorruptRecordError(
            f"by the dataset's metadata the shard has {self.num_records} records, but {actual}. The file was cut off "
            "or replaced, or the metadata are of another one; restore both",
            path=self.path,
            offset=offset,
            record=self.num_records if record is None else record,
        )

    def run(self, first: int, stop: int, chunk_bytes: int) -> Any:
        """Returns a native run of the records [first, stop), from which `RecordBlock.take` reads the file itself.

        Args:
            first: number of the first record.
            stop: number of the record after the last one.
            chunk_bytes: maximum number of bytes to read at a time.

        Returns:
            The run; None if `take` must be given chunks: without the native module or offsets, or if the file is remote
            and the first record is not in the cache.
        """
        if _run is None or self._offsets is None or not self.reader.is_near(self._offsets.item(first)):
            return None
        pieces = self.reader.pieces
        if pieces is None:
            return _run(self, self.reader.descriptor, self._offsets, first, stop, chunk_bytes)
        return _run(self, -1, self._offsets, first, stop, chunk_bytes, *pieces)

    def pieces_of(self, ranges: tuple[Ints, Ints]) -> Ints:
        """Returns the numbers of the pieces of the cache that contain records of ranges, ascending.

        The result is empty if `run` cannot read from a cache.

        Args:
            ranges: the first record of each range, and the record after its last one.
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
        """Returns the data of record number `record`, counted from 0 in the shard, after checking its checksums.

        Raises:
            CorruptRecordError: the record is damaged.
        """
        if _read_record is not None and self._offsets is not None:
            descriptor = self.reader.descriptor
            data = None if descriptor is None else _read_record(descriptor, self._offsets, record)
            if data is not None:
                return data  # type: ignore[no-any-return]
        offsets = self.offsets
        start, stop = offsets.item(record), offsets.item(record + 1)
        tfrecord.check_sizes((start, stop), path=self.path, first_record=record)

        def unframe_record(data: Buffer) -> bytes:
            """Returns the record in its framed bytes, and checks its checksums."""
            return tfrecord.unframe(data, (0, stop - start), path=self.path, offset=start, first_record=record)[0]

        reader = self.reader
        return parse_checked(reader.read(start, stop), lambda: reader.read_again(start, stop), unframe_record)

    def read_many(self, records: Ints) -> list[bytes]:
        """Returns the data of records, after checking their checksums.

        Args:
            records: numbers of the records, ascending, at least one. Only adjacent records are read in one request.

        Raises:
            CorruptRecordError: a record is damaged.
        """
        if len(records) == 1:
            return [self.read_one(int(records[0]))]
        offsets, descriptor = self.offsets, self.reader.descriptor
        is_contiguous = records[-1] - records[0] < len(records)  # then one read is faster than one for each record
        if _read_records is not None and descriptor is not None and not is_contiguous:
            native_payloads: list[bytes] = _read_records(descriptor, offsets, records)
            if len(native_payloads) == len(records):
                return native_payloads
        payloads: list[bytes] = []
        cuts = np.flatnonzero(np.diff(records) != 1) + 1
        first_records, last_records = records[np.append(0, cuts)], records[np.append(cuts, len(records)) - 1]
        for first, last in zip(first_records.tolist(), last_records.tolist()):
            tfrecord.check_sizes(offsets[first : last + 2], path=self.path, first_record=first)
        starts, stops = offsets[first_records].tolist(), offsets[last_records + 1].tolist()
        buffers = self.reader.read_many(list(zip(starts, stops)))
        for first, last, buffer in zip(first_records.tolist(), last_records.tolist(), buffers):
            bounds = offsets[first : last + 2].astype(np.int64)
            start = int(bounds[0])
            payloads += tfrecord.unframe(buffer, bounds - start, path=self.path, offset=start, first_record=first)
        return payloads


class ShardPool:
    """A pool of the most recently opened shards of a dataset. Threads may share it; pickling drops the shards.

    Attributes:
        directory: directory of the shards.
        indexed: whether the shards may have indexes.
    """

    def __init__(self, directory: str, *, indexed: bool = True) -> None:
        """Creates an empty pool; see the class for the arguments."""
        self.directory = directory
        self.indexed = indexed
        self._reset()

    def open(self, filename: str, num_records: int) -> Shard:
        """Returns an open shard. It remains usable for the caller after the pool has dropped it.

        Args:
            filename: file name of the shard, relative to the directory.
            num_records: number of records in the file.

        Raises:
            StorageError: the file cannot be read; PathNotFoundError if it is missing.
            MetadataError: its index is damaged, or belongs to another shard.
        """
        shard = self._open.get(filename)
        if (shard is None or not shard.is_plain) and self._process != os.getpid():
            self._reset()  # after a fork: connections may be shared, and a lock held by a thread of the parent
            shard = None
        if shard is not None:
            return shard
        path, cached_index = storage.join(self.directory, filename), self._closed_indexes.get(filename)
        shard = Shard(path, num_records, indexed=self.indexed, cached_index=cached_index)
        with self._lock:
            shard = self._open.setdefault(filename, shard)
            if len(self._open) > _MAX_OPEN:
                self._close_one()
        return shard

    def namer(self, instructions: FileInstructions) -> Callable[[str], str]:
        """Returns the function from a shard's file name to the name that `tfds_id` shows, without folders."""
        del instructions  # names in one directory differ
        return storage.basename

    def _close_one(self) -> None:
        """Drops the shard that was opened first; keeps its index or offsets, within `_MAX_INDEX_BYTES`."""
        filename, shard = self._open.popitem(last=False)
        index = shard.known_offsets if shard.index is None else shard.index
        if index is not None:
            self._num_index_bytes += 0 if filename in self._closed_indexes else _BYTES_PER_RECORD * shard.num_records
            self._closed_indexes[filename] = index
        while self._num_index_bytes > _MAX_INDEX_BYTES:
            closed_index = self._closed_indexes.popitem(last=False)[1]
            num_records = len(closed_index) if isinstance(closed_index, Index) else len(closed_index) - 1
            self._num_index_bytes -= _BYTES_PER_RECORD * num_records

    def count_bytes(self, instructions: FileInstructions) -> int | None:
        """Returns the total number of bytes of the data of runs, without framing. Reads only the indexes.

        Returns:
            The number; None if a shard has no index, so that the file would have to be scanned.

        Raises:
            MetadataError: an index is damaged, or belongs to another shard.
        """
        total = 0
        for run in instructions:
            index = read_index(storage.join(self.directory, run.filename)) if self.indexed else None
            if index is None:
                return None
            _check_num_records(index, run.filename, run.examples_in_shard)
            size = int(index.offsets[run.skip + run.take]) - int(index.offsets[run.skip])
            total += size - tfrecord.OVERHEAD * run.take
        return total

    def _reset(self) -> None:
        """Drops all shards and indexes, and makes this process the owner of the pool."""
        self._open: OrderedDict[str, Shard] = OrderedDict()  # by file name, oldest first
        self._closed_indexes: OrderedDict[str, Index | NDArray[Any]] = OrderedDict()  # or the offsets
        self._num_index_bytes = 0
        self._lock = threading.Lock()
        self._process = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        return {"directory": self.directory, "indexed": self.indexed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _shard_size(index: Index | NDArray[Any]) -> int:
    """Returns the number of bytes of a shard, given its index or its offsets."""
    return index.shard_size if isinstance(index, Index) else int(index[-1])


def read_index(path: str) -> Index | None:
    """Returns the index of the shard with a path; None if it has none.

    Raises:
        MetadataError: the index is damaged.
    """
    index_path = path + INDEX_SUFFIX
    try:
        if not storage.is_remote(index_path):
            return Index.from_bytes(storage.memory_map(index_path), path=index_path)
        if not caching.is_on(index_path):  # one request, without another one for the size
            with contextlib.suppress(MetadataError):
                return _parse_index(storage.read_bytes(index_path), index_path)
        with caching.cached(storage.open_reader(index_path)) as reader:
            return _read_remote_index(reader)
    except PathNotFoundError:
        return None


def _read_remote_index(reader: Reader) -> Index:
    """Reads an index from a store; requests it again if it is damaged."""
    try:
        return parse_checked(
            reader.read(0, reader.size),
            lambda: reader.read_again(0, reader.size),
            lambda data: _parse_index(data, reader.path),
        )
    except MetadataError:
        return Index.from_bytes(reader.read(), path=reader.path)


def _parse_index(data: Buffer, path: str) -> Index:
    """Parses an index and checks its keys now, not at their first use, as a transfer may have damaged them."""
    index = Index.from_bytes(data, path=path)
    _ = index.keys
    return index


def parse_checked(data: Buffer, read_again: Callable[[], Buffer | None], parse: Callable[[Any], T]) -> T:
    """Parses bytes of a file. If they are damaged, reads them again from the store, as they may be intact there.

    Args:
        data: the bytes.
        read_again: function that reads them from the store; it returns None if the file is not in one.
        parse: function from the bytes to the result; raises an error if they are damaged.

    Raises:
        CorruptRecordError, MetadataError: `parse` raised it for bytes that the store has returned twice in a row, or in
            each of several attempts.
    """
    previous_data: bytes | None = None
    for _ in range(_MAX_ATTEMPTS):
        try:
            return parse(data)
        except (CorruptRecordError, MetadataError):
            new_data = read_again()
            if new_data is None or bytes(new_data) == previous_data:
                raise
            data, previous_data = new_data, bytes(new_data)
    return parse(data)


def _check_num_records(index: Index, path: str, num_records: int) -> None:
    """Checks that an index has `num_records` records; raises a MetadataError with the path of the shard if not."""
    if len(index) != num_records:
        raise MetadataError(
            expected=f"{num_records} records, as in the dataset's metadata",
            got=f"{len(index)}",
            path=f"{path}{INDEX_SUFFIX}",
            advice="One of the two is damaged or of another dataset; restore it.",
        )
