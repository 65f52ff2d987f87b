"""What a launcher shows of a remote job while it waits for its end."""

import contextlib
import json
import re
import socket
import struct
import threading
from pathlib import Path
from typing import Any

import pytest

from beam_datasets.engines import checks, flink, following
from beam_datasets.engines.flink import Failure, JobStatus
from beam_datasets.publishing.owners import Owner
from beam_datasets.publishing.runs import Run
from tests.servers import free_port

LOST = Failure(1000.0, "TaskManager with id tm-1 is no longer reachable. (in Encode train on host:1)")


def status(
    *stages: str, failures: tuple[Failure, ...] = (), is_waiting: bool = False, started: float = 900.0
) -> JobStatus:
    return JobStatus("1", "RUNNING", stages, 3, 10, is_waiting, failures, started)


class Clock:
    """A clock that tests set."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def strftime(self, _: str) -> str:
        return "12:00:00"


class Job:
    """A job whose follower looks when the test says so.

    Attributes:
        status: what the engine answers, or raises.
    """

    def __init__(self, run: Run, clock: Clock, capsys: Any) -> None:
        self.status: JobStatus | Exception | None = status("Encode train")
        self.run, self.clock, self.capsys = run, clock, capsys
        self.follower = following.Follower(
            "rows-1-0-0-job", "http://page", "http://log", self.answer, run, num_units=20
        )

    def answer(self) -> JobStatus | None:
        if isinstance(self.status, Exception):
            raise self.status
        return self.status

    def look(self, seconds: float) -> str:
        """Returns what the follower prints after so many seconds."""
        self.clock.now += seconds
        self.follower.look()
        return str(self.capsys.readouterr().err)

    def spill(self, *names: str) -> None:
        """Makes files in the spill directory."""
        assert self.run.spill_dir is not None
        Path(self.run.spill_dir).mkdir(parents=True, exist_ok=True)
        for name in names:
            Path(self.run.spill_dir, name).touch()


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Job:
    clock = Clock()
    monkeypatch.setattr(following, "time", clock)
    run = Run(str(tmp_path / "1.0.0"), Owner("job", "host", 1, 0.0), spill_dir=str(tmp_path / "spill"))
    made = Job(run, clock, capsys)
    made.follower._printed_at = made.follower._changed_at = clock.now
    return made


def test_a_line_when_the_stage_changes_and_every_30_s(job: Job) -> None:
    job.spill("train-1-1000-50000.block", "a-3.units.json")
    assert job.look(2) == ""
    assert job.look(5) == (
        "12:00:00 Encode train (tasks: 3 of 10); 1,000 examples encoded, 0.1 MB, 143/s; units: 3 of 20\n"
    )
    assert job.look(20) == ""
    job.spill("train-2-3000-150000.block")
    assert "4,000 examples encoded, 0.2 MB, 100/s" in job.look(10)
    job.status = status("Write", "Join")
    assert job.look(5).startswith("12:00:00 Write, Join (tasks: 3 of 10); 4,000 examples encoded")
    assert "nothing written for 35 s" in job.look(30)


def test_a_job_without_any_progress_names_the_output_of_the_worker_pool(job: Job) -> None:
    hint = (
        "nothing written for 65 s; if no worker has started, the output of the worker pool says why; "
        "Flink waits three minutes for workers that died with their pool"
    )
    assert "the worker pool" not in job.look(31)
    assert hint in job.look(34)
    job.spill("train-1-1000-50000.block")
    assert "the worker pool" not in job.look(31)
    assert "the worker pool" not in job.look(70)


def test_the_worker_pool_ends(job: Job) -> None:
    """Also one that listens again at the next look, as if it had never ended; or behind a forwarder that goes on."""

    def listen(answer: bytes) -> socket.socket:
        server = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=accept, args=(server, answer), daemon=True).start()
        return server

    def accept(server: socket.socket, answer: bytes) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                connections.append(connection)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                if answer:
                    connection.sendall(answer)
                else:
                    connection.close()

    def pool() -> socket.socket:
        return listen(b"settings")

    def end(server: socket.socket) -> None:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        while connections:
            connections.pop().close()

    connections: list[socket.socket] = []
    port = free_port()
    job.follower.pool = f"127.0.0.1:{port}"
    first = pool()
    assert job.look(1) == job.look(1) == ""
    end(first)
    lost = f"12:00:00 the worker pool at 127.0.0.1:{port} has ended, and its workers with it: start it again\n"
    assert job.look(1) == lost
    assert job.look(1) == ""
    second = pool()
    again = f"12:00:00 the worker pool at 127.0.0.1:{port} was started again; if the engine"
    assert job.look(1).startswith(again)
    assert job.look(1) == ""
    end(second)
    third = pool()
    assert job.look(1).startswith(again)
    assert job.look(1) == ""
    end(third)
    assert job.look(1) == lost
    forwarder = listen(b"")  # to the pool that has ended
    assert job.look(1) == job.look(1) == ""
    end(forwarder)
    fourth = pool()
    assert job.look(1).startswith(again)
    end(fourth)
    listen(b"")
    assert job.look(1) == lost
    assert job.look(1) == ""


def test_a_restart_has_a_reason(job: Job) -> None:
    job.status = status("Encode train", failures=(LOST,))
    assert job.look(1) == f"12:00:00 restart 1: {LOST.reason}\n"
    assert job.look(1) == ""
    job.spill("train-1-1000-50000.block")
    assert re.search("examples encoded, some twice, .*; 1 restart\n", job.look(30))
    assert job.follower.restarts == 1


def test_another_job_manager_goes_on(job: Job) -> None:
    """It does not know what the first one has seen; the launcher does."""
    job.status = status("Encode train", failures=(LOST,))
    assert job.look(1) == f"12:00:00 restart 1: {LOST.reason}\n"
    job.status = status("Encode train", started=1100.0)
    assert job.look(1) == "12:00:00 restart 2: the JobManager was lost, and another one runs the whole job again\n"
    later = Failure(1200.0, "a worker process died")
    job.status = status("Encode train", failures=(later,), started=1100.0)
    assert job.look(1) == "12:00:00 restart 3: a worker process died\n"
    assert job.look(1) == ""
    job.look(30)
    assert job.run.spill_dir is not None
    saved = json.loads(Path(job.run.spill_dir, "progress.json").read_text())["restarts"]
    assert [restart["time"] for restart in saved] == [1000.0, 1100.0, 1200.0]


def test_programs_read_the_same_in_a_file(job: Job) -> None:
    job.spill("train-1-1000-50000.block", "a-3.units.json")
    job.status = status("Encode train", failures=(LOST,))
    job.look(30)
    job.look(30)
    assert job.run.spill_dir is not None
    found = json.loads(Path(job.run.spill_dir, "progress.json").read_text())
    assert found["restarts"] == [{"time": LOST.time, "reason": LOST.reason}]
    assert found["stages"] == ["Encode train"]
    assert "num_units" not in found  # `units` has it
    assert [found[name] for name in ("id", "page", "log")] == ["1", "http://page", "http://log"]
    expected = {"job": "rows-1-0-0-job", "examples_encoded": 1000, "units_finished": 3, "units": 20, "state": "RUNNING"}
    assert {name: found[name] for name in expected} == expected


def test_the_file_of_a_short_job_has_its_name_and_its_restarts(job: Job) -> None:
    """The job reads it when it publishes, which may be before the first line is due."""
    job.spill()
    assert job.run.spill_dir is not None
    path = Path(job.run.spill_dir, "progress.json")
    assert job.look(0.2) == ""
    assert json.loads(path.read_text())["job"] == "rows-1-0-0-job"
    job.status = status("Encode train", failures=(LOST,))
    job.look(0.2)
    assert [restart["reason"] for restart in json.loads(path.read_text())["restarts"]] == [LOST.reason]


def test_a_file_that_cannot_be_written_is_reported_once(job: Job) -> None:
    job.spill("progress.json")
    assert job.run.spill_dir is not None
    path = Path(job.run.spill_dir, "progress.json")
    path.unlink()
    path.mkdir()
    assert "progress.json cannot be written, so programs that read it do not see this job: " in job.look(30)
    assert "progress.json" not in job.look(30)


def test_a_job_that_waits_for_slots(job: Job) -> None:
    job.status = status(is_waiting=True)
    assert job.look(30).startswith("12:00:00 waiting for slots")


def test_an_engine_that_does_not_answer(job: Job) -> None:
    job.status = checks.EngineError("no Flink JobManager answers at http://there")
    assert job.look(1) == ""
    assert job.look(30) == "12:00:00 no Flink JobManager answers at http://there\n"


def test_an_engine_that_reports_nothing(job: Job) -> None:
    """What the job has written is shown for every runner."""
    job.status = None
    job.spill("train-1-1000-50000.block")
    assert job.look(30).startswith("12:00:00 job rows-1-0-0-job runs; 1,000 examples encoded")


def vertex(name: str, **states: int) -> dict[str, Any]:
    return {"name": name, "tasks": {"RUNNING": 0, "FINISHED": 0, "SCHEDULED": 0, "CREATED": 0} | states}


JOB = {
    "state": "RUNNING",
    "start-time": 1_900_000,
    "vertices": [
        vertex("DataSource (Impulse)", FINISHED=2),
        vertex("MapPartition (MapPartition at [7]{Generate train, WriteExamples})", RUNNING=1, FINISHED=1),
        vertex("FlatMap (FlatMap at ExtractOutput[1])", RUNNING=2),
        vertex("GroupReduce (GroupReduce at WriteExamples/GroupByShard)", CREATED=2),
    ],
}
TASK = {"taskName": "CHAIN MapPartition (MapPartition at [1]WriteExamples/Write) -> FlatMap (2/2) - execution #0"}
LOST_TASK_MANAGER = "org.apache.flink.JobMasterException: TaskManager with id tm is gone.\n\tat org.A.b(A.java:1)"
RAISED = """java.lang.RuntimeException: Error received from SDK harness: Traceback (most recent call last):
  File "/me/rows.py", line 3, in rows
