"""Appending files to a published dataset: which are taken, types of columns, and a month by the script of the page."""

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
import warnings
from glob import glob
from pathlib import Path

import apache_beam as beam
import crc32c
import numpy as np
import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

import beam_datasets as bd
from beam_datasets import storage
from beam_datasets.beam.materialize import Materialize
from beam_datasets.cli.main import main
from beam_datasets.errors import (
    AlreadyPublishedError,
    BeamDatasetsError,
    DuplicateKeyError,
    InputError,
    NoExamplesError,
)
from beam_datasets.files.csv import Csv
from beam_datasets.files.inputs import checksum, find
from beam_datasets.files.jsonl import Jsonl
from beam_datasets.files.split_assignment import SplitBy
from beam_datasets.materializing import append_sources
from beam_datasets.materializing.append_options import AppendOptions
from beam_datasets.materializing.append_plan import plan_append
from beam_datasets.materializing.append_sources import build_sources
from beam_datasets.materializing.appending import run_append
from beam_datasets.metadata.info import MetadataDict
from beam_datasets.metadata.inputs import Inputs
from beam_datasets.publishing import leftovers
from tests.files.days import csv, rows_of
from tests.published import build

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/every-day.md"
DAYS = int(os.environ.get("BEAM_DATASETS_TEST_DAYS", 8))


@pytest.mark.parametrize("given", [[], pytest.param(["--key", "id"], marks=pytest.mark.slow)])
def test_the_key_is_that_of_the_published_version(tmp_path, capsys, given):
    """As the types of the columns are."""
    csv(tmp_path / "logs", "1.csv", "id,n", "a,1", "b,2")
    files = Csv(name="ds", pattern=f"{tmp_path}/logs/*.csv", key="id", features={"n": "float32"}, data_dir=tmp_path)
    files.build(num_workers=1)
    csv(tmp_path / "logs", "2.csv", "id,n", "c,3", "a,1")
    words = [
        "append",
        "ds",
        "--data_dir",
        str(tmp_path),
        "--from",
        "csv",
        "--pattern",
        f"{tmp_path}/logs/*.csv",
        *given,
    ]
    assert main([*words, "--on_duplicate", "skip_identical"]) == 0
    noted = "the key of the new rows is that of 1.0.0: id" in capsys.readouterr().out
    assert noted == (not given)
    rows = rows_of(bd.builder("ds", data_dir=tmp_path).data_dir, "train")
    assert sorted((row["id"].decode(), float(row["n"])) for row in rows) == [("a", 1.0), ("b", 2.0), ("c", 3.0)]


@pytest.mark.parametrize(
    "options",
    [
        {"splits": {"train": "60%", "test": "40%"}},
        {"splits": {"train": "60%", "test": "40%"}, "split_by": SplitBy(group="n")},
        {"splits": {"train": "60%", "test": "40%"}, "stratify": "n"},
        {"split_by": SplitBy(time="n"), "train_until": "7"},
        {"splits": {"a": ["0", "1"], "b": "2"}, "split_by": SplitBy(column="kind", missing="b")},
    ],
)
def test_splits_are_those_of_the_published_version(tmp_path, options):
    """As if all rows had been built at once."""

    def rows(first):
        return [f"k{n},{n % 12},{n % 3}" for n in range(first, first + 12)]

    def built(name, **given):
        return Csv(name=name, pattern=f"{tmp_path}/logs/*.csv", data_dir=tmp_path, **given)

    csv(tmp_path / "logs", "1.csv", "id,n,kind", *rows(0))
    built("ds", key="id", **options).build(num_workers=1)
    csv(tmp_path / "logs", "2.csv", "id,n,kind", *rows(12))
    with pytest.warns(
        UserWarning, match=r"the key of the new rows|new rows are split as those of 1\.0\.0: --"
    ) as notes:
        appended = bd.append("ds", built("ds"), data_dir=tmp_path)
    assert len(notes) == 2
    at_once = built("once", key="id", **options).build(num_workers=1)
    splits = bd.builder_from_directory(at_once).info.splits
    assert set(bd.builder_from_directory(appended).info.splits) == set(splits)
    for split in splits:
        keys = [sorted(row["id"] for row in rows_of(each, split)) for each in (appended, at_once)]
        assert keys[0] == keys[1] != []


def test_new_files_are_taken_and_changed_ones_reported(tmp_path):
    logs = tmp_path / "logs"

    def files(**options):
        return Csv(name="ds", pattern=f"{logs}/*.csv", key="id", data_dir=tmp_path / "data", **options)

    def append(**options):
        return bd.append("ds", files(), data_dir=tmp_path / "data", **options)

    csv(logs, "1.csv", "id,n,kind", "a,1,cat", "b,2,dog")
    first = files(features={"kind": "class"}).build(num_workers=1)
    assert json.loads(Path(first, "inputs.json").read_text())["columns"] == {
        "id": "string", "n": "int64", "kind": "class:cat,dog",
    }  # fmt: skip
    assert append() == first
    csv(logs, "2.csv", "id,n,kind", "c,3,cat")
    second = append()
    assert sorted(row["n"] for row in rows_of(second)) == [1, 2, 3]
    assert bd.builder_from_directory(second).info.features == bd.builder_from_directory(first).info.features
    csv(logs, "1.csv", "id,n,kind", "a,10,cat", "b,2,dog", "d,4,dog")
    with pytest.warns(UserWarning, match=r"have changed since 2\.0\.0 was built: 1\.csv: not taken; --take_changed"):
        assert append() == second
    with pytest.warns(UserWarning, match=r"1\.csv: taken"):
        third = append(take_changed=True, on_duplicate="replace")
    assert sorted(row["n"] for row in rows_of(third)) == [2, 3, 4, 10]
    lineage = bd.builder_from_directory(third).lineage
    assert lineage.appended == {"train": {"added": 1, "replaced": 1, "deleted": 0, "skipped": 1}}
    assert append() == third
    recorded = json.loads(Path(third, "inputs.json").read_text())["files"]
    assert {name: size for name, (size, _) in recorded.items()} == {
        path.name: path.stat().st_size for path in logs.iterdir()
    }
    csv(logs, "3.csv", "id,n,kind", "e,5,bird")
    with pytest.raises(BeamDatasetsError, match=r"3\.csv, line 2: .*bird"):
        append()
    assert sorted(path.name for path in (tmp_path / "data/ds").iterdir()) == ["1.0.0", "2.0.0", "3.0.0"]


