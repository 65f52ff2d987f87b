"""Faults while a dataset is generated: one clear error, nothing published, nothing left behind."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest

from beam_datasets import errors
from beam_datasets import features as F
from beam_datasets.beam import routing
from beam_datasets.builders import DatasetBuilder
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.reading.opening import builder_from_directory
from tests.directories import digests
from tests.end_to_end.numbers_dataset import Numbers
from tests.processes import started

ROOT = Path(__file__).parents[2]


class Faulty(DatasetBuilder, skip_registration=True):
    """A dataset whose examples a test gives."""

    VERSION = "1.0.0"

    def __init__(self, *, examples=(), split="train", ordered=False, **kwargs) -> None:
        self.examples, self.split, self.ordered = examples, split, ordered
        super().__init__(**kwargs)

    def _info(self):
        features = F.FeaturesDict({"n": np.int64, "text": F.Text()})
        return DatasetInfo(builder=self, features=features, disable_shuffling=self.ordered)

    def _split_generators(self):
        return {self.split: self._generate_examples()}

    def _generate_examples(self):
        for example in self.examples:
            yield example() if callable(example) else example


def good(i: int) -> tuple[object, dict[str, object]]:
    return i, {"n": i, "text": f"text {i}"}


def bad_code() -> None:
    raise KeyError("no such column")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def is_empty(data_dir: Path) -> bool:
    """Returns whether there is no file, neither of a dataset nor of a staging directory."""
    return not [path for path in data_dir.rglob("*") if path.is_file()]


BAD_EXAMPLES = [
    ([], errors.BeamDatasetsError, "split 'train' has no examples"),
    ([good(1), good(1)], errors.DuplicateKeyError, "two examples have the same key"),
    ([good(1), (2, {"n": 2})], errors.FeatureKeyError, "key 2.*text"),
    ([(1, {"n": 1, "text": "a", "more": 2})], errors.FeatureKeyError, "key 1.*more"),
    ([("k", {"n": "many", "text": "a"})], errors.FeatureError, "split 'train', key 'k': n"),
    ([("k", {"n": 2**70, "text": "a"})], errors.FeatureOverflowError, "split 'train', key 'k': n"),
    ([(1.5, {"n": 1, "text": "a"})], errors.InvalidKeyError, "^split 'train': .* got 1.5 of type float"),
    (
        [("a", {"n": 1, "text": "a"}), (None, {"n": 2, "text": "a"})],
        errors.InvalidKeyError,
        "^split 'train', after key 'a': .* got None",
    ),
    ([("half\ud800", {"n": 1, "text": "a"})], errors.InvalidKeyError, r"^split 'train': .* got 'half\\ud800' "),
    ([good(1), 7], errors.BeamDatasetsError, r"\(key, example\)"),
    ([good(1), bad_code], errors.BeamDatasetsError, r"KeyError: no such column(.|\n)*bad_code"),
]


@pytest.mark.parametrize(
    "arguments, options, kind, words",
    [
        *(
            pytest.param({"examples": case[0]}, {"num_workers": workers}, *case[1:], marks=marks)
            for number, case in enumerate(BAD_EXAMPLES)
            for workers, marks in ((1, ()), (2, pytest.mark.slow))
            if workers == 1 or number in (0, 1, 4, 8)  # of each stage, and of the author's code
        ),
        (
            {"examples": [good(1), good(2)]},
            {"num_shards": 3},
            errors.BeamDatasetsError,
            "2 examples, too few for 3 shards",
        ),
        pytest.param(
            {"examples": [good(1), die]},
            {"num_workers": 2},
            errors.BeamDatasetsError,
            r"worker process \d of 2 \(pid \d+\) was killed by signal 9 \(SIGKILL\); nothing was published",
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_examples_splits_and_workers(tmp_path, arguments, options, kind, words):
    with pytest.raises(kind, match=words) as caught:
        Faulty(data_dir=tmp_path, **arguments).build(**{"num_workers": 1} | options)
    assert "Traceback" not in str(caught.value)
    assert "[while running" not in str(caught.value)
    assert is_empty(tmp_path)


def test_a_record_over_one_gigabyte(tmp_path, monkeypatch):
    monkeypatch.setattr("beam_datasets.shuffle.block_builder.MAX_RECORD_BYTES", 1000)
    examples = [("big", {"n": 1, "text": "x" * 2000})]
    with pytest.raises(errors.FeatureValueError, match=r"key 'big': .* at most 1,000 bytes.* got 2,0\d\d") as caught:
        Faulty(data_dir=tmp_path, examples=examples).build(num_workers=1)
    monkeypatch.setenv(*re.search(r"(BEAM_DATASETS_MAX_ELEMENTS)=(\d+)", str(caught.value)).groups())
    directory = Faulty(data_dir=tmp_path, examples=examples).build(num_workers=1)
    assert [len(each["text"]) for each in builder_from_directory(directory).as_dataset(split="train")] == [2000]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"num_shards": 1.5}, "num_shards must be an int, not 1.5"),
        ({"num_shards": 2.0}, "num_shards must be an int, not 2.0"),
        ({"num_shards": "2"}, "num_shards must be an int, not '2'"),
        ({"num_shards": [2]}, r"num_shards must be an int, not \[2\]"),
        ({"num_shards": True}, "num_shards must be an int, not True"),
        ({"num_shards": np.True_}, "num_shards must be an int"),
        ({"num_shards": {"train": 2.0}}, r"num_shards\['train'\] must be an int, not 2.0"),
        ({"num_shards": {1: 2, "x": 2}}, "num_shards must be .*, but 1 is not a str"),
        ({"ignore_duplicates": "no"}, "ignore_duplicates must be True or False, not 'no'"),
        ({"ignore_duplicates": None}, "ignore_duplicates must be True or False, not None"),
        ({"min_shard_size": 1e6}, "min_shard_size must be an int"),
        ({"max_shard_size": "1G"}, "max_shard_size must be an int"),
        ({"max_examples_per_split": 10.0}, "max_examples_per_split must be an int"),
        ({"block_size": "x"}, "block_size must be an int, not 'x'"),
        ({"block_size": 2**70}, f"block_size must be at most {2**62}, got {2**70}"),
        ({"block_size": 0}, "block_size must be at least 1, got 0"),
        ({"wait": "no"}, "wait must be True or False, not 'no'"),
        ({"shared_disk": "no"}, "shared_disk must be True or False, not 'no'"),
        ({"spill_dir": 3}, "spill_dir must be a path, as str or os.PathLike, or None, not 3"),
        ({"spill_dir": __file__}, "spill_dir is '.*', where no file can be written: .*: Not a directory"),
        ({"num_workers": 1.5}, "num_workers must be an int, not 1.5"),
        ({"beam_options": "--runner=Foo"}, "beam_options is '--runner=Foo'; expected"),
    ],
    ids=repr,
)
def test_options_of_a_wrong_type_or_value_are_refused_before_any_work(tmp_path, options, words):
    class Untouched(Faulty, skip_registration=True):
        def _split_generators(self):
            raise RuntimeError("the author's code runs")

    with pytest.raises(ValueError if re.search("at (most|least)|no file", words) else TypeError, match=words):
        Untouched(data_dir=tmp_path).build(**{"num_workers": 1} | options)
    assert is_empty(tmp_path)


def test_a_split_without_a_number_of_shards_has_as_many_as_the_size_rule_says(tmp_path):
    examples = [good(i) for i in range(20)]
    made = [
        digests(Faulty(data_dir=tmp_path / str(n), examples=examples).build(num_workers=1, num_shards=shards))
        for n, shards in enumerate((None, {"train": None}))
    ]
    assert made[0].keys() == made[1].keys()
    assert all(made[0][name] == made[1][name] for name in made[0] if "tfrecord" in name)


def test_text_keys_cannot_be_ordered_on_beam(tmp_path):
    class Unordered(Numbers, skip_registration=True):
        def _info(self):
            return super()._info().replace(disable_shuffling=True)

    with pytest.raises(errors.InvalidKeyError, match="train-"):
        Unordered(data_dir=tmp_path, count=20).build(num_workers=1)


def test_something_else_in_the_place_of_the_version(tmp_path):
    place = tmp_path / "faulty" / "1.0.0"
    place.mkdir(parents=True)
    (place / "notes.txt").write_text("mine")
    with pytest.raises(errors.AlreadyPublishedError, match="is not a published dataset"):
        Faulty(data_dir=tmp_path, examples=[good(1)]).build(num_workers=1)
    assert (place / "notes.txt").read_text() == "mine"


def test_an_empty_directory_is_no_obstacle(tmp_path):
    (tmp_path / "faulty" / "1.0.0").mkdir(parents=True)
    assert Path(Faulty(data_dir=tmp_path, examples=[good(1)]).build(num_workers=1)).is_dir()


ROUTE = routing._route


def drop_one(*args):
    """Routes a block without the first thing it sends anywhere."""
    yield from list(ROUTE(*args))[1:]


def double_one(*args):
    """Routes a block, the first thing twice."""
    routed = list(ROUTE(*args))
    yield from [routed[0], *routed]


@pytest.mark.parametrize(
    "payload, fault, words",
    [
        *((payload, fault, r"were counted|planned were") for payload in ("inline", "spilled")
          for fault in (drop_one, double_one)),
        ("spilled", lambda *_: iter(()), "planned were 2 with 500"),
    ],
)  # fmt: skip
def test_a_block_lost_or_doubled_on_the_way_is_an_error(tmp_path, monkeypatch, payload, fault, words):
    monkeypatch.setattr(routing, "_route", fault)
    with pytest.raises(errors.LostExamplesError, match=words):
        Numbers(data_dir=tmp_path, count=500).build(num_workers=1, payload=payload, num_shards=2, block_size=2000)
    assert is_empty(tmp_path)


SLOW = """
from pathlib import Path
from tests.end_to_end.numbers_dataset import Numbers
Numbers(data_dir={data_dir!r}, count=1_000_000).build(num_shards=4, num_workers={workers})
"""


@contextlib.contextmanager
def slow_build(data_dir: Path, workers: int = 2) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a build in a process group of its own, from when it has spilled something."""
    code = """
import sys
from beam_datasets.cli import main
from beam_datasets.publishing import resume
resume.KEEP_SECONDS = float("inf")  # nothing is kept, however slow the machine is
sys.exit(main())
"""
    what = [f"{Numbers.__module__}:{Numbers.__name__}", "--count", "1_000_000", "--num_shards", "4"]
    command = [sys.executable, "-c", code, "build", *what, "--data_dir", data_dir, "--num_workers", str(workers)]
    with started(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while not list(data_dir.rglob("*.block")):
            assert process.poll() is None, process.stderr.read().decode()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield process


def alive(group: int) -> list[str]:
    """Returns the command lines of the processes of a group."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((directory / "stat").read_text().rpartition(")")[2].split()[2]) == group:
                found.append((directory / "cmdline").read_text())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_leaves_nothing(tmp_path, workers):
    with slow_build(tmp_path, workers) as process:
        os.killpg(process.pid, signal.SIGINT)
        output = process.communicate(timeout=300)
        assert process.returncode == 130, output
        assert output[1].decode().splitlines()[-1] == "interrupted; nothing was published"
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
        deadline = time.monotonic() + 20
        while alive(process.pid) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not alive(process.pid)


@pytest.mark.parametrize("by_beam", [False, True])
def test_ctrl_c_while_the_authors_code_runs_in_this_process(tmp_path, by_beam):
    def interrupted():
        signal.raise_signal(signal.SIGINT)

    class Interrupted(Faulty, skip_registration=True):
        def _split_generators(self):
            examples = beam.Create([good(1)]) | beam.Map(lambda example: interrupted() or example)
            return {"train": examples} if by_beam else super()._split_generators()

    with pytest.raises(KeyboardInterrupt):
        Interrupted(data_dir=tmp_path, examples=[good(1), interrupted]).build(num_workers=1)
    assert is_empty(tmp_path)


def of_itself() -> None:
    try:
        bad_code()
    except KeyError as error:
        raise error from error


@pytest.mark.parametrize("fault", [bad_code, of_itself])
def test_an_error_after_ctrl_c_is_what_it_is(tmp_path, fault):
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        with pytest.raises(errors.BeamDatasetsError, match="no such column"):
            Faulty(data_dir=tmp_path, examples=[good(1), fault]).build(num_workers=1)
    assert is_empty(tmp_path)


@pytest.mark.slow
def test_a_killed_build_can_be_run_again(tmp_path):
    with slow_build(tmp_path / "a", workers=1) as process:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
    leftover = list((tmp_path / "a" / "numbers").iterdir())
    assert leftover
    assert all(path.name.startswith("incomplete.") for path in leftover)  # staged shards, and perhaps spilled blocks
    for data_dir in ("a", "b"):
        Numbers(data_dir=tmp_path / data_dir, count=2000).build(num_shards=3, num_workers=1)
    assert digests(tmp_path / "a" / "numbers" / "1.0.0") == digests(tmp_path / "b" / "numbers" / "1.0.0")


def removed_and_advised(message: str) -> bool:
    """Returns whether an error says that directories of a run were removed, and does not advise a shared disk."""
    return "it was removed, or its disk was unmounted" in message and "share" not in message


def test_the_directories_of_a_small_build_are_removed(tmp_path):
    def remove():
        for directory in tmp_path.rglob("incomplete.*"):
            shutil.rmtree(directory, ignore_errors=True)
        return good(2)

    with pytest.raises(errors.PathNotFoundError) as caught:
        Faulty(data_dir=tmp_path, examples=[good(1), remove]).build(num_workers=1)
    assert removed_and_advised(str(caught.value))
    assert is_empty(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("what", ["spill", "staging", "data_dir"])
def test_the_directories_of_a_build_are_removed(tmp_path, workers, what):
    """Its processes would create them anew, and fail half a minute later where they merge."""
    with slow_build(tmp_path / "data", workers) as process:
        [spill_dir] = tmp_path.rglob("*.spill")
        removed = {"spill": spill_dir, "staging": spill_dir.with_suffix(""), "data_dir": tmp_path / "data"}[what]
        removed.rename(tmp_path / "removed")
        start = time.monotonic()
        _, error = process.communicate(timeout=120)
        assert time.monotonic() - start < 10
        assert process.returncode == 1
        assert removed_and_advised(error.decode()), error.decode()
        assert is_empty(tmp_path / "data")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk(tmp_path, workers):
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000)); import signal; "
    code += "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n" + SLOW.format(data_dir=str(tmp_path), workers=workers)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert "StorageError" in last or "GenerationError" in last, last
    assert str(tmp_path) in last, last
    assert is_empty(tmp_path)
