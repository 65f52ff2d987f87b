"""Fixtures of the end-to-end tests."""

from collections.abc import Iterator

import pytest

from tests.servers import portable_engine


@pytest.fixture(scope="session")
def portable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The pipeline options that lead to Beam's portable job service and its workers."""
    with portable_engine(tmp_path_factory.mktemp("portable")) as options:
        yield options
