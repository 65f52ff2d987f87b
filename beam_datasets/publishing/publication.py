"""Publications: runs that publish a version of a dataset, with all properties that are known before it is generated."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beam_datasets import catalog, storage
from beam_datasets.errors import AlreadyPublishedError, BeamDatasetsError
from beam_datasets.features.base import to_feature
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.metadata.names import check_file_name
from beam_datasets.options import ShardingOptions
from beam_datasets.publishing import compatibility, resume, runs
from beam_datasets.publishing.owners import Owner
from beam_datasets.publishing.runs import Run
from beam_datasets.publishing.staged_shards import ShardRecords


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
        left_out: bad rows that builds of the sources left out, for run.json; see `add_left_out`.
        attempts: failed runs whose finished units and shards this one reuses.
        shard_records: records of the shards that earlier runs have staged, and that this one stages; None if there are
            none.
        is_awaited: the launcher waits for the end of the job, and deletes intermediate files then; else Publish does.
        inputs: path, size in bytes and CRC-32C of the inputs.json that is staged; None if there is none.
        inputs_of: directory of a published version whose inputs.json is copied; None if there is none.
    """

    info: DatasetInfo
    builder: str
    options: Mapping[str, Any]
    source: Mapping[str, Any] | None
    check_against: str | None = None
    notes: Sequence[str] = ()
    left_out: Sequence[Mapping[str, Any]] = ()
    attempts: Sequence[resume.Attempt] = ()
    shard_records: ShardRecords | None = None
    is_awaited: bool = False
    inputs: tuple[str, int, int] | None = None
    inputs_of: str | None = None

    @property
    def is_published(self) -> bool:
        """Whether this run has already published."""
        return runs.is_published_by(self.job, self.target)


def announce(
    info: DatasetInfo,
    dataset_dir: str,
    *,
    sharding: ShardingOptions,
    runner: str,
    builder: str,
    source: Mapping[str, Any] | None = None,
    check_against: str | None = None,
    notes: Sequence[str] = (),
) -> Publication:
    """Returns the publication of a version, after checking that it can be published; changes nothing.

    Args:
        info: the dataset's description, without splits.
        dataset_dir: the version's directory.
        sharding: options that decide the shards.
        runner: name of the runner.
        builder: module and class of the builder, as 'module:Class'.
        source: origin of a materialized dataset.
        check_against: see `Publication`. Features and description are compared here, examples in `phases.decide`.
        notes: see `Publication`.

    Raises:
        AlreadyPublishedError: the version is published already.
        BeamDatasetsError: the dataset has no features.
        MetadataError: the name of a class label has a control character or a backslash, which no file name may have.
        StorageError: the storage cannot be published to.
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
    owner = Owner.of_this_process(uuid.uuid4().hex[:8], time.time(), runner)
    return Publication(
        dataset_dir,
        owner,
        info=info,
        builder=builder,
        options=_byte_options(sharding),
        source=source,
        check_against=check_against,
        notes=tuple(notes),
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


def _byte_options(sharding: ShardingOptions) -> dict[str, Any]:
    """Returns {name: value} of the options that change the written bytes, for those that are not the defaults.

    >>> _byte_options(ShardingOptions(num_shards=4))
    {'num_shards': 4}
    """
    defaults = type(sharding)()
    names = ("num_shards", "min_shard_size", "max_shard_size", "max_examples_per_split", "ignore_duplicates")
    return {name: getattr(sharding, name) for name in names if getattr(sharding, name) != getattr(defaults, name)}
