"""Estimates of runs against runs, and how their figures depend on the input."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets.cli import main
from beam_datasets.errors import BeamDatasetsError
from beam_datasets.generate import estimate as estimates
from beam_datasets.generate.estimate import PRICES, Sample, estimate, read_prices
from beam_datasets.generate.plan import ShardingOptions

TEMPLATE = Path(__file__).parents[2] / "templates" / "prices.csv"


def test_prices(tmp_path):
    assert read_prices(str(TEMPLATE)) == read_prices(None) == PRICES
    own = tmp_path / "own.csv"
    own.write_text("core_hour,2\n")
    assert read_prices(str(own)) == {**PRICES, "core_hour": 2}
    for line in ("core_hour", "core_hour,much", "hours,1", "a,b,c"):
        own.write_text(f"name,value\n{line}\n")
        with pytest.raises(BeamDatasetsError, match=r"own.csv: expected lines NAME,NUMBER \(core_hour, "):
            read_prices(str(own))


@given(st.integers(1, 10**9), st.integers(20, 10**6), st.floats(0.001, 1), st.floats(0, 1e4), st.integers(2, 100))
def test_figures_grow_with_the_data(examples, size, share, seconds, factor):
    one, many = (
        estimate({"train": Sample(share, count, count * size, seconds)}, ShardingOptions(), PRICES)
        for count in (examples, examples * factor)
    )
    assert one.splits["train"].examples == round(examples / share)
    for name in ("reads", "writes", "spilled_bytes", "core_hours", "cost", "cost_a_month"):
        assert getattr(one, name) <= getattr(many, name)
    assert many.worker_bytes < 2 << 30


def test_a_terabyte():
    found = estimate({"train": Sample(0.01, 10**7, 10**10, 600.0)}, ShardingOptions(), PRICES)
    assert found.splits["train"].examples == 10**9
    assert 2e6 < found.reads < 6e6
    assert 1e5 < found.writes < 1e6
    assert 15 < found.core_hours < 30
    assert found.cost_a_month == pytest.approx(23)


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
    assert "machine hours, of one core: 0.00" in planned
    assert "cost: 0.00 for the run" in planned


def test_sources_that_are_not_known(tmp_path, monkeypatch):
    monkeypatch.setattr(estimates, "SAMPLE_SECONDS", 0)
    sources = {"train": bd.SourceUnits(["all"], lambda _: ((n, {}) for n in iter(int, 1)))}
    samples = estimates.take_samples(sources, lambda _: b"record")
    found = estimate(samples, ShardingOptions(), PRICES)
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
    assert not re.search("hours|cost|requests", unknown)


SOURCES = """
import apache_beam as beam
import beam_datasets as bd
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
