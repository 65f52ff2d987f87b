"""A URL without its two slashes is an error that contains the URL, not the path of a local directory."""

import os
from pathlib import Path

import pytest

import beam_datasets as bd
from beam_datasets import storage
from beam_datasets.cli import main
from beam_datasets.downloads.manager import DownloadSettings
from beam_datasets.errors import StorageError
from tests.facts import raises_with

MISTYPED = {
    "s3:/bucket/x": "s3://bucket/x",
    "S3:/bucket": "S3://bucket",
    "s3:bucket/x": "s3://bucket/x",
    "s3//bucket/x": "s3://bucket/x",
    "s3:///bucket/x": "s3://bucket/x",
    "gs:/bucket/x": "gs://bucket/x",
    "abfs:/container@account/x": "abfs://container@account/x",
    "hdfs:/host/x": "hdfs://host/x",
    "https:/host/x": "https://host/x",
    "file:/data/x": "file:///data/x",
    "anything:/x": "anything://x",
}


@pytest.mark.parametrize("text", MISTYPED)
def test_the_url_is_proposed(text: str) -> None:
    for use in storage.normalize, storage.exists, storage.list_dir, storage.glob, bd.builder_from_directory:
        with raises_with(StorageError, path=text, advice=[f"Write {MISTYPED[text]}"]):
            use(text)
    for name in "squares", "squares:1.0.0":
        with raises_with(StorageError, path=text, advice=[f"Write {MISTYPED[text]}"]):
            bd.load(name, data_dir=text)
    with raises_with(StorageError, path=text, advice=[f"Write {MISTYPED[text]}"]):
        DownloadSettings(Path("downloads"), manual_dir=text)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["s3://bucket/x", "file:///data/x", "digits:1.0.0", "a:b/c", "c:/x", "data//x", "s3"])
def test_other_paths_stay(path: str) -> None:
    storage.normalize(path)


def test_a_local_path_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path that the error proposes for a local directory leads there."""
    monkeypatch.chdir(tmp_path)
    with raises_with(StorageError, advice=["for a local path, write ./s3:/x."]):
        storage.normalize("s3:/x")
    storage.write_bytes("./s3:/x", b"content")
    assert (tmp_path / "s3:" / "x").read_bytes() == b"content"


URL = "s3:/bucket/x"
COMMANDS = [
    ["plan", "csv", "--name", "a", "--pattern", "a.csv", "--data_dir", URL],
    ["build", "csv", "--name", "a", "--pattern", "a.csv", "--data_dir", URL],
    ["build", "csv", "--name", "a", "--pattern", f"{URL}/*.csv", "--data_dir", "data"],
    ["build", f"{URL}/code.py", "--data_dir", "data"],
    ["append", "a", "--from", "csv", "--pattern", "a.csv", "--data_dir", URL],
    ["materialize", "a", "--to", "b", "--data_dir", "data", "--source_data_dir", URL],
    ["adopt", "a.tfrecord", "--features", f"{URL}/features.json", "--data_dir", "data"],
    ["publish", URL, "--version", "2.0.0"],
    ["list", "--data_dir", URL],
    ["info", "a", "--data_dir", URL],
    ["head", f"{URL}/a"],
    ["slices", f"{URL}/a/1.0.0", "train"],
    ["stats", f"{URL}/a/1.0.0"],
    ["verify", f"{URL}/a/1.0.0"],
    ["diff", "a:1.0.0", "a:2.0.0", "--data_dir", URL],
    ["export", "a", "--format", "jsonl", "--to", URL, "--data_dir", "data"],
    ["site", "data", "--to", URL],
    ["tag", "a:1.0.0", "t", "--data_dir", URL],
    ["prune", "a", "--keep", "1", "--data_dir", URL],
    ["gc", URL],
    ["doctor", "--data_dir", URL],
]


@pytest.mark.parametrize("args", COMMANDS, ids=[f"{args[0]}-{i}" for i, args in enumerate(COMMANDS)])
def test_commands_write_nothing(
    args: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in "a.csv", "a.tfrecord":
        Path(name).write_text("n\n1\n")
    Path("data").mkdir()
    assert main(args) in (1, 2)
    assert "expected two slashes after the scheme of a URL, got 's3:/'. Write s3://bucket/x" in capsys.readouterr().err
    assert sorted(os.listdir()) == ["a.csv", "a.tfrecord", "data"]
    assert os.listdir("data") == []
