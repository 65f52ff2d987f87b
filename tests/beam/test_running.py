"""How a run is followed: what is known of a job when contact with its engine fails, and what is logged meanwhile."""

import contextlib
import logging
import sys
import threading
from types import SimpleNamespace

import pytest
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions

from beam_datasets import errors
from beam_datasets.engines import failures, running
from beam_datasets.engines.flink import FlinkCluster
from beam_datasets.errors import GenerationError
from beam_datasets.publishing.owners import Owner
from beam_datasets.publishing.runs import Run


class Job:
    """A submitted job whose engine answers what it is told to; `calls` lists what it was asked."""

    def __init__(self, waits=(), states=()):
        self.waits, self.states = list(waits), list(states)
        self.calls = []

    def wait_until_finish(self):
        self.calls.append("wait")
        return self._next(self.waits)

    @property
    def state(self):
        self.calls.append("state")
        return self._next(self.states)

    def cancel(self):
        self.calls.append("cancel")

    def _next(self, answers):
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


TRACEBACK = 'Traceback (most recent call last):\n  File "/a.py", line 3, in f\nValueError: bad row\n\tat A.java:5'
LOST = ConnectionError("connection refused")


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr(running, "RETRY_SECONDS", (0, 0, 0))
    monkeypatch.setattr(running, "POLL_SECONDS", 0)
    monkeypatch.setattr(running, "CANCEL_SECONDS", 0)
    monkeypatch.setattr(running, "ANSWER_SECONDS", 5)


def follow(job):
    running._follow(running._Job(job, "job-1", "https://page"))


@pytest.mark.parametrize(
    "waits, states, calls",
    [
        (["DONE"], [], ["wait"]),
        ([LOST], ["DONE"], ["wait", "state"]),
        ([LOST, "DONE"], ["RUNNING"], ["wait", "state", "wait"]),
        ([LOST], [LOST, LOST, "DONE"], ["wait", "state", "state", "state"]),
        (["UNKNOWN", "RUNNING", "DONE"], ["UNKNOWN", "RUNNING"], ["wait", "state", "wait", "state", "wait"]),
        ([LOST, LOST], ["PENDING", "RUNNING", "CANCELLING", "DONE"], ["wait", "state"] * 4),
    ],
)
def test_a_job_is_followed_until_its_end_is_confirmed(waits, states, calls):
    """An exception while waiting, or a state that is not final, is not an end of a job."""
    job = Job(waits, states)
    follow(job)
    assert job.calls == calls


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "DRAINED"])
def test_a_confirmed_failure_is_an_error_of_the_job(state):
    for job in (Job([RuntimeError("boom")], [state]), Job([state])):
        with pytest.raises(errors.BeamDatasetsError) as caught:
            follow(job)
        assert not isinstance(caught.value, errors.JobStateUnknownError)


def test_without_an_answer_the_state_is_unknown():
    """The error names the job, where to look and what to run later."""
    job = Job([LOST], [LOST])
    with pytest.raises(errors.JobStateUnknownError) as caught:
        follow(job)
    for part in ("job job-1: ", "connection refused", "https://page", "beam-datasets gc", "run it again"):
        assert part in str(caught.value)
    assert job.calls == ["wait"] + ["state"] * 4


def test_an_engine_that_does_not_answer_at_all(monkeypatch):
    monkeypatch.setattr(running, "ANSWER_SECONDS", 0.01)
    silent = threading.Event()

    class Silent(Job):
        state = property(lambda job: silent.wait())

    with pytest.raises(errors.JobStateUnknownError, match="no answer within"):
        follow(Silent([LOST]))
    silent.set()


