"""Datasets on object stores: real servers on loopback, also unreliable ones; races, and publishers that are killed."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import beam_datasets as bd
from beam_datasets import catalog, storage
from beam_datasets.storage import objects
from tests.end_to_end.numbers_dataset import Numbers
from tests.engines.object_stores import ObjectStore, object_store
from tests.writing.test_claims import race

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("obstore")
COUNT = 5_000
SHARDS = {"train": 5, "test": 2}
ROOT = Path(__file__).parents[2]


def use(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets this process, and those that it starts, find a store."""
    for name, value in store.env.items():
        monkeypatch.setenv(name, value)
    objects._store.cache_clear()


@pytest.fixture(params=["s3", "gs"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with object_store(request.param, tmp_path) as running:
        use(running, monkeypatch)
        yield running


@pytest.fixture(params=["s3", "gs"])
def flaky(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with object_store(request.param, tmp_path, fail=0.1, stall=0.02) as running:
        use(running, monkeypatch)
        yield running


def digests(directory: str) -> dict[str, str]:
    """Returns {file name: sha256} of a published directory, without the report of the run."""
    names = [name for name in storage.list_dir(directory) if name != "run.json"]
    return {name: hashlib.sha256(storage.read_bytes(storage.join(directory, name))).hexdigest() for name in names}


def build(data_dir: str, **options: object) -> str:
    return Numbers(data_dir=data_dir, count=COUNT).build(num_shards=SHARDS, **options)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The dataset on this machine's disk."""
    return build(str(tmp_path_factory.mktemp("local")), num_workers=1)


@pytest.mark.parametrize("options", [{"num_workers": 2}, {"num_workers": 1, "payload": "inline"}], ids=str)
def test_the_bytes_are_those_of_a_local_disk(store: ObjectStore, local: str, options: dict[str, object]) -> None:
    directory = build(f"{store.url}/data", **options)
    assert digests(directory) == digests(local)
    assert storage.list_dir(f"{store.url}/data/numbers") == ["1.0.0"]
    with pytest.raises(bd.errors.AlreadyPublishedError):
        build(f"{store.url}/data")


def test_reading_is_as_from_a_local_disk(store: ObjectStore, local: str) -> None:
    build(f"{store.url}/data", num_workers=1)
    for split in ("train", "train[10%:30%]+test", "test[-7:]"):
        here = bd.builder_from_directory(local).as_dataset(split)
        there = bd.load("numbers", split=split, data_dir=f"{store.url}/data")
        assert [x["id"] for x in there] == [x["id"] for x in here]
        assert [x["text"] for x in there.shuffle(seed=3).take(50)] == [x["text"] for x in here.shuffle(seed=3).take(50)]
        assert there[5]["text"] == here[5]["text"]
    iterator = iter(there.shuffle(seed=1))
    next(iterator)
    after = iter(here.shuffle(seed=1))
    after.advance(1)
    assert next(iterator)["id"] == next(after)["id"]


def test_an_unreliable_store_loses_nothing(flaky: ObjectStore, local: str) -> None:
    directory = build(f"{flaky.url}/data", num_workers=2)
    assert digests(directory) == digests(local)
    here, there = (bd.builder_from_directory(place).as_dataset("train[:20%]+test") for place in (local, directory))
    assert [x["text"] for x in there] == [x["text"] for x in here]


@pytest.mark.parametrize("attempt", range(20))
def test_one_of_two_publishers_at_once_publishes(shared_store: ObjectStore, attempt: int) -> None:
    race(f"{shared_store.url}/race/{attempt}")


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store("s3", tmp_path_factory.mktemp("store")) as running, pytest.MonkeyPatch.context() as patch:
        use(running, patch)
        yield running


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.05, 0.1, 0.2])
def test_a_publisher_killed_while_it_publishes(shared_store: ObjectStore, local: str, seconds: float) -> None:
    data_dir = f"{shared_store.url}/killed/{seconds}"
    code = (
        "from tests.engines.test_object_stores import build; import sys\n"
        "if __name__ == '__main__': build(sys.argv[1], num_workers=1)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, data_dir], cwd=ROOT, start_new_session=True)
    claimed = storage.join(data_dir, "numbers/1.0.0/.publishing")
    while process.poll() is None and not storage.is_dir(claimed):
        time.sleep(0.005)
    time.sleep(seconds)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    directory = storage.join(data_dir, "numbers/1.0.0")
    if not catalog.is_published(directory):
        build(data_dir, num_workers=1)
    assert {name: digest for name, digest in digests(directory).items() if name != ".publishing"} == digests(local)


def test_what_is_wrong_is_said_with_the_url(store: ObjectStore, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(bd.errors.DatasetNotFoundError, match=f"in {store.url}/none"):
        bd.load("numbers", data_dir=f"{store.url}/none")
    missing = store.url.replace("datasets", "no-such-bucket")
    with pytest.raises(bd.errors.StorageError, match=f"^{missing}.*no bucket"):
        build(missing)