def test_codes_with_leading_zeros_are_not_taken_for_numbers(tmp_path):
    """They would be other codes: 00123 would replace 123. Those of the published version count, or the first rows."""
    logs, data = tmp_path / "logs", tmp_path / "data"

    def files(**options):
        return Csv(pattern=f"{logs}/*.csv", key="id", data_dir=data, **options)

    csv(logs, "1.csv", "id,zip", "123,10115", "456,80331")
    made = files().build(num_workers=1)
    for row, column in (("00123,7", "id"), ("7,01067", "zip")):
        csv(logs, "2.csv", "id,zip", row)
        problem = rf"line 2: column '{column}': '0\d+' has a leading zero, .*; --feature {column}=int64 drops it"
        with pytest.raises(InputError, match=problem):
            bd.append("csv", files(), data_dir=data, on_duplicate="replace")
    assert sorted(row["zip"] for row in rows_of(made)) == [10115, 80331]
    made = bd.append("csv", files(features={"zip": "int64"}), data_dir=data)
    assert sorted(row["zip"] for row in rows_of(made)) == [1067, 10115, 80331]
    csv(logs, "1.csv", "id,zip", "123,10115", "456,01067")
    (logs / "2.csv").unlink()
    with pytest.raises(InputError, match=r"1\.csv, line 3: .* has a leading zero"):
        files(version="9.0.0", infer_rows=1).build(num_workers=1)


@pytest.mark.slow
def test_files_of_two_splits_may_have_the_same_name(tmp_path):
    """Also where they are appended a split at a time, and `train` is named or not."""

    def append(**files):
        return bd.append("ds", Csv(key="id", **files), data_dir=tmp_path / "data", new_splits=True)

    train, test = ({split: f"{tmp_path}/{split}/*.csv"} for split in ("train", "test"))
    csv(tmp_path / "train", "1.csv", "id,n", "a,1")
    csv(tmp_path / "test", "1.csv", "id,n", "b,2", "c,3")
    made = Csv(name="ds", pattern=train["train"], key="id", data_dir=tmp_path / "data").build(num_workers=1)
    assert append(splits=train) == made
    made = append(splits=test)
    assert [sorted(row["n"] for row in rows_of(made, split)) for split in ("train", "test")] == [[1], [2, 3]]
    for files in ({"splits": train}, {"splits": test}, {"splits": train | test}, {"pattern": train["train"]}):
        assert append(**files) == made
    csv(tmp_path / "train", "2.csv", "id,n", "d,4")
    made = append(splits=train)
    for files in ({"splits": train}, {"splits": train | test}, {"pattern": train["train"]}):
        assert append(**files) == made
    assert sorted(json.loads(Path(made, "inputs.json").read_text())["files"]) == ["1.csv", "test/1.csv", "train/2.csv"]
    csv(tmp_path / "train", "2.csv", "id,n", "d,5", "e,6")
    changed = {"take_changed": True, "on_duplicate": "replace", "data_dir": tmp_path / "data"}
    with pytest.warns(UserWarning, match=r" built: train/2\.csv: taken"):
        made = bd.append("ds", Csv(key="id", pattern=train["train"]), **changed)
    assert append(splits=train) == made
    csv(tmp_path / "train/train", "1.csv", "id,n", "f,7")  # not the file that has this name as one of a split
    made = append(pattern=f"{tmp_path}/train/**")
    assert sorted(row["n"] for row in rows_of(made)) == [1, 5, 6, 7]


def test_errors_about_keys_name_rows_that_differ_and_their_place(tmp_path):
    def append():
        return bd.append("ds", Csv(pattern=f"{tmp_path}/logs/*", key="id"), data_dir=tmp_path, take_changed=True)

    logs = tmp_path / "logs"
    csv(logs, "1.csv", "id,n", "a,1", "b,2", "c,3")
    made = Csv(name="ds", pattern=f"{logs}/*", key="id", data_dir=tmp_path).build(num_workers=1)
    place = {row["id"].decode(): f"{n}:{n + 1}" for n, row in enumerate(rows_of(made))}
    for changed in "abc":
        csv(logs, "1.csv", "id,n", *(f"{key},{n + 10 * (key == changed)}" for n, key in enumerate("abc", 1)), "d,4")
        with pytest.warns(UserWarning, match="taken"), pytest.raises(DuplicateKeyError) as error:
            append()
        n, row = "abc".index(changed) + 1, f"id: '{changed}'"
        both = f"ds:1.0.0:train[{place[changed]}] and {logs}/1.csv"
        assert str(error.value).startswith(f"{both} have the same key '{changed}' (its ")
        assert ", and differ. Nothing was published. Keep the first (--on_duplicate keep_old) or " in str(error.value)
        shown = [
            f"  n: {n}, {row}",
            f"  n: {n + 10}, {row}",
            f"  the new one is in {logs}/1.csv, line {n + 1}",
        ]
        assert str(error.value).endswith("\n".join(["The two examples:", *shown]))
    csv(logs, "1.csv", "id,n", "b,2")
    with (
        pytest.warns(UserWarning, match="taken"),
        pytest.raises(DuplicateKeyError, match=r"records that are equal") as error,
    ):
        append()
    assert ", and differ" not in str(error.value)


