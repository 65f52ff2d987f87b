"""Batches: arrays of several examples, with one more dimension, and fill values for missing values.

An example contains None if a record lacks an optional feature. An array of numbers cannot contain None, so a batch
contains a fill value instead. It is the same in all batches of a dataset, is accepted by the frameworks, and differs
from other values as far as the dtype allows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from beam_datasets.arguments import integer
from beam_datasets.errors import FeatureError, FeatureName, FeatureValueError, did_you_mean, shown_name
from beam_datasets.features.base import FeatureConnector
from beam_datasets.features.class_label import ClassLabel
from beam_datasets.features.dtypes import STRING
from beam_datasets.features.features_dict import FeaturesDict, join
from beam_datasets.features.numbers import array_maker
from beam_datasets.features.ragged import RaggedArray
from beam_datasets.features.raw import to_bytes, to_object_array, to_str
from beam_datasets.features.tensor import Tensor, Text
from beam_datasets.features.trees import display_names, record_name

Nest: TypeAlias = "dict[str, Nest] | tuple[Nest, ...] | Any"
"""Values in the structure of an example; None for features that have no such value."""


def default_fill(dtype: np.dtype[Any]) -> Any:
    """Returns the default fill value of a dtype.

    It is NaN for floats; the least integer for signed integers, but that of int32 for int64, because JAX keeps 32 bits
    by default; the greatest integer for unsigned integers; False for bools; and b'' for strings.

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


def return_unchanged(value: Any) -> Any:
    """Returns the value itself: the replacer of a nest without values, which callers can skip."""
    return value


