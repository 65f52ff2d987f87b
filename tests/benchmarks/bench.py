"""Runs tasks, each in a process and an environment of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from environments import VARIABLES
from memory import PeakMemory
from report import Measurement
from tasks import ENVIRONMENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tasks import Task

MEASURE, CHECKS = (str(Path(__file__).with_name(name)) for name in ("measure.py", "checks.py"))
LONGEST = 1800  # seconds that a step may take


@dataclass(frozen=True)
class Bench:
    """Runs tasks.

    Attributes:
        directory: where datasets are put; what is generated to be measured goes at once.
        pythons: environment -> interpreter.
        memory: whether memory is watched.
        seconds: how long a pass of reading takes at most; None for all rows.
        failures: what failed, in words; the run goes on.
    """

    directory: Path
    pythons: dict[str, str]
    memory: bool = False
    seconds: float | None = None
    failures: list[str] = field(default_factory=list)

    def run(self, tasks: Sequence[Task], workload: str, rows: int, repeat: int = 1) -> list[Measurement]:
        """Returns the measurements of tasks on one workload: each once, then each once again, and so on."""
        made, measurements = self._sources(tasks, workload, rows), []
        for _ in range(repeat):
            for task in tasks:
                if task.source and task.source not in made:
                    continue
                directory = made[task.source] if task.source else self.directory / "generated"
                line = self.measure(task, workload, task.rows(rows), directory)
                shutil.rmtree(self.directory / "generated", ignore_errors=True)
                shutil.rmtree(directory / "copies", ignore_errors=True)
                if line:
                    measurements.append(Measurement(**line))
        return measurements

    def check(self, module: str, rows: int, workloads: Sequence[str]) -> list[dict[str, Any]]:
        """Returns what `checks.py` says of a module: a line for each step that reads."""
        environment = self.pythons[ENVIRONMENTS.get(module, "")]
        return self._started([environment, CHECKS, module, rows, self.directory / module, *workloads], module)

    def _sources(self, tasks: Sequence[Task], workload: str, rows: int) -> dict[Any, Path]:
        made = {}
        for source in dict.fromkeys(task.source for task in tasks if task.source):
            directory = self.directory / f"{source.name}-{source.num_shards or ''}"
            if self.measure(source, workload, source.rows(rows), directory):
                made[source] = directory
        os.sync()
        return made

    def measure(self, task: Task, workload: str, rows: int, directory: Path) -> dict[str, Any]:
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
        return process.communicate(timeout=LONGEST)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        printed, errors = process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return printed, f"{errors}\nIt took longer than {LONGEST} s."
