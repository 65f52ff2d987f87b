"""Summaries of features: the selection of features, and the mergeable summary of each.

The result does not depend on how examples are grouped.
"""

from __future__ import annotations

import io
import os
from collections import Counter, abc
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from beam_datasets.errors import FeatureError, FeatureKeyError, SplitError, did_you_mean
from beam_datasets.features import ClassLabel, FeaturesDict, RaggedArray, Sequence, UnknownFeature
from beam_datasets.features.base import FeatureConnector, dtype_of, shape_of
from beam_datasets.features.columnar import ColumnarDecoder
from beam_datasets.features.compiler import select_decoded
from beam_datasets.features.dtypes import STRING
from beam_datasets.features.stored_files import find_damage, select_stored
from beam_datasets.features.trees import join_steps, record_name
from beam_datasets.metadata.shards import FileInstruction, FileInstructions
from beam_datasets.reading import ranges
from beam_datasets.reading.opening import open_published
from beam_datasets.reading.records.shards import ShardPool
from beam_datasets.statistics.sketches import DistinctValues, Spread, codes_of, hashes_of, mixed, occurrences, widened

NUMBER, LABEL, TEXT, IMAGE, FILE = "number", "label", "text", "image", "file"


@dataclass(frozen=True)
class LeafFeature:
    """A feature that has no features below it.

    Attributes:
        keys: the names of the dicts' entries from the top to it.
        kind: `NUMBER`, `LABEL`, `TEXT`, `IMAGE` or `FILE`.
        feature: the connector.
        sequences: number of sequences around it.
        fixed_size: whether each example has the same number of values.
    """

    keys: tuple[str, ...]
    kind: str
    feature: FeatureConnector
    sequences: int
    fixed_size: bool

    @property
    def path(self) -> str:
        """The keys joined by slashes, such as 'box/a'."""
        return "/".join(self.keys)

    def is_below(self, path: str) -> bool:
        """Returns whether the leaf is the feature of a path, or below it."""
        return any("/".join(self.keys[: count + 1]) == path for count in range(len(self.keys)))

    def value_of(self, example: Any) -> Any:
        """Returns the leaf's value in an example; if there is a list on the way, the list of values in its items.

        The value in an item that is None is None.

        Args:
            example: a dict, or a list of dicts.
        """
        for key in self.keys:
            several = example if isinstance(example, list) else None
            example = example[key] if several is None else [None if one is None else one[key] for one in several]
        return example

    @property
    def type(self) -> str:
        """The type as text, with `[]` for each sequence around it: "image", "label[]", "float32[28,?]"."""
        dtype = dtype_of(self.feature)
        name = self.kind if self.kind in (IMAGE, LABEL, TEXT) else type(self.feature).__name__.lower()
        if self.kind == NUMBER:
            shape = shape_of(self.feature)
            name = dtype.name + ("[" + ",".join("?" if n is None else str(n) for n in shape) + "]" if shape else "")
        return name + "[]" * self.sequences


@dataclass(frozen=True)
class Column:
    """The values of a leaf in a block of records.

    Attributes:
        present: the indices in the block of the records that have the feature.
        values: all values in order: numbers, or a list of bytes.
        counts: number of values of each of these records; an integer if all have the same number.
        lengths: number of items of the outermost sequence of each; None if that is fixed.
        damaged: number of other records that have the feature, but with a value that does not decode.
    """

    present: NDArray[np.int64]
    values: Any
    counts: NDArray[np.int64] | int
    lengths: NDArray[np.int64] | None = None
    damaged: int = 0


def leaves_of(feature: FeatureConnector) -> tuple[list[LeafFeature], list[str]]:
    """Returns (leaves of a tree of features, paths such as 'a/b' of the features whose classes are unknown)."""
    leaves: list[LeafFeature] = []
    unknown: list[str] = []

    def visit(node: FeatureConnector, keys: tuple[str, ...], sequences: int) -> None:
        """Adds the leaves below a node to `leaves`, and the paths of unknown features to `unknown`.

        Args:
            node: the feature.
            keys: the names of the dicts' entries from the top to it.
            sequences: the number of sequences around it.
        """
        if isinstance(node, FeaturesDict):
            for name, child in node.items():
                visit(child, (*keys, name), sequences)
        elif isinstance(node, Sequence):
            visit(node.feature, keys, sequences + 1)
        elif isinstance(node, UnknownFeature):
            unknown.append("/".join(keys))
        else:
            leaves.append(
                LeafFeature(keys, _kind_of_feature(node), node, sequences, not sequences and _has_fixed_size(node))
            )

    visit(feature.decoded(), (), 0)
    return leaves, unknown


