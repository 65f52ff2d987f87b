"""features.json: a tree of connectors as JSON text, and back.

The text is what TFDS 4.9 writes, byte for byte; its older form, with "type", "content" and "proto_cls", is read too.
Classes are looked up in a table of our own; a name that is not in it is never imported.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, NoReturn

from beam_datasets.errors import FeatureTypeError, MetadataError
from beam_datasets.features.base import (
    CLASS_PREFIX,
    Decode,
    Documentation,
    FeatureConnector,
    Json,
)
from beam_datasets.features.leaf import Codec, Leaf
from beam_datasets.formats.example import parse_feature


def to_json_text(feature: FeatureConnector) -> str:
    """Returns the text of features.json."""
    return json.dumps(feature.to_json(), indent=4, sort_keys=True)


def from_json_text(text: str, *, path: str = "features.json") -> FeatureConnector:
    """Returns the connector of the text of features.json.

    Raises:
        MetadataError: the text is not JSON, or does not describe features; the message names `path`.
    """
    try:
        return from_json(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, NotImplementedError, RecursionError) as error:
        problem = f"{type(error).__name__}: {error!s:.1000}"
        raise MetadataError(f"{path} does not describe the features of a dataset: {problem}") from error


def from_json(node: Any) -> FeatureConnector:
    """Returns the connector of a node of features.json.

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
    connector = _connectors_by_name().get(name.removeprefix(CLASS_PREFIX))
    doc = Documentation(node.get("description"), node.get("valueRange"))
    contents = [value for key, value in node.items() if key not in ("pythonClassName", "description", "valueRange")]
    if connector is None or len(contents) > 1 or "jsonFeature" in node:
        return _build_user_connector(node, name, contents).with_doc(doc)
    feature = connector.from_content(_to_camel_keys(contents[0]) if contents else {})
    return feature.with_doc(doc)


def _build_user_connector(node: Json, name: str, contents: list[Any]) -> FeatureConnector:
    """Returns the connector of a user's class; an `UnknownFeature` without one, as all others can be read."""
    from beam_datasets.features.wrapped import from_registered

    if len(contents) != 1 or not isinstance(contents[0], dict):
        return UnknownFeature(node=node)
    try:
        connector = from_registered(name, contents[0])
    except Exception as error:  # of methods that users write
        return UnknownFeature(node=node, problem=f"{contents[0]!r:.200}: {type(error).__name__}: {error!s:.1000}")
    return UnknownFeature(node=node) if connector is None else connector


def _parse_legacy_node(node: Json) -> FeatureConnector:
    """Returns the connector of a node of the older form."""
    name, content = str(node["type"]).removeprefix(CLASS_PREFIX), node.get("content") or {}
    if isinstance(content, str):
        content = json.loads(content)
    connector = _connectors_by_name().get(name)
    if connector is None:
        return UnknownFeature(node=node)
    if name == "features_dict.FeaturesDict" and not node.get("proto_cls"):
        content = {"features": content}
    return connector.from_content(_to_camel_keys(content))


def _to_camel_keys(content: Json) -> Json:
    """Returns an object with its own keys in camelCase; protobuf's JSON may have them in snake_case too.

    >>> _camel({"num_classes": "3"})
    {'numClasses': '3'}
    """

    def camel(key: str) -> str:
        first, *rest = key.split("_")
        return first + "".join(word.capitalize() for word in rest)

    return {camel(key): value for key, value in content.items()}


@lru_cache(maxsize=1)
def _connectors_by_name() -> dict[str, type[FeatureConnector]]:
    """Returns the connectors by their names in features.json, without the prefix."""
    from beam_datasets import features

    known = [value for value in vars(features).values() if isinstance(value, type) and hasattr(value, "PATH")]
    return {connector.PATH: connector for connector in known} | {"feature.Tensor": features.Tensor}


@dataclass(frozen=True, repr=False)
class UnknownFeature(Leaf):
    """A feature whose class in features.json is not one of this package. Nothing is ever imported by that name.

    The rest of the dataset reads as usual, with `decode.PartialDecoding` that leaves this feature out, or with
    `decode.SkipDecoding` for it, which yields what the record has under its name. To decode it is an error.

    Attributes:
        node: what features.json says of it; it is written back unchanged.
        problem: of a registered class, its content and why it does not make a connector of it.
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
        """Returns what was read."""
        return self.node

    def content_json(self) -> tuple[str, Json]:
        """Returns nothing of its own: see `to_json`."""
        return "jsonFeature", {}

    @classmethod
    def from_content(cls, content: Json) -> UnknownFeature:
        """Returns the feature of a node."""
        return cls(node=content)

    def _refuse(self, path: str) -> NoReturn:
        """Refuses to use this feature; the message explains how to register its class or how to leave the feature out.

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
            f"{path}: {reason}, leave this one out with decode.PartialDecoding, or get what is stored with "
            "decode.SkipDecoding()"
        )

    def __repr__(self) -> str:
        reason = self.problem or "not registered: --imports the module that registers it"
        return f"{self.python_class_name}(...) [{reason}]"

    def codec(self, path: str) -> Codec:
        """Refuses."""
        self._refuse(path)

    def own_lists(self, name: str, rank: int = 0) -> tuple[tuple[str, Any], ...]:
        """Returns the feature's own name; there may be others below it."""
        return ((name, None),)

    def items_splitter(self, name: str, rank: int) -> Callable[[Any], Any]:
        """Returns a function that refuses."""
        return lambda lists: self._refuse(name)

    def decoder(self, name: str, rank: int = 0) -> Decode:
        """Returns a function that refuses."""
        return lambda lists: self._refuse(name)

    def stored(self) -> FeatureConnector:
        """Returns the connector of what the record has."""
        return StoredLists(node=self.node)


class StoredLists(UnknownFeature):
    """What a record has under a name and below it, undecoded: a dict of lists, as of `formats.example.parse`."""

    def stored_decoder(self, name: str) -> Callable[[bytes, dict[bytes, tuple[int, int]]], dict[str, Any]]:
        """Returns the function from a record and its spans, see `spans_of`, to the lists by their whole names."""
        key = name.encode("utf-8")

        def decode(data: bytes, spans: dict[bytes, tuple[int, int]]) -> dict[str, Any]:
            matching_spans = {k: span for k, span in spans.items() if k == key or k.startswith(key + b"/")}
            return {k.decode("utf-8"): parse_feature(data, *span) for k, span in matching_spans.items()}

        return decode
