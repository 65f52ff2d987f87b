"""Local runs in several processes: whichever of them dies, the run fails in time, says so and leaves nothing."""

import contextlib
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

import beam_datasets as bd
from beam_datasets import errors
from beam_datasets import features as F
from beam_datasets.engines import local_runner
from tests.beam import slow_dataset
from tests.cases import repeated
from tests.directories import digests
from tests.reading.conftest import write_dataset

LIMIT_SECONDS = 10  # is what is promised, from the kill to the end of the command

CONTEXT = multiprocessing.get_context("forkserver")  # whose processes have imported Beam, and run nothing besides
CONTEXT.set_forkserver_preload(["tests.beam.slow_dataset"])


def processes() -> dict[int, tuple[int, float]]:
    """Returns {pid: (parent, age in seconds)} of all processes that have not ended."""
    found = {}
    up = float(Path("/proc/uptime").read_text().split()[0])
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            if words[0] != "Z":
                found[int(pid)] = (int(words[1]), up - int(words[19]) / os.sysconf("SC_CLK_TCK"))
    return found


def is_python(pid: int) -> bool:
    """Returns whether a process runs this interpreter; some libraries run a command while they are imported."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(sys.executable.encode())
    return False


def descendants(root: int) -> list[tuple[int, int, float]]:
    """Returns (pid, generation, age) of the processes below one, the nearest first."""
    found, generation, parents = [], 0, {root}
    everything = processes()
    while parents:
        generation += 1
        below = {pid: age for pid, (parent, age) in everything.items() if parent in parents and is_python(pid)}
        found += [(pid, generation, age) for pid, age in below.items()]
        parents = set(below)
    return found


def kill_one(folder: Path, how: str, delay: float, generation: int, which: int) -> tuple[float, str]:
    """Builds a dataset, kills one process of the run with SIGKILL, and returns (seconds to the end, what was said).

    Args:
        folder: for files.
        how: 'fork', or 'new' for a launcher with threads.
        delay: age in seconds at which the process is killed.
        generation: 1 for the runner process, 2 for a worker.
        which: of the workers.
    """
    (folder / "tmp").mkdir(parents=True)
    process = CONTEXT.Process(target=slow_dataset.build, args=(str(folder), how))
    process.start()
    try:
        victims: list[int] = []
        while len(victims) <= which:
            assert process.is_alive(), (folder / "said").read_text()
            time.sleep(0.01)
            victims = sorted(pid for pid, below, _ in descendants(process.pid) if below == generation)
        victim = victims[which]
        while (age := processes()[victim][1]) < delay:
            time.sleep(delay - age)
        others = [pid for pid, _, _ in descendants(process.pid)]
        os.kill(victim, signal.SIGKILL)
        killed = time.monotonic()
        process.join(60)
        seconds = time.monotonic() - killed
        said = (folder / "said").read_text()
    finally:
        process.kill()
    assert process.exitcode == 1, said
    kind = rf"worker process \d of 3 \(pid {victim}\)" if generation == 2 else rf"runner process .*\(pid {victim}\)"
    assert re.search(rf"WorkerDiedError: .*{kind} was killed by signal 9 \(SIGKILL\); nothing was published", said), (
        said
    )
    assert not set(others) & processes().keys()
    assert not [path for path in (folder / "data").rglob("*") if path.is_file() or path.name.startswith("incomplete")]
    assert not list((folder / "tmp").iterdir())
    return seconds, said


@pytest.mark.parametrize(
    "how, delay, generation, which",
    [
        ("fork", 0.4, 2, 1),
        pytest.param("fork", 0.5, 1, 0, marks=pytest.mark.slow),
        pytest.param("new", 0.3, 2, 1, marks=pytest.mark.slow),
    ],
)
def test_a_killed_process_ends_the_run_with_one_error(tmp_path, how, delay, generation, which):
    """Kill -9 of a worker at any moment is an error within 10 s that names the worker and the signal."""
    seconds, said = kill_one(tmp_path, how, delay, generation, which)
    assert seconds < LIMIT_SECONDS, said


def commands(folder: Path) -> list[int]:
    """Returns the workers that Beam's own command has started for a run whose temporary files are in `folder`."""
    found = []
    for pid in processes():
        with contextlib.suppress(OSError):
            words, variables = (Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))
            if words.startswith(sys.executable.encode()) and b"sdk_worker_main" in words and bytes(folder) in variables:
                found.append(pid)
    return found