@dataclass(frozen=True, eq=False)
class Fill:
    """Fill values for missing values of examples, each by the name of its feature with slashes.

    Attributes:
        values: the values that replace None.
        labels: the values that replace -1 in class labels.
        arrays: True for each number of an example that is converted to an array of shape ().
        feature: the features of the examples; None if they are unknown.
        defaults: the names of integers and bools with a default value, which a model cannot tell from their numbers;
            none if functions change the examples.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Any] = field(default_factory=dict)
    feature: FeatureConnector | None = None
    defaults: tuple[str, ...] = ()

    def example_filler(self, pick: Callable[[Any], Any] = return_unchanged) -> Callable[[Any], Any]:
        """Returns the function from an example to the example without missing values.

        The function is `return_unchanged` if nothing can be missing.

        Args:
            pick: the function that brings a nest in the structure of an example into that of the given examples.
        """
        fill = self._replacer(self.values, pick, lambda value, fill: fill if value is None else value)
        wrap = self._replacer(
            self.arrays, pick, lambda value, _: np.asarray(value) if isinstance(value, np.generic) else value
        )
        first, *following = [step for step in (fill, self.relabeler(pick), wrap) if step is not return_unchanged] or [
            return_unchanged
        ]
        return functools.reduce(lambda inner, outer: lambda example: outer(inner(example)), following, first)

    def relabeler(self, pick: Callable[[Any], Any] = return_unchanged) -> Callable[[Any], Any]:
        """Returns the function that replaces -1 in the class labels of an example or a batch.

        The function is `return_unchanged` if `labels` has no values. For the argument, see `example_filler`.
        """
        if not self.labels:
            return return_unchanged
        return self._replacer(self.labels, pick, lambda labels, label: np.where(labels == -1, label, labels)[()])

    def _replacer(
        self, values: Mapping[str, Any], pick: Callable[[Any], Any], replace: Callable[[Any, Any], Any]
    ) -> Callable[[Any], Any]:
        """Returns the function that replaces the values of the named features of an example or a batch.

        Args:
            values: feature name -> the second argument of `replace`; for {}, the function is `return_unchanged`.
            pick: see `example_filler`.
            replace: the function of (value in the example, value of `values`) that returns the new value.
        """
        return _build_replacer(self.nest(values, pick), replace) if values else return_unchanged

    def nest(self, values: Mapping[str, Any], pick: Callable[[Any], Any]) -> Nest:
        """Returns `pick(nest)` for the nest of values, such as {'a': {'b': 1, 'c': None}} for {'a/b': 1}.

        Returns None if there are no values and the features are unknown.

        Args:
            values: feature name with slashes -> value; a feature without a value is None in the nest.
            pick: converts the nest of all features to the structure of the examples; see `example_filler`.
        """
        nest = _nest_by_feature(self.feature, values)
        return None if nest is None else pick(nest)


def _build_replacer(nest: Nest, replace: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """Returns the function from an example or a batch to a copy with replaced values; `return_unchanged` for none.

    Args:
        nest: the structure of an example, with a value for each feature that is replaced, and None for others.
        replace: the function of (value in the example, value in the nest) that returns the new value.
    """
    if nest is None:
        return return_unchanged
    if not isinstance(nest, (dict, tuple)):
        return lambda value: replace(value, nest)
    items = nest.items() if isinstance(nest, dict) else enumerate(nest)
    parts = [
        (key, replace_child)
        for key, subtree in items
        if (replace_child := _build_replacer(subtree, replace)) is not return_unchanged
    ]
    if not parts:
        return return_unchanged

    def replace_values(example: Any) -> Any:
        """Returns an example with replaced values, if it has the structure of the nest."""
        if isinstance(example, dict) and isinstance(nest, dict):
            return {**example, **{key: replace_child(example[key]) for key, replace_child in parts if key in example}}
        if isinstance(example, tuple) and isinstance(nest, tuple) and len(example) == len(nest):
            replacers = dict(parts)
            return tuple([replacers[i](value) if i in replacers else value for i, value in enumerate(example)])
        return example  # a function of map() has changed the structure

    return replace_values


def build_fill(feature: FeatureConnector | None, fill: Any = None, *, is_mapped: bool = False) -> Fill:
    """Returns the fill values for the missing values of examples.

    Args:
        feature: the feature from which the examples are decoded; None if it is unknown.
        fill: a value for all features of its kind (numbers, bools, text) that may be missing; or a dict from names of
            features (`a.b` for b below a) to values, where that of a class label replaces -1; None for the defaults.
        is_mapped: whether functions change the examples, so that they may have other features.

    Raises:
        ValueError: a name is not that of a feature that may be missing, or no such feature has the kind of `fill`.
        FeatureError: a value does not fit its feature.
    """
    leaves: dict[str, Tensor | ClassLabel] = {}  # of which a value may be replaced
    optional: dict[str, Tensor] = {}
    values: dict[str, Any] = {}
    labels = {}
    for path, leaf in _iter_leaves(feature):
        if isinstance(leaf, ClassLabel):
            leaves[path] = leaf
        elif leaf.may_be_missing:
            leaves[path] = optional[path] = leaf
            values[path] = _expand_fill(leaf, default_fill(leaf.dtype))
    chosen: set[str] = set()
    if isinstance(fill, Mapping):
        for name, value in fill.items():
            path = record_name(name, feature.decoded()) if isinstance(name, str) and feature is not None else name
            fill_feature = leaves.get(path)
            if path in chosen:
                raise ValueError(f"fill names {shown_name(path)!r} twice, with dots and with slashes; give one value.")
            chosen.add(path)
            if isinstance(fill_feature, ClassLabel):
                labels[path] = _call_for_fill(array_maker(fill_feature.dtype, (), path), value)[()]
            elif isinstance(fill_feature, Tensor):
                values[path] = _call_for_fill(_convert_fill, fill_feature, value, path)
            elif is_mapped:
                values[path] = value if isinstance(value, (bytes, str)) else np.asarray(value)[()]
            else:
                problem, hint = _explain_unfillable(path, feature)
                raise ValueError(f"fill names {shown_name(path)!r}, {problem}. {_list_optional(optional)}.{hint}")
    elif fill is not None:
        kind = STRING if isinstance(fill, (str, bytes)) else np.bool_ if isinstance(fill, (bool, np.bool_)) else None
        fixed = {path: leaf for path, leaf in optional.items() if None not in leaf.shape}
        selected = {path: leaf for path, leaf in fixed.items() if kind == _fill_kind(leaf)}
        if not selected:
            raise ValueError(
                f"fill={fill!r} fits no feature that may be missing. {_list_optional(fixed)}. To pad with it, give "
                f"pad_value={fill!r}."
            )
        chosen.update(selected)
        for path, leaf in selected.items():
            values[path] = _call_for_fill(_convert_fill, leaf, fill, path)
    return Fill(values, labels, feature=feature, defaults=_list_defaults(optional, chosen))


def _list_defaults(optional: Mapping[str, Tensor], chosen: Collection[str]) -> tuple[str, ...]:
    """Returns the names for `Fill.defaults`: optional integers and bools of a fixed shape that is not empty.

    Args:
        optional: the features that may be missing, by name.
        chosen: the names of the features whose value the caller gave; they are left out.
    """
    return tuple(
        path
        for path, leaf in optional.items()
        if path not in chosen and leaf.dtype.kind in "biu" and all(leaf.shape)  # None: any length; 0: no values
    )


def mark_array_numbers(feature: FeatureConnector | None, dtype: np.dtype[Any]) -> dict[str, bool]:
    """Returns True for each single number of a dtype, by name; they become arrays: see `Fill.arrays`.

    Args:
        feature: the features of the examples; None if they are unknown.
        dtype: the dtype of the numbers.
    """
    return {path: True for path, leaf in _iter_leaves(feature) if (leaf.shape, leaf.dtype) == ((), dtype)}


def describe_missing(feature: FeatureConnector) -> str:
    """Returns a sentence about the values that readers get where values are missing; '' if none may be missing.

    A Text is left out: what was empty and what was missing read the same.

    >>> from beam_datasets.features.tensor import Scalar
    >>> describe_missing(FeaturesDict({"a": Scalar("int64", optional=True)}))
    'missing values: None when iterated; in batches and frameworks -2147483648 (a), unless fill= replaces them'
    """
    names: dict[str, list[str]] = {}
    for path, leaf in _iter_leaves(feature):
        if isinstance(leaf, Tensor) and not isinstance(leaf, Text) and leaf.may_be_missing:
            names.setdefault(repr(default_fill(leaf.dtype)), []).append(_error_name(path))
    values = ", ".join(f"{value} ({', '.join(paths)})" for value, paths in names.items())
    return values and (
        f"missing values: None when iterated; in batches and frameworks {values}, unless fill= replaces them"
    )


def _iter_leaves(feature: FeatureConnector | None, path: str = "") -> Iterator[tuple[str, Tensor | ClassLabel]]:
    """Yields (name with slashes, connector of decoded values) of tensors and class labels that are not in sequences.

    Args:
        feature: a tree of features; None for no features.
        path: the name of the tree; '' for the top.
    """
    decoded = _decoded_structure(feature)
    if isinstance(decoded, FeaturesDict):
        for key, child in decoded.items():
            yield from _iter_leaves(child, join(path, key))
    elif isinstance(decoded, (ClassLabel, Tensor)):
        yield path, decoded


def _decoded_structure(feature: FeatureConnector | None) -> FeatureConnector | None:
    """Returns the dict of features itself, or the connector of the decoded values of another feature."""
    return feature if feature is None or isinstance(feature, FeaturesDict) else feature.decoded()


def _nest_by_feature(feature: FeatureConnector | None, values: Mapping[str, Any]) -> Nest:
    """Returns a nest with the structure of the features, with a given value, or None, in place of each feature.

    For example, {'box': {'a': 7, 'b': None}} for the feature {'box': {'a': np.int64, 'b': np.int64}} and the values
    {'box/a': 7}. Values whose names are not those of features, but of what a function of map() adds, are added.

    Args:
        feature: the features of the examples; None if they are unknown.
        values: the values, by name of the feature with slashes.
    """

    def nest(feature: FeatureConnector | None, path: str, remaining: dict[str, Any]) -> Nest:
        """Returns the nest below a feature, and removes its values from `remaining`; None for a missing value."""
        decoded = _decoded_structure(feature)
        if not isinstance(decoded, FeaturesDict):
            return remaining.pop(path, None)
        return {key: nest(child, join(path, key), remaining) for key, child in decoded.items()}

    remaining = dict(values)
    root = nest(feature, "", remaining)
    for path, value in remaining.items():  # values that functions add
        *steps, last_step = path.split("/")
        root = parent = root if isinstance(root, dict) else {}
        for step in steps:
            if not isinstance(parent.get(step), dict):
                parent[step] = {}
            parent = parent[step]
        parent[last_step] = value
    return root


def _convert_fill(leaf: Tensor, value: Any, path: str) -> Any:
    """Returns the caller's fill value as a value of a feature; a single number or string fills a whole array.

    Args:
        leaf: the feature.
        value: the fill value.
        path: the name of the feature, for errors.

    Raises:
        FeatureError: the value does not fit the feature.
    """
    if leaf.dtype == STRING:
        return _expand_fill(leaf, to_bytes(value, path))
    is_single = np.ndim(value) == 0 and None not in leaf.shape
    shape = () if is_single else leaf.shape
    array = array_maker(leaf.dtype, shape, path, allow_rounding=leaf.dtype.kind not in "biu")(value)
    return _expand_fill(leaf, array[()]) if is_single else array


def _expand_fill(leaf: Tensor, value: Any) -> Any:
    """Returns a value of the feature in which each number or string is `value`; unknown lengths are 0.

    >>> _expand_fill(Tensor(shape=(2,), dtype=np.int64), -1)
    array([-1, -1])
    """
    if leaf.as_str:
        value = to_str(value, "fill")
    if leaf.shape:
        return np.full([length or 0 for length in leaf.shape], value, leaf.dtype)
    return value if leaf.dtype == STRING else leaf.dtype.type(value)


def _call_for_fill(make: Callable[..., Any], *args: Any) -> Any:
    """Returns `make(*args)`; the message of a FeatureError begins with 'fill: '."""
    try:
        return make(*args)
    except FeatureError as error:
        error.args = (f"fill: {error}",)
        raise


def _fill_kind(leaf: Tensor) -> np.dtype[Any] | None:
    """Returns the kind of fill value that a feature takes: its dtype for strings and bools, None for all numbers."""
    return leaf.dtype if leaf.dtype in (STRING, np.dtype(np.bool_)) else None


def _explain_unfillable(name: str, feature: FeatureConnector | None) -> tuple[str, str]:
    """Returns why a name in `fill` is an error, and " Did you mean ...?" if no feature has the name; otherwise ''."""
    names = display_names(feature.decoded()) if feature is not None else {}
    if name in names:
        return "which cannot be missing", ""
    return "but no feature has this name", did_you_mean(name, names.values())


def _list_optional(optional: Mapping[str, Any]) -> str:
    """Returns a sentence for errors that lists the features that may be missing; their names are the keys.

    >>> _list_optional({"a": None, join("b", "c"): None})
    "These may be missing: 'a', 'b.c'"
    """
    names = ", ".join(repr(shown_name(name)) for name in optional)
    return f"These may be missing: {names}" if names else "None of the features may be missing"


def _error_name(path: str) -> str:
    """Returns the name of a feature in errors: 'a.b' for the path 'a/b', and 'the examples' for ''."""
    return shown_name(path) or "the examples"


KEEP: Any = object()
"""Sentinel for `fill`: missing values stay None, in an array of objects, for statistics that count them."""

SIDES = ("left", "right")


@dataclass(frozen=True)
class Padding:
    """Padding of arrays of different shapes.

    Attributes:
        value: the padding value. A number pads the numeric features, and a str or bytes the features of strings; the
            features of the other kind, and all features for None, are padded with 0 or b''. Or a dict from the name
            of a feature (`a/b` for b in a) to its value; features that it does not name get 0 or b''.
        side: "right" puts the padding after the items, "left" before them.
        length: length of the first dimension in all batches: a number for all arrays of one dimension, or a dict by
            names; None for the length of the longest array.
    """

    value: Any = None
    side: str = "right"
    length: Any = None

    def __post_init__(self) -> None:
        if self.side not in SIDES:
            raise ValueError(f"pad_side must be 'left' or 'right', got {self.side!r}.")
        lengths = self.length if isinstance(self.length, Mapping) else {"all": self.length}
        for name, length in lengths.items():
            if length is not None:
                integer("pad_length" if name == "all" else f"pad_length of {name!r}", length, at_least=0)

    @property
    def names(self) -> set[str]:
        """Names of the features for which the padding has a value or a length."""
        return {name for option in (self.value, self.length) if isinstance(option, Mapping) for name in option}

    def to(self, name: str, length: int) -> Padding:
        """Returns a copy of the padding in which the feature `name` is padded to `length` items.

        Raises:
            ValueError: the attribute `length` is a number for all features.
        """
        if self.length is not None and not isinstance(self.length, Mapping):
            raise ValueError("pad_to_boundary=True: expected pad_length as a dict by names, got a number.")
        return replace(self, length={**(self.length or {}), name: length})

    def shape(self, arrays: Sequence[Any], path: str) -> tuple[int, ...]:
        """Returns the shape to which arrays are padded.

        Args:
            arrays: arrays with the same number of dimensions, at least one.
            path: the name of the feature.

        Raises:
            FeatureValueError: an array is longer than the length of the padding.
        """
        longest = tuple(map(max, zip(*(array.shape for array in arrays))))
        length = self.length.get(path) if isinstance(self.length, Mapping) else self.length
        if length is None or not longest or (len(longest) > 1 and not isinstance(self.length, Mapping)):
            return longest
        if longest[0] > length:
            raise FeatureValueError(
                f"{_error_name(path)}: expected at most pad_length={length} items, got {longest[0]}. Truncate "
                "them in map(), or give a greater length."
            )
        return (length, *longest[1:])

    def filler(self, dtype: np.dtype[Any], path: str, *, is_str: bool = False) -> Any:
        """Returns the padding value of a feature: a number of the dtype, or bytes for the dtype object; see `value`.

        Args:
            dtype: the dtype of the arrays; object for arrays of strings.
            path: the name of the feature, such as 'a/b'.
            is_str: whether the arrays contain `str`, so that the value is a `str` instead of bytes.

        Raises:
            FeatureValueError: the value for the feature, or a number for all features, does not fit the dtype.

        >>> Padding(-1).filler(np.dtype(object), "text"), Padding({"a": 5}).filler(np.dtype("int64"), "b")
        (b'', 0)
        """
        if is_str:
            filler = self.filler(dtype, path)
            return filler.decode() if isinstance(filler, bytes) else filler
        value = self.value.get(path) if isinstance(self.value, Mapping) else self.value
        is_text = isinstance(value, (str, bytes))
        if value is None or (is_text != dtype.hasobject and not isinstance(self.value, Mapping)):
            return b"" if dtype.hasobject else 0
        if is_text and dtype.hasobject:
            return to_bytes(value, path)
        try:
            stored = np.array([value]).astype(dtype)[0]
            fits = not (is_text or dtype.hasobject) and (stored == value or np.isnan([stored, value]).all())
        except (TypeError, ValueError, OverflowError):
            fits = False
        if not fits:
            raise FeatureValueError(f"{_error_name(path)}: pad_value={value!r} does not fit {dtype}.")
        return stored


def stack(examples: Sequence[Any], *, pad: bool | Padding = False, path: str = "", fill: Any = KEEP) -> Any:
    """Returns a batch of examples.

    Numbers and arrays are stacked: the first dimension is the batch. Lists, tensors of frameworks, and tuples of
    numbers in a dict are converted to arrays first, unless `fill` is `KEEP`; other tuples are part of the structure, as
    dicts are. Strings and all other values, such as nested datasets, make an array of objects. Ragged arrays make a
    ragged array with one more level.

    Args:
        examples: the examples, at least one, all of the same structure.
        pad: whether arrays of different shapes are padded at their ends with zeros (strings: b''); or the padding.
        path: the name of the feature, with slashes, for errors; '' for the whole examples.
        fill: a nest of values that replace None; see `Fill.nest`. A missing value without a fill value is an error, as
            the dtype would depend on the batch.

    Raises:
        FeatureValueError: arrays have different shapes and `pad` is False, or a value is missing.

    >>> stack([{"a": np.array([1, 2])}, {"a": np.array([3])}], pad=True)
    {'a': array([[1, 2],
           [3, 0]])}
    """
    if isinstance(pad, Padding) and not path and isinstance(examples[0], Mapping):
        for name in sorted(pad.names):
            if name.split("/")[0] not in examples[0]:
                raise FeatureValueError(f"padding names feature {name!r}; examples have {', '.join(examples[0])}.")
    first = examples[0]
    if isinstance(first, dict):
        return {
            key: stack(
                [example[key] for example in examples],
                pad=pad,
                path=join(path, str(key)),
                fill=subtree(fill, key),
            )
            for key in first
        }
    if isinstance(first, tuple) and (fill is KEEP or not _is_vector(first, path)):
        return _stack_tuples(examples, pad, path, fill)
    if fill is not KEEP:
        examples = _replace_missing(examples, fill, path)
        one_of_each_type = dict(zip(map(type, examples), examples))
        if any(map(_is_array_like, one_of_each_type.values())):
            return _stack_array_likes(examples, pad, path)
        first = examples[0]
    if isinstance(first, np.ndarray):
        return _stack_arrays(examples, pad, path)
    if isinstance(pad, Padding) and isinstance(pad.length, Mapping) and path in pad.length:
        raise FeatureValueError(
            expected=f"an array to pad to pad_length={pad.length[path]}",
            got=type(first).__name__,
            advice="Leave it out of pad_length.",
            feature=path,
        )
    if isinstance(first, (np.generic, bool, int, float)):
        return _stack_numbers(examples)
    if isinstance(first, RaggedArray):
        return _stack_ragged(examples)
    if pad and all(isinstance(example, list) for example in examples) and not _has_non_arrays(examples):
        return _stack_lists(examples, pad, path)
    return to_object_array(examples)


def _stack_tuples(examples: Sequence[Any], pad: bool | Padding, path: str, fill: Any) -> tuple[Any, ...]:
    """Returns a tuple whose item i is the batch of the items i of all tuples; see `stack` for the arguments.

    Raises:
        FeatureValueError: the tuples have different lengths.
    """
    lengths = {len(example) for example in examples}
    if len(lengths) > 1:
        raise FeatureValueError(
            f"{_error_name(path)}: expected tuples of one length, got {sorted(lengths)[:2]}. Return arrays from "
            "map(), which pad=True pads."
        )
    columns = enumerate(zip(*examples))
    return tuple(stack(column, pad=pad, path=_item_name(path, i), fill=subtree(fill, i)) for i, column in columns)


def _item_name(path: str, index: int) -> str:
    """Returns the name of an item of a tuple: 'box[1]' for item 1 of the feature 'box'."""
    if isinstance(path, FeatureName):
        return FeatureName([*path.steps[:-1], f"{path.steps[-1]}[{index}]"])
    return f"{path}[{index}]"


def _is_vector(value: tuple[Any, ...], path: str) -> bool:
    """Returns whether a tuple is stacked as an array of numbers: it contains only numbers, and is in a dict.

    Args:
        value: the tuple.
        path: the name of the tuple in the example, which is '' or ends with ']' for a tuple that is not in a dict.

    >>> _is_vector((1, 2.5), "box"), _is_vector((1, 2.5), "boxes[0]")
    (True, False)
    """
    is_in_dict = path and not path.endswith("]")
    return bool(
        is_in_dict and value and all(isinstance(item, (bool, int, float, np.number, np.bool_)) for item in value)
    )


def _is_array_like(value: Any) -> bool:
    """Returns whether a value is converted to an array and then stacked: a list, tuple or tensor."""
    if isinstance(value, (np.ndarray, np.generic, RaggedArray)):
        return False
    return isinstance(value, (list, tuple)) or hasattr(value, "__array__") or hasattr(value, "__array_interface__")


def _stack_array_likes(values: Sequence[Any], pad: bool | Padding, path: str) -> NDArray[Any]:
    """Returns a batch of lists, tuples and tensors, which are converted to arrays; see `stack` for the arguments.

    Raises:
        FeatureValueError: a value cannot be converted to an array of numbers or texts.
    """
    if all(isinstance(value, (list, tuple)) for value in values):
        first = next((value[0] for value in values if value), None)
        if isinstance(first, np.ndarray) or _is_array_like(first):
            return _stack_lists([[_to_array(item, path) for item in value] for value in values], pad, path)
    arrays = [_to_array(value, path) for value in values]
    dtypes = {array.dtype for array in arrays if array.size}
    if dtypes:  # an empty list has no dtype of its own
        dtype = np.dtype(object) if np.dtype(object) in dtypes else np.result_type(*dtypes)
        arrays = [array if array.size else array.astype(dtype) for array in arrays]
    return _stack_arrays(arrays, pad, path)


def _to_array(value: Any, path: str) -> NDArray[Any]:
    """Returns a value as an array of numbers, or of objects that are all str or all bytes.

    Args:
        value: the value, such as nested lists of numbers, a text, or a tensor of a framework.
        path: the name of the feature, for errors; '' for the whole examples.

    Raises:
        FeatureValueError: the value cannot be converted to such an array.
    """
    try:
        array = np.asarray(value)
        if array.dtype.kind in "US":
            array = np.array(value, object)
    except (TypeError, ValueError, RuntimeError) as error:
        raise FeatureValueError(
            f"{_error_name(path)}: a {type(value).__name__} cannot be put in a batch ({error}). "
            "Return an array from map()"
        ) from None
    if array.dtype.hasobject:
        kinds = {type(item) for item in array.flat}
        if len(kinds) > 1 or not kinds <= {str, bytes}:
            names = " and ".join(sorted(kind.__name__ for kind in kinds))
            raise FeatureValueError(
                f"{_error_name(path)}: expected numbers, texts or arrays in a {type(value).__name__}, got "
                f"{names}. Return an array from map()"
            )
    return array


def _has_non_arrays(lists: Sequence[list[Any]]) -> bool:
    """Returns whether any list contains an item that is not an array, or all lists are empty."""
    kinds = {type(item) for items in lists for item in items}
    return kinds != {np.ndarray}


def stack_decoded(values: Sequence[Any], *, pad: bool | Padding, path: str, fill: Any) -> Any:
    """Returns the batch of the decoded values of one feature, also if they are lists of arrays; see `stack`."""
    if fill is not KEEP and any(isinstance(value, list) for value in values):
        return _stack_lists(values, pad, path)
    return stack(values, pad=pad, path=path, fill=fill)


def subtree(fill: Any, key: Any) -> Any:
    """Returns the nest inside a nest at a key, a name or an index of a tuple; None if there is none.

    >>> subtree({"a": {"b": 0}}, "a"), subtree(None, "a")
    ({'b': 0}, None)
    """
    if fill is KEEP:
        return KEEP
    if isinstance(fill, tuple) and isinstance(key, int):
        return fill[key] if key < len(fill) else None
    return fill.get(key) if isinstance(fill, dict) else None


def _replace_missing(column: Sequence[Any], fill: Any, path: str) -> Sequence[Any]:
    """Returns a column of values with `fill` in place of None.

    Args:
        column: the values of one feature.
        fill: the fill value; None if the feature has none.
        path: the name of the feature, for errors.

    Raises:
        FeatureValueError: a value is missing and there is no fill value, or lists and arrays are mixed.
    """
    types = set(map(type, column))
    if NoneType in types:
        if not path:
            raise FeatureValueError(
                "the examples: expected values, got None, as of a function of map() without `return`"
            )
        if fill is None or isinstance(fill, (dict, tuple)):
            raise FeatureValueError(
                f"{shown_name(path)}: expected a value, got None, which no batch can have. "
                f"Give batch(..., fill={{{shown_name(path)!r}: value}}), or replace it in map()"
            )
        column = [fill if value is None else value for value in column]
        types = set(map(type, column))
    if len({issubclass(kind, list) for kind in types}) > 1:
        _raise_mixed_lists(path)
    return column


def _stack_lists(values: Sequence[Any], pad: bool | Padding, path: str) -> NDArray[Any]:
    """Returns a batch of lists of arrays, such as lists of images, with two more dimensions than an item.

    Items are padded to one shape before lists are padded to one length.

    Args:
        values: the lists.
        pad: see `stack`.
        path: the name of the feature, for errors.

    Raises:
        FeatureValueError: an item is not an array, or shapes or lengths differ and `pad` is False.
    """
    items = [item for value in values for item in value]
    if not all(isinstance(item, np.ndarray) for item in items):
        _raise_mixed_lists(path)
    padding = replace(pad, length=None) if isinstance(pad, Padding) else pad
    all_items = _stack_arrays(items, padding, path) if items else np.empty(0)
    ends = np.cumsum(list(map(len, values)))
    return _stack_arrays([all_items[end - len(value) : end] for value, end in zip(values, ends)], pad, path)


def _raise_mixed_lists(path: str) -> NoReturn:
    """Raises the FeatureValueError of a batch with lists and arrays; `path` is the name of the feature."""
    raise FeatureValueError(
        f"{_error_name(path)}: a list, as of items of different shapes, cannot be put in one batch with arrays. "
        "Bring them to one shape with map()."
    )


def _stack_numbers(numbers: Sequence[Any]) -> NDArray[Any]:
    """Returns an array of numbers of shape (n,), with the dtype of NumPy scalars; of objects if one is None."""
    types = set(map(type, numbers))
    if NoneType in types:
        return to_object_array(numbers)
    return np.array(numbers, getattr(numbers[0], "dtype", None) if len(types) == 1 else None)


def _stack_arrays(arrays: Sequence[Any], pad: bool | Padding, path: str) -> NDArray[Any]:
    """Returns the batch of n arrays, of shape (n, ...); of n values without a shape, an array of n objects.

    Args:
        arrays: the arrays.
        pad: whether arrays of different shapes are padded; see `stack`.
        path: the name of the feature, for errors.

    Raises:
        FeatureValueError: arrays have different shapes and `pad` is False, or they have different ranks.
    """
    if not all(hasattr(array, "shape") for array in arrays):
        return to_object_array(arrays)
    shapes = {array.shape for array in arrays}
    padding = pad if isinstance(pad, Padding) else Padding()
    if len(shapes) == 1 and padding.shape(arrays[:1], path) == arrays[0].shape:
        return np.stack(arrays) if not arrays[0].dtype.hasobject or arrays[0].ndim else to_object_array(arrays)
    if not pad:
        two_shapes = " and ".join(map(str, sorted(shapes, key=str)[:2]))
        raise FeatureValueError(
            f"{_error_name(path)}: arrays of the shapes {two_shapes} cannot be put in one batch; "
            "batch with pad=True, or convert them to one shape with map()."
        )
    if len({len(shape) for shape in shapes}) > 1:
        raise FeatureValueError(f"{_error_name(path)}: arrays of different ranks cannot be padded: {shapes}.")
    shape = padding.shape(arrays, path)
    dtype = np.result_type(*{array.dtype for array in arrays})  # as np.stack promotes arrays of one shape
    first = next((array.flat[0] for array in arrays if array.size), b"")
    is_str = isinstance(first, str)
    padded = np.full((len(arrays), *shape), padding.filler(dtype, path, is_str=is_str), dtype)
    if padding.side == "right" and len(shape) == 1:
        for row, array in zip(padded, arrays):
            row[: len(array)] = array
    elif padding.side == "right":
        for row, array in zip(padded, arrays):
            row[tuple(map(slice, array.shape))] = array
    else:
        for row, array in zip(padded, arrays):
            row[tuple(slice(length - size, None) for length, size in zip(shape, array.shape))] = array
    return padded


def _stack_ragged(arrays: Sequence[RaggedArray]) -> RaggedArray:
    """Returns a RaggedArray whose rows are the given arrays; it has one more level than they have."""
    flat = [array.flat_values for array in arrays]
    all_values: Any = [item for values in flat for item in values]
    if all(isinstance(values, np.ndarray) and values.shape[1:] == flat[0].shape[1:] for values in flat):
        all_values = np.concatenate(flat)
    levels = zip(*(array.row_lengths for array in arrays))
    outer_lengths = np.array([len(array) for array in arrays], np.int64)
    return RaggedArray(all_values, (outer_lengths, *(np.concatenate(level) for level in levels)))