def _kind_of_feature(feature: FeatureConnector) -> str:
    """Returns `LABEL`, `IMAGE`, `FILE` (a sound that is stored as a file), `TEXT` or `NUMBER`."""
    if isinstance(feature, ClassLabel):
        return LABEL
    if feature.file_kind:
        return IMAGE if feature.file_kind == "image" else FILE
    return TEXT if dtype_of(feature) == STRING else NUMBER


def _has_fixed_size(feature: FeatureConnector) -> bool:
    """Returns whether all examples have the same number of values of the feature; a file is one value."""
    shape = shape_of(feature)
    missing = shape and getattr(feature, "is_optional", False)  # a number or a text that is missing leaves a None
    return feature.file_kind is not None or (None not in shape and not missing)


def compile_columns(feature: FeatureConnector, leaves: list[LeafFeature]) -> Callable[[list[Any]], list[Column]]:
    """Returns the function from records to the columns of the leaves.

    Args:
        feature: feature of the dataset.
        leaves: leaves of the feature to read.
    """
    tree = select_stored(feature, {leaf.path for leaf in leaves})
    decode = (lambda records: None) if tree is None else ColumnarDecoder(select_decoded(tree)).columns
    one_by_one = {leaf: _tolerant_column(feature, leaf) for leaf in leaves}

    def columns(records: list[Any]) -> list[Column]:
        """Returns the column of each leaf for a list of records, also if some values do not decode."""
        try:
            values = decode(records)
        except FeatureError:
            return [one_by_one[leaf](records) for leaf in leaves]
        return [_leaf_column(leaf.value_of(values), leaf) for leaf in leaves]

    return columns


def _tolerant_column(feature: FeatureConnector, leaf: LeafFeature) -> Callable[[list[Any]], Column]:
    """Returns the function from records to the column of a leaf; a value that does not decode is counted as damaged.

    The function raises a FeatureError if a record does not have the stored form of the feature, such as text in place
    of numbers.
    """
    tree: Any = select_stored(feature, {leaf.path})

    def column(records: list[Any]) -> Column:
        """Returns the column of the records whose value decodes, with the number of the others as `damaged`.

        Raises:
            FeatureError: a record does not fit the feature.
        """
        decode, decode_stored = (
            ColumnarDecoder(select_decoded(tree)).columns,
            ColumnarDecoder(select_decoded(tree.stored())).columns,
        )
        good = []
        for number, record in enumerate(records):
            try:
                decode([record])
            except FeatureError:
                decode_stored([record])
            else:
                good.append(number)
        if not good:
            return Column(np.zeros(0, np.int64), [], 0, damaged=len(records))
        good_column = _leaf_column(leaf.value_of(decode([records[number] for number in good])), leaf)
        return replace(good_column, present=np.array(good)[good_column.present], damaged=len(records) - len(good))

    return column


