"""Location of the record behind a decoding error, and decoders that check records or tolerate damaged values.

A location is computed after the error, so that reading stores none.

`Operation.fetch` maps a position to a record; with `_LocationSource` in place of the source, it maps the position to
the location of the record. To find the record that causes the error of a batch, its records are decoded one by one.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from beam_datasets.errors import BeamDatasetsError, CorruptRecordError, FeatureError, FeatureValueError
from beam_datasets.features.base import Decoders, FeatureConnector
from beam_datasets.features.columnar import ColumnarDecoder
from beam_datasets.features.compiler import compile_decoder, select_decoded
from beam_datasets.features.features_dict import FeaturesDict
from beam_datasets.features.sequence import NestedDataset
from beam_datasets.formats.example import Buffer, ExampleError, parse_spans
from beam_datasets.reading.elements.transforms import UNDECODED as UNDECODED
from beam_datasets.reading.elements.transforms import Step
from beam_datasets.reading.index.mixture import Mixture
from beam_datasets.reading.index.transforms import Evened, Operation
from beam_datasets.reading.records.source import Source

if TYPE_CHECKING:
    from beam_datasets.reading.records.shards import Shard

Ints = NDArray[np.int64]
Check = Callable[[Buffer], object]

Location: TypeAlias = "tuple[Source, int, int]"
"""(source of a record, number of its run in the source, number of the record in the shard)."""


def add_location_of_indices(steps: tuple[Step, ...], error: Exception, source: Source, indices: Any) -> None:
    """Appends the location of the record that does not decode to the text of a decoding error.

    It is the first of the records at `indices` whose decoding raises the same error. If none raises it, the error is
    unchanged, as when examples cannot be batched or a function given to `map()` fails.

    Args:
        steps: transforms of the records; the first one decodes.
        error: the error, whose `args` are changed.
        source: source of the records.
        indices: an index in dataset order, or an array of them.
    """
    with contextlib.suppress(Exception):  # another error would hide the decoding error
        index_array = np.atleast_1d(indices)
        locations = _to_locations(source, *source.locate_indices(index_array))
        _add_location_in_item(steps, error, source.fetch_indices(index_array), locations)


def add_location_of_position(
    steps: tuple[Step, ...], error: Exception, operation: Operation, position: int, epoch: int, item: Any | None = None
) -> None:
    """Appends the location of the record that does not decode to the text of a decoding error.

    Args:
        steps: transforms of the items; the first one decodes.
        error: the error, whose `args` are changed.
        operation: the operation that yielded the item.
        position: position of the item.
        epoch: epoch of the item.
        item: the item: a record or nested lists of records, in which the first record that raises the same error is
            searched. None for the record at the position.
    """
    with contextlib.suppress(Exception):  # another error would hide the decoding error
        location = _replace_sources(operation).fetch(np.array([position]), epoch)[0]
        if item is None:
            _add_location(error, location)
        else:
            _add_location_in_item(steps, error, item, location)


def _add_location_in_item(steps: tuple[Step, ...], error: Exception, item: Any, locations: Any) -> None:
    """Appends to `error` the location of the first record of an item whose decoding raises the same error.

    Args:
        steps: transforms of the items; the first one decodes.
        error: the error, whose `args` are changed.
        item: a record, or nested lists of records.
        locations: the location of each record, in the structure of the item.
    """
    check = steps[0].compile_check()
    for record, location in _pair_with_locations(item, locations):
        try:
            touch(check(record))
        except UNDECODED as record_error:
            if _type_and_text(record_error) == _type_and_text(error):
                _add_location(error, location)
                return


def _add_location(error: Exception, location: Location) -> None:
    """Appends a location to the text of an error, and sets path, offset and record of a `BeamDatasetsError`."""
    source, run, record = location
    instructions = source.instructions
    shard = source.pool.open(instructions.filename(run), int(instructions.examples_in_shard[run]))
    error.args = (f"{str(error).removesuffix('.')}. It is in {describe_location(shard, record)}",)
    if isinstance(error, BeamDatasetsError):
        error.path, error.offset, error.record = shard.path, find_offset(shard, record), record


def locate_error(error: Exception, shard: Shard, record: int) -> Exception:
    """Returns a copy of a decoding error whose text begins with the location of the record.

    Path, offset and record of a `BeamDatasetsError` are set.
    """
    message = f"{describe_location(shard, record)}: {error}"
    if not isinstance(error, BeamDatasetsError):
        return type(error)(message)
    located = error.with_message(message)
    located.path, located.offset, located.record = shard.path, find_offset(shard, record), record
    return located


def _type_and_text(error: Exception) -> tuple[type[Exception], str]:
    """Returns (type of an error, its text without addresses of objects, such as 0x7f10 in texts of Pillow)."""
    return type(error), re.sub(r"\b0x[0-9a-fA-F]+", "", str(error))


def describe_location(shard: Shard, record: int) -> str:
    """Describes the location of a record for errors: "<path>, byte <offset> (record <number>)".

    The byte is missing if the shard has no index and is remote or damaged.
    """
    offset = find_offset(shard, record)
    byte = "" if offset is None else f", byte {offset}"
    return f"{shard.path}{byte} (record {record})"


def find_offset(shard: Shard, record: int) -> int | None:
    """Returns the byte offset at which a record begins; None if the shard has no index and is remote or damaged."""
    offsets = shard.known_offsets
    if offsets is None and shard.reader.descriptor is not None:  # a remote shard would be fetched to its end
        with contextlib.suppress(CorruptRecordError):
            offsets = shard.offsets
    return None if offsets is None else int(offsets[record])


@dataclass(frozen=True)
class _LocationSource:
    """A stand-in for a source that fetches the locations of records instead of the records.

    Attributes:
        source: the source.
        length: number of records of the source.
    """

    source: Source
    length: int

    def fetch(self, positions: Ints, epoch: int) -> list[Location]:
        """Returns the location of the record at each position of the read order."""
        return _to_locations(self.source, *self.source.locate(positions, epoch))


def _to_locations(source: Source, runs: Ints, records: Ints) -> list[Location]:
    """Converts arrays of run numbers and record numbers to a list of locations.

    Args:
        source: source of the records.
        runs: number of the run of each record in the source.
        records: number of each record in its shard.
    """
    return [(source, *numbers) for numbers in zip(runs.tolist(), records.tolist())]


def _replace_sources(operation: Any) -> Any:
    """Returns a copy of a tree of operations with each source replaced by a `_LocationSource`."""
    if isinstance(operation, Source):
        return _LocationSource(operation, operation.length)
    operation_copy = copy.copy(operation)
    operation_copy.children = tuple(map(_replace_sources, operation.children))
    if isinstance(operation, Mixture):
        operation_copy.is_tagged = False
    if isinstance(operation, Evened):
        operation_copy.full = _replace_sources(operation.full)
    return operation_copy


def _pair_with_locations(item: Any, location: Any) -> Iterator[tuple[Any, Location]]:
    """Yields (record, location) for each record in an item.

    Args:
        item: a record, or nested lists of records.
        location: the location of the record, a tuple; or nested lists of locations with the structure of the item.
    """
    if isinstance(location, tuple):
        yield item, location
        return
    for inner_item, inner_location in zip(item, location):
        yield from _pair_with_locations(inner_item, inner_location)


def decoding_check(features: FeatureConnector, decoders: Decoders = None) -> Check:
    """Returns a function that decodes a record entirely, and returns None; or raises an ExampleError or FeatureError.

    Args:
        features: the features of the dataset.
        decoders: decoders that replace those of some features; see `ReadOnlyBuilder.as_dataset`.
    """
    decode = compile_decoder(features, decoders=decoders)
    return lambda record: touch(decode(record))


def block_check(features: FeatureConnector, decoders: Decoders = None) -> Callable[[list[Buffer]], bool] | None:
    """Returns a predicate: whether every record of a list decodes.

    Args:
        features: the features of the dataset.
        decoders: see `decoding_check`.

    Returns:
        The function; None if the records must be checked one by one, as examples may be large.
    """
    decoder = ColumnarDecoder(select_decoded(features, decoders))
    if not decoder.is_small:
        return None

    def check(records: list[Buffer]) -> bool:
        """Returns whether all records decode."""
        try:
            decoder.examples(records)
        except (FeatureError, ExampleError):
            return False
        return True

    return check


@dataclass(frozen=True)
class Undecoded:
    """A placeholder for a value that does not decode.

    Attributes:
        problem: the text of the error.
    """

    problem: str

    def __str__(self) -> str:
        return f"does not decode: {self.problem}"


def tolerant_decoder(features: FeatureConnector) -> Callable[[Buffer], Any]:
    """Returns a function from a record to its example, with an `Undecoded` in place of each value that does not decode.

    If a record does not decode, each feature that is not in a sequence is decoded separately.

    Args:
        features: the features of the dataset, with the decoders that are used.
    """
    decode = compile_decoder(features)
    partial_decoders: list[Callable[[Buffer], Any]] = []  # none or one: compiled when it is needed

    def decode_example(record: Buffer) -> Any:
        """Returns the example of a record."""
        try:
            example = decode(record)
            touch(example)
        except UNDECODED:
            partial_decoders[:] = partial_decoders or [_partial_decoder(features, ())]
            return partial_decoders[0](record)
        return example

    return decode_example


def _partial_decoder(features: FeatureConnector, path: tuple[str, ...]) -> Callable[[Buffer], Any]:
    """Returns a function from a record to the value of one feature, or to an `Undecoded`.

    The features of a `FeaturesDict` are decoded one by one, to a dict of values.

    Args:
        features: the features of the dataset.
        path: the names that lead to the feature; empty for the whole example.
    """
    feature: Any = features
    for name in path:
        feature = feature[name]
    if isinstance(feature, FeaturesDict):
        children = {name: _partial_decoder(features, (*path, name)) for name in feature}
        return lambda record: {name: child(record) for name, child in children.items()}
    spec: Any = True
    for name in reversed(path):
        spec = {name: spec}
    decode = compile_decoder(features, partial=spec)

    def decode_value(record: Buffer) -> Any:
        """Returns the value of the feature."""
        try:
            value = functools.reduce(operator.getitem, path, decode(record))
            touch(value)
        except UNDECODED as error:
            return Undecoded(str(error))
        return value

    return decode_value


def touch(example: Any) -> None:
    """Decodes the nested datasets of an example or of a tuple of its features, which are decoded on demand."""
    if isinstance(example, dict):
        for value in example.values():
            touch(value)
    elif isinstance(example, (NestedDataset, list, tuple)):
        for item in example:
            touch(item)


def names_check(features: FeatureConnector) -> Check:
    """Returns a function that raises a FeatureValueError if a record has a feature with another name.

    The error is raised if the record both lacks a feature and has an unknown one. Decoding does not find that, because
    an optional feature that is absent decodes without an error.
    """
    lists = {name.encode(): kind for name, kind in features.lists("")}
    expected = frozenset(name for name, kind in lists.items() if kind is not None)
    # a feature of an unknown class may store lists with any names below its own
    prefixes = tuple(name + b"/" for name in lists.keys() - expected)

    def check(record: Buffer) -> None:
        """Checks the names of the lists of a record."""
        record_names = parse_spans(record)[1].keys()
        missing = sorted(expected - record_names)
        unknown = sorted(name for name in record_names - lists.keys() if not name.startswith(prefixes))
        if missing and unknown:
            raise FeatureValueError(
                f"it has {', '.join(name.decode(errors='replace') for name in unknown)}, which the features do not "
                f"name, and not {', '.join(name.decode() for name in missing)}, which they do"
            )

    return check
