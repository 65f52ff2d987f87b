"""Repairing a published dataset: by what follows from the rest of it, and by what a good copy has.

A published version never changes, so what is written is the published file again, proved by a checksum. There are two
exceptions, which are reported: an index whose keys are lost is written without keys, and a manifest whose digest is
lost gets the digest of what is there. Shards are restored from a copy or not at all.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets import catalog, storage
from beam_datasets.arguments import boolean
from beam_datasets.errors import (
    BeamDatasetsError,
    DatasetNotFoundError,
    MetadataError,
    PathNotFoundError,
    StorageError,
    StoreOptionsError,
)
from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import KEY_SIZE, Index
from beam_datasets.formats.tfrecord import crc32c
from beam_datasets.metadata.info import INFO_FILE, LICENSE_FILE, METADATA_FILE, DatasetInfo
from beam_datasets.metadata.keys import ordered_key
from beam_datasets.metadata.manifest import MANIFEST_FILE, Manifest, ShardColumns
from beam_datasets.metadata.split_info import SplitDict
from beam_datasets.reading.shards import INDEX_SUFFIX
from beam_datasets.verifying import Examination, Finding, Report, examine, examine_again, read_expected

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from typing_extensions import Buffer

    from beam_datasets.verifying import ShardFacts

_HARMLESS = ("extra", "leftover")
_READ_BYTES = 1 << 20
_INDEX_HEADER_BYTES = 40  # with checksums of all that follows

_MADE_BY: Mapping[str, Any] = {"builder": "", "options": {}, "source": None}
"""What only a manifest records, and the values if it is lost."""

_KINDS: Mapping[str, Any] = {"builder": str, "options": dict, "source": (dict, type(None)), "digest": str}


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
        copy = storage.with_options_if_remote(copy, copy_storage_options, beside=before.expected.directory)
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
        self._directory = before.expected.directory
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
        known = self.now.expected
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
        if self.now.expected.manifest is None and any(f.kind == "count" for f in findings):
            files.append(INFO_FILE)  # it or the shard is wrong
        return [file for file in dict.fromkeys(files) if not self._is_of_shards(file)]

    def _is_of_shards(self, file: str) -> bool:
        return file.removesuffix(INDEX_SUFFIX) in self.now.shards

    def _restore_small_file(self, file: str) -> None:
        manifest, path = self.now.expected.manifest, storage.join(self._directory, file)
        before, published = _read_if_there(path), None if manifest is None else manifest.metadata.get(file)
        if self._copy is not None and (manifest is None or published is not None):
            content = self._copy.small_file(file, published)
            if content is not None and content != before:
                self._restore(file, content, f"copied from {self._copy.directory}")
                return
        if file == INFO_FILE and manifest is not None and before is not None:
            content = _rebuilt_info(before, manifest)
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
        split, number = self.now.expected.places[file.removesuffix(INDEX_SUFFIX)]
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
        published = None if self.now.expected.manifest is None else self._published(file)
        for name, shard in self.now.shards.items() if published is not None else ():
            if shard.index is not None and shard.index.crc32c == published:
                return _read_if_there(storage.join(self._directory, name + INDEX_SUFFIX))
        return None

    def _rebuild_index(self, finding: Finding) -> bool:
        """Builds an index again, if its shard is whole; returns whether it did."""
        shard = finding.file.removesuffix(INDEX_SUFFIX)
        if any(other.file == shard for other in self.now.report.findings):
            self.refused[finding.file] = "its shard is to be whole first"
            return False
        old = _read_if_there(storage.join(self._directory, finding.file)) or b""
        split, number = self.now.expected.places[shard]
        start = 0 if split.num_examples is None else split.starts[number]
        path = storage.join(self._directory, shard)
        content, proved = _rebuilt_index(path, old, self._published(finding.file), start)
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
        known = self.now.expected
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
        manifest, digest, lost = _rebuilt_manifest(self.now)
        message = "written again; its digest proves it"
        if manifest.digest != digest:
            message = f"written again, with the digest {manifest.digest}; it was {digest or 'lost'}"
            if lost:
                message += f"; {', '.join(lost)} could not be read and are empty now"
        self._restore(MANIFEST_FILE, manifest.to_text().encode(), message)


# ---------------------------------------------------------------------------------------------------------- a good copy


class GoodCopy:
    """A directory that should hold the same dataset.

    Where the damaged dataset has a manifest, each file is proved by that, and the copy needs not be whole. Where it has
    lost its manifest, the copy's is taken if it is of the same dataset. Where neither has one, as in what TensorFlow
    Datasets writes, the copy itself must be whole, and the same as the dataset in what is whole of that.

    Attributes:
        directory: the copy's.
    """

    def __init__(self, directory: str | os.PathLike[str], damaged: Examination) -> None:
        """Checks that there is another directory, which is none of another dataset.

        Raises:
            DatasetNotFoundError: nothing of a dataset is in it; the message says where the copy may be.
            MetadataError: it is that of the damaged dataset, or of another one.
            PathNotFoundError: there is none.
        """
        self.directory = storage.normalize(directory)
        self._damaged = damaged
        if storage.is_same(self.directory, damaged.expected.directory):
            raise MetadataError(f"{self.directory} is the dataset itself; give another copy of it.")
        if not storage.is_dir(self.directory):
            raise PathNotFoundError(f"{self.directory}: there is no such directory to copy from")
        self._check_dataset()

    def _check_dataset(self) -> None:
        ours = self._damaged.expected.full_name if self._damaged.expected.manifest is not None else ""
        try:
            theirs = read_expected(self.directory).full_name
        except DatasetNotFoundError:
            parts = self._damaged.expected.full_name.replace(":", "/").split("/")
            below = [storage.join(self.directory, *parts[i:]) for i in range(len(parts))]
            meant = next((f"; did you mean {path}?" for path in below if catalog.is_published(path)), ".")
            raise DatasetNotFoundError(f"{self.directory} is no version's directory{meant}") from None
        if ours and theirs and ours != theirs:
            raise MetadataError(f"{self.directory} is {theirs}, not {ours}; give a copy of this very version.")

    def read(self, file: str) -> bytes | None:
        """Returns what a file holds; None where it cannot be read."""
        return _read_if_there(storage.join(self.directory, file))

    def is_published(self, file: str, crc: int | None) -> bool:
        """Returns whether the file is there, with the checksum that was published."""
        return crc is not None and _checksum(storage.join(self.directory, file)) == crc

    def copy_to(self, file: str, path: str, crc: int) -> None:
        """Copies a file beside a path, and puts it in its place if it has the checksum.

        Raises:
            StorageError: it has not, or cannot be read or written; the path is as it was.
        """
        source, found = storage.join(self.directory, file), 0
        with storage.open_writer(path) as writer:
            for chunk in _chunks(source):
                found = crc32c(chunk, found)
                writer.write([chunk])
            if found != crc:
                raise StorageError(f"{source} was changed while it was copied; nothing was kept of it. Try again.")

    @cached_property
    def manifest_text(self) -> bytes | None:
        """The copy's manifest.json, whole and of the same dataset; None where it has none that is whole.

        Raises:
            MetadataError: it is of another dataset, or cannot be told to be of the same.
        """
        text = self.read(MANIFEST_FILE)
        try:
            manifest = None if text is None else Manifest.from_text(text, path=MANIFEST_FILE)
        except MetadataError:
            manifest = None
        if manifest is None or f'"{manifest.digest}"'.encode() in (self._damaged.expected.manifest_text or b""):
            return text if manifest is not None else None
        published = {split: list(columns.crc32c) for split, columns in manifest.splits.items()}
        names = {split.name: split.filenames for split in self._damaged.expected.splits}
        self._check_same({name: crc for split in names for name, crc in zip(names[split], published.get(split, []))})
        return text

    def _check_same(self, theirs: dict[str, int | None]) -> None:
        """Checks that shards of which nothing is found are those of the copy, and that at least one shard is."""
        ours = {name: shard.crc32c for name, shard in self._damaged.shards.items() if not shard.broken}
        wrong = {finding.file for finding in self._damaged.report.findings}
        differ = [name for name, crc in ours.items() if name not in wrong and theirs.get(name) != crc]
        if differ or not any(theirs.get(name) == crc for name, crc in ours.items()):
            reason = f"{differ[0]} is whole here, and another one there" if differ else "no shard is the same in both"
            raise MetadataError(
                f"{self.directory} cannot be told to be the same dataset as {self._damaged.expected.directory}: "
                f"{reason}. Give a copy of this very version."
            )

    @cached_property
    def _examined(self) -> Examination:
        """The copy, which has no manifest, read and found whole.

        Raises:
            MetadataError: it is not whole, or another dataset.
        """
        other = examine(self.directory)
        wrong = [finding for finding in other.report.findings if finding.kind not in _HARMLESS]
        if wrong:
            raise MetadataError(f"{self.directory} is not whole itself, nor has a manifest to tell by: {wrong[0]}")
        if self.read(INFO_FILE) != _read_if_there(storage.join(self._damaged.expected.directory, INFO_FILE)):
            self._check_same({name: shard.crc32c for name, shard in other.shards.items()})
        return other

    def small_file(self, file: str, sha256: str | None) -> bytes | None:
        """Returns what a small file holds, as it was published; None where the copy has no such one.

        Args:
            file: its name.
            sha256: by the manifest, in hexadecimal digits; None where there is none.

        Raises:
            MetadataError: there is no manifest, and the copy is not whole, or another dataset.
        """
        content = self.read(file)
        if content is None or (sha256 is None and not self._examined):
            return None
        return content if sha256 in (None, hashlib.sha256(content).hexdigest()) else None

    def checksum(self, file: str) -> int | None:
        """Returns the CRC-32C of a shard or an index where no manifest says it; None where the copy has no such file.

        Raises:
            MetadataError: the copy is not whole, or another dataset.
        """
        shard = self._examined.shards.get(file.removesuffix(INDEX_SUFFIX))
        if shard is None or not file.endswith(INDEX_SUFFIX):
            return None if shard is None else shard.crc32c
        return None if shard.index is None else shard.index.crc32c


def _read_if_there(path: str) -> bytes | None:
    """Returns what a file holds; None where it cannot be read."""
    try:
        return storage.read_bytes(path)
    except StorageError:
        return None


def _checksum(path: str) -> int | None:
    """Returns the CRC-32C of a file; None where it cannot be read."""
    crc = 0
    try:
        for chunk in _chunks(path):
            crc = crc32c(chunk, crc)
    except StorageError:
        return None
    return crc


def _chunks(path: str) -> Iterator[Buffer]:
    with storage.open_reader(path) as reader:
        for start in range(0, reader.size, _READ_BYTES):
            yield reader.read(start, min(start + _READ_BYTES, reader.size))


# ------------------------------------------------------------------------------------------- what follows from the rest


def _rebuilt_index(shard: str, old: bytes, published: int | None, first: int) -> tuple[bytes, bool]:
    """Returns the index of a whole shard, and whether it is proved to be the published one.

    Its offsets are those of the shard. Its keys cannot be known from records: they are taken from what is left of the
    old index, or, as integer keys may be, from the positions; but only where a checksum proves it: the published one,
    or where that is not known those in the old index's header. Else the index has none.

    Args:
        shard: the path of the shard.
        old: what its index file holds; empty where there is none.
        published: CRC-32C of the index that was published; None where it is not known.
        first: the index in the split of the shard's first example.
    """
    offsets = _offsets(shard)
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


def _offsets(shard: str) -> NDArray[np.int64]:
    parts = [np.zeros(1, np.int64)]
    with storage.open_reader(shard) as reader:
        parts += [chunk.offsets[1:] + chunk.start for chunk in tfrecord.scan_file(reader, shard, check=False)]
    return np.concatenate(parts)


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


def _rebuilt_info(text: bytes, manifest: Manifest) -> bytes | None:
    """Returns dataset_info.json with the counts that the manifest says; None where that is not the published one.

    Args:
        text: what the damaged file holds.
        manifest: of the dataset.
    """
    try:
        info = DatasetInfo.from_json_text(text, path=INFO_FILE)
        splits = [
            info.splits[name].replace(shard_lengths=list(columns.num_examples), num_bytes=sum(columns.num_bytes))
            for name, columns in ((name, manifest.splits[name]) for name in info.splits)
        ]
        rebuilt = info.replace(splits=SplitDict(splits)).to_json_text().encode()
    except (BeamDatasetsError, KeyError):
        return None
    return rebuilt if hashlib.sha256(rebuilt).hexdigest() == manifest.metadata.get(INFO_FILE) else None


def _rebuilt_manifest(examination: Examination) -> tuple[Manifest, str | None, tuple[str, ...]]:
    """Returns the manifest of a dataset in which nothing else is damaged, its digest before, and the lost fields.

    What only the manifest recorded (the builder, its options, the source) is read from the damaged file as far as
    possible, and so is the digest: it is None if it cannot be read there. Fields that cannot be read are empty.
    """
    known, facts = examination.expected, iter(examination.facts)
    if known.info is None:
        raise ValueError(f"{known.directory}: a manifest cannot be made without {INFO_FILE}")
    text = (known.manifest_text or b"").decode(errors="replace")
    found = _fields(text)
    splits = {split.name: _columns([next(facts) for _ in split.filenames]) for split in known.splits}
    manifest = Manifest(
        name=known.info.name,
        config=known.info.config_name,
        version=str(known.info.version),
        splits=splits,
        metadata={name: _sha256(storage.join(known.directory, name)) for name in _small_files(examination)},
        **{name: found.get(name, empty) for name, empty in _MADE_BY.items()},
    )
    lost = tuple(name for name in _MADE_BY if name not in found)
    return manifest, found.get("digest"), lost


def _small_files(examination: Examination) -> list[str]:
    """Returns the small files of a dataset that its manifest tells of."""
    known = examination.expected
    names = [INFO_FILE, catalog.FEATURES_FILE, METADATA_FILE, LICENSE_FILE]
    known.features.load_labels(lambda name: names.append(name))
    return [name for name in names if storage.exists(storage.join(known.directory, name))]


def _columns(facts: Sequence[ShardFacts]) -> ShardColumns:
    return ShardColumns(
        num_examples=[shard.num_records for shard in facts],
        num_bytes=[shard.num_bytes for shard in facts],
        file_bytes=[shard.size for shard in facts],
        crc32c=[shard.crc32c or 0 for shard in facts],
        index_crc32c=[(shard.index and shard.index.crc32c) or 0 for shard in facts],
    )


def _fields(text: str) -> dict[str, Any]:
    """Returns those fields of a damaged manifest that can be read, each by itself."""
    found = {}
    for name in _KINDS:
        matches = re.finditer(rf'^( *)"{name}": *', text, re.MULTILINE)
        match = min(matches, key=lambda match: len(match[1]), default=None)  # the outermost
        try:
            if match is not None:
                found[name] = json.JSONDecoder().raw_decode(text, match.end())[0]
        except (ValueError, RecursionError):
            continue
    return {name: value for name, value in found.items() if isinstance(value, _KINDS[name])}


def _sha256(path: str) -> str:
    return hashlib.sha256(storage.read_bytes(path)).hexdigest()
