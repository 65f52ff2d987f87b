"""What stands in for Google's cloud on loopback: a Dataflow that takes jobs and runs none, and stores for both clients.

Beam stages through Google's own client, and gets the emulator; this package's objects go through obstore, which wants
a store that answers with an ETag.
"""

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.engines.object_stores import object_store
from tests.servers import free_port, server

STAGING = "staging"


@dataclass
class Cloud:
    """A running one.

    Attributes:
        data: URL of the bucket for datasets.
        staging: port of the store that Beam stages to.
        dataflow: port of the service.
        env: environment variables that lead to the stores.
        jobs: (path, job) of each that was submitted.
        states: answers to who asks for the state of a job: a state, or the status of an error; the last one stays. If
            the first one is the status of an error, a job that is submitted is refused with it.
    """

    data: str
    staging: int
    dataflow: int
    env: dict[str, str]
    jobs: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    states: list[str | int] = field(default_factory=lambda: ["DONE"])

    def stage(self, name: str, content: bytes) -> str:
        """Puts a file where Beam's file system for gs:// finds it, and returns its URL."""
        place = f"upload/storage/v1/b/{STAGING}/o?uploadType=media&name={name.replace('/', '%2F')}"
        with urlopen(f"http://127.0.0.1:{self.staging}/{place}", content):
            return f"gs://{STAGING}/{name}"

    def staged(self, url: str) -> bytes:
        """Returns what was staged under a URL."""
        name = url.removeprefix(f"gs://{STAGING}/").replace("/", "%2F")
        with urlopen(f"http://127.0.0.1:{self.staging}/download/storage/v1/b/{STAGING}/o/{name}?alt=media") as answer:
            return bytes(answer.read())


class _Dataflow(BaseHTTPRequestHandler):
    """Takes jobs: POST /v1b3/projects/<project>/locations/<region>/jobs; GET of one answers its state."""

    jobs: list[tuple[str, dict[str, Any]]]
    states: list[str | int]

    def do_GET(self) -> None:
        if self.path.partition("?")[0].endswith("/messages"):
            text = {"id": "1", "time": "2026-01-01T00:00:00Z", "messageText": "quota is low\nvery"}
            self.answer(200, {"jobMessages": [{**text, "messageImportance": "JOB_MESSAGE_WARNING"}]})
            return
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, int):
            self._refuse(state)
        else:
            self.answer(200, {"id": "job-1", "name": "any", "currentState": f"JOB_STATE_{state}"})

    def do_POST(self) -> None:
        job = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if isinstance(self.states[0], int):
            self._refuse(self.states[0])
            return
        self.jobs.append((self.path.partition("?")[0], job))
        answer = {"id": "job-1", "name": job["name"], "currentState": "JOB_STATE_PENDING"}
        self.answer(200, answer)

    def _refuse(self, status: int) -> None:
        error = {"code": status, "message": "the caller may not", "status": "PERMISSION_DENIED"}
        self.answer(status, {"error": error})

    def answer(self, status: int, value: dict[str, Any]) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextlib.contextmanager
def cloud(directory: Path) -> Iterator[Cloud]:
    """Runs the servers; logs go to the directory."""
    staging = free_port()
    emulator = ["gcp_storage_emulator", "start", "--host=127.0.0.1", f"--port={staging}", "--in-memory"]
    jobs: list[tuple[str, dict[str, Any]]] = []
    states: list[str | int] = ["DONE"]
    service = ThreadingHTTPServer(("127.0.0.1", 0), type("Dataflow", (_Dataflow,), {"jobs": jobs, "states": states}))
    with object_store("gs", directory) as store, service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        with server([*emulator, f"--default-bucket={STAGING}"], staging, directory / "staging.log"):
            env = {**store.env, "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{staging}"}
            yield Cloud(store.url, staging, service.server_port, env, jobs, states)
        service.shutdown()
