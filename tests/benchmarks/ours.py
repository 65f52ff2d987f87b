"""beam_datasets: a builder of all workloads, and what is measured of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apache_beam as beam
import numpy as np
from steps import BATCH_SIZE, BATCHES, CORES, GENERATE, ONE_BY_ONE, ONE_FEATURE, RANDOM, Job, Step, drain, drain_batches
from workloads import EMBEDDING_SIZE, FLOATS, INTEGERS, WORKLOADS
from workloads import ONE_FEATURE as FEATURE_OF

import beam_datasets
from beam_datasets import BuilderConfig, DatasetBuilder, DatasetInfo, decode, features

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGES = ("beam_datasets", "apache-beam", "numpy", "protobuf")
SYSTEM = "beam_datasets"


class Benchmark(DatasetBuilder, skip_registration=True):
    """The rows of a job; its config is the workload."""

    VERSION = "1.0.0"
    BUILDER_CONFIGS = [BuilderConfig(name=name) for name in WORKLOADS]  # noqa: RUF012

    def __init__(self, job: Job, *, sources: int = 0) -> None:
        self.job, self.sources = job, sources
        super().__init__(data_dir=job.directory, config=job.workload)

    def _info(self) -> DatasetInfo:
        return DatasetInfo(builder=self, features=features.FeaturesDict(_features(self.job.workload)))

    def _split_generators(self) -> dict[str, Any]:
        if not self.sources:
            return {"train": self._generate_examples(0, 1)}
        parts = beam.Create(range(self.sources))
        return {"train": parts | beam.FlatMap(self._generate_examples, self.sources)}

    def _generate_examples(self, part: int, parts: int) -> Any:
        return self.job.rows(part, parts)


def _features(workload: str) -> dict[str, Any]:
    if workload == "digits":
        return {"image": features.Image(shape=(28, 28, 1)), "label": features.ClassLabel(num_classes=10)}
    if workload == "text":
        return {"text": features.Text(), "url": features.Text()}
    if workload == "tabular":
        numbers = dict.fromkeys(FLOATS, np.float32) | dict.fromkeys(INTEGERS, np.int64)
        return {**numbers, "label": features.ClassLabel(num_classes=2)}
    if workload == "tokens":
        embedding = features.Tensor(shape=(EMBEDDING_SIZE,), dtype=np.float32)
        return {"tokens": features.Sequence(np.int64), "embedding": embedding}
    return {"data": features.Scalar(dtype=np.bytes_)}


def _generate(sources: int) -> Callable[[Job], Callable[[], int]]:
    def prepare(job: Job) -> Callable[[], int]:
        builder = Benchmark(job, sources=sources)

        def run() -> int:
            builder.build(num_shards=job.num_shards)
            return job.count

        return run

    return prepare


def _dataset(job: Job, **options: Any) -> Any:
    return beam_datasets.builder_from_directory(Benchmark(job).dataset_dir).as_dataset(split="train", **options)


def _one_by_one(job: Job) -> Callable[[], int]:
    dataset = _dataset(job)
    return lambda: drain(dataset)


def _batches(job: Job) -> Callable[[], int]:
    dataset = _dataset(job).batch(BATCH_SIZE, pad=job.workload == "tokens")
    return lambda: drain_batches(dataset)


def _at_random(job: Job) -> Callable[[], int]:
    dataset, picks = _dataset(job), job.picks()
    return lambda: drain(dataset[i] for i in picks)


def _one_feature(job: Job) -> Callable[[], int]:
    dataset = _dataset(job, decoders=decode.PartialDecoding({FEATURE_OF[job.workload]}))
    return lambda: drain(dataset)


STEPS = {
    "generate": Step(f"{SYSTEM}, iterable", GENERATE, _generate(0)),
    "generate_beam": Step(f"{SYSTEM}, Beam", GENERATE, _generate(CORES)),
    "one_by_one": Step(SYSTEM, ONE_BY_ONE, _one_by_one),
    "batches": Step(SYSTEM, BATCHES, _batches),
    "at_random": Step(SYSTEM, RANDOM, _at_random),
    "one_feature": Step(SYSTEM, ONE_FEATURE, _one_feature),
}
