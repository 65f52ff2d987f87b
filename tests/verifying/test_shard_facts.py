"""What a shard holds is the same, looked at as a whole or walked through."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

import beam_datasets as bd
from beam_datasets import storage
from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import Index
from beam_datasets.reading import glancing
from beam_datasets.verifying import shard_facts, walking
from beam_datasets.verifying.known import inspect
from tests.verifying import test_corruptions as corruptions
from tests.verifying.conftest import contents, restore

ROUNDS = 12


def facts(directory: Path, decode: bool = False) -> list[shard_facts.ShardFacts]:
    return [shard_facts.read_shard(task) for task in inspect(str(directory)).tasks(decode=decode)]


@pytest.mark.parametrize("corrupt", corruptions.ALL, ids=lambda corrupt: corrupt.__name__)
def test_a_glance_and_a_walk_find_the_same(
    copy: Path, monkeypatch: pytest.MonkeyPatch, corrupt: corruptions.Corrupt
) -> None:
    whole = contents(copy)
    for seed in range(ROUNDS):
        corrupt(copy, random.Random(seed))
        decode = bool(seed % 2)
        glanced, report = facts(copy, decode), bd.verify(copy)
        with monkeypatch.context() as context:
            context.setattr(glancing, "core", None)
            assert facts(copy, decode) == glanced, seed
            assert bd.verify(copy) == report, seed
        restore(copy, whole)


def test_other_datasets(ordered: Path, as_tfds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (other := Path(shutil.copytree(as_tfds, tmp_path / "ds" / "1.0.0"))).joinpath("features.json").unlink()
    next(other.glob("*train.tfrecord-00000*")).write_bytes(b"")
    for directory in (ordered, as_tfds, other):
        for decode in (False, True):
            glanced = facts(directory, decode)
            with monkeypatch.context() as context:
                context.setattr(glancing, "core", None)
                assert facts(directory, decode) == glanced


def test_a_record_that_does_not_decode(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shard = corruptions.shards(copy)[0]
    content = corruptions.records(shard)
    for place in (0, 3, len(content) - 1):
        corruptions.write_records(shard, [*content[:place], b"\x0anothing", *content[place + 1 :]])
        offsets = tfrecord.scan(shard.read_bytes(), path="")
        keys = Index.from_bytes(corruptions.index_of(shard).read_bytes(), path="").keys
        corruptions.index_of(shard).write_bytes(Index(offsets, keys, unsorted=True).to_bytes())
        glanced = facts(copy, decode=True)[0]
        assert [damage.record for damage in glanced.damages] == [place]
        with monkeypatch.context() as context:
            context.setattr(glancing, "core", None)
            assert facts(copy, decode=True)[0] == glanced


def test_an_index_that_cannot_be_read_is_asked_for_once(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that fails is waited for, each time that it is asked."""
    asked: list[str] = []
    for name in ("memory_map", "read_bytes"):
        door = getattr(storage, name)
        monkeypatch.setattr(storage, name, lambda path, door=door: (asked.append(Path(path).name), door(path))[1])
    index = corruptions.index_of(corruptions.shards(copy)[0])
    for missing in (False, True):
        index.unlink() if index.is_file() else None
        index.rmdir() if missing else index.mkdir()
        asked.clear()
        found = facts(copy)[0].index
        assert found is None if missing else found is not None and found.problem == "Is a directory"
        assert asked.count(index.name) == 1


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
