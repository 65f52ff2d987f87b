"""What the writers of all formats are given, and what they write to."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from crc32c import crc32c

from beam_datasets.features import ClassLabel, FeaturesDict, Tensor
from beam_datasets.reading.decoding import Decode, compose, compose_many
from beam_datasets.reading.shards import Shard
from beam_datasets.reading.undecoded import UNDECODED, place_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from beam_datasets.metadata.shards import FileInstruction
    from beam_datasets.reading.decoding import Step
    from beam_datasets.storage import Writer


class Row(NamedTuple):
    """An example to write.

    Attributes:
        run: of the source's shard it is from, for errors; the name is the whole path.
        record: its number in the shard.
        nth: the example's index in the split that is written.
        value: the decoded example, or its record.
    """

    run: FileInstruction
    record: int
    nth: int
    value: Any

    @property
    def place(self) -> str:
        """Where it comes from, for errors."""
        return place_of(Shard(self.run.filename, self.run.examples_in_shard), self.record)


class Decoder:
    """Makes values of records.

    Attributes:
        each: returns the value of a record.
        many: returns the values of several records.
        columns: returns the values of several records by feature, each column an array; None where a column can have
            missing values or values of several shapes.
    """

    def __init__(self, step: Step) -> None:
        self.each = compose((step,))
        self.many = compose_many((step,))
        uniform = isinstance(step, Decode) and _is_uniform(step.features)
        self.columns: Callable[[Any], Any] | None = step.compile_batch(pad=False) if uniform else None  # type: ignore[attr-defined]


def _is_uniform(feature: Any) -> bool:
    """Returns whether all values have the same shape and none can be missing, so that batches are plain arrays."""
    if isinstance(feature, FeaturesDict):
        return all(map(_is_uniform, feature.values()))
    return isinstance(feature, (Tensor, ClassLabel)) and not feature.is_optional and None not in feature.shape


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive examples of a run.

    Attributes:
        run: of the source's shard; the name is the whole path.
        record: the number of the first one in the shard.
        nth: its index in the split that is written.
        records: their records, checked.
        decoder: makes their values.
    """

    run: FileInstruction
    record: int
    nth: int
    records: list[bytes]
    decoder: Decoder

    def rows(self) -> list[Row]:
        """Returns the examples.

        Raises:
            FeatureError: a record does not fit the features; it names file, byte and record.
        """
        try:
            values = self.decoder.many(self.records)
        except UNDECODED:
            for number, record in enumerate(self.records):
                try:
                    self.decoder.each(record)
                except UNDECODED as error:
                    place = Row(self.run, self.record + number, 0, None).place
                    raise type(error)(f"{place}: {error}") from error
            raise
        return [Row(self.run, self.record + i, self.nth + i, value) for i, value in enumerate(values)]

    def columns(self) -> Any:
        """Returns the examples as a dict of arrays; None where they are to be taken as rows."""
        if self.decoder.columns is None:
            return None
        try:
            return self.decoder.columns(self.records)
        except UNDECODED:
            return None  # whose error names the record


class Output(io.RawIOBase):
    """A file that is written from its beginning to its end, as libraries take one; it counts and sums up its bytes.

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
