"""Whether the systems read the same values: sums of columns, which do not depend on the order.

The sum of a column is that of the CRC-32 of each value: of its bytes as int64, as float32 or as text.

    python checks.py MODULE ROWS DIRECTORY WORKLOAD...

generates rows with a system, in its own environment, reads them in every way, and prints a line of JSON for each way.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
from steps import BATCHED, ONE_BY_ONE, ONE_FEATURE, PARTIAL, PARTIAL_BATCHES, Job
from tasks import CHECKED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SOME_FEATURES = (ONE_FEATURE, PARTIAL, PARTIAL_BATCHES)
WEBDATASET = {"png": "image", "cls": "label", "txt": "text", "url.txt": "url", "bin": "data"}


def main(module_name: str, rows: str, directory: str, *workloads: str) -> None:
    """Prints {"system", "workload", "way", "wrong"} for each way: which columns are not what was generated."""
    module = importlib.import_module(module_name)
    for workload in workloads:
        jobs: dict[str, Job] = {}
        expected = sums((row for _, row in Job(workload, int(rows), "").rows()), ONE_BY_ONE)
        for task in CHECKED:
            if task.module == module_name and workload in task.workloads and task.source:
                step, source = module.STEPS[task.step], task.source.step
                line = {"system": step.system, "workload": workload, "way": step.way}
                try:
                    if source not in jobs:
                        job = Job(workload, int(rows), os.path.join(directory, workload, source))
                        os.makedirs(job.directory)
                        module.STEPS[source].prepare(job)()
                        jobs[source] = job
                    found = sums(step.prepare(jobs[source])(), step.way)
                    names: Any = found.keys() if step.way in SOME_FEATURES else expected.keys() | found.keys()
                    names = names - {"image"} if workload == "photos" else names  # JPEG loses some bits
                    wrong = [name or "the number of rows" for name in names if found.get(name) != expected.get(name)]
                except Exception as error:  # of any system; it is told of, and the next comes
                    traceback.print_exc()
                    wrong = [repr(error)]
                print(json.dumps(line | {"wrong": wrong}), flush=True)


def sums(items: Iterable[Any], way: str) -> dict[str, int]:
    """Returns {feature: sum} and the number of rows as {"": rows}, of what a step that reads yields."""
    found = {"": 0}
    for row in _rows(items) if way in BATCHED else items:
        found[""] += 1
        for name, value in _named(row):
            found[name] = found.get(name, 0) + zlib.crc32(_plain(value, name))
    return found


def _rows(batches: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        if isinstance(batch, list):
            yield from batch
        else:
            yield from (dict(zip(batch, values)) for values in zip(*batch.values()))


def _named(row: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in row.get("json", row).items():
        if not name.startswith("__"):
            yield WEBDATASET.get(name, name.removesuffix(".npy")), value


def _plain(value: Any, name: str) -> bytes:
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    array = np.asarray(value).ravel()
    if array.dtype.kind in "OSU":
        return _plain(array[0], name)
    if name == "tokens":
        array = np.trim_zeros(array, "b")  # batches of them may be padded
    return array.astype(np.float32 if array.dtype.kind == "f" else np.int64).tobytes()


if __name__ == "__main__":
    main(*sys.argv[1:])
