"""The options of adapters are explicit, and documented where `help()` shows them."""

from __future__ import annotations

import inspect

import pytest

import beam_datasets as bd
from beam_datasets import adapters
from beam_datasets.reading.streams import Stream


@pytest.mark.parametrize("name", adapters.__all__)
def test_each_option_is_documented(name: str) -> None:
    """Also for the function of the package, which has the same options with the same defaults."""
    method, function = getattr(bd.Dataset, name), getattr(adapters, name)
    options = list(inspect.signature(method).parameters.values())[1:]
    assert options == list(inspect.signature(function).parameters.values())[1:]
    assert {option.kind for option in options} == {inspect.Parameter.KEYWORD_ONLY}
    text = inspect.getdoc(method) or ""
    assert not [option.name for option in options if f"\n    {option.name}: " not in text]


@pytest.mark.parametrize("kind", [bd.Dataset, Stream])
def test_each_option_of_other_methods_is_documented(kind: type) -> None:
    """Also where a method calls that of another class."""
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        parameters = list(inspect.signature(method).parameters.values())[1:]
        if name.startswith("_") or inspect.Parameter.KEYWORD_ONLY not in {option.kind for option in parameters}:
            continue
        text = inspect.getdoc(method) or ""
        assert not [option.name for option in parameters if f"\n    {option.name}: " not in text], name
