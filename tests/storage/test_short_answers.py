"""Stores whose answers have fewer bytes than were asked for, and stores that do not answer."""

import http.server
import os
import threading
from collections import Counter
from types import SimpleNamespace

import pytest

from beam_datasets import storage
from beam_datasets.errors import StorageError
from beam_datasets.storage import objects
from beam_datasets.verifying import verify
from tests.facts import raises_with

pytest.importorskip("obstore")
CONTENT = os.urandom(4 << 20)
RANGES = [(10, 2000), (3000, 3000), (2500, 400_000), (3 << 20, (3 << 20) + 70_000), (0, 5), ((4 << 20) - 9, 4 << 20)]


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers a range with its first half, as long as it was asked for less than `num_short` times."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()

    def do_GET(self):
        start, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        self.server.asked[start, last + 1] += 1
        content = CONTENT[start : last + 1]
        if self.server.asked[start, last + 1] <= self.server.num_short:
            content = content[: len(content) // 2]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{last}/{len(CONTENT)}")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Prints nothing."""


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(objects, "time", SimpleNamespace(sleep=lambda seconds: None))  # not of the whole process
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.asked, server.num_short = Counter(), 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("num_short", [0, 1, 3])
def test_what_is_missing_is_asked_for_again(server, num_short):
    server.num_short = num_short
    reader = objects.ObjectReader(f"http://127.0.0.1:{server.server_port}/file")
    assert [bytes(each) for each in reader.read_many(RANGES)] == [CONTENT[start:stop] for start, stop in RANGES]
    assert set(server.asked.values()) == {num_short + 1}  # ranges that were complete are not asked for again
    assert len(server.asked) == 2  # close ranges share a request


def test_a_store_that_never_sends_all_is_an_error(server, capfd):
    server.num_short = 100
    path = f"http://127.0.0.1:{server.server_port}/file"
    with raises_with(StorageError, path=path, expected="at least 2000 bytes", got="1005", mentions=["asked 6 times"]):
        objects.ObjectReader(path).read_many([(10, 1000), (1500, 2000)])
    assert "panicked" not in capfd.readouterr().err


@pytest.mark.parametrize("directory", ["s3://bucket/digits/1.0.0", "http://127.0.0.1:1/digits/1.0.0"])
def test_a_dataset_in_a_store_that_does_not_answer_is_not_called_damaged(directory):
    options = {"retry_config": {"max_retries": 0}}
    if directory.startswith("s3"):
        keys = {"access_key_id": "a", "secret_access_key": "b", "region": "x"}
        options |= {"endpoint": "http://127.0.0.1:1", **keys}
    with raises_with(
        StorageError, mentions=["/digits/1.0.0/manifest.json: the store at http://127.0.0.1:1 cannot be reached"]
    ):
        verify(storage.with_options(directory, options))
