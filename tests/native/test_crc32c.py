"""CRC-32C by the instruction of the processor, against tables and another library."""

import random
from typing import Any

import crc32c
import numpy as np
import pytest

from beam_datasets.native import core

if core is None:
    pytest.skip("the native module was not built", allow_module_level=True)

POOL = np.random.default_rng(0).bytes(1_100_000)
LARGE = (3 * 1024 * 20 - 1, 65_535, 65_536, 65_537, 100_000, 2**20 + 63)


def test_every_length() -> None:
    numbers = random.Random(0)
    for size in (*range(5001), *LARGE):
        start, before = numbers.randrange(64), numbers.getrandbits(32)
        data = memoryview(POOL)[start : start + size]
        want = crc32c.crc32c(data, before)
        assert core.crc32c(data, before) == core.crc32c_by_table(data, before) == want, (size, start)
        cut = numbers.randint(0, size)
        assert core.crc32c(data[cut:], core.crc32c(data[:cut], before)) == want, (size, start, cut)


@pytest.mark.parametrize("sum_up", [core.crc32c, core.crc32c_by_table])
def test_takes_buffers_alone(sum_up: Any) -> None:
    array = np.arange(100, dtype=np.int64)
    assert sum_up(array) == sum_up(array.tobytes()) == sum_up(bytearray(array.tobytes()))
    for wrong in ("text", None, 5, [1]):
        with pytest.raises(TypeError):
            sum_up(wrong)
    with pytest.raises((BufferError, ValueError)):
        sum_up(array[::2])
    with pytest.raises(TypeError):
        sum_up()
