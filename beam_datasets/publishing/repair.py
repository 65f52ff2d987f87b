"""Repairs a published dataset: takes files from a good copy by their checksums, and rebuilds indexes from their shards.

A published version never changes: each restored file equals the published one, by its checksum in manifest.json. The
only exception, which is reported, is an index whose keys are lost: it is written without keys.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beam_datasets import catalog, storage
from beam_datasets.arguments import boolean
from beam_datasets.errors import DatasetNotFoundError, MetadataError, PathNotFoundError, StorageError, StoreOptionsError
from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import KEY_SIZE, Index
from beam_datasets.metadata.keys import ordered_key
from beam_datasets.metadata.manifest import MANIFEST_FILE
from beam_datasets.native import crc32c
from beam_datasets.publishing.staged_files import content_of
from beam_datasets.reading.records.shards import INDEX_SUFFIX
from beam_datasets.verifying import Examination, Finding, Report, examine, examine_again, read_expected
from beam_datasets.verifying.scan import NOT_LOST

_HARMLESS = ("extra", "leftover", *NOT_LOST)
"""Kinds of findings that no file which is written can resolve."""
_INDEX_HEADER_BYTES = 40  # with checksums of all that follows


@dataclass(frozen=True)
class FileRepair:
    """A file that is written in place of a damaged or missing one.

    Attributes:
        file: its name in the dataset's directory.
        message: the source of the file's new content, and the checksum that confirms it.
        content: the content to write; None if the copy's file is copied.
        crc32c: CRC-32C of the copy's file.
    """

    file: str
    message: str
    content: bytes | None = None
    crc32c: int | None = None

    def __str__(self) -> str:
        return f"{self.file}: {self.message}"


@dataclass(frozen=True)
class Repair:
    """Result of a repair.

    Attributes:
        before: the report before the repair.
        steps: the files that were written, or would be.
        refused: {file: reason why it was not restored}.
        after: the report after the repair; None for a dry run.
    """

    before: Report
    steps: tuple[FileRepair, ...]
    refused: dict[str, str]
    after: Report | None


def repair(
    dataset_dir: str | os.PathLike[str],
    *,
    copy: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    decode: bool = False,
    jobs: int | None = None,
    progress: Callable[[int, int | None], None] | None = None,
    on_step: Callable[[FileRepair], None] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    copy_storage_options: Mapping[str, Any] | None = None,
) -> Repair:
    """Verifies a dataset, restores its files if possible, and returns the restored and the remaining damage.

    Each file replaces the damaged one atomically. Nothing else is changed, and nothing is removed: if a directory has
    the path of a file, the file is not restored.

    Args:
        dataset_dir: the directory of a version, or its URL.
        copy: the directory of another copy of the same version: each file with the published checksum is taken from it.
        dry_run: whether to write nothing.
        decode: see `verify`.
        jobs: see `verify`.
        progress: see `verify`.
        on_step: called with each step once it is done.
        storage_options: options of the dataset's store, if its directory is a URL; see `beam_datasets.builder`.
        copy_storage_options: options of the copy's store; None for those of the dataset if it is in the same bucket.

    Raises:
        DatasetNotFoundError: the dataset does not exist, or the directory of the copy does not contain one.
        PathNotFoundError: the directory of the copy does not exist.
        MetadataError: the copy is of another dataset.
        StorageError: a file cannot be written.
        StoreOptionsError: there are options of a store for a local path.
    """
    if copy_storage_options and (copy is None or not storage.is_remote(copy)):
        raise StoreOptionsError(
            f"copy_storage_options are for a copy that is a URL; it is {copy}", advice="Leave them out."
        )
    dry_run = boolean("dry_run", dry_run)
    examined_before = examine(dataset_dir, decode=decode, jobs=jobs, progress=progress, storage_options=storage_options)
    if copy is not None:
        copy = storage.with_options_if_remote(copy, copy_storage_options, other_path=examined_before.expected.directory)
        _check_copy(copy, examined_before)
    plan = _Plan(examined_before, copy, refused={})
    steps = []
    for step in plan.steps():
        if not dry_run:
            _write_file(step, examined_before.expected.directory, copy)
            if on_step is not None:
                on_step(step)
        steps.append(step)
    examined_after = examined_before
    if steps and not dry_run:
        examined_after = examine_again(examined_before, {step.file.removesuffix(INDEX_SUFFIX) for step in steps})
    return Repair(examined_before.report, tuple(steps), plan.refused, None if dry_run else examined_after.report)


def _write_file(step: FileRepair, directory: str, copy: str | None) -> None:
    """Writes a repaired file.

    Args:
        step: the repair; without content, the file is copied.
        directory: directory of the version.
        copy: directory of the good copy to copy from; None if there is none.
    """
    path = storage.join(directory, step.file)
    if step.content is not None:
        storage.write_bytes(path, step.content)
    else:
        copy_file(storage.join(copy or "", step.file), path, step.crc32c)


@dataclass(frozen=True)
class _Plan:
    """Files of a damaged dataset that can be restored.

    Attributes:
        before: the damaged dataset.
        copy: the directory of a good copy, if there is one.
        refused: file -> why it is not restored; complete after the last step.
    """

    before: Examination
    copy: str | None
    refused: dict[str, str]

    def steps(self) -> Iterator[FileRepair]:
        """Yields the files to write: small files and shards, then indexes, which may be rebuilt from these shards."""
        damaged: dict[str, Finding] = {}
        for finding in self.before.report.findings:
            if finding.kind not in _HARMLESS:
                damaged.setdefault(finding.file, finding)
        from_copy: set[str] = set()
        for file, finding in sorted(damaged.items(), key=lambda item: item[0].endswith(INDEX_SUFFIX)):
            path = storage.join(self.before.expected.directory, file)
            if not storage.is_remote(path) and storage.is_dir(path):
                self.refused[file] = "a directory has its name; move that away first"
                continue
            shard = file.removesuffix(INDEX_SUFFIX)
            step = self._repair_by_copy(file) if shard in self.before.shards else self._copied_small(file)
            if step is not None and file == shard:
                from_copy.add(shard)
            if step is None and file != shard and shard in self.before.shards:
                step = self._repair_by_rebuilding(shard, finding, self.copy if shard in from_copy else None)
            if step is not None:
                yield step

    def _refuse(self, file: str, reason: str = "only a good copy can restore it") -> None:
        """Records that a file cannot be repaired, with the reason and the advice."""
        if self.before.expected.manifest is None and file != MANIFEST_FILE:
            reason = f"{reason}, and {MANIFEST_FILE} is missing, which has the checksums of its files"
        description = "one" if self.copy is None else "another one than this"
        self.refused[file] = f"{reason}: give {description} by --from, or generate a new version"

    def _copied_small(self, file: str) -> FileRepair | None:
        """Returns the repair of a metadata file from the copy; if no SHA-256 proves it, None, after refusing it."""
        manifest = self.before.expected.manifest
        if file == MANIFEST_FILE:
            self.refused[file] = "no checksum proves it: copy it by hand from a good copy, and verify again"
            return None
        published = None if manifest is None else manifest.metadata.get(file)
        content = None if self.copy is None else _read_if_possible(storage.join(self.copy, file))
        if published is None or content is None or hashlib.sha256(content).hexdigest() != published:
            self._refuse(file)
            return None
        return FileRepair(file, f"copied from {self.copy}", content)

    def _published_crc(self, file: str) -> int | None:
        """Returns the published CRC-32C of a shard or an index; None without a manifest."""
        split, number = self.before.expected.places[file.removesuffix(INDEX_SUFFIX)]
        if split.columns is None:
            return None
        return (split.columns.index_crc32c if file.endswith(INDEX_SUFFIX) else split.columns.crc32c)[number]

    def _repair_by_copy(self, file: str) -> FileRepair | None:
        """Returns the repair that copies a file; records a refusal and returns None if the copy has no intact one."""
        crc = self._published_crc(file)
        if self.copy is None or crc is None or _checksum(storage.join(self.copy, file)) != crc:
            self._refuse(file)
            return None
        return FileRepair(file, f"copied from {self.copy}; its CRC-32C is the published one", crc32c=crc)

    def _repair_by_rebuilding(self, shard: str, finding: Finding, restored_from: str | None) -> FileRepair | None:
        """Returns the repair that rebuilds an index from its shard; None, after refusing it, for a damaged shard."""
        file = finding.file
        if restored_from is None and any(other.file == shard for other in self.before.report.findings):
            self.refused[file] = "its shard must be whole first"
            return None
        directory = self.before.expected.directory
        old = _read_if_possible(storage.join(directory, file)) or b""
        split, number = self.before.expected.places[shard]
        start = 0 if split.num_examples is None else split.starts[number]
        path = storage.join(restored_from or directory, shard)
        content, is_proved = _rebuilt_index(path, old, self._published_crc(file), start)
        if not is_proved and finding.kind in ("keys", "unreadable"):  # an unreadable file may be intact
            reason = "its offsets serve, its keys are lost" if finding.kind == "keys" else "its keys cannot be read"
            self._refuse(file, f"{reason}; only a good copy has them")
            return None
        del self.refused[file]
        message = "built again from the shard and the keys that are left; checksums prove it"
        if not is_proved:
            message = "built again from the shard, without keys: find() needs them, and only a good copy has them"
        return FileRepair(file, message, content)


# ---------------------------------------------------------------------------------------------------------- a good copy


def _check_copy(copy: str, damaged: Examination) -> None:
    """Checks that a directory is another copy of the dataset. The copy may be damaged, too.

    Raises:
        DatasetNotFoundError: it contains no dataset; the message proposes where the copy may be.
        MetadataError: it is the directory of the damaged dataset itself, or of another dataset.
        PathNotFoundError: it does not exist.
    """
    if copy == damaged.expected.directory:
        raise MetadataError("it is the dataset itself", path=copy, advice="Give another copy of it.")
    if not storage.is_dir(copy):
        raise PathNotFoundError("the directory to copy from does not exist", path=copy)
    ours = damaged.expected.full_name
    try:
        theirs = read_expected(copy).full_name
    except DatasetNotFoundError:
        parts = ours.replace(":", "/").split("/")
        subdirectories = [storage.join(copy, *parts[i:]) for i in range(len(parts))]
        advice = next((f"Did you mean {path}?" for path in subdirectories if catalog.is_published(path)), None)
        raise DatasetNotFoundError("it is not the directory of a version", path=copy, advice=advice) from None
    if damaged.expected.manifest is not None and theirs and ours != theirs:
        raise MetadataError(expected=ours, got=theirs, path=copy, advice="Give a copy of the same version.")


def copy_file(source: str, target: str, crc: int | None) -> None:
    """Copies a file; the target appears only if the content has the checksum.

    Args:
        source: path of the file.
        target: path of the copy, which is replaced if it exists.
        crc: expected CRC-32C of the content.

    Raises:
        StorageError: it has another one, or cannot be read or written; the target is as it was.
    """
    checksum = 0
    with storage.open_reader(source) as reader, storage.open_writer(target) as writer:
        for chunk in reader.chunks():
            checksum = crc32c(chunk, checksum)
            writer.write([chunk])
        if checksum != crc:
            raise StorageError(
                "it was changed while it was copied", path=source, outcome="nothing was copied", advice="Try again."
            )


def _read_if_possible(path: str) -> bytes | None:
    """Returns the content of a file; None if it cannot be read."""
    try:
        return storage.read_bytes(path)
    except StorageError:
        return None


def _checksum(path: str) -> int | None:
    """Returns the CRC-32C of a file; None if it cannot be read."""
    try:
        return content_of(path)[1]
    except StorageError:
        return None


# -------------------------------------------------------------------------------------------------------------- indexes


def _rebuilt_index(shard: str, old: bytes, published: int | None, first: int) -> tuple[bytes, bool]:
    """Returns (content of the index file of an undamaged shard, whether it certainly equals the published one).

    The offsets are computed from the shard. Keys cannot be computed from records: they are taken from the old index, or
    are the integers of the positions, and only if a checksum matches: the published one, or if it is unknown, the
    checksums in the old index's header. Otherwise the index has no keys.

    Args:
        shard: the path of the shard.
        old: content of its index file; empty if it is missing.
        published: CRC-32C of the published index; None if it is unknown.
        first: the index in the split of the shard's first example.
    """
    parts = [np.zeros(1, np.int64)]
    with storage.open_reader(shard) as reader:
        parts += [chunk.offsets[1:] + chunk.start for chunk in tfrecord.scan_file(reader, shard, check=False)]
    offsets = np.concatenate(parts)
    for keys, are_integers in _candidates(old, len(offsets) - 1, first):
        try:
            index = Index(offsets, keys, ordered=are_integers, unsorted=True).to_bytes()
        except ValueError:
            continue
        header = index[:_INDEX_HEADER_BYTES] == old[:_INDEX_HEADER_BYTES]
        if header if published is None else crc32c(index) == published:
            return index, True
    index = Index(offsets).to_bytes()
    return index, crc32c(index) == published


def _candidates(old: bytes, count: int, first: int) -> Iterator[tuple[NDArray[np.uint8], bool]]:
    """Yields (keys that the index may have had, whether they are integers in order).

    Args:
        old: content of the old index file, maybe damaged or empty.
        count: number of records of the shard.
        first: the index in the split of the shard's first example.

    Yields:
        Arrays of shape (count, KEY_SIZE): the keys in the old file, and the keys of the positions from `first` on.
    """
    size = KEY_SIZE * count
    for start in dict.fromkeys((48 + 8 * count, len(old) - size)):
        if 0 <= start <= len(old) - size:
            keys = np.frombuffer(old, np.uint8, size, start).reshape(count, KEY_SIZE)
            yield keys, False
            yield keys, True
    positions = b"".join(map(ordered_key, range(first, first + count)))
    yield np.frombuffer(positions, np.uint8).reshape(count, KEY_SIZE), True