@pytest.mark.slow
def test_a_killed_command_of_beam_ends_the_run(tmp_path):
    """If Beam's internals are not as expected, its own commands are the workers, and a killed one is an error."""
    (tmp_path / "tmp").mkdir()
    process = CONTEXT.Process(target=slow_dataset.build, args=(str(tmp_path), "command"))
    process.start()
    while len(commands(tmp_path / "tmp")) < 3:
        assert process.is_alive(), (tmp_path / "said").read_text()
        time.sleep(0.1)
    os.kill(commands(tmp_path / "tmp")[-1], signal.SIGKILL)
    process.join(LIMIT_SECONDS)
    assert process.exitcode == 1
    assert "a worker process died (killed, or out of memory); nothing was published" in (tmp_path / "said").read_text()
    assert not [path for path in (tmp_path / "data").rglob("*") if path.is_file()]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))  # so that two processes that test share them
def test_kills_at_any_time(tmp_path, seed):
    """Half of the kills are in the first second of a worker's life."""
    draw, count = random.Random(seed), repeated(6)
    times: dict[str, list[float]] = {"worker, first second": [], "worker, later": [], "runner process": []}
    for number in range(count + max(1, count // 10)):
        kind = "runner process" if number >= count else ("worker, first second", "worker, later")[number % 2]
        delay = 1 + 4 * draw.random() if kind == "worker, later" else draw.random()
        generation, which = (1, 0) if number >= count else (2, draw.randrange(3))
        how = "new" if number % 5 == 4 else "fork"
        seconds, said = kill_one(tmp_path / str(number), how, delay, generation, which)
        assert seconds < LIMIT_SECONDS, (number, said)
        times[kind].append(seconds)
    for kind, seconds in times.items():
        print(
            f"{kind}: {len(seconds)} kills, median {sorted(seconds)[len(seconds) // 2]:.2f} s, max {max(seconds):.2f}"
        )


def run(target: Any, *arguments: Any) -> None:
    process = CONTEXT.Process(target=target, args=arguments)
    process.start()
    process.join(120)
    assert process.exitcode == 0


@pytest.mark.slow
def test_the_same_bytes_however_workers_are_started(tmp_path):
    """Workers that are forked, that a new process forks, or that Beam's own command starts make the same bytes."""
    source = write_dataset(tmp_path / "source" / "1.0.0", {"train": [40, 30]}, manifest=True)
    made = {}
    for num_workers, how in ((1, "fork"), (2, "fork"), (2, "new"), (2, "command")):
        data_dir = tmp_path / f"{how}{num_workers}"
        run(slow_dataset.materialize, str(data_dir), str(source), num_workers, how)
        made[how, num_workers] = digests(data_dir / "made" / "1.0.0")
    assert len(made["fork", 1]) > 4
    assert all(each == made["fork", 1] for each in made.values())


@pytest.mark.parametrize(
    "how, delay",
    [
        ("fork", 0.05),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in [("fork", 0), ("fork", 0.5), ("new", 0)]),
    ],
)
def test_a_run_that_is_interrupted_ends_with_its_processes(tmp_path, how, delay):
    (tmp_path / "tmp").mkdir()
    process = CONTEXT.Process(target=slow_dataset.build, args=(str(tmp_path), how))
    process.start()
    while not (below := descendants(process.pid)):
        assert process.is_alive()
        time.sleep(0.002)
    time.sleep(delay)
    os.kill(process.pid, signal.SIGINT)
    process.join(60)
    assert (tmp_path / "said").read_text().splitlines()[-1] == "KeyboardInterrupt"
    assert not {pid for pid, _, _ in below} & processes().keys()
    assert not list((tmp_path / "data").rglob("*"))
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize("how", ["fork", pytest.param("new", marks=pytest.mark.slow)])
def test_all_processes_end_with_the_launcher(tmp_path, how):
    (tmp_path / "tmp").mkdir()
    process = CONTEXT.Process(target=slow_dataset.build, args=(str(tmp_path), how))
    process.start()
    while len(below := descendants(process.pid)) < 4:
        assert process.is_alive()
        time.sleep(0.01)
    process.kill()
    process.join()
    deadline = time.monotonic() + LIMIT_SECONDS
    while {pid for pid, _, _ in below} & processes().keys():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    "num_workers, fails",
    [(1, False), (1, True), *(pytest.param(2, fails, marks=pytest.mark.slow) for fails in (True, False))],
)
def test_no_temporary_directory_is_left(tmp_path, monkeypatch, num_workers, fails):
    """Neither a build that succeeds nor one that fails leaves anything in the directory for temporary files."""

    class Rows(bd.DatasetBuilder, skip_registration=True):
        VERSION = "1.0.0"

        def _info(self):
            return bd.DatasetInfo(builder=self, features=F.FeaturesDict({"n": F.Scalar("int64")}))

        def _split_generators(self):
            return {"train": self._rows, "test": beam.Create([(1, {"n": 1})])}

        def _rows(self):
            yield 1, {"n": "no number" if fails else 1}

    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    with pytest.raises(errors.BeamDatasetsError) if fails else contextlib.nullcontext():
        Rows(data_dir=tmp_path / "data").build(num_workers=num_workers)
    assert (tmp_path / "data" / "rows" / "1.0.0").exists() != fails
    assert not list((tmp_path / "tmp").iterdir())


