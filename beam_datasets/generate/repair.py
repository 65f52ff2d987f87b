"""Repairs a published dataset: takes files from a good copy by their checksums, and rebuilds indexes from their shards.

A published version never changes, so what is written is the published file, proved by the checksum in manifest.json.
The one exception is reported: an index whose keys are lost is written without keys. Shards are never changed otherwise.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets import catalog, storage
from beam_datasets.arguments import boolean
from beam_datasets.errors import (
    DatasetNotFoundError,
    MetadataError,
    PathNotFoundError,
    StorageError,
    StoreOptionsError,
)
from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import KEY_SIZE, Index
from beam_datasets.formats.tfrecord import crc32c
from beam_datasets.generate.runs import content_of
from beam_datasets.metadata.keys import ordered_key
from beam_datasets.metadata.manifest import MANIFEST_FILE, Manifest
from beam_datasets.reading.shards import INDEX_SUFFIX
from beam_datasets.verifying import Examination, Finding, Report, examine, examine_again, read_expected

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

_HARMLESS = ("extra", "leftover", "example")
"""Kinds of findings that no file which is written can resolve."""
_READ_BYTES = 1 << 20
_INDEX_HEADER_BYTES = 40  # with checksums of all that follows


@dataclass(frozen=True)
class Step:
    """A file that is written in place of a damaged or missing one.

    Attributes:
        file: its name in the dataset's directory.
        message: what it is made of, and what proves it.
        content: what is written; None if the copy's file is copied.
        crc32c: of the copy's file.
    """

    file: str
    message: str
    content: bytes | None = None
    crc32c: int | None = None

    def __str__(self) -> str:
        return f"{self.file}: {self.message}"


@dataclass(frozen=True)
class Repair:
    """What a repair did.

    Attributes:
        before: what was wrong.
        steps: what was written, or would be.
        refused: file -> why it was not.
        after: what is still wrong; None for a dry run.
    """

    before: Report
    steps: tuple[Step, ...]
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
    on_step: Callable[[Step], None] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    copy_storage_options: Mapping[str, Any] | None = None,
) -> Repair:
    """Verifies a dataset, writes what can be restored, and returns what was done and what is left.

    Each file appears whole, in place of the damaged one. Nothing else is changed, and nothing is removed: a file in
    whose place there is a directory is refused.

    Args:
        dataset_dir: the directory of a version, or its URL.
        copy: the directory of another copy of the same version: each file with the published checksum is taken from it.
        dry_run: whether to write nothing.
        decode: see `verify`.
        jobs: see `verify`.
        progress: see `verify`.
        on_step: called with each step once it is done.
        storage_options: of the store of the dataset, if its directory is a URL; see `beam_datasets.builder`.
        copy_storage_options: of the store of the copy; None for those of the dataset if it is in the same bucket.

    Raises:
        DatasetNotFoundError: there is no dataset, or the directory of the copy does not contain one.
        PathNotFoundError: the directory of the copy does not exist.
        MetadataError: the copy is of another dataset, or cannot be proved to be of the same.
        StorageError: a file cannot be written.
        StoreOptionsError: there are options of a store for a local path.
    """
    if copy_storage_options and (copy is None or not storage.is_remote(copy)):
        raise StoreOptionsError(f"copy_storage_options are for a copy that is a URL; it is {copy}. Leave them out")
    dry_run = boolean("dry_run", dry_run)
    before = examine(dataset_dir, decode=decode, jobs=jobs, progress=progress, storage_options=storage_options)
    if copy is not None:
        copy = storage.with_options_if_remote(copy, copy_storage_options, beside=before.expected.directory)
        check_copy(copy, before)
    job = _Job(before, copy, dry_run, on_step)
    if not before.report.whole:
        job.restore_manifest()
        job.restore_files()
    return Repair(before.report, tuple(job.steps), job.refused, None if dry_run else job.now.report)


class _Job:
    """A repair in progress.

    Attributes:
        now: the dataset as it is now; in a dry run with the manifest that would be written.
        steps: what was done, or would be.
        refused: file -> why not.
    """

    def __init__(
        self, before: Examination, copy: str | None, dry_run: bool, on_step: Callable[[Step], None] | None
    ) -> None:
        self.now = before
        self.steps: list[Step] = []
        self.refused: dict[str, str] = {}
        self._directory = before.expected.directory
        self._copy = copy
        self._dry_run = dry_run
        self._on_step = on_step

    def _do(self, step: Step) -> None:
        path = storage.join(self._directory, step.file)
        if not self._dry_run:
            if step.content is not None:
                storage.write_bytes(path, step.content)
            else:
                assert self._copy is not None
                copy_file(storage.join(self._copy, step.file), path, step.crc32c)
            if self._on_step is not None:
                self._on_step(step)
        self.steps.append(step)

    def _is_free(self, file: str) -> bool:
        """Returns whether a file can be written to its place, which a directory may occupy; else refuses it."""
        path = storage.join(self._directory, file)
        if storage.is_remote(path) or not storage.is_dir(path):
            return True
        self.refused[file] = "a directory stands in its place; move that away first"
        return False

    def _refuse(self, file: str, why: str = "only a good copy can restore it") -> None:
        if self.now.expected.manifest is None and file != MANIFEST_FILE:
            why = f"{why}, and {MANIFEST_FILE} is missing, which has the checksums of its files"
        which = "one" if self._copy is None else "another one than this"
        self.refused[file] = f"{why}: give {which} by --from, or generate a new version"

    def _damaged(self) -> dict[str, Finding]:
        """Returns the first finding of each file that is to be restored and whose place is free."""
        found: dict[str, Finding] = {}
        for finding in self.now.report.findings:
            if finding.kind not in _HARMLESS and self._is_free(finding.file):
                found.setdefault(finding.file, finding)
        return found

    def restore_manifest(self) -> None:
        """Takes the manifest of the copy, if the dataset's is damaged or missing."""
        expected = self.now.expected
        if expected.manifest is not None or not expected.indexed or not self._is_free(MANIFEST_FILE):
            return
        text = None if self._copy is None else _manifest_of_copy(self._copy, self.now)
        if text is None:
            self._refuse(MANIFEST_FILE)
            return
        self._do(Step(MANIFEST_FILE, f"copied from {self._copy}, which is the same dataset", text))
        self.now = examine_again(self.now, (), {MANIFEST_FILE: text})

    def restore_files(self) -> None:
        """Takes small files, shards and indexes from the copy, and rebuilds other indexes from their shards."""
        restored: set[str] = set()
        for file, finding in sorted(self._damaged().items(), key=lambda item: item[0].endswith(INDEX_SUFFIX)):
            shard = file.removesuffix(INDEX_SUFFIX)
            if file == MANIFEST_FILE:
                continue
            if shard not in self.now.shards:
                self._restore_small_file(file)
            elif self._restore_from_copy(file) or (file != shard and self._rebuild_index(shard, finding, restored)):
                restored.add(shard)
        if self.steps and not self._dry_run:
            self.now = examine_again(self.now, restored)

    def _restore_small_file(self, file: str) -> None:
        manifest = self.now.expected.manifest
        published = None if manifest is None else manifest.metadata.get(file)
        content = None if self._copy is None else _read_if_possible(storage.join(self._copy, file))
        if published is None or content is None or hashlib.sha256(content).hexdigest() != published:
            self._refuse(file)
        else:
            self._do(Step(file, f"copied from {self._copy}", content))

    def _published(self, file: str) -> int | None:
        """Returns the published CRC-32C of a shard or an index; None without a manifest."""
        split, number = self.now.expected.places[file.removesuffix(INDEX_SUFFIX)]
        if split.columns is None:
            return None
        return (split.columns.index_crc32c if file.endswith(INDEX_SUFFIX) else split.columns.crc32c)[number]

    def _restore_from_copy(self, file: str) -> bool:
        crc = self._published(file)
        if self._copy is None or crc is None or _checksum(storage.join(self._copy, file)) != crc:
            self._refuse(file)
            return False
        self._do(Step(file, f"copied from {self._copy}; its CRC-32C is the published one", crc32c=crc))
        return True

    def _rebuild_index(self, shard: str, finding: Finding, restored: set[str]) -> bool:
        """Rebuilds an index, if its shard is whole; returns whether it did."""
        file = finding.file
        if shard not in restored and any(other.file == shard for other in self.now.report.findings):
            self.refused[file] = "its shard must be whole first"
            return False
        old = _read_if_possible(storage.join(self._directory, file)) or b""
        split, number = self.now.expected.places[shard]
        start = 0 if split.num_examples is None else split.starts[number]
        path = storage.join(self._directory if shard not in restored else self._copy or "", shard)
        content, is_proved = _rebuilt_index(path, old, self._published(file), start)
        if not is_proved and finding.kind in ("keys", "unreadable"):  # what cannot be read now may be good
            why = "its offsets serve, its keys are lost" if finding.kind == "keys" else "its keys cannot be read"
            self._refuse(file, f"{why}; only a good copy has them")
            return False
        del self.refused[file]
        message = "built again from the shard and the keys that are left; checksums prove it"
        if not is_proved:
            message = "built again from the shard, without keys: find() needs them, and only a good copy has them"
        self._do(Step(file, message, content))
        return True


