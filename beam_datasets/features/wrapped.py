"""Connectors that store their values with an inner connector, and base classes for connectors that users write.

Users' connectors have the method names of TensorFlow Datasets. A subclass of `CustomFeature` declares the stored form
and converts values to it and back. A subclass of another connector, such as `Tensor`, may override `encode_example` and
`decode_example`. features.json contains the name of the class; the class must be registered before the feature can be
read. Nothing is imported by that name.
"""

from __future__ import annotations

import abc
import inspect
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from beam_datasets import frames
from beam_datasets.errors import (
    FeatureError,
    FeatureKeyError,
    FeatureOverflowError,
    FeatureTypeError,
    FeatureValueError,
)
from beam_datasets.extras import Self
from beam_datasets.features.base import (
    STRING,
    Decode,
    FeatureConnector,
    Items,
    Json,
    Lengths,
    RowsEncode,
    Shape,
    dtype_of,
    has_one_shape,
    shape_of,
    to_dtype,
)
from beam_datasets.features.features_dict import FeaturesDict, to_feature
from beam_datasets.features.numbers import array_maker, shape_fits
from beam_datasets.features.ragged import RaggedArray
from beam_datasets.features.raw import array_unpacker, build_empty_items, stack_items
from beam_datasets.features.sequence import Sequence
from beam_datasets.features.tensor import Encoding, Tensor


@dataclass(frozen=True, repr=False)
class Wrapped(FeatureConnector):
    """A connector that converts its values to those of an inner connector, which stores them, and back."""

    @abc.abstractmethod
    def inner_connector(self) -> FeatureConnector:
        """Returns the inner connector, which stores the converted values."""

    @abc.abstractmethod
    def to_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the function from a value of this connector to a value of the inner connector.

        Args:
            path: the feature, for errors of the function.
        """

    @abc.abstractmethod
    def from_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the function from a value of the inner connector to a value of this connector.

        Args:
            path: the feature, for errors of the function.
        """

    def from_inner_items_converter(self, path: str, rank: int) -> Callable[[Any], Any]:
        """Returns the function from decoded sequences of the inner connector to sequences of this connector.

        Args:
            path: the feature, for errors of the function.
            rank: the number of nested sequences, 1 or more.
        """
        from_inner, is_array = self.from_inner_converter(path), has_one_shape(self)

        def convert_items(rows: Any) -> Any:
            """Returns decoded sequences of the inner connector as sequences of this connector."""
            lengths = _get_row_lengths(rows, rank)
            items: Any = [from_inner(item) for item in _flatten_items(rows, rank, path)]
            if is_array:
                items = _stack_columns(items) if items else self.build_empty_items()
            return _restore_rows(items, lengths)

        return convert_items

    def build_empty_items(self) -> Any:
        """Returns the decoded form of an empty sequence: an array of shape (0, ...) with the dtype of items."""
        return _build_empty_columns(self.shape, self.dtype)

    @property
    def shape(self) -> Any:
        """The inner connector's shape."""
        return shape_of(self.inner_connector())

    @property
    def dtype(self) -> Any:
        """The inner connector's dtype."""
        return dtype_of(self.inner_connector())

    def decoded(self) -> FeatureConnector:
        """Returns the connector of decoded values of the inner connector."""
        return self.inner_connector().decoded()

    def leaves(self, name: str, rank: int = 0) -> list[tuple[str, Any, int]]:
        """Returns the leaves of the inner connector; see `FeatureConnector.leaves`."""
        return self.inner_connector().leaves(name, rank)

    def rows_encoder(self, name: str, rank: int) -> RowsEncode:
        """Returns the function that encodes one value for rank 0, or the items of sequences; see `RowsEncode`."""
        encode, to_inner = self.inner_connector().rows_encoder(name, rank), self.to_inner_converter(name)

        def encode_rows(items: Items, lengths: Lengths) -> list[tuple[str, bytes]]:
            """Returns the map entries of items, which are converted to the inner feature first."""
            return encode([to_inner(item) for item in items], lengths)

        return encode_rows

    def decoder(self, name: str, rank: int = 0) -> Decode:
        """Returns the function from the lists of a record to one value for rank 0, or to the items of sequences."""
        decode = self.inner_connector().decoder(name, rank)
        from_inner = self.from_inner_items_converter(name, rank) if rank else self.from_inner_converter(name)
        return lambda lists: from_inner(decode(lists))

    def stored(self) -> FeatureConnector:
        """Returns the inner connector's stored form."""
        return self.inner_connector().stored()

    def content_json(self) -> tuple[str, Json]:
        """Returns the key and content of the inner connector in features.json."""
        return self.inner_connector().content_json()


