"""Values that stand for missing ones where arrays are made, the same in every batch of a dataset.

An example has None where a record lacks an optional feature. No array of numbers holds that, so what makes batches puts
another value in its place: one that the frameworks take, and that is distinguishable as far as the dtype allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from beam_datasets.errors import FeatureError
from beam_datasets.features.class_label import ClassLabel
from beam_datasets.features.dtypes import STRING
from beam_datasets.features.features_dict import FeaturesDict, join
from beam_datasets.features.numbers import array_maker
from beam_datasets.features.raw import to_bytes
from beam_datasets.features.tensor import Tensor, Text

if TYPE_CHECKING:
    from beam_datasets.features.base import FeatureConnector

Nest: TypeAlias = "dict[str, Nest] | tuple[Nest, ...] | Any"
"""Values in the structure of the examples; None for features that cannot be missing."""


def default_fill(dtype: np.dtype[Any]) -> Any:
    """Returns what stands for a missing value of a dtype.

    NaN for floats; for signed integers the least number, but at least that of int32, because JAX keeps 32 bits of an
    int64 by default; for unsigned ones the greatest; False and b''.

    >>> default_fill(np.dtype("int64")), default_fill(np.dtype("uint8")), default_fill(np.dtype("float32"))
    (-2147483648, 255, nan)
    """
    if dtype == STRING:
        return b""
    if dtype.kind == "b":
        return False
    if dtype.kind == "u":
        return int(np.iinfo(dtype).max)
    return max(int(np.iinfo(dtype).min), -(2**31)) if dtype.kind == "i" else float("nan")


@dataclass(frozen=True, eq=False)
class Fill:
    """What is put in the place of missing values.

    Attributes:
        values: a nest of what is put in the place of None.
        labels: a nest of what is put in the place of -1, where that was asked for.
    """

    values: Nest = None
    labels: Nest = None

    def example_filler(self) -> Callable[[Any], Any] | None:
        """Returns the function from an example to the same with nothing missing; None if there is nothing to do."""
        fill, relabel = _filler(self.values), self.relabeler()
        if fill is None or relabel is None:
            return fill or relabel
        return lambda example: relabel(fill(example))

    def relabeler(self) -> Callable[[Any], Any] | None:
        """Returns the function that replaces -1 in labels of an example or a batch; None if there is nothing to do."""
        return _replacer(self.labels, lambda given, label: np.where(given == -1, label, given)[()])


def _filler(values: Nest) -> Callable[[Any], Any] | None:
    return _replacer(values, lambda given, value: value if given is None else given)


def _replacer(nest: Nest, replace: Callable[[Any, Any], Any]) -> Callable[[Any], Any] | None:
    """Returns the function that replaces the values of an example, or a batch, for which the nest has another."""
    if nest is None:
        return None
    if not isinstance(nest, (dict, tuple)):
        return lambda given: replace(given, nest)
    items = nest.items() if isinstance(nest, dict) else enumerate(nest)
    parts = [(key, part) for key, inner in items if (part := _replacer(inner, replace)) is not None]
    if not parts:
        return None

    def each(example: Any) -> Any:
        if isinstance(example, dict) and isinstance(nest, dict):
            return {**example, **{key: part(example[key]) for key, part in parts if key in example}}
        if isinstance(example, tuple) and isinstance(nest, tuple) and len(example) == len(nest):
            replaced = dict(parts)
            return tuple([replaced[i](value) if i in replaced else value for i, value in enumerate(example)])
        return example  # a function of map() made something else of it

    return each


def fill_of(feature: FeatureConnector | None, fill: Any = None, *, is_mapped: bool = False) -> Fill:
    """Returns what is put in the place of the missing values of examples.

    Args:
        feature: what the examples are decoded from; None if that is not known.
        fill: a value for all features of its kind (numbers, bools, text) that may be missing, or a dict from their
            names (`a/b` for b below a) to values, where a class label's replaces -1; None for the defaults.
        is_mapped: whether functions change the examples, so that there may be others than these features.

    Raises:
        ValueError: a name is of no such feature.
        FeatureError: a value does not fit its feature.
    """
    leaves = {} if feature is None else dict(_leaves(feature))
    optional = {path: leaf for path, leaf in leaves.items() if isinstance(leaf, Tensor)}
    values: dict[str, Any] = {path: _value_of(leaf, default_fill(leaf.dtype)) for path, leaf in optional.items()}
    labels = {}
    if isinstance(fill, Mapping):
        for path, value in fill.items():
            leaf = leaves.get(path)
            if isinstance(leaf, ClassLabel):
                labels[path] = _checked(array_maker(leaf.dtype, (), path), value)[()]
            elif isinstance(leaf, Tensor):
                values[path] = _checked(_given, leaf, value, path)
            elif is_mapped:
                values[path] = value if isinstance(value, (bytes, str)) else np.asarray(value)[()]
            else:
                raise ValueError(f"fill names {path!r}, which cannot be missing. {_which(optional)}")
    elif fill is not None:
        kind = STRING if isinstance(fill, (str, bytes)) else np.bool_ if isinstance(fill, (bool, np.bool_)) else None
        wanted = {path: leaf for path, leaf in optional.items() if kind == _kind(leaf)}
        if not wanted:
            raise ValueError(f"fill={fill!r} fits no feature that may be missing. {_which(optional)}")
        for path, leaf in wanted.items():
            if None not in leaf.shape:
                values[path] = _checked(_given, leaf, fill, path)
    return Fill(_nested(feature, values), _nested(feature, labels))


def _leaves(feature: FeatureConnector, path: str = "") -> Iterator[tuple[str, Tensor | ClassLabel]]:
    """Yields the features that may be missing, and the class labels, by name."""
    if isinstance(feature, FeaturesDict):
        for key, child in feature.items():
            yield from _leaves(child, join(path, key))
    elif isinstance(feature, ClassLabel) or (
        isinstance(feature, Tensor) and (feature.optional or type(feature) is Text)
    ):
        yield path, feature


def _nested(feature: FeatureConnector | None, values: Mapping[str, Any]) -> Nest:
    """Returns values by name as a nest, with all names of the features."""

    def nest(feature: FeatureConnector | None, path: str, rest: dict[str, Any]) -> Nest:
        if not isinstance(feature, FeaturesDict):
            return rest.pop(path, None)
        return {key: nest(child, join(path, key), rest) for key, child in feature.items()}

    rest = dict(values)
    made = nest(feature, "", rest)
    for path, value in rest.items():  # what functions make
        *steps, last = path.split("/")
        made = inner = made if isinstance(made, dict) else {}
        for step in steps:
            if not isinstance(inner.get(step), dict):
                inner[step] = {}
            inner = inner[step]
        inner[last] = value
    return made


def _given(leaf: Tensor, value: Any, path: str) -> Any:
    """Returns a value that the caller gave for a feature, which is one for all numbers or strings of an array too."""
    if leaf.dtype == STRING:
        return _value_of(leaf, to_bytes(value, path))
    is_one_for_all = np.ndim(value) == 0 and None not in leaf.shape
    shape = () if is_one_for_all else leaf.shape
    made = array_maker(leaf.dtype, shape, path, allow_rounding=leaf.dtype.kind not in "biu")(value)
    return _value_of(leaf, made[()]) if is_one_for_all else made


def _value_of(leaf: Tensor, value: Any) -> Any:
    """Returns a number or string as a value of the feature; dimensions of any length have none."""
    if leaf.shape:
        return np.full([length or 0 for length in leaf.shape], value, leaf.dtype)
    return value if leaf.dtype == STRING else leaf.dtype.type(value)


def _checked(make: Callable[..., Any], *args: Any) -> Any:
    try:
        return make(*args)
    except FeatureError as error:
        error.args = (f"fill: {error}",)
        raise


def _kind(leaf: Tensor) -> Any:
    """Returns the dtype of strings and bools, None for all numbers."""
    return leaf.dtype if leaf.dtype in (STRING, np.dtype(np.bool_)) else None


def _which(optional: Mapping[str, Any]) -> str:
    return (
        f"These may be missing: {', '.join(map(repr, optional))}" if optional else "None of the features may be missing"
    )
