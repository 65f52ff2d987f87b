"""Hypothesis strategies: features, values of them, and what these are decoded to."""

from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from beam_datasets import features as F

DTYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
)


class Sample(NamedTuple):
    """A feature, and for some values what is encoded and what it is decoded to."""

    feature: Any
    values: list[Any]
    decoded: list[Any]


def elements(dtype: Any) -> Any:
    """Numbers that a dtype holds, and a record too: float64 is stored as float32."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return st.floats(width=16 if dtype == np.float16 else 32, allow_nan=False).map(dtype.type)
    return st_numpy.from_dtype(dtype)


@st.composite
def numbers(draw: Any, count: int, fixed: bool = False) -> Sample:
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st_numpy.array_shapes(min_dims=0, max_dims=3, min_side=int(fixed), max_side=3))
    encoding = draw(st.sampled_from(["none", "none", "bytes", "zlib"]))
    unknown = (
        0 if fixed or 0 in shape else draw(st.integers(0, len(shape) if encoding != "none" else min(len(shape), 1)))
    )
    declared = tuple(None if i < unknown else length for i, length in enumerate(shape))
    array = st_numpy.arrays(dtype, shape, elements=elements(dtype))
    values = draw(st.lists(array, min_size=count, max_size=count))
    feature = F.Tensor(shape=declared, dtype=dtype, encoding=encoding)
    return Sample(feature, values, [value if shape else value[()] for value in values])


@st.composite
def texts(draw: Any, count: int) -> Sample:
    values = draw(st.lists(st.text(max_size=20) | st.binary(max_size=200), min_size=count, max_size=count))
    return Sample(F.Text(), values, [v.encode() if isinstance(v, str) else v for v in values])


@st.composite
def labels(draw: Any, count: int) -> Sample:
    names = draw(st.lists(st.text("abcdé", min_size=1, max_size=5), min_size=1, max_size=4, unique=True))
    values = draw(st.lists(st.integers(-1, len(names) - 1) | st.sampled_from(names), min_size=count, max_size=count))
    return Sample(
        F.ClassLabel(names=names), values, [np.int64(names.index(v) if isinstance(v, str) else v) for v in values]
    )


@st.composite
def images(draw: Any, count: int) -> Sample:
    dtype, channels = draw(
        st.sampled_from(
            [("uint8", 1), ("uint8", 2), ("uint8", 3), ("uint8", 4), ("uint16", 1), ("uint16", 3), ("float32", 1)]
        )
    )
    shape = (draw(st.integers(1, 5)), draw(st.integers(1, 5)), channels)
    values = draw(st.lists(st_numpy.arrays(dtype, shape, elements=elements(dtype)), min_size=count, max_size=count))
    return Sample(F.Image(shape=(None, *shape[1:]), dtype=dtype), values, values)


@st.composite
def boxes(draw: Any, count: int) -> Sample:
    side = st.floats(0, 1, width=32)
    low_high = st.tuples(side, side).map(sorted)
    pairs = draw(st.lists(st.tuples(low_high, low_high), min_size=count, max_size=count))
    values = [F.BBox(y[0], x[0], y[1], x[1]) for y, x in pairs]
    return Sample(F.BBoxFeature(), values, [np.array(value, np.float32) for value in values])


def leaves(count: int, fixed: bool = False) -> Any:
    """Features that are stored as one list, with `count` values; of one shape each, if `fixed`."""
    return st.one_of(numbers(count, fixed), texts(count), labels(count), boxes(count))


NAMES = st.text("abcXYZ019_-.é ", max_size=4)


@st.composite
def dicts(draw: Any, count: int, depth: int = 2) -> Sample:
    """A FeaturesDict, and values of it."""
    inner = leaves(count) | images(count) | optionals(count) | sequences(count)
    if depth:
        inner = inner | dicts(count, depth - 1)
    fields = draw(st.dictionaries(NAMES, inner, max_size=5))
    return Sample(F.FeaturesDict({name: f.feature for name, f in fields.items()}), *rows(fields, count))


def rows(fields: dict[str, Sample], count: int) -> tuple[list[Any], list[Any]]:
    """Columns of values as rows: what is encoded, and what it is decoded to."""
    values = [{name: f.values[i] for name, f in fields.items()} for i in range(count)]
    return values, [{name: fields[name].decoded[i] for name in sorted(fields)} for i in range(count)]


@st.composite
def optionals(draw: Any, count: int) -> Sample:
    value = st.none() | st.integers(-(2**31), 2**31 - 1)
    values = draw(st.lists(value, min_size=count, max_size=count))
    return Sample(F.Scalar(np.int32, optional=True), values, [v if v is None else np.int32(v) for v in values])


@st.composite
def sequences(draw: Any, count: int) -> Sample:
    """Sequences of leaves and of sequences of leaves, and values of them."""
    lengths = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    inner = draw(leaves(sum(lengths), fixed=True))
    if draw(st.booleans()):
        return Sample(
            F.Sequence(inner.feature),
            split(inner.values, lengths),
            [as_array(inner.feature, row) for row in split(inner.decoded, lengths)],
        )
    outer = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    lengths = draw(st.lists(st.integers(0, 2), min_size=sum(outer), max_size=sum(outer)))
    inner = draw(leaves(sum(lengths), fixed=True))
    values = split(split(inner.values, lengths), outer)
    arrays = [
        as_array(inner.feature, list(chain.from_iterable(rows))) for rows in split(split(inner.decoded, lengths), outer)
    ]
    row_lengths = [np.array(row, np.int64) for row in split(lengths, outer)]
    decoded = [F.RaggedArray(array, (row,)) for array, row in zip(arrays, row_lengths)]
    return Sample(F.Sequence(F.Sequence(inner.feature)), values, decoded)


def split(items: list[Any], lengths: list[int]) -> list[list[Any]]:
    """Consecutive rows of given lengths."""
    ends = np.cumsum([0, *lengths]).tolist()
    return [items[start:stop] for start, stop in pairwise(ends)]


def as_array(feature: Any, items: list[Any]) -> Any:
    """Decoded items as the array that a sequence of them is decoded to."""
    if not items:
        return np.empty((0, *feature.shape), feature.dtype)
    if isinstance(feature, F.Text):
        array = np.empty(len(items), object)
        array[:] = items
        return array
    return np.stack([np.asarray(item, feature.dtype) for item in items])


def examples() -> Any:
    """Features of a dataset, with three examples."""
    return dicts(3)


def assert_equal(got: Any, want: Any, path: str = "") -> None:
    """Asserts that a decoded value is the expected one, to the type and the bit (of NaN too)."""
    if isinstance(want, dict):
        assert isinstance(got, dict), path
        assert list(got) == list(want), path
        for key in want:
            assert_equal(got[key], want[key], f"{path}/{key}")
    elif isinstance(want, F.RaggedArray):
        assert isinstance(got, F.RaggedArray), path
        for a, b in zip((got.flat_values, *got.row_lengths), (want.flat_values, *want.row_lengths)):
            assert_equal(a, b, path)
    elif isinstance(want, (F.NestedDataset, list)):
        assert (type(got), len(got)) == (type(want), len(want)), path
        for a, b in zip(got, want):
            assert_equal(a, b, path)
    elif isinstance(want, (np.ndarray, np.generic)):
        assert (type(got), got.dtype, got.shape) == (type(want), want.dtype, want.shape), path
        if want.dtype == object:
            for a, b in zip(got.flat, want.flat):
                assert_equal(a, b, path)
        elif want.dtype == np.float16:  # which bits a NaN has after a conversion depends on the processor's path
            np.testing.assert_array_equal(got, want, err_msg=path)
        else:
            assert got.tobytes() == want.tobytes(), path
    else:
        assert got == want, path
        assert type(got) is type(want), path
