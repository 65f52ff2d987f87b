"""Reading the records of a source to materialize them: framed stretches to copy, or records to choose among.

Every record is checked. Local shards are read a megabyte at a time, which fits the processor's cache with all that is
done to it; of remote ones the next chunk is on its way meanwhile.
"""

from __future__ import annotations

import contextlib
import itertools
import traceback
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets import frames, storage
from beam_datasets.errors import BeamDatasetsError, FeatureError, MetadataError
from beam_datasets.features import compile_decoder
from beam_datasets.formats import entries, tfrecord
from beam_datasets.formats.example import ExampleError
from beam_datasets.formats.index import Index
from beam_datasets.reading.session import Session
from beam_datasets.reading.shards import INDEX_SUFFIX, Shard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray
    from typing_extensions import Buffer, Self

    from beam_datasets.model.shards import FileInstruction
    from beam_datasets.writing.materialize_filter import Filter

LOCAL_CHUNK = 1 << 20
REMOTE_CHUNK = 16 << 20


@dataclass(frozen=True, slots=True)
class Stretch:
    """Records of a shard that are read together.

    Attributes:
        number: among all of the job, in the order of what is written.
        split: the split that they become part of.
        piece: number of the piece of that split.
        dataset: number of the source.
        source: the split that they are of, as errors name it: `digits:1.0.0, train`.
        index: index of the first in the source's split.
        file: where they are; the name is the whole path.
        keyed: whether they have sort keys.
    """

    number: int
    split: str
    piece: int
    dataset: int
    source: str
    index: int
    file: FileInstruction
    keyed: bool


@dataclass(frozen=True)
class Records:
    """Records of a shard, opened; as a context manager it closes what is nobody else's.

    Attributes:
        file: which.
        reader: of the shard.
        offsets: where each begins in the shard, and where the last one ends, in bytes.
        keys: their sort keys, (n, 16); None where they have none.
        ordered: whether these are integers in their order.
        shard: whose reader it is, where it is a shard's: that closes it, when nobody has the shard any more.
    """

    file: FileInstruction
    reader: storage.Reader
    offsets: NDArray[np.int64]
    keys: NDArray[np.uint8] | None
    ordered: bool
    shard: Shard | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.shard is None:
            self.reader.close()

    @property
    def num_bytes(self) -> int:
        """Size of the records in bytes, framed."""
        return int(self.offsets[-1]) - int(self.offsets[0])

    def chunks(self) -> Iterator[tuple[int, NDArray[np.int64], Buffer]]:
        """Yields (number of the first among these, offsets, framed records), about a chunk at a time, unchecked.

        Offsets are relative to the buffer.
        """
        remote = storage.is_remote(self.file.filename)
        if not remote and 0 < self.num_bytes <= LOCAL_CHUNK:
            start = int(self.offsets[0])
            yield 0, self.offsets - start, self.reader.read(start, start + self.num_bytes)
            return
        firsts = _cut(self.offsets, REMOTE_CHUNK if remote else LOCAL_CHUNK)
        places = [self.offsets[first : stop + 1] for first, stop in itertools.pairwise(firsts)]
        with contextlib.closing(Session(1, threads=1 if remote else 0)) as session:
            buffers = session.ahead(partial(self.reader.read, int(some[0]), int(some[-1])) for some in places)
            for first, some, buffer in zip(firsts, places, buffers):
                yield first, some - some[0], buffer

    def check(self, first: int, offsets: NDArray[np.int64], buffer: Buffer) -> None:
        """Checks the records of a chunk.

        Raises:
            CorruptRecordError: one is damaged; it names file, byte and record.
        """
        path, start, record = self.file.filename, int(self.offsets[first]), self.file.skip + first
        found = tfrecord.scan(buffer, path=path, offset=start, first_record=record)
        if not np.array_equal(found, offsets):
            self.unframe(first, offsets, buffer)  # which says where the index and the records differ

    def unframe(self, first: int, offsets: NDArray[np.int64], buffer: Buffer) -> list[bytes]:
        """Returns the records of a chunk, checked.

        Raises:
            CorruptRecordError: one is damaged; it names file, byte and record.
        """
        path, start, record = self.file.filename, int(self.offsets[first]), self.file.skip + first
        return tfrecord.unframe(buffer, offsets, path=path, offset=start, first_record=record)


def _cut(offsets: NDArray[np.int64], chunk_bytes: int) -> list[int]:
    """Returns where chunks of about so many bytes begin, and last the number of records."""
    firsts, last = [0], len(offsets) - 1
    while firsts[-1] < last:
        stop = int(np.searchsorted(offsets, offsets[firsts[-1]] + chunk_bytes, side="right")) - 1
        firsts.append(min(max(stop, firsts[-1] + 1), last))
    return firsts


class LastShard:
    """The shard that was opened last, for who may want more of it: many small ones may be made of a larger one."""

    def __init__(self) -> None:
        self._shard: Shard | None = None

    def open(self, file: FileInstruction) -> Shard:
        """Returns the shard of a file instruction, whose name is the whole path.

        Raises:
            StorageError: it cannot be read.
            MetadataError: its index is damaged, or is not of it.
        """
        last = self._shard
        if last is None or (last.path, last.num_records) != (file.filename, file.examples_in_shard):
            self._shard = None  # closed before the next is opened
            last = self._shard = Shard(file.filename, file.examples_in_shard)
        return last


