"""Builders of files that read from an object store, compared with those that read the same files from a disk."""

import hashlib
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import beam_datasets as bd
from beam_datasets import storage
from beam_datasets.files.csv import Csv
from tests.directories import digests
from tests.engines.object_stores import object_store, use


@pytest.fixture
def store(tmp_path, monkeypatch):
    with object_store("s3", tmp_path) as running:
        use(running, monkeypatch)
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.env["AWS_ENDPOINT"])  # for Beam's file system
        monkeypatch.setenv("AWS_DEFAULT_REGION", running.env["AWS_REGION"])
        yield running


@pytest.mark.slow
def test_the_same_files_anywhere_make_the_same_versions(tmp_path, store):
    def version_of(place):
        """Builds the first file in a place, and appends the second; returns the version's directory."""
        data = tmp_path / str(len(made))
        files = {"name": "ds", "pattern": f"{place}/*.csv", "key": "id", "data_dir": data}
        for name in ("1.csv", "2.csv"):
            storage.write_bytes(f"{place}/{name}", f"id,n\n{name}a,1\n{name}b,2\n".encode())
            done = bd.append("ds", Csv(**files), data_dir=data) if data.exists() else Csv(**files).build(num_workers=1)
        assert bd.append("ds", Csv(**files), data_dir=data) == done  # the file of version 1, too, is known
        return done

    made = []
    for place in (tmp_path / "here", tmp_path / "there", f"{store.url}/logs"):
        storage.make_dirs(str(place))
        made.append(version_of(place))
        time.sleep(0.01)  # the files of each place have another time
    assert len({bd.builder_from_directory(each).digest for each in made}) == 1
    assert len({json.dumps(digests(each)) for each in made}) == 1
    in_store = json.loads(Path(made[-1], "inputs.json").read_text())
    etags = {
        name: hashlib.md5(storage.read_bytes(f"{store.url}/logs/{name}")).hexdigest() for name in in_store["files"]
    }
    assert in_store["checksums"] == {name: f's3:"{etag}"' for name, etag in etags.items()}
    time.sleep(1)  # stores have times in seconds
    storage.write_bytes(f"{store.url}/logs/1.csv", storage.read_bytes(f"{store.url}/logs/1.csv"))
    new = Csv(pattern=f"{store.url}/logs/*.csv", key="id")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # that the file has changed
        assert bd.append("ds", new, data_dir=tmp_path / "2") == made[-1]


@pytest.mark.slow
def test_a_fresh_process_finds_the_files(tmp_path, store):
    storage.write_bytes(f"{store.url}/all/logs/1.csv", b"id,n\na,1\n")
    command = [sys.executable, "-m", "beam_datasets.cli", "build", "csv", "--dry_run", "--data_dir", tmp_path]
    for pattern, code, expected in [
        ("/all/logs/*.csv", 0, "'id': Text"),
        ("/all", 0, "'id': Text"),
        ("", 0, "'id': Text"),
        ("/none/*.csv", 1, "no file matches"),
    ]:
        found = subprocess.run(
            [*command, "--pattern", f"{store.url}{pattern}"], capture_output=True, text=True, check=False
        )
        assert found.returncode == code, found.stderr
        assert expected in found.stdout + found.stderr
