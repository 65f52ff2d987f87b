"""Tensor, Scalar and Text: numbers and strings of any shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar

import numpy as np

from beam_datasets.advice import names_foreign_constructor_arguments
from beam_datasets.arguments import boolean
from beam_datasets.errors import FeatureTypeError, FeatureValueError
from beam_datasets.features import raw
from beam_datasets.features.base import (
    DecodeLists,
    DocArg,
    FeatureConnector,
    FromJson,
    RowsEncode,
    TensorInfo,
    to_feature,
    to_member,
)
from beam_datasets.features.dtypes import (
    STRING,
    Json,
    Shape,
    drop_unset,
    dtype_name,
    is_dtype,
    shape_from_json,
    shape_to_json,
    to_dtype,
    to_shape,
)
from beam_datasets.features.features_dict import FeaturesDict
from beam_datasets.features.leaf import Codec, Leaf
from beam_datasets.features.native_encoding import FastPathSpec, Form
from beam_datasets.features.numbers import (
    array_maker,
    bounds_checker,
    check_number_dtype,
    check_rounding,
    number_codec,
    shape_fits,
)
from beam_datasets.features.wrapped import Wrapped
from beam_datasets.formats.proto_json import parse_int64


class Encoding(Enum):
    """Encodings of a Tensor in a record.

    Attributes:
        NONE: as numbers: integers and bools in a list of int64, floats in a list of float32.
        BYTES: as the bytes of the array, little-endian, in C order.
        ZLIB: as the bytes of the array, compressed by zlib.
    """

    NONE = "none"
    BYTES = "bytes"
    ZLIB = "zlib"


@names_foreign_constructor_arguments
@dataclass(frozen=True, repr=False)
class Tensor(Leaf):
    """Numbers or strings of one dtype and a shape.

    Decodes to an array, or to a NumPy scalar if the shape is `()`. Strings decode to bytes, in an array of objects.

    Attributes:
        shape: the lengths of the dimensions; None means any length. With more than one None an encoding is needed.
        dtype: a NumPy dtype, scalar type, or name such as 'int64'; np.str_ for strings.
        encoding: the form in the record; see `Encoding`.
        minimum, maximum: bounds of the values, both inclusive; checked when encoding.
        optional: whether None is a value, which decodes to None.
        allow_rounding: whether numbers that the dtype, or the float32 of the record, does not hold exactly are rounded
            to the nearest float. If it is False, they are an error. It has an effect only when encoding, and is not in
            features.json.
        parse_text: whether text of numbers is parsed and floats for integers are truncated, as builders of TFDS expect;
            set only by `enable_tfds_conversions`.
        as_str: whether strings decode to `str` instead of bytes; set only by `decode.with_str`.
        doc: the documentation of the feature.
    """

    shape: Shape = field(kw_only=True)
    dtype: Any = field(kw_only=True)
    encoding: Encoding | str = field(default=Encoding.NONE, kw_only=True)
    minimum: Any = field(default=None, kw_only=True)
    maximum: Any = field(default=None, kw_only=True)
    optional: bool = field(default=False, kw_only=True)
    allow_rounding: bool = field(default=False, kw_only=True, compare=False)
    parse_text: bool = field(default=False, init=False, compare=False)
    as_str: bool = field(default=False, init=False)

    PATH: ClassVar[str] = "tensor_feature.Tensor"

    def __post_init__(self) -> None:
        """Converts the fields to their types and checks that they fit together.

        Raises:
            ValueError: a field is invalid.
            NotImplementedError: a tensor of strings has an encoding.
        """
        super().__post_init__()
        encoding = self.encoding.lower() if isinstance(self.encoding, str) else self.encoding
        shape = to_shape(self.shape)
        optional = boolean("optional", self.optional)
        self._set_fields(
            shape=shape, dtype=to_dtype(self.dtype), encoding=to_member(Encoding, encoding), optional=optional
        )
        self._set_fields(allow_rounding=check_rounding(self.allow_rounding, self.dtype))
        if min(filter(None, shape), default=0) < 0:
            raise ValueError(f"shape {shape} has a negative length; None means any length")
        if self.dtype == STRING and self.encoding is not Encoding.NONE:
            raise NotImplementedError("strings are stored as they are; encoding= is for numbers")

    @property
    def is_optional(self) -> bool:
        """Whether None is a value of the feature."""
        return self.optional

    @property
    def is_dynamic(self) -> bool:
        """Whether each value's shape is stored beside it, because several unknown lengths cannot be inferred."""
        return self.shape.count(None) > 1

    def fast_path(self) -> FastPathSpec | None:
        """Returns the description for the native module; None with bounds, zlib or a dynamic shape."""
        if self.minimum is not None or self.maximum is not None or self.is_dynamic or self.encoding is Encoding.ZLIB:
            return None
        if self.dtype == STRING:
            return FastPathSpec(Form.TEXTS if self.shape else Form.TEXT, shape=self.shape, optional=self.optional)
        spec = FastPathSpec.numbers(self.dtype, self.shape, allow_rounding=self.allow_rounding)
        if self.encoding is Encoding.BYTES:
            spec = FastPathSpec(Form.RAW, self.dtype, self.shape) if self.dtype.kind in "biuf" else None
        return spec and replace(spec, optional=self.optional)

    # ------------------------------------------------------------------------------------------- encoding and decoding

    def check_storable(self, path: str) -> None:
        """Checks that records can store the dtype: as a list of numbers, or by the encoding of the feature.

        Args:
            path: name of the feature in the record, for the error.

        Raises:
            FeatureValueError: the dtype, such as bfloat16, needs an encoding, and the feature has none.
        """
        if self.encoding is Encoding.NONE and self.dtype != STRING:
            check_number_dtype(self.dtype, path)

    def codec(self, path: str) -> Codec:
        """Returns the conversion between values and the list in the record: numbers, strings, or arrays as bytes.

        Args:
            path: the feature, for errors.
        """
        if self.dtype == STRING:
            return raw.string_codec(self.shape, path, as_str=self.as_str)
        if self.encoding is not Encoding.NONE:
            check = bounds_checker(self.minimum, self.maximum, path)
            make = array_maker(self.dtype, self.shape, path, allow_rounding=self.allow_rounding)
            return raw.array_codec(self.dtype, self.shape, path, make, check, compress=self.encoding is Encoding.ZLIB)
        bounds = {"minimum": self.minimum, "maximum": self.maximum}
        rounding, parse_text = self.allow_rounding, self.parse_text
        return number_codec(self.dtype, self.shape, path, **bounds, allow_rounding=rounding, parse_text=parse_text)

    def get_tensor_info(self) -> TensorInfo:
        """Returns the shape, dtype and bounds of values, and whether they may be None."""
        bounds = {"minimum": self.minimum, "maximum": self.maximum, "optional": self.optional}
        return TensorInfo(self.shape, self.dtype, **bounds)

    def leaves(self, name: str, rank: int = 0) -> list[tuple[str, Any, int]]:
        """Returns the leaf [(name, tensor, rank)]; for a dynamic shape, the leaves <name>/shape and <name>/value."""
        return self._build_dynamic().leaves(name, rank) if self.is_dynamic else super().leaves(name, rank)

    def rows_encoder(self, name: str, rank: int) -> RowsEncode:
        """Returns the function (items, lengths) -> [(name, map entry), ...]; see `FeatureConnector.rows_encoder`.

        Raises:
            FeatureValueError: values could not be read again, as a length cannot be inferred.
        """
        if self.is_dynamic:
            return self._build_dynamic().rows_encoder(name, rank)
        if None in self.shape and 0 in self.shape:
            raise FeatureValueError(
                f"{self!r} could be written but not read, as the None cannot be inferred from no values. Say "
                "the length in the shape, or leave the feature out",
                feature=name,
            )
        return super().rows_encoder(name, rank)

    def decoder(self, name: str, rank: int = 0) -> DecodeLists:
        """Returns the function from the lists of a record to one value for rank 0, or to the items of sequences."""
        return self._build_dynamic().decoder(name, rank) if self.is_dynamic else super().decoder(name, rank)

    def stored(self) -> FeatureConnector:
        """Returns the connector of the stored form: of the same array, or with an encoding of its bytes."""
        if self.is_dynamic:
            return self._build_dynamic().stored()
        if self.encoding is Encoding.NONE:
            # A user's methods and `as_str` change decoded values, not stored ones.
            differs = self.as_str or self.is_overridden()
            return Tensor(shape=self.shape, dtype=self.dtype, optional=self.optional) if differs else self
        return Tensor(shape=(), dtype=STRING, optional=self.optional)

    def _build_dynamic(self) -> FeatureConnector:
        """Returns the connector that stores a tensor with several unknown lengths as its shape and its bytes."""
        return DynamicTensor(tensor=self)

    # ------------------------------------------------------------------------------------------------------------ JSON

    def content_json(self) -> tuple[str, Json]:
        """Returns ('tensor', {'dtype': ..., 'encoding': ..., 'shape': ...}), with further options that are set.

        For example, ('tensor', {'dtype': 'int64', 'encoding': 'none', 'shape': {'dimensions': ['3']}}).
        """
        bounds = {"minimum": self.minimum, "maximum": self.maximum}
        return "tensor", {
            "dtype": dtype_name(self.dtype),
            "encoding": Encoding(self.encoding).value,
            "shape": shape_to_json(self.shape),
            **drop_unset({"optional": self.optional}),
            **{key: _bound_to_json(key, bound) for key, bound in bounds.items() if bound is not None},
        }

    @classmethod
    def from_content(cls, content: Json, from_json: FromJson) -> Tensor:
        """Returns the Tensor of `content`, the second value of `content_json`."""
        return cls(shape=shape_from_json(content.get("shape")), dtype=content["dtype"], **_parse_options(content))

    def __repr__(self) -> str:
        encoding = "" if self.encoding is Encoding.NONE else f", encoding={Encoding(self.encoding).value!r}"
        options = encoding + (", optional=True" if self.optional else "")
        if type(self) is Tensor and self.shape == () and not options:
            return dtype_name(self.dtype)
        return f"{type(self).__name__}(shape={self.shape}, dtype={dtype_name(self.dtype)}{options})"


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

        Args:
            path: the feature, for errors.

        Raises:
            FeatureValueError: the Tensor has no encoding.
        """
        tensor = self.tensor
        if tensor.encoding is Encoding.NONE:
            raise FeatureValueError(
                "a Tensor with several unknown lengths needs encoding='zlib' or 'bytes'", feature=path
            )
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
        return raw.build_empty_items(self.tensor.shape, self.tensor.dtype)

    def from_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the function from {'shape': lengths, 'value': bytes} to the array.

        Args:
            path: the feature, for errors.
        """
        tensor = self.tensor
        compress = tensor.encoding is Encoding.ZLIB

        def from_inner(stored: dict[str, Any]) -> Any:
            """Returns the array of {'shape': ..., 'value': ...}; None if it is missing."""
            if stored["value"] is None:
                return None
            shape = tuple(stored["shape"].tolist())
            if not shape_fits(shape, tensor.shape) or min(shape) < 0:
                raise FeatureValueError(
                    f"the record has the shape {shape}; the feature has {tensor.shape}", feature=path
                )
            unpack = raw.array_unpacker(tensor.dtype, shape, path, compress=compress, is_declared=False)
            return unpack(stored["value"])

        return from_inner


