"""Stores that only storage_options lead to: nothing in the environment does, so whatever loses them fails."""

from __future__ import annotations

import base64
import bz2
import contextlib
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.display import DisplayData

import beam_datasets as bd
from beam_datasets import storage
from beam_datasets.beam import Export, Materialize, ReadDataset, VerifyDataset, WriteDataset
from beam_datasets.beam.stats import SummarizeDataset
from beam_datasets.beam.stats import run as run_stats
from beam_datasets.beam.verify import run as run_verify
from beam_datasets.features import Text
from beam_datasets.statistics.computing import compute
from beam_datasets.statistics.gathering import prepare
from beam_datasets.storage import objects, options
from tests.end_to_end.engines import portable_engine
from tests.end_to_end.numbers_dataset import Numbers
from tests.engines.object_stores import SECRET, ObjectStore, object_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("obstore")
COUNT = 1_000
SHARDS = {"train": 3, "test": 2}


@pytest.fixture(scope="module", params=["s3", "gs"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(request.param, tmp_path_factory.mktemp("store")) as running:
        objects._store.cache_clear()
        yield running


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The dataset on this machine's disk."""
    data_dir = tmp_path_factory.mktemp("local")
    return Numbers(data_dir=data_dir, count=COUNT).build(num_shards=SHARDS, num_workers=1)


@pytest.fixture(scope="module")
def there(store: ObjectStore, local: str) -> str:
    """URL of the same in the store, without options."""
    url = f"{store.url}/data/numbers/1.0.0"
    for name in storage.list_dir(local):
        storage.copy(f"{local}/{name}", storage.with_options(f"{url}/{name}", store.options))
    return url


def digests(directory: str) -> dict[str, str]:
    """Returns {file name: sha256} of a directory, without the report of the run."""
    names = [name for name in storage.list_dir(directory) if name != "run.json"]
    return {name: hashlib.sha256(storage.read_bytes(storage.join(directory, name))).hexdigest() for name in names}


def all_bytes(path: str) -> bytes:
    """Returns all that stands below a path, and the names."""
    if not storage.is_dir(path):
        return storage.read_bytes(path)
    return b"".join(name.encode() + all_bytes(storage.join(path, name)) for name in storage.list_dir(path))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"num_workers": 2}, {"num_workers": 1, "payload": "inline"}, {"num_workers": 1, "spill": True}], ids=str
)
def test_building(
    store: ObjectStore, local: str, options: dict[str, Any], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    name = "-".join(options)
    if "spill" in options:
        options = {"num_workers": 1, "spill_dir": f"{store.url}/{name}/spill"}
    builder = Numbers(data_dir=f"{store.url}/{name}", count=COUNT)
    directory = builder.build(num_shards=SHARDS, storage_options=store.options, **options)
    assert digests(directory) == digests(local)
    assert len(list(builder.as_dataset("test"))) == COUNT // 10
    again = Numbers(data_dir=f"{store.url}/{name}", count=COUNT)
    again.download_and_prepare(storage_options=store.options)
    assert again.info.splits["train"].num_examples == COUNT
    with pytest.raises(bd.errors.AlreadyPublishedError):
        Numbers(data_dir=f"{store.url}/{name}", count=COUNT, storage_options=store.options).build()
    root = storage.with_options(f"{store.url}/{name}", store.options)
    assert storage.list_dir(root) == ["numbers"]
    assert SECRET.encode() not in all_bytes(root)
    assert SECRET not in "".join(capfd.readouterr()) + repr(builder.info) + str(directory)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": 2},
        {"features": ["id"]},
        {"filter": f"{__name__}:is_even"},
        {"reshuffle": "x"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_materializing(store: ObjectStore, local: str, there: str, options: dict[str, Any], tmp_path: Path) -> None:
    wanted = {"split": {"few": "train[10%:60%]"}, "num_workers": 1, **options}
    here = bd.materialize(local, data_dir=tmp_path, **wanted)
    name = next(iter(options))
    within = bd.materialize(there, data_dir=f"{store.url}/m-{name}", storage_options=store.options, **wanted)
    down = bd.materialize(
        "numbers", source_data_dir=f"{store.url}/data", data_dir=tmp_path / "down",
        source_storage_options=store.options, **wanted,
    )  # fmt: skip
    assert digests(within) == digests(down) == digests(here)
    assert SECRET.encode() not in all_bytes(within) + all_bytes(down)
    assert bd.builder_from_directory(within).lineage == bd.builder_from_directory(here).lineage


def is_even(example: dict[str, Any]) -> bool:
    return bool(example["id"] % 2 == 0)


@pytest.mark.slow
def test_from_one_store_to_another(store: ObjectStore, there: str, local: str, tmp_path: Path) -> None:
    """The bucket has the same name, so that the URLs are the same."""
    if not store.url.startswith("s3"):
        pytest.skip("two stores of one kind are enough")
    with object_store("s3", tmp_path) as other:
        directory = bd.materialize(
            there, data_dir=f"{other.url}/data", storage_options=other.options, source_storage_options=store.options,
            num_shards=SHARDS, num_workers=1,
        )  # fmt: skip
        shards = {
            name: digest for name, digest in digests(local).items() if "tfrecord-" in name and "index" not in name
        }
        assert shards.items() <= digests(directory).items()
        with pytest.warns(UserWarning, match="keys occur more than once|not in hash order"):
            both = bd.materialize(
                storage.with_options(there, store.options), sources={"b": storage.with_options(there, other.options)},
                split={"train": "train+b:train"}, to="both", data_dir=tmp_path, num_workers=1,
            )  # fmt: skip
        assert bd.builder_from_directory(both).info.splits["train"].num_examples == 2 * COUNT


@pytest.mark.slow
def test_looking_after(store: ObjectStore, there: str, local: str) -> None:
    options = {"storage_options": store.options}
    assert bd.verify(there, **options).whole
    assert run_verify(there, num_workers=2, **options).whole
    report = f"{store.url}/report.json"
    assert run_verify("numbers", data_dir=f"{store.url}/data", num_workers=1, report=report, **options).whole
    assert json.loads(storage.read_bytes(storage.with_options(report, store.options)))["whole"] is True
    for old, new in ((there, local), (local, there), ("numbers", there)):
        assert bd.diff(old, new, data_dir=f"{store.url}/data", **options).verdict.needed == "NONE"
    here = compute(local).slices
    assert compute(there, **options).slices == here
    assert run_stats(prepare(there, **options), num_workers=2).slices == here
    with pytest.raises(bd.errors.StorageError, match=f"^{store.url}/../data.*llegal"):
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
    """Each in a pipeline of one's own, whose display data, labels and types show no secret."""
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
        shown = [item.get_dict() for item in DisplayData.create_from(transform).items]
        assert SECRET not in json.dumps(shown) + repr(transform) + str(vars(transform))
    proto = pipeline.to_runner_api()
    assert SECRET.encode() not in unpacked(proto.SerializeToString())
    names = [t.unique_name for t in proto.components.transforms.values()]
    display = [item.payload for t in proto.components.transforms.values() for item in t.display_data]
    assert SECRET.encode() not in b"".join(display)
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
        lambda: run_verify(there, **given, **remote),
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
    for name, value in store.env.items():
        monkeypatch.setenv(name, value)
    options._registered.clear()
    monkeypatch.delenv(options.VARIABLE, raising=False)
    objects._store.cache_clear()
    with portable_engine(tmp_path) as engine:
        built = Numbers(data_dir=f"{store.url}/p", count=COUNT).build(num_shards=SHARDS, beam_options=engine)
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
        lambda: prepare(local, storage_options=options),
    ]
    for ask in asked:
        with pytest.raises(bd.errors.StoreOptionsError, match="storage_options are .*a? ?local path|are for a copy"):
            ask()
    assert not list(tmp_path.iterdir())


def test_what_is_wrong_shows_no_secret(store: ObjectStore, there: str, capfd: pytest.CaptureFixture[str]) -> None:
    if "endpoint" not in store.options:
        pytest.skip("the key of this kind is in one piece with its address")
    wrong = {**store.options, "endpoint": "http://127.0.0.1:1", "retry_config": {"max_retries": 0}}
    for ask in (
        lambda: Numbers(data_dir=f"{store.url}/new", count=10).build(storage_options=wrong),
        lambda: bd.materialize(there, data_dir=f"{store.url}/new", storage_options=wrong),
        lambda: bd.verify(there, storage_options=wrong),
    ):
        with pytest.raises(bd.errors.BeamDatasetsError, match=rf"{store.url}(~\d)?/") as error:
            ask()
        assert SECRET not in repr(error.value)
    missing = f"{store.url}x/new"
    with pytest.raises(bd.errors.BeamDatasetsError, match="no bucket") as error:
        Numbers(data_dir=missing, count=10).build(storage_options=store.options, num_workers=1)
    assert SECRET not in repr(error.value) + "".join(capfd.readouterr())
