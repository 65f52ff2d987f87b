"""The contents of directories, to compare them."""

import hashlib
from pathlib import Path

from beam_datasets import storage


def digests(directory: str | Path) -> dict[str, str]:
    """Returns {file name: sha256} of a published directory on a disk or in a store, without what no digest covers."""
    root = directory if isinstance(directory, str) else str(directory)
    names = sorted(name for name in storage.list_dir(root) if name not in ("run.json", "inputs.json"))
    return {name: hashlib.sha256(storage.read_bytes(storage.join(root, name))).hexdigest() for name in names}


def contents(folder: str | Path) -> dict[str, bytes]:
    """Returns {path relative to the folder: bytes} of all files below it, on a disk or in a store."""
    return {name: storage.read_bytes(storage.join(folder, name)) for name in storage.file_sizes(folder)}
