"""TensorFlow Datasets: a builder of all workloads, and what is measured of it, ArrayRecord files and Grain included."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import apache_beam as beam
import grain
import steps
import tensorflow as tf
import tensorflow_datasets as tfds
from apache_beam.options.pipeline_options import PipelineOptions
from array_record.python.array_record_module import ArrayRecordReader
from steps import Job, Step, loader_steps
from workloads import ONE_FEATURE as FEATURE_OF
from workloads import TWO_FEATURES, WORKLOADS, features_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

PACKAGES = ("tensorflow-datasets", "tensorflow-cpu", "apache-beam", "grain", "array-record")
IN_MEMORY = ("--runner=FnApiRunner", "--direct_running_mode=in_memory")
PROCESSES = ("--runner=FnApiRunner", "--direct_running_mode=multi_processing", f"--direct_num_workers={steps.CORES}")


class Benchmark(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]
    """The rows of a job; its config is the workload."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=name) for name in WORKLOADS]  # noqa: RUF012

    def __init__(self, job: Job, *, sources: int = 0, file_format: str | None = None) -> None:
        self.job, self.sources = job, sources
        super().__init__(data_dir=job.directory, config=job.workload, file_format=file_format)

    def _info(self) -> Any:
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict(features_of(self.job.workload, tfds.features))
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        if not self.sources:
            return {"train": self._generate_examples(0)}
        parts = beam.Create(range(self.sources))
        return {"train": parts | beam.FlatMap(self.job.rows, self.sources)}

    def _generate_examples(self, part: int) -> Any:
        return self.job.rows(part)


def _generate(job: Job, *, beam_arguments: Sequence[str] = (), file_format: str | None = None) -> Callable[[], int]:
    tfds.disable_progress_bar()
    options = PipelineOptions(list(beam_arguments)) if beam_arguments else None
    config = tfds.download.DownloadConfig(
        compute_stats=tfds.download.ComputeStatsMode.SKIP, num_shards=job.num_shards, beam_options=options
    )
    builder = Benchmark(job, sources=steps.CORES if beam_arguments else 0, file_format=file_format)

    def run() -> int:
        builder.download_and_prepare(download_config=config)
        return job.count

    return run


def _directory(job: Job) -> str:
    return os.path.join(job.directory, Benchmark.name, job.workload, str(Benchmark.VERSION))


def _builder(job: Job) -> Any:
    return tfds.builder_from_directory(_directory(job))


def _dataset(job: Job, only: Collection[str] = ()) -> Any:
    decoders = tfds.decode.PartialDecoding(dict.fromkeys(only, True)) if only else None
    # What is read once is not worth keeping, which a small dataset otherwise is.
    config = tfds.ReadConfig(try_autocache=False)
    return _builder(job).as_dataset(split="train", decoders=decoders, read_config=config)


def _one_by_one(job: Job, *, only: Collection[str] = ()) -> Callable[[], Iterable[Any]]:
    dataset = _dataset(job, only)
    return lambda: tfds.as_numpy(dataset)


def _batches(job: Job, *, size: int = steps.BATCH_SIZE, only: Collection[str] = ()) -> Callable[[], Iterable[Any]]:
    dataset = _dataset(job, only)
    batched = dataset.padded_batch(size) if job.workload == "tokens" else dataset.batch(size)
    return lambda: tfds.as_numpy(batched.prefetch(2))


def _augmented(job: Job) -> Callable[[], Iterable[Any]]:
    def function(row: dict[str, Any]) -> dict[str, Any]:  # as `workloads.augmented`, in TensorFlow's graph
        image = row["image"][8:232, 48:272]
        return {**row, "image": tf.cond(row["label"] % 2 == 1, lambda: image[:, ::-1], lambda: image)}

    dataset = _dataset(job).map(function, num_parallel_calls=tf.data.AUTOTUNE).batch(steps.BATCH_SIZE)
    return lambda: tfds.as_numpy(dataset.prefetch(tf.data.AUTOTUNE))


def _paths(job: Job) -> list[str]:
    return [str(path) for path in _builder(job).info.splits["train"].filepaths]


def _raw(job: Job) -> Callable[[], int]:
    batches = tf.data.TFRecordDataset(_paths(job)).batch(steps.BATCH_SIZE).prefetch(2)
    return lambda: sum(map(len, batches.as_numpy_iterator()))


