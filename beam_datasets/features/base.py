"""Base class of feature connectors: documentation, JSON, label files, and functions that encode and decode.

A *record* is a serialized tf.train.Example: lists of bytes, float32 or int64 by name. In the signatures, `name` is the
name of a feature in the record, such as `objects/label`; `path` is this name for errors; and `rank` is the number of
sequences around the feature: 0 for a feature of the example itself, 1 for the feature of the items of a sequence.
"""

from __future__ import annotations

import abc
import copy
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from beam_datasets.advice import advised_getattr, dir_without
from beam_datasets.errors import FeatureValueError, did_you_mean
from beam_datasets.features.dtypes import Json, Shape, to_dtype
from beam_datasets.features.native_encoding import FastPathSpec
from beam_datasets.formats import example
from beam_datasets.formats.columns import parse_lists
from beam_datasets.formats.example import Buffer, Kind

E = TypeVar("E", bound=Enum)
Stored: TypeAlias = "list[bytes] | NDArray[Any]"
"""The values of one list of a record: a list of bytes, or an array of float32 or int64 of shape (n,)."""

Items: TypeAlias = "list[Any] | tuple[Any, ...] | NDArray[Any]"
"""The items of a sequence."""

Lengths: TypeAlias = "tuple[NDArray[np.int64], ...]"
"""Row lengths of nested sequences, one array for each level but the outermost, outer levels first: ([2, 1],) for
[[1, 2], [3]], () for [1, 2]."""

Lists: TypeAlias = "dict[str, Any]"
"""The lists of a record, by name: a list of bytes, or an array of float32 or int64; None if the record lacks it."""

Encode: TypeAlias = "Callable[[Any], bytes]"
"""A function from the value of a feature to its serialized map entries, in the byte order of their names."""

DecodeLists: TypeAlias = "Callable[[Lists], Any]"
"""A function from the lists of a record by name, of which it uses those of one feature, to the feature's value."""

CLASS_PREFIX = "tensorflow_datasets.core.features."
"""Prefix of the class names in features.json; it is that of TFDS, which can read the file too."""


@dataclass(frozen=True)
class Documentation:
    """Documentation of a feature, for people.

    Attributes:
        desc: the meaning of the feature, one or a few sentences.
        value_range: the range of its values, in words.
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


@dataclass(frozen=True)
class TensorInfo:
    """Shape and dtype of values.

    Attributes:
        shape: the lengths of the dimensions; None means any length.
        dtype: a dtype of NumPy, or its name; see `to_dtype`.
        minimum: the lowest allowed value, if there is one.
        maximum: the highest allowed value, if there is one.
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
    def np_dtype(self) -> np.dtype[Any]:
        """The dtype as a NumPy dtype; named as in TensorFlow Datasets."""
        return to_dtype(self.dtype)


class Replacement(abc.ABC):
    """A decoder, or a selection with decoders, that `FeatureConnector.with_decoders` puts in the place of a feature."""

    @abc.abstractmethod
    def apply_to(self, feature: FeatureConnector) -> FeatureConnector:
        """Returns the connector that decodes the stored form of `feature`."""


Decoders: TypeAlias = "Replacement | Mapping[str, Decoders] | None"
"""One decoder, or a selection, for a feature; or decoders by the names of the features in it; None for its own."""


