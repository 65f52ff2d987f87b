"""The records of a source, read in ranges: unchanged, or selected by a filter and reduced to some features.

Every record is checked. Local shards are read a megabyte at a time, which fits in the processor's cache. Of remote
shards, the next chunk is prefetched.

The result for a range depends only on the range, so several attempts may compute it, even concurrently.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from beam_datasets import frames, storage
from beam_datasets.errors import BeamDatasetsError, FeatureError, LostExamplesError, MetadataError
from beam_datasets.extras import Buffer
from beam_datasets.features import compile_decoder
from beam_datasets.formats import example, tfrecord
from beam_datasets.formats.example import ExampleError
from beam_datasets.formats.index import Index
from beam_datasets.materializing.filters import Filter
from beam_datasets.materializing.where import ExpressionLimitError
from beam_datasets.metadata.keys import reshuffled_keys
from beam_datasets.metadata.shards import FileInstruction, FileInstructions
from beam_datasets.publishing.shard_file import ShardFile
from beam_datasets.reading.records.prefetch import prefetch_results
from beam_datasets.reading.records.shards import INDEX_SUFFIX, Shard
from beam_datasets.shuffle.block_builder import MAX_COPIED_BYTES, NewBlock, collector, make_block
from beam_datasets.shuffle.blocks import cuts

if TYPE_CHECKING:
    from beam_datasets.materializing.selection import SelectedSplit, SortedRun
    from beam_datasets.materializing.where import Where


RANGE_BYTES = 32 << 20
LOCAL_CHUNK = 1 << 20
REMOTE_CHUNK = 16 << 20


# ------------------------------------------------------------------------------------------------------------- ranges


@dataclass(frozen=True, slots=True)
class RecordRange:
    """Records of a shard that are read together.

    Attributes:
        number: number of the range among all ranges of the job, in the order of the output.
        split: the split that the records become part of.
        run: number of the sorted run of that split.
        dataset: number of the source.
        source: the source's split, as errors name it: `digits:1.0.0, train`.
        index: index of the first record in the source's split.
        file: the records; the file name is the whole path.
        keyed: whether the records have sort keys.
        index_path: path of an index that was made for the file; None for the index next to it.
        num_bytes: framed size in bytes, once it is prepared.
        requests: I/O counts of the process that prepared it, since its last count.
    """

    number: int
    split: str
    run: int
    dataset: int
    source: str
    index: int
    file: FileInstruction
    keyed: bool
    index_path: str | None = None
    num_bytes: int = 0
    requests: storage.Requests = field(default=storage.Requests())


@dataclass(frozen=True)
class RecordRanges:
    """All ranges of a job, each created when it is accessed.

    Attributes:
        splits: the splits to read.
        range_bytes: larger parts of shards with indexes are divided, in bytes.
    """

    splits: tuple[SelectedSplit, ...]
    range_bytes: int = RANGE_BYTES

    @cached_property
    def _runs(self) -> list[tuple[SelectedSplit, int, SortedRun, FileInstructions, NDArray[np.int64]]]:
        """For each run: (split, number in the split, run, its file instructions, index in the source of each one)."""
        runs = []
        for split in self.splits:
            for number, run in enumerate(split.runs):
                parts = -(-run.num_bytes // self.range_bytes) if run.exact else 1
                files = run.files.divided(np.clip(parts, 1, run.files.take))
                runs.append((split, number, run, files, run.start + np.cumsum(files.take) - files.take))
        return runs

    @cached_property
    def _firsts(self) -> NDArray[np.int64]:
        """Returns the number of ranges before each run, followed by their total."""
        return np.cumsum([0, *(len(files) for *_, files, _ in self._runs)])

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def __getitem__(self, number: int) -> RecordRange:
        run_index = int(np.searchsorted(self._firsts, number, side="right")) - 1
        split, run_number, run, files, starts = self._runs[run_index]
        i = number - int(self._firsts[run_index])
        source = f"{run.name}, {run.split}"
        return RecordRange(number, split.name, run_number, run.dataset, source, int(starts[i]), files[i], split.keyed)

    def __iter__(self) -> Iterator[RecordRange]:
        return map(self.__getitem__, range(len(self)))

    def check_all_read(self, numbers: Iterable[int]) -> None:
        """Checks that ranges of these numbers, in any order, are all ranges, and each once.

        Raises:
            LostExamplesError: a number is missing, repeated or unknown.
        """
        sorted_numbers = sorted(numbers)
        if sorted_numbers != list(range(len(self))):
            raise LostExamplesError(
                f"{len(sorted_numbers)} ranges of the source were read, {len(self)} were planned. The engine lost "
                "or duplicated some",
                expected=f"{len(self)} ranges",
                got=f"{len(sorted_numbers)}",
                outcome="nothing was published",
                advice="Run it again, but not with direct_running_mode=multi_threading.",
            )


# ------------------------------------------------------------------------------------------------------------ reading


@dataclass(frozen=True)
class Records:
    """Records of an open shard.

    Attributes:
        file: file instruction of the records.
        shard: the shard, which closes its file after its last use.
        offsets: first byte of each record in the shard, and the end of the last one.
        keys: their sort keys, (n, 16); None if they have none.
        ordered: whether the keys are ordered integers.
    """

    file: FileInstruction
    shard: Shard
    offsets: NDArray[np.int64]
    keys: NDArray[np.uint8] | None
    ordered: bool

    def chunks(self) -> Iterator[tuple[int, NDArray[np.int64], Buffer]]:
        """Yields (number of the first record among these, offsets, framed records), about a chunk at a time, unchecked.

        Offsets are relative to the buffer.
        """
        remote, read = storage.is_remote(self.file.filename), self.shard.reader.read
        start, stop = int(self.offsets[0]), int(self.offsets[-1])
        if not remote and start < stop <= start + LOCAL_CHUNK:
            yield 0, self.offsets - start, read(start, stop)
            return
        spans = list(cuts(np.diff(self.offsets), REMOTE_CHUNK if remote else LOCAL_CHUNK))
        offsets_of_chunks = [self.offsets[first : stop + 1] for first, stop in spans]
        buffers = prefetch_results(
            (partial(read, int(chunk_offsets[0]), int(chunk_offsets[-1])) for chunk_offsets in offsets_of_chunks),
            threads=int(remote),
        )
        for (first, _), chunk_offsets, buffer in zip(spans, offsets_of_chunks, buffers):
            yield first, chunk_offsets - chunk_offsets[0], buffer

    def check(self, first: int, offsets: NDArray[np.int64], buffer: Buffer) -> None:
        """Checks the records of a chunk, given as `chunks` yields it.

        Args:
            first: number of the chunk's first record, counted from the first of these records.
            offsets: start of each record in the buffer, and the end of the last one, in bytes.
            buffer: the framed records.

        Raises:
            CorruptRecordError: one is damaged; it names file, byte and record.
        """
        path, start, record = self.file.filename, int(self.offsets[first]), self.file.skip + first
        actual_offsets = tfrecord.scan(buffer, path=path, offset=start, first_record=record)
        if not np.array_equal(actual_offsets, offsets):
            self.unframe(first, offsets, buffer)  # raises an error about where the index and the records differ

    def unframe(self, first: int, offsets: NDArray[np.int64], buffer: Buffer) -> list[bytes]:
        """Returns the records of a chunk without framing, after checking them. For the arguments, see `check`.

        Raises:
            CorruptRecordError: one is damaged; it names file, byte and record.
        """
        path, start, record = self.file.filename, int(self.offsets[first]), self.file.skip + first
        return tfrecord.unframe(buffer, offsets, path=path, offset=start, first_record=record)


class Opener:
    """Opens records, and keeps the last shard open, because many small shards may be made of a larger one."""

    def __init__(self) -> None:
        self._shard: Shard | None = None

    def open(self, file: FileInstruction, *, keyed: bool, index_path: str | None = None) -> Records:
        """Opens the records of a file instruction.

        Args:
            file: the file instruction; its file name is the whole path.
            keyed: whether their sort keys are needed.
            index_path: an index that was made for a shard that has none; None for the shard's own.

        Raises:
            StorageError: the shard cannot be read.
            MetadataError: its index is damaged, belongs to another shard, or lacks the sort keys.
            CorruptRecordError: it has no index, and a length in it is damaged.
        """
        shard, stop = self._shard, file.skip + file.take
        if shard is None or (shard.path, shard.num_records) != (file.filename, file.examples_in_shard):
            self._shard = shard = None  # closed before the next is opened
            shard = self._shard = Shard(file.filename, file.examples_in_shard)
        if index_path is not None:
            offsets = Index.from_bytes(storage.read_bytes(index_path), path=index_path).offsets[: stop + 1]
        else:
            offsets = offsets_of(shard, stop)
        record_offsets = offsets[file.skip :].astype(np.int64)
        if not keyed:
            return Records(file, shard, record_offsets, None, False)
        if shard.index is None or shard.index.keys is None:
            raise MetadataError(
                "it has no index with keys, as other shards of its split have",
                path=file.filename,
                advice=f"Restore {INDEX_SUFFIX} beside it, or repair the dataset.",
            )
        return Records(file, shard, record_offsets, shard.index.keys[file.skip : stop], shard.index.ordered)


def offsets_of(shard: Shard, stop: int) -> NDArray[Any]:
    """Returns the byte offsets of the records before number `stop`, followed by the end of the last one.

    The array has shape (stop + 1,) and dtype uint64. A shard without an index is read up to this end only.

    Raises:
        CorruptRecordError: the shard has no index, and a length in it is damaged.
    """
    if shard.known_offsets is not None:
        return shard.known_offsets[: stop + 1]
    offsets: list[NDArray[np.int64]] = [np.zeros(1, np.int64)]
    for chunk in shard.scan() if stop else ():
        offsets.append(chunk.offsets[1:] + chunk.start)
        if chunk.first_record + len(chunk.offsets) > stop:
            break
    return np.concatenate(offsets)[: stop + 1].astype(np.uint64)


# ----------------------------------------------------------------------------------------------------------- choosing


@dataclass(frozen=True)
class Transform:
    """Conversion of each record: the features that are kept, and the filter of examples.

    Attributes:
        features: features of each source.
        names: names of the features that are kept of a record; None for all.
        filter: filter of the examples; None keeps all.
        where: condition on the examples that are given to the filter; None for all.
    """

    features: tuple[Any, ...] = ()
    names: frozenset[bytes] | None = None
    filter: Filter | None = None
    where: Where | None = None

    def apply(self, record_range: RecordRange, records: Records) -> Iterator[tuple[NDArray[np.intp], list[bytes]]]:
        """Yields (numbers in the range, records as bytes) of the records that are kept, in order, a chunk at a time.

        The numbers count the records of the range from 0; the records are converted to the kept features.

        Args:
            record_range: the range, for errors and for the features of its dataset.
            records: the open records of the range.

        Raises:
            CorruptRecordError: a record is damaged.
            BeamDatasetsError: the filter fails, or a record does not fit the features or is too large.
        """
        chosen_of, keep = self._chooser(record_range, records), self._compile_filter(record_range, records)
        for first, offsets, buffer in records.chunks():
            data = records.unframe(first, offsets, buffer)
            indices: Iterable[int] = range(len(data)) if chosen_of is None else chosen_of(first, data)
            indices = list(indices) if keep is None else [i for i in indices if keep(first + i, data[i])]
            selected = [data[i] for i in indices]
            if self.names is not None:
                selected = [example.filter_entries(record, self.names) for record in selected]
            positions = first + np.array(indices, np.intp)
            _check_sizes(
                record_range, records, positions, list(map(len, selected))
            )  # the collector would leave out large ones
            yield positions, selected

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_compiled"}

    @cached_property
    def _compiled(self) -> dict[tuple[int, int], Callable[[list[Any]], list[int]]]:
        """The compiled `where` by (number of the dataset, id of the thread); see `Where.compile`."""
        return {}

    def _chooser(self, record_range: RecordRange, records: Records) -> Callable[[int, list[Any]], list[int]] | None:
        """Returns the function that evaluates `where`; None if there is none.

        Its arguments are the number in the range of the first record and a list of records; it returns the indices in
        the list of the records that are kept, ascending. Its errors contain the file, the byte offset and the record.
        """
        if self.where is None:
            return None
        key = record_range.dataset, threading.get_ident()
        if key not in self._compiled:
            self._compiled[key] = self.where.compile(self.features[record_range.dataset])
        select = self._compiled[key]

        def choose(first: int, data: list[Any]) -> list[int]:
            """Returns the indices in `data` of the kept records; an error names the record that causes it."""
            try:
                return select(data)
            except ExpressionLimitError as error:  # single records could exceed the limit, too
                location = _describe_record(record_range, records, first)
                raise type(error)(f"{location}, and the {len(data) - 1} after it: {error}") from error
            except (BeamDatasetsError, FeatureError, ExampleError):
                for index, record in enumerate(data):
                    try:
                        select([record])
                    except (BeamDatasetsError, FeatureError, ExampleError) as error:
                        raise type(error)(
                            f"{_describe_record(record_range, records, first + index)}: {error}"
                        ) from error
                raise

        return choose

    def _compile_filter(self, record_range: RecordRange, records: Records) -> Callable[[int, bytes], bool] | None:
        """Returns the function (number in the range, record) -> whether the filter keeps it; None without a filter.

        Its errors contain the file, the byte offset and the record.
        """
        if self.filter is None:
            return None
        decode, name, function = (
            compile_decoder(self.features[record_range.dataset]),
            self.filter.name,
            self.filter.function,
        )

        describe = partial(_describe_record, record_range, records)

        def keep(index: int, record: bytes) -> bool:
            """Returns whether the filter keeps a record; `index` is its number in the range.

            Raises:
                BeamDatasetsError: the filter raised an exception, or returned no bool.
            """
            try:
                example = decode(record)
            except (FeatureError, ExampleError) as error:
                raise type(error)(f"{describe(index)}: {error}") from error
            try:
                answer = function(example)
            except Exception as error:
                raise BeamDatasetsError(
                    f"{describe(index)}: the filter {name} raised {_describe_user_error(error)}"
                ) from error
            if not isinstance(answer, (bool, np.bool_)):
                raise BeamDatasetsError(
                    f"{describe(index)}: the filter {name} returned {answer!r:.200} of type {type(answer).__name__}; "
                    "it must return True or False (a bool, or a NumPy bool)."
                )
            return bool(answer)

        return keep


def _describe_record(record_range: RecordRange, records: Records, index: int) -> str:
    """Returns the place of a record for errors: "/d/x.tfrecord, byte 40 (record 3; digits:1.0.0, train[3])".

    Args:
        record_range: the range of the record.
        records: the open records of the range.
        index: the number of the record in the range, from 0.
    """
    file, byte, example = (
        record_range.file,
        records.offsets[index],
        f"{record_range.source}[{record_range.index + index}]",
    )
    return f"{file.filename}, byte {byte} (record {file.skip + index}; {example})"


def _check_sizes(record_range: RecordRange, records: Records, positions: NDArray[np.intp], sizes: Any) -> None:
    """Checks that no record is larger than `MAX_COPIED_BYTES`.

    Args:
        record_range: the range of the records, for errors.
        records: the open records of the range.
        positions: numbers of the records in the range.
        sizes: the size in bytes of each of these records, without framing.

    Raises:
        BeamDatasetsError: a record is larger; the message names the first one.
    """
    for i in np.flatnonzero(np.asarray(sizes) > MAX_COPIED_BYTES)[:1]:
        location = _describe_record(record_range, records, int(positions[i]))
        raise BeamDatasetsError(
            f"{location}: expected at most {MAX_COPIED_BYTES:,} bytes, "
            f"got {sizes[i]:,}. Leave it out by another slice, or copy whole files."
        )


def _describe_user_error(error: Exception) -> str:
    r"""Returns the class, text and places of an error in the user's code, without frames of this package.

    For example, "KeyError: 'x'\n  at /home/me/f.py:3 in keep: return example['x']".
    """
    user_frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frames.is_authors(frame.filename)]
    frame_texts = [f"\n  at {frame.filename}:{frame.lineno} in {frame.name}: {frame.line}" for frame in user_frames]
    return f"{type(error).__name__}: {error}{''.join(frame_texts)}"


# ---------------------------------------------------------------------------------------------- what is made of a range


def prepare_range(record_range: RecordRange, transform: Transform | None, directory: str) -> RecordRange:
    """Returns the records to copy of a range: those in the source's shard, or in a file that is written for it.

    Args:
        record_range: the range of records.
        transform: conversion of the records; None leaves them in their shard, and only finds out where each begins.
        directory: gets the files that are made.

    Raises:
        CorruptRecordError: a record is damaged.
        BeamDatasetsError: the filter fails.
    """
    path, index_path = storage.join(directory, f"{record_range.number:08d}.records"), None
    if transform is not None:
        file, num_bytes = _write_kept(record_range, transform, path)
    else:
        file, stop = record_range.file, record_range.file.skip + record_range.file.take
        shard = Shard(file.filename, file.examples_in_shard)
        offsets = offsets_of(shard, stop)
        num_bytes = int(offsets[stop]) - int(offsets[file.skip])
        if shard.index is None:
            index_path = path + INDEX_SUFFIX
            storage.write_bytes(index_path, Index(offsets).to_bytes())
    return replace(record_range, file=file, index_path=index_path, num_bytes=num_bytes)


def _write_kept(record_range: RecordRange, transform: Transform, path: str) -> tuple[FileInstruction, int]:
    """Writes the records that are kept, and their index; returns (all records of the new file, its size in bytes).

    Args:
        record_range: the range of records.
        transform: conversion of the records.
        path: the new file; the index is beside it.
    """
    records = Opener().open(record_range.file, keyed=record_range.keyed)
    with ShardFile(path) as shard_file:
        for positions, framed_sizes, framed in _frame_records(record_range, records, transform):
            shard_file.write([framed])
            shard_file.add_to_index(framed_sizes, None if records.keys is None else records.keys[positions])
    kept_shard = shard_file.finish(record_range.split, record_range.number, ordered=records.ordered)
    return FileInstruction(path, 0, kept_shard.num_examples, kept_shard.num_examples), kept_shard.file_bytes


def _frame_records(
    record_range: RecordRange, records: Records, transform: Transform | None
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.int64], Buffer]]:
    """Yields (numbers in the range, framed sizes in bytes, framed records joined) of kept records, a chunk at a time.

    Without `transform` the frames are those of the source, after checking them.
    """
    if transform is None:
        for first, offsets, buffer in records.chunks():
            records.check(first, offsets, buffer)
            positions, sizes = np.arange(first, first + len(offsets) - 1), np.diff(offsets)
            _check_sizes(record_range, records, positions, sizes - tfrecord.OVERHEAD)
            yield positions, sizes, buffer
        return
    append, framed_sizes, gather_payload, clear = collector(bytes, MAX_COPIED_BYTES)
    for positions, selected in transform.apply(record_range, records):
        for record in selected:
            append(record)
        yield positions, np.frombuffer(framed_sizes(), "<u4").astype(np.int64), gather_payload(np.arange(len(selected)))
        clear(True)


def blocks(
    record_range: RecordRange, transform: Transform | None, reshuffle: str, *, block_size: int, spill_dir: str | None
) -> Iterator[NewBlock]:
    """Yields the records of a range that are kept, in blocks, with the sort keys of a new order.

    Args:
        record_range: the range of records.
        transform: conversion of the records; None leaves them unchanged.
        reshuffle: the salt of the order. Records without sort keys are ordered by their shard's name and their place.
        block_size: approximate size of a block in bytes.
        spill_dir: directory for spilled payload; None keeps it inline.
    """
    salt = salt_of(reshuffle, record_range.run)
    keys: list[bytes] = []
    sizes: list[NDArray[np.int64]] = []
    buffers: list[Buffer] = []
    records = Opener().open(record_range.file, keyed=record_range.keyed)
    for positions, framed_sizes, framed in _frame_records(record_range, records, transform):
        keys += _old_keys(record_range, records, positions)
        sizes.append(framed_sizes)
        buffers.append(framed)
        if sum(memoryview(buffer).nbytes for buffer in buffers) >= block_size:
            yield make_block(record_range.split, reshuffled_keys(salt, keys), sizes, buffers, spill_dir)
            keys, sizes, buffers = [], [], []
    if keys:
        yield make_block(record_range.split, reshuffled_keys(salt, keys), sizes, buffers, spill_dir)


def salt_of(reshuffle: str, run: int) -> str:
    """Returns the salt of a run of a split: "a" for the salt "a" and run 0, "a+1" for run 1.

    The salts of runs differ, so that equal keys of two runs become different.
    """
    return f"{reshuffle}+{run}" if run else reshuffle


def _old_keys(record_range: RecordRange, records: Records, positions: NDArray[np.intp]) -> list[bytes]:
    """Returns the sort keys of records; without an index, names such as b"<file name>__<number in the shard>".

    Args:
        record_range: the range of a shard.
        records: the records of the range.
        positions: indices of the records in the range.
    """
    if records.keys is not None:
        return [key.tobytes() for key in records.keys[positions]]
    name = storage.basename(record_range.file.filename)
    return [f"{name}__{record_range.file.skip + position}".encode() for position in positions.tolist()]
