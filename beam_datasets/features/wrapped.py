"""Connectors that store their values as those of another connector; and connectors that users write.

Users' connectors have the method names of TensorFlow Datasets. A subclass of `CustomFeature` declares what is stored
and how values are converted. A subclass of another connector, as `Tensor`, may override `encode_example` and
`decode_example`. features.json names the class; to read the feature by it, the class must be registered. Nothing is
imported by that name.
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
    """A connector that turns its values into those of an inner connector, and back."""

    @abc.abstractmethod
    def inner_connector(self) -> FeatureConnector:
        """Returns the connector that stores the values."""

    @abc.abstractmethod
    def to_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the function from a value to one of the inner connector."""

    @abc.abstractmethod
    def from_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the function from a value of the inner connector to one of this."""

    def from_inner_items_converter(self, path: str, rank: int) -> Callable[[Any], Any]:
        """Returns the function from the inner connector's items of sequences to items of this."""
        lift, is_array = self.from_inner_converter(path), has_one_shape(self)

        def lift_each(rows: Any) -> Any:
            lengths = _get_row_lengths(rows, rank)
            items: Any = [lift(item) for item in _flatten_items(rows, rank, path)]
            if is_array:
                items = _stack_columns(items) if items else self.build_empty_items()
            return _restore_rows(items, lengths)

        return lift_each

    def build_empty_items(self) -> Any:
        """Returns the items of an empty sequence as they are decoded: of the type of others."""
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
        """Returns that of the inner connector."""
        return self.inner_connector().decoded()

    def leaves(self, name: str, rank: int = 0) -> list[tuple[str, Any, int]]:
        """Returns those of the inner connector."""
        return self.inner_connector().leaves(name, rank)

    def rows_encoder(self, name: str, rank: int) -> RowsEncode:
        """Returns the function that encodes one value, or the items of sequences."""
        encode, lower = self.inner_connector().rows_encoder(name, rank), self.to_inner_converter(name)

        def encode_rows(items: Items, lengths: Lengths) -> list[tuple[str, bytes]]:
            return encode([lower(item) for item in items], lengths)

        return encode_rows

    def decoder(self, name: str, rank: int = 0) -> Decode:
        """Returns the function that decodes one value, or the items of sequences."""
        decode = self.inner_connector().decoder(name, rank)
        lift = self.from_inner_items_converter(name, rank) if rank else self.from_inner_converter(name)
        return lambda lists: lift(decode(lists))

    def stored(self) -> FeatureConnector:
        """Returns the inner connector's stored form."""
        return self.inner_connector().stored()

    def content_json(self) -> tuple[str, Json]:
        """Returns what the inner connector says."""
        return self.inner_connector().content_json()


def _get_row_lengths(rows: Any, rank: int) -> Lengths:
    """Returns the row lengths of items below `rank` sequences, those of the first column of a dict."""
    if isinstance(rows, dict):
        return next((_get_row_lengths(column, rank) for column in rows.values()), ())
    return rows.row_lengths[: rank - 1] if rank > 1 else ()


def _stack_columns(items: list[Any]) -> Any:
    """Returns items stacked: dicts as a dict of columns."""
    if items and isinstance(items[0], dict):
        return {name: _stack_columns([item[name] for item in items]) for name in items[0]}
    return stack_items(items)


def _restore_rows(columns: Any, lengths: Lengths) -> Any:
    """Returns stacked items as sequences below several others have them."""
    if isinstance(columns, dict):
        return {name: _restore_rows(column, lengths) for name, column in columns.items()}
    return RaggedArray(columns, lengths) if lengths else columns


def _flatten_items(rows: Any, rank: int, path: str) -> list[Any]:
    """Returns all items below `rank` sequences in order; a dict of columns becomes a list of dicts."""
    if isinstance(rows, RaggedArray) and rank > 1:
        inside = rows.row_lengths[rank - 1 :]  # of items that are sequences themselves
        return list(RaggedArray(rows.flat_values, inside) if inside else rows.flat_values)
    if not isinstance(rows, dict):
        return list(rows)
    columns = [_flatten_items(column, rank, path) for column in rows.values()]
    if len(set(map(len, columns))) > 1:
        counts = dict(zip(rows, map(len, columns)))
        raise FeatureValueError(f"{path}: the record has different numbers of items: {counts}")
    return [dict(zip(rows, values)) for values in zip(*columns)]


