"""Datasets on object stores: real servers on loopback, also unreliable ones; races, and publishers that are killed."""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import beam_datasets as bd
from beam_datasets import storage
from beam_datasets.generate import runs
from beam_datasets.storage import objects
from tests.end_to_end.numbers_dataset import Numbers
from tests.engines.object_stores import ObjectStore, object_store
from tests.generate.test_runs import race
from tests.processes import started

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("obstore")
COUNT = 5_000
SHARDS = {"train": 5, "test": 2}
SECRET = "a-very-secret-access-key"
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


@pytest.mark.parametrize(
    "options",
    [{"num_workers": 2}, pytest.param({"num_workers": 1, "payload": "inline"}, marks=pytest.mark.slow)],
    ids=str,
)
def test_the_bytes_are_those_of_a_local_disk(store: ObjectStore, local: str, options: dict[str, object]) -> None:
    directory = build(f"{store.url}/data", **options)
    assert digests(directory) == digests(local)
    assert storage.list_dir(f"{store.url}/data/numbers") == ["1.0.0"]
    with pytest.raises(bd.errors.AlreadyPublishedError):
        build(f"{store.url}/data")


@pytest.mark.slow
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


@pytest.mark.slow
def test_an_unreliable_store_loses_nothing(flaky: ObjectStore, local: str) -> None:
    directory = build(f"{flaky.url}/data", num_workers=2)
    assert digests(directory) == digests(local)
    here, there = (bd.builder_from_directory(place).as_dataset("train[:20%]+test") for place in (local, directory))
    assert [x["text"] for x in there] == [x["text"] for x in here]


@pytest.mark.parametrize("attempt", range(4))
def test_one_of_two_publishers_at_once_publishes(shared_store: ObjectStore, attempt: int) -> None:
    race(f"{shared_store.url}/race/{attempt}")


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store("s3", tmp_path_factory.mktemp("store")) as running, pytest.MonkeyPatch.context() as patch:
        use(running, patch)
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("record", ["00000001.reservation.json", ".decision.json"])
@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.2, 0.8])
def test_a_publisher_killed_while_it_runs_or_publishes(
    shared_store: ObjectStore, local: str, record: str, seconds: float, tmp_path: Path
) -> None:
    """F7: the next run needs no waiting, and what the killed one spilled on this machine is removed."""
    data_dir = f"{shared_store.url}/killed/{record}/{seconds}"
    directory = storage.join(data_dir, "numbers/1.0.0")
    code = (
        "from tests.engines.test_object_stores import build; import sys\n"
        "if __name__ == '__main__': build(sys.argv[1], num_workers=1, spill_dir=sys.argv[2])"
    )

    def records() -> list[str]:
        folder = runs.runs_dir(directory)
        return storage.list_dir(folder) if storage.is_dir(folder) else []

    with started([sys.executable, "-c", code, data_dir, str(tmp_path)], cwd=ROOT) as process:
        while process.poll() is None and not any(name.endswith(record) for name in records()):
            time.sleep(0.005)
        time.sleep(seconds)  # then it is killed
    with contextlib.suppress(bd.errors.AlreadyPublishedError):  # this finishes a run that had decided to publish
        build(data_dir, num_workers=1)
    assert digests(directory) == digests(local)
    assert storage.list_dir(storage.join(data_dir, "numbers")) == ["1.0.0"]
    assert not list(tmp_path.glob("incomplete.*"))


