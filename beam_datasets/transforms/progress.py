"""What a local run has done so far, read off the files in its staging directory."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from beam_datasets import storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INTERVAL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Progress:
    """What was done so far.

    Attributes:
        examples_encoded: examples that were encoded and spilled; 0 where payload travels inline.
        bytes_encoded: size of their framed records in bytes; of what was prepared to be copied, too.
        shards_written: shards that stand in the staging directory; 0 where that is on an object store.
        bytes_written: size of those shards in bytes, and of what is there of others.
    """

    examples_encoded: int
    bytes_encoded: int
    shards_written: int
    bytes_written: int


def measure(staging_dir: str, spill_dir: str | None) -> Progress:
    """Returns what stands in a staging directory, and where payload is spilled."""
    examples = size = 0
    for name in _names(spill_dir):
        if name.endswith(".block"):
            count, num_bytes = name.removesuffix(".block").rsplit("-", 2)[1:]
            examples += int(count)
            size += int(num_bytes)
    staged = _names(staging_dir)
    shards = [name for name in staged if ".tfrecord-" in name and not name.endswith(".index")]
    unfinished = [name for name in staged if name.startswith(storage.TEMPORARY_PREFIX)]
    size += _size(spill_dir, [name for name in _names(spill_dir) if name.endswith(".records")])
    return Progress(examples, size, len(shards), _size(staging_dir, [*shards, *unfinished]))


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
def watch(staging_dir: str, spill_dir: str | None, report: Callable[[Progress], None]) -> Iterator[None]:
    """Reports, meanwhile, about twice a second from a thread of its own, which ends with the context."""
    stop = threading.Event()

    def loop() -> None:
        while not stop.wait(INTERVAL_SECONDS):
            report(measure(staging_dir, spill_dir))

    thread = threading.Thread(target=loop, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
