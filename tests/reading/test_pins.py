"""Orders, saved states and batches are those of an early version; see `tests.reading.pins`."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.reading import pins

PINS = json.loads((Path(__file__).parent.parent / "data" / "pins.json").read_text("utf-8"))
ADDED_BY_FORMAT_4 = {"format", "check"}


def without_format(state: Any) -> Any:
    """Returns the state of a stream without what its format 4 has added to format 3."""
    is_of_stream = state is not None and state["format"] in (3, 4)
    return {name: state[name] for name in state.keys() - ADDED_BY_FORMAT_4} if is_of_stream else state


@pytest.mark.parametrize("name", pins.PIPELINES)
def test_order_and_states(name: str) -> None:
    pinned, now = PINS["orders"][name], pins.order(pins.PIPELINES[name]())
    assert now["epochs"] == pinned["epochs"]
    for before, after in zip(pinned["states"], now["states"], strict=True):
        assert without_format(after["state"]) == without_format(before["state"])
        assert (after["taken"], after.get("rest")) == (before["taken"], before.get("rest"))


@pytest.mark.parametrize("name", pins.PIPELINES)
def test_saved_states_continue(name: str) -> None:
    """States of the early version, also those of streams in their older format, are restored."""
    dataset = pins.PIPELINES[name]()
    for saved in PINS["orders"][name]["states"]:
        if saved["state"] is not None:
            rest = itertools.islice(dataset.iterate(state=saved["state"]), pins.MAX_ITEMS)
            assert pins.digest(list(rest)) == saved["rest"]


def test_values() -> None:
    """Examples, batches and shards of each kind of feature have the same bytes."""
    assert pins.values() == PINS["values"]
