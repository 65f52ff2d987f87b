"""Partial decoding of features, and decoders that replace those of their connectors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ClassVar

import numpy as np

from beam_datasets.errors import shown_name
from beam_datasets.features.base import FeatureConnector, Replacement, dtype_of, shape_of, to_feature
from beam_datasets.features.dtypes import STRING, is_dtype
from beam_datasets.features.features_dict import FeaturesDict, join
from beam_datasets.features.numbers import shape_fits
from beam_datasets.features.sequence import Sequence
from beam_datasets.features.tensor import Tensor
from beam_datasets.features.translation import TranslationVariableLanguages
from beam_datasets.features.trees import steps_by_name
from beam_datasets.features.wrapped import Wrapped


class Decoder(Replacement):
    """Base class of decoders, which decode a feature in place of its connector.

    A subclass defines `decode_example`, which can use `self.feature`.

    Examples:
        >>> class Size(Decoder):
        ...     def decode_example(self, stored):
        ...         return len(stored)
    """

    _feature: FeatureConnector | None = None

    @property
    def feature(self) -> FeatureConnector:
        """The feature that is decoded.

        Raises:
            ValueError: `setup()` has not been called yet.
        """
        if self._feature is None:
            raise ValueError("the feature is known once the decoder is used to read; see setup(feature=...)")
        return self._feature

    def setup(self, *, feature: FeatureConnector) -> None:
        """Sets `self.feature`; called once per feature before anything is decoded."""
        self._feature = feature

    @property
    def dtype(self) -> Any:
        """The dtype of decoded values. It is not needed here; TensorFlow Datasets asks for it."""
        return dtype_of(self.feature)

    def decode_example(self, stored: Any) -> Any:
        """Returns the decoded value of a stored form, as `SkipDecoding` yields it; for a sequence, of one item."""
        raise NotImplementedError(f"{type(self).__name__} must define decode_example(self, stored)")

    def decode_example_np(self, stored: Any) -> Any:
        """Returns the decoded NumPy value of a stored form; the default calls `decode_example`."""
        return self.decode_example(stored)

    def apply_to(self, feature: FeatureConnector) -> FeatureConnector:
        """Returns a connector that decodes the stored form of `feature` with this decoder; in a sequence, each item."""
        if isinstance(feature, Sequence):
            return feature.with_feature(self.apply_to(feature.feature))
        decoder = copy.copy(self)  # one decoder may be given for several features
        decoder.setup(feature=feature)
        return Decoded(feature=feature, function=FunctionDecoder(_decode_with, (decoder,)))


def _decode_with(stored: Any, feature: FeatureConnector, decoder: Decoder) -> Any:
    """Returns `decoder.decode_example_np(stored)`; the signature is that of a `FunctionDecoder`'s function."""
    del feature  # the decoder has it from setup()
    return decoder.decode_example_np(stored)


@dataclass(frozen=True)
class SkipDecoding(Decoder):
    """A decoder that returns the stored form: the bytes of an image file or of an encoded tensor, an index of a class.

    The stored form of a video is an array of the files of its frames.
    """

    def apply_to(self, feature: FeatureConnector) -> FeatureConnector:
        """Returns the connector of the stored form."""
        return feature.stored()


def skip_decoding(feature: FeatureConnector, *kinds: type[FeatureConnector]) -> Any:
    """Returns a nest of `SkipDecoding` for all features of some classes; None if there is no such feature.

    Args:
        feature: a tree of features.
        kinds: the classes of connectors.
    """
    if isinstance(feature, kinds):
        return SkipDecoding()
    if isinstance(feature, Sequence):
        return skip_decoding(feature.feature, *kinds)
    if isinstance(feature, FeaturesDict):
        return {name: skip for name, child in feature.items() if (skip := skip_decoding(child, *kinds))} or None
    return None


