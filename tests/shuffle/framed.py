"""Blocks of records that are given as bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from beam_datasets.formats import tfrecord
from beam_datasets.shuffle.block_builder import make_block


def block_of(keys: list[bytes], records: list[bytes], spill_dir: str | None = None) -> Any:
    """Returns the block of the split `train` with these sort keys and records, framed in one buffer each."""
    framed = tfrecord.frame_all(records)
    sizes = [np.array([len(record)]) for record in framed]
    return make_block("train", b"".join(keys), sizes, [*framed], spill_dir).sent
