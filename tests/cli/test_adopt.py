"""`beam-datasets adopt` as a user types it."""

import shutil
from pathlib import Path

import pytest

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
        ([__file__, "--features", FEATURES], "the names of the files say no dataset"),
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
