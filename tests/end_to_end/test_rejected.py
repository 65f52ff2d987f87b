"""Examples that a builder rejects are left out, counted once, and limited: by each kind of source."""

import json
import logging
import uuid
from collections import Counter
from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets.beam import encode
from beam_datasets.beam.write_dataset import WriteDataset
from beam_datasets.cli.main import main
from beam_datasets.errors import BeamDatasetsError, NoExamplesError, TooManyRejectedError
from tests.directories import digests

UNITS = 6
PER_UNIT = 40
SLOW = pytest.mark.slow
TWO_WORKERS = pytest.param(2, marks=SLOW)


def pairs(unit):
    """Yields the examples of a unit; those of some numbers are rejected, for two reasons, with a key of any type."""
    for n in range(unit * PER_UNIT, (unit + 1) * PER_UNIT):
        if n % 7 == 0:
            yield n, bd.Rejected("divisible by seven")
        elif n % 11 == 0:
            yield (None, n), bd.Rejected(ValueError(f"{n!r} is divisible by eleven"))
        else:
            yield n, {"n": n}


ALL = [pair for unit in range(UNITS) for pair in pairs(unit)]
GOOD = [(key, example) for key, example in ALL if isinstance(example, dict)]
EXPECTED = Counter(example.reason for _, example in ALL if not isinstance(example, dict))
NUM_REJECTED = EXPECTED.total()


class Numbers(bd.DatasetBuilder, skip_registration=True):
    """Numbers, of which some are rejected, from a source of a kind."""

    VERSION = "1.0.0"

    def __init__(self, kind, only_good=False, unit_to_fail=None, **options):
        self.kind, self.only_good, self.unit_to_fail = kind, only_good, unit_to_fail
        super().__init__(**options)

    def _info(self):
        return bd.DatasetInfo(builder=self, features=F.FeaturesDict({"n": np.int64}))

    def _split_generators(self):
        source = {
            "iterable": lambda: (pair for unit in range(UNITS) for pair in self._read(unit)),
            "units": lambda: bd.SourceUnits(range(UNITS), self._read),
            "transform": lambda: beam.Create(range(UNITS)) | beam.Reshuffle() | beam.FlatMap(self._read),
        }[self.kind]()
        return {"train": source}

    def _read(self, unit):
        if unit == self.unit_to_fail:
            raise RuntimeError("a bad unit")
        return [pair for pair in pairs(unit) if isinstance(pair[1], dict) or not self.only_good]


def left_out(directory):
    """Returns {reason: number} of run.json."""
    listed = json.loads(Path(directory, "run.json").read_text()).get("left_out", [])
    return {each["reason"]: each["number"] for each in listed}


@pytest.mark.parametrize(
    "options",
    [{}, *(pytest.param(each, marks=SLOW) for each in ({"payload": "inline"}, {"ignore_duplicates": True}))],
    ids=str,
)
@pytest.mark.parametrize("num_workers", [1, TWO_WORKERS])
@pytest.mark.parametrize("kind", ["iterable", "units", "transform"])
def test_rejected_examples_are_counted_and_the_others_written(tmp_path, caplog, kind, num_workers, options):
    options = {"num_workers": num_workers, "num_shards": 2, "block_size": 300, **options}
    with caplog.at_level(logging.WARNING, "beam_datasets"):
        directory = Numbers(kind, data_dir=tmp_path / "a").build(**options, max_rejected=NUM_REJECTED)
    whole = Numbers(kind, only_good=True, data_dir=tmp_path / "b").build(**options)
    assert left_out(directory) == EXPECTED
    assert left_out(whole) == {}
    assert digests(directory) == digests(whole)
    assert f"rejected: {NUM_REJECTED}\n" in caplog.text
    assert "\n  split 'train', key (None, 110): ValueError: 110 is divisible by eleven\n" in caplog.text


