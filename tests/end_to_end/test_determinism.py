"""The same input gives the same bytes on any runner, for datasets that are generated, materialized and derived."""

import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets import materialize
from beam_datasets.beam import ReadDataset, WriteDataset
from beam_datasets.reading.opening import builder_from_directory
from tests.directories import digests
from tests.end_to_end.numbers_dataset import Numbers

COUNT = 20_000
ROOT = Path(__file__).parents[2]


def build(data_dir: Path, *, seed: int = 0, parts: int = 4, **options) -> dict[str, str]:
    """Generates the dataset and returns its digests."""
    builder = Numbers(data_dir=data_dir, count=COUNT, seed=seed, parts=parts)
    return digests(builder.build(num_shards={"train": 7, "test": 2}, **options))


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> dict[str, str]:
    """Digests of the dataset as generated within this process."""
    files = build(tmp_path_factory.mktemp("in_memory"), num_workers=1)
    assert sum(name.endswith(".index") for name in files) == 9
    return files


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": 1, "payload": "inline"},
        pytest.param({"num_workers": 2}, marks=pytest.mark.slow),
        pytest.param({"num_workers": 2, "payload": "inline"}, marks=pytest.mark.slow),
        {"num_workers": 1, "seed": 1, "parts": 1},
        pytest.param({"num_workers": 2, "seed": 2, "parts": 13, "block_size": 20_000}, marks=pytest.mark.slow),
        {"num_workers": 1, "seed": 2, "parts": 13, "block_size": 20_000},
        {"num_workers": 1, "payload": "inline", "block_size": 14_000, "seed": 3},
    ],
    ids=str,
)
def test_runs_do_not_differ(tmp_path, expected, options):
    assert build(tmp_path, **options) == expected


@pytest.mark.parametrize(
    "variable", [pytest.param("PYTHONHASHSEED=4711", marks=pytest.mark.slow), "BEAM_DATASETS_NATIVE=0"]
)
@pytest.mark.slow
def test_process_hash_seed_and_native_module_do_not_matter(tmp_path, expected, variable):
    code = (
        "from tests.end_to_end.test_determinism import build; from pathlib import Path; "
        f"build(Path({str(tmp_path)!r}), num_workers=1)"
    )
    environment = {**os.environ, **dict([variable.split("=")])}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=environment)
    assert digests(tmp_path / "numbers" / "1.0.0") == expected


@pytest.mark.slow
def test_the_portable_job_service_writes_the_same(portable, tmp_path, expected):
    assert build(tmp_path, beam_options=portable) == expected


# A slice is materialized with the same bytes on any runner, and has the examples of the slice


SLICED = 6_000
SPLITS = {"train": "train[10%:60%]+test", "rest": "train[60%:]+train[:10%]"}


def keep(example) -> bool:
    """Two of three."""
    return bool(example["id"] % 3)


WAYS = {
    "copy": {},
    "filter": {"filter": keep},
    "features": {"features": ["id", "nested/label"], "min_shard_size": 10_000},
    "reshuffle": {"reshuffle": "pepper"},
    "all": {"filter": keep, "features": ["id"], "reshuffle": "salt"},
}


@pytest.fixture(scope="module")
def sliced(tmp_path_factory) -> Path:
    """A dataset to take slices of."""
    builder = Numbers(data_dir=tmp_path_factory.mktemp("source"), count=SLICED)
    return Path(builder.build(num_shards={"train": 7, "test": 2}, num_workers=1))


def run_materialize(sliced: Path, data_dir: Path, way: str, **options) -> Path:
    """Materializes, and returns the directory. Expects a warning that a split of two parts is not in hash order."""
    asked = {"num_shards": {"train": 5, "rest": 3}, **WAYS[way]}
    kept: Any = pytest.warns(UserWarning, match="not in hash order")
    with contextlib.nullcontext() if "reshuffle" in asked else kept:
        return Path(materialize(sliced, split=SPLITS, to="made", data_dir=data_dir, **asked, **options))


@pytest.fixture(scope="module")
def materialized(sliced, tmp_path_factory) -> Callable[[str], Path]:
    """A function from a way to what it makes within this process."""
    return functools.cache(lambda way: run_materialize(sliced, tmp_path_factory.mktemp(way), way, num_workers=1))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.slow
def test_examples_and_keys_are_those_of_the_slice(sliced, materialized, way):
    whole, made = builder_from_directory(sliced), builder_from_directory(materialized(way))
    for split, expression in SPLITS.items():
        examples = [e for e in whole.as_dataset(expression)[:] if "filter" not in WAYS[way] or keep(e)]
        got = made.as_dataset(split)[:]
        if "reshuffle" in WAYS[way]:
            assert [e["id"] for e in got] != [e["id"] for e in examples]
            examples, got = (sorted(some, key=lambda e: (e["id"], e.get("text"))) for some in (examples, got))
        assert [e["id"] for e in got] == [e["id"] for e in examples]
        if "features" not in WAYS[way]:
            assert [e["text"] for e in got] == [e["text"] for e in examples]
        asked = whole.as_dataset(expression)
        for i in range(0, SLICED, 131):
            there = asked.find(f"train-{i}") is not None and ("filter" not in WAYS[way] or i % 3 != 0)
            found = made.as_dataset(split).find(f"train-{i}")
            assert (found is not None) == there
            assert found is None or made.as_dataset(split)[found]["id"] == i
        assert made.as_dataset(split).find("train-x") is None


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"num_workers": 2}, marks=pytest.mark.slow),
        pytest.param({"num_workers": 2, "payload": "inline"}, marks=pytest.mark.slow),
        {"num_workers": 1, "payload": "inline", "block_size": 2_000},
        {"num_workers": 1, "beam_options": ["--direct_runner_bundle_repeat=0"]},
    ],
    ids=str,
)
@pytest.mark.parametrize("way", [*(pytest.param(way, marks=pytest.mark.slow) for way in WAYS if way != "all"), "all"])
def test_runs_of_materialize_do_not_differ(sliced, materialized, tmp_path, way, options):
    assert digests(run_materialize(sliced, tmp_path, way, **options)) == digests(materialized(way))


