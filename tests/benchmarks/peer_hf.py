"""Hugging Face datasets: Arrow files, which keep the order they are given."""

from __future__ import annotations

import os
import shutil
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

import datasets
import steps
from datasets import Value
from PIL import Image
from steps import Job, Step, loader_steps
from torch_loader import loader
from workloads import EMBEDDING_SIZE, FLOATS, INTEGERS, TWO_FEATURES
from workloads import ONE_FEATURE as FEATURE_OF

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

PACKAGES = ("datasets", "pyarrow", "torch")
SYSTEM = "Hugging Face datasets"
OPENING = """
import datasets
dataset = datasets.load_from_disk(f"{directory}/saved").with_format("numpy")
length, first = len(dataset), dataset[0]
"""
INT, FLOAT, STRING = Value("int64"), Value("float32"), Value("string")
FEATURES = {
    "digits": {"image": datasets.Image(), "label": INT},
    "photos": {"image": datasets.Image(), "label": INT},
    "text": {"text": STRING, "url": STRING},
    "tabular": {**dict.fromkeys(FLOATS, FLOAT), **dict.fromkeys(INTEGERS, INT), "label": INT},
    "tokens": {"tokens": datasets.List(INT), "embedding": datasets.List(FLOAT, length=EMBEDDING_SIZE)},
    "kilobyte": {"data": Value("binary")},
}


def _picture(image: Any) -> Any:
    if image.shape[-1] == 1:
        return image[..., 0]
    Image.fromarray(image).save(file := BytesIO(), "JPEG", quality=88)
    return {"bytes": file.getvalue(), "path": None}


def _rows(job: Job, parts: list[int], count: int) -> Iterator[dict[str, Any]]:
    for part in parts:
        for _, row in job.rows(part, count):
            if "image" in row:
                row["image"] = _picture(row["image"])
            yield row


def _generate(job: Job, *, processes: int | None = None) -> Callable[[], int]:
    datasets.disable_progress_bars()
    count = processes or 1

    def run() -> int:
        made = datasets.Dataset.from_generator(
            partial(_rows, job, count=count),
            features=datasets.Features(FEATURES[job.workload]),
            gen_kwargs={"parts": list(range(count))},
            cache_dir=os.path.join(job.directory, "cache"),
            num_proc=processes,
        )
        made.save_to_disk(os.path.join(job.directory, "saved"), num_proc=processes)
        return job.count

    return run


def _load(job: Job) -> Any:
    datasets.disable_progress_bars()
    return datasets.load_from_disk(os.path.join(job.directory, "saved"))


def _dataset(job: Job, only: Collection[str] = ()) -> Any:
    dataset = _load(job)
    return (dataset.select_columns(list(only)) if only else dataset).with_format("numpy")


def _one_by_one(job: Job, *, only: Collection[str] = ()) -> Callable[[], Iterable[Any]]:
    dataset = _dataset(job, only)
    return lambda: dataset


def _batches(job: Job, *, size: int = steps.BATCH_SIZE, only: Collection[str] = ()) -> Callable[[], Iterable[Any]]:
    dataset = _dataset(job, only)
    return lambda: dataset.iter(size)


def _loader(job: Job, workers: int, function: Callable[..., Any]) -> Any:
    return loader(_dataset(job), workers, function)


def _at_random(job: Job) -> Callable[[], Iterable[Any]]:
    dataset, picks = _dataset(job), job.picks()
    return lambda: (dataset[i] for i in picks)


def _to_pandas(job: Job) -> Callable[[], int]:
    dataset = _load(job)
    return lambda: len(dataset.to_pandas())


def _save(job: Job, *, parts: int) -> Callable[[], int]:
    dataset, target, count = _load(job), os.path.join(job.directory, "copies"), job.count // parts
    shutil.rmtree(target, ignore_errors=True)

    def run() -> int:
        dataset.select(range(count)).save_to_disk(target)
        return count

    return run


STEPS = {
    "generate": Step(SYSTEM, steps.GENERATE, _generate),
    "generate_parallel": Step(f"{SYSTEM}, a process a core", steps.GENERATE, partial(_generate, processes=steps.CORES)),
    "one_by_one": Step(SYSTEM, steps.ONE_BY_ONE, _one_by_one),
    "batches": Step(SYSTEM, steps.BATCHES, _batches),
    "large_batches": Step(SYSTEM, steps.LARGE_BATCHES, partial(_batches, size=steps.LARGE_BATCH_SIZE)),
    "at_random": Step(SYSTEM, steps.RANDOM, _at_random),
    "one_feature": Step(SYSTEM, steps.ONE_FEATURE, lambda job: _one_by_one(job, only=[FEATURE_OF[job.workload]])),
    "partial": Step(SYSTEM, steps.PARTIAL, partial(_one_by_one, only=TWO_FEATURES)),
    "partial_batches": Step(SYSTEM, steps.PARTIAL_BATCHES, partial(_batches, only=TWO_FEATURES)),
    "to_pandas": Step(f"{SYSTEM}, pandas", steps.TABLE, _to_pandas),
    "open": steps.open_step(SYSTEM, OPENING),
    "materialize": Step(f"{SYSTEM}, save_to_disk", steps.MATERIALIZE, partial(_save, parts=1)),
    "materialize_tenth": Step(f"{SYSTEM}, save_to_disk", steps.MATERIALIZE_TENTH, partial(_save, parts=10)),
    **loader_steps(SYSTEM, _loader),
}
