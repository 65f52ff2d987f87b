"""The former name of `beam_datasets.slim`: the same names, for code that imports them from here."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    from beam_datasets import slim

    return getattr(slim, name)
