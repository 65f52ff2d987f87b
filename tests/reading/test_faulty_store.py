"""Reading from a web server that flips bits, cuts answers off, drops and delays them: right, cached or not."""

from __future__ import annotations

import functools
import http.server
import random
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

import beam_datasets as bd
from beam_datasets.errors import CorruptRecordError, MetadataError
from beam_datasets.storage import caching
from tests.facts import raises_with
from tests.published import flip
from tests.storage.conftest import RangeHandler

pytest.importorskip("obstore")
LENGTHS = [30, 2, 17]


class FaultyHandler(RangeHandler):
    """Answers requests whose path contains `paths`, of shards and indexes, with faults, by turns or by chance."""

    faults: ClassVar[list[str]] = []
    paths = ".tfrecord"
    share = 0.0
    draw = random.Random(0)
    sent: ClassVar[list[str]] = []

    def do_GET(self) -> Any:
        fault = ""
        if self.paths in self.path:
            if self.faults:
                fault = self.faults.pop(0)
            elif self.draw.random() < self.share:
                fault = self.draw.choice(["flip", "cut", "drop", "delay"])
        self.sent.append(self.path)
        if fault == "drop":
            self.close_connection = True
            return None
        if fault == "delay":
            time.sleep(0.05)
        if fault in ("flip", "cut"):
            self.wfile = _Changed(self.wfile, fault, self.draw)  # type: ignore[assignment]
        return super().do_GET()

    def copyfile(self, source: Any, outputfile: Any) -> None:
        self.wfile.write(source.read())


class _Changed:
    """Passes on what is written, but for the body of an answer, which comes last and is cut off, or has another bit."""

    def __init__(self, out: Any, fault: str, draw: random.Random) -> None:
        self.out, self.fault, self.draw = out, fault, draw

    def write(self, data: bytes) -> None:
        if data.startswith(b"HTTP/"):
            self.out.write(data)
        elif self.fault == "cut":
            self.out.write(data[: len(data) // 2])
        else:
            changed = bytearray(data)
            if changed:
                changed[self.draw.randrange(len(changed))] ^= 1 << self.draw.randrange(8)
            self.out.write(bytes(changed))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.out, name)


@pytest.fixture(params=[True, False], ids=["indexed", "without index"])
def local(write: Any, request: pytest.FixtureRequest) -> Path:
    return Path(write({"train": LENGTHS}, size=90, manifest=True, indexed=request.param))


@pytest.fixture
def remote(local: Path) -> Iterator[str]:
    """The URL of the dataset at a web server whose faults a test sets."""
    FaultyHandler.faults.clear()
    FaultyHandler.share, FaultyHandler.draw = 0.0, random.Random(1)
    root = local.parents[1]
    handler = functools.partial(FaultyHandler, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        thread = threading.Thread(target=web.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{web.server_address[1]}/{local.relative_to(root)}"
        web.shutdown()
        thread.join()


@pytest.fixture(params=[True, False], ids=["cache", "no cache"])
def cache(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path | None:
    monkeypatch.setattr(caching, "PIECE_BYTES", 700)
    if not request.param:
        monkeypatch.delenv("BEAM_DATASETS_CACHE_DIR", raising=False)
        return None
    monkeypatch.setenv("BEAM_DATASETS_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def records(directory: Any, shuffled: bool = False) -> list[bytes]:
    dataset = bd.builder_from_directory(directory).as_dataset("train").raw()
    return list(dataset.shuffle(1) if shuffled else dataset)


@pytest.mark.parametrize("shuffled,fault", [(False, "flip"), (True, "flip"), (False, "cut")])
def test_one_fault_anywhere(local: Path, remote: str, cache: Path | None, fault: str, shuffled: bool) -> None:
    """Each answer has the fault once; afterwards the cache has what the store has."""
    expected, place = records(local, shuffled), 0
    while True:
        FaultyHandler.faults[:] = [""] * place + [fault]
        assert records(remote, shuffled) == expected
        if cache is not None:
            FaultyHandler.faults.clear()
            assert records(remote, shuffled) == expected
            for piece in cache.glob("*/*-*"):
                piece.unlink()
        elif FaultyHandler.faults:  # there were fewer answers
            return
        place += 1
        if place > 7:
            return


def test_faults_in_metadata(local: Path, remote: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FaultyHandler, "paths", ".json")
    expected = records(local)
    for place in range(4):
        for faults in (["flip"], ["flip", "flip"], ["cut"], ["drop"]):
            FaultyHandler.faults[:] = [""] * place + faults
            assert records(remote) == expected
    features = (local / "features.json").read_bytes()
    (local / "features.json").write_text("{}")
    FaultyHandler.faults.clear()
    FaultyHandler.sent.clear()
    with raises_with(MetadataError, path=f"{remote}/features.json", expected=["SHA-256", "manifest.json"]):
        records(remote)
    (local / "features.json").write_bytes(features)
    assert (
        sum(path.endswith("features.json") for path in FaultyHandler.sent) == 3
    )  # the first may be damaged on the way


def test_many_reads_of_a_faulty_store(local: Path, remote: str, cache: Path | None) -> None:
    expected = records(local)
    FaultyHandler.share = 0.1
    for number in range(4):
        assert records(remote, number % 2 == 1) == (records(local, True) if number % 2 else expected)
        if cache is not None and number % 3 == 2:
            for piece in list(cache.glob("*/*-*"))[::2]:
                piece.unlink()
    FaultyHandler.share = 0.0
    assert records(remote) == expected


@pytest.mark.slow
def test_five_hundred_reads_of_a_faulty_store(local: Path, remote: str, cache: Path | None) -> None:
    expected = records(local)
    FaultyHandler.share = 0.1
    for number in range(130):  # for each of four parameters
        assert records(remote) == expected
        if cache is not None:
            for piece in list(cache.glob("*/*-*"))[number % 3 :: 3]:
                piece.unlink()
    FaultyHandler.share = 0.0
    assert records(remote) == expected


def test_damage_in_the_store_is_blamed_on_it(write: Any, tmp_path: Path, cache: Path | None) -> None:
    """After it was asked twice: with the same bytes each time."""
    import shutil

    good = Path(write({"train": LENGTHS}, size=90, manifest=True))
    damaged = Path(shutil.copytree(good, tmp_path / "d" / "1.0.0"))
    shard = next(damaged.glob("*00002-of-00003"))
    handler = functools.partial(FaultyHandler, directory=str(damaged.parents[1]))
    FaultyHandler.faults.clear()
    FaultyHandler.share = 0.0
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        threading.Thread(target=web.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{web.server_address[1]}/d/1.0.0"
        flip(shard, shard.stat().st_size // 2)
        with raises_with(CorruptRecordError, record=re.compile(r"\d"), advice=["beam-datasets verify"]):
            records(url)
        index = Path(f"{shard}.index")
        flip(index, 60)
        FaultyHandler.sent.clear()
        if cache is not None:
            for piece in cache.glob("*/*-*"):
                piece.unlink()
        with raises_with(MetadataError, mentions=[index.name]):
            records(url)
        assert sum(index.name in path for path in FaultyHandler.sent) > 1
        web.shutdown()
