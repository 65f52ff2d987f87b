"""ReadDataset: the examples of a slice of a published dataset, in any pipeline.

Workers divide the slice's runs of shards into ranges of about equal bytes; each reads the indexes of its own runs. The
ranges are distributed among the workers, and a splittable DoFn reads each. So an engine sees the progress within a
range, and can give the rest of it to another worker, from any record on. A `BoundedSource` would be divided on one
worker, because Beam wraps it in one element.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import apache_beam as beam
from apache_beam.io.iobase import Read
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.metrics import Metrics
from apache_beam.transforms.core import RestrictionProvider

from beam_datasets import storage
from beam_datasets.arguments import boolean
from beam_datasets.beam.tasks import SpreadTasks
from beam_datasets.engines import engine as engines
from beam_datasets.metadata.shards import FileInstruction, FileInstructions
from beam_datasets.reading import ranges
from beam_datasets.reading.elements.transforms import Decode, Raw, Step
from beam_datasets.reading.opening import open_published
from beam_datasets.reading.records.shards import ShardPool

if TYPE_CHECKING:
    Ids = Literal[False, True, "index"]


_MAX_RANGE = 64 << 20


class ReadDataset(beam.PTransform):
    """Reads a slice of a published dataset; its output is the examples, in no particular order.

    Each worker reads only the bytes of its own ranges. (In a shard without index, as written by TensorFlow Datasets,
    it also reads the bytes before the range.) Every record is checked.

    >>> numbers = pipeline | ReadDataset("squares", "train[:10%]", data_dir="data")  # doctest: +SKIP
    """

    def __init__(
        self,
        name_or_dir: str | os.PathLike[str],
        split: Any,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        with_ids: Ids = False,
        decode: bool = True,
        decoders: Any = None,
        range_bytes: int | None = None,
        shared_disk: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Opens the dataset: three small files.

        Args:
            name_or_dir: a name such as 'squares:1.*.*', or a version's directory.
            split: an expression such as 'train[:10%]+test', or a ReadInstruction.
            data_dir: root of the datasets, for a name.
            with_ids: whether to yield pairs of an id and an example. True is the `tfds_id` of TensorFlow Datasets: the
                shard's name and the example's number in it, which no other example of the dataset has, whatever the
                slice. 'index' is the example's index in the slice, `ds[index]`: an integer, as datasets with
                `disable_shuffling` need for a key.
            decode: whether to decode examples to dicts of NumPy values; else they are records, `bytes` as stored.
            decoders: decoders in place of the features' own, by name; or a `decode.PartialDecoding`.
            range_bytes: the largest size of the ranges that are dealt out, in bytes; None chooses by the slice's size.
            shared_disk: the workers of a remote runner see this machine's paths.
            storage_options: options of the dataset's store; see `beam_datasets.builder`, and `WriteDataset`.

        Raises:
            DatasetNotFoundError: the dataset does not exist.
            SplitError: the split cannot be read, or does not fit the dataset.
            ValueError: another argument does not fit.
        """
        super().__init__()
        decode = boolean("decode", decode)
        _check_options(with_ids, decode, decoders, range_bytes)
        published = open_published(name_or_dir, data_dir, storage_options)
        if isinstance(split, (list, tuple, dict)) or split is None:
            raise ValueError(
                f"split is {split!r}; expected one expression, such as {next(iter(published.info.splits), 'train')!r}. "
                "Apply a ReadDataset for each split."
            )
        published.as_dataset(split, decoders=decoders)  # raises errors of the arguments before the job starts
        split_info = published.info.splits[split]
        self._pool = published.pool
        self._runs: FileInstructions = split_info.file_instructions
        self._range_bytes = range_bytes or _range_bytes(published.info.splits.values(), self._runs.num_examples)
        self._step: Step = Decode(published.info.features, decoders) if decode else Raw()
        self._with_ids = with_ids
        self._shared_disk = shared_disk

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        """Checks that the workers reach the dataset, and builds the flow."""
        engines.engine_at_start(begin, self, self._shared_disk, dataset=self._pool.directory)
        example: Any = dict[str, Any] if isinstance(self._step, Decode) else bytes
        key: Any = int if self._with_ids == "index" else str
        return (
            begin
            | "Slice" >> beam.Create([self._runs], reshuffle=False)
            | "Runs" >> SpreadTasks(_number_runs, task_type=tuple[int, FileInstruction])
            | "Cut" >> SpreadTasks(_divide_run, self._pool, self._range_bytes, task_type=tuple[int, FileInstruction])
            | "Read"
            >> beam.ParDo(_ReadRange(self._pool, self._step, self._with_ids)).with_output_types(
                tuple[key, example] if self._with_ids else example
            )
        )


