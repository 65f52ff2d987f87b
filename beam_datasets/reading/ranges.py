"""Ranges of records of a shard: runs cut into some of about equal bytes, and what is made of the records of one.

A range is a file instruction. Where a cut falls is read off the shard's index. A shard without one (as TensorFlow
Datasets writes them) stays whole: to find a record in it takes a walk from its beginning, which every range would pay.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from beam_datasets import storage
from beam_datasets.metadata.shards import FileInstruction
from beam_datasets.reading.blocks import block_sizes, stop_at_damaged
from beam_datasets.reading.elements.error_location import UNDECODED, describe_location
from beam_datasets.reading.elements.transforms import Map, Program, Step
from beam_datasets.reading.records.run_reader import CHUNK_BYTES, RunReader, Visits, ranges_of, read_visits

if TYPE_CHECKING:
    from beam_datasets.formats.record_block import RecordBlock
    from beam_datasets.reading.records.shards import ShardPool

_Made = TypeVar("_Made")

_BLOCK_RECORDS = 512  # that are handed on at once
_REMOTE_CHUNK = 4 << 20  # bytes; two are in memory, one of which is read ahead


def cut(run: FileInstruction, pool: ShardPool, range_bytes: int) -> list[FileInstruction]:
    """Returns ranges that make up a run, in order, none of them empty.

    Each has at most `range_bytes` or a record more, and about the same size as the others.

    Args:
        run: what to cut.
        pool: of the dataset's shards.
        range_bytes: about the largest size of a range, in bytes of the file.

    Raises:
        StorageError: the shard cannot be read.
        MetadataError: the shard's index is damaged, or is not of it.
    """
    index = pool.open(run.filename, run.examples_in_shard).index
    if index is None:
        return [run]
    offsets = index.offsets[run.skip : run.skip + run.take + 1].astype(np.int64)
    count = -(-int(offsets[-1] - offsets[0]) // range_bytes)
    ends = offsets[0] + (offsets[-1] - offsets[0]) * np.arange(1, count) // max(count, 1)
    places = np.unique([0, *np.searchsorted(offsets, ends), run.take]).tolist()
    return [
        FileInstruction(run.filename, run.skip + start, stop - start, run.examples_in_shard)
        for start, stop in itertools.pairwise(places)
    ]


def size_of(run: FileInstruction, pool: ShardPool) -> int:
    """Returns how many bytes of its file a run has; an estimate if the shard has no index.

    Raises:
        StorageError: the shard cannot be read.
        MetadataError: the shard's index is damaged, or is not of it.
    """
    shard = pool.open(run.filename, run.examples_in_shard)
    if shard.index is None:
        return shard.reader.size * run.take // max(run.examples_in_shard, 1)
    return int(shard.index.offsets[run.skip + run.take]) - int(shard.index.offsets[run.skip])


def read_range(
    run: FileInstruction, pool: ShardPool, steps: tuple[Step, ...], claim: Callable[[int], bool] | None = None
) -> Iterator[tuple[int, Any]]:
    """Yields, for each record of a run, its number in the shard and what the steps make of it.

    Args:
        run: which records.
        pool: of the dataset's shards.
        steps: what to make of a record, such as `(Decode(features),)`.
        claim: called with each record's number before it is yielded; where it returns False, reading ends.

    Raises:
        StorageError: the shard cannot be read.
        CorruptRecordError: a record is damaged; it names file, byte and record.
        FeatureError: a record does not fit the features; it names file, byte and record.
    """
    program = Program.compile(steps)
    blocks = read_blocks(run, pool)
    decoded = itertools.chain.from_iterable(program.run(blocks, block_sizes(size_of(run, pool) / max(run.take, 1))))
    values = decoded if program.finish is None else map(program.finish, decoded)
    for number in range(run.skip, run.skip + run.take):
        if claim is not None and not claim(number):
            return
        try:
            value = next(values)
        except UNDECODED as error:
            location = describe_location(pool.open(run.filename, run.examples_in_shard), number)
            raise type(error)(f"{location}: {error}") from error
        yield number, value


def map_blocks(
    function: Callable[[Any], _Made], blocks: Iterable[Any], run: FileInstruction, pool: ShardPool
) -> Iterator[_Made]:
    """Yields what a function makes of each block of the records of a run.

    Args:
        function: from records, several or one, to what is made of them.
        blocks: all records of the run, in order.
        run: which records.
        pool: of the dataset's shards.

    Raises:
        FeatureError: the function raised it; it names file, byte and record.
    """
    first = run.skip
    for block in blocks:
        try:
            result = function(block)
        except UNDECODED:
            part = replace(run, skip=first, take=len(block))
            list(read_range(part, pool, (Map(lambda record: function([record])),)))  # raises the error of the record
            raise
        yield result
        first += len(block)


def read_blocks(run: FileInstruction, pool: ShardPool) -> Iterator[RecordBlock]:
    """Yields the records of a run, checked, some at a time.

    Raises:
        StorageError: the shard cannot be read.
        CorruptRecordError: a record is damaged; it names file, byte and record.
    """
    is_remote = storage.is_remote(storage.join(pool.directory, run.filename))
    shard, stop = pool.open(run.filename, run.examples_in_shard), run.skip + run.take
    executor = ThreadPoolExecutor(1, "beam_datasets-range")  # its thread starts when it has something to do
    reader = RunReader(shard, stop, *((_REMOTE_CHUNK, executor.submit) if is_remote else (CHUNK_BYTES,)))

    def chunk_of(_: int, visits: Visits, damaged: bool, failed: bool) -> Any:
        if damaged:
            reader.raise_damaged(int(visits[1][0]))
        return reader.chunk(ranges_of(0, visits), failed or damaged)

    runs, firsts, counts = np.array([[0], [run.skip], [run.take]], np.int64)
    try:
        yield from stop_at_damaged(read_visits([(runs, firsts, counts)], chunk_of, itertools.repeat(_BLOCK_RECORDS)))
    finally:
        executor.shutdown(cancel_futures=True)
