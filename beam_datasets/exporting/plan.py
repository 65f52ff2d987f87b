"""What an export is: checked entirely before anything is read but metadata, and divided into shards."""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from beam_datasets import catalog, storage
from beam_datasets.errors import BeamDatasetsError, PathExistsError
from beam_datasets.exporting.formats import format_of
from beam_datasets.exporting.schema import schema_of
from beam_datasets.generate import runs
from beam_datasets.generate.owners import Owner
from beam_datasets.generate.plan import ShardingOptions, choose_shards
from beam_datasets.generate.runs import EXPORT_FILE, Run
from beam_datasets.materializing.plan import plan_job, target_dir
from beam_datasets.metadata.shards import FileInstructions, shard_ends

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from beam_datasets.exporting.formats import Format
    from beam_datasets.exporting.schema import Struct
    from beam_datasets.materializing.selection import NameOrDir, SelectedSplit
    from beam_datasets.metadata.info import DatasetInfo
    from beam_datasets.metadata.lineage import Lineage


@dataclass(frozen=True)
class ExportedSplit:
    """A split as it is written.

    Attributes:
        name: of the split.
        num_shards: files that it becomes.
        num_bytes: about how many bytes its records have, framed.
        files: the runs of its examples, in order, by their whole paths.
    """

    name: str
    num_shards: int
    num_bytes: int
    files: FileInstructions = field(repr=False)

    @property
    def num_examples(self) -> int:
        """Of the split."""
        return self.files.num_examples

    @property
    def example_bytes(self) -> float:
        """Mean size of a record in bytes."""
        return self.num_bytes / max(self.num_examples, 1)


@dataclass(frozen=True)
class ExportedShard:
    """A file that is to be written.

    Attributes:
        split: the split's name.
        number: of the shard in the split.
        filename: of the file.
        first: index in the split of the first example.
        files: the runs of its examples, in order, by their whole paths.
        example_bytes: mean size of a record in bytes.
    """

    split: str
    number: int
    filename: str
    first: int
    files: FileInstructions = field(repr=False)
    example_bytes: float = 1024


@dataclass(frozen=True)
class ExportPlan:
    """An export.

    Attributes:
        directory: where it becomes visible.
        owner: the process that runs it, with the run's id, the runner and the start.
        format: what is written.
        info: the source's description, with the features that are exported.
        schema: what these are to the format.
        splits: what is exported.
        lineage: where it comes from.
        sources: directories of what is read.
    """

    directory: str
    owner: Owner
    format: Format
    info: DatasetInfo
    schema: Struct
    splits: tuple[ExportedSplit, ...]
    lineage: Lineage
    sources: tuple[str, ...]

    @property
    def run(self) -> Run:
        """The run, for the records on an object store."""
        return Run(self.directory, self.owner, EXPORT_FILE)

    @property
    def job(self) -> str:
        """The run's id."""
        return self.owner.job

    @property
    def staging_dir(self) -> str:
        """Directory in which the export is put together."""
        return self.run.staging_dir

    def on(self, runner: str) -> ExportPlan:
        """Returns the plan with the name of the runner on which it is executed."""
        return replace(self, owner=replace(self.owner, runner=runner))

    def shards(self) -> Iterator[ExportedShard]:
        """Yields the files that are to be written."""
        for split in self.splits:
            start = 0
            for number, stop in enumerate(shard_ends(split.num_examples, split.num_shards)):
                name = self.format.filename(self.info.name, split.name, number, split.num_shards)
                files = split.files.part(start, stop)
                yield ExportedShard(split.name, number, name, start, files, split.example_bytes)
                start = stop

    @property
    def options(self) -> dict[str, Any]:
        """The format's options."""
        return asdict(self.format)  # type: ignore[call-overload,no-any-return]


def plan_export(
    source: NameOrDir,
    to: NameOrDir,
    format: str | Format = "parquet",
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
    """Returns what is to be done; the arguments are those of `beam.Export`.

    Raises:
        BeamDatasetsError: it cannot be done; the message says why.
        ValueError: a name or a number is unusable.
    """
    target = target_dir(to, storage_options)
    chosen = format_of(format) if isinstance(format, str) else format
    job = plan_job(
        _located(source, source_storage_options, target) if storage.is_remote(source) else source,
        split=split,
        data_dir=os.devnull,  # the place of a dataset, which an export is not
        source_data_dir=_located(catalog.root_dir(data_dir), source_storage_options, target),
        source_storage_options=source_storage_options,
        features=features,
        num_shards=num_shards,
        min_shard_size=min_shard_size,
        max_shard_size=max_shard_size,
    )
    for directory in job.sources:
        _check_apart(target, directory)
    check_free(target)
    schema = schema_of(job.info.features, binary)
    chosen.check(schema)
    splits = tuple(_planned(selected, job.sharding) for selected in job.splits)
    owner = Owner.of_this_process(uuid.uuid4().hex[:8], time.time(), "")
    return ExportPlan(target, owner, chosen, job.info, schema, splits, job.lineage, job.sources)


def _located(path: NameOrDir, options: Mapping[str, Any] | None, target: str) -> str:
    return storage.with_options_if_remote(path, options, beside=target)


def _planned(selected: SelectedSplit, sharding: ShardingOptions) -> ExportedSplit:
    num_shards = choose_shards(selected.name, selected.num_examples, selected.num_bytes, sharding)
    return ExportedSplit(selected.name, num_shards, selected.num_bytes, selected.files)


def _check_apart(target: str, source: str) -> None:
    if f"{target}/".startswith(f"{source.rstrip('/')}/"):
        raise BeamDatasetsError(
            f"{target} is inside the dataset {source}, and a published version never changes. Export to another place."
        )


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
