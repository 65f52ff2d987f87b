"""Lance: its columnar files, which keep the order they are given; images are in them as files."""

from __future__ import annotations

import os
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import imagecodecs
import lance
import numpy as np
import pyarrow as pa
import steps
from lance.torch.data import LanceDataset, SafeLanceDataset
from steps import Job, Step, loader_steps
from torch_loader import loader
from workloads import EMBEDDING_SIZE, FLOATS, INTEGERS, TWO_FEATURES
from workloads import ONE_FEATURE as FEATURE_OF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PACKAGES = ("pylance", "pyarrow", "imagecodecs")
SYSTEM = "Lance"
OPENING = """
import lance
dataset = lance.dataset(f"{directory}/lance")
length, first = dataset.count_rows(), dataset.take([0]).to_pylist()[0]
"""
INT, FLOAT, STRING = pa.int64(), pa.float32(), pa.string()
SCHEMAS = {
    "digits": {"image": pa.binary(), "label": INT},
    "photos": {"image": pa.binary(), "label": INT},
    "text": {"text": STRING, "url": STRING},
    "tabular": {**dict.fromkeys(FLOATS, FLOAT), **dict.fromkeys(INTEGERS, INT), "label": INT},
    "tokens": {"tokens": pa.list_(INT), "embedding": pa.list_(FLOAT, EMBEDDING_SIZE)},
    "kilobyte": {"data": pa.binary()},
}
ROWS_OF_BATCH = 1024


def _file(image: Any) -> bytes:
    if image.shape[-1] == 1:
        return bytes(imagecodecs.png_encode(image[..., 0]))
    return bytes(imagecodecs.jpeg8_encode(np.ascontiguousarray(image), level=88))


def _image(file: bytes) -> Any:
    return imagecodecs.imread(file, codec=["png" if file[:4] == b"\x89PNG" else "jpeg8"])


def _record_batches(job: Job, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    rows = (row for _, row in job.rows())
    while some := list(islice(rows, ROWS_OF_BATCH)):
        if "image" in schema.names:
            some = [row | {"image": _file(row["image"])} for row in some]
        yield pa.RecordBatch.from_pydict({name: [row[name] for row in some] for name in schema.names}, schema)


def _generate(job: Job) -> Callable[[], int]:
    schema = pa.schema(SCHEMAS[job.workload].items())

    def run() -> int:
        lance.write_dataset(_record_batches(job, schema), os.path.join(job.directory, "lance"), schema=schema)
        return job.count

    return run


def _dataset(job: Job) -> Any:
    return lance.dataset(os.path.join(job.directory, "lance"))


def _example(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"image": _image(row["image"])} if "image" in row else row


def _examples(table: Any) -> Iterator[dict[str, Any]]:
    yield from map(_example, table.to_pylist())


def _one_by_one(job: Job, *, only: list[str] | None = None) -> Callable[[], Iterable[Any]]:
    read = partial(_dataset(job).to_batches, columns=only, batch_size=ROWS_OF_BATCH)
    return lambda: (row for batch in read() for row in _examples(batch))


def _columns(batch: pa.RecordBatch) -> dict[str, Any]:
    found = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in batch.schema.names}
    return found | {"image": np.stack(list(map(_image, found["image"])))} if "image" in found else found


def _batches(job: Job, *, size: int = steps.BATCH_SIZE, only: list[str] | None = None) -> Callable[[], Iterable[Any]]:
    dataset = _dataset(job)
    return lambda: map(_columns, dataset.to_batches(columns=only, batch_size=size))


def _load(job: Job, workers: int, function: Callable[..., Any]) -> Any:
    uri = os.path.join(job.directory, "lance")
    if not workers:
        return LanceDataset(uri, steps.BATCH_SIZE, to_tensor_fn=lambda batch, **_: _columns(batch))
    options = {"multiprocessing_context": "spawn"}
    return loader(SafeLanceDataset(uri), workers, _arrays, _example, function, **options)


def _arrays(row: dict[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(value) if isinstance(value, list) else value for name, value in row.items()}


def _at_random(job: Job) -> Callable[[], Iterable[Any]]:
    dataset, picks = _dataset(job), job.picks()
    return lambda: (row for i in picks for row in _examples(dataset.take([i])))


STEPS = {
    "generate": Step(SYSTEM, steps.GENERATE, _generate),
    "one_by_one": Step(SYSTEM, steps.ONE_BY_ONE, _one_by_one),
    "batches": Step(SYSTEM, steps.BATCHES, _batches),
    "large_batches": Step(SYSTEM, steps.LARGE_BATCHES, partial(_batches, size=steps.LARGE_BATCH_SIZE)),
    "one_feature": Step(SYSTEM, steps.ONE_FEATURE, lambda job: _one_by_one(job, only=[FEATURE_OF[job.workload]])),
    "partial": Step(SYSTEM, steps.PARTIAL, partial(_one_by_one, only=[*TWO_FEATURES])),
    "partial_batches": Step(SYSTEM, steps.PARTIAL_BATCHES, partial(_batches, only=[*TWO_FEATURES])),
    "at_random": Step(SYSTEM, steps.RANDOM, _at_random),
    "open": steps.open_step(SYSTEM, OPENING),
    **loader_steps(SYSTEM, _load),
}