@to_feature.register
def _dtype_to_feature(dtype: np.dtype, name: str = "") -> Tensor:
    """Returns the Tensor of shape () that a dtype means; see `to_feature`."""
    return Tensor(shape=(), dtype=dtype)


@to_feature.register
def _name_to_feature(dtype: str, name: str = "") -> Tensor:
    """Returns the Tensor of shape () that the name of a dtype such as 'int64' means; see `to_feature`.

    Raises:
        ValueError: no dtype has the name.
    """
    return _to_scalar(dtype, name)


@to_feature.register
def _type_to_feature(dtype: type, name: str = "") -> FeatureConnector:
    """Returns the Tensor of shape () that a NumPy scalar type such as np.int64 means; see `to_feature`.

    Raises:
        ValueError: the type is another one.
    """
    if is_dtype(dtype) or dtype in (bool, int, float, str, bytes):  # of Python's own, the error names NumPy's
        return _to_scalar(dtype, name)
    return to_feature.dispatch(object)(dtype, name)


def _to_scalar(dtype: Any, name: str) -> Tensor:
    """Returns the Tensor of shape () of a dtype.

    Raises:
        ValueError: no feature has this dtype.
    """
    try:
        return Tensor(shape=(), dtype=dtype)
    except ValueError as error:
        raise ValueError(f"{name}: {error}".removeprefix(": ")) from None