ValueError: bad row

\tat org.apache.A.b(A.java:1)"""
EXCEPTIONS = [
    {**TASK, "timestamp": "2000300", "stacktrace": LOST_TASK_MANAGER, "location": "host:1"},
    {**TASK, "timestamp": "2000100", "stacktrace": LOST_TASK_MANAGER, "location": "host:1"},
    {"timestamp": 3000000, "stacktrace": RAISED},
]


JOBS = [("x", "rows", 3), ("w", "rows", 1), ("y", "others", 4)]  # jid, name, start; in no order


def test_what_a_flink_cluster_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "jobs/overview": {"jobs": [{"jid": jid, "name": name, "start-time": time} for jid, name, time in JOBS]},
        "jobs/x": JOB,
        f"jobs/x/exceptions?maxExceptions={flink.MAX_FAILURES}": {"exceptionHistory": {"entries": EXCEPTIONS}},
    }
    monkeypatch.setattr(flink.FlinkCluster, "get", lambda cluster, path: answers[path])
    cluster = flink.FlinkCluster("http://there")
    found = cluster.status("rows")
    assert found is not None
    assert (found.stages, found.finished, found.tasks, found.started) == (("Generate train, Encode",), 3, 8, 1900.0)
    assert [failure.reason for failure in found.failures] == [
        "TaskManager with id tm is gone. (in Write on host:1)",
        "ValueError: bad row",
    ]
    assert cluster.status("nobody's") is None
    answers["jobs/x"] = {**JOB, "state": "FAILED"}
    ended = cluster.status("rows")
    assert ended is not None
    assert len(ended.failures) == 1  # with the last one the job has ended: nothing was repeated