def _get_row_lengths(rows: Any, rank: int) -> Lengths:
    """Returns the row lengths of `rank` nested sequences, outer levels first; () for rank 1.

    Args:
        rows: an array of items for rank 1, a RaggedArray for more; for dicts, a dict of these by name, of which the
            first one determines the result.
        rank: the number of nested sequences, at least 1.
    """
    if isinstance(rows, dict):
        return next((_get_row_lengths(column, rank) for column in rows.values()), ())
    return rows.row_lengths[: rank - 1] if rank > 1 else ()


def _stack_columns(items: list[Any]) -> Any:
    """Returns the items as one array of shape (n, ...), or a list if they have no common shape.

    Dicts become a dict of such arrays and lists by name.

    >>> _stack_columns([{"a": np.int64(1)}, {"a": np.int64(2)}])
    {'a': array([1, 2])}
    """
    if items and isinstance(items[0], dict):
        return {name: _stack_columns([item[name] for item in items]) for name in items[0]}
    return stack_items(items)


def _restore_rows(columns: Any, lengths: Lengths) -> Any:
    """Returns nested sequences as a RaggedArray, from their flat items; `columns` itself if `lengths` is empty.

    For example, items [1, 2, 3] and lengths ([2, 1],) become the RaggedArray [[1, 2], [3]].

    Args:
        columns: an array of the items of all innermost sequences, one after the other. For dicts, a dict from a name to
            such an array; the result is then a dict from the name to a RaggedArray.
        lengths: the row lengths of each level, the outermost first: arrays of integers.
    """
    if isinstance(columns, dict):
        return {name: _restore_rows(column, lengths) for name, column in columns.items()}
    return RaggedArray(columns, lengths) if lengths else columns


def _flatten_items(rows: Any, rank: int, path: str) -> list[Any]:
    """Returns all items of `rank` nested sequences, in order.

    Args:
        rows: decoded sequences; a dict of columns becomes a list of dicts.
        rank: the number of nested sequences around an item.
        path: the feature, for errors.

    Raises:
        FeatureValueError: the columns of a dict have different numbers of items.

    >>> _flatten_items({"a": [1, 2], "b": [3, 4]}, 1, "objects")
    [{'a': 1, 'b': 3}, {'a': 2, 'b': 4}]
    """
    if isinstance(rows, RaggedArray) and rank > 1:
        item_lengths = rows.row_lengths[rank - 1 :]  # of items that are sequences themselves
        return list(RaggedArray(rows.flat_values, item_lengths) if item_lengths else rows.flat_values)
    if not isinstance(rows, dict):
        return list(rows)
    columns = [_flatten_items(column, rank, path) for column in rows.values()]
    if len(set(map(len, columns))) > 1:
        counts = dict(zip(rows, map(len, columns)))
        raise FeatureValueError(f"{path}: the record has different numbers of items: {counts}")
    return [dict(zip(rows, values)) for values in zip(*columns)]