def _leaf_column(values: Any, leaf: LeafFeature) -> Column:
    """Returns the column of the values of each record: an array, or a list with None where they are missing."""
    if isinstance(values, np.ndarray):
        return Column(np.arange(len(values)), values.reshape(-1), values.size // len(values))
    present = np.flatnonzero([value is not None for value in values])
    present_values = [value for value in values if value is not None]
    parts = [_flatten_value(value) for value in present_values]
    counts: Any = np.fromiter(map(len, parts), np.int64, len(parts))
    lengths = None
    if leaf.fixed_size:
        counts = len(parts[0]) if parts else 1
    elif not (present_values and isinstance(present_values[0], bytes)):
        lengths = np.fromiter((np.shape(value)[0] for value in present_values), np.int64, len(present_values))
    if dtype_of(leaf.feature) == STRING or leaf.kind in (IMAGE, FILE):
        return Column(present, list(chain.from_iterable(parts)), counts, lengths)
    numbers = np.concatenate(parts) if parts else np.zeros(0, dtype_of(leaf.feature))
    return Column(present, numbers, counts, lengths)


def _flatten_value(value: Any) -> Any:
    """Returns all numbers of a decoded value as an array of shape (n,), or its texts or files as a list of bytes.

    >>> _flatten_value(np.array([[1, 2], [3, 4]])).tolist(), _flatten_value(b"ab")
    ([1, 2, 3, 4], [b'ab'])
    """
    if isinstance(value, bytes):
        return [value]
    if isinstance(value, RaggedArray):
        return _flatten_value(value.flat_values)
    if isinstance(value, list):  # of arrays of different shapes
        parts = list(map(_flatten_value, value))
        return np.concatenate(parts) if parts and isinstance(parts[0], np.ndarray) else list(chain.from_iterable(parts))
    flat = np.reshape(value, -1)
    return flat.tolist() if flat.dtype == STRING else flat


SHOWN_BYTES = 80
"""Number of bytes of a text that are shown. One more is kept, so that longer texts are recognized."""


@dataclass
class Summary:
    """Summary of a feature.

    Attributes:
        counts: 'examples', 'missing' (examples without it), 'values', and by kind 'zeros', 'nan', 'inf', '-inf',
            'empty', 'unreadable' (images without a header that Pillow can read), 'damaged' (images and sounds that are
            not whole, and examples with another value that does not decode).
        spreads: by name: 'values' of numbers, 'bytes' of texts and files, 'items' of sequences, 'height', 'width',
            'channels' of images.
        labels: count of each class; None for other features.
        values: the distinct values; None for labels.
    """

    counts: Counter[str] = field(default_factory=Counter)
    spreads: dict[str, Spread] = field(default_factory=dict)
    labels: Counter[int] | None = None
    values: DistinctValues | None = None

    def merge(self, other: Summary) -> None:
        """Merges `other`, of other examples, into this in place."""
        self.counts.update(other.counts)
        for name, spread in other.spreads.items():
            self.spreads[name].merge(spread)
        if self.labels is not None and other.labels is not None:
            self.labels.update(other.labels)
        if self.values is not None and other.values is not None:
            self.values.merge(other.values)


_COUNTS_OF_BYTES = {IMAGE: ("empty", "unreadable", "damaged"), FILE: ("empty", "damaged")}


def empty(leaf: LeafFeature) -> Summary:
    """Returns the summary of no examples."""
    spreads = {"items": Spread("i")} if leaf.sequences or None in (_shape(leaf) or ()) else {}
    if leaf.kind == LABEL:
        return Summary(Counter(), spreads, labels=Counter())
    if leaf.kind == NUMBER:
        kind = widened(np.zeros(0, dtype_of(leaf.feature))).dtype.kind
        counts = dict.fromkeys(("zeros", "nan", "inf", "-inf") if kind == "f" else ("zeros",), 0)
        return Summary(Counter(counts), {"values": Spread(kind), **spreads}, values=DistinctValues.empty(np.uint64))
    counts = dict.fromkeys(_COUNTS_OF_BYTES.get(leaf.kind, ("empty",)), 0)
    sizes = ("bytes", "height", "width", "channels") if leaf.kind == IMAGE else ("bytes",)
    return Summary(
        Counter(counts), spreads | {name: Spread("i") for name in sizes}, values=DistinctValues.empty(STRING)
    )


def _shape(leaf: LeafFeature) -> tuple[int | None, ...]:
    """Returns the shape of a feature of numbers, such as (28, None); () for other features."""
    return getattr(leaf.feature, "shape", ()) if leaf.kind == NUMBER else ()


def add(summary: Summary, leaf: LeafFeature, column: Column, records: NDArray[np.int64]) -> None:
    """Adds a block of records.

    Args:
        summary: summary of the leaf, changed in place.
        leaf: the feature.
        column: the values of the feature in n records.
        records: the index of each record in the slice, of shape (n,).
    """
    present = records[column.present]
    missing = len(records) - len(column.present) - column.damaged
    summary.counts.update(examples=len(records), missing=missing, values=len(column.values))
    if column.damaged:
        summary.counts["damaged"] += column.damaged
    if "items" in summary.spreads and column.lengths is not None:
        summary.spreads["items"].add(column.lengths, present)
    if not len(column.values):
        return
    if leaf.kind == LABEL:
        labels, counts = np.unique(column.values, return_counts=True)
        summary.labels.update(dict(zip(labels.tolist(), counts.tolist())))  # type: ignore[union-attr]
        return
    position_hashes, of_values = occurrences(present, column.counts), np.repeat(present, column.counts)
    if leaf.kind == NUMBER:
        _add_numbers(summary, widened(column.values), position_hashes, of_values)
    else:
        _add_bytes(summary, column.values, position_hashes, leaf.kind, of_values)
        if file_kind := leaf.feature.file_kind:
            summary.counts["damaged"] += sum(find_damage(data, file_kind) is not None for data in column.values)


def _add_numbers(
    summary: Summary, values: NDArray[Any], position_hashes: NDArray[np.uint64], records: NDArray[np.int64]
) -> None:
    """Adds numbers to the spread and the distinct values of a summary; NaN and infinities are only counted.

    Args:
        summary: summary of the feature, which is changed.
        values: the numbers, of shape (n,).
        position_hashes: hash of the position of each number, by which samples are chosen.
        records: index in the slice of the example of each number.
    """
    if values.dtype.kind == "f":
        finite = np.isfinite(values)
        if not finite.all():
            summary.counts.update(
                {
                    "nan": int(np.isnan(values).sum()),
                    "inf": int((values == np.inf).sum()),
                    "-inf": int((values == -np.inf).sum()),
                }
            )
            values, position_hashes, records = values[finite], position_hashes[finite], records[finite]
    summary.counts["zeros"] += len(values) - int(np.count_nonzero(values))
    codes = codes_of(values)
    unique, counts = np.unique(codes, return_counts=True)
    summary.spreads["values"].add(values, records, (unique, counts))
    distinct_values: Any = summary.values
    distinct_values.add(mixed(unique), counts, unique)
    distinct_values.sample(position_hashes, lambda indices: (mixed(codes[indices]), codes[indices]))


def _add_bytes(
    summary: Summary, values: list[bytes], position_hashes: NDArray[np.uint64], kind: str, records: NDArray[np.int64]
) -> None:
    """Adds texts or files to a summary: their lengths, distinct values and, for images, the sizes in pixels.

    Args:
        summary: summary of the feature, which is changed.
        values: the texts or files.
        position_hashes: hash of the position of each value, by which samples are chosen.
        kind: kind of the feature, such as `IMAGE`.
        records: index in the slice of the example of each value.
    """
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    summary.spreads["bytes"].add(lengths, records)
    summary.counts["empty"] += len(values) - int(np.count_nonzero(lengths))
    counter = Counter(values)
    unique, counts = list(counter), np.fromiter(counter.values(), np.int64, len(counter))
    distinct_values: Any = summary.values
    distinct_values.add(hashes_of(unique), counts, _truncate_texts(unique, kind))

    def pick(indices: NDArray[np.intp]) -> tuple[NDArray[np.uint64], NDArray[Any]]:
        """Returns (hashes, display forms) of the values with the given indices."""
        picked = [values[i] for i in indices.tolist()]
        return hashes_of(picked), _truncate_texts(picked, kind)

    distinct_values.sample(position_hashes, pick)
    if kind == IMAGE:
        sizes = [image_size(value) for value in values]
        summary.counts["unreadable"] += sizes.count(None)
        readable = [index for index, size in enumerate(sizes) if size is not None]
        for name, numbers in zip(("height", "width", "channels"), zip(*filter(None, sizes))):
            summary.spreads[name].add(np.array(numbers, np.int64), records[readable])


def image_size(data: bytes) -> tuple[int, int, int] | None:
    """Returns (height, width, channels) from the header of an image; None if Pillow is missing or cannot read it.

    Args:
        data: content of the file. An image with a palette has 3 channels.
    """
    try:
        from PIL import Image

        with Image.open(io.BytesIO(data)) as image:
            # a palette holds colours
            return image.height, image.width, 3 if image.mode == "P" else len(image.getbands())
    except Exception:  # each plugin of Pillow raises its own errors for damaged headers, and some sizes are refused
        return None


def _truncate_texts(values: list[bytes], kind: str) -> NDArray[Any]:
    """Returns the texts, each cut after the bytes that are shown; b"" for files, which are only counted."""
    texts = np.empty(len(values), STRING)
    texts[:] = [value[: SHOWN_BYTES + 1] for value in values] if kind == TEXT else [b""] * len(values)
    return texts


Gathered: TypeAlias = dict[int, list[Summary]]
"""Number of the slice -> summaries of the leaves."""

_BLOCK_RECORDS, _BLOCK_BYTES = 8192, 4 << 20  # summarized together
MIN_RANGE, MAX_RANGE, NUM_RANGES = 1 << 20, 256 << 20, 64


@dataclass(frozen=True)
class StatisticsRequest:
    """A validated request for statistics.

    Attributes:
        full_name: name, config and version of the dataset, such as 'digits/small:1.0.0'.
        digest: digest of the published version.
        directory: directory of the version.
        pool: pool of the shards of the version.
        features: features of the version.
        leaves: the features to summarize.
        unknown: the paths of features of unknown classes, which cannot be read.
        slices: name and runs of each slice.
        is_complete: whether the slices are all splits, and the features all features.
    """

    full_name: str
    digest: str
    directory: str
    pool: ShardPool
    features: Any
    leaves: tuple[LeafFeature, ...]
    unknown: tuple[str, ...]
    slices: tuple[tuple[str, FileInstructions], ...]
    is_complete: bool

    def runs(self) -> Iterator[ShardRange]:
        """Yields each run of records of all slices as a range."""
        for number, (_, runs) in enumerate(self.slices):
            first = 0
            for run in runs:
                yield ShardRange(number, first, run)
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
class ShardRange:
    """Records of a shard.

    Attributes:
        number: number of the slice.
        first: the index in the slice of the first one.
        run: the records.
    """

    number: int
    first: int
    run: FileInstruction


def prepare_request(
    name_or_dir: str | os.PathLike[str],
    splits: abc.Sequence[Any] | None = None,
    features: abc.Sequence[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> StatisticsRequest:
    """Validates a request.

    Args:
        name_or_dir: a name such as 'squares:1.*.*', or a version's directory.
        splits: expressions such as 'train[:10%]', each with statistics of its own, in this order; None for each split
            in the dataset's order.
        features: names of features such as 'a' or 'b.c', with all that is below them; None for all.
        data_dir: root of the datasets, for a name.
        storage_options: options of the dataset's store; see `beam_datasets.builder`.

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
        raise SplitError(expected="splits that differ", got=", ".join(map(str, expressions)))
    return StatisticsRequest(
        info.display_name,
        published.digest,
        published.dataset_dir,
        published.pool,
        info.features,
        tuple(leaves if features is None else _select_leaves(leaves, info.features, features, info.display_name)),
        tuple(unknown) if features is None else (),
        tuple((str(expression), info.splits[expression].file_instructions) for expression in expressions),
        splits is None and features is None,
    )


def _select_leaves(
    leaves: list[LeafFeature], tree: FeatureConnector, names: abc.Sequence[str], dataset: str
) -> list[LeafFeature]:
    """Returns the features that have one of the names, and those below them.

    It raises a FeatureKeyError for a name that no feature has.

    Args:
        leaves: all features with statistics.
        tree: features of the dataset.
        names: names of features, such as 'a' or 'b.c'.
        dataset: name of the dataset, for errors.
    """
    wanted_names = [record_name(name.strip("/"), tree) for name in names]
    for name in wanted_names:
        if not any(leaf.is_below(name) for leaf in leaves):
            paths = [join_steps(leaf.keys) for leaf in leaves]
            raise FeatureKeyError(
                f"{dataset} has no feature {name!r} with statistics; it has {', '.join(paths)}",
                expected=", ".join(paths),
                got=repr(name),
                advice=did_you_mean(name, paths).strip() or None,
            )
    return [leaf for leaf in leaves if any(map(leaf.is_below, wanted_names))]


def divide_range(shard_range: ShardRange, request: StatisticsRequest, range_bytes: int) -> Iterator[ShardRange]:
    """Yields consecutive ranges of `shard_range`; see `reading.ranges.divide_run`."""
    for piece in ranges.divide_run(shard_range.run, request.pool, range_bytes):
        yield ShardRange(shard_range.number, shard_range.first + piece.skip - shard_range.run.skip, piece)


def gather(shard_range: ShardRange, request: StatisticsRequest) -> Gathered:
    """Returns the statistics of one range of records.

    Raises:
        StorageError: the shard cannot be read.
        CorruptRecordError: a record is damaged; it names file, byte and record.
        FeatureError: a record does not fit the features; it names file, byte and record.
    """
    leaves = list(request.leaves)
    summaries = [empty(leaf) for leaf in leaves]
    columns = compile_columns(request.features, leaves)
    first = shard_range.first
    blocks = ranges.map_blocks(
        lambda records: (len(records), columns(records)),
        _blocks(shard_range, request.pool),
        shard_range.run,
        request.pool,
    )
    for count, block_columns in blocks:
        numbers = np.arange(first, first + count)
        for summary, leaf, column in zip(summaries, leaves, block_columns):
            add(summary, leaf, column, numbers)
        first += count
    return {shard_range.number: summaries}


def merge(parts: Iterable[Gathered]) -> Gathered:
    """Merges all parts into the first one, in place, and returns it; nothing if there are none."""
    merged: Gathered = {}
    for gathered in parts:
        for number, summaries in gathered.items():
            for mine, theirs in zip(merged.setdefault(number, summaries), summaries):
                if mine is not theirs:
                    mine.merge(theirs)
    return merged


def _blocks(shard_range: ShardRange, pool: ShardPool) -> Iterator[list[bytes]]:
    """Yields the records in blocks of at least `_BLOCK_RECORDS` records or `_BLOCK_BYTES` bytes, except the last."""
    block: list[bytes] = []
    size = 0
    for records in ranges.read_blocks(shard_range.run, pool):
        block += records
        size += sum(map(len, records))
        if len(block) >= _BLOCK_RECORDS or size >= _BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block
