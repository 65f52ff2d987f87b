"""Recorded checksums of downloads: the file checksums.tsv beside a builder, as TensorFlow Datasets writes it.

Each line is `URL, size in bytes, SHA-256[, file name]`, divided by tabs; older files have spaces.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from beam_datasets import storage
from beam_datasets.downloads.errors import DownloadError

CHECKSUMS_FILE = "checksums.tsv"

_PIECE = 1 << 20  # bytes


@dataclass(frozen=True)
class Checksum:
    """Recorded size and checksum of the file at a URL.

    Attributes:
        size: size of the file in bytes.
        sha256: SHA-256 of its content, in hexadecimal digits.
        filename: name of the file in the manual directory; None if unknown.
    """

    size: int
    sha256: str
    filename: str | None = None

    def __str__(self) -> str:
        return f"{self.size:,} bytes, sha256 {self.sha256}"


def read_checksums(path: str | os.PathLike[str]) -> dict[str, Checksum]:
    """Returns {URL: checksum} of a checksums.tsv; {} if the file does not exist.

    Raises:
        DownloadError: a line is not 'URL, size, sha256[, file name]'.
    """
    checksums = {}
    lines = Path(path).read_text("utf-8").splitlines() if Path(path).exists() else []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        url, *values = line.rsplit(maxsplit=2) if "\t" not in line else line.split("\t")
        try:
            checksums[url] = Checksum(int(values[0]), values[1], *values[2:3])
        except (ValueError, IndexError):
            raise DownloadError(
                expected="URL, size, sha256 and file name, divided by tabs",
                got=f"{line!r:.200}",
                path=os.fspath(path),
                line=number,
                advice="Record the checksums again by --register_checksums.",
            ) from None
    return checksums


def write_checksums(path: str | os.PathLike[str], checksums: Mapping[str, Checksum]) -> None:
    """Writes the file that `read_checksums` reads, in the order of the URLs, in one step."""
    rows = [(url, c.size, c.sha256, c.filename or "") for url, c in sorted(checksums.items())]
    text = io.StringIO(newline="")
    csv.writer(text, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_NONE).writerows(rows)
    storage.write_bytes(os.fspath(path), text.getvalue().encode())


def add_checksums(path: str | os.PathLike[str], checksums: Mapping[str, Checksum]) -> None:
    """Adds checksums to a checksums.tsv, and keeps those that other processes add at the same time."""
    with storage.locked(path):
        write_checksums(path, {**read_checksums(path), **checksums})


def compute_sha256(path: Path) -> str:
    """Returns the SHA-256 of a file, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def compute_sha256_once(path: Path) -> str:
    """Returns the SHA-256 of a file; caches it in a hidden file beside it, for the same size and time."""
    stat, cache_path = path.stat(), path.with_name(f".{path.name.partition('-')[0]}.sha256")
    state = f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ino}"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        cached_state, _, digest = cache_path.read_text().rpartition(" ")
        if cached_state == state and len(digest) == 64:
            return digest
    digest = compute_sha256(path)
    with contextlib.suppress(OSError):  # others may own the directory
        storage.write_bytes(str(cache_path), f"{state} {digest}".encode())
    return digest
