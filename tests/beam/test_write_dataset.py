"""WriteDataset in pipelines that know nothing of builders."""

import uuid

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.window import FixedWindows, GlobalWindows, SlidingWindows, TimestampedValue

from beam_datasets import errors, storage
from beam_datasets import features as F
from beam_datasets.beam import WriteDataset
from beam_datasets.beam.counting import MergeHistograms
from beam_datasets.publishing.leftovers import find_leftovers, remove_leftover
from beam_datasets.shuffle import histogram as histograms
from beam_datasets.shuffle.histogram import count_keys
from tests.directories import digests
from tests.end_to_end.numbers_dataset import Numbers, example

FEATURES = {"n": np.int64, "word": F.Text()}


def pairs(start: int, stop: int) -> list[tuple[int, dict[str, object]]]:
    return [(i, {"n": i, "word": f"word {i}"}) for i in range(start, stop)]


def local(*arguments: str) -> beam.Pipeline:
    return beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner", *arguments]))


def test_one_split_and_what_comes_out(tmp_path):
    with local() as pipeline:
        out = pipeline | beam.Create(pairs(0, 50)) | WriteDataset("words", FEATURES, data_dir=tmp_path, split="dev")
        assert_that(out, equal_to([str(tmp_path / "words" / "1.0.0")]))
    names = sorted(path.name for path in (tmp_path / "words" / "1.0.0").iterdir())
    assert "words-dev.tfrecord-00000-of-00001" in names
    assert not [name for name in names if "spill" in name or "owner" in name]
    assert [path.name for path in (tmp_path / "words").iterdir()] == ["1.0.0"]


@pytest.mark.parametrize("payload", ["inline", "spilled"])
def test_several_splits_config_version_and_options(tmp_path, payload):
    with local() as pipeline:
        splits = {
            "train": pipeline | "train" >> beam.Create(pairs(0, 30)),
            "test": pipeline | "test" >> beam.Create([*pairs(0, 9), *pairs(0, 9)]),
        }
        splits | WriteDataset(
            "words",
            FEATURES,
            data_dir=tmp_path,
            config="small",
            version="2.1.0",
            num_shards={"train": 3},
            ignore_duplicates=True,
            payload=payload,
            spill_dir=str(tmp_path / "elsewhere"),
            description="Words.",
            supervised_keys=("word", "n"),
        )
    made = tmp_path / "words" / "small" / "2.1.0"
    text = (made / "dataset_info.json").read_text()
    assert '"configName": "small"' in text
    assert '"description": "Words."' in text
    assert len(list(made.glob("*train*of-00003"))) == 3
    assert len(list(made.glob("*test*of-00001"))) == 1
    assert not list(tmp_path.rglob("*.block"))


@pytest.mark.parametrize(
    "window",
    [
        beam.WindowInto(FixedWindows(10)),
        beam.WindowInto(SlidingWindows(10, 10)),
        beam.WindowInto(
            GlobalWindows(), trigger=Repeatedly(AfterCount(7)), accumulation_mode=AccumulationMode.ACCUMULATING
        ),
    ],
    ids=["fixed", "sliding", "trigger"],
)
@pytest.mark.slow
def test_windows_and_timestamps_change_nothing(tmp_path, window):
    with local() as pipeline:
        whole = pipeline | beam.Create(pairs(0, 60))
        divided = whole | beam.Map(lambda pair: TimestampedValue(pair, pair[0])) | window
        options = {"num_shards": 2, "block_size": 200}
        whole | "whole" >> WriteDataset("words", FEATURES, data_dir=tmp_path / "a", **options)
        divided | "divided" >> WriteDataset("words", FEATURES, data_dir=tmp_path / "b", **options)
    assert digests(tmp_path / "a" / "words" / "1.0.0") == digests(tmp_path / "b" / "words" / "1.0.0")


def test_an_unbounded_input_is_refused(tmp_path):
    endless = local() | PeriodicImpulse(fire_interval=1) | beam.Map(lambda t: (int(t), {"n": 1, "word": ""}))
    with pytest.raises(ValueError, match="'train' is an unbounded PCollection"):
        endless | WriteDataset("words", FEATURES, data_dir=tmp_path)


@pytest.mark.slow
def test_the_same_bytes_as_a_builder(tmp_path):
    built = digests(Numbers(data_dir=tmp_path / "a", count=200).build(num_workers=1, num_shards=2))
    info = Numbers(data_dir=tmp_path / "a", count=200)._info()
    with local("--direct_num_workers=2", "--direct_running_mode=multi_processing") as pipeline:
        splits = {
            name: pipeline | name >> beam.Create([(f"{name}-{i}", example(name, i)) for i in range(count)])
            for name, count in (("train", 200), ("test", 20))
        }
        splits | WriteDataset(
            "numbers",
            info.features,
            data_dir=tmp_path / "b",
            num_shards=2,
            description=info.description,
            supervised_keys=info.supervised_keys,
        )
    written = digests(tmp_path / "b" / "numbers" / "1.0.0")
    assert built.keys() == written.keys()
    differing = {name for name in built if built[name] != written[name]}
    assert differing == {"manifest.json", "dataset_info.json"}  # they name the builder


