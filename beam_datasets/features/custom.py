"""Base classes of user-defined connectors, and their registration.

Users' connectors have the method names of TensorFlow Datasets. A subclass of `CustomFeature` declares the stored form
and converts values to it and back. A subclass of another connector, such as `Tensor`, may override `encode_example` and
`decode_example`. features.json contains the name of the class; the class must be registered before the feature can be
read. Nothing is imported by that name.
"""

from __future__ import annotations

import abc
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from beam_datasets import frames
from beam_datasets.errors import (
    FeatureError,
    FeatureKeyError,
    FeatureOverflowError,
    FeatureTypeError,
    FeatureValueError,
    shown_name,
)
from beam_datasets.features.base import FeatureConnector, FromJson, TensorInfo, dtype_of, shape_of, to_feature, to_numpy
from beam_datasets.features.config import from_json
from beam_datasets.features.dtypes import Json, to_dtype
from beam_datasets.features.features_dict import FeaturesDict
from beam_datasets.features.registry import build_connector, class_name
from beam_datasets.features.tensor import Tensor
from beam_datasets.features.wrapped import Wrapped


def wrap_overridden(feature: FeatureConnector) -> FeatureConnector:
    """Returns a connector that calls the overridden `encode_example` and `decode_example` of a user's connector."""
    return feature if isinstance(feature, CustomFeature) else Customised(connector=feature, doc=feature.doc)


class CustomFeature(Wrapped):
    """Base class of connectors that users define, with a stored form and conversions to it and back.

    A subclass defines `get_tensor_info`, and those of the other methods that do more than return their argument.
    `to_json_content` returns the arguments of its constructor, so that the connector can be made again from
    features.json. Instances with the same content are equal.

    Examples:
        >>> class Money(CustomFeature):
        ...     def get_tensor_info(self):  # of decoded values
        ...         return TensorInfo(shape=(), dtype="float64")
        ...     def get_serialized_info(self):  # of stored values
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

    def encode_example(self, value: Any) -> Any:
        """Returns the stored form of a value; by default the value itself."""
        return value

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
                f"what get_tensor_info or get_serialized_info returns is unusable: {error}",
                feature=self.python_class_name,
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
        """Returns the key 'jsonFeature' and {'json': the JSON text of `to_json_content()`}.

        Raises:
            FeatureTypeError: the user's method returned other values than those of JSON.
        """
        content = self.to_json_content()
        try:
            return "jsonFeature", {"json": json.dumps(content)}
        except (TypeError, ValueError) as error:
            raise FeatureTypeError(
                f"{self.python_class_name}.to_json_content: expected values of JSON, got {content!r:.200}: {error}. "
                "Return numbers, texts, lists and dicts of Python"
            ) from error

    @classmethod
    def from_content(cls, content: Json, from_json: FromJson) -> Self:
        """Returns the connector of `content`, the second value of `content_json`."""
        return cls.from_json_content(json.loads(content["json"]))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.content_json() == other.content_json()

    def __hash__(self) -> int:
        return hash((type(self), json.dumps(self.content_json())))

    def __repr__(self) -> str:
        content = self.to_json_content()
        arguments = content.items() if isinstance(content, dict) else ()
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in arguments)})"


def _connector_of_spec(spec: Any) -> FeatureConnector:
    """Returns the connector of values that a `TensorInfo`, a connector, or a dict of these by name describes."""
    if isinstance(spec, Mapping):
        return FeaturesDict({name: _connector_of_spec(inner) for name, inner in spec.items()})
    if not isinstance(spec, TensorInfo):
        return to_feature(spec)
    is_float = to_dtype(spec.dtype).kind == "f"  # these are rounded, as in TFDS
    bounds = {"minimum": spec.minimum, "maximum": spec.maximum, "optional": spec.optional}
    return Tensor(shape=spec.shape, dtype=spec.dtype, allow_rounding=is_float, **bounds)


def _check_content(feature: FeatureConnector, path: str) -> None:
    """Checks that the class of a feature makes a connector from the content that features.json will contain.

    Raises:
        FeatureTypeError: it failed, so other processes could not read the feature; `path` names it.
    """
    try:
        build_connector(type(feature), feature.content_json()[1], from_json)
    except Exception as error:
        raise FeatureTypeError(
            f"the class {class_name(type(feature))!r} does not make a connector of its content in "
            f"features.json, so other processes could not read the feature: {type(error).__name__}: {error}. "
            "Return the arguments of the constructor from to_json_content, as a dict, or define "
            "from_json_content",
            feature=path,
        ) from error


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
        """Returns the connector with Tensors as leaves, because the user's method may return any array."""
        return self.connector.decoded().map_leaves(_tensor_of)

    def to_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the user's `encode_example`; its errors begin with `path`."""
        _check_content(self.connector, path)
        return _add_path_to_errors(self.connector.encode_example, path)

    def from_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the function that calls the user's `decode_example` and converts its result to NumPy."""
        return _build_numpy_decoder(self.connector, path)

    def label_files(self, prefix: str = "") -> dict[str, str]:
        """Returns {file name: text} of the label files of the user's connector; see `FeatureConnector.label_files`."""
        return self.connector.label_files(prefix)

    def load_labels(self, read: Callable[[str], str | None], prefix: str = "") -> Customised:
        """Returns a copy with the class names of its label files; see `FeatureConnector.load_labels`."""
        return self._copy_with(connector=self.connector.load_labels(read, prefix))

    def __repr__(self) -> str:
        return repr(self.connector)


