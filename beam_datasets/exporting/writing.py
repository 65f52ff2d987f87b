"""The formats of exports: JSON lines, ArrayRecord, WebDataset and Parquet, and their base class.

A format converts blocks of records and writes the result to a file.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from beam_datasets.errors import BeamDatasetsError
from beam_datasets.extras import framework
from beam_datasets.features.arrow import arrow_array, arrow_schema
from beam_datasets.features.columnar import ColumnarDecoder
from beam_datasets.features.compiler import select_decoded
from beam_datasets.features.features_dict import join
from beam_datasets.features.schema import Column, Items, Struct, Values, decode_text, is_number, split_items
from beam_datasets.features.stored_files import to_column_features
from beam_datasets.formats.example import filter_entries
from beam_datasets.intake import image_formats as formats
from beam_datasets.intake.sound_layout import ending_of_sound
from beam_datasets.metadata.names import FilenameTemplate
from beam_datasets.native import crc32c
from beam_datasets.storage import Writer

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import NDArray

    from beam_datasets.features import FeatureConnector


Make: TypeAlias = Callable[[Any], Any]
"""From consecutive records, a list or a `RecordBlock`, to what a format writes of them."""


class Format:
    """A format. It has no state; it is pickled.

    Attributes:
        name: name of the format, as users call it.
        module: the package that writes it; '' if none is needed.
    """

    name: ClassVar[str]
    module: ClassVar[str] = ""

    def package(self, module: str = "") -> ModuleType:
        """Returns a module of the package that writes the format, by default its own.

        Raises:
            MissingDependencyError: the package is not installed.
        """
        module = module or self.module
        name = f"the package {module.partition('.')[0]}"
        return framework(module, needed_by=type(self).__name__, name=name, extra="export")

    def check(self, schema: Struct) -> None:
        """Checks that the features can be written.

        Raises:
            MissingDependencyError: the package is not installed.
            BeamDatasetsError: a feature cannot be written.
        """
        if self.module:
            self.package()

    def filename(self, dataset: str, split: str, shard: int, num_shards: int) -> str:
        """Returns the file name of a shard.

        Args:
            dataset: name of the dataset.
            split: name of the split.
            shard: index of the shard, from 0.
            num_shards: number of shards of the split.
        """
        return f"{split}-{shard:05d}-of-{num_shards:05d}.{self.name}"

    def maker(self, features: Any, schema: Struct, names: Collection[bytes] | None) -> Make:
        """Returns the function from consecutive records to their form in the file, which the format's writer takes.

        It raises a FeatureError if a value cannot be written, and is then called with each record alone.

        Args:
            features: features of the exported examples.
            schema: their columns.
            names: names of these features in the records; None if they are the same.
        """
        raise NotImplementedError

    def write(self, blocks: Iterator[Any], schema: Struct, out: Output, split: str, start: int) -> None:
        """Writes a shard.

        Args:
            blocks: results of `maker` for its records, in order.
            schema: the columns.
            out: the file.
            split: name of the split.
            start: the index in it of the shard's first example.
        """
        raise NotImplementedError


def decoder_of(features: FeatureConnector) -> ColumnarDecoder:
    """Returns the decoder of examples with images and sound as they are stored."""
    return ColumnarDecoder(select_decoded(to_column_features(features)))


class Output(io.RawIOBase):
    """A file that is written from its beginning to its end; it counts its bytes and computes their checksum.

    Closing does nothing: the owner of the writer commits or aborts it.

    Attributes:
        num_bytes: written so far.
        crc32c: CRC-32C of these.
    """

    def __init__(self, writer: Writer) -> None:
        super().__init__()
        self._writer = writer
        self.num_bytes = 0
        self.crc32c = 0

    def writable(self) -> bool:
        """Returns True."""
        return True

    def tell(self) -> int:
        """Returns the number of bytes written."""
        return self.num_bytes

    def write(self, data: Any) -> int:
        """Appends bytes and returns how many they are."""
        view = memoryview(data)
        self._writer.write([view])
        self.num_bytes += view.nbytes
        self.crc32c = crc32c(view, self.crc32c)
        return view.nbytes


Convert: TypeAlias = Callable[[Any], Any]


class JsonLines(Format):
    """Writes JSON lines: an object a line, in UTF-8.

    A number is the shortest text that reads back as the same value of its dtype: the float32 0.1 is `0.1`. JSON has
    neither NaN nor infinities: they become null. Bytes that are not text (images, sound, features in `binary`) are
    `{"b64": "..."}`.
    """

    name: ClassVar[str] = "jsonl"

    def maker(self, features: Any, schema: Struct, names: Collection[bytes] | None) -> Make:
        """Returns the function to lines; see `Format.maker`."""
        decode, convert = decoder_of(features).examples, json_converter(schema)
        return lambda records: "".join(f"{json_text(convert(example))}\n" for example in decode(records)).encode()

    def write(self, blocks: Iterator[Any], schema: Struct, out: Output, split: str, start: int) -> None:
        """Writes a shard; see `Format.write`."""
        for lines in blocks:
            out.write(lines)


def json_text(value: Any) -> str:
    """Returns a value as JSON on one line, without spaces: '{"a":[1,2]}'; raises a ValueError for NaN."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def json_converter(column: Column, name: str = "") -> Convert:
    """Returns the function that converts a column's value to JSON; its errors name the column."""
    if isinstance(column, Struct):
        fields = [(key, json_converter(field, join(name, key))) for key, field in column.fields.items()]
        return lambda value: {key: convert(value[key]) for key, convert in fields}
    if isinstance(column, Items):
        item = json_converter(column.item, name)
        return (
            numbers_json
            if is_number(column.item)
            else lambda value: [item(values) for values in split_items(value, name)]
        )
    is_numeric, is_text = column.is_numeric, column.kind == "text"

    def convert(value: Any) -> Any:
        """Returns a number, text or array of these for JSON."""
        if value is None:
            return None
        if is_numeric:
            return numbers_json(np.asarray(value))
        if not isinstance(value, bytes):
            return [convert(values) for values in value]
        return decode_text(value, name) if is_text else {"b64": base64.b64encode(value).decode()}

    return convert


