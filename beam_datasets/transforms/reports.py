"""Running a pipeline whose result is a small report: the workers leave it in a file, which is read here."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from typing import TYPE_CHECKING, Any

import apache_beam as beam

from beam_datasets import storage
from beam_datasets.errors import StorageError
from beam_datasets.transforms import engine as engines
from beam_datasets.transforms.running import run_pipeline

if TYPE_CHECKING:
    from collections.abc import Callable


def check_place(engine: engines.Engine, report: str | None, *, shared_disk: bool, what: str) -> None:
    """Checks that there is a place for a report that the workers and this machine see.

    Raises:
        ValueError: there is none, or no file can be written there.
    """
    if report is not None and engine.shares_disk:
        try:
            storage.check_writable(report, in_dir=True)
        except StorageError as error:
            raise ValueError(f"report is {report!r}, where no file can be written: {error}") from error
    if report is None and not engine.local and (shared_disk or not engine.shares_disk or not engine.waits):
        raise ValueError(f"workers of {engine.name} leave {what} in a file: give one that they and you see, --report")


def run_for_report(
    engine: engines.Engine,
    transform: beam.PTransform,
    text: Callable[[Any], str],
    directory: str,
    report: str | None,
) -> Any:
    """Returns the one element of a transform, as the JSON that it was saved as; None where nobody waits for it.

    Args:
        engine: where the pipeline runs.
        transform: gives one element.
        text: from that to its JSON; an importable function.
        directory: the dataset's. In its bucket the report is written with its options.
        report: the file; None for one that is removed.

    Raises:
        BeamDatasetsError: the pipeline failed.
        ValueError: the workers do not see the dataset, or not the report.
    """
    with tempfile.TemporaryDirectory(prefix="beam_datasets_report_") as scratch:
        place = report or os.path.join(scratch, "report.json")
        path = storage.with_options_if_remote(place, None, beside=directory)
        engines.check_paths_are_shared(engine, {"the dataset": directory, "the report": path})
        with engine.pipeline(os.path.join(scratch, "workers.log")) as pipeline:
            _ = pipeline | transform | "Save" >> beam.Map(_save, text, path)
            run_pipeline(pipeline, contextlib.nullcontext(), wait=engine.waits)
        return json.loads(storage.read_bytes(path)) if engine.waits else None


def _save(found: Any, text: Callable[[Any], str], path: str) -> None:
    storage.write_bytes(path, text(found).encode())
