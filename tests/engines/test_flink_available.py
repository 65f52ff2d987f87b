"""Flink with high availability: the JobManager is killed, and the one that is started then goes on with its job.

`make test-flink` kills it in the Encode; BEAM_DATASETS_SCALE=2 also while shards are written.
"""

from pathlib import Path

import pytest

from tests.cases import repeated
from tests.engines import flink_cluster as flink
from tests.engines.jobs import await_staged, end, numbers, start, version

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("number", range(repeated(1)))
def test_the_job_manager_is_killed(cluster: flink.Cluster, local: Path, tmp_path: Path, number: int) -> None:
    """Even numbers kill it in the Encode, odd ones while shards are written."""
    process = start(*numbers(tmp_path, *cluster.options()))
    try:
        await_staged(process, tmp_path, "*.tfrecord-*" if number % 2 else "**/*.block")
        cluster.kill("jobmanager")
        cluster.restart("jobmanager")
    finally:
        code, output = end(process)
    assert code == 0, output
    assert "restart 1: the JobManager was lost, and another one runs the whole job again" in output
    assert version(tmp_path) == version(local)
