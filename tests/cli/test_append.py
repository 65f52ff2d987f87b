"""`append` and `adopt` as a user types them: what they print, their exit codes, and each of their errors."""

import dataclasses
import inspect
import shutil
from pathlib import Path

import pytest

import beam_datasets as bd
from beam_datasets import catalog
from beam_datasets.cli.append import COMMAND
from beam_datasets.materializing.append_options import AppendOptions
from tests.materializing.generated import generate


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data_dir with two datasets, in the current directory."""
    monkeypatch.chdir(tmp_path)
    generate(tmp_path / "data", {"train": {n: n for n in range(20)}}, num_shards=2)
    generate(tmp_path / "data", {"train": {n: n for n in range(18, 25)}}, name="more")
    return tmp_path / "data"


def test_plan_append_and_again(data, run):
    (data / "keys.txt").write_text("3\n\n99\r\n3\n24\n")
    (data / "more.txt").write_text("\ufeff24\r\n5")
    args = ["append", "ds", "--data_dir=data", "--from=more", "--on_duplicate=skip_identical"]
    args += ["--delete=data/keys.txt", "--delete=data/more.txt"]
    code, out, _ = run(*args, "--num-shards=3", "--dry_run")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert ["train", "4", "0", "2", "3", "22"] in [row[:6] for row in rows]
    left_out = "keys to delete of new examples, which are left out: 1: 24\nkeys to delete that were not found: 1: 99\n"
    assert f"deleted keys: 2: 3, 5\n{left_out}Nothing was published (--dry_run).\n" in out
    assert not (data / "ds" / "2.0.0").exists()
    code, out, _ = run(*args, "--num-shards=3")
    assert (code, f"Published in {data}/ds/2.0.0 after " in out) == (0, True)
    assert bd.builder_from_directory(data / "ds" / "2.0.0").info.splits["train"].num_shards == 3
    code, out, _ = run(*args)
    assert (code, f"Nothing changes: {data}/ds/2.0.0 has all of it. Nothing was published." in out) == (0, True)
    assert sorted(path.name for path in (data / "ds").iterdir()) == ["1.0.0", "2.0.0"]
    code, out, _ = run("info", "ds", "--data_dir=data")
    assert "train = train+more:1.0.0:train\ntrain: 4 added, 2 deleted, 0 replaced, 3 skipped\nsource: ds:1.0.0 (" in out
    code, out, _ = run("append", "ds", "--data_dir=data", "--delete=data/keys.txt")  # the example 24 is not there
    assert "Nothing changes" in out
    (data / "keys.txt").write_text("4")
    run("append", "ds", "--data_dir=data", "--delete=data/keys.txt")
    code, out, _ = run("info", "ds", "--data_dir=data")
    assert "train: 0 added, 1 deleted, 0 replaced, 0 skipped" in out
    assert "train = train" not in out


@pytest.mark.parametrize(
    ("args", "code", "error"),
    [
        ([], 2, "expected --from SOURCE or --delete FILE, got neither"),
        (["--delete=nope"], 2, "--delete nope: expected a file of keys, one per line, got: No such file"),
        (
            ["--from=more", "--on_duplicate=replace", "--delete="],
            2,
            "expected a file of keys, one per line, got: No such file",
        ),
        (["--delete=data/ds/1.0.0/ds-train.tfrecord-00000-of-00002.index"], 2, "expected text in UTF-8, got other by"),
        (["--from=more"], 1, "ds:1.0.0:train[2:3] and more:1.0.0:train[0:1] have the same key"),
        (["--from=more", "--version=1.1.0"], 1, "expected version 2.0.0 or higher"),
        (["--from=more", "--version=1.x"], 2, "'1.x' is not a version"),
        (["--from=nope"], 1, "nope"),
        (["--from=in/d 1.csv.gz"], 2, "got a file of data. Give its format: --from csv --pattern 'in/d 1.csv.gz'"),
        (["--from=nope.py"], 2, "the file nope.py does not exist"),
        (["--from=nope.day:Day"], 2, "cannot find module 'nope.day'"),
        (["--from=nope.day/1.0.0"], 1, "'nope.day:1.0.0' is not a dataset name"),
        (["--from=jsonl", "--split=train=logs/*"], 2, "are given by --splits here: --splits train=logs/*"),
        (["--from=jsnl", "--pattern=logs"], 2, "--from jsnl: expected a builder or a format of files, got 'jsnl'. D"),
        (
            ["--from=jsonl", "--pattern=logs", "--split_by=group=user", "--split=train=100%"],
            2,
            "of the rows of files are given by --splits here: --splits train=100%",
        ),
        (["--from=jsonl", "--splits=train"], 2, "--splits: expected NAME=VALUE, such as a=b, got 'train'"),
        (["--from=jsonl", "--pattern=logs", "--splits=train=logs/*"], 2, "give shares (--splits train=80% --splits te"),
    ],
)
def test_errors(data, run, args, code, error):
    found, _, err = run("append", "ds", "--data_dir=data", *args)
    assert (found, error in err) == (code, True), err


def test_the_function_and_the_command_have_the_options():
    defaults = {field.name: field.default for field in dataclasses.fields(AppendOptions)}
    arguments = inspect.signature(bd.append).parameters
    assert {name: arguments[name].default for name in defaults} == defaults
    options = {action.dest for action in COMMAND.parser()._actions}
    assert options >= set(arguments) - {"source", "progress"}


def test_a_builder_of_several_configs_appends_the_one_of_the_dataset(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    Path("clicks.py").write_text("""
from pathlib import Path
import beam_datasets as bd

