"""What every feature connector has: documentation, JSON, label files, and functions that encode and decode."""

from __future__ import annotations

import abc
import copy
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from beam_datasets.arguments import integer
from beam_datasets.errors import FeatureValueError, MissingDependencyError, did_you_mean
from beam_datasets.extras import Self
from beam_datasets.formats import example
from beam_datasets.formats.example import Kind
from beam_datasets.native import core

E = TypeVar("E", bound=Enum)
Shape: TypeAlias = "tuple[int | None, ...]"
Json: TypeAlias = "dict[str, Any]"
Stored: TypeAlias = "list[bytes] | NDArray[Any]"
"""The values of one list of a record."""

Items: TypeAlias = "list[Any] | tuple[Any, ...] | NDArray[Any]"
"""The items of a sequence."""

Lengths: TypeAlias = "tuple[NDArray[np.int64], ...]"
"""How many items each sequence has, for every level below the outermost sequence, outer ones first."""

Lists: TypeAlias = "dict[str, Any]"
"""The lists of a record, by name: a list of bytes, or an array of float32 or int64; None if the record lacks it."""

Encode: TypeAlias = "Callable[[Any], bytes]"
"""From a feature's value to its map entries, in the byte order of their names."""

Decode: TypeAlias = "Callable[[Lists], Any]"
"""From the lists of a feature in a record to its value."""

CLASS_PREFIX = "tensorflow_datasets.core.features."
"""What the names of all connectors begin with in features.json, which TFDS reads too."""


@dataclass(frozen=True)
class Documentation:
    """What a feature means, for people.

    Attributes:
        desc: a sentence or a few.
        value_range: the values it takes, in words.
    """

    desc: str | None = None
    value_range: str | None = None

    @classmethod
    def of(cls, doc: DocArg) -> Documentation:
        """Returns the documentation of a `doc=` argument: None, a description, or a Documentation."""
        if doc is None or isinstance(doc, str):
            return cls(desc=doc)
        if isinstance(doc, Documentation):
            return doc
        raise TypeError(f"doc= is {doc!r}; expected a string or a Documentation")


DocArg: TypeAlias = "str | Documentation | None"