def with_str(feature: FeatureConnector) -> FeatureConnector:
    """Returns the features with `Text` and other string tensors that decode to `str` instead of bytes.

    String tensors in dicts and sequences change too, and those of `TranslationVariableLanguages`. User-defined
    connectors do not.
    """
    if feature.is_overridden():
        return feature
    if isinstance(feature, TranslationVariableLanguages):  # it has the values of the inner connector
        return with_str(feature.inner_connector())
    if isinstance(feature, Sequence):
        return feature.with_feature(with_str(feature.feature))
    if isinstance(feature, FeaturesDict):
        return feature.with_features({name: with_str(child) for name, child in feature.items()})
    if isinstance(feature, Tensor) and feature.dtype == STRING:
        return feature._copy_with(as_str=True)
    return feature


@dataclass(frozen=True)
class FunctionDecoder(Decoder):
    """A decoder that calls a function; created by functions decorated with `make_decoder`.

    Attributes:
        function: the function `(stored, feature, *args, **kwargs) -> value`.
        args: the positional arguments after the feature.
        kwargs: the keyword arguments.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def apply_to(self, feature: FeatureConnector) -> FeatureConnector:
        """Returns a connector that decodes the stored form of `feature` with the function; in a sequence, each item."""
        if isinstance(feature, Sequence):
            return feature.with_feature(self.apply_to(feature.feature))
        return Decoded(feature=feature, function=self)


def make_decoder(output_dtype: Any = None) -> Callable[[Callable[..., Any]], Callable[..., FunctionDecoder]]:
    """Returns a decorator for functions `(stored, feature, *args, **kwargs) -> value`.

    The decorated function takes `*args, **kwargs` and returns a decoder. `stored` is the value that `SkipDecoding`
    yields.

    Args:
        output_dtype: not needed here; TensorFlow Datasets asks for it.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., FunctionDecoder]:
        """Returns a function that makes decoders, which call `function`."""

        @wraps(function)
        def make(*args: Any, **kwargs: Any) -> FunctionDecoder:
            """Returns a decoder that calls the decorated function with these additional arguments."""
            return FunctionDecoder(function, args, kwargs)

        return make

    return decorate


@dataclass(frozen=True)
class PartialDecoding(Replacement):
    """Selection of the features to decode; the others are not read.

    Attributes:
        features: a set or list of names, nested ones with dots as 'product.title'; or a dict from names to True, False,
            a feature (which must fit the dataset's), or a nested specification of the same form.
        decoders: a nest of decoders for some of the selected features; None for no decoders.
    """

    features: Any
    decoders: Any = None

    def extract_features(self, features: FeatureConnector) -> FeatureConnector:
        """Returns the selected features of a dataset; `decoders` are not applied.

        Raises:
            ValueError: a name is unknown, or a feature does not fit the dataset's.
            TypeError: a feature is of another class than the dataset's, or `self.features` has another form.
        """
        return select(features, self)

    def apply_to(self, feature: FeatureConnector) -> FeatureConnector:
        """Returns the selected features, with `self.decoders` in place of their connectors."""
        return select(feature, self).with_decoders(self.decoders)


@dataclass(frozen=True, repr=False)
class Decoded(Wrapped):
    """A feature whose stored form is decoded by a function.

    Attributes:
        feature: the original connector.
        function: the decoder that is called with the stored form and the original connector.
    """

    feature: FeatureConnector = field(kw_only=True)
    function: FunctionDecoder = field(kw_only=True)

    PATH: ClassVar[str] = ""
    shape: ClassVar[None] = None  # a function may return anything
    dtype: ClassVar[None] = None

    def decoded(self) -> FeatureConnector:
        """Returns this connector, which already yields decoded values."""
        return self

    def inner_connector(self) -> FeatureConnector:
        """Returns the connector of the stored form."""
        return self.feature.stored()

    def to_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Raises TypeError: a feature with its own decoder cannot be encoded."""
        raise TypeError(f"{shown_name(path)}: a feature with a decoder of its own cannot be encoded")

    def from_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the function from a stored form to the decoded value; TensorFlow tensors are converted to NumPy.

        Args:
            path: the feature, for errors.
        """
        decoder, feature = self.function, self.feature

        def decode(stored: Any) -> Any:
            """Returns the value that the decoder makes of a stored form; tensors of TensorFlow become NumPy arrays."""
            value = decoder.function(stored, feature, *decoder.args, **decoder.kwargs)
            is_tensor = type(value).__module__.startswith("tensorflow.") and hasattr(value, "numpy")
            return value.numpy() if is_tensor else value

        return decode


