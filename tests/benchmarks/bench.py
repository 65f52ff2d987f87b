"""Runs tasks, each in a process and an environment of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from environments import VARIABLES
from memory import PeakMemory
from report import Measurement
from tasks import ENVIRONMENTS

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from tasks import Task

    Made = tuple[Task, str, int]

MEASURE, CHECKS = (str(Path(__file__).with_name(name)) for name in ("measure.py", "checks.py"))
MAX_SECONDS = 1800  # seconds that a step may take


@dataclass
class Bench:
    """Runs tasks.

    Attributes:
        directory: where datasets are put.
        pythons: environment -> interpreter.
        wanted: what later commands read, and therefore stays: generating task, workload, rows.
        memory: whether memory is watched.
        seconds: how long a pass of reading takes at most; None for all rows.
        failures: what failed, in words; the run goes on.
    """

    directory: Path
    pythons: dict[str, str]
    wanted: frozenset[Made] = frozenset()
    memory: bool = False
    seconds: float | None = None
    failures: list[str] = field(default_factory=list)
    _made: set[Made] = field(default_factory=set)

    def run(self, tasks: Sequence[Task], workload: str, rows: int, repeat: int = 1) -> Iterator[Measurement]:
        """Yields the measurements of tasks on one workload: each once, then each once again, and so on."""
        sources = dict.fromkeys(task.source for task in tasks if task.source)
        stay = self.wanted | {(source, workload, source.rows(rows)) for source in sources}
        for source in sources:
            if source not in tasks and (source, workload, source.rows(rows)) not in self._made:
                self._generate(source, workload, source.rows(rows), stay)
        os.sync()
        for _ in range(repeat):
            for task in tasks:
                count = task.rows(rows)
                line = self._read(task, workload, rows) if task.source else self._generate(task, workload, count, stay)
                if line:
                    yield Measurement(**line)
        for made in [made for made in self._made if made[1] == workload and made not in self.wanted]:
            self._remove(made)

    def _generate(self, task: Task, workload: str, rows: int, stay: Container[Made]) -> dict[str, Any]:
        made = task, workload, rows
        self._remove(made)
        line = self._measure(task, workload, rows, self._place(made))
        self._made.add(made)
        if not line or made not in stay:
            self._remove(made)
        return line

    def _read(self, task: Task, workload: str, rows: int) -> dict[str, Any]:
        source: Task = task.source  # type: ignore[assignment]
        made = source, workload, source.rows(rows)
        if made not in self._made:
            return {}
        directory = self._place(made)
        line = self._measure(task, workload, task.rows(rows), directory)
        self._put_away(directory / "copies")
        return line

    def _place(self, made: Made) -> Path:
        task, workload, rows = made
        return self.directory / f"{task.name}-{task.num_shards or ''}-{workload}-{rows}"

    def _remove(self, made: Made) -> None:
        self._put_away(self._place(made))
        self._made.discard(made)

    def _put_away(self, directory: Path) -> None:
        """Empties what is in a directory and leaves it to be removed with all the others.

        Where files were removed in the last minutes, ext4 without a journal looks at each again whenever it makes one.
        """
        if not directory.exists():
            return
        for path in directory.rglob("*"):
            if path.is_file() and not path.is_symlink():
                os.truncate(path, 0)
        directory.rename(Path(tempfile.mkdtemp(dir=self.directory), directory.name))

    def check(self, module: str, rows: int, workloads: Sequence[str]) -> list[dict[str, Any]]:
        """Returns what `checks.py` says of a module: a line for each step that reads."""
        environment = self.pythons[ENVIRONMENTS.get(module, "")]
        return self._started([environment, CHECKS, module, rows, self.directory / module, *workloads], module)

    def _measure(self, task: Task, workload: str, rows: int, directory: Path) -> dict[str, Any]:
        """Runs a step and returns what it printed; {} where it failed."""
        directory.mkdir(parents=True, exist_ok=True)
        given = {"module": task.module, "step": task.step, "workload": workload, "count": rows}
        given |= {"directory": str(directory), "num_shards": task.num_shards, "seconds": self.seconds}
        lines = self._started(
            [self.pythons[task.environment], MEASURE, json.dumps(given)], f"{task.name} of {workload}"
        )
        for line in lines:
            rate = line["examples"] / line["seconds"]
            print(f"{workload:9} {line['way']:44} {rate:12,.0f} /s  {line['system']}", file=sys.stderr, flush=True)
        return lines[-1] if lines else {}

    def _started(self, command: list[Any], what: str) -> list[dict[str, Any]]:
        """Returns the lines of JSON that a process prints; none if it fails."""
        process = subprocess.Popen(
            [*map(str, command)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | VARIABLES,
            start_new_session=True,
        )
        with PeakMemory(process.pid) if self.memory else contextlib.nullcontext() as peak:
            printed, errors = _finish(process)
        lines = [json.loads(line) for line in printed.splitlines() if line.startswith('{"system"')]
        if process.returncode or not lines:
            self.failures.append(what)
            print(f"{what} failed\n{errors[-2000:]}", file=sys.stderr, flush=True)
            return []
        return [line | ({"peak_memory": peak.bytes} if peak else {}) for line in lines]


def _finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Waits for a process; one that takes too long, or is waited for no longer, is ended with those it started."""
    try:
        return process.communicate(timeout=MAX_SECONDS)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        printed, errors = process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return printed, f"{errors}\nIt took longer than {MAX_SECONDS} s."