@dataclass(frozen=True, repr=False)
class FeatureConnector(abc.ABC):
    """One field of an example: which values it takes, and how they are stored in a record.

    Connectors are immutable and compare by value; `compile_encoder` and `compile_decoder` make functions of a tree.
    Each has a `shape` and a `dtype`: those of decoded values, and for composite features nests of their parts'.
    """

    doc: DocArg = field(default=None, kw_only=True, compare=False)

    PATH: ClassVar[str]
    """The class's name in features.json, without `CLASS_PREFIX`."""

    def __post_init__(self) -> None:
        self._set_fields(doc=Documentation.of(self.doc))

    def _set_fields(self, **values: Any) -> None:
        """Sets fields of a new instance: the arguments, normalised."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _copy_with(self, **values: Any) -> Self:
        """Returns a copy with other values of some fields."""
        other = copy.copy(self)
        other._set_fields(**values)
        return other

    @property
    def documentation(self) -> Documentation:
        """What the feature means."""
        return Documentation.of(self.doc)

    def with_doc(self, doc: DocArg) -> FeatureConnector:
        """Returns the same feature with other documentation."""
        return self._copy_with(doc=Documentation.of(doc))

    @property
    def file_kind(self) -> str | None:
        """'image' or 'audio' if each value is stored as the bytes of such a file."""
        return None

    # ------------------------------------------------------------------------------------------------ JSON and labels

    @property
    def python_class_name(self) -> str:
        """The class's name in features.json."""
        return CLASS_PREFIX + self.PATH

    def to_json(self) -> Json:
        """Returns the node of features.json for this connector and all below it."""
        key, content = self.content_json()
        node: Json = {"pythonClassName": self.python_class_name, key: content}
        if self.documentation.desc:
            node["description"] = self.documentation.desc
        if self.documentation.value_range:
            node["valueRange"] = self.documentation.value_range
        return node

    @abc.abstractmethod
    def content_json(self) -> tuple[str, Json]:
        """Returns the key and the value of what features.json says of this connector alone."""

    @classmethod
    def from_content(cls, content: Json) -> FeatureConnector:
        """Builds the connector from the content that `content_json` returned; for classes that features.json names."""
        raise NotImplementedError(f"no connector is saved as a {cls.__name__}")

    def label_files(self, prefix: str = "") -> dict[str, str]:
        """Returns the texts of the label files below this feature, by file name; `prefix` is the feature's own name."""
        return {}

    def load_labels(self, read: Callable[[str], str | None], prefix: str = "") -> FeatureConnector:
        """Returns the same feature with the label names that `read` finds.

        Args:
            read: from a file name to the file's text, or to None if the file does not exist.
            prefix: the feature's own name; '' for the top.
        """
        return self

    # ------------------------------------------------------------------------------------------- encoding and decoding

    @classmethod
    def is_overridden(cls) -> bool:
        """Returns whether the class has its own `encode_example` or `decode_example`: it is a user's."""
        methods = ("encode_example", "decode_example", "decode_example_np")
        return any(getattr(cls, name) is not getattr(FeatureConnector, name) for name in methods)

    def encode_example(self, value: Any) -> Any:
        """Returns what is stored of a value: bytes of an image, the index of a class; a dict of a FeaturesDict.

        It is what `decode.SkipDecoding` yields. A user's subclass may override the method; then its connector encodes
        what the method returns, so `super().encode_example(value)` returns the value itself (see `features.wrapped`).
        For many examples, `compile_encoder` is faster.

        Raises:
            FeatureError: the value does not fit the feature.
        """
        from beam_datasets.features.compiler import encode_to_stored

        return value if self.is_overridden() else encode_to_stored(self, value)

    def decode_example(self, stored: Any) -> Any:
        """Returns the value of what is stored, as NumPy's: what `encode_example` does the reverse of.

        Of a user's subclass it gets what its connector decoded.

        Raises:
            FeatureError: it is not the stored form of a value.
        """
        from beam_datasets.features.compiler import decode_stored

        return stored if self.is_overridden() else decode_stored(self, stored)

    def decode_example_np(self, stored: Any) -> Any:
        """Returns `decode_example`, whose values are NumPy's, by the name that TensorFlow Datasets has for that."""
        return self.decode_example(stored)

    def get_tensor_info(self) -> Any:
        """Returns the `TensorInfo` of values: shape and dtype; of several features a dict."""
        from beam_datasets.features.wrapped import tensor_info

        return tensor_info(self)

    def get_serialized_info(self) -> Any:
        """Returns the `TensorInfo` of what is stored; of several features a dict."""
        return self.stored().get_tensor_info()

    @property
    def np_dtype(self) -> Any:
        """The dtype of values, or a dict of these: `dtype` by the name that TensorFlow Datasets has for NumPy's."""
        return dtype_of(self)

    @property
    def numpy_dtype(self) -> Any:
        """The same by its older name."""
        return dtype_of(self)

    @abc.abstractmethod
    def leaves(self, name: str, rank: int = 0) -> list[tuple[str, Any, int]]:
        """Returns the features that store a feature called `name`, below `rank` sequences, in lists of their own.

        Each with its name in the record and the number of sequences around it; see `leaf.Leaf.own_lists`.
        """

    def lists(self, name: str, rank: int = 0) -> tuple[tuple[str, Kind | None], ...]:
        """Returns name and kind of the lists in the record of a feature called `name`; None if it is not known."""
        return tuple(pair for path, leaf, levels in self.leaves(name, rank) for pair in leaf.own_lists(path, levels))

    def wire_names(self, name: str) -> tuple[str, ...]:
        """Returns the names in the record of a feature called `name`."""
        return tuple(key for key, _ in self.lists(name))

    def encoder(self, name: str) -> Encode:
        """Returns the function that encodes one value of a feature called `name`.

        Raises:
            FeatureValueError: values could not be read again.
        """
        names = self.wire_names(name)
        check_unique(names, name)
        encode_rows = self.rows_encoder(name, 0)
        order = sorted(range(len(names)), key=lambda i: names[i].encode())

        def encode(value: Any) -> bytes:
            entries = encode_rows([value], ())
            return b"".join([entries[i][1] for i in order])

        return encode

    def fast_path(self) -> FastPathSpec | None:
        """Returns which values the native module encodes, if the native module can encode these; see `FastPathSpec`."""
        return None

    @abc.abstractmethod
    def rows_encoder(self, name: str, rank: int) -> RowsEncode:
        """Returns the function that encodes the items of `rank` sequences, or one value for 0; see `RowsEncode`."""

    @abc.abstractmethod
    def decoder(self, name: str, rank: int = 0) -> Decode:
        """Returns the function that decodes one value of a feature called `name`; below `rank` sequences all items."""

    def decoded(self) -> FeatureConnector:
        """Returns the connector of decoded values, in which each class is one of this package."""
        return self

    @abc.abstractmethod
    def stored(self) -> FeatureConnector:
        """Returns the connector of the stored form: what `decode.SkipDecoding` yields."""


