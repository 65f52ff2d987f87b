"""Places of every kind of storage, and a web server that stands for an object store."""

import functools
import http.server
import threading
import uuid
from typing import ClassVar

import pytest


@pytest.fixture(params=["local", "objects"])
def root(request, tmp_path):
    """A directory, and a place in an object store in memory."""
    if request.param == "local":
        return str(tmp_path / "root")
    pytest.importorskip("obstore")
    return f"memory://{uuid.uuid4().hex}/root"


class RangeHandler(http.server.SimpleHTTPRequestHandler):
    """Serves a directory and, unlike its parent, ranges; notes the requests."""

    requests: ClassVar[list[tuple[str, str]]] = []

    def do_GET(self):
        wanted = self.headers.get("Range")
        if not wanted:
            return super().do_GET()
        with open(self.translate_path(self.path), "rb") as file:
            data = file.read()
        start, _, last = wanted.removeprefix("bytes=").partition("-")
        part = data[int(start) : int(last) + 1]
        self.send_response(206)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Content-Range", f"bytes {start}-{int(start) + len(part) - 1}/{len(data)}")
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.end_headers()
        return self.wfile.write(part)

    def send_response(self, *arguments):
        self.requests.append((self.command, self.path))
        super().send_response(*arguments)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path):
    """The address of a web server of the directory `web`."""
    (tmp_path / "web").mkdir()
    RangeHandler.requests.clear()
    handler = functools.partial(RangeHandler, directory=str(tmp_path / "web"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{web.server_address[1]}"
        web.shutdown()
        thread.join()
