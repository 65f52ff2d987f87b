"""Downloads from a server that misbehaves."""

import contextlib
import gzip
import hashlib
import multiprocessing
import re
import socket
import threading
import time
import urllib.parse
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

import beam_datasets as bd
import beam_datasets.tfds as tfds
from beam_datasets import downloads, storage
from beam_datasets.downloads import (
    Checksum,
    DownloadError,
    DownloadManager,
    DownloadSettings,
    Resource,
    read_checksums,
)
from beam_datasets.downloads.checksums import add_checksums, compute_sha256
from beam_datasets.errors import StorageError
from tests.facts import raises_with

CONTENT = bytes(range(256)) * 4000
ENCODINGS = {
    "br": "br",
    "zlib": "deflate",
    "raw deflate": "deflate",
    "aws-chunked": "aws-chunked",
    "binary": "binary",
    "empty": "",
}
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server:
    """Serves CONTENT; the first requests get the faults, one each, and `requests` has what was asked."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.ranges: list[str | None] = []
        self.url = ""
        self.headers: dict[str, str] = {"ETag": '"tag"'}
        self.name = 'attachment; filename="../a.json.gz"'


@pytest.fixture
def server(monkeypatch: Any) -> Iterator[Server]:
    state = Server()
    monkeypatch.setattr("beam_datasets.downloads.http._MAX_PAUSE", 0.01)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            fault = state.faults.pop(0) if state.faults else ""
            state.ranges.append(self.headers["Range"])
            if fault in ("429", "503"):
                self.send_response(int(fault))
                self.send_header("Retry-After", {"429": "²", "503": formatdate(1)}[fault])
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if fault in ("204", "302", "404", "loop", "ftp") or self.path == "/moved/a.bin":
                self.send_response(int(fault) if fault.isdecimal() else 302)
                if fault in ("", "loop", "ftp"):
                    self.send_header("Location", "ftp://127.0.0.1/b.bin" if fault == "ftp" else "/a.bin")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = CONTENT if fault != "wrong bytes" else CONTENT[:-1] + b"?"
            start = 0
            if fault == "page":
                body = b"<!doctype html><title>Sign in</title>"
            if fault.startswith("packed"):
                body = gzip.compress(CONTENT, 1)
                body = body[: len(body) // 2] if fault == "packed, cut" else body
            if fault in ("zlib", "raw deflate"):
                packer = zlib.compressobj(wbits=zlib.MAX_WBITS * (1 if fault == "zlib" else -1))
                body = packer.compress(CONTENT) + packer.flush()
            if fault == "unasked":
                body = body[:1000]
                self.send_response(206)
                self.send_header("Content-Range", f"bytes 0-999/{len(CONTENT)}")
            elif self.headers["Range"] and self.headers["If-Range"] in state.headers.values() and fault != "all":
                start = int(self.headers["Range"][6:-1]) - (1000 if fault == "other range" else 0)
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            else:
                self.send_response(200)
            length = len(body) - start + (1000 if fault == "wrong length" else 0)
            if fault != "no length":
                self.send_header("Content-Length", "many" if fault == "no number" else str(length))
            if fault == "page":
                self.send_header("Content-Type", "text/html; charset=utf-8")
            if fault.startswith("packed") or fault in ENCODINGS:
                self.send_header("Content-Encoding", ENCODINGS.get(fault, "gzip"))
            if self.path == "/get?id=7":
                self.send_header("Content-Disposition", state.name)
            for name, value in state.headers.items():
                self.send_header(name, '"new"' if fault == "other tag" else value)
            self.end_headers()
            stop = len(body) // 2 if fault in ("cut", "other tag") else len(body)
            self.wfile.write(body[start:stop])
            self.close_connection = True

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        state.url = f"http://127.0.0.1:{http.server_port}"
        yield state
        http.shutdown()


@pytest.mark.parametrize("fault", ["zlib", "raw deflate", "aws-chunked", "binary", "empty"])
def test_encodings_of_an_answer(server: Server, tmp_path: Path, fault: str) -> None:
    """Servers send deflate with and without a header, and names that mean no compression."""
    server.faults = [fault]
    assert manager(tmp_path).download(f"{server.url}/a.bin").read_bytes() == CONTENT


def manager(directory: Path, **settings: Any) -> DownloadManager:
    return DownloadManager(DownloadSettings(directory / "downloads", **settings))


@pytest.mark.parametrize(
    "faults",
    [
        [],
        ["cut"],
        ["cut", "cut", "429", "cut"],
        ["503", "429"],
        ["wrong length"],
        ["cut", "other tag"],
        ["cut", "other range"],
        ["cut", "all"],
        ["unasked"],
        ["packed"],
        ["cut", "packed"],
        ["packed, cut", "packed"],
        ["no length"],
        ["no number"],
    ],
    ids=",".join,
)
@pytest.mark.parametrize("known", [True, False])
def test_a_file_is_right_whatever_the_server_does_first(
    server: Server, tmp_path: Path, faults: list[str], known: bool
) -> None:
    url = f"{server.url}/a.bin"
    checksums = {url: Checksum(len(CONTENT), SHA256)} if known else {}
    server.faults = list(faults)
    path = manager(tmp_path, checksums=checksums).download(url)
    assert path.read_bytes() == CONTENT
    assert [file.name for file in path.parent.iterdir() if file.suffix != ".sha256"] == [path.name]
    asked = len(server.ranges)
    assert manager(tmp_path, checksums=checksums).download(url) == path
    assert len(server.ranges) == asked


def test_what_was_cut_goes_on_where_it_stopped(server: Server, tmp_path: Path) -> None:
    server.faults = ["cut"]
    manager(tmp_path).download(f"{server.url}/a.bin")
    first, second = server.ranges
    assert first is None
    assert second is not None
    assert 0 <= len(CONTENT) // 2 - int(second[len("bytes=") : -1]) < 1 << 16


@pytest.mark.parametrize(
    "headers, is_continued",
    [
        ({"Last-Modified": formatdate(1_000_000_000, usegmt=True)}, True),
        ({"Last-Modified": formatdate(time.time() + 3600, usegmt=True)}, False),  # newer than the answer
        ({"Last-Modified": formatdate(1_000_000_000, usegmt=True), "ETag": 'W/"weak"'}, False),
        ({"Last-Modified": "yesterday"}, False),
        ({}, False),
    ],
    ids=["date", "new", "weak", "no date", "nothing"],
)
def test_without_an_etag_the_time_of_the_last_change_identifies_a_file(
    server: Server, tmp_path: Path, caplog: Any, headers: dict[str, str], is_continued: bool
) -> None:
    server.faults, server.headers = ["cut"], headers
    assert manager(tmp_path).download(f"{server.url}/a.bin").read_bytes() == CONTENT
    assert server.ranges[0] is None
    assert (server.ranges[1] is not None) == is_continued
    said = (
        f"{server.url}/a.bin: fetched from its beginning, because the server sent neither an ETag nor a Last-Modified"
    )
    assert (said in caplog.text) != is_continued


def test_a_file_that_changed_is_fetched_anew_and_that_is_said(server: Server, tmp_path: Path, caplog: Any) -> None:
    server.faults = ["cut", "all"]
    assert manager(tmp_path).download(f"{server.url}/a.bin").read_bytes() == CONTENT
    assert "the server sends it from its beginning: it has changed, or parts are not sent" in caplog.text


def test_a_file_whose_checksum_was_just_registered_is_used(server: Server, tmp_path: Path) -> None:
    url, checksums = f"{server.url}/get?id=7", tmp_path / "checksums.tsv"
    first = manager(tmp_path, register_to=checksums).download(url)
    second = manager(tmp_path, checksums=downloads.read_checksums(checksums)).download(url)
    assert (second, len(server.ranges)) == (first, 1)


def test_a_file_stays_until_the_one_to_register_is_there(server: Server, tmp_path: Path, monkeypatch: Any) -> None:
    """Another process that registers it just has it in use, or is faster."""
    url, checksums = f"{server.url}/get?id=7", tmp_path / "checksums.tsv"
    path = manager(tmp_path, register_to=checksums).download(url)
    server.faults = ["404"]
    with raises_with(DownloadError, path=url, got=["404"]):
        manager(tmp_path, register_to=checksums).download(url)
    assert path.read_bytes() == CONTENT
    locked, others = storage.locked, [manager(tmp_path, register_to=checksums)]

    def wait(lock: Path) -> Any:
        if lock == checksums:
            return locked(lock)
        assert path.is_file()
        for _ in range(len(others)):
            others.pop().download(url)
        return locked(lock)

    monkeypatch.setattr("beam_datasets.storage.locked", wait)
    assert manager(tmp_path, register_to=checksums).download(url) == path
    assert len(server.ranges) == 3
    server.name = 'attachment; filename="b.json.gz"'
    renamed = manager(tmp_path, register_to=checksums).download(url)
    assert [file for file in path.parent.iterdir() if not file.name.startswith(".")] == [renamed]


def test_a_url_is_no_directory_of_downloads() -> None:
    settings: Any = {"download_dir": "gs://bucket/downloads"}
    with pytest.raises(ValueError, match="download_dir: expected a path of this machine"):
        DownloadSettings(**settings)


def test_settings_with_directories_as_text(server: Server, tmp_path: Path) -> None:
    settings: Any = {"download_dir": str(tmp_path / "downloads"), "manual_dir": str(tmp_path / "by hand")}
    path = DownloadManager(DownloadSettings(**settings)).download(f"{server.url}/a.bin")
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    "faults, checksum, got, attempts",
    [
        (["404"], None, "404", 1),
        (["204"], None, "status 204", 1),
        (["302"], None, "status 302", 1),
        (["loop"] * 99, None, "Exceeded 30 redirects", 1),
        (["503"] * 10, None, "status 503", 6),
        (["wrong length"] * 10, None, "1000 more expected", 6),
        (["wrong bytes"], Checksum(len(CONTENT), SHA256), "sha256", 1),
        ([], Checksum(5, SHA256), f"{len(CONTENT):,}", 1),
    ],
    ids=["404", "204", "302", "loop", "503", "wrong length", "wrong bytes", "wrong size"],
)
def test_an_error_leaves_nothing_that_could_be_used(
    server: Server, tmp_path: Path, faults: list[str], checksum: Checksum | None, got: str, attempts: int
) -> None:
    url = f"{server.url}/a.bin"
    server.faults = list(faults)
    with raises_with(DownloadError, path=url, got=[got], mentions=[f"in {attempts} attempts"] if attempts > 1 else []):
        manager(tmp_path, checksums={url: checksum} if checksum else {}).download(url)
    assert len(server.ranges) == attempts * (31 if "loop" in faults else 1)
    assert not [file for file in (tmp_path / "downloads").rglob("*") if not file.name.endswith((".part", ".etag"))]


def test_answers_that_are_not_the_file(server: Server, tmp_path: Path) -> None:
    """A page instead of a file, unless the URL may be one of a page; and an encoding that was not asked for."""
    for fault, got in (("page", ["an HTML page"]), ("br", ["Content-Encoding 'br'"])):
        server.faults = [fault]
        with raises_with(DownloadError, path=f"{server.url}/a.bin", got=got):
            manager(tmp_path).download(f"{server.url}/a.bin")
    server.faults = ["page"]
    assert manager(tmp_path).download(f"{server.url}/a.html").read_bytes().startswith(b"<!doctype html>")
    assert manager(tmp_path).download(f"{server.url}/a.bin").read_bytes() == CONTENT


def test_a_refused_connection_is_tried_less_often_and_said(tmp_path: Path, server: Server, caplog: Any) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/a.bin"
        with raises_with(DownloadError, path=url, got=["refused"], mentions=["in 3 attempts"]):
            manager(tmp_path).download(url)
    assert [record.getMessage().startswith(url) for record in caplog.records] == [True] * 2
    assert "Trying again in" in caplog.text


@pytest.mark.parametrize(
    "url, error, words",
    [
        ("", DownloadError, "expected a URL or a path, got ''"),
        (["x", " "], DownloadError, "does not exist|got ' '"),
        (b"http://x", TypeError, "b'http://x' of type bytes"),
        ("s3://bucket/a.zip", DownloadError, r"^s3://bucket/a.zip: expected a URL that begins with http://"),
        ("foo://x", DownloadError, "manual_dir"),
    ],
)
def test_what_is_no_url_is_named(tmp_path: Path, url: Any, error: type[Exception], words: str) -> None:
    for download in (manager(tmp_path).download, manager(tmp_path).download_and_extract):
        with pytest.raises(error, match=words):
            download(url)


def test_a_scheme_of_a_redirect_or_a_proxy_is_not_that_of_the_url(
    tmp_path: Path, server: Server, monkeypatch: Any
) -> None:
    """The message named the schemes of http, which the URL has."""
    server.faults = ["ftp", "ftp"]
    for url in (f"{server.url}/a.bin", f"{server.url}/a.bin".replace("http:", "HTTP:")):
        with raises_with(DownloadError, path=url, got=["'ftp://127.0.0.1/b.bin'"]):
            manager(tmp_path).download(url)
    monkeypatch.setattr("requests.adapters.SOCKSProxyManager", _without_socks)
    for scheme in ("http", "https"):
        monkeypatch.setenv(f"{scheme}_proxy", "socks5://127.0.0.1:9")
        with raises_with(DownloadError, path=f"{scheme}://example.com/a.zip", got=["SOCKS"]):
            manager(tmp_path).download(f"{scheme}://example.com/a.zip")


def _without_socks(*args: Any, **kwargs: Any) -> None:
    """Raises the error of requests without PySocks."""
    raise requests.exceptions.InvalidSchema("Missing dependencies for SOCKS support.")


def test_secrets_of_a_url_are_left_out_of_what_is_logged(tmp_path: Path, caplog: Any) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with raises_with(DownloadError, path=f"http://***@{address}/a.bin?sig=***"):
            manager(tmp_path).download(f"http://me:hunter2@{address}/a.bin?sig=hunter2")
    logged = [record.getMessage() for record in caplog.records if record.name.startswith("beam_datasets")]
    assert [message.startswith(f"http://***@{address}/a.bin?sig=***: ") for message in logged] == [True] * 2


class Fetched(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[misc, name-defined]
    VERSION = "1.0.0"
    MAX_SIMULTANEOUS_DOWNLOADS = 1

    def __init__(self, *, urls: list[str], **kwargs: Any) -> None:
        self._urls = urls
        super().__init__(**kwargs)

    def _info(self) -> Any:
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict({"size": np.int64}))

    def _split_generators(self, dl_manager: Any) -> Any:
        return {"train": [(path.name, {"size": path.stat().st_size}) for path in dl_manager.download(self._urls)]}


def test_a_builder_that_downloads(server: Server, tmp_path: Path, monkeypatch: Any) -> None:
    asked, get = [], requests.get
    monkeypatch.setattr(requests, "get", lambda url, **options: asked.append(options["verify"]) or get(url, **options))
    elsewhere = Fetched(data_dir=tmp_path / "first", urls=[f"{server.url}/a.bin"]).elsewhere(tmp_path / "second")
    assert elsewhere.split_generators(None)["train"][0][1] == {"size": len(CONTENT)}
    assert [path.name for path in tmp_path.iterdir()] == ["first"]
    asked.clear()
    builder = Fetched(data_dir=tmp_path, urls=[f"{server.url}/a.bin", f"{server.url}/b.bin"])
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(verify_ssl=False), num_workers=1)
    assert builder.info.download_size == bd.builder("fetched", data_dir=tmp_path).info.download_size == 2 * len(CONTENT)
    assert asked == [False, False]


def test_checksums_of_older_builders(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(tfds, "_CHECKSUM_DIRS", [])
    assert Fetched.checksums_file() == Path(__file__).parent / "checksums.tsv"
    tfds.download.add_checksums_dir(tmp_path)
    assert Fetched.checksums_file() == Path(__file__).parent / "checksums.tsv"
    (tmp_path / "fetched.txt").touch()
    assert Fetched.checksums_file() == tmp_path / "fetched.txt"


def test_structures_redirects_and_names(server: Server, tmp_path: Path) -> None:
    a, b = f"{server.url}/moved/a.bin", f"{server.url}/b.bin?x=1"
    found = manager(tmp_path).download({"a": [a, (b, Resource(a))], "b": b})
    assert found["a"][0] == found["a"][1][1]
    assert found["a"][1][0] == found["b"] != found["a"][0]
    assert found["b"].name.endswith("-b.bin")
    with pytest.raises(TypeError, match="needed: a URL"):
        manager(tmp_path).download([5])


def test_the_name_that_a_server_sends_is_kept_and_says_how_to_unpack(server: Server, tmp_path: Path) -> None:
    url = f"{server.url}/get?id=7"
    path = manager(tmp_path).download(url)
    assert path.name.endswith("-a.json.gz")
    assert path.parent == tmp_path / "downloads"
    assert manager(tmp_path, offline=True).download(url) == path
    with raises_with(DownloadError, path=str(path), expected="an archive"):  # no gzip, as the name says
        manager(tmp_path).download_and_extract(url)
    assert len(server.ranges) == 1
    known = {url: Checksum(len(CONTENT), SHA256, "b.txt")}
    assert manager(tmp_path, checksums=known).download_and_extract(url).name.endswith("-b.txt")


@pytest.mark.parametrize("name", ["x.part", "..", "€" * 300 + ".gz"])
def test_names_that_a_server_sends_are_names_of_files(server: Server, tmp_path: Path, name: str) -> None:
    url, server.name = f"{server.url}/get?id=7", f"attachment; filename*=UTF-8''{urllib.parse.quote(name)}"
    path = manager(tmp_path).download(url)
    assert manager(tmp_path).download(url) == path
    assert [file.name for file in path.parent.iterdir() if file.suffix != ".sha256"] == [path.name]
    assert path.name.endswith(name[-20:])
    assert len(server.ranges) == 1


def test_a_redirect_to_http_needs_a_checksum(server: Server, tmp_path: Path, monkeypatch: Any) -> None:
    url, get = "https://secure/a.bin", requests.get
    monkeypatch.setattr(requests, "get", lambda _, **options: get(f"{server.url}/moved/a.bin", **options))
    with raises_with(DownloadError, path=url, got=f"{server.url}/moved/a.bin"):
        manager(tmp_path).download(url)

    def there_and_back(_: str, **options: Any) -> requests.Response:
        answer = get(f"{server.url}/moved/a.bin", **options)
        answer.url = url
        return answer

    monkeypatch.setattr(requests, "get", there_and_back)
    with raises_with(DownloadError, path=url, got=f"{server.url}/moved/a.bin"):
        manager(tmp_path).download(url)
    known = {url: Checksum(len(CONTENT), SHA256)}
    assert manager(tmp_path, checksums=known).download(url).read_bytes() == CONTENT


def test_checksums_are_registered_then_enforced(server: Server, tmp_path: Path) -> None:
    url, file = f"{server.url}/a.bin", tmp_path / "checksums.tsv"
    manager(tmp_path, register_to=file).download([url, f"{server.url}/b.bin"])
    assert file.read_text().splitlines()[0] == f"{url}\t{len(CONTENT)}\t{SHA256}\ta.bin"
    known = read_checksums(file)
    server.faults = ["wrong bytes"]
    with raises_with(DownloadError, path=url, expected=[SHA256], got=["sha256"]):
        manager(tmp_path / "other", checksums=known).download(url)
    manager(tmp_path, checksums=known).download(f"{server.url}/c.bin")
    with raises_with(DownloadError, path=f"{server.url}/c.bin", advice=["--register_checksums"]):  # also if it is there
        manager(tmp_path, checksums=known, force_checksums=True).download(f"{server.url}/c.bin")
    server.faults = ["wrong bytes"]  # the server has another file now: it is fetched and recorded again
    manager(tmp_path, checksums=known, register_to=file).download(url)
    assert read_checksums(file)[url] != known[url]
    file.write_text("only a line\n")
    with raises_with(DownloadError, path=str(file), line=1, got="'only a line'"):
        read_checksums(file)


def test_runs_that_register_checksums_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each keeps the lines of the others: it reads the file again when no other can write it."""
    file, reads = tmp_path / "checksums.tsv", threading.Barrier(4, timeout=0.2)
    recorded = {f"http://host/{i}": Checksum(i, SHA256, f"{i}.bin") for i in range(8)}

    def read_with_others(path: Path) -> Any:
        checksums = read_checksums(path)
        with contextlib.suppress(threading.BrokenBarrierError):
            reads.wait()  # for others that read before this one writes
        return checksums

    monkeypatch.setattr("beam_datasets.downloads.checksums.read_checksums", read_with_others)
    with ThreadPoolExecutor(4) as executor:
        list(executor.map(lambda url: add_checksums(file, {url: recorded[url]}), recorded))
    assert read_checksums(file) == recorded


