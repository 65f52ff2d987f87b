"""Reading shards: special cases of files and records, many shards, progress, stopping, FIFOs and devices."""

import dataclasses
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets import features, storage
from beam_datasets.features.compiler import compile_encoder
from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import Index
from beam_datasets.metadata.manifest import Manifest
from beam_datasets.native import crc32c
from beam_datasets.publishing.repair import repair
from beam_datasets.verifying import examine, scan
from tests.directories import contents
from tests.published import build, restore
from tests.verifying import corruptions


def test_an_unreadable_index_is_read_once(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing store waits before each failure."""
    reads: list[str] = []
    for name in ("memory_map", "read_bytes"):
        read = getattr(storage, name)
        monkeypatch.setattr(storage, name, lambda path, read=read: (reads.append(Path(path).name), read(path))[1])
    index = corruptions.index_of(corruptions.shards(copy)[0])
    for missing in (False, True):
        index.unlink() if index.is_file() else None
        index.rmdir() if missing else index.mkdir()
        reads.clear()
        found = examine(copy).facts[0].index
        assert found is None if missing else found is not None and found.problem == "Is a directory"
        assert reads.count(index.name) == 1


@pytest.mark.parametrize(("read_bytes", "jobs"), [(scan.READ_BYTES, 1), (1, 1), (1, 3)])
def test_progress_ends_at_the_total(copy: Path, monkeypatch: pytest.MonkeyPatch, read_bytes: int, jobs: int) -> None:
    monkeypatch.setattr(scan, "READ_BYTES", read_bytes)
    shards = corruptions.shards(copy)
    content = shards[1].read_bytes()
    shards[1].write_bytes(content[:20] + bytes([content[20] ^ 1]) + content[21:])
    reported: list[tuple[int, int | None]] = []
    bd.verify(copy, jobs=jobs, progress=lambda done, total: reported.append((done, total)))
    total = sum(path.stat().st_size for path in shards)
    assert reported == sorted(reported)
    assert reported[-1] == (total, total)


def test_directories_links_and_empty_files(copy: Path) -> None:
    shards, whole = corruptions.shards(copy), contents(copy)
    for path in (shards[0], corruptions.index_of(shards[1])):
        elsewhere = copy.parent / path.name
        elsewhere.write_bytes(whole[path.name])
        for make, is_whole in (
            (path.mkdir, False),
            (lambda path=path: path.symlink_to(path.name), False),
            (path.touch, False),
            (lambda path=path, elsewhere=elsewhere: path.symlink_to(elsewhere), True),
        ):
            path.unlink()
            assert {finding.file for finding in bd.verify(copy).findings} == {path.name}
            make()
            assert bd.verify(copy).whole == is_whole
            if path.is_dir():
                path.rmdir()
                path.touch()
        path.unlink()
        restore(copy, whole)


def test_shards_whose_keys_do_not_ascend(bare: Path, published: Path) -> None:
    train = corruptions.shards(bare)[2:]
    for order in permutations(train):
        for shard, other in zip(train, order):
            shutil.copy(published / other.name, shard)
            shutil.copy(corruptions.index_of(published / other.name), corruptions.index_of(shard))
        found = {f.file: f.message for f in bd.verify(bare).findings if f.kind == "keys"}
        falls = [corruptions.index_of(train[i]).name for i in range(1, len(train)) if order[i] < order[i - 1]]
        assert list(found) == falls
        assert all("keys must ascend through all shards" in message for message in found.values())


def test_some_indexes_are_missing_or_without_keys(bare: Path, published: Path) -> None:
    shards = corruptions.shards(bare)
    for keyed, without in (([], []), ([0, 1, 2, 3, 4, 5], []), ([2, 4], [3, 5])):
        for number, shard in enumerate(shards):
            index = Index.from_bytes(corruptions.index_of(published / shard.name).read_bytes(), path="")
            keys = index.keys if number in keyed else None
            corruptions.index_of(shard).write_bytes(Index(index.offsets, keys).to_bytes())
        expected = {corruptions.index_of(shards[number]).name for number in without}
        found = {finding.file for finding in bd.verify(bare).findings if finding.kind == "keys"}
        assert found == expected, keyed
        corruptions.index_of(shards[5]).unlink()
        assert corruptions.index_of(shards[5]).name in {finding.file for finding in bd.verify(bare).findings}


def replace_record(shard: Path, place: int, record: bytes) -> None:
    """Replaces a record and writes an index that fits."""
    content = corruptions.records(shard)
    corruptions.write_records(shard, [*content[:place], record, *content[place + 1 :]])
    offsets = tfrecord.scan(shard.read_bytes(), path="")
    keys = Index.from_bytes(corruptions.index_of(shard).read_bytes(), path="").keys
    corruptions.index_of(shard).write_bytes(Index(offsets, keys, unsorted=True).to_bytes())


def test_records_that_do_not_fit_the_features(copy: Path) -> None:
    """The first record of each read is always checked, each record with `decode`."""
    shards = corruptions.shards(copy)
    renamed = compile_encoder(features.FeaturesDict({"n": np.int64, "txt": features.Text()}))({"n": 1, "txt": "a"})
    feature = features.FeaturesDict({"n": np.int64, "label": np.int64, "text": features.Text(), "values": np.float32})
    short = compile_encoder(feature)({"n": 1, "label": 0, "text": "a", "values": 1.5})
    at_first = {1: b"\x0anothing", 3: bytes(renamed), 4: b""}
    later = {0: (5, bytes(short)), 2: (9, b"\x0anothing"), 5: (1, b"")}
    for number, record in at_first.items():
        replace_record(shards[number], 0, record)
    for number, (place, record) in later.items():
        replace_record(shards[number], place, record)
    for decode in (False, True):
        damaged = [[damage.record for damage in facts.damages] for facts in examine(copy, decode=decode).facts]
        expected = [[0] if number in at_first else [later[number][0]] * decode for number in range(6)]
        assert damaged == expected


@pytest.fixture(scope="module")
def many_shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of 700 shards, of one example each."""
    rows = [(n, {"n": n}) for n in range(700)]
    return build(tmp_path_factory.mktemp("many"), {"n": np.int64}, {"train": rows}, num_shards=700)


@pytest.mark.parametrize(("jobs", "decode"), [pytest.param(1, False, marks=pytest.mark.slow), (3, True)])
def test_more_shards_than_files_may_be_open(many_shards: Path, jobs: int, decode: bool) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = [os.dup(0) for _ in range(16)]  # numbers between them may be in use
    for descriptor in free:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(free) + 1, limits[1]))
    try:
        report = bd.verify(many_shards, jobs=jobs, decode=decode)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert report.whole
    assert (report.num_shards, report.num_records) == (700, 700)


