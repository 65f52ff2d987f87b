"""Counts of workers: requests to storage, and bytes and records written; as metrics of Beam, and for run.json.

Engines show Beam's metrics. A runner may not support them, so run.json contains counts that are sent with the results.
"""

from __future__ import annotations

import dataclasses

from apache_beam.metrics import Metrics

from beam_datasets import storage
from beam_datasets.publishing.shard_file import WrittenShard


def count_requests() -> storage.Requests:
    """Returns the requests that this process has sent to storage since the last call, and adds them to the metrics."""
    requests = storage.take_requests()
    for name in ("reads", "bytes_read", "writes", "bytes_written"):
        Metrics.counter("beam_datasets", f"storage_{name}").inc(getattr(requests, name))
    Metrics.counter("beam_datasets", "core_milliseconds").inc(int(1000 * requests.core_seconds))
    return requests


def count_written(written: WrittenShard) -> WrittenShard:
    """Adds a written file to the job's metrics, and returns it."""
    for name, value in (("examples", written.num_examples), ("bytes", written.file_bytes)):
        Metrics.counter("beam_datasets", f"{name}_written").inc(value)
        Metrics.distribution("beam_datasets", f"shard_{name}").update(value)
    return written


def with_requests(shard: WrittenShard) -> WrittenShard:
    """Returns the shard with the storage requests of this process since the last count added to its own."""
    return dataclasses.replace(shard, requests=storage.sum_requests([shard.requests, count_requests()]))
