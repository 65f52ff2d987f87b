"""Datasets through Beam's portable job service and worker pools: the same bytes, and errors where a job would hang."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.engines import free_port, server
from tests.engines.jobs import (
    WITHOUT_BEAM,
    Pool,
    await_a_shard,
    end,
    fails,
    nothing_is_left,
    numbers,
    pool_of,
    run,
    slices,
    start,
    version,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The options that lead to Beam's job service."""
    port = free_port()
    arguments = ["apache_beam.runners.portability.local_job_service_main", "--port", str(port)]
    with server(arguments, port, tmp_path_factory.mktemp("service") / "log"):
        yield ["--runner=PortableRunner", f"--job_endpoint=localhost:{port}", "--environment_type=EXTERNAL"]


@pytest.mark.slow
def test_generates_and_materializes_the_same_bytes(service: list[str], pool: Pool, local: Path, tmp_path: Path) -> None:
    run(*numbers(tmp_path, *service, *pool.options))
    assert version(tmp_path) == version(local)
    run(*slices(local, tmp_path, *service, *pool.options))
    run(*slices(local, tmp_path / "local"))
    assert version(tmp_path, "some") == version(tmp_path / "local", "some")


@pytest.mark.slow
def test_workers_killed_while_they_write(service: list[str], pool: Pool, local: Path, tmp_path: Path) -> None:
    killed = Pool()
    process = start(*numbers(tmp_path, *service, *killed.options))
    try:
        await_a_shard(process, tmp_path)
    finally:
        killed.kill()
        code, told = end(process)
    assert code == 1
    assert "a worker process died" in told
    assert nothing_is_left(tmp_path)
    run(*numbers(tmp_path, *service, *pool.options))
    assert version(tmp_path) == version(local)


@pytest.mark.slow
def test_no_pool(service: list[str], tmp_path: Path) -> None:
    address = f"localhost:{free_port()}"
    assert f"found no worker pool at {address}" in fails(tmp_path, *service, f"--environment_config={address}")


@pytest.mark.slow
def test_a_pool_whose_python_has_no_beam(service: list[str], tmp_path: Path) -> None:
    with pool_of(WITHOUT_BEAM, tmp_path) as address:
        told = fails(tmp_path / "data", *service, f"--environment_config={address}", "--worker_start_seconds=10")
    assert f"the worker pool at {address} did not bring up a worker within 10 s" in told


@pytest.mark.slow
def test_no_job_service(pool: Pool, tmp_path: Path) -> None:
    endpoint = f"localhost:{free_port()}"
    options = ["--runner=PortableRunner", f"--job_endpoint={endpoint}"]
    assert f"no job service listens at {endpoint}" in fails(tmp_path, *options, *pool.options)
