"""run.json: times, sizes and resources of the run that published a version."""

from __future__ import annotations

import itertools
import json
import logging
import platform
import resource
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beam_datasets import storage
from beam_datasets.errors import StorageError
from beam_datasets.metadata.manifest import RUN_FILE
from beam_datasets.publishing.progress import PROGRESS_FILE
from beam_datasets.publishing.publication import Publication
from beam_datasets.publishing.shard_file import WrittenShard

_log = logging.getLogger(__name__)
_ENGINE_FACTS = ("job", "id", "page", "log", "restarts", "units")  # of progress.json that still hold after the run


def make_run_report(
    publication: Publication,
    shards: Sequence[WrittenShard],
    requests: storage.Requests,
    left_out: Sequence[Mapping[str, Any]] = (),
) -> bytes:
    """Returns run.json: times, sizes and resources of the run, as JSON.

    Args:
        publication: the announced version, with the start of the run.
        shards: the written shards of all splits.
        requests: I/O counts of the run.
        left_out: what the sources left out; see `ContentPlan`.
    """
    seconds = time.time() - publication.owner.started
    examples = sum(shard.num_examples for shard in shards)
    report = {
        **_engine_report(publication),
        "job": publication.job,
        "runner": publication.owner.runner,
        "started": publication.owner.started,
        "seconds": round(seconds, 3),
        "examples": examples,
        "shards": len(shards),
        "worker_bytes": _peak_memory(),  # of the process that publishes
        "bytes": sum(shard.num_bytes for shard in shards),
        "examples_per_second": round(examples / max(seconds, 1e-9), 1),
        "storage": {
            "reads": requests.reads,
            "bytes_read": requests.bytes_read,
            "writes": requests.writes,
            "bytes_written": requests.bytes_written,
        },
        "core_hours": round(requests.core_seconds / 3600, 6),
        "python": platform.python_version(),
        "machine": platform.platform(),
        **({"notes": list(publication.notes)} if publication.notes else {}),
        **({"left_out": list(left_out)} if left_out else {}),
        **({"resumed": [attempt.job for attempt in publication.attempts]} if publication.attempts else {}),
    }
    return _format_report(report)


def left_out_of(dataset_dir: str) -> list[dict[str, Any]]:
    """Returns the rows and examples left out of a version by its run.json; [] if it names none or cannot be read."""
    try:
        listed = json.loads(storage.read_bytes(storage.join(dataset_dir, RUN_FILE)))["left_out"]
    except (StorageError, ValueError, KeyError, TypeError):  # it is only a report
        return []
    is_valid = isinstance(listed, list) and all(map(_is_reason, listed))
    return listed if is_valid else []


def _is_reason(value: object) -> bool:
    """Returns whether a value is an item of `left_out`, with at least a reason and a number."""
    return isinstance(value, dict) and "reason" in value and type(value.get("number")) is int


def merge_left_out(reports: Iterable[Iterable[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Merges the lists of several builds: each reason once with the sum of its numbers, the most frequent first.

    The examples of a reason are those of the first build that has it.

    >>> merge_left_out([[{"reason": "a", "number": 1, "example": "x"}], [{"reason": "a", "number": 2, "example": "y"}]])
    [{'reason': 'a', 'number': 3, 'example': 'x'}]
    """
    merged: dict[Any, dict[str, Any]] = {}
    for each in itertools.chain.from_iterable(reports):
        first = merged.setdefault(each["reason"], {**each, "number": 0})
        first["number"] += each["number"]
    return sorted(merged.values(), key=lambda each: -each["number"])


def add_left_out(dataset_dir: str, bad_rows: Sequence[Mapping[str, Any]]) -> None:
    """Adds the rows left out to the run.json of a published version; they are counted when the run has ended.

    Logs a warning if the file cannot be written, because the version is published anyway.

    Args:
        dataset_dir: the directory of the version.
        bad_rows: for each reason {'reason': text, 'number': of rows, 'example': one of them}; [] changes nothing.
    """
    if not bad_rows:
        return
    path = storage.join(dataset_dir, RUN_FILE)
    try:
        report = {**json.loads(storage.read_bytes(path)), "left_out": list(bad_rows)}
        storage.write_bytes(path, _format_report(report))
    except (StorageError, ValueError, TypeError) as error:
        _log.warning("%s: the rows left out could not be added: %s", path, error)


def _format_report(report: Mapping[str, Any]) -> bytes:
    """Returns the content of run.json."""
    return json.dumps(report, indent=1, sort_keys=True).encode()


def _engine_report(publication: Publication) -> dict[str, Any]:
    """Returns {'engine': {'job': name, ...}} of a remote job, from the launcher's file.

    Returns {} for other runs, and if the file is missing or damaged.
    """
    if publication.spill_dir is None or publication.owner.is_local:
        return {}
    try:
        progress = json.loads(storage.read_bytes(storage.join(publication.spill_dir, PROGRESS_FILE)))
        return {"engine": {name: progress[name] for name in _ENGINE_FACTS}}
    except (StorageError, ValueError, KeyError, TypeError):  # run.json is only a report
        return {}


def _peak_memory() -> int:
    """Returns the largest memory of this process in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
