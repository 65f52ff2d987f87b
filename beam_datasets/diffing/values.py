"""Whether two records are read alike: by the features stored in them, or by the values that are decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.diffing.features import readable
from beam_datasets.features import RaggedArray, UnknownFeature, compile_decoder
from beam_datasets.features.tree import below, innermost
from beam_datasets.formats.example import spans_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from beam_datasets.diffing.features import Comparison
    from beam_datasets.features.base import FeatureConnector
    from beam_datasets.formats.example import Buffer


@dataclass(frozen=True)
class Reader:
    """How examples of two versions are read.

    Attributes:
        old: the old version's features.
        new: the new version's features.
        shared: how the two compare.
    """

    old: FeatureConnector
    new: FeatureConnector
    shared: Comparison

    @cached_property
    def _names(self) -> frozenset[bytes]:
        """What the features that both versions read alike are called in the old version's records."""
        return _wire_names(self.shared.old)

    @cached_property
    def _unknown(self) -> tuple[bytes, ...]:
        """What the names of features of unknown classes begin with: only their own class knows all of them."""
        found = below(self.shared.old) if self.shared.old is not None else []
        return tuple(f"{name}/".encode() for name, _, one in found if isinstance(innermost(one), UnknownFeature))

    @cached_property
    def _compare_stored(self) -> bool:
        """Whether equal features in the records mean equal values."""
        return self.shared.stored_alike and self._names == _wire_names(self.shared.new)

    @property
    def is_partial(self) -> bool:
        """Whether values are not compared: of features whose type changed, or of all where the versions share none."""
        return self.shared.old is None or any(change.kind == "changed" for change in self.shared.changes)

    @property
    def stores_all_alike(self) -> bool:
        """Whether the new version stores all that the old one has, in the same form."""
        return all(change.kind in ("added", "documented") for change in self.shared.changes)

    @cached_property
    def _decoders(self) -> tuple[Callable[[Buffer], Any], Callable[[Buffer], Any]]:
        return _decoder(self.shared.old), _decoder(self.shared.new)

    @cached_property
    def decode_old(self) -> Callable[[Buffer], dict[str, Any]]:
        """The function from a record of the old version to {path: value}."""
        return _flat(_decoder(self.old))

    @cached_property
    def decode_new(self) -> Callable[[Buffer], dict[str, Any]]:
        """The function from a record of the new version to {path: value}."""
        return _flat(_decoder(self.new))

    def alike(self, old: Buffer, new: Buffer) -> bool:
        """Returns whether what both versions have of two examples is read as the same values, bit by bit.

        Raises:
            FeatureError: a record cannot be decoded.
            ExampleError: a record is not a serialized Example.
        """
        if self.shared.old is None:
            return True
        if self._compare_stored and self.features_of(old) == self.features_of(new):
            return True
        decode_old, decode_new = self._decoders
        return identical(decode_old(old), decode_new(new))

    def features_of(self, record: Buffer) -> dict[bytes, bytes]:
        """Returns what a record stores of the features that both versions read alike, by their names in it.

        Raises:
            ExampleError: it is not a serialized Example.
        """
        whole, spans = spans_of(record)
        return {
            name: whole[start:stop]
            for name, (start, stop) in spans.items()
            if name in self._names or name.startswith(self._unknown)
        }

    def differences(self, old: Buffer, new: Buffer) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns what is read differently of two examples: {path: value} of the old one, and of the new one."""
        one, other = (dict(leaves(decode(data))) for decode, data in zip(self._decoders, (old, new)))
        differing = [path for path in {**one, **other} if not identical(one.get(path), other.get(path))]
        return {path: one.get(path) for path in differing}, {path: other.get(path) for path in differing}


def _wire_names(feature: FeatureConnector | None) -> frozenset[bytes]:
    return frozenset(name.encode() for name in feature.wire_names("")) if feature is not None else frozenset()


def _decoder(feature: FeatureConnector | None) -> Callable[[Buffer], Any]:
    return compile_decoder(readable(feature)) if feature is not None else lambda record: {}


def _flat(decode: Callable[[Buffer], Any]) -> Callable[[Buffer], dict[str, Any]]:
    return lambda record: dict(leaves(decode(record)))


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields (path, value) of all that is in nested dicts.

    >>> dict(leaves({"a": 1, "b": {"c": 2}}))
    {'a': 1, 'b/c': 2}
    """
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, f"{path}/{name}" if path else str(name))
    else:
        yield path, value


def identical(one: Any, other: Any) -> bool:
    """Returns whether two decoded values are the same in type, shape and bits: NaN is itself, and 0.0 is not -0.0.

    >>> identical({"a": np.float32(np.nan)}, {"a": np.float32(np.nan)}), identical(np.int64(1), np.int32(1))
    (True, False)
    """
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(identical(one[k], other[k]) for k in one)
    if isinstance(one, (np.ndarray, np.generic)):
        return isinstance(other, (np.ndarray, np.generic)) and _same_arrays(np.asarray(one), np.asarray(other))
    if isinstance(one, RaggedArray):
        return isinstance(other, RaggedArray) and _same_ragged(one, other)
    if isinstance(one, Sequence) and not isinstance(one, (str, bytes)):
        return type(one) is type(other) and len(one) == len(other) and all(map(identical, one, other))
    return type(one) is type(other) and bool(one == other)


def _same_arrays(one: Any, other: Any) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.hasobject:
        return all(map(identical, one.ravel().tolist(), other.ravel().tolist()))
    return bool(one.tobytes() == other.tobytes())


def _same_ragged(one: RaggedArray, other: RaggedArray) -> bool:
    if len(one.row_lengths) != len(other.row_lengths):
        return False
    same_rows = all(np.array_equal(a, b) for a, b in zip(one.row_lengths, other.row_lengths))
    return same_rows and identical(one.flat_values, other.flat_values)
