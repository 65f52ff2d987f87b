"""Many small shards looked at by few calls: what is found is what reading them one by one finds."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets import features
from beam_datasets.features.compiler import compile_encoder
from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import Index
from beam_datasets.reading import glancing
from beam_datasets.verifying import examining, many_shards
from beam_datasets.verifying.judging import conclude
from beam_datasets.verifying.known import inspect
from beam_datasets.verifying.shard_facts import ShardFacts, read_shard
from beam_datasets.verifying.walking import RecordChecks
from tests.verifying import test_corruptions as corruptions
from tests.verifying.conftest import contents, restore


def one_by_one(directory: Path, *, decode: bool = False) -> list[ShardFacts]:
    return [read_shard(task) for task in inspect(str(directory)).tasks(decode=decode)]


def check(directory: Path, *, decode: bool = False) -> examining.Examination:
    """Verifies, and compares with the facts and with the report of shards that were read one by one."""
    found, expected = examining.examine(directory, decode=decode), one_by_one(directory, decode=decode)
    assert list(found.facts) == expected
    assert found.report == conclude(inspect(str(directory)), expected)
    return found


def seen_at_once(examination: examining.Examination) -> int:
    """How many shards were seen by few calls."""
    assert isinstance(examination.facts, many_shards.ShardTable)
    return len(examination.facts) - len(examination.facts.others)


needs_calls = pytest.mark.skipif(not glancing.can_glance_at_files("/"), reason="there is no native module")


@needs_calls
def test_good_shards_are_all_seen_at_once(published: Path, ordered: Path, as_tfds: Path) -> None:
    for directory in (published, ordered, as_tfds):
        found = check(directory)
        assert found.report.whole
        assert seen_at_once(found) == 6


@needs_calls
def test_good_shards_with_indexes_are_decoded_together(published: Path, ordered: Path, as_tfds: Path) -> None:
    for directory, seen in ((published, 6), (ordered, 6), (as_tfds, 0)):
        found = check(directory, decode=True)
        assert found.report.whole
        assert seen_at_once(found) == seen


@pytest.mark.parametrize("decode", [False, True])
@pytest.mark.parametrize("corrupt", corruptions.ALL, ids=lambda corrupt: corrupt.__name__)
def test_corruptions(copy: Path, corrupt: corruptions.Corrupt, decode: bool) -> None:
    whole = contents(copy)
    for seed in range(8):
        corrupt(copy, random.Random(seed))
        check(copy, decode=decode)
        restore(copy, whole)


@pytest.mark.parametrize("corrupt", corruptions.OF_TFDS, ids=lambda corrupt: corrupt.__name__)
def test_corruptions_without_a_manifest(as_tfds: Path, tmp_path: Path, corrupt: corruptions.Corrupt) -> None:
    copy = Path(shutil.copytree(as_tfds, tmp_path / "ds" / "1.0.0"))
    whole = contents(copy)
    for seed in range(8):
        corrupt(copy, random.Random(seed))
        check(copy)
        restore(copy, whole)


@needs_calls
def test_a_shard_with_any_byte_flipped_is_left_to_be_read_alone(copy: Path) -> None:
    shards = corruptions.shards(copy)[:2]
    names, told = [shard.name for shard in shards], []
    checks = RecordChecks.of(inspect(str(copy)).features, decode=False)
    for path in (shards[0], corruptions.index_of(shards[0])):
        whole = path.read_bytes()
        for place in range(len(whole)):
            with path.open("r+b") as file:
                file.write(whole[:place] + bytes([whole[place] ^ 0x11]) + whole[place + 1 :])
            rows = np.zeros(2, glancing.GLANCED)
            many_shards.look(str(copy), names, rows, checks, told.append)
            assert rows["state"].tolist() == [glancing.REFUSED, glancing.INDEXED]
            if place % 50 == 0:
                assert {finding.file for finding in check(copy).report.findings} == {path.name}
        path.write_bytes(whole)
    assert set(told) == {shards[1].stat().st_size}


def test_files_that_are_none(copy: Path) -> None:
    shards, whole = corruptions.shards(copy), contents(copy)
    for path in (shards[0], corruptions.index_of(shards[1])):
        path.unlink()
        assert not check(copy).report.whole
        path.mkdir()
        assert not check(copy).report.whole
        path.rmdir()
        path.symlink_to(path.name)
        assert not check(copy).report.whole
        path.unlink()
        path.write_bytes(b"")
        assert not check(copy).report.whole
        path.unlink()
        elsewhere = copy.parent / path.name
        elsewhere.write_bytes(whole[path.name])
        path.symlink_to(elsewhere)
        assert check(copy).report.whole
        path.unlink()
        restore(copy, whole)


def test_some_indexes_are_missing_or_without_keys(as_tfds: Path, published: Path, tmp_path: Path) -> None:
    """Without a manifest, the shards of a split are told apart by their indexes alone."""
    copy = Path(shutil.copytree(as_tfds, tmp_path / "ds" / "1.0.0"))
    shards, reports = corruptions.shards(copy), set()
    for keyed in ([], [0], [0, 1, 2, 3, 4, 5], [2, 4]):
        for shard, number in zip(shards, range(6)):
            index = Index.from_bytes(corruptions.index_of(published / shard.name).read_bytes(), path="")
            keys = index.keys if number in keyed else None
            corruptions.index_of(shard).write_bytes(Index(index.offsets, keys).to_bytes())
        reports.add(check(copy).report)
        corruptions.index_of(shards[5]).unlink()
        reports.add(check(copy).report)
    assert len(reports) == 6  # all with keys, or none, is the same


def test_shards_whose_keys_do_not_ascend(as_tfds: Path, published: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(as_tfds, tmp_path / "ds" / "1.0.0"))
    train = corruptions.shards(copy)[2:]
    for order in permutations(train):
        for shard, other in zip(train, order):
            shutil.copy(published / other.name, shard)
            shutil.copy(corruptions.index_of(published / other.name), corruptions.index_of(shard))
        kinds = {finding.kind for finding in check(copy).report.findings}
        assert ("keys" in kinds) == (list(order) != train)


def test_first_records_that_do_not_fit(copy: Path) -> None:
    shards = corruptions.shards(copy)
    other = compile_encoder(features.FeaturesDict({"n": np.int64, "txt": features.Text()}))({"n": 1, "txt": "a"})
    for shard, record in ((shards[1], b"\x0anothing"), (shards[4], b""), (shards[3], bytes(other))):
        content = [record, *corruptions.records(shard)[1:]]
        corruptions.write_records(shard, content)
        offsets = tfrecord.scan(shard.read_bytes(), path="")
        keys = Index.from_bytes(corruptions.index_of(shard).read_bytes(), path="").keys
        corruptions.index_of(shard).write_bytes(Index(offsets, keys, unsorted=True).to_bytes())
    for decode in (False, True):
        found = check(copy, decode=decode)
        assert [bool(facts.damages) for facts in found.facts] == [False, True, False, True, True, False]


@pytest.mark.parametrize("together", [1, 1000, 2500, 256 << 10])
def test_records_behind_the_first_that_do_not_decode(
    copy: Path, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    """Also beside good shards that are decoded together with theirs, and whatever that is."""
    monkeypatch.setattr(many_shards, "_TOGETHER_BYTES", together)
    shards = corruptions.shards(copy)
    feature = features.FeaturesDict({"n": np.int64, "label": np.int64, "text": features.Text(), "values": np.float32})
    short = bytes(compile_encoder(feature)({"n": 1, "label": 0, "text": "a", "values": 1.5}))
    for shard, place, record in ((shards[1], 5, short), (shards[3], 9, b"\x0anothing"), (shards[4], 1, b"")):
        content = corruptions.records(shard)
        corruptions.write_records(shard, [*content[:place], record, *content[place + 1 :]])
        offsets = tfrecord.scan(shard.read_bytes(), path="")
        keys = Index.from_bytes(corruptions.index_of(shard).read_bytes(), path="").keys
        corruptions.index_of(shard).write_bytes(Index(offsets, keys).to_bytes())
    assert not any(facts.damages for facts in check(copy).facts)
    found = check(copy, decode=True)
    assert [[damage.record for damage in facts.damages] for facts in found.facts] == [[], [5], [], [9], [1], []]


@needs_calls
def test_large_shards_are_decoded_alone(tmp_path: Path) -> None:
    """They are not read together with others."""

    class Mixed(Many, skip_registration=True):
        def _info(self) -> bd.DatasetInfo:
            return bd.DatasetInfo(builder=self, features={"t": features.Text()})

        def _split_generators(self) -> dict[str, object]:
            of_sizes = {"large": [300_000], "many": [0] * 9000, "small": [100, 3]}  # the second has a large index
            return {name: [(n, {"t": "x" * size}) for n, size in enumerate(of)] for name, of in of_sizes.items()}

    builder = Mixed(data_dir=tmp_path)
    builder.build(num_shards={"large": 1, "many": 1, "small": 2}, num_workers=1)
    found = check(Path(builder.dataset_dir), decode=True)
    assert found.report.whole
    assert seen_at_once(found) == 3


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_a_report_is_the_same_of_a_table_and_of_a_list(published: Path, as_tfds: Path, data: st.DataObject) -> None:
    """Also of what no shards were seen to hold."""
    directory = data.draw(st.sampled_from([published, as_tfds]))
    known, table = inspect(str(directory)), examining.examine(published).facts
    assert isinstance(table, many_shards.ShardTable)
    rows = table.rows.copy()
    for _ in range(data.draw(st.integers(0, 2))):
        row = rows[data.draw(st.integers(0, 5))]
        name = data.draw(st.sampled_from(["num_records", "size", "crc32c", "index_crc32c", "flags", "state", "keys"]))
        if name == "keys":
            row["first_key"] = row["last_key"] = data.draw(st.tuples(*[st.sampled_from([0, 1, 2**63, 2**64 - 1])] * 2))
        elif name in ("flags", "state"):
            row[name] = data.draw(st.sampled_from([0, 1] if name == "flags" else [1, 2]))
        else:
            row[name] += 1
    changed = many_shards.ShardTable(rows, {})
    assert conclude(known, changed) == conclude(known, list(changed))


def test_a_table_is_a_sequence(copy: Path) -> None:
    corruptions.shards(copy)[2].write_bytes(b"nothing")
    table, plain = examining.examine(copy).facts, one_by_one(copy)
    assert [table[-1], table[2], *table[1:4], *table[::-2], len(table[4:])] == [
        plain[-1], plain[2], *plain[1:4], *plain[::-2], 2,
    ]  # fmt: skip
    with pytest.raises(IndexError):
        table[6]


class Many(bd.DatasetBuilder, skip_registration=True):
    """Numbers in many shards."""

    VERSION = "1.0.0"
    name = "many"

    def _info(self) -> bd.DatasetInfo:
        return bd.DatasetInfo(builder=self, features={"n": np.int64})

    def _split_generators(self) -> dict[str, object]:
        return {"train": ((n, {"n": n}) for n in range(700))}


@pytest.fixture(scope="module")
def in_many_shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of 700 shards, of one example each."""
    builder = Many(data_dir=tmp_path_factory.mktemp("many"))
    builder.build(num_shards=700, num_workers=1)
    return Path(builder.dataset_dir)


