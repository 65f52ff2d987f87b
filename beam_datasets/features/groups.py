"""What the native module finds of a feature in many records, made into values: one a record, or one array of them all.

A group is a set of features that `native.core.parse` reads in one piece; its functions `rows` and `batch` take what
that returned. The values are those that the features' own decoders make of each record; where they could not be, an
error is raised, and the caller decodes the records one by one, which says whose fault it is.
"""

from __future__ import annotations

import abc
import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.features.image_codec import decode_into
from beam_datasets.features.numbers import lift
from beam_datasets.features.raw import objects
from beam_datasets.features.stacking import KEEP, stack_decoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from beam_datasets.features.base import Decode
    from beam_datasets.features.leaf import Codec

KINDS = {"bytes": 0x0A, "float": 0x12, "int64": 0x1A}  # the tags of lists
ANY, PADDED = -1, -2  # counts

_FLOATS = KINDS["float"]
_FLOAT, _INTEGER = np.dtype(np.float32), np.dtype(np.int64)
STORED = (_FLOAT, _INTEGER, np.dtype(np.uint64))
"""The dtypes whose arrays are the bytes that are found."""


class UnusualError(ValueError):
    """Records are not of the form that is decoded at once."""


@dataclass
class Group(abc.ABC):
    """Features that are read in one piece.

    Attributes:
        names: of the features, in the record.
        kind: of their lists; 0 where features are only to be found.
        count: of values in each record; or `ANY`, `PADDED`.
        optional: whether records may lack them.
        pad: see `stack`.
        is_small: whether a value is known to be not much larger than its record, or than a few kilobytes.
        fills: for batches: by name, what is put in the place of None; None if that stays.
    """

    names: list[str]
    kind: int
    count: int = 1
    optional: bool = False
    pad: bool = False
    is_small: bool = True
    fills: dict[str, Any] | None = field(default=None, init=False)

    @property
    def width(self) -> int:
        """How many features there are."""
        return len(self.names)

    @abc.abstractmethod
    def rows(self, found: Any, n: int) -> list[list[Any]]:
        """Returns for each feature its values in n records."""

    def one(self, found: Any) -> list[Any]:
        """Returns for each feature its value in the only record."""
        return [values[0] for values in self.rows(found, 1)]

    def maker_of_one(self) -> Callable[[Any], Any] | None:
        """Returns `one`, or what does the same with fewer steps; None where what is found are the values."""
        return self.one

    def batch(self, found: Any, n: int) -> list[Any]:
        """Returns for each feature the array of its values in n records."""
        fills = [(path, KEEP if self.fills is None else self.fills[path]) for path in self._paths()]
        columns = zip(self.rows(found, n), fills)
        return [stack_decoded(values, pad=self.pad, path=path, fill=fill) for values, (path, fill) in columns]

    def _paths(self) -> list[str]:
        """Returns the features' names, where they are in the record or below."""
        return self.names

    def described(self) -> tuple[int, int, bool, tuple[bytes, ...]]:
        """Returns the group as `native.core.schema` takes it."""
        return self.kind, self.count, self.optional, tuple(name.encode() for name in self.names)


@dataclass
class Scalars(Group):
    """Single numbers of one dtype."""

    dtype: Any = None

    def __post_init__(self) -> None:
        self._lift = lift(self.dtype, "")

    def rows(self, found: Any, n: int) -> list[list[Any]]:
        """Returns NumPy scalars."""
        found, missing = found if self.optional else (found, ())
        values = list(map(list, self._lift(_numbers(found, self.kind)).reshape(-1, n)))
        for feature, record in missing:
            values[feature][record] = None
        return values

    def one(self, found: Any) -> list[Any]:
        """Returns NumPy scalars."""
        found, missing = found if self.optional else (found, ())
        values = list(self._lift(_numbers(found, self.kind)))
        for feature, _ in missing:
            values[feature] = None
        return values

    def maker_of_one(self) -> Callable[[Any], Any]:
        """Returns the function that makes an array of NumPy scalars, where they are stored as they are; else `one`."""
        is_plain = not self.optional and self.dtype in STORED
        return functools.partial(np.frombuffer, dtype=self.dtype) if is_plain else self.one

    def batch(self, found: Any, n: int) -> list[Any]:
        """Returns the rows of one array."""
        found, missing = found if self.optional else (found, ())
        if missing and self.fills is None:
            return super().batch((found, missing), n)
        numbers = self._lift(_numbers(found, self.kind)).reshape(-1, n)
        for feature, record in missing:
            numbers[feature, record] = self.fills[self.names[feature]]  # type: ignore[index]
        return list(numbers)


