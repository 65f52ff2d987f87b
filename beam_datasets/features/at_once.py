"""Records decoded many at once by the native module, or one with fewer steps than in Python."""

from __future__ import annotations

from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import BeamDatasetsError, FeatureError
from beam_datasets.features.class_label import ClassLabel
from beam_datasets.features.features_dict import FeaturesDict, join
from beam_datasets.features.groups import (
    ANY,
    KINDS,
    PADDED,
    STORED,
    Arrays,
    Files,
    Group,
    Images,
    Lists,
    Others,
    Scalars,
    Sequences,
    Texts,
)
from beam_datasets.features.image import Image
from beam_datasets.features.leaf import Leaf
from beam_datasets.features.sequence import Sequence
from beam_datasets.features.stacking import KEEP, inner
from beam_datasets.features.tensor import Encoding, Tensor
from beam_datasets.features.values import size_of
from beam_datasets.native import core

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from beam_datasets.features.base import FeatureConnector
    from beam_datasets.formats.example import Buffer

    Place: TypeAlias = "tuple[int, int] | dict[str, Place]"
    Numbers: TypeAlias = "int | dict[str, Numbers]"

_LEAF_DECODERS = (Leaf.decoder, Tensor.decoder, ClassLabel.decoder)
_ROWS_DECODERS = (Leaf.rows_decoder, Tensor.rows_decoder)
_LARGE = 1 << 16  # bytes of a decoded value that are not worth holding many of
_DOUBTS = (BeamDatasetsError, ValueError, TypeError, BufferError)


class AtOnce:
    """Decodes lists of records. Where it cannot, the result is None, and the records are to be decoded one by one.

    Attributes:
        is_small: whether decoded examples are known to be not much larger than records, so that many may be held.
    """

    def __init__(self, feature: FeatureConnector, *, pad: bool | None = None, fill: Any = KEEP) -> None:
        """Makes the plan.

        Args:
            feature: what is to be decoded of a record.
            pad: for batches: see `stack`. None: examples are made, not batches.
            fill: for batches: see `stack`.
        """
        self._pad = bool(pad)
        self._groups: list[Group] = []
        self._scalars: dict[tuple[Any, bool], int] = {}
        self._others: int | None = None
        self._fills: dict[str, Any] = {}  # of the features that may be missing, by name
        place = self._planned(feature, "", fill)
        for group in self._groups:
            group.fills = None if fill is KEEP else self._fills
        self.is_small = all(group.is_small for group in self._groups)
        self._schema = _schema(self._groups)
        firsts = [0, *accumulate(group.width for group in self._groups)]
        numbers = _numbered(place, firsts)
        self._arrange = _rows_arranger(numbers) if pad is None else _batch_arranger(numbers)
        self._numbers = numbers
        self._makers = [group.rows if pad is None else group.batch for group in self._groups]
        self._makers_of_one = tuple(group.maker_of_one() for group in self._groups)

    def __call__(self, records: list[Buffer]) -> Any:
        """Returns the list of the records' examples, or their batch; None where they are to be decoded one by one."""
        if self._schema is None:
            return None
        try:
            found = core.parse(self._schema, records)  # type: ignore[union-attr]
            if found is None:
                return None
            columns: list[Any] = []
            n = len(records)
            for make, part in zip(self._makers, found):
                columns += make(part, n)
            return self._arrange(columns, n)
        except _DOUBTS:  # one by one, the error is the record's
            return None

    def one(self, record: Buffer) -> Any:
        """Returns the example of a record; None where it is to be decoded in another way."""
        if self._schema is None:
            return None
        try:
            found = core.parse(self._schema, [record])  # type: ignore[union-attr]
            return None if found is None else core.example(found, self._makers_of_one, self._numbers)  # type: ignore[union-attr]
        except _DOUBTS:
            return None

    # -------------------------------------------------------------------------------------------------------- the plan

    def _planned(self, feature: FeatureConnector, name: str, fill: Any) -> Place:
        """Returns where the values of a feature are found: which group, and which of its features."""
        kind = type(feature)
        if isinstance(feature, FeaturesDict) and kind.decoder is FeaturesDict.decoder:
            return {key: self._planned(child, join(name, key), inner(fill, key)) for key, child in feature.items()}
        self._fills[name] = fill
        group = None
        if isinstance(feature, Leaf) and kind.decoder in _LEAF_DECODERS and not _is_dynamic(feature):
            if _is_number(feature):
                return self._number(feature, name)
            group = self._leaf(feature, name)
        elif isinstance(feature, Sequence) and kind.decoder is Sequence.decoder and not _is_dynamic(feature.feature):
            group = self._sequence(feature, feature.feature, name)
        return self._other(feature, name) if group is None else self._added(group)

    def _added(self, group: Group) -> tuple[int, int]:
        self._groups.append(group)
        return len(self._groups) - 1, 0

    def _number(self, feature: Any, name: str) -> tuple[int, int]:
        """Adds a single number to those of its dtype."""
        key = feature.dtype, feature.is_optional
        if key not in self._scalars:
            kind = KINDS["float" if feature.dtype.kind == "f" else "int64"]
            self._scalars[key], _ = self._added(Scalars([], kind, 1, feature.is_optional, self._pad, dtype=key[0]))
        names = self._groups[self._scalars[key]].names
        names.append(name)
        return self._scalars[key], len(names) - 1

    def _leaf(self, feature: Leaf, name: str) -> Group | None:
        """Returns the group of a leaf; None where it is to be decoded by itself."""
        codec, default = feature.codec(name), _default(feature, name)
        kind, optional = KINDS[codec.kind], default is not _ERROR
        of_strings = codec.kind == "bytes" and codec.from_bytes is None
        if not codec.size or (of_strings and not _is_string(feature)):
            missing = feature.missing(name)
            return Lists([name], kind, ANY, optional, self._pad, unpack=codec.unpack, missing=missing)
        if optional and default is not None:
            return None
        common = [name], kind, codec.size, optional, self._pad
        if of_strings:
            return Texts(*common)
        if codec.from_bytes is None:
            return Arrays(*common, codec=codec, plain=_plain(feature))
        size = _decoded_size(feature)
        small = size is not None and size <= _LARGE
        if isinstance(feature, Image) and feature.has_fixed_form:
            return Images(*common, small, unpack=codec.from_bytes, shape=feature.shape, dtype=feature.dtype)  # type: ignore[arg-type]
        return Files(*common, small, unpack=codec.from_bytes)

    def _sequence(self, feature: Sequence, item: FeatureConnector, name: str) -> Group | None:
        """Returns the group of a sequence; None where it is to be decoded by itself."""
        if not isinstance(item, Leaf) or type(item).rows_decoder not in _ROWS_DECODERS:
            return None
        codec, length = item.codec(name), feature.length
        if codec.kind != "bytes":
            count = PADDED if self._pad else ANY
            common = [name], KINDS[codec.kind], count, True, self._pad
            return Sequences(*common, codec=codec, length=length, plain=_plain(item)) if codec.size else None
        unpack, small = codec.unpack_many, codec.from_bytes is None
        as_bytes = [name], KINDS["bytes"], ANY, True, self._pad, small
        return Lists(*as_bytes, unpack=unpack, missing=lambda: unpack([]), length=length)

    def _other(self, feature: FeatureConnector, name: str) -> tuple[int, int]:
        """Adds a feature that is decoded by itself."""
        if self._others is None:
            self._others, _ = self._added(Others([], 0, ANY, pad=self._pad, is_small=False))
        group: Any = self._groups[self._others]
        group.decoders.append(feature.decoder(name))
        group.paths.append(name)
        return self._others, len(group.decoders) - 1


