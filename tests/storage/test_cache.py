"""The cache of remote files: what is asked of a server, the budget, damage, and processes that share it."""

import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from beam_datasets import storage
from beam_datasets.errors import StorageError
from beam_datasets.storage import caching
from beam_datasets.storage.caching import PIECE_BYTES, PieceCache, cached
from tests.facts import raises_with
from tests.processes import started
from tests.storage.conftest import RangeHandler

pytest.importorskip("obstore")
CONTENT = random.Random(0).randbytes(3 * PIECE_BYTES + 1000)
KEY = "0" * 40
ROOT = Path(__file__).parents[2]


@pytest.fixture
def url(server, tmp_path):
    """A file on a web server."""
    (tmp_path / "web" / "x").write_bytes(CONTENT)
    return f"{server}/x"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("BEAM_DATASETS_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def gets():
    return sum(method == "GET" for method, _ in RangeHandler.requests)


def pieces(folder):
    return sorted(path for path in folder.glob("*/*") if not storage.is_temporary(path.name))


def num_bytes(folder):
    return sum(path.stat().st_size for path in pieces(folder))


def open_cached(url):
    return cached(storage.open_reader(url))


def test_ranges_are_those_of_the_file(url, folder):
    draw = random.Random(1)
    ranges = [tuple(sorted(draw.choices(range(len(CONTENT) + 1), k=2))) for _ in range(40)]
    ranges += [(0, len(CONTENT)), (5, 5), (PIECE_BYTES, 2 * PIECE_BYTES), (len(CONTENT) - 1, len(CONTENT))]
    wanted = [CONTENT[start:stop] for start, stop in ranges]
    for _ in range(2):
        with open_cached(url) as reader:
            assert list(reader.read_many(ranges)) == wanted
            assert [bytes(reader.read(*span)) for span in ranges] == wanted
            with raises_with(StorageError, path=url, got=f"{len(CONTENT)}"):
                reader.read(0, len(CONTENT) + 1)
    assert len(pieces(folder)) == 4
    assert bytes(caching.read_all(url)) == CONTENT


def test_what_was_read_is_not_asked_for_again(url, folder):
    with open_cached(url) as reader:
        reader.read(10, 20)
        assert gets() == 1
        reader.read(0, PIECE_BYTES)
        assert gets() == 1
        reader.read()
    before = gets()
    with open_cached(url) as reader:
        assert bytes(reader.read()) == CONTENT
    assert gets() == before


def test_another_content_is_another_file(url, folder, tmp_path):
    with open_cached(url) as reader:
        reader.read(0, 10)
    (tmp_path / "web" / "x").write_bytes(b"1" * len(CONTENT))
    os.utime(tmp_path / "web" / "x", (1, 1))
    with open_cached(url) as reader:
        assert reader.read(0, 10) == b"1" * 10


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "swap", "gone"])
def test_a_damaged_piece_is_read_anew(url, folder, damage):
    with open_cached(url) as reader:
        assert bytes(reader.read()) == CONTENT
        first, second, *_ = pieces(folder)
        content = bytearray(first.read_bytes())
        if damage == "gone":
            first.unlink()
        elif damage == "swap":
            first.write_bytes(second.read_bytes())
        else:
            content[100] ^= 1
            first.write_bytes({"flip": content, "cut": content[:-9], "empty": b""}[damage])
        before = gets()
        for _ in range(2):
            assert bytes(reader.read()) == CONTENT
        assert gets() == before + 1
    assert len(pieces(folder)) == 4


def test_without_the_variable_nothing_is_kept(url, tmp_path, monkeypatch):
    monkeypatch.delenv("BEAM_DATASETS_CACHE_DIR", raising=False)
    reader = storage.open_reader(url)
    assert cached(reader) is reader
    assert not caching.is_on(url)


def test_local_files_and_memory_are_not_kept(folder, tmp_path):
    (tmp_path / "x").write_bytes(b"1")
    storage.write_bytes("memory://cache/x", b"1")
    for path in (str(tmp_path / "x"), "memory://cache/x"):
        with open_cached(path) as reader:
            assert not isinstance(reader, caching.CachedReader)
        assert not caching.is_on(path)


def test_the_least_lately_used_goes_first(tmp_path):
    cache = PieceCache(str(tmp_path), 10 * 1008)
    for number in range(10):
        cache.put(KEY, number, bytes(1000))
        os.utime(cache.path(KEY, number), ns=(0, number))
    assert cache.get(KEY, 0, 1000) == bytes(1000)
    cache.put(KEY, 10, bytes(1000))
    there = [number for number in range(11) if cache.get(KEY, number, 1000) is not None]
    assert there == [0, *range(3, 11)]
    cache.put(KEY, 11, bytes(20_000))
    assert cache.get(KEY, 11, 20_000) is None
    assert num_bytes(tmp_path) <= 10 * 1008