@pytest.mark.parametrize("num_workers", [1, TWO_WORKERS])
@pytest.mark.parametrize("kind", ["iterable", "units", "transform"])
def test_more_than_the_limit_fail_before_anything_is_visible(tmp_path, kind, num_workers):
    builder = Numbers(kind, data_dir=tmp_path)
    for limit in ({}, {"max_rejected": NUM_REJECTED - 1}):
        with pytest.raises(TooManyRejectedError) as caught:
            builder.build(num_workers=num_workers, **limit)
        message = str(caught.value)
        assert f"at most {limit.get('max_rejected', 0)} rejected examples, got {NUM_REJECTED}. " in message
        assert f"--max_rejected {NUM_REJECTED} (max_rejected={NUM_REJECTED})\n" in message
        for reason, number in EXPECTED.items():
            assert f"\n  {number}: {reason}\n" in message
        assert message.endswith("\n  split 'train', key 0: divisible by seven")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("limit", [-1, 1.5, "3", True, None])
def test_an_unusable_limit_is_refused(tmp_path, limit):
    with pytest.raises((TypeError, ValueError), match="max_rejected"):
        Numbers("iterable", data_dir=tmp_path).build(max_rejected=limit)


def test_a_split_without_other_examples_names_the_rejected_ones(tmp_path):
    builder = Numbers("iterable", data_dir=tmp_path)
    builder._read = lambda unit: [(unit, bd.Rejected("no label"))]
    with pytest.raises(NoExamplesError, match=r"split 'train' has no examples(.|\n)*rejected: 6\n  6: no label\n"):
        builder.build(num_workers=1, max_rejected=6)


@pytest.mark.parametrize("limit", [0, pytest.param(NUM_REJECTED, marks=SLOW)])
def test_a_resumed_run_counts_each_rejected_example_once(tmp_path, monkeypatch, limit):
    """The first run fails in a unit, or by the limit when all units are finished."""
    monkeypatch.setattr(encode, "SLOW_UNIT_SECONDS", 0.0)  # each unit is kept
    options = {"num_workers": 1, "num_shards": 2, "resume": True}
    builder = Numbers("units", unit_to_fail=4 if limit else None, data_dir=tmp_path)
    with pytest.raises(BeamDatasetsError, match="a bad unit" if limit else f"got {NUM_REJECTED}"):
        builder.build(**options, max_rejected=limit)
    assert list(tmp_path.rglob("*.units.json"))
    builder.unit_to_fail, read = None, []
    builder._read = lambda unit: read.append(unit) or list(pairs(unit))
    directory = builder.build(**options | {"resume": "changed"}, max_rejected=NUM_REJECTED)
    assert left_out(directory) == EXPECTED
    assert len(read) < UNITS
    assert len(builder.as_dataset("train")) == len(GOOD)


@pytest.mark.parametrize("kind", ["iterable", pytest.param("units", marks=SLOW)])
def test_append_counts_once_and_has_the_limit(tmp_path, kind):
    """An iterable is built in this process, several units by Beam."""
    first = Numbers("iterable", data_dir=tmp_path)
    first._read = lambda unit: [(-1 - unit, {"n": unit})]
    first.build(num_workers=1)
    with pytest.raises(TooManyRejectedError, match=f"got {NUM_REJECTED}. .*--max_rejected {NUM_REJECTED} "):
        bd.append("numbers", Numbers(kind), data_dir=tmp_path)
    directory = bd.append("numbers", Numbers(kind), data_dir=tmp_path, max_rejected=NUM_REJECTED)
    assert left_out(directory) == EXPECTED
    assert bd.builder_from_directory(directory).info.splits["train"].num_examples == UNITS + len(GOOD)


def test_splits_that_are_read_together_have_their_own_rejected_examples(tmp_path):
    class Parity(Numbers, skip_registration=True):
        def _split_generators(self):
            units, read = range(UNITS), self._read
            return {
                "even": bd.SourceUnits(units, read, keep=lambda key: key % 2 == 0),
                "odd": bd.SourceUnits(units, read, keep=lambda key: key % 2 == 1),
            }

        def _read(self, unit):
            return [(key[1] if isinstance(key, tuple) else key, example) for key, example in pairs(unit)]

    directory = Parity("", data_dir=tmp_path).build(num_workers=1, max_rejected=NUM_REJECTED)
    assert left_out(directory) == EXPECTED
    [sevens] = [
        each for each in json.loads(Path(directory, "run.json").read_text())["left_out"] if "seven" in str(each)
    ]
    assert sevens["example"] == "split 'even', key 0: divisible by seven"


