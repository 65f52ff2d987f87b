"""Spark: the same bytes as on this machine, killed workers, and errors before and in a job.

Run by `make test-spark`, which needs Java and Maven and downloads Spark; elsewhere these tests are skipped.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.directories import digests
from tests.engines.cluster_servers import HOST
from tests.engines.jobs import (
    NUMBERS,
    OPTIONS,
    ROOT,
    await_staged,
    end,
    fails,
    nothing_is_left,
    numbers,
    run,
    slices,
    start,
    version,
)
from tests.engines.page_commands import PageCommands, free_ports
from tests.engines.spark_cluster import Cluster
from tests.servers import free_port

pytestmark = pytest.mark.slow


def test_generates_materializes_and_exports_the_same_bytes(spark: Cluster, local: Path, tmp_path: Path) -> None:
    output = run(*numbers(tmp_path, *spark.options()))
    assert "Published in" in output
    assert "Traceback" not in output
    assert version(tmp_path) == version(local)
    here, there = tmp_path / "here", tmp_path / "there"
    run(*slices(local, there, "--reshuffle", "salt", *spark.options()))
    run(*slices(local, here, "--reshuffle", "salt"))
    assert version(there, "some") == version(here, "some")
    for folder, options in ((there, spark.options()), (here, [])):
        run("export", "some", "--data_dir", str(here), "--to", str(folder / "csv"), "--format", "jsonl", *options)
    assert digests(there / "csv") == digests(here / "csv")


@pytest.mark.parametrize("victim", ["worker", "workers"])
def test_killed_while_it_writes(spark: Cluster, local: Path, tmp_path: Path, victim: str) -> None:
    """Spark repeats what a lost executor did; without the pool the job fails, and is resumed."""
    process = start(*numbers(tmp_path, *spark.options(), "--resume"))
    try:
        await_staged(process, tmp_path)
        spark.kill(victim)
        assert not (tmp_path / "numbers" / "1.0.0").exists()
    finally:
        code, output = end(process)
    if victim == "workers":
        assert code == 1
        assert "a worker process died" in output
        spark.start_worker_pool()
    if code:
        assert not (tmp_path / "numbers" / "1.0.0").exists()
        run(*numbers(tmp_path, *spark.options(), "--resume"))
        assert "resumed" in (tmp_path / "numbers" / "1.0.0" / "run.json").read_text()
    assert version(tmp_path) == version(local)


def test_interrupted_while_another_job_is_refused(spark: Cluster, tmp_path: Path) -> None:
    process = start(*numbers(tmp_path, *spark.options(), "--count=2000000"))  # long enough to be cancelled in time
    try:
        await_staged(process, tmp_path, "*.block")
        assert "expected no other job, got numbers-1-0-0-" in fails(tmp_path / "second", *spark.options())
        process.send_signal(signal.SIGINT)
    finally:
        code, output = end(process)
    assert code == 130, output
    assert not (tmp_path / "numbers" / "1.0.0").exists()
    assert not spark.overview()["activeapps"]


def test_the_authors_error(spark: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(Path(NUMBERS).read_text().replace('yield f"{split}-{i}"', 'yield f"{split}-{i // 2}"'))
    code, output = end(start("build", str(file), "--data_dir", str(tmp_path / "data"), *spark.options()))
    assert code == 1
    assert "Traceback" not in output, output
    assert "have the same key" in output, output
    assert nothing_is_left(tmp_path / "data")


def without(options: list[str], *names: str) -> list[str]:
    return [option for option in options if not option.startswith(names)]


@pytest.mark.parametrize(
    "change, expected",
    [
        (lambda options: [*options, "--payload=inline"], "payload is 'inline'; expected 'spilled' or None"),
        (lambda options: without(options, "--environment"), "environment_type: expected EXTERNAL or DOCKER"),
        (lambda options: without(options, "--job_endpoint"), "job_endpoint: expected the address"),
        (lambda options: without(options, "--spark_master"), "workers of SparkRunner cannot see"),
        (lambda options: [*options, f"--environment_config=127.0.0.1:{free_port()}"], "found no worker pool at"),
        (lambda options: [*options, f"--job_endpoint=127.0.0.1:{free_port()}"], "no job service listens at"),
    ],
    ids=["inline", "no environment", "no job server", "unknown machines", "no pool", "nobody listens"],
)
def test_refused_before_a_job(
    spark: Cluster, tmp_path: Path, change: Callable[[list[str]], list[str]], expected: str
) -> None:
    code, output = end(start(*numbers(tmp_path, *change(spark.options()))))
    assert code != 0
    assert expected in output
    assert "Traceback" not in output, output
    assert nothing_is_left(tmp_path)


def test_a_pool_is_missing_beside_an_executor(spark: Cluster, tmp_path: Path) -> None:
    nobody = [f"--environment_config=127.0.0.1:{free_port()}", "--shared_disk"]
    output = fails(tmp_path, *without(spark.options(), "--spark_master"), *nobody)
    assert "found no worker pool at the address" in output


def test_the_commands_of_the_page(spark: Cluster, local: Path, tmp_path: Path) -> None:
    """Those of "On your cluster", with other paths and ports: the job server, the worker pool, a build, the doctor."""
    replacements = {
        "spark://MASTER:7077": f"spark://{HOST}:{spark.ports['master']}",
        "$SPARK_HOME": str(spark.home / "spark"),
        "/opt/beam/gradle/wrapper": str(spark.home / "beam"),
        "/opt/datasets/bin/python": sys.executable,
        "/shared/datasets": str(tmp_path / "data"),
        "my_dataset.py": f"{NUMBERS} {' '.join(OPTIONS)}",
        **free_ports(8099, 8098, 50000),
    }
    page = PageCommands(ROOT / "docs" / "how-to" / "spark.md", replacements, tmp_path)
    pool = page.block("worker_pool").splitlines()[-1]  # after the installation
    address = {**os.environ, **spark.environment()}  # executors find the job server, Spark's driver, on 127.0.0.1
    (tmp_path / "data").mkdir()
    with page.serve(page.block("SparkJobServerDriver"), 8099, env=address), page.serve(pool, 50000):
        build = page.block("beam-datasets build my_dataset.py")
        assert "All checks" in page.run(build.replace(f"build {NUMBERS} {' '.join(OPTIONS)}", "doctor"))
        assert "Published in" in page.run(build)
    assert version(tmp_path / "data") == version(local)


def test_the_commands_of_the_page_on_this_machine(spark: Cluster, tmp_path: Path) -> None:
    """Those of the second terminal; the files of this machine and of Spark differ in run.json alone."""
    replacements = {". .venv/bin/activate": "", "build/cluster": str(spark.directory), "build/": f"{tmp_path}/"}
    page = PageCommands(ROOT / "docs" / "how-to" / "spark.md", replacements, ROOT)
    *commands, diff = page.block("$(cat build/cluster/options)").strip().splitlines()
    page.run("\n".join(commands))
    compared = subprocess.run(page.bash(diff), capture_output=True, text=True, check=False)
    assert re.fullmatch(r"Files \S+/run.json and \S+/run.json differ\n", compared.stdout), compared