RowsEncode: TypeAlias = "Callable[[Items, Lengths], list[tuple[str, bytes]]]"
"""From the items of all sequences at one depth (in order) and the row lengths above them, to named map entries."""


def check_unique(names: Sequence[str], path: str) -> None:
    """Refuses features that would be stored under the same name."""
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FeatureValueError(f"{path}: two features are stored as {twice!r}; rename one of them".removeprefix(": "))


def to_shape(shape: Any) -> Shape:
    """Returns a shape that an argument gives.

    Raises:
        TypeError: it is not a tuple or list of integers and None.
    """
    if isinstance(shape, str) or not isinstance(shape, Iterable):
        raise TypeError(f"shape: expected a tuple of lengths, such as (3,) or (None, 2), got {shape!r}")
    return tuple(None if length is None else integer("a length of the shape", length) for length in shape)


def to_names(what: str, names: Any) -> list[str]:
    """Returns names that an argument gives.

    Raises:
        TypeError: it is not a list of texts; a text alone would count as a list of its letters.
    """
    given = names if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise TypeError(f"{what}: expected a list of names, such as ['a', 'b'], got {given!r}")
    return given


def to_member(kind: type[E], member: Any) -> E:
    """Returns the member of an enumeration that an argument gives, as such or by its value.

    Raises:
        ValueError: it is not one of them.
    """
    try:
        return kind(member)
    except ValueError:
        known = [each.value for each in kind]
        hint = did_you_mean(member, known)
        raise ValueError(f"{kind.__name__}: expected one of {', '.join(known)}, got {member!r}.{hint}") from None


def shape_of(feature: FeatureConnector) -> Any:
    """Returns the shape of a feature's values."""
    return feature.shape  # type: ignore[attr-defined]


def has_one_shape(feature: FeatureConnector) -> bool:
    """Returns whether all values of a feature have the same shape, so that those of a sequence are one array."""
    shape = shape_of(feature)
    return isinstance(shape, dict) or (shape is not None and None not in shape)


def dtype_of(feature: FeatureConnector) -> Any:
    """Returns the dtype of a feature's values."""
    return feature.dtype  # type: ignore[attr-defined]


# ------------------------------------------------------------------------------------------------------ native encoding

# Which values of a feature the native module encodes.
# A dict whose values are all of these becomes a record in one call. Any other value is passed to the feature's own
# encoder, and any other dict to the encoder of the dict, with the same result.


class Form(IntEnum):
    """What a value is; the numbers are those of native/encode.c.

    Attributes:
        FALLBACK: whatever the feature's own encoder takes.
        TEXT: a str or bytes.
        INTEGER: an integer.
        FLOAT: a float.
        TEXTS: a list of str or bytes.
        INTEGERS: an array or a list of integers.
        FLOATS: an array or a list of floats.
        RAW: an array that is stored as its bytes.
    """

    FALLBACK = 0
    TEXT = 1
    INTEGER = 2
    FLOAT = 3
    TEXTS = 4
    INTEGERS = 5
    FLOATS = 6
    RAW = 7


_SEQUENCE_FORMS = {Form.TEXT: Form.TEXTS, Form.INTEGER: Form.INTEGERS, Form.FLOAT: Form.FLOATS}
_MAX_DIMENSIONS = 8

_INT64: np.dtype[Any] = np.dtype(np.int64)


