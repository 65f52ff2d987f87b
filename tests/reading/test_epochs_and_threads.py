"""What a reader does between epochs: other orders if that was asked for, and how many threads it starts."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

import beam_datasets as bd

README = Path(__file__).parents[2] / "README.md"


def test_the_loop_of_the_readme_reshuffles(write: Any) -> None:
    """R6: who copies the README's training loop gets each epoch in an order of its own."""
    chains = re.findall(r"^for \w+ in train(\.shuffle\(.*\)):", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert chains
    n = 40
    train = bd.builder_from_directory(write({"train": [n]})).as_dataset("train")
    for chain in chains:
        read = eval(f"train{chain.split('.batch')[0]}", {"train": train})  # the page of this project
        ids = [int(example["id"]) for example in read]
        assert len(ids) >= 2 * n
        assert sorted(ids[:n]) == sorted(ids[n : 2 * n]) == list(range(n))
        assert ids[:n] != ids[n : 2 * n]


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads as Linux lists them")
def test_reading_starts_one_thread_at_most(write: Any) -> None:
    """B20: one thread reads ahead for all readers of a process."""
    directory = write({"train": [30, 30, 30]}, size=200_000)
    dataset = bd.builder_from_directory(directory).as_dataset("train")
    before = set(os.listdir("/proc/self/task"))
    for count, _ in enumerate(dataset):
        if count % 10 == 0:
            assert len(set(os.listdir("/proc/self/task")) - before) <= 1
