"""Small runs that blocks open: the same records, errors and bytes asked for as where each is opened in Python."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets.errors import BeamDatasetsError
from beam_datasets.formats.record_block import RecordBlock
from beam_datasets.native import core
from beam_datasets.reading import small_runs
from beam_datasets.reading.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

if not hasattr(core, "runs"):
    pytest.skip("the native module was not built, or cannot do it here", allow_module_level=True)

LENGTHS = [7, 0, 30, 1, 16, 17, 40, 3, 32, 5, 5, 5, 5, 5, 5, 64, 2, 9]
SPLITS = st.sampled_from(["train", "train[3:]", "train[10%:55%]", "train[:1]+train[40:120]", "train[250:]+train[:9]"])


class Calls:
    """Writes down which shards were left to blocks, and which were opened here then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: list[str] = []
        self.left: list[str] = []
        prepare, chunk = small_runs.SmallRuns._prepare, Source._chunk

        def counted(small: small_runs.SmallRuns, runs: Any) -> None:
            before = set(small.chunks)
            prepare(small, runs)
            self.given += map(small._instructions.filename, set(small.chunks) - before)

        def opened(source: Source, session: Any, coming: Any, run: int, *arguments: Any) -> Any:
            self.left.append(source.instructions.filename(run))
            return chunk(source, session, coming, run, *arguments)

        monkeypatch.setattr(small_runs.SmallRuns, "_prepare", counted)
        monkeypatch.setattr(Source, "_chunk", opened)


@pytest.fixture
def calls() -> Iterator[Calls]:
    with pytest.MonkeyPatch.context() as patch:
        yield Calls(patch)


def by_themselves(dataset: bd.Dataset, **arguments: Any) -> list[bytes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_runs, "_directory", None)
        return list(dataset.iterate(**arguments))


def test_each_run_is_left_to_blocks_once(write: Any, calls: Calls) -> None:
    directory = write({"train": LENGTHS}, manifest=True)
    dataset = bd.builder_from_directory(directory).as_dataset("train").raw()
    found = list(dataset)
    files = sorted(file.name for file in directory.iterdir() if file.name[-5:] == "00018")
    del files[1]  # which has no record
    assert (sorted(calls.given), calls.left) == (files, [])
    assert found == by_themselves(dataset)


@given(
    split=SPLITS, cycle=st.integers(1, 20), block=st.sampled_from([1, 3, 16, 1000]), epoch=st.integers(0, 2),
    shuffled=st.booleans(), skip=st.integers(0, 60), ids=st.booleans(),
)  # fmt: skip
@settings(deadline=None)
def test_the_order_is_the_same(write: Any, split: str, cycle: int, block: int, epoch: int, shuffled: bool, skip: int,
                               ids: bool) -> None:  # fmt: skip
    config = bd.ReadConfig(
        interleave_cycle_length=cycle, interleave_block_length=block, shuffle_seed=1, add_tfds_id=ids,
        shuffle_reshuffle_each_iteration=True,
    )  # fmt: skip
    builder = bd.builder_from_directory(write({"train": LENGTHS}, manifest=True))
    dataset = builder.as_dataset(split, shuffle_files=shuffled, read_config=config)
    dataset = (dataset if ids else dataset.raw()).skip(skip)
    assert repr(list(dataset.iterate(epoch=epoch))) == repr(by_themselves(dataset, epoch=epoch))


def test_it_goes_on_from_any_position(write: Any, calls: Calls) -> None:
    dataset = bd.builder_from_directory(write({"train": LENGTHS}, manifest=True)).as_dataset("train").raw()
    expected = by_themselves(dataset)
    iterator = iter(dataset)
    for taken in range(len(expected)):
        assert list(dataset.iterate(state=iterator.get_state())) == expected[taken:]
        next(iterator)
    assert calls.given


@pytest.mark.parametrize("block", [1, 5, 50])
def test_workers_have_all_of_it(write: Any, block: int) -> None:
    dataset = bd.builder_from_directory(write({"train": LENGTHS}, manifest=True)).as_dataset("train").raw()
    parts = [list(dataset.shard(index, 3, block=block)) for index in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_runs, "_directory", None)
        assert parts == [list(dataset.shard(index, 3, block=block)) for index in range(3)]
    assert sorted(itertools.chain(*parts)) == sorted(dataset)


@pytest.mark.parametrize("cycle", [1, 2, 16, 300])
def test_runs_of_several_chunks(write: Any, calls: Calls, cycle: int) -> None:
    """Between which their shards are closed."""
    directory = write({"train": [60, 100, 7, 45]}, size=5000, manifest=True)
    config = bd.ReadConfig(interleave_cycle_length=cycle)
    dataset = bd.builder_from_directory(directory).as_dataset("train[5:]", read_config=config).raw()
    found = list(dataset)
    assert (len(calls.given), calls.left) == (4, [])
    assert found == by_themselves(dataset)


def test_an_iterator_holds_one_descriptor(write: Any) -> None:
    directory = write({"train": [60] * 20}, size=5000, manifest=True)
    dataset, before = bd.builder_from_directory(directory).as_dataset("train").raw(), len(os.listdir("/dev/fd"))
    iterators = [iter(dataset) for _ in range(30)]
    for iterator in iterators:
        list(itertools.islice(iterator, 400))  # in the middle of 16 shards
    assert len(os.listdir("/dev/fd")) <= before + len(iterators)
    del iterators, iterator
    assert len(os.listdir("/dev/fd")) == before


