"""Checks of streams that are resumed."""

from __future__ import annotations

import itertools
import json
from typing import Any


def plain(item: Any) -> Any:
    """Returns an item with lists in place of arrays, and numbers of Python."""
    if isinstance(item, dict):
        return {name: plain(value) for name, value in item.items()}
    return item.tolist() if hasattr(item, "tolist") else item


def resumes_everywhere(stream: Any, most: int = 60) -> None:
    """Checks that a state at each position continues with the next item."""
    whole = [plain(item) for item in itertools.islice(stream, most + 5)]
    iterator = iter(stream)
    for position in range(min(len(whole), most) + 1):
        state = json.loads(json.dumps(iterator.get_state()))
        again = stream.iterate(state=state)
        assert again.get_state() == state
        assert [plain(item) for item in itertools.islice(again, len(whole) - position)] == whole[position:]
        assert [plain(item) for item in itertools.islice(iterator, 1)] == whole[position : position + 1]
