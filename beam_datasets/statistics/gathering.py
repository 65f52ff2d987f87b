"""Requests for statistics, and the summaries of a range of records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from beam_datasets.errors import FeatureError, FeatureKeyError, SplitError
from beam_datasets.features.compiler import compile_decoder
from beam_datasets.formats.example import ExampleError
from beam_datasets.metadata.names import did_you_mean
from beam_datasets.reading import ranges
from beam_datasets.reading.opening import open_published
from beam_datasets.reading.undecoded import place_of
from beam_datasets.statistics.summary import Leaf, Summary, add, compile_columns, empty, leaves_of, stored_tree

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from beam_datasets.metadata.shards import FileInstruction, FileInstructions
    from beam_datasets.reading.shards import ShardPool

Gathered: TypeAlias = dict[int, list[Summary]]
"""Number of the slice -> summaries of the leaves."""

_BLOCK_RECORDS, _BLOCK_BYTES = 8192, 4 << 20  # summarized together
MIN_RANGE, MAX_RANGE, NUM_RANGES = 1 << 20, 256 << 20, 64


@dataclass(frozen=True)
class Request:
    """A validated request for statistics.

    Attributes:
        full_name: name, config and version of the dataset, such as 'digits/small:1.0.0'.
        digest: of the published version.
        directory: the version's.
        pool: of its shards.
        features: its features.
        leaves: the features to summarize.
        unknown: the paths of features of unknown classes, which cannot be read.
        slices: name and runs of each slice.
        whole: whether it is every split and all features.
    """

    full_name: str
    digest: str
    directory: str
    pool: ShardPool
    features: Any
    leaves: tuple[Leaf, ...]
    unknown: tuple[str, ...]
    slices: tuple[tuple[str, FileInstructions], ...]
    whole: bool

    def runs(self) -> Iterator[Range]:
        """Yields the runs of all slices, each a range."""
        for number, (_, runs) in enumerate(self.slices):
            first = 0
            for run in runs:
                yield Range(number, first, run)
                first += run.take

    @property
    def num_bytes(self) -> int:
        """Size of all slices; 0 for those of shards whose sizes are not known."""
        return sum(self.pool.count_bytes(runs) or 0 for _, runs in self.slices)

    @property
    def range_bytes(self) -> int:
        """Approximate size of a range of a shard, in bytes."""
        return min(max(self.num_bytes // NUM_RANGES, MIN_RANGE), MAX_RANGE)


@dataclass(frozen=True)
class Range:
    """Records of a shard.

    Attributes:
        number: of the slice.
        first: the index in the slice of the first one.
        run: the records.
    """

    number: int
    first: int
    run: FileInstruction


def prepare(
    name_or_dir: str | os.PathLike[str],
    splits: Sequence[Any] | None = None,
    features: Sequence[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Request:
    """Validates a request.

    Args:
        name_or_dir: a name such as 'squares:1.*.*', or a version's directory.
        splits: expressions such as 'train[:10%]', each with statistics of its own, in this order; None for each split
            in the dataset's order.
        features: paths of features such as 'a' or 'b/c', with all that is below them; None for all.
        data_dir: root of the datasets, for a name.
        storage_options: of the store of the dataset; see `beam_datasets.builder`.

    Raises:
        DatasetNotFoundError: the dataset does not exist.
        SplitError: a split cannot be read, or does not fit the dataset.
        FeatureKeyError: the feature does not exist.
    """
    published = open_published(name_or_dir, data_dir, storage_options)
    info = published.info
    leaves, unknown = leaves_of(info.features)
    expressions = list(info.splits) if splits is None else list(splits)
    if len(set(map(str, expressions))) < len(expressions):
        raise SplitError(f"a split is asked for twice: {', '.join(map(str, expressions))}")
    return Request(
        info.display_name,
        published.digest,
        published.dataset_dir,
        published.pool,
        info.features,
        tuple(leaves if features is None else _chosen(leaves, features, info.display_name)),
        tuple(unknown) if features is None else (),
        tuple((str(expression), info.splits[expression].file_instructions) for expression in expressions),
        splits is None and features is None,
    )


def _chosen(leaves: list[Leaf], names: Sequence[str], dataset: str) -> list[Leaf]:
    wanted = [name.strip("/") for name in names]
    for name in wanted:
        if not any(leaf.is_below(name) for leaf in leaves):
            paths = [leaf.path for leaf in leaves]
            raise FeatureKeyError(
                f"{dataset} has no feature {name!r} with statistics; it has {', '.join(paths)}."
                f"{did_you_mean(name, paths)}"
            )
    return [leaf for leaf in leaves if any(map(leaf.is_below, wanted))]


def cut(whole: Range, request: Request, range_bytes: int) -> Iterator[Range]:
    """Yields consecutive ranges of `whole`; see `reading.ranges.cut`."""
    for part in ranges.cut(whole.run, request.pool, range_bytes):
        yield Range(whole.number, whole.first + part.skip - whole.run.skip, part)


def gather(part: Range, request: Request) -> Gathered:
    """Returns the statistics of a range.

    Raises:
        StorageError: the shard cannot be read.
        CorruptRecordError: a record is damaged; it names file, byte and record.
        FeatureError: a record does not fit the features; it names file, byte and record.
    """
    leaves = list(request.leaves)
    summaries = [empty(leaf) for leaf in leaves]
    columns = compile_columns(request.features, leaves)
    done = 0
    for records in _blocks(part, request.pool):
        numbers = np.arange(part.first + done, part.first + done + len(records))
        try:
            found = columns(records)
        except (FeatureError, ExampleError, ValueError) as error:
            raise _named(error, records, part, done, request) from error
        for summary, leaf, column in zip(summaries, leaves, found):
            add(summary, leaf, column, numbers)
        done += len(records)
    return {part.number: summaries}


def merge(into: Gathered, other: Gathered) -> Gathered:
    """Merges `other` into `into` in place and returns `into`."""
    for number, summaries in other.items():
        if number not in into:
            into[number] = summaries
            continue
        for mine, theirs in zip(into[number], summaries):
            mine.merge(theirs)
    return into


def _blocks(part: Range, pool: ShardPool) -> Iterator[list[bytes]]:
    block: list[bytes] = []
    size = 0
    for records in ranges.read_blocks(part.run, pool):
        block += records
        size += sum(map(len, records))
        if len(block) >= _BLOCK_RECORDS or size >= _BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block


def _named(error: Exception, records: list[bytes], part: Range, done: int, request: Request) -> Exception:
    """Finds the first record that cannot be decoded, and returns its error with file, byte and record."""
    decode = compile_decoder(stored_tree(request.features, {leaf.path for leaf in request.leaves}))
    for number, record in enumerate(records, part.run.skip + done):
        try:
            decode(record)
        except (FeatureError, ExampleError) as problem:
            place = place_of(request.pool.open(part.run.filename, part.run.examples_in_shard), number)
            return type(problem)(f"{place}: {problem}")
    return error