def open_records(
    file: FileInstruction, *, keyed: bool, index_path: str | None = None, last: LastShard | None = None
) -> Records:
    """Opens the records of a file instruction.

    Args:
        file: which; the name is the whole path.
        keyed: whether their sort keys are needed.
        index_path: an index that was made for this; None for the shard's own.
        last: opens the shard.

    Raises:
        StorageError: the shard cannot be read.
        MetadataError: its index is damaged, is not of it, or lacks the keys that are needed.
        CorruptRecordError: it has no index, and a length in it is damaged.
    """
    stop = file.skip + file.take
    if index_path is not None:
        index = Index.from_bytes(storage.read_bytes(index_path), path=index_path)
        offsets = index.offsets[file.skip : stop + 1].astype(np.int64)
        return Records(file, storage.open_reader(file.filename), offsets, None, False)
    shard = (last or LastShard()).open(file)
    offsets = offsets_of(shard, stop)[file.skip :].astype(np.int64)
    if not keyed:
        return Records(file, shard.reader, offsets, None, False, shard)
    if shard.index is None or shard.index.keys is None:
        raise MetadataError(
            f"{file.filename} has no index with keys, as other shards of its split have; restore {INDEX_SUFFIX} beside "
            "it, or repair the dataset."
        )
    keys = shard.index.keys[file.skip : stop]
    return Records(file, shard.reader, offsets, keys, shard.index.ordered, shard)


def offsets_of(shard: Shard, stop: int) -> NDArray[Any]:
    """Returns where the records before `stop` begin, and where the last one ends; nothing behind it is read.

    Raises:
        CorruptRecordError: the shard has no index, and a length in it is damaged.
    """
    if shard.known_offsets is not None:
        return shard.known_offsets[: stop + 1]
    found: list[NDArray[np.int64]] = [np.zeros(1, np.int64)]
    for chunk in shard.scan() if stop else ():
        found.append(chunk.offsets[1:] + chunk.start)
        if chunk.first_record + len(chunk.offsets) > stop:
            break
    return np.concatenate(found)[: stop + 1].astype(np.uint64)


@dataclass(frozen=True)
class Transform:
    """What becomes of each record.

    Attributes:
        features: of each source.
        names: what is kept of a record, by the names in it; None for all.
        filter: which examples are kept; None for all.
    """

    features: tuple[Any, ...] = ()
    names: frozenset[bytes] | None = None
    filter: Filter | None = None

    def apply(self, stretch: Stretch, records: Records) -> Iterator[tuple[NDArray[np.intp], list[bytes]]]:
        """Yields (places within the stretch, records) of those that are kept, in order, a chunk at a time.

        Raises:
            CorruptRecordError: a record is damaged.
            BeamDatasetsError: the filter fails, or a record does not fit the features.
        """
        keep = self._keeper(stretch, records)
        for first, offsets, buffer in records.chunks():
            data = records.unframe(first, offsets, buffer)
            kept = range(len(data)) if keep is None else [i for i, record in enumerate(data) if keep(first + i, record)]
            yield first + np.array(kept, np.intp), [self._cut(data[i]) for i in kept]

    def _cut(self, record: bytes) -> bytes:
        return record if self.names is None else entries.keep(record, self.names)

    def _keeper(self, stretch: Stretch, records: Records) -> Callable[[int, bytes], bool] | None:
        if self.filter is None:
            return None
        decode, name, chosen = compile_decoder(self.features[stretch.dataset]), self.filter.name, self.filter.function

        def keep(place: int, record: bytes) -> bool:
            try:
                example = decode(record)
            except (FeatureError, ExampleError) as error:
                raise type(error)(f"{_where(stretch, records, place)}: {error}") from error
            try:
                answer = chosen(example)
            except Exception as error:
                raise BeamDatasetsError(
                    f"{_where(stretch, records, place)}: the filter {name} raised {_described(error)}"
                ) from error
            if not isinstance(answer, (bool, np.bool_)):
                raise BeamDatasetsError(
                    f"{_where(stretch, records, place)}: the filter {name} returned {answer!r:.200} of type "
                    f"{type(answer).__name__}; it must return True or False (a bool, or a NumPy bool)."
                )
            return bool(answer)

        return keep


def _where(stretch: Stretch, records: Records, place: int) -> str:
    """Returns the name of a record in an error."""
    file, byte, example = stretch.file, records.offsets[place], f"{stretch.source}[{stretch.index + place}]"
    return f"{file.filename}, byte {byte} (record {file.skip + place}; {example})"


def _described(error: Exception) -> str:
    """Returns what was raised and where in the user's code, without frames of this package."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frames.is_authors(frame.filename)]
    places = [f"\n  at {frame.filename}:{frame.lineno} in {frame.name}: {frame.line}" for frame in own]
    return f"{type(error).__name__}: {error}{''.join(places)}"