@dataclass(frozen=True)
class FastPathSpec:
    """Which values of a feature the native module encodes.

    Attributes:
        form: see `Form`.
        dtype: of numbers.
        shape: of arrays; None means any length.
        low, high: the least and the greatest integer.
        optional: None is a value too, and leaves no entry.
        allow_rounding: floats need not be exact in float32.
    """

    form: Form
    dtype: np.dtype[Any] = _INT64
    shape: Shape = ()
    low: int = 0
    high: int = 0
    optional: bool = False
    allow_rounding: bool = False

    @classmethod
    def numbers(cls, dtype: np.dtype[Any], shape: Shape, *, allow_rounding: bool = False) -> FastPathSpec | None:
        """Returns it for numbers of a dtype and a shape; None where the native module does not know the dtype."""
        if dtype.kind == "f":
            form = Form.FLOATS if shape else Form.FLOAT
            return None if dtype == np.float16 else cls(form, dtype, shape, allow_rounding=allow_rounding)
        if dtype.kind not in "biu":
            return None
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return cls(Form.INTEGERS if shape else Form.INTEGER, dtype, shape, int(low), int(high))

    def sequence(self, length: int | None) -> FastPathSpec | None:
        """Returns it for a sequence of such values; None where only the sequence's own encoder knows what is one."""
        if self.form in _SEQUENCE_FORMS:
            return replace(self, form=_SEQUENCE_FORMS[self.form], shape=(length,), optional=False)
        if self.form in (Form.INTEGERS, Form.FLOATS) and None not in self.shape:
            return replace(self, shape=(length, *self.shape), optional=False)
        return None


def native_encoder(
    fields: Sequence[tuple[str, str, FeatureConnector, Encode]], fallback: Encode, *, whole: bool = False
) -> Encode | None:
    """Returns the function from a dict to its entries; None where the native module is missing.

    Args:
        fields: key, name in the record, feature and encoder of all, in the order of the record.
        fallback: the function in Python, for what is not a plain dict of these fields.
        whole: make a function to the record instead.
    """
    if core is None:
        return None
    rows = [_describe_native_field(key, wire, feature.fast_path(), encode) for key, wire, feature, encode in fields]
    encoder: Encode = core.encoder(rows, fallback, _TYPES, whole)
    return encoder


def _describe_native_field(key: str, wire: str, spec: FastPathSpec | None, encode: Encode) -> tuple[Any, ...]:
    """Returns a field as the native module takes it."""
    if spec is None or len(spec.shape) > _MAX_DIMENSIONS:
        spec = FastPathSpec(Form.FALLBACK)
    dtype = spec.dtype
    element = "?" if dtype.kind == "b" else dtype.kind
    layout = np.empty(0, dtype).data.format
    shape = tuple(-1 if length is None else length for length in spec.shape)
    name = example.name_field(wire.encode("utf-8"))
    flags, bounds = (spec.optional, spec.allow_rounding), (spec.low, spec.high)
    return (spec.form, *flags, key, encode, name, *bounds, element, dtype.itemsize, layout.encode(), shape)


_TYPES = (
    np.ndarray,
    (np.bool_,),
    tuple(np.dtype(code).type for code in "bhilqBHILQ"),
    (np.float32, np.float64, np.float16),
)


# --------------------------------------------------------------------------------------------------------------- dtypes

# How features.json writes dtypes, numbers and shapes, and the dtypes that features take.

STRING = np.dtype(object)
"""What strings (text or bytes) have for a dtype: their values are Python bytes."""

_NUMBERS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
_DTYPES_BY_NAME: dict[str, np.dtype[Any]] = {name: np.dtype(name) for name in _NUMBERS} | {
    "string": STRING,
    "object": STRING,
}


