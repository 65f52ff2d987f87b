"""ClassLabel: the index of one of a fixed number of classes, which may have names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from beam_datasets import storage
from beam_datasets.advice import names_foreign_constructor_arguments
from beam_datasets.arguments import integer, is_unicode, shown
from beam_datasets.errors import FeatureValueError, MetadataError, did_you_mean
from beam_datasets.features.base import DocArg, FeatureConnector, FromJson, Items, RowsEncode, to_names
from beam_datasets.features.dtypes import Json, Shape
from beam_datasets.features.leaf import Codec, Leaf
from beam_datasets.features.native_encoding import FastPathSpec, Form
from beam_datasets.features.numbers import array_maker, check_unmasked, number_codec
from beam_datasets.features.tensor import Scalar
from beam_datasets.formats.proto_json import parse_int64

if TYPE_CHECKING:
    from numpy.typing import NDArray


@names_foreign_constructor_arguments
@dataclass(frozen=True, repr=False, init=False)
class ClassLabel(Leaf):
    """The index of a class. Takes the index, the name of the class, or -1 for 'no label'. Decodes to np.int64.

    Args:
        num_classes: the number of classes.
        names: the classes' names, in the order of their indices. Spaces around them are removed.
        names_file: path or URL of a text file in UTF-8 with one name per line.
        doc: the documentation of the feature.

    At most one of the first three arguments is given. If none is given, no value can be encoded.

    Attributes:
        num_classes: the number of classes; None if it is not known.
        label_names: the names of the classes; None if they have no names.

    Examples:
        >>> ClassLabel(names=["cat", "dog"]).str2int("dog")
        1
    """

    num_classes: int | None
    label_names: tuple[str, ...] | None

    PATH: ClassVar[str] = "class_label_feature.ClassLabel"
    shape: ClassVar[Shape] = ()
    dtype: ClassVar[np.dtype[Any]] = np.dtype(np.int64)

    def __init__(
        self,
        *,
        num_classes: int | None = None,
        names: Iterable[str] | None = None,
        names_file: str | os.PathLike[str] | None = None,
        doc: DocArg = None,
    ) -> None:
        if sum(argument is not None for argument in (num_classes, names, names_file)) > 1:  # names may be an array
            raise ValueError("ClassLabel takes one of num_classes=, names= and names_file=, not several")
        if names_file is not None:
            names = parse_names(storage.read_bytes(os.fspath(names_file)).decode("utf-8"))
        num_classes = None if num_classes is None else integer("num_classes", num_classes, at_least=0)
        self._set_fields(doc=doc, num_classes=num_classes, label_names=None)
        super().__post_init__()
        if names is None:
            return
        self._set_fields(label_names=tuple(name.strip() for name in to_names("names", names)))
        assert self.label_names is not None
        for name in self.label_names:
            if not is_unicode(name):
                raise ValueError(
                    f"the class name {shown(name)} has half of a surrogate pair, which UTF-8 cannot express"
                )
            if not name or "\n" in name:
                raise ValueError(f"the class name {shown(name)} is empty or has a line break: it cannot be saved")
        if len(set(self.label_names)) != len(self.label_names):
            duplicate = next(name for name in self.label_names if self.label_names.count(name) > 1)
            raise ValueError(f"the class name {shown(duplicate)} occurs twice; every class needs its own")
        self._set_fields(num_classes=len(self.label_names))

    @property
    def names(self) -> list[str]:
        """The classes' names, in the order of their indices; '0', '1', ... if they have no names."""
        return [str(i) for i in range(self.num_classes or 0)] if self.label_names is None else list(self.label_names)

    def str2int(self, name: Any) -> int:
        """Returns the index of the class with a name; spaces around it are ignored.

        If the classes have no names, the name is the index in decimal, such as "1".

        Raises:
            ValueError: no class has this name.
            TypeError: it is no str, such as a list of names.
        """
        if not isinstance(name, str):
            hint = "The indices of several are [label.str2int(name) for name in names]."
            raise TypeError(f"str2int() takes one name, a str, got {shown(name)}. {hint}")
        name = name.strip()
        if self.label_names is not None:
            try:
                return self.label_names.index(name)
            except ValueError:
                hint = did_you_mean(name, self.label_names)
                names = self.label_names
                listed = f" {', '.join(map(shown, names))}" if len(names) <= _MAX_LISTED else ""
                expected = f"expected one of the {len(names)} class names{listed}"
                raise ValueError(f"{expected}, got {shown(name)}.{hint}") from None
        index = int(name) if name.isdecimal() else -1
        if str(index) != name:
            raise ValueError(f"{shown(name)} is not the index of a class, and the classes have no names")
        self.int2str(index)  # raises if the class does not exist
        return index

    def int2str(self, index: int) -> str:
        """Returns the name of the class with an index in [0, num_classes).

        Raises:
            ValueError: no class has this index.
            TypeError: it is a list or an array of indices.
        """
        if np.ndim(index):
            raise TypeError("int2str() takes one index. The names of several are [label.int2str(i) for i in indices].")
        if not 0 <= index < (self.num_classes or 0):
            raise ValueError(f"{index} is not the index of one of {self.num_classes} classes")
        return str(int(index)) if self.label_names is None else self.label_names[index]

    # ------------------------------------------------------------------------------------------- encoding and decoding

    def index_of(self, path: str) -> Callable[[Any], int]:
        """Returns the function from a label, an index or a name, to the index of the class; -1 stays -1.

        Args:
            path: the feature, for errors.

        Raises:
            FeatureValueError: the number of classes is not known. The returned function raises it for other labels.
        """
        count = self.num_classes
        if count is None:
            raise FeatureValueError(
                "the ClassLabel has neither num_classes nor names, so no label can be encoded", feature=path
            )
        indices_by_name = {name: i for i, name in enumerate(self.label_names or ())}

        def index(value: Any) -> int:
            """Returns the index of a label, an index or a name."""
            if type(value) is not int:
                value = convert(value)
            if -1 <= value < count:
                return value  # type: ignore[no-any-return]
            raise FeatureValueError(f"label {value} is outside [-1, {count}), for {count} classes", feature=path)

        def convert(value: Any) -> int:
            """Returns the index of a label that is not a Python int; its range is not checked."""
            if isinstance(value, bytes):
                try:
                    value = value.decode("utf-8")
                except UnicodeDecodeError:
                    raise FeatureValueError(
                        f"{shown(value)} is not UTF-8, so it is not a class name", feature=path
                    ) from None
            if isinstance(value, str):
                if value in indices_by_name:
                    return indices_by_name[value]
                try:
                    return self.str2int(value)
                except ValueError as error:
                    raise FeatureValueError(str(error), feature=path) from None
            return int(make(value))

        make = array_maker(self.dtype, (), path)
        return index

    def fast_path(self) -> FastPathSpec | None:
        """Returns the description of the indices, which the native module encodes; None if there are no classes."""
        return FastPathSpec(Form.INTEGER, low=-1, high=self.num_classes - 1) if self.num_classes else None

    def codec(self, path: str) -> Codec:
        """Returns the conversion between labels and one integer in a list of int64; `path` is for errors."""
        numbers = number_codec(self.dtype, (), path)
        if self.num_classes is None:
            return numbers
        index = self.index_of(path)
        count = self.num_classes

        def pack_many(items: Items) -> NDArray[np.int64]:
            """Returns the indices of labels as an array of int64."""
            if isinstance(items, np.ndarray) and items.dtype.kind == "i" and items.ndim == 1:
                check_unmasked(items, path)
                if items.size and (items.min() < -1 or items.max() >= count):
                    raise FeatureValueError(f"a label is outside [-1, {count}), for {count} classes", feature=path)
                return items.astype(np.int64, copy=False)
            return np.array([index(item) for item in items], np.int64)

        return replace(numbers, pack=lambda value: np.array([index(value)], np.int64), pack_many=pack_many)

    def rows_encoder(self, name: str, rank: int) -> RowsEncode:
        """Returns the function (labels, lengths) -> [(name, map entry), ...]; see `FeatureConnector.rows_encoder`."""
        self.index_of(name)  # raises if the classes are not known
        return super().rows_encoder(name, rank)

    def stored(self) -> FeatureConnector:
        """Returns the connector of the stored form, the index: a Scalar of int64."""
        return _INDEX

    # ------------------------------------------------------------------------------------------------ JSON and labels

    def content_json(self) -> tuple[str, Json]:
        """Returns ('classLabel', {'numClasses': number of classes as text}); the names are in a label file."""
        return "classLabel", {} if self.num_classes is None else {"numClasses": str(self.num_classes)}

    @classmethod
    def from_content(cls, content: Json, from_json: FromJson) -> ClassLabel:
        """Returns the ClassLabel of `content`, the second value of `content_json`, without names."""
        return cls(num_classes=parse_int64(content.get("numClasses")))

    def label_files(self, prefix: str = "") -> dict[str, str]:
        """Returns {'<prefix>.labels.txt': the names, one per line}; {} if the classes have no names."""
        names = self.label_names
        return {} if names is None else {f"{prefix}.labels.txt": "\n".join(names) + "\n"}

    def load_labels(self, read: Callable[[str], str | None], prefix: str = "") -> ClassLabel:
        """Returns a copy with the names of the file `<prefix>.labels.txt`; the same ClassLabel if there is no file.

        Args:
            read: the function from a file name to the file's text; it returns None if the file does not exist.
            prefix: the feature's own name.

        Raises:
            MetadataError: the file has another number of names than there are classes, or a name twice.
        """
        file = f"{prefix}.labels.txt"
        text = read(file)
        if text is None:
            return self
        names = parse_names(text)
        if self.num_classes not in (None, 0, len(names)):
            raise MetadataError(f"{file} has {len(names)} names for the {self.num_classes} classes of features.json")
        try:
            labeled = ClassLabel(names=names)
        except ValueError as error:
            raise MetadataError(f"{file}: {error}") from error
        return self._copy_with(num_classes=labeled.num_classes, label_names=labeled.label_names)

    def __repr__(self) -> str:
        return f"ClassLabel(shape=(), dtype=int64, num_classes={self.num_classes})"


_INDEX = Scalar(np.int64)
_MAX_LISTED = 10  # class names in an error


def parse_names(text: str) -> list[str]:
    r"""Returns the names in the text of a label file: its lines without spaces around them; blank lines are skipped.

    >>> parse_names("cat\n\n dog \n")
    ['cat', 'dog']
    """
    return [line.strip() for line in text.split("\n") if line.strip()]