def test_checksums_decide_where_the_time_does_not(tmp_path, caplog):
    def append(**options):
        new = Csv(pattern=f"{logs}/*.csv", key="id", data_dir=tmp_path)
        with build_sources("ds", [new], AppendOptions(data_dir=tmp_path), **options) as (*_, notes):
            return notes

    def crc_of(name):
        return f"crc32c:{crc32c.crc32c((logs / name).read_bytes()):08x}"

    def inputs_of(directory):
        return json.loads(Path(directory, "inputs.json").read_text())

    logs = tmp_path / "logs"
    for name in ("1.csv", "2.csv"):
        csv(logs, name, "id,n", f"{name},1")
    made = Csv(name="ds", pattern=f"{logs}/*.csv", key="id", data_dir=tmp_path).build(num_workers=1)
    assert inputs_of(made)["checksums"] == {name: crc_of(name) for name in ("1.csv", "2.csv")}
    trial = Csv(pattern=f"{logs}/*.csv").elsewhere(tmp_path / "trial", first=1).build(num_workers=1)
    assert inputs_of(trial)["checksums"] == {}
    os.utime(logs / "1.csv", (1, 1))
    assert append() == []  # the content is the same
    time = (logs / "2.csv").stat().st_mtime_ns
    csv(logs, "2.csv", "id,n", "2.csv,2")
    assert len(append()) == 1
    os.utime(logs / "2.csv", ns=(time, time))
    assert append() == []  # as a copy that restores times: only its content differs
    [note] = append(compare_checksums=True)
    assert note.startswith("files that have changed since 1.0.0 was built: 2.csv: not taken; --take_changed")
    csv(logs, "3.csv", "id,n", "3.csv,1")
    new = Csv(pattern=f"{logs}/*.csv", key="id", data_dir=tmp_path)
    options = {"take_changed": True, "compare_checksums": True, "on_duplicate": "replace"}
    with pytest.warns(UserWarning, match=r"2\.csv: taken"):
        made = bd.append("ds", new, data_dir=tmp_path, **options)
    assert inputs_of(made)["files"] == {
        name: [(logs / name).stat().st_size, round((logs / name).stat().st_mtime, 3)] for name in os.listdir(logs)
    }
    assert inputs_of(made)["checksums"] == {name: crc_of(name) for name in os.listdir(logs)}
    assert {row["id"].decode(): row["n"] for row in rows_of(made)} == {"1.csv": 1, "2.csv": 2, "3.csv": 1}
    older = {name: value for name, value in inputs_of(made).items() if name != "checksums"}
    Path(made, "inputs.json").write_text(json.dumps(older))
    assert append(compare_checksums=True) == []
    assert caplog.messages[-1] == "no checksums are recorded of 3 files, compared by size and time: 1.csv, 2.csv, 3.csv"
    os.utime(logs / "1.csv", (2, 2))
    assert len(append()) == 1


def test_a_file_that_changes_while_it_is_built_has_no_checksum(tmp_path):
    csv(tmp_path, "1.csv", "id,n", "a,1")
    [file] = find(f"{tmp_path}/*.csv")
    assert checksum(file)
    csv(tmp_path, "1.csv", "id,n", "a,1", "b,2")
    assert not checksum(file)
    csv(tmp_path, "1.csv", "id,n", "a,2")
    os.utime(tmp_path / "1.csv", (1, 1))
    assert not checksum(file)
    (tmp_path / "1.csv").unlink()
    assert not checksum(file)
    assert not checksum(dataclasses.replace(file, path="nope://1.csv"))


def test_a_file_that_cannot_be_compared_counts_as_changed(tmp_path, monkeypatch):
    csv(tmp_path, "1.csv", "id,n", "a,1")
    [file] = find(f"{tmp_path}/*.csv")
    known = Inputs({"1.csv": (file.size, file.modified)}, checksums={"1.csv": checksum(file)})
    for changed in ([], ["1.csv"]):
        new = Csv(pattern=f"{tmp_path}/*.csv", key="id")
        assert new.prepare_append(known, take_changed=False, compare_checksums=True) == changed
        monkeypatch.setattr("beam_datasets.files.inputs.checksum", lambda _: "")


def test_files_that_cannot_be_listed_leave_the_options_of_beam(monkeypatch):
    calls = []
    monkeypatch.setattr(FileSystems, "set_options", calls.append)
    with pytest.raises(InputError, match=r"^nope://a/\*: expected a path, or a URL that begins with .*, got nope://"):
        find("nope://a/*")
    assert not calls


