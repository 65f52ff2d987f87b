"""Runs one step of one system once, in a process of its own and in the system's environment; `run.py` starts it.

    python measure.py '{"module": "ours", "step": "generate", "workload": "text", "count": 1000, "directory": "/tmp/x"}'

Prints a line of JSON: system, workload, way, examples, seconds, processor_seconds.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import sys
import tempfile
import time
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from steps import RANDOM, WRITING, Job, counted, drain


def main(text: str) -> None:
    """Measures what a text says."""
    given = json.loads(text)
    module = importlib.import_module(given["module"])
    step = module.STEPS[given["step"]]
    shards = given.get("num_shards")
    job = Job(given["workload"], given["count"], given["directory"], shards)
    system = f"{step.system}, {shards:,} shard{'s' * (shards > 1)}" if shards else step.system
    line = {"system": system, "workload": job.workload, "way": step.way}
    run = step.prepare(job)
    size = _read_through(job.directory)
    if step.way in WRITING:
        _provide_memory(job.directory, size)
    count = len(job.picks()) if step.way == RANDOM else job.count
    line |= _timed(run, step.way, step.warm, count, given.get("seconds"))
    line["versions"] = {package: metadata.version(package) for package in module.PACKAGES}
    print(json.dumps(line), flush=True)


def _read_through(directory: str) -> int:
    """Reads all files once, so that they are in the page cache for whoever comes first, too; returns their size."""
    size = 0
    for path in Path(directory).rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while some := file.read(1 << 20):
                    size += len(some)
    return size


def _provide_memory(directory: str, size: int) -> None:
    """Has the page cache grow once by so many bytes.

    A virtual machine may have to get memory from its host first, which takes several times as long as to copy files.
    """
    with tempfile.TemporaryFile(dir=directory) as file:
        for start in range(0, size, 1 << 20):
            file.write(bytes(min(1 << 20, size - start)))


def _timed(run: Any, way: str, warm: int, count: int, seconds: float | None) -> dict[str, Any]:
    os.sync()  # what was written before is not paid for here
    if warm:
        items = iter(run())
        count -= counted(items, way, warm)
        run = partial(iter, items)
    start, worked = time.perf_counter(), _processor_seconds()
    made = run()
    examples, whole = (made, False) if isinstance(made, int) else drain(made, way, seconds or math.inf)
    passed, worked = time.perf_counter() - start, _processor_seconds() - worked
    if whole and examples != count:
        raise ValueError(f"{examples:,} examples were read; there are {count:,}.")
    return {"examples": examples, "seconds": passed, "processor_seconds": worked}


def _processor_seconds() -> float:
    """Returns the processor time of this process and its descendants, ended ones included; 0 without /proc."""
    parents, ticks = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            pid, fields = int(path.parent.name), path.read_text().rpartition(")")[2].split()
            parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))

    def is_ours(pid: int) -> bool:
        return pid == os.getpid() or (pid in parents and is_ours(parents[pid]))

    return float(sum(ticks[pid] for pid in ticks if is_ours(pid)) / os.sysconf("SC_CLK_TCK"))


if __name__ == "__main__":
    main(sys.argv[1])
