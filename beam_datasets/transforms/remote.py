"""What a run on other machines needs besides: the module of its builder, and a staging directory that workers see."""

from __future__ import annotations

import contextlib
import socket
import sys
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.internal.cloudpickle import cloudpickle

from beam_datasets import storage
from beam_datasets.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def module_sent_along(kind: type | None) -> Iterator[None]:
    """Sends the module of a class, where it is a file of its own, along with what is pickled meanwhile.

    A module in a package must be installed where workers are, as everything that the file imports. None sends nothing.
    """
    name = kind.__module__ if kind else "."
    if "." in name or name == "__main__":  # the latter is sent along anyway
        yield
        return
    module = sys.modules[name]
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def check_staging(pipeline: beam.Pipeline, staging_dir: str) -> None:
    """Adds a stage to the pipeline that fails where workers do not see the staging directory of the launcher."""
    pipeline | "Look" >> beam.Impulse() | "CheckStaging" >> beam.Map(_check, staging_dir)


def _check(_: Any, staging_dir: str) -> None:
    if not storage.exists(storage.join(staging_dir, "owner.json")):
        raise StorageError(
            f"{staging_dir}: the launcher has made it, and the worker on {socket.gethostname()} does not see it. "
            "data_dir must be a place that the launcher and all workers share."
        )
