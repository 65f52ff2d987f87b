"""What a format is: the blocks of examples that it writes, and the file that it writes them to."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from crc32c import crc32c

from beam_datasets.exporting.schema import Struct
from beam_datasets.extras import framework
from beam_datasets.features.columnar import ColumnarDecoder
from beam_datasets.features.compiler import chosen
from beam_datasets.metadata.shards import FileInstruction
from beam_datasets.reading.decoding import Decode, Step, compose, compose_many
from beam_datasets.reading.shards import Shard
from beam_datasets.reading.undecoded import UNDECODED, place_of
from beam_datasets.storage import Writer

_Made = TypeVar("_Made")


class Format:
    """A format. It has no state; it is pickled.

    Attributes:
        name: as users call it.
        module: the package that writes it; '' if none is needed.
        decodes: whether examples are decoded (with images and sound as they are stored), not records.
    """

    name: ClassVar[str]
    module: ClassVar[str] = ""
    decodes: ClassVar[bool] = True

    def package(self, module: str = "") -> Any:
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
        """Returns the name of a shard."""
        return f"{split}-{shard:05d}-of-{num_shards:05d}.{self.name}"

    def write(self, blocks: Iterator[Block], schema: Struct, out: Output, split: str) -> None:
        """Writes a shard: its blocks, in order.

        Raises:
            FeatureError: a value cannot be written; it names file, byte and record.
        """
        raise NotImplementedError


class Decoder:
    """Makes examples of records.

    Attributes:
        each: returns the example of a record.
        many: returns the examples of several records.
        columns: returns the values of several records by feature, see `ColumnarDecoder.columns`; None for records.
    """

    def __init__(self, step: Step) -> None:
        self.each = compose((step,))
        self.many = compose_many((step,))
        self.columns: Callable[[Any], Any] | None = None
        if isinstance(step, Decode):
            self.columns = ColumnarDecoder(chosen(step.features, step.decoders)).columns


@dataclass(frozen=True)
class Block:
    """Consecutive examples of a run.

    Attributes:
        run: of the source's shard, by its whole path.
        record: the number of the first one in the shard.
        first: its index in the split that is written.
        records: their records, checked.
        decoder: makes the examples.
    """

    run: FileInstruction
    record: int
    first: int
    records: list[bytes]
    decoder: Decoder

    @cached_property
    def examples(self) -> list[Any]:
        """The examples: decoded, or their records.

        Raises:
            FeatureError: a record does not fit the features; it names file, byte and record.
        """
        try:
            return list(self.decoder.many(self.records))
        except UNDECODED:
            list(self._apply(self.decoder.each, self.records))
            raise

    def map(self, function: Callable[[Any], _Made]) -> Iterator[_Made]:
        """Yields what a function makes of each example; a FeatureError names file, byte and record."""
        return self._apply(function, self.examples)

    def columns(self) -> Any:
        """Returns the values by feature; None for records, or if one does not decode."""
        try:
            return self.decoder.columns and self.decoder.columns(self.records)
        except UNDECODED:
            return None  # `examples` raises the error that names the record

    def _apply(self, function: Callable[[Any], _Made], items: list[Any]) -> Iterator[_Made]:
        for number, item in enumerate(items, self.record):
            try:
                yield function(item)
            except UNDECODED as error:
                place = place_of(Shard(self.run.filename, self.run.examples_in_shard), number)
                raise type(error)(f"{place}: {error}") from error


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
        """Returns how many bytes were written."""
        return self.num_bytes

    def write(self, data: Any) -> int:
        """Appends bytes and returns how many they are."""
        view = memoryview(data)
        self._writer.write([view])
        self.num_bytes += view.nbytes
        self.crc32c = crc32c(view, self.crc32c)
        return view.nbytes
