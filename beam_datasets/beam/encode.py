"""The Encode stage: encodes the examples of a split's source into blocks of records, with a histogram of each block."""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import GlobalWindows

from beam_datasets import storage
from beam_datasets.beam.metrics import count_requests
from beam_datasets.engines.failures import SourceError, add_facts_to_message
from beam_datasets.errors import BeamDatasetsError
from beam_datasets.features import compile_encoder
from beam_datasets.publishing.checkpoints import Checkpoint, checksum, choose, load_checkpoints
from beam_datasets.publishing.progress import REMOTE_REPORT_SECONDS, REPORT_SECONDS, reported
from beam_datasets.shuffle.block_builder import BlockBuilder
from beam_datasets.shuffle.blocks import Block, SpilledBlocks, histogram_of
from beam_datasets.shuffle.histogram import EMPTY
from beam_datasets.shuffle.rejected import Rejections, merge_rejections
from beam_datasets.sources.units import (
    SourceUnits,
    describe_source_error,
    named_units,
    unpack_example,
    unpack_with_splits,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from beam_datasets.engines.engine import Transport

SLOW_UNIT_SECONDS = 1.0  # a unit that took longer is kept as soon as it is finished
CHECKPOINT_SECONDS = 30.0  # between two checkpoints of a worker: what is encoded again, at most, besides one unit
LOG_SECONDS = 30.0  # between two lines about progress in the log of a worker
_log = logging.getLogger(__name__)
HISTOGRAMS, COUNTS = "histograms", tuple[str, Any]
_FINISHED, _DAMAGED = "finished", "damaged"
NamedUnit = tuple[str, Any]


class UnsavedBlock(NamedTuple):
    """A spilled block of a bundle that no checkpoint has yet.

    Attributes:
        spilled: the block.
        crc32c: CRC-32C of its keys and sizes.
        libraries: libraries whose versions determined bytes of its examples.
    """

    spilled: SpilledBlocks
    crc32c: int
    libraries: Collection[str]


class SplitEncoder:
    """Encodes the examples of a split in bundles; makes blocks, and their key histograms of hashes or of integers.

    Attributes:
        unsaved: the spilled blocks that no checkpoint contains: those since `start` or `mark_saved`.
        unsaved_rejections: the counts of rejected examples that no checkpoint contains.
    """

    def __init__(self, split: str, features: Any, transport: Transport, hash_shift: int | None) -> None:
        """Compiles the encoder.

        Args:
            split: name of the split.
            features: the feature tree.
            transport: how records are sent to the shards.
            hash_shift: number of low bits that the histogram ignores of hashes; None if keys are integers.
        """
        self.unsaved: list[UnsavedBlock] = []
        self.unsaved_rejections: list[Rejections] = []
        self._split = split
        self._hash_shift = hash_shift
        self._examples = Metrics.counter("beam_datasets", "examples_encoded")
        self._bytes = Metrics.counter("beam_datasets", "bytes_encoded")
        self._libraries: set[str] = set()
        self._builder = BlockBuilder(
            split,
            compile_encoder(features, self._libraries),
            block_size=transport.block_size,
            ordered=hash_shift is None,
            spill_dir=transport.spill_dir,
        )

    def start(self) -> None:
        """Starts a bundle: discards the examples of the one before, which may have failed, and gives memory back."""
        self._builder.reset()
        self._libraries.clear()
        self.mark_saved()
        self._bundle_examples = self._bundle_bytes = 0

    def mark_saved(self) -> None:
        """Clears `unsaved` and `unsaved_rejections`, which a checkpoint contains now."""
        self.unsaved.clear()
        self.unsaved_rejections.clear()

    def add(self, key: Any, example: Any) -> Iterator[Any] | None:
        """Encodes an example; returns the `outputs()` if the block is full, otherwise None.

        Raises:
            BeamDatasetsError: the example cannot be encoded.
        """
        return self.outputs() if self._builder.add(key, example) else None

    @property
    def bundle(self) -> str:
        """Id of the bundle, which the names of its spilled blocks contain."""
        return self._builder.bundle

    @property
    def encoded(self) -> tuple[int, int]:
        """(number of examples, size of their framed records in bytes) of this bundle so far."""
        return self._bundle_examples + len(self._builder), self._bundle_bytes + self._builder.num_bytes

    def outputs(self) -> Iterator[Any]:
        """Yields the counts of the rejected examples, then the block of the collected ones and its `histogram_output`.

        Leaves out the counts if no example was rejected, and the block if none was collected.
        """
        if (rejections := self._builder.take_rejections()).total:
            self.unsaved_rejections.append(rejections)
            yield rejections_output(self._split, rejections)
        if (new := self._builder.flush()) is None:
            return
        block, loaded = new
        libraries, num_bytes = frozenset(self._libraries), len(loaded.payload)
        if isinstance(block, SpilledBlocks):
            self.unsaved.append(UnsavedBlock(block, checksum(loaded.keys, loaded.sizes), libraries))
        self._libraries.clear()
        self._examples.inc(len(loaded))
        self._bytes.inc(num_bytes)
        self._bundle_examples += len(loaded)
        self._bundle_bytes += num_bytes
        yield block
        yield histogram_output(loaded, self._hash_shift, libraries)


class EncodePairs(beam.DoFn):
    """Encodes (key, example) pairs of one split; emits blocks and their key histograms."""

    def __init__(self, split: str, features: Any, transport: Transport, hash_shift: int | None) -> None:
        """Declares the encoding of a split; for the arguments see `SplitEncoder`."""
        self._split = split
        self._transport = transport
        self._options = features, transport, hash_shift

    def setup(self) -> None:
        """Compiles the encoder."""
        self._reporting = contextlib.ExitStack()
        self._encoder = SplitEncoder(self._split, *self._options)

    def start_bundle(self) -> None:
        """Discards the records of a failed bundle, and starts to report the progress."""
        self._reporting.close()
        self._encoder.start()
        self._reporting.enter_context(report_progress(self._transport, self._split, self._encoder))

    def process(self, element: tuple[Any, Any]) -> Iterator[Any] | None:
        """Encodes a (key, example) pair; returns the block and its histogram if it is full, otherwise None.

        Raises:
            BeamDatasetsError: the element is not a pair, or the example cannot be encoded.
        """
        key, example = element if type(element) is tuple and len(element) == 2 else unpack_example(element, self._split)
        try:
            return self._encoder.add(key, example)
        except BeamDatasetsError as error:
            if self._transport.tells_facts:
                add_facts_to_message(error)
            raise

    def finish_bundle(self) -> Iterator[Any]:
        """Yields the last block and its histogram."""
        yield from map(in_window, self._encoder.outputs())
        self._reporting.close()
        self._encoder.start()

    def teardown(self) -> None:
        """Ends the reports of a failed bundle."""
        self._reporting.close()


@dataclass(frozen=True)
class UnitReader:
    """Reader of the examples of some units, which may belong to several splits.

    Attributes:
        units: (name, unit) of all units.
        read: unit -> iterable of (key, example), or of (key, example, split).
        splits: functions that select the keys of each split: {split: function}; None for all keys.
        directories: directories with checkpoints of earlier runs.
    """

    units: Sequence[NamedUnit]
    read: Callable[[Any], Iterable[tuple[Any, ...]]]
    splits: Mapping[str, Callable[[Any], bool] | None]
    directories: Sequence[str] = ()

    @classmethod
    def of(cls, sources: Mapping[str, SourceUnits], directories: Sequence[str]) -> UnitReader:
        """Returns the reader of splits whose sources have the same units and function."""
        one = next(iter(sources.values()))
        splits = {split: source.keep for split, source in sources.items()}
        return cls(named_units(list(sources), one.units), one.read, splits, directories)

    @property
    def label(self) -> str:
        """The names of the splits for labels of stages, such as "train, test"."""
        return ", ".join(self.splits)


@dataclass
class EncodeUnits(beam.PTransform):
    """One element -> the blocks of all units, and their histograms; finished units of earlier runs are not read.

    Attributes:
        reader: reader of the units.
        features: the feature tree.
        transport: how records are sent to the shards.
        hash_shift: the number of low bits of a hash that the histogram drops; see `SplitEncoder`.
    """

    reader: UnitReader
    features: Any
    transport: Transport
    hash_shift: int | None

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, begin: beam.PCollection) -> list[beam.pvalue.DoOutputsTuple]:
        """Lists the units, shares them out, and encodes them; verifies and reuses those that are finished."""
        reader, encoded = self.reader, []
        list_units = beam.FlatMap(_list_units, reader.units, reader.directories)
        units = begin | "List" >> list_units.with_outputs(_FINISHED, main="units")
        unfinished = units.units
        if reader.directories:
            reuse = with_histograms(beam.ParDo(_ReuseUnits(self.hash_shift)), _DAMAGED)
            reused = units[_FINISHED] | "ShareFinished" >> beam.Reshuffle() | "Reuse" >> reuse
            encoded.append(reused)
            unfinished = (unfinished, reused[_DAMAGED]) | "Unfinished" >> beam.Flatten()
        if len(reader.units) > 1:
            unfinished |= "Share" >> beam.Reshuffle()
        return [*encoded, unfinished | "Read" >> with_histograms(beam.ParDo(_EncodeUnits(self)))]


