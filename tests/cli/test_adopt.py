"""`beam-datasets adopt` as a user types it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from beam_datasets.cli import main

VERSION = Path(__file__).resolve().parents[1] / "data" / "tfds" / "spec_three" / "1.2.3"
FEATURES = str(VERSION / "features.json")


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    folder = tmp_path / "bare"
    folder.mkdir()
    for shard in VERSION.glob("*.tfrecord-*"):
        shutil.copy(shard, folder)
    return folder


def test_in_place(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(path) for path in sorted(bare.iterdir())]  # as a shell expands a pattern
    assert main(["adopt", *files, "--features", FEATURES]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"spec_three:1.0.0 in {bare}\nFeaturesDict(")
    assert "validation" in printed
    assert main(["info", str(bare)]) == 0
    files = [str(path) for path in sorted(bare.glob("*tfrecord*"))]  # now with indexes
    assert main(["adopt", *files, "--features", FEATURES]) == 1
    assert "dataset_info.json is there already" in capsys.readouterr().err


def test_directory_of_its_own(bare: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--features", FEATURES, "--name", "mine", "--version", "2.0.0", "--data-dir", str(tmp_path / "data")]
    splits = ["--split", f"a={bare}/*-train*", "--split", f"b={bare}/*-test*", "--split", f"b={bare}/*-validation*"]
    assert main(["adopt", *splits, *arguments, "--files=link", "--description", "Mine.", "--ordered"]) == 0
    assert main(["info", "mine", "--data_dir", str(tmp_path / "data")]) == 0
    printed = capsys.readouterr().out
    assert "mine:2.0.0\nMine.\n" in printed
    assert (tmp_path / "data/mine/2.0.0/mine-b.tfrecord-00007-of-00008").exists()


@pytest.mark.parametrize(
    "arguments, problem",
    [
        (["--features", FEATURES], "give either patterns, or --split"),
        (["x", "--split", "a=x", "--features", FEATURES], "give either patterns, or --split"),
        (["x"], "--features"),
        (["--split", "train", "--features", FEATURES], "--split is 'train'; write --split NAME=PATTERN"),
        ([__file__, "--features", FEATURES], "the names of the files say no dataset"),
    ],
)
def test_wrong_usage(arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["adopt", *arguments]) == 2
    assert problem in capsys.readouterr().err


def test_failure(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = bare / "spec_three-train.tfrecord-00002-of-00004"
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["adopt", f"{bare}/*", "--features", FEATURES]) == 1
    assert f"{path}, byte " in capsys.readouterr().err
    assert main(["adopt", f"{bare}/none*", "--features", FEATURES]) == 1
    assert "no file matches" in capsys.readouterr().err
