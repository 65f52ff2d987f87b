"""Which records go into which shard, and that small shards are copied at once as large ones are piece by piece."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import BeamDatasetsError
from beam_datasets.model.shards import FileInstructions, shard_offsets
from beam_datasets.reading import glancing
from beam_datasets.writing import materialize_copy, materialize_records
from beam_datasets.writing.materialize_copy import CopyPlan, SplitCopy
from tests.reading.conftest import write_dataset
from tests.writing.materialized import materialize


def split_copy(lengths: list[int], start: int, stop: int, num_shards: int, num_bytes: int = 0) -> SplitCopy:
    names = [f"s{i}" for i in range(len(lengths))]
    files = FileInstructions.between(start, stop, shard_offsets(lengths), names)
    return SplitCopy("train", num_shards, True, files, num_bytes, {1: "of run 1"})


@given(st.lists(st.integers(0, 7), min_size=1, max_size=8).filter(any), st.data())
def test_shards_are_the_records_in_order(lengths: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, sum(lengths) - 1))
    stop = data.draw(st.integers(start + 1, sum(lengths)))
    num_shards = data.draw(st.integers(1, stop - start))
    split = split_copy(lengths, start, stop, num_shards)
    cuts = sorted(data.draw(st.sets(st.integers(0, num_shards))) | {0, num_shards})
    copies = [copy for first, end in pairwise(cuts) for copy in split.shards(first, end)]
    assert [copy.shard for copy in copies] == list(range(num_shards))
    records = [(f"s{shard}", i) for shard, length in enumerate(lengths) for i in range(length)][start:stop]
    got = [[(f.filename, f.skip + i) for f, _ in copy.parts for i in range(f.take)] for copy in copies]
    assert [record for shard in got for record in shard] == records
    ends = [0, *(round(len(records) * (i + 1) / num_shards) for i in range(num_shards))]
    assert [len(shard) for shard in got] == [b - a for a, b in pairwise(ends)]
    runs = list(dict.fromkeys(name for name, _ in records))
    assert all((path == "of run 1") == (runs.index(f.filename) == 1) for copy in copies for f, path in copy.parts)


@given(st.lists(st.tuples(st.integers(1, 900), st.integers(0, 10**8)), min_size=1, max_size=4))
def test_groups_are_all_shards_once_and_of_one_split(splits: list[tuple[int, int]]) -> None:
    plan = CopyPlan(tuple(split_copy([1000], 0, 1000, shards, size) for shards, size in splits))
    groups = list(plan.groups())
    assert [number for first, stop in groups for number in range(first, stop)] == list(range(len(plan)))
    copies = [list(plan.shards(*group)) for group in groups]
    assert [copy.shard for group in copies for copy in group] == [i for shards, _ in splits for i in range(shards)]
    for group in copies:
        sizes = [size // shards for shards, size in splits if shards == group[0].num_shards]
        assert len(group) == 1 or len(group) * min(sizes) <= materialize_copy.BYTES_AT_ONCE
        assert len({copy.num_shards for copy in group}) == 1


def contents(builder: object) -> dict[str, bytes]:
    directory = Path(builder.dataset_dir)  # type: ignore[attr-defined]
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if ".tfrecord-" in path.name}


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("asked", [{}, {"split": "train[3:]"}, {"split": "train[:50%]+train"}, {"num_shards": 1}])
def test_what_is_copied_at_once_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ordered, asked) -> None:
    source = write_dataset(tmp_path / "src" / "1.0.0", {"train": [3, 1, 9, 4]}, manifest=True, ordered=ordered)
    asked = {"num_shards": 4, **asked}
    if "split" in asked:
        asked["split"] = {"train": asked["split"]}
    at_once = contents(materialize(source, tmp_path / "one", **asked))
    monkeypatch.setattr(glancing, "core", None)
    monkeypatch.setattr(materialize_copy, "_part", lambda copy, path, last: None)
    assert contents(materialize(source, tmp_path / "two", **asked)) == at_once
    monkeypatch.setattr(materialize_records, "LOCAL_CHUNK", 1)
    assert contents(materialize(source, tmp_path / "three", **asked)) == at_once


def test_whole_shards_are_those_of_the_source(tmp_path: Path) -> None:
    source = write_dataset(tmp_path / "src" / "1.0.0", {"train": [3, 3, 3]}, manifest=True)
    made = contents(materialize(source, tmp_path / "out", num_shards=3))
    assert made == {name: (source / name).read_bytes() for name in made}
    assert len(made) == 6


@pytest.mark.parametrize("suffix", ["", ".index"])
def test_damage_is_told_in_the_same_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    source = write_dataset(tmp_path / "src" / "1.0.0", {"train": [2, 2]}, manifest=True)
    path = source / f"src-train.tfrecord-00001-of-00002{suffix}"
    good = path.read_bytes()
    for place in range(0, len(good), 3):
        path.write_bytes(good[:place] + bytes([good[place] ^ 4]) + good[place + 1 :])
        told = []
        for core in (glancing.core, None):
            monkeypatch.setattr(glancing, "core", core)
            with pytest.raises(BeamDatasetsError) as caught:
                materialize(source, tmp_path / "out", num_shards=2)
            told.append(str(caught.value))
        assert told[0] == told[1]
        assert path.name in told[0]
        monkeypatch.undo()