def _list_units(_: Any, all_units: Sequence[NamedUnit], directories: Sequence[str]) -> Iterator[Any]:
    """Yields (name, unit) pairs to encode, and (checkpoint, [(name, unit), ...]) tagged `_FINISHED` to reuse.

    The units travel with the function, which Beam compresses: engines limit the size of a graph.
    """
    units = dict(all_units)
    checkpoints = load_checkpoints(directories) if directories else ()
    for checkpoint in choose(checkpoints, units):
        finished_units = [(name, units.pop(name)) for name in checkpoint.units]
        yield beam.pvalue.TaggedOutput(_FINISHED, (checkpoint, finished_units))
    yield from units.items()


class _ReuseUnits(beam.DoFn):
    """(checkpoint, its units) -> its blocks and their histograms, if it is intact; else its units, to encode again."""

    def __init__(self, hash_shift: int | None) -> None:
        self._hash_shift = hash_shift
        self._units = Metrics.counter("beam_datasets", "units_reused")
        self._damaged = Metrics.counter("beam_datasets", "units_damaged")

    def process(self, element: tuple[Checkpoint, list[NamedUnit]]) -> Iterator[Any]:
        """Yields the blocks and histograms of an intact checkpoint, else its (name, unit) pairs tagged `_DAMAGED`."""
        checkpoint, units = element
        if not checkpoint.is_intact:
            self._damaged.inc(len(units))
            yield from (beam.pvalue.TaggedOutput(_DAMAGED, unit) for unit in units)
            return
        self._units.inc(len(units))
        yield from _read_checkpoint(checkpoint, self._hash_shift)


