"""Counting stages: merge the histograms of the blocks of each split, or count distinct keys."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics

from beam_datasets.beam.encode import COUNTS
from beam_datasets.engines.engine import Transport
from beam_datasets.options import ShardingOptions
from beam_datasets.shuffle import histogram as histograms
from beam_datasets.shuffle.blocks import KEY_BYTES, AnyBlock
from beam_datasets.shuffle.histogram import Histogram
from beam_datasets.shuffle.unique_keys import merge_unique, num_buckets, split_by_key

COUNTING_FANOUT = 32  # workers that merge the counts of one split before one merges theirs
MANY_SHARDS = 1 << 14  # what to be ready for on an engine of many machines, where the size rule has not chosen yet
SPREAD_COUNTS = tuple[tuple[str, int], Any]


def max_bins(sharding: ShardingOptions, transport: Transport) -> int:
    """Returns the maximum number of bins of a histogram; many machines are given those of `MANY_SHARDS` shards."""
    return histograms.max_bins(max(sharding.most_shards, MANY_SHARDS if transport.many_machines else 0))


def merge_counts(counts: beam.PCollection, sharding: ShardingOptions, transport: Transport) -> beam.PCollection:
    """Returns (split, histogram of all its keys), given (split, histogram) of parts.

    Args:
        counts: the histograms of blocks or buckets.
        sharding: options that decide the number of bins.
        transport: whether one machine or many count.
    """
    merge = beam.CombinePerKey(MergeHistograms(max_bins(sharding, transport)))
    if transport.many_machines:  # Beam's own fan-out of a hot key would pickle the keys
        counts = (
            counts
            | "SpreadCounts" >> beam.ParDo(_SpreadCounts()).with_output_types(SPREAD_COUNTS)
            | "CountParts" >> merge
            | "Gather" >> beam.MapTuple(_drop_bundle_number).with_output_types(COUNTS)
        )
    return counts | "CountKeys" >> merge


class MergeHistograms(beam.CombineFn):
    """The histograms of a split's blocks -> the one of the split; holds at most about three of the largest size."""

    def __init__(self, max_bins: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._max_bins = max_bins

    def create_accumulator(self) -> list[Histogram]:
        """Returns an empty list of histograms."""
        return []

    def add_input(self, accumulator: list[Histogram], element: Histogram) -> list[Histogram]:
        """Returns the accumulator with one more histogram, merged into one if they have too many bins."""
        accumulator.append(element)
        if sum(len(histogram.counts) for histogram in accumulator) > 2 * self._max_bins:
            return self.compact(accumulator)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[Histogram]]) -> list[Histogram]:
        """Returns one list of the histograms of all accumulators, merged whenever they have too many bins."""
        merged: list[Histogram] = []
        for accumulator in accumulators:
            for histogram in accumulator:
                merged = self.add_input(merged, histogram)
        return merged

    def compact(self, accumulator: list[Histogram]) -> list[Histogram]:
        """Returns a list of one histogram, into which those of the accumulator are merged."""
        return [self.extract_output(accumulator)]

    def extract_output(self, accumulator: list[Histogram]) -> Histogram:
        """Returns the histogram into which those of the accumulator are merged, with at most `max_bins` bins."""
        return histograms.merge(accumulator, self._max_bins)


class _SpreadCounts(beam.DoFn):
    """(split, histogram) -> ((split, number), histogram); the number is drawn for each bundle.

    A split is one key. So histograms are merged by number first, on several workers, and the results on one worker.
    """

    def __init__(self) -> None:
        self._number = 0

    def start_bundle(self) -> None:
        """Draws the number of the bundle, in [0, `COUNTING_FANOUT`)."""
        self._number = random.randrange(COUNTING_FANOUT)

    def process(self, element: tuple[str, Histogram]) -> Iterator[Any]:
        """Yields ((split, number of the bundle), histogram)."""
        split, counts = element
        yield (split, self._number), counts


def _drop_bundle_number(key: tuple[str, int], counts: Histogram) -> tuple[str, Histogram]:
    """Returns (split, histogram) of ((split, number), histogram)."""
    return key[0], counts


def libraries_alone(split: str, counts: histograms.Histogram) -> tuple[str, histograms.Histogram]:
    """Returns (split, histogram) without keys: only the attributes that are not about keys are kept."""
    return split, dataclasses.replace(
        histograms.EMPTY,
        libraries=counts.libraries,
        num_blocks=counts.num_blocks,
        requests=counts.requests,
        rejections=counts.rejections,
    )


def count_distinct(blocks: beam.PCollection, counts: beam.PCollection) -> beam.PCollection:
    """Returns (split, histogram) in which each key of the blocks counts once: sends keys and sizes, no payload.

    Args:
        blocks: blocks of all splits.
        counts: (split, histogram) of all blocks, which decide the number of buckets.
    """
    totals = counts | "Totals" >> beam.MapTuple(_total_of).with_output_types(tuple[str, int])
    total = beam.pvalue.AsDict(totals | "SumTotals" >> beam.CombinePerKey(sum))
    return (
        blocks
        | "SplitByKey" >> beam.FlatMap(_split_by_key, total).with_output_types(tuple[tuple[str, int], Any])
        | "GroupKeys" >> beam.GroupByKey()
        | "MergeUnique" >> beam.MapTuple(_merge_unique).with_output_types(COUNTS)
    )


def _total_of(split: str, counts: histograms.Histogram) -> tuple[str, int]:
    """Returns (split, number of keys that the histogram counts)."""
    return split, counts.total


def _split_by_key(block: AnyBlock, totals: Mapping[str, int]) -> Iterator[Any]:
    """Yields ((split, bucket), (keys, framed sizes)) of a block's records; see `shuffle.unique_keys.split_by_key`.

    Args:
        block: the block, spilled or not.
        totals: split -> number of its examples, which decides the number of buckets.
    """
    for loaded in block.load():
        yield from split_by_key(loaded, num_buckets(totals[block.split]))


def _merge_unique(key: tuple[str, int], parts: Iterable[tuple[bytes, bytes]]) -> tuple[str, histograms.Histogram]:
    """Returns (split, histogram of a bucket in which each key counts once); see `shuffle.unique_keys.merge_unique`.

    The counter `ignored_duplicates/SPLIT` gets the number of the other examples.

    Args:
        key: (split, bucket).
        parts: (keys, framed sizes) of the bucket from all blocks.
    """
    split, parts = key[0], list(parts)
    counts = merge_unique(parts)
    num_ignored = sum(len(keys) for keys, _ in parts) // KEY_BYTES - counts.total
    if num_ignored:
        Metrics.counter("ignored_duplicates", split).inc(num_ignored)
    return split, counts
