"""Repairing a published dataset: by what follows from the rest of it, and by what a good copy has.

A published version never changes, so what is written is the published file again, proved by a checksum. There are two
exceptions, which are told: an index whose keys are lost is written without keys, and a manifest whose digest is lost
gets the digest of what is there. Shards are restored from a copy or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beam_datasets import storage
from beam_datasets.arguments import boolean
from beam_datasets.errors import StoreOptionsError
from beam_datasets.model.info import INFO_FILE
from beam_datasets.model.manifest import MANIFEST_FILE
from beam_datasets.reading.shards import INDEX_SUFFIX
from beam_datasets.reading.verifying import Examination, Finding, Report, examine, examine_again
from beam_datasets.writing.good_copy import GoodCopy, read_if_there
from beam_datasets.writing.rebuilding import rebuild_index, rebuild_info, rebuild_manifest

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

_HARMLESS = ("extra", "leftover")


@dataclass(frozen=True)
class Step:
    """A file that is written instead of a damaged or missing one.

    Attributes:
        file: its name in the dataset's directory.
        message: what it is made of, and what proves it.
        content: what is written; None where a good copy is copied.
        crc32c: of the copy.
    """

    file: str
    message: str
    content: bytes | None = None
    crc32c: int | None = None

    def __str__(self) -> str:
        return f"{self.file}: {self.message}"


@dataclass(frozen=True)
class Repair:
    """What repairing did.

    Attributes:
        before: what was wrong.
        steps: what was written, or would be.
        refused: file -> why it was not.
        after: what is still wrong; None where nothing was to be written.
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
    told: Callable[[Step], None] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    copy_storage_options: Mapping[str, Any] | None = None,
) -> Repair:
    """Verifies a dataset, and writes what can be restored; returns what was done and what is left.

    Each file appears whole, in place of the damaged one. Nothing else is touched, and nothing is removed: where a
    directory stands in a file's place, that file is refused.

    Args:
        dataset_dir: the directory of a version, or its URL.
        copy: the directory of another copy of the same version: a file of it is taken where it is the published one.
        dry_run: whether to write nothing.
        decode: see `verify`.
        jobs: see `verify`.
        progress: see `verify`.
        told: called with each step once it is done.
        storage_options: of the store of the dataset, where its directory is a URL; see `beam_datasets.builder`.
        copy_storage_options: of the store of the copy; None where the copy is in the same bucket for those of the
            dataset, elsewhere for what the environment says.

    Raises:
        DatasetNotFoundError: there is no dataset, or in the directory of the copy is none.
        PathNotFoundError: there is no copy.
        MetadataError: the copy is of another dataset, or cannot be told to be of the same.
        StorageError: a file cannot be written.
        StoreOptionsError: there are options of a store for a local path.
    """
    if copy_storage_options and (copy is None or not storage.is_remote(copy)):
        raise StoreOptionsError(f"copy_storage_options are for a copy that is a URL; it is {copy}. Leave them out")
    dry_run = boolean("dry_run", dry_run)
    before = examine(dataset_dir, decode=decode, jobs=jobs, progress=progress, storage_options=storage_options)
    if copy is not None:
        copy = storage.with_options_if_remote(copy, copy_storage_options, beside=before.known.directory)
    job = _Job(before, None if copy is None else GoodCopy(copy, before), dry_run, told)
    if not before.report.whole:
        job.restore_small_files()
        job.restore_shards()
        job.restore_indexes()
        job.rebuild_manifest()
    return Repair(before.report, tuple(job.steps), job.refused, None if dry_run else job.now.report)


