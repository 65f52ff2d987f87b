"""What the writers of all formats write to."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, NamedTuple

from crc32c import crc32c

if TYPE_CHECKING:
    from beam_datasets.storage import Writer


class Row(NamedTuple):
    """An example to write.

    Attributes:
        path: the source's shard, for errors.
        record: its number in that.
        nth: the example's index in the split that is written.
        value: the decoded example, or its record.
    """

    path: str
    record: int
    nth: int
    value: Any

    @property
    def place(self) -> str:
        """Where it comes from, for errors."""
        return f"{self.path} (record {self.record})"


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
