"""Measures beam_datasets, alone or beside its peers; docs/performance.md says how and holds the tables.

python tests/benchmarks/run.py generate read --peers
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import report
from environments import REQUIREMENTS, VARIABLES, python_of
from memory import PeakMemory
from workloads import ONE_FEATURE, WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).parent
ENVIRONMENTS = {"peer_tfds": "tfds", "peer_mds": "torch", "peer_webdataset": "torch", "peer_hf": "hf"}  # of modules
EVERY, KILOBYTE, SEVERAL_FEATURES = tuple(WORKLOADS), ("kilobyte",), tuple(ONE_FEATURE)


@dataclass(frozen=True)
class Task:
    """A step to be measured.

    Attributes:
        module: of this directory.
        step: of the module's STEPS.
        reads: the step that generates what this one reads; "" where it generates itself.
        workloads: those that make sense.
        num_shards: to generate; None for the system's default.
    """

    module: str
    step: str
    reads: str = ""
    workloads: tuple[str, ...] = EVERY
    num_shards: int | None = None

    @property
    def environment(self) -> str:
        """Key of REQUIREMENTS; "" for the environment of this process."""
        return ENVIRONMENTS.get(self.module, "")


# What a table compares stands together, ours first.
TASKS = {
    "generate": (
        Task("ours", "generate_beam"),
        Task("ours", "generate"),
        Task("peer_tfds", "generate_beam"),
        Task("peer_tfds", "generate_beam_parallel"),
        Task("peer_tfds", "generate"),
        Task("peer_tfds", "generate_array_record"),
        Task("peer_mds", "generate"),
        Task("peer_mds", "generate_parallel"),
        Task("peer_webdataset", "generate"),
        Task("peer_hf", "generate"),
        Task("peer_hf", "generate_parallel"),
        *(Task("plain", step, workloads=KILOBYTE) for step in ("generate", "crc", "cp", "memcpy")),
    ),
    "read": (
        Task("ours", "one_by_one", "generate_beam"),
        Task("peer_tfds", "one_by_one", "generate"),
        Task("peer_tfds", "array_record_one_by_one", "generate_array_record"),
        Task("peer_mds", "one_by_one", "generate"),
        Task("peer_webdataset", "one_by_one", "generate"),
        Task("peer_hf", "one_by_one", "generate"),
        Task("plain", "one_by_one", "generate", KILOBYTE),
        Task("ours", "batches", "generate_beam"),
        Task("peer_tfds", "batches", "generate"),
        Task("peer_tfds", "array_record_batches", "generate_array_record"),
        Task("peer_hf", "batches", "generate"),
        Task("ours", "at_random", "generate_beam"),
        Task("peer_tfds", "array_record_at_random", "generate_array_record"),
        Task("peer_mds", "at_random", "generate"),
        Task("peer_hf", "at_random", "generate"),
        Task("ours", "one_feature", "generate_beam", SEVERAL_FEATURES),
        Task("peer_tfds", "one_feature", "generate", SEVERAL_FEATURES),
        Task("peer_hf", "one_feature", "generate", SEVERAL_FEATURES),
    ),
    "memory": (
        Task("ours", "generate_beam", workloads=KILOBYTE),
        Task("ours", "generate_beam", workloads=KILOBYTE, num_shards=1000),
    ),
}
ROWS = {"generate": 300_000, "read": 60_000, "memory": 10_000_000}
ROWS_OF_TOKENS = {"generate": 60_000, "read": 20_000}
REPEAT = {"generate": 3, "read": 3, "memory": 1}


@dataclass(frozen=True)
class Bench:
    """Runs tasks.

    Attributes:
        directory: where datasets are put; what is generated to be measured goes at once.
        pythons: environment -> interpreter.
        memory: whether memory is watched.
    """

    directory: Path
    pythons: dict[str, str]
    memory: bool

    def run(self, tasks: Sequence[Task], workload: str, rows: int, repeat: int) -> list[report.Measurement]:
        """Returns the measurements of tasks on one workload: each once, then each once again, and so on."""
        measurements = []
        for module, step in dict.fromkeys((task.module, task.reads) for task in tasks if task.reads):
            self._measure(Task(module, step), workload, rows, self.directory / f"{module}-{step}")
        for _ in range(repeat):
            for task in tasks:
                directory = self.directory / (f"{task.module}-{task.reads}" if task.reads else "generated")
                measurements += self._measure(task, workload, rows, directory)
                shutil.rmtree(self.directory / "generated", ignore_errors=True)
        return measurements

    def _measure(self, task: Task, workload: str, rows: int, directory: Path) -> list[report.Measurement]:
        directory.mkdir(parents=True, exist_ok=True)
        arguments = [task.module, task.step, workload, rows, directory, *([task.num_shards] if task.num_shards else [])]
        command = [self.pythons[task.environment], str(HERE / "measure.py"), *map(str, arguments)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | VARIABLES
        )
        with PeakMemory(process.pid) if self.memory else contextlib.nullcontext() as peak:
            printed, errors = process.communicate()
        if process.returncode:
            print(f"{workload}: {task.module} {task.step} failed\n{errors[-2000:]}", file=sys.stderr)
        lines = [json.loads(line) for line in printed.splitlines() if line.startswith('{"system"')]
        found = [report.Measurement(**line, peak_memory=peak.bytes if peak else 0) for line in lines]
        for m in found:
            print(f"{m.workload:9} {m.way:24} {m.rate:12,.0f} examples/s  {m.system}", file=sys.stderr, flush=True)
        return found


def main() -> None:
    """Runs the commands and prints their tables."""
    arguments = _parser().parse_args()
    peers = [] if arguments.peers is None else arguments.peers or REQUIREMENTS
    pythons = {name: python_of(name) for name in ("", *peers)}
    for command in arguments.commands:
        repeat, measurements, counts = arguments.repeat or REPEAT[command], [], {}
        for workload in arguments.workloads:
            tasks = [t for t in TASKS[command] if workload in t.workloads and t.environment in pythons]
            tasks = [t for t in tasks if f"{t.module}.{t.step}" not in arguments.skip]
            if not tasks:
                continue
            rows = arguments.rows or (workload == "tokens" and ROWS_OF_TOKENS.get(command)) or ROWS[command]
            counts[workload] = f"{workload} {rows:,}"
            with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
                bench = Bench(Path(directory), pythons, arguments.memory or command == "memory")
                measurements += bench.run(tasks, workload, rows, repeat)
        text = f"Rows: {', '.join(counts.values())}. The best of {repeat}.\n\n{report.tables(measurements)}\n"
        text += report.setting(measurements, shlex.join(["python", *sys.argv]))
        print(text)
        if arguments.markdown:
            report.put(text, arguments.markdown, command)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("commands", nargs="+", choices=TASKS, help="memory: 10 GB at the defaults")
    parser.add_argument("--peers", nargs="*", choices=REQUIREMENTS, help="beside other systems; these alone, or all")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--skip", nargs="+", default=[], metavar="MODULE.STEP", help="such as peer_tfds.generate")
    parser.add_argument("--rows", type=int, help="of every workload; by default as docs/performance.md says")
    parser.add_argument("--repeat", type=int, help="how many times each system runs")
    parser.add_argument("--memory", action="store_true", help="watch the peak memory; takes some of the processor")
    parser.add_argument("--directory", help="where datasets are put meanwhile; by default the one for temporary files")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="put the tables into a page, too")
    return parser


if __name__ == "__main__":
    main()
