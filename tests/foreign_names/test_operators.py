"""Operators and misspelt methods of datasets and streams: errors that say what to write."""

from __future__ import annotations

import re
from typing import Any

import pytest


def test_in_does_not_read_the_dataset(names: dict[str, Any]) -> None:
    for dataset in (names["ds"], names["stream"]):
        with pytest.raises(TypeError, match=re.escape("`'id' in ds.features` for a feature, or `ds.find(key)`")):
            assert "id" in dataset


@pytest.mark.parametrize("expression", ["ds * 2", "2 * ds", "ds | ds", "ds + ds", "ds - ds", "ds & ds"])
def test_operators_of_streams_say_the_same_as_those_of_datasets(names: dict[str, Any], expression: str) -> None:
    messages = []
    for dataset in (names["ds"], names["stream"]):
        with pytest.raises(TypeError, match="Use `") as caught:
            eval(expression, {"ds": dataset})
        messages.append(str(caught.value).partition("Use")[2])
    assert messages[0] == messages[1]


@pytest.mark.parametrize(
    "name, misspelt, meant",
    [("ds", "shuffl", "shuffle"), ("stream", "shuffl", "shuffle"), ("iterator", "get_st", "get_state")],
)
def test_a_misspelt_method_is_named_in_the_message(names: dict[str, Any], name: str, misspelt: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=rf"no attribute '{misspelt}'\. Did you mean '{meant}'\?"):
        getattr(names[name], misspelt)
