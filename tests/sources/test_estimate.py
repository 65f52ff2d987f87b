"""Resources of a run: estimates against runs, progress that is reported, and memory."""

import pickle
import re
import subprocess
import threading
import time
import tracemalloc
import uuid
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets import storage
from beam_datasets.beam import encode
from beam_datasets.builders import DatasetBuilder
from beam_datasets.cli import main
from beam_datasets.display.text import size_text
from beam_datasets.engines.engine import Transport
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.options import ShardingOptions
from beam_datasets.publishing import store_commit
from beam_datasets.publishing.groups import join_parts, write_group
from beam_datasets.publishing.owners import IN_PROCESS, Owner
from beam_datasets.publishing.progress import Progress, measure
from beam_datasets.publishing.runs import Run, runs_dir
from beam_datasets.publishing.shard_file import Destination
from beam_datasets.shuffle import histogram, plan, routing
from beam_datasets.shuffle.block_builder import BlockBuilder
from beam_datasets.shuffle.blocks import histogram_of
from beam_datasets.shuffle.levels import MergeLimits
from beam_datasets.sources import estimate as estimates
from beam_datasets.sources.estimate import Sample, estimate, take_samples
from beam_datasets.sources.units import SourceUnits


@given(st.integers(1, 10**9), st.integers(20, 10**6), st.floats(0.001, 1), st.floats(0, 1e4), st.integers(2, 100))
def test_figures_grow_with_the_data(examples, size, share, seconds, factor):
    one, many = (
        estimate({"train": Sample(share, count, count * size, seconds)}, ShardingOptions())
        for count in (examples, examples * factor)
    )
    assert one.splits["train"].examples == round(examples / share)
    for name in ("reads", "writes", "spilled_bytes", "core_hours"):
        assert getattr(one, name) <= getattr(many, name)
    assert many.worker_bytes < 2 << 30


def test_a_terabyte():
    found = estimate({"train": Sample(0.01, 10**7, 10**10, 600.0)}, ShardingOptions())
    assert found.splits["train"].examples == 10**9
    assert 2e6 < found.reads < 6e6
    assert 1e5 < found.writes < 1e6
    assert 15 < found.core_hours < 30


@pytest.mark.parametrize("share, error", [(1.0, 0.0), (0.1, 0.4)])
def test_the_command_against_the_run(tmp_path, capsys, share, error):
    """Compares examples, size and shards with those of the built dataset."""
    for number in range(20):
        lines = (f'{{"n": {line}, "text": "{"x" * (line % 50)}"}}\n' for line in range(100 + number))
        (tmp_path / f"{number:02d}.jsonl").write_text("".join(lines))
    what = ["jsonl", "--data_dir", str(tmp_path / "data"), "--pattern", str(tmp_path / "*.jsonl")]
    what += ["--split", "train=80%", "--split", "test=20%", "--num_workers", "1"]
    assert main(["plan", *what, "--sample", str(share)]) == 0
    planned = capsys.readouterr().out
    assert main(["build", *what]) == 0
    for split, made in bd.builder_from_directory(tmp_path / "data" / "jsonl" / "1.0.0").info.splits.items():
        examples, shards = re.search(rf"^{split} +([\d,]+) +(\d+)", planned, re.MULTILINE).groups()
        assert int(examples.replace(",", "")) == pytest.approx(made.num_examples, rel=error)
        assert int(shards) == made.num_shards
        size = re.search(rf"^{split} .* {shards} +(\S+ \S+)$", planned, re.MULTILINE)[1]
        assert size == size_text(made.num_bytes) or share < 1  # which `build`, `list` and `info` print, too
    assert "machine hours, of one core: less than 0.01" in planned


def test_sources_that_are_not_known(tmp_path, monkeypatch):
    monkeypatch.setattr(estimates, "SAMPLE_SECONDS", 0)
    sources = {"train": bd.SourceUnits(["all"], lambda _: ((n, {}) for n in iter(int, 1)))}
    samples = estimates.take_samples(sources, lambda _: b"record")
    found = estimate(samples, ShardingOptions())
    assert (found.unknown, found.splits) == (["train"], {})


