"""Materialize in anybody's pipeline, and what goes wrong: one clear error, nothing published, nothing left behind."""

import json
import os
import shutil
import signal
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

import beam_datasets as bd
from beam_datasets import errors
from beam_datasets.beam import materialize as transform
from beam_datasets.beam.materialize import Materialize
from beam_datasets.materializing import copying
from tests.directories import digests
from tests.published import flip
from tests.reading.conftest import write_dataset


@pytest.fixture
def source(tmp_path) -> Path:
    return write_dataset(tmp_path / "source" / "1.0.0", {"train": [40, 30, 50], "test": [20]}, manifest=True)


def ids(directory: str | Path, split: str) -> list[int]:
    return [int(example["id"]) for example in bd.builder_from_directory(directory).as_dataset(split)[:]]


def is_empty(folder: Path) -> bool:
    return not [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "asked", [{}, {"filter": lambda e: bool(e["id"] % 2)}, {"reshuffle": "x"}], ids=["copy", "filter", "new"]
)
def test_in_a_pipeline(source, tmp_path, asked):
    slices = {"a": "train[10:60]", "b": "test"}
    with beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"])) as pipeline:
        out = pipeline | Materialize(source, split=slices, to="made:2.0.0", data_dir=tmp_path / "out", **asked)
        assert_that(out, equal_to([str(tmp_path / "out" / "made" / "2.0.0")]))
    [made] = (tmp_path / "out" / "made").iterdir()
    expected = [i for i in range(10, 60) if "filter" not in asked or i % 2]
    assert (sorted if "reshuffle" in asked else list)(ids(made, "a")) == expected
    again = bd.materialize(source, split=slices, to="made:2.0.0", data_dir=tmp_path / "again", num_workers=1, **asked)
    assert digests(made) == digests(again)
    assert not [path for path in made.iterdir() if path.is_dir()]


@pytest.mark.parametrize(
    "asked", [{}, {"filter": lambda e: bool(e["id"] % 2)}, {"reshuffle": "x"}], ids=["copy", "filter", "new"]
)
def test_a_source_that_is_built_again_after_the_plan_is_named_and_nothing_is_published(source, tmp_path, asked):
    made = Materialize(source, split="train", to="made", data_dir=tmp_path / "out", **asked)
    shutil.rmtree(source)
    write_dataset(source, {"train": [40, 30, 50], "test": [21]}, manifest=True)
    with (
        pytest.raises(errors.BeamDatasetsError, match=f"{source}: expected .*it was built again while it was read"),
        beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"])) as pipeline,
    ):
        pipeline | made
    assert not list((tmp_path / "out").rglob("dataset_info.json"))


@pytest.mark.parametrize(
    "asked, passes",
    [({}, 1), ({"filter": bool}, 2), ({"reshuffle": "x"}, 2)],
    ids=str,
)
@pytest.mark.slow
def test_the_report_counts_all_processes(source, tmp_path, asked, passes):
    asked_for = {f"split{number}": "train" for number in range(6)}
    made = bd.materialize(source, split=asked_for, to="made", data_dir=tmp_path, num_workers=2, **asked)
    counted = json.loads(Path(made, "run.json").read_text())["storage"]
    num_bytes = sum(path.stat().st_size for path in Path(made).glob("*.tfrecord-?????-of-?????"))
    assert counted["bytes_read"] >= passes * num_bytes
    assert counted["bytes_written"] >= passes * num_bytes


def test_two_in_one_pipeline_and_not_behind_something(source, tmp_path):
    with beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"])) as pipeline:
        pipeline | "one" >> Materialize(source, split="train", to="one", data_dir=tmp_path)
        pipeline | "two" >> Materialize(source, split="test", to="two", data_dir=tmp_path, reshuffle="x")
    assert ids(tmp_path / "one" / "1.0.0", "train") == list(range(120))
    assert sorted(ids(tmp_path / "two" / "1.0.0", "test")) == list(range(20))
    with pytest.raises(TypeError, match="begins a pipeline"):
        beam.Pipeline() | beam.Create([1]) | Materialize(source, to="three", data_dir=tmp_path)


def test_wrong_arguments_are_refused_before_the_run(source, tmp_path):
    out = tmp_path / "out"
    for options, kind, words in (
        ({"num_shards": 0}, ValueError, "num_shards is 0"),
        ({"num_shards": 121}, errors.BeamDatasetsError, "120 examples, too few for 121 shards"),
        ({"num_shards": 121, "reshuffle": "x"}, errors.BeamDatasetsError, "120 examples, too few for 121 shards"),
        ({"num_shards": {"x": 1}}, ValueError, r"num_shards: expected splits of the dataset, .*, got 'x'"),
        ({"min_shard_size": 9, "max_shard_size": 8}, ValueError, "min_shard_size is 9"),
        ({"num_workers": -1}, ValueError, "num_workers is -1"),
        ({"payload": "x"}, ValueError, "payload is 'x'; expected 'inline', 'spilled' or None"),
        ({"payload": "x", "filter": bool}, ValueError, "payload is 'x'"),
        ({"payload": "x", "reshuffle": "x"}, ValueError, "payload is 'x'"),
        ({"beam_options": ["--direct_running_mode=multi_threading"]}, ValueError, "multi_threading loses records"),
    ):
        with pytest.raises(kind, match=words):
            bd.materialize(source, data_dir=out, **options)
    remote = ["--runner=PortableRunner", "--job_endpoint=localhost:1", "--environment_type=DOCKER"]
    with pytest.raises(ValueError, match="data_dir is .* workers of PortableRunner cannot see"):
        bd.materialize(source, data_dir=out, beam_options=remote)
    with pytest.raises(ValueError, match="the source 1 is .* workers of PortableRunner cannot see"):
        bd.materialize(source, data_dir="memory://out", beam_options=remote)
    assert not out.exists()


