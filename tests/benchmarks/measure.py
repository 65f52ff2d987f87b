"""Runs one step of one system and prints a line of JSON for each pass: system, workload, way, examples, seconds.

    python measure.py MODULE STEP WORKLOAD COUNT DIRECTORY [NUM_SHARDS]

It runs in the system's own environment; `run.py` starts it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from importlib import metadata

from steps import GENERATE, Job

READ_PASSES = 2  # the first also warms up


def main(module_name: str, step_name: str, workload: str, count: str, directory: str, *num_shards: str) -> None:
    module = importlib.import_module(module_name)
    step = module.STEPS[step_name]
    system = ", ".join([step.system, *(f"{int(number):,} shards" for number in num_shards)])
    run = step.prepare(Job(workload, int(count), directory, *map(int, num_shards)))
    versions = {package: metadata.version(package) for package in module.PACKAGES}
    for _ in range(1 if step.way == GENERATE else READ_PASSES):
        os.sync()  # what was written before is not paid for here
        start = time.perf_counter()
        examples = run()
        seconds = time.perf_counter() - start
        line = {"system": system, "workload": workload, "way": step.way, "examples": examples, "seconds": seconds}
        print(json.dumps(line | {"versions": versions}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