@pytest.mark.parametrize("jobs", [1, 3])
def test_an_interrupt_stops_it(many_shards: Path, jobs: int) -> None:
    calls: list[int] = []

    def interrupt(done: int, total: int | None) -> None:
        calls.append(done)
        if len(calls) == 1:  # a second signal might arrive after the first was handled
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        bd.verify(many_shards, jobs=jobs, progress=interrupt)
    assert calls


# What has the name of a file of a dataset and is a FIFO or a device: said at once, and never waited for


SHARD = "ds-train.tfrecord-00003-of-00004"
FILES = (SHARD, f"{SHARD}.index", "dataset_info.json", "manifest.json", "features.json")


def command(*arguments: str | Path) -> tuple[int, str]:
    """How the command ends, and what it says; a process of its own, so that one that waits for ever fails the test."""
    done = subprocess.run(
        [sys.executable, "-m", "beam_datasets.cli", *map(str, arguments)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_fifo_is_told_of_and_replaced(copy: Path, published: Path, name: str) -> None:
    (copy / name).unlink()
    os.mkfifo(copy / name)
    for options in ((), ("--decode",)):
        status, said = command("verify", copy, *options)
        assert (status, said.count("it is not a regular file but a FIFO")) == (1, 1), said
        assert "1 finding in 1 file" in said
    status, said = command("head", copy, "--split", "train", "--count", "60")
    assert status == 1
    assert f"{copy / name}: it is not a regular file but a FIFO" in said
    status, said = command("list", "--data_dir", copy.parents[1])
    assert status == 0, said
    assert "ds:1.0.0" in said
    if name == "manifest.json":  # no checksum proves one
        (copy / name).unlink()
        shutil.copy(published / name, copy / name)
    status, said = command("verify", copy, "--repair", "--from", published)
    assert status == 0, said
    assert contents(copy)[name] == contents(published)[name]


def test_a_hostile_record_takes_no_memory(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file, whose record has a right length and no right checksum; verification goes on after it."""
    path, most = corruptions.shards(copy)[0], 0
    whole = path.read_bytes()
    read = storage.Reader.read

    def noted(self: storage.Reader, start: int = 0, stop: int | None = None) -> object:
        nonlocal most
        most = max(most, (self.size if stop is None else stop) - start)
        return read(self, start, stop)

    monkeypatch.setattr(storage.Reader, "read", noted)
    for size in (3 << 30, 100 << 20):
        header = struct.pack("<Q", size)
        with path.open("wb") as file:
            file.write(whole + header + struct.pack("<I", tfrecord.masked_crc32c(header)))
            file.truncate(len(whole) + size + 16)
            file.seek(0, 2)
            file.write(whole)
        facts = scan.read_shard(str(path), scan.RecordChecks.of(None, decode=False))
        [damage] = facts.damages
        assert (damage.offset, damage.record, damage.count, damage.kind) == (len(whole), 6, 1, "record")
        assert facts.num_records == 13
        assert most <= 16 << 20


LARGE = 3 << 29  # bytes of a record over the limit


def put_large_record(path: Path) -> None:
    """Replaces the first record of a shard by a sparse one over the limit, whose length has the right checksum."""
    data, header = path.read_bytes(), struct.pack("<Q", LARGE)
    with path.open("wb") as file:
        file.write(header + struct.pack("<I", tfrecord.masked_crc32c(header)))
        file.truncate(LARGE + tfrecord.OVERHEAD)
        file.seek(0, 2)
        file.write(data[tfrecord.OVERHEAD + tfrecord.LENGTH.unpack_from(data)[0] :])


def publish_large_record(path: Path) -> None:
    """Gives a shard a record over the limit, and its index and the manifest what a build of it would write."""
    index = corruptions.index_of(path)
    offsets = Index.from_bytes(index.read_bytes(), path="").offsets.astype(np.uint64)
    size = path.stat().st_size
    put_large_record(path)
    num_added = path.stat().st_size - size
    offsets[1:] += np.uint64(num_added)
    index.write_bytes(Index(offsets).to_bytes())
    manifest_path = path.with_name("manifest.json")
    manifest = Manifest.from_text(manifest_path.read_bytes(), path="")
    columns = manifest.splits["test"]
    changed = dataclasses.replace(
        columns,
        num_bytes=[columns.num_bytes[0] + num_added, *columns.num_bytes[1:]],
        file_bytes=[columns.file_bytes[0] + num_added, *columns.file_bytes[1:]],
        index_crc32c=[crc32c(index.read_bytes()), *columns.index_crc32c[1:]],
    )
    manifest_path.write_text(dataclasses.replace(manifest, splits={**manifest.splits, "test": changed}).to_text())


@pytest.mark.parametrize("missing", ["", "index", "manifest"])
def test_a_record_over_the_limit_is_not_called_lost(copy: Path, missing: str) -> None:
    """A sparse file: whether its first record is good is not known before the limit is raised."""
    path = corruptions.shards(copy)[0]
    publish_large_record(path)
    if missing:
        (corruptions.index_of(path) if missing == "index" else copy / "manifest.json").unlink()
    report = examine(copy).report
    [finding] = [each for each in report.findings if each.file == path.name]
    assert (finding.kind, finding.offset, finding.record, finding.lost) == ("limit", 0, 0, None)
    assert f"BEAM_DATASETS_MAX_ELEMENTS={LARGE} " in finding.message
    assert (report.num_unread, report.num_lost) == (1, 0)
    status, output = command("verify", copy)
    assert (status, "1 record over the limit was not read" in output, "no example is lost" in output) == (
        1,
        True,
        False,
    )


@pytest.mark.parametrize("missing", ["", "index", "index of another shard", "manifest", "index and manifest"])
def test_a_length_over_the_limit_that_is_not_the_published_one(copy: Path, published: Path, missing: str) -> None:
    """The record is lost, and restored, if the index or a published size proves it."""
    path = corruptions.shards(copy)[0]
    index = corruptions.index_of(path)
    put_large_record(path)
    if missing == "index of another shard":
        index.write_bytes(corruptions.index_of(corruptions.shards(copy)[1]).read_bytes())
    elif "index" in missing:
        index.unlink()
    if "manifest" in missing:
        (copy / "manifest.json").unlink()
    report = examine(copy).report
    [finding] = [each for each in report.findings if each.file == path.name]
    assert (finding.kind, finding.offset, finding.record) == ("record", 0, 0)
    assert [str(lost) for lost in report.lost] == ["test[0:1]"]
    if "manifest" not in missing:  # without which no checksum proves a repair
        repair(copy, copy=published)
        assert contents(copy) == contents(published)


def test_a_file_that_is_too_short_for_a_length_over_the_limit(copy: Path) -> None:
    path = corruptions.shards(copy)[0]
    header = struct.pack("<Q", LARGE)
    path.write_bytes(header + struct.pack("<I", tfrecord.masked_crc32c(header)) + bytes(48))
    report = examine(copy).report
    [finding] = [each for each in report.findings if each.file == path.name]
    assert (finding.kind, finding.record, report.num_unread) == ("cut", 0, 0)
    assert report.num_lost == examine(copy).expected.splits[0].num_examples[0]  # type: ignore[index]


def test_a_value_that_needs_too_much_memory_is_a_finding(copy: Path) -> None:
    path = corruptions.shards(copy)[0]
    data = path.read_bytes()
    records = tfrecord.unframe(data, tfrecord.scan(data, path=""), path="")

    def check(record: object) -> bool:
        if record in (records, records[3], records[4]):
            raise MemoryError
        return True

    checks = scan.RecordChecks.of(examine(copy).expected.features, decode=True)
    facts = scan.read_shard(str(path), dataclasses.replace(checks, each=check, block=check))
    assert [(damage.record, damage.count, damage.kind) for damage in facts.damages] == [
        (3, 1, "value"),
        (4, 1, "value"),
    ]
    assert facts.damages[0].problem == "a stored value does not decode: not enough memory to read it"
    assert not facts.broken
