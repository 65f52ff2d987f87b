"""Features of an unknown class, such as connectors of another project."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from beam_datasets.errors import FeatureTypeError
from beam_datasets.features.base import Decode, Encode, FeatureConnector, ItemDecode, Json, RowsEncode
from beam_datasets.formats.example import parse_feature

if TYPE_CHECKING:
    from collections.abc import Callable

    from beam_datasets.formats.example import Kind


@dataclass(frozen=True, repr=False)
class UnknownFeature(FeatureConnector):
    """A feature whose class features.json names, but which is none of ours. Nothing is ever imported by that name.

    The rest of the dataset reads as usual, with `decode.PartialDecoding` that leaves this feature out, or with
    `decode.SkipDecoding` for it, which yields what the record has under its name. To decode it is an error.

    Attributes:
        node: what features.json says of it; it is written back unchanged.
    """

    node: Json = field(kw_only=True)

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
        raise FeatureTypeError(
            f"{path}: features of the class {self.python_class_name!r} are not known here. Leave this one out with "
            "decode.PartialDecoding, or get what is stored with decode.SkipDecoding()"
        )

    def wire_names(self, name: str, rank: int = 0) -> tuple[str, ...]:
        """Returns the feature's own name; there may be others below it."""
        return (name,)

    def kinds(self, rank: int = 0) -> tuple[Kind, ...]:
        """Returns nothing, as the kinds of its lists are not known."""
        return ()

    def encoder(self, name: str) -> Encode:
        """Refuses."""
        self._refuse(name)

    def rows_encoder(self, name: str, rank: int) -> RowsEncode:
        """Refuses."""
        self._refuse(name)

    def decoder(self, name: str, rank: int = 0) -> Decode:
        """Returns a function that refuses."""
        return lambda lists: self._refuse(name)

    def item_decoder(self, name: str, rank: int) -> ItemDecode:
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
            found = {k: span for k, span in spans.items() if k == key or k.startswith(key + b"/")}
            return {k.decode("utf-8"): parse_feature(data, *span) for k, span in found.items()}

        return decode
