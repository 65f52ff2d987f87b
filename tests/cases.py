"""How many cases a property test draws: `make test` a third, `make test-slow` all of them (see conftest.py)."""

from typing import Any

from hypothesis import settings


def cases(number: int, *, in_full: int = 0, **more: Any) -> settings:
    """Returns settings with `number` cases in the profile `full`, where the others draw 100, and fewer in `quick`.

    Args:
        number: of cases.
        in_full: how many there are beside these, in profiles that draw as many as `full`.
        more: other settings.
    """
    default = settings.default
    assert default is not None
    beside = in_full if default.max_examples >= 100 else 0
    return settings(max_examples=max(5, number * default.max_examples // 100) + beside, **more)
