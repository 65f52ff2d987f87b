"""TensorFlow Datasets: a builder of all workloads, and what is measured of it, ArrayRecord files and Grain included."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import apache_beam as beam
import grain
import numpy as np
import tensorflow  # noqa: F401  (TFDS would import it while the clock runs)
import tensorflow_datasets as tfds
from apache_beam.options.pipeline_options import PipelineOptions
from steps import BATCH_SIZE, BATCHES, CORES, GENERATE, ONE_BY_ONE, ONE_FEATURE, RANDOM, Job, Step, drain, drain_batches
from workloads import EMBEDDING_SIZE, FLOATS, INTEGERS, WORKLOADS
from workloads import ONE_FEATURE as FEATURE_OF

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PACKAGES = ("tensorflow-datasets", "tensorflow-cpu", "apache-beam", "grain", "array-record")
IN_MEMORY = ("--runner=FnApiRunner", "--direct_running_mode=in_memory")
PROCESSES = ("--runner=FnApiRunner", "--direct_running_mode=multi_processing", f"--direct_num_workers={CORES}")


class Benchmark(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]
    """The rows of a job; its config is the workload."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=name) for name in WORKLOADS]  # noqa: RUF012

    def __init__(self, job: Job, *, sources: int = 0, file_format: str | None = None) -> None:
        self.job, self.sources = job, sources
        super().__init__(data_dir=job.directory, config=job.workload, file_format=file_format)

    def _info(self) -> Any:
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(_features(self.job.workload)))

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        if not self.sources:
            return {"train": self._generate_examples(0)}
        parts = beam.Create(range(self.sources))
        return {"train": parts | beam.FlatMap(self.job.rows, self.sources)}

    def _generate_examples(self, part: int) -> Any:
        return self.job.rows(part)


def _features(workload: str) -> dict[str, Any]:
    features = tfds.features
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


def _generate(job: Job, *, beam_arguments: Sequence[str] = (), file_format: str | None = None) -> Callable[[], int]:
    tfds.disable_progress_bar()
    options = PipelineOptions(list(beam_arguments)) if beam_arguments else None
    config = tfds.download.DownloadConfig(
        compute_stats=tfds.download.ComputeStatsMode.SKIP, num_shards=job.num_shards, beam_options=options
    )
    builder = Benchmark(job, sources=CORES if beam_arguments else 0, file_format=file_format)

    def run() -> int:
        builder.download_and_prepare(download_config=config)
        return job.count

    return run


def _directory(job: Job) -> str:
    return os.path.join(job.directory, Benchmark.name, job.workload, str(Benchmark.VERSION))


def _dataset(job: Job, **options: Any) -> Any:
    return tfds.builder_from_directory(_directory(job)).as_dataset(split="train", **options)


def _one_by_one(job: Job) -> Callable[[], int]:
    dataset = _dataset(job)
    return lambda: drain(tfds.as_numpy(dataset))


def _batches(job: Job) -> Callable[[], int]:
    dataset = _dataset(job)
    batched = dataset.padded_batch(BATCH_SIZE) if job.workload == "tokens" else dataset.batch(BATCH_SIZE)
    return lambda: drain_batches(tfds.as_numpy(batched.prefetch(2)))


def _one_feature(job: Job) -> Callable[[], int]:
    dataset = _dataset(job, decoders=tfds.decode.PartialDecoding({FEATURE_OF[job.workload]: True}))
    return lambda: drain(tfds.as_numpy(dataset))


def _source(job: Job) -> Any:
    return tfds.builder_from_directory(_directory(job)).as_data_source(split="train")


def _source_one_by_one(job: Job) -> Callable[[], int]:
    source = _source(job)
    return lambda: drain(source[i] for i in range(job.count))


def _source_batches(job: Job) -> Callable[[], int]:
    batches = grain.MapDataset.source(_source(job)).to_iter_dataset()
    if job.workload == "tokens":  # Grain stacks what is of one length only
        lists = batches.batch(BATCH_SIZE, batch_fn=list)
        return lambda: sum(map(len, lists))
    stacked = batches.batch(BATCH_SIZE)
    return lambda: drain_batches(stacked)


def _source_at_random(job: Job) -> Callable[[], int]:
    source, picks = _source(job), job.picks()
    return lambda: drain(source[i] for i in picks)


STEPS = {
    "generate": Step("TFDS, generator", GENERATE, _generate),
    "generate_beam": Step("TFDS, Beam", GENERATE, partial(_generate, beam_arguments=IN_MEMORY)),
    "generate_beam_parallel": Step(
        "TFDS, Beam, a process a core", GENERATE, partial(_generate, beam_arguments=PROCESSES)
    ),
    "one_by_one": Step("TFDS", ONE_BY_ONE, _one_by_one),
    "batches": Step("TFDS", BATCHES, _batches),
    "one_feature": Step("TFDS", ONE_FEATURE, _one_feature),
    "generate_array_record": Step("ArrayRecord by TFDS", GENERATE, partial(_generate, file_format="array_record")),
    "array_record_one_by_one": Step("ArrayRecord by TFDS", ONE_BY_ONE, _source_one_by_one),
    "array_record_batches": Step("ArrayRecord by TFDS, Grain", BATCHES, _source_batches),
    "array_record_at_random": Step("ArrayRecord by TFDS", RANDOM, _source_at_random),
}
