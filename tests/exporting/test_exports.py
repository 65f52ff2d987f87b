"""An export as a whole: what is refused before it begins, how it becomes visible, what it says of itself."""

import contextlib
import errno
import functools
import json
import os
import shutil
import sys
import tracemalloc
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import crc32c
import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets import errors, storage
from beam_datasets import features as F
from beam_datasets.beam import export as beam_export
from beam_datasets.exporting.run import FORMATS, finish, run_in_process, staging, write_shard
from beam_datasets.exporting.writing import JsonLines
from beam_datasets.features.config import UnknownFeature
from beam_datasets.formats.example import serialize
from beam_datasets.options import EngineOptions
from beam_datasets.publishing import phases, store_commit
from beam_datasets.publishing.progress import measure
from tests.diffing.versions import Made
from tests.directories import contents
from tests.exporting.conftest import INTER, MANY, dataset_of, export, plan_export
from tests.facts import raises_with
from tests.published import flip, upload
from tests.reading.conftest import Storage, write_dataset

# ------------------------------------------------------------------------------------------------- before it begins


@pytest.mark.parametrize(
    "source, options, error, message",
    [
        ("spec_intr", {}, errors.DatasetNotFoundError, "no dataset 'spec_intr' .* Did you mean 'spec_inter'"),
        (
            "spec_inter",
            {"format": "parket"},
            errors.BeamDatasetsError,
            "parquet, .* got 'parket'. Did you mean 'parquet'",
        ),
        ("spec_inter", {"split": "trian"}, errors.SplitError, "no split 'trian'"),
        ("spec_inter", {"split": "train[:9%"}, errors.SplitError, "'train.:9%'"),
        ("spec_inter", {"split": "train[:0]"}, errors.SplitError, "'train.:0.' selects"),
        ("spec_inter", {"split": "train+test"}, errors.BeamDatasetsError, "Write NAME="),
        ("spec_inter", {"features": ["nam"]}, errors.BeamDatasetsError, "no feature 'nam'.* Did you mean 'name'"),
        (
            "spec_inter",
            {"binary": ["idx"]},
            errors.BeamDatasetsError,
            "'idx' is not a feature of text or bytes; .* name",
        ),
        ("spec_inter", {"num_shards": 0}, ValueError, "num_shards is 0"),
        ("spec_inter", {"num_shards": 1000}, errors.BeamDatasetsError, "411 examples, too few for 1000 shards"),
        (
            "spec_inter",
            {"num_shards": {"tran": 1}},
            ValueError,
            "num_shards: expected splits .*, got 'tran'",
        ),
    ],
)
def test_refuses(tmp_path: Path, source: str, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        plan_export(source, tmp_path / "out", data_dir=INTER.parents[1], **options)
    assert not list(tmp_path.iterdir())


def test_refuses_a_place_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    with raises_with(errors.PathExistsError, path=str(tmp_path / "file")):
        plan_export(INTER, tmp_path / "file")
    with raises_with(errors.PathExistsError, path=str(tmp_path / "full"), mentions=["is not empty"]):
        plan_export(INTER, tmp_path / "full")
    (tmp_path / "empty").mkdir()
    assert len(list(export(INTER, tmp_path / "empty").iterdir())) == 2
    source = write_dataset(tmp_path / "d" / "1.0.0", {"train": [3]})
    for place in (source, source / "out"):
        with raises_with(errors.BeamDatasetsError, path=str(place), mentions=[f"dataset {source}"]):
            plan_export(source, place)
    assert export(source, source.parent / "1.0.0_export").exists()


def test_refuses_features_that_are_not_known(tmp_path: Path) -> None:
    source = dataset_of(tmp_path, {"a": np.int64, "b": F.Text()}, [{"a": 1, "b": "x"}], 1)
    tree = bd.features.FeaturesDict({"a": UnknownFeature(node={"pythonClassName": "mine.Own"}), "b": F.Text()})
    (source / "features.json").write_text(F.to_json_text(tree))
    with pytest.raises(errors.BeamDatasetsError, match=r"feature 'a', mine\.Own.* --features"):
        plan_export(source, tmp_path / "out")
    assert export(source, tmp_path / "out", "jsonl", features=["b"])


@pytest.mark.parametrize(
    "name, module, package",
    [("parquet", "pyarrow", "pyarrow"), ("webdataset", "webdataset", "webdataset"),
     ("arrayrecord", "array_record.python.array_record_module", "array_record")],
)  # fmt: skip
def test_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(errors.MissingDependencyError, match=rf"needs the package {package}.*: pip install .*\[export"):
        plan_export(INTER, tmp_path / "out", name)


# ----------------------------------------------------------------------------------------------- while it is written


def test_nothing_is_visible_before_all_is_written(tmp_path: Path) -> None:
    plan = plan_export(INTER, tmp_path / "out", num_shards=3)
    shards, run = list(plan.shards()), plan.new_run("")
    with staging(run):
        written = [write_shard(plan, run.staging_dir, *shard) for shard in shards]
        assert not (tmp_path / "out").exists()
        [staged] = tmp_path.iterdir()
        assert staged.name.startswith("incomplete.")
        assert json.loads((staged / "owner.json").read_text())["job"] == run.job
        assert measure(run.staging_dir, None).bytes_written == sum(file.num_bytes for file in written)
        (staged / ".tmp-of a killed attempt").write_text("x")
        again = write_shard(plan, run.staging_dir, *shards[1])  # an engine may do it twice
        assert again == written[1]
        for missing in ([], written[:2], [*written, written[0]], [*written[:2], replace(written[2], num_examples=1)]):
            with raises_with(errors.LostExamplesError, split="train", expected="411 examples in 3 shards"):
                finish(plan, run, missing)
        assert finish(plan, run, list(reversed(written))) == str(tmp_path / "out")
        assert finish(plan, run, written) == str(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "_export.json",
        *(f"train-{shard:05d}-of-00003.parquet" for shard in range(3)),
    ]


@pytest.mark.parametrize("name", ["out", "incomplete.out"])
def test_the_error_of_a_full_disk_names_the_place_that_was_given(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    plan = plan_export(INTER, tmp_path / name, num_shards=1)
    run = plan.new_run("")

    def write() -> None:
        with staging(run):
            monkeypatch.setattr(os, "replace", fail)
            storage.write_bytes(storage.join(run.staging_dir, "a"), b"x")

    with raises_with(errors.StorageError, mentions=[f"{tmp_path}/{name}/", "the disk is full"]) as error:
        write()
    assert error.value.errno == errno.ENOSPC
    assert error.value.path == f"{tmp_path}/{name}/a"


@pytest.fixture(params=["local", "objects"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A directory that is not there yet, on a disk and on an object store."""
    return f"memory://{uuid.uuid4().hex}/out" if request.param == "objects" else str(tmp_path / "out")


def execute(plan: Any, meanwhile: Any = None, run: Any = None) -> str:
    run = run or plan.new_run("")
    with staging(run):
        written = [write_shard(plan, run.staging_dir, *shard) for shard in plan.shards()]
        if meanwhile is not None:
            execute(meanwhile)
        return finish(plan, run, written)


@pytest.mark.parametrize("options", [{"split": "train[:5]"}, {"num_shards": 2}, {"binary": ["name"]}], ids=str)
def test_one_of_two_wins(place: str, options: dict[str, Any]) -> None:
    """On a disk the first that is complete, on an object store the first that starts; the other changes nothing."""
    plan, other = plan_export(INTER, place), plan_export(INTER, place, **options)
    with raises_with(errors.PathExistsError, path=place):
        execute(plan, other)
    if storage.is_remote(place):
        execute(plan_export(INTER, place, **options))
    found = contents(place)
    assert storage.list_dir(storage.dirname(place)) == ["out"]
    with raises_with(errors.PathExistsError, path=place):
        plan_export(INTER, place)
    storage.remove_tree(place)
    assert contents(execute(plan_export(INTER, place, **options))) == found


def test_a_run_that_was_given_up_exports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """However late it comes."""
    place = f"memory://{uuid.uuid4().hex}/out"
    plan, other = plan_export(INTER, place, num_shards=2), plan_export(INTER, place, split="train[:5]")
    create, run = storage.create_bytes, plan.new_run("")

    def decide_late(path: str, content: bytes) -> None:
        if not path.endswith("decision.json"):
            create(path, content)
            return
        monkeypatch.undo()
        store_commit.discard(run, by="a test")
        execute(other)
        create(path, content)

    monkeypatch.setattr(storage, "create_bytes", decide_late)
    with raises_with(errors.PathExistsError, mentions=[place]):
        execute(plan, run=run)
    assert json.loads(contents(place)["_export.json"])["splits"]["train"]["num_examples"] == [5]


@pytest.mark.parametrize("dies_at", range(6))
def test_an_export_that_died_is_finished_or_begun_anew(monkeypatch: pytest.MonkeyPatch, dies_at: int) -> None:
    pytest.importorskip("array_record")
    place = f"memory://{uuid.uuid4().hex}/out"
    plan = plan_export(INTER, place, "arrayrecord", num_shards=2)
    run = plan.new_run("")
    run = replace(run, owner=replace(run.owner, start_ticks=1))
    calls = []

    def dies(call: Any) -> Any:
        def called(*args: Any) -> Any:
            calls.append(args)
            if len(calls) > dies_at:
                raise SystemExit
            return call(*args)

        return called

    for name in ("create_copy", "create_bytes"):
        monkeypatch.setattr(storage, name, dies(getattr(storage, name)))
    monkeypatch.setattr(phases, "_give_up", lambda *_: None)
    with pytest.raises(SystemExit):
        execute(plan, run=run)
    monkeypatch.undo()
    again = plan_export(INTER, place, "arrayrecord", num_shards=2)
    with contextlib.suppress(errors.PathExistsError):
        execute(again)
    assert sorted(contents(place)) == sorted(
        ["_export.json", "dataset_info.json", "features.json", *(plan.filename(*shard) for shard in plan.shards())]
    )
    assert storage.list_dir(storage.dirname(place)) == ["out"]


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_bytes(tmp_path: Path, name: str) -> None:
    """The order of the splits is the source's."""
    one, other = (export(MANY, tmp_path / folder, name) for folder in "ab")
    assert contents(str(one)) == contents(str(other))
    assert list(json.loads((one / "_export.json").read_text())["splits"]) == ["train", "test"]


def test_damage_names_file_byte_and_record(tmp_path: Path) -> None:
    source = write_dataset(tmp_path / "d" / "1.0.0", {"train": [10, 30]})
    [shard] = source.glob("*00001-of-00002")
    flip(shard, -1)
    for name in FORMATS:
        with raises_with(errors.CorruptRecordError, path=str(shard), record=29):
            export(source, tmp_path / "out", name)
        assert export(source, tmp_path / name, name, split="train[:30]")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["d", *FORMATS])


@pytest.mark.parametrize("depth, lists", [(0, [""]), (1, ["/ragged_flat_values", "/ragged_row_lengths_0"])])
@pytest.mark.parametrize("name", ["parquet", "jsonl", "webdataset"])
def test_a_record_whose_lists_differ_in_length_is_an_error(
    tmp_path: Path, name: str, depth: int, lists: list[str]
) -> None:
    """No item is left out because it lacks one of its features."""
    pairs = F.Sequence({"x": np.int64, "y": np.int64})
    tree = F.FeaturesDict({"more": {"pairs": F.Sequence(pairs) if depth else pairs}})

    def record(lengths: dict[str, int]) -> bytes:
        of = {f"more/pairs/{key}": ([7] * count, [count]) for key, count in lengths.items()}
        return serialize({key + end: value for key, values in of.items() for end, value in zip(lists, values)})

    records = dict.fromkeys(range(20), record({"x": 2, "y": 2})) | {7: record({"x": 2, "y": 1})}
    made = Made(tree, {"train": records}, orders={"train": range(20)}, encode=bytes).write(tmp_path, "1.0.0")
    with raises_with(errors.FeatureError, record=7, feature="more.pairs"):
        export(made, tmp_path / "out", name)
    assert export(made, tmp_path / "good", name, split="train[:7]+train[8:]")


def test_only_the_bytes_of_the_slice_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_dataset(tmp_path / "d" / "1.0.0", {"train": [100] * 20}, size=2000, manifest=True)
    size = bd.builder_from_directory(source).info.splits["train[1%:2%]"].num_bytes + 20 * 16
    calls = Storage(monkeypatch)
    export(source, tmp_path / "out", "jsonl", split="train[1%:2%]")
    assert sum(stop - start for _, start, stop in calls.reads) == size
    assert len(set(calls.opened())) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_memory_does_not_grow_with_a_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("beam_datasets.exporting.writing.ROW_GROUP_BYTES", 1 << 18)

    def peak(count: int) -> int:
        source = write_dataset(tmp_path / f"d{count}" / "1.0.0", {"train": [count]}, size=2000)
        tracemalloc.start()
        export(source, tmp_path / f"out{count}", name)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(600)  # what is made once and kept
    small, large = peak(1200), peak(4800)
    assert large < 1.25 * small + 100_000  # 8 bytes of offsets a record, not 2000


def test_a_shard_that_loses_examples_is_not_written(tmp_path: Path) -> None:
    class Lossy(JsonLines):
        def write(self, blocks: Iterator[Any], schema: Any, out: Any, split: str, start: int) -> None:
            next(blocks)

    plan = plan_export(INTER, tmp_path / "out", "jsonl")
    plan = replace(plan, format=Lossy(), splits=tuple(replace(split, num_bytes=10**9) for split in plan.splits))
    with raises_with(errors.LostExamplesError, expected="411 examples", got="1"):
        write_shard(plan, plan.new_run("").staging_dir, *next(plan.shards()))


@pytest.mark.parametrize("how", ["here", "beam"])
def test_a_source_that_is_built_again_after_the_plan_is_named_and_nothing_is_exported(tmp_path: Path, how: str) -> None:
    source = write_dataset(tmp_path / "source" / "1.0.0", {"train": [40], "test": [20]}, manifest=True)
    plan = plan_export(source, tmp_path / "out", "jsonl", split="train")
    shutil.rmtree(source)
    write_dataset(source, {"train": [40], "test": [21]}, manifest=True)
    run: Any = (
        run_in_process if how == "here" else functools.partial(beam_export.run, options=EngineOptions(num_workers=1))
    )
    with raises_with(errors.BeamDatasetsError, mentions=[str(source), "nothing was published"]):
        run(plan)
    assert not (tmp_path / "out").exists()


# ----------------------------------------------------------------------------------------------- what it says of itself


def test_export_json(tmp_path: Path, inter: Any) -> None:
    split = ["head=train[:100]", "rest=train[100:]"]
    made = export(inter.dataset_dir, tmp_path / "out", "jsonl", split=split, num_shards={"rest": 2}, features=["name"])
    said = json.loads((made / "_export.json").read_text())
    assert (said["format"], said["format_version"]) == ("jsonl", 1)
    assert said["splits"]["rest"]["filenames"] == [f"rest-0000{i}-of-00002.jsonl" for i in range(2)]
    for columns in said["splits"].values():
        for name, size, crc in zip(columns["filenames"], columns["num_bytes"], columns["crc32c"], strict=True):
            content = (made / name).read_bytes()
            assert (len(content), f"{crc32c.crc32c(content):08x}") == (size, crc)
    [dataset] = said["source"]["datasets"]
    assert (dataset["name"], dataset["version"]) == ("spec_inter", "1.2.3")
    assert said["source"]["features"] == ["name"]
    assert said["source"]["splits"]["rest"]["expression"] == "train[100:]"
    assert said["source"]["splits"]["rest"]["reads"] == [[0, "train", 100, 411]]
    assert F.from_json(said["features"]) == bd.features.FeaturesDict({"name": F.Text()})
    labels = json.loads((export(MANY, tmp_path / "many", "jsonl") / "_export.json").read_text())["class_names"]
    assert labels["nest-deep-lab"] == ["p", "q"]


def test_to_and_from_an_object_store(tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    local = write_dataset(tmp_path / "d" / "1.0.0", {"train": [10, 30]}, manifest=True)
    source = upload(local, "memory://exports/d/1.0.0")
    for name in FORMATS:
        plan = plan_export(source, f"memory://exports/out/{name}", name, num_shards=2)
        execute(plan)
        expected = export(local, tmp_path / name, name, num_shards=2)
        assert storage.list_dir(plan.target) == sorted(path.name for path in expected.iterdir())
        for file in expected.iterdir():
            assert storage.read_bytes(storage.join(plan.target, file.name)) == file.read_bytes()
        with raises_with(errors.PathExistsError, path=plan.target):
            plan_export(source, plan.target, name)
    assert storage.list_dir("memory://exports/out") == sorted(FORMATS)
