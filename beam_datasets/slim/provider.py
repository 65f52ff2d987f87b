"""The specification of a dataset that another program wrote, and the provider, which reads it.

The order of records is a function of the files, the seed and the arguments:

1. Passes over the files (epochs) follow each other. With `shuffle`, each opens the files in the order of
   `reading.index.permutations.file_order(num_files, seed, epoch)`.
2. Each of `num_readers` readers takes the next file when it has none. The readers take turns, one record each. A
   reader for which no file is left is passed over.
3. With `shuffle`, this order is shuffled as by `Dataset.shuffle(seed, window=...)`, with the queue's capacity as the
   window. The number of records is not known before they are read, so it is the shuffle of an endless order, without
   the positions of records that do not exist.

A state contains the state of a `Dataset` (epoch and position) and the positions of the readers before the records of
the window. Reading continues from these positions, and skips records that were already returned. A change to this order
changes the meaning of every saved state.
"""

from __future__ import annotations

import abc
import contextlib
import copy
import dataclasses
import functools
import gzip
import hashlib
import io
import os
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Self

from beam_datasets import storage
from beam_datasets.arguments import integer, shown
from beam_datasets.errors import BeamDatasetsError, CorruptRecordError, InputError, StateError
from beam_datasets.formats import tfrecord
from beam_datasets.reading.checkpoint import ReadState
from beam_datasets.reading.index.permutations import WindowShuffle, file_order
from beam_datasets.reading.index.transforms import ENDLESS
from beam_datasets.slim.examples import DataDecoder, check_items
from beam_datasets.storage.paths import PathLike

CHUNK_BYTES = 1 << 20
"""The number of bytes of a file that are read or decompressed at a time."""


class RecordPlace(NamedTuple):
    """Position of a record in its file.

    Attributes:
        number: number of the record, from 0.
        start: its first byte in the uncompressed file.
        stop: the byte after its last one.
    """

    number: int
    start: int
    stop: int


@dataclass(frozen=True)
class RecordReader(abc.ABC):
    """Reads the records of a file one after the other, from any of them on.

    Attributes:
        compression: 'gzip' or None. To start in the middle of a compressed file, everything before is
            decompressed.
    """

    compression: str | None = None

    def __post_init__(self) -> None:
        name = (self.compression or "").lower() or None
        if name not in (None, "gzip"):
            raise ValueError(f"compression must be 'gzip' or None, got {self.compression!r}")
        object.__setattr__(self, "compression", name)

    @abc.abstractmethod
    def records(self, path: str, number: int = 0, start: int = 0) -> Iterator[tuple[RecordPlace, bytes]]:
        """Yields the records of a file, starting with the one of this number, which begins at byte `start`.

        Raises:
            CorruptRecordError: a record is damaged, or the file ends before `start`.
        """


@dataclass(frozen=True)
class TFRecordReader(RecordReader):
    """Reads TFRecord files and checks the CRC of each record."""

    def records(self, path: str, number: int = 0, start: int = 0) -> Iterator[tuple[RecordPlace, bytes]]:
        """Yields the records of a file, starting with the one of this number, which begins at byte `start`."""
        if self.compression is not None:
            with _open_uncompressed(path, self.compression, start) as stream:
                for stop, data in tfrecord.scan_stream(stream, path, offset=start, first_record=number):
                    yield RecordPlace(number, start, stop), data
                    number, start = number + 1, stop
            return
        with storage.open_reader(path) as file:
            _check_start(path, start, file.size)
            for chunk in tfrecord.scan_file(file, path, start=start, first_record=number, chunk_size=CHUNK_BYTES):
                offsets = (chunk.offsets + chunk.start).tolist()
                for i, data in enumerate(chunk.records()):
                    yield RecordPlace(chunk.first_record + i, offsets[i], offsets[i + 1]), data


@dataclass(frozen=True)
class TextLineReader(RecordReader):
    r"""Reads the lines of text files, without the `\n` or `\r\n` at their end.

    Attributes:
        compression: 'gzip' or None.
        skip_header_lines: number of lines at the beginning of each file that are not records.
    """

    skip_header_lines: int = 0

    def records(self, path: str, number: int = 0, start: int = 0) -> Iterator[tuple[RecordPlace, bytes]]:
        """Yields the lines of a file, starting with the one of this number, which begins at byte `start`."""
        with _open_uncompressed(path, self.compression, start) as stream:
            while line := stream.readline():
                location = RecordPlace(number, start, start + len(line))
                if number >= self.skip_header_lines:
                    yield location, line[:-1].removesuffix(b"\r") if line.endswith(b"\n") else line
                number, start = number + 1, location.stop