def _source(job: Job) -> Any:
    return _builder(job).as_data_source(split="train")


def _source_one_by_one(job: Job) -> Callable[[], Iterable[Any]]:
    source = _source(job)
    return lambda: (source[i] for i in range(len(source)))


def _source_batches(job: Job, *, size: int = steps.BATCH_SIZE) -> Callable[[], Iterable[Any]]:
    examples = grain.MapDataset.source(_source(job)).to_iter_dataset()
    # Grain stacks what is of one length only.
    batches = examples.batch(size, batch_fn=list) if job.workload == "tokens" else examples.batch(size)
    return lambda: batches


def _source_load(job: Job, workers: int, function: Callable[..., Any]) -> Any:
    batches = grain.MapDataset.source(_source(job)).map(function).batch(steps.BATCH_SIZE)
    options = grain.ReadOptions(prefetch_buffer_size=2)  # not all of a small dataset before the clock starts
    return batches.to_iter_dataset(options).mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))


def _source_at_random(job: Job) -> Callable[[], Iterable[Any]]:
    source, picks = _source(job), job.picks()
    return lambda: (source[i] for i in picks)


def _source_raw(job: Job) -> Callable[[], int]:
    paths = _paths(job)
    return lambda: sum(len(ArrayRecordReader(path).read_all()) for path in paths)


ARRAY_RECORD = "ArrayRecord by TFDS"
OPENING = """
import tensorflow_datasets as tfds
dataset = tfds.load(f"benchmark/{workload}", split="train", data_dir=directory)
length, first = len(dataset), next(iter(tfds.as_numpy(dataset)))
"""
OPENING_SOURCE = """
import tensorflow_datasets as tfds
dataset = tfds.data_source(f"benchmark/{workload}", split="train", data_dir=directory)
length, first = len(dataset), dataset[0]
"""
STEPS = {
    "generate": Step("TFDS, generator", steps.GENERATE, _generate),
    "generate_beam": Step("TFDS, Beam", steps.GENERATE, partial(_generate, beam_arguments=IN_MEMORY)),
    "generate_beam_parallel": Step(
        "TFDS, Beam, a process a core", steps.GENERATE, partial(_generate, beam_arguments=PROCESSES)
    ),
    "one_by_one": Step("TFDS", steps.ONE_BY_ONE, _one_by_one),
    "batches": Step("TFDS", steps.BATCHES, _batches),
    "large_batches": Step("TFDS", steps.LARGE_BATCHES, partial(_batches, size=steps.LARGE_BATCH_SIZE)),
    "one_feature": Step("TFDS", steps.ONE_FEATURE, lambda job: _one_by_one(job, only=[FEATURE_OF[job.workload]])),
    "partial": Step("TFDS", steps.PARTIAL, partial(_one_by_one, only=TWO_FEATURES)),
    "partial_batches": Step("TFDS", steps.PARTIAL_BATCHES, partial(_batches, only=TWO_FEATURES)),
    "augmented": Step("TFDS", steps.AUGMENTED, _augmented, steps.WARM_BATCHES),
    "raw": Step("tf.data, batches of 256", steps.RAW, _raw),
    "open": steps.open_step("TFDS", OPENING),
    "generate_array_record": Step(ARRAY_RECORD, steps.GENERATE, partial(_generate, file_format="array_record")),
    "array_record_one_by_one": Step(ARRAY_RECORD, steps.ONE_BY_ONE, _source_one_by_one),
    "array_record_batches": Step(f"{ARRAY_RECORD}, Grain", steps.BATCHES, _source_batches),
    "array_record_large_batches": Step(
        f"{ARRAY_RECORD}, Grain", steps.LARGE_BATCHES, partial(_source_batches, size=steps.LARGE_BATCH_SIZE)
    ),
    **loader_steps(f"{ARRAY_RECORD}, Grain", _source_load),
    "array_record_at_random": Step(ARRAY_RECORD, steps.RANDOM, _source_at_random),
    "array_record_raw": Step("ArrayRecord, whole files", steps.RAW, _source_raw),
    "array_record_open": steps.open_step(ARRAY_RECORD, OPENING_SOURCE),
}
