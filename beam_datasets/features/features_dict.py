"""FeaturesDict: a dict of named features, nestable to any depth."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from beam_datasets.advice import advised_setitem, missing_attribute, names_foreign_constructor_arguments
from beam_datasets.arguments import is_unicode, shown
from beam_datasets.errors import (
    FeatureKeyError,
    FeatureName,
    FeatureTypeError,
    FeatureValueError,
    MetadataError,
    did_you_mean,
    shown_name,
)
from beam_datasets.features.base import (
    DecodeLists,
    DocArg,
    Encode,
    FeatureConnector,
    FromJson,
    Items,
    Lengths,
    RowsEncode,
    check_unique,
    dtype_of,
    shape_of,
    to_feature,
    to_numpy,
)
from beam_datasets.features.dtypes import Json
from beam_datasets.features.native_encoding import native_encoder
from beam_datasets.formats.example import record, sort_entries


@names_foreign_constructor_arguments
@dataclass(frozen=True, repr=False, init=False)
class FeaturesDict(FeatureConnector):
    """Named features. Values are dicts with exactly these names.

    The features of a FeaturesDict inside another one are stored under `<outer name>/<inner name>`.

    Args:
        feature_dict: connectors by name; a dict stands for a FeaturesDict, and a dtype for a Tensor of shape ().
        doc: the documentation of the feature.

    Examples:
        >>> import numpy as np
        >>> FeaturesDict({"id": np.int64, "name": np.str_})["id"]
        int64
    """

    features: dict[str, FeatureConnector]

    PATH: ClassVar[str] = "features_dict.FeaturesDict"

    def __init__(self, feature_dict: Mapping[str, Any], *, doc: DocArg = None) -> None:
        if not hasattr(feature_dict, "keys"):
            raise TypeError(
                "feature_dict: expected a dict from names to features, such as {'id': 'int64'}, got "
                f"{shown(feature_dict)}"
            )
        for name in feature_dict:
            if not isinstance(name, str):
                raise ValueError(f"{name!r} of type {type(name).__name__} is not a name of a feature; expected a str")
            if not is_unicode(name):
                raise ValueError(
                    f"{name!r} is not a name of a feature: it has half of a surrogate pair, which UTF-8 cannot express"
                )
        self._set_fields(
            doc=doc, features={name: to_feature(feature_dict[name], name) for name in sorted(feature_dict)}
        )
        super().__post_init__()

    def keys(self) -> KeysView[str]:
        """Returns the names of the features, sorted."""
        return self.features.keys()

    def values(self) -> ValuesView[FeatureConnector]:
        """Returns the connectors of the features, in the order of their names."""
        return self.features.values()

    def items(self) -> ItemsView[str, FeatureConnector]:
        """Returns (name, connector) of each feature, in the order of the names."""
        return self.features.items()

    def __getitem__(self, name: str) -> FeatureConnector:
        """Returns the feature of a name.

        Raises:
            FeatureKeyError: there is no feature of this name.
        """
        try:
            return self.features[name]
        except KeyError:
            names = ", ".join(map(repr, self.features)) or "none"
            raise FeatureKeyError(
                f"no feature {name!r}; known are {names}.{did_you_mean(name, self.features)}"
            ) from None

    if not TYPE_CHECKING:  # so that a type checker reports missing attributes

        def __getattr__(self, name: str) -> Any:
            """Raises an AttributeError that explains how to get a feature, and names equivalents of foreign names."""
            if name.startswith("__"):  # of Python, such as those that copying asks for
                raise _no_attribute(self, name)
            if name in vars(self).get("features", ()):
                raise AttributeError(f"FeaturesDict has no attribute {name!r}. Use `features[{name!r}]`.", name=name)
            raise missing_attribute("features_dict", self, name) or _no_attribute(self, name)

        __setitem__ = __delitem__ = advised_setitem("features_dict")

    def __contains__(self, name: object) -> bool:
        return name in self.features

    def __iter__(self) -> Iterator[str]:
        return iter(self.features)

    def __len__(self) -> int:
        return len(self.features)

    def with_features(self, features: dict[str, FeatureConnector]) -> FeaturesDict:
        """Returns a FeaturesDict with other features and the same documentation."""
        return FeaturesDict(features, doc=self.doc)

    def map_leaves(self, function: Callable[[Any], FeatureConnector]) -> FeatureConnector:
        """Returns a FeaturesDict with `function(leaf)` in place of each feature in it that contains no others."""
        return self.with_features({name: feature.map_leaves(function) for name, feature in self.items()})

    def _name_alone(self) -> str:
        """Returns '': the features of a dict have their own names in a record."""
        return ""

    def check_names(self, names: Iterable[Any], path: str, argument: str) -> None:
        """Checks that the dict has all features of some names.

        Args:
            names: the names.
            path: the name of the dict, with slashes; '' for the top.
            argument: the argument that contains the names, for the error: 'decoders' or 'partial decoding'.

        Raises:
            ValueError: a name is unknown.
        """
        unknown = sorted(set(names) - set(self), key=str)
        if not unknown:
            return
        nested = [name for name, _, _ in self.leaves("") if name not in self]
        hint = did_you_mean(unknown[0], [*self, *nested])
        if {"/", "."} & set(str(unknown[0])) or any(repr(shown_name(name)) in hint for name in nested):
            hint += " A feature below another is named in a dict of its own, as in {'objects': {'label': ...}}."
        location = f" below {shown_name(path)}" if path else ""
        raise ValueError(f"{argument}{location} names {shown(unknown)}; the features are [{_list_names(self)}].{hint}")

    def _with_child_decoders(self, decoders: dict[str, Any], path: str) -> FeaturesDict:
        """Returns the dict with decoders in place of connectors, by name; see `with_decoders`.

        Args:
            decoders: {name of a feature inside: decoder}.
            path: the feature, for errors.
        """
        self.check_names(decoders, path, "decoders")
        return self.with_features(
            {name: child.with_decoders(decoders.get(name), join(path, name)) for name, child in self.items()}
        )

    def get_tensor_info(self) -> Any:
        """Returns a dict of the `TensorInfo` of the features by name."""
        return {name: feature.get_tensor_info() for name, feature in self.items()}

    def decoded(self) -> FeaturesDict:
        """Returns a FeaturesDict of the connectors that describe decoded values, by the same names."""
        return self.with_features({name: feature.decoded() for name, feature in self.items()})

    @property
    def shape(self) -> dict[str, Any]:
        """{name: shape of the feature, a tuple or a dict of shapes}."""
        return {name: shape_of(feature) for name, feature in self.items()}

    @property
    def dtype(self) -> dict[str, Any]:
        """{name: dtype of the feature, a NumPy dtype or a dict of dtypes}."""
        return {name: dtype_of(feature) for name, feature in self.items()}

    # ------------------------------------------------------------------------------------------- encoding and decoding

    def leaves(self, name: str, rank: int = 0) -> list[tuple[str, Any, int]]:
        """Returns [(<name>/<key>, leaf, rank), ...] of all features in the dict; see `FeatureConnector.leaves`."""
        return [leaf for child, feature in self.items() for leaf in feature.leaves(join(name, child), rank)]

    def encoder(self, name: str) -> Encode:
        """Returns the function from a dict of values to its map entries; `name` is the feature's name in the record."""
        return self._encoder(name)

    def record_encoder(self) -> Encode:
        """Returns the function from an example, a dict of values, to its record."""
        return self._encoder("", as_record=True)

    def _encoder(self, name: str, *, as_record: bool = False) -> Encode:
        """Returns the function that encodes a dict of values, a native one if entries need no sorting.

        Args:
            name: the feature's name in the record; '' for the top.
            as_record: whether the function returns the whole record instead of its serialized map entries.
        """
        check_unique(self.wire_names(name), name)
        names = {key: sorted(map(str.encode, feature.wire_names(join(name, key)))) for key, feature in self.items()}
        order = sorted(self.items(), key=lambda item: names[item[0]][:1])
        fields = [(key, feature.encoder(join(name, key))) for key, feature in order]
        native_fields = [
            (key, join(name, key), feature, encode_field) for (key, feature), (_, encode_field) in zip(order, fields)
        ]
        check = _keys_checker(frozenset(self.features), name)
        wire = [each for key, _ in order for each in names[key]]
        in_order = wire == sorted(wire)
        expected = self.features.keys()

        def encode(value: Any) -> bytes:
            """Returns the map entries of a dict of values."""
            if type(value) is not dict or value.keys() != expected:
                check(value)
            parts = [encode_field(value[key]) for key, encode_field in fields]
            return b"".join(parts) if in_order else sort_entries(parts)

        native = native_encoder(native_fields, encode, as_record=as_record) if in_order else None
        return native or ((lambda value: record(encode(value))) if as_record else encode)

    def rows_encoder(self, name: str, rank: int) -> RowsEncode:
        """Returns the function (dicts, lengths) -> [(name of a list, map entry), ...] of all features in the dicts.

        See `FeatureConnector.rows_encoder`.
        """
        fields = [(key, feature.rows_encoder(join(name, key), rank)) for key, feature in self.items()]
        check, expected = _keys_checker(frozenset(self.features), name), self.features.keys()

        def encode(items: Items, lengths: Lengths) -> list[tuple[str, bytes]]:
            """Returns the map entries of a dict of values."""
            for item in items:
                if type(item) is not dict or item.keys() != expected:
                    check(item)
            return [
                entry for key, encode_field in fields for entry in encode_field([item[key] for item in items], lengths)
            ]

        return encode

    def decoder(self, name: str, rank: int = 0) -> DecodeLists:
        """Returns the function from the lists of a record to a dict of values; of columns of items for rank 1 or more.

        See `FeatureConnector.decoder` for the arguments.
        """
        fields = [(key, feature.decoder(join(name, key), rank)) for key, feature in self.items()]
        return lambda lists: {key: decode(lists) for key, decode in fields}

    def serialize_example(self, example: Any) -> bytes:
        """Returns the record of an example; for many, `compile_encoder` is faster."""
        return self.record_encoder()(example)

    def deserialize_example(self, record: bytes, *, decoders: Any = None) -> dict[str, Any]:
        """Returns the example of a record, a dict of NumPy values; for many, `compile_decoder` is faster.

        Args:
            record: a serialized tf.train.Example, or a tensor of one.
            decoders: see `compile_decoder`.
        """
        example: dict[str, Any] = self.with_decoders(decoders).decode_record(to_numpy(record), "")
        return example

    deserialize_example_np = deserialize_example

    def stored(self) -> FeatureConnector:
        """Returns a FeaturesDict of the stored forms of the features."""
        return FeaturesDict({key: feature.stored() for key, feature in self.items()})

    # ------------------------------------------------------------------------------------------------ JSON and labels

    def content_json(self) -> tuple[str, Json]:
        """Returns ('featuresDict', {'features': {name: JSON object of the feature}})."""
        features = {name: feature.to_json() for name, feature in self.items()}
        return "featuresDict", {"features": features} if features else {}

    @classmethod
    def from_content(cls, content: Json, from_json: FromJson) -> FeaturesDict:
        """Returns the FeaturesDict of `content`, the second value of `content_json`."""
        return cls({name: from_json(node) for name, node in content.get("features", {}).items()})

    def label_files(self, prefix: str = "") -> dict[str, str]:
        r"""Returns {file name: text} of the label files of all features in the dict.

        For example, {'label.labels.txt': 'cat\ndog\n'} for a ClassLabel `label`.

        Args:
            prefix: the beginning of the file names; see `FeatureConnector.label_files`.
        """
        files: dict[str, str] = {}
        for name, feature in self.items():
            files.update(feature.label_files(_file_prefix(prefix, name)))
        return files

    def load_labels(self, read: Callable[[str], str | None], prefix: str = "") -> FeaturesDict:
        """Returns the dict with the class names of its label files; see `FeatureConnector.load_labels`."""
        features = {name: feature.load_labels(read, _file_prefix(prefix, name)) for name, feature in self.items()}
        unchanged = all(map(operator.is_, features.values(), self.features.values()))
        return self if unchanged else self._copy_with(features=features)

    def __repr__(self) -> str:
        lines = [f"    {name!r}: {feature!r},".replace("\n", "\n    ") for name, feature in self.items()]
        return "\n".join([f"{type(self).__name__}({{", *lines, "})"])


