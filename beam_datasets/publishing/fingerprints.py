"""Fingerprints of builders: all inputs that affect the bytes of encoded units."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import hashlib
import importlib.metadata
import inspect
import os
import pickle
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from beam_datasets._version import __version__
from beam_datasets.features import FeatureConnector, to_json_text
from beam_datasets.features.custom import Customised
from beam_datasets.features.trees import iter_nested_features, strip_sequences
from beam_datasets.passwords import without_passwords

_MAX_TEXT = 100  # characters of an argument in the fingerprint
_CODECS = ("imagecodecs", "pillow", "numpy")
_SECRETS = (
    "secret",
    "access_key",
    "account_key",
    "api_key",
    "apikey",
    "private_key",
    "token",
    "password",
    "passwd",
    "passphrase",
    "authorization",
    "credential",
    "storage_options",
    "--storage",
)


def fingerprint(builder: Any) -> dict[str, str]:
    """Returns {name: text} of everything that affects the encoded bytes of a builder's units.

    The names are `beam_datasets`, `python`, `library <name>` (versions), `features`, `code of <module>` (digests),
    `disable_shuffling`, and `argument <name>` of the builder (texts of their values; of one such as `api_token`, and of
    an entry such as `{"api_token": ...}`, only a digest, because resume.json stays on the disk if the run is killed).
    The directories of data and downloads, the requested version and cached properties are left out.
    """
    # Where files are does not decide what is in them, nor does the way in which the version was asked for.
    excluded_names = {"_root", "_downloads", "_download_root", "download_size", "requested_version"}
    excluded_names.add("_format_options")  # of builders of files, which have other attributes for what they mean
    for kind in type(builder).__mro__:
        attributes = vars(kind).items()
        excluded_names.update(name for name, value in attributes if isinstance(value, functools.cached_property))
    features = builder.info.features  # of a wrong type, the encoder refuses them
    schema = to_json_text(features) if isinstance(features, FeatureConnector) else repr(features)
    facts = {"beam_datasets": __version__, "python": ".".join(map(str, sys.version_info[:2]))}
    for library in _CODECS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            facts[f"library {library}"] = importlib.metadata.version(library)
    facts["features"] = _digest(schema.encode())
    facts["disable_shuffling"] = str(builder.info.disable_shuffling)
    classes = {type(builder)}
    for _, _, feature in iter_nested_features(features):
        connector = strip_sequences(feature)
        classes.add(type(connector.connector if isinstance(connector, Customised) else connector))
    for kind in classes:
        for module, digest in _modules(kind):
            facts[f"code of {module}"] = digest
    for name, value in vars(builder).items():
        if name not in excluded_names:
            text = _digest(_describe_contents(value).encode()) if may_name_secret(name) else _describe_value(value)
            facts[f"argument {name.lstrip('_')}"] = text
    return facts


def may_name_secret(name: str) -> bool:
    """Returns whether a name contains a word for credentials such as "token"; also True for "tokenizer"."""
    return any(word in name.lower() for word in _SECRETS)


def _modules(kind: type) -> Iterator[tuple[str, str]]:
    """Yields (name of a module, digest of its source) for a class and its bases outside of this package.

    The digest is 16 hexadecimal digits; of a module without source, a text that differs from every other.
    """
    for module in dict.fromkeys(each.__module__ for each in kind.__mro__):
        if module.partition(".")[0] in ("builtins", "abc", "typing", "beam_datasets"):
            continue
        try:
            source = inspect.getsource(sys.modules[module])
        except (OSError, TypeError, KeyError):  # as of a class that was typed into an interpreter
            source = f"unknown, process {os.getpid()} at {time.time()}"  # differs from every other
        yield module, _digest(source.encode())


def _describe_value(value: Any) -> str:
    """Returns a text that differs for values that differ, and is equal in every process for equal plain values.

    A text of more than `_MAX_TEXT` characters is truncated. Passwords in URLs, and values with names of secrets,
    are removed. In both cases the text ends with the digest of the whole text.

    >>> _describe_value({"a": [1, "x"], "b": {2, 1}})
    "{'a': [1, 'x'], 'b': {1, 2}}"
    >>> _describe_value([{"api_token": "123"}])
    "[{'api_token': ***}]... c22a2ee0260a62fe"
    """
    plain = _describe_contents(value)
    text = without_passwords(_describe_contents(value, with_secrets=False))
    if text == plain and len(plain) <= _MAX_TEXT:
        return plain
    return f"{text[:_MAX_TEXT]}... {_digest(plain.encode())}"


def _describe_contents(value: Any, name: Any = None, *, with_secrets: bool = True) -> str:
    """Returns a text for the value and its contents, such as "Point(x=1)" for a dataclass.

    The text of another object contains the digest of its pickle; if it cannot be pickled, the text differs from every
    other.

    Args:
        value: the value.
        name: its name: the key in a dict, the name of a field, or the first item of a pair, as of headers of HTTP;
            None if it has none.
        with_secrets: whether values whose names are those of credentials are described, in place of "***".
    """
    if not with_secrets and isinstance(name, str) and may_name_secret(name):
        return "***"
    if isinstance(value, enum.Enum) or value is None or isinstance(value, (str, int, float, bool, bytes, os.PathLike)):
        return str(value) if isinstance(value, os.PathLike) else repr(value)
    members: list[tuple[Any, Any]]  # name, value
    if isinstance(value, Mapping):
        members = list(value.items())
    elif isinstance(value, (list, tuple)) and len(value) == 2:
        members = [(None, value[0]), (value[0], value[1])]
    elif isinstance(value, (set, frozenset, list, tuple)):
        members = [(None, item) for item in value]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        members = [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    else:
        return _describe_object(value)
    texts = []
    for member_name, member in members:  # a loop needs one call for each level: values may be hundreds of levels deep
        texts.append(_describe_contents(member, member_name, with_secrets=with_secrets))
    if isinstance(value, Mapping):
        keys = [_describe_contents(key, with_secrets=with_secrets) for key in value]
        return f"{{{', '.join(f'{key}: {text}' for key, text in zip(keys, texts))}}}"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(texts))}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(texts)}]"
    return f"{type(value).__name__}({', '.join(f'{name}={text}' for (name, _), text in zip(members, texts))})"


def _describe_object(value: Any) -> str:
    """Returns a text with the digest of the pickle of an object; one that differs from every other if it has none."""
    try:
        return f"{type(value).__name__} {_digest(pickle.dumps(value))}"
    except Exception:  # whatever the value's own code raises
        return f"{type(value).__name__} of process {os.getpid()} at {time.time()}"  # differs from every other


def _digest(content: bytes) -> str:
    """Returns the first 16 hexadecimal digits of the SHA-256 digest."""
    return hashlib.sha256(content).hexdigest()[:16]
