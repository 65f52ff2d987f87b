"""Ranges of records of a shard: dividing runs into ranges of about equal bytes, and reading a range.

A run or a range is a `FileInstruction`: adjacent records of one shard. The cuts are computed from the shard's index. A
shard without an index (as TensorFlow Datasets writes them) is not divided, because the reader of each range would have
to scan it from the beginning.
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
from beam_datasets.reading.elements.error_location import UNDECODED, locate_error
from beam_datasets.reading.elements.transforms import Map, Program, Step
from beam_datasets.reading.records.run_reader import CHUNK_BYTES, RunReader, Visits, ranges_of, read_visits

if TYPE_CHECKING:
    from beam_datasets.formats.record_block import RecordBlock
    from beam_datasets.reading.records.shards import ShardPool

_Result = TypeVar("_Result")

_BLOCK_RECORDS = 512  # records in a block
_REMOTE_CHUNK = 4 << 20  # bytes; two chunks are in memory: the current one, and one that is read ahead


def divide_run(run: FileInstruction, pool: ShardPool, range_bytes: int) -> list[FileInstruction]:
    """Divides a run into non-empty ranges of about equal bytes, in order.

    A range has at most `range_bytes`, plus the bytes of one record.

    Args:
        run: the run to divide.
        pool: the dataset's shards.
        range_bytes: approximate maximum size of a range, in bytes of the file.

    Returns:
        The ranges; only the run if the shard has no index.

    Raises:
        StorageError: the shard cannot be read.
        MetadataError: the shard's index is damaged, or belongs to another shard.
    """
    index = pool.open(run.filename, run.examples_in_shard).index
    if index is None:
        return [run]
    offsets = index.offsets[run.skip : run.skip + run.take + 1].astype(np.int64)
    count = -(-int(offsets[-1] - offsets[0]) // range_bytes)
    ends = offsets[0] + (offsets[-1] - offsets[0]) * np.arange(1, count) // max(count, 1)
    bounds = np.unique([0, *np.searchsorted(offsets, ends), run.take]).tolist()
    return [
        FileInstruction(run.filename, run.skip + start, stop - start, run.examples_in_shard)
        for start, stop in itertools.pairwise(bounds)
    ]


def size_of(run: FileInstruction, pool: ShardPool) -> int:
    """Returns the number of bytes of a run in its file, with framing; an estimate if the shard has no index.

    Raises:
        StorageError: the shard cannot be read.
        MetadataError: the shard's index is damaged, or belongs to another shard.
    """
    shard = pool.open(run.filename, run.examples_in_shard)
    if shard.index is None:
        return shard.reader.size * run.take // max(run.examples_in_shard, 1)
    return int(shard.index.offsets[run.skip + run.take]) - int(shard.index.offsets[run.skip])


def read_range(
    run: FileInstruction, pool: ShardPool, steps: tuple[Step, ...], claim: Callable[[int], bool] | None = None
) -> Iterator[tuple[int, Any]]:
    """Yields, for each record of a run, a pair: its number in the shard, and the value that the steps make of it.

    Args:
        run: the records to read.
        pool: the dataset's shards.
        steps: transforms of the records, such as `(Decode(features),)`.
        claim: called with the number of each record before it is yielded; reading ends if it returns False.

    Raises:
        StorageError: the shard cannot be read.
        CorruptRecordError: a record is damaged; the message names file, byte and record.
        FeatureError: a record does not fit the features; the message names file, byte and record.
    """
    program = Program.compile(steps)
    blocks = read_blocks(run, pool)
    elements = itertools.chain.from_iterable(program.run(blocks, block_sizes(size_of(run, pool) / max(run.take, 1))))
    values = elements if program.finish is None else map(program.finish, elements)
    for number in range(run.skip, run.skip + run.take):
        if claim is not None and not claim(number):
            return
        try:
            value = next(values)
        except UNDECODED as error:
            raise locate_error(error, pool.open(run.filename, run.examples_in_shard), number) from error
        yield number, value


def map_blocks(
    function: Callable[[Any], _Result], blocks: Iterable[Any], run: FileInstruction, pool: ShardPool
) -> Iterator[_Result]:
    """Yields the result of a function for each block of the records of a run.

    Args:
        function: function from a list of records, or a `RecordBlock`, to a result.
        blocks: blocks with all records of the run, in order.
        run: the run.
        pool: the dataset's shards.

    Raises:
        FeatureError: the error of the function, which names file, byte and record.
    """
    first = run.skip
    for block in blocks:
        try:
            result = function(block)
        except UNDECODED:
            block_run = replace(run, skip=first, take=len(block))
            # This raises the error of the record, with its location.
            list(read_range(block_run, pool, (Map(lambda record: function([record])),)))
            raise
        yield result
        first += len(block)


def read_blocks(run: FileInstruction, pool: ShardPool) -> Iterator[RecordBlock]:
    """Yields the records of a run in blocks of up to 512 records, after checking their checksums.

    Raises:
        StorageError: the shard cannot be read.
        CorruptRecordError: a record is damaged; the message names file, byte and record.
    """
    is_remote = storage.is_remote(storage.join(pool.directory, run.filename))
    shard, stop = pool.open(run.filename, run.examples_in_shard), run.skip + run.take
    executor = ThreadPoolExecutor(1, "beam_datasets-range")  # its thread starts when it has something to do
    reader = RunReader(shard, stop, *((_REMOTE_CHUNK, executor.submit) if is_remote else (CHUNK_BYTES,)))

    def get_chunk(_: int, visits: Visits, damaged: bool, has_failed: bool) -> Any:
        """Returns the next chunk of the run. For the arguments, see `read_visits`, which calls it."""
        if damaged:
            reader.raise_damaged(int(visits[1][0]))
        return reader.chunk(ranges_of(0, visits), has_failed or damaged)

    runs, first_records, counts = np.array([[0], [run.skip], [run.take]], np.int64)
    try:
        yield from stop_at_damaged(
            read_visits([(runs, first_records, counts)], get_chunk, itertools.repeat(_BLOCK_RECORDS))
        )
    finally:
        executor.shutdown(cancel_futures=True)
