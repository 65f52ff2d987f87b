"""LitData: chunks of pickled rows, which keep the order they are given; images are in them as files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import imagecodecs
import litdata
import numpy as np
import steps
from litdata.streaming import downloader
from remote import remote_steps
from steps import Job, Step, loader_steps
from torch_loader import loader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PACKAGES = ("litdata", "imagecodecs")
SYSTEM = "LitData"
OPENING = """
import litdata
dataset = litdata.StreamingDataset(f"{directory}/chunks")
length, first = len(dataset), dataset[0]
"""


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim == 3:
        is_gray = value.shape[-1] == 1
        return (
            imagecodecs.png_encode(value[..., 0])
            if is_gray
            else imagecodecs.jpeg8_encode(np.ascontiguousarray(value), level=88)
        )
    return value.item() if isinstance(value, np.generic) else value


def _rows(part: int, job: Job) -> Iterator[dict[str, Any]]:
    for _, row in job.rows(part, steps.CORES):
        yield {name: _plain(value) for name, value in row.items()}


def _generate(job: Job) -> Callable[[], int]:
    def run() -> int:
        litdata.optimize(
            partial(_rows, job=job),
            list(range(steps.CORES)),
            f"{job.directory}/chunks",
            chunk_bytes="64MB",
            num_workers=steps.CORES,
            verbose=False,
        )
        return job.count

    return run


def _example(row: dict[str, Any]) -> dict[str, Any]:
    if "image" in row:
        image = bytes(row["image"])
        row["image"] = imagecodecs.imread(image, codec=["png" if image[:4] == b"\x89PNG" else "jpeg8"])
    return row


def _dataset(job: Job) -> Any:
    return litdata.StreamingDataset(f"{job.directory}/chunks")


def _one_by_one(job: Job) -> Callable[[], Iterable[Any]]:
    dataset = _dataset(job)
    return lambda: map(_example, dataset)


def _load(job: Job, workers: int, function: Callable[..., Any]) -> Any:
    return loader(_dataset(job), workers, _example, function, kind=litdata.StreamingDataLoader)


def _remote(job: Job, url: str, cache: str) -> Any:
    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True  # there is no option for it
    dataset = litdata.StreamingDataset(f"{url}/chunks", cache_dir=cache, max_pre_download=8)
    return loader(dataset, steps.CORES, _example, kind=litdata.StreamingDataLoader)


def _at_random(job: Job) -> Callable[[], Iterable[Any]]:
    dataset, picks = _dataset(job), job.picks()
    return lambda: (_example(dataset[i]) for i in picks)


STEPS = {
    "generate": Step(f"{SYSTEM}, a process a core", steps.GENERATE, _generate),
    "one_by_one": Step(SYSTEM, steps.ONE_BY_ONE, _one_by_one),
    "at_random": Step(SYSTEM, steps.RANDOM, _at_random),
    "open": steps.open_step(SYSTEM, OPENING),
    **loader_steps(SYSTEM, _load),
    **remote_steps(f"{SYSTEM}, a worker a core", _remote),
}