@dataclass
class Arrays(Group):
    """An array of numbers of a fixed shape.

    Attributes:
        codec: of the feature.
        plain: dtype and shape of the array, where it is what is stored.
    """

    codec: Codec = field(kw_only=True)
    plain: tuple[np.dtype[Any], tuple[int, ...]] | None = None

    def rows(self, found: Any, n: int) -> list[list[Any]]:
        """Returns arrays of their own."""
        found, missing = found if self.optional else (found, ())
        values = _own(self.codec.unpack_many(_numbers(found, self.kind)))
        for _, record in missing:
            values[record] = None
        return [values]

    def one(self, found: Any) -> list[Any]:
        """Returns an array."""
        found, missing = found if self.optional else (found, ())
        return [None if missing else self.codec.unpack(_numbers(found, self.kind))]

    def maker_of_one(self) -> Callable[[Any], Any]:
        """Returns `one`, or what does the same with fewer steps."""
        if self.plain is None or self.optional:
            return self.one
        dtype, shape = self.plain
        return lambda found: (np.frombuffer(found, dtype).reshape(shape),)

    def batch(self, found: Any, n: int) -> list[Any]:
        """Returns one array."""
        found, missing = found if self.optional else (found, ())
        if missing and self.fills is None:
            return super().batch((found, missing), n)
        arrays = self.codec.unpack_many(_numbers(found, self.kind))
        for _, record in missing:
            arrays[record] = self.fills[self.names[0]]  # type: ignore[index]
        return [arrays]


@dataclass
class Sequences(Group):
    """Any number of items, which are numbers or arrays of a fixed shape.

    Attributes:
        codec: of an item.
        length: how many items there are, where that is fixed.
        plain: see `Arrays`; of an item.
    """

    codec: Codec = field(kw_only=True)
    length: int | None = None
    plain: tuple[np.dtype[Any], tuple[int, ...]] | None = None

    def rows(self, found: Any, n: int) -> list[list[Any]]:
        """Returns arrays of their own."""
        numbers, counts = found
        items, ends = self._items(numbers), np.cumsum(self._counts(counts)).tolist()
        return [[items[start:stop].copy() for start, stop in zip([0, *ends], ends)]]

    def one(self, found: Any) -> list[Any]:
        """Returns an array."""
        items = self._items(found[0])
        if self.length not in (None, len(items)):
            raise UnusualError
        return [items]

    def maker_of_one(self) -> Callable[[Any], Any]:
        """Returns `one`, or what does the same with fewer steps."""
        if self.plain is None or self.plain[1] or self.length is not None:
            return self.one
        dtype = self.plain[0]
        return lambda found: (np.frombuffer(found[0], dtype) if found[0] else np.empty(0, dtype),)

    def batch(self, found: Any, n: int) -> list[Any]:
        """Returns one array, where all have as many items or are filled up."""
        numbers, counts = found
        lengths, items = self._counts(counts), self._items(numbers)
        if not self.pad and (lengths != lengths[0]).any():
            raise UnusualError
        return [items.reshape(n, int(lengths.max()), *items.shape[1:])]

    def _items(self, numbers: bytearray) -> NDArray[Any]:
        return self.codec.unpack_many(_numbers(numbers, self.kind))  # type: ignore[no-any-return]

    def _counts(self, counts: bytearray) -> NDArray[np.int64]:
        """Returns how many items each record has."""
        items, rest = np.divmod(_counts(counts).clip(0), self.codec.size or 1)
        if rest.any() or (self.length is not None and (items != self.length).any()):
            raise UnusualError
        return items


