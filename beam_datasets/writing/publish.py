"""Publishing: everything is staged, complete and counted; then the version becomes visible at once.

On a local disk the staging directory stands beside the final one and takes its name in one rename, which fails where
somebody else published first. An object store has no such step: there one publisher claims the place, the store copies
the staged files into it, and dataset_info.json, without which nothing counts as published, is created last. A reader
never sees half a version, and a published version never changes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from beam_datasets import catalog, storage
from beam_datasets import features as feature_trees
from beam_datasets.errors import AlreadyPublishedError, LostExamplesError, StorageError
from beam_datasets.model.info import INFO_FILE
from beam_datasets.model.manifest import MANIFEST_FILE, RUN_FILE, Manifest, ShardColumns
from beam_datasets.writing import claims, promises
from beam_datasets.writing.owners import Owner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from beam_datasets.model.info import DatasetInfo
    from beam_datasets.writing.plan import ShardingOptions
    from beam_datasets.writing.shard_writer import WrittenShard

COPIES_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Publication:
    """A version that is about to be published: all that is known before its examples are.

    Attributes:
        info: what dataset_info.json says, but for the splits.
        features: the feature tree.
        dataset_dir: the version's directory.
        staging_dir: where it is put together.
        job: unique to this run.
        runner: name of the runner, for run.json.
        builder: module and class of the builder, for the manifest.
        options: what was asked for and fixes the bytes, for the manifest.
        source: where a materialized dataset came from; None for a generated one.
        started: seconds since the epoch.
        check_against: directory of a published version, to whose readers this one must keep what its number promises.
    """

    info: DatasetInfo
    features: Any
    dataset_dir: str
    staging_dir: str
    job: str
    runner: str
    builder: str
    options: Mapping[str, Any]
    source: Mapping[str, Any] | None
    started: float
    check_against: str | None = None

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.info.name

    @property
    def full_name(self) -> str:
        """The dataset's name, configuration and version."""
        return self.info.full_name

    @property
    def worker_log(self) -> str:
        """File that takes what the worker processes of a local run log."""
        folder = tempfile.gettempdir() if storage.is_remote(self.staging_dir) else self.staging_dir
        return storage.join(folder, f"workers-{self.job}.log")


def announce(
    info: DatasetInfo,
    dataset_dir: str,
    *,
    sharding: ShardingOptions,
    runner: str,
    builder: str,
    source: Mapping[str, Any] | None = None,
    check_against: str | None = None,
) -> Publication:
    """Returns what is going to be published, having checked that it can be.

    Args:
        info: the dataset's description, without splits.
        dataset_dir: the version's directory.
        sharding: what decides the shards.
        runner: name of the runner.
        builder: module and class of the builder, as 'module:Class'.
        source: where a materialized dataset comes from.
        check_against: see `Publication`.

    Raises:
        AlreadyPublishedError: the version is published already.
    """
    check_free(dataset_dir, info.full_name)
    return Publication(
        info=info,
        features=info.features,
        dataset_dir=dataset_dir,
        staging_dir=_staging_dir(dataset_dir, job := uuid.uuid4().hex[:8]),
        job=job,
        runner=runner,
        builder=builder,
        options=_bytes_fixing(sharding),
        source=source,
        started=time.time(),
        check_against=check_against,
    )


def check_free(dataset_dir: str, full_name: str) -> None:
    """Checks that a version can be published in this directory.

    Raises:
        AlreadyPublishedError: it is published already, or something else is in its place.
    """
    if catalog.is_published(dataset_dir):
        raise AlreadyPublishedError(
            f"{full_name} is already published in {dataset_dir}. A published version never changes: "
            "raise the version to publish again."
        )
    if storage.exists(dataset_dir) and (not storage.is_dir(dataset_dir) or _foreign(dataset_dir)):
        raise AlreadyPublishedError(
            f"{dataset_dir} exists but is no published dataset (it lacks dataset_info.json or features.json). "
            f"Move it away to publish {full_name} there."
        )


def _foreign(dataset_dir: str) -> bool:
    """Returns whether a directory has something in it, and not what a publisher left who died at it."""
    names = storage.list_dir(dataset_dir)
    return bool(names) and not (storage.is_remote(dataset_dir) and claims.CLAIMS_DIR in names)


def _staging_dir(dataset_dir: str, job: str) -> str:
    name = f"incomplete.{job}_{storage.basename(dataset_dir)}"
    return storage.join(storage.dirname(dataset_dir), name)


