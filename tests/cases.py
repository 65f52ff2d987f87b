"""How many cases tests draw: `make test` a third of those of property tests, `make test-slow` all (see conftest.py)."""

import os
from typing import Any

from hypothesis import settings

TIMES = int(os.environ.get("BEAM_DATASETS_TIMES", "1"))
"""How many times as many cases slow tests of random interleavings and damages try, as before a release."""


def cases(number: int, **more: Any) -> settings:
    """Returns settings with `number` cases in the profile `full`, where the others draw 100, and fewer in `quick`."""
    default = settings.default
    assert default is not None
    return settings(max_examples=max(5, number * default.max_examples // 100), **more)