_ERROR = object()


def _default(feature: Leaf, name: str) -> Any:
    """Returns what is decoded where a record lacks a feature; `_ERROR` where that is an error."""
    try:
        return feature.missing(name)()
    except FeatureError:
        return _ERROR


def _is_number(feature: Leaf) -> bool:
    """Returns whether a leaf is a single number that is stored as it is."""
    return isinstance(feature, ClassLabel) or (
        isinstance(feature, Tensor) and feature.scalar_kind in ("float", "int64")
    )


def _is_string(feature: Leaf) -> bool:
    """Returns whether a leaf is a single string."""
    return isinstance(feature, Tensor) and feature.scalar_kind == "bytes"


def _plain(feature: Leaf) -> tuple[Any, tuple[int, ...]] | None:
    """Returns the dtype and the shape of an array that is stored as it is; None for others."""
    if not isinstance(feature, Tensor) or type(feature).codec is not Tensor.codec:
        return None
    is_plain = feature.encoding is Encoding.NONE and feature.dtype in STORED and None not in feature.shape
    return (feature.dtype, feature.shape) if is_plain else None  # type: ignore[return-value]


def _decoded_size(feature: Any) -> int | None:
    """Returns how many bytes the values of a leaf have; None where that is not known."""
    if not isinstance(feature, (Image, Tensor)):
        return None
    count = size_of(feature.shape or (None,))
    return None if count is None else count * feature.dtype.itemsize


def _is_dynamic(feature: FeatureConnector) -> bool:
    return isinstance(feature, Tensor) and feature.is_dynamic


def _schema(groups: list[Group]) -> Any:
    """Returns the native schema of groups; None where there cannot be one."""
    if core is None:
        return None
    try:
        return core.schema(tuple(group.described() for group in groups))
    except ValueError:  # two features have the same name in the record
        return None


def _numbered(place: Place, firsts: list[int]) -> Numbers:
    """Returns the places as numbers among all features, where each group's begin with one of `firsts`."""
    if isinstance(place, tuple):
        return firsts[place[0]] + place[1]
    return {key: _numbered(child, firsts) for key, child in place.items()}


def _rows_arranger(numbers: Numbers) -> Callable[[list[Any], int], list[Any]]:
    """Returns the function from the values of all features to the examples of n records."""
    if isinstance(numbers, int):
        return lambda columns, n: columns[numbers]
    keys, parts = tuple(numbers), list(map(_rows_arranger, numbers.values()))
    flat = [number for number in numbers.values() if isinstance(number, int)]
    if len(flat) == len(numbers) > 1:
        get = itemgetter(*flat)
        return lambda columns, n: core.examples(keys, get(columns), n)  # type: ignore[union-attr]
    return lambda columns, n: core.examples(keys, tuple([part(columns, n) for part in parts]), n)  # type: ignore[union-attr]


def _batch_arranger(numbers: Numbers) -> Callable[[list[Any], int], Any]:
    """Returns the function from the arrays of all features to the batch of n records."""
    if isinstance(numbers, int):
        return lambda columns, n: columns[numbers]
    parts = [(key, _batch_arranger(child)) for key, child in numbers.items()]
    return lambda columns, n: {key: part(columns, n) for key, part in parts}
