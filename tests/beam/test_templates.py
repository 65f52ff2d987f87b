"""Classic templates of Dataflow: all their runs would share an id and a staging directory."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import beam_datasets as bd
from beam_datasets.beam import Export, Materialize, WriteDataset
from tests.end_to_end.numbers_dataset import Numbers

pytest.importorskip("google.cloud.dataflow")
OPTIONS = ["--runner=DataflowRunner", "--project=p", "--region=r", "--temp_location=gs://a-bucket/temp"]
CLASSIC = [*OPTIONS, "--template_location=gs://a-bucket/templates/numbers"]


@pytest.fixture
def source(tmp_path: Path) -> str:
    return Numbers(data_dir=tmp_path / "data", count=20).build(num_workers=1)


def writers(source: str, place: str) -> list[Any]:
    """Returns the jobs that write datasets or exports, as functions of Beam's options."""

    def apply(transform: Any) -> Any:
        def run(options: list[str]) -> None:
            begin = beam.Pipeline(runner="FnApiRunner", options=PipelineOptions(options))  # asks no cloud
            transform(begin)

        return run

    pairs = [(1, {"n": 1})]
    return [
        lambda options: Numbers(data_dir=place, count=20).build(beam_options=options),
        lambda options: bd.materialize(source, split="train", to="few", data_dir=place, beam_options=options),
        lambda options: bd.export(source, f"{place}/out", "jsonl", beam_options=options),
        apply(lambda begin: begin | beam.Create(pairs) | WriteDataset("n", {"n": np.int64}, data_dir=place)),
        apply(lambda begin: begin | Materialize(source, split="train", to="few", data_dir=place, shared_disk=True)),
        apply(lambda begin: begin | Export(source, f"{place}/out", "jsonl", shared_disk=True)),
    ]


@pytest.mark.parametrize("number", range(6))
def test_a_classic_template_is_refused(source: str, number: int) -> None:
    """P2: two runs of one template would be two publishers with one id; the error names the alternative."""
    with pytest.raises(ValueError, match=r"template_location: expected a job that is run.* Use a Flex Template"):
        writers(source, "memory://templates/data")[number](CLASSIC)
