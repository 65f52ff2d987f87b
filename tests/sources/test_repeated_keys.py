"""An error about a repeated key names the key of the builder."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import beam_datasets as bd
from beam_datasets.errors import DuplicateKeyError
from beam_datasets.sources import repeated_keys
from tests.facts import raises_with

HASH = f"(its hash is {hashlib.md5(b'train' + b'key of both').hexdigest()})"
ROWS = [("a", {"n": 1}), ("key of both", {"n": 2}), ("b", {"n": 3}), ("key of both", {"n": 4})]


def read_rows(unit: int) -> Iterator[Any]:
    return iter(ROWS[unit : unit + 2])


class Repeating(bd.DatasetBuilder):
    """Two of its examples have the same key."""

    VERSION = "1.0.0"

    def __init__(self, *, source: str, **kwargs: Any) -> None:
        self.source = source
        super().__init__(**kwargs)

    def _info(self) -> bd.DatasetInfo:
        return bd.DatasetInfo(builder=self, features={"n": bd.features.Scalar("int64")})

    def _split_generators(self) -> Any:
        return {
            "list": {"train": ROWS},
            "generator": {"train": iter(ROWS)},
            "function": {"train": lambda: iter(ROWS)},
            "units": {"train": bd.SourceUnits([0, 2], read_rows)},
        }[self.source]


@pytest.mark.parametrize(
    "source, num_workers",
    [
        ("list", 1),
        *(pytest.param(name, None, marks=pytest.mark.slow) for name in ("list", "units", "generator", "function")),
    ],
)
def test_the_key_is_that_of_the_builder(tmp_path: Path, source: str, num_workers: int | None) -> None:
    with raises_with(
        DuplicateKeyError, split="train", key="key of both", mentions=[f"the same key 'key of both' {HASH}"]
    ) as caught:
        Repeating(data_dir=tmp_path, source=source).build(num_workers=num_workers)
    assert re.search(r"n: 2\n  n: 4|n: 4\n  n: 2", str(caught.value))


def test_a_slow_source_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_keys, "SEARCH_SECONDS", -1.0)
    with raises_with(DuplicateKeyError, split="train", key=None, mentions=[f"the same key {HASH}"]):
        Repeating(data_dir=tmp_path, source="list").build(num_workers=1)
