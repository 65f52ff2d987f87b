"""MosaicML Streaming: its MDS files, which keep the order they are given."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image
from remote import remote_steps
from steps import BATCH_SIZE, CORES, GENERATE, ONE_BY_ONE, RANDOM, RAW, Job, Step, loader_steps, open_step
from streaming import LocalDataset, MDSWriter, StreamingDataset
from streaming.base.util import merge_index
from torch_loader import loader
from workloads import EMBEDDING_SIZE, FLOATS, INTEGERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PACKAGES = ("mosaicml-streaming", "torch")
SYSTEM = "MosaicML MDS"
OPENING = """
from streaming import LocalDataset
dataset = LocalDataset(directory)
length, first = len(dataset), dataset[0]
"""
COLUMNS = {
    "digits": {"image": "png", "label": "int"},
    "photos": {"image": "bytes", "label": "int"},
    "text": {"text": "str", "url": "str"},
    "tabular": {**dict.fromkeys(FLOATS, "float32"), **dict.fromkeys(INTEGERS, "int"), "label": "int"},
    "tokens": {"tokens": "ndarray:int64", "embedding": f"ndarray:float32:{EMBEDDING_SIZE}"},
    "kilobyte": {"data": "bytes"},
}


def _write(job: Job, directory: str, part: int, parts: int) -> None:
    with MDSWriter(out=directory, columns=COLUMNS[job.workload]) as writer:
        for _, row in job.rows(part, parts):
            if job.workload == "digits":
                row["image"] = Image.fromarray(row["image"][..., 0])
            elif "image" in row:
                Image.fromarray(row["image"]).save(file := BytesIO(), "JPEG", quality=88)
                row["image"] = file.getvalue()
            writer.write(row)


def _generate(job: Job) -> Callable[[], int]:
    def run() -> int:
        _write(job, job.directory, 0, 1)
        return job.count

    return run


def _generate_parallel(job: Job) -> Callable[[], int]:
    def run() -> int:
        with ProcessPoolExecutor(CORES) as pool:
            parts = [
                pool.submit(_write, job, os.path.join(job.directory, str(part)), part, CORES) for part in range(CORES)
            ]
            for part in parts:
                part.result()
        merge_index(job.directory)
        return job.count

    return run


def _example(row: dict[str, Any]) -> dict[str, Any]:
    if "image" in row:
        image = row["image"]
        row["image"] = np.asarray(Image.open(BytesIO(image)) if isinstance(image, bytes) else image)  # decodes it
    return row


def _one_by_one(job: Job) -> Callable[[], Iterable[Any]]:
    dataset = LocalDataset(job.directory)
    return lambda: (_example(dataset[i]) for i in range(len(dataset)))


def _at_random(job: Job) -> Callable[[], Iterable[Any]]:
    dataset, picks = LocalDataset(job.directory), job.picks()
    return lambda: (_example(dataset[i]) for i in picks)


def _load(job: Job, workers: int, function: Callable[..., Any]) -> Any:
    return loader(LocalDataset(job.directory), workers, _example, function)


def _remote(job: Job, url: str, cache: str) -> Any:
    dataset = StreamingDataset(remote=url, local=cache, batch_size=BATCH_SIZE, num_canonical_nodes=1)
    return loader(dataset, CORES, _example)


def _raw(job: Job) -> Callable[[], Iterable[Any]]:
    shards = LocalDataset(job.directory).shards
    return lambda: (shard.get_sample_data(i) for shard in shards for i in range(shard.size))


STEPS = {
    "generate": Step(SYSTEM, GENERATE, _generate),
    "generate_parallel": Step(f"{SYSTEM}, a process a core", GENERATE, _generate_parallel),
    "one_by_one": Step(SYSTEM, ONE_BY_ONE, _one_by_one),
    "at_random": Step(SYSTEM, RANDOM, _at_random),
    "raw": Step(f"{SYSTEM}, no CRC", RAW, _raw),
    "open": open_step(SYSTEM, OPENING),
    **loader_steps(SYSTEM, _load),
    **remote_steps(f"{SYSTEM}, a worker a core", _remote),
}