def _read_checkpoint(checkpoint: Checkpoint, hash_shift: int | None) -> Iterator[Any]:
    """Yields the blocks of a checkpoint, each followed by its `histogram_output`, and its counts of rejected examples.

    Args:
        checkpoint: the checkpoint of an earlier run, or of an earlier try of the bundle.
        hash_shift: see `SplitEncoder`.
    """
    for block in checkpoint.blocks:
        yield block
        for loaded in block.load():
            yield histogram_output(loaded, hash_shift, frozenset(checkpoint.libraries))
    for split, rejections in checkpoint.rejections.items():
        yield rejections_output(split, rejections)


class _EncodeUnits(beam.DoFn):
    """Encodes (name, unit) pairs; emits the blocks of a unit's examples and their key histograms.

    If payload is spilled, checkpoints record the finished units: when they fill a block, and at the end of a bundle.
    With large bundles, a bundle that is retried because a machine was lost reuses those checkpoints of the previous
    attempt that contain only units of this bundle.
    """

    def __init__(self, options: EncodeUnits) -> None:
        """Declares the encoding of the units of a reader."""
        self._options = options
        self._transport = options.transport
        self._encoded = Metrics.counter("beam_datasets", "units_encoded")

    def setup(self) -> None:
        """Compiles the encoders; with large bundles, loads the checkpoints of previous attempts."""
        self._reporting = contextlib.ExitStack()
        # Small bundles do not reuse checkpoints, as each new worker would read those of all others.
        spill_dir = self._transport.spill_dir if self._transport.large_bundles else None
        self._checkpoints = load_checkpoints([spill_dir]) if spill_dir is not None else []
        self._finished = {name for checkpoint in self._checkpoints for name in checkpoint.units}
        reader, options = self._options.reader, (self._options.features, self._transport, self._options.hash_shift)
        self._encoders = {split: SplitEncoder(split, *options) for split in reader.splits}

    def start_bundle(self) -> None:
        """Discards the records of a failed bundle, and starts to report the progress if there is one split."""
        self._reporting.close()
        for encoder in self._encoders.values():
            encoder.start()
        self._units: list[str] = []
        self._maybe_finished: dict[str, NamedUnit] = {}
        self._last_checkpoint, self._bytes_before = time.monotonic(), 0
        if len(self._encoders) == 1:
            [(split, encoder)] = self._encoders.items()
            self._reporting.enter_context(report_progress(self._transport, split, encoder))

    def process(self, element: NamedUnit) -> Iterator[Any]:
        """Encodes the (name, unit) pair, or keeps it until the end of the bundle if a checkpoint may contain it."""
        if element[0] in self._finished:
            self._maybe_finished[element[0]] = element
        else:
            yield from self._encode_unit(element)

    def _encode_unit(self, element: NamedUnit) -> Iterator[Any]:
        """Yields the full blocks of the examples of a unit and their histograms, and maybe writes a checkpoint.

        With spilled payload, a checkpoint is written after a block's worth of bytes, after `CHECKPOINT_SECONDS`, or
        after a unit that took `SLOW_UNIT_SECONDS`.

        Args:
            element: (name of the unit, unit).

        Raises:
            BeamDatasetsError: an example cannot be encoded.
            SourceError: see `_read_unit`.
        """
        name, unit = element
        started = time.monotonic()
        try:
            for (key, example), splits in self._read_unit(name, unit):
                for split in splits:
                    outputs = self._encoders[split].add(key, example)
                    if outputs is not None:
                        yield from outputs
        except Exception as error:
            self._reporting.close()
            if isinstance(error, BeamDatasetsError) and self._transport.tells_facts:
                add_facts_to_message(error)
            raise
        self._encoded.inc()
        if self._transport.spill_dir is not None:
            self._units.append(name)
            num_bytes = sum(encoder.encoded[1] for encoder in self._encoders.values())
            now = time.monotonic()
            is_late = now - self._last_checkpoint >= CHECKPOINT_SECONDS or now - started >= SLOW_UNIT_SECONDS
            if is_late or num_bytes - self._bytes_before >= self._transport.block_size:
                self._bytes_before = num_bytes
                yield from self._flush()

    def _read_unit(self, name: str, unit: Any) -> Iterator[Any]:
        """Yields ((key, example), splits that the example belongs to) of the examples of a unit.

        Raises:
            BeamDatasetsError: the author's function yields a value that is not an example.
            SourceError: an author's function failed after an example; the message names the unit and that example.
        """
        reader, item, count = self._options.reader, None, 0
        try:
            for item in reader.read(unit):
                count += 1
                yield unpack_with_splits(item, reader.splits)
        except Exception as error:
            if item is None or isinstance(error, BeamDatasetsError):
                raise  # errors of this package name the example
            unit_name = name.removeprefix(f"{reader.label}: ") if len(reader.units) > 1 else ""
            raised, after = describe_source_error(error, item[0], count, reader.label, unit_name)
            raise SourceError(f"{raised} [{after}]").with_traceback(error.__traceback__) from None

    def finish_bundle(self) -> Iterator[Any]:
        """Reuses checkpoints with only units of this bundle, encodes the others, and yields the last blocks."""
        for checkpoint in choose(self._checkpoints, self._maybe_finished):
            if checkpoint.is_intact:
                for name in checkpoint.units:
                    del self._maybe_finished[name]
                yield from map(in_window, _read_checkpoint(checkpoint, self._options.hash_shift))
        for element in self._maybe_finished.values():
            yield from map(in_window, self._encode_unit(element))
        yield from map(in_window, self._flush())
        self._reporting.close()
        for encoder in self._encoders.values():
            encoder.start()

    def teardown(self) -> None:
        """Stops reporting the progress; see `beam.DoFn.teardown`."""
        self._reporting.close()

    def _flush(self) -> Iterator[Any]:
        """Yields the blocks of all collected examples, and writes a checkpoint of the finished units."""
        for encoder in self._encoders.values():
            yield from encoder.outputs()
        if self._units and self._transport.spill_dir is not None:
            unsaved = [block for encoder in self._encoders.values() for block in encoder.unsaved]
            libraries = sorted({name for block in unsaved for name in block.libraries})
            checkpoint = Checkpoint(
                units=tuple(self._units),
                blocks=tuple(block.spilled for block in unsaved),
                crc32c=tuple(block.crc32c for block in unsaved),
                libraries=tuple(libraries),
                rejections={
                    split: merge_rejections(encoder.unsaved_rejections) for split, encoder in self._encoders.items()
                },
            )
            checkpoint.save(self._transport.spill_dir)
        for encoder in self._encoders.values():
            encoder.mark_saved()
        self._units, self._last_checkpoint = [], time.monotonic()


