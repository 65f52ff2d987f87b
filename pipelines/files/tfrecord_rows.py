"""Examples of TFRecord files that somebody else wrote."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import BeamDatasetsError, InputError
from beam_datasets.features import FeatureConnector, FeaturesDict, Image, Sequence, compile_decoder
from beam_datasets.features.decode import SkipDecoding
from beam_datasets.formats import example as examples
from beam_datasets.formats import tfrecord
from pipelines.files.convert import row_converter
from pipelines.files.inputs import open_bytes
from pipelines.files.schema import Field
from pipelines.files.source import Bad, key_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import BinaryIO

    from pipelines.files.inputs import Piece
    from pipelines.files.source import Example, Key

_IMAGES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")


def records(stream: BinaryIO, path: str) -> Iterator[bytes]:
    """Yields the checked records of a TFRecord stream.

    Raises:
        CorruptRecordError: a record is damaged or cut.
    """
    number = offset = 0
    while header := stream.read(12):
        length = int.from_bytes(header[:8], "little") if len(header) == 12 else 0
        # A damaged length may be any number: the header is checked before so many bytes are read.
        if len(header) < 12 or tfrecord.masked_crc32c(header[:8]) != int.from_bytes(header[8:], "little"):
            tfrecord.unframe(header, [0, len(header)], path=path, offset=offset, first_record=number)
        frame = header + stream.read(length + 4)
        yield tfrecord.unframe(frame, [0, length + 16], path=path, offset=offset, first_record=number)[0]
        number, offset = number + 1, offset + length + 16


@dataclass
class Guess:
    """What the values of one name have in common: kinds and lengths of lists, and whether all bytes are images."""

    kinds: set[str] = field(default_factory=set)
    lengths: set[int] = field(default_factory=set)
    seen: int = 0
    images: bool = True

    def add(self, values: Any) -> None:
        """Takes another list into account."""
        self.seen += 1
        self.lengths.add(len(values))
        if not len(values):
            return
        if isinstance(values, list):
            self.kinds.add("string")
            self.images = self.images and all(bytes(value).startswith(_IMAGES) for value in values)
        else:
            self.kinds.add(str(values.dtype))

    def field(self, name: str, total: int) -> Field:
        """Returns the field that holds the values.

        Raises:
            InputError: the lists are of several kinds.
        """
        if len(self.kinds) != 1:
            found = " and ".join(sorted(self.kinds)) or "empty lists alone"
            raise InputError(f"feature {name!r} holds {found} in these records; leave it out by --feature {name}=drop")
        [kind] = self.kinds
        if self.lengths == {1}:
            whole = self.seen == total
            return Field("image" if kind == "string" and self.images and whole else kind, optional=not whole)
        if len(self.lengths) == 1 and self.seen == total and kind != "string":
            return Field("tensor", item=Field(kind), shape=(*self.lengths,))
        return Field("list", item=Field(kind))


@dataclass(frozen=True)
class TFRecordRows:
    """Reads the records of TFRecord files as examples.

    Attributes:
        fields: name -> field of what is kept.
        dropped: names that are passed over.
        key: the feature that has the keys; None for file and record.
    """

    fields: Mapping[str, Field]
    dropped: frozenset[str] = frozenset()
    key: str | None = None

    def read(self, piece: Piece) -> Iterator[tuple[Key, Example] | Bad]:
        """Yields the records of a file; a damaged one ends it, for nobody knows where the next begins."""
        convert = row_converter(self.fields, self.dropped)
        with open_bytes(piece.file.path) as stream:
            for number, record in enumerate(records(stream, piece.file.path)):
                try:
                    row = self._row(record)
                    example = convert(row)
                    key = f"{piece.file.name}:{number}" if self.key is None else key_of(row, self.key)
                except (BeamDatasetsError, ValueError) as error:
                    yield Bad(piece.file, str(error), f"record {number}")
                    continue
                yield key, example

    def _row(self, record: bytes) -> dict[str, Any]:
        """Returns what a record holds; a list that is not there is empty, for this format knows no difference."""
        lists: dict[str, Any] = {name: [] for name, field in self.fields.items() if field.kind == "list"}
        return lists | {name: self._value(name, values) for name, values in examples.parse(record).items()}

    def _value(self, name: str, values: Any) -> Any:
        listed = values if isinstance(values, list) else values.tolist()
        one = self.fields.get(name)
        if one is None or one.item is not None:
            return listed
        if len(listed) > 1:
            raise ValueError(f"{name!r} has {len(listed)} values, not one ({one}); lists are {one.kind}[]")
        return listed[0] if listed else None


@dataclass(frozen=True)
class KnownRows:
    """Reads the records of TFRecord files whose features are known.

    Attributes:
        features: of the records.
        key: the feature that has the keys; None for file and record.
    """

    features: FeatureConnector
    key: str | None = None

    def read(self, piece: Piece) -> Iterator[tuple[Key, Example] | Bad]:
        """Yields the records of a file; images stay the bytes that they are."""
        decode = compile_decoder(self.features, decoders=_images_as_stored(self.features))
        with open_bytes(piece.file.path) as stream:
            for number, record in enumerate(records(stream, piece.file.path)):
                try:
                    example = decode(record)
                    key = f"{piece.file.name}:{number}" if self.key is None else key_of(example, self.key)
                except (BeamDatasetsError, ValueError) as error:
                    yield Bad(piece.file, str(error), f"record {number}")
                    continue
                yield key, example


def _images_as_stored(feature: FeatureConnector) -> Any:
    """Returns the decoders that leave images encoded: decoding and encoding would change a JPEG."""
    if isinstance(feature, FeaturesDict):
        nest = {name: _images_as_stored(inner) for name, inner in feature.items()}
        return {name: inner for name, inner in nest.items() if inner}
    item = feature.feature if isinstance(feature, Sequence) else feature
    return SkipDecoding() if isinstance(item, Image) else None