def test_copies_know_the_files_and_versions_without_a_record_take_all(tmp_path):
    def append(data):
        return bd.append("ds", Csv(pattern=f"{tmp_path}/logs/*.csv", key="id"), data_dir=data)

    csv(tmp_path / "logs", "1.csv", "id,n", "a,1", "b,2")
    made = Csv(name="ds", pattern=f"{tmp_path}/logs/*.csv", key="id", data_dir=tmp_path / "data").build(num_workers=1)
    whole = bd.materialize("ds", data_dir=tmp_path / "whole", source_data_dir=tmp_path / "data")
    by_beam = bd.materialize(
        "ds", data_dir=tmp_path / "by_beam", source_data_dir=tmp_path / "data", reshuffle="x", num_workers=1
    )
    copy = shutil.copytree(made, tmp_path / "copy/ds/1.0.0")
    for directory in (whole, by_beam, str(copy)):
        assert append(Path(directory).parents[1]) == directory
    part = bd.materialize("ds", split="train[:1]", data_dir=tmp_path / "part", source_data_dir=tmp_path / "data")
    with pytest.warns(UserWarning, match=r"rows that --split 'train=train\[:1\]' did not select .* stay out"):
        assert append(tmp_path / "part") == part
    Path(made, "inputs.json").unlink()
    (copy / "inputs.json").write_text("{}")
    for data in ("data", "copy"):
        with pytest.warns(UserWarning, match="all are taken"), pytest.raises(DuplicateKeyError):
            append(tmp_path / data)


def in_a_store(tmp_path):
    """Puts a dataset of files into an object store, adds a file, and returns the store and what appends it."""
    root = f"memory://{uuid.uuid4().hex}"
    csv(tmp_path / "logs", "1.csv", "id,n", "a,1", "b,2")
    made = Csv(name="ds", pattern=f"{tmp_path}/logs/*.csv", key="id", data_dir=tmp_path / "data").build(num_workers=1)
    for path in Path(made).iterdir():
        storage.write_bytes(f"{root}/ds/1.0.0/{path.name}", path.read_bytes())
    csv(tmp_path / "logs", "2.csv", "id,n", "c,3")
    return root, lambda: bd.append("ds", Csv(pattern=f"{tmp_path}/logs/*.csv", key="id"), data_dir=root)


@pytest.mark.slow
def test_files_are_appended_to_a_dataset_in_an_object_store(tmp_path):
    root, append = in_a_store(tmp_path)
    second = append()
    assert append() == second == f"{root}/ds/2.0.0"
    whole = Csv(name="ds", pattern=f"{tmp_path}/logs/*.csv", key="id", data_dir=tmp_path / "whole")
    one, shard = whole.build(num_workers=1), "ds-train.tfrecord-00000-of-00001"
    assert bytes(storage.read_bytes(f"{second}/{shard}")) == Path(one, shard).read_bytes()


KILLED = """
import sys
from glob import glob
from pathlib import Path
from beam_datasets.files import builder
from tests.files.test_appending_files import in_a_store
builder.MAX_BYTES_IN_PROCESS = -1  # so that there are workers
in_a_store(Path(sys.argv[1]))[1]()
"""


@pytest.mark.slow
@pytest.mark.parametrize("by", ["append", "gc"])
def test_what_a_killed_append_to_an_object_store_built_is_removed(tmp_path, monkeypatch, capsys, by):
    """Also a second time, if who removes it is killed; that of a process that runs stays."""
    temporary, other = tmp_path / "tmp", tmp_path / "other"
    temporary.mkdir(), other.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, other], env=os.environ | {"TMPDIR": str(temporary)}, cwd=PAGE.parents[2]
    )
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    while not (builds := list(temporary.glob("incomplete.*_append/0"))) or not scratch_of_workers(temporary):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGSTOP)  # it would end while this process makes its own store
    root, append = in_a_store(tmp_path)
    assert not leftovers.find_leftovers(root)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 120
    while left := scratch_of_workers(temporary):
        assert time.monotonic() < deadline, left
        time.sleep(0.01)
    [found] = leftovers.find_leftovers(root)
    assert (found.path, found.kind, found.abandoned) == (str(builds[0].parent), "build", True)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", ended)
        with pytest.raises(KeyboardInterrupt):
            leftovers.remove_leftover(found, root)
    if by == "append":
        append()
    else:
        capsys.readouterr()
        assert main(["gc", root, "--yes"]) == 0
        assert re.search(rf"\n{found.path} .*abandoned: process \d+ is gone\n1 removed", capsys.readouterr().out)
    assert not list(temporary.iterdir())


def scratch_of_workers(temporary):
    """Returns the directories of runner processes in which something is, which these remove when they end."""
    return glob(f"{temporary}/beam_datasets_*/*")  # unlike Path.glob, it passes over what is removed meanwhile


def ended(*_):
    raise KeyboardInterrupt


def test_a_pipeline_that_is_not_run_leaves_nothing_and_one_that_is_run_knows_the_files(tmp_path):
    csv(tmp_path / "logs", "1.csv", "id,n", "a,1", "b,2")
    made = Csv(name="ds", pattern=f"{tmp_path}/logs/*.csv", key="id", data_dir=tmp_path / "data").build(num_workers=1)
    pipeline = beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"]))
    pipeline | Materialize(made, to="ds", data_dir=tmp_path / "out")
    assert not list(tmp_path.glob("out/**/*"))
    pipeline.run().wait_until_finish()
    assert (tmp_path / "out/ds/1.0.0/inputs.json").read_bytes() == Path(made, "inputs.json").read_bytes()


