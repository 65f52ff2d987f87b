from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

_Ints: TypeAlias = NDArray[np.int64]

INTERFACE: int

# records.c, gather.c: framing, CRC-32C, bytes gathered
def unframe(buffer: Buffer, offsets: _Ints, check: bool, /) -> list[bytes]: ...
def scan(buffer: Buffer, check: bool, /) -> bytearray: ...
def gather(buffers: Sequence[Buffer], which: _Ints, starts: _Ints, sizes: _Ints, /) -> bytes: ...
def collector(
    encode: Callable[[Any], bytes], most: int, /
) -> tuple[Callable[[Any], int], Callable[[], bytes], Callable[[_Ints], bytes], Callable[[bool], None]]: ...
def crc32c(data: Buffer, crc: int = 0, /) -> int: ...
def crc32c_by_table(data: Buffer, crc: int = 0, /) -> int: ...

# block.c: records where they were read, see formats/record_block.py
class _Chunk: ...

def chunk(buffer: Buffer, offsets: _Ints, first: int, /) -> _Chunk: ...

class RecordBlock:
    num_bytes: int
    def take(
        self,
        chunks: dict[int, _Chunk],
        runs: NDArray[np.int64],
        firsts: NDArray[np.int64],
        counts: NDArray[np.int64],
        at: int,
        stop: int,
        most: int,
        limit: int,
        /,
    ) -> int: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int, /) -> bytes: ...
    @overload
    def __getitem__(self, index: slice, /) -> Self: ...
    def __iadd__(self, other: Self, /) -> Self: ...

# examples.c: items of blocks one by one, see reading/blocks.py
class BlockIterator:
    _items: Any
    _finish: Any
    _taken: int
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...

# runs.c: runs that blocks read by themselves; see reading/records/run_reader.py
def run(
    owner: object,
    descriptor: int,
    offsets: Buffer,
    first: int,
    stop: int,
    chunk_bytes: int,
    pieces: bytes = ...,
    piece_bytes: int = ...,
    /,
) -> _Chunk: ...

# runs.c: threads that read ahead
def set_threads(n: int, /) -> int: ...

# records.c: records read at their places; see reading/records/shards.py
def read_record(descriptor: int, offsets: Buffer, record: int, /) -> bytes | None: ...
def read_records(descriptor: int, offsets: Buffer, records: _Ints, /) -> list[bytes]: ...

# encode.c: values -> tf.train.Example; see features/base.py
def encoder(
    fields: list[tuple[Any, ...]], fallback: Callable[[Any], bytes], types: tuple[Any, ...], whole: bool, /
) -> Callable[[Any], bytes]: ...

# lists.c, decode.c: tf.train.Example -> columns; see formats/columns.py
class _Schema: ...

def schema(groups: tuple[tuple[int, int, bool, tuple[bytes, ...]], ...], /) -> _Schema: ...
def varints(data: Buffer, portable: bool, /) -> bytearray | None: ...
def parse(
    schema: _Schema, records: list[Any] | RecordBlock, rewrite: Callable[[bytes], bytes | None] | None = None, /
) -> tuple[Any, ...] | None: ...

# examples.c: columns -> nests of dicts; see features/columnar.py
def examples(
    columns: tuple[Any, ...], makers: tuple[Callable[[Any], Any] | None, ...], nest: Any, n: int, /
) -> list[Any]: ...