# -------------------------------------------------------------------------------------------------------------- damage


def outcome(directory: Path) -> tuple[list[bytes], str]:
    """Returns what is read, and the error that ended it."""
    found: list[bytes] = []
    try:
        for record in bd.builder_from_directory(directory).as_dataset("train").raw():
            found.append(record)  # noqa: PERF402 - what came before an error counts
    except BeamDatasetsError as error:
        return found, f"{type(error).__name__}: {error}"
    return found, ""


def outcomes(directory: Path) -> list[tuple[list[bytes], str]]:
    """Returns the outcome as it is, and that where each run is read by itself."""
    with pytest.MonkeyPatch.context() as patch:
        found = outcome(directory)
        patch.setattr(small_runs, "_directory", None)
        return [found, outcome(directory)]


@pytest.fixture
def damaged(write: Any, tmp_path: Path) -> Path:
    """A dataset of its own."""
    return Path(shutil.copytree(write({"train": [3, 2, 4]}, manifest=True), tmp_path / "d" / "1.0.0"))


@pytest.mark.parametrize("suffix", ["", ".index"])
def test_any_damaged_byte_is_the_same_error(damaged: Path, suffix: str) -> None:
    path = next(damaged.glob(f"*00001-of-00003{suffix}"))
    good = path.read_bytes()
    errors = 0
    for place in range(len(good)):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        found, expected = outcomes(damaged)
        assert found == expected
        errors += bool(found[1])
    keys = 16 * 2 + 4 if suffix else 0  # are not looked at, nor their CRC in the header; which has one itself
    assert errors >= len(good) - keys


@pytest.mark.parametrize("suffix", ["", ".index"])
@pytest.mark.parametrize("change", ["gone", "empty", "short", "long", "another", "directory", "link", "nothing"])
def test_what_is_no_shard_is_the_same_error(damaged: Path, suffix: str, change: str) -> None:
    path, other = (next(damaged.glob(f"*0000{number}-of-00003{suffix}")) for number in (1, 2))
    content = path.read_bytes()
    path.unlink()
    if change == "directory":
        path.mkdir()
    elif change == "link":
        path.with_name("elsewhere").write_bytes(content)
        path.symlink_to("elsewhere")
    elif change != "gone":
        changed = {"empty": b"", "short": content[:-1], "long": content + b"\0", "another": other.read_bytes()}
        path.write_bytes(changed.get(change, content))
    found, expected = outcomes(damaged)
    assert found == expected
    assert (found[1] == "") == (change in ("link", "nothing") or (change, suffix) == ("gone", ".index"))


def test_a_directory_that_cannot_be_opened_is_the_same_error(damaged: Path) -> None:
    builder = bd.builder_from_directory(damaged)
    iterator = iter(builder.as_dataset("train").raw())
    shutil.rmtree(damaged)
    with pytest.raises(bd.errors.PathNotFoundError, match="tfrecord"):
        next(iterator)


# ---------------------------------------------------------------------------------------------------------------- cost


def test_large_runs_and_short_ranges_are_opened_here(write: Any, calls: Calls) -> None:
    large = bd.builder_from_directory(write({"train": [60, 60]}, size=20_000, manifest=True)).as_dataset("train").raw()
    assert len(list(large)) == 120
    small = bd.builder_from_directory(write({"train": LENGTHS}, manifest=True)).as_dataset("train").raw()
    assert list(small.take(20)) == by_themselves(small)[:20]
    assert not calls.given


def test_no_index_is_asked_for_twice(write: Any, calls: Calls) -> None:
    directory = write({"train": LENGTHS}, indexed=False)
    assert len(list(bd.builder_from_directory(directory).as_dataset("train").raw())) == sum(LENGTHS)
    assert len(calls.left) == len(set(calls.left)) == np.count_nonzero(LENGTHS)


def test_a_shard_is_two_reads_of_what_is_needed(write: Any) -> None:
    """By what the system counts, as no Python code sees it."""
    counters = Path("/proc/thread-self/io")
    if not counters.exists():
        pytest.skip("needs /proc")
    directory = write({"train": [10, 20]}, manifest=True)
    names = sorted(file.name for file in directory.iterdir() if file.name[-2:] == "02")
    opened = core.directory(str(directory))  # type: ignore[union-attr]
    file = os.open(counters, os.O_RDONLY)
    before = os.pread(file, 1000, 0)
    found = core.runs(opened, names, [10, 20, 0, 0, 10, 20], 1 << 20)  # type: ignore[union-attr]
    block, chunks = RecordBlock(), dict(enumerate(found))
    block.take(chunks, np.arange(2), np.zeros(2, int), np.array([10, 20]), 0, 2, 100, 1 << 20)
    after = os.pread(file, 1000, 0)
    os.close(file)
    calls, num_bytes = (b - a for a, b in zip(_counted(before), _counted(after)))
    assert len(block) == 30
    assert calls - 1 == 4  # the first look is counted in the second
    indexes = sum(40 + 8 * (n + 1) for n in (10, 20))
    assert num_bytes - len(before) == indexes + sum(os.path.getsize(directory / name) for name in names)


def _counted(text: bytes) -> np.ndarray[Any, Any]:
    """Returns how many reads a thread asked for, and how many bytes they were."""
    numbers = dict(line.split(b": ") for line in text.splitlines())
    return np.array([int(numbers[b"syscr"]), int(numbers[b"rchar"])])
