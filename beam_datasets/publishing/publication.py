"""Publications: runs that publish a version of a dataset, with all properties that are known before it is generated.

`announce` makes one, after it has checked that the version is free, and chosen the directory for spilled payload.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beam_datasets import catalog, storage
from beam_datasets.errors import AlreadyPublishedError, BeamDatasetsError, StorageError
from beam_datasets.features.base import to_feature
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.metadata.inputs import Inheritance
from beam_datasets.metadata.names import check_file_name
from beam_datasets.options import EngineOptions, ShardingOptions
from beam_datasets.publishing import compatibility, resume, runs
from beam_datasets.publishing.owners import IN_PROCESS, Owner
from beam_datasets.publishing.runs import SPILL_SUFFIX, Run, staging_dir
from beam_datasets.publishing.staged_shards import ShardRecords


@dataclass(frozen=True)
class Workers:
    """The processes that write a dataset; by default, this process alone.

    Attributes:
        name: name of the runner.
        local: whether they are processes of this machine that end with this one.
        shares_disk: whether they see this machine's files.
        spills: whether payload is spilled by default.
        buffers_bundles: whether the output of a bundle is kept in memory until the bundle ends.
        waits: whether the launcher waits for the end of their job.
    """

    name: str = IN_PROCESS
    local: bool = True
    shares_disk: bool = True
    spills: bool = True
    buffers_bundles: bool = False
    waits: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication(Run):
    """A run that publishes a version, with all properties that are known before its examples are generated.

    Attributes:
        info: the content of dataset_info.json, without the splits.
        builder: module and class of the builder, for the manifest.
        options: options that decide the bytes, for the manifest.
        source: origin of a materialized dataset; None for a generated one.
        check_against: directory of a published version with which this one must be as compatible as its number
            promises.
        notes: remarks for readers, for run.json.
        attempts: failed runs whose finished units and shards this one reuses.
        shard_records: records of the shards that earlier runs have staged, and that this one stages; None if there are
            none.
        inputs: path, size in bytes and CRC-32C of the inputs.json that is staged; None if there is none.
        inheritance: what is taken from the inputs.json of other versions; None for nothing.
    """

    info: DatasetInfo
    builder: str
    options: Mapping[str, Any]
    source: Mapping[str, Any] | None
    check_against: str | None = None
    notes: Sequence[str] = ()
    attempts: Sequence[resume.Attempt] = ()
    shard_records: ShardRecords | None = None
    inputs: tuple[str, int, int] | None = None
    inheritance: Inheritance | None = None

    @property
    def is_published(self) -> bool:
        """Whether this run has already published."""
        return runs.is_published_by(self.job, self.target)


def announce(
    info: DatasetInfo,
    dataset_dir: str,
    *,
    workers: Workers,
    sharding: ShardingOptions,
    builder: str,
    spilling: EngineOptions | None = None,
    is_reserved: bool = True,
    source: Mapping[str, Any] | None = None,
    check_against: str | None = None,
    notes: Sequence[str] = (),
    inheritance: Inheritance | None = None,
) -> Publication:
    """Returns the publication of a version, after checking that it can be published; changes nothing.

    Args:
        info: the dataset's description, without splits.
        dataset_dir: the version's directory.
        workers: the processes that write the version.
        sharding: options that decide the shards.
        builder: module and class of the builder, as 'module:Class'.
        spilling: options that decide whether and where payload is spilled; None if nothing is.
        is_reserved: whether the launcher reserves the directory before the job; see `Run`.
        source: origin of a materialized dataset.
        check_against: see `Publication`. Features and description are compared here, examples in `phases.decide`.
        notes: see `Publication`.
        inheritance: see `Publication`.

    Raises:
        AlreadyPublishedError: the version is published already.
        BeamDatasetsError: the dataset has no features.
        MetadataError: the name of a class label has a control character or a backslash, which no file name may have.
        StorageError: the storage cannot be published to.
        ValueError: see `choose_spill_dir`.
        VersionError: the version is too low for the changes of its features and description.
    """
    if info.features is None:
        kind = builder.replace(":", ".").rpartition(".")[2]
        raise BeamDatasetsError(f"{kind}._info(): expected a DatasetInfo with features, got none.")
    for name in to_feature(info.features).label_files():
        check_file_name(name)  # as those who read the manifest do
    storage.take_requests()  # those before are not the run's
    storage.check_can_create(dataset_dir)
    check_free(dataset_dir, info.display_name)
    if check_against:
        compatibility.check_known(check_against, info)
    owner = Owner.of_this_process(uuid.uuid4().hex[:8], time.time(), workers.name)
    spill_dir = None
    if spilling is not None:
        spill_dir = choose_spill_dir(workers, staging_dir(dataset_dir, owner.job), spilling)
    return Publication(
        dataset_dir,
        owner,
        spill_dir=spill_dir,
        is_reserved=is_reserved,
        is_awaited=is_reserved and workers.waits,
        info=info,
        builder=builder,
        options=_byte_options(sharding),
        source=source,
        check_against=check_against,
        notes=tuple(notes),
        inheritance=inheritance,
    )


def check_free(dataset_dir: str, full_name: str) -> None:
    """Checks that a version is not published in this directory, and that nothing else is in its place.

    Raises:
        AlreadyPublishedError: the version is published, or something else is there.
    """
    if catalog.is_published(dataset_dir):
        raise runs.already_published(full_name, dataset_dir)
    if storage.is_remote(dataset_dir):
        return  # files may be those of a run that is publishing: `reserve` finds out
    if storage.exists(dataset_dir) and (not storage.is_dir(dataset_dir) or storage.list_dir(dataset_dir)):
        raise AlreadyPublishedError(
            "it exists but is not a published dataset (it lacks dataset_info.json or features.json)",
            path=dataset_dir,
            advice=f"Move it away to publish {full_name} there.",
        )


def choose_spill_dir(workers: Workers, staging_dir: str, requested: EngineOptions) -> str | None:
    """Returns the directory for the spilled payload of this run; None for inline payload.

    It is never inside the staging directory, which is removed when the version becomes visible, because the job may
    still need the payload.

    Args:
        workers: the processes that write and read the files.
        staging_dir: staging directory of this run.
        requested: options, of which `payload` and `spill_dir` are used. Without a `spill_dir`, the directory is beside
            the staging directory, or in this machine's directory for temporary files where a local run publishes to an
            object store. One in the bucket of `staging_dir` has the same storage options.

    Raises:
        ValueError: `payload` does not suit the engine, or no file can be written in `spill_dir`.
    """
    payload, spill_dir = requested.payload, requested.spill_dir
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


def _byte_options(sharding: ShardingOptions) -> dict[str, Any]:
    """Returns {name: value} of the options that change the written bytes, for those that are not the defaults.

    >>> _byte_options(ShardingOptions(num_shards=4))
    {'num_shards': 4}
    """
    defaults = type(sharding)()
    names = ("num_shards", "min_shard_size", "max_shard_size", "max_examples_per_split", "ignore_duplicates")
    return {name: getattr(sharding, name) for name in names if getattr(sharding, name) != getattr(defaults, name)}
