"""Which records go into which shard, and that shards are the same however much is read and written at once."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import BeamDatasetsError
from beam_datasets.materializing import copying, records
from beam_datasets.materializing.copying import CopyPlan, SplitCopy
from beam_datasets.metadata.shards import FileInstructions, shard_offsets
from tests.materializing.materialized import materialize
from tests.reading.conftest import write_dataset


def split_copy(lengths: list[int], start: int, stop: int, num_shards: int, num_bytes: int = 0) -> SplitCopy:
    names = [f"s{i}" for i in range(len(lengths))]
    files = FileInstructions.between(start, stop, shard_offsets(lengths), names)
    return SplitCopy("train", num_shards, True, files, num_bytes)


@given(st.lists(st.integers(0, 7), min_size=1, max_size=8).filter(any), st.data())
def test_shards_are_the_records_in_order(lengths: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, sum(lengths) - 1))
    stop = data.draw(st.integers(start + 1, sum(lengths)))
    num_shards = data.draw(st.integers(1, stop - start))
    split = split_copy(lengths, start, stop, num_shards)
    wanted = [(f"s{shard}", i) for shard, length in enumerate(lengths) for i in range(length)][start:stop]
    got = [[(f.filename, f.skip + i) for f in split.shard(n) for i in range(f.take)] for n in range(num_shards)]
    assert [record for shard in got for record in shard] == wanted
    ends = [0, *(round(len(wanted) * (i + 1) / num_shards) for i in range(num_shards))]
    assert [len(shard) for shard in got] == [b - a for a, b in pairwise(ends)]


@given(st.lists(st.tuples(st.integers(1, 900), st.integers(0, 10**8)), min_size=1, max_size=4))
def test_groups_are_all_shards_once_and_of_one_split(splits: list[tuple[int, int]]) -> None:
    plan = CopyPlan(tuple(split_copy([1000], 0, 1000, shards, size) for shards, size in splits))
    groups = list(plan.groups())
    numbers = [(split, shard) for split, first, stop in groups for shard in range(first, stop)]
    assert numbers == [(split, shard) for split, (shards, _) in enumerate(splits) for shard in range(shards)]
    for split, first, stop in groups:
        shards, size = splits[split]
        assert stop - first <= copying.MAX_GROUP
        assert stop - first == 1 or (stop - first) * (size // shards) <= copying.GROUP_BYTES


def contents(builder: object) -> dict[str, bytes]:
    directory = Path(builder.dataset_dir)  # type: ignore[attr-defined]
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if ".tfrecord-" in path.name}


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"split": {"train": "train[3:]"}},
        {"split": {"train": "train[:50%]+train"}},
        {"split": {"train": "train[:13]+train[2:9]", "a": "train[1:6]+train[:2]"}},
        {"num_shards": 1},
    ],
)
def test_shards_do_not_depend_on_what_is_read_or_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ordered: bool, indexed: bool, asked: dict
) -> None:
    kind = {"manifest": indexed, "indexed": indexed, "ordered": ordered}
    source = write_dataset(tmp_path / "src" / "1.0.0", {"train": [3, 1, 9, 4]}, **kind)
    asked = {"num_shards": 4, **asked}
    expected = contents(materialize(source, tmp_path / "one", **asked))
    monkeypatch.setattr(copying, "GROUP_BYTES", 1)
    assert contents(materialize(source, tmp_path / "two", **asked)) == expected
    monkeypatch.setattr(records, "LOCAL_CHUNK", 1)
    assert contents(materialize(source, tmp_path / "three", **asked)) == expected


def test_whole_shards_are_those_of_the_source(tmp_path: Path) -> None:
    source = write_dataset(tmp_path / "src" / "1.0.0", {"train": [3, 3, 3]}, manifest=True)
    made = contents(materialize(source, tmp_path / "out", num_shards=3))
    assert made == {name: (source / name).read_bytes() for name in made}
    assert len(made) == 6


def test_damage_of_an_index_is_an_error(tmp_path: Path) -> None:
    source = write_dataset(tmp_path / "src" / "1.0.0", {"train": [2, 2]}, manifest=True)
    path = source / "src-train.tfrecord-00001-of-00002.index"
    good = path.read_bytes()
    for place in range(0, len(good), 3):
        path.write_bytes(good[:place] + bytes([good[place] ^ 4]) + good[place + 1 :])
        with pytest.raises(BeamDatasetsError, match=path.stem):
            materialize(source, tmp_path / "out", num_shards=2)