# ---------------------------------------------------------------------------------------------------------- a good copy


def check_copy(copy: str, damaged: Examination) -> None:
    """Checks that a directory is another one, and not of another dataset. The copy need not be whole.

    Raises:
        DatasetNotFoundError: it contains no dataset; the message proposes where the copy may be.
        MetadataError: it is that of the damaged dataset, or of another one.
        PathNotFoundError: it does not exist.
    """
    if copy == damaged.expected.directory:
        raise MetadataError(f"{copy} is the dataset itself; give another copy of it.")
    if not storage.is_dir(copy):
        raise PathNotFoundError(f"{copy}: the directory to copy from does not exist")
    ours = damaged.expected.full_name
    try:
        theirs = read_expected(copy).full_name
    except DatasetNotFoundError:
        parts = ours.replace(":", "/").split("/")
        below = [storage.join(copy, *parts[i:]) for i in range(len(parts))]
        meant = next((f"; did you mean {path}?" for path in below if catalog.is_published(path)), ".")
        raise DatasetNotFoundError(f"{copy} is not the directory of a version{meant}") from None
    if damaged.expected.manifest is not None and theirs and ours != theirs:
        raise MetadataError(f"{copy} is {theirs}, not {ours}; give a copy of this very version.")


def _manifest_of_copy(copy: str, damaged: Examination) -> bytes | None:
    """Returns the copy's manifest.json if it is of the same dataset; None if it is missing or damaged.

    It is of the same dataset if the damaged manifest contains its digest, or all shards that are whole have the CRC-32C
    that it records, and there is one.

    Raises:
        MetadataError: it is of another dataset, or that cannot be decided.
    """
    text = _read_if_possible(storage.join(copy, MANIFEST_FILE))
    try:
        manifest = None if text is None else Manifest.from_text(text, path=MANIFEST_FILE)
    except MetadataError:
        return None
    if manifest is None or f'"{manifest.digest}"'.encode() in (damaged.expected.manifest_text or b""):
        return text
    theirs = {
        name: crc
        for split in damaged.expected.splits
        if split.name in manifest.splits
        for name, crc in zip(split.filenames, manifest.splits[split.name].crc32c)
    }
    wrong = {finding.file for finding in damaged.report.findings}
    ours = {name: s.crc32c for name, s in damaged.shards.items() if not s.broken and name not in wrong}
    differ = [name for name, crc in ours.items() if theirs.get(name) != crc]
    if differ or not ours:
        reason = f"{differ[0]} is whole here, and another one there" if differ else "no shard is whole here"
        raise MetadataError(
            f"{copy} cannot be proved to be the same dataset as {damaged.expected.directory}: {reason}. Give a copy of "
            "this very version."
        )
    return text


