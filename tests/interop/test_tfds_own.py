"""The tests that the wheel of TFDS contains, with the names of this package."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parent / "tfds_own.py"


def test_tfds_own_tests_differ_only_as_documented(tfds: Any) -> None:
    del tfds
    root = SCRIPT.parents[2]
    done = subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={**os.environ, "PYTHONPATH": str(root), "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    same, documented, other, _ = map(int, re.findall(r"\d+", done.stdout.splitlines()[-1]))
    assert same > 1700, done.stdout[-5000:]
    assert (documented < 400, other) == (True, 0)
