"""What an export is: its request, checked against the metadata of the source, and divided into shards."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from beam_datasets import catalog, storage
from beam_datasets.errors import BeamDatasetsError, PathExistsError, did_you_mean
from beam_datasets.exporting.array_record import ArrayRecord
from beam_datasets.exporting.jsonl import JsonLines
from beam_datasets.exporting.parquet import Parquet
from beam_datasets.exporting.schema import Struct, schema_of
from beam_datasets.exporting.webdataset import WebDataset
from beam_datasets.exporting.writing import Format
from beam_datasets.generate import runs
from beam_datasets.generate.owners import Owner
from beam_datasets.generate.runs import EXPORT_FILE, Run
from beam_datasets.materializing.copying import SplitCopy, plan_copy
from beam_datasets.materializing.plan import plan_job, target_dir
from beam_datasets.materializing.selection import NameOrDir
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.metadata.manifest import Lineage

FORMATS: dict[str, Format] = {kind.name: kind() for kind in (Parquet, JsonLines, WebDataset, ArrayRecord)}


def plan_export(
    source: NameOrDir,
    to: NameOrDir,
    format: str = "parquet",
    *,
    split: Any = None,
    data_dir: NameOrDir | None = None,
    features: Collection[str] | None = None,
    binary: Collection[str] = (),
    num_shards: int | Mapping[str, int] | None = None,
    min_shard_size: int | None = None,
    max_shard_size: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    source_storage_options: Mapping[str, Any] | None = None,
) -> ExportPlan:
    """Returns what will be done, after checking it; for the arguments see `beam_datasets.export`.

    Reads metadata only, and changes nothing.

    Raises:
        BeamDatasetsError: it cannot be done; the message contains the reason.
        ValueError: a name or a number is unusable.
    """
    target = target_dir(to, storage_options)
    if format not in FORMATS:
        known = f"known are {', '.join(FORMATS)}.{did_you_mean(format, FORMATS)}"
        raise BeamDatasetsError(f"unknown format {format!r}; {known}")

    def located(path: NameOrDir) -> str:
        return storage.with_options_if_remote(path, source_storage_options, beside=target)

    job = plan_job(
        located(source) if storage.is_remote(source) else source,
        split=split,
        data_dir=os.devnull,  # for the output of `materialize`; an export has none there
        source_data_dir=located(catalog.root_dir(data_dir)),
        source_storage_options=source_storage_options,
        features=features,
        num_shards=num_shards,
        min_shard_size=min_shard_size,
        max_shard_size=max_shard_size,
    )
    for directory in job.sources:
        if f"{target}/".startswith(f"{directory.rstrip('/')}/"):
            raise BeamDatasetsError(
                f"{target} is inside the dataset {directory}, and a published version never changes. Export to "
                "another place."
            )
    check_free(target)
    schema = schema_of(job.info.features, binary)
    FORMATS[format].check(schema)
    return ExportPlan(
        target,
        Owner.of_this_process(uuid.uuid4().hex[:8], time.time(), ""),
        EXPORT_FILE,
        format=FORMATS[format],
        info=job.info,
        schema=schema,
        splits=plan_copy(job.splits, job.sharding).splits,
        lineage=job.lineage,
        sources=job.sources,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportPlan(Run):
    """A run that exports.

    Attributes:
        format: what is written.
        info: the source's description, with the features that are exported.
        schema: the columns of these features.
        splits: what is exported.
        lineage: where it comes from.
        sources: directories of what is read.
    """

    format: Format
    info: DatasetInfo
    schema: Struct
    splits: tuple[SplitCopy, ...]
    lineage: Lineage
    sources: tuple[str, ...]

    def on(self, runner: str) -> ExportPlan:
        """Returns the plan with the name of the runner on which it is executed."""
        return replace(self, owner=replace(self.owner, runner=runner))

    def shards(self) -> Iterator[tuple[str, int]]:
        """Yields (split, number) of the shards to write."""
        return ((split.split, shard) for split in self.splits for shard in range(split.num_shards))

    def filename(self, split: str, shard: int) -> str:
        """Returns the name of a shard's file."""
        return self.format.filename(self.info.name, split, shard, self.split(split).num_shards)

    def split(self, name: str) -> SplitCopy:
        """Returns a split by its name."""
        return next(split for split in self.splits if split.split == name)


def check_free(directory: str) -> None:
    """Checks that an export can become visible in this directory.

    Raises:
        PathExistsError: something is in its place.
    """
    storage.check_can_create(directory)
    if not storage.exists(directory):
        return
    if not storage.is_dir(directory):
        raise PathExistsError(f"{directory} is a file; name a directory that is not there yet.")
    complete = runs.is_complete(directory)  # else files on a store may be those of a run that is publishing
    if complete or (not storage.is_remote(directory) and storage.list_dir(directory)):
        raise PathExistsError(
            f"{directory} exists and is not empty; nothing that is there is overwritten. Remove it, or name another."
        )
