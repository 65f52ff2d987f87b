"""WebDataset: tar files, in which the files of an example stand one behind the other under the example's key.

The key is the split and the example's index in it, `train-000000017`. A feature is a file of its name:

    image.png, image.jpg    an image, as it is stored; sound likewise
    frames.0000.png, ...    sequences of them
    text.txt, data.bin      text, and bytes
    label.cls               a class label's index
    tokens.npy              an array or a sequence of numbers
    json                    what is left: one object, as in JSON lines

Names are in lower case, as the package reads them, and '.' stands for '/'.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from beam_datasets.adapters.framework import framework
from beam_datasets.errors import BeamDatasetsError, FeatureError
from beam_datasets.exporting.jsonl import json_converter, json_text
from beam_datasets.exporting.schema import Array, Binary, Column, File, Items, Label, Number, Struct, Text
from beam_datasets.formats.endings import ending_of

if TYPE_CHECKING:
    from beam_datasets.exporting.output import Block, Output

Files: TypeAlias = Callable[[Any], Iterator[tuple[str, bytes]]]
"""From a feature's value to (ending, content) of its files."""

_ITEM = re.compile(r"[0-9]{4,}")  # the number of a file of a sequence


@dataclass(frozen=True)
class WebDataset:
    """Writes tar files by the package webdataset."""

    name: ClassVar[str] = "webdataset"
    decodes: ClassVar[bool] = True

    def check(self, schema: Struct) -> None:
        """Checks that the features' names can be those of files.

        Raises:
            MissingDependencyError: webdataset is not installed.
            BeamDatasetsError: a name cannot be one of a file, or two are the same.
        """
        _webdataset()
        taken: dict[str, str] = {}
        for name, column in schema.fields.items():
            if _files(column, name) is None:
                continue
            file = file_name(name)
            if not file or file.startswith((".", "_")):
                raise BeamDatasetsError(
                    f"feature {name!r} cannot be a file in a tar file: readers pass over names that begin so. "
                    "Name the others (--features), or export it to another format."
                )
            if file in taken:
                raise BeamDatasetsError(
                    f"features {taken[file]!r} and {name!r} would be the same file, {file!r}: readers ignore the case, "
                    "and '/' becomes '.'. Name one of them (--features), or export to another format."
                )
            taken[file] = name
        _check_items(schema, taken)

    def filename(self, dataset: str, split: str, shard: int, num_shards: int) -> str:
        """Returns the name of a shard."""
        return f"{split}-{shard:06d}.tar"

    def write(self, blocks: Iterator[Block], schema: Struct, out: Output, split: str) -> None:
        """Writes a shard.

        Raises:
            FeatureError: a text is not UTF-8; it names file, byte and record.
        """
        sample = sample_maker(schema)
        prefix = split.replace(".", "_")
        with _webdataset().TarWriter(out, encoder=False, mtime=0) as writer:
            for block in blocks:
                for row in block.rows():
                    try:
                        writer.write({"__key__": f"{prefix}-{row.nth:09d}", **sample(row.value)})
                    except FeatureError as error:
                        raise type(error)(f"{row.place}: {error}") from error
                writer.tarstream.members.clear()  # tarfile keeps what it has written


def _check_items(schema: Struct, taken: Mapping[str, str]) -> None:
    for file, name in taken.items():
        outer, _, number = file.rpartition(".")
        if outer in taken and _ITEM.fullmatch(number) and _is_files(schema.fields[taken[outer]]):
            raise BeamDatasetsError(
                f"feature {name!r} would be the file of an item of {taken[outer]!r}, {file!r}. Name one of them "
                "(--features), or export to another format."
            )


def sample_maker(schema: Struct) -> Callable[[Any], dict[str, bytes]]:
    """Returns the function from an example to its files: name without the key -> content."""
    made = {name: _files(column, name) for name, column in schema.fields.items()}
    files = [(name, file_name(name), make) for name, make in made.items() if make is not None]
    rest = {name: schema.fields[name] for name, make in made.items() if make is None}
    as_json = json_converter(Struct(rest)) if rest else None

    def sample(example: dict[str, Any]) -> dict[str, bytes]:
        found = {
            f"{file}.{ending}": content
            for name, file, make in files
            if example[name] is not None
            for ending, content in make(example[name])
        }
        return found if as_json is None else {**found, "json": json_text(as_json(example)).encode()}

    return sample


def file_name(name: str) -> str:
    """Returns what a feature's files are called, without the ending."""
    return name.replace("/", ".").lower()


def _files(column: Column, name: str) -> Files | None:
    """Returns the function that makes the files of a feature; None where its value belongs into the JSON object."""
    if isinstance(column, Text):
        return lambda value: iter([("txt", value)])
    if isinstance(column, Binary):
        return lambda value: iter([("bin", value)])
    if isinstance(column, Label):
        return lambda value: iter([("cls", b"%d" % value)])
    if isinstance(column, File):
        return lambda value: iter([(ending_of(value), value)])
    if _is_files(column):
        return lambda values: ((f"{i:04d}.{ending_of(value)}", value) for i, value in enumerate(values))
    return (lambda value: iter([("npy", _npy(value))])) if _is_array(column) else None


def _is_files(column: Column) -> bool:
    """Returns whether every value is some files, which are numbered."""
    return isinstance(column, Items) and isinstance(column.item, File)


def _is_array(column: Column) -> bool:
    """Returns whether every value is an array of numbers."""
    if isinstance(column, Array):
        return isinstance(column.item, Number)
    if not isinstance(column, Items):
        return False
    item = column.item
    return isinstance(item, (Number, Label)) or (_is_array(item) and isinstance(item, Array) and None not in item.shape)


def _npy(array: Any) -> bytes:
    if array.dtype.kind not in "biuf":  # bfloat16, which NumPy alone cannot read
        array = array.astype(np.float32)
    out = io.BytesIO()
    np.lib.format.write_array(out, array, allow_pickle=False)
    return out.getvalue()


def _webdataset() -> Any:
    return framework("webdataset", needed_by="WebDataset", name="the package webdataset", extra="export")