@pytest.mark.parametrize(
    "states, error",
    [
        (["CANCELLED"], KeyboardInterrupt),
        (["DONE"], KeyboardInterrupt),
        (["RUNNING"], errors.JobStateUnknownError),
        ([LOST], errors.JobStateUnknownError),
        ([KeyboardInterrupt()], errors.JobStateUnknownError),
    ],
)
def test_ctrl_c_cancels_and_waits_for_the_end(states, error):
    """An interrupt is passed on once the engine has confirmed the end; otherwise the state is unknown."""
    job = Job([KeyboardInterrupt()], states)
    with pytest.raises(error):
        follow(job)
    assert job.calls[:2] == ["wait", "cancel"]


def test_a_job_that_cannot_be_cancelled_says_why(monkeypatch):
    def refuse():
        raise PermissionError("no such right")

    job = Job([KeyboardInterrupt()], ["RUNNING"])
    job.cancel = refuse
    monkeypatch.setattr(running, "CANCEL_SECONDS", 0)
    with pytest.raises(errors.JobStateUnknownError, match="RUNNING .cancelling failed: PermissionError: no such right"):
        follow(job)


def test_a_second_ctrl_c_does_not_count_as_cancelled(monkeypatch):
    """It may come before the engine has the request, and then the job publishes."""

    def interrupt(_seconds, _ask):
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "_call_with_timeout", interrupt)
    with pytest.raises(errors.JobStateUnknownError, match="interrupted again before its cancellation was confirmed"):
        follow(Job([KeyboardInterrupt()], ["RUNNING"]))


def test_ctrl_c_while_contact_is_lost_cancels_too(monkeypatch):
    """An interrupt while the state is asked for, or between two waits, must not count as the job's end."""
    asked = Job([LOST], [KeyboardInterrupt(), "CANCELLED"])
    with pytest.raises(KeyboardInterrupt):
        follow(asked)
    assert asked.calls == ["wait", "state", "cancel", "state"]

    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(running.time, "sleep", interrupted)
    waiting = Job([LOST], ["RUNNING", LOST])
    with pytest.raises(errors.JobStateUnknownError):
        follow(waiting)
    assert waiting.calls[:3] == ["wait", "state", "cancel"]


def test_ctrl_c_while_a_job_is_submitted(monkeypatch):
    """The engine may have accepted the job before the interrupt; its data is kept."""

    class Pipeline:
        options = PipelineOptions(["--runner=DataflowRunner", "--sdk_container_image=image", "--job_name=job-1"])

        def run(self):
            raise KeyboardInterrupt

    with pytest.raises(errors.JobStateUnknownError, match="job-1.*interrupted while it was submitted"):
        running._run_job(Pipeline(), starts_engine=False, wait=True)
    with pytest.raises(KeyboardInterrupt):
        running._run_job(Pipeline(), starts_engine=True, wait=True)


@pytest.mark.parametrize(
    "module, kind, is_lost",
    [
        ("builtins", "ConnectionResetError", True),
        ("requests.exceptions", "ConnectionError", True),
        ("requests.exceptions", "ReadTimeout", True),
        ("google.api_core.exceptions", "ServiceUnavailable", True),
        ("google.api_core.exceptions", "InternalServerError", True),
        ("google.api_core.exceptions", "Forbidden", False),
        ("builtins", "FileNotFoundError", False),
    ],
)
def test_a_lost_reply_to_the_submission(module, kind, is_lost):
    """The engine may have accepted a job whose acceptance was not heard of; what it refused does not run."""
    error = getattr(pytest.importorskip(module), kind)("no answer")

    class Pipeline:
        options = PipelineOptions(["--runner=DataflowRunner", "--sdk_container_image=image", "--job_name=job-1"])

        def run(self):
            raise error

    with pytest.raises(errors.BeamDatasetsError) as raised:
        running._run_job(Pipeline(), starts_engine=False, wait=True)
    assert isinstance(raised.value, errors.JobStateUnknownError) == is_lost


