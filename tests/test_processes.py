from __future__ import annotations

import os

import pytest

from tests.processes import started


@pytest.mark.parametrize("command", ["sleep 60 & echo up; wait", "sleep 60 & echo up"])
def test_a_test_that_fails_leaves_no_process(command: str) -> None:
    read, write = os.pipe()

    def fail() -> None:
        with started(["sh", "-c", command], stdout=write):
            os.close(write)
            assert os.read(read, 3) == b"up\n"
            raise AssertionError("a test failed")

    with pytest.raises(AssertionError, match="a test failed"):
        fail()
    assert os.read(read, 1) == b""  # nobody has the other end any more
    os.close(read)