def select(feature: FeatureConnector, spec: Any, path: str = "") -> FeatureConnector:
    """Returns the features that a specification selects.

    Args:
        feature: a tree of features.
        spec: a `PartialDecoding`, or a value of its attribute `features`.
        path: the name of the tree, with slashes, for errors.

    Raises:
        ValueError: a name is unknown, or a feature does not fit the dataset's.
        TypeError: a feature is of another class than the dataset's, or `spec` has another form.
    """
    if isinstance(spec, PartialDecoding):
        spec = spec.features
    if isinstance(spec, (bool, np.bool_)) and spec:
        return feature
    if isinstance(spec, Sequence) and isinstance(feature, Sequence):
        return feature.with_feature(select(feature.feature, spec.feature, path))
    if isinstance(spec, FeaturesDict) and type(spec) is FeaturesDict:
        spec = spec.features
    if isinstance(spec, FeatureConnector) or is_dtype(spec):
        return _check_fit(feature, to_feature(spec), path)
    if isinstance(spec, (list, tuple, set, frozenset)):
        spec = dict.fromkeys(spec, True)
    if not isinstance(spec, dict):
        raise TypeError(
            f"{shown_name(path) or 'partial decoding'}: {spec!r} is not a nest of names; see decode.PartialDecoding"
        )
    if isinstance(feature, Sequence):
        return feature.with_feature(select(feature.feature, spec, path))
    selected = {name: child for name, child in spec.items() if not isinstance(child, (bool, np.bool_)) or child}
    if not isinstance(feature, FeaturesDict):
        label = shown_name(path) or "the features"
        raise ValueError(f"{label}: {feature!r} contains no features, but partial decoding names {sorted(selected)}")
    for name in spec.keys() - selected.keys():
        for parent, child in selected.items():
            if child is True and str(name).replace("/", ".").startswith(f"{parent}."):
                label = shown_name(path) or "partial decoding"
                raise ValueError(
                    f"{label}: {parent!r} selects all of its features, so {name!r} cannot be left out. Name those to "
                    "keep."
                )
    selected = _nest(selected, feature)
    feature.check_names(selected, path, "partial decoding")
    return feature.with_features(
        {name: select(feature[name], child, join(path, name)) for name, child in selected.items()}
    )


def _nest(spec: dict[Any, Any], features: FeaturesDict) -> dict[Any, Any]:
    """Returns a specification in which names with dots or slashes are nests: {'a': {'b': True}} for {'a.b': True}.

    >>> _nest({"a.b": True, "c": True}, FeaturesDict({"a": {"b": np.int64}, "c": np.int64}))
    {'c': True, 'a': {'b': True}}
    """
    nested = {name: child for name, child in spec.items() if name in features}
    steps_of = steps_by_name(features) if len(nested) < len(spec) else {}
    for name in [name for name in spec if name not in features]:
        *steps, last = steps_of.get(name, (name,))
        inner = nested
        for step in steps:
            child = inner.get(step, {})
            if isinstance(child, (list, tuple, set, frozenset)):
                child = dict.fromkeys(child, True)
            if not isinstance(child, dict):  # the whole feature is selected already
                break
            inner[step] = dict(child)
            inner = inner[step]
        else:
            inner[last] = spec[name]
    return nested


def _check_fit(feature: FeatureConnector, expected: FeatureConnector, path: str) -> FeatureConnector:
    """Returns `feature`, a feature of the dataset, after checking it against the expected class, shape and dtype.

    Raises:
        TypeError: the class differs.
        ValueError: the shape or the dtype does not fit.
    """
    if not isinstance(feature, type(expected)):
        raise TypeError(f"{shown_name(path)}: the dataset has {feature!r}, not {expected!r}")
    shapes = shape_of(feature), shape_of(expected)
    fits = shapes[0] == shapes[1] or (isinstance(shapes[0], tuple) and shape_fits(shapes[0], shapes[1]))
    if dtype_of(feature) != dtype_of(expected) or not fits:
        raise ValueError(f"{shown_name(path)}: the dataset has {feature!r}, not {expected!r}")
    return feature
