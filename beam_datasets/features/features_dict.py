"""FeaturesDict: named features, one in the other as deep as you like."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from dataclasses import dataclass
from typing import Any, ClassVar

from beam_datasets.arguments import is_unicode
from beam_datasets.errors import FeatureKeyError, FeatureTypeError, FeatureValueError, MetadataError
from beam_datasets.features.base import (
    Decode,
    DocArg,
    Encode,
    FeatureConnector,
    Items,
    Json,
    Lengths,
    RowsEncode,
    check_unique,
    dtype_of,
    is_dtype,
    native_encoder,
    shape_of,
)
from beam_datasets.features.tensor import Tensor
from beam_datasets.formats.example import record, sort_entries


def to_feature(feature: Any, name: str = "") -> FeatureConnector:
    """Returns the connector that is meant: itself, a FeaturesDict for a mapping, a Tensor of shape () for a dtype.

    Args:
        feature: one of these.
        name: what it is called, for the error.

    Raises:
        ValueError: it is something else.
    """
    if isinstance(feature, FeatureConnector):
        if not feature.is_overridden():
            return feature
        from beam_datasets.features.wrapped import wrap_overridden

        return wrap_overridden(feature)
    if isinstance(feature, dict):
        return FeaturesDict(feature)
    if is_dtype(feature):
        return Tensor(shape=(), dtype=feature)
    got = repr(feature)
    if isinstance(feature, type) and issubclass(feature, FeatureConnector):
        got = f"the class {feature.__name__}; write {feature.__name__}(...)"
    prefix = f"{name}: " if name else ""
    raise ValueError(f"{prefix}expected a feature, a dict of features, or a dtype such as np.int64, got {got}")


@dataclass(frozen=True, repr=False, init=False)
class FeaturesDict(FeatureConnector):
    """Named features. Values are dicts with exactly these names; they are stored under `<name>/<inner name>`.

    Args:
        feature_dict: from names to connectors; dicts and dtypes are taken for the connectors that they mean.
        doc: what it means.

    Examples:
        >>> import numpy as np
        >>> FeaturesDict({"id": np.int64, "name": np.str_})["id"]
        int64
    """

    features: dict[str, FeatureConnector]

    PATH: ClassVar[str] = "features_dict.FeaturesDict"

    def __init__(self, feature_dict: Mapping[str, Any], *, doc: DocArg = None) -> None:
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
        """The names, sorted."""
        return self.features.keys()

    def values(self) -> ValuesView[FeatureConnector]:
        """The features, in the order of their names."""
        return self.features.values()

    def items(self) -> ItemsView[str, FeatureConnector]:
        """Names and features, in the order of the names."""
        return self.features.items()

    def __getitem__(self, name: str) -> FeatureConnector:
        return self.features[name]

    def __contains__(self, name: object) -> bool:
        return name in self.features

    def __iter__(self) -> Iterator[str]:
        return iter(self.features)

    def __len__(self) -> int:
        return len(self.features)

    def with_features(self, features: dict[str, FeatureConnector]) -> FeaturesDict:
        """Returns a FeaturesDict with other features and the same documentation."""
        return FeaturesDict(features, doc=self.doc)

    def decoded(self) -> FeaturesDict:
        """Returns the same names with the connectors of decoded values."""
        return self.with_features({name: feature.decoded() for name, feature in self.items()})

    @property
    def shape(self) -> dict[str, Any]:
        """The shapes of the features, by name."""
        return {name: shape_of(feature) for name, feature in self.items()}

    @property
    def dtype(self) -> dict[str, Any]:
        """The dtypes of the features, by name."""
        return {name: dtype_of(feature) for name, feature in self.items()}

    # ------------------------------------------------------------------------------------------- encoding and decoding

    def leaves(self, name: str, rank: int = 0) -> list[tuple[str, Any, int]]:
        """Returns those of all features below."""
        return [leaf for child, feature in self.items() for leaf in feature.leaves(join(name, child), rank)]

    def encoder(self, name: str) -> Encode:
        """Returns the function that encodes a dict."""
        return self._encoder(name)

    def record_encoder(self) -> Encode:
        """Returns the function from a dict to the record whose features these are."""
        return self._encoder("", whole=True)

    def _encoder(self, name: str, *, whole: bool = False) -> Encode:
        """Returns the encoder of dicts, a native one if entries need no sorting; with `whole`, it encodes records."""
        check_unique(self.wire_names(name), name)
        names = {key: sorted(map(str.encode, feature.wire_names(join(name, key)))) for key, feature in self.items()}
        order = sorted(self.items(), key=lambda item: names[item[0]][:1])
        fields = [(key, feature.encoder(join(name, key))) for key, feature in order]
        described = [(key, join(name, key), feature, part) for (key, feature), (_, part) in zip(order, fields)]
        check = _keys_checker(frozenset(self.features), name)
        wire = [each for key, _ in order for each in names[key]]
        in_order = wire == sorted(wire)
        expected = self.features.keys()

        def encode(value: Any) -> bytes:
            if type(value) is not dict or value.keys() != expected:
                check(value)
            parts = [part(value[key]) for key, part in fields]
            return b"".join(parts) if in_order else sort_entries(parts)

        native = native_encoder(described, encode, whole=whole) if in_order else None
        return native or ((lambda value: record(encode(value))) if whole else encode)

    def rows_encoder(self, name: str, rank: int) -> RowsEncode:
        """Returns the function that encodes dicts that are the items of a sequence."""
        fields = [(key, feature.rows_encoder(join(name, key), rank)) for key, feature in self.items()]
        check, expected = _keys_checker(frozenset(self.features), name), self.features.keys()

        def encode(items: Items, lengths: Lengths) -> list[tuple[str, bytes]]:
            for item in items:
                if type(item) is not dict or item.keys() != expected:
                    check(item)
            return [entry for key, part in fields for entry in part([item[key] for item in items], lengths)]

        return encode

    def decoder(self, name: str, rank: int = 0) -> Decode:
        """Returns the function that decodes a dict, or the items of sequences to a dict of columns."""
        fields = [(key, feature.decoder(join(name, key), rank)) for key, feature in self.items()]
        return lambda lists: {key: decode(lists) for key, decode in fields}

    def serialize_example(self, example: Any) -> bytes:
        """Returns the record of an example; for many, `compile_encoder` is faster."""
        from beam_datasets.features.compiler import compile_encoder

        return compile_encoder(self)(example)

    def deserialize_example(self, record: bytes, *, decoders: Any = None) -> dict[str, Any]:
        """Returns the example of a record, of NumPy values; for many, `compile_decoder` is faster.

        Args:
            record: a serialized tf.train.Example, or a tensor of one.
            decoders: see `compile_decoder`.
        """
        from beam_datasets.features.compiler import decode_record

        return decode_record(self, record, decoders)  # type: ignore[no-any-return]

    deserialize_example_np = deserialize_example

    def stored(self) -> FeatureConnector:
        """Returns the dict of the stored forms."""
        return FeaturesDict({key: feature.stored() for key, feature in self.items()})

    # ------------------------------------------------------------------------------------------------ JSON and labels

    def content_json(self) -> tuple[str, Json]:
        """Returns the key 'featuresDict' and the features by name."""
        features = {name: feature.to_json() for name, feature in self.items()}
        return "featuresDict", {"features": features} if features else {}

    @classmethod
    def from_content(cls, content: Json) -> FeaturesDict:
        """Returns the FeaturesDict with this content."""
        from beam_datasets.features.config import from_json

        return cls({name: from_json(node) for name, node in content.get("features", {}).items()})

    def label_files(self, prefix: str = "") -> dict[str, str]:
        """Returns the label files of all features below."""
        files: dict[str, str] = {}
        for name, feature in self.items():
            files.update(feature.label_files(_file_prefix(prefix, name)))
        return files

    def load_labels(self, read: Callable[[str], str | None], prefix: str = "") -> FeaturesDict:
        """Returns the FeaturesDict with the label names that `read` finds."""
        features = {name: feature.load_labels(read, _file_prefix(prefix, name)) for name, feature in self.items()}
        return self._copy_with(features=features)

    def __repr__(self) -> str:
        lines = [f"    {name!r}: {feature!r},".replace("\n", "\n    ") for name, feature in self.items()]
        return "\n".join([f"{type(self).__name__}({{", *lines, "})"])


def join(name: str, child: str) -> str:
    """Returns the name in the record of a feature below another; '' is the top."""
    return f"{name}/{child}" if name else child


def check_label_files(tree: FeatureConnector) -> None:
    """Refuses class labels with one label file that have not the same names: those of one would be lost."""
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
    try:
        return tree.load_labels(lambda name: text if name == file else None) == tree
    except MetadataError:  # not even as many
        return False


def _file_prefix(prefix: str, name: str) -> str:
    """Returns the beginning of a label file's name: nested names are joined by '-', and '/' becomes '.'."""
    name = name.replace("/", ".")
    return f"{prefix}-{name}" if prefix else name


def _keys_checker(expected: frozenset[str], path: str) -> Callable[[Any], None]:
    """Returns the function that refuses what is not a mapping of exactly the expected names."""
    where = f"{path}: " if path else ""

    def check(value: Any) -> None:
        try:
            keys = set(value.keys())
        except AttributeError:
            raise FeatureTypeError(
                f"{where}{type(value).__name__} is not a dict of the features {sorted(expected)}"
            ) from None
        missing, extra = sorted(expected - keys), sorted(map(str, keys - expected))
        if missing or extra:
            problem = [f"missing {missing}"] * bool(missing) + [f"unknown {extra}"] * bool(extra)
            raise FeatureKeyError(f"{where}the example's features differ from the dataset's: {', '.join(problem)}")

    return check
