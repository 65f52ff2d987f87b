"""Where a run puts the records that are between encoding and shards."""

from __future__ import annotations

import os
import tempfile
from typing import Protocol

from beam_datasets import storage
from beam_datasets.errors import StorageError

SPILL_SUFFIX = ".spill"
"""How the name of a spill directory ends; it begins as that of the staging directory."""
CHECKPOINT_SUFFIX, SHARDS_SUFFIX = ".units.json", ".shards.json"
"""How the names of files end that record finished units, and staged shards; see `units`, `shard_records`."""


def has_units(directory: str) -> bool:
    """Returns whether a spill directory has what a later run can reuse."""
    try:
        return any(name.endswith((CHECKPOINT_SUFFIX, SHARDS_SUFFIX)) for name in storage.list_dir(directory))
    except StorageError:
        return False


class Workers(Protocol):
    """What writes and reads the files."""

    @property
    def local(self) -> bool:
        """Whether they are processes of this machine."""

    @property
    def spills(self) -> bool:
        """Whether records are spilled, unless asked otherwise, instead of sent through an engine."""

    @property
    def buffers_bundles(self) -> bool:
        """Whether an engine keeps what a bundle yields in memory until the bundle ends."""

    @property
    def shares_disk(self) -> bool:
        """Whether they see this machine's paths."""


def check_payload(payload: str | None) -> None:
    """Checks how records are to travel.

    Raises:
        ValueError: `payload` is neither 'inline' nor 'spilled' nor None.
    """
    if payload not in (None, "inline", "spilled"):
        raise ValueError(f"payload is {payload!r}; expected 'inline', 'spilled' or None.")


def choose_spill_dir(workers: Workers, staging_dir: str, *, payload: str | None, spill_dir: str | None) -> str | None:
    """Returns the directory that gets this run's spilled payload; None where it travels inline.

    It is never in the staging directory, which goes when the version becomes visible: the job may still need payload.

    Args:
        workers: what writes and reads the files.
        staging_dir: of this run.
        payload: 'inline' or 'spilled'; None for inline on Dataflow, spilled elsewhere.
        spill_dir: where to spill; None for beside the staging directory, or this machine's directory for temporary
            files where a local run publishes to an object store. In the staging directory's bucket it has its options.

    Raises:
        TypeError: `spill_dir` is not a path.
        ValueError: `payload` is something else, or does not suit the engine; no file can be written in `spill_dir`.
    """
    check_payload(payload)
    if payload == "inline" and workers.buffers_bundles:
        raise ValueError(
            "payload is 'inline'; expected 'spilled' or None for this engine. It would keep all records that a slot "
            "encodes in memory, or hang: in batch, a bundle is all that a slot does in a stage."
        )
    if spill_dir is not None and not isinstance(spill_dir, (str, os.PathLike)):
        raise TypeError(f"spill_dir must be a path, as str or os.PathLike, or None, not {spill_dir!r}.")
    if not (workers.spills if payload is None else payload == "spilled"):
        return None
    if workers.local and storage.is_remote(staging_dir):
        spill_dir = spill_dir or tempfile.gettempdir()
    if spill_dir:
        spill_dir = storage.with_options_if_remote(spill_dir, None, beside=staging_dir)
        own = storage.join(spill_dir, f"{storage.basename(staging_dir)}{SPILL_SUFFIX}")
        if workers.shares_disk:
            _check_spill_dir(own, spill_dir)
        return own
    return storage.join(storage.dirname(staging_dir), storage.basename(staging_dir) + SPILL_SUFFIX)


def _check_spill_dir(own: str, spill_dir: str) -> None:
    try:
        storage.check_writable(own)
    except StorageError as error:
        raise ValueError(f"spill_dir is {spill_dir!r}, where no file can be written: {error}") from error