def test_the_count_is_made_anew_where_it_is_lost(tmp_path):
    cache = PieceCache(str(tmp_path), 5 * 1008)
    for number in range(20):
        (tmp_path / "bytes").write_text(["", "x", "-", "999999999"][number % 4])
        cache.put(KEY, number, bytes(1000))
        assert cache.get(KEY, number, 1000) == bytes(1000)
        assert num_bytes(tmp_path) <= 5 * 1008


def test_what_a_killed_process_left_is_removed(tmp_path):
    cache = PieceCache(str(tmp_path), 2 * 1008)
    cache.put(KEY, 0, bytes(1000))
    old, new = (tmp_path / "00" / f".tmp-{letter * 32}" for letter in "ab")
    for path in (old, new):
        path.write_bytes(b"part")
    os.utime(old, (time.time() - 1e5,) * 2)
    for number in (1, 2):
        cache.put(KEY, number, bytes(1000))
    assert not old.exists()
    assert new.exists()


def fill(directory, seed, budget):
    """Reads and writes pieces; returns how many bytes it saw at most."""
    cache, draw, seen = PieceCache(directory, budget), random.Random(seed), 0
    for _ in range(300):
        number = draw.randrange(40)
        data = number.to_bytes(2, "little") * 2000
        if (found := cache.get(KEY, number, len(data))) is None:
            cache.put(KEY, number, data)
        else:
            assert found == data
        with os.scandir(os.path.join(directory, "00")) as entries:
            names = [entry.path for entry in entries if not storage.is_temporary(entry.name)]
        seen = max(seen, len(names) * 4008)
    return seen


def test_the_budget_holds_for_processes_together(tmp_path):
    budget = 15 * 4008
    code = "import sys; from tests.storage.test_cache import fill; print(fill(sys.argv[1], *map(int, sys.argv[2:])))"
    with contextlib.ExitStack() as stack:
        commands = ([sys.executable, "-c", code, str(tmp_path), str(seed), str(budget)] for seed in range(2))
        processes = [stack.enter_context(started(command, cwd=ROOT, stdout=subprocess.PIPE)) for command in commands]
        most = [int(process.communicate()[0]) for process in processes]
    # A listing of a directory that another process changes may show the new name and the removed one.
    assert max(most) <= budget + 2 * 4008
    assert 0 < num_bytes(tmp_path) <= budget


def test_threads_may_share_a_reader(url, folder, monkeypatch):
    monkeypatch.setenv("BEAM_DATASETS_CACHE_BYTES", str(2 * PIECE_BYTES + 100))
    draw = random.Random(2)
    ranges = [(start, min(start + 5000, len(CONTENT))) for start in draw.choices(range(len(CONTENT)), k=100)]
    with open_cached(url) as reader, ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda span: bytes(reader.read(*span)), ranges))
    assert found == [CONTENT[start:stop] for start, stop in ranges]
    assert num_bytes(folder) <= 2 * PIECE_BYTES + 100


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_fetches_of_its_parent(tmp_path):
    (tmp_path / "x").write_bytes(CONTENT)
    cache = PieceCache(str(tmp_path / "cache"), 10 * PIECE_BYTES)
    with contextlib.ExitStack() as stack:
        for _ in range(caching._MAX_FETCHES):
            stack.enter_context(caching._fetching)
        if not (child := os.fork()):
            try:
                signal.alarm(20)
                reader = caching.CachedReader(storage.open_reader(tmp_path / "x"), cache)
                os._exit(0 if reader.fetch([0, 2]) else 1)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
    assert len(pieces(tmp_path / "cache")) == 2


def test_a_cache_that_cannot_be_written_costs_speed_and_one_warning(url, tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("BEAM_DATASETS_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with open_cached(url) as reader:
            for _ in range(2):
                assert bytes(reader.read()) == CONTENT
    assert [warning.category for warning in caught] == [caching.CacheWarning]
    assert str(tmp_path / "file" / "cache") in str(caught[0].message)


def test_a_full_disk_costs_speed(url, folder):
    """A limit of the size of files stands for a disk without room: the write fails with an OSError."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.warns(caching.CacheWarning, match="too large"), open_cached(url) as reader:
            assert bytes(reader.read()) == CONTENT
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert not pieces(folder)
    assert not list(folder.glob("*/.tmp-*"))


@pytest.mark.parametrize("text", ["10 GB", "-1", "1e9"])
def test_a_budget_that_is_no_number_is_an_error(url, folder, monkeypatch, text):
    monkeypatch.setenv("BEAM_DATASETS_CACHE_BYTES", text)
    with pytest.raises(ValueError, match=f"BEAM_DATASETS_CACHE_BYTES .*{text!r}"):
        open_cached(url)
