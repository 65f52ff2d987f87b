"""Hugging Face datasets: Arrow files, which keep the order they are given."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import datasets
from datasets import Value
from steps import (
    BATCH_SIZE,
    BATCHES,
    CORES,
    GENERATE,
    ONE_BY_ONE,
    ONE_FEATURE,
    RANDOM,
    Job,
    Step,
    drain,
    drain_batches,
)
from workloads import EMBEDDING_SIZE, FLOATS, INTEGERS
from workloads import ONE_FEATURE as FEATURE_OF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PACKAGES = ("datasets", "pyarrow")
SYSTEM = "Hugging Face datasets"
INT, FLOAT, STRING = Value("int64"), Value("float32"), Value("string")
FEATURES = {
    "digits": {"image": datasets.Image(), "label": INT},
    "text": {"text": STRING, "url": STRING},
    "tabular": {**dict.fromkeys(FLOATS, FLOAT), **dict.fromkeys(INTEGERS, INT), "label": INT},
    "tokens": {"tokens": datasets.List(INT), "embedding": datasets.List(FLOAT, length=EMBEDDING_SIZE)},
    "kilobyte": {"data": Value("binary")},
}


def _rows(job: Job, parts: list[int], count: int) -> Iterator[dict[str, Any]]:
    for part in parts:
        for _, row in job.rows(part, count):
            if "image" in row:
                row["image"] = row["image"][..., 0]
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


def _dataset(job: Job) -> Any:
    return datasets.load_from_disk(os.path.join(job.directory, "saved")).with_format("numpy")


def _one_by_one(job: Job) -> Callable[[], int]:
    dataset = _dataset(job)
    return lambda: drain(dataset)


def _batches(job: Job) -> Callable[[], int]:
    dataset = _dataset(job)
    return lambda: drain_batches(dataset.iter(BATCH_SIZE))


def _at_random(job: Job) -> Callable[[], int]:
    dataset, picks = _dataset(job), job.picks()
    return lambda: drain(dataset[i] for i in picks)


def _one_feature(job: Job) -> Callable[[], int]:
    dataset = _dataset(job).select_columns([FEATURE_OF[job.workload]])
    return lambda: drain(dataset)


STEPS = {
    "generate": Step(SYSTEM, GENERATE, _generate),
    "generate_parallel": Step(f"{SYSTEM}, a process a core", GENERATE, partial(_generate, processes=CORES)),
    "one_by_one": Step(SYSTEM, ONE_BY_ONE, _one_by_one),
    "batches": Step(SYSTEM, BATCHES, _batches),
    "at_random": Step(SYSTEM, RANDOM, _at_random),
    "one_feature": Step(SYSTEM, ONE_FEATURE, _one_feature),
}