def test_figures_leave_out_splits_that_are_not_known(tmp_path, capsys):
    def planned(name, test):
        (tmp_path / name).write_text(SOURCES.format(test=test, name=name.title()[:-3]))
        assert main(["plan", str(tmp_path / name), "--data_dir", str(tmp_path)]) == 0
        return capsys.readouterr().out

    known, unknown = planned("known.py", "bd.SourceUnits([1], units)"), planned("unknown.py", "[]")
    assert re.search(r"^train +unknown", known, re.MULTILINE)
    assert re.search(r"^test +3 +1", known, re.MULTILINE)
    assert "\nWithout train: only a source" in known.partition("memory of a worker")[0]
    assert "What a run takes is unknown" in unknown
    assert not re.search("hours|requests", unknown)


SOURCES = """
import apache_beam as beam
import beam_datasets as bd
from beam_datasets.display.text import size_text
import numpy as np

def units(unit):
    for n in range(3):
        yield n, {{"n": n}}

class {name}(bd.DatasetBuilder):
    VERSION = "1.0.0"

    def _info(self):
        return bd.DatasetInfo(builder=self, features={{"n": np.int64}})

    def _split_generators(self):
        return {{"train": beam.Create([(1, {{"n": 1}})]), "test": {test}}}
"""


# What is told of a run that is under way


COUNT = 10


def test_reported_progress_of_a_bundle_counts_until_as_much_is_spilled(tmp_path):
    """Others of the split may have ended, or fill blocks faster: all of them count."""
    spilled = tmp_path / "spill"
    spilled.mkdir()
    assert measure(str(tmp_path), str(spilled)) == Progress(0, 0, 0, 0)
    (spilled / "a-01.encoded").write_text("7 70")
    (spilled / "a-02.encoded").write_text("5 50")
    (spilled / "a-03.x-4-40.block").write_bytes(b"")  # of a bundle that has ended before its first report
    (spilled / "b-04-3-30.block").write_bytes(b"")  # of no bundle
    assert measure(str(tmp_path), str(spilled)) == Progress(7 + 5 + 4 + 3, 190, 0, 0)
    (spilled / "a-01.y-6-60.block").write_bytes(b"")
    assert measure(str(tmp_path), str(spilled)) == Progress(7 + 5 + 4 + 3, 190, 0, 0)
    (spilled / "a-01.z-3-30.block").write_bytes(b"")
    (spilled / "b-05-1-10.block").write_bytes(b"")
    assert measure(str(tmp_path), str(spilled)) == Progress(9 + 5 + 4 + 4, 220, 0, 0)


class Slow(DatasetBuilder, skip_registration=True):
    """A generator that goes on when somebody has seen how far it is."""

    VERSION = "1.0.0"
    seen = threading.Event()

    def _info(self):
        return DatasetInfo(builder=self, features=F.FeaturesDict({"n": np.int64}))

    def _split_generators(self):
        return {"train": self._examples}

    def _examples(self):
        for n in range(COUNT + 1):
            if n == COUNT:
                assert self.seen.wait(60)
            yield n, {"n": n}


def test_a_generator_that_has_filled_no_block_is_seen(tmp_path):
    reports = []

    def report(done):
        reports.append(done)
        if done.examples_encoded == COUNT:
            Slow.seen.set()

    Slow(data_dir=tmp_path).build(num_workers=1, progress=report)
    assert COUNT in {done.examples_encoded for done in reports}
    assert not list(tmp_path.rglob("*.encoded"))


