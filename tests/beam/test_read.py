"""ReadDataset: every example of the slice once, however the work is divided, before the run and in it."""

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.io.restriction_trackers import OffsetRestrictionTracker
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.environments import EmbeddedPythonGrpcEnvironment
from hypothesis import given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets import errors, storage
from beam_datasets.beam import ReadDataset
from beam_datasets.beam.read import _divide_run, _number_runs, _ReadRange
from beam_datasets.reading.elements.transforms import Decode
from tests.cases import cases
from tests.published import flip
from tests.reading.conftest import write_dataset

DATA = Path(__file__).resolve().parents[1] / "data" / "tfds"


def local(*arguments: str) -> beam.Pipeline:
    return beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner", *arguments]))


def with_id(pair: tuple[Any, Any]) -> tuple[Any, int]:
    return pair[0], int(pair[1]["id"])


def expected_ids(builder: Any, split: str) -> list[tuple[str, int]]:
    """Returns (tfds_id, id) of each example of a slice, as the reading library has them."""
    config = bd.ReadConfig(add_tfds_id=True, interleave_cycle_length=1)
    examples = builder.as_dataset(split, read_config=config)
    return [(example["tfds_id"].decode(), int(example["id"])) for example in examples]


# ------------------------------------------------------------------------------------------------------- what it yields


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("datasets")

    def make(lengths: tuple[int, ...], indexed: bool) -> Any:
        directory = root / f"d{'_'.join(map(str, lengths))}_{indexed}" / "1.0.0"
        if not directory.exists():
            write_dataset(directory, {"train": list(lengths), "test": [7, 0, 2]}, indexed=indexed, manifest=True)
        return bd.builder_from_directory(directory)

    return make


@pytest.mark.slow
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=5).map(tuple).filter(any),
    st.booleans(),
    st.sampled_from(["train", "train[10%:70%]", "train[-3:]+test", "train[:0]", "test[1:3]+train[5%:60%]"]),
    st.integers(1, 3000),
)
@cases(6)
def test_yields_the_slice_once(
    datasets: Any, lengths: tuple[int, ...], indexed: bool, split: str, range_bytes: int
) -> None:
    builder = datasets(lengths, indexed)
    if "-3" in split and sum(lengths) < 3:
        split = "train"
    expected = expected_ids(builder, split)
    raw = builder.as_dataset(split, read_config=bd.ReadConfig(interleave_cycle_length=1)).raw()
    with local() as pipeline:
        options = {"range_bytes": range_bytes}
        ids = pipeline | "ids" >> ReadDataset(builder.dataset_dir, split, with_ids=True, **options)
        places = pipeline | "places" >> ReadDataset(builder.dataset_dir, split, with_ids="index", **options)
        records = pipeline | "raw" >> ReadDataset(builder.dataset_dir, split, decode=False, **options)
        assert_that(ids | beam.Map(with_id), equal_to(expected), "with ids")
        assert_that(
            places | "id" >> beam.Map(with_id), equal_to(list(enumerate(id_ for _, id_ in expected))), "with places"
        )
        assert_that(records, equal_to(list(raw)), "records")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["spec_three/1.2.3", "spec_many/2.0.1", "spec_ordered/1.2.3"])
def test_a_directory_that_tfds_wrote(name: str) -> None:
    builder = bd.builder_from_directory(DATA / name)
    for split, info in builder.info.splits.items():
        config = bd.ReadConfig(add_tfds_id=True)
        expected = {example["tfds_id"].decode(): example for example in builder.as_dataset(split, read_config=config)}
        assert len(expected) == info.num_examples

        def check(found: list[Any], expected: dict[str, Any] = expected) -> None:
            assert sorted(key for key, _ in found) == sorted(expected)
            for key, example in found:
                assert repr({**example, "tfds_id": key.encode()}) == repr(expected[key])

        with local() as pipeline:
            assert_that(pipeline | ReadDataset(DATA / name, split, with_ids=True), check)


def test_decoders_and_read_instructions(datasets: Any) -> None:
    builder = datasets((20, 10), True)
    few = bd.decode.PartialDecoding({"id"})
    instruction = bd.ReadInstruction("train", from_=25, unit="abs")
    with local() as pipeline:
        found = pipeline | ReadDataset(builder.dataset_dir, instruction, decoders=few)
        assert_that(found, equal_to([{"id": np.int64(i)} for i in range(25, 30)]))


def test_names_and_types(datasets: Any, tmp_path: Path) -> None:
    write_dataset(tmp_path / "words" / "1.0.0", {"train": [3]})
    write_dataset(tmp_path / "words" / "1.2.0", {"train": [4]})
    for name, count in (("words", 4), ("words:1.0.*", 3)):
        with local() as pipeline:
            read = pipeline | ReadDataset(name, "train", data_dir=tmp_path, with_ids=True)
            assert str(read.element_type).startswith("Tuple[<class 'str'>, Dict[<class 'str'>, Any]")
            assert_that(read | beam.combiners.Count.Globally(), equal_to([count]))


def test_counts_what_it_reads(datasets: Any) -> None:
    pipeline = local()
    _ = pipeline | ReadDataset(datasets((20, 10), True).dataset_dir, "train", range_bytes=200)
    result = pipeline.run()
    result.wait_until_finish()
    [counter] = [c for c in result.metrics().query()["counters"] if c.key.metric.name == "examples_read"]
    assert counter.result == 30


# ------------------------------------------------------------------------------------------- work that is divided later


