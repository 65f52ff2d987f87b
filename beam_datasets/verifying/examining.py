"""Verifying a dataset: what should be there, what is there, shard by shard and several at once, and what follows."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from beam_datasets import storage
from beam_datasets.arguments import boolean, integer
from beam_datasets.reading.glancing import GLANCED, REFUSED
from beam_datasets.verifying.judging import conclude
from beam_datasets.verifying.known import inspect
from beam_datasets.verifying.many_shards import ShardTable, can_look, look
from beam_datasets.verifying.shard_facts import read_shard
from beam_datasets.verifying.walking import RecordChecks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from beam_datasets.verifying.findings import Report
    from beam_datasets.verifying.known import Known
    from beam_datasets.verifying.shard_facts import ShardFacts, ShardTask

    Progress = Callable[[int, int | None], None]

Item = TypeVar("Item")
Result = TypeVar("Result")

_SMALL_BYTES = 64 << 10
"""Local shards of fewer bytes, read singly, are read by one thread: of several, one would wait for the other."""

_SMALL_DECODED_BYTES = 32 << 10
"""The same where each record is decoded, unless that makes large arrays, which is done without the GIL."""

_SHARDS_AT_ONCE = 256  # the most that one call looks at
_SHARES = 8  # of a thread, at least: so that all end together


@dataclass(frozen=True)
class Examination:
    """A dataset that was read.

    Attributes:
        known: what should be there.
        facts: what is there, in the order of `known.tasks()`.
        decode: whether each record was decoded.
    """

    known: Known
    facts: Sequence[ShardFacts]
    decode: bool = False

    @cached_property
    def shards(self) -> dict[str, ShardFacts]:
        """What each shard holds, by its name."""
        return {task.filename: facts for task, facts in zip(self.known.tasks(), self.facts)}

    @cached_property
    def report(self) -> Report:
        """What follows."""
        return conclude(self.known, self.facts)


def verify(
    dataset_dir: str | os.PathLike[str],
    *,
    decode: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Report:
    """Returns what is damaged in a published dataset, having read all of it; nothing is changed.

    Checked is all that is known: each record's length and checksums, how many there are, each index, the checksums of
    all files, what the small files say of each other. Of a directory that TensorFlow Datasets wrote less is known, and
    the report says what is not.

    Args:
        dataset_dir: the directory of a version, or its URL.
        decode: whether to decode each record, images too; else one of each mebibyte is parsed.
        jobs: how many shards to read at once; None for one a core.
        progress: called with how many bytes were read and how many there should be, from several threads in turn.
        storage_options: of a URL's store; see `beam_datasets.builder`.

    Raises:
        DatasetNotFoundError: there is no dataset.
        MetadataError: the shards are of another format than TFRecord.
        ValueError: `jobs` is none, or there are options for a local path.
    """
    return examine(dataset_dir, decode=decode, jobs=jobs, progress=progress, storage_options=storage_options).report


def examine(
    dataset_dir: str | os.PathLike[str],
    *,
    decode: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Examination:
    """Reads a dataset, and returns what should be there and what is; see `verify`."""
    decode = boolean("decode", decode)
    jobs = None if jobs is None else integer("jobs", jobs, at_least=1)
    known = inspect(storage.with_options(dataset_dir, storage_options))
    return Examination(known, _read_all(known, decode, jobs, progress), decode)


def examine_again(
    old: Examination, changed: Collection[str] = (), instead: Mapping[str, bytes] | None = None
) -> Examination:
    """Returns the examination of a dataset of which some shards, or their indexes, were changed since.

    Args:
        old: how it was.
        changed: the names of those shards; others are not read again.
        instead: file name -> content of small files, to be taken instead of what they hold.
    """
    known = inspect(old.known.directory, instead)
    all_tasks = list(known.tasks(decode=old.decode))
    tasks = [task for task in all_tasks if task.filename in changed or task.filename not in old.shards]
    read = dict(zip((task.filename for task in tasks), _read(tasks, None, _Counter(None, None))))
    facts = tuple(read.get(task.filename) or old.shards[task.filename] for task in all_tasks)
    return Examination(known, facts, old.decode)


def _read_all(known: Known, decode: bool, jobs: int | None, progress: Progress | None) -> ShardTable:
    """Returns what all shards hold: first many are looked at by few calls, then what is left is read one by one."""
    counted = _Counter(progress, known.file_bytes)
    rows = np.zeros(known.num_shards, GLANCED)
    checks = RecordChecks.of(known.record_features(decode=decode), decode=decode)
    if can_look(known.directory, checks):
        _look_at_all(known, rows, checks, jobs, counted)
    rest = known.tasks(decode=decode, which=np.flatnonzero(rows["state"] == REFUSED).tolist())
    return ShardTable.completed(rows, _read(list(rest), jobs, counted))


def _look_at_all(known: Known, rows: NDArray[Any], checks: RecordChecks, jobs: int | None, counted: _Counter) -> None:
    names, workers = known.filenames, jobs or os.cpu_count() or 1
    size = max(1, min(_SHARDS_AT_ONCE, len(names) // (workers * _SHARES)))

    def look_at(start: int) -> None:
        part = slice(start, start + size)
        look(known.directory, names[part], rows[part], checks, counted)

    _in_threads(look_at, range(0, len(names), size), workers, counted)


def _read(tasks: Sequence[ShardTask], jobs: int | None, counted: _Counter) -> list[ShardFacts]:
    if not tasks:
        return []
    checks = RecordChecks.of(tasks[0].features, decode=tasks[0].decode)
    alone = jobs is None and _are_tiny(tasks, checks, counted.left)
    workers = 1 if alone else jobs or os.cpu_count() or 1
    return _in_threads(lambda task: read_shard(task, counted, checks), tasks, workers, counted)


def _in_threads(work: Callable[[Item], Result], items: Sequence[Item], most: int, counted: _Counter) -> list[Result]:
    """Returns what comes of each item, in their order."""
    workers = min(most, len(items))
    if workers <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            counted.stopped = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _are_tiny(tasks: Sequence[ShardTask], checks: RecordChecks, total: int | None) -> bool:
    """Returns whether shards of so many bytes in all are local, and little work beside what opening them is."""
    if total is None or storage.is_remote(tasks[0].directory):
        return False
    if checks.each is None:
        return total < _SMALL_BYTES * len(tasks)
    return checks.block is not None and total < _SMALL_DECODED_BYTES * len(tasks)


class _Counter:
    """Adds up what threads have read, and ends them where one has failed.

    Attributes:
        stopped: whether they are to end.
    """

    def __init__(self, progress: Progress | None, total: int | None) -> None:
        self.stopped = False
        self._progress = progress
        self._total = total
        self._done = 0
        self._lock = threading.Lock()

    def __call__(self, num_bytes: int) -> None:
        if self.stopped:
            raise InterruptedError("the dataset is not verified to its end")
        with self._lock:
            self._done += num_bytes
            if self._progress is not None:
                self._progress(self._done, self._total)

    @property
    def left(self) -> int | None:
        """How many bytes are still to be read; None where that is not known."""
        return None if self._total is None else self._total - self._done
