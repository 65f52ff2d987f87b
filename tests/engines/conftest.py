"""What the tests on several engines share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engines.jobs import Pool, numbers, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data_dir of the dataset as this machine generates it."""
    data_dir = tmp_path_factory.mktemp("local")
    run(*numbers(data_dir))
    return data_dir


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    """A worker pool, which no test kills."""
    pool = Pool()
    yield pool
    pool.kill()