@pytest.mark.parametrize("fraction", [0.0, 0.01, 0.5, 0.97])
@pytest.mark.parametrize("ids", [True, "index"])
def test_a_split_at_any_record_loses_and_doubles_nothing(datasets: Any, fraction: float, ids: Any) -> None:
    builder = datasets((25, 6), True)
    fn = _ReadRange(builder.pool, Decode(builder.info.features), ids)
    [first, second] = _number_runs(builder.info.splits["train[4:29]"].file_instructions)
    [element] = _divide_run(second, builder.pool, 10**6)
    assert element == second
    for element in (first, second):
        expected = list(map(with_id, fn.process(element, OffsetRestrictionTracker(fn.initial_restriction(element)))))
        assert len(expected) == element[1].take
        for before in range(1, len(expected) + 1):
            tracker = OffsetRestrictionTracker(fn.initial_restriction(element))
            reading = fn.process(element, tracker)
            found = [with_id(next(reading)) for _ in range(before)]
            divided = tracker.try_split(fraction)
            found += map(with_id, reading)
            tracker.check_done()
            if divided:
                _, residual = divided
                assert fn.restriction_size(element, residual) > 0
                found += map(with_id, fn.process(element, OffsetRestrictionTracker(residual)))
            else:
                assert before == len(expected) or fraction > 0.5
            assert found == expected


_BREAK = 8  # how many examples are read before the engine divides the range
_reached, _divided = threading.Event(), threading.Event()


def _wait(example: dict[str, Any]) -> int:
    if example["id"] == _BREAK:
        _reached.set()
        _divided.wait(30)
    return int(example["id"])


def test_an_engine_divides_a_range_that_is_being_read(datasets: Any) -> None:
    builder = datasets((200, 1), True)
    results: list[Any] = []

    def divide(num_elements: int) -> Any:
        if not num_elements or results:
            return
        yield None  # the range goes to the worker
        assert _reached.wait(30)
        results.append((yield 0.5))
        _divided.set()

    runner = fn_runner.FnApiRunner(default_environment=EmbeddedPythonGrpcEnvironment.default())
    with fn_runner.split_manager("ReadHere/Read", divide), beam.Pipeline(runner) as pipeline:
        read = pipeline | "ReadHere" >> ReadDataset(builder.dataset_dir, "train[:200]", range_bytes=10**9)
        assert_that(read | "Wait" >> beam.Map(_wait), equal_to(range(200)))
    [result] = results
    assert len(result.residual_roots) == 1
    assert result.primary_roots


# -------------------------------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    "arguments, options, error, message",
    [
        (("word", "train"), {}, errors.DatasetNotFoundError, "no dataset 'word' .* Did you mean 'words'"),
        (("words", "trian"), {}, errors.SplitError, "no split 'trian' .* Did you mean 'train'"),
        (("words", "train[:99]"), {}, errors.SplitError, "30 examples of train, got 99"),
        (("words", None), {}, ValueError, "split is None; expected one expression, such as 'train'"),
        (("words", {"a": "train"}), {}, ValueError, "Apply a ReadDataset for each split"),
        (("words", "train"), {"decoders": {"n": bd.decode.SkipDecoding()}}, ValueError, r"\['n'\]; the features are"),
        (("words", "train"), {"decode": "no"}, TypeError, "decode must be True or False, not 'no'"),
        (("words", "train"), {"decoders": {}, "decode": False}, ValueError, "decode=False yields records"),
        (("words", "train"), {"with_ids": "indices"}, ValueError, "with_ids is 'indices'; expected True, False"),
        (("words", "train"), {"range_bytes": 0}, ValueError, "range_bytes is 0; give at least 1"),
    ],
)
def test_wrong_arguments_are_refused_before_the_run(
    tmp_path: Path, arguments: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    write_dataset(tmp_path / "words" / "1.0.0", {"train": [30]})
    with pytest.raises(error, match=message):
        ReadDataset(*arguments, data_dir=tmp_path, **options)


def test_where_it_cannot_stand(datasets: Any) -> None:
    directory = datasets((20, 10), True).dataset_dir
    with pytest.raises(TypeError, match="begins a pipeline: apply it to the pipeline itself"):
        local() | beam.Create([1]) | ReadDataset(directory, "train")
    with pytest.raises(ValueError, match="multi_threading loses records"):
        local("--direct_running_mode=multi_threading") | ReadDataset(directory, "train")
    remote = PipelineOptions(["--runner=PortableRunner", "--job_endpoint=localhost:1", "--environment_type=DOCKER"])
    with pytest.raises(ValueError, match="the dataset is '.*', a path of this machine that workers of PortableRunner"):
        beam.Pipeline(options=remote) | ReadDataset(directory, "train")


def test_damage_is_named_by_the_run(tmp_path: Path) -> None:
    directory = write_dataset(tmp_path / "words" / "1.0.0", {"train": [10, 30]})
    [shard] = directory.glob("*00001-of-00002")
    flip(shard, -1)
    with pytest.raises(Exception, match=r"train.tfrecord-00001-of-00002, byte \d+ \(record 29\): data CRC"):  # noqa: SIM117
        with local() as pipeline:
            pipeline | ReadDataset(directory, "train")
    storage.remove(str(shard))
    with pytest.raises(Exception, match="00001-of-00002: the shard does not exist"), local() as pipeline:
        pipeline | ReadDataset(directory, "train")
    with local() as pipeline:
        assert_that(pipeline | ReadDataset(directory, "train[:10]") | beam.combiners.Count.Globally(), equal_to([10]))


def test_the_same_example_once_in_each_of_two_parts(datasets: Any) -> None:
    builder = datasets((20, 10), True)
    with local() as pipeline:
        read = pipeline | ReadDataset(builder.dataset_dir, "train[:3]+train[1:4]") | beam.Map(lambda e: int(e["id"]))
        assert_that(read, lambda found: Counter(found) == Counter([0, 1, 2, 1, 2, 3]) or pytest.fail(str(found)))