@dataclass(frozen=True, repr=False)
class DynamicTensor(Wrapped):
    """Storage of a Tensor with several unknown lengths: the lists `<name>/shape` and `<name>/value`.

    Attributes:
        tensor: the Tensor.
    """

    tensor: Tensor = field(kw_only=True)

    def inner_connector(self) -> FeatureConnector:
        """Returns the connector of a dict {'shape': lengths as int64, 'value': bytes of the array}."""
        optional = self.tensor.optional
        return FeaturesDict(
            {
                "shape": Tensor(shape=(len(self.tensor.shape),), dtype=np.int64, optional=optional),
                "value": Tensor(shape=(), dtype=STRING, optional=optional),
            }
        )

    def to_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the function from an array to {'shape': its shape, 'value': its bytes}.

        Raises:
            FeatureValueError: the Tensor has no encoding.
        """
        tensor = self.tensor
        if tensor.encoding is Encoding.NONE:
            raise FeatureValueError(f"{path}: a Tensor with several unknown lengths needs encoding='zlib' or 'bytes'")
        make = array_maker(tensor.dtype, tensor.shape, path, allow_rounding=tensor.allow_rounding)
        codec = tensor.codec(path)

        def to_inner(value: Any) -> dict[str, Any]:
            """Returns {'shape': ..., 'value': ...} of an array; both are None for None."""
            if value is None and tensor.optional:
                return {"shape": None, "value": None}
            array = make(value)
            return {"shape": np.array(array.shape, np.int64), "value": codec.pack(array)[0]}

        return to_inner

    def build_empty_items(self) -> Any:
        """Returns an array of shape (0, *shape) of the Tensor's dtype; unknown lengths are 0."""
        return build_empty_items(self.tensor.shape, self.tensor.dtype)

    def from_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the function from {'shape': lengths, 'value': bytes} to the array."""
        tensor = self.tensor
        compress = tensor.encoding is Encoding.ZLIB

        def from_inner(stored: dict[str, Any]) -> Any:
            """Returns the array of {'shape': ..., 'value': ...}; None if it is missing."""
            if stored["value"] is None:
                return None
            shape = tuple(stored["shape"].tolist())
            if not shape_fits(shape, tensor.shape) or min(shape) < 0:
                raise FeatureValueError(f"{path}: the record has the shape {shape}; the feature has {tensor.shape}")
            return array_unpacker(tensor.dtype, shape, path, compress=compress)(stored["value"])

        return from_inner


_REGISTERED: dict[str, type[FeatureConnector]] = {}
_Class = TypeVar("_Class", bound=type[FeatureConnector])


def register(kind: _Class) -> _Class:
    """Registers a class of connectors by its name in features.json, and returns it.

    Datasets with features of the class can then be read. The function may be used as a decorator. Names in an attribute
    `ALIASES` of the class are registered too.
    """
    for name in (class_name(kind), *kind.__dict__.get("ALIASES", ())):
        _REGISTERED[name] = kind
    return kind


def class_name(kind: type[FeatureConnector]) -> str:
    """Returns the name of a user's class in features.json: '<module>.<class>'."""
    module = "__main__" if kind.__module__ == "__mp_main__" else kind.__module__  # the script, in its new processes
    return f"{module}.{kind.__name__}"


def from_registered(name: str, content: Json) -> FeatureConnector | None:
    """Returns the connector of a registered class for its content in features.json; None if no class has the name.

    Args:
        name: the name of the class in features.json.
        content: the content of the connector in features.json.

    Raises:
        Exception: several classes may be meant, or the class failed to make a connector from the content.
    """
    kind: Any = _REGISTERED.get(name)
    if kind is None:  # the module may have another root now, or none if it is run as a script
        matches = {
            each: registered_name
            for registered_name, each in _REGISTERED.items()
            if _has_class_suffix(name, registered_name) or _has_class_suffix(registered_name, name)
        }
        if len(matches) > 1:
            raise LookupError(f"several registered classes have its name: {', '.join(sorted(matches.values()))}")
        if not matches:
            return None
        [(kind, registered_name)] = matches.items()
        if "__main__" in (name.partition(".")[0], registered_name.partition(".")[0]):
            warnings.warn(
                f"features.json names the class {name!r}, and the registered class {registered_name!r} is used: one of "
                "them was defined by a script, so only the names of the classes are compared. If they are the same "
                "class, set "
                f"ALIASES = ({name!r},) in it; if not, register the right one",
                stacklevel=2,
            )
    return wrap_overridden(_build_connector(kind, content))


def _build_connector(kind: Any, content: Json) -> Any:
    """Returns the connector that a user's class makes from its content in features.json.

    Raises:
        Exception: the class failed to make it, or has other arguments than its base class and no `from_json_content`.
    """
    if hasattr(kind, "from_json_content"):
        return kind.from_json_content(json.loads(content["json"]) if "json" in content else content)
    ours = next(base for base in kind.__mro__ if base.__module__.startswith("beam_datasets."))
    if inspect.signature(kind) != inspect.signature(ours):
        raise TypeError(
            f"{kind.__name__} takes other arguments than {ours.__name__}, and has no class method "
            "from_json_content(content)"
        )
    return kind.from_content(content)


