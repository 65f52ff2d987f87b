"""`beam-datasets materialize` as a user types it: what it prints, its exit codes, and each of its errors."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import beam_datasets as bd
from tests.reading.conftest import write_dataset

FILTERS = """
import helper_beside_it


def even(example):
    return helper_beside_it.is_even(example["id"])


def broken(example):
    return example["nope"]


def number(example):
    return 1


NOT_A_FUNCTION = 7
"""


@pytest.fixture
def data(tmp_path):
    """A data_dir with two datasets, the current directory."""
    write_dataset(tmp_path / "data" / "one" / "1.0.0", {"train": [10, 7], "test": [3]}, manifest=True)
    write_dataset(tmp_path / "data" / "two" / "1.0.0", {"train": [5]}, manifest=True)
    (tmp_path / "filters.py").write_text(FILTERS)
    (tmp_path / "helper_beside_it.py").write_text("def is_even(n):\n    return n % 2 == 0\n")
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.delenv("BEAM_DATASETS_DATA_DIR", raising=False)
    monkeypatch.delitem(sys.modules, "helper_beside_it", raising=False)


def ids(name, split):
    return [int(example["id"]) for example in bd.load(name, split=split, data_dir="data")[:]]


def test_splits_of_one_source(data, run):
    slices = ["--split", "train=train[:80%]", "--split=validation=train[80%:]"]
    args = ["materialize", "one", "--data-dir", "data", *slices]
    code, out, _ = run(*args, "--to", "sub:2.0.0", "--dry_run")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    size = sum(len(record) for record in bd.load("one", split="train[:80%]", data_dir="data").raw()[:])
    assert ["train", "train[:80%]", "2", "14", str(size), "B", "1"] in rows
    assert out.endswith("Nothing was run (--dry_run).\n")
    assert not (data / "sub").exists()

    code, out, _ = run(*args, "--to", "sub:2.0.0", "--num_workers=1", "--num_shards", "train=3")
    assert code == 0
    assert "sub:2.0.0 -> " in out
    rows = [line.split() for line in out.splitlines()]
    assert ["train", "14", "3", str(size), "B"] in rows  # the size that was announced
    rows = [row[:3] for row in rows]
    assert ["validation", "3", "1"] in rows
    assert f"Published in {data}/sub/2.0.0 after " in out
    assert (ids("sub", "train"), ids("sub", "validation")) == (list(range(14)), [14, 15, 16])

    code, out, _ = run("info", "sub", "--data_dir", "data")
    assert code == 0
    assert re.search(r"^train = train\[:80%\]\nvalidation = train\[80%:\]\nsource: one:1\.0\.0 \(SHA-256 of", out, re.M)

    more = ["--filter", "filters.py:even", "--features", "id", "--reshuffle", "pepper", "--num_workers=1"]
    code, out, _ = run("materialize", "sub", "--data_dir", "data", "--split=x=train+two:train", "--to", "few", *more)
    assert code == 0
    assert sorted(ids("few", "x")) == sorted([*range(0, 14, 2), 0, 2, 4])
    code, out, _ = run("info", "data/few/2.0.0")
    lineage = out[out.index("x = ") :].splitlines()
    assert lineage[:4] == [
        "x = train+two:1.0.0:train",
        "features: id",
        "filter: filters:even",
        "order: shuffled with the salt 'pepper'",
    ]
    assert [line.partition(" (")[0] for line in lineage[4:]] == [
        "source: sub:2.0.0",
        "  train = train[:80%]",
        "  validation = train[80%:]",
        "  source: one:1.0.0",
        "source: two:1.0.0",
    ]


def test_a_copy_by_default_and_shorthands(data, run):
    copy = ["materialize", "one", "--data_dir", "copies", "--source_data_dir", "data", "--num_workers", "1"]
    assert run(*copy)[0] == 0
    for split in ("train", "test"):
        raw = [bd.load("one", split=split, data_dir=place).raw()[:] for place in ("data", "copies")]
        assert raw[0] == raw[1]
    code, _, err = run(*copy)
    assert (code, "is already published" in err, "--to NAME:VERSION" in err) == (1, True, True)
    assert run(*copy, "--to", "one:1.0.1")[0] == 0
    labelled = ["--source", "more=data/two/1.0.0", "--split", "more:train[:2]", "--to", "named", "--num_workers", "1"]
    assert run("materialize", "one", "--data_dir", "data", *labelled)[0] == 0
    assert ids("named", "train") == [0, 1]


@pytest.mark.parametrize("when", ["publish", "splits_table"])
def test_ctrl_c_says_whether_the_version_is_published(data, run, monkeypatch, when):
    def pressed(*_, **__):
        raise KeyboardInterrupt

    place = "beam_datasets.cli.materialize.splits_table" if when == "splits_table" else "os.rename"
    monkeypatch.setattr(place, pressed)
    copy = ["materialize", "one", "--data_dir", "copies", "--source_data_dir", "data", "--num_workers", "1"]
    code, _, err = run(*copy)
    there = Path("copies/one/1.0.0").exists()
    assert (code, there) == (130, when == "splits_table")
    said = f"{Path('copies/one/1.0.0').absolute()} is published" if there else "nothing was published"
    assert err.splitlines()[-1] == f"interrupted; {said}"


@pytest.mark.slow
def test_worker_processes_and_the_main_module(data, tmp_path):
    command = [
        sys.executable,
        "-m",
        "beam_datasets.beam.main",
        "materialize",
        "--dataset",
        "one",
        "--data_dir",
        "data",
        "--to",
        "even",
    ]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [*command, "--filter", "filters.py:even", "--num_workers=2", "--num_shards", "train=2", "--quiet"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={"PYTHONPATH": str(root), "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    assert "Published" in done.stdout
    assert done.stderr == ""
    assert ids("even", "train") == list(range(0, 17, 2))


@pytest.mark.parametrize(
    "args, code, problem",
    [
        ([], 2, r"which dataset\? beam-datasets materialize SOURCE"),
        (["--split", "train"], 2, "required: SOURCE"),
        (["noe"], 1, "no dataset 'noe' is published in .*data.*Did you mean 'one'"),
        (["one", "--to", "new", "--split", "x=trian"], 1, "no split 'trian' in one:1.0.0; .*Did you mean 'train'"),
        (["one", "--to", "new", "--split", "all=train"], 2, "'all' cannot name a split"),
        (["one", "--to", "new", "--source", "two"], 2, "--source is 'two'; write --source LABEL=SOURCE"),
        (["one", "--to", "new", "--filter", "filters.py"], 1, "given as module:function, or as path/to/file.py"),
        (["one", "--to", "new", "--filter", "nofile.py:f"], 1, "the file nofile.py does not exist"),
        (["one", "--to", "new", "--filter", "filters.py:NOT_A_FUNCTION"], 1, "is 7, which cannot be called"),
        (["one", "--to", "new", "--filter", "filters.py:broken"], 1, r"train\[\d+\]\).*broken raised KeyError: 'nope'"),
        (["one", "--to", "new", "--filter", "filters.py:number"], 1, "returned 1 of type int; it must return True or"),
        (["one", "--to", "a-b"], 2, "'a-b' is not a dataset name"),
        (["one", "--to", "new", "--num_shards", "18", "--filter", "filters.py:even"], 1, "17 examples, too few for 18"),
        (
            ["one", "--to", "new", "--num_shards", "trian=2"],
            2,
            "num_shards: expected splits .*, got 'trian'",
        ),
        (["one", "--to", "new", "--num_workers", "-1"], 2, "num_workers is -1"),
        (["one", "--to", "new", "--spilt", "train"], 2, "unknown option --spilt: .* Did you mean '--split'"),
        (
            ["one", "--to", "new", "--resume"],
            2,
            "--resume: expected build, got beam-datasets materialize. .* from the beginning",
        ),
        (["one", "--to", "new", "--direct_running_mode", "multi_threading"], 2, "multi_threading loses records"),
        (["one", "two", "--to", "new"], 2, r"joined by --split, as in --split 'train=train\+two:train'"),
    ],
)
def test_errors_are_one_message(data, args, code, problem, run):
    before = sorted(path for path in data.rglob("*") if path.is_file())
    workers = [] if "--num_workers" in args else ["--num_workers", "1"]
    got, out, err = run("materialize", *args, *(["--data_dir", "data", *workers] if args else []))
    assert got == code, out + err
    assert re.search(problem, err, re.DOTALL), err
    assert "Traceback" not in err
    assert sorted(path for path in data.rglob("*") if path.is_file()) == before


def test_features_that_differ(data, run):
    path = data / "two" / "1.0.0" / "features.json"
    path.write_text(path.read_text().replace('"text": {\n', '"other": {\n', 1))
    (data / "two" / "1.0.0" / "manifest.json").unlink()
    args = ["materialize", "one", "--data_dir", "data", "--to", "new", "--split", "x=train+two:train"]
    code, _, err = run(*args)
    assert code == 1
    assert re.search("one:1.0.0 and two:1.0.0 cannot be put together: feature 'text', .*, is in the first only", err)
    assert run(*args, "--features", "id,key", "--num_workers", "1")[0] == 0


@pytest.mark.parametrize("command", [["materialize", "one", "--to", "new"], ["export", "one", "--format=jsonl"]])
@pytest.mark.parametrize(
    "options, code, message",
    [
        (["--job_endpoint=there:1"], 2, "a path of this machine that workers of PortableRunner"),
        (["--job_endpoint=localhost:1", "--shared_disk"], 1, "no job service listens at"),
    ],
)
def test_a_dry_run_makes_the_checks_of_a_run(data, run, command, options, code, message):
    target = [] if command[0] == "materialize" else ["--to", "out"]
    for extra in (["--dry_run"], []):
        ended, _, err = run(*command, *target, "--data_dir=data", "--runner=PortableRunner", *options, *extra)
        assert (ended, message in err) == (code, True)
    assert sorted(path.name for path in data.iterdir()) == ["one", "two"]
    assert not Path("out").exists()
