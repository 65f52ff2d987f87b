"""Another copy of a dataset, of which files are taken to repair it: such as are proved to be the published ones."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import TYPE_CHECKING

from beam_datasets import catalog, storage
from beam_datasets.errors import DatasetNotFoundError, MetadataError, PathNotFoundError, StorageError
from beam_datasets.formats.tfrecord import crc32c
from beam_datasets.model.info import INFO_FILE
from beam_datasets.model.manifest import MANIFEST_FILE, Manifest
from beam_datasets.reading.shards import INDEX_SUFFIX
from beam_datasets.reading.verifying import examine
from beam_datasets.reading.verifying.known import inspect

if TYPE_CHECKING:
    import os

    from beam_datasets.reading.verifying import Examination

_READ_BYTES = 1 << 20


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
        if storage.is_same(self.directory, damaged.known.directory):
            raise MetadataError(f"{self.directory} is the dataset itself; give another copy of it.")
        if not storage.is_dir(self.directory):
            raise PathNotFoundError(f"{self.directory}: there is no such directory to copy from")
        self._check_dataset()

    def _check_dataset(self) -> None:
        ours = self._damaged.known.full_name if self._damaged.known.manifest is not None else ""
        try:
            theirs = inspect(self.directory).full_name
        except DatasetNotFoundError:
            parts = self._damaged.known.full_name.replace(":", "/").split("/")
            below = [storage.join(self.directory, *parts[i:]) for i in range(len(parts))]
            meant = next((f"; did you mean {path}?" for path in below if catalog.is_published(path)), ".")
            raise DatasetNotFoundError(f"{self.directory} is no version's directory{meant}") from None
        if ours and theirs and ours != theirs:
            raise MetadataError(f"{self.directory} is {theirs}, not {ours}; give a copy of this very version.")

    def read(self, file: str) -> bytes | None:
        """Returns what a file holds; None where it cannot be read."""
        return read_if_there(storage.join(self.directory, file))

    def is_published(self, file: str, crc: int | None) -> bool:
        """Returns whether the file is there, with the checksum that was published."""
        return crc is not None and _checksum(storage.join(self.directory, file)) == crc

    def copy_to(self, file: str, path: str, crc: int) -> None:
        """Copies a file beside a path, and puts it in its place if it has the checksum.

        Raises:
            StorageError: it has not, or cannot be read or written; the path is as it was.
        """
        source, found = storage.join(self.directory, file), 0
        with storage.open_reader(source) as reader, storage.open_writer(path) as writer:
            for start in range(0, reader.size, _READ_BYTES):
                chunk = reader.read(start, min(start + _READ_BYTES, reader.size))
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
        if manifest is None or f'"{manifest.digest}"'.encode() in (self._damaged.known.manifest_text or b""):
            return text if manifest is not None else None
        published = {split: list(columns.crc32c) for split, columns in manifest.splits.items()}
        names = {split.name: split.filenames for split in self._damaged.known.splits}
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
                f"{self.directory} cannot be told to be the same dataset as {self._damaged.known.directory}: {reason}. "
                "Give a copy of this very version."
            )

    @cached_property
    def _examined(self) -> Examination:
        """The copy, which has no manifest, read and found whole.

        Raises:
            MetadataError: it is not whole, or another dataset.
        """
        other = examine(self.directory)
        wrong = [finding for finding in other.report.findings if finding.kind not in ("extra", "leftover")]
        if wrong:
            raise MetadataError(f"{self.directory} is not whole itself, nor has a manifest to tell by: {wrong[0]}")
        if self.read(INFO_FILE) != read_if_there(storage.join(self._damaged.known.directory, INFO_FILE)):
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


def read_if_there(path: str) -> bytes | None:
    """Returns what a file holds; None where it cannot be read."""
    try:
        return storage.read_bytes(path)
    except StorageError:
        return None


def _checksum(path: str) -> int | None:
    """Returns the CRC-32C of a file; None where it cannot be read."""
    crc = 0
    try:
        with storage.open_reader(path) as reader:
            for start in range(0, reader.size, _READ_BYTES):
                crc = crc32c(reader.read(start, min(start + _READ_BYTES, reader.size)), crc)
    except StorageError:
        return None
    return crc