def _bytes_fixing(sharding: ShardingOptions) -> dict[str, Any]:
    """Returns the options that decide what is written, those that differ from the defaults."""
    defaults = type(sharding)()
    names = ("num_shards", "min_shard_size", "max_shard_size", "max_examples_per_split", "ignore_duplicates")
    return {name: getattr(sharding, name) for name in names if getattr(sharding, name) != getattr(defaults, name)}


@contextlib.contextmanager
def staging(publication: Publication, spill_dir: str | None = None, *, wait: bool = True) -> Iterator[None]:
    """Makes the staging directory for a run; where the run does not end well, removes it and those made above it.

    A file in it says which process on which machine owns it, so that what a killed run leaves can be told from a run
    that is under way. A job that is not waited for removes what it spilled when it publishes.
    """
    above = _missing_above(publication.staging_dir)
    try:
        storage.make_dirs(publication.staging_dir)
        Owner.of_this_process(publication.job, publication.started, publication.runner).write(publication.staging_dir)
        yield
    except BaseException:
        for directory in filter(None, (publication.staging_dir, spill_dir)):
            with contextlib.suppress(StorageError):  # why the run failed is what is to be told
                storage.remove_tree(directory)
        with contextlib.suppress(StorageError):  # somebody else has something in it by now
            for directory in above:
                storage.remove_empty_dir(directory)
        raise
    else:
        if spill_dir and wait:
            storage.remove_tree(spill_dir)
    finally:
        if storage.is_remote(publication.staging_dir):
            storage.remove(publication.worker_log)


def _missing_above(directory: str) -> list[str]:
    """Returns the directories above one that are not there yet, the nearest first; object stores have none."""
    missing: list[str] = []
    while not storage.is_remote(directory) and not storage.exists(directory := storage.dirname(directory)):
        missing.append(directory)
    return missing


class PlannedSplit(Protocol):
    """What was planned of a split."""

    @property
    def split(self) -> str:
        """The split's name."""

    @property
    def num_shards(self) -> int:
        """Shards that it has."""

    @property
    def num_examples(self) -> int:
        """Examples that it has."""


class AnyPlan(Protocol):
    """What was planned of all splits, in their order."""

    @property
    def splits(self) -> Sequence[PlannedSplit]:
        """The splits."""


def publish(publication: Publication, plan: AnyPlan, shards: Sequence[WrittenShard]) -> str:
    """Publishes a staged dataset and returns its directory; done again by the same run it only tidies up.

    Raises:
        LostExamplesError: the shards do not hold just the examples that were planned.
        AlreadyPublishedError: somebody else published this version meanwhile.
        VersionError: the version's number promises more than the data keep.
    """
    if _is_ours(publication):
        storage.remove_tree(publication.staging_dir)  # an engine that ran all again has staged all again
        return publication.dataset_dir
    columns = {
        split.split: _columns(split.split, split.num_shards, split.num_examples, shards) for split in plan.splits
    }
    texts = _metadata(publication, columns)
    for name, text in texts.items():
        storage.write_bytes(storage.join(publication.staging_dir, name), text)
    manifest = Manifest(
        name=publication.info.name,
        config=publication.info.config_name,
        version=str(publication.info.version),
        splits=columns,
        metadata={name: hashlib.sha256(text).hexdigest() for name, text in texts.items()},
        builder=publication.builder,
        options=publication.options,
        source=publication.source,
    )
    storage.write_bytes(storage.join(publication.staging_dir, RUN_FILE), _run_report(publication, columns))
    storage.write_bytes(storage.join(publication.staging_dir, MANIFEST_FILE), manifest.to_text().encode())
    shard_files = {storage.basename(shard.path) for shard in shards}
    wanted = {*texts, RUN_FILE, MANIFEST_FILE, *shard_files, *(f"{s}.index" for s in shard_files)}
    _check_staged(publication.staging_dir, wanted)
    if publication.check_against:
        promises.check(publication.check_against, publication.staging_dir)
    if storage.is_remote(publication.dataset_dir):
        _copy_in_place(publication, wanted)
    else:
        _tidy(publication.staging_dir, wanted)
        _put_in_place(publication)
    return publication.dataset_dir


def _is_ours(publication: Publication) -> bool:
    """Returns whether this very run has published already (an engine may run the last step twice)."""
    path = storage.join(publication.dataset_dir, RUN_FILE)
    if not catalog.is_published(publication.dataset_dir) or not storage.exists(path):
        return False
    return bool(json.loads(storage.read_bytes(path)).get("job") == publication.job)


