"""Progress of a run, measured by the files in its staging and spill directories.

A slow generator takes long to fill a block, so its worker also writes its progress to a file.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from beam_datasets import storage
from beam_datasets.errors import StorageError
from beam_datasets.publishing.runs import CHECKPOINT_SUFFIX

INTERVAL_SECONDS = 0.5
REPORT_SECONDS = 1.0
REMOTE_REPORT_SECONDS = 10.0  # of workers of an engine of many machines
PROGRESS_FILE = "progress.json"
"""Name of the file in a spill directory in which the launcher of a remote job shows its progress."""
_REPORTED = ".encoded"
_CHECKPOINT = re.compile(rf".*-(\d+){re.escape(CHECKPOINT_SUFFIX)}")


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a run.

    Attributes:
        examples_encoded: number of encoded examples; 0 if payload is inline.
        bytes_encoded: size in bytes of their framed records, and of records that were prepared to be copied.
        shards_written: number of shards in the staging directory; 0 if that is on an object store.
        bytes_written: size in bytes of all staged files except indexes and metadata, also of unfinished ones.
        units_finished: number of units of the source that are in checkpoints; 0 if payload is inline.
        num_units: number of units of the source; None if it is unknown.
    """

    examples_encoded: int
    bytes_encoded: int
    shards_written: int
    bytes_written: int
    units_finished: int = 0
    num_units: int | None = None


def measure(staging_dir: str, spill_dir: str | None, *, in_stores: bool = False) -> Progress:
    """Measures the progress of a run by its directories.

    Args:
        staging_dir: staging directory of the run.
        spill_dir: spill directory of the run; None if it has none.
        in_stores: whether to list directories on an object store, which takes several requests.
    """
    spilled, staged = _list_sizes(spill_dir, in_stores), _list_sizes(staging_dir, in_stores)
    examples, size = _count_encoded(spill_dir or "", spilled)
    shards = [path for path in staged if ".tfrecord-" in path and not path.endswith(".index")]
    shard_paths = [path for path in staged if not path.endswith((".index", ".json", ".log"))]
    size += _sum(spill_dir, spilled, [path for path in spilled if path.endswith(".records")])
    units = _count_units(spilled)
    return Progress(examples, size, len(shards), _sum(staging_dir, staged, shard_paths), units)


def count_units(spill_dirs: Iterable[str]) -> int:
    """Returns the number of units of the source in the checkpoints of spill directories."""
    return sum(_count_units(_list_sizes(spill_dir, True)) for spill_dir in spill_dirs)


def _count_units(names: Iterable[str]) -> int:
    """Returns the number of units in checkpoints, which their file names contain: 12 in "<any text>-12<suffix>"."""
    return sum(int(name[1]) for name in map(_CHECKPOINT.fullmatch, names) if name)


def _count_encoded(spill_dir: str, names: Iterable[str]) -> tuple[int, int]:
    """Returns (number of encoded examples, size of their records in bytes) of all splits together.

    Of each bundle of a split the greater of two numbers counts: the sum in the names of its spilled blocks, and its
    report, which is older than the last block, or has examples that are in no block yet.

    Args:
        spill_dir: the spill directory.
        names: names of the files in it.
    """
    spilled: dict[str, Counter[str]] = {}
    reports: dict[str, Counter[str]] = {}
    for name in names:
        if name.endswith(".block"):
            bundle, count, num_bytes = name.removesuffix(".block").rsplit("-", 2)
            counts = spilled.setdefault(bundle.rpartition(".")[0] or bundle, Counter())
            counts.update(examples=int(count), bytes=int(num_bytes))
        elif name.endswith(_REPORTED):
            with contextlib.suppress(OSError):  # removed meanwhile
                count, num_bytes = storage.read_bytes(storage.join(spill_dir, name)).decode().split()
                reports[name.removesuffix(_REPORTED)] = Counter(examples=int(count), bytes=int(num_bytes))
    greater = [spilled.get(bundle, Counter()) | reports.get(bundle, Counter()) for bundle in {*spilled, *reports}]
    return sum(bundle["examples"] for bundle in greater), sum(bundle["bytes"] for bundle in greater)


def _sum(directory: str | None, sizes: Mapping[str, int | None], paths: Iterable[str]) -> int:
    """Returns the total size of files in bytes; requests the sizes that are None.

    Args:
        directory: directory of the files; None only if all sizes are known.
        sizes: path in the directory -> size in bytes; None if it is unknown.
        paths: paths of the files to add up, each a key of `sizes`.

    >>> _sum(None, {"a": 3, "b": 4, "c": 5}, ["a", "b"])
    7
    """
    total = 0
    for path in paths:
        size = sizes[path]
        with contextlib.suppress(OSError):  # published or removed meanwhile
            total += storage.size(storage.join(directory or "", path)) if size is None else size
    return total


def _list_sizes(directory: str | None, in_stores: bool) -> dict[str, int | None]:
    """Returns {path: size, or None if unknown} of the files in a directory; on a store, also of those below it."""
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
    """Context manager: calls `report` about twice a second from another thread.

    Args:
        staging_dir: staging directory of the run.
        spill_dir: spill directory of the run; None if it has none.
        report: gets the progress; None for no calls.
        num_units: number of units of the source; None if it is unknown.
    """
    if report is None:
        yield
        return
    with call_every(INTERVAL_SECONDS, lambda: report(replace(measure(staging_dir, spill_dir), num_units=num_units))):
        yield


@contextlib.contextmanager
def reported(
    spill_dir: str | None,
    split: str,
    bundle: str,
    encoded: Callable[[], tuple[int, int]],
    seconds: float = REPORT_SECONDS,
) -> Iterator[None]:
    """Context manager: writes the progress of a bundle to a file at intervals; `measure` reads the file.

    Args:
        spill_dir: directory of its spilled blocks; None writes nothing.
        split: the split's name.
        bundle: id of the bundle; see `blocks.spill`.
        encoded: function that returns the number of encoded examples, and the size of their records in bytes.
        seconds: seconds between two reports.
    """
    if spill_dir is None:
        yield
        return
    path = storage.join(spill_dir, f"{split}-{bundle}{_REPORTED}")

    def write() -> None:
        """Writes "<number of examples> <bytes>" to the progress file, while the spill directory exists."""
        with contextlib.suppress(StorageError):  # the run continues without reports
            if storage.is_dir(spill_dir):  # otherwise the launcher has ended the run and removed it
                storage.write_bytes(path, " ".join(map(str, encoded())).encode())

    with call_every(seconds, write):
        yield


@contextlib.contextmanager
def call_every(seconds: float, do: Callable[[], None]) -> Iterator[None]:
    """Context manager: calls `do` every `seconds` seconds from another thread."""
    stop = threading.Event()

    def loop() -> None:
        """Calls `do` every `seconds` seconds until `stop` is set."""
        while not stop.wait(seconds):
            do()

    thread = threading.Thread(target=loop, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
