"""Files in the staging directory of a run, each with its size and checksum."""

from __future__ import annotations

import uuid
from typing import NamedTuple

from beam_datasets import storage
from beam_datasets.errors import StorageError
from beam_datasets.native import crc32c


def new_dir(staging_dir: str) -> str:
    """Returns the directory for files that are staged now.

    On an object store it is a new one each time, so that no later attempt replaces files that a decision to publish
    names. On a local disk it is the staging directory itself, which is renamed as it is.
    """
    return storage.join(staging_dir, uuid.uuid4().hex[:12]) if storage.is_remote(staging_dir) else staging_dir


class StagedFile(NamedTuple):
    """A file of a run that is complete.

    Attributes:
        name: in the directory that is published.
        staged: path below the staging directory; its first part is unique to the attempt that wrote it.
        num_bytes: size.
        crc32c: CRC-32C of the content.
    """

    name: str
    staged: str
    num_bytes: int
    crc32c: int


def content_of(path: str) -> tuple[int, int]:
    """Returns (size in bytes, CRC-32C) of a file."""
    checksum = 0
    with storage.open_reader(path) as reader:
        for chunk in reader.chunks():
            checksum = crc32c(chunk, checksum)
        return reader.size, checksum


def link_or_copy(source: str, target: str) -> None:
    """Makes a hard link of `source` at `target`; copies it on an object store or if the file system has no links.

    `source` remains.
    """
    try:
        storage.link(source, target)
    except StorageError:
        storage.copy(source, target)