@to_feature.register
def _dict_to_feature(feature: dict, name: str = "") -> FeaturesDict:  # type: ignore[type-arg]
    """Returns the FeaturesDict that a dict of features means; see `to_feature`."""
    return FeaturesDict(feature)


def join(name: str, child: str) -> FeatureName:
    """Returns the name in the record of the feature `child` of a dict called `name`; '' is the top.

    >>> join("objects", "label"), join("", "label")
    ('objects/label', 'label')
    """
    return FeatureName([*(name.steps if isinstance(name, FeatureName) else [name] if name else []), child])


def check_label_files(tree: FeatureConnector) -> None:
    """Raises FeatureValueError if two class labels have the same label file and different names.

    The second file would overwrite the first. `tree` is the features of a dataset.
    """
    files: list[str] = []
    tree.load_labels(lambda file: files.append(file))
    texts = tree.label_files() if len(set(files)) < len(files) else {}
    for file, text in texts.items():
        if files.count(file) > 1 and not _has_same_labels(tree, file, text):
            raise FeatureValueError(
                f"two class labels have the label file {file!r}, but not the same names. (In the name of a label file "
                "'-' precedes a feature that is below another, and '.' replaces '/'.) Rename one of the features."
            )


def _has_same_labels(tree: FeatureConnector, file: str, text: str) -> bool:
    """Returns whether the features are unchanged if their class names are read from a label file with this text.

    Args:
        tree: the features.
        file: the name of the label file.
        text: its content.
    """
    try:
        return tree.load_labels(lambda name: text if name == file else None) == tree
    except MetadataError:  # not even as many
        return False