def copy_file(source: str, target: str, crc: int | None) -> None:
    """Copies a file and puts it in its place if it has the checksum.

    Raises:
        StorageError: it has another one, or cannot be read or written; the target is as it was.
    """
    found = 0
    with storage.open_writer(target) as writer:
        with storage.open_reader(source) as reader:
            for start in range(0, reader.size, _READ_BYTES):
                chunk = reader.read(start, min(start + _READ_BYTES, reader.size))
                found = crc32c(chunk, found)
                writer.write([chunk])
        if found != crc:
            raise StorageError(f"{source} was changed while it was copied; nothing was kept of it. Try again.")


def _read_if_possible(path: str) -> bytes | None:
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
    """Returns the index of a whole shard, and whether it is proved to be the published one.

    Its offsets are those of the shard. Its keys cannot be computed from records: they are taken from the rest of the
    old index or, as integer keys may be, from the positions; but only if a checksum proves it: the published one, or
    without a manifest those in the old index's header. Else the index has no keys.

    Args:
        shard: the path of the shard.
        old: what its index file contains; empty if it is missing.
        published: CRC-32C of the published index; None if it is unknown.
        first: the index in the split of the shard's first example.
    """
    parts = [np.zeros(1, np.int64)]
    with storage.open_reader(shard) as reader:
        parts += [chunk.offsets[1:] + chunk.start for chunk in tfrecord.scan_file(reader, shard, check=False)]
    offsets = np.concatenate(parts)
    for keys, ordered in _candidates(old, len(offsets) - 1, first):
        try:
            index = Index(offsets, keys, ordered=ordered, unsorted=True).to_bytes()
        except ValueError:
            continue
        header = index[:_INDEX_HEADER_BYTES] == old[:_INDEX_HEADER_BYTES]
        if header if published is None else crc32c(index) == published:
            return index, True
    index = Index(offsets).to_bytes()
    return index, crc32c(index) == published


def _candidates(old: bytes, count: int, first: int) -> Iterator[tuple[NDArray[np.uint8], bool]]:
    """Yields what the keys may have been, and whether they are integers."""
    size = KEY_SIZE * count
    for start in dict.fromkeys((48 + 8 * count, len(old) - size)):
        if 0 <= start <= len(old) - size:
            keys = np.frombuffer(old, np.uint8, size, start).reshape(count, KEY_SIZE)
            yield keys, False
            yield keys, True
    positions = b"".join(map(ordered_key, range(first, first + count)))
    yield np.frombuffer(positions, np.uint8).reshape(count, KEY_SIZE), True