def numbers_json(value: NDArray[Any]) -> Any:
    """Returns an array of any shape as a number or nested lists of numbers."""
    if value.dtype.kind in "biu":
        return value.tolist()
    if value.dtype != np.float64:
        short = _shortest_float if value.dtype.kind == "f" else _short_bfloat16
        value = np.fromiter(map(short, value.reshape(-1)), np.float64, value.size).reshape(value.shape)
    finite = np.isfinite(value)
    if finite.all():
        return value.tolist()
    objects = value.astype(object)
    objects[~finite] = None
    return objects.tolist()


def _shortest_float(number: np.floating[Any]) -> float:
    """Returns the number of the fewest digits that is `number` in its dtype.

    >>> float(np.float32(0.1)), _shortest_float(np.float32(0.1))
    (0.10000000149011612, 0.1)
    """
    return float(np.format_float_scientific(number))


def _short_bfloat16(number: Any) -> float:
    """Returns the number with the fewest digits that a small dtype, such as bfloat16, stores as the same value."""
    exact = float(number)
    rounded = (float(f"{exact:.{digits}g}") for digits in range(1, 17))
    with np.errstate(over="ignore"):
        return next((short for short in rounded if type(number)(short) == number), exact)


FILE_FORMAT = "array_record"


class ArrayRecord(Format):
    """Writes ArrayRecord files by the package array_record, for Grain and for `tfds.data_source`.

    They hold the records as they are, tf.train.Examples. dataset_info.json, features.json and the label files stand
    beside them, as TensorFlow Datasets has them.
    """

    name: ClassVar[str] = "arrayrecord"
    module: ClassVar[str] = "array_record.python.array_record_module"

    def filename(self, dataset: str, split: str, shard: int, num_shards: int) -> str:
        """Returns the file name of a shard, which has the dataset's name. For the arguments, see `Format.filename`."""
        return FilenameTemplate(dataset, split, FILE_FORMAT).filenames(num_shards)[shard]

    def maker(self, features: Any, schema: Struct, names: Collection[bytes] | None) -> Make:
        """Returns the function to records of the exported features; see `Format.maker`."""
        return list if names is None else lambda records: [filter_entries(record, names) for record in records]

    def write(self, blocks: Iterator[Any], schema: Struct, out: Output, split: str, start: int) -> None:
        """Writes a shard to a temporary file, and copies it to `out`. For the arguments, see `Format.write`."""
        with tempfile.TemporaryDirectory(prefix="beam_datasets-") as folder:
            path = os.path.join(folder, "shard")
            # each record is compressed alone, as by TensorFlow Datasets: reading one reads no other
            writer = self.package().ArrayRecordWriter(path, "group_size:1")
            try:
                for record in chain.from_iterable(blocks):
                    writer.write(record)
            finally:
                writer.close()
            with open(path, "rb") as file:
                shutil.copyfileobj(file, out, 1 << 20)