ENDED_WORKERS = """\
import os, signal, threading
from beam_datasets.engines import local_runner
runner = object.__new__(local_runner._RunnerProcess)
runner._scratch = "/nonexistent"
first, second = os.fork() or os._exit(local_runner._RELEASED), os.fork() or signal.pause()
runner._workers = [first, second]
threading.Thread(target=runner._watch, daemon=True).start()  # removes the first one
while os.path.exists(f"/proc/{first}"):
    pass
os.kill = lambda pid, number: print(pid == second, pid == first)
os._exit = lambda status: None
runner._end()
"""


@pytest.mark.slow
def test_a_worker_that_has_ended_is_not_killed() -> None:
    """The system may have given its pid to another process."""
    command = [sys.executable, "-c", ENDED_WORKERS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as run:
        try:
            run.wait(60)
        finally:
            os.killpg(run.pid, signal.SIGKILL)  # the second worker, which has the same standard output
        assert run.stdout is not None
        assert run.stdout.read() == "True False\n"


def test_a_subprocess_that_another_thread_has_waited_for_does_not_end_the_watch(monkeypatch: Any) -> None:
    """As `subprocess` does between the two calls of the system."""
    runner: Any = object.__new__(local_runner._RunnerProcess)
    subprocess_pid = os.fork() or os._exit(0)
    worker = os.fork() or os._exit(3)
    runner._workers = [worker]
    waitid, waited_for = os.waitid, []

    def wait_and_reap(*arguments: Any) -> Any:
        """Waits for the subprocess, and removes it; then for the worker."""
        if not waited_for:
            waited_for.append(waitid(os.P_PID, subprocess_pid, os.WEXITED | os.WNOWAIT))
            os.waitpid(subprocess_pid, 0)
            return waited_for[0]
        return waitid(os.P_PID, worker, *arguments[2:])

    monkeypatch.setattr(local_runner.os, "waitid", wait_and_reap)
    pid, status = runner._wait_for_child()
    assert (pid, os.waitstatus_to_exitcode(status), runner._workers) == (worker, 3, [])