def _file_prefix(prefix: str, name: str) -> str:
    """Returns the beginning of a label file's name: nested names are joined by '-', and '/' becomes '.'.

    >>> _file_prefix("objects", "a/b")
    'objects-a.b'
    """
    name = name.replace("/", ".")
    return f"{prefix}-{name}" if prefix else name


_MAX_LISTED = 20  # names of features in an error


def _list_names(names: Collection[Any]) -> str:
    """Returns the sorted names of features for an error; of many or long names, the first ones and their number.

    >>> _list_names({"b", "a"})
    "'a', 'b'"
    >>> _list_names({f"x{number}" for number in range(21)}).endswith("'x8' and 1 more")
    True
    """
    sorted_names = sorted(map(str, names))
    listed = ", ".join(map(shown, sorted_names[:_MAX_LISTED]))
    more = f" and {len(names) - _MAX_LISTED:,} more" if len(names) > _MAX_LISTED else ""
    return f"{listed}{more}"


def _keys_checker(expected: frozenset[str], path: str) -> Callable[[Any], None]:
    """Returns the function that checks that a value is a mapping with exactly the expected names.

    Args:
        expected: the names.
        path: the feature, for errors; '' for the top.

    Raises:
        FeatureTypeError: the returned function raises it if the value is not a mapping.
        FeatureKeyError: the returned function raises it if a name is missing or unknown.
    """

    def check(value: Any) -> None:
        """Raises the error of a value that is not a mapping with exactly the expected names."""
        try:
            keys = set(value.keys())
        except AttributeError:
            raise FeatureTypeError(
                f"{type(value).__name__} is not a dict of the features [{_list_names(expected)}]", feature=path
            ) from None
        missing, extra = expected - keys, keys - expected
        if missing or extra:
            sentences = ["Add the missing ones."] * bool(missing)
            sentences += ["Declare the unknown ones as features, or leave them out."] * bool(extra)
            problem = [f"missing [{_list_names(missing)}]"] * bool(missing)
            problem += [f"unknown [{_list_names(extra)}]"] * bool(extra)
            raise FeatureKeyError(
                f"the example's features differ from the dataset's: {', '.join(problem)}",
                feature=path,
                expected=f"[{_list_names(expected)}]",
                got=f"[{_list_names(keys)}]",
                advice=" ".join(sentences),
            )

    return check


def _no_attribute(obj: FeaturesDict, name: str) -> AttributeError:
    """Returns the error for a missing attribute; for a public name it lists the features, which are items."""
    items = "" if name.startswith("_") else f". Its features are items: {_list_names(obj.features)}."
    return AttributeError(f"{type(obj).__name__!r} object has no attribute {name!r}{items}", name=name, obj=None)
