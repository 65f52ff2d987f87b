"""`beam-datasets export`: what it prints, and what it says of what cannot be."""

import sys
from pathlib import Path

import pytest

from beam_datasets.beam import main as module
from beam_datasets.errors import install_command

DATA = Path(__file__).resolve().parents[1] / "data" / "tfds"
SOURCE = ["spec_inter", "--data_dir", str(DATA), "--num_workers", "1"]


def test_exports_and_says_what(tmp_path, run):
    to = tmp_path / "out"
    options = ["--format", "parquet", "--to", str(to), "--split", "few=train[:10%]", "--split", "test=train[90%:]"]
    code, said, _ = run("export", *SOURCE, *options, "--num-shards", "few=2", "--features", "idx, name")
    assert code == 0
    assert f"spec_inter:1.2.3 -> {to} (parquet)" in said
    assert "few    train[:10%]        41" in said
    assert f"Exported to {to} after" in said
    assert sorted(path.name for path in to.iterdir()) == [
        "_export.json",
        *(f"few-0000{i}-of-00002.parquet" for i in range(2)),
        "test-00000-of-00001.parquet",
    ]


def test_dry_run_writes_nothing(tmp_path, run):
    code, out, _ = run("export", *SOURCE, "--format", "jsonl", "--to", tmp_path / "out", "--dry_run")
    assert (code, out.endswith("Nothing was run (--dry_run).\n")) == (0, True)
    assert not list(tmp_path.iterdir())


def test_the_module_does_the_same(tmp_path):
    to = tmp_path / "out"
    assert module.main(["export", "--dataset", *SOURCE, "--format", "jsonl", "--to", str(to)]) == 0
    assert len((to / "train-00000-of-00001.jsonl").read_text().splitlines()) == 411


TO = ["--format", "jsonl", "--to", "{}/out"]


@pytest.mark.parametrize(
    "args, code, problem",
    [
        ([], 2, "which dataset? beam-datasets export SOURCE"),
        (["digits"], 2, "the following arguments are required: --format, --to"),
        ([*SOURCE, "--format", "parket", *TO[2:]], 2, "invalid choice: 'parket'"),
        (["inter", *SOURCE[1:], *TO], 1, "no dataset 'inter'"),
        ([*SOURCE, *TO, "--split", "trian"], 1, "Did you mean 'train'?"),
        ([*SOURCE, *TO, "--num_shards", "many"], 2, "write --num_shards 8"),
        ([*SOURCE, *TO, "--fromat", "x"], 2, "unknown option --fromat"),
        ([*SOURCE, *TO, "--to", "{}"], 1, "nothing that is there is overwritten"),
        (
            [*SOURCE, *TO, "--format", "webdataset"],
            1,
            f"needs the package webdataset: {install_command('export')}",
        ),
        ([*SOURCE, *TO, "--to", "{}/file/out"], 1, "{}/file/out: this directory cannot be made: Not a directory"),
        ([*SOURCE, *TO, "--to", "{}/file/deep/out"], 1, "{}/file/deep: this directory cannot be made: Not a directory"),
    ],
)
def test_mistakes(tmp_path, run, monkeypatch, args, code, problem):
    (tmp_path / "file").touch()
    monkeypatch.setitem(sys.modules, "webdataset", None)
    found, _, err = run("export", *(arg.format(tmp_path) for arg in args))
    assert (found, problem.format(tmp_path) in err) == (code, True), err
    assert "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
