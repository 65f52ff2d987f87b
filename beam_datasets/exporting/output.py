"""What the writers of all formats write to."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, NamedTuple

from crc32c import crc32c

from beam_datasets.reading.shards import Shard
from beam_datasets.reading.undecoded import place_of

if TYPE_CHECKING:
    from beam_datasets.model.shards import FileInstruction
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


class Output(io.RawIOBase):
    """A file that is written from its beginning to its end, as libraries take one; it counts and sums up its bytes.

    Closing does nothing: whoever has the writer commits or aborts it.

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
