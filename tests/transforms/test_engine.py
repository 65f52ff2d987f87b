"""Which runner is chosen, and what is refused."""

from __future__ import annotations

import subprocess
import sys

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_datasets.transforms.engine import choose_engine


@pytest.mark.parametrize("runner", ["DirectRunner", "directrunner", "Direct", "fnapirunner", "FnApiRunner", ""])
def test_local_runners_are_known_as_beam_writes_them(runner):
    options = [f"--runner={runner}"] if runner else []
    assert choose_engine(options, num_workers=1).local
    with pytest.raises(ValueError, match="multi_threading loses records"):
        choose_engine([*options, "--direct_running_mode=multi_threading"])


@pytest.mark.parametrize("runner", ["FlinkRunner", "PrismRunner", "DataflowRunner", "PortableRunner"])
def test_other_runners_are_not_local(runner):
    cloud = ["--project=p", "--region=r", "--temp_location=gs://bucket/temp"]
    assert not choose_engine([f"--runner={runner}", *cloud]).local


def test_the_options_that_were_given_stay_as_they_are():
    options = PipelineOptions(["--direct_running_mode=multi_processing", "--job_name=mine"])
    before = options.get_all_options(drop_default=True)
    engine = choose_engine(options, num_workers=3)
    assert options.get_all_options(drop_default=True) == before
    assert engine.options.get_all_options(drop_default=True)["job_name"] == "mine"


@pytest.mark.parametrize("module, may", [("json", True), ("obstore", False)])
def test_no_fork_once_threads_of_an_object_store_may_run(module, may):
    code = f"import {module}; from beam_datasets.transforms.workers import can_fork; print(can_fork())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(may and sys.platform == "linux")]
