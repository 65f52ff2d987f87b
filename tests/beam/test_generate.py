"""Builders that mix what Beam makes with iterables."""

import json
import time
from pathlib import Path
from types import SimpleNamespace

import apache_beam as beam
import grpc
import numpy as np
import pytest

from beam_datasets import features as F
from beam_datasets import storage
from beam_datasets.beam import generate, routing
from beam_datasets.builders import DatasetBuilder
from beam_datasets.engines import engine
from beam_datasets.errors import BeamDatasetsError, InvalidKeyError
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.shuffle.levels import MergeLimits
from tests.directories import digests
from tests.facts import raises_with
from tests.published import build


class Mixed(DatasetBuilder, skip_registration=True):
    """A split on the pipeline and one from an iterable."""

    VERSION = "1.0.0"

    def _info(self):
        return DatasetInfo(builder=self, features=F.FeaturesDict({"n": np.int64}))

    def _split_generators(self, pipeline):
        return {"train": pipeline | beam.Create([(1, {"n": 1})]), "test": ((i, {"n": i}) for i in range(3))}


@pytest.mark.parametrize("num_workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_iterable_beside_a_split_on_the_pipeline(tmp_path, num_workers):
    made = Path(Mixed(data_dir=tmp_path).build(num_workers=num_workers))
    assert sorted(path.name for path in made.glob("*-00001")) == [
        "mixed-test.tfrecord-00000-of-00001",
        "mixed-train.tfrecord-00000-of-00001",
    ]


def test_shards_of_a_split_that_there_is_not(tmp_path):
    with pytest.raises(
        ValueError,
        match="num_shards: .*'test', 'train', got 'trian'. Did you mean 'train'",
    ):
        Mixed(data_dir=tmp_path).build(num_shards={"test": 2, "trian": 1}, num_workers=1)
    assert not list(tmp_path.iterdir())


class Made(DatasetBuilder, skip_registration=True):
    """A split of given pairs, as an iterable or by Beam."""

    VERSION = "1.0.0"

    def __init__(self, pairs, by_beam, features=None, **options):
        self.pairs, self.by_beam, self.features = pairs, by_beam, features or {"n": np.int64}
        super().__init__(**options)

    def _info(self):
        return DatasetInfo(builder=self, features=self.features)

    def _split_generators(self):
        return {"train": beam.Create([0]) | beam.FlatMap(self._pairs) if self.by_beam else self._pairs(0)}

    def _pairs(self, _):
        yield from self.pairs


@pytest.mark.parametrize("source", [3, lambda: None])
def test_a_source_that_is_not_iterable_is_named_with_its_builder(tmp_path, source):
    class Wrong(Made, skip_registration=True):
        def _split_generators(self):
            return {"train": source}

    message = r"^Wrong, split 'train': expected an iterable of \(key, example\), got (3|None). Check that each "
    with pytest.raises(BeamDatasetsError, match=message):
        Wrong([], False, data_dir=tmp_path).build(num_workers=1)
    assert not list(tmp_path.iterdir())


def test_an_error_of_an_iterable_names_the_split_and_the_author_s_code(tmp_path):
    class Broken(Made, skip_registration=True):
        def _pairs(self, _):
            raise KeyError("gone")
            yield

    with pytest.raises(BeamDatasetsError, match=r"KeyError: gone\n  \(in the source of 'train', at .*test_generate.py"):
        Broken([], False, data_dir=tmp_path).build(num_workers=1)


@pytest.mark.parametrize("num_workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_iterable_and_beam_make_the_same_bytes(tmp_path, num_workers):
    pairs = [(f"key {i}", {"n": i}) for i in range(1000)]
    one, other = (
        Made(pairs, by_beam, data_dir=tmp_path / str(by_beam)).build(num_workers=num_workers, num_shards=3)
        for by_beam in (False, True)
    )
    assert digests(one) == digests(other)


def test_the_report_has_the_processor_time_and_requests_of_the_run(tmp_path):
    def busy():
        began = time.process_time()
        while time.process_time() < began + 0.3:
            pass
        yield 1, {"n": 1}

    builder = Made([], True, data_dir=tmp_path)
    builder._pairs = lambda _: busy()
    report = json.loads((Path(builder.build(num_workers=1)) / "run.json").read_text())
    assert report["core_hours"] * 3600 >= 0.3
    assert report["storage"]["writes"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"ignore_duplicates": True}, {"payload": "inline"}], ids=str)
