"""URLs that carry the options of their store: credentials, an endpoint, a region. Nothing shows what the options hold.

A `Location` is the text of its URL and nothing else wherever it is printed, compared, or written to a file. The options
go along where a path is made of it by the functions of `paths` or by `+`, and where it is pickled, to another process.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LEAST_SECRET = 6  # letters; shorter values are such as 'true' or '30s'
_PUBLIC = ("endpoint", "endpoint_url", "region", "account_name", "project_id")


class StoreOptions:
    """Options of a store, as its library takes them. Compared by value; shown without values.

    >>> StoreOptions({"secret_access_key": "123", "region": "us-east-1"})
    StoreOptions(region=..., secret_access_key=...)
    """

    __slots__ = ("values",)

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self.values = dict(values or {})
        if wrong := [name for name in self.values if not isinstance(name, str)]:
            raise TypeError(f"storage_options: the name of an option is a str; got a {type(wrong[0]).__name__}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoreOptions) and self.values == other.values

    def __hash__(self) -> int:
        return hash(frozenset(self.values))  # values may be dicts

    def __bool__(self) -> bool:
        return bool(self.values)

    def __repr__(self) -> str:
        return f"StoreOptions({', '.join(f'{name}=...' for name in sorted(self.values))})"

    def redact(self, text: str) -> str:
        """Returns a text without the values of options, but for such as an endpoint.

        >>> StoreOptions({"secret_access_key": "very secret", "endpoint": "http://host"}).redact("very secret: host")
        '***: host'
        """
        secrets = {
            text
            for name, value in self.values.items()
            if not name.lower().endswith(_PUBLIC)
            for text in _texts(value)
            if len(text) >= _LEAST_SECRET
        }
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


NO_OPTIONS = StoreOptions()


class Location(str):
    """A URL with the options of its store."""

    __slots__ = ("options",)
    options: StoreOptions

    def __new__(cls, url: str, options: StoreOptions) -> Location:
        """Returns the URL with the options."""
        made = super().__new__(cls, url)
        made.options = options
        return made

    def __add__(self, suffix: str) -> Location:
        return Location(str(self) + suffix, self.options)

    def __getnewargs__(self) -> tuple[str, StoreOptions]:  # type: ignore[override]
        return str(self), self.options


def options_of(path: str) -> StoreOptions:
    """Returns the options that a path carries."""
    return path.options if isinstance(path, Location) else NO_OPTIONS


def like(path: str, text: str) -> str:
    """Returns a text with the options of the path that it was made of."""
    return Location(text, path.options) if isinstance(path, Location) else text


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, (str, bytes)):
        text = value if isinstance(value, str) else value.decode(errors="replace")
        yield text
        if text.lstrip().startswith("{"):  # a key of Google's, whose parts may be shown without the rest
            with contextlib.suppress(ValueError, RecursionError):
                yield from _texts([inner for name, inner in json.loads(text).items() if name.startswith("private_key")])