@pytest.mark.slow
def test_the_portable_job_service_materializes_the_same(portable, sliced, materialized, tmp_path):
    for way in WAYS:
        assert digests(run_materialize(sliced, tmp_path / way, way, beam_options=portable)) == digests(
            materialized(way)
        )


@pytest.mark.slow
def test_a_spill_dir_elsewhere(sliced, materialized, tmp_path):
    for way in ("filter", "reshuffle"):
        made = run_materialize(sliced, tmp_path / way, way, num_workers=1, spill_dir=tmp_path / "spill")
        assert digests(made) == digests(materialized(way))
        assert not [path for path in (tmp_path / "spill").rglob("*") if path.is_file()]


def test_a_reshard_holds_the_same_records(sliced, tmp_path):
    made = materialize(sliced, data_dir=tmp_path, num_shards={"train": 3, "test": 11}, num_workers=1)
    old, new = builder_from_directory(sliced), builder_from_directory(made)
    assert [split.num_shards for split in new.info.splits.values()] == [3, 11]
    for split in old.info.splits:
        assert new.as_dataset(split).raw()[:] == old.as_dataset(split).raw()[:]
    again = materialize(made, data_dir=tmp_path / "again", num_shards={"train": 7, "test": 2}, num_workers=1)
    records = [name for name in digests(sliced) if ".tfrecord-" in name]
    assert len(records) == 18
    assert {name: digests(again)[name] for name in records} == {name: digests(sliced)[name] for name in records}


# A dataset derived from another in one pipeline (read, map, write) has the same bytes on any runner


DERIVED = 5000
FEATURES = {"id": np.int64, "words": F.Sequence(F.Text()), "length": np.int32}


def derived(pair: tuple[Any, dict[str, Any]]) -> tuple[Any, dict[str, Any]]:
    """Returns the key and the example that are made of a pair of the source."""
    key, origin = pair
    text = origin["text"].decode()
    return key, {"id": origin["id"], "words": text.split(), "length": len(text)}


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> str:
    builder = Numbers(data_dir=tmp_path_factory.mktemp("source"), count=DERIVED)
    return builder.build(num_shards={"train": 5, "test": 1}, num_workers=1)


def run_derive(origin: str, data_dir: Path, *options: str, range_bytes: int | None = None) -> dict[str, str]:
    """Derives two splits and returns the digests of what was written."""
    with beam.Pipeline(options=PipelineOptions(list(options))) as pipeline:
        splits = {
            name: pipeline
            | f"Read {name}" >> ReadDataset(origin, split, with_ids=True, range_bytes=range_bytes)
            | f"Derive {name}" >> beam.Map(derived)
            for name, split in (("train", "train[:90%]+test"), ("rest", "train[90%:]"))
        }
        splits | WriteDataset("words", FEATURES, data_dir=data_dir, version="2.0.0", num_shards={"train": 3})
    return digests(data_dir / "words" / "2.0.0")


@pytest.fixture(scope="module")
def once_derived(origin: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return run_derive(origin, tmp_path_factory.mktemp("expected"), "--runner=FnApiRunner")


def test_every_example_once(origin: str, tmp_path: Path) -> None:
    run_derive(origin, tmp_path, "--runner=FnApiRunner")
    builder = bd.builder_from_directory(origin)
    for split, read in (("train", "train[:90%]+test"), ("rest", "train[90%:]")):
        examples = builder.as_dataset(read)
        wanted = sorted((int(e["id"]), e["text"].split(), len(e["text"])) for e in examples)
        made = bd.load("words", data_dir=tmp_path, split=split)
        assert sorted((int(e["id"]), e["words"].tolist(), int(e["length"])) for e in made) == wanted
    assert made.find("numbers-train.tfrecord-00004-of-00005__999") is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    "options, range_bytes",
    [
        (["--runner=FnApiRunner", "--direct_num_workers=2", "--direct_running_mode=multi_processing"], 20_000),
        (["--runner=FnApiRunner"], 1),
        (["--runner=FnApiRunner"], 10**9),
        (None, 20_000),
    ],
    ids=["two workers", "a record a range", "a shard a range", "the portable job service"],
)
def test_derived_datasets_have_the_same_bytes(
    request: pytest.FixtureRequest,
    origin: str,
    tmp_path: Path,
    once_derived: dict[str, str],
    options: list[str] | None,
    range_bytes: int,
) -> None:
    options = request.getfixturevalue("portable") if options is None else options
    assert run_derive(origin, tmp_path, *options, range_bytes=range_bytes) == once_derived


def test_an_order_can_be_kept(origin: str, tmp_path: Path) -> None:
    with beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"])) as pipeline:
        read = pipeline | ReadDataset(origin, "train[10%:30%]", with_ids="index", range_bytes=5000)
        made = read | beam.Map(derived)
        made | WriteDataset("words", FEATURES, data_dir=tmp_path, num_shards=2, disable_shuffling=True)
    order = [int(e["id"]) for e in bd.load("words", data_dir=tmp_path, split="train")]
    assert order == [int(e["id"]) for e in bd.builder_from_directory(origin).as_dataset("train[10%:30%]")[:]]
    assert len(order) == DERIVED // 5
    assert sorted(order) != order
