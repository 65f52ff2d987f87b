"""A proxy that stands before an object store and is as unreliable as it is told; run with `python flaky_proxy.py`.

Of the requests, drawn by a seed, some are answered with 503 (half of these after the store has carried them out, so
that the answer is what was lost), and some get no answer until the client has given up. Of the answers with bytes of
shards and indexes, some have a flipped bit, end half-way, are delayed or do not come.
With `--dialect gcs` it also speaks the XML interface of Google's store to one that speaks S3, which differ in the names
of headers: https://cloud.google.com/storage/docs/xml-api/reference-headers
"""

import argparse
import http.client
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOP = {"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "host", "content-length"}
FAULTS = ("flip", "cut", "drop", "delay")
GCS_NAMES = {"x-goog-copy-source": "x-amz-copy-source"}


class Handler(BaseHTTPRequestHandler):
    """Passes requests on, or does not."""

    protocol_version = "HTTP/1.1"
    options: argparse.Namespace
    fate = random.Random()
    lock = threading.Lock()
    creations = threading.Lock()

    def handle_request(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.lock:
            drawn, lost = self.fate.random(), self.fate.random() < 0.5
        if drawn < self.options.stall:
            time.sleep(self.options.stall_seconds)
            self.close_connection = True
            return
        fails = drawn < self.options.stall + self.options.fail
        if fails and not lost:
            self.answer(503, [], b"<Error><Code>SlowDown</Code></Error>")
            return
        status, headers, content = self.forward(body)
        if ".tfrecord" in self.path and self.command == "GET" and status < 300 and content:
            with self.lock:
                fault = self.fate.choice(FAULTS) if self.fate.random() < self.options.damage else ""
            if fault == "delay":
                time.sleep(0.1)
            elif fault == "drop":
                self.close_connection = True
                return
            elif fault:
                self.answer(status, headers, content, fault)
                return
        if fails:
            status, headers, content = 503, [], b"<Error><Code>InternalError</Code></Error>"
        self.answer(status, headers, content)

    def forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
        headers["Host"] = self.headers["Host"]  # it is part of what the client has signed
        if self.options.dialect == "gcs":
            headers = {GCS_NAMES.get(name.lower(), name): value for name, value in headers.items()}
            headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            headers["Authorization"] = "AWS4-HMAC-SHA256 Credential=key/x/us-east-1/s3"  # which moto does not check
            if headers.pop("x-goog-if-generation-match", None) == "0":
                headers["If-None-Match"] = "*"
        if "If-None-Match" in headers and "x-amz-copy-source" in headers:  # moto copies whatever the condition
            with self.creations:
                if self.send("HEAD", b"", {"Authorization": headers["Authorization"]})[0] == 200:
                    return 412, [], b"<Error><Code>PreconditionFailed</Code></Error>"
                return self.send(self.command, body, headers)
        return self.send(self.command, body, headers)

    def send(self, method: str, body: bytes, headers: dict[str, str]) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.options.store, timeout=60)
        try:
            connection.request(method, self.path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def answer(self, status: int, headers: list[tuple[str, str]], content: bytes, fault: str = "") -> None:
        """Sends an answer, whose body is cut off or has another bit if that is its fault."""
        self.send_response_only(status)
        length = str(len(content))
        for name, value in headers:
            if name.lower() == "content-length" and self.command == "HEAD":
                length = value
            elif name.lower() not in HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if fault == "cut":
            self.close_connection = True
            content = content[: len(content) // 2]
        if fault == "flip":
            with self.lock:
                place, bit = self.fate.randrange(len(content)), self.fate.randrange(8)
            content = content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_request

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--store", type=int, required=True, help="port of the store")
    parser.add_argument("--dialect", choices=["s3", "gcs"], default="s3")
    parser.add_argument("--fail", type=float, default=0.0, help="share of the requests")
    parser.add_argument("--stall", type=float, default=0.0, help="share of the requests")
    parser.add_argument("--damage", type=float, default=0.0, help="share of the answers with bytes of shards")
    parser.add_argument("--stall_seconds", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    Handler.options = parser.parse_args()
    Handler.fate = random.Random(Handler.options.seed)
    server = ThreadingHTTPServer(("127.0.0.1", Handler.options.port), Handler)
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    main()
