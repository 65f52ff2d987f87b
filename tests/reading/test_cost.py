"""What reading costs: files opened and ranges read, memory, threads, time to open and to import."""

import functools
import gc
import inspect
import json
import os
import platform
import shutil
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets import catalog, features
from beam_datasets.features.columnar import ColumnarDecoder
from beam_datasets.metadata.manifest import Manifest, ShardColumns
from beam_datasets.native import core
from beam_datasets.reading.records import shards
from tests.native.values import FEATURES
from tests.published import build
from tests.reading.conftest import Storage
from tests.work import lines_of

LENGTHS = [700, 300, 500, 1500]


def test_opening_reads_three_files(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write({"train": LENGTHS}, manifest=True)
    calls = Storage(monkeypatch)
    builder = bd.builder_from_directory(directory)
    builder.as_dataset("train[10%:20%]").shuffle(1).batch(3)
    assert sorted(calls.calls) == [
        ("read_bytes", "dataset_info.json"),
        ("read_bytes", "features.json"),
        ("read_bytes", "manifest.json"),
    ]


@pytest.mark.parametrize(
    "name, version", [("counted", "1.2.0"), ("counted:1.1.*", "1.1.0"), ("counted:latest", "1.2.0")]
)
def test_a_name_is_found_by_one_list_of_its_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, version: str
) -> None:
    """It looks at no version below the one that is read, and at those above only until one is published."""
    tree = features.FeaturesDict({"n": np.int64})
    directory = build(tmp_path, tree, {"train": [(0, {"n": 2})]}, name="counted")
    for number in ("1.1.0", "1.2.0"):
        shutil.copytree(directory, tmp_path / "counted" / number)
    (tmp_path / "counted" / "1.3.0").mkdir()  # is not published
    calls = Storage(monkeypatch)
    assert Path(bd.builder(name, data_dir=tmp_path).dataset_dir).name == version
    unpublished = [("exists", "dataset_info.json")] * (not name.endswith("*"))
    published = [("exists", "dataset_info.json"), ("exists", "features.json")]
    opened = [("read_bytes", f"{file}.json") for file in ("manifest", "dataset_info", "features")]
    looked = [("list_dir", "counted"), *unpublished, *published]
    assert [call for call in calls.calls if call[0] != "normalize"] == [*looked, *opened]


@pytest.mark.parametrize("name", FEATURES)
def test_no_connector_is_asked_for_an_attribute_that_it_lacks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error about it has advice, which takes longer to write than a small dataset to open."""
    names: list[str] = []

    def missing(_: Any, name: str) -> Any:
        names.append(name)
        raise AttributeError(name)

    monkeypatch.setattr(features.FeatureConnector, "__getattr__", missing)
    decoder = ColumnarDecoder(features.FeaturesDict({"x": FEATURES[name]}))
    decoder.one()
    decoder.of_batches(pad=True)
    assert names == []


def test_code_opens_what_it_published_by_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks neither whether the version exists, nor for names of labels, which the manifest does not list."""
    tree = features.FeaturesDict({"label": features.ClassLabel(num_classes=3)})
    build(tmp_path, tree, {"train": [(0, {"label": 2})]}, name="opened_by_code")

    class OpenedByCode(bd.DatasetBuilder, skip_registration=True):
        VERSION = "1.0.0"

    calls = Storage(monkeypatch)
    assert OpenedByCode(data_dir=tmp_path).as_dataset("train").features == tree
    assert calls.calls == [("read_bytes", f"{name}.json") for name in ("manifest", "dataset_info", "features")]


