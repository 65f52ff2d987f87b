"""JSON text of a tree of connectors: the file features.json.

The text is byte for byte the one that TFDS 4.9 writes. Its older form, with "type", "content" and "proto_cls", can be
read. Classes are looked up by name in a table of this package; other names are never imported.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

from beam_datasets.errors import FeatureTypeError, MetadataError
from beam_datasets.features.audio import Audio
from beam_datasets.features.base import (
    CLASS_PREFIX,
    DecodeLists,
    Documentation,
    FeatureConnector,
    FromJson,
    Lists,
    to_feature,
)
from beam_datasets.features.bounding_box import BBoxFeature
from beam_datasets.features.class_label import ClassLabel
from beam_datasets.features.dtypes import Json
from beam_datasets.features.features_dict import FeaturesDict
from beam_datasets.features.image import Image, LabeledImage, Video
from beam_datasets.features.leaf import Codec, Leaf
from beam_datasets.features.registry import build_connector, find_registered
from beam_datasets.features.sequence import Dataset, Sequence
from beam_datasets.features.tensor import Scalar, Tensor, Text
from beam_datasets.features.translation import Translation, TranslationVariableLanguages
from beam_datasets.formats.example import parse_feature
from beam_datasets.formats.proto_json import to_camel_case

_CONNECTORS: tuple[type[FeatureConnector], ...] = (
    *(Audio, BBoxFeature, ClassLabel, Dataset, FeaturesDict, Image, LabeledImage, Scalar, Sequence, Tensor, Text),
    *(Translation, TranslationVariableLanguages, Video),
)
_CONNECTORS_BY_NAME = {connector.PATH: connector for connector in _CONNECTORS} | {"feature.Tensor": Tensor}
"""The classes of connectors by their names in features.json, without `CLASS_PREFIX`."""


def to_json_text(feature: FeatureConnector) -> str:
    """Returns the text of features.json for the features of a dataset."""
    return json.dumps(feature.to_json(), indent=4, sort_keys=True)


def from_json_text(text: str, *, path: str = "features.json") -> FeatureConnector:
    """Returns the connector that the text of features.json describes.

    Args:
        text: the content of the file.
        path: the file, for errors.

    Raises:
        MetadataError: the text is not JSON, or does not describe features; the message names `path`.
    """
    try:
        return from_json(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, NotImplementedError, RecursionError) as error:
        problem = f"{type(error).__name__}: {error!s:.1000}"
        raise MetadataError(f"{path} does not describe the features of a dataset: {problem}") from error


def from_json(node: Any) -> FeatureConnector:
    """Returns the connector that a JSON object of features.json describes, including the connectors in it.

    Raises:
        ValueError, TypeError, KeyError: the node does not describe a feature.
    """
    if not isinstance(node, dict):
        raise ValueError(f"{node!r} is not an object that describes a feature")
    if "type" in node and "pythonClassName" not in node:
        return _parse_legacy_node(node)
    node = _to_camel_keys(node)
    name = node.get("pythonClassName")
    if not isinstance(name, str):
        raise ValueError(f"the object with the keys {sorted(node)} has no pythonClassName")
    connector = _CONNECTORS_BY_NAME.get(name.removeprefix(CLASS_PREFIX))
    contents = [value for key, value in node.items() if key not in ("pythonClassName", "description", "valueRange")]
    if connector is None or len(contents) > 1 or "jsonFeature" in node:
        feature = _build_user_connector(node, name, contents)
    else:
        feature = connector.from_content(_to_camel_keys(contents[0]) if contents else {}, from_json)
    if "description" in node or "valueRange" in node:
        feature = feature.with_doc(Documentation(node.get("description"), node.get("valueRange")))
    return feature


def _build_user_connector(node: Json, name: str, contents: list[Any]) -> FeatureConnector:
    """Returns the connector of a user's registered class; an `UnknownFeature` if no class has this name.

    Args:
        node: the JSON object of the feature.
        name: the name of the class.
        contents: the values of `node` apart from the class name and the documentation; one for a valid node.
    """
    if len(contents) != 1 or not isinstance(contents[0], dict):
        return UnknownFeature(node=node)
    try:
        kind = find_registered(name)
        connector = None if kind is None else to_feature(build_connector(kind, contents[0], from_json))
    except Exception as error:  # of methods that users write
        return UnknownFeature(node=node, problem=f"{contents[0]!r:.200}: {type(error).__name__}: {error!s:.1000}")
    return UnknownFeature(node=node) if connector is None else connector


def _parse_legacy_node(node: Json) -> FeatureConnector:
    """Returns the connector of a JSON object of the older form, with the keys "type" and "content"."""
    name, content = str(node["type"]).removeprefix(CLASS_PREFIX), node.get("content") or {}
    if isinstance(content, str):
        content = json.loads(content)
    connector = _CONNECTORS_BY_NAME.get(name)
    if connector is None:
        return _build_user_connector(node, str(node["type"]), [content])
    if name == "features_dict.FeaturesDict" and not node.get("proto_cls"):
        content = {"features": content}
    return connector.from_content(_to_camel_keys(content), from_json)


def _to_camel_keys(content: Json) -> Json:
    """Returns a JSON object with its keys in camelCase, as protobuf's JSON may also have them in snake_case.

    >>> _to_camel_keys({"num_classes": "3"})
    {'numClasses': '3'}
    """
    return {to_camel_case(key): value for key, value in content.items()}


@dataclass(frozen=True, repr=False)
class UnknownFeature(Leaf):
    """A feature whose class in features.json is not one of this package. Nothing is ever imported by that name.

    Decoding it is an error. The other features can be read with a `decode.PartialDecoding` that leaves this feature
    out, or with `decode.SkipDecoding` for it, which yields the lists that the record has under its name.

    Attributes:
        node: the JSON object of the feature in features.json; it is written back unchanged.
        problem: why the registered class of this name failed to make a connector, with the content; '' if no class of
            this name is registered.
    """

    node: Json = field(kw_only=True)
    problem: str = field(default="", kw_only=True)

    PATH: ClassVar[str] = ""
    shape: ClassVar[None] = None
    dtype: ClassVar[None] = None

    @property
    def python_class_name(self) -> str:
        """The class's name in features.json."""
        return str(self.node.get("pythonClassName", self.node.get("type")))

    def to_json(self) -> Json:
        """Returns the JSON object of the feature, as it was read from features.json."""
        return self.node

    def content_json(self) -> tuple[str, Json]:
        """Returns ('jsonFeature', {}), which is not used: `to_json` returns the stored JSON object."""
        return "jsonFeature", {}

    @classmethod
    def from_content(cls, content: Json, from_json: FromJson) -> UnknownFeature:
        """Returns the feature whose JSON object in features.json is `content`."""
        return cls(node=content)

    def _raise_unknown(self, path: str) -> NoReturn:
        """Raises the error for encoding or decoding: how to register the class, or to leave the feature out.

        Args:
            path: the feature, for errors.

        Raises:
            FeatureTypeError: always.
        """
        name = f"{self.python_class_name!r:.200}"
        if self.problem:
            reason = (
                f"the registered class {name} does not make a connector of its content in features.json, "
                f"{self.problem}. Define its from_json_content for this content"
            )
        else:
            reason = (
                f"features of the class {name} are not known here. Import the class and give it to "
                "features.register (on the command line: --imports MODULE_OR_FILE)"
            )
        raise FeatureTypeError(
            f"{reason}, leave this one out with decode.PartialDecoding, or get what is stored with "
            "decode.SkipDecoding()",
            feature=path,
        )

    def __repr__(self) -> str:
        reason = self.problem or "not registered: --imports the module that registers it"
        return f"{self.python_class_name}(...) [{reason}]"

    def codec(self, path: str) -> Codec:
        """Raises FeatureTypeError: values of an unknown class cannot be encoded or decoded."""
        self._raise_unknown(path)

    def own_lists(self, name: str, rank: int = 0) -> tuple[tuple[str, Any], ...]:
        """Returns ((name, None),) for any rank: the kind is unknown, and further lists may have names that begin so."""
        return ((name, None),)

    def items_splitter(self, name: str, rank: int) -> Callable[[Any], Any]:
        """Returns a function that raises FeatureTypeError, as items of an unknown class cannot be decoded."""
        return lambda lists: self._raise_unknown(name)

    def decoder(self, name: str, rank: int = 0) -> DecodeLists:
        """Returns a function that raises FeatureTypeError, as values of an unknown class cannot be decoded."""
        return lambda lists: self._raise_unknown(name)

    def stored(self) -> FeatureConnector:
        """Returns the connector that decodes to the lists of the record."""
        return StoredLists(node=self.node)