@names_foreign_constructor_arguments
class Scalar(Tensor):
    """One number or string: a Tensor of shape ().

    Args:
        dtype: see `Tensor`.
        encoding: see `Tensor`.
        doc: the documentation of the feature.
        optional: whether None is a value, which decodes to None.
        minimum: the smallest value.
        maximum: the largest value.
        allow_rounding: see `Tensor`.
    """

    PATH: ClassVar[str] = "scalar.Scalar"

    def __init__(
        self,
        dtype: Any,
        *,
        encoding: Encoding | str = Encoding.NONE,
        doc: DocArg = None,
        minimum: Any = None,
        maximum: Any = None,
        optional: bool = False,
        allow_rounding: bool = False,
    ) -> None:
        super().__init__(
            shape=(),
            dtype=dtype,
            encoding=encoding,
            doc=doc,
            minimum=minimum,
            maximum=maximum,
            optional=optional,
            allow_rounding=allow_rounding,
        )

    @classmethod
    def from_content(cls, content: Json, from_json: FromJson) -> Scalar:
        """Returns the Scalar of `content`, the second value of `content_json`."""
        return cls(content["dtype"], **_parse_options(content))


def _parse_options(content: Json) -> dict[str, Any]:
    """Returns the arguments `encoding`, `minimum`, `maximum` and `optional` of `Tensor` from its `content_json`."""
    return {
        "encoding": content.get("encoding") or Encoding.NONE,
        "minimum": parse_int64(content.get("minimum")),
        "maximum": parse_int64(content.get("maximum")),
        "optional": bool(content.get("optional", False)),
    }


