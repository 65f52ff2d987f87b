"""Datasets on runners of clusters: the same bytes as on this machine, and errors where a job would hang.

`make test-prism` builds Prism and `make test-flink` sets up a Flink cluster; elsewhere their tests are skipped.
"""

from pathlib import Path

import pytest

from tests.engines.jobs import (
    BLOBS,
    await_staged,
    end,
    fails,
    nothing_is_left,
    numbers,
    own_pool,
    run,
    slices,
    start,
    version,
)
from tests.servers import free_port

pytestmark = pytest.mark.slow


@pytest.fixture(params=["portable", "prism", "prism_pool", "flink"])
def engine(request: pytest.FixtureRequest) -> list[str]:
    """The pipeline options of an engine; those that lead to a worker pool are last."""
    name, _, pool = request.param.partition("_")
    if name == "flink":
        return request.getfixturevalue("cluster").options()
    options = request.getfixturevalue("service" if name == "portable" else name)
    return [*options, *(request.getfixturevalue("pool").options if pool or name == "portable" else [])]


def without_pool(engine: list[str]) -> list[str]:
    return [option for option in engine if not option.startswith("--environment")]


@pytest.mark.parametrize("payload", ["spilled", "inline"])
def test_generates_the_same_bytes(engine: list[str], local: Path, tmp_path: Path, payload: str) -> None:
    if payload == "inline" and "--runner=FlinkRunner" in engine:
        code, output = end(start(*numbers(tmp_path, "--payload", payload, *engine)))
        assert code
        assert "payload is 'inline'; expected 'spilled' or None for this engine" in output
        return
    output = run(*numbers(tmp_path, "--payload", payload, *engine))
    assert "Published in" in output
    assert "Traceback" not in output
    assert version(tmp_path) == version(local)


@pytest.mark.parametrize("how", [(), ("--reshuffle", "salt")], ids=["kept", "reshuffled"])
def test_materializes_the_same_bytes(engine: list[str], local: Path, tmp_path: Path, how: tuple[str, ...]) -> None:
    run(*slices(local, tmp_path / "engine", *how, *engine))
    run(*slices(local, tmp_path / "local", *how))
    assert version(tmp_path / "engine", "some") == version(tmp_path / "local", "some")


@pytest.mark.parametrize(
    "engine, payload", [("prism", "spilled"), ("prism", "inline"), ("flink", "spilled")], indirect=["engine"]
)
def test_records_of_20_megabytes(engine: list[str], tmp_path: Path, payload: str) -> None:
    run("build", BLOBS, "--data_dir", str(tmp_path / "engine"), "--payload", payload, *engine)
    run("build", BLOBS, "--data_dir", str(tmp_path / "local"))
    assert version(tmp_path / "engine", "blobs") == version(tmp_path / "local", "blobs")


@pytest.mark.parametrize("engine", ["portable", "prism_pool"], indirect=True)
def test_workers_killed_while_they_write(engine: list[str], local: Path, tmp_path: Path) -> None:
    with own_pool(tmp_path) as killed:
        process = start(*numbers(tmp_path / "data", *without_pool(engine), *killed.options))
        try:
            await_staged(process, tmp_path / "data")
        finally:
            killed.kill()
            code, output = end(process)
    assert code == 1
    assert "a worker process died" in output
    assert nothing_is_left(tmp_path / "data")
    run(*numbers(tmp_path / "data", *engine))
    assert version(tmp_path / "data") == version(local)


@pytest.mark.parametrize("engine", ["portable", "prism", "flink"], indirect=True)
def test_no_pool(engine: list[str], tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    pool = ["--environment_type=EXTERNAL", f"--environment_config={address}"]
    assert f"found no worker pool at {address}" in fails(tmp_path / "data", *without_pool(engine), *pool)


@pytest.mark.parametrize("engine", ["portable"], indirect=True)
def test_no_job_service(engine: list[str], tmp_path: Path) -> None:
    endpoint = f"localhost:{free_port()}"
    assert f"no job service listens at {endpoint}" in fails(tmp_path, *engine, f"--job_endpoint={endpoint}")
