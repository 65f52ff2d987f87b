"""features.json: a tree of connectors as JSON text, and back.

The text is what TFDS 4.9 writes, byte for byte; its older form, with "type", "content" and "proto_cls", is read too.
Classes are looked up in a table of our own; a name that is not in it is never imported.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from beam_datasets.errors import MetadataError
from beam_datasets.features.base import CLASS_PREFIX, Documentation, FeatureConnector, Json


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
        problem = f"{type(error).__name__}: {error}"
        raise MetadataError(f"{path} does not describe the features of a dataset: {problem}") from error


def from_json(node: Any) -> FeatureConnector:
    """Returns the connector of a node of features.json.

    Raises:
        ValueError, TypeError, KeyError: the node does not describe a feature.
    """
    if not isinstance(node, dict):
        raise ValueError(f"{node!r} is not an object that describes a feature")
    if "type" in node and "pythonClassName" not in node:
        return _from_legacy(node)
    node = _camel(node)
    name = node.get("pythonClassName")
    if not isinstance(name, str):
        raise ValueError(f"the object with the keys {sorted(node)} has no pythonClassName")
    connector = _connectors().get(name.removeprefix(CLASS_PREFIX))
    doc = Documentation(node.get("description"), node.get("valueRange"))
    contents = [value for key, value in node.items() if key not in ("pythonClassName", "description", "valueRange")]
    if connector is None or len(contents) > 1 or "jsonFeature" in node:
        from beam_datasets.features.unknown import UnknownFeature

        return UnknownFeature(node=node)
    feature = connector.from_content(_camel(contents[0]) if contents else {})
    return feature.with_doc(doc)


def _from_legacy(node: Json) -> FeatureConnector:
    """Returns the connector of a node of the older form."""
    name, content = str(node["type"]).removeprefix(CLASS_PREFIX), node.get("content") or {}
    if isinstance(content, str):
        content = json.loads(content)
    connector = _connectors().get(name)
    if connector is None:
        from beam_datasets.features.unknown import UnknownFeature

        return UnknownFeature(node=node)
    if name == "features_dict.FeaturesDict" and not node.get("proto_cls"):
        content = {"features": content}
    return connector.from_content(_camel(content))


def _camel(content: Json) -> Json:
    """Returns an object with its own keys in camelCase; protobuf's JSON may have them in snake_case too.

    >>> _camel({"num_classes": "3"})
    {'numClasses': '3'}
    """

    def camel(key: str) -> str:
        first, *rest = key.split("_")
        return first + "".join(word.capitalize() for word in rest)

    return {camel(key): value for key, value in content.items()}


@lru_cache(maxsize=1)
def _connectors() -> dict[str, type[FeatureConnector]]:
    """Returns the connectors by their names in features.json, without the prefix."""
    from beam_datasets import features

    known = [value for value in vars(features).values() if isinstance(value, type) and hasattr(value, "PATH")]
    return {connector.PATH: connector for connector in known} | {"feature.Tensor": features.Tensor}
