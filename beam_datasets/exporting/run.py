"""Exports: planned by the metadata of the source, written into a staging directory, and made visible at once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from beam_datasets import features as feature_trees
from beam_datasets import storage
from beam_datasets.advice import instead_of_format
from beam_datasets.errors import (
    AlreadyPublishedError,
    BeamDatasetsError,
    FeatureValueError,
    LostExamplesError,
    PathExistsError,
    StorageError,
    did_you_mean,
)
from beam_datasets.execute.tasks import run_tasks
from beam_datasets.exporting.writing import (
    FILE_FORMAT,
    ArrayRecord,
    Format,
    JsonLines,
    Make,
    Output,
    ParquetFormat,
    WebDataset,
)
from beam_datasets.features.class_label import parse_names
from beam_datasets.features.schema import Struct, schema_of
from beam_datasets.features.stored_files import damage_finder
from beam_datasets.features.trees import record_name
from beam_datasets.materializing.copying import SplitCopy, plan_copy
from beam_datasets.materializing.kept_features import record_names
from beam_datasets.materializing.plan import select_examples, target_dir
from beam_datasets.materializing.selection import NameOrDir
from beam_datasets.materializing.source_versions import check_unchanged
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.metadata.lineage import Lineage
from beam_datasets.metadata.shards import FileInstruction
from beam_datasets.options import ShardingOptions
from beam_datasets.publishing import content, disk_commit, phases, runs, store_commit
from beam_datasets.publishing.owners import IN_PROCESS, Owner
from beam_datasets.publishing.progress import watch
from beam_datasets.publishing.runs import EXPORT_FILE, Run
from beam_datasets.publishing.shard_file import WrittenShard
from beam_datasets.publishing.staged_files import new_dir
from beam_datasets.reading.ranges import map_blocks, read_blocks
from beam_datasets.reading.records.shards import ShardPool

if TYPE_CHECKING:
    from beam_datasets.features import FeatureConnector


FORMAT_VERSION = 1
_BLOCK_BYTES = 1 << 20  # of records that are decoded together, about
FORMATS: dict[str, Format] = {kind.name: kind() for kind in (ParquetFormat, JsonLines, WebDataset, ArrayRecord)}


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
    """Returns the plan of an export, after checking it; for the arguments see `beam_datasets.export`.

    Reads metadata only, and changes nothing.

    Raises:
        BeamDatasetsError: it cannot be done; the message contains the reason.
        ValueError: a name or a number is unusable.
    """
    target = target_dir(to, storage_options)
    if format not in FORMATS:
        hint = instead_of_format("export", format) or did_you_mean(format, FORMATS).strip()
        raise BeamDatasetsError(expected=f"a format of {', '.join(FORMATS)}", got=repr(format), advice=hint or None)
    sharding = ShardingOptions.of(num_shards=num_shards, min_shard_size=min_shard_size, max_shard_size=max_shard_size)
    selection = select_examples(
        source, split, [data_dir], features=features, source_storage_options=source_storage_options, beside=target
    )
    sharding.check_splits([split_plan.name for split_plan in selection.splits])
    for directory in selection.directories:
        if f"{target}/".startswith(f"{directory.rstrip('/')}/"):
            raise BeamDatasetsError(
                f"it is inside the dataset {directory}, and a published version never changes",
                path=target,
                advice="Export to another directory.",
            )
    check_free(target)
    info = selection.describe(None, target)
    schema = schema_of(info.features, [record_name(name, info.features) for name in binary])
    FORMATS[format].check(schema)
    return ExportPlan(
        target=target,
        format=FORMATS[format],
        info=info,
        schema=schema,
        splits=plan_copy(selection.splits, sharding).splits,
        lineage=selection.lineage,
        sources=selection.directories,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportPlan:
    """The plan of an export; a `Run` of it publishes the files.

    Attributes:
        target: the directory to make.
        format: the format of the files.
        info: the source's description, with the features that are exported.
        schema: the columns of these features.
        splits: the exported splits.
        lineage: origin of the exported examples.
        sources: directories of the source versions.
    """

    target: str
    format: Format
    info: DatasetInfo
    schema: Struct
    splits: tuple[SplitCopy, ...]
    lineage: Lineage
    sources: tuple[str, ...]

    def new_run(self, runner: str) -> Run:
        """Returns a new run of this process that publishes the export; `runner` is the name of the engine."""
        return Run(self.target, Owner.of_this_process(uuid.uuid4().hex[:8], time.time(), runner), EXPORT_FILE)

    def shards(self) -> Iterator[tuple[str, int]]:
        """Yields (split, number) of the shards to write."""
        return ((split.split, shard) for split in self.splits for shard in range(split.num_shards))

    def filename(self, split: str, shard: int) -> str:
        """Returns the file name of shard number `shard` of a split, which depends on the format."""
        return self.format.filename(self.info.name, split, shard, self.split(split).num_shards)

    def split(self, name: str) -> SplitCopy:
        """Returns the split with a name, which must exist."""
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
        raise PathExistsError("it is a file", path=directory, advice="Name a directory that does not exist yet.")
    complete = runs.is_complete(directory)  # otherwise, files on a store may belong to a run that is publishing
    if complete or (not storage.is_remote(directory) and storage.list_dir(directory)):
        raise PathExistsError(
            "it exists and is not empty; existing files are not overwritten",
            path=directory,
            advice="Remove it, or name another directory.",
        )


# ------------------------------------------------------------------------------------------------------------ running


def run_in_process(plan: ExportPlan, *, progress: Callable[[int], None] | None = None) -> str:
    """Exports without Beam, one file after the other, and returns the directory.

    Args:
        plan: the plan of the export.
        progress: called about twice a second with how many bytes were written so far.

    Raises:
        BeamDatasetsError: why nothing was exported.
    """
    run = plan.new_run(IN_PROCESS)
    with staging(run), watching(run, progress):
        return finish(plan, run, run_tasks(plan.shards(), lambda shard: write_shard(plan, run.staging_dir, *shard)))


@contextlib.contextmanager
def staging(run: Run) -> Iterator[None]:
    """Reserves the place of an export for the duration of its run; see `publishing.phases.staging`.

    Raises:
        PathExistsError: another run has reserved the place, or has made it visible.
    """
    try:
        with phases.staging(run):
            yield
    except AlreadyPublishedError as error:
        exists = PathExistsError(str(error))
        exists.path, exists.advice = error.path or run.target, error.advice
        raise exists from None
    except StorageError as error:  # the user did not name the staging directory
        if run.staging_dir not in str(error):
            raise
        renamed = error.with_message(str(error).replace(run.staging_dir, run.target))
        if error.path is not None:
            renamed.path = error.path.replace(run.staging_dir, run.target)
        raise renamed from error


def watching(run: Run, progress: Callable[[int], None] | None) -> contextlib.AbstractContextManager[None]:
    """Returns a context in which `progress` is called about twice a second with how many bytes were written so far."""
    return watch(run.staging_dir, None, progress and (lambda amount: progress(amount.bytes_written)))


# ------------------------------------------------------------------------------------------------------------- a file


def write_shard(plan: ExportPlan, staging_dir: str, split: str, shard: int) -> WrittenShard:
    """Writes a shard into the staging directory. A second call, also at the same time, writes the same bytes.

    Args:
        plan: plan of the export.
        staging_dir: the run's staging directory.
        split: name of the split.
        shard: index of the shard, from 0.

    Raises:
        BeamDatasetsError: a record is damaged or cannot be written; it names file, byte and record.
    """
    split_plan, filename = plan.split(split), plan.filename(split, shard)
    start, stop = split_plan.span(shard)
    size = max(_BLOCK_BYTES * split_plan.num_examples // max(split_plan.num_bytes, 1), 1)
    names = None if plan.lineage.features is None else record_names(plan.info.features)
    make = _checking_media(plan.format.maker(plan.info.features, plan.schema, names), plan.info.features)
    pool, index = ShardPool(""), start

    def blocks(run: FileInstruction) -> Iterator[Any]:
        """Yields blocks of at most `size` records, and counts their records in `index`."""
        nonlocal index
        for records in read_blocks(run, pool):
            for first in range(0, len(records), size):
                block = records[first : first + size]
                index += len(block)
                yield block

    output_blocks = (block for run in split_plan.shard(shard) for block in map_blocks(make, blocks(run), run, pool))
    path = storage.join(new_dir(staging_dir), filename)
    with storage.open_writer(path) as writer:
        out = Output(writer)
        plan.format.write(output_blocks, plan.schema, out, split, start)
        if index != stop:
            raise LostExamplesError(
                expected=f"{stop - start} examples", got=f"{index - start}", path=filename, advice="Run it again."
            )
    return WrittenShard(split, shard, 0, path, stop - start, out.num_bytes, out.num_bytes, out.crc32c, 0)


def _checking_media(make: Make, features: FeatureConnector) -> Make:
    """Returns the function that checks the stored images and sounds of a list of records, and returns `make(records)`.

    It raises an error for damaged ones.
    """
    check = damage_finder(features)
    if check is None:
        return make

    def checked(records: Any) -> Any:
        """Returns the result of `make` for the records.

        Raises:
            FeatureValueError: an image or a sound is damaged.
        """
        for _, problem in check(records):
            raise FeatureValueError(
                f"{problem}. If `beam-datasets verify` says that it was published so, export the other features "
                "(--features), or generate a new version without it; otherwise restore the file"
            )
        return make(records)

    return checked


# ------------------------------------------------------------------------------------------------------------- publish


def finish(plan: ExportPlan, run: Run, shards: Sequence[WrittenShard]) -> str:
    """Makes an export visible and returns its directory. If the same run repeats it, only staged files are removed.

    Args:
        plan: plan of the export.
        run: the run, with its staging directory.
        shards: all that was written, in any order.

    Raises:
        LostExamplesError: the files do not hold just the examples that were planned.
        PathExistsError: something else is in its place, or another run has reserved it.
        AbandonedError: this run was given up.
        BeamDatasetsError: a source was built again in the meantime.
    """
    files = {split.split: content.complete_split(split, shards) for split in plan.splits}
    texts = _make_metadata(plan, files)
    if _is_done(plan, texts):
        storage.remove_tree(run.staging_dir)  # an engine that ran all again has staged all again
        return plan.target
    check_unchanged(plan.sources, plan.lineage)
    checksums = {file.path: (file.file_bytes, file.crc32c) for split in files.values() for file in split}
    try:
        staged = phases.stage(run, texts, checksums)
        if run.is_remote:
            decision = store_commit.decide(run, staged, hashlib.sha256(texts[EXPORT_FILE]).hexdigest())
            store_commit.commit_all(run, decision)
            store_commit.complete(run, decision)
        else:
            disk_commit.rename_into_place(run, staged)
    except (FileExistsError, AlreadyPublishedError) as error:
        if not _is_done(plan, texts):
            if not run.is_remote:
                check_free(plan.target)
            raise PathExistsError(str(error)) from None
        storage.remove_tree(run.staging_dir)
    return plan.target


def _is_done(plan: ExportPlan, texts: Mapping[str, bytes]) -> bool:
    """Returns whether the target has the export's metadata file, which the last step of a run writes.

    Args:
        plan: the plan of the export.
        texts: file name -> content of the metadata files; see `_make_metadata`. The file must have this content.
    """
    path = storage.join(plan.target, EXPORT_FILE)
    return storage.exists(path) and storage.read_bytes(path) == texts[EXPORT_FILE]


def _make_metadata(plan: ExportPlan, files: Mapping[str, Sequence[WrittenShard]]) -> dict[str, bytes]:
    """Returns {file name: content} of the metadata files of the export."""
    texts = {EXPORT_FILE: _format_metadata(_description(plan, files))}
    if isinstance(plan.format, ArrayRecord):  # the files that TensorFlow Datasets reads
        tree, info = plan.info.features, plan.info.replace(file_format=FILE_FORMAT, alternative_file_formats=())
        sizes = {split.split: split.num_bytes for split in plan.splits}
        texts["dataset_info.json"] = info.to_json_text(
            {name: ([file.num_examples for file in split], sizes[name]) for name, split in files.items()}
        )
        texts["features.json"] = feature_trees.to_json_text(tree)
        texts |= tree.label_files()
    return {name: text.encode() for name, text in texts.items()}


def _description(plan: ExportPlan, files: Mapping[str, Sequence[WrittenShard]]) -> dict[str, Any]:
    """Returns the content of the export's metadata file: format, files with checksums, sources, features and labels."""
    tree = plan.info.features
    lineage = {name: replace(split, keys=None) for name, split in plan.lineage.splits.items()}
    return {
        "format_version": FORMAT_VERSION,
        "format": plan.format.name,
        "splits": {
            name: {
                "filenames": [storage.basename(file.path) for file in split],
                "num_examples": [file.num_examples for file in split],
                "num_bytes": [file.file_bytes for file in split],
                "crc32c": [f"{file.crc32c:08x}" for file in split],
            }
            for name, split in files.items()
        },
        "source": replace(plan.lineage, splits=lineage).to_json(),
        "features": tree.to_json(),
        "class_names": {
            name.removesuffix(".labels.txt"): parse_names(text) for name, text in tree.label_files().items()
        },
    }


def _format_metadata(value: dict[str, Any]) -> str:
    """Returns JSON with sorted names, but the splits in their order, and each list of values on one line."""
    sorted_value = json.loads(json.dumps(value, sort_keys=True))
    sorted_value["splits"] = {name: sorted_value["splits"][name] for name in value["splits"]}
    text = json.dumps(sorted_value, indent=1) + "\n"
    lists = re.compile(r"\[\n *([^\[\]]*)\n *\]")  # of values: a string has no line break
    return lists.sub(lambda match: re.sub(r"\n *", " ", match[0]).replace("[ ", "[").replace(" ]", "]"), text)