class _Job:
    """A repair under way.

    Attributes:
        now: the dataset as it is by now; where nothing is to be written, as it would be but for shards and indexes.
        steps: what was done, or would be.
        refused: file -> why not.
    """

    def __init__(
        self, before: Examination, copy: GoodCopy | None, dry_run: bool, told: Callable[[Step], None] | None
    ) -> None:
        self.now = before
        self.steps: list[Step] = []
        self.refused: dict[str, str] = {}
        self._directory = before.known.directory
        self._copy = copy
        self._dry_run = dry_run
        self._told = told
        self._instead: dict[str, bytes] = {}

    def _do(self, step: Step) -> None:
        """Does a step."""
        path = storage.join(self._directory, step.file)
        if not self._dry_run:
            if step.content is not None:
                storage.write_bytes(path, step.content)
            elif self._copy is not None and step.crc32c is not None:
                self._copy.copy_to(step.file, path, step.crc32c)
            if self._told is not None:
                self._told(step)
        self.steps.append(step)
        self.refused.pop(step.file, None)

    def _look_again(self, changed: set[str] | None = None) -> None:
        self.now = examine_again(self.now, () if self._dry_run else changed or (), self._instead)

    def _is_free(self, file: str) -> bool:
        """Returns whether a file can be written in its place, where no directory stands; else refuses it."""
        path = storage.join(self._directory, file)
        if storage.is_remote(path) or not storage.is_dir(path):
            return True
        self.refused[file] = "a directory stands in its place; move that away first"
        return False

    # ------------------------------------------------------------------------------------------------------ small files

    def restore_small_files(self) -> None:
        """Restores the manifest from the copy, then the other small files from it or by what the manifest says."""
        known = self.now.known
        if known.manifest is None and known.indexed and self._copy is not None and self._is_free(MANIFEST_FILE):
            text = self._copy.manifest_text
            if text is not None:
                self._restore(MANIFEST_FILE, text, f"copied from {self._copy.directory}, which is the same dataset")
        for file in filter(self._is_free, self._wrong_small_files()):
            self._restore_small_file(file)

    def _restore(self, file: str, content: bytes, message: str) -> None:
        self._do(Step(file, message, content))
        self._instead[file] = content
        self._look_again()

    def _wrong_small_files(self) -> list[str]:
        findings = self.now.report.findings
        files = [f.file for f in findings if f.kind in ("metadata", "missing", "unreadable")]
        if self.now.known.manifest is None and any(f.kind == "count" for f in findings):
            files.append(INFO_FILE)  # it or the shard is wrong
        return [file for file in dict.fromkeys(files) if not self._is_of_shards(file)]

    def _is_of_shards(self, file: str) -> bool:
        return file.removesuffix(INDEX_SUFFIX) in self.now.shards

    def _restore_small_file(self, file: str) -> None:
        manifest, path = self.now.known.manifest, storage.join(self._directory, file)
        before, published = read_if_there(path), None if manifest is None else manifest.metadata.get(file)
        if self._copy is not None and (manifest is None or published is not None):
            content = self._copy.small_file(file, published)
            if content is not None and content != before:
                self._restore(file, content, f"copied from {self._copy.directory}")
                return
        if file == INFO_FILE and manifest is not None and before is not None:
            content = rebuild_info(before, manifest)
            if content is not None:
                self._restore(file, content, f"counts put right by {MANIFEST_FILE}, whose SHA-256 proves it")
                return
        self._refuse(file)

    def _refuse(self, file: str, why: str = "only a good copy can restore it") -> None:
        which = "one" if self._copy is None else "another one than this"
        self.refused[file] = f"{why}: give {which} by --from, or generate a new version"

    # ----------------------------------------------------------------------------------------------------------- shards

    def _findings(self, *, of_indexes: bool) -> list[Finding]:
        """Returns the findings of shards, or of their indexes, whose places are free, the first of each file."""
        found = {
            finding.file: finding
            for finding in reversed(self.now.report.findings)
            if self._is_of_shards(finding.file)
            and finding.file.endswith(INDEX_SUFFIX) == of_indexes
            and finding.kind != "example"
        }
        return [finding for finding in reversed(found.values()) if self._is_free(finding.file)]

    def restore_shards(self) -> None:
        """Restores shards from the copy."""
        restored = {f.file for f in self._findings(of_indexes=False) if self._restore_from_copy(f.file)}
        if restored:
            self._look_again(restored)

    def _restore_from_copy(self, file: str) -> bool:
        """Copies a file, if the copy has it as it was published; returns whether it does."""
        crc = self._published(file)
        if self._copy is None or crc is None or not self._copy.is_published(file, crc):
            self._refuse(file)
            return False
        message = f"copied from {self._copy.directory}; its CRC-32C is the published one"
        self._do(Step(file, message, crc32c=crc))
        return True

    def _published(self, file: str) -> int | None:
        """Returns the CRC-32C of a shard or an index: by the manifest, else by the copy."""
        split, number = self.now.known.places[file.removesuffix(INDEX_SUFFIX)]
        if split.columns is not None:
            return (split.columns.index_crc32c if file.endswith(INDEX_SUFFIX) else split.columns.crc32c)[number]
        return None if self._copy is None else self._copy.checksum(file)

    # ---------------------------------------------------------------------------------------------------------- indexes

    def restore_indexes(self) -> None:
        """Restores indexes: from where they stand under another's name, from the copy, or from their shards."""
        findings = self._findings(of_indexes=True)
        misplaced = {finding.file: self._misplaced(finding.file) for finding in findings}
        restored = set()
        for finding in findings:
            content = misplaced[finding.file]
            if content is not None:
                message = "taken from another index's place; its CRC-32C is the published one"
                self._do(Step(finding.file, message, content))
            elif not self._restore_from_copy(finding.file) and not self._rebuild_index(finding):
                continue
            restored.add(finding.file.removesuffix(INDEX_SUFFIX))
        if restored:
            self._look_again(restored)

    def _misplaced(self, file: str) -> bytes | None:
        """Returns an index that stands in the place of another one."""
        published = None if self.now.known.manifest is None else self._published(file)
        for name, shard in self.now.shards.items() if published is not None else ():
            if shard.index is not None and shard.index.crc32c == published:
                return read_if_there(storage.join(self._directory, name + INDEX_SUFFIX))
        return None

    def _rebuild_index(self, finding: Finding) -> bool:
        """Builds an index again, if its shard is whole; returns whether it did."""
        shard = finding.file.removesuffix(INDEX_SUFFIX)
        if any(other.file == shard for other in self.now.report.findings):
            self.refused[finding.file] = "its shard is to be whole first"
            return False
        old = read_if_there(storage.join(self._directory, finding.file)) or b""
        split, number = self.now.known.places[shard]
        start = 0 if split.num_examples is None else split.starts[number]
        path = storage.join(self._directory, shard)
        content, proved = rebuild_index(path, old, self._published(finding.file), start)
        if not proved and finding.kind in ("keys", "unreadable"):  # what cannot be read now may be good
            why = "its offsets serve, its keys are lost" if finding.kind == "keys" else "its keys cannot be read"
            self._refuse(finding.file, f"{why}; only a good copy has them")
            return False
        message = "built again from the shard and the keys that are left; checksums prove it"
        if not proved:
            message = "built again from the shard, without keys: find() needs them, and only a good copy has them"
        self._do(Step(finding.file, message, content))
        return True

    # --------------------------------------------------------------------------------------------------------- manifest

    def rebuild_manifest(self) -> None:
        """Writes the manifest again, where all else is whole."""
        known = self.now.known
        if known.manifest is not None or not known.indexed or not self._is_free(MANIFEST_FILE):
            return
        done = {step.file for step in self.steps} if self._dry_run else set()
        wrong = [
            f for f in self.now.report.findings if f.kind not in _HARMLESS and f.file not in {MANIFEST_FILE, *done}
        ]
        if wrong:
            self.refused[MANIFEST_FILE] = f"all else is to be whole first, and {wrong[0].file} is not"
            return
        if done:
            self._do(Step(MANIFEST_FILE, "written again, if all else is whole by then"))
            return
        rebuilt = rebuild_manifest(self.now)
        message = "written again; its digest proves it"
        if not rebuilt.is_proved:
            message = (
                f"written again, with the digest {rebuilt.manifest.digest}; it was {rebuilt.digest_before or 'lost'}"
            )
            if rebuilt.lost:
                message += f"; {', '.join(rebuilt.lost)} could not be read and are empty now"
        self._restore(MANIFEST_FILE, rebuilt.manifest.to_text().encode(), message)
