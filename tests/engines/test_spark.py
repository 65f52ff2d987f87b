"""Datasets on Spark, embedded in Beam's job server for it: the same bytes as here, and one error that says why.

Run by `make test-spark`, which downloads Spark and needs Java and Maven; elsewhere these tests are skipped.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.engines import free_port, served
from tests.engines.jobs import (
    NUMBERS,
    ROOT,
    Pool,
    nothing_is_left,
    numbers,
    run,
    slices,
    start,
    version,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

if "BEAM_DATASETS_SPARK" not in os.environ:
    pytest.skip("make test-spark downloads Spark", allow_module_level=True)

BLOBS = str(ROOT / "tests" / "engines" / "blobs_dataset.py")
OPENED = ("java.base/sun.nio.ch", "java.base/java.nio", "java.base/java.util", "java.base/java.lang.invoke")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The options that lead to Spark."""
    folder, port = tmp_path_factory.mktemp("spark"), free_port()
    command = [
        "java", *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED), "-Xmx1g",
        "-cp", f"{os.environ['BEAM_DATASETS_SPARK']}/*", "org.apache.beam.runners.spark.SparkJobServerDriver",
        f"--job-port={port}", "--artifact-port=0", "--expansion-port=-1", "--spark-master-url=local[2]",
        f"--artifacts-dir={folder / 'artifacts'}",
    ]  # fmt: skip
    with served(command, port, folder / "log", cwd=folder):
        yield ["--runner=SparkRunner", f"--job_endpoint=localhost:{port}"]


@pytest.mark.parametrize("payload", ["spilled", "inline"])
def test_generates_the_same_bytes(spark: list[str], pool: Pool, local: Path, tmp_path: Path, payload: str) -> None:
    run(*numbers(tmp_path, "--payload", payload, *spark, *pool.options))
    assert version(tmp_path) == version(local)


def test_workers_in_the_launching_process(spark: list[str], local: Path, tmp_path: Path) -> None:
    run(*numbers(tmp_path, *spark, "--environment_type=LOOPBACK"))
    assert version(tmp_path) == version(local)


@pytest.mark.parametrize("how", [(), ("--reshuffle", "salt")], ids=["kept", "reshuffled"])
def test_materializes_the_same_bytes(
    spark: list[str], pool: Pool, local: Path, tmp_path: Path, how: Sequence[str]
) -> None:
    run(*slices(local, tmp_path / "spark", *how, *spark, *pool.options))
    run(*slices(local, tmp_path / "local", *how))
    assert version(tmp_path / "spark", "some") == version(tmp_path / "local", "some")


def test_records_of_20_megabytes(spark: list[str], pool: Pool, tmp_path: Path) -> None:
    run("build", BLOBS, "--data_dir", str(tmp_path / "spark"), *spark, *pool.options)
    run("build", BLOBS, "--data_dir", str(tmp_path / "local"))
    assert version(tmp_path / "spark", "blobs") == version(tmp_path / "local", "blobs")


def test_the_authors_error(spark: list[str], pool: Pool, tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(Path(NUMBERS).read_text().replace('yield f"{split}-{i}"', 'yield f"{split}-{1 // (i - 7)}"'))
    command = start("build", str(file), "--data_dir", str(tmp_path / "data"), *spark, *pool.options)
    _, complained = command.communicate()
    assert command.returncode == 1
    lines = complained.splitlines()
    assert lines[0] == "beam-datasets: ZeroDivisionError: integer division or modulo by zero"
    assert f"{file}:" in lines[1]
    assert len(lines) == 2, complained
    assert nothing_is_left(tmp_path / "data")
