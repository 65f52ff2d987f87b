"""Flink with high availability: the JobManager is killed, and the one that is started then goes on with its job.

BEAM_DATASETS_SCALE=2 `make test-flink` runs it.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases import SCALE, repeated
from tests.engines import flink_cluster as flink
from tests.engines.jobs import await_staged, end, numbers, start, version

pytestmark = pytest.mark.slow


@pytest.fixture
def available(tmp_path_factory: pytest.TempPathFactory) -> Iterator[flink.Cluster]:
    """A cluster with a server of ZooKeeper."""
    if os.environ.get("BEAM_DATASETS_FLINK") != "required":
        pytest.skip("make test-flink sets up a Flink cluster")
    with flink.running(tmp_path_factory.mktemp("available"), is_highly_available=True) as cluster:
        yield cluster


@pytest.mark.skipif(SCALE < 2, reason="BEAM_DATASETS_SCALE=2 runs it")
@pytest.mark.parametrize("number", range(repeated(1)))
def test_the_job_manager_is_killed(available: flink.Cluster, local: Path, tmp_path: Path, number: int) -> None:
    """Even numbers kill it in the Encode, odd ones while shards are written."""
    process = start(*numbers(tmp_path, *available.options()))
    try:
        await_staged(process, tmp_path, "*.tfrecord-*" if number % 2 else "**/*.block")
        available.kill("jobmanager")
        available.restart("jobmanager")
    finally:
        code, output = end(process)
    assert code == 0, output
    assert "restart 1: the JobManager was lost, and another one runs the whole job again" in output
    assert version(tmp_path) == version(local)
