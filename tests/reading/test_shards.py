"""Open shards among threads and processes."""

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets.errors import MetadataError
from beam_datasets.reading import shards


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("indexed", [True, False])
def test_a_fork_goes_on_reading(write: Any, indexed: bool) -> None:
    dataset = bd.builder_from_directory(write({"train": [50] * 6}, indexed=indexed)).as_dataset("train")
    wanted = [3, 70, 299]
    assert [int(dataset[i]["id"]) for i in wanted] == wanted
    pool = dataset._source.pool
    with pool._lock:  # a thread that has it is not there in the other process
        child = os.fork()
        if child == 0:
            good = [int(dataset[i]["id"]) for i in (*wanted, 120)] == [*wanted, 120]
            os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert [int(dataset[i]["id"]) for i in wanted] == wanted


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("indexed", [True, False])
def test_as_many_files_are_open_as_may_be(write: Any, monkeypatch: pytest.MonkeyPatch, indexed: bool) -> None:
    monkeypatch.setattr(shards, "_MOST_OPEN", 3)
    dataset = bd.builder_from_directory(write({"train": [50] * 6}, indexed=indexed)).as_dataset("train")
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    wanted = np.random.default_rng(0).integers(0, 300, 2000).tolist()
    with ThreadPoolExecutor(4) as threads:
        found = threads.map(lambda some: [int(example["id"]) for example in dataset[some]], [wanted] * 8)
        assert list(found) == [wanted] * 8
    assert sorted(map(int, (example["id"] for example in dataset))) == list(range(300))
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 3


def test_a_shard_that_cannot_be_opened_leaves_nothing_open(write: Any, tmp_path: Path) -> None:
    source = next(write({"train": [50] * 6}).glob("*-00000-of-00006"))
    path = tmp_path / source.name
    path.write_bytes(source.read_bytes() + b"1")
    Path(f"{path}.index").write_bytes(Path(f"{source}.index").read_bytes())
    for _ in range(3):
        with pytest.raises(MetadataError, match="is of a shard of"):
            shards.Shard(str(path), 50)
    with pytest.raises(FileNotFoundError):
        shards.Shard(str(tmp_path / "missing"), 50)
