"""What a run has done so far, read off the files in its staging and spill directories.

A slow generator takes long to fill a block, so its worker also reports its progress in a file.
"""

from __future__ import annotations

import contextlib
import re
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from beam_datasets import storage
from beam_datasets.errors import StorageError
from beam_datasets.generate.runs import CHECKPOINT_SUFFIX

INTERVAL_SECONDS = 0.5
REPORT_SECONDS = 1.0
REMOTE_REPORT_SECONDS = 10.0  # of workers of an engine of many machines
PROGRESS_FILE = "progress.json"
"""Name of the file in a spill directory in which the launcher of a remote job shows its progress."""
_REPORTED = ".encoded"
_CHECKPOINT = re.compile(rf".*-(\d+){re.escape(CHECKPOINT_SUFFIX)}")


@dataclass(frozen=True, slots=True)
class Progress:
    """What was done so far.

    Attributes:
        examples_encoded: examples that were encoded; 0 where payload travels inline.
        bytes_encoded: size of their framed records in bytes; of what was prepared to be copied, too.
        shards_written: shards in the staging directory; 0 if that is on an object store.
        bytes_written: size in bytes of all staged files but indexes and metadata, also of unfinished ones.
        units_finished: units of the source of which a checkpoint exists; 0 where payload travels inline.
        num_units: units of the source; None if they are unknown.
    """

    examples_encoded: int
    bytes_encoded: int
    shards_written: int
    bytes_written: int
    units_finished: int = 0
    num_units: int | None = None


def measure(staging_dir: str, spill_dir: str | None, *, in_stores: bool = False) -> Progress:
    """Returns the contents of a staging directory, and where payload is spilled.

    Args:
        staging_dir: of the run.
        spill_dir: of the run; None if it has none.
        in_stores: whether directories of an object store are listed, each of which is several requests.
    """
    spilled, staged = _sizes(spill_dir, in_stores), _sizes(staging_dir, in_stores)
    examples, size = _encoded(spill_dir or "", spilled)
    shards = [path for path in staged if ".tfrecord-" in path and not path.endswith(".index")]
    written = [path for path in staged if not path.endswith((".index", ".json", ".log"))]
    size += _sum(spill_dir, spilled, [path for path in spilled if path.endswith(".records")])
    units = sum(int(name[1]) for name in map(_CHECKPOINT.fullmatch, spilled) if name)
    return Progress(examples, size, len(shards), _sum(staging_dir, staged, written), units)


def _encoded(spill_dir: str, names: Iterable[str]) -> tuple[int, int]:
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


def _sum(directory: str | None, sizes: Mapping[str, int | None], paths: Iterable[str]) -> int:
    """Returns the size of some files in bytes; asks for those that are not known."""
    total = 0
    for path in paths:
        size = sizes[path]
        with contextlib.suppress(OSError):  # published or removed meanwhile
            total += storage.size(storage.join(directory or "", path)) if size is None else size
    return total


def _sizes(directory: str | None, in_stores: bool) -> dict[str, int | None]:
    """Returns {path of a file: size, None if it is unknown} of a directory; of a store with those below."""
    try:
        if directory is None or (storage.is_remote(directory) and not in_stores):
            return {}
        if storage.is_remote(directory):
            return dict(storage.file_sizes(directory))
        return dict.fromkeys(storage.list_dir(directory))
    except OSError:
        return {}


@contextlib.contextmanager
def watch(
    staging_dir: str,
    spill_dir: str | None,
    report: Callable[[Progress], None] | None,
    num_units: int | None = None,
) -> Iterator[None]:
    """Calls `report`, if it is given, about twice a second while active, from another thread.

    Args:
        staging_dir: of the run.
        spill_dir: of the run; None if it has none.
        report: gets what was done so far.
        num_units: units of the source; None if they are unknown.
    """
    if report is None:
        yield
        return
    with _every(INTERVAL_SECONDS, lambda: report(replace(measure(staging_dir, spill_dir), num_units=num_units))):
        yield


@contextlib.contextmanager
def reported(
    spill_dir: str | None, split: str, encoded: Callable[[], tuple[int, int]], seconds: float = REPORT_SECONDS
) -> Iterator[None]:
    """Writes the progress of a generator to a file from time to time while active; `measure` reads it, in any process.

    Args:
        spill_dir: where its blocks are spilled; None writes nothing.
        split: the split's name.
        encoded: returns how many examples are encoded, and the size of their records in bytes.
        seconds: between two reports.
    """
    if spill_dir is None:
        yield
        return
    path = storage.join(spill_dir, f"{split}-{uuid.uuid4().hex}{_REPORTED}")

    def write() -> None:
        with contextlib.suppress(StorageError):  # the run goes on without
            if storage.is_dir(spill_dir):  # else the launcher has given the run up and removed it
                storage.write_bytes(path, " ".join(map(str, encoded())).encode())

    with _every(seconds, write):
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
