"""What workers log, print and warn, as the logging service of an engine gets it."""

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc

from beam_datasets.engines import checks, worker_logging, worker_pool

SECONDS = 60
Severity = beam_fn_api_pb2.LogEntry.Severity
TALK = """
import logging, sys, time, warnings
from beam_datasets.engines.worker_logging import send_logs
logging.basicConfig()  # as an import of the author's code may
send_logs(sys.argv[1], "1-2", "rows-1-0-0-job", sys.argv[2])
logging.getLogger("rows").info("logged %d", 5)
logging.getLogger("apache_beam.runners").info("of Beam")
logging.getLogger("rows").error("failed")
print("printed")
print("printed as an error", file=sys.stderr)
warnings.warn("warned")
time.sleep(2)
"""


class Logging(beam_fn_api_pb2_grpc.BeamFnLoggingServicer):
    """A logging service that keeps (severity, message) of each entry, and the workers' ids."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, str]] = []
        self.workers: set[str] = set()

    def Logging(self, requests: Any, context: Any) -> Iterator[Any]:
        self.workers |= {value for key, value in context.invocation_metadata() if key == "worker_id"}
        for batch in requests:
            self.entries += [(entry.severity, entry.message) for entry in batch.log_entries]
        yield from ()

    def await_entry(self, text: str) -> str:
        deadline = time.monotonic() + SECONDS
        while not any(text in message for _, message in list(self.entries)):
            assert time.monotonic() < deadline, self.entries
            time.sleep(0.05)
        return next(message for _, message in list(self.entries) if text in message)


@pytest.fixture
def service() -> Iterator[tuple[Logging, str]]:
    server, logs = grpc.server(futures.ThreadPoolExecutor()), Logging()
    beam_fn_api_pb2_grpc.add_BeamFnLoggingServicer_to_server(logs, server)
    address = f"localhost:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield logs, address
    server.stop(None).wait()


@pytest.mark.parametrize(
    "level, logged",
    [
        ("INFO", True),
        pytest.param("40", False, marks=pytest.mark.slow),
        pytest.param("nonsense", True, marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_what_a_worker_says_names_job_and_worker(service: tuple[Logging, str], level: str, logged: bool) -> None:
    logs, address = service
    said = subprocess.run([sys.executable, "-c", TALK, address, level], capture_output=True, text=True, check=True)
    place = "[rows-1-0-0-job worker 1-2] "
    expected = {(Severity.ERROR, f"{place}failed")}
    if logged:
        expected |= {(Severity.INFO, place + text) for text in ("logged 5", "printed", "printed as an error")}
    assert set(logs.entries) >= expected
    assert any(severity == Severity.WARN and "warned" in text for severity, text in logs.entries) == logged
    assert not any("of Beam" in message for _, message in logs.entries)
    assert logs.workers == {"1-2"}
    assert "printed\n" in said.stdout  # the output of the pool has it, too
    assert said.stderr.count("printed") == 1  # as an error, and not again by another handler
    assert "failed" in said.stderr


def test_workers_of_a_pool_log_to_the_engine(service: tuple[Logging, str]) -> None:
    logs, address = service
    pool = worker_pool.WorkerPool()
    request = beam_fn_api_pb2.StartWorkerRequest(worker_id="1-1", params={checks.JOB: "rows"})
    request.control_endpoint.url = request.logging_endpoint.url = address
    context = type("Peer", (), {"peer": lambda self: "here"})()
    try:
        assert not pool.StartWorker(request, context).error
        assert logs.await_entry("[rows worker 1-1] pid ").endswith(f"{checks.versions()}")
    finally:
        pool.close()


@pytest.mark.slow
def test_an_engine_without_a_logging_service() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TALK, "localhost:1", "INFO"], capture_output=True, text=True, check=True
    )
    assert "printed\n" in done.stdout
    assert "logs no longer reach the engine: StatusCode.UNAVAILABLE\n" in done.stderr


def test_entries_that_are_dropped_are_counted(service: tuple[Logging, str], monkeypatch: pytest.MonkeyPatch) -> None:
    logs, address = service
    monkeypatch.setattr(worker_logging, "MAX_WAITING", 5)
    monkeypatch.setattr(worker_logging.threading.Thread, "start", lambda thread: threads.append(thread))
    threads: list[Any] = []
    sender = worker_logging.LogSender(address, "1-1", "[rows] ")
    monkeypatch.undo()
    for number in range(12):
        sender.emit(logging.LogRecord("rows", logging.INFO, __file__, 1, f"line {number}", None, None))
    threads[0].start()
    assert logs.await_entry("dropped") == "[rows] 7 entries were dropped, because more was logged than could be sent"
    assert sum("line" in message for _, message in logs.entries) == 5
