"""Kills parts of a Flink cluster while it builds a dataset, and checks what comes of it.

    python -m tests.engines.flink_kills DIR --count 100 --seed 1 [--victim worker ...] [--available]

Each build has one victim, which is killed when a random part of the job's tasks has finished, or just before the job;
a server is started again after up to 2 s. A build is right if its version has the bytes of a local build, published by
the command, by its job after the command has ended, or by the same command with `--resume`; if a command that fails
prints one message; and if `gc` names whatever else is there. The data is on disk and in an S3 server in turn. Prints a
line for each build and, in the end, a table of the outcomes. DIR/outputs has what the commands have printed.
"""

import argparse
import contextlib
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from beam_datasets.cli.main import main as run_command
from tests.directories import digests
from tests.engines import flink_cluster as flink
from tests.engines.jobs import JOB_SECONDS, NUMBERS, pool_with_another_disk, run, start
from tests.engines.object_stores import BUCKET, versity_store, versitygw
from tests.processes import kill

SERVERS = ("workers", "taskmanager", "jobs", "jobmanager")  # as `Cluster.kill` names them
# A job is cancelled by Flink's REST interface; a store is paused; a disk is one that the workers do not see, from the
# beginning: such a build must be refused.
VICTIMS = ("worker", "forkserver", *SERVERS, "launcher", "job", "store", "disk")
PAUSE_SECONDS = 20  # of the store
KILL_SECONDS = 60  # for a worker to start
MAX_MESSAGE = 1500  # characters
COUNT = 20_000
NUM_EXAMPLES = COUNT + COUNT // 10
OPTIONS = ("--count", str(COUNT), "--num_shards", "8")
ENDED = ("FINISHED", "CANCELED", "FAILED")
OUTCOMES = ("published", "recovered", "by its job", "resumed", "refused", "wrong")
_JAVA = re.compile(r"^\s+at [\w.$/]+\(|\b(?:java|org\.apache|io\.grpc)\.[\w.]+(?:Exception|Error)\b", re.MULTILINE)
_ABANDON = re.compile(r"--abandon (\w+)")


class WrongError(Exception):
    """A build is not as it must be."""


@dataclass(frozen=True)
class Outcome:
    """What has come of a build.

    Attributes:
        victim: what was killed.
        moment: when it was killed.
        kind: one of `OUTCOMES`.
        seconds: until all was checked.
        problem: what is wrong; '' for nothing.
    """

    victim: str
    moment: str
    kind: str
    seconds: float
    problem: str = ""


