"""beam_datasets: a builder of all workloads, and what is measured of it."""

from __future__ import annotations

import os
import shutil
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apache_beam as beam
import steps
from remote import remote_steps
from steps import Job, Step
from workloads import ONE_FEATURE as FEATURE_OF
from workloads import TWO_FEATURES, WORKLOADS, augmented, features_of

import beam_datasets
from beam_datasets import BuilderConfig, DatasetBuilder, DatasetInfo, ReadConfig, decode, features, storage
from beam_datasets.formats import tfrecord

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

PACKAGES = ("beam_datasets", "apache-beam", "numpy", "protobuf")
SYSTEM = "beam_datasets"
OPENING = """
import beam_datasets
dataset = beam_datasets.load(f"benchmark/{workload}", split="train", data_dir=directory)
length, first = len(dataset), dataset[0]
"""


class Benchmark(DatasetBuilder, skip_registration=True):
    """The rows of a job; its config is the workload."""

    VERSION = "1.0.0"
    BUILDER_CONFIGS = [BuilderConfig(name=name) for name in WORKLOADS]  # noqa: RUF012

    def __init__(self, job: Job, *, sources: int = 0) -> None:
        self.job, self.sources = job, sources
        super().__init__(data_dir=job.directory, config=job.workload)

    def _info(self) -> DatasetInfo:
        return DatasetInfo(builder=self, features=features.FeaturesDict(features_of(self.job.workload, features)))

    def _split_generators(self) -> dict[str, Any]:
        if not self.sources:
            return {"train": self._generate_examples(0, 1)}
        parts = beam.Create(range(self.sources))
        return {"train": parts | beam.FlatMap(self._generate_examples, self.sources)}

    def _generate_examples(self, part: int, parts: int) -> Any:
        return self.job.rows(part, parts)


def _generate(job: Job, *, sources: int = 0) -> Callable[[], int]:
    builder = Benchmark(job, sources=sources)
    import_module("beam_datasets.beam.generate")  # as build() does, which is not part of the work

    def run() -> int:
        builder.build(num_shards=job.num_shards)
        return job.count

    return run


def _directory(job: Job) -> str:
    return str(Benchmark(job).dataset_dir)


def _dataset(job: Job, only: Collection[str] = ()) -> Any:
    decoders = decode.PartialDecoding(set(only)) if only else None
    return beam_datasets.builder_from_directory(_directory(job)).as_dataset(split="train", decoders=decoders)


def _on_one_thread(job: Job, *, size: int = 0) -> Callable[[], Iterable[Any]]:
    config = ReadConfig(num_parallel_calls_for_decode=1)
    dataset = beam_datasets.builder_from_directory(_directory(job)).as_dataset(split="train", read_config=config)
    return lambda: dataset.batch(size) if size else dataset


def _one_by_one(job: Job, *, only: Collection[str] = ()) -> Callable[[], Iterable[Any]]:
    dataset = _dataset(job, only)
    return lambda: dataset


def _in_sequence(job: Job) -> Callable[[], Iterable[Any]]:
    config = ReadConfig(interleave_cycle_length=1)
    dataset = beam_datasets.builder_from_directory(_directory(job)).as_dataset(split="train", read_config=config)
    return lambda: dataset


def _batches(job: Job, *, size: int = steps.BATCH_SIZE, only: Collection[str] = ()) -> Callable[[], Iterable[Any]]:
    dataset = _dataset(job, only).batch(size, pad=job.workload == "tokens")
    return lambda: dataset


def _augmented(job: Job) -> Callable[[], Iterable[Any]]:
    dataset = _dataset(job).map(augmented).parallel(threads=steps.CORES).batch(steps.BATCH_SIZE)
    return lambda: dataset


def _remote(job: Job, url: str, cache: str) -> Any:
    os.environ["BEAM_DATASETS_CACHE_DIR"] = cache
    directory = url + _directory(job).removeprefix(job.directory)
    return beam_datasets.builder_from_directory(directory).as_dataset(split="train").batch(steps.BATCH_SIZE)


def _at_random(job: Job) -> Callable[[], Iterable[Any]]:
    dataset, picks = _dataset(job), job.picks()
    return lambda: (dataset[i] for i in picks)