def _check_content(feature: FeatureConnector, path: str) -> None:
    """Checks that the class of a feature makes a connector from the content that features.json will contain.

    Raises:
        FeatureTypeError: it failed, so other processes could not read the feature; `path` names it.
    """
    try:
        _build_connector(type(feature), feature.content_json()[1])
    except Exception as error:
        raise FeatureTypeError(
            f"{path}: the class {class_name(type(feature))!r} does not make a connector of its content in "
            f"features.json, so other processes could not read the feature: {type(error).__name__}: {error}. Return "
            "the arguments of the constructor from to_json_content, as a dict, or define from_json_content"
        ) from error


def _has_class_suffix(name: str, other: str) -> bool:
    """Returns whether a class name is `other` with more packages before it; `__main__` stands for any module.

    >>> _has_class_suffix("project.money.Money", "money.Money"), _has_class_suffix("money.Money", "__main__.Money")
    (True, True)
    """
    return name.endswith(f".{other.removeprefix('__main__.')}")


def wrap_overridden(feature: FeatureConnector) -> FeatureConnector:
    """Returns a connector that calls the overridden `encode_example` and `decode_example` of a user's connector."""
    return feature if isinstance(feature, CustomFeature) else Customised(connector=feature)


@dataclass(frozen=True)
class TensorInfo:
    """Shape and dtype of values.

    Attributes:
        shape: the lengths of the dimensions; None means any length.
        dtype: a dtype of NumPy.
        minimum: the lowest value, if there is one.
        maximum: the highest value, if there is one.
        optional: whether the value may be None.
    """

    shape: Shape
    dtype: Any
    minimum: Any = field(default=None, kw_only=True)
    maximum: Any = field(default=None, kw_only=True)
    optional: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        shape: Any = self.shape
        if isinstance(shape, list):
            object.__setattr__(self, "shape", tuple(shape))

    @property
    def np_dtype(self) -> Any:
        """The dtype as a NumPy dtype; the name is that of TensorFlow Datasets."""
        return to_dtype(self.dtype)


def tensor_info(feature: Any) -> Any:
    """Returns the `TensorInfo` of a feature's decoded values; a dict of them by name for several features."""
    if isinstance(feature, FeaturesDict):
        return {name: child.get_tensor_info() for name, child in feature.items()}
    if isinstance(feature, Sequence):
        return _add_sequence_dimension(feature.feature.get_tensor_info(), feature.length)
    if isinstance(feature, Tensor):
        bounds = {"minimum": feature.minimum, "maximum": feature.maximum, "optional": feature.optional}
        return TensorInfo(feature.shape, feature.dtype, **bounds)
    return _build_tensor_infos(shape_of(feature), dtype_of(feature))


def _add_sequence_dimension(info: Any, length: int | None) -> Any:
    """Returns the `TensorInfo` of items, or each in a dict, with a first dimension of `length`; None for any length."""
    if isinstance(info, Mapping):
        return {name: _add_sequence_dimension(child, length) for name, child in info.items()}
    return replace(info, shape=(length, *info.shape))


def _build_tensor_infos(shape: Any, dtype: Any) -> Any:
    """Returns the `TensorInfo` of a shape and a dtype; for nested dicts of them, the same dicts of `TensorInfo`."""
    if isinstance(dtype, Mapping):
        return {name: _build_tensor_infos(shape[name], dtype[name]) for name in dtype}
    return TensorInfo(shape, dtype)


def _connector_of_spec(spec: Any) -> FeatureConnector:
    """Returns the connector of values that a `TensorInfo`, a connector, or a dict of these by name describes."""
    if isinstance(spec, Mapping):
        return FeaturesDict({name: _connector_of_spec(inner) for name, inner in spec.items()})
    if not isinstance(spec, TensorInfo):
        return to_feature(spec)
    is_float = to_dtype(spec.dtype).kind == "f"  # these are rounded, as in TFDS
    bounds = {"minimum": spec.minimum, "maximum": spec.maximum, "optional": spec.optional}
    return Tensor(shape=spec.shape, dtype=spec.dtype, allow_rounding=is_float, **bounds)


