"""What a local run has done so far, read off the files in its staging directory.

A slow generator takes long to fill a block, so its worker also reports its progress in a file.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from beam_datasets import storage
from beam_datasets.errors import StorageError

INTERVAL_SECONDS = 0.5
REPORT_SECONDS = 1.0
_REPORTED = ".encoded"


@dataclass(frozen=True, slots=True)
class Progress:
    """What was done so far.

    Attributes:
        examples_encoded: examples that were encoded; 0 where payload travels inline.
        bytes_encoded: size of their framed records in bytes; of what was prepared to be copied, too.
        shards_written: shards in the staging directory; 0 if that is on an object store.
        bytes_written: size in bytes of all staged files but indexes and metadata, also of unfinished ones.
    """

    examples_encoded: int
    bytes_encoded: int
    shards_written: int
    bytes_written: int


def measure(staging_dir: str, spill_dir: str | None) -> Progress:
    """Returns the contents of a staging directory, and where payload is spilled."""
    names = _names(spill_dir)
    examples, size = _encoded(spill_dir or "", names)
    staged = _names(staging_dir)
    shards = [name for name in staged if ".tfrecord-" in name and not name.endswith(".index")]
    written = [name for name in staged if not name.endswith((".index", ".json", ".log"))]
    size += _size(spill_dir, [name for name in names if name.endswith(".records")])
    return Progress(examples, size, len(shards), _size(staging_dir, written))


def _encoded(spill_dir: str, names: list[str]) -> tuple[int, int]:
    """Returns (examples, bytes of their records): of each split what was spilled or reported, whichever is more."""
    spilled: dict[str, Counter[str]] = {}
    found: dict[str, Counter[str]] = {}
    for name in names:
        if name.endswith(".block"):
            split, _, count, num_bytes = name.removesuffix(".block").rsplit("-", 3)
            spilled.setdefault(split, Counter()).update(examples=int(count), bytes=int(num_bytes))
        elif name.endswith(_REPORTED):
            with contextlib.suppress(OSError):  # removed meanwhile
                count, num_bytes = storage.read_bytes(storage.join(spill_dir, name)).decode().split()
                found.setdefault(name.rsplit("-", 1)[0], Counter()).update(examples=int(count), bytes=int(num_bytes))
    best = [spilled.get(split, Counter()) | found.get(split, Counter()) for split in {*spilled, *found}]
    return sum(split["examples"] for split in best), sum(split["bytes"] for split in best)


def _size(directory: str | None, names: list[str]) -> int:
    total = 0
    for name in names:
        with contextlib.suppress(OSError):  # published or removed meanwhile
            total += storage.size(storage.join(directory or "", name))
    return total


def _names(directory: str | None) -> list[str]:
    try:  # an object store would be asked again and again
        return [] if directory is None or storage.is_remote(directory) else storage.list_dir(directory)
    except OSError:
        return []


@contextlib.contextmanager
def watch(staging_dir: str, spill_dir: str | None, report: Callable[[Progress], None] | None) -> Iterator[None]:
    """Calls `report`, if it is given, about twice a second while active, from another thread."""
    if report is None:
        yield
        return
    with _every(INTERVAL_SECONDS, lambda: report(measure(staging_dir, spill_dir))):
        yield


@contextlib.contextmanager
def reported(spill_dir: str | None, split: str, encoded: Callable[[], tuple[int, int]]) -> Iterator[None]:
    """Writes the progress of a generator to a file once a second while active; `measure` reads it, in any process.

    Args:
        spill_dir: where its blocks are spilled, on this machine; None writes nothing.
        split: the split's name.
        encoded: returns how many examples are encoded, and the size of their records in bytes.
    """
    if spill_dir is None:
        yield
        return
    path = storage.join(spill_dir, f"{split}-{uuid.uuid4().hex}{_REPORTED}")

    def write() -> None:
        with contextlib.suppress(StorageError):  # the run goes on without
            if storage.is_dir(spill_dir):  # else the launcher has given the run up and removed it
                storage.write_bytes(path, " ".join(map(str, encoded())).encode())

    with _every(REPORT_SECONDS, write):
        yield


@contextlib.contextmanager
def _every(seconds: float, do: Callable[[], None]) -> Iterator[None]:
    stop = threading.Event()

    def loop() -> None:
        while not stop.wait(seconds):
            do()

    thread = threading.Thread(target=loop, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
