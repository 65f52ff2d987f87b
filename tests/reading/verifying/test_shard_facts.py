"""What a shard holds is the same, looked at as a whole or walked through."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

import beam_datasets as bd
from beam_datasets.reading.verifying import shard_facts, walking
from beam_datasets.reading.verifying.known import inspect
from tests.reading.verifying import test_corruptions as corruptions
from tests.reading.verifying.conftest import contents, restore

ROUNDS = 12


def facts(directory: Path) -> list[shard_facts.ShardFacts]:
    return [shard_facts.read_shard(task) for task in inspect(str(directory)).tasks()]


@pytest.mark.parametrize("corrupt", corruptions.ALL, ids=lambda corrupt: corrupt.__name__)
def test_a_glance_and_a_walk_find_the_same(
    copy: Path, monkeypatch: pytest.MonkeyPatch, corrupt: corruptions.Corrupt
) -> None:
    whole = contents(copy)
    for seed in range(ROUNDS):
        corrupt(copy, random.Random(seed))
        glanced, report = facts(copy), bd.verify(copy)
        with monkeypatch.context() as context:
            context.setattr(shard_facts, "core", None)
            assert facts(copy) == glanced, seed
            assert bd.verify(copy) == report, seed
        restore(copy, whole)


def test_other_datasets(ordered: Path, as_tfds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (other := Path(shutil.copytree(as_tfds, tmp_path / "ds" / "1.0.0"))).joinpath("features.json").unlink()
    next(other.glob("*train.tfrecord-00000*")).write_bytes(b"")
    for directory in (ordered, as_tfds, other):
        glanced = facts(directory)
        with monkeypatch.context() as context:
            context.setattr(shard_facts, "core", None)
            assert facts(directory) == glanced


@pytest.mark.parametrize("read_bytes", [walking.READ_BYTES, 1])
def test_progress_is_told_once(copy: Path, monkeypatch: pytest.MonkeyPatch, read_bytes: int) -> None:
    monkeypatch.setattr(walking, "READ_BYTES", read_bytes)
    shards = corruptions.shards(copy)
    content = shards[1].read_bytes()
    shards[1].write_bytes(content[:20] + bytes([content[20] ^ 1]) + content[21:])
    told: list[tuple[int, int | None]] = []
    bd.verify(copy, jobs=1, progress=lambda done, total: told.append((done, total)))
    total = sum(path.stat().st_size for path in shards)
    assert told == sorted(told)
    assert told[-1] == (total, total)