def _table(job: Job, *, method: str) -> Callable[[], int]:
    make = getattr(_dataset(job), method)
    import_module("pandas")  # with pyarrow, which is not part of the work
    return lambda: len(make())


def _raw(job: Job) -> Callable[[], Iterable[Any]]:
    dataset = _dataset(job).raw()
    return lambda: dataset


def _scan(job: Job) -> Callable[[], int]:
    paths = sorted(str(path) for path in Path(_directory(job)).glob("*.tfrecord-*") if path.suffix != ".index")

    def run() -> int:
        chunks = (chunk for path in paths for chunk in tfrecord.scan_file(storage.open_reader(path), path))
        return sum(len(chunk.offsets) - 1 for chunk in chunks)

    return run


def _materialize(job: Job, *, split: str, parts: int) -> Callable[[], int]:
    source, target = _directory(job), Path(job.directory, "copies")
    shutil.rmtree(target, ignore_errors=True)
    expected = job.count // parts
    import_module("beam_datasets.materializing.run")  # as materialize() does, which is not part of the work

    def run() -> int:
        made = beam_datasets.materialize(source, split={"train": split}, data_dir=target, num_shards=job.num_shards)
        found = beam_datasets.builder_from_directory(made).info.splits["train"].num_examples
        if abs(found - expected) > 1:
            raise ValueError(f"{found:,} examples were materialized of {expected:,}.")
        return int(found)

    return run


def _verify(job: Job) -> Callable[[], int]:
    directory, verify = _directory(job), beam_datasets.verify

    def run() -> int:
        report = verify(directory)
        if not report.whole:
            raise ValueError(str(report))
        return job.count

    return run


STEPS = {
    "generate": Step(f"{SYSTEM}, iterable", steps.GENERATE, _generate),
    "generate_beam": Step(SYSTEM, steps.GENERATE, partial(_generate, sources=steps.CORES)),
    "one_by_one": Step(SYSTEM, steps.ONE_BY_ONE, _one_by_one),
    "one_thread": Step(f"{SYSTEM}, one thread", steps.ONE_BY_ONE, _on_one_thread),
    "one_thread_batches": Step(f"{SYSTEM}, one thread", steps.BATCHES, partial(_on_one_thread, size=steps.BATCH_SIZE)),
    "in_sequence": Step(SYSTEM, steps.IN_SEQUENCE, _in_sequence),
    "batches": Step(SYSTEM, steps.BATCHES, _batches),
    "large_batches": Step(SYSTEM, steps.LARGE_BATCHES, partial(_batches, size=steps.LARGE_BATCH_SIZE)),
    "augmented": Step(SYSTEM, steps.AUGMENTED, _augmented, steps.WARM_BATCHES),
    "at_random": Step(SYSTEM, steps.RANDOM, _at_random),
    "one_feature": Step(SYSTEM, steps.ONE_FEATURE, lambda job: _one_by_one(job, only={FEATURE_OF[job.workload]})),
    "partial": Step(SYSTEM, steps.PARTIAL, partial(_one_by_one, only=TWO_FEATURES)),
    "partial_batches": Step(SYSTEM, steps.PARTIAL_BATCHES, partial(_batches, only=TWO_FEATURES)),
    "raw": Step(SYSTEM, steps.RAW, _raw),
    "scan": Step(f"{SYSTEM}, checked only", steps.RAW, _scan),
    "to_arrow": Step(SYSTEM, steps.TABLE, partial(_table, method="to_arrow")),
    "to_pandas": Step(f"{SYSTEM}, pandas", steps.TABLE, partial(_table, method="to_pandas")),
    "open": steps.open_step(SYSTEM, OPENING),
    "materialize": Step(SYSTEM, steps.MATERIALIZE, partial(_materialize, split="train", parts=1)),
    "materialize_tenth": Step(SYSTEM, steps.MATERIALIZE_TENTH, partial(_materialize, split="train[:10%]", parts=10)),
    "verify": Step(SYSTEM, steps.VERIFY, _verify),
    **remote_steps(SYSTEM, _remote),
}