@contextlib.contextmanager
def _open_uncompressed(path: str, compression: str | None, start: int) -> Iterator[BinaryIO]:
    """Opens the uncompressed bytes of a file, from byte `start` on.

    Args:
        path: path of the file.
        compression: 'gzip', or None if the file is not compressed.
        start: offset in the uncompressed bytes.
    """
    with storage.open_reader(path) as file, io.BufferedReader(_File(file), CHUNK_BYTES) as packed:
        stream: Any = io.BufferedReader(gzip.GzipFile(fileobj=packed), CHUNK_BYTES) if compression else packed
        try:
            _check_start(path, start, stream.seek(start))
            yield stream
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            problem = f"the compressed file cannot be decompressed: {error}"
            raise CorruptRecordError(problem, path=path, offset=packed.tell()) from error


def _check_start(path: str, start: int, size: int) -> None:
    """Checks that a file did not become shorter than the position, in bytes, up to which it was read.

    Args:
        path: path of the file, for errors.
        start: the position.
        size: size of the uncompressed file now.

    Raises:
        CorruptRecordError: it did.
    """
    if start > size:
        problem = f"the file ends at byte {size}, before byte {start}, which was read before. It was cut or replaced"
        raise CorruptRecordError(problem, path=path, offset=size)


class _File(io.RawIOBase):
    """File object over the reader that `storage.open_reader` returns; it cannot be sought beyond its end."""

    def __init__(self, reader: storage.Reader) -> None:
        super().__init__()
        self._reader = reader
        self._place = 0

    def readable(self) -> bool:
        """Returns True; see `io.IOBase.readable`."""
        return True

    def seekable(self) -> bool:
        """Returns True; see `io.IOBase.seekable`."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves to a position from the start, or from the current one for `io.SEEK_CUR`, and returns it."""
        self._place = min(offset + (self._place if whence == io.SEEK_CUR else 0), self._reader.size)
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Reads bytes into a buffer and returns their number; see `io.RawIOBase.readinto`."""
        stop = min(self._place + len(buffer), self._reader.size)
        count = stop - self._place
        buffer[:count], self._place = self._reader.read(self._place, stop), stop
        return count


PassCheckpoint = dict[str, Any]
"""The places of the readers in an epoch, as JSON: `position`, the number of records read; `opened`, that of files;
`turn`, the reader that reads next; `places`, of each reader the number of its file, and the number and first byte of
its next record; None for a reader that has no file."""

_MIN_SPACING = 64  # records between two checkpoints; a window where that is more
_MAX_CHECKPOINTS = 5  # records read ahead, and records read again to continue, are together at most 7/3 windows


class DatasetSpecification:
    """Description of a dataset: its files, their reader and decoder, and notes of its author.

    Attributes:
        data_sources: a path, a pattern, or a list of them.
        reader: reads the records of a file.
        decoder: makes items of a record.
        num_samples: number of records as the author gives it; None if unknown.
        items_to_descriptions: description of each item.
    """

    def __init__(
        self,
        data_sources: PathLike | Sequence[PathLike],
        reader: RecordReader | type[RecordReader],
        decoder: DataDecoder,
        num_samples: int | None,
        items_to_descriptions: Mapping[str, str],
        **attributes: Any,
    ) -> None:
        """Stores the parts, and further attributes such as `num_classes`; a class as reader is called."""
        if num_samples is not None and num_samples < 0:
            raise ValueError(f"num_samples must be at least 0 or None, got {num_samples}")
        self.data_sources = data_sources
        self.reader = reader() if isinstance(reader, type) else reader
        self.decoder = decoder
        self.num_samples = num_samples
        self.items_to_descriptions = items_to_descriptions
        vars(self).update(attributes)

    if TYPE_CHECKING:  # the attributes that the author adds

        def __getattr__(self, name: str) -> Any: ...

    def data_files(self) -> list[str]:
        """Returns the paths of the files, source by source; those that match a pattern are sorted.

        Raises:
            InputError: a source matches no file.
        """
        sources = [self.data_sources] if isinstance(self.data_sources, (str, os.PathLike)) else self.data_sources
        paths = [path for source in sources for path in _find_matching(source)]
        if not paths:
            raise InputError("the dataset has no data sources; give a path, a pattern, or a list of them")
        return paths


def _find_matching(source: PathLike) -> list[str]:
    """Returns the normalized path, or the paths that match it if it has wildcards.

    Raises:
        InputError: no file matches.
    """
    if not storage.has_wildcard(source):
        return [storage.normalize(source)]
    paths = storage.glob(source)
    if not paths:
        raise InputError(f"no file matches {os.fspath(source)!r}")
    return paths


Record = tuple[str, RecordPlace, bytes]
"""The file of a record, its place in it, and its bytes."""


class _Readers:
    """Reads the files of an epoch in turns, starting at a checkpoint.

    Args:
        files: paths of the files.
        order: indices of `files` in the order in which they are opened.
        reader: reader of the records of a file.
        start: the checkpoint.
    """

    def __init__(self, files: list[str], order: Sequence[int], reader: RecordReader, start: PassCheckpoint) -> None:
        self._files = files
        self._order = order
        self._reader = reader
        self.position, self._opened, self._turn = start["position"], start["opened"], start["turn"]
        self._places = list(start["places"])
        self._records: list[Iterator[tuple[RecordPlace, bytes]] | None] = [None] * len(self._places)

    def checkpoint(self) -> PassCheckpoint:
        """Returns the places of the readers; after an error of reading, before the record that it was about."""
        locations = [location and list(location) for location in self._places]
        return {"position": self.position, "opened": self._opened, "turn": self._turn, "places": locations}

    def records(self, first: int, checkpoints: deque[PassCheckpoint], spacing: int) -> Iterator[Record | None]:
        """Yields the records from position `first` on, then None forever; adds a checkpoint every `spacing` records."""
        following = checkpoints[-1]["position"] + spacing
        num_idle = 0  # readers in a row that have no record
        while True:
            if self.position >= following:
                checkpoints.append(self.checkpoint())
                following += spacing
            record = self._read_record(self._turn)
            self._turn = (self._turn + 1) % len(self._places)
            if record is None:
                num_idle += 1
                if num_idle >= len(self._places):
                    yield None
            else:
                num_idle = 0
                self.position += 1
                if self.position > first:
                    yield record

    def _read_record(self, number: int) -> Record | None:
        """Returns the next record of a reader, which opens the next file when its own is at the end."""
        while True:
            location = self._places[number]
            if location is None:
                if self._opened == len(self._order):
                    return None
                location = self._places[number] = self._order[self._opened], 0, 0
                self._opened += 1
            path, records = self._files[location[0]], self._records[number]
            if records is None:
                records = self._records[number] = self._reader.records(path, location[1], location[2])
            entry = next(records, None)
            if entry is not None:
                position, data = entry
                self._places[number] = location[0], position.number + 1, position.stop
                return path, position, data
            self._places[number] = self._records[number] = None

    def close(self) -> None:
        """Closes the files."""
        for records in self._records:
            if records is not None and hasattr(records, "close"):
                records.close()


class DatasetDataProvider:
    """Provides the items of one record after the other; iterating yields them as dicts. For one thread.

    The module's docstring defines the order. `get_state()` returns the provider's place in it. As a context manager it
    closes the files at the end.
    """

    def __init__(
        self,
        dataset: DatasetSpecification,
        num_readers: int = 1,
        shuffle: bool = True,
        num_epochs: int | None = None,
        common_queue_capacity: int = 256,
        common_queue_min: int = 128,
        record_key: str = "record_key",
        seed: int | None = None,
    ) -> None:
        """Finds the files; opens none yet.

        Args:
            dataset: the dataset to read.
            num_readers: number of files that are read in turns.
            shuffle: whether files, and records within the capacity of the queue, are shuffled.
            num_epochs: number of times that each file is read; None for endless repetition.
            common_queue_capacity: the window of the shuffle: at most this many records are in memory, and each moves by
                fewer places.
            common_queue_min: less than the capacity, as in TF-Slim; the order does not depend on it.
            record_key: the name of the item that identifies the record: `<path>:<number in the file>`.
            seed: seed of the shuffle, any integer; None means 0.

        Raises:
            InputError: a pattern matches no file.
            ValueError: `record_key` is an item of the dataset, or a number is out of its range.
        """
        items = list(dataset.decoder.list_items())
        if record_key in items:
            raise ValueError(f"record_key={record_key!r} is the name of an item of the dataset; give it another name")
        num_readers = integer("num_readers", num_readers, at_least=1)
        capacity = integer("common_queue_capacity", common_queue_capacity, at_least=1)
        if shuffle and not 0 <= common_queue_min < capacity:
            raise ValueError(
                f"common_queue_min must be in [0, common_queue_capacity = {capacity}), got {common_queue_min}"
            )
        self._dataset = dataset
        self._files = dataset.data_files()
        self._items = [*items, record_key]
        self._num_epochs = None if num_epochs is None else integer("num_epochs", num_epochs, at_least=1)
        self._seed = (seed or 0) if shuffle else None
        self._window = capacity if shuffle else 1
        self._first: PassCheckpoint = {"position": 0, "opened": 0, "turn": 0, "places": [None] * num_readers}
        self._move_to(0, 0, self._first)

    def _move_to(self, epoch: int, position: int, checkpoint: PassCheckpoint) -> None:
        """Moves to a position in an epoch.

        Args:
            epoch: number of the epoch.
            position: number of records that are already consumed in the epoch.
            checkpoint: the state of the readers from which reading continues.
        """
        self._epoch = epoch
        self._position = position
        self._checkpoints = deque([checkpoint], _MAX_CHECKPOINTS)
        self._readers: _Readers | None = None
        self._records: Iterator[Record] | None = None

    def list_items(self) -> list[str]:
        """Returns the names of the items, `record_key` last."""
        return list(self._items)

    def num_samples(self) -> int | None:
        """Returns the number of records that the specification gives; None if it gives none."""
        return self._dataset.num_samples

    def get(self, items: Sequence[str] | None = None) -> list[Any]:
        """Advances to the next record and returns its items in the order of `items`, or all. Parses no others.

        Raises:
            ValueError: the item does not exist; the provider does not advance.
            EOFError: all records have been provided.
            InputError: the record cannot be decoded; the message names it.
            CorruptRecordError: the record is damaged; the provider does not advance.
        """
        requested_items = self._items if items is None else items
        if items is not None:
            check_items(items, self._items)
        record = self._next()
        if record is None:
            raise EOFError("all records have been provided, as often as num_epochs says")
        path, location, data = record
        record_key = self._items[-1]
        try:
            values = iter(self._dataset.decoder.decode(data, [item for item in requested_items if item != record_key]))
        except BeamDatasetsError as error:
            raise InputError(f"{path}, byte {location.start} (record {location.number}): {error}") from error
        return [f"{path}:{location.number}" if item == record_key else next(values) for item in requested_items]

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> dict[str, Any]:
        try:
            return dict(zip(self._items, self.get()))
        except EOFError:
            raise StopIteration from None

    def _next(self) -> Record | None:
        """Returns the next record, if needed of a later epoch; None after the last epoch.

        Raises:
            InputError: the number of epochs is not limited, and no file has a record.
        """
        while self._num_epochs is None or self._epoch < self._num_epochs:
            if self._records is None:
                self._records = self._iter_shuffled()
            try:
                record = next(self._records, None)
            except BaseException:
                self.close()
                raise
            if record is not None:
                return record
            if self._num_epochs is None and self._readers is not None and not self._readers.position:
                raise InputError(f"none of the {len(self._files)} files holds a record; the first is {self._files[0]}")
            self._move_to(self._epoch + 1, 0, self._first)
        return None

    def _iter_shuffled(self) -> Iterator[Record]:
        """Yields the remaining records of the epoch."""
        checkpoint = self._checkpoint()
        order = range(len(self._files)) if self._seed is None else file_order(len(self._files), self._seed, self._epoch)
        readers = self._readers = _Readers(self._files, order, self._dataset.reader, checkpoint)
        spacing = max(self._window, _MIN_SPACING)
        read = functools.partial(readers.records, checkpoints=self._checkpoints, spacing=spacing)
        shuffle = self._shuffle(self._epoch)
        for record in read(self._position) if self._seed is None else shuffle.apply(read, self._position):
            self._position += 1
            if record is not None:
                yield record
            elif self._position >= readers.position + self._window:  # no record moves so far
                return

    def _shuffle(self, epoch: int) -> WindowShuffle:
        """Returns the shuffle of an epoch within the window."""
        return WindowShuffle(ENDLESS, self._window, self._seed or 0, epoch)

    def _checkpoint(self) -> PassCheckpoint:
        """Returns the last checkpoint of the readers before the first record that was not returned yet."""
        first = self._shuffle(self._epoch).first_source(self._position)
        checkpoints = [*self._checkpoints, *([] if self._readers is None else [self._readers.checkpoint()])]
        return [checkpoint for checkpoint in checkpoints if checkpoint["position"] <= first][-1]

    def get_state(self) -> dict[str, Any]:
        """Returns the provider's position in the order as a dict of JSON values."""
        state = ReadState(self._position, self._epoch, self._fingerprint_of_reader()).to_dict()
        return {**state, "readers": copy.deepcopy(self._checkpoint())}

    def set_state(self, state: object) -> None:
        """Continues with the record after those that the provider which returned the state had provided.

        The names of the files, the reader, `num_readers`, `shuffle`, the capacity and the seed must be the same. The
        directory of the files and `num_epochs` may differ.

        Raises:
            StateError: the state is malformed, or of another dataset or configuration.
        """
        fields = dict(state) if isinstance(state, Mapping) else {}
        readers = fields.pop("readers", None)
        saved_state = ReadState.from_dict(fields or state)
        saved_state.check(self._fingerprint_of_reader(), num_examples=ENDLESS)
        first = self._shuffle(saved_state.epoch).first_source(saved_state.position)
        _check_checkpoint(readers, first, len(self._files), self._first)
        self.close()
        self._move_to(saved_state.epoch, saved_state.position, copy.deepcopy(readers))

    def _fingerprint_of_reader(self) -> dict[str, str]:
        """Returns {'files', 'reader', 'num_readers', 'shuffle'}: the facts that determine the order, as texts."""
        names = "\n".join(storage.basename(path) for path in self._files)
        digest = hashlib.sha256(names.encode()).hexdigest()[:24]
        reader = self._dataset.reader
        is_shuffled = self._seed is not None
        return {
            "files": f"{len(self._files)}, SHA-256 of the names {digest}",
            "reader": repr(reader) if dataclasses.is_dataclass(reader) else type(reader).__qualname__,
            "num_readers": str(len(self._first["places"])),
            "shuffle": f"common_queue_capacity={self._window}, seed={self._seed}" if is_shuffled else "no",
        }

    def close(self) -> None:
        """Closes the files. The provider remains usable and opens them again."""
        readers = self._readers
        if readers is not None:
            self._move_to(self._epoch, self._position, self._checkpoint())
            readers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_checkpoint(value: Any, max_position: int, num_files: int, first: PassCheckpoint) -> None:
    """Validates a checkpoint that comes from outside.

    Args:
        value: the checkpoint, of any type.
        max_position: largest valid position, in records.
        num_files: number of files of the dataset.
        first: checkpoint of the beginning of a pass, which has the expected keys and number of readers.

    Raises:
        StateError: it is malformed, or does not fit the files, the readers or the position of its state.
    """
    num_readers = len(first["places"])
    try:
        numbers = [value["position"], value["opened"], value["turn"]]
        limits = [max_position + 1, num_files + 1, num_readers]
        for location in value["places"]:
            file, number, start = (0, 0, 0) if location is None else location
            numbers += [file, number, start]
            limits += [num_files, ENDLESS, ENDLESS]
        is_good = set(value) == set(first) and len(value["places"]) == num_readers
        is_good &= all(type(n) is int and 0 <= n < limit for n, limit in zip(numbers, limits))
    except (TypeError, ValueError, KeyError):
        is_good = False
    if not is_good:
        raise StateError(
            f"the state's readers: expected the places of {num_readers} readers in {num_files} files, got "
            f"{shown(value)}. Restore it with the dataset and configuration that it was saved with."
        )
