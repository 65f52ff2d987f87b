"""A slice is materialized with the same bytes on any runner, and has the examples of the slice."""

import contextlib
from pathlib import Path
from typing import Any

import pytest

from beam_datasets import materialize
from beam_datasets.reading.opening import builder_from_directory
from tests.directories import digests
from tests.end_to_end.numbers_dataset import Numbers

COUNT = 6_000
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
def source(tmp_path_factory) -> Path:
    """A dataset to take slices of."""
    builder = Numbers(data_dir=tmp_path_factory.mktemp("source"), count=COUNT)
    return Path(builder.build(num_shards={"train": 7, "test": 2}, num_workers=1))


def run(source: Path, data_dir: Path, way: str, **options) -> Path:
    """Materializes, and returns the directory. Expects a warning that a split of two parts is not in hash order."""
    asked = {"num_shards": {"train": 5, "rest": 3}, **WAYS[way]}
    kept: Any = pytest.warns(UserWarning, match="not in hash order")
    with contextlib.nullcontext() if "reshuffle" in asked else kept:
        return Path(materialize(source, split=SPLITS, to="made", data_dir=data_dir, **asked, **options))


@pytest.fixture(scope="module")
def expected(source, tmp_path_factory) -> dict[str, Path]:
    """Each way within this process."""
    return {way: run(source, tmp_path_factory.mktemp(way), way, num_workers=1) for way in WAYS}


@pytest.mark.parametrize("way", WAYS)
def test_examples_and_keys_are_those_of_the_slice(source, expected, way):
    whole, made = builder_from_directory(source), builder_from_directory(expected[way])
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
        for i in range(0, COUNT, 131):
            there = asked.find(f"train-{i}") is not None and ("filter" not in WAYS[way] or i % 3 != 0)
            found = made.as_dataset(split).find(f"train-{i}")
            assert (found is not None) == there
            assert found is None or made.as_dataset(split)[found]["id"] == i
        assert made.as_dataset(split).find("train-x") is None


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": 2},
        pytest.param({"num_workers": 2, "payload": "inline"}, marks=pytest.mark.slow),
        {"num_workers": 1, "payload": "inline", "block_size": 2_000},
        {"num_workers": 1, "beam_options": ["--direct_runner_bundle_repeat=0"]},
    ],
    ids=str,
)
@pytest.mark.parametrize("way", [*(pytest.param(way, marks=pytest.mark.slow) for way in WAYS if way != "all"), "all"])
def test_runs_do_not_differ(source, expected, tmp_path, way, options):
    assert digests(run(source, tmp_path, way, **options)) == digests(expected[way])


@pytest.mark.slow
def test_the_portable_job_service_writes_the_same(portable, source, expected, tmp_path):
    for way in WAYS:
        assert digests(run(source, tmp_path / way, way, beam_options=portable)) == digests(expected[way])


def test_a_spill_dir_elsewhere(source, expected, tmp_path):
    for way in ("filter", "reshuffle"):
        made = run(source, tmp_path / way, way, num_workers=1, spill_dir=tmp_path / "spill")
        assert digests(made) == digests(expected[way])
        assert not [path for path in (tmp_path / "spill").rglob("*") if path.is_file()]


def test_a_reshard_holds_the_same_records(source, tmp_path):
    made = materialize(source, data_dir=tmp_path, num_shards={"train": 3, "test": 11}, num_workers=1)
    old, new = builder_from_directory(source), builder_from_directory(made)
    assert [split.num_shards for split in new.info.splits.values()] == [3, 11]
    for split in old.info.splits:
        assert new.as_dataset(split).raw()[:] == old.as_dataset(split).raw()[:]
    again = materialize(made, data_dir=tmp_path / "again", num_shards={"train": 7, "test": 2}, num_workers=1)
    records = [name for name in digests(source) if ".tfrecord-" in name]
    assert len(records) == 18
    assert {name: digests(again)[name] for name in records} == {name: digests(source)[name] for name in records}
