"""Which record it was that does not decode: worked out where that is an error, so that reading keeps nothing for it.

The positions of an order are mapped as they are where items are fetched (`Operation.fetch`), on places of records in
the stead of records. What an error of a batch is about is found by decoding its records one by one.
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

from beam_datasets.errors import CorruptRecordError, FeatureError, FeatureValueError
from beam_datasets.features.columnar import ColumnarDecoder
from beam_datasets.features.compiler import compile_decoder, select_decoded
from beam_datasets.features.features_dict import FeaturesDict
from beam_datasets.features.sequence import NestedDataset
from beam_datasets.formats.example import Buffer, ExampleError, parse_spans
from beam_datasets.reading.elements.transforms import UNDECODED as UNDECODED
from beam_datasets.reading.elements.transforms import Step
from beam_datasets.reading.index.mixture import Mixture
from beam_datasets.reading.index.transforms import Operation
from beam_datasets.reading.records.source import Source

if TYPE_CHECKING:
    from beam_datasets.reading.records.shards import Shard

Ints = NDArray[np.int64]
Check = Callable[[Buffer], object]

Place: TypeAlias = "tuple[Source, int, int]"
"""The source of a record, its run there, and its number in the shard."""


def name_at_indices(steps: tuple[Step, ...], error: Exception, source: Source, indices: Any) -> None:
    """Puts the place of a record that does not decode at the end of an error's text.

    It is the first record, of those at an index or several in dataset order, that raises the error. Another error is
    left as it is: one of examples that do not fit in a batch, or of a function given to `map()`.

    Args:
        steps: what is made of the records, the first of which decodes.
        error: what was raised.
        source: of the records.
        indices: in it.
    """
    with contextlib.suppress(Exception):  # that one would hide the error
        wanted = np.atleast_1d(indices)
        places = _places(source, *source.locate_indices(wanted))
        _name(steps, error, source.fetch_indices(wanted), places)


def name_at_position(
    steps: tuple[Step, ...], error: Exception, operation: Operation, position: int, epoch: int, item: Any | None = None
) -> None:
    """Does the same for the record at a position of an operation, or for the first of the item there that raises it."""
    with contextlib.suppress(Exception):  # that one would hide the error
        location = _on_places(operation).fetch(np.array([position]), epoch)[0]
        if item is None:
            _add(error, location)
        else:
            _name(steps, error, item, location)


def _name(steps: tuple[Step, ...], error: Exception, item: Any, place: Any) -> None:
    """Appends to `error` the location of the first record of an item whose decoding raises the same error."""
    check = steps[0].compile_check()
    for record, of_record in _pairs(item, place):
        try:
            touch(check(record))
        except UNDECODED as same:
            if _said(same) == _said(error):
                _add(error, of_record)
                return


def _add(error: Exception, place: Place) -> None:
    (source, run, record), instructions = place, place[0].instructions
    shard = source.pool.open(instructions.filename(run), int(instructions.examples_in_shard[run]))
    error.args = (f"{str(error).removesuffix('.')}. It is in {place_of(shard, record)}",)


def _said(error: Exception) -> tuple[type[Exception], str]:
    """Returns what two errors of the same cause have in common: not the addresses of objects, as Pillow names one."""
    return type(error), re.sub(r"\b0x[0-9a-fA-F]+", "", str(error))


def place_of(shard: Shard, record: int) -> str:
    """Returns the file, the byte where it can be known, and the number of a record, for errors."""
    offsets = shard.known_offsets
    if offsets is None and shard.reader.descriptor is not None:  # a remote one would be fetched to its end for it
        with contextlib.suppress(CorruptRecordError):
            offsets = shard.offsets
    byte = "" if offsets is None else f", byte {offsets[record]}"
    return f"{shard.path}{byte} (record {record})"


@dataclass(frozen=True)
class _Places:
    """Fetches places of records, as a source fetches records."""

    source: Source
    length: int

    def fetch(self, positions: Ints, epoch: int) -> list[Place]:
        return _places(self.source, *self.source.locate(positions, epoch))


def _places(source: Source, runs: Ints, records: Ints) -> list[Place]:
    return [(source, *location) for location in zip(runs.tolist(), records.tolist())]


def _on_places(operation: Any) -> Any:
    """Returns the same operations on the places of the sources' records."""
    if isinstance(operation, Source):
        return _Places(operation, operation.length)
    same = copy.copy(operation)
    if isinstance(operation, Mixture):
        same.children, same.is_tagged = tuple(map(_on_places, operation.children)), False
    else:
        same.child = _on_places(operation.child)
    return same