@dataclass(frozen=True, repr=False)
class FeatureConnector(abc.ABC):
    """One field of an example: its values, and the lists of a record that store them.

    Connectors are immutable and compare by value. `compile_encoder` and `compile_decoder` make functions from a tree of
    connectors. Each connector has a `shape` and a `dtype`: the shape and dtype of decoded values, or for several
    features, dicts of shapes and dtypes by name.

    Attributes:
        doc: the documentation of the feature.
    """

    doc: DocArg = field(default=None, kw_only=True, compare=False)

    PATH: ClassVar[str]
    """The class's name in features.json, without `CLASS_PREFIX`."""

    __dir__ = dir_without(
        "PATH allow_rounding as_str check check_storable codec content_json decode_example_np decode_record "
        "decoded decoder encoder fast_path file_kind from_content has_plain_form index_of is_dynamic "
        "is_overridden items_of items_splitter label_files leaves lists load_labels map_leaves may_be_missing "
        "missing_value_getter own_lists packer parse_text python_class_name rows_encoder stored unpacker "
        "wire_names"
    )
    if not TYPE_CHECKING:  # so that a type checker reports missing attributes
        __getattr__ = advised_getattr("feature")

    def __post_init__(self) -> None:
        self._set_fields(doc=Documentation.of(self.doc))

    def _set_fields(self, **values: object) -> None:
        """Sets fields of a new, frozen instance: the values are the constructor's arguments, normalised."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _copy_with(self, **values: object) -> Self:
        """Returns a copy of the connector in which the named fields have other values."""
        other = copy.copy(self)
        other._set_fields(**values)
        return other

    @property
    def documentation(self) -> Documentation:
        """The documentation of the feature."""
        return Documentation.of(self.doc)

    def with_doc(self, doc: DocArg) -> FeatureConnector:
        """Returns a copy of the feature with other documentation; see `Documentation.of` for `doc`."""
        return self._copy_with(doc=Documentation.of(doc))

    @property
    def file_kind(self) -> str | None:
        """'image' or 'audio' if each value is stored as the bytes of an image or audio file; None otherwise."""
        return None

    # ------------------------------------------------------------------------------------------------ JSON and labels

    @property
    def python_class_name(self) -> str:
        """The class's name in features.json."""
        return CLASS_PREFIX + self.PATH

    def to_json(self) -> Json:
        """Returns the JSON object of this connector in features.json, including the connectors that it contains."""
        key, content = self.content_json()
        node: Json = {"pythonClassName": self.python_class_name, key: content}
        if self.documentation.desc:
            node["description"] = self.documentation.desc
        if self.documentation.value_range:
            node["valueRange"] = self.documentation.value_range
        return node

    @abc.abstractmethod
    def content_json(self) -> tuple[str, Json]:
        """Returns (key, content), the part of `to_json()` that depends on the class of the connector.

        For example, ('tensor', {'dtype': 'int64', 'encoding': 'none', 'shape': {}}) for an integer.
        """

    @classmethod
    def from_content(cls, content: Json, from_json: FromJson) -> FeatureConnector:
        """Builds the connector from `content`, the value that `content_json` returned.

        Args:
            content: the value.
            from_json: the function from the JSON object of a feature in `content` to its connector.

        Raises:
            NotImplementedError: the class is never named in features.json.
        """
        raise NotImplementedError(f"no connector is saved as a {cls.__name__}")

    def label_files(self, prefix: str = "") -> dict[str, str]:
        r"""Returns {file name: text} of the label files of this feature and of the features that it contains.

        For example, {'objects-label.labels.txt': 'cat\ndog\n'} for a ClassLabel `label` in a sequence `objects`.

        Args:
            prefix: the name of the feature in the file names: the names from the top, joined by '-', with '.' in
                place of '/'; '' for the features of a dataset.
        """
        return {}

    def load_labels(self, read: Callable[[str], str | None], prefix: str = "") -> FeatureConnector:
        """Returns a copy of the feature with the class names of its label files; the feature itself if it has none.

        The label file of a ClassLabel is `<prefix>.labels.txt`, with one name in each line.

        Args:
            read: the function from a file name to the file's text; it returns None if the file does not exist.
            prefix: the name of the feature in the file names: the names from the top, joined by '-', with '.' in
                place of '/', such as `objects-a.b` for the feature `a/b` in `objects`; '' for the features of a
                dataset.

        Raises:
            MetadataError: a file has another number of names than the ClassLabel has classes, or a name twice.
        """
        return self

    # ------------------------------------------------------------------------------------------- encoding and decoding

    @classmethod
    def is_overridden(cls) -> bool:
        """Returns whether a user's subclass overrides `encode_example`, `decode_example` or `decode_example_np`."""
        base = FeatureConnector
        return (
            cls.encode_example is not base.encode_example
            or cls.decode_example is not base.decode_example
            or cls.decode_example_np is not base.decode_example_np
        )

    def encode_example(self, value: Any) -> Any:
        """Returns the stored form of a value: the bytes of an image, the index of a class; a dict for a FeaturesDict.

        `decode.SkipDecoding` yields this form. A user's subclass may override the method; then the base class encodes
        the result, so `super().encode_example(value)` returns the value itself (see `features.wrapped`). For many
        examples, `compile_encoder` is faster.

        Raises:
            FeatureError: the value does not fit the feature.
        """
        return value if self.is_overridden() else self._convert_by_record(value, self, self.stored())

    def decode_example(self, stored: Any) -> Any:
        """Returns the NumPy value of a stored form, the inverse of `encode_example`.

        A user's subclass may override the method; then `stored` is the value that its base class decoded.

        Raises:
            FeatureError: `stored` is not the stored form of a value.
        """
        return stored if self.is_overridden() else self._convert_by_record(stored, self.stored(), self)

    def decode_example_np(self, stored: Any) -> Any:
        """Returns `decode_example(stored)`: the name of TensorFlow Datasets for decoding to NumPy values."""
        return self.decode_example(stored)

    def _name_alone(self) -> str:
        """Returns the name of the feature in records and errors where it is not a feature of an example."""
        return type(self).__name__

    def _convert_by_record(self, value: Any, written_by: FeatureConnector, read_by: FeatureConnector) -> Any:
        """Returns the value that one connector reads from the record in which another one has stored `value`.

        Args:
            value: a value of `written_by`, or a TensorFlow tensor of it.
            written_by: the connector that encodes the value: this one, or that of its stored form.
            read_by: the other of the two, which decodes the record.
        """
        value, name = to_numpy(value), self._name_alone()
        return read_by.decode_record(example.record(written_by.encoder(name)(value)), name)

    def decode_record(self, record: Buffer, name: str) -> Any:
        """Returns the value of the feature in a record; for many records, `compile_decoder` is faster.

        Args:
            record: a serialized tf.train.Example.
            name: the name of the feature in the record; '' for the features of the example.

        Raises:
            ExampleError: the bytes are not a serialized tf.train.Example.
            FeatureError: the record lacks the feature, or has other values; the text begins with its name.
        """
        kinds = dict(self.lists(name))
        native_kinds = {key: kind for key, kind in kinds.items() if kind is not None}
        # The native parser does not read the list of a feature whose class is not known.
        other_lists = example.parse(record) if len(native_kinds) < len(kinds) else {}
        return self.decoder(name)(other_lists | parse_lists(record, native_kinds))

    def with_decoders(self, decoders: Decoders, path: str = "") -> FeatureConnector:
        """Returns the feature with decoders in place of connectors.

        Args:
            decoders: one decoder for the feature, or a nested dict of decoders by name; None to change nothing.
            path: the name of the feature, with slashes, for errors.

        Raises:
            ValueError: a name is unknown.
            TypeError: `decoders` contains something other than decoders and dicts.
        """
        if decoders is None:
            return self
        if isinstance(decoders, Replacement):
            return decoders.apply_to(self)
        if not isinstance(decoders, dict):
            raise TypeError(f"{path or 'decoders'}: {decoders!r} is neither a decoder nor a dict of decoders by name")
        return self._with_child_decoders(decoders, path)

    def _with_child_decoders(self, decoders: dict[str, Any], path: str) -> FeatureConnector:
        """Returns the feature with decoders in place of the features in it, which only a dict or a sequence has.

        Args:
            decoders: {name of a feature inside: decoder}.
            path: the feature, for errors.

        Raises:
            ValueError: this feature contains no features.
        """
        label = path or "the features"
        raise ValueError(f"{label}: {self!r} contains no features, but decoders names {sorted(decoders)}")

    def map_leaves(self, function: Callable[[Any], FeatureConnector]) -> FeatureConnector:
        """Returns the feature with `function(leaf)` in place of each feature in it that contains no others."""
        return function(self)

    def get_tensor_info(self) -> Any:
        """Returns the `TensorInfo` (shape and dtype) of decoded values; a dict of them by name for several features."""
        return _build_tensor_infos(shape_of(self), dtype_of(self))

    def get_serialized_info(self) -> Any:
        """Returns the `TensorInfo` of the stored form; a dict of them by name for several features."""
        return self.stored().get_tensor_info()

    @property
    def np_dtype(self) -> Any:
        """The same as `dtype`, by its name in TensorFlow Datasets: the dtype of values, or a dict of dtypes by name."""
        return dtype_of(self)

    @property
    def numpy_dtype(self) -> Any:
        """The same as `dtype`, by an older name of TensorFlow Datasets."""
        return dtype_of(self)

    @abc.abstractmethod
    def leaves(self, name: str, rank: int = 0) -> list[tuple[str, Any, int]]:
        """Returns the leaves of the feature: the connectors that each store their values in lists of their own.

        Each leaf is a tuple of its name in the record, its connector, and the number of sequences around it. For
        example, [('box/a', <connector of a>, 1)] for the feature {'a': np.int64} with the name 'box' and rank 1.

        Args:
            name: the name of this feature in the record.
            rank: the number of sequences around this feature.
        """

    def lists(self, name: str, rank: int = 0) -> tuple[tuple[str, Kind | None], ...]:
        """Returns the name and kind ('bytes', 'float' or 'int64') of each list that stores the feature in a record.

        For example, (('a', 'int64'),) for an integer with the name 'a'. The kind is None if it is not known.
        """
        return tuple(pair for path, leaf, levels in self.leaves(name, rank) for pair in leaf.own_lists(path, levels))

    def wire_names(self, name: str) -> tuple[str, ...]:
        """Returns the names of the lists that store the feature in a record; `name` is the name of the feature."""
        return tuple(key for key, _ in self.lists(name))

    def encoder(self, name: str) -> Encode:
        """Returns the function from one value of the feature to its serialized map entries; see `Encode`.

        Args:
            name: the name of the feature in the record.

        Raises:
            FeatureValueError: two features have the same name in the record, or values could not be read again.
        """
        names = self.wire_names(name)
        check_unique(names, name)
        encode_rows = self.rows_encoder(name, 0)
        order = sorted(range(len(names)), key=lambda i: names[i].encode())

        def encode(value: Any) -> bytes:
            """Returns the map entries of a value, sorted by their keys and joined."""
            entries = encode_rows([value], ())
            return b"".join([entries[i][1] for i in order])

        return encode

    def fast_path(self) -> FastPathSpec | None:
        """Returns the description of the values that the native module encodes; None if it cannot encode any."""
        return None

    @abc.abstractmethod
    def rows_encoder(self, name: str, rank: int) -> RowsEncode:
        """Returns the function from the items of nested sequences to the map entries that store them.

        For example, the function of an integer with the name 'a' and rank 1 has the arguments [1, 2, 3] and
        (array([3]),), and returns [('a', the entry with the list of these integers)]. See `RowsEncode`.

        Args:
            name: the name of the feature in the record.
            rank: the number of sequences around the feature; 0 for one value, in a list.
        """

    @abc.abstractmethod
    def decoder(self, name: str, rank: int = 0) -> DecodeLists:
        """Returns the function from the lists of a record to the value of the feature; see `DecodeLists`.

        Args:
            name: the name of the feature in the record.
            rank: the number of sequences around the feature; the function then returns all items of these.
        """

    def decoded(self) -> FeatureConnector:
        """Returns the connector that describes decoded values, in which no class is a user's."""
        return self

    @abc.abstractmethod
    def stored(self) -> FeatureConnector:
        """Returns the connector of the stored form, which `decode.SkipDecoding` yields."""


