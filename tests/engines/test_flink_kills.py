"""Flink, where a random part is killed at a random time: the same bytes, at once or resumed, and `gc` names the rest.

Run by `make test-flink`, which kills once, a worker; BEAM_DATASETS_SCALE=100 kills a hundred times, each part in turn.
"""

import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cases import repeated
from tests.engines import flink_cluster as flink
from tests.engines.jobs import JOB_SECONDS, end, numbers, run, start, version

pytestmark = pytest.mark.slow
VICTIMS = ("worker", "workers", "taskmanager", "jobs", "launcher", "jobmanager")
MAX_SECONDS = 15  # after the start of a launcher, of which a job takes about as long


def kill_a_worker(cluster: flink.Cluster) -> None:
    """Kills a Python process of the pool, if it has one."""
    pool = cluster.running("workers")[-1].pid
    children = Path(f"/proc/{pool}/task/{pool}/children").read_text().split()
    if children:
        os.kill(int(random.choice(children)), signal.SIGKILL)


def strike(cluster: flink.Cluster, victim: str, launcher: subprocess.Popen[str]) -> None:
    """Kills a part, and starts it again if it is a server."""
    if victim == "launcher":
        launcher.kill()
    elif victim == "worker":
        kill_a_worker(cluster)
    else:
        cluster.kill(victim)
        time.sleep(random.choice([0, 2]))
        cluster.restart(victim)


def await_end_of_jobs(cluster: flink.Cluster) -> None:
    """Waits until no job runs, such as one whose launcher has been killed."""
    deadline = time.monotonic() + JOB_SECONDS
    while cluster.overview()["jobs-running"]:
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.parametrize("number", range(repeated(1)))
def test_any_part_is_killed(cluster: flink.Cluster, local: Path, tmp_path: Path, number: int) -> None:
    random.seed(number)
    victim = VICTIMS[number % len(VICTIMS)]
    command = numbers(tmp_path, *cluster.options(), "--resume")
    launcher = start(*command)
    try:
        time.sleep(random.uniform(2, MAX_SECONDS))
        strike(cluster, victim, launcher)
    finally:
        code, output = end(launcher)
    assert "Traceback" not in output, output
    assert not re.search(r"^\s+at [\w.]+\(", output, re.MULTILINE), output  # a stack of Java
    assert code == 0 or victim == "launcher" or "beam-datasets: " in output, output
    cluster.await_task_managers(1)
    await_end_of_jobs(cluster)
    if not (tmp_path / "numbers" / "1.0.0").exists():
        assert code != 0, output
        run(*command)
    reported = run("gc", str(tmp_path), "--yes")
    left = {path.name.removesuffix(".spill") for path in (tmp_path / "numbers").iterdir()} - {"1.0.0"}
    # what a run has left that was killed before it gave its job to Flink: for a week, that job could still come
    assert all(re.search(rf"numbers/{name} .* kept: .*FlinkRunner may work on", reported) for name in left), reported
    assert version(tmp_path) == version(local)
