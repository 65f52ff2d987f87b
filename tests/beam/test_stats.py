"""SummarizeDataset: the statistics of the pipeline are those of the function, with any number of workers."""

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

from beam_datasets.beam import SummarizeDataset
from beam_datasets.beam.main import main
from beam_datasets.beam.reports import run_stats as run
from beam_datasets.statistics import compute
from beam_datasets.statistics.report import json_text
from beam_datasets.statistics.summary import prepare
from tests.exporting.conftest import DATA, MANY

INTER = DATA / "spec_inter" / "1.2.3"


@pytest.mark.parametrize("directory", [MANY, INTER], ids=["many", "inter"])
def test_the_same_statistics(directory: Path) -> None:
    with beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"])) as p:
        assert_that(p | SummarizeDataset(directory), equal_to([compute(directory)]))


def test_slices_features_and_nothing() -> None:
    asked = ["train[:50%]", "train[:0]"]
    with beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"])) as p:
        assert_that(
            p | SummarizeDataset(MANY, asked, ["nest", "text"]), equal_to([compute(MANY, asked, ["nest", "text"])])
        )


@pytest.mark.slow
def test_any_number_of_workers(published: Path) -> None:
    request = prepare(published)
    expected = json_text(compute(published))
    for workers in (1, 2):
        assert json_text(run(request, num_workers=workers)) == expected


def test_the_program(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--dataset", "ds:1.*.*", "--data_dir", str(copy.parents[1]), "--num_workers", "1"]
    assert main(["stats", *arguments, "--split", "test"]) == 0
    assert "ds:1.0.0, test: 12 examples" in capsys.readouterr().out


def test_a_template_has_no_statistics(published: Path) -> None:
    dataflow = ["--runner=DataflowRunner", "--project=p", "--region=r", "--temp_location=gs://b/t"]
    with pytest.raises(ValueError, match="a template is not run: leave out --template_location"):
        run(prepare(published), beam_options=[*dataflow, "--template_location=gs://b/template"], report="gs://b/report")


def test_paths_that_workers_cannot_see(published: Path) -> None:
    remote = ["--runner=PortableRunner", "--job_endpoint=there:8099", "--environment_type=EXTERNAL"]
    remote.append("--environment_config=there:50000")
    request = prepare(published)
    with pytest.raises(ValueError, match="--report"):
        run(request, beam_options=remote)
    with pytest.raises(ValueError, match="the dataset is .* cannot see"):
        run(request, beam_options=remote, report="/shared/report.json")