FromJson: TypeAlias = Callable[[Any], FeatureConnector]
"""The function from a JSON object of features.json to its connector, `config.from_json`."""


@functools.singledispatch
def to_feature(feature: Any, name: str = "") -> FeatureConnector:
    """Converts the description of a feature to a connector. Each module of connectors registers the types it accepts.

    >>> import numpy as np
    >>> to_feature(np.int64)
    int64

    Args:
        feature: a connector; a dict of features, which means a FeaturesDict; or a dtype or its name, which means a
            Tensor of shape ().
        name: the name of the argument or feature, for the error.

    Raises:
        ValueError: the argument is something else.
    """
    if hasattr(feature, "as_numpy_dtype"):  # of TensorFlow
        return to_feature(np.dtype(feature.as_numpy_dtype), name)
    description = repr(feature)
    if isinstance(feature, type) and issubclass(feature, FeatureConnector):
        description = f"the class {feature.__name__}; write {feature.__name__}(...)"
    elif isinstance(feature, (list, tuple)) and len(feature) == 1:
        description = f"{description}; a list of values is features.Sequence(feature)"
    prefix = f"{name}: " if name else ""
    raise ValueError(f"{prefix}expected a feature, a dict of features, or a dtype such as np.int64, got {description}")


def to_numpy(value: Any) -> Any:
    """Returns a value with a `numpy()` method (a tensor of TensorFlow or PyTorch) as NumPy's; others unchanged."""
    return value.numpy() if hasattr(value, "numpy") else value