@dataclass
class Killing:
    """Builds on a cluster whose parts are killed.

    Attributes:
        cluster: the cluster.
        folder: for data and outputs.
        expected: {file name: sha256} of the version as this machine generates it.
        random: chooses the times.
        options: of the dataset.
        num_examples: number of its examples.
        store: process of the S3 server; None if there is none.
        store_url: URL of the server's bucket.
        bucket: directory of the bucket's objects.
    """

    cluster: flink.Cluster
    folder: Path
    expected: dict[str, str]
    random: random.Random
    options: Sequence[str] = OPTIONS
    num_examples: int = NUM_EXAMPLES
    store: subprocess.Popen[Any] | None = None
    store_url: str = ""
    bucket: Path = Path()
    _output: list[str] = field(default_factory=list)
    _moment: str = ""

    def build(self, number: int, victim: str) -> Outcome:
        """Builds once, with one victim."""
        self._output, self._moment = [], ""
        data_dir, began, problem = self._data_dir(number, victim), time.monotonic(), ""
        try:
            kind = self._build_unseen(data_dir) if victim == "disk" else self._build_struck(data_dir, victim)
        except Exception as error:  # the next build is tried, too
            kind, problem = "wrong", f"{type(error).__name__}: {error}"
        seconds = time.monotonic() - began
        self._restore()
        outputs = self.folder / "outputs"
        outputs.mkdir(exist_ok=True)
        text = "\n".join([f"{victim}, {self._moment}, {data_dir}: {kind} {problem}", *self._output])
        (outputs / f"{number:03d}-{victim}-{kind.replace(' ', '-')}.txt").write_text(text)
        if kind != "wrong":
            shutil.rmtree(self._path(data_dir), ignore_errors=True)
        return Outcome(victim, self._moment, kind, seconds, problem)

    def _build_struck(self, data_dir: str, victim: str) -> str:
        """Builds while a part is killed; returns the kind of outcome."""
        command = ["build", NUMBERS, *self.options, "--data_dir", data_dir, *self.cluster.options(), "--resume"]
        launcher = start(*command)
        try:
            self._moment = self._await_moment(launcher, data_dir)
            self._moment += self._strike(victim, launcher)
        finally:
            code, output = self._end(launcher)
        kind = self._judge(command, data_dir, code, output, is_killed=victim == "launcher")
        self._check_leftovers(data_dir)
        return kind

    def _build_unseen(self, data_dir: str) -> str:
        """Builds with workers that have an empty disk in the place of the data_dir; returns the kind of outcome."""
        folder = Path(data_dir)
        folder.mkdir()
        with pool_with_another_disk(self.folder, folder) as pool:
            options = ["--data_dir", data_dir, *self.cluster.options(), *pool.options]
            code, output = self._end(start("build", NUMBERS, *self.options, *options))
        check_output(code, output)
        if not code or "the launcher has created it, but the worker on" not in output:
            raise WrongError(f"exit code {code}, and no message about the disk")
        if files := [path for path in folder.rglob("*") if path.is_file()]:
            raise WrongError(f"it leaves {files}")
        return "refused"

    def _data_dir(self, number: int, victim: str) -> str:
        """Returns the root of the datasets of a build."""
        in_store = self.store is not None and victim != "disk" and (victim == "store" or number % 2)
        return f"{self.store_url}/{number}" if in_store else str(self.folder / f"data-{number}")

    def _path(self, data_dir: str) -> Path:
        """Returns the path of a data_dir on this disk."""
        return self.bucket / data_dir.rpartition("/")[2] if "://" in data_dir else Path(data_dir)

    def _await_moment(self, launcher: subprocess.Popen[str], data_dir: str) -> str:
        """Waits until a random part of the job's tasks has finished, or at first for its directories; returns it."""
        part = self.random.uniform(-0.1, 1)
        before = {job["jid"] for job in self._jobs()}
        while launcher.poll() is None:
            if part < 0 and any(self._path(data_dir).glob("numbers/incomplete.*")):
                return "before the job"
            for job in self._jobs():
                tasks = job["tasks"]
                if (
                    job["jid"] not in before
                    and part >= 0
                    and tasks["total"]
                    and tasks["finished"] >= part * tasks["total"]
                ):
                    return f"{tasks['finished']} of {tasks['total']} tasks"
            time.sleep(0.05)
        return "its end"

    def _strike(self, victim: str, launcher: subprocess.Popen[str]) -> str:
        """Kills a part, and starts it again if it is a server; returns a remark for the output."""
        if victim == "launcher":
            launcher.kill()
        elif victim == "job":
            self._cancel_jobs()
        elif victim == "store":
            assert self.store is not None
            self.store.send_signal(signal.SIGSTOP)
            time.sleep(PAUSE_SECONDS)
            self.store.send_signal(signal.SIGCONT)
        elif victim in SERVERS:
            self.cluster.kill(victim)
            time.sleep(self.random.choice([0, 2]))
            self.cluster.restart(victim)
        else:
            return self._kill_process(victim, launcher)
        return ""

    def _kill_process(self, victim: str, launcher: subprocess.Popen[str]) -> str:
        """Kills a process of the pool: a worker, or the one from which workers are forked; waits for a worker."""
        deadline = time.monotonic() + KILL_SECONDS
        while time.monotonic() < deadline and launcher.poll() is None:
            forkservers = children(self.cluster.running("workers")[-1].pid)
            workers = [worker for process in forkservers for worker in children(process)]
            if chosen := workers if victim == "worker" else forkservers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.random.choice(chosen), signal.SIGKILL)
                    return ""
            time.sleep(0.01)
        return ", too late"

    def _end(self, launcher: subprocess.Popen[str]) -> tuple[int, str]:
        """Waits for a command and returns its exit code and its output; ends one that hangs."""
        try:
            out, err = launcher.communicate(timeout=JOB_SECONDS)
        except subprocess.TimeoutExpired:
            launcher.send_signal(signal.SIGINT)
            try:
                out, err = launcher.communicate(timeout=90)
            except subprocess.TimeoutExpired:
                kill(launcher)
                out, err = launcher.communicate()
            self._output.append(out + err)
            raise WrongError(f"it hangs after {JOB_SECONDS} s") from None
        finally:
            kill(launcher)
        self._output += [out + err, f"exit code {launcher.returncode}", ""]
        return launcher.returncode, out + err

    def _judge(self, command: Sequence[str], data_dir: str, code: int, output: str, *, is_killed: bool) -> str:
        """Returns the kind of outcome, after `--resume` if that is needed; raises if anything is wrong."""
        check_output(code, output, is_killed=is_killed)
        self._await_end_of_jobs()
        self.cluster.await_free_slots()
        version = self._path(data_dir) / "numbers" / "1.0.0"
        kind = "recovered" if re.search("restart 1: ", output) else "published"
        if code:
            kind = "by its job" if (version / "dataset_info.json").exists() else "resumed"
        elif not (version / "dataset_info.json").exists():
            raise WrongError("exit code 0, and no version")
        if kind == "resumed":
            self._resume(command, data_dir)
        if digests(version) != self.expected:
            raise WrongError("the version has other bytes")
        num_examples = json.loads((version / "run.json").read_text())["examples"]
        if num_examples != self.num_examples or (code == 0 and f" {self.num_examples:,} " not in output):
            raise WrongError(f"expected {self.num_examples} examples in run.json and in the output, got {num_examples}")
        return kind

    def _resume(self, command: Sequence[str], data_dir: str) -> None:
        """Starts the command again, after giving up the run before it if the message says so."""
        for _ in range(2):
            code, output = self._end(start(*command))
            check_output(code, output)
            if code == 0 or "put in place now; the version is published" in output:
                return
            if not (job := _ABANDON.search(output)):
                break
            self._run("gc", data_dir, "--abandon", job[1])
        raise WrongError("--resume failed")

    def _check_leftovers(self, data_dir: str) -> None:
        """Checks that `gc` names whatever is beside the version, and says why it keeps what it keeps."""
        folder = self._path(data_dir)

        def leftovers() -> set[str]:
            files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
            names = {"/".join(path.parts[:2]) for path in files}
            return {name.removesuffix(".spill") for name in names} - {"numbers/1.0.0"}

        beside, reported = leftovers(), self._run("gc", data_dir)
        if unnamed := {name for name in beside if name not in reported}:
            raise WrongError(f"gc does not name {sorted(unnamed)}")
        reported = self._run("gc", data_dir, "--yes")
        kept = {name for name in leftovers() if not re.search(rf"{re.escape(name)}\b.* kept: ", reported)}
        if kept:
            raise WrongError(f"gc --yes leaves {sorted(kept)}")

    def _run(self, *arguments: str) -> str:
        """Runs a command that must succeed, and returns its output."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            code = run_command(arguments)
        self._output.append(printed.getvalue())
        if code:
            raise WrongError(f"{' '.join(arguments)} failed")
        return printed.getvalue()

    def _await_end_of_jobs(self) -> None:
        """Waits until no job runs, such as one whose launcher has been killed."""
        deadline = time.monotonic() + JOB_SECONDS
        while self._num_jobs():
            if time.monotonic() > deadline:
                raise WrongError(f"its job still runs after {JOB_SECONDS} s")
            time.sleep(0.2)

    def _num_jobs(self) -> int:
        """Returns the number of jobs that have not ended; 1 if the JobManager does not say."""
        with contextlib.suppress(OSError):
            return sum(job["state"] not in ENDED for job in self._jobs())
        return 1

    def _jobs(self) -> list[dict[str, Any]]:
        jobs: list[dict[str, Any]] = self.cluster.ask("jobs/overview")["jobs"]
        return jobs

    def _restore(self) -> None:
        """Ends jobs that hang, and starts whatever does not run."""
        if self.store is not None:
            self.store.send_signal(signal.SIGCONT)
        for server in SERVERS:
            if not self.cluster.running(server):
                self.cluster.restart(server)
        self._cancel_jobs()
        self.cluster.await_free_slots()

    def _cancel_jobs(self) -> None:
        """Cancels all jobs."""
        for job in self._jobs():
            if job["state"] not in ENDED:
                with contextlib.suppress(HTTPError):  # of a job that has just ended
                    self.cluster.ask(f"jobs/{job['jid']}?mode=cancel", method="PATCH")


def check_output(code: int, output: str, *, is_killed: bool = False) -> None:
    """Checks that a command that fails ends with one message, without a stack.

    Args:
        code: its exit code.
        output: what it has printed.
        is_killed: whether it was killed, and so says nothing.
    """
    messages = [line for line in output.splitlines() if line.startswith("beam-datasets: ")]
    if "Traceback" in output or _JAVA.search(output):
        raise WrongError("there is a stack")
    if len(messages) != (code != 0 and not (is_killed and code < 0)):
        raise WrongError(f"exit code {code} and {len(messages)} messages")
    if messages and len(output[output.index(messages[0]) :]) > MAX_MESSAGE:
        raise WrongError("the message is long")


def children(pid: int) -> list[int]:
    """Returns the processes that the threads of a process have started; none if it has ended."""
    texts = []
    for path in Path("/proc", str(pid), "task").glob("*/children"):
        with contextlib.suppress(OSError):
            texts.append(path.read_text())
    return [int(child) for text in texts for child in text.split()]


def table(outcomes: Sequence[Outcome]) -> str:
    """Returns a table of the outcomes for each victim."""
    rows = [("victim", "builds", *OUTCOMES, "seconds, median")]
    for victim in [*dict.fromkeys(outcome.victim for outcome in outcomes), "all"]:
        own = [outcome for outcome in outcomes if victim in (outcome.victim, "all")]
        kinds = Counter(outcome.kind for outcome in own)
        seconds = sorted(outcome.seconds for outcome in own)[len(own) // 2]
        rows.append((victim, str(len(own)), *(str(kinds[kind]) for kind in OUTCOMES), f"{seconds:.0f}"))
    return "\n".join("  ".join(cell.rjust(12) for cell in row) for row in rows)


@contextlib.contextmanager
def killing(folder: Path, seed: int, *, is_highly_available: bool) -> Iterator[Killing]:
    """Runs an S3 server, if it can be built, and a cluster, whose workers find the server by their environment."""
    run("build", NUMBERS, *OPTIONS, "--data_dir", str(folder / "local"))
    expected = digests(folder / "local" / "numbers" / "1.0.0")
    options: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        if (program := versitygw(build=True)) is not None:
            store = stack.enter_context(versity_store(program, folder))
            os.environ.update(store.env)
            [bucket] = folder.glob(f"versity-*/{BUCKET}")
            options = {"store": store.process, "store_url": store.url, "bucket": bucket}
        settings = {"is_highly_available": is_highly_available}
        cluster = stack.enter_context(flink.running(folder / "cluster", **settings))
        yield Killing(cluster, folder, expected, random.Random(seed), **options)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; the exit code is 1 if a build is wrong."""
    parser = argparse.ArgumentParser(
        "flink_kills.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="new directory for data, logs and outputs")
    parser.add_argument("--count", type=int, default=10, help="number of builds; default 10")
    parser.add_argument("--seed", type=int, default=0, help="of the times and victims; default 0")
    parser.add_argument("--victim", action="append", choices=VICTIMS, help="what is killed; default: each in turn")
    parser.add_argument("--available", action="store_true", help="with high availability of the JobManager")
    arguments = parser.parse_args(argv)
    folder = arguments.folder.absolute()
    folder.mkdir(parents=True)
    outcomes = []
    victims = arguments.victim or VICTIMS
    with killing(folder, arguments.seed, is_highly_available=arguments.available) as builds:
        for number in range(arguments.count):
            victim = victims[number % len(victims)]
            if victim == "store" and builds.store is None:
                continue
            outcome = builds.build(number, victim)
            outcomes.append(outcome)
            print(
                f"{number:3d} {outcome.victim:11s} {outcome.kind:10s} {outcome.seconds:5.0f} s, "
                f"killed at {outcome.moment} {outcome.problem}",
                flush=True,
            )
    print(table(outcomes))
    return int(any(outcome.kind == "wrong" for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