def test_wrong_arguments_are_refused_before_the_run(tmp_path):
    with pytest.raises(ValueError, match="not a dataset name"):
        WriteDataset("no name", FEATURES, data_dir=tmp_path)
    with pytest.raises(ValueError, match="num_shards is 0"):
        WriteDataset("words", FEATURES, data_dir=tmp_path, num_shards=0)
    with pytest.raises(ValueError, match="'all' cannot name a split"):
        local() | beam.Create(pairs(0, 1)) | WriteDataset("words", FEATURES, data_dir=tmp_path, split="all")
    with pytest.raises(ValueError, match="multi_threading loses records"):
        (
            local("--direct_running_mode=multi_threading")
            | beam.Create([])
            | WriteDataset("w", FEATURES, data_dir=tmp_path)
        )
    remote = PipelineOptions(["--runner=PortableRunner", "--job_endpoint=localhost:1", "--environment_type=DOCKER"])
    with pytest.raises(ValueError, match="a path of this machine that workers of PortableRunner cannot see"):
        beam.Pipeline(options=remote) | beam.Create([]) | WriteDataset("w", FEATURES, data_dir=tmp_path)
    with local() as pipeline:
        pipeline | beam.Create(pairs(0, 3)) | WriteDataset("words", FEATURES, data_dir=tmp_path)
    with pytest.raises(errors.AlreadyPublishedError):
        local() | beam.Create(pairs(0, 3)) | WriteDataset("words", FEATURES, data_dir=tmp_path)


@pytest.mark.slow
def test_a_pipeline_of_one_s_own_reserves_a_version_of_a_store_when_it_starts():
    """A second pipeline fails before it has encoded anything, and one that failed can be given up."""
    pytest.importorskip("obstore")
    data_dir = f"memory://{uuid.uuid4().hex}"
    encoded = []

    def run(fail=False):
        with local() as pipeline:
            made = pipeline | beam.Create(pairs(0, 50)) | beam.Map(lambda pair: (encoded.append(1), pair)[1])
            if fail:
                made |= "Fail" >> beam.Map(lambda pair: 1 / 0)
            made | WriteDataset("words", FEATURES, data_dir=data_dir)

    with pytest.raises(Exception, match="division by zero"):
        run(fail=True)
    with pytest.raises(Exception, match=r"run \w+ .* has reserved it"):
        run()
    (held,) = find_leftovers(data_dir)
    assert (held.kind, held.abandoned) == ("run", False)  # this process is alive
    assert remove_leftover(held, data_dir, by_force=True)
    run()
    assert [name for name in storage.list_dir(f"{data_dir}/words") if "." in name] == ["1.0.0"]


@pytest.mark.parametrize("as_inputs", [True, False])
def test_merging_histograms_holds_few_of_them(as_inputs, monkeypatch):
    """A worker that merges those of 32 others holds two of the largest size, and the one that it adds."""
    most, held, merge = 1000, [], histograms.merge
    monkeypatch.setattr(
        histograms, "merge", lambda parts, n: held.append(sum(len(p.counts) for p in parts)) or merge(parts, n)
    )
    random = np.random.default_rng(3)
    keys = np.zeros((32, most, 2), np.uint64)
    keys[:, :, 0] = np.sort(random.integers(0, 1 << 64, (32, most), np.uint64))
    parts = [count_keys(some, np.full(most, 10)) for some in keys]
    assert all(len(part.counts) == most for part in parts)
    combine = MergeHistograms(most)
    found = combine.create_accumulator()
    if as_inputs:
        for part in parts:
            found = combine.add_input(found, part)
    else:
        found = combine.merge_accumulators([part] for part in parts)
    assert combine.extract_output(found).total == 32 * most
    assert most < max(held) <= 3 * most


@pytest.mark.parametrize("runner", ["FnApiRunner", "PortableRunner"])
def test_on_many_machines_several_workers_merge_the_counts_of_a_split(tmp_path, runner):
    pipeline = beam.Pipeline(runner, options=PipelineOptions([]))
    _ = pipeline | beam.Create([]) | WriteDataset("words", FEATURES, data_dir=tmp_path, shared_disk=True)
    names = [part.unique_name for part in pipeline.to_runner_api().components.transforms.values()]
    assert any("/CountParts" in name for name in names) == (runner != "FnApiRunner")


@pytest.mark.parametrize("rows", [[(1, {"n": "x", "word": "a"})], [*pairs(0, 3), *pairs(2, 5)]])
def test_errors_in_a_pipeline_of_the_user_are_sentences(tmp_path, rows):
    with pytest.raises(Exception, match=r"n: 'x' is text; expected int64|the same key") as caught, local() as pipeline:
        pipeline | beam.Create(rows) | WriteDataset("words", FEATURES, data_dir=tmp_path)
    assert "[facts" not in str(caught.value)