class ClicksOfConfigs(bd.DatasetBuilder):
    VERSION = "1.0.0"
    BUILDER_CONFIGS = [bd.BuilderConfig(name="eu"), bd.BuilderConfig(name="us")]

    def _info(self):
        return bd.DatasetInfo(builder=self, features={"of": bd.features.Text()})

    def _split_generators(self):
        day = Path("day").read_text()
        return {"train": [(day, {"of": self.builder_config.name})]}
""")
    Path("day").write_text("first")
    for config in ("eu", "us"):
        assert run("build", "clicks.py", "--config", config, "--data_dir=data", "--num_workers=1")[0] == 0
    Path("day").write_text("second")
    for config in ("eu", "us"):
        code, out, _ = run("append", f"clicks_of_configs/{config}", "--from=clicks.py", "--data_dir=data")
        assert (code, f"appended: the builder ClicksOfConfigs/{config}" in out) == (0, True)
        values = bd.load(f"clicks_of_configs/{config}:latest", split="train", data_dir="data")
        assert [example["of"] for example in values] == [config.encode()] * 2
    code, _, err = run("append", "clicks_of_configs/us", "--from=clicks.py/eu", "--data_dir=data")
    assert (code, "and the builder ClicksOfConfigs/eu have the same key" in err) == (1, True)


def test_each_day_by_the_builder_that_made_the_first(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    Path("by_day").mkdir()
    Path("by_day/__init__.py").touch()
    Path("by_day/day.py").write_text("""
import beam_datasets as bd

class EventsOfDays(bd.DatasetBuilder):
    VERSION = "1.0.0"

    def __init__(self, *, day: int, **options):
        self.day = day
        super().__init__(**options)

    def _info(self):
        return bd.DatasetInfo(builder=self, features={"day": bd.features.Scalar("int64")})

    def _split_generators(self):
        return {"train": [(self.day, {"day": self.day})]}
""")
    assert run("build", "by_day/day.py", "--data_dir=data", "--day=1", "--num_workers=1")[0] == 0
    for day, source in ((2, "by_day/day.py"), (3, "by_day.day:EventsOfDays")):
        code, out, err = run("append", "events_of_days", "--data_dir=data", f"--from={source}", f"--day={day}")
        assert (code, f"events_of_days/{day}.0.0 after" in out) == (0, True), err
    assert {row["day"] for row in bd.load("events_of_days:latest", split="train", data_dir="data")} == {1, 2, 3}
    assert run("tag", "events_of_days", "--data_dir=data", "last")[1].endswith("events_of_days/3.0.0\n")
    code, out, _ = run("prune", "events_of_days", "--data_dir=data", "--keep=1")
    assert [line.split()[0] for line in out.splitlines() if "to be removed" in line] == [
        "events_of_days:1.0.0", "events_of_days:2.0.0",
    ]  # fmt: skip


def test_the_version_of_the_code_is_named_beside_a_higher_one(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    Path("visits.py").write_text("""
import beam_datasets as bd

