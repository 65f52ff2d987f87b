"""Jobs on published datasets: statistics, verification and export are those of the functions, on any engine."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

import beam_datasets as bd
from beam_datasets import errors
from beam_datasets.beam import Export, SummarizeDataset, VerifyDataset, reports
from beam_datasets.beam.main import main
from beam_datasets.exporting.run import FORMATS
from beam_datasets.options import EngineOptions
from beam_datasets.statistics import compute
from beam_datasets.statistics.report import json_text
from beam_datasets.statistics.summary import prepare_request
from beam_datasets.verifying import examine
from tests.directories import contents
from tests.exporting.conftest import INTER, MANY
from tests.exporting.conftest import export as export_here
from tests.published import flip, restore
from tests.reading.conftest import write_dataset
from tests.servers import portable_engine
from tests.verifying import corruptions

ELSEWHERE = ["--runner=PortableRunner", "--job_endpoint=localhost:1", "--environment_type=DOCKER"]


def local(*options: str) -> beam.Pipeline:
    return beam.Pipeline(options=PipelineOptions([*(options or ["--runner=FnApiRunner"])]))


@pytest.mark.parametrize(
    "directory, asked",
    [(MANY, []), (INTER, []), (MANY, [["train[:50%]", "train[:0]"], ["nest", "text"]])],
    ids=["many", "inter", "slices and features"],
)
def test_the_same_statistics(directory: Path, asked: list[Any]) -> None:
    with local() as p:
        assert_that(p | SummarizeDataset(directory, *asked), equal_to([compute(directory, *asked)]))


@pytest.mark.slow
def test_statistics_of_any_number_of_workers(published: Path) -> None:
    request = prepare_request(published)
    expected = json_text(compute(published))
    for workers in (1, 2):
        assert json_text(reports.run_stats(request, EngineOptions(num_workers=workers))) == expected


def test_the_programs(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--dataset", "ds:1.*.*", "--data_dir", str(copy.parents[1]), "--num_workers", "1"]
    assert main(["stats", *arguments, "--split", "test"]) == 0
    assert "ds:1.0.0, test: 12 examples" in capsys.readouterr().out
    assert main(["verify", "--beam", *arguments]) == 0
    assert "whole; read 6 shards, 72 records" in capsys.readouterr().out
    corruptions.flip_in_shard(copy, random.Random(0))
    assert main(["verify", "--beam", *arguments]) == 1
    assert "example" in capsys.readouterr().out
    assert main(["verify", "--beam", *arguments, "--repair"]) == 2
    assert "leave out --beam" in capsys.readouterr().err


@pytest.mark.parametrize(
    "run", [lambda copy, engine, **job: reports.run_stats(prepare_request(copy), engine, **job), reports.run_verify]
)
def test_paths_that_workers_cannot_see(copy: Path, run: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="--report"):
        run(copy, EngineOptions(ELSEWHERE))
    with pytest.raises(ValueError, match="the dataset is .* cannot see"):
        run(copy, EngineOptions(ELSEWHERE), report="/shared/report.json")


def test_a_template_has_no_statistics(published: Path) -> None:
    dataflow = ["--runner=DataflowRunner", "--project=p", "--region=r", "--temp_location=gs://b/t"]
    engine = EngineOptions([*dataflow, "--template_location=gs://b/template"])
    with pytest.raises(ValueError, match="a template is not run: leave out --template_location"):
        reports.run_stats(prepare_request(published), engine, report="gs://b/report")


@pytest.mark.slow
@pytest.mark.parametrize("corrupt", corruptions.ALL[::3], ids=lambda corrupt: corrupt.__name__)
def test_the_same_report(copy: Path, corrupt: corruptions.Corrupt) -> None:
    whole = contents(copy)
    with local() as p:
        assert_that(p | VerifyDataset(copy), equal_to([bd.verify(copy)]))
    corrupt(copy, random.Random(0))
    expected = bd.verify(copy, decode=True)
    assert not expected.whole
    with local() as p:
        assert_that(p | VerifyDataset(copy, decode=True), equal_to([expected]))
    restore(copy, whole)


def test_shards_that_the_engine_lost_or_doubled(copy: Path) -> None:
    examination = examine(copy)
    expected, facts = examination.expected, list(enumerate(examination.facts))
    assert reports._conclude(facts[::-1], expected) == bd.verify(copy)
    for wrong in (facts[:-1], facts[1:], [], facts + facts, facts[:3] + facts[2:], facts[:2] + facts[1:-1]):
        with pytest.raises(
            errors.LostExamplesError, match=r"results arrived for 6 shards\. The engine lost or duplicated"
        ):
            reports._conclude(wrong, expected)


@pytest.mark.slow
def test_workers_in_processes(copy: Path, tmp_path: Path) -> None:
    corruptions.zero_a_stretch(copy, random.Random(0))
    report = tmp_path / "report.json"
    assert reports.run_verify(copy, EngineOptions(num_workers=2), report=str(report)) == bd.verify(copy)
    assert report.exists()


def test_a_flag_is_a_bool(copy: Path) -> None:
    with pytest.raises(TypeError, match="decode must be True or False, not 'no'"):
        VerifyDataset(copy, decode="no")  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("num_workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_same_files_with_any_number_of_workers(tmp_path: Path, name: str, num_workers: int) -> None:
    options: dict[str, Any] = {"split": ["head=train[:30%]", "rest=train[30%:]"], "num_shards": {"rest": 5}}
    made = bd.export(INTER, tmp_path / "out", name, num_workers=num_workers, **options)
    assert made == str(tmp_path / "out")
    assert contents(made) == contents(export_here(INTER, tmp_path / "here", name, **options))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "out"]


@pytest.mark.slow
def test_array_records_after_those_of_this_process(tmp_path: Path) -> None:
    """The threads of the package do not survive a fork: a worker process was killed by SIGSEGV."""
    expected = export_here(INTER, tmp_path / "here", "arrayrecord", num_shards=3)
    made = bd.export(INTER, tmp_path / "out", "arrayrecord", num_shards=3, num_workers=2)
    assert contents(made) == contents(expected)


@pytest.mark.slow
def test_the_same_files_by_the_portable_job_service(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with portable_engine(tmp_path / "logs") as options:
        made = bd.export(MANY, tmp_path / "out", "parquet", beam_options=options)
    assert contents(made) == contents(export_here(MANY, tmp_path / "here", "parquet"))


def test_in_a_pipeline_of_ones_own(tmp_path: Path) -> None:
    with local() as pipeline:
        export = Export(INTER, tmp_path / "out", "parquet", num_shards=3)
        assert_that(pipeline | export, equal_to([str(tmp_path / "out")]))
    expected = export_here(INTER, tmp_path / "here", "parquet", num_shards=3)
    assert contents(tmp_path / "out") == contents(expected)


def test_counts_what_it_writes(tmp_path: Path) -> None:
    pipeline = local()
    _ = pipeline | Export(INTER, tmp_path / "out", "jsonl", num_shards=3)
    result = pipeline.run()
    result.wait_until_finish()
    found = {c.key.metric.name: c.result for c in result.metrics().query()["counters"]}
    size = sum(len(content) for name, content in contents(tmp_path / "out").items() if name != "_export.json")
    assert (found["examples_written"], found["bytes_written"]) == (411, size)


def test_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beam_datasets.publishing.progress.INTERVAL_SECONDS", 0.01)
    source, told = write_dataset(tmp_path / "d" / "1.0.0", {"train": [20_000] * 2}, size=300), []
    made = bd.export(source, tmp_path / "out", "jsonl", num_shards=2, num_workers=1, progress=told.append)
    assert 0 < max(told) <= sum(map(len, contents(made).values()))


@pytest.mark.parametrize("num_workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_damage_is_named_and_nothing_is_left(tmp_path: Path, num_workers: int) -> None:
    source = write_dataset(tmp_path / "d" / "1.0.0", {"train": [10, 30]})
    [shard] = source.glob("*00001-of-00002")
    flip(shard, -1)
    with pytest.raises(errors.BeamDatasetsError, match=r"00001-of-00002, byte \d+ \(record 29\): data CRC") as caught:
        bd.export(source, tmp_path / "out", num_shards=4, num_workers=num_workers)
    assert "Traceback" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_where_it_cannot_run(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="Export begins a pipeline"):
        beam.Pipeline(runner="FnApiRunner") | beam.Create([1]) | Export(INTER, tmp_path / "out")
    with pytest.raises(ValueError, match="the output is '.*', a path of this machine that workers of PortableRunner"):
        local(*ELSEWHERE) | Export(INTER, tmp_path / "out")
    with pytest.raises(ValueError, match="multi_threading loses records"):
        bd.export(INTER, tmp_path / "out", beam_options=["--direct_running_mode=multi_threading"])
    assert not list(tmp_path.iterdir())