def test_the_report_counts_processes_that_encode_only(tmp_path, options):
    def busy(number):
        began = time.process_time()
        while time.process_time() < began + 0.1:
            pass
        return number, {"n": number}

    builder = Made([], True, data_dir=tmp_path)
    builder._split_generators = lambda: {"train": beam.Create(range(16)) | beam.Reshuffle() | beam.Map(busy)}
    report = json.loads((Path(builder.build(num_workers=4, num_shards=1, **options)) / "run.json").read_text())
    assert report["core_hours"] * 3600 >= 1.6, "one process writes the shard, and one publishes"


def test_ignored_duplicates_are_counted(tmp_path):
    """The examples left out are those that are missing in the split."""
    numbers = [0, 1, 1, 2, 5, 5, 5]
    counters = {}
    builder = Made([(n, {"n": i}) for i, n in enumerate(numbers)], True, data_dir=tmp_path)
    builder.build(num_workers=1, ignore_duplicates=True, counters=counters.update)
    assert counters == {"ignored_duplicates/train": len(numbers) - len(builder.as_dataset("train"))}


def test_the_report_counts_processes_that_merge_only(tmp_path, monkeypatch):
    finish = routing._Merge.finish_bundle

    def finish_and_end(self):
        yield from finish(self)
        storage.take_requests()  # as of a process that ends: what it has not reported by now is lost

    monkeypatch.setattr(routing._Merge, "finish_bundle", finish_and_end)
    monkeypatch.setattr(engine, "ONE_MACHINE", MergeLimits(fan_in=2, few_reads=0, max_levels=1))
    builder = Made([(n, {"t": "x" * 1000}) for n in range(2000)], True, {"t": F.Text()}, data_dir=tmp_path)
    directory = Path(builder.build(num_workers=1, num_shards=4, block_size=50_000))
    report = json.loads((directory / "run.json").read_text())
    assert report["storage"]["bytes_written"] >= 3 * report["bytes"], "blocks, merged blocks and shards"


@pytest.mark.parametrize("by_beam", [False, True])
def test_a_plain_dict_is_the_features_dict_that_it_means(tmp_path, by_beam):
    builder = Made([(1, {"n": 5, "s": {"t": "x"}})], by_beam, {"n": np.int64, "s": {"t": F.Text()}}, data_dir=tmp_path)
    assert builder.info.features == F.FeaturesDict({"n": np.int64, "s": {"t": F.Text()}})
    builder.build(num_workers=1)
    assert list(builder.as_dataset("train")) == [{"n": 5, "s": {"t": b"x"}}]


@pytest.mark.parametrize(
    "features, message",
    [
        ({"a": {"b": np.int64}, "a/b": np.int64}, "two features are stored as 'a/b'"),
        (F.Text(), "the features of an example are a dict"),
        (5, "expected a feature, .* got 5"),
        ({"label": F.ClassLabel()}, "neither num_classes nor names"),
        ({"label": F.Sequence(F.ClassLabel())}, "neither num_classes nor names"),
    ],
)
def test_features_that_cannot_be_encoded_are_refused_before_anything_is_read(tmp_path, features, message):
    def never(_):
        raise AssertionError("it was read")
        yield

    builder = Made([], False, features, data_dir=tmp_path)
    builder._pairs = never
    with pytest.raises(ValueError, match=message):
        builder.build(num_workers=1)
    assert not list(tmp_path.glob("made/*"))


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_half_a_surrogate_pair_in_what_beam_made(tmp_path, num_workers):
    with pytest.raises(InvalidKeyError, match=r"half of a surrogate pair(.|\n)*in stage 'Generate train"):
        Made([("half\ud800", {"n": 1})], True, data_dir=tmp_path).build(num_workers=num_workers)


def test_no_example_at_all_is_no_limit(tmp_path):
    with pytest.raises(ValueError, match="max_examples_per_split is 0"):
        Made([(1, {"n": 1})], False, data_dir=tmp_path).download_and_prepare(
            download_config=SimpleNamespace(max_examples_per_split=0)
        )


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("element", [{"n": 1, "word": ""}, {"n": 1, "word": "", "more": 0}, "ab"], ids=str)
def test_an_example_without_its_key_is_no_pair(tmp_path, element, ordered):
    splits, info = {"train": lambda: [(0, {"n": 0, "word": "x"}), element]}, {"disable_shuffling": ordered}
    with raises_with(BeamDatasetsError, split="train", got=repr(element)):
        build(tmp_path, {"n": np.int64, "word": F.Text()}, splits, info=info)


def test_counters_of_a_lost_job_server_are_missed_aloud(caplog):
    """They have the rows that --skip_bad left out, which must not get lost without a word."""

    def lost():
        raise grpc.RpcError("unavailable")

    assert generate._read_counters(SimpleNamespace(metrics=lost)) == {}
    assert "what the job counted is unknown, such as the rows that --skip_bad left out" in caplog.text