def test_positions_of_rejected_examples_stay_free_in_order(tmp_path):
    class Ordered(Numbers, skip_registration=True):
        def _info(self):
            return bd.DatasetInfo(builder=self, features={"n": np.int64}, disable_shuffling=True)

        def _read(self, unit):
            return [(f"key {key}", example) for key, example in pairs(unit)]

    builder = Ordered("iterable", data_dir=tmp_path)
    directory = builder.build(num_workers=1, max_rejected=NUM_REJECTED)
    assert [example["n"] for example in builder.as_dataset("train")] == [example["n"] for _, example in GOOD]
    assert "key 'key 0': divisible" in Path(directory, "run.json").read_text()
    new = Ordered("iterable")
    new._read = lambda unit: [(f"key {unit}", bd.Rejected("no label")), (1000 + unit, {"n": unit})]
    appended = bd.append("ordered", new, data_dir=tmp_path, max_rejected=UNITS)
    assert left_out(appended) == {"no label": UNITS}


@SLOW
def test_the_transform_has_the_limit(tmp_path):
    def write(**options):
        with beam.Pipeline() as pipeline:
            (
                pipeline
                | beam.Create(ALL)
                | WriteDataset(name="numbers", features={"n": np.int64}, data_dir=tmp_path, version="1.0.0", **options)
            )

    with pytest.raises(Exception, match=f"got {NUM_REJECTED}"):
        write()
    write(max_rejected=NUM_REJECTED)
    assert left_out(tmp_path / "numbers" / "1.0.0") == EXPECTED


SCRIPT = """
import beam_datasets as bd

class Lines(bd.DatasetBuilder):
    name = "NAME"
    VERSION = "1.0.0"

    def _info(self):
        return bd.DatasetInfo(builder=self, features={"text": bd.features.Text()})

    def _split_generators(self):
        return {"train": ((n, {"text": "x"} if n % 3 else bd.Rejected("no text")) for n in range(9))}
"""


@pytest.fixture
def script(tmp_path):
    """Returns the path of a module with a builder; both have a new name, because a process knows each name once."""
    path = tmp_path / f"lines_{uuid.uuid4().hex}.py"
    path.write_text(SCRIPT.replace("NAME", path.stem))
    return str(path)


@pytest.mark.parametrize("command", ["build", pytest.param("build --trial 4", marks=SLOW), "plan"])
def test_commands_list_rejected_examples(tmp_path, script, capsys, command):
    name, *options = command.split()
    args = [name, script, "--data_dir", str(tmp_path / "data"), *options]
    assert main([*args, "--max_rejected", "3", "--num_workers", "1"]) == 0
    number = 2 if "--trial" in options else 3  # the first four examples
    lines = f"rejected: {number}\n  {number}: no text\nfor example:\n  split 'train', key 0: no text\n"
    assert lines in capsys.readouterr().out
    if command == "build":
        info = ["info", Path(script).stem, "--data_dir", str(tmp_path / "data")]
        assert main(info) == 0
        assert capsys.readouterr().out.endswith("\nleft out of the source: 3; run.json lists the reasons\n")
        [report] = (tmp_path / "data").rglob("run.json")
        report.write_text(json.dumps({"left_out": [{"reason": "no text", "number": "3"}]}))
        assert main(info) == 0
        assert "left out" not in capsys.readouterr().out


@SLOW
def test_append_command_has_the_limit(tmp_path, script, capsys):
    data_dir = ["--data_dir", str(tmp_path / "data")]
    assert main(["build", script, *data_dir, "--max_rejected", "3", "--num_workers", "1"]) == 0
    append = ["append", Path(script).stem, *data_dir, "--from", script, "--on_duplicate", "skip_identical"]
    assert main(append) == 1
    assert "--max_rejected 3" in capsys.readouterr().err
    assert main([*append, "--max_rejected", "3"]) == 0
