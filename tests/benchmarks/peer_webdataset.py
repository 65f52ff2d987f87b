"""WebDataset: tar files, which keep the order they are given."""

from __future__ import annotations

import glob
import io
import json
import os
from typing import TYPE_CHECKING, Any

import webdataset
from PIL import Image
from steps import BATCH_SIZE, GENERATE, ONE_BY_ONE, RAW, Job, Step, loader_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PACKAGES = ("webdataset",)
SYSTEM = "WebDataset"
EXAMPLES_PER_FILE = 10_000


def _entries(workload: str, row: dict[str, Any]) -> dict[str, Any]:
    if workload == "digits":
        png = io.BytesIO()
        Image.fromarray(row["image"][..., 0]).save(png, "PNG")
        return {"png": png.getvalue(), "cls": row["label"]}
    if workload == "text":
        return {"txt": row["text"], "url.txt": row["url"]}
    if workload == "tabular":
        return {"json": json.dumps(row, default=float).encode()}
    if workload == "tokens":
        return {f"{name}.npy": value for name, value in row.items()}
    return {"bin": row["data"]}


def _generate(job: Job) -> Callable[[], int]:
    def run() -> int:
        pattern = os.path.join(job.directory, "%05d.tar")
        with webdataset.ShardWriter(pattern, maxcount=EXAMPLES_PER_FILE, verbose=0) as writer:
            for i, (_, row) in enumerate(job.rows()):
                writer.write({"__key__": f"{i:09}", **_entries(job.workload, row)})
        return job.count

    return run


def _files(job: Job) -> list[str]:
    return sorted(glob.glob(os.path.join(job.directory, "*.tar")))


def _one_by_one(job: Job) -> Callable[[], Iterable[Any]]:
    files = _files(job)
    return lambda: webdataset.WebDataset(files, shardshuffle=False).decode("l8")  # gray images as uint8 arrays


def _load(job: Job, workers: int, function: Callable[..., Any]) -> Any:
    rows = webdataset.WebDataset(_files(job), shardshuffle=False, empty_check=False).decode("l8")
    batches = rows.map(function).batched(BATCH_SIZE, collation_fn=list)
    return webdataset.WebLoader(batches, batch_size=None, num_workers=workers)


def _raw(job: Job) -> Callable[[], Iterable[Any]]:
    files = _files(job)
    return lambda: webdataset.WebDataset(files, shardshuffle=False)


STEPS = {
    "generate": Step(SYSTEM, GENERATE, _generate),
    "one_by_one": Step(SYSTEM, ONE_BY_ONE, _one_by_one),
    "raw": Step(f"{SYSTEM}, no CRC", RAW, _raw),
    **loader_steps(SYSTEM, _load),
}
