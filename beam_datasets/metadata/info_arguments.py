"""What may be said of a dataset: checked where it is said, as dataset_info.json could be written but not read again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from beam_datasets.arguments import boolean, is_unicode

_TEXTS = ("description", "homepage", "citation", "license", "is_blocked", "file_format")
_FLAGS = ("disable_shuffling", "nondeterministic_order")
_IDENTITY_TEXTS = ("config_name", "config_description")


def check(arguments: Mapping[str, Any]) -> None:
    """Checks the types of what a DatasetInfo is made of.

    Args:
        arguments: the attributes of a DatasetInfo, by their names.

    Raises:
        ValueError: one is of a type that does not go into dataset_info.json or metadata.json; the message names it.
    """
    identity = arguments["identity"]
    texts = {name: arguments[name] for name in _TEXTS} | {name: getattr(identity, name) for name in _IDENTITY_TEXTS}
    for name, value in texts.items():
        _check_text(name, value)
    notes = identity.release_notes or {}
    if not isinstance(notes, Mapping):
        raise ValueError(f"release_notes is {notes!r:.100}; needed: a dict from versions to what is new in them.")
    for version, text in notes.items():
        _check_text("a version of release_notes", str(version))
        _check_text(f"release_notes[{str(version)!r}]", text)
    for tag in identity.config_tags:
        _check_text("a tag of config_tags", tag)
    _check_metadata(arguments["metadata"])


def checked_flags(arguments: Mapping[str, Any]) -> dict[str, bool]:
    """Returns the flags among the attributes of a DatasetInfo, as bools.

    Raises:
        TypeError: one is neither True nor False.
    """
    return {name: boolean(name, arguments[name]) for name in _FLAGS}


def _check_text(name: str, value: Any) -> None:
    if not isinstance(value, (str, type(None))):
        raise ValueError(f"{name} is {value!r:.100} of type {type(value).__name__}; needed: a str.")
    if value and not is_unicode(value):
        raise ValueError(f"{name} is {value!r:.100}, with half of a surrogate pair, which UTF-8 cannot express.")


def _check_metadata(metadata: Any) -> None:
    if not isinstance(metadata, (dict, type(None))):
        raise ValueError(f"metadata is {metadata!r:.100}; needed: a MetadataDict.")
    try:
        json.dumps(metadata)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"metadata cannot be written as JSON: {error}.") from None