class CustomFeature(Wrapped):
    """Base class of connectors that users define, with a stored form and conversions to it and back.

    A subclass defines `get_tensor_info` and `encode_example`, and optionally the other methods. `to_json_content`
    returns the arguments of its constructor, so that the connector can be made again from features.json.
    Instances with the same content are equal.

    Examples:
        >>> class Money(CustomFeature):
        ...     def get_tensor_info(self):  # of decoded values
        ...         return TensorInfo(shape=(), dtype="float64")
        ...     def get_serialized_info(self):  # of what is stored
        ...         return TensorInfo(shape=(), dtype="int64")
        ...     def encode_example(self, euros):
        ...         return round(euros * 100)
        ...     def decode_example(self, cents):
        ...         return cents / 100
    """

    @abc.abstractmethod
    def get_tensor_info(self) -> Any:
        """Returns the `TensorInfo` of decoded values, or a dict of them by name."""

    def get_serialized_info(self) -> Any:
        """Returns the description of the stored form: a `TensorInfo`, a connector, or a dict of these by name.

        The default is `get_tensor_info()`.
        """
        return self.get_tensor_info()

    def to_json_content(self) -> Any:
        """Returns the arguments of the constructor, as a dict of JSON values; by default {}."""
        return {}

    @classmethod
    def from_json_content(cls, value: Any, doc: Any = None) -> Self:
        """Returns the connector from `value`, the result of `to_json_content`: by default `cls(**value)`.

        Args:
            value: the content in features.json.
            doc: the documentation of the feature.
        """
        connector = cls(**value)
        return connector.with_doc(doc) if doc else connector  # type: ignore[return-value]

    def _build_declared(self, declare: Callable[[], Any]) -> FeatureConnector:
        """Returns the connector that the result of a user's method describes.

        Args:
            declare: `self.get_tensor_info` or `self.get_serialized_info`.

        Raises:
            FeatureTypeError: the method raises a TypeError or ValueError, or its result does not describe a feature.
        """
        try:
            return _connector_of_spec(declare())
        except (TypeError, ValueError) as error:
            raise FeatureTypeError(
                f"{self.python_class_name}: what get_tensor_info or get_serialized_info returns is unusable: {error}"
            ) from error

    @property
    def shape(self) -> Any:
        """The shape of decoded values; a dict of shapes by name for several features."""
        return shape_of(self._build_declared(self.get_tensor_info))

    @property
    def dtype(self) -> Any:
        """The dtype of decoded values; a dict of dtypes by name for several features."""
        return dtype_of(self._build_declared(self.get_tensor_info))

    @property
    def python_class_name(self) -> str:
        """The class's name in features.json."""
        return class_name(type(self))

    def decoded(self) -> FeatureConnector:
        """Returns the connector that `get_tensor_info` describes."""
        return self._build_declared(self.get_tensor_info).decoded()

    def inner_connector(self) -> FeatureConnector:
        """Returns the connector of the stored form, which `get_serialized_info` describes."""
        return self._build_declared(self.get_serialized_info)

    def to_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns `encode_example`, the function from a value to its stored form; its errors begin with `path`."""
        _check_content(self, path)
        return _add_path_to_errors(self.encode_example, path)

    def from_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the function from the stored form to a value, which calls `decode_example` and converts to NumPy."""
        return _build_numpy_decoder(self, path)

    def content_json(self) -> tuple[str, Json]:
        """Returns the key 'jsonFeature' and the content as JSON text."""
        content = self.to_json_content()
        try:
            return "jsonFeature", {"json": json.dumps(content)}
        except (TypeError, ValueError) as error:
            raise FeatureTypeError(
                f"{self.python_class_name}.to_json_content: expected values of JSON, got {content!r:.200}: {error}. "
                "Return numbers, texts, lists and dicts of Python"
            ) from error

    @classmethod
    def from_content(cls, content: Json) -> Self:
        """Returns the connector of `content`, the second value of `content_json`."""
        return cls.from_json_content(json.loads(content["json"]))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash((type(self), json.dumps(self.to_json())))

    def __repr__(self) -> str:
        content = self.to_json_content()
        arguments = content.items() if isinstance(content, dict) else ()
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in arguments)})"