class VisitsOfCode(bd.DatasetBuilder):
    VERSION = "1.0.0"
    BUILDER_CONFIGS = [bd.BuilderConfig("eu"), bd.BuilderConfig("us")]

    def _info(self):
        return bd.DatasetInfo(builder=self, features={"n": bd.features.Scalar("int64")})

    def _split_generators(self):
        return {"train": [(n, {"n": n}) for n in range(3)]}
""")
    for config in ("eu", "us"):
        assert run("build", f"visits.py/{config}", "--data_dir=data", "--num_workers=1")[0] == 0
    Path("key.txt").write_text("1\n")
    code, out, err = run("append", "visits_of_code/us", "--data_dir=data", "--delete=key.txt", "--imports=visits.py")
    assert code == 0, err
    assert "Where its builder is imported, 'visits_of_code/us' means 1.0.0, the version of the code; ask for " in out
    monkeypatch.setattr(catalog, "_registered", {})
    code, out, _ = run("append", "visits_of_code/eu", "--data_dir=data", "--delete=key.txt")
    assert (code, out.splitlines()[-1].startswith("Published in")) == (0, True)


# `beam-datasets adopt` as a user types it


VERSION = Path(__file__).resolve().parents[1] / "data" / "tfds" / "spec_three" / "1.2.3"
FEATURES = str(VERSION / "features.json")


@pytest.fixture
def bare(tmp_path):
    folder = tmp_path / "bare"
    folder.mkdir()
    for shard in VERSION.glob("*.tfrecord-*"):
        shutil.copy(shard, folder)
    return folder


def test_in_place(bare, run):
    files = [str(path) for path in sorted(bare.iterdir())]  # as a shell expands a pattern
    code, printed, _ = run("adopt", *files, "--features", FEATURES)
    assert code == 0
    assert printed.startswith(f"spec_three:1.0.0 in {bare}\nFeaturesDict(")
    assert "validation" in printed
    assert run("info", bare)[0] == 0
    files = [str(path) for path in sorted(bare.glob("*tfrecord*"))]  # now with indexes
    code, _, err = run("adopt", *files, "--features", FEATURES)
    assert (code, "dataset_info.json is there already" in err) == (1, True)


def test_directory_of_its_own(bare, tmp_path, run):
    arguments = ["--features", FEATURES, "--name", "mine", "--version", "2.0.0", "--data-dir", str(tmp_path / "data")]
    splits = ["--split", f"a={bare}/*-train*", "--split", f"b={bare}/*-test*", "--split", f"b={bare}/*-validation*"]
    assert run("adopt", *splits, *arguments, "--description", "Mine.", "--ordered")[0] == 0
    code, printed, _ = run("info", "mine", "--data_dir", tmp_path / "data")
    assert (code, "mine:2.0.0\nMine.\n" in printed) == (0, True)
    assert (tmp_path / "data/mine/2.0.0/mine-b.tfrecord-00007-of-00008").exists()


@pytest.mark.parametrize(
    "arguments, problem",
    [
        (["--features", FEATURES], "give either patterns, or --split"),
        (["x", "--split", "a=x", "--features", FEATURES], "give either patterns, or --split"),
        (["x"], "--features"),
        (["--split", "train", "--features", FEATURES], "--split is 'train'; write --split NAME=PATTERN"),
        ([__file__, "--features", FEATURES], "the names of the files do not begin with the name of a dataset"),
    ],
)
def test_wrong_usage(arguments, problem, run):
    code, _, err = run("adopt", *arguments)
    assert (code, problem in err) == (2, True)


def test_failure(bare, run):
    path = bare / "spec_three-train.tfrecord-00002-of-00004"
    path.write_bytes(path.read_bytes()[:-1])
    for pattern, problem in (("*", f"{path}, byte "), ("none*", "no file matches")):
        code, _, err = run("adopt", f"{bare}/{pattern}", "--features", FEATURES)
        assert (code, problem in err) == (1, True)