@pytest.mark.slow
def test_what_is_wrong_is_said_with_the_url(store: ObjectStore, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(bd.errors.DatasetNotFoundError, match=f"in {store.url}/none"):
        bd.load("numbers", data_dir=f"{store.url}/none")
    missing = store.url.replace("datasets", "no-such-bucket")
    with pytest.raises(bd.errors.StorageError, match=f"^{missing}.*no bucket"):
        build(missing)


def options_for(store: ObjectStore) -> dict[str, object]:
    """Returns the storage_options that lead to a store that speaks S3."""
    env = store.env
    return {
        "endpoint": env["AWS_ENDPOINT"],
        "access_key_id": "an-access-key",
        "secret_access_key": SECRET,
        "region": env["AWS_REGION"],
        "retry_config": {"max_retries": 0},
    }


def put(directory: str, url: str, options: dict[str, object] | None = None) -> None:
    """Copies a published dataset to a bucket."""
    target = storage.with_options(f"{url}/data/numbers/1.0.0", options)
    for name in storage.list_dir(directory):
        storage.copy(storage.join(directory, name), storage.join(target, name))


def elsewhere(code: str, *arguments: str) -> str:
    """Returns what a new process prints."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True
    ).stdout


@pytest.mark.slow
def test_two_calls_have_each_their_own_options(local: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stores with a bucket of the same name; nothing in the environment leads to any."""
    monkeypatch.setenv("BEAM_DATASETS_CACHE_DIR", str(tmp_path / "cache"))
    small = Numbers(data_dir=str(tmp_path / "small"), count=100).build(num_shards=SHARDS, num_workers=1)
    with object_store("s3", tmp_path) as one, object_store("s3", tmp_path) as two:
        first, second = options_for(one), options_for(two)
        put(local, one.url, first)
        put(small, two.url, second)
        data_dir = f"{one.url}/data"
        for split in ("train", "test"):
            pairs = zip(
                bd.load("numbers", split=split, data_dir=data_dir, storage_options=first).take(60),
                bd.load("numbers", split=split, data_dir=data_dir, storage_options=second).take(60),
            )
            here = zip(*(bd.builder_from_directory(where).as_dataset(split).take(60) for where in (local, small)))
            assert [(x["text"], y["text"]) for x, y in pairs] == [(x["text"], y["text"]) for x, y in here]
        wrong = {**first, "endpoint": "http://127.0.0.1:1"}
        with pytest.raises(bd.errors.StorageError, match=rf"^{one.url}~\d/data/numbers") as error:
            bd.load("numbers", data_dir=data_dir, storage_options=wrong)
        assert SECRET not in "".join(traceback.format_exception(error.value))
        found = bd.builder_from_directory(f"{data_dir}/numbers/1.0.0", storage_options=first)
        assert sum(1 for _ in found.as_dataset("test").raw()) == found.info.splits["test"].num_examples
        source = storage.with_options(f"{data_dir}/numbers/1.0.0/features.json", first)
        storage.copy(source, storage.with_options(f"{data_dir}/copy", second))
        assert storage.read_bytes(storage.with_options(f"{data_dir}/copy", second)) == storage.read_bytes(source)
        assert not storage.exists(storage.with_options(f"{data_dir}/copy", first))


def test_a_dataset_takes_its_options_along(local: str, tmp_path: Path) -> None:
    with object_store("s3", tmp_path) as running:
        put(local, running.url, options_for(running))
        builder = bd.builder("numbers", data_dir=f"{running.url}/data", storage_options=options_for(running))
        dataset = builder.as_dataset("test").shuffle(seed=1)
        (tmp_path / "dataset").write_bytes(pickle.dumps(dataset))
        code = "import pickle, sys; print(sum(int(x['id']) for x in pickle.load(open(sys.argv[1], 'rb'))))"
        assert int(elsewhere(code, str(tmp_path / "dataset"))) == sum(int(x["id"]) for x in dataset)
        iterator = iter(dataset)
        next(iterator)
        shown = [repr(builder), repr(dataset), str(iterator.get_state()), repr(builder.info)]
        assert SECRET not in "".join(map(str, shown))


@pytest.mark.slow
def test_what_was_read_is_not_asked_for_again(local: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEAM_DATASETS_CACHE_DIR", str(tmp_path / "cache"))
    with object_store("s3", tmp_path) as running:
        use(running, monkeypatch)
        put(local, running.url)
        [log] = tmp_path.glob("store-*.log")

        def asked() -> int:
            return sum("GET" in line and ".tfrecord" in line for line in log.read_text().splitlines())

        def read() -> list[object]:
            dataset = bd.load("numbers", split="train", data_dir=f"{running.url}/data")
            return [*(x["text"] for x in dataset), *(x["text"] for x in dataset[[5, 4000, 77]])]

        assert asked() == 0
        found, requests = read(), asked()
        assert requests >= 2 * SHARDS["train"]
        assert read() == found
        code = (
            "import beam_datasets as bd, sys; print(len(list(bd.load('numbers', split='train', data_dir=sys.argv[1]))))"
        )
        assert int(elsewhere(code, f"{running.url}/data")) == len(found) - 3
        assert asked() == requests
        (damaged, *_) = (path for path in (tmp_path / "cache").glob("*/*") if path.stat().st_size > 10_000)
        damaged.write_bytes(damaged.read_bytes()[:-1])
        assert read() == found
        assert asked() == requests + 1
