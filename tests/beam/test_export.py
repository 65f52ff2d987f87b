"""Export on engines: the same files however it runs, and one readable error where it does not."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

import beam_datasets as bd
from beam_datasets import errors
from beam_datasets.beam import Export
from beam_datasets.exporting.plan import FORMATS
from tests.directories import contents
from tests.exporting.conftest import INTER, MANY
from tests.exporting.conftest import export as export_here
from tests.reading.conftest import write_dataset
from tests.servers import portable_engine


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("num_workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_same_files_with_any_number_of_workers(tmp_path: Path, name: str, num_workers: int) -> None:
    options: dict[str, Any] = {"split": ["head=train[:30%]", "rest=train[30%:]"], "num_shards": {"rest": 5}}
    made = bd.export(INTER, tmp_path / "out", name, num_workers=num_workers, **options)
    assert made == str(tmp_path / "out")
    assert contents(made) == contents(export_here(INTER, tmp_path / "here", name, **options))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "out"]


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
    with beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"])) as pipeline:
        export = Export(INTER, tmp_path / "out", "parquet", num_shards=3)
        assert_that(pipeline | export, equal_to([str(tmp_path / "out")]))
    expected = export_here(INTER, tmp_path / "here", "parquet", num_shards=3)
    assert contents(tmp_path / "out") == contents(expected)


def test_counts_what_it_writes(tmp_path: Path) -> None:
    pipeline = beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"]))
    _ = pipeline | Export(INTER, tmp_path / "out", "jsonl", num_shards=3)
    result = pipeline.run()
    result.wait_until_finish()
    found = {c.key.metric.name: c.result for c in result.metrics().query()["counters"]}
    size = sum(len(content) for name, content in contents(tmp_path / "out").items() if name != "_export.json")
    assert (found["examples_written"], found["bytes_written"]) == (411, size)


def test_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beam_datasets.generate.progress.INTERVAL_SECONDS", 0.01)
    source, told = write_dataset(tmp_path / "d" / "1.0.0", {"train": [20_000] * 2}, size=300), []
    made = bd.export(source, tmp_path / "out", "jsonl", num_shards=2, num_workers=1, progress=told.append)
    assert 0 < max(told) <= sum(map(len, contents(made).values()))


@pytest.mark.parametrize("num_workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_damage_is_named_and_nothing_is_left(tmp_path: Path, num_workers: int) -> None:
    source = write_dataset(tmp_path / "d" / "1.0.0", {"train": [10, 30]})
    [shard] = source.glob("*00001-of-00002")
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    with pytest.raises(errors.BeamDatasetsError, match=r"00001-of-00002, byte \d+ \(record 29\): data CRC") as caught:
        bd.export(source, tmp_path / "out", num_shards=4, num_workers=num_workers)
    assert "Traceback" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_where_it_cannot_run(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="Export begins a pipeline"):
        beam.Pipeline(runner="FnApiRunner") | beam.Create([1]) | Export(INTER, tmp_path / "out")
    remote = ["--runner=PortableRunner", "--job_endpoint=localhost:1", "--environment_type=DOCKER"]
    with pytest.raises(ValueError, match="the output is '.*', a path of this machine that workers of PortableRunner"):
        beam.Pipeline(options=PipelineOptions(remote)) | Export(INTER, tmp_path / "out")
    with pytest.raises(ValueError, match="multi_threading loses records"):
        bd.export(INTER, tmp_path / "out", beam_options=["--direct_running_mode=multi_threading"])
    assert not list(tmp_path.iterdir())