def test_files_are_appended_to_the_version_that_they_were_compared_with(tmp_path, monkeypatch):
    def append():
        files = Csv(name="ds", pattern=f"{tmp_path}/logs/*.csv", key="id", data_dir=tmp_path / "data")
        return bd.append("ds", files, data_dir=tmp_path / "data", on_duplicate="skip_identical")

    def build_while_another_process_appends(*args):
        built = build(*args)
        monkeypatch.setattr(append_sources, "_build_all", build)
        append()
        return built

    csv(tmp_path / "logs", "1.csv", "id,n", "a,1")
    Csv(name="ds", pattern=f"{tmp_path}/logs/*.csv", key="id", data_dir=tmp_path / "data").build(num_workers=1)
    csv(tmp_path / "logs", "2.csv", "id,n", "b,2")
    build = append_sources._build_all
    monkeypatch.setattr(append_sources, "_build_all", build_while_another_process_appends)
    with pytest.raises(AlreadyPublishedError):
        append()
    assert sorted(path.name for path in (tmp_path / "data/ds").iterdir()) == ["1.0.0", "2.0.0"]


def test_metadata_of_an_author_stay(tmp_path):
    features = {"id": bd.features.Text(), "n": np.int64}
    name_of_files = {"metadata": MetadataDict(input="interviews")}  # under which builders of files record them
    build(tmp_path / "data", features, {"train": [("a", {"id": "a", "n": 1})]}, info=name_of_files)
    csv(tmp_path / "logs", "1.csv", "id,n", "b,2")
    new = Csv(pattern=f"{tmp_path}/logs/*.csv", key="id")
    with pytest.warns(UserWarning, match=r"ds/1\.0\.0: no readable inputs\.json names its files: all are taken"):
        made = bd.append("ds", new, data_dir=tmp_path / "data")
    assert bd.builder_from_directory(made).info.metadata == {"input": "interviews"}
    assert sorted(row["n"] for row in rows_of(made)) == [1, 2]


def test_a_split_without_new_rows_stays(tmp_path):
    def files():
        options = {"splits": {"train": "..100", "test": "100.."}, "split_by": SplitBy(time="n")}
        return Csv(name="ds", pattern=f"{tmp_path}/logs/*.csv", key="id", data_dir=tmp_path / "data", **options)

    csv(tmp_path / "logs", "1.csv", "id,n", "a,1", "b,200")
    files().build(num_workers=1)
    csv(tmp_path / "logs", "2.csv", "id,n", "c,2")
    second = bd.append("ds", files(), data_dir=tmp_path / "data")
    assert [row["n"] for row in rows_of(second, "test")] == [200]
    assert sorted(row["n"] for row in rows_of(second)) == [1, 2]
    lineage = bd.builder_from_directory(second).lineage
    assert [each["added"] for each in (lineage.appended["train"], lineage.appended["test"])] == [1, 0]


@pytest.mark.parametrize(
    ("changed", "got"),
    [
        ({"splits": {"test": "50%", "train": "50%"}}, "--key id --split_by group=user --splits test=50%"),
        ({"splits": {"train": "60%", "test": "40%"}}, "--key id --split_by group=user --splits train=60%"),
        ({"split_by": SplitBy(group="id")}, "--key id --split_by group=id"),
        ({"key": "user"}, "--key user --split_by group=user --splits train=50%"),
    ],
)
@pytest.mark.slow
def test_options_by_which_rows_would_be_doubled_or_move_are_refused(tmp_path, changed, got):
    def files(**changed):
        options = {"key": "id", "splits": {"train": "50%", "test": "50%"}, "split_by": SplitBy(group="user")}
        return Csv(name="ds", pattern=f"{tmp_path}/logs/*.csv", data_dir=tmp_path / "data", **{**options, **changed})

    csv(tmp_path / "logs", "1.csv", "id,user", *(f"1-{n},{n}" for n in range(20)))
    files().build(num_workers=1)
    csv(tmp_path / "logs", "2.csv", "id,user", *(f"2-{n},{n}" for n in range(20)))
    expected = "built, --key id --split_by group=user --splits train=50% --splits test=50%, got "
    for _ in range(2):  # the version that was appended knows the options, too
        with pytest.raises(BeamDatasetsError, match=re.escape(expected + got)):
            bd.append("ds", files(**changed), data_dir=tmp_path / "data")
        made = bd.append("ds", files(), data_dir=tmp_path / "data")
    users = [{row["user"] for row in rows_of(made, split)} for split in ("train", "test")]
    assert users[0] | users[1] == set(range(20))
    assert not users[0] & users[1]


@pytest.mark.parametrize("given", [{"key": "id"}, {"splits": {"train": "50%", "test": "50%"}}], ids=str)
def test_options_that_the_published_version_was_built_without_are_refused(tmp_path, given):
    def files(**given):
        return Csv(name="ds", pattern=f"{tmp_path}/logs/*.csv", data_dir=tmp_path / "data", **given)

    csv(tmp_path / "logs", "1.csv", "id,n", "a,1", "b,2")
    files().build(num_workers=1)
    csv(tmp_path / "logs", "1.csv", "id,n", "a,1", "b,2", "c,3")
    with pytest.raises(BeamDatasetsError, match="built, none, got --"):
        bd.append("ds", files(**given), data_dir=tmp_path / "data", take_changed=True, new_splits=True)