def report_progress(transport: Transport, split: str, encoder: SplitEncoder) -> contextlib.AbstractContextManager[None]:
    """Returns a context manager that reports an encoder's progress in its bundle from time to time.

    Args:
        transport: transport options, with the directory and the interval of reports.
        split: name of the split, for the report.
        encoder: the encoder of the bundle, which counts examples and bytes.
    """
    logged_at = time.monotonic()

    def encoded() -> tuple[int, int]:
        """Returns (examples, bytes) of the bundle so far, and logs them on engines of many machines."""
        nonlocal logged_at
        examples, num_bytes = encoder.encoded
        if transport.many_machines and time.monotonic() - logged_at >= LOG_SECONDS:
            logged_at = time.monotonic()
            _log.info("Encode %s: %s examples, %s bytes of this bundle", split, f"{examples:,}", f"{num_bytes:,}")
        return examples, num_bytes

    seconds = REMOTE_REPORT_SECONDS if transport.many_machines else REPORT_SECONDS
    is_read = transport.many_machines or not storage.is_remote(transport.spill_dir or "")  # a local run reads no store
    return reported(transport.spill_dir if is_read else None, split, encoder.bundle, encoded, seconds)


def with_histograms(stage: beam.ParDo, *others: str) -> beam.PTransform:
    """Returns a stage whose outputs are `blocks`, histograms by split, and others."""
    kinds = {HISTOGRAMS: COUNTS, **dict.fromkeys(others, Any)}
    return stage.with_output_types(Any, **kinds).with_outputs(*kinds, main="blocks")


