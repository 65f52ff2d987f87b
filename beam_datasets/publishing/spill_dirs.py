"""Spill directories, which contain the payload of blocks until the shards are written."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass

from beam_datasets import storage
from beam_datasets.errors import StorageError
from beam_datasets.publishing.owners import IN_PROCESS
from beam_datasets.publishing.runs import SPILL_SUFFIX


@dataclass(frozen=True)
class Workers:
    """The processes that write a dataset; by default, this process alone.

    Attributes:
        name: name of the runner.
        local: whether they are processes of this machine that end with this one.
        shares_disk: whether they see this machine's files.
        spills: whether payload is spilled by default.
        buffers_bundles: whether the output of a bundle is kept in memory until the bundle ends.
    """

    name: str = IN_PROCESS
    local: bool = True
    shares_disk: bool = True
    spills: bool = True
    buffers_bundles: bool = False


def choose_spill_dir(workers: Workers, staging_dir: str, *, payload: str | None, spill_dir: str | None) -> str | None:
    """Returns the directory for the spilled payload of this run; None for inline payload.

    It is never inside the staging directory, which is removed when the version becomes visible, because the job may
    still need the payload.

    Args:
        workers: the processes that write and read the files.
        staging_dir: staging directory of this run.
        payload: 'inline' or 'spilled'; None for inline on Dataflow, spilled elsewhere.
        spill_dir: the requested directory; None for beside the staging directory, or this machine's directory for
            temporary files where a local run publishes to an object store. If it is in the bucket of
            `staging_dir`, it has the same storage options.

    Raises:
        ValueError: `payload` does not suit the engine, or no file can be written in `spill_dir`.
    """
    if payload == "inline" and workers.buffers_bundles:
        raise ValueError(
            "payload is 'inline'; expected 'spilled' or None for this engine. It would keep all records that a slot "
            "encodes in memory, or hang: in batch, a bundle is all that a slot does in a stage."
        )
    if not (workers.spills if payload is None else payload == "spilled"):
        return None
    if workers.local and storage.is_remote(staging_dir):
        spill_dir = spill_dir or tempfile.gettempdir()
    if spill_dir:
        spill_dir = storage.with_options_if_remote(spill_dir, None, other_path=staging_dir)
        run_spill_dir = storage.join(spill_dir, f"{storage.basename(staging_dir)}{SPILL_SUFFIX}")
        if workers.shares_disk:
            _check_spill_dir(run_spill_dir, spill_dir)
        return run_spill_dir
    return storage.join(storage.dirname(staging_dir), storage.basename(staging_dir) + SPILL_SUFFIX)


def _check_spill_dir(run_dir: str, spill_dir: str) -> None:
    """Checks that files can be written to the directory of a run.

    Args:
        run_dir: the directory of the run below `spill_dir`.
        spill_dir: the option of the user, for the error message.

    Raises:
        ValueError: no file can be written.
    """
    try:
        storage.check_writable(run_dir)
    except StorageError as error:
        raise ValueError(f"spill_dir is {spill_dir!r}, where no file can be written: {error}") from error