@pytest.mark.parametrize("is_spilled", [True, False])
def test_a_slow_worker_beside_one_that_has_ended_is_seen(tmp_path, monkeypatch, is_spilled):
    """The worker that has ended has spilled more than the slow one has encoded, and never reported."""
    monkeypatch.setattr("beam_datasets.beam.encode.REPORT_SECONDS", 0.01)
    spill_dir = tmp_path / "spill"
    spill_dir.mkdir()
    transport = Transport(str(spill_dir), 1 << 20, MergeLimits(), many_machines=False, large_bundles=True)
    features = F.FeaturesDict({"n": np.int64})
    ended, slow = (encode.SplitEncoder("train", features, transport, 64) for _ in range(2))
    for encoder, count in ((ended, 10), (slow, 3)):
        encoder.start()
        for n in range(count):
            encoder.add(n, {"n": n})
    assert list(ended.outputs())
    ended.start()
    assert measure(str(tmp_path), str(spill_dir)).examples_encoded == 10
    with encode.report_progress(transport, "train", slow):
        while not list(spill_dir.glob("*.encoded")):
            time.sleep(0.01)
    if is_spilled:
        assert list(slow.outputs())
    assert measure(str(tmp_path), str(spill_dir)).examples_encoded == 13


# A shard is written, and its parts joined, in memory that does not grow with it


def group_of(num_records, size, directory, *, spilled):
    """Returns the plan of a split of one shard, and a function that iterates over its blocks and holds none of them."""
    (directory / "spill").mkdir(parents=True)
    record = bytes(size)
    spill_dir = str(directory / "spill") if spilled else None
    builder = BlockBuilder("train", lambda n: record + b"%d" % n, block_size=4 << 20, spill_dir=spill_dir)
    counts, paths = [], []
    for n in range(num_records):
        if builder.add(n, n) or n == num_records - 1:
            block, loaded = builder.flush()
            counts.append(histogram_of(loaded))
            paths.append(directory / f"{len(paths)}.pickle")
            paths[-1].write_bytes(pickle.dumps(block))
    made = plan.plan_split("train", histogram.merge(counts), ShardingOptions(num_shards=1))
    return made, lambda: (pickle.loads(path.read_bytes()) for path in paths)


def peak_of_writing(directory, num_records, size, *, spilled):
    """Returns the peak of allocated bytes while a shard is written, and its parts joined; and what was written."""
    made, blocks = group_of(num_records, size, directory, spilled=spilled)
    where = Destination(str(directory / "out"), "ds")
    tracemalloc.start()
    try:
        parts = []
        for number in range(len(made)):
            cuts = (part for block in blocks() for group, part in routing.route(*block.load(), made) if group == number)
            parts.append(write_group(made.group(number), cuts, where))
        shard = join_parts(parts, 1, where)
        return tracemalloc.get_traced_memory()[1], shard
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("max_part_size", [1 << 30, 30 << 20], ids=["whole", "in parts"])
@pytest.mark.slow
def test_payload_of_a_shard_is_not_held(tmp_path, monkeypatch, max_part_size):
    """Of a group that an engine streams, memory holds 32 MiB of payload and a chunk, not all of it."""
    monkeypatch.setattr(plan, "MAX_PART_SIZE", max_part_size)
    peak, written = peak_of_writing(tmp_path / "inline", 10_000, 12_000, spilled=False)
    assert written.file_bytes > 120_000_000
    assert peak < 32 * 2**20 + 20 * 2**20  # a chunk, pieces of it, and the block that comes
    spilled_peak, spilled = peak_of_writing(tmp_path / "spilled", 10_000, 12_000, spilled=True)
    assert (written.crc32c, written.index_crc32c) == (spilled.crc32c, spilled.index_crc32c)
    assert spilled_peak < 20 * 2**20


@pytest.mark.parametrize("spilled", [False, True])
def test_each_example_of_a_group_takes_few_bytes(tmp_path, spilled):
    """Keys, sizes and places of an example take 75 bytes, and its own payload where that is inline."""
    peak, written = peak_of_writing(tmp_path, 200_000, 10, spilled=spilled)
    held = 0 if spilled else written.file_bytes + 20 * written.num_examples
    assert peak < 80 * written.num_examples + 2 * (4 << 20) + held