@dataclass
class Lists(Group):
    """Any number of stored values, of which a function makes a value."""

    unpack: Callable[[Any], Any] = field(kw_only=True)
    missing: Callable[[], Any] = field(kw_only=True)
    length: int | None = None

    def rows(self, found: Any, n: int) -> list[list[Any]]:
        """Returns what the function makes."""
        stored, counts = found
        lists = stored if isinstance(stored, list) else _numbers(stored, self.kind)
        values, start = [], 0
        for count in _counts(counts).tolist():
            stop = start + max(count, 0)
            values.append(self._value(lists[start:stop].copy()) if count >= 0 else self.missing())
            start = stop
        return [values]

    def _value(self, stored: Any) -> Any:
        value = self.unpack(stored)
        if self.length is not None and len(value) != self.length:
            raise UnusualError
        return value


@dataclass
class Texts(Group):
    """Single strings."""

    def rows(self, found: Any, n: int) -> list[list[Any]]:
        """Returns bytes, None where they are missing."""
        return [found]

    def maker_of_one(self) -> None:
        """Returns None: the list of what is found has one value for each feature."""

    def batch(self, found: Any, n: int) -> list[Any]:
        """Returns an array of objects."""
        fill = None if self.fills is None else self.fills[self.names[0]]
        return [objects(found if fill is None else [fill if text is None else text for text in found])]


@dataclass
class Files(Group):
    """Values that are stored as one value of bytes each, as compressed arrays."""

    unpack: Callable[[bytes], Any] = field(kw_only=True)

    def rows(self, found: Any, n: int) -> list[list[Any]]:
        """Returns what is in the files, None where they are missing."""
        unpack = self.unpack
        return [[None if data is None else unpack(data) for data in found]]

    def one(self, found: Any) -> list[Any]:
        """Returns what is in the file, None where it is missing."""
        return [None if found[0] is None else self.unpack(found[0])]


@dataclass
class Images(Files):
    """Images of one shape and dtype."""

    shape: tuple[int, int, int] = field(kw_only=True)
    dtype: np.dtype[Any] = field(kw_only=True)

    def batch(self, found: Any, n: int) -> list[Any]:
        """Returns one array, into which the files are decoded."""
        if None in found:
            return super().batch(found, n)
        pixels = np.empty((n, *self.shape), self.dtype)
        for data, target in zip(found, pixels[..., 0] if self.shape[2] == 1 else pixels):
            if not decode_into(data, target):
                target[...] = self.unpack(data).reshape(target.shape)
        return [pixels]


@dataclass
class Others(Group):
    """Features that are decoded record by record."""

    decoders: list[Decode] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def _paths(self) -> list[str]:
        return self.paths

    @property
    def width(self) -> int:
        """How many features there are."""
        return len(self.decoders)

    def rows(self, found: Any, n: int) -> list[list[Any]]:
        """Returns what the decoders make."""
        return [[decode(data, spans) for data, spans in found] for decode in self.decoders]


def _numbers(found: bytearray, kind: int) -> NDArray[Any]:
    """Returns the array of numbers that were found."""
    dtype: Any = _FLOAT if kind == _FLOATS else _INTEGER
    return np.frombuffer(found, dtype) if found else np.empty(0, dtype)


def _counts(counts: bytearray) -> NDArray[np.int64]:
    """Returns how many values each record has; -1 where it lacks the feature."""
    return np.frombuffer(counts, np.int64)


def _own(array: NDArray[Any]) -> list[Any]:
    """Returns the rows of an array, each as one that does not keep the others in memory."""
    return [row.copy() for row in array]
