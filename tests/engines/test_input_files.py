"""Builders of files that read from an object store, compared with those that read the same files from a disk."""

import json
import time

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