def test_slow_splits_share_the_time(monkeypatch):
    """Each example takes a second of a clock of this test; all splits together take the time of one sample."""
    clock = [0.0]
    monkeypatch.setattr(estimates, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def read(unit):
        for number in range(1000):
            clock[0] += 1.0
            yield f"{unit} {number}", {"id": number}

    sources = {f"split{i}": SourceUnits([f"unit {j} of {i}" for j in range(4)], read) for i in range(4)}
    found = take_samples(sources, lambda example: b"x", share=1.0)
    assert clock[0] <= estimates.SAMPLE_SECONDS + len(sources)
    assert all(sample.examples >= 4 for sample in found.values())
    assert {sample.share for sample in found.values()} == {None}
    clock[0] = 0
    sources["split0"] = SourceUnits([], read)  # what one leaves is for the others
    found = take_samples(sources, lambda example: b"x", share=1.0)
    assert min(found[split].examples for split in ("split1", "split2", "split3")) >= 5


@pytest.mark.parametrize(
    "options, code, message",
    [
        (
            ["--runner=PortableRunner", "--job_endpoint=there:1"],
            2,
            "a path of this machine that workers of PortableRunner",
        ),
        (["--shared_disk", "--runner=PortableRunner", "--job_endpoint=localhost:1"], 1, "no job service listens at"),
        (["--runner=FlinkRunner", "--payload=inline"], 2, "payload is 'inline'; expected 'spilled'"),
        (["--resume", "--payload=inline"], 2, "resume needs payload='spilled'"),
    ],
)
def test_a_plan_makes_the_checks_of_a_build(tmp_path, capsys, options, code, message):
    (tmp_path / "rows.jsonl").write_text('{"n": 1}\n')
    source = [
        "jsonl",
        "--pattern",
        str(tmp_path / "rows.jsonl"),
        "--name",
        "rows",
        "--data_dir",
        str(tmp_path / "data"),
    ]
    for command in ("build", "plan"):
        assert main([command, *source, *options]) == code
        assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("data/**/incomplete.*"))


@pytest.mark.parametrize("fault", ["a file is above", "reserved", "decided", "another file", "of a dead run"])
def test_a_plan_sees_where_a_build_cannot_publish(tmp_path, capsys, fault):
    """Such as in a store, where another run has reserved the version."""
    (tmp_path / "rows.jsonl").write_text('{"n": 1}\n')
    data_dir = f"memory://{uuid.uuid4().hex}/data"
    target = f"{data_dir}/rows/1.0.0"
    if fault in ("another file", "of a dead run"):
        storage.write_bytes(f"{target}/notes.txt", b"")
        message = "it exists but is not a published dataset"
    if fault == "a file is above":
        data_dir, message = str(tmp_path / "rows.jsonl" / "data"), "this directory cannot be made"
    elif fault == "of a dead run":
        process = subprocess.Popen(["true"])
        process.wait()
        owner = replace(Owner.of_this_process("f" * 8, time.time(), IN_PROCESS), pid=process.pid)
        run = Run(target, owner, "dataset_info.json")
        storage.write_bytes(f"{runs_dir(target)}/00000001.reservation.json", run.to_json())
        assert run.is_dead
    elif fault != "another file":
        run = Run(target, Owner("f" * 8, "elsewhere", 1, time.time(), "FlinkRunner"), "dataset_info.json")
        store_commit.reserve(run)
        if fault == "decided":
            store_commit.decide(run, [], "digest")
        message = "has reserved it" if fault == "reserved" else "decided to publish, but ha"
    before = storage.file_sizes(data_dir) if "://" in data_dir else {}
    source = ["jsonl", "--pattern", str(tmp_path / "rows.jsonl"), "--name", "rows", "--data_dir", data_dir]
    assert main(["plan", *source]) == 1
    assert message in capsys.readouterr().err
    assert (storage.file_sizes(data_dir) if "://" in data_dir else {}) == before
    if fault != "decided":  # there is nothing to put in place
        assert main(["build", *source]) == 1
        assert message in capsys.readouterr().err
