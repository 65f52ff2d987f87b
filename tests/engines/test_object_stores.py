"""Datasets on object stores: real servers on loopback, unreliable ones too, reached by storage_options or environment.

Where a test gives storage_options, nothing in the environment leads to the store, so code that loses them fails.
"""

import base64
import bz2
import contextlib
import json
import pickle
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import beam_datasets as bd
from beam_datasets import storage
from beam_datasets.beam import Export, Materialize, ReadDataset, VerifyDataset, WriteDataset
from beam_datasets.beam.reports import SummarizeDataset, run_stats, run_verify
from beam_datasets.features import Text
from beam_datasets.materializing import records
from beam_datasets.options import EngineOptions
from beam_datasets.publishing import runs
from beam_datasets.statistics import compute
from beam_datasets.statistics.summary import prepare_request
from tests.directories import digests
from tests.end_to_end.numbers_dataset import Numbers
from tests.end_to_end.units_dataset import Units, write_sources
from tests.engines.object_stores import SECRET, ObjectStore, object_store, use
from tests.processes import started
from tests.servers import portable_engine

pytest.importorskip("obstore")
COUNT = 2_000
SHARDS = {"train": 5, "test": 2}
ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["s3", pytest.param("gs", marks=pytest.mark.slow)])
def flaky(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with object_store(request.param, tmp_path, fail=0.1, stall=0.02) as running:
        use(running, monkeypatch)
        yield running


def build(data_dir: str, **options: Any) -> str:
    return Numbers(data_dir=data_dir, count=COUNT).build(num_shards=SHARDS, **options)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The dataset on this machine's disk."""
    return build(str(tmp_path_factory.mktemp("local")), num_workers=1)


def put(directory: str, store: ObjectStore, options: dict[str, Any] | None = None) -> str:
    """Copies a published dataset to a store and returns its URL."""
    url = f"{store.url}/data/numbers/1.0.0"
    for name in storage.list_dir(directory):
        storage.copy(f"{directory}/{name}", storage.with_options(f"{url}/{name}", options))
    return url


@pytest.fixture(scope="module")
def there(store: ObjectStore, local: str) -> str:
    """URL of the same dataset in the store, without options."""
    return put(local, store, store.options)


def all_bytes(path: str) -> bytes:
    """Returns the names and contents of all files below a path."""
    if not storage.is_dir(path):
        return storage.read_bytes(path)
    return b"".join(name.encode() + all_bytes(storage.join(path, name)) for name in storage.list_dir(path))


@pytest.mark.parametrize(
    "how, options",
    [
        ("environment", {"num_workers": 1}),
        *(
            pytest.param(how, options, marks=pytest.mark.slow)
            for how, options in (
                ("environment of two", {"num_workers": 2}),
                ("two", {"num_workers": 2}),
                ("inline", {"num_workers": 1, "payload": "inline"}),
                ("spilled", {"num_workers": 1}),
            )
        ),
    ],
)
def test_building(
    store: ObjectStore,
    local: str,
    how: str,
    options: dict[str, Any],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data_dir = f"{store.url}/{how.replace(' ', '-')}"
    given = {} if how.startswith("environment") else {"storage_options": store.options}
    if how.startswith("environment"):
        use(store, monkeypatch)
    if how == "spilled":
        options = {**options, "spill_dir": f"{data_dir}/spill"}
    builder = Numbers(data_dir=data_dir, count=COUNT)
    directory = builder.build(num_shards=SHARDS, **given, **options)
    assert digests(directory) == digests(local)
    assert len(list(builder.as_dataset("test"))) == COUNT // 10
    again = Numbers(data_dir=data_dir, count=COUNT)
    again.download_and_prepare(**given)
    assert again.info.splits["train"].num_examples == COUNT
    with pytest.raises(bd.errors.AlreadyPublishedError):
        Numbers(data_dir=data_dir, count=COUNT, **given).build()
    root = storage.with_options(data_dir, given.get("storage_options"))
    assert storage.list_dir(root) == ["numbers"]
    assert storage.list_dir(storage.join(root, "numbers")) == ["1.0.0"]
    assert SECRET.encode() not in all_bytes(root)
    assert SECRET not in "".join(capfd.readouterr()) + repr(builder.info) + str(directory)


@pytest.mark.slow
def test_reading_is_as_from_a_local_disk(store: ObjectStore, there: str, local: str) -> None:
    for split in ("train", "train[10%:30%]+test", "test[-7:]"):
        here = bd.builder_from_directory(local).as_dataset(split)
        remote = bd.load("numbers", split=split, data_dir=f"{store.url}/data", storage_options=store.options)
        for one, other in ((remote, here), (remote.shuffle(seed=3).take(50), here.shuffle(seed=3).take(50))):
            assert [x["text"] for x in one] == [x["text"] for x in other]
        assert remote[5]["text"] == here[5]["text"]
    iterator, after = iter(remote.shuffle(seed=1)), iter(here.shuffle(seed=1))
    next(iterator)
    after.advance(1)
    assert next(iterator)["id"] == next(after)["id"]


@pytest.mark.slow
def test_an_unreliable_store_loses_nothing(flaky: ObjectStore, local: str, tmp_path: Path) -> None:
    directory = build(f"{flaky.url}/data", num_workers=2)
    assert digests(directory) == digests(local)
    here, there = (bd.builder_from_directory(place).as_dataset("train[:20%]+test") for place in (local, directory))
    assert [x["text"] for x in there] == [x["text"] for x in here]
    wanted = {"split": {"a": "train[10%:60%]"}, "to": "made", "num_shards": 3, "filter": f"{__name__}:is_even"}
    made = bd.materialize(directory, data_dir=f"{flaky.url}/out", num_workers=2, **wanted)
    assert digests(made) == digests(bd.materialize(local, data_dir=tmp_path, num_workers=1, **wanted))


@pytest.fixture(scope="module")
def started_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store("s3", tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.fixture
def shared_store(started_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """A store of several tests. Each is led there anew: tests between them may have used a store that is gone."""
    use(started_store, monkeypatch)
    return started_store


@pytest.mark.slow
@pytest.mark.parametrize("record", ["00000001.reservation.json", ".decision.json"])
@pytest.mark.parametrize("seconds", [0.0, 0.2])
def test_a_publisher_killed_while_it_runs_or_publishes(
    shared_store: ObjectStore, local: str, record: str, seconds: float, tmp_path: Path
) -> None:
    """The next run starts at once, and removes what the killed one spilled on this machine."""
    data_dir = f"{shared_store.url}/killed/{record}/{seconds}"
    directory = storage.join(data_dir, "numbers/1.0.0")
    code = (
        "from tests.engines.test_object_stores import build; import sys\n"
        "if __name__ == '__main__': build(sys.argv[1], num_workers=1, spill_dir=sys.argv[2])"
    )

    def written() -> list[str]:
        with contextlib.suppress(bd.errors.StorageError):  # there is none yet, or the busy server answers late
            return storage.list_dir(runs.runs_dir(directory))
        return []

    with started([sys.executable, "-c", code, data_dir, str(tmp_path)], cwd=ROOT) as process:
        while process.poll() is None and not any(name.endswith(record) for name in written()):
            time.sleep(0.005)
        time.sleep(seconds)  # then it is killed
    with contextlib.suppress(bd.errors.AlreadyPublishedError):  # this finishes a run that had decided to publish
        build(data_dir, num_workers=1)
    assert digests(directory) == digests(local)
    assert storage.list_dir(storage.join(data_dir, "numbers")) == ["1.0.0"]
    assert not list(tmp_path.glob("incomplete.*"))


@pytest.mark.slow
@pytest.mark.parametrize("spilled", ["in the store", "here"])
def test_a_killed_run_is_resumed(
    shared_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spilled: str
) -> None:
    """The killed run holds the version; the next one gives it up, and reuses its units after reading them all."""
    log = tmp_path / "log"
    monkeypatch.setenv("UNITS_LOG", str(log))
    paths = write_sources(tmp_path / "sources")
    options = {"num_workers": 1, "block_size": 1000, "num_shards": 2}
    whole = Units(data_dir=tmp_path / "whole", paths=paths).build(**options)
    log.unlink()
    data_dir = f"{shared_store.url}/resumed {spilled}"
    spill_dir = f"{data_dir}/spill" if spilled == "in the store" else str(tmp_path / "spill")
    code = (
        "from tests.end_to_end.units_dataset import Units; import sys\n"
        f"Units(data_dir=sys.argv[1], paths=sys.argv[3:]).build(resume=True, spill_dir=sys.argv[2], **{options})"
    )
    monkeypatch.setenv("UNITS_DELAY", "0.2")
    command = [sys.executable, "-c", code, data_dir, spill_dir, *paths]
    with started(command, cwd=ROOT) as process:
        while process.poll() is None and not (log.exists() and len(log.read_text().splitlines()) > 9):
            time.sleep(0.05)
        assert process.poll() is None  # then it is killed
    monkeypatch.delenv("UNITS_DELAY")
    builder = Units(data_dir=data_dir, paths=paths)
    directory = builder.build(resume=True, spill_dir=spill_dir, **options)
    assert digests(directory) == digests(whole)
    assert len(json.loads(storage.read_bytes(f"{directory}/run.json"))["resumed"]) == 1
    assert len(paths) <= len(log.read_text().splitlines()) < len(paths) + 5
    assert storage.list_dir(storage.dirname(directory)) == ["1.0.0"]
    assert not storage.is_dir(spill_dir) or not storage.list_dir(spill_dir)


def elsewhere(code: str, *arguments: str) -> str:
    """Returns the output of a new process."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout


@pytest.mark.slow
def test_two_stores_with_a_bucket_of_the_same_name(local: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEAM_DATASETS_CACHE_DIR", str(tmp_path / "cache"))
    small = Numbers(data_dir=tmp_path / "small", count=100).build(num_shards=SHARDS, num_workers=1)
    with object_store("s3", tmp_path) as one, object_store("s3", tmp_path) as two:
        first, second = ({**store.options, "retry_config": {"max_retries": 0}} for store in (one, two))
        url = put(local, one, first)
        put(small, two, second)
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
        source = storage.with_options(f"{url}/features.json", first)
        storage.copy(source, storage.with_options(f"{data_dir}/copy", second))
        assert storage.read_bytes(storage.with_options(f"{data_dir}/copy", second)) == storage.read_bytes(source)
        assert not storage.exists(storage.with_options(f"{data_dir}/copy", first))
        moved = bd.materialize(
            url, data_dir=f"{two.url}/moved", storage_options=second, source_storage_options=first,
            num_shards=SHARDS, num_workers=1,
        )  # fmt: skip
        shards = {name: digest for name, digest in digests(local).items() if re.search(r"tfrecord-[^.]*$", name)}
        assert len(shards) == 7
        assert shards.items() <= digests(moved).items()
        with pytest.warns(UserWarning, match="keys occur more than once|not in hash order"):
            both = bd.materialize(
                storage.with_options(url, first), sources={"b": storage.with_options(url, second)},
                split={"train": "train+b:train"}, to="both", data_dir=tmp_path, num_workers=1,
            )  # fmt: skip
        assert bd.builder_from_directory(both).info.splits["train"].num_examples == COUNT + 100


def test_a_dataset_takes_its_options_along(store: ObjectStore, there: str, tmp_path: Path) -> None:
    builder = bd.builder("numbers", data_dir=f"{store.url}/data", storage_options=store.options)
    dataset = builder.as_dataset("test").shuffle(seed=1)
    (tmp_path / "dataset").write_bytes(pickle.dumps(dataset))
    code = "import pickle, sys; print(sum(int(x['id']) for x in pickle.load(open(sys.argv[1], 'rb'))))"
    assert int(elsewhere(code, str(tmp_path / "dataset"))) == sum(int(x["id"]) for x in dataset)
    iterator = iter(dataset)
    next(iterator)
    shown = [repr(builder), repr(dataset), str(iterator.get_state()), repr(builder.info)]
    assert SECRET not in "".join(map(str, shown))


@pytest.mark.slow
def test_what_was_read_is_not_requested_again(local: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEAM_DATASETS_CACHE_DIR", str(tmp_path / "cache"))
    with object_store("s3", tmp_path) as running:
        use(running, monkeypatch)
        put(local, running)
        [log] = tmp_path.glob("store-*.log")

        def requested() -> int:
            return sum("GET" in line and ".tfrecord" in line for line in log.read_text().splitlines())

        def read() -> list[object]:
            dataset = bd.load("numbers", split="train", data_dir=f"{running.url}/data")
            return [*(x["text"] for x in dataset), *(x["text"] for x in dataset[[5, 1900, 77]])]

        assert requested() == 0
        found, requests = read(), requested()
        assert requests >= 2 * SHARDS["train"]
        assert read() == found
        code = (
            "import beam_datasets as bd, sys; print(len(list(bd.load('numbers', split='train', data_dir=sys.argv[1]))))"
        )
        assert int(elsewhere(code, f"{running.url}/data")) == len(found) - 3
        assert requested() == requests
        (damaged, *_) = (path for path in (tmp_path / "cache").glob("*/*") if path.stat().st_size > 10_000)
        damaged.write_bytes(damaged.read_bytes()[:-1])
        assert read() == found
        assert requested() == requests + 1


def is_even(example: dict[str, Any]) -> bool:
    return bool(example["id"] % 2 == 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"num_workers": 2}, {"features": ["id"]}, {"filter": f"{__name__}:is_even"}, {"reshuffle": "x"}],
    ids=lambda options: next(iter(options)),
)
def test_materializing(
    store: ObjectStore,
    local: str,
    there: str,
    options: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within a store, from it and to it: the same bytes as on a disk."""
    monkeypatch.setattr(records, "REMOTE_CHUNK", 20_000)
    wanted = {"split": {"few": "train[10%:60%]"}, "num_shards": 3, "num_workers": 1, **options}
    data_dir = f"{store.url}/m-{next(iter(options))}"
    to, source = {"storage_options": store.options}, {"source_storage_options": store.options}
    here = bd.materialize(local, data_dir=tmp_path, **wanted)
    within = bd.materialize(there, data_dir=data_dir, **to, **wanted)
    up = bd.materialize(local, data_dir=f"{data_dir}-up", **to, **wanted)
    down = bd.materialize(
        "numbers", source_data_dir=f"{store.url}/data", data_dir=tmp_path / "down", **source, **wanted
    )
    assert digests(within) == digests(up) == digests(down) == digests(here)
    assert SECRET.encode() not in all_bytes(within) + all_bytes(down)
    assert bd.builder_from_directory(within).lineage == bd.builder_from_directory(here).lineage
    assert storage.list_dir(storage.with_options(f"{data_dir}/numbers", store.options)) == ["1.0.0"]
    with pytest.raises(bd.errors.AlreadyPublishedError):
        bd.materialize(there, data_dir=data_dir, **to, **wanted)
    with pytest.raises(bd.errors.BeamDatasetsError, match="the source itself"):
        bd.materialize("numbers", data_dir=f"{store.url}/data", **to)


@pytest.mark.slow
def test_looking_after(store: ObjectStore, there: str, local: str) -> None:
    options = {"storage_options": store.options}
    assert bd.verify(there, **options).whole
    assert run_verify(there, EngineOptions(num_workers=2), **options).whole
    report = f"{store.url}/report.json"
    assert run_verify(
        "numbers", EngineOptions(num_workers=1), data_dir=f"{store.url}/data", report=report, **options
    ).whole
    assert json.loads(storage.read_bytes(storage.with_options(report, store.options)))["whole"] is True
    for old, new in ((there, local), (local, there), ("numbers", there)):
        assert bd.diff(old, new, data_dir=f"{store.url}/data", **options).verdict.needed == "NONE"
    here = compute(local).slices
    assert compute(there, **options).slices == here
    assert run_stats(prepare_request(there, **options), EngineOptions(num_workers=2)).slices == here
    with pytest.raises(bd.errors.StorageError, match=rf"^{store.url}(~\d+)?/../data.*llegal"):
        bd.builder_from_directory(f"{store.url}/../data", **options)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["parquet", "jsonl", "webdataset"])
def test_exporting(store: ObjectStore, there: str, local: str, format: str, tmp_path: Path) -> None:
    wanted = {"split": "train[:30%]", "num_workers": 1}
    here = bd.export(local, tmp_path / "here", format, **wanted)
    within = bd.export(there, f"{store.url}/{format}", format, storage_options=store.options, **wanted)
    down = bd.export(
        "numbers", tmp_path / "down", format, data_dir=f"{store.url}/data", source_storage_options=store.options,
        **wanted,
    )  # fmt: skip
    assert digests(within) == digests(here) == digests(down)


@pytest.mark.slow
def test_transforms(store: ObjectStore, there: str, local: str, tmp_path: Path) -> None:
    """Each in a pipeline of one's own, whose labels and types show no secret."""
    options = {"storage_options": store.options}
    pipeline = beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"]))
    texts = pipeline | "Read" >> ReadDataset(there, "train", with_ids=True, **options)
    pairs = texts | beam.MapTuple(lambda key, x: (key, {"text": x["text"]}))
    transforms = {
        "Write": WriteDataset("texts", {"text": Text()}, data_dir=f"{store.url}/w", **options),
        "Verify": VerifyDataset(there, **options),
        "Summarize": SummarizeDataset(there, **options),
        "Materialize": Materialize(there, split="test", data_dir=f"{store.url}/t", **options),
        "Export": Export(there, f"{store.url}/e", "jsonl", split="test", **options),
    }
    for label, transform in transforms.items():
        _ = (pairs if label == "Write" else pipeline) | label >> transform
        assert SECRET not in repr(transform) + str(vars(transform))
    proto = pipeline.to_runner_api()
    assert SECRET.encode() not in unpacked(proto.SerializeToString())
    names = [t.unique_name for t in proto.components.transforms.values()]
    assert SECRET not in "".join(names)
    pipeline.run().wait_until_finish()
    written = bd.load("texts", split="train", data_dir=f"{store.url}/w", **options)
    assert sorted(x["text"] for x in written) == sorted(
        x["text"] for x in bd.builder_from_directory(local).as_dataset("train")
    )
    assert bd.load("numbers", split="test", data_dir=f"{store.url}/t", **options)[7]["id"] >= 0
    assert "_export.json" in storage.list_dir(storage.with_options(f"{store.url}/e", store.options))


def unpacked(graph: bytes) -> bytes:
    """Returns a serialized graph, and what its pickles contain, which Beam compresses."""
    packed = re.findall(rb"[A-Za-z0-9+/=]{40,}", graph)
    found = [graph]
    for text in packed:
        for skipped in range(4):  # the pattern may have matched bytes before it
            with contextlib.suppress(ValueError, OSError):
                found.append(bz2.decompress(base64.b64decode(text[skipped:] + b"==")))
    assert len(found) > 1
    return b"".join(found)


def test_workers_that_this_process_does_not_start_get_none(store: ObjectStore, there: str, tmp_path: Path) -> None:
    remote: Any = {"beam_options": [
        "--runner=PortableRunner", "--job_endpoint=localhost:1", "--environment_type=EXTERNAL",
        "--environment_config=localhost:1",
    ]}  # fmt: skip
    given = {"storage_options": store.options}
    pipeline = beam.Pipeline(options=PipelineOptions(remote["beam_options"]))
    for ask in (
        lambda: Numbers(data_dir=f"{store.url}/p", count=COUNT, **given).build(**remote),
        lambda: bd.materialize(there, data_dir=f"{store.url}/p", to="made", **given, **remote),
        lambda: bd.export(there, f"{store.url}/p", "jsonl", **given, **remote),
        lambda: bd.export(there, tmp_path, "jsonl", source_storage_options=store.options, shared_disk=True, **remote),
        lambda: run_verify(there, EngineOptions(**remote), **given),
        lambda: pipeline | "Read" >> ReadDataset(there, "train", **given),
        lambda: pipeline | beam.Create([]) | WriteDataset("a", {"n": Text()}, data_dir=f"{store.url}/p", **given),
    ):
        with pytest.raises(bd.errors.StoreOptionsError, match="a job contains no credentials. Leave storage_options o"):
            ask()
    assert not storage.exists(storage.with_options(f"{store.url}/p", store.options))


@pytest.mark.slow
def test_workers_take_them_from_their_environment(
    store: ObjectStore, there: str, local: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(store, monkeypatch)
    with portable_engine(tmp_path) as engine:
        built = build(f"{store.url}/p", beam_options=engine)
        made = bd.materialize(there, data_dir=f"{store.url}/p", to="made", split="train[:30%]", beam_options=engine)
    assert digests(built) == digests(local)
    assert bd.builder_from_directory(made).info.splits["train"].num_examples == COUNT * 3 // 10


def test_a_local_path_takes_none(local: str, tmp_path: Path) -> None:
    options = {"region": "nowhere"}
    asked = [
        lambda: Numbers(data_dir=tmp_path).build(storage_options=options),
        lambda: Numbers(data_dir=tmp_path, storage_options=options),
        lambda: WriteDataset("a", {"n": int}, data_dir=tmp_path, storage_options=options),
        lambda: ReadDataset(local, "train", storage_options=options),
        lambda: bd.verify(local, storage_options=options),
        lambda: bd.repair(local, copy=tmp_path, copy_storage_options=options),
        lambda: bd.diff(local, local, storage_options=options),
        lambda: bd.materialize(local, data_dir=tmp_path, storage_options=options),
        lambda: bd.materialize(local, data_dir=tmp_path, to="x", source_storage_options=options),
        lambda: bd.export(local, tmp_path / "x", "jsonl", storage_options=options),
        lambda: prepare_request(local, storage_options=options),
    ]
    for ask in asked:
        with pytest.raises(bd.errors.StoreOptionsError, match="storage_options are .*a? ?local path|are for a copy"):
            ask()
    assert not list(tmp_path.iterdir())


def test_errors_name_the_url_and_show_no_secret(
    store: ObjectStore, there: str, capfd: pytest.CaptureFixture[str]
) -> None:
    given = {"storage_options": store.options}
    missing = store.url.replace("datasets", "no-such-bucket")
    asked = [
        (rf"in {store.url}(~\d+)?/none", lambda: bd.load("numbers", data_dir=f"{store.url}/none", **given)),
        (f"^{missing}.*bucket does not exist", lambda: build(missing, num_workers=1, **given)),
    ]
    if "endpoint" in store.options:  # of the other kind the key is in one piece with its address
        wrong = {**store.options, "endpoint": "http://127.0.0.1:1", "retry_config": {"max_retries": 0}}
        new = f"{store.url}/new"
        asked += [
            (rf"{store.url}(~\d+)?/", lambda: build(new, storage_options=wrong)),
            (rf"{store.url}(~\d+)?/", lambda: bd.materialize(there, data_dir=new, storage_options=wrong)),
            (rf"{store.url}(~\d+)?/", lambda: bd.verify(there, storage_options=wrong)),
        ]
    for problem, ask in asked:
        with pytest.raises(bd.errors.BeamDatasetsError, match=problem) as error:
            ask()
        assert SECRET not in repr(error.value) + "".join(capfd.readouterr())