Files: TypeAlias = Callable[[Any], list[tuple[str, bytes]]]
"""From a feature's value to (ending, content) of its files."""

_ITEM = re.compile(r"[0-9]{4,}")  # the number of a file of a sequence


class WebDataset(Format):
    """Writes tar files by the package webdataset; the files of an example are consecutive and named by its key.

    The key is the split and the example's index in it, `train-000000017`. A feature is a file of its name:

        image.png, image.jpg    an image, as it is stored; sound likewise
        frames.0000.png, ...    sequences of them
        text.txt, data.bin      text, and bytes
        label.cls               a class label's index
        tokens.npy              an array or a sequence of numbers
        json                    all other features: one object, as in JSON lines

    Names are in lower case, as the package reads them, and '.' replaces '/'.
    """

    name: ClassVar[str] = "webdataset"
    module: ClassVar[str] = "webdataset"

    def check(self, schema: Struct) -> None:
        """Checks that the features' names can be names of files, all different; see `Format.check`."""
        super().check(schema)
        names_by_file: dict[str, str] = {}
        for name in (name for name, column in schema.fields.items() if _files(column)):
            file = file_name(name)
            if not file or file.startswith((".", "_")):
                raise BeamDatasetsError(
                    "it cannot be a file in a tar file: readers skip such names",
                    feature=name,
                    advice="Name the other features (--features), or export to another format.",
                )
            if file in names_by_file:
                raise BeamDatasetsError(
                    f"it and {names_by_file[file]!r} would be the same file, {file!r}: readers ignore the case, and "
                    "'/' becomes '.'",
                    feature=name,
                    advice="Name one of them (--features), or export to another format.",
                )
            names_by_file[file] = name
        for file, name in names_by_file.items():
            outer, _, number = file.rpartition(".")
            if outer in names_by_file and _ITEM.fullmatch(number) and _is_files(schema.fields[names_by_file[outer]]):
                raise BeamDatasetsError(
                    f"it would be the file of an item of {names_by_file[outer]!r}, {file!r}",
                    feature=name,
                    advice="Name one of them (--features), or export to another format.",
                )

    def filename(self, dataset: str, split: str, shard: int, num_shards: int) -> str:
        """Returns the file name of a shard, with six digits. For the arguments, see `Format.filename`."""
        return f"{split}-{shard:06d}.tar"

    def maker(self, features: Any, schema: Struct, names: Collection[bytes] | None) -> Make:
        """Returns the function to the files of each example; see `Format.maker`."""
        decode, sample = decoder_of(features).examples, _sample_maker(schema)
        return lambda records: list(map(sample, decode(records)))

    def write(self, blocks: Iterator[Any], schema: Struct, out: Output, split: str, start: int) -> None:
        """Writes a shard; see `Format.write`."""
        prefix = split.replace(".", "_")
        writer = self.package().TarWriter(out, encoder=False, mtime=0)
        try:
            for index, files in enumerate(chain.from_iterable(blocks), start):
                writer.write({"__key__": f"{prefix}-{index:09d}", **files})
                writer.tarstream.members.clear()  # tarfile keeps what it has written
        except BaseException:
            with contextlib.suppress(Exception):  # it writes the end of the tar, and its error would hide this one
                writer.close()
            raise
        writer.close()


def _sample_maker(schema: Struct) -> Callable[[Any], dict[str, bytes]]:
    """Returns the function from an example to {name without the key: content} of its files, {'x.png': b'...'}."""
    makers = {name: _files(column) for name, column in schema.fields.items()}
    files = [(name, file_name(name), make) for name, make in makers.items() if make]
    json_fields = {name: schema.fields[name] for name, make in makers.items() if not make}
    as_json = json_converter(Struct(json_fields)) if json_fields else None

    def sample(example: dict[str, Any]) -> dict[str, bytes]:
        """Returns the files of an example, such as {"image.png": b"...", "json": b"{...}"}."""
        contents = {
            f"{file}.{ending}": content
            for name, file, make in files
            if example[name] is not None
            for ending, content in make(example[name])
        }
        return contents if as_json is None else {**contents, "json": json_text(as_json(example)).encode()}

    return sample


