"""Runs of a shard, read a piece at a time."""

from __future__ import annotations

from typing import Any

import pytest

from beam_datasets.formats import tfrecord
from beam_datasets.formats.record_block import RecordBlock
from beam_datasets.reading.runs import _TAKEN_BYTES, RunReader
from beam_datasets.reading.shards import Shard


@pytest.mark.parametrize("size", [10, 3000, 100_000, _TAKEN_BYTES + 1])
def test_few_records_of_a_large_chunk_are_taken(tmp_path: Any, size: int) -> None:
    records = [bytes([i % 250]) * (size + i) for i in range(60)]
    path = tmp_path / "shard"
    path.write_bytes(b"".join(tfrecord.frame_all(records)))
    reader = RunReader(Shard(str(path), 60), 60, chunk_bytes=64 << 20)
    first = 0
    while first < 60:
        block = RecordBlock()
        taken = reader.take(block, first, 60)
        assert list(block) == records[first : first + taken]
        assert taken == 1 or sum(map(len, block)) + 16 * taken <= _TAKEN_BYTES
        first += taken
    assert first == 60
