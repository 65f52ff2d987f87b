"""How much tests repeat.

A property test draws a third of its cases in `make test` and all of them in `make test-slow` (see conftest.py). Slow
tests that kill, race and damage repeat that a number of times, which $BEAM_DATASETS_SCALE multiplies: 4 for a night.
"""

import os
from typing import Any

from hypothesis import settings

SCALE = float(os.environ.get("BEAM_DATASETS_SCALE", "1"))


def repeated(number: int) -> int:
    """Returns how often a slow test repeats what it usually does `number` times."""
    return max(1, round(number * SCALE))


def cases(number: int, *, in_full: int = 0, **more: Any) -> settings:
    """Returns settings with `number` cases in a profile whose other tests draw 100, and fewer in `full` and `quick`.

    Args:
        number: of cases.
        in_full: how many there are beside these, in profiles that draw 100 or more.
        more: other settings.
    """
    default = settings.default
    assert default is not None
    beside = in_full if default.max_examples >= 100 else 0
    return settings(max_examples=max(5, number * default.max_examples // 100) + beside, **more)
