"""Batches decoded by columns: what a feature stores in all records of a batch is decoded at once.

A list of the values of all records is one sequence, and features can decode the items of a sequence in one piece. So a
column is the lists of all records joined, once it is sure that each has as many values as one item takes. What is not
so (a missing feature, a list of another form) and features of other kinds are decoded one by one and stacked: the
result is always that of `stack([decode(record) for record in records])`, and where that is an error, so is this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.errors import FeatureError
from beam_datasets.features.at_once import AtOnce
from beam_datasets.features.compiler import chosen
from beam_datasets.features.features_dict import FeaturesDict, join
from beam_datasets.features.groups import UnusualError
from beam_datasets.features.leaf import Leaf
from beam_datasets.features.sequence import Sequence
from beam_datasets.features.stacking import KEEP, inner, stack_decoded
from beam_datasets.features.tensor import Tensor
from beam_datasets.formats import example
from beam_datasets.formats.varint import decode_varints
from beam_datasets.native import core

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from numpy.typing import NDArray

    from beam_datasets.features.base import FeatureConnector, Spans
    from beam_datasets.formats.example import Buffer

    Column: TypeAlias = Callable[[list[bytes], list[Spans]], Any]

_FIRST_BYTE = {"float": 18, "int64": 26}  # of a feature that is a list of this kind


def compile_batch_decoder(
    feature: Any, *, decoders: Any = None, pad: bool = False, fill: Any = KEEP
) -> Callable[[list[Buffer]], Any]:
    """Returns the function from records to their batch: `stack([decode(record) for record in records], pad=pad, ...)`.

    Args:
        feature: the features of a dataset.
        decoders: see `compile_decoder`.
        pad: see `stack`.
        fill: see `stack`.

    Raises:
        ValueError: see `compile_decoder`, also for what the returned function raises.
    """
    top = chosen(feature, decoders)
    in_python = _batch_decoder(top, pad, fill)
    if core is None:
        return in_python
    at_once = AtOnce(top, pad=pad, fill=fill)

    def decode(records: list[Buffer]) -> Any:
        found = at_once(records)
        return in_python(records) if found is None else found

    return decode


def compile_block_decoder(feature: Any, *, decoders: Any = None) -> Callable[[list[Buffer]], list[Any]] | None:
    """Returns the function from records to the list of their examples; None where they are not to be held together.

    Args:
        feature: the features of a dataset.
        decoders: see `compile_decoder`.

    Raises:
        ValueError: see `compile_decoder`. The returned function raises it for records of which one is damaged or has an
            unusual form: they are to be decoded one by one.
    """
    top = chosen(feature, decoders)
    at_once = AtOnce(top)
    if core is None or not at_once.is_small:
        return None

    def decode(records: list[Buffer]) -> list[Any]:
        found: list[Any] | None = at_once(records)
        if found is None:
            raise UnusualError("the records are to be decoded one by one")
        return found

    return decode


def _batch_decoder(top: FeatureConnector, pad: bool, fill: Any) -> Callable[[list[Buffer]], Any]:
    """Returns the function from records to their batch, in Python."""
    column = _column(top, "", pad, fill)

    def decode(records: list[Buffer]) -> Any:
        pairs = [example.spans_of(record) for record in records]
        return column([data for data, _ in pairs], [spans for _, spans in pairs])

    return decode


def _column(feature: FeatureConnector, name: str, pad: bool, fill: Any) -> Column:
    """Returns the function from all records to the column of a feature."""
    if type(feature) is FeaturesDict:
        columns = {key: _column(child, join(name, key), pad, inner(fill, key)) for key, child in feature.items()}
        return lambda datas, spans: {key: column(datas, spans) for key, column in columns.items()}
    decode = feature.decoder(name)

    def one_by_one(datas: list[bytes], spans: list[Spans]) -> Any:
        return stack_decoded(list(map(decode, datas, spans)), pad=pad, path=name, fill=fill)

    at_once = _at_once(feature, name, pad)
    if at_once is None:
        return one_by_one

    def column(datas: list[bytes], spans: list[Spans]) -> Any:
        try:
            found = at_once(datas, spans)
        except (FeatureError, example.ExampleError, IndexError):  # one by one, the error is the record's
            found = None
        return one_by_one(datas, spans) if found is None else found

    return column


def _at_once(feature: FeatureConnector, name: str, pad: bool) -> Column | None:
    """Returns the function that decodes a column in one piece, or yields None where it cannot; None for none."""
    if type(feature) is Sequence and isinstance(feature.feature, Leaf):
        return _sequences(feature, feature.feature, name, pad)
    if isinstance(feature, Leaf) and not feature.is_optional:
        return _leaves(feature, name)
    return None


def _leaves(feature: Leaf, name: str) -> Column | None:
    if isinstance(feature, Tensor) and feature.is_dynamic:
        return None
    codec = feature.codec(name)
    size, unpack_many = codec.size, codec.unpack_many
    if codec.kind == "bytes":
        if not (codec.from_bytes is None and size == 1):
            return None
        read = _bytes_reader(name)
        return lambda datas, spans: unpack_many(read(datas, spans))
    if not size:
        return None
    read_numbers = _numbers_reader(codec.kind, name)

    def decode(datas: list[bytes], spans: list[Spans]) -> Any:
        found = read_numbers(datas, spans)
        if found is None or not (found[1] == size).all():
            return None
        return unpack_many(found[0])

    return decode


def _sequences(feature: Sequence, item: Leaf, name: str, pad: bool) -> Column | None:
    """Returns the function for sequences of numbers or of arrays of numbers, which are padded where they differ."""
    if isinstance(item, Tensor) and item.is_dynamic:
        return None
    codec, length = item.codec(name), feature.length
    if codec.kind == "bytes" or not codec.size:
        return None
    read, size = _numbers_reader(codec.kind, name), codec.size

    def decode(datas: list[bytes], spans: list[Spans]) -> Any:
        found = read(datas, spans)
        if found is None:
            return None
        counts, rest = np.divmod(found[1], size)
        if rest.any() or (length is not None and (counts != length).any()):
            return None
        items = codec.unpack_many(found[0])
        longest = int(counts.max())
        if (counts == longest).all():
            return items.reshape(len(datas), longest, *items.shape[1:])
        if not pad:
            return None
        padded = np.zeros((len(datas), longest, *items.shape[1:]), items.dtype)
        padded[np.arange(longest) < counts[:, None]] = items
        return padded

    return decode


def _bytes_reader(name: str) -> Callable[[list[bytes], list[Spans]], list[bytes]]:
    """Returns the function that reads the only value of a list of bytes of each record."""
    key, one = name.encode(), example.one_bytes

    def read(datas: list[bytes], spans: list[Spans]) -> list[bytes]:
        # A feature that is missing is an ExampleError, as one with more values is.
        return [one(data, *found.get(key, (0, 0))) for data, found in zip(datas, spans)]

    return read


def _numbers_reader(
    kind: str, name: str
) -> Callable[[list[bytes], list[Spans]], tuple[NDArray[Any], NDArray[np.int64]] | None]:
    """Returns the function that reads the numbers of all records, and how many each has; None where a list is odd."""
    key, first_byte = name.encode(), _FIRST_BYTE[kind]

    def read(datas: list[bytes], spans: list[Spans]) -> tuple[NDArray[Any], NDArray[np.int64]] | None:
        payloads = []
        for data, found in zip(datas, spans):
            span = found.get(key)
            payload = None if span is None else example.packed(data, span[0], span[1], first_byte)
            if payload is None:
                return None
            payloads.append(payload)
        joined, sizes = b"".join(payloads), np.fromiter(map(len, payloads), np.int64, len(payloads))
        if kind == "float":
            return None if (sizes % 4).any() else (np.frombuffer(joined, "<f4"), sizes // 4)
        if any(payload and payload[-1] > 127 for payload in payloads):
            return None
        counts, some = np.zeros(len(sizes), np.int64), sizes.nonzero()[0]
        if len(some):
            lasts = np.frombuffer(joined, np.uint8) < 128
            counts[some] = np.add.reduceat(lasts, (np.cumsum(sizes) - sizes)[some], dtype=np.int64)
        return decode_varints(joined), counts

    return read
