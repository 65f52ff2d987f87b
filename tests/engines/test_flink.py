"""Flink, where `test_runners` does not show it: killed servers, errors before and in a job, and the deployment.

Run by `make test-flink`, which needs Java and Maven and downloads Flink; elsewhere these tests are skipped.
"""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam_datasets.cli.main import main
from beam_datasets.publishing.progress import measure
from tests.end_to_end.units_dataset import EXAMPLES, FILES, write_sources
from tests.engines import flink_cluster as flink
from tests.engines.cluster_servers import HOST
from tests.engines.cut_connections import Proxy
from tests.engines.flink_kills import children
from tests.engines.jobs import (
    JOB_SECONDS,
    NUMBERS,
    OPTIONS,
    ROOT,
    await_staged,
    end,
    fails,
    nothing_is_left,
    numbers,
    own_pool,
    pool_with_another_disk,
    run,
    start,
    version,
)
from tests.engines.object_stores import BUCKET, use, versity_store, versitygw
from tests.servers import free_port, served

pytestmark = pytest.mark.slow
SLOW = str(ROOT / "tests" / "beam" / "slow_dataset.py")


@pytest.mark.parametrize("victim", ["taskmanager", "workers"])
def test_killed_while_it_writes(cluster: flink.Cluster, local: Path, tmp_path: Path, victim: str) -> None:
    process = start(*numbers(tmp_path, *cluster.options()))
    try:
        await_staged(process, tmp_path)
        cluster.kill(victim)
        assert not (tmp_path / "numbers" / "1.0.0").exists()
        {"taskmanager": cluster.start_task_manager, "workers": cluster.start_worker_pool}[victim]()
    finally:
        code, output = end(process)
    assert (victim == "workers") == ("was started again; if the engine" in output), output
    if code != 0:
        cluster.await_task_managers(1)
        run(*numbers(tmp_path, *cluster.options(), "--resume"))
    assert version(tmp_path) == version(local)


def kill_in(cluster: flink.Cluster, stage: str, process: subprocess.Popen[str]) -> None:
    """Kills a TaskManager while a stage runs."""
    while not any(stage in name for name in cluster.running_stages()):
        assert process.poll() is None, end(process)
        time.sleep(0.05)
    cluster.kill("taskmanager")


@pytest.fixture
def two_task_managers(cluster: flink.Cluster) -> flink.Cluster:
    while len(cluster.running("taskmanager")) < 2:
        cluster.start_task_manager()
    cluster.await_task_managers(2)
    return cluster


@pytest.mark.parametrize("stage, is_replaced", [("Encode", False), ("GroupByShard", True)])
def test_one_of_two_task_managers_is_killed(
    two_task_managers: flink.Cluster, local: Path, tmp_path: Path, stage: str, is_replaced: bool
) -> None:
    """The job fails, or Flink restarts it on another TaskManager; --resume continues on the one that is left."""
    command = numbers(tmp_path, *two_task_managers.options(), "--resume")
    process = start(*command, "--parallelism=4")
    try:
        if stage == "Encode":
            await_staged(process, tmp_path, "*.block")
        kill_in(two_task_managers, stage, process)
        if is_replaced:
            two_task_managers.start_task_manager()
    finally:
        code, _ = end(process)
    if code != 0:
        assert not (tmp_path / "numbers" / "1.0.0").exists()
        run(*command)
        assert "resumed" in (tmp_path / "numbers" / "1.0.0" / "run.json").read_text()
    assert version(tmp_path) == version(local)


