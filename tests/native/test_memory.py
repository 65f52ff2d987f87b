"""Memory of batches that nobody uses any more serves the next ones."""

import os
import platform
import subprocess
import sys

import pytest

from beam_datasets.native import core

BATCHES = """
import resource
import numpy as np
from beam_datasets.formats import example
from beam_datasets.native import core

records = [example.serialize({"x": np.arange(1000)})] * 256
schema = core.schema(((26, 1000, False, (b"x",)),))
faults = []
for _ in range(20):
    batches = [core.parse(schema, records) for _ in range(4)]
    del batches
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(faults[-1] - faults[2])
"""


@pytest.mark.skipif(core is None, reason="the native module was not built")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other ways")
@pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="AddressSanitizer keeps what was freed, unused")
def test_arrays_are_not_given_back_and_got_again() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run([sys.executable, "-c", BATCHES], capture_output=True, text=True, env=environment, check=True)
    pages = 17 * 4 * 256 * 8000 // os.sysconf("SC_PAGE_SIZE")
    assert int(done.stdout) < pages / 20
