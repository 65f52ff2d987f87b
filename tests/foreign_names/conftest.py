"""What guesses may name."""

from __future__ import annotations

from typing import Any

import pytest

import beam_datasets as bd
from tests.reading.conftest import write_dataset


@pytest.fixture(scope="session")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a guess may name."""
    directory = write_dataset(tmp_path_factory.mktemp("guesses") / "d" / "1.0.0", {"train": [7, 5], "test": [4]})
    builder = bd.builder_from_directory(directory)
    ds = builder.as_dataset("train")
    return {
        "bd": bd,
        "builder": builder,
        "data_dir": directory.parents[1],
        "ds": ds,
        "f": lambda example: True,
        "info": builder.info,
        "iterator": iter(ds),
        "stream": ds.filter(lambda example: True),
    }