def file_name(name: str) -> str:
    """Returns the name of a feature's files, without the extension: "box.a" for "box/A"."""
    return name.replace("/", ".").lower()


def _files(column: Column) -> Files | None:
    """Returns the function from a feature's value to [(ending, content), ...] of its files, such as [('png', b'...')].

    Returns None if the value belongs into the JSON object of the example.
    """
    if isinstance(column, Values) and not column.shape:
        if column.kind == "label":
            return lambda value: [("cls", b"%d" % value)]
        if column.is_file:
            return lambda value: [(ending_of(value), value)]
        ending = {"text": "txt", "binary": "bin"}.get(column.kind)
        return (lambda value: [(ending, value)]) if ending else None
    if _is_files(column):
        return lambda values: [(f"{i:04d}.{ending_of(value)}", value) for i, value in enumerate(values)]
    return (lambda value: [("npy", _npy(value))]) if _is_array(column) else None


def _is_files(column: Column) -> bool:
    """Returns whether every value is a sequence of images or sounds, whose files are numbered."""
    return isinstance(column, Items) and isinstance(column.item, Values) and column.item.is_file


def _is_array(column: Column) -> bool:
    """Returns whether every value is an array of numbers."""
    if isinstance(column, Items):
        item = column.item
        return isinstance(item, Values) and item.is_numeric and None not in item.shape
    return isinstance(column, Values) and column.is_numeric and bool(column.shape)


def _npy(array: NDArray[Any]) -> bytes:
    """Returns an array as a file of NumPy's format .npy; numbers that only other packages can read become float32."""
    if array.dtype.kind not in "biuf":  # bfloat16, which NumPy alone cannot read
        array = array.astype(np.float32)
    out = io.BytesIO()
    np.lib.format.write_array(out, array, allow_pickle=False)
    return out.getvalue()


_IMAGE_ENDINGS = {formats.PNG: "png", formats.JPEG: "jpg", formats.GIF: "gif", formats.BMP: "bmp", formats.WEBP: "webp"}


def ending_of(content: bytes) -> str:
    r"""Returns the usual ending of an image's or a sound's file, by how it begins; 'bin' for others.

    >>> ending_of(b"\xff\xd8\xff\xe0..."), ending_of(b"RIFF....WAVEfmt "), ending_of(b"?")
    ('jpg', 'wav', 'bin')
    """
    return _IMAGE_ENDINGS.get(formats.detect_format(content)) or ending_of_sound(content[:12]) or "bin"


ROW_GROUP_BYTES = 32 << 20  # of Arrow's memory, about; a writer holds one row group


class ParquetFormat(Format):
    """Writes Parquet files."""

    name: ClassVar[str] = "parquet"
    module: ClassVar[str] = "pyarrow"

    def check(self, schema: Struct) -> None:
        """Checks that there is an Arrow type for each feature; see `Format.check`."""
        arrow_schema(self.package(), schema)

    def maker(self, features: Any, schema: Struct, names: Collection[bytes] | None) -> Make:
        """Returns the function that decodes records to an Arrow array, by columns; see `Format.maker`."""
        arrow, columns = self.package(), decoder_of(features).columns
        return lambda records: arrow_array(arrow, schema, columns(records))

    def write(self, blocks: Iterator[Any], schema: Struct, out: Output, split: str, start: int) -> None:
        """Writes a shard; see `Format.write`."""
        arrow, parquet = self.package(), self.package("pyarrow.parquet")
        types = arrow_schema(arrow, schema)
        batches_of_blocks = (arrow.RecordBatch.from_arrays(rows.flatten(), schema=types) for rows in blocks)
        with parquet.ParquetWriter(arrow.PythonFile(out, "w"), types) as writer:
            for batches in _row_groups(batches_of_blocks):
                table = arrow.Table.from_batches(batches, types)
                writer.write_table(table, row_group_size=table.num_rows)


def _row_groups(batches: Iterator[Any]) -> Iterator[list[Any]]:
    """Yields the batches of each row group."""
    pending: list[Any] = []
    num_bytes = 0
    for batch in batches:
        pending.append(batch)
        num_bytes += batch.nbytes
        if num_bytes >= ROW_GROUP_BYTES:
            yield pending
            pending, num_bytes = [], 0
    if pending:
        yield pending
