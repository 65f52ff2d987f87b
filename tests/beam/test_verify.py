"""VerifyDataset: the report of the pipeline is that of the function."""

import random
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

import beam_datasets as bd
from beam_datasets.beam import VerifyDataset
from beam_datasets.beam.main import main
from beam_datasets.beam.reports import _conclude
from beam_datasets.beam.reports import run_verify as run
from beam_datasets.errors import LostExamplesError
from beam_datasets.verifying import conclude, examine
from tests.directories import contents
from tests.published import restore
from tests.verifying import test_corruptions as corruptions


def pipeline() -> beam.Pipeline:
    return beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"]))


@pytest.mark.slow
@pytest.mark.parametrize("corrupt", corruptions.ALL[::3], ids=lambda corrupt: corrupt.__name__)
def test_the_same_report(copy: Path, corrupt: corruptions.Corrupt) -> None:
    whole = contents(copy)
    with pipeline() as p:
        assert_that(p | VerifyDataset(copy), equal_to([bd.verify(copy)]))
    corrupt(copy, random.Random(0))
    expected = bd.verify(copy, decode=True)
    assert not expected.whole
    with pipeline() as p:
        assert_that(p | VerifyDataset(copy, decode=True), equal_to([expected]))
    restore(copy, whole)


def test_shards_that_the_engine_lost_or_doubled(copy: Path) -> None:
    examination = examine(copy)
    expected, facts = examination.expected, list(enumerate(examination.facts))
    assert _conclude(facts[::-1], expected) == bd.verify(copy)
    for wrong in (facts[:-1], facts[1:], [], facts + facts, facts[:3] + facts[2:], facts[:2] + facts[1:-1]):
        with pytest.raises(LostExamplesError, match=r"results arrived for 6 shards\. The engine lost or duplicated"):
            _conclude(wrong, expected)
        if len(wrong) != len(facts):
            with pytest.raises(ValueError, match=f"{len(wrong)} shards were read of 6"):
                conclude(expected, [shard for _, shard in wrong])


@pytest.mark.slow
def test_workers_in_processes(copy: Path, tmp_path: Path) -> None:
    corruptions.zero_a_stretch(copy, random.Random(0))
    report = tmp_path / "report.json"
    assert run(copy, report=str(report), num_workers=2) == bd.verify(copy)
    assert report.exists()


def test_a_flag_is_a_bool(copy: Path) -> None:
    with pytest.raises(TypeError, match="decode must be True or False, not 'no'"):
        VerifyDataset(copy, decode="no")  # type: ignore[arg-type]


def test_a_place_where_no_report_can_be_is_an_error_before_the_run(copy: Path) -> None:
    before = contents(copy)
    for report in (copy, copy / "features.json" / "below"):
        with pytest.raises(ValueError, match=r"report is '.*', where no file can be written: .* directory"):
            run(copy, report=str(report), num_workers=1)
    with pytest.raises(ValueError, match=f"no file can be written: {copy}/nope: the directory does not exist; make it"):
        run(copy, report=f"{copy}/nope/r.json", num_workers=1)
    assert contents(copy) == before


def test_the_program(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--dataset", "ds:1.*.*", "--data_dir", str(copy.parents[1]), "--num_workers", "1"]
    assert main(["verify", "--beam", *arguments]) == 0
    assert "whole; read 6 shards, 72 records" in capsys.readouterr().out
    corruptions.flip_in_shard(copy, random.Random(0))
    assert main(["verify", "--beam", *arguments]) == 1
    assert "example" in capsys.readouterr().out
    assert main(["verify", "--beam", *arguments, "--repair"]) == 2
    assert "leave out --beam" in capsys.readouterr().err


def test_paths_that_workers_cannot_see(copy: Path) -> None:
    elsewhere = ["--runner=PortableRunner", "--job_endpoint=localhost:1", "--environment_type=DOCKER"]
    with pytest.raises(ValueError, match="--report"):
        run(copy, beam_options=elsewhere)
    with pytest.raises(ValueError, match="the dataset is .* cannot see"):
        run(copy, beam_options=elsewhere, report="/shared/report.json")