_VALUE_ERRORS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""Errors of a user's function about a value, not about a file or the machine."""


def _add_path_to_errors(convert: Callable[[Any], Any], path: str) -> Callable[[Any], Any]:
    """Returns the function `convert`, whose TypeErrors, ValueErrors and the like become a FeatureError with the path.

    Its message is "<path>: <error> (at <line of the user's code>)".
    """

    def convert_with_path(value: Any) -> Any:
        """Returns `convert(value)`; errors about the value begin with the path."""
        try:
            return convert(value)
        except FeatureError as error:
            raise type(error)(f"{shown_name(path)}: {error}") from error
        except _VALUE_ERRORS as error:
            kinds = (FeatureKeyError, FeatureOverflowError, FeatureTypeError)
            kind = next((kind for kind in kinds if isinstance(error, kind.__bases__[1])), FeatureValueError)
            problem = str(error) if type(error) in (TypeError, ValueError) else f"{type(error).__name__}: {error}"
            frame = frames.last_of_author(frames.of(error))
            raise kind(f"{shown_name(path)}: {problem}" + (f" (at {frame})" if frame else "")) from error

    return convert_with_path


def _build_numpy_decoder(feature: FeatureConnector, path: str) -> Callable[[Any], Any]:
    """Returns the function from the stored form to a NumPy value.

    It calls `decode_example_np` of the feature, or `decode_example` if the class does not define it, and converts
    TensorFlow tensors to arrays. Errors begin with `path`.
    """
    decode = _add_path_to_errors(getattr(feature, "decode_example_np", None) or feature.decode_example, path)

    def decode_to_numpy(stored: Any) -> Any:
        """Returns the decoded value; tensors of TensorFlow become NumPy arrays."""
        return to_numpy(decode(stored))

    return decode_to_numpy


def _tensor_of(leaf: Any) -> Tensor:
    """Returns a Tensor of the shape and dtype of a leaf, and optional if the leaf is."""
    return Tensor(shape=leaf.shape, dtype=leaf.dtype, optional=leaf.is_optional)


@to_feature.register
def _connector_to_feature(feature: FeatureConnector, name: str = "") -> FeatureConnector:
    """Returns the connector itself, or one that calls the methods that a user's class overrides; see `to_feature`."""
    return wrap_overridden(feature) if feature.is_overridden() else feature