@pytest.mark.parametrize(
    ("by", "is_published"),
    [
        ("group", False),
        ("time", True),
        *(pytest.param(by, False, marks=pytest.mark.slow) for by in ("time", "column", "stratify")),
        pytest.param("group", True, marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_a_row_whose_split_changed_stands_in_one_split(tmp_path, by, is_published):
    def files(name="ds", pattern="logs/*.csv"):
        shares = {"train": "50%", "test": "50%"}
        options = {
            "group": {"splits": shares, "split_by": SplitBy(group="n")},
            "time": {"splits": {"a": "..20", "b": "20..40", "c": "40.."}, "split_by": SplitBy(time="n")},
            "column": {"splits": {"train": ["0", "1"], "test": "2"}, "split_by": SplitBy(column="part")},
            "stratify": {"splits": shares, "stratify": "n"},
        }[by]
        return Csv(name=name, pattern=f"{tmp_path}/{pattern}", key="id", data_dir=data, **options)

    def write(name, rows, folder="logs"):
        csv(tmp_path / folder, name, "id,n,part", *(f"{key},{n},{n % 3}" for key, n in rows.items()))

    def splits_of(directory):
        info = bd.builder_from_directory(directory).info
        found = [(row["id"].decode(), (row["n"], split)) for split in info.splits for row in rows_of(directory, split)]
        assert len(dict(found)) == len(found)
        return dict(found)

    data = tmp_path / "data"
    old, new = {f"k{n}": n for n in range(60)}, {f"k{n}": (n * 7 + 5) % 60 for n in range(30, 75)}
    write("1.csv", old)
    first = splits_of(files().build(num_workers=1))
    write("2.csv", new)
    write("all.csv", old | new, "union")
    whole = files("whole", "union/*.csv").build(num_workers=1)
    expected = splits_of(whole)
    moved = {(first[key][1], expected[key][1]) for key in first if first[key][1] != expected[key][1]}
    assert moved
    more = files("more", "logs/2.csv").build(num_workers=1) if is_published else files()
    for on_duplicate in ("error", "skip_identical"):
        with pytest.raises(DuplicateKeyError, match=r"has the key 'k\d+' in split '\w+', and (/.*csv|more:1.0.0) in "):
            bd.append("ds", more, data_dir=data, on_duplicate=on_duplicate)
    assert [path.name for path in (data / "ds").iterdir()] == ["1.0.0"]
    kept = bd.append("ds", more, data_dir=data, on_duplicate="keep_old")
    assert splits_of(kept) == expected | first
    options = AppendOptions(data_dir=data, on_duplicate="replace", version="3.0.0")
    with build_sources("ds:1.0.0", [more], options) as (source, sources, _):
        plan = plan_append(source, sources, options)
        replaced = run_append(plan)
    assert splits_of(replaced) == expected
    assert set(plan.moved) == moved
    assert sum(plan.moved.values()) == sum(split.counts.deleted for split in plan.splits)
    for path in Path(whole).glob("*.tfrecord*"):
        assert Path(replaced, path.name.replace("whole-", "ds-")).read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_keys_in_two_splits_of_new_files_and_published_rows_whose_keys_are_unknown(tmp_path):
    def files(name="ds", number="*", key="id"):
        options = {"splits": {"train": "50%", "test": "50%"}, "split_by": SplitBy(group="n"), "key": key}
        return Csv(name=name, pattern=f"{tmp_path}/logs/{number}.csv", data_dir=tmp_path, **options)

    def append(new, **options):
        return bd.append("ds", new, data_dir=tmp_path, **options)

    csv(tmp_path / "logs", "1.csv", "id,n", *(f"a{n},{n}" for n in range(20)))
    made = files().build(num_workers=1)
    groups = [[row["n"] for row in rows_of(made, split)] for split in ("train", "test")]
    csv(tmp_path / "logs", "2.csv", "id,n", f"b,{groups[0][0]}")
    csv(tmp_path / "logs", "3.csv", "id,n", f"b,{groups[1][0]}", f"a{groups[0][1]},{groups[1][0]}")
    with pytest.raises(DuplicateKeyError, match=r"logs/2\.csv \(and 1 more\) has the key 'b' in two") as error:
        append(files())
    places = [f"  {split}: {tmp_path}/logs/{n}.csv, line 2" for split, n in [("train", 2), ("test", 3)]]
    assert "\n".join([". The rows:", *places, "  If the rows are in different files, --on_dup"]) in str(error.value)
    second = append(files(), on_duplicate="replace")  # files are appended in the order of their names
    found = {row["id"].decode(): split for split in ("train", "test") for row in rows_of(second, split)}
    assert (found["b"], found[f"a{groups[0][1]}"], len(found)) == ("test", "test", 21)
    assert sum(split.num_examples for split in bd.builder_from_directory(second).info.splits.values()) == 21
    csv(tmp_path / "logs", "4.csv", "id,n", f"c,{groups[0][0]}", f"c,{groups[1][0]}")
    with pytest.raises(DuplicateKeyError, match=r"the key 'c' in two splits(.|\n)*\n  train: .*/4.csv, line 2"):
        append(files(), on_duplicate="replace")
    other = Path(files("other", "1", key=None).build(num_workers=1))
    with pytest.raises(BeamDatasetsError, match="expected the options by which .* --key id --split_by group=n"):
        append("other", on_duplicate="replace")
    (other / "inputs.json").unlink()
    with pytest.raises(BeamDatasetsError, match=r"other:1.0.0: expected a column with the keys of its rows \(id\)"):
        append("other", on_duplicate="replace")


@pytest.mark.slow
def test_published_rows_whose_keys_are_in_a_nested_object_are_looked_up_in_all_splits(tmp_path):
    def files(name, number):
        options = {"splits": {"train": "50%", "test": "50%"}, "split_by": SplitBy(group="n"), "key": "user/id"}
        return Jsonl(name=name, pattern=f"{tmp_path}/{number}.jsonl", data_dir=tmp_path, **options)

    def write(name, rows):
        lines = [json.dumps({"user": {"id": key, "name": "x"}, "n": n}) for key, n in rows.items()]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))

    write(1, {f"k{n}": n for n in range(20)})
    first = files("ds", 1).build(num_workers=1)
    same = Jsonl(
        name="ds",
        pattern=f"{tmp_path}/1.jsonl",
        splits={"train": "50%", "test": "50%"},
        split_by=SplitBy(group="n"),
        key="user.id",
        data_dir=tmp_path,
    )
    assert bd.append("ds", same, data_dir=tmp_path) == first  # the same options; nothing is new
    groups = [[int(row["n"]) for row in rows_of(first, split)] for split in ("train", "test")]
    moved = f"k{groups[0][0]}"
    write(2, {moved: groups[1][0], "new": groups[0][1]})
    files("more", 2).build(num_workers=1)
    with pytest.raises(DuplicateKeyError, match=f"ds:1.0.0 has the key '{moved}' in split 'train', and more:1.0.0"):
        bd.append("ds", "more", data_dir=tmp_path)
    second = bd.append("ds", "more", data_dir=tmp_path, on_duplicate="replace")
    found = [(row["user"]["id"].decode(), split) for split in ("train", "test") for row in rows_of(second, split)]
    assert len(found) == len(dict(found)) == 21
    assert dict(found)[moved] == "test"


def test_rows_of_an_own_builder_stand_in_one_split_of_files_that_are_split_by_a_group(tmp_path):
    class Corrections(bd.DatasetBuilder, skip_registration=True):
        VERSION = "1.0.0"

        def _info(self):
            return bd.DatasetInfo(builder=self, features={"id": bd.features.Text(), "n": np.int64})

        def _split_generators(self):
            return dict.fromkeys(("train", "test"), bd.SourceUnits(["all"], lambda _: self.rows()))

        def rows(self):
            for key, n in {moved: groups["test"], "new": 1}.items():
                yield key, {"id": key, "n": n}, split_of(n)

    def splits_of(directory):
        return sorted((row["id"].decode(), split) for split in ("train", "test") for row in rows_of(directory, split))

    split_of = bd.SplitByHash({"train": "50%", "test": "50%"})
    csv(tmp_path / "logs", "1.csv", "id,n", *(f"a{n},{n}" for n in range(20)))
    options = {"splits": split_of.shares, "split_by": SplitBy(group="n"), "key": "id"}
    old = Csv(name="ds", pattern=f"{tmp_path}/logs/*.csv", data_dir=tmp_path, **options).build(num_workers=1)
    groups = {split_of(n): n for n in range(20)}
    moved = f"a{groups['train']}"
    with pytest.raises(DuplicateKeyError, match=f"the key '{moved}' in split 'train', and the builder Corrections "):
        bd.append("ds", Corrections(data_dir=tmp_path), data_dir=tmp_path)
    made = bd.append("ds", Corrections(data_dir=tmp_path), data_dir=tmp_path, on_duplicate="replace")
    kept = set(splits_of(old)) - {(moved, "train")}
    assert splits_of(made) == sorted([*kept, (moved, "test"), ("new", split_of(1))])


@pytest.mark.slow
def test_keys_of_published_rows_need_not_be_utf_8(tmp_path):
    csv(tmp_path / "logs", "1.csv", "id,n", *(f"a{n},{n}" for n in range(20)))
    options = {"splits": {"train": "50%", "test": "50%"}, "split_by": SplitBy(group="n"), "key": "id"}
    Csv(name="ds", pattern=f"{tmp_path}/logs/*.csv", data_dir=tmp_path, **options).build(num_workers=1)
    keys = [b"\xff", "b\\c", "\u00e9"]
    features = {"id": bd.features.Text(), "n": np.int64}
    build(tmp_path, features, {"train": [(key, {"id": key, "n": 1}) for key in keys]}, name="more")
    made = bd.append("ds", "more", data_dir=tmp_path)
    found = {row["id"] for split in ("train", "test") for row in rows_of(made, split)}
    assert found == {f"a{n}".encode() for n in range(20)} | {b"\xff", b"b\\c", "\u00e9".encode()}
    build(tmp_path, features, {"train": [("x", {"id": "y", "n": 1})]}, name="others")
    with pytest.raises(BeamDatasetsError, match=r"others:1.0.0: .* got one with other values than its keys"):
        bd.append("ds", "others", data_dir=tmp_path)


def test_files_of_which_all_rows_are_selected_are_known(tmp_path):
    def append(split):
        files = Csv(pattern=f"{tmp_path}/logs/*", key="id", data_dir=tmp_path)
        return bd.append("ds", files, data_dir=tmp_path, split=split)

    csv(tmp_path / "logs", "1.csv", "id,n", "a,1")
    Csv(name="ds", pattern=f"{tmp_path}/logs/*", key="id", data_dir=tmp_path).build(num_workers=1)
    csv(tmp_path / "logs", "2.csv", "id,n", "b,2", "c,3")
    made = append("train=train")
    assert append("train=train") == made
    csv(tmp_path / "logs", "3.csv", "id,n", "d,4", "e,5")
    append("train=train[:1]")
    with pytest.raises(DuplicateKeyError):  # of a part of its rows, which may have to be completed
        append(None)


def test_files_of_which_a_half_is_selected_twice_are_not_known(tmp_path):
    def append(**options):
        files = Csv(pattern=f"{tmp_path}/logs/*", key="id", data_dir=tmp_path)
        return bd.append("ds", files, data_dir=tmp_path, new_splits=True, **options)

    csv(tmp_path / "logs", "1.csv", "id,n", "a,1")
    Csv(name="ds", pattern=f"{tmp_path}/logs/*", key="id", data_dir=tmp_path).build(num_workers=1)
    csv(tmp_path / "logs", "2.csv", "id,n", "b,2", "c,3")
    append(split=["train=train[:1]", "more=train[:1]"])
    made = append(on_duplicate="skip_identical")
    assert sorted(row["id"] for row in rows_of(made)) == [b"a", b"b", b"c"]


def test_files_of_which_all_rows_are_left_out_are_an_error(tmp_path):
    def files():
        return Csv(name="ds", pattern=f"{tmp_path}/logs/*.csv", key="id", skip_bad=True, data_dir=tmp_path)

    csv(tmp_path / "logs", "1.csv", "id,n", "a,1")
    files().build(num_workers=1)
    csv(tmp_path / "logs", "2.csv", "id,n", "b,x")
    with pytest.raises(NoExamplesError, match="split 'train' has no examples"):
        bd.append("ds", files(), data_dir=tmp_path)


@pytest.mark.slow
def test_a_month_by_the_script_of_the_page(tmp_path):
    """A missing, a doubled and a corrected day; runs twice and two at once; against a dict of all events."""
    [script] = re.findall(r'```sh title="day.sh"\n(.*?)```', PAGE.read_text(), re.DOTALL)
    (tmp_path / "day.sh").write_text(script)
    (tmp_path / "takedown.txt").write_text("2-1\n")
    logs, late = tmp_path / "logs", tmp_path / "late"
    logs.mkdir(), late.mkdir()
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def write(day, folder=logs, page=0, name=None):
        events = [{"id": f"{day}-{n}", "page": n + page} | ({"ref": "x"} if day > 5 else {}) for n in range(5 + day)]
        text = "".join(json.dumps(event) + "\n" for event in events)
        (folder / f"{name or f'2026-01-{day:02}'}.jsonl").write_text(text)

    def start():
        return subprocess.Popen(
            ["sh", "day.sh"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def run():
        process = start()
        out = process.communicate()[0]
        assert process.returncode == 0, out
        return out

    def check():
        expected = {}
        for path in sorted(logs.iterdir()):
            expected |= {event["id"]: event for event in map(json.loads, path.read_text().splitlines())}
        expected.pop("2-1", None)
        dataset = bd.load("clicks:latest", split="train", data_dir=tmp_path / "data")
        found = {row["id"].decode(): (row["page"], row.get("ref")) for row in dataset}
        assert found == {key: (e["page"], b"x" if "ref" in e else None) for key, e in expected.items()}
        assert len(dataset) == len(expected)

    write(1)
    build = ["build", "jsonl", "--name=clicks", "--data_dir=data", "--pattern=logs/*.jsonl", "--key=id"]
    subprocess.run(["beam-datasets", *build], cwd=tmp_path, env=environment, check=True, capture_output=True)
    for day in range(2, DAYS + 1):
        write(day, folder=late if day == 3 else logs)  # the third day is missing
        if day == 4:
            write(day, name="2026-01-04-again")
        if day == 5:
            (late / "2026-01-03.jsonl").rename(logs / "2026-01-03.jsonl")
        if day == 6:
            write(4, page=100)
            write(4, page=100, name="2026-01-04-again")
        if day == 7:
            both = [start(), start()]
            outs = [process.communicate()[0] for process in both]
            assert 0 in [process.returncode for process in both], outs
            assert all(p.returncode == 0 or "already published" in out for p, out in zip(both, outs)), outs
        run()
        check()
        if day in (4, 5):
            assert "Nothing changes" in run()
            check()
    versions = [path.name for path in (tmp_path / "data/clicks").iterdir() if path.name[0].isdigit()]
    assert len(versions) <= 7
    assert bd.verify(bd.builder("clicks:latest", data_dir=tmp_path / "data").dataset_dir).whole


@pytest.mark.parametrize("take_changed", [False, True])
def test_a_builder_that_was_used_before_takes_the_files_of_today(tmp_path, take_changed):
    """It appended to the list of files that it had read for its features, so nothing was new."""
    csv(tmp_path / "logs", "1.csv", "id,n", "a,1")
    files = Csv(name="ds", pattern=f"{tmp_path}/logs/*.csv", key="id", data_dir=tmp_path)
    files.build()
    csv(tmp_path / "logs", "2.csv", "id,n", "b,2")
    if take_changed:
        csv(tmp_path / "logs", "1.csv", "id,n", "a,1", "c,33")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        directory = bd.append("ds", files, data_dir=tmp_path, take_changed=take_changed, on_duplicate="keep_old")
    assert sorted(row["id"] for row in rows_of(directory)) == [b"a", b"b", *([b"c"] if take_changed else [])]