def test_units_are_read_once_if_the_job_is_started_again(
    cluster: flink.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flink runs all stages again if the only TaskManager is lost, and with it what the finished ones have made."""
    log = tmp_path / "examples"
    paths = write_sources(tmp_path / "sources")
    units = ["build", str(ROOT / "tests" / "end_to_end" / "units_dataset.py"), *(f"--path={path}" for path in paths)]
    run(*units, "--data_dir", str(tmp_path / "local"))
    data = tmp_path / "data"
    monkeypatch.setenv("UNITS_EXAMPLES", str(log))
    monkeypatch.setenv("UNITS_DELAY", "1.1")  # more than SLOW_UNIT_SECONDS: each finished unit is kept at once
    with own_pool(tmp_path) as pool:
        command = [*units, "--data_dir", str(data), *cluster.options(), *pool.options, "--resume"]
        process = start(*command)
        try:
            while num_encoded(data) < FILES // 2:
                assert process.poll() is None, end(process)
                time.sleep(0.01)
            cluster.kill("taskmanager")
            cluster.start_task_manager()
        finally:
            code, output = end(process)
        if code != 0:
            cluster.await_task_managers(1)
            run(*command)
        else:  # Flink has repeated it
            restart = re.search(r"restart 1: (.*)", output)  # of a lost TaskManager, a task or a connection
            assert restart, output
            report = json.loads((data / "units" / "1.0.0" / "run.json").read_text())
            assert report["engine"]["restarts"][0]["reason"].startswith(restart[1])
            assert re.fullmatch(r"units-1-0-0-[0-9a-f]{8}", report["engine"]["job"])
    counts = Counter(log.read_text().splitlines())
    assert min(counts[path] for path in paths) == EXAMPLES
    repeated = [path for path in paths if counts[path] > EXAMPLES]
    assert len(repeated) <= cluster.slots, counts  # a unit of each slot, which was not finished
    assert version(data, "units") == version(tmp_path / "local", "units")


def num_encoded(data: Path) -> int:
    """Returns the number of units that the active runs below a data_dir have finished."""
    folders = map(str, data.glob("units/incomplete.*.spill"))
    return sum(measure(folder.removesuffix(".spill"), folder).units_finished for folder in folders)


def test_one_of_two_task_managers_is_killed_while_files_get_their_final_names(
    two_task_managers: flink.Cluster, local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = versitygw(build=True)
    assert program, "versitygw needs Go"
    with versity_store(program, tmp_path) as store:
        use(store, monkeypatch)
        [folder] = tmp_path.glob(f"versity-*/{BUCKET}")
        with own_pool(tmp_path) as pool:
            options = [*two_task_managers.options(), *pool.options, "--resume"]
            command = ["build", NUMBERS, *OPTIONS, "--data_dir", store.url, *options]
            process = start(*command, "--parallelism=4")
            try:
                kill_in(two_task_managers, "CommitShards", process)
            finally:
                code, _ = end(process)
            if code != 0:
                assert not (folder / "numbers" / "1.0.0" / "dataset_info.json").exists()
                code, output = end(start(*command))  # finishes what the first run had decided to publish
                assert code == 0 or "put in place now; the version is published" in output, output
        assert version(folder) == version(local)


def test_progress_while_a_stage_runs(cluster: flink.Cluster, tmp_path: Path) -> None:
    """A generator takes a minute; Beam's runner reports its metrics when it has ended."""
    process = start("build", f"{SLOW}:Slow", "--data_dir", str(tmp_path), *cluster.options())
    seen: set[int] = set()
    try:
        deadline = time.monotonic() + JOB_SECONDS
        while len(seen) < 2:
            assert process.poll() is None, end(process)
            assert time.monotonic() < deadline, seen
            folders = [str(path) for path in tmp_path.glob("slow/incomplete.*.spill")]
            seen |= {measure(folder.removesuffix(".spill"), folder).examples_encoded for folder in folders} - {0}
            time.sleep(0.5)
        assert any("Encode" in name for name in cluster.running_stages())
        process.send_signal(signal.SIGINT)
    finally:
        code, output = end(process)
    assert code == 130, output
    assert re.search(r"\d\d:\d\d:\d\d .*Encode.* \(tasks: \d+ of \d+\)", output), output


def test_what_workers_print_is_in_the_log_of_the_task_manager(cluster: flink.Cluster, tmp_path: Path) -> None:
    builder = tmp_path / "talking.py"
    text = (ROOT / "tests" / "beam" / "talking_dataset.py").read_text()
    builder.write_text(text.replace('manner = ""', 'manner = "talk"'))
    run("build", f"{builder}:Talking", "--data_dir", str(tmp_path / "data"), *cluster.options())
    logs = "".join(path.read_text(errors="replace") for path in cluster.directory.glob("logs/taskmanager-*.out"))
    worker = r"\d\d:\d\d.*\[talking-1-0-0-[0-9a-f]{8} worker \S+\] "
    for said in ("printed 3", "printed as an error 3", "logged 3", "warned 3"):
        assert re.search(f"{worker}.*{said}", logs), said
    pools = "".join(path.read_text(errors="replace") for path in cluster.directory.glob("logs/workers-*.out"))
    assert re.search(f"{worker}written 3", pools), pools  # as code in C writes


def test_contact_with_the_job_server_is_lost(cluster: flink.Cluster, local: Path, tmp_path: Path) -> None:
    """The launcher's connection is cut during a job; it asks Flink, until the job has published."""
    proxy = Proxy(cluster.ports["jobs"])
    by_proxy = [option for option in cluster.options() if not option.startswith("--job_endpoint")]
    process = start(*numbers(tmp_path, *by_proxy, f"--job_endpoint=127.0.0.1:{proxy.port}"))
    try:
        await_staged(process, tmp_path, "**/*.block")
        proxy.cut()
    finally:
        code, output = end(process)
    assert code == 0, output
    assert "Traceback" not in output, output
    assert [path.name for path in (tmp_path / "numbers").iterdir()] == ["1.0.0"]
    assert version(tmp_path) == version(local)


def test_a_launcher_that_is_killed(cluster: flink.Cluster, local: Path, tmp_path: Path) -> None:
    """The job goes on and publishes; `gc` knows that, and removes what only the launcher would have removed."""
    process = start(*numbers(tmp_path, *cluster.options()))
    try:
        await_staged(process, tmp_path, "**/*.block")
        process.kill()
    finally:
        end(process)
    deadline = time.monotonic() + JOB_SECONDS
    while not (tmp_path / "numbers" / "1.0.0" / "dataset_info.json").exists() or cluster.overview()["jobs-running"]:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert "has published" in run("gc", str(tmp_path), "--yes")
    assert [path.name for path in (tmp_path / "numbers").iterdir()] == ["1.0.0"]
    assert version(tmp_path) == version(local)


def test_interrupted(cluster: flink.Cluster, tmp_path: Path) -> None:
    process = start(*numbers(tmp_path, *cluster.options(), "--count=2000000"))  # long enough to be cancelled in time
    try:
        await_staged(process, tmp_path, "*.block")
        process.send_signal(signal.SIGINT)
    finally:
        code, output = end(process)
    assert code == 130, output
    assert not (tmp_path / "numbers" / "1.0.0").exists()
    assert cluster.overview()["jobs-running"] == 0
    assert cluster.overview()["jobs-cancelled"] > 0


def test_a_package_that_workers_lack(cluster: flink.Cluster, tmp_path: Path) -> None:
    """Beam's runner would wait for three minutes at each attempt before it looks at the worker's error."""
    port, began = free_port(), time.monotonic()
    pool = [sys.executable, "-m", "beam_datasets.beam.worker_pool", f"--port={port}"]
    with served(pool, port, tmp_path / "pool.log", cwd=tmp_path):  # from where the tests cannot be imported
        options = ["--data_dir", str(tmp_path / "data"), *cluster.options(), f"--environment_config=localhost:{port}"]
        code, output = end(start("build", "tests.end_to_end.numbers_dataset:Numbers", *options))
    assert code == 1, output
    last_line = output.splitlines()[-1]
    assert last_line.startswith("beam-datasets: ModuleNotFoundError: No module named 'tests'. Workers need"), output
    assert "restart 1: ModuleNotFoundError: No module named 'tests'" in output
    assert time.monotonic() < began + 170


DEADLY = """
class Deadly(beam.DoFn):
    def process(self, element, *args):
        return _rows(element, *args)

    def __getstate__(self):
        return {"its": "state"}

    def __setstate__(self, state):
        import os, pathlib, signal
        marker = pathlib.Path(MARKER)
        try:
            if int(marker.read_text()) != os.getpid():
                marker.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        except FileNotFoundError:
            pass

class Numbers("""


def test_a_worker_that_dies_while_it_unpickles_its_code(cluster: flink.Cluster, tmp_path: Path) -> None:
    """Beam's runner would wait for three minutes, for a connection that Beam's worker opens after that."""
    builder, marker = tmp_path / "deadly.py", tmp_path / "marker"
    text = Path(NUMBERS).read_text().replace("beam.FlatMap(_rows,", "beam.ParDo(Deadly(),")
    builder.write_text(text.replace("class Numbers(", DEADLY.replace("MARKER", repr(str(marker)))))
    process = start("build", str(builder), "--data_dir", str(tmp_path / "data"), *cluster.options())
    (tmp_path / "new").write_text(str(process.pid))  # the launcher, which unpickles the code, too
    (tmp_path / "new").rename(marker)
    code, output = end(process)
    assert code == 0, output
    assert not marker.exists()
    assert "restart 1: a worker process died" in output, output


def test_workers_that_a_restart_leaves_are_stopped(cluster: flink.Cluster, tmp_path: Path) -> None:
    """Beam's runner keeps workers of a job in which one dies before it has connected, until the TaskManager ends."""
    port = free_port()
    code = "from beam_datasets.engines import worker_pool; worker_pool.ASK_SECONDS = 1; worker_pool.main()"
    with served([sys.executable, "-c", code, f"--port={port}"], port, tmp_path / "pool.log") as pool:

        def workers() -> list[int]:
            return [worker for forkserver in children(pool.pid) for worker in children(forkserver)]

        options = ["--data_dir", str(tmp_path / "data"), *cluster.options(), f"--environment_config=localhost:{port}"]
        process = start("build", NUMBERS, *options)
        try:
            while not cluster.overview()["jobs-running"] or not workers():
                assert process.poll() is None, end(process)
                time.sleep(0.01)
            os.kill(workers()[0], signal.SIGKILL)
        finally:
            exit_code, output = end(process)
        assert exit_code == 0, output
        deadline = time.monotonic() + JOB_SECONDS
        while workers():
            assert time.monotonic() < deadline, (tmp_path / "pool.log").read_text()
            time.sleep(0.1)


def test_workers_with_another_disk_publish_nothing(cluster: flink.Cluster, tmp_path: Path) -> None:
    """They can write everything on their own disk, and Flink starts a job again whose first stage has failed."""
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    with pool_with_another_disk(tmp_path, data_dir) as pool:
        output = fails(data_dir, *cluster.options(), *pool.options, "--count=2000")
    assert "the launcher has created it, but the worker on" in output.splitlines()[-1]


def test_the_doctor(cluster: flink.Cluster, tmp_path: Path) -> None:
    jobs = ("jobs-running", "jobs-failed", "jobs-cancelled")
    before = [cluster.overview()[state] for state in jobs]
    quiet = "--default_sdk_harness_log_level=WARNING"  # which the job server in Java knows by another name
    output = run("doctor", "--data_dir", str(tmp_path), *cluster.options(), "--packages=tests", quiet)
    for part in ("slots are free", "; Python 3.", "see each other's files", "clock", "memory", "All checks"):
        assert part in output
    with pool_with_another_disk(tmp_path.parent, tmp_path) as pool:
        code, output = end(start("doctor", "--data_dir", str(tmp_path), *cluster.options(), *pool.options))
    assert code == 1
    [failed] = [line for line in output.splitlines() if line.startswith("FAIL")]
    assert "a worker does not see what the launcher has written" in failed
    assert [cluster.overview()[state] for state in jobs] == before
    assert nothing_is_left(tmp_path)


def test_the_authors_error(cluster: flink.Cluster, tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    text = Path(NUMBERS).read_text().replace('yield f"{split}-{i}"', 'yield f"{split}-{i // 2}"')
    file.write_text(text)
    code, output = end(start("build", str(file), "--data_dir", str(tmp_path / "data"), *cluster.options()))
    assert code == 1
    assert "Traceback" not in output, output
    assert "have the same key" in output or "duplicate" in output.lower(), output
    assert nothing_is_left(tmp_path / "data")


def refused(*arguments: Any) -> str:
    """Returns the output of a command that fails before a job; it runs in this process, which has imported Beam."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = main(["build", "digits", *map(str, arguments)])
    output = printed.getvalue()
    assert code != 0, output
    assert "Traceback" not in output, output
    return output


@contextlib.contextmanager
def pool_with_beam(version: str, folder: Path) -> Iterator[str]:
    """Runs a worker pool that takes its Beam for another version; yields the option that leads to it."""
    code = f"import apache_beam; apache_beam.__version__ = {version!r}; from beam_datasets.beam import worker_pool"
    port = free_port()
    command = [sys.executable, "-c", f"{code}; worker_pool.main()", "--port", str(port)]
    with served(command, port, folder / "other-pool.log"):
        yield f"--environment_config=127.0.0.1:{port}"


def test_refused_before_a_job(
    cluster: flink.Cluster,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("beam_datasets.engines.flink.AWAY_SECONDS", 1)
    began = time.monotonic()
    before = sum(cluster.overview()[state] for state in ("jobs-running", "jobs-finished", "jobs-failed"))
    here = [option for option in cluster.options() if not option.startswith("--environment")]
    assert "--environment_type=EXTERNAL" in refused("--data_dir", tmp_path, *here)
    nobody = f"--flink_master=127.0.0.1:{free_port()}"
    assert "no Flink JobManager answers" in refused("--data_dir", tmp_path, *cluster.options(), nobody)
    elsewhere = "--environment_config=somewhere:50000"
    assert "cannot see" in refused("--data_dir", tmp_path, *cluster.options(), elsewhere)
    own_server = [
        option for option in cluster.options() if not option.startswith(("--job_endpoint", "--flink_version"))
    ]
    assert "--flink_version=1.19" in refused("--data_dir", tmp_path, *own_server)
    rest = f"--job_endpoint=127.0.0.1:{cluster.ports['rest']}"
    assert "got a server that speaks HTTP" in refused("--data_dir", tmp_path, *cluster.options(), rest)
    output = refused("--data_dir", tmp_path, *cluster.options(), "--parallelism=16")
    assert f"expected at most {cluster.overview()['slots-total']}, the slots of" in output
    with pool_with_beam("2.66.0", tmp_path_factory.mktemp("pool")) as other:
        assert "has apache-beam 2.66.0, and the launcher 2." in refused(
            "--data_dir", tmp_path, *cluster.options(), other
        )
    assert time.monotonic() < began + 90
    after = sum(cluster.overview()[state] for state in ("jobs-running", "jobs-finished", "jobs-failed"))
    assert before == after
    assert nothing_is_left(tmp_path)


def test_the_commands_of_the_page(cluster: flink.Cluster, local: Path, tmp_path: Path) -> None:
    """Those of "On your cluster", with other paths and ports: the job server, the worker pool, the doctor, a build."""
    page = (ROOT / "docs" / "how-to" / "flink.md").read_text(encoding="utf-8")
    section = page[page.index("## On your cluster") : page.index("## Options")]
    blocks = re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    ports = {name: free_port() for name in ("8099", "8098", "50000")}
    names = {
        "JOBMANAGER:8081": f"{HOST}:{cluster.ports['rest']}",
        "$FLINK_HOME": str(cluster.home),
        "/opt/datasets/bin/python": sys.executable,
        "beam-datasets": f"{sys.executable} -m beam_datasets.cli",
        "/shared/datasets": str(tmp_path / "data"),
        "my_dataset.py": f"{NUMBERS} {' '.join(OPTIONS)}",
        "--parallelism=16": f"--parallelism={cluster.slots}",
        **{f"{before}{name}": f"{before}{port}" for name, port in ports.items() for before in (":", "=", "--port ")},
    }

    def commands(word: str) -> str:
        """Returns the commands of the block that has the word."""
        [block] = [block for block in blocks if word in block]
        for name, value in names.items():
            block = block.replace(name, value)
        return re.sub("^java ", "exec java ", block, flags=re.MULTILINE)

    def bash(text: str) -> list[str]:
        return ["bash", "-euc", f"cd {tmp_path}; export PYTHONPATH={ROOT}; {text}"]

    pool = next(line for line in commands("worker_pool").splitlines() if "worker_pool" in line)
    (tmp_path / "data").mkdir()
    with (
        served(bash(commands("FlinkJobServerDriver")), ports["8099"], tmp_path / "jobs.log"),
        served(bash(f"exec {pool}"), ports["50000"], tmp_path / "pool.log"),
    ):
        for word, expected in (("doctor", "All checks"), ("beam-datasets build", "Published in")):
            done = subprocess.run(
                bash(commands(word)), capture_output=True, text=True, timeout=JOB_SECONDS, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
            assert expected in done.stdout + done.stderr
    assert version(tmp_path / "data") == version(local)