def _columns(split: str, num_shards: int, num_examples: int, shards: Sequence[WrittenShard]) -> ShardColumns:
    """Returns what the manifest says of a split's shards, having checked that all are there, once, and complete."""
    own = sorted((shard for shard in shards if shard.split == split), key=lambda shard: shard.shard)
    written = sum(shard.num_examples for shard in own)
    if [shard.shard for shard in own] != list(range(num_shards)) or written != num_examples:
        raise LostExamplesError(
            f"split {split!r}: {len(own)} shards with {written} examples were written, planned were {num_shards} with "
            f"{num_examples}. The engine lost or doubled some; nothing was published. Run it again."
        )
    return ShardColumns(
        num_examples=[shard.num_examples for shard in own],
        num_bytes=[shard.num_bytes for shard in own],
        file_bytes=[shard.file_bytes for shard in own],
        crc32c=[shard.crc32c for shard in own],
        index_crc32c=[shard.index_crc32c for shard in own],
    )


def _metadata(publication: Publication, columns: Mapping[str, ShardColumns]) -> dict[str, bytes]:
    """Returns {file name: content} of what describes the dataset, as TensorFlow Datasets writes it."""
    features = publication.features
    texts = {
        "features.json": feature_trees.to_json_text(features),
        **features.label_files(),
        **publication.info.extra_files(),
    }
    texts["dataset_info.json"] = publication.info.to_json_text(
        {split: (list(c.num_examples), sum(c.num_bytes)) for split, c in columns.items()}
    )
    return {name: text.encode() for name, text in texts.items()}


def _run_report(publication: Publication, columns: Mapping[str, ShardColumns]) -> bytes:
    seconds = time.time() - publication.started
    examples = sum(sum(c.num_examples) for c in columns.values())
    return _json(
        {
            "job": publication.job,
            "runner": publication.runner,
            "started": publication.started,
            "seconds": round(seconds, 3),
            "examples": examples,
            "bytes": sum(sum(c.num_bytes) for c in columns.values()),
            "examples_per_second": round(examples / max(seconds, 1e-9), 1),
            "python": platform.python_version(),
            "machine": platform.platform(),
        }
    )


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode()


def _check_staged(directory: str, wanted: set[str]) -> None:
    """Checks that the files are there: a launcher that gave its run up removes what the run still writes to."""
    missing = sorted(wanted.difference(storage.list_dir(directory)))
    if missing:
        raise LostExamplesError(
            f"{directory}: {len(missing)} of {len(wanted)} files that were written are not there, {missing[0]} say. "
            "Somebody removed them, or the run was given up; nothing was published. Run it again."
        )


def _tidy(directory: str, wanted: set[str]) -> None:
    """Removes what does not belong to the dataset: spilled blocks, parts, what a killed attempt left."""
    for name in storage.list_dir(directory):
        if name not in wanted:
            path = storage.join(directory, name)
            (storage.remove_tree if storage.is_dir(path) else storage.remove)(path)


def _put_in_place(publication: Publication) -> None:
    try:
        storage.rename_dir(publication.staging_dir, publication.dataset_dir)
    except FileExistsError:
        if not _is_ours(publication):
            check_free(publication.dataset_dir, publication.full_name)
            raise
        storage.remove_tree(publication.staging_dir)


def _copy_in_place(publication: Publication, names: set[str]) -> None:
    """Copies the staged files where readers look, the one that makes them a published version last."""
    target = publication.dataset_dir
    claim = claims.take(target, publication.job)
    try:
        check_free(target, publication.full_name)
        if len(storage.list_dir(target)) > 1:
            _tidy(target, {claims.CLAIMS_DIR})  # of a publisher that died at it
        with ThreadPoolExecutor(COPIES_AT_ONCE) as executor:
            copies = [executor.submit(_copy, publication, name) for name in sorted(names - {INFO_FILE})]
            for copied in copies:
                copied.result()
                claim = claim.renewed_now()
        claims.check_held(target, claim)
        text = storage.read_bytes(storage.join(publication.staging_dir, INFO_FILE))
        storage.create_bytes(storage.join(target, INFO_FILE), text)
    except FileExistsError:
        if not _is_ours(publication):  # else the answer to the creation was lost
            raise
    finally:
        storage.remove(claim.path)
    with contextlib.suppress(StorageError):  # it is published; what is left harms nobody
        storage.remove_tree(storage.join(target, claims.CLAIMS_DIR))
        storage.remove_tree(publication.staging_dir)


def _copy(publication: Publication, name: str) -> None:
    storage.copy(storage.join(publication.staging_dir, name), storage.join(publication.dataset_dir, name))
