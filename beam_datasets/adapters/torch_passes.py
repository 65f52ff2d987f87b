"""Passes over a dataset: each reads the next epoch, in all workers of a DataLoader the same one."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import MutableSequence
from typing import Any, cast

from beam_datasets.adapters import torch_workers

# Indices of the integers that a process shares with its DataLoader workers.
_SET_EPOCH = 0  # number of the pass of `set_epoch()`, or `_UNSET`
_FIRST_PASS = 1  # number of the first pass
_LAST_PASS = 2  # number of the last pass that has begun
_STATE_USED_IN_PASS = 3  # number of the pass that used the loaded state, or `_UNSET`
_READ_BY_WORKERS = 4  # 1 if workers have iterated
_RANKS_LOGGED = 5  # 1 if ranks were logged
_STATES_LOADED = 6  # how often this process loaded a state
_LOADERS = 7  # the first of `_MAX_LOADERS * _INTEGERS_OF_LOADER` integers of DataLoaders with workers

_UNSET = -1  # no pass or epoch
_MAX_LOADERS = 8  # DataLoaders that begin their passes at the same time
_MAX_WORKERS = 256  # workers of a process
_WORKERS = 2  # offset of the first worker in the integers of a DataLoader
_INTEGERS_OF_LOADER = _WORKERS + _MAX_WORKERS  # number and ordinal of its last pass, then the ordinal of each worker's
_KEY_BITS = 31  # bits of the key of a DataLoader, which is part of its integers
_MAX_KEY = (1 << _KEY_BITS) - 1


def initial_integers(first_pass: int = 0) -> list[int]:
    """Returns the initial values of the shared integers; `first_pass` is the number of the first pass."""
    return [_UNSET, first_pass, first_pass - 1, _UNSET, 0, 0, 0, *[_UNSET] * (_MAX_LOADERS * _INTEGERS_OF_LOADER)]


class Passes:
    """Counts the passes over a dataset in integers that a process shares with its DataLoader workers.

    Attributes:
        integers: the integers; see `initial_integers`.
        process: the id of the process that shares them with its workers.
        number: the number of the last pass of this process.
    """

    def __init__(self, integers: MutableSequence[Any] | None = None, process: int | None = None) -> None:
        """Counts in given integers.

        Args:
            integers: those of `initial_integers()`, in memory that a process shares with its workers; None for new
                ones of this process alone.
            process: the id of the process that shares them; None for this process.
        """
        self.integers: MutableSequence[Any] = initial_integers() if integers is None else integers
        self.process = os.getpid() if process is None else process
        self.number = 0
        self._begun = (_UNSET, 0)  # key of the DataLoader of this worker, and ordinal of its last pass
        _detach_before_forks()
        _passes.add(self)

    def detach_from_parent(self) -> None:
        """Copies the integers if another process created them and this one is not its DataLoader worker.

        A program may start its ranks with a dataset, as `torch.multiprocessing.spawn` does. Each rank then counts its
        own passes, which it shares only with its own workers.
        """
        if self.process != os.getpid() and torch_workers.get_worker()[2] is None:
            self.process = os.getpid()
            self.integers = cast("Any", self.integers).clone().share_memory_()

    @property
    def pinned(self) -> int | None:
        """The number of the pass of `set_epoch()`, which all passes read; None if it was not called."""
        number = int(self.integers[_SET_EPOCH])
        return None if number == _UNSET else number

    @property
    def last(self) -> int:
        """The number of the last pass; one less than that of the first one before it has begun."""
        return int(self.integers[_LAST_PASS])

    @property
    def last_or_first(self) -> int:
        """The number of the last pass, or of the first one if none has begun."""
        return max(self.last, int(self.integers[_FIRST_PASS]))

    @property
    def are_of_workers(self) -> bool:
        """Whether DataLoader workers have iterated since a state was loaded."""
        return bool(self.integers[_READ_BY_WORKERS])

    def pin(self, number: int) -> None:
        """Makes all further passes read the pass `number`, also in persistent workers."""
        self.integers[_SET_EPOCH] = number

    @property
    def has_used_state(self) -> bool:
        """Whether a pass of DataLoader workers has used the loaded state."""
        return int(self.integers[_STATE_USED_IN_PASS]) != _UNSET

    def claim_announcement(self) -> bool:
        """Returns True only for the first call among all processes that share the integers: ranks are logged once."""
        is_first = not self.integers[_RANKS_LOGGED]
        self.integers[_RANKS_LOGGED] = 1
        return is_first

    def begin(
        self, worker: int, num_workers: int, base_seed: int | None, *, pass_of_start: int | None, at_least: int
    ) -> bool:
        """Sets the number of the pass that begins, the same in all workers of a DataLoader.

        The first pass of a worker is that of the other workers of its DataLoader, its second pass is their second one,
        and so on, as persistent workers begin several. The first worker that begins a pass sets its number. A worker
        may begin a pass after others have begun the next one, because the loop has ended early: nobody takes its items.
        DataLoaders with equal generators have the same integers.

        A process without workers discards the loaded state after using it. A process with workers does not see that
        they used it, and also passes it to the workers of the next pass. So workers share the number of the pass that
        used it, and it is ignored in others, also in those without workers.

        Args:
            worker: the index of this DataLoader worker.
            num_workers: the number of workers of the DataLoader.
            base_seed: the seed that the DataLoader draws for each iteration; None in a process that is not a worker.
            pass_of_start: the number of the pass of the loaded state; None if no state was loaded.
            at_least: the least number of a pass that starts at no state, such as the epoch of Lightning's loop, which
                restores no state of a loader after the end of an epoch.

        Returns:
            Whether this pass starts at the loaded state.
        """
        integers = self.integers
        started_by = int(integers[_STATE_USED_IN_PASS])  # is written last, so it is read first
        number = int(integers[_LAST_PASS]) + 1  # is written after the pass of the DataLoader, so it is read before
        loader, key, ordinal, last_ordinal = 0, 0, 0, _UNSET
        if base_seed is not None:
            loader, key = self._find_loader(base_seed, num_workers)
            ordinal = self._last_ordinal(loader, key, worker) + 1
            last_ordinal = self._value_of(loader + 1, key)  # is written after the number, so it is read before
        is_joined = last_ordinal >= ordinal
        if is_joined:
            number = int(integers[loader]) >> _KEY_BITS
        is_used = started_by == _UNSET or (base_seed is not None and started_by == number)
        if pass_of_start is not None and is_used:
            self.number = pass_of_start
        else:
            pass_of_start = None
            self.number = number if is_joined else max(number, at_least)
        if base_seed is not None:
            if last_ordinal <= ordinal:
                integers[loader] = self.number << _KEY_BITS | key
                integers[loader + 1] = ordinal << _KEY_BITS | key
            integers[loader + _WORKERS + worker % _MAX_WORKERS] = max(ordinal, last_ordinal) << _KEY_BITS | key
            self._begun = key, ordinal
            integers[_READ_BY_WORKERS] = 1
        if pass_of_start is not None or not is_joined:
            integers[_LAST_PASS] = self.number
        if base_seed is not None and pass_of_start is not None:
            integers[_STATE_USED_IN_PASS] = self.number
        return pass_of_start is not None

    def probe(self) -> bool:
        """Sets the number of this process to that of the next pass, which does not count as begun.

        Returns:
            Whether the next pass starts at the loaded state, if there is one: workers of no pass have used it.
        """
        self.number = self.last + 1
        return int(self.integers[_STATE_USED_IN_PASS]) == _UNSET

    def begin_next(self) -> int:
        """Begins the pass after the last one of this process, and returns its number."""
        self.number += 1
        self.integers[_LAST_PASS] = self.number
        return self.number

    def load_state(self) -> None:
        """Lets the next pass start at a state that this process has loaded.

        In the main process the pass is that of this process or of all DataLoader workers that it starts next; in a
        DataLoader worker it is the pass of this worker alone.
        """
        self.detach_from_parent()
        worker, num_workers, base_seed = torch_workers.get_worker()
        if base_seed is None:
            self.integers[_STATES_LOADED] += 1  # changes the keys of all DataLoaders
        else:
            loader, key = self._find_loader(base_seed, num_workers)
            ordinal = self._last_ordinal(loader, key, worker)
            if ordinal:  # a StatefulDataLoader has begun the pass, and begins it once more
                self.integers[loader + _WORKERS + worker % _MAX_WORKERS] = ordinal - 1 << _KEY_BITS | key
                self._begun = key, ordinal - 1
        self.integers[_STATE_USED_IN_PASS] = _UNSET
        self.integers[_READ_BY_WORKERS] = 0

    def _last_ordinal(self, loader: int, key: int, worker: int) -> int:
        """Returns the ordinal of the last pass that a worker of a DataLoader has begun, from 1; 0 if there is none.

        This process knows it, unless it is another worker of a DataLoader with an equal generator.

        Args:
            loader: the index of the shared integers of the DataLoader.
            key: the key of the DataLoader.
            worker: the index of the worker.
        """
        own_key, ordinal = self._begun
        if own_key == key:
            return ordinal
        return max(0, self._value_of(loader + _WORKERS + worker % _MAX_WORKERS, key))

    def _value_of(self, index: int, key: int) -> int:
        """Returns the number in the shared integer at an index; `_UNSET` if it has the key of another DataLoader."""
        value = int(self.integers[index])
        return value >> _KEY_BITS if value & _MAX_KEY == key else _UNSET

    def _find_loader(self, seed: int, num_workers: int) -> tuple[int, int]:
        """Finds the part of `integers` that counts the passes of a DataLoader; it has room for `_MAX_LOADERS` of them.

        A DataLoader without a part gets that of the one whose last pass is the earliest. The number of its last pass
        and its key are in one integer, so that workers that begin at the same time write the same value.

        Args:
            seed: the seed of the DataLoader.
            num_workers: the number of its workers; another one with the same seed is another DataLoader.

        Returns:
            (index in `integers` of the first integer of the part, key of the DataLoader). The key is less than
            `_MAX_KEY`, which stands for `_UNSET`.
        """
        key = hash((seed, num_workers, int(self.integers[_STATES_LOADED]))) % _MAX_KEY  # of integers, so not salted
        ends = _LOADERS + _MAX_LOADERS * _INTEGERS_OF_LOADER
        indices = [*range(_LOADERS, ends, _INTEGERS_OF_LOADER)]
        first = key % _MAX_LOADERS  # so that loaders that begin at the same time take different ones, mostly
        passes_and_loaders = {index: int(self.integers[index]) for index in indices[first:] + indices[:first]}
        earliest = min(passes_and_loaders, key=passes_and_loaders.__getitem__)
        return next((index for index, number in passes_and_loaders.items() if number & _MAX_KEY == key), earliest), key


_passes: weakref.WeakSet[Passes] = weakref.WeakSet()
"""The passes of this process."""


@functools.cache  # once, as it cannot be undone
def _detach_before_forks() -> None:
    """Registers a function that detaches passes from the parent of this process before each fork of this process.

    A DataLoader forks its workers without a call to its dataset.
    """

    def detach() -> None:
        """Detaches all passes of this process from its parent."""
        for passes in list(_passes):
            passes.detach_from_parent()

    os.register_at_fork(before=detach)