def test_the_signature_of_code_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes longer than to read the three files."""

    class LookedAtOnce(bd.DatasetBuilder, skip_registration=True):
        VERSION = "1.0.0"

    looks = []
    signature = inspect.signature
    monkeypatch.setattr(inspect, "signature", lambda *args: (looks.append(args), signature(*args))[1])
    monkeypatch.setitem(catalog._registered, "looked_at_once", LookedAtOnce)
    assert [catalog.code_of("looked_at_once", {}) for _ in range(3)] == [LookedAtOnce] * 3
    assert looks == [(LookedAtOnce,)]


def test_opening_compiles_no_decoder(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = bd.builder_from_directory(write({"train": LENGTHS}))
    compiled = []
    monkeypatch.setattr(ColumnarDecoder, "__init__", lambda *_, **__: compiled.append(1))
    builder.as_dataset("train", decoders={"id": bd.decode.SkipDecoding()}).shuffle(1).skip(3).batch(2)
    with pytest.raises(ValueError, match=r"decoders names \['no'\]"):
        builder.as_dataset("train", decoders={"no": bd.decode.SkipDecoding()})
    assert not compiled


def test_the_end_of_a_split_is_one_open_and_one_read(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = bd.builder_from_directory(write({"train": LENGTHS}, manifest=True))
    calls = Storage(monkeypatch)
    example = next(iter(builder.as_dataset("train[90%:]")))
    assert example["id"] == 2700
    shard = calls.opened()
    assert calls.calls == [("memory_map", f"{shard[0]}.index"), ("open_reader", shard[0])]
    assert shard[0].endswith("00003-of-00004")
    assert [name for name, _, _ in calls.reads] == shard


def test_one_example_is_one_read_of_its_own_bytes(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = bd.builder_from_directory(write({"train": LENGTHS}, manifest=True)).as_dataset("train")
    size = len(dataset.raw()[1234])
    dataset = bd.builder_from_directory(write({"train": LENGTHS}, manifest=True)).as_dataset("train")
    calls = Storage(monkeypatch)
    assert dataset[1234]["id"] == 1234
    assert [stop - start for _, start, stop in calls.reads] == [size + 16]
    dataset[1235]
    assert len(calls.calls) == 2


@pytest.mark.skipif(core is None, reason="the native module was not built")
@pytest.mark.parametrize("size", [1, 3])
def test_c_reads_examples_as_one_range_too(write: Any, size: int) -> None:
    """By what the system counts, as no Python code sees it."""
    counters = Path("/proc/thread-self/io")
    if not counters.exists():
        pytest.skip("needs /proc")
    dataset = bd.builder_from_directory(write({"train": LENGTHS}, manifest=True)).as_dataset("train").raw()
    source = dataset._source
    source.fetch(np.array([0]), 0)  # opens the shard
    file = os.open(counters, os.O_RDONLY)
    before = os.pread(file, 1000, 0)
    records = source.fetch(np.arange(3, 3 + size), 0)
    after = os.pread(file, 1000, 0)
    os.close(file)
    calls, num_bytes = (b - a for a, b in zip(_counted(before), _counted(after)))
    assert calls - 1 == 1  # the first look is counted in the second
    assert num_bytes - len(before) == sum(len(record) + 16 for record in records)
    assert len(records) == size


def _counted(text: bytes) -> tuple[int, int]:
    """Returns how many reads a thread asked for, and how many bytes they were."""
    numbers = dict(line.split(b": ") for line in text.splitlines())
    return int(numbers[b"syscr"]), int(numbers[b"rchar"])


def test_iterating_reads_each_byte_once(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write({"train": LENGTHS}, size=400)
    builder = bd.builder_from_directory(directory)
    calls = Storage(monkeypatch)
    assert len(list(builder.as_dataset("train"))) == sum(LENGTHS)
    assert sorted(set(calls.opened())) == sorted(calls.opened())
    files = [file for file in directory.iterdir() if "tfrecord" in file.name and file.suffix != ".index"]
    assert sum(stop - start for _, start, stop in calls.reads) == sum(file.stat().st_size for file in files)


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [[500] * 20, [40] * 250], ids=["runs in chunks", "small runs"])
def test_what_was_read_is_let_go_of(write: Any, lengths: list[int]) -> None:
    """By what the process has, as chunks that C reads are not objects of Python."""
    status = Path("/proc/self/statm")
    if not status.exists():
        pytest.skip("needs /proc")
    dataset = bd.builder_from_directory(write({"train": lengths}, size=2000)).as_dataset("train").raw()
    iterator = iter(dataset.repeat())
    held = []
    for _ in range(7):
        for _ in range(len(dataset)):
            next(iterator)
        gc.collect()
        held.append(int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    assert held[-1] < held[0] + 40_000_000  # 100 MB were read meanwhile


WAYS: dict[str, Any] = {
    "all": lambda dataset: dataset,
    "blocks of a worker": lambda dataset: dataset.shard(0, 2, block=4),
    "batches of a worker": lambda dataset: dataset.batch(8).shard(0, 2),
    "few, again and again": lambda dataset: dataset.take(40).repeat(25),
}


@pytest.mark.skipif(core is None, reason="the native module was not built")
@pytest.mark.parametrize("way", WAYS)
def test_c_reads_no_byte_twice_too(write: Any, way: str) -> None:
    """By what the system counts of all threads, as no Python code sees it."""
    counters = Path("/proc/self/io")
    if not counters.exists():
        pytest.skip("needs /proc")
    directory = write({"train": [900] * 4}, size=2000)
    dataset = WAYS[way](bd.builder_from_directory(directory).as_dataset("train").raw())
    files = [file for file in directory.iterdir() if "tfrecord" in file.name and file.suffix != ".index"]
    size = sum(file.stat().st_size for file in files)
    before = _counted(counters.read_bytes())
    num_items = sum(1 for _ in dataset)
    read = _counted(counters.read_bytes())[1] - before[1]
    assert num_items == len(dataset)
    assert read < 1.02 * size + 30_000  # indexes and the counters are read too
    if way == "all":
        assert read >= size
    elif way == "few, again and again":
        assert read < 1.02 * sum(len(record) + 16 for record in dataset) + 30_000


def test_what_is_read_in_turn_with_tiny_runs_is_walked_through_once(
    write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = [4000, *[16] * 300, 4000]
    dataset = bd.builder_from_directory(write({"train": lengths}, size=500, indexed=False)).as_dataset("train")
    monkeypatch.setattr(shards, "_MAX_OPEN", 400)  # those that are open are not what is counted
    scans, scan = [], shards.Shard.scan

    def counted(shard: shards.Shard) -> Any:
        scans.append(shard.path)
        return scan(shard)

    monkeypatch.setattr(shards.Shard, "scan", counted)
    assert len(list(dataset.raw())) == sum(lengths)
    assert len(scans) == len(set(scans)) == len(lengths)


def test_a_shard_without_index_is_walked_through_once(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "_MAX_OPEN", 2)
    dataset = bd.builder_from_directory(write({"train": [10] * 6}, indexed=False)).as_dataset("train")
    calls = Storage(monkeypatch)
    wanted = np.random.default_rng(0).integers(0, 60, 200).tolist()
    assert [int(dataset[i]["id"]) for i in wanted] == wanted
    assert len([1 for _, start, stop in calls.reads if stop - start > 200]) == 6  # the others are of one record


@pytest.mark.parametrize("way", ["iterate", "shuffle", "window", "random", "without index"])
def test_memory_does_not_grow_with_the_dataset(write: Any, way: str) -> None:
    def peak(lengths: list[int]) -> int:
        directory = write({"train": lengths}, size=2000, indexed=way != "without index")
        dataset = bd.builder_from_directory(directory).as_dataset("train").raw()
        dataset = {"shuffle": dataset.shuffle(1), "window": dataset.shuffle(1, 50)}.get(way, dataset)
        tracemalloc.start()
        if way == "random":
            for index in np.random.default_rng(0).integers(0, len(dataset), 3000).tolist():
                dataset[index]
        else:
            for _ in dataset:
                pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak([1000] * 2)  # what is made once and kept
    small, large = peak([1000] * 4), peak([4000] * 4)
    assert large < small + 12_000 * 40 + 50_000  # 32 bytes of offsets and arithmetic a record, not 2000


@pytest.mark.slow
def test_batches_of_a_worker_hold_its_records_only(write: Any) -> None:
    dataset = bd.builder_from_directory(write({"train": [10_000] * 4}, size=1000)).as_dataset("train").raw()
    peaks = []
    for count in (1, 16):
        batches = dataset.shard(0, count).batch(1000)
        list(batches.take(1))
        tracemalloc.start()
        for _ in batches:
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0] + 1_000_000


def test_files_are_closed_and_no_thread_stays(write: Any) -> None:
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("needs /proc")
    gc.collect()
    before, threads = len(list(descriptors.iterdir())), set(threading.enumerate())
    dataset = bd.builder_from_directory(write({"train": LENGTHS})).as_dataset("train")
    for stop in (1, 100):
        iterator = iter(dataset)
        for _ in range(stop):
            next(iterator)
        iterator.close()
    next(iter(dataset))
    dataset[3]
    assert len(list(descriptors.iterdir())) > before
    del dataset, iterator
    gc.collect()
    assert len(list(descriptors.iterdir())) == before
    assert set(threading.enumerate()) <= threads


def test_opening_runs_no_python_for_each_shard(tmp_path: Path) -> None:
    few, many = (_dataset_of(count, tmp_path / str(count)) for count in (100, 10_000))
    lines = [lines_of(functools.partial(_open, path)) for path in (few, few, many)]
    assert lines[2] <= lines[1] + 10  # the first one imports
    order = _open(many)._source.arrangement(0)[0]
    assert lines_of(lambda: order.visits(np.array([9 * 10**8]), np.array([10**5]))) < 11_000


def _open(path: Path) -> bd.Dataset:
    return bd.builder_from_directory(path).as_dataset("train[3%:]")


def _dataset_of(count: int, path: Path) -> Path:
    """Writes the metadata of a dataset of so many shards."""
    path.mkdir()
    info = {"name": "big", "version": "1.0.0", "fileFormat": "tfrecord"}
    info["splits"] = [{"name": "train", "numBytes": str(10**12), "shardLengths": ["100000"] * count}]  # type: ignore[assignment]
    (path / "dataset_info.json").write_text(json.dumps(info))
    (path / "features.json").write_text(features.to_json_text(features.FeaturesDict({"a": np.int64})))
    columns = ShardColumns(*[[10**5] * count] * 5)
    (path / "manifest.json").write_text(Manifest("big", None, "1.0.0", {"train": columns}, {}).to_text())
    return path


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads as Linux lists them")
def test_reading_starts_one_thread_at_most(write: Any) -> None:
    """One thread reads ahead for all readers of a process."""
    directory = write({"train": [30, 30, 30]}, size=200_000)
    dataset = bd.builder_from_directory(directory).as_dataset("train")
    before = set(os.listdir("/proc/self/task"))
    for count, _ in enumerate(dataset):
        if count % 10 == 0:
            assert len(set(os.listdir("/proc/self/task")) - before) <= 1


PASSES = """
import resource
import sys
import beam_datasets as bd

records = bd.builder_from_directory(sys.argv[1]).as_dataset("train").raw()
faults = []
for _ in range(6):
    for _ in records:
        pass
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(faults[-1] - faults[2])
"""


@pytest.mark.skipif(core is None, reason="the native module was not built")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other ways")
@pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="AddressSanitizer keeps what was freed, unused")
@pytest.mark.slow
def test_memory_of_chunks_is_not_given_back_and_got_again(write: Any) -> None:
    directory = write({"train": [1000] * 8}, size=1000)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", PASSES, directory]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    num_chunks = 3 * 8_000_000 // (256 << 10)
    assert int(done.stdout) < num_chunks  # otherwise each has at least one fault, and 64 with pages of 4 KiB