NO_POOL = """org.apache.flink.runtime.JobException: Recovery is suppressed by FixedDelayRestartBackoffTimeStrategy(3)
\tat org.apache.flink.A.b(A.java:1)
Caused by: java.lang.Exception: The user defined 'open()' method caused an exception
\tat org.apache.flink.B.c(B.java:1)
Caused by: io.grpc.StatusRuntimeException: UNAVAILABLE: io exception
\tat io.grpc.C.d(C.java:1)
Caused by: java.net.ConnectException: finishConnect(..) failed: Connection refused
"""


@pytest.mark.parametrize("known", [True, False])
def test_flink_knows_why_a_job_has_failed(monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    """Beam's job server reports the last cause alone, from which the part that failed cannot be seen."""
    refused = "java.net.ConnectException: java.net.ConnectException: finishConnect(..) failed: Connection refused"
    answers = {
        "jobs/overview": {"jobs": [{"jid": "x", "name": "rows", "state": "FAILED", "start-time": 1}]},
        "jobs/x/exceptions": {"root-exception": NO_POOL} if known else {},
    }
    monkeypatch.setattr(FlinkCluster, "get", lambda cluster, path: answers[path])

    class Failed:
        state = "FAILED"

        def wait_until_finish(self) -> None:
            raise RuntimeError(f"Pipeline rows_1 failed in state FAILED: {refused}")

    with pytest.raises(GenerationError) as raised:
        running._follow(running._Job(Failed(), "rows", "https://page", cluster=FlinkCluster("http://there")))
    expected = "a machine of the engine found no worker pool" if known else "RuntimeError: ConnectException: "
    assert str(raised.value).startswith(expected)


@pytest.mark.parametrize(
    "flink_states, error",
    [
        (["RUNNING", "RESTARTING", "FINISHED"], None),
        (["RUNNING", "CANCELED"], "ended in state CANCELLED; nothing was published"),
        ([None], "expected its state, got 'connection refused'"),
    ],
)
def test_flink_is_asked_if_the_job_server_is_lost(
    monkeypatch: pytest.MonkeyPatch, flink_states: list[str | None], error: str | None
) -> None:
    """Such as one that was started again, and does not know the job."""
    answers = iter(flink_states)

    def get(cluster: FlinkCluster, path: str) -> dict[str, list[dict[str, str]]]:
        state = next(answers, flink_states[-1])
        earlier_job = {"jid": "y", "name": "rows", "state": "FINISHED", "start-time": 1}
        job = {"jid": "x", "name": "rows", "state": state, "start-time": 2}
        return {"jobs": [job, earlier_job] if state else []}

    monkeypatch.setattr(FlinkCluster, "get", get)
    lost = ConnectionError("connection refused")
    job = running._Job(Job([lost], [lost]), "rows", "https://page", cluster=FlinkCluster("http://there"))
    expected = pytest.raises(errors.BeamDatasetsError, match=error) if error else contextlib.nullcontext()
    with expected:
        running._follow(job)


@pytest.mark.parametrize("job_of_version", ["1", "2"])
def test_a_job_that_fails_after_it_has_published(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], job_of_version: str
) -> None:
    """Such as one whose JobManager is lost while its last tasks end: the version is there."""
    run = Run("/data/ds/1.0.0", Owner("1", "host", 1, 0.0))
    monkeypatch.setattr(running.runs, "is_published_by", lambda job, target: job == job_of_version)
    monkeypatch.setattr(running.storage, "write_bytes", lambda path, content: None)
    job = Job(["FAILED"], ["FAILED"])
    options = PipelineOptions(["--runner=PortableRunner"])
    pipeline = SimpleNamespace(options=options, run=lambda: job)
    expected = contextlib.nullcontext() if job_of_version == "1" else pytest.raises(GenerationError, match="FAILED")
    with expected:
        running._run_job(pipeline, starts_engine=False, wait=True, run=run)
        assert "had published when it failed" in capsys.readouterr().err