@dataclass(frozen=True, repr=False)
class DynamicTensor(Wrapped):
    """How a Tensor with several unknown lengths is stored: `<name>/shape` and `<name>/value`."""

    tensor: Tensor = field(kw_only=True)

    def inner_connector(self) -> FeatureConnector:
        """Returns the connector of the shape and the bytes."""
        optional = self.tensor.optional
        return FeaturesDict(
            {
                "shape": Tensor(shape=(len(self.tensor.shape),), dtype=np.int64, optional=optional),
                "value": Tensor(shape=(), dtype=STRING, optional=optional),
            }
        )

    def to_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the function from an array to its shape and bytes."""
        tensor = self.tensor
        if tensor.encoding is Encoding.NONE:
            raise FeatureValueError(f"{path}: a Tensor with several unknown lengths needs encoding='zlib' or 'bytes'")
        make = array_maker(tensor.dtype, tensor.shape, path, allow_rounding=tensor.allow_rounding)
        codec = tensor.codec(path)

        def lower(value: Any) -> dict[str, Any]:
            if value is None and tensor.optional:
                return {"shape": None, "value": None}
            array = make(value)
            return {"shape": np.array(array.shape, np.int64), "value": codec.pack(array)[0]}

        return lower

    def build_empty_items(self) -> Any:
        """Returns an empty array."""
        return build_empty_items(self.tensor.shape, self.tensor.dtype)

    def from_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the function from a shape and bytes to the array."""
        tensor = self.tensor
        compress = tensor.encoding is Encoding.ZLIB

        def lift(stored: dict[str, Any]) -> Any:
            if stored["value"] is None:
                return None
            shape = tuple(stored["shape"].tolist())
            if not shape_fits(shape, tensor.shape) or min(shape) < 0:
                raise FeatureValueError(f"{path}: the record has the shape {shape}; the feature has {tensor.shape}")
            return array_unpacker(tensor.dtype, shape, path, compress=compress)(stored["value"])

        return lift


_REGISTERED: dict[str, type[FeatureConnector]] = {}
_Class = TypeVar("_Class", bound=type[FeatureConnector])


def register(kind: _Class) -> _Class:
    """Registers a class of connectors by its name in features.json, so that datasets with it can be read; returns it.

    It may be used as a decorator. Names in an attribute `ALIASES` of the class are registered too.
    """
    for name in (class_name(kind), *kind.__dict__.get("ALIASES", ())):
        _REGISTERED[name] = kind
    return kind


def class_name(kind: type[FeatureConnector]) -> str:
    """Returns the name of a user's class in features.json."""
    module = "__main__" if kind.__module__ == "__mp_main__" else kind.__module__  # the script, in its new processes
    return f"{module}.{kind.__name__}"


def from_registered(name: str, content: Json) -> FeatureConnector | None:
    """Returns the connector of a registered class with this content of features.json; None if there is none.

    Raises:
        Exception: several classes may be meant, or the class does not make a connector of the content.
    """
    kind: Any = _REGISTERED.get(name)
    if kind is None:  # the module may have another root now, or none if it is run as a script
        matches = {
            each: known
            for known, each in _REGISTERED.items()
            if _has_class_suffix(name, known) or _has_class_suffix(known, name)
        }
        if len(matches) > 1:
            raise LookupError(f"several registered classes have its name: {', '.join(sorted(matches.values()))}")
        if not matches:
            return None
        [(kind, known)] = matches.items()
        if "__main__" in (name.partition(".")[0], known.partition(".")[0]):
            warnings.warn(
                f"features.json names the class {name!r}, and the registered class {known!r} is used: one of them was "
                f"defined by a script, so only the names of the classes are compared. If they are the same class, set "
                f"ALIASES = ({name!r},) in it; if not, register the right one",
                stacklevel=2,
            )
    return wrap_overridden(_build_connector(kind, content))


def _build_connector(kind: Any, content: Json) -> Any:
    """Returns the connector that a user's class makes of its content in features.json."""
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
    """Raises a FeatureTypeError unless the feature's class makes a connector of what features.json will have of it."""
    try:
        _build_connector(type(feature), feature.content_json()[1])
    except Exception as error:
        raise FeatureTypeError(
            f"{path}: the class {class_name(type(feature))!r} does not make a connector of its content in "
            f"features.json, so other processes could not read the feature: {type(error).__name__}: {error}. Return "
            "the arguments of the constructor from to_json_content, as a dict, or define from_json_content"
        ) from error