def test_checksums_that_cannot_be_registered(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("a file")
    with pytest.raises(StorageError, match=r"folder/checksums.tsv"):
        add_checksums(tmp_path / "folder" / "checksums.tsv", {})


def fetch(url: str, directory: Path) -> None:
    assert manager(directory).download(url).read_bytes() == CONTENT


def test_processes_do_not_share_a_partial_file(server: Server, tmp_path: Path) -> None:
    server.faults = ["cut"] * 4
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=fetch, args=(f"{server.url}/a.bin", tmp_path)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    assert [process.exitcode for process in processes] == [0] * 4


def test_on_a_worker_nothing_is_fetched(server: Server, tmp_path: Path) -> None:
    url = f"{server.url}/a.bin"
    with raises_with(DownloadError, path=re.compile(r"-a\.bin$"), mentions=[url], advice=["download_dir"]):
        manager(tmp_path, offline=True).download(url)
    path = manager(tmp_path).download(url)
    assert manager(tmp_path, offline=True).download(url) == path


def test_the_manual_directory(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for manual_dir, problem in (None, "does not exist"), (tmp_path / "empty", "is empty"):
        path = str(manual_dir or tmp_path / "downloads" / "manual")
        with raises_with(DownloadError, path=path, mentions=[f"the directory {problem}"], advice=["Ask the author."]):
            _ = manager(tmp_path, instructions="Ask the author.", manual_dir=manual_dir).manual_dir
    (tmp_path / "by_hand").mkdir()
    (tmp_path / "by_hand" / "a.bin").write_bytes(CONTENT)
    found = manager(
        tmp_path, manual_dir=tmp_path / "by_hand", checksums={"http://x/y": Checksum(len(CONTENT), SHA256, "a.bin")}
    )
    assert found.download("http://x/y") == found.manual_dir / "a.bin"


def test_a_changed_file_of_the_manual_directory_is_recorded(tmp_path: Path) -> None:
    by_hand = tmp_path / "by-hand" / "a-b.bin"
    by_hand.parent.mkdir()
    by_hand.write_bytes(b"changed")
    settings: dict[str, Any] = {
        "manual_dir": by_hand.parent,
        "checksums": {"http://x/y": Checksum(len(CONTENT), SHA256, "a-b.bin")},
    }
    with raises_with(
        DownloadError, path=str(by_hand), expected=["http://x/y", SHA256], advice=["--register_checksums"]
    ):
        manager(tmp_path, **settings).download("http://x/y")
    assert manager(tmp_path, register_to=tmp_path / "checksums.tsv", **settings).download("http://x/y") == by_hand
    recorded = Checksum(7, hashlib.sha256(b"changed").hexdigest(), "a-b.bin")
    assert read_checksums(tmp_path / "checksums.tsv") == {"http://x/y": recorded}


class ByHand(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[misc, name-defined]
    VERSION = "1.0.0"
    MANUAL_DOWNLOAD_INSTRUCTIONS = "Ask the author."
    _info = Fetched._info

    def _split_generators(self, dl_manager: Any) -> Any:
        return {"train": self._generate_examples(dl_manager.manual_dir / "a.bin")}

    def _generate_examples(self, path: Path) -> Any:
        yield 0, {"size": path.stat().st_size}


def test_a_file_that_is_missing_in_the_manual_directory(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    with raises_with(DownloadError, mentions=["a.bin'"], advice=["--manual_dir", "Ask the author."]):
        ByHand(data_dir=tmp_path / "data").build(manual_dir=tmp_path, num_workers=1)


def test_checksums_that_a_builder_does_not_use_do_not_hide_its_error(tmp_path: Path) -> None:
    class Failing(ByHand, skip_registration=True):  # type: ignore[misc, call-arg]
        def _split_generators(self) -> Any:
            raise KeyError("its own")

        @classmethod
        def checksums_file(cls) -> Path:
            return tmp_path / "checksums.tsv"

    (tmp_path / "checksums.tsv").write_text("damaged")
    with pytest.raises(KeyError, match="its own"):
        Failing(data_dir=tmp_path / "data").build(num_workers=1)


def test_a_file_without_a_recorded_checksum_is_hashed_once(server: Server, tmp_path: Path, monkeypatch: Any) -> None:
    hashed: list[Path] = []
    module = "beam_datasets.downloads.checksums"
    monkeypatch.setattr(f"{module}.compute_sha256", lambda path: hashed.append(path) or compute_sha256(path))
    url = f"{server.url}/a.bin"
    paths = [manager(tmp_path).download(url) for _ in range(3)]
    assert (set(paths), len(hashed)) == ({paths[0]}, 1)
    paths[0].write_bytes(CONTENT + b"more")  # its size and time differ
    last = manager(tmp_path)
    last.download(url)
    assert last._fetched[url].sha256 == hashlib.sha256(CONTENT + b"more").hexdigest()
    kept = next(paths[0].parent.glob(".*.sha256"))
    kept.write_bytes(b"\xff damaged")
    last.download(url)
    assert len(hashed) == 3


def test_a_file_of_this_machine_that_has_changed(tmp_path: Path) -> None:
    path, checksums = tmp_path / "a.txt", tmp_path / "checksums.tsv"
    path.write_text("old")
    recorded = {path.as_uri(): downloads.Checksum(3, hashlib.sha256(b"old").hexdigest())}
    settings = downloads.DownloadSettings(download_dir=tmp_path / "downloads", checksums=recorded)
    assert settings.manager().download(path.as_uri()) == path
    path.write_text("new")
    changed = f"sha256 {hashlib.sha256(b'new').hexdigest()}"
    with raises_with(DownloadError, path=str(path), got=changed, advice=["--register_checksums"]):
        settings.manager().download(path.as_uri())
    manager = replace(settings, register_to=checksums).manager()
    assert manager.download(path.as_uri()) == path
    assert downloads.read_checksums(checksums)[path.as_uri()].sha256 == hashlib.sha256(b"new").hexdigest()


def test_a_manager_is_made_of_settings(tmp_path):
    for call in (
        lambda: DownloadManager(str(tmp_path)),
        lambda: DownloadManager(tmp_path),
        lambda: DownloadManager(download_dir=str(tmp_path)),
    ):
        with pytest.raises(TypeError, match=r"\(DownloadSettings\(download_dir=pathlib\.Path\(") as caught:
            call()
        assert str(tmp_path) in str(caught.value) or "str(tmp_path)" in str(caught.value)
    (tmp_path / "a.txt").write_text("a")
    assert DownloadManager(DownloadSettings(download_dir=tmp_path)).download(str(tmp_path / "a.txt"))


def test_a_file_as_the_manual_directory(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"")
    with raises_with(DownloadError, path=str(tmp_path / "a.zip"), mentions=["is a file"], advice=["--manual_dir"]):
        _ = manager(tmp_path, manual_dir=tmp_path / "a.zip").manual_dir


def test_files_at_file_urls_count_as_downloaded(tmp_path: Path) -> None:
    """As in TFDS, whether checksums are recorded or not; a file that is requested twice counts once."""
    for name, content in ("a.bin", CONTENT), ("b.bin", b"12345"):
        (tmp_path / name).write_bytes(content)
    downloads = manager(tmp_path)
    downloads.download([(tmp_path / name).as_uri() for name in ("a.bin", "b.bin", "a.bin")])
    assert downloads.downloaded_size == len(CONTENT) + 5
    downloads.download(tmp_path / "b.bin")
    assert downloads.downloaded_size == len(CONTENT) + 5
