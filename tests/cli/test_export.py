"""`beam-datasets export`: what it prints, and what it says of what cannot be."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from pyarrow import parquet

from beam_datasets.beam import main as module
from beam_datasets.cli import main

DATA = Path(__file__).resolve().parents[1] / "data" / "tfds"
SOURCE = ["spec_inter", "--data_dir", str(DATA), "--num_workers", "1"]


def fails(capsys: pytest.CaptureFixture[str], *args: object, code: int = 1) -> str:
    """Returns what the command says, having seen that it fails with one message."""
    capsys.readouterr()
    assert main(["export", *map(str, args)]) == code
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    assert not out
    return err


def test_exports_and_says_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = tmp_path / "out"
    options = ["--format", "parquet", "--to", str(to), "--split", "few=train[:10%]", "--split", "test=train[90%:]"]
    assert main(["export", *SOURCE, *options, "--num-shards", "few=2", "--features", "idx, name"]) == 0
    said = capsys.readouterr().out
    assert f"spec_inter:1.2.3 -> {to} (parquet)" in said
    assert "few    train[:10%]        41" in said
    assert f"Exported to {to} after" in said
    assert sorted(path.name for path in to.iterdir()) == [
        "_export.json",
        *(f"few-0000{i}-of-00002.parquet" for i in range(2)),
        "test-00000-of-00001.parquet",
    ]


def test_options_of_formats(tmp_path: Path) -> None:
    to = ["--to", str(tmp_path / "a")]
    assert main(["export", *SOURCE, "--format", "parquet", "--row_group_size", "1kB", *to]) == 0
    assert parquet.read_metadata(tmp_path / "a" / "train-00000-of-00001.parquet").num_rows == 411
    assert main(["export", *SOURCE, "--format", "arrayrecord", "--group_size", "9", "--to", str(tmp_path / "b")]) == 0
    assert json.loads((tmp_path / "b" / "_export.json").read_text())["options"] == {"group_size": 9}


def test_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", *SOURCE, "--format", "jsonl", "--to", str(tmp_path / "out"), "--dry_run"]) == 0
    assert capsys.readouterr().out.endswith("Nothing was run (--dry_run).\n")
    assert not list(tmp_path.iterdir())


def test_the_module_does_the_same(tmp_path: Path) -> None:
    to = tmp_path / "out"
    assert module.main(["export", "--dataset", *SOURCE, "--format", "jsonl", "--to", str(to)]) == 0
    assert len((to / "train-00000-of-00001.jsonl").read_text().splitlines()) == 411


@pytest.mark.parametrize("to,named", [("file/out", "file/out"), ("file/deep/out", "file/deep")])
def test_a_place_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str], to: str, named: str) -> None:
    (tmp_path / "file").touch()
    assert main(["export", *SOURCE, "--format", "jsonl", "--to", str(tmp_path / to)]) == 1
    said = capsys.readouterr().err
    assert said == f"beam-datasets: {tmp_path / named}: this directory cannot be made: Not a directory\n"


def test_what_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    to = ["--to", tmp_path / "out"]
    known = [*SOURCE, "--format", "jsonl", *to]
    assert "which dataset? beam-datasets export SOURCE" in fails(capsys, code=2)
    assert "the following arguments are required: --format, --to" in fails(capsys, "digits", code=2)
    assert "invalid choice: 'parket'" in fails(capsys, *SOURCE, "--format", "parket", *to, code=2)
    assert "no dataset 'inter'" in fails(capsys, "inter", "--data_dir", DATA, "--format", "jsonl", *to)
    assert "Did you mean 'train'?" in fails(capsys, *known, "--split", "trian")
    assert "Give it a name: NAME=train+test" in fails(capsys, *known, "--split", "train+test")
    assert "has no feature 'nam'" in fails(capsys, *known, "--features", "nam")
    assert "'idx' is no feature of text" in fails(capsys, *known, "--binary", "idx")
    assert "too few for 1000 shards" in fails(capsys, *known, "--num_shards", "1000")
    assert "write --num_shards 8" in fails(capsys, *known, "--num_shards", "many", code=2)
    assert "there is no option --fromat" in fails(capsys, *known, "--fromat", "x", code=2)
    assert "--group_size is an option of arrayrecord" in fails(capsys, *known, "--group_size", "1", code=2)
    assert "--row_group_size is an option of parquet" in fails(capsys, *known, "--row_group_size", "1", code=2)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert "nothing that is there is overwritten" in fails(capsys, *known, "--to", tmp_path / "full")
    monkeypatch.setitem(sys.modules, "webdataset", None)
    said = fails(capsys, *SOURCE, "--format", "webdataset", *to)
    assert "WebDataset needs the package webdataset: pip install 'beam_datasets[export]'" in said
    assert [path.name for path in tmp_path.iterdir()] == ["full"]