def histogram_output(block: Block, hash_shift: int | None, libraries: frozenset[str] = frozenset()) -> Any:
    """Returns a `TaggedOutput` (split, `Histogram` of a block) for the output HISTOGRAMS.

    The histogram contains the I/O counts of this process since the last call of `count_requests`.

    Args:
        block: the block, with its keys and sizes.
        hash_shift: see `SplitEncoder`.
        libraries: libraries whose versions determined bytes of the block's examples.
    """
    counts = replace(histogram_of(block, hash_shift or 0), libraries=libraries, requests=count_requests())
    return beam.pvalue.TaggedOutput(HISTOGRAMS, (block.split, counts))


def rejections_output(split: str, rejections: Rejections) -> Any:
    """Returns a `TaggedOutput` (split, `Histogram` without examples, with counts of rejected ones) for HISTOGRAMS."""
    return beam.pvalue.TaggedOutput(HISTOGRAMS, (split, replace(EMPTY, rejections=rejections)))


def in_window(output: Any) -> Any:
    """Returns a value or `TaggedOutput` with its value as a `WindowedValue` of the global window.

    Beam requires this of the outputs of `finish_bundle`.
    """
    windowed: Callable[[Any], Any] = GlobalWindows.windowed_value_at_end_of_window
    if isinstance(output, beam.pvalue.TaggedOutput):
        return beam.pvalue.TaggedOutput(output.tag, windowed(output.value))
    return windowed(output)
