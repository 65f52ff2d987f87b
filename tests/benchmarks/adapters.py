"""Measures what each adapter costs: microseconds of processor time of an example, of all processes together.

    python tests/benchmarks/adapters.py DIRECTORY [ROWS]

Makes three workloads in the directory, if they are not there, and prints a table of those ways whose framework is
installed: run it in each environment that has some. Starting and ending workers is not counted.
"""

from __future__ import annotations

import os
import resource
import sys
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from ours import STEPS, _directory
from steps import BATCH_SIZE, Job

import beam_datasets as bd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

WORKLOADS = ("digits", "tabular", "text")
ROWS, WARM = 100_000, 20  # examples; batches before the clock runs


def _torch(dataset: Any, *, num_workers: int = 0, batch_size: int | None = None, **options: Any) -> Iterable[Any]:
    from torch.utils.data import DataLoader

    return DataLoader(dataset.as_torch(**options), batch_size=batch_size, num_workers=num_workers)


def _grain(dataset: Any) -> Iterable[Any]:
    import grain

    return iter(grain.MapDataset.source(dataset.as_grain_source()).batch(BATCH_SIZE).to_iter_dataset())


def _jax(dataset: Any) -> Iterable[Any]:
    import jax

    for batch in dataset.batch(BATCH_SIZE):
        yield jax.device_put({name: array for name, array in batch.items() if array.dtype != object})


WAYS: dict[str, tuple[str, Callable[[Any], Iterable[Any]]]] = {
    "`for batch in ds.batch(256)`": ("numpy", lambda ds: ds.batch(BATCH_SIZE)),
    "PyTorch, `ds.batch(256)`": ("torch", lambda ds: _torch(ds.batch(BATCH_SIZE))),
    "PyTorch, `ds.batch(256)`, 2 workers": ("torch", lambda ds: _torch(ds.batch(BATCH_SIZE), num_workers=2)),
    "PyTorch, `DataLoader(batch_size=256)`": ("torch", partial(_torch, batch_size=BATCH_SIZE)),
    "PyTorch, `map_style=True`": ("torch", partial(_torch, batch_size=BATCH_SIZE, map_style=True)),
    "tf.data, `ds.batch(256)`": ("tensorflow", lambda ds: ds.batch(BATCH_SIZE).as_tf_dataset()),
    "Grain, `.batch(256)`": ("grain", _grain),
    "JAX, `ds.batch(256)`, numbers put on a device": ("jax", _jax),
}


def _processor_seconds() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    workers = (process.cpu_times() for process in psutil.Process().children())
    return own.ru_utime + own.ru_stime + sum(times.user + times.system for times in workers)


def _microseconds(dataset: Any, way: Callable[[Any], Iterable[Any]], rows: int) -> float:
    batches = iter(way(dataset))
    for _ in islice(batches, WARM):
        pass
    start, count = _processor_seconds(), 0
    for _ in islice(batches, rows // BATCH_SIZE - WARM - 1):
        count += BATCH_SIZE
    return (_processor_seconds() - start) / count * 1e6


def main(directory: str, rows: int = ROWS) -> None:
    """Prints the table."""
    datasets = []
    for workload in WORKLOADS:
        job = Job(workload, rows, os.path.join(directory, workload))
        if not Path(job.directory).exists():
            STEPS["generate_beam"].prepare(job)()
        datasets.append(bd.builder_from_directory(_directory(job)).as_dataset("train"))
    print("| way |", " | ".join(WORKLOADS), "|\n|---|" + "---:|" * len(WORKLOADS))
    for name, (module, way) in WAYS.items():
        if find_spec(module):
            best = [min(_microseconds(dataset, way, rows) for _ in range(3)) for dataset in datasets]
            print(f"| {name} | {' | '.join(f'{value:.2f}' for value in best)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