def to_dtype(dtype: Any) -> np.dtype[Any]:
    """Returns the NumPy dtype of what a feature takes as one.

    NumPy scalar types, `np.dtype`, names ('int64', 'string') and TensorFlow's dtypes are taken; strings are `STRING`.
    Python's own `int`, `float`, `str` and `bool` are not, because they do not say how many bits.

    Raises:
        ValueError: it is something else, or a dtype that no feature can have.
        MissingDependencyError: it is 'bfloat16' and the package ml_dtypes is not installed.
    """
    if isinstance(dtype, str):
        return _dtype_by_name(dtype)
    if isinstance(dtype, type) and not issubclass(dtype, np.generic):
        raise ValueError(
            f"{dtype!r} is not a dtype of a feature; write np.int64, np.float32, np.str_ or np.bool_ instead"
        )
    numpy_dtype: np.dtype[Any] = np.dtype(getattr(dtype, "as_numpy_dtype", dtype))
    return STRING if numpy_dtype.kind in "OUS" else _dtype_by_name(numpy_dtype.name)


def is_dtype(dtype: Any) -> bool:
    """Returns whether `to_dtype` takes it (names apart)."""
    if isinstance(dtype, type):
        return issubclass(dtype, np.generic)
    return isinstance(dtype, np.dtype) or hasattr(dtype, "as_numpy_dtype")


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Returns the name that features.json has for a dtype."""
    return "string" if dtype == STRING else dtype.name


def _dtype_by_name(name: str) -> np.dtype[Any]:
    """Returns the dtype with this name, and imports ml_dtypes only for 'bfloat16'.

    Raises:
        ValueError: no feature can have the dtype.
        MissingDependencyError: the name is 'bfloat16' and the package ml_dtypes is not installed.
    """
    if name in _DTYPES_BY_NAME:
        return _DTYPES_BY_NAME[name]
    if name == "bfloat16":
        try:
            import ml_dtypes  # type: ignore[import-not-found,unused-ignore]
        except ImportError as error:
            raise MissingDependencyError("dtype 'bfloat16' needs ml_dtypes: pip install ml_dtypes") from error
        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    known = [*_DTYPES_BY_NAME, "bfloat16"]
    raise ValueError(f"no feature has the dtype {name!r}; known are {', '.join(known)}.{did_you_mean(name, known)}")


_MAX_SIZE = 2**56  # values of an array, of up to 16 bytes each: NumPy counts bytes in 63 bits
_MAX_RANK = 32


def shape_to_json(shape: Shape) -> Json:
    """Returns a shape as features.json has it; unknown lengths are -1.

    >>> shape_to_json((None, 2)), shape_to_json(())
    ({'dimensions': ['-1', '2']}, {})
    """
    return {"dimensions": [str(-1 if length is None else length) for length in shape]} if shape else {}


def drop_unset(**options: Any) -> Json:
    """Returns the options that are set: neither None, False nor empty."""
    return {name: value for name, value in options.items() if value}


def shape_from_json(shape: Any) -> Shape:
    """Returns the shape that the content contains, or of the plain list that old files have.

    Raises:
        ValueError: it is not a shape, or NumPy cannot have arrays of it.
    """
    lengths = shape.get("dimensions", []) if isinstance(shape, dict) else shape or []
    if not isinstance(lengths, list):
        raise ValueError(f"expected a list of dimensions, got {lengths!r:.100}")
    numbers = [int_from_json(length) for length in lengths]
    if math.prod(number for number in numbers if number and number > 0) > _MAX_SIZE or len(numbers) > _MAX_RANK:
        raise ValueError(f"expected a shape of at most {_MAX_RANK} dimensions and 2**56 values, got {lengths!r:.200}")
    return tuple(None if number is None or number < 0 else number for number in numbers)


def int_from_json(value: Any) -> int | None:
    """Returns an integer of 64 bits that may be written as a string, or be missing.

    Raises:
        ValueError: it is something else.
    """
    if value is None:
        return None
    is_integer = type(value) is int or (type(value) is float and value.is_integer())
    if is_integer or (type(value) is str and re.fullmatch(r"-?[0-9]{1,19}", value)):
        number = int(value)
        if -(2**63) <= number < 2**63:
            return number
    raise ValueError(f"expected an integer of 64 bits, got {value!r:.100}")


def num_values(shape: Shape) -> int | None:
    """Returns how many values an array of a shape has; None where a length is unknown.

    >>> size_of((2, 3)), size_of(()), size_of((None, 3))
    (6, 1, None)
    """
    return None if None in shape else math.prod(length or 0 for length in shape)
