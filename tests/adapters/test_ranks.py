"""Ranks are found when an iteration begins, and never divide a dataset twice or not at all."""

from __future__ import annotations

import ast
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import beam_datasets as bd
from beam_datasets.adapters import torch_loader_checks
from tests.adapters.conftest import DATA, needed

SCRIPT = Path(__file__).with_name("read_on_a_rank.py")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def dataset() -> Any:
    return bd.builder_from_directory(DATA / "spec_three" / "1.2.3").as_dataset("train")


def read(way: str, folder: Path, num_workers: int) -> list[list[int]]:
    """Returns the ids that each of two ranks got."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    variables = os.environ | {"MASTER_PORT": port, "PYTHONPATH": str(ROOT)}
    ranks = range(1 if way in ("spawn", "fork") else 2)  # of the processes that are started here
    command = [sys.executable, str(SCRIPT), way, str(folder), str(num_workers)]
    processes = [subprocess.Popen([*command, str(rank)], env=variables) for rank in ranks]
    assert [process.wait(300) for process in processes] == [0] * len(processes)
    return [ast.literal_eval((folder / f"ids{rank}").read_text()) for rank in range(2)]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("way", ["spawn", "fork"])
def test_a_dataset_that_is_made_before_there_are_ranks(torch, tmp_path, dataset, way, num_workers):
    """Both ranks read epoch 0 first, then epoch 1, though they got one dataset."""
    ranks = read(way, tmp_path, num_workers)
    for epoch in range(2):
        order = [example["idx"].item() for example in dataset.shuffle(seed=7).iterate(epoch=epoch)]
        batches = [order[start : start + 4] for start in range(0, len(order), 4)]
        for rank, got in enumerate(ranks):
            expected = [number for batch in batches[rank::2] for number in batch]
            assert got[epoch * len(expected) :][: len(expected)] == expected


@pytest.mark.parametrize(
    "way, num_workers",
    [
        ("default", 0),
        ("default", 1),
        ("dispatch", 0),
        ("dispatch, spawned", 1),
        ("shard", 0),
        ("shard", 1),
        ("shard, spawned", 1),
    ],
)
def test_accelerate_divides_alone(torch, tmp_path, dataset, way, num_workers, capfd):
    """Each example is read, and those that it reads twice without dispatching are announced."""
    needed("accelerate")
    first, second = read(way, tmp_path, num_workers)
    expected = sorted(example["idx"].item() for example in dataset)
    # Each rank gets whole batches of the same number, which Accelerate fills up with examples from the beginning.
    assert set(first + second) == set(expected)
    num_repeated = len(first + second) - len(expected)
    assert num_repeated < 16
    warning = f"fills up the last batches with {num_repeated} examples from the beginning"
    assert (way.startswith("shard") and num_repeated > 0) == (warning in capfd.readouterr().err)
    assert abs(len(first) - len(second)) <= 4


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("num_workers", [0, 2, 3])
def test_batches_of_accelerate_are_those_of_the_order(torch, dataset, monkeypatch, num_workers):
    """Whatever the number of workers is, so that `state_after(examples=...)` is where a run has stopped."""
    accelerate = needed("accelerate.data_loader")
    monkeypatch.setenv("WORLD_SIZE", "2")
    ranks = []
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        shard = accelerate.IterableDatasetShard(dataset.as_torch(block=2), 2, num_processes=2, process_index=rank)
        loader = torch.utils.data.DataLoader(shard, batch_size=2, num_workers=num_workers)
        ranks.append([batch["idx"].tolist() for batch in loader])
        assert len(loader) == len(ranks[-1])
    steps = [number for batches in zip(*ranks) for batch in batches for number in batch]
    order = [example["idx"].item() for example in dataset]
    assert steps[: len(order)] == order


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("block", [None, 4])
@pytest.mark.parametrize("num_workers", [0, 2, 3])
@pytest.mark.parametrize("drop_last", [False, True])
def test_the_length_of_what_accelerate_divides(torch, dataset, monkeypatch, caplog, block, num_workers, drop_last):
    """It is the number of batches, also where each worker fills up its last ones; the warning has the number."""
    accelerate = needed("accelerate.data_loader")
    monkeypatch.setenv("WORLD_SIZE", "2")
    numbers = []
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        divided = dataset.as_torch(block=block)
        shard = accelerate.IterableDatasetShard(divided, 4, drop_last, num_processes=2, process_index=rank)
        loader = torch.utils.data.DataLoader(shard, batch_size=4, num_workers=num_workers, drop_last=drop_last)
        batches = [batch["idx"].tolist() for batch in loader]
        assert len(loader) == len(batches)
        numbers += [number for batch in batches for number in batch]
    if num_workers == 0:  # workers log in their own processes
        expected = f"fills up the last batches with {len(numbers) - len(dataset)} examples"
        assert (not drop_last) == (expected in caplog.text)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("num_workers", [0, 2, 3])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("num_examples", [3, 15, 16, 19, 23])
def test_the_length_of_batches_that_accelerate_splits(
    torch, dataset, monkeypatch, caplog, num_examples, num_workers, drop_last
):
    """It is the number of batches, or Accelerate rounds it to a multiple of two ranks, and a warning says so."""
    accelerate = needed("accelerate.data_loader")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    torch_loader_checks._warn_once.cache_clear()  # it warns once of the same numbers
    divided = dataset.take(num_examples).as_torch()
    shard = accelerate.IterableDatasetShard(divided, 4, drop_last, num_processes=2, split_batches=True)
    loader = torch.utils.data.DataLoader(shard, batch_size=2, num_workers=num_workers, drop_last=drop_last)
    length, num_batches = len(loader), len(list(loader))
    assert abs(length - num_batches) == num_batches % 2
    is_announced = f"counts {length} steps in an epoch, but takes {num_batches}." in caplog.text
    assert is_announced == (length != num_batches)


@pytest.mark.parametrize("drop_last", [False, True])
def test_examples_that_accelerate_repeats_of_a_stream_are_announced(torch, dataset, monkeypatch, caplog, drop_last):
    """Without their number, which depends on the examples."""
    accelerate = needed("accelerate.data_loader")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    for data in (dataset.filter(lambda example: True), dataset.repeat()):
        shard = accelerate.IterableDatasetShard(data.as_torch(), 4, drop_last, num_processes=2)
        next(iter(torch.utils.data.DataLoader(shard, batch_size=4, drop_last=drop_last)))
    messages = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(messages) == (not drop_last)  # for the stream, as the other dataset does not end
    assert all("filter()" in message and "last batches of each worker with examples" in message for message in messages)


def test_batches_that_accelerate_cannot_divide(torch, dataset):
    """Without dispatching it calculates with the batch size of the DataLoader, which is None for batches."""
    accelerate = needed("accelerate.data_loader")
    for call in (len, lambda shard: shard.set_epoch(1)):
        shard = accelerate.IterableDatasetShard(dataset.batch(4).as_torch(), None, num_processes=2)
        with pytest.raises(ValueError, match=r"expected DataLoaderConfiguration\(dispatch_batches=True\)"):
            call(shard)


@pytest.mark.parametrize(
    "way, num_workers, is_announced",
    [
        ("dispatch of 20", 3, False),
        ("dispatch of 20, spawned", 3, False),
        ("dispatch of 20, split", 3, False),
        ("dispatch of 20, block", 3, True),
        ("dispatch of 20, filter", 3, True),
        ("dispatch of 20, filter, spawned", 3, True),
        ("dispatch of 20, filter", 1, False),
    ],
)
def test_dispatching_drops_no_example_of_a_smaller_batch(
    torch, tmp_path, dataset, way, num_workers, is_announced, capfd
):
    """Accelerate drops what it cannot divide among ranks, except in the last step.

    Three workers have 7, 7 and 6 examples. Batches of 4 are of 4, 4, 4, 3, 3 and 2 then, and a step has 4 and 3.
    """
    needed("accelerate")
    first, second = read(way, tmp_path, num_workers)
    is_complete = {*first, *second} == {example["idx"].item() for example in dataset.shuffle(seed=7).take(20)}
    assert is_complete or is_announced
    assert ("it drops the remaining examples" in capfd.readouterr().err) == is_announced
    assert len(first) == len(second)


def test_dispatched_batches_are_divided(torch, tmp_path, dataset):
    needed("accelerate")
    first, second = read("batches", tmp_path, 1)
    assert set(first + second) == {example["idx"].item() for example in dataset}


@pytest.mark.parametrize("way", ["stateful", "stateful, split"])
def test_states_of_a_dispatching_loader(torch, torchdata, tmp_path, dataset, way, capfd):
    """Accelerate saves its state one batch too late, unless it splits batches, and a warning says so."""
    needed("accelerate")
    first, second = read(way, tmp_path, 1)
    skipped = {example["idx"].item() for example in dataset} - {*first, *second}
    is_warned = "count 1 of the next batches as read, so a run that resumes skips as many" in capfd.readouterr().err
    assert (len(skipped), is_warned) == ((4, True) if way == "stateful" else (0, False))


def test_ranks_are_shown(torch, dataset, monkeypatch):
    made = dataset.as_torch()
    assert "rank 0 of 1 (no other ranks were found)" in repr(made)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert "rank 1 of 4 (from $RANK and $WORLD_SIZE)" in repr(made)
    everything = dataset.as_torch(rank=0, num_ranks=1)
    assert "rank 0 of 1 (given)" in repr(everything)
    assert len(list(everything)) == len(dataset)
    assert len(list(made)) < len(dataset)