class StoredLists(UnknownFeature):
    """The undecoded lists of a feature of an unknown class.

    Its values are dicts of all lists of the record whose name is the feature's or begins with it and '/'; they have the
    form of `formats.example.parse`.
    """

    def decoder(self, name: str, rank: int = 0) -> DecodeLists:
        """Returns the function from all lists of a record to a dict of those whose name begins with the feature's."""

        def decode(lists: Lists) -> dict[str, Any]:
            """Returns {name of a list in the record: its values} of the feature."""
            return {key: values for key, values in lists.items() if key == name or key.startswith(f"{name}/")}

        return decode

    def stored_decoder(self, name: str) -> Callable[[bytes, dict[bytes, tuple[int, int]]], dict[str, Any]]:
        """Returns the function from a record to the lists of the feature, by their full names in the record.

        Args:
            name: the name of the feature in the record. The function takes a record and its spans, as returned by
                `formats.example.parse_spans`.
        """
        key = name.encode("utf-8")

        def decode(data: bytes, spans: dict[bytes, tuple[int, int]]) -> dict[str, Any]:
            """Returns {name of a list in the record: its values} of the feature.

            Args:
                data: the record.
                spans: name of each list in the record -> half-open range of its bytes.
            """
            matching_spans = {k: span for k, span in spans.items() if k == key or k.startswith(key + b"/")}
            return {k.decode("utf-8"): parse_feature(data, *span) for k, span in matching_spans.items()}

        return decode