def _bound_to_json(key: str, bound: Any) -> str:
    """Returns a bound as features.json contains it, a string of an integer.

    Args:
        key: 'minimum' or 'maximum', for the error.
        bound: the bound.

    Raises:
        FeatureTypeError: the bound is not an integer.
    """
    if isinstance(bound, (int, np.integer)):
        return str(int(bound))
    raise FeatureTypeError(f"{key}={bound!r} cannot be saved: features.json has only integers for bounds")


@names_foreign_constructor_arguments
class Text(Tensor):
    """Text, stored as UTF-8; bytes are accepted and stored unchanged. Decodes to bytes.

    Args:
        encoder: must be None, as texts encoded as numbers, which old datasets have, are not supported.
        encoder_config: must be None, or have no encoder.
        doc: the documentation of the feature.
        optional: whether None is a value. features.json does not contain it; hence any Text that a record lacks decodes
            to None.
    """

    PATH: ClassVar[str] = "text_feature.Text"

    def __init__(
        self, encoder: None = None, encoder_config: Any = None, *, doc: DocArg = None, optional: bool = False
    ) -> None:
        if encoder is not None or getattr(encoder_config, "encoder", encoder_config) is not None:
            raise ValueError("Text does not support an encoder; encode the text to a Sequence of integers before")
        super().__init__(shape=(), dtype=STRING, doc=doc, optional=optional)

    def maybe_build_from_corpus(self, corpus: Any) -> None:
        """Does nothing, as Text has no encoder to build from texts. Builders of TFDS call this method."""

    @property
    def may_be_missing(self) -> bool:
        """True: any Text that a record lacks decodes to None; see `optional`."""
        return True

    def content_json(self) -> tuple[str, Json]:
        """Returns ('text', {})."""
        return "text", {}

    @classmethod
    def from_content(cls, content: Json, from_json: FromJson) -> Text:
        """Returns a Text, which has no options in `content`.

        Raises:
            ValueError: the content declares an encoder.
        """
        if content.get("use_encoder"):
            raise ValueError("the dataset has text encoded as numbers by an encoder; that is not supported")
        return cls()
