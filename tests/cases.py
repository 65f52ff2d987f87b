"""How many cases a property test draws: `make test` a third, `make test-slow` all of them (see conftest.py)."""

from typing import Any

from hypothesis import settings


def cases(number: int, **more: Any) -> settings:
    """Returns settings with `number` cases in the profile `full`, where the others draw 100, and fewer in `quick`."""
    default = settings.default
    assert default is not None
    return settings(max_examples=max(5, number * default.max_examples // 100), **more)
