"""A launcher that loses contact with the engine of its job deletes nothing and reports which job may still run."""

import re
import signal
import time
from pathlib import Path

import pytest

from beam_datasets import storage
from tests.engines.cut_connections import Proxy, check_message
from tests.engines.dataflow_service import STAGING, Cloud
from tests.engines.jobs import NUMBERS, Pool, await_staged, end, numbers, start, version
from tests.servers import job_service

JOB_SECONDS = 120


@pytest.mark.slow
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_job_service_that_cannot_be_reached(pool: Pool, local: Path, tmp_path: Path, interrupted: bool) -> None:
    """A launcher whose connection is cut keeps the data of its job, which goes on, and publishes.

    So does one that is interrupted, if the engine does not confirm the end of the job.
    """
    with job_service(tmp_path) as port:
        proxy = Proxy(port)
        engine = ["--runner=PortableRunner", f"--job_endpoint=localhost:{proxy.port}", "--job_name=mine"]
        process = start(*numbers(tmp_path, *engine, *pool.options, "--count=2000000"), impatient=True)
        await_staged(process, tmp_path, "**/*.block")
        if interrupted:
            process.send_signal(signal.SIGSTOP)
        proxy.cut()
        if interrupted:
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGCONT)
        code, output = end(process)
        assert code == 1
        check_message(output, "mine")
        deadline = time.monotonic() + JOB_SECONDS
        while not (tmp_path / "numbers" / "1.0.0").exists():
            assert time.monotonic() < deadline
            time.sleep(0.2)
    assert len(version(tmp_path)) == len(version(local))


def on_dataflow(dataflow: Cloud, data_dir: str, *states: str | int) -> tuple[int, str]:
    """Runs a job that answers these states, and returns the exit code and the output."""
    dataflow.states[:] = states
    words = [
        "--runner=DataflowRunner",
        "--project=my-project",
        "--region=europe-west1",
        "--job_name=numbers-1",
        f"--temp_location=gs://{STAGING}/temp",
        f"--dataflow_endpoint=http://localhost:{dataflow.dataflow}",
        "--sdk_container_image=image",
        "--no_auth",
    ]
    return end(start("build", NUMBERS, f"--data_dir={data_dir}", *words, impatient=True))


def staged(data_dir: str) -> list[str]:
    """Returns the staging directories of a dataset, without reservations."""
    names = storage.list_dir(f"{data_dir}/numbers") if storage.exists(f"{data_dir}/numbers") else []
    return [name for name in names if re.match(r"incomplete\.\w+_", name)]


@pytest.mark.slow
def test_dataflow_that_cannot_be_reached_for_a_while(dataflow: Cloud) -> None:
    """The state is requested again until the job has ended; its id, page, states and warnings are shown."""
    data_dir = f"{dataflow.data}/while"
    code, output = on_dataflow(dataflow, data_dir, "RUNNING", 403, 403, 403, "RUNNING", "RUNNING", "FAILED")
    assert code == 1
    assert "job job-1, https://console.cloud.google.com/dataflow/jobs/europe-west1/job-1?project=my-project" in output
    assert "job-1 is in state JOB_STATE_RUNNING" in output
    assert re.search(r"WARNING .*quota is low \(1 more line\)", output), output
    assert "State: FAILED" in output
    assert not staged(data_dir)  # the end of the job was confirmed


@pytest.mark.slow
def test_dataflow_that_cannot_be_reached(dataflow: Cloud) -> None:
    """Without an answer nothing is deleted, and the message names the job, its page and what to do."""
    data_dir = f"{dataflow.data}/ever"
    code, output = on_dataflow(dataflow, data_dir, "RUNNING", 403)
    assert code == 1
    check_message(output, "job-1")
    assert "console.cloud.google.com/dataflow/jobs/europe-west1/job-1" in output
    assert staged(data_dir)
