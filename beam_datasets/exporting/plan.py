"""What an export is: its request, checked against the metadata of the source, and divided into shards."""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from beam_datasets import catalog, storage
from beam_datasets.errors import BeamDatasetsError, PathExistsError, did_you_mean
from beam_datasets.exporting.array_record import ArrayRecord
from beam_datasets.exporting.jsonl import JsonLines
from beam_datasets.exporting.parquet import Parquet
from beam_datasets.exporting.schema import schema_of
from beam_datasets.exporting.webdataset import WebDataset
from beam_datasets.generate import runs
from beam_datasets.generate.owners import Owner
from beam_datasets.generate.runs import EXPORT_FILE, Run
from beam_datasets.materializing.copying import plan_copy
from beam_datasets.materializing.plan import plan_job, target_dir

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from beam_datasets.exporting.schema import Struct
    from beam_datasets.exporting.writing import Format
    from beam_datasets.materializing.copying import SplitCopy
    from beam_datasets.materializing.selection import NameOrDir
    from beam_datasets.metadata.info import DatasetInfo
    from beam_datasets.metadata.manifest import Lineage

FORMATS: dict[str, Format] = {kind.name: kind() for kind in (Parquet, JsonLines, WebDataset, ArrayRecord)}


@dataclass(frozen=True)
class ExportRequest:
    """What to export, and where: the arguments of `beam_datasets.export`, which documents them."""

    source: NameOrDir
    to: NameOrDir
    format: str = "parquet"
    split: Any = None
    data_dir: NameOrDir | None = None
    features: Collection[str] | None = None
    binary: Collection[str] = ()
    num_shards: int | Mapping[str, int] | None = None
    min_shard_size: int | None = None
    max_shard_size: int | None = None
    storage_options: Mapping[str, Any] | None = None
    source_storage_options: Mapping[str, Any] | None = None

    def plan(self) -> ExportPlan:
        """Returns what will be done, after checking it; reads metadata only, and changes nothing.

        Raises:
            BeamDatasetsError: it cannot be done; the message contains the reason.
            ValueError: a name or a number is unusable.
        """
        target = target_dir(self.to, self.storage_options)
        if (format := FORMATS.get(self.format)) is None:
            known = f"known are {', '.join(FORMATS)}.{did_you_mean(self.format, FORMATS)}"
            raise BeamDatasetsError(f"unknown format {self.format!r}; {known}")
        options = self.source_storage_options

        def located(path: NameOrDir) -> str:
            return storage.with_options_if_remote(path, options, beside=target)

        job = plan_job(
            located(self.source) if storage.is_remote(self.source) else self.source,
            split=self.split,
            data_dir=os.devnull,  # for the output of `materialize`; an export has none there
            source_data_dir=located(catalog.root_dir(self.data_dir)),
            source_storage_options=options,
            features=self.features,
            num_shards=self.num_shards,
            min_shard_size=self.min_shard_size,
            max_shard_size=self.max_shard_size,
        )
        for source in job.sources:
            if f"{target}/".startswith(f"{source.rstrip('/')}/"):
                raise BeamDatasetsError(
                    f"{target} is inside the dataset {source}, and a published version never changes. Export to "
                    "another place."
                )
        check_free(target)
        schema = schema_of(job.info.features, self.binary)
        format.check(schema)
        splits = plan_copy(job.splits, job.sharding).splits
        owner = Owner.of_this_process(uuid.uuid4().hex[:8], time.time(), "")
        run = Run(target, owner, EXPORT_FILE)
        return ExportPlan(run, format, job.info, schema, splits, job.lineage, job.sources)


@dataclass(frozen=True)
class ExportPlan:
    """An export.

    Attributes:
        run: the run, with the directory that becomes visible, and the process that runs it.
        format: what is written.
        info: the source's description, with the features that are exported.
        schema: the columns of these features.
        splits: what is exported.
        lineage: where it comes from.
        sources: directories of what is read.
    """

    run: Run
    format: Format
    info: DatasetInfo
    schema: Struct
    splits: tuple[SplitCopy, ...]
    lineage: Lineage
    sources: tuple[str, ...]

    @property
    def directory(self) -> str:
        """The directory that becomes visible."""
        return self.run.target

    def on(self, runner: str) -> ExportPlan:
        """Returns the plan with the name of the runner on which it is executed."""
        return replace(self, run=replace(self.run, owner=replace(self.run.owner, runner=runner)))

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