def test_a_data_dir_that_cannot_be_made_is_named(source, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(errors.StorageError, match=f"^{tmp_path}/file/data: this directory cannot be made: Not a dir"):
        bd.materialize(source, data_dir=tmp_path / "file" / "data")


@pytest.mark.parametrize("num_workers", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("asked", [{}, {"filter": lambda e: True}, {"reshuffle": "x"}], ids=["copy", "filter", "new"])
def test_a_damaged_record(source, tmp_path, num_workers, asked):
    shard = sorted(source.glob("*-train*-of-00003"))[1]
    flip(shard, 200)
    with pytest.raises(errors.CorruptRecordError, match=rf"{shard}, byte \d+ \(record \d+\): data CRC") as caught:
        bd.materialize(source, data_dir=tmp_path / "out", num_workers=num_workers, **asked)
    assert "Traceback" not in str(caught.value)
    assert "[while running" not in str(caught.value)
    assert caught.value.path == str(shard)
    assert caught.value.record is not None
    assert is_empty(tmp_path / "out")


def fail_deep(example):
    return inner(example)


def inner(example):
    raise OSError(f"no disk for {example['id'] // 1000}")


@pytest.mark.parametrize("num_workers", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("more", [{}, {"reshuffle": "x"}], ids=str)
def test_a_filter_that_fails(source, tmp_path, num_workers, more):
    with pytest.raises(errors.BeamDatasetsError) as caught:
        bd.materialize(source, data_dir=tmp_path / "out", num_workers=num_workers, filter=fail_deep, **more)
    text = str(caught.value)
    assert "the filter tests.beam.test_materialize:fail_deep raised OSError: no disk for 0\n  at " in text
    assert text.count("\n") == 2
    assert "in fail_deep" in text
    assert "in inner" in text
    assert is_empty(tmp_path / "out")


@pytest.mark.slow
def test_a_killed_worker_is_one_clear_error(source, tmp_path):
    def die(example):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(errors.BeamDatasetsError, match=r"worker process \d of 2 \(pid \d+\) was killed by signal 9"):
        bd.materialize(source, data_dir=tmp_path / "out", num_workers=2, filter=die)
    assert is_empty(tmp_path / "out")


def test_nothing_is_left(source, tmp_path):
    with pytest.raises(errors.BeamDatasetsError, match="the filter keeps none of the 120 of train"):
        bd.materialize(source, data_dir=tmp_path / "out", num_workers=1, filter=lambda e: False)
    assert is_empty(tmp_path / "out")


@pytest.mark.parametrize("asked", [{"filter": lambda e: True}, {"reshuffle": "x"}], ids=["filter", "new"])
@pytest.mark.parametrize("change", [lambda numbers: numbers[1:], lambda numbers: [numbers[0], *numbers]])
def test_a_range_lost_or_doubled_by_the_engine_is_seen(source, tmp_path, monkeypatch, asked, change):
    numbers = transform._range_numbers
    monkeypatch.setattr(transform, "_range_numbers", lambda ranges: change(list(numbers(ranges))))
    # The same examples twice may be seen as such before they are seen to be too many.
    with pytest.raises(
        (errors.LostExamplesError, errors.DuplicateKeyError),
        match="ranges of the source were read, 4 were planned|two examples have the same key",
    ):
        bd.materialize(source, data_dir=tmp_path / "out", num_workers=1, **asked)
    assert is_empty(tmp_path / "out")


@pytest.mark.parametrize("change", [lambda numbers: numbers[1:], lambda numbers: [numbers[0], *numbers]])
def test_a_shard_lost_or_doubled_by_the_engine_is_seen(source, tmp_path, monkeypatch, change):
    shards = copying.CopyPlan.shards
    monkeypatch.setattr(copying.CopyPlan, "shards", lambda plan: change(list(shards(plan))))
    with pytest.raises(errors.LostExamplesError, match="were planned|planned were"):
        bd.materialize(source, data_dir=tmp_path / "out", num_workers=1, num_shards=2)
    assert is_empty(tmp_path / "out")


def test_each_step_may_be_done_twice(source, tmp_path, monkeypatch):
    once = bd.materialize(source, data_dir=tmp_path / "once", num_workers=1, filter=lambda e: bool(e["id"] % 3))
    for name in ("prepare_range", "copy_shard"):
        function = getattr(transform, name)
        monkeypatch.setattr(transform, name, lambda *args, of=function: (of(*args), of(*args))[1])
    twice = bd.materialize(source, data_dir=tmp_path / "twice", num_workers=1, filter=lambda e: bool(e["id"] % 3))
    assert digests(once) == digests(twice)