def _pairs(item: Any, place: Any) -> Iterator[tuple[Any, Place]]:
    """Yields records with their places, of a record or of lists of records, in each other."""
    if isinstance(place, tuple):
        yield item, place
        return
    for items, places in zip(item, place):
        yield from _pairs(items, places)


def decoding_check(features: Any, decoders: Any = None) -> Check:
    """Returns the function that raises an ExampleError or a FeatureError if a record does not decode entirely.

    Args:
        features: the features of the dataset.
        decoders: for some of them, as in `as_dataset`.
    """
    decode = compile_decoder(features, decoders=decoders)
    return lambda record: touch(decode(record))


def block_check(features: Any, decoders: Any = None) -> Callable[[list[Buffer]], bool] | None:
    """Returns the function that returns whether records all decode; None if they must be checked one by one.

    That is so if examples may be large, or are decoded item by item. For the arguments see `decoding_check`.
    """
    decoder = ColumnarDecoder(select_decoded(features, decoders))
    if not decoder.is_small:
        return None

    def check(records: list[Buffer]) -> bool:
        try:
            decoder.examples(records)
        except (FeatureError, ExampleError):
            return False
        return True

    return check


@dataclass(frozen=True)
class Undecoded:
    """Stands for a value that does not decode.

    Attributes:
        problem: why not.
    """

    problem: str

    def __str__(self) -> str:
        return f"does not decode: {self.problem}"


def tolerant_decoder(features: Any) -> Callable[[Buffer], Any]:
    """Returns the function from a record to its example, with an `Undecoded` in place of what does not decode.

    Each feature that is not in a sequence is decoded by itself, if not all of them decode together.

    Args:
        features: of the dataset, as they are to be decoded.
    """
    decode = compile_decoder(features)
    partly: list[Callable[[Buffer], Any]] = []  # compiled when it is needed

    def example(record: Buffer) -> Any:
        try:
            decoded = decode(record)
            touch(decoded)
        except UNDECODED:
            partly[:] = partly or [_partial_decoder(features, ())]
            return partly[0](record)
        return decoded

    return example


def _partial_decoder(features: Any, steps: tuple[str, ...]) -> Callable[[Buffer], Any]:
    """Returns the same function for what the steps lead to, which decodes one feature after the other."""
    at: Any = functools.reduce(operator.getitem, steps, features)
    if isinstance(at, FeaturesDict):
        children = {name: _partial_decoder(features, (*steps, name)) for name in at}
        return lambda record: {name: child(record) for name, child in children.items()}
    spec: Any = True
    for step in reversed(steps):
        spec = {step: spec}
    decode = compile_decoder(features, partial=spec)

    def value(record: Buffer) -> Any:
        try:
            decoded = functools.reduce(operator.getitem, steps, decode(record))
            touch(decoded)
        except UNDECODED as error:
            return Undecoded(str(error))
        return decoded

    return value


def touch(example: Any) -> None:
    """Decodes the nested datasets of an example or of a tuple of its features, which are decoded on demand."""
    if isinstance(example, dict):
        for value in example.values():
            touch(value)
    elif isinstance(example, (NestedDataset, list, tuple)):
        for item in example:
            touch(item)


def names_check(features: Any) -> Check:
    """Returns the function that raises a FeatureValueError if a feature has another name in a record.

    An optional feature that is absent decodes without an error, so decoding alone does not find that.
    """
    lists = {name.encode(): kind for name, kind in features.lists("")}
    expected = frozenset(name for name, kind in lists.items() if kind is not None)
    outer = tuple(
        name + b"/" for name in lists.keys() - expected
    )  # of classes that are not known, which store any below

    def check(record: Buffer) -> None:
        there = parse_spans(record)[1].keys()
        missing = sorted(expected - there)
        unknown = sorted(name for name in there - lists.keys() if not name.startswith(outer))
        if missing and unknown:
            raise FeatureValueError(
                f"it has {', '.join(name.decode(errors='replace') for name in unknown)}, which the features do not "
                f"name, and not {', '.join(name.decode() for name in missing)}, which they do"
            )

    return check
