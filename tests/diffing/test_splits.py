"""Counts of a comparison against dictionaries, lists and multisets of Python, for arbitrary splits."""

import itertools
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets import features
from beam_datasets.diffing import SplitDiff, diff
from beam_datasets.diffing.diffing import pair_by_keys
from tests.cases import cases
from tests.diffing.versions import Made

TREE = features.FeaturesDict({"v": np.int64})
MAPS = st.dictionaries(st.integers(0, 40), st.integers(0, 5), max_size=30)
LISTS = st.lists(st.integers(0, 5), max_size=30)


def made(values: dict[int, int], num_shards: int = 1, **options: Any) -> Made:
    splits = {"train": {key: {"v": value} for key, value in values.items()}, "rest": {0: {"v": 0}}}
    return Made(TREE, splits, num_shards=num_shards, **options)


def compared(old: Made, new: Made, **options: Any) -> SplitDiff:
    with tempfile.TemporaryDirectory() as root:
        found = diff(old.write(Path(root), "1.0.0"), new.write(Path(root), "1.0.1"), **options)
    return found.splits["train"]


def in_both(old: Sequence[Any], new: Sequence[Any]) -> int:
    """Returns how many values two multisets share."""
    return (Counter(old) & Counter(new)).total()


@cases(60)
@given(MAPS, MAPS, st.integers(1, 5), st.integers(1, 5), st.booleans())
def test_by_keys_as_dicts(
    old: dict[int, int], new: dict[int, int], old_shards: int, new_shards: int, ordered: bool
) -> None:
    found = compared(made(old, old_shards, ordered=ordered), made(new, new_shards, ordered=ordered))
    if not old or not new:  # a split without examples has no keys
        assert (found.same, found.removed, found.added) == (0, len(old), len(new))
        return
    shared = old.keys() & new.keys()
    removed, added = [old[key] for key in old.keys() - new.keys()], [new[key] for key in new.keys() - old.keys()]
    moved = in_both(removed, added)
    assert found.by == "keys"
    assert found.same == sum(old[key] == new[key] for key in shared)
    assert found.changed == len(shared) - found.same
    assert (found.moved, found.removed, found.added) == (moved, len(removed) - moved, len(added) - moved)


@cases(60)
@given(LISTS, LISTS, st.integers(1, 5), st.integers(1, 5))
def test_by_index_as_lists(old: list[int], new: list[int], old_shards: int, new_shards: int) -> None:
    def listed(values: list[int], num_shards: int) -> Made:
        return made(dict(enumerate(values)), num_shards, orders={"train": range(len(values))}, indexed=False)

    found = compared(listed(old, old_shards), listed(new, new_shards))
    same = [a == b for a, b in zip(old, new)]
    left = [value for i, value in enumerate(old) if i >= len(same) or not same[i]]
    right = [value for i, value in enumerate(new) if i >= len(same) or not same[i]]
    assert found.by == "index"
    assert found.same == sum(same)
    assert found.moved == in_both(left, right)
    assert found.same + found.changed + found.removed + found.moved == len(old)
    assert found.same + found.changed + found.added + found.moved == len(new)
    assert found.differs == (old != new)


@given(st.lists(st.binary(min_size=16, max_size=16), unique=True), st.data())
def test_the_merge_is_that_of_sets(keys: list[bytes], data: st.DataObject) -> None:
    old, new = (sorted(key for key in keys if data.draw(st.booleans())) for _ in range(2))

    def blocks(column: list[bytes]) -> Iterator[tuple[int, Any]]:
        cuts = sorted({0, len(column), *data.draw(st.lists(st.integers(0, len(column)), max_size=4))})
        for start, stop in itertools.pairwise(cuts):
            yield start, np.frombuffer(b"".join(column[start:stop]), np.uint8).reshape(-1, 16)

    pairs = list(pair_by_keys(blocks(old), blocks(new)))
    both = [(int(i), int(j)) for part in pairs for i, j in zip(part.old, part.new)]
    assert both == [(i, new.index(key)) for i, key in enumerate(old) if key in new]
    assert [i for part in pairs for i in part.removed.tolist()] == [i for i, k in enumerate(old) if k not in new]
    assert [i for part in pairs for i in part.added.tolist()] == [i for i, k in enumerate(new) if k not in old]


def test_records_larger_than_what_is_read_at_once() -> None:
    tree = features.FeaturesDict({"data": features.Tensor(shape=(None,), dtype=np.uint8, encoding="bytes")})
    sizes = [100_000, 3_000_000, 0, 900_000, 200_000, 1_500_000]
    old = {number: {"data": np.full(size, number, np.uint8)} for number, size in enumerate(sizes)}
    new = {**old, 3: {"data": np.full(900_001, 3, np.uint8)}, 5: {"data": np.append(old[5]["data"][1:], np.uint8(99))}}
    found = compared(*(Made(tree, {"train": examples}, ordered=True, num_shards=2) for examples in (old, new)))
    assert (found.same, found.changed) == (4, 2)
    assert [example.old_index for example in found.examples] == [3, 5]


PEAK = """
import sys, beam_datasets as bd
found = bd.diff(*sys.argv[1:], data_dir="/nowhere").splits["train"]
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(found.same, found.changed, found.removed, found.added, peak.split()[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of a process's memory from Linux's /proc")
def test_memory_does_not_grow_with_the_examples(tmp_path: Path, write_numbers: Callable[..., Path]) -> None:
    peaks = {}
    for count in (100_000, 1_000_000):
        rng = np.random.default_rng(count)
        keys = np.sort(rng.integers(0, 2**63, (count, 2), np.uint64), axis=0)
        values = rng.integers(0, 2**31, count)
        in_old, in_new = rng.random(count) > 0.01, rng.random(count) > 0.01
        changed = rng.random(count) < 0.01
        directories = [
            write_numbers(tmp_path / f"d{count}" / "1.0.0", keys[in_old], values[in_old]),
            write_numbers(tmp_path / f"d{count}" / "2.0.0", keys[in_new], np.where(changed, -1, values)[in_new]),
        ]
        done = subprocess.run([sys.executable, "-c", PEAK, *directories], capture_output=True, text=True, check=True)
        *counts, peak = map(int, done.stdout.split())
        both = in_old & in_new
        alone = (in_old & ~in_new).sum(), (in_new & ~in_old).sum()
        assert counts == [(both & ~changed).sum(), (both & changed).sum(), *alone]
        peaks[count] = peak
    assert peaks[1_000_000] < peaks[100_000] + 16_000, peaks
