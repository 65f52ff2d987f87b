r"""A dataset of the tf.train.Examples in existing TFRecord files, newly shuffled, versioned and indexed.

    beam-datasets build tfrecord --data_dir out --name birds --split train='old/train-*' --split test='old/test-*' \
        --feature label=class:10 --key id

The features are inferred from the records: a value or a list, its type, text or image. Files may be compressed,
whatever their names are.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Unpack

from beam_datasets.catalog import read_features
from beam_datasets.errors import BeamDatasetsError, CorruptRecordError, InputError, NoExamplesError
from beam_datasets.features import FeatureConnector, FeaturesDict, Image, compile_decoder, compile_encoder
from beam_datasets.features.decode import skip_decoding
from beam_datasets.features.image import with_image_checks
from beam_datasets.features.trees import record_name, steps_by_name
from beam_datasets.files.bad_rows import with_skip_advice
from beam_datasets.files.builder import RowsBuilder
from beam_datasets.files.convert import label_of
from beam_datasets.files.fields import MAX_LABELS, UNKNOWN, Field, advice
from beam_datasets.files.inputs import InputFile, Piece
from beam_datasets.files.rows import Example, Row, RowReader
from beam_datasets.formats.example import ExampleError, Kind
from beam_datasets.intake.examples import (
    check_example,
    has_features,
    lists_of,
    open_records,
    place_of,
    record_blocks,
    regularity_checker,
)
from beam_datasets.intake.signatures import JPEG_PREFIX, PNG_PREFIX

if TYPE_CHECKING:
    from beam_datasets.files.arguments import RowsArguments


class Tfrecord(RowsBuilder):
    """Examples of TFRecord files.

    Args:
        features_json: path of a features.json that describes the records; label files are in its folder.
        common: see RowsBuilder.
    """

    _may_add = True
    _values: dict[str, ObservedValues]

    def __init__(self, *, features_json: str | None = None, **common: Unpack[RowsArguments]) -> None:
        self._features_path = features_json
        super().__init__(**common)
        if features_json and self._specs:
            raise ValueError("features_json describes all features; give no --feature")

    def _pieces(self, files: Sequence[InputFile]) -> list[Piece]:
        """Returns one piece per file; see `RowsBuilder._pieces`."""
        return [Piece(file) for file in files]

    def _infer_fields(self) -> dict[str, Field]:
        """Infers the fields from the first records of each file, and keeps the observed values for their labels.

        Raises:
            InputError: a record cannot be used, and --skip_bad is not given.
            NoExamplesError: no file has a record that can be used.
        """
        observed: dict[str, ObservedValues] = {}
        total, problems = 0, list[str]()
        for file in self._all_files:
            for location, row in self._first_rows(file, problems):
                total += 1
                for name, values in row.items():
                    observed.setdefault(name, ObservedValues()).add(values, location)
        if not observed:
            raise NoExamplesError(problems[0] if problems else f"no file has a record: {self.files_text}")
        self._values = observed
        return {name: values.field(name, total, self.files_text) for name, values in sorted(observed.items())}

    def _first_rows(self, file: InputFile, problems: list[str]) -> Iterator[tuple[str, Example]]:
        """Yields (location, lists) of the first usable records of a file, and appends the others' errors to `problems`.

        Raises:
            InputError: there are errors, and --skip_bad is not given.
        """
        try:
            for _, position, row in islice(rows(Piece(file), lambda: lists_of), self._rows_of_each_file):
                location = f"{file.path}{position and ', '}{position}"
                if isinstance(row, str):
                    problems.append(f"{location}: {row}")
                else:
                    yield location, row
        except (InputError, CorruptRecordError) as error:
            problems.append(str(error))
        if problems and not self._skip_bad:
            raise InputError(with_skip_advice(problems[0]))

    def _values_at(self, path: str) -> Collection[str]:
        """Returns the distinct values of a field in the rows that the types were inferred from; () if it has none."""
        return self._values[path].labels if path in self._values else ()

    @cached_property
    def _known_features(self) -> FeatureConnector | None:
        """Returns the feature tree of the records if the user gave its file; None if it is inferred."""
        return None if self._features_path is None else read_features(self._features_path)

    def _features(self) -> FeatureConnector:
        """Returns the feature tree: as given by the user, or as inferred; see `RowsBuilder._features`."""
        return self._known_features or super()._features()

    def _types(self) -> dict[str, str]:
        """Returns the types of the columns, none if the feature tree was given; see `RowsBuilder._types`."""
        return {} if self._known_features else super()._types()

    @property
    def _rows(self) -> Callable[[Piece], Iterator[Row]]:
        """Returns the function that reads the records of a piece; see `RowsBuilder._rows`."""
        if self._known_features is None:
            return partial(rows, decoder=partial(decoder, self._fields))
        lists = {name.encode(): kind for name, kind in self._known_features.lists("") if kind is not None}
        return partial(rows, decoder=partial(known_decoder, self._known_features), lists=lists)

    def _rows_reader(self) -> RowReader:
        """Returns the reader of rows, which decodes complete examples if features.json describes the records.

        Raises:
            InputError: the key is not one of these features.
        """
        if self._known_features is None:
            return super()._rows_reader()
        if self._key is not None and self._key not in (names := steps_by_name(self._known_features)):
            raise InputError(f"key {self._key!r} is not in the features; they have {', '.join(map(repr, names))}")
        key = self._key and record_name(self._key, self._known_features)
        return RowReader(self._rows, None, key=key, assign=self._assign)


_LEAVE_OUT = "Leave the file out of --pattern or --split, or write it again"
_IMAGES = (PNG_PREFIX, JPEG_PREFIX)


@dataclass
class ObservedValues:
    """Common properties of the values of one name.

    Attributes:
        kinds: kind of values -> the record that has the first of them, as errors name it.
        lengths: lengths of the lists.
        num_lists: the number of lists.
        images: whether all bytes are images.
        labels: the distinct values that could be labels, up to about MAX_LABELS.
    """

    kinds: dict[str, str] = field(default_factory=dict)
    lengths: set[int] = field(default_factory=set)
    num_lists: int = 0
    images: bool = True
    labels: set[str] = field(default_factory=set)

    def add(self, values: Any, location: str) -> None:
        """Adds the kind, the length and the labels of a list.

        Args:
            values: a list of bytes, or an array of float32 or int64.
            location: file, byte and number of its record.
        """
        self.num_lists += 1
        self.lengths.add(len(values))
        if not len(values):
            return
        if isinstance(values, list):
            self.kinds.setdefault("string", location)
            self.images = self.images and all(bytes(value).startswith(_IMAGES) for value in values)
        else:
            self.kinds.setdefault(str(values.dtype), location)
        if len(self.labels) < MAX_LABELS and "float32" not in self.kinds:
            self.labels.update(map(label_of, values[:100]))

    def field(self, name: str, total: int, files: str) -> Field:
        """Returns the field that holds the values.

        Args:
            name: name of the feature.
            total: the number of records.
            files: files that contain the values, for errors.
        """
        if len(self.kinds) != 1:
            contents = " and ".join(f"{kind} (first in {location})" for kind, location in sorted(self.kinds.items()))
            contents = contents or f"only empty lists in the records of {files}"
            drop = f"leave it out by {advice(name, 'drop')}"
            ways = drop if self.kinds else f"say what they are lists of by {advice(name, 'int64[]')}, or {drop}"
            return Field(UNKNOWN, problem=f"feature {name!r} holds {contents}; {ways}")
        [kind] = self.kinds
        if self.lengths == {1}:
            is_in_all = self.num_lists == total
            return Field("image" if kind == "string" and self.images and is_in_all else kind, optional=not is_in_all)
        if len(self.lengths) == 1 and self.num_lists == total and kind != "string":
            return Field("tensor", item=Field(kind), shape=(*self.lengths,))
        return Field("list", item=Field(kind))


def rows(
    piece: Piece,
    decoder: Callable[[], Callable[[bytes], Example]],
    lists: Mapping[bytes, Kind] | None = None,
) -> Iterator[Row]:
    """Yields the records of a file, to where the next one cannot be found.

    Args:
        piece: the file.
        decoder: makes the function from a record to an example.
        lists: the lists that it reads, by their names; None if it refuses records that protobuf would not read whole.

    Raises:
        CorruptRecordError, InputError: the file is damaged so that the rest of it cannot be read.
    """
    decode, path = decoder(), piece.file.path
    is_regular = regularity_checker(lists) if lists is not None else None
    empty_offsets = array("q")  # where the records before the first one with features begin
    is_empty = True
    with open_records(path) as stream:
        for block in record_blocks(stream, path):
            is_checked = is_regular is None or is_regular(block.records)
            for number, (offset, record) in enumerate(zip(block.offsets, block.records), block.first):
                if is_empty and not has_features(record):
                    empty_offsets.append(offset)
                    continue
                if is_empty:
                    yield from (
                        _parse_record(b"", each, at, decode, is_checked=True) for each, at in enumerate(empty_offsets)
                    )
                    is_empty = False
                yield _parse_record(record, number, offset, decode, is_checked=is_checked)
            if block.problem:
                number = block.first + len(block.records)
                yield number, place_of(block.offsets[-1], number), block.problem
    if is_empty and empty_offsets:
        yield (
            0,
            "",
            f"expected tf.train.Examples with features, got none in any of {len(empty_offsets)} records. {_LEAVE_OUT}",
        )


def _parse_record(
    record: bytes, number: int, offset: int, decode: Callable[[bytes], Example], *, is_checked: bool
) -> Row:
    """Returns the row of a record: (number, position, example), or (number, position, problem) for an invalid one.

    Args:
        record: the record, without framing.
        number: number of the record in the file, from 0.
        offset: byte offset of the record in the file.
        decode: function from a record to an example.
        is_checked: whether the record is known to be a tf.train.Example.
    """
    position = place_of(offset, number)
    try:
        if not is_checked:
            check_example(record)
        return number, position, decode(record)
    except ExampleError as error:
        return number, position, f"the record is not a tf.train.Example: {error}"
    except (BeamDatasetsError, ValueError) as error:
        return number, position, str(error)


def known_decoder(features: FeatureConnector) -> Callable[[bytes], Example]:
    """Returns the function from a record with these features to its example.

    Images stay files, as decoding and encoding would change a JPEG, and are decoded to check them.
    """
    stored = skip_decoding(features, Image)
    decode = compile_decoder(features, decoders=stored)
    if not stored:
        return decode
    is_single = not isinstance(features, FeaturesDict)
    images = features if is_single else FeaturesDict({name: features[name] for name in stored})  # type: ignore[index]
    check = compile_encoder(with_image_checks(images, "decode"))

    def checked(record: bytes) -> Example:
        """Returns the example of a record, with images as files; decodes the images to check them."""
        example: Example = decode(record)
        check(example if is_single else {name: example[name] for name in stored})
        return example

    return checked


def decoder(fields: Mapping[str, Field]) -> Callable[[bytes], Example]:
    """Returns the function from a record to {column: list or value}, by the fields of the columns.

    A missing list is [], as in the format; a missing value has no key.
    It raises an error for records that protobuf would read only in part.
    """
    lists: dict[str, Any] = {name: [] for name, field in fields.items() if field.kind == "list"}
    return lambda record: lists | {name: _value(name, values, fields) for name, values in lists_of(record).items()}


def _value(name: str, values: Any, fields: Mapping[str, Field]) -> Any:
    """Returns a feature's values as a list, or as one value or None if its field is known and not a list.

    Args:
        name: name of the feature.
        values: a list of bytes, or an array of float32 or int64.
        fields: name -> field.

    Raises:
        ValueError: the field is not a list, but the feature has several values.
    """
    listed = values if isinstance(values, list) else values.tolist()
    one = fields.get(name)
    if one is None or one.item is not None:
        return listed
    if len(listed) > 1:
        raise ValueError(f"{name!r} has {len(listed)} values, not one ({one}); lists are {one.kind}[]")
    return listed[0] if listed else None
