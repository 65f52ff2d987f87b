"""Flink, where a random part is killed at a random time: see `flink_kills`.

`make test-flink` kills once, a worker; BEAM_DATASETS_SCALE=100 kills a hundred times, each part in turn. The program
`flink_kills` does that with data in an S3 server, too, and prints a table.
"""

import contextlib
import random
from pathlib import Path

import pytest

from tests.cases import repeated
from tests.engines import flink_cluster as flink
from tests.engines.flink_kills import VICTIMS, Killing, Outcome, WrongError, check_output, table
from tests.engines.jobs import OPTIONS, version


@pytest.mark.slow
@pytest.mark.parametrize("number", range(repeated(1)))
def test_any_part_is_killed(cluster: flink.Cluster, local: Path, tmp_path: Path, number: int) -> None:
    parts = [victim for victim in VICTIMS if victim != "store"]
    builds = Killing(cluster, tmp_path, version(local), random.Random(number), OPTIONS, 220_000)
    outcome = builds.build(number, parts[number % len(parts)])
    assert not outcome.problem, (outcome, [path.read_text() for path in tmp_path.glob("outputs/*")])


@pytest.mark.parametrize(
    "code, output, problem",
    [
        (0, "Published", ""),
        (1, "beam-datasets: refused", ""),
        (-9, "", ""),
        (1, "refused", "exit code 1 and 0 messages"),
        (0, "beam-datasets: refused", "exit code 0 and 1 messages"),
        (1, "Traceback (most recent call last)\nbeam-datasets: refused", "there is a stack"),
        (1, "beam-datasets: job failed\n\tat org.apache.flink.A.b(A.java:1)", "there is a stack"),
        (1, "beam-datasets: RuntimeError: java.net.ConnectException: refused", "there is a stack"),
        (1, f"beam-datasets: {'x' * 2000}", "the message is long"),
    ],
)
def test_what_a_command_may_print(code: int, output: str, problem: str) -> None:
    expected = pytest.raises(WrongError, match=problem) if problem else contextlib.nullcontext()
    with expected:
        check_output(code, output, is_killed=code < 0)


def test_the_table() -> None:
    outcomes = [Outcome("worker", "", "recovered", 30), Outcome("jobs", "", "wrong", 5, "it hangs")]
    lines = [line.split() for line in table(outcomes).splitlines()]
    assert lines[1:] == [
        ["worker", "1", "0", "1", "0", "0", "0", "0", "30"],
        ["jobs", "1", "0", "0", "0", "0", "0", "1", "5"],
        ["all", "2", "0", "1", "0", "0", "0", "1", "30"],
    ]