def _has_class_suffix(name: str, other: str) -> bool:
    """Returns whether a class's name is another one below more packages; `__main__` is any module."""
    return name.endswith(f".{other.removeprefix('__main__.')}")


def wrap_overridden(feature: FeatureConnector) -> FeatureConnector:
    """Returns a connector that uses `encode_example` and `decode_example` of a subclass of one of ours."""
    return feature if isinstance(feature, CustomFeature) else Customised(connector=feature)


@dataclass(frozen=True)
class TensorInfo:
    """Shape and dtype of values.

    Attributes:
        shape: None in it is any length.
        dtype: a dtype of NumPy.
        minimum: the lowest value, if there is one.
        maximum: the highest value.
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
        """The dtype, by the name that TensorFlow Datasets has for NumPy's."""
        return to_dtype(self.dtype)


def tensor_info(feature: Any) -> Any:
    """Returns the `TensorInfo` of a feature's values, or a dict of these."""
    if isinstance(feature, FeaturesDict):
        return {name: child.get_tensor_info() for name, child in feature.items()}
    if isinstance(feature, Sequence):
        return _add_sequence_dimension(feature.feature.get_tensor_info(), feature.length)
    if isinstance(feature, Tensor):
        bounds = {"minimum": feature.minimum, "maximum": feature.maximum, "optional": feature.optional}
        return TensorInfo(feature.shape, feature.dtype, **bounds)
    return _build_tensor_infos(shape_of(feature), dtype_of(feature))


def _add_sequence_dimension(info: Any, length: int | None) -> Any:
    if isinstance(info, Mapping):
        return {name: _add_sequence_dimension(child, length) for name, child in info.items()}
    return replace(info, shape=(length, *info.shape))


def _build_tensor_infos(shape: Any, dtype: Any) -> Any:
    if isinstance(dtype, Mapping):
        return {name: _build_tensor_infos(shape[name], dtype[name]) for name in dtype}
    return TensorInfo(shape, dtype)


def _connector_of_spec(spec: Any) -> FeatureConnector:
    """Returns the connector that stores what a `TensorInfo`, a connector, or a dict of these describes."""
    if isinstance(spec, Mapping):
        return FeaturesDict({name: _connector_of_spec(inner) for name, inner in spec.items()})
    if not isinstance(spec, TensorInfo):
        return to_feature(spec)
    is_float = to_dtype(spec.dtype).kind == "f"  # these are rounded, as in TFDS
    bounds = {"minimum": spec.minimum, "maximum": spec.maximum, "optional": spec.optional}
    return Tensor(shape=spec.shape, dtype=spec.dtype, allow_rounding=is_float, **bounds)


class CustomFeature(Wrapped):
    """A connector that a user defines: what is stored, and how a value becomes that and back.

    A subclass defines `get_tensor_info` and `encode_example`, and optionally the other methods. Arguments of its
    constructor are returned by `to_json_content`, so that the connector can be made again from features.json.
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
        """Returns a `TensorInfo` of decoded values, or a dict of these."""

    def get_serialized_info(self) -> Any:
        """Returns what is stored: a `TensorInfo`, a connector, or a dict of these; by default as decoded values."""
        return self.get_tensor_info()

    def to_json_content(self) -> Any:
        """Returns what JSON must keep of the connector: by default nothing."""
        return {}

    @classmethod
    def from_json_content(cls, value: Any, doc: Any = None) -> Self:
        """Returns the connector that `to_json_content` described: by default `cls(**value)`."""
        connector = cls(**value)
        return connector.with_doc(doc) if doc else connector  # type: ignore[return-value]

    def _build_declared(self, declare: Callable[[], Any]) -> FeatureConnector:
        """Calls a user's method, and returns the connector that its result describes.

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
        """Shapes of decoded values."""
        return shape_of(self._build_declared(self.get_tensor_info))

    @property
    def dtype(self) -> Any:
        """Dtypes of decoded values."""
        return dtype_of(self._build_declared(self.get_tensor_info))

    @property
    def python_class_name(self) -> str:
        """The class's name in features.json."""
        return class_name(type(self))

    def decoded(self) -> FeatureConnector:
        """Returns the connector that `get_tensor_info` describes."""
        return self._build_declared(self.get_tensor_info).decoded()

    def inner_connector(self) -> FeatureConnector:
        """Returns the connector of what is stored."""
        return self._build_declared(self.get_serialized_info)

    def to_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the function from a value to what is stored."""
        _check_content(self, path)
        return _add_path_to_errors(self.encode_example, path)

    def from_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the function from what is stored to a value."""
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
        """Returns the connector with this content."""
        return cls.from_json_content(json.loads(content["json"]))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash((type(self), json.dumps(self.to_json())))

    def __repr__(self) -> str:
        content = self.to_json_content()
        given = ", ".join(f"{name}={value!r}" for name, value in content.items()) if isinstance(content, dict) else ""
        return f"{type(self).__name__}({given})"