def _build_tensor_infos(shape: Any, dtype: Any) -> TensorInfo | dict[str, Any]:
    """Returns the `TensorInfo` of a shape and a dtype; for nested dicts of them, the same dicts of `TensorInfo`."""
    if isinstance(dtype, Mapping):
        return {name: _build_tensor_infos(shape[name], dtype[name]) for name in dtype}
    return TensorInfo(shape, dtype)


RowsEncode: TypeAlias = "Callable[[Items, Lengths], list[tuple[str, bytes]]]"
"""A function from the items of nested sequences to (name in the record, serialized map entry) pairs.

Its arguments are the items of all innermost sequences one after the other, and the `Lengths` of the levels above them.
For [[1, 2], [3]], these are the items [1, 2, 3] and the lengths (array([2, 1]),).
"""


def check_unique(names: Sequence[str], path: str) -> None:
    """Raises FeatureValueError if two of the names are equal: both features would be stored in one list.

    Args:
        names: the names of lists in the record.
        path: the feature that contains them, for the error; '' for the top.
    """
    if len(set(names)) != len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        problem = f"two features are stored as {duplicate!r}; rename one of them"
        raise FeatureValueError(problem, feature=path)


def to_names(argument: str, names: Any) -> list[str]:
    """Returns the argument `names` as a list of strings.

    Args:
        argument: the name of the argument, for the error.
        names: an iterable of strings.

    Raises:
        TypeError: it is not an iterable of strings, or it is one string, which would count as a list of its letters.
    """
    name_list = names if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    if not isinstance(name_list, list) or not all(isinstance(name, str) for name in name_list):
        raise TypeError(f"{argument}: expected a list of names, such as ['a', 'b'], got {name_list!r}")
    return name_list


def to_member(kind: type[E], member: Any) -> E:
    """Returns the member of the enumeration `kind` that an argument gives: the member itself, or its value.

    Raises:
        ValueError: the argument is neither a member nor the value of one.
    """
    try:
        return kind(member)
    except ValueError:
        values = [each.value for each in kind]
        hint = did_you_mean(member, values)
        raise ValueError(f"{kind.__name__}: expected one of {', '.join(values)}, got {member!r}.{hint}") from None


def shape_of(feature: FeatureConnector) -> Any:
    """Returns the shape of a feature's decoded values; a dict of shapes by name for several features."""
    return feature.shape  # type: ignore[attr-defined]


def has_one_shape(feature: FeatureConnector) -> bool:
    """Returns whether all values of a feature have the same shape, so that the items of a sequence make one array.

    True for several features: their items are stacked by name, each on its own.
    """
    shape = shape_of(feature)
    return isinstance(shape, dict) or (shape is not None and None not in shape)


def dtype_of(feature: FeatureConnector) -> Any:
    """Returns the NumPy dtype of a feature's decoded values; a dict of dtypes by name for several features."""
    return feature.dtype  # type: ignore[attr-defined]
