"""WebDataset: tar files, in which the files of an example are consecutive and named by the example's key.

The key is the split and the example's index in it, `train-000000017`. A feature is a file of its name:

    image.png, image.jpg    an image, as it is stored; sound likewise
    frames.0000.png, ...    sequences of them
    text.txt, data.bin      text, and bytes
    label.cls               a class label's index
    tokens.npy              an array or a sequence of numbers
    json                    what is left: one object, as in JSON lines

Names are in lower case, as the package reads them, and '.' replaces '/'.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeAlias

import numpy as np

from beam_datasets.errors import BeamDatasetsError
from beam_datasets.exporting.jsonl import json_converter, json_text
from beam_datasets.exporting.schema import Array, Binary, Column, File, Items, Label, Number, Struct, Text
from beam_datasets.exporting.writing import Block, Format, Output
from beam_datasets.formats.endings import ending_of

Files: TypeAlias = Callable[[Any], list[tuple[str, bytes]]]
"""From a feature's value to (ending, content) of its files."""

_ITEM = re.compile(r"[0-9]{4,}")  # the number of a file of a sequence


class WebDataset(Format):
    """Writes tar files by the package webdataset."""

    name: ClassVar[str] = "webdataset"
    module: ClassVar[str] = "webdataset"

    def check(self, schema: Struct) -> None:
        """Checks that the features' names can be names of files, all different; see `Format.check`."""
        super().check(schema)
        taken: dict[str, str] = {}
        for name in (name for name, column in schema.fields.items() if _files(column)):
            file = file_name(name)
            if not file or file.startswith((".", "_")):
                raise BeamDatasetsError(
                    f"feature {name!r} cannot be a file in a tar file: readers skip such names. "
                    "Name the others (--features), or export it to another format."
                )
            if file in taken:
                raise BeamDatasetsError(
                    f"features {taken[file]!r} and {name!r} would be the same file, {file!r}: readers ignore the case, "
                    "and '/' becomes '.'. Name one of them (--features), or export to another format."
                )
            taken[file] = name
        for file, name in taken.items():
            outer, _, number = file.rpartition(".")
            if outer in taken and _ITEM.fullmatch(number) and _is_files(schema.fields[taken[outer]]):
                raise BeamDatasetsError(
                    f"feature {name!r} would be the file of an item of {taken[outer]!r}, {file!r}. Name one of them "
                    "(--features), or export to another format."
                )

    def filename(self, dataset: str, split: str, shard: int, num_shards: int) -> str:
        """Returns the name of a shard."""
        return f"{split}-{shard:06d}.tar"

    def write(self, blocks: Iterator[Block], schema: Struct, out: Output, split: str) -> None:
        """Writes a shard; see `Format.write`."""
        sample = _sample_maker(schema)
        prefix = split.replace(".", "_")
        writer = self.package().TarWriter(out, encoder=False, mtime=0)
        try:
            for block in blocks:
                for index, files in enumerate(block.map(sample), block.first):
                    writer.write({"__key__": f"{prefix}-{index:09d}", **files})
                writer.tarstream.members.clear()  # tarfile keeps what it has written
        except BaseException:
            with contextlib.suppress(Exception):  # it writes the end of the tar, and its error would hide this one
                writer.close()
            raise
        writer.close()


def _sample_maker(schema: Struct) -> Callable[[Any], dict[str, bytes]]:
    """Returns the function from an example to its files: name without the key -> content."""
    makers = {name: _files(column) for name, column in schema.fields.items()}
    files = [(name, file_name(name), make) for name, make in makers.items() if make]
    rest = {name: schema.fields[name] for name, make in makers.items() if not make}
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


def _files(column: Column) -> Files | None:
    """Returns the function that makes the files of a feature; None if its value belongs into the JSON object."""
    if isinstance(column, Text):
        return lambda value: [("txt", value)]
    if isinstance(column, Binary):
        return lambda value: [("bin", value)]
    if isinstance(column, Label):
        return lambda value: [("cls", b"%d" % value)]
    if isinstance(column, File):
        return lambda value: [(ending_of(value), value)]
    if _is_files(column):
        return lambda values: [(f"{i:04d}.{ending_of(value)}", value) for i, value in enumerate(values)]
    return (lambda value: [("npy", _npy(value))]) if _is_array(column) else None


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