@dataclass(frozen=True, repr=False)
class Customised(Wrapped):
    """A user's subclass of a connector, which overrides `encode_example` or `decode_example`."""

    connector: FeatureConnector = field(kw_only=True)

    @property
    def python_class_name(self) -> str:
        """The class's name in features.json."""
        return class_name(type(self.connector))

    def inner_connector(self) -> FeatureConnector:
        """Returns the connector, which encodes what `encode_example` returns."""
        return self.connector

    def decoded(self) -> FeatureConnector:
        """Returns the features of the connector, as tensors: of an image the user's methods make another array."""
        return _replace_leaves_by_tensors(self.connector.decoded())

    def to_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns `encode_example`."""
        _check_content(self.connector, path)
        return _add_path_to_errors(self.connector.encode_example, path)

    def from_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns `decode_example`."""
        return _build_numpy_decoder(self.connector, path)

    def label_files(self, prefix: str = "") -> dict[str, str]:
        """Returns the label files of the connector."""
        return self.connector.label_files(prefix)

    def load_labels(self, read: Callable[[str], str | None], prefix: str = "") -> Customised:
        """Returns the same feature with the label names that `read` finds."""
        return self._copy_with(connector=self.connector.load_labels(read, prefix))

    def __repr__(self) -> str:
        return repr(self.connector)


_VALUE_ERRORS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""Errors of a user's function about a value, not about a file or the machine."""


def _add_path_to_errors(convert: Callable[[Any], Any], path: str) -> Callable[[Any], Any]:
    """Returns a user's function that raises a FeatureError with the path of the feature for an error about a value."""

    def converted(value: Any) -> Any:
        try:
            return convert(value)
        except FeatureError as error:
            raise type(error)(f"{path}: {error}") from error
        except _VALUE_ERRORS as error:
            kinds = (FeatureKeyError, FeatureOverflowError, FeatureTypeError)
            kind = next((kind for kind in kinds if isinstance(error, kind.__bases__[1])), FeatureValueError)
            said = str(error) if type(error) in (TypeError, ValueError) else f"{type(error).__name__}: {error}"
            frame = frames.last_of_author(frames.of(error))
            raise kind(f"{path}: {said}" + (f" (at {frame})" if frame else "")) from error

    return converted


def _build_numpy_decoder(feature: Any, path: str) -> Callable[[Any], Any]:
    """Returns the function that decodes: `decode_example_np` of a class that has it; tensors become arrays."""
    decode = _add_path_to_errors(getattr(feature, "decode_example_np", None) or feature.decode_example, path)

    def decode_to_numpy(stored: Any) -> Any:
        value = decode(stored)
        return value.numpy() if hasattr(value, "numpy") else value

    return decode_to_numpy


def _replace_leaves_by_tensors(feature: Any) -> FeatureConnector:
    if isinstance(feature, FeaturesDict):
        return feature.with_features({name: _replace_leaves_by_tensors(child) for name, child in feature.items()})
    if isinstance(feature, Sequence):
        return Sequence(_replace_leaves_by_tensors(feature.feature), feature.length)
    return Tensor(shape=feature.shape, dtype=feature.dtype, optional=feature.is_optional)


def _build_empty_columns(shape: Any, dtype: Any) -> Any:
    if isinstance(dtype, dict):
        return {name: _build_empty_columns(shape[name], dtype[name]) for name in dtype}
    return stack_items([]) if dtype is None else build_empty_items(shape or (), dtype)