@pytest.mark.parametrize("decode", [False, True])
@pytest.mark.parametrize("jobs", [1, 3])
def test_more_shards_than_files_may_be_open(in_many_shards: Path, jobs: int, decode: bool) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(lowest + 16, 64), limits[1]))
    try:
        report = bd.verify(in_many_shards, jobs=jobs, decode=decode)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert report.whole
    assert (report.num_shards, report.num_records) == (700, 700)


@pytest.mark.parametrize("jobs", [1, 3])
def test_an_interruption_ends_it(in_many_shards: Path, jobs: int) -> None:
    told: list[int] = []

    def interrupt(done: int, total: int | None) -> None:
        told.append(done)
        if len(told) == 1:  # a second one might come when the first was taken already
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        bd.verify(in_many_shards, jobs=jobs, progress=interrupt)
    assert told


@needs_calls
def test_one_call_ends_when_time_is_up(in_many_shards: Path) -> None:
    names = inspect(str(in_many_shards)).filenames
    rows = np.zeros(700, glancing.GLANCED)
    assert glancing.glance_at_files(str(in_many_shards), names, ".index", rows, seconds=0)[0] == 1
    assert np.count_nonzero(rows["state"]) == 1


@needs_calls
def test_names_that_no_file_has(in_many_shards: Path) -> None:
    rows, told = np.ones(2, glancing.GLANCED), []
    assert glancing.glance_at_files(str(in_many_shards), ["a", "\ud800"], ".index", rows) == (2, [])
    assert not rows["state"].any()
    many_shards.look(str(in_many_shards), ["\ud800", "a"], rows, RecordChecks.of(None, decode=False), told.append)
    assert sum(told) == 0
