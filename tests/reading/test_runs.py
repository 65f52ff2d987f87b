"""Runs of a shard, read a piece at a time."""

from __future__ import annotations

from typing import Any

import pytest

from beam_datasets.formats import tfrecord
from beam_datasets.reading.runs import _PIECE_BYTES, RunReader
from beam_datasets.reading.shards import Shard


@pytest.mark.parametrize("size", [10, 3000, 100_000, _PIECE_BYTES + 1])
def test_a_piece_of_a_large_chunk_is_small(tmp_path: Any, size: int) -> None:
    records = [bytes([i % 250]) * (size + i) for i in range(60)]
    path = tmp_path / "shard"
    path.write_bytes(b"".join(tfrecord.frame_all(records)))
    reader = RunReader(Shard(str(path), 60), 60, chunk_bytes=64 << 20)
    first = 0
    while first < 60:
        piece = reader.read(first, 60)
        assert piece == records[first : first + len(piece)]
        assert len(piece) == 1 or sum(map(len, piece)) + 16 * len(piece) <= _PIECE_BYTES
        first += len(piece)