@dataclass(frozen=True, repr=False)
class Customised(Wrapped):
    """A connector that calls the methods of a user's subclass, which overrides `encode_example` or `decode_example`.

    Attributes:
        connector: the instance of the user's subclass; its base class stores the values.
    """

    connector: FeatureConnector = field(kw_only=True)

    @property
    def python_class_name(self) -> str:
        """The class's name in features.json."""
        return class_name(type(self.connector))

    def inner_connector(self) -> FeatureConnector:
        """Returns the user's connector, whose base class stores the results of `encode_example`."""
        return self.connector

    def decoded(self) -> FeatureConnector:
        """Returns the connector with tensors as leaves, as the user's method may make any array from an image."""
        return _replace_leaves_by_tensors(self.connector.decoded())

    def to_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the user's `encode_example`; its errors begin with `path`."""
        _check_content(self.connector, path)
        return _add_path_to_errors(self.connector.encode_example, path)

    def from_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the function that calls the user's `decode_example` and converts its result to NumPy."""
        return _build_numpy_decoder(self.connector, path)

    def label_files(self, prefix: str = "") -> dict[str, str]:
        """Returns the texts of the label files of the user's connector, by file name."""
        return self.connector.label_files(prefix)

    def load_labels(self, read: Callable[[str], str | None], prefix: str = "") -> Customised:
        """Returns a copy with the class names of its label files; see `FeatureConnector.load_labels`."""
        return self._copy_with(connector=self.connector.load_labels(read, prefix))

    def __repr__(self) -> str:
        return repr(self.connector)


_VALUE_ERRORS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""Errors of a user's function about a value, not about a file or the machine."""


def _add_path_to_errors(convert: Callable[[Any], Any], path: str) -> Callable[[Any], Any]:
    """Returns the function `convert`, with a FeatureError that begins with `path` in place of errors about a value."""

    def convert_with_path(value: Any) -> Any:
        """Returns `convert(value)`; errors about the value begin with the path."""
        try:
            return convert(value)
        except FeatureError as error:
            raise type(error)(f"{path}: {error}") from error
        except _VALUE_ERRORS as error:
            kinds = (FeatureKeyError, FeatureOverflowError, FeatureTypeError)
            kind = next((kind for kind in kinds if isinstance(error, kind.__bases__[1])), FeatureValueError)
            problem = str(error) if type(error) in (TypeError, ValueError) else f"{type(error).__name__}: {error}"
            frame = frames.last_of_author(frames.of(error))
            raise kind(f"{path}: {problem}" + (f" (at {frame})" if frame else "")) from error

    return convert_with_path


def _build_numpy_decoder(feature: Any, path: str) -> Callable[[Any], Any]:
    """Returns the function from the stored form to a NumPy value.

    It calls `decode_example_np` of the feature, or `decode_example` if the class does not define it, and converts
    TensorFlow tensors to arrays. Errors begin with `path`.
    """
    decode = _add_path_to_errors(getattr(feature, "decode_example_np", None) or feature.decode_example, path)

    def decode_to_numpy(stored: Any) -> Any:
        """Returns the decoded value; tensors of TensorFlow become NumPy arrays."""
        value = decode(stored)
        return value.numpy() if hasattr(value, "numpy") else value

    return decode_to_numpy


def _replace_leaves_by_tensors(feature: Any) -> FeatureConnector:
    """Returns the features with a Tensor of the same shape and dtype in place of each leaf."""
    if isinstance(feature, FeaturesDict):
        return feature.with_features({name: _replace_leaves_by_tensors(child) for name, child in feature.items()})
    if isinstance(feature, Sequence):
        return Sequence(_replace_leaves_by_tensors(feature.feature), feature.length)
    return Tensor(shape=feature.shape, dtype=feature.dtype, optional=feature.is_optional)


def _build_empty_columns(shape: Any, dtype: Any) -> Any:
    """Returns an empty array of shape (0, *shape); for dicts of shapes and dtypes, a dict of empty arrays.

    >>> _build_empty_columns({"a": (2,)}, {"a": np.dtype("int64")})
    {'a': array([], shape=(0, 2), dtype=int64)}
    """
    if isinstance(dtype, dict):
        return {name: _build_empty_columns(shape[name], dtype[name]) for name in dtype}
    return stack_items([]) if dtype is None else build_empty_items(shape or (), dtype)