def configure_nothing(monkeypatch):
    """Makes logging what it is in a program that has not configured it, with the handler that Beam's import adds."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [logging.StreamHandler(sys.stderr)])
    monkeypatch.setattr(root, "level", logging.WARNING)


def of_beam(level, text, name="apache_beam.runners.dataflow.dataflow_runner"):
    logger = logging.getLogger(name)
    if logger.isEnabledFor(level):
        logger.handle(logger.makeRecord(name, level, "/site-packages/apache_beam/runners/x.py", 1, text, (), None))


def test_a_remote_job_shows_states_warnings_and_errors(monkeypatch, capsys):
    """One line each, and no hook of the process is replaced."""
    configure_nothing(monkeypatch)
    hooks = threading.excepthook, sys.excepthook
    with failures.job_reported():
        assert (threading.excepthook, sys.excepthook) == hooks
        of_beam(logging.INFO, "Job job-1 is in state JOB_STATE_RUNNING")
        of_beam(logging.INFO, "some detail")
        of_beam(logging.WARNING, "quota\nis\nlow", name="root")
        of_beam(logging.ERROR, "boom")
        of_beam(logging.ERROR, f"java.lang.RuntimeException: {TRACEBACK}")
    lines = capsys.readouterr().err.splitlines()
    shown = [line.split(" ", 1)[1] for line in lines]
    assert shown == [
        "INFO Job job-1 is in state JOB_STATE_RUNNING",
        "WARNING quota (2 more lines)",
        "ERROR boom",
        "ERROR RuntimeException: ValueError: bad row (3 more lines)",
    ]
    of_beam(logging.INFO, "Job job-1 is in state JOB_STATE_DONE")
    of_beam(logging.WARNING, "as before")
    assert capsys.readouterr().err == "as before\n"


def test_a_local_run_shows_nothing_of_beam(monkeypatch, capsys):
    """Filters of handlers alone, which are removed afterwards."""
    configure_nothing(monkeypatch)
    hooks, level = (threading.excepthook, sys.excepthook), logging.getLogger("apache_beam").level
    with failures.beam_silenced():
        assert (threading.excepthook, sys.excepthook) == hooks
        assert logging.getLogger("apache_beam").level == level
        of_beam(logging.ERROR, "boom")
        logging.getLogger("mine").error("mine")
    of_beam(logging.ERROR, "later")
    assert capsys.readouterr().err == "mine\nlater\n"


def test_a_version_that_the_launcher_does_not_see(tmp_path, monkeypatch):
    """A job that has ended well may have published on a disk of its workers; a network disk may show it late."""
    monkeypatch.setattr(running, "VISIBLE_SECONDS", 0.05)
    monkeypatch.setattr(running.time, "sleep", lambda seconds: None)
    run = Run(str(tmp_path / "1.0.0"), Owner("job", "host", 1, 0.0, runner="FlinkRunner"))
    with pytest.raises(errors.StorageError, match=r"1\.0\.0: expected the version .* published to another disk"):
        running.check_visible(run)
    local_run = Run(str(tmp_path / "1.0.0"), Owner("job", "host", 1, 0.0))
    with pytest.raises(errors.StorageError, match=r"1\.0\.0: expected the version .* its disk was unmounted"):
        running.check_visible(local_run)

    def published_late(seconds):
        (tmp_path / "1.0.0").mkdir()
        for name in ("dataset_info.json", "manifest.json"):
            (tmp_path / "1.0.0" / name).touch()

    monkeypatch.setattr(running.time, "sleep", published_late)
    running.check_visible(run)


@pytest.mark.parametrize("name, expected", [(None, "my-rows-small-1-0-0-job"), ("mine", "mine")])
def test_a_job_is_named_after_dataset_version_and_run(name, expected):
    options = PipelineOptions([f"--job_name={name}"] if name else [])
    info = SimpleNamespace(name="my_rows", config_name="small", version="1.0.0")
    running.name_job(options, SimpleNamespace(info=info, job="job"))
    assert options.view_as(GoogleCloudOptions).job_name == expected