def _check_options(with_ids: Any, decode: bool, decoders: Any, range_bytes: int | None) -> None:
    """Checks that the options of `ReadDataset` are valid and fit together.

    Args:
        with_ids: must be True, False or 'index'.
        decode: whether records are decoded.
        decoders: decoders of some features; None for none.
        range_bytes: size of a range in bytes, at least 1; None to choose it by the slice's size.

    Raises:
        ValueError: an option is invalid, or `decoders` is given without decoding.
    """
    if with_ids not in (True, False, "index"):
        raise ValueError(f"with_ids is {with_ids!r}; expected True, False or 'index'.")
    if decoders is not None and not decode:
        raise ValueError("decoders= says how to decode, but decode=False yields records as they are stored.")
    if range_bytes is not None and range_bytes < 1:
        raise ValueError(f"range_bytes is {range_bytes}; give at least 1, or None to choose by the slice's size.")


def _range_bytes(splits: Any, num_examples: int) -> int:
    """Returns the size in bytes of the ranges that are read: Beam's choice for its own sources, at most `_MAX_RANGE`.

    The size is bounded because not every engine divides ranges further.

    Args:
        splits: the `SplitInfo` of the splits that are read.
        num_examples: number of examples of the slice.
    """
    total = sum(split.num_examples for split in splits)
    num_bytes = sum(split.num_bytes for split in splits) * num_examples // max(total, 1)
    return min(int(Read.get_desired_chunk_size(num_bytes)), _MAX_RANGE)


def _number_runs(runs: FileInstructions) -> Iterator[tuple[int, FileInstruction]]:
    """Yields (index in the slice of the run's first example, run) for each run of records."""
    index = 0
    for run in runs:
        yield index, run
        index += run.take


def _divide_run(
    indexed_run: tuple[int, FileInstruction], pool: ShardPool, range_bytes: int
) -> Iterator[tuple[int, FileInstruction]]:
    """Yields (index in the slice of the first example, range) for ranges of a run, of about `range_bytes` each.

    Args:
        indexed_run: (index in the slice of the run's first example, run).
        pool: of the dataset's shards.
        range_bytes: approximate size of a range in bytes.
    """
    index, run = indexed_run
    for piece in ranges.divide_run(run, pool, range_bytes):
        yield index + piece.skip - run.skip, piece


class _ReadRange(beam.DoFn, RestrictionProvider):
    """(index of the first example, range) -> its examples. Positions are numbers of records in the shard.

    Args:
        pool: pool of the dataset's shards.
        step: transform of the records.
        with_ids: whether to yield pairs (id, example); 'index' for the index in the slice as the id.
    """

    def __init__(self, pool: ShardPool, step: Step, with_ids: Ids) -> None:
        self._pool = pool
        self._step = step
        self._with_ids = with_ids
        self._examples = Metrics.counter("beam_datasets", "examples_read")

    def initial_restriction(self, element: tuple[int, FileInstruction]) -> OffsetRange:
        """Returns the half-open range of record numbers in the shard that the element covers."""
        _, run = element
        return OffsetRange(run.skip, run.skip + run.take)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        """Returns a tracker of the claimed record numbers; see `RestrictionProvider`."""
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: tuple[int, FileInstruction], restriction: OffsetRange) -> int:
        """Returns the size in bytes of the records of a restriction; see `RestrictionProvider`."""
        return ranges.size_of(_restrict_run(element[1], restriction), self._pool)

    def process(
        self,
        element: tuple[int, FileInstruction],
        tracker: Any = beam.DoFn.RestrictionParam(),  # noqa: B008  # Beam's way to ask for it
    ) -> Iterator[Any]:
        """Yields the values of the claimed records, or (id, value) pairs.

        The id is the index of the example in the dataset, or the text "<file name>__<number in the shard>".

        Args:
            element: (index of the first example, range of a shard).
            tracker: Beam's tracker of the restriction, from which each record is claimed.
        """
        first, unrestricted_run = element
        run = _restrict_run(unrestricted_run, tracker.current_restriction())
        name, shift, count = storage.basename(run.filename), first - unrestricted_run.skip, 0
        for number, value in ranges.read_range(run, self._pool, (self._step,), tracker.try_claim):
            count += 1
            if self._with_ids:
                yield number + shift if self._with_ids == "index" else f"{name}__{number}", value
            else:
                yield value
        self._examples.inc(count)


def _restrict_run(run: FileInstruction, restriction: OffsetRange) -> FileInstruction:
    """Returns the part of a range of a shard whose record numbers are in the half-open restriction."""
    start, stop = restriction.start, restriction.stop
    return FileInstruction(run.filename, start, stop - start, run.examples_in_shard)
