"""Datasets for PyTorch: a map-style Dataset, or an IterableDataset that workers and ranks divide by positions.

Importing this module does not need PyTorch: `as_torch` derives classes from PyTorch's when it is called.
"""

from __future__ import annotations

import functools
import logging
import multiprocessing
import operator
import os
import struct
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from beam_datasets.adapters.callers import (
    FitLoop,
    count_blocks_of_divider,
    find_dividing_shard,
    find_fit_loop,
    find_loader,
    is_divided_by_caller,
    is_state_saved_late,
    is_stateful_loader,
)
from beam_datasets.advice import advised_getattr, advised_getitem
from beam_datasets.arguments import boolean, index_of, integer, shown
from beam_datasets.errors import StateError
from beam_datasets.extras import Self, framework

if TYPE_CHECKING:
    from beam_datasets.reading.dataset import Dataset
    from beam_datasets.reading.index.division import Share
    from beam_datasets.reading.index.transforms import Even
    from beam_datasets.reading.iterator import DatasetIterator
    from beam_datasets.reading.streams import Stream

State = Mapping[str, Any]
_LOGGER = logging.getLogger(__name__)


FORMAT, FORMAT_OF_EVEN = 1, 2
"""Formats of a worker's state: `FORMAT_OF_EVEN` if the share ends so that all ranks have as many items, else `FORMAT`.

If the meaning of a field changes, the format needs a new number.
"""

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
_INTEGERS_OF_LOADER = 1 + _MAX_WORKERS  # its last pass, then the last pass that each worker has begun; with its key
_KEY_BITS = 31  # bits of the key of a DataLoader, from which the number of a pass is shifted
_MAX_KEY = (1 << _KEY_BITS) - 1


def _initial_shared_integers(first_pass: int = 0) -> list[int]:
    """Returns the initial values of the shared integers; `first_pass` is the number of the first pass."""
    return [_UNSET, first_pass, first_pass - 1, _UNSET, 0, 0, 0, *[_UNSET] * (_MAX_LOADERS * _INTEGERS_OF_LOADER)]


# The fields of a state, besides "examples", the number of examples in an item, which earlier versions did not save.
_FIELDS = {"format", "begun", "taken", "worker", "workers", "ranks", "block"}


class MapStyle:
    """A map-style dataset: examples by their index in dataset order. PyTorch's sampler chooses the order."""

    def __init__(
        self, dataset: Dataset, even: str | None = None, block: int | None = None, parent_ranks: Ranks | None = None
    ) -> None:
        """Wraps a dataset.

        Args:
            dataset: the dataset to read.
            even: "drop" or "pad" makes the length a multiple of ranks times `block`; None leaves it as it is.
            block: batch size of the DataLoader.
            parent_ranks: the ranks that the parent of this DataLoader worker detected.
        """
        dataset[:0]  # raises a TypeError if the order was changed
        dataset._even(even, 1, block)
        self._dataset = dataset
        self._even = even
        self._block = block
        self._parent_ranks = parent_ranks
        self._worker_dataset: Dataset | None = None  # in the process of a DataLoader worker

    if not TYPE_CHECKING:  # so that a type checker reports missing attributes
        __getattr__ = advised_getattr("map_style", "torch_dataset")

    def __len__(self) -> int:
        """Returns the number of examples of all ranks together; a sampler divides them."""
        length = len(self._dataset)
        ranks = ranks_of_process() or self._parent_ranks or _SINGLE_RANK
        even = self._dataset._even(self._even, ranks.world_size, self._block)
        return length if even is None else even.length(length)

    def __getitem__(self, index: int) -> Any:
        return self._dataset[self._wrap_indices([index_of(index, len(self))])[0]]

    def _wrap_indices(self, indices: Sequence[int]) -> list[int]:
        """Returns the indices of the dataset for indices in [0, len(self)).

        With `even="pad"`, indices at or after the end of the dataset begin again at 0.
        """
        length = len(self._dataset)
        return [index % length if index >= length else index for index in indices] if self._even else list(indices)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Returns the examples at some indices; called by a DataLoader for a batch."""
        info = _import_torch_data().get_worker_info()
        if info is None:
            return self._dataset[self._wrap_indices(indices)]  # type: ignore[no-any-return]
        if self._worker_dataset is None:
            self._worker_dataset = self._dataset._share_cores(info.num_workers)
        return list(map(wrap_for_transfer, self._worker_dataset[self._wrap_indices(indices)]))

    def __reduce__(self) -> tuple[Any, ...]:
        return _build_map_style, (self._dataset, self._even, self._block, ranks_of_process())


class Divided:
    """An iterable dataset: items in read order, divided among ranks and the DataLoader workers of each rank.

    Blocks of items are assigned to (worker 0, rank 0), (worker 0, rank 1), ..., (worker 1, rank 0), and so on. A
    DataLoader reads from its workers in turn, so a rank gets blocks rank, rank + ranks, rank + 2 ranks, ... in this
    order for any number of workers.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        rank: int | None,
        num_ranks: int | None,
        block: int | None,
        even: str | None,
        shared: MutableSequence[Any] | None = None,
        start: State | None = None,
        process: int | None = None,
        detected_ranks: Ranks | None = None,
        fit_loop: FitLoop | None = None,
        skips_end: bool = False,
    ) -> None:
        """Divides a dataset.

        Args:
            dataset: the dataset to divide.
            rank: rank of this process, in [0, num_ranks); None to detect it when an iteration begins.
            num_ranks: number of ranks; None with rank None.
            block: number of consecutive items for a worker; None as in `Dataset.shard`.
            even: "drop" or "pad" gives all ranks the same number of whole blocks; None for neither.
            shared: the integers of `_initial_shared_integers()`, in memory that this process shares with its workers.
            start: a state as for `load_state_dict`.
            process: the id of the process that shares the integers with its workers; None for this process.
            detected_ranks: the ranks that the parent of this DataLoader worker detected.
            fit_loop: the loop of Lightning in which the parent of this DataLoader worker started it.
            skips_end: whether a pass of a stream that starts at the end of an epoch is that of the next one.

        Raises:
            TypeError: a number is not an integer.
            ValueError: the rank is out of range.
        """
        self._dataset = dataset
        self._given_ranks = None if rank is None or num_ranks is None else Ranks.of(rank, num_ranks, "given")
        self._parent_ranks = detected_ranks
        self._parent_fit_loop = fit_loop
        self._skips_end = skips_end
        self._block = None if block is None else integer("block", block, at_least=1)
        if even is not None:
            dataset._even(even, 1, block)  # raises a ValueError if it does not exist
        self._even = even
        self._shared: MutableSequence[Any] = _initial_shared_integers() if shared is None else shared
        self._process = os.getpid() if process is None else process
        self._start = start
        self._current: Any = None
        self._num_ranks = 1  # number of ranks of the last iteration
        self._number = 0  # number of the last pass of this process
        _register_for_forks(self)

    if not TYPE_CHECKING:  # so that a type checker reports missing attributes
        __getattr__ = advised_getattr("torch_dataset")
        __getitem__ = advised_getitem("torch_dataset")

    def __reduce__(self) -> tuple[Any, ...]:
        """Returns the arguments for another process, with the ranks that this process detects."""
        self._check_loader()  # here for spawned workers, which do not see the DataLoader
        self._detach_from_parent()
        declared_ranks = self._given_ranks
        options = {
            "rank": declared_ranks and declared_ranks.rank,
            "num_ranks": declared_ranks and declared_ranks.num_ranks,
            "detected_ranks": None if declared_ranks else detect_ranks(),
            "fit_loop": find_fit_loop(),
            "skips_end": self._skips_end,
            "block": self._block,
            "even": self._even,
            "shared": self._shared,
            "process": self._process,
            "start": self._start,
        }
        return _build_divided, (self._dataset, options)

    def _detach_from_parent(self) -> None:
        """Copies the shared integers if another process created them and this one is not its DataLoader worker.

        A program may start its ranks with a dataset, as `torch.multiprocessing.spawn` does. Each rank then counts its
        own passes, which it shares only with its own workers.
        """
        if self._process != os.getpid() and _get_worker()[2] is None:
            self._process = os.getpid()
            self._shared = cast("Any", self._shared).clone().share_memory_()

    def __len__(self) -> int:
        """Returns the number of items that all workers of the rank get in an epoch.

        The `len()` of a DataLoader is this number divided by its batch size. If several workers each make a smaller
        last batch, this returns the number of batches times the batch size, so that the result is right.

        Raises:
            TypeError: the dataset is endless.
        """
        len(self._dataset)  # raises a TypeError if it is endless
        self._check_divider()
        ranks = self.ranks
        num_workers, batch_size, drop_last = _inspect_calling_loader()
        if num_workers < 2 or batch_size is None:
            return self._count_items(ranks.rank, ranks.num_ranks)
        counts = [
            self._count_items(worker * ranks.num_ranks + ranks.rank, num_workers * ranks.num_ranks)
            for worker in range(num_workers)
        ]
        return batch_size * sum(count // batch_size if drop_last else -(-count // batch_size) for count in counts)

    def _count_items(self, index: int, count: int) -> int:
        """Returns the number of items of a share in an epoch.

        Args:
            index: the index of the share, in [0, count).
            count: the number of shares, which is that of all workers of all ranks.
        """
        return len(
            self._dataset._divided(self._dataset._share(index, count, self._block), self._build_even(self._dataset))
        )

    def _build_even(self, dataset: Dataset) -> Even | None:
        """Returns the `Even` that gives all ranks the same number of items; None if `even` was not given."""
        return dataset._even(self._even, self.ranks.world_size, self._block)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._dataset!r}, {self.ranks})"

    @property
    def ranks(self) -> Ranks:
        """The rank of this process, the number of ranks, and where these numbers come from.

        Raises:
            ValueError: `shard()` has divided the dataset already.
        """
        ranks = self._given_ranks or detect_ranks()
        if ranks is None and _get_worker()[2] is not None:  # a spawned worker cannot detect them itself
            ranks = self._parent_ranks
        ranks = ranks or _SINGLE_RANK
        base: Any = self._dataset if self._dataset._has_positions else cast("Stream", self._dataset)._base
        if (
            self._given_ranks is None
            and ranks.num_ranks > 1
            and any(t.startswith("shard(") for t in base._operation.texts)
        ):
            raise ValueError(
                f"shard() has divided the dataset, and as_torch() would divide it once more among {ranks.num_ranks} "
                "ranks. Leave shard() out, or set rank=0, num_ranks=1."
            )
        return ranks

    def __iter__(self) -> Iterator[Any]:
        """Yields the items of this DataLoader worker, or those of the rank in a process that is no worker.

        The first iteration after `load_state_dict()` starts at that state. Others start at the epoch of
        `set_epoch()`, or at the epoch after the previous pass.

        Raises:
            StateError: the loaded state belongs to another worker.
            ValueError: a DataLoader makes batches of one batch.
        """
        self._check_loader()
        self._detach_from_parent()
        worker, num_workers, base_seed = _get_worker()
        ranks = self.ranks
        if worker == 0 and not self._shared[_RANKS_LOGGED]:
            self._shared[_RANKS_LOGGED] = 1
            _LOGGER.info("%r: %s", self._dataset, ranks)
            self._warn_of_unequal_steps(ranks)
            self._warn_of_lightning()
        self._num_ranks = ranks.num_ranks
        index, count = worker * ranks.num_ranks + ranks.rank, num_workers * ranks.num_ranks
        start = self._begin_pass(worker, num_workers, base_seed)
        if self._current is not None:
            self._current.close()
        items: Iterator[Any] = self._iterate_items(start, index, count, num_workers, is_worker=base_seed is not None)
        self._current = items
        return items

    def _check_divider(self) -> None:
        """Checks that a DataLoader whose examples Accelerate divides makes batches.

        Accelerate calculates with the batch size of the DataLoader, so with None it fails without naming a way out.

        Raises:
            ValueError: it makes none.
        """
        shard = find_dividing_shard()
        if shard is not None and shard.batch_size is None:
            raise ValueError(
                f"{self._dataset!r}: Accelerate with dispatch_batches=False divides the items of a DataLoader with "
                "batch_size=None by its batch size. For the batches of a dataset, expected "
                "DataLoaderConfiguration(dispatch_batches=True). Or leave batch() out, and give as_torch(block=...) "
                "and the DataLoader the batch size."
            )

    def _check_loader(self) -> None:
        """Checks the batch size of the DataLoader that begins to iterate, if the items are batches.

        Its default is 1, so that an array of 8 numbers would become one of shape (1, 8). A user's own collate function
        may remove this dimension. Other sizes were chosen, but may be those of the batches once more.

        Raises:
            ValueError: it makes batches of one batch.
        """
        if is_state_saved_late() and self.ranks.world_size > 1:
            _warn_of_dispatching(repr(self._dataset), self.ranks.world_size - 1)
        loader = find_loader(self) if self._dataset._makes_batches else None
        if loader is None or loader.batch_size is None or not _stacks_items(loader.collate_fn):
            return
        if loader.batch_size == 1:
            raise ValueError(
                f"{self._dataset!r}: the dataset is in batches already, and a DataLoader with batch_size=1, its "
                "default, would add a dimension of 1. Use DataLoader(..., batch_size=None)."
            )
        _warn_of_batches_of_batches(repr(self._dataset), loader.batch_size)

    def _warn_of_unequal_steps(self, ranks: Ranks) -> None:
        """Logs a warning if ranks get different numbers of steps, as ranks then wait for others that have ended."""
        if ranks.rank or self._even is not None or not self._has_length():
            return
        unit, name = (self._block or 1), "batches"
        if self._dataset._steps[0].kind != "batch" and self._block is None:
            name = "examples"
        max_steps, min_steps = (
            -(-self._count_items(rank, ranks.num_ranks) // unit) for rank in (0, ranks.num_ranks - 1)
        )
        if max_steps != min_steps:
            _LOGGER.warning(
                "%r: rank 0 gets %d %s in an epoch, and rank %d gets %d. Where ranks wait for each other, training "
                "fails or hangs at the end. as_torch(even='drop'%s) or even='pad' gives all the same number.",
                self._dataset,
                max_steps,
                name,
                ranks.num_ranks - 1,
                min_steps,
                ", block=batch_size" if name == "examples" else "",
            )

    @property
    def _fit_loop(self) -> FitLoop | None:
        """The loop of Lightning that reads; None if another program reads."""
        return find_fit_loop() or (None if _get_worker()[2] is None else self._parent_fit_loop)

    def _warn_of_lightning(self) -> None:
        """Logs a warning if Lightning loses a batch when it resumes, or trains on no batch in an epoch."""
        loop = self._fit_loop
        if loop is None:
            return
        if loop.saves_read_ahead and not self._has_length():
            _LOGGER.warning(
                "%r: Lightning reads a batch ahead of a loader without a length, and its checkpoints count it as read, "
                "so a run that resumes skips it. Give the Trainer limit_train_batches=, the number of batches of an "
                "epoch, or any larger number if no validation follows an epoch.",
                self._dataset,
            )
        elif loop.has_spent_loader:
            _LOGGER.warning(
                "%r: the checkpoint was saved after the last batch of epoch %d but before its end, so Lightning trains "
                "on no batch in epoch %d. Train an epoch more, or resume from a checkpoint that was saved earlier or "
                "at the end of an epoch.",
                self._dataset,
                loop.epoch - 1,
                loop.epoch,
            )

    def _has_length(self) -> bool:
        """Returns whether the number of items of an epoch is known."""
        try:
            len(self._dataset)
        except TypeError:  # it is endless, or a stream
            return False
        return True

    def _begin_pass(self, worker: int, num_workers: int, base_seed: int | None) -> State | None:
        """Sets the number of the pass that begins, the same in all workers of a DataLoader.

        A worker begins the pass that another worker of its DataLoader has begun, or a new one if there is none. A
        worker that has begun it already begins a new one, too: this happens to persistent workers and to DataLoaders
        with equal generators.

        A process without workers discards the loaded state after using it. A process with workers does not see that
        they used it, and also passes it to the workers of the next pass. So workers share the number of the pass that
        used it, and ignore it in others.

        Lightning restores no state of a loader after the end of an epoch, so a pass in its loop has at least the number
        of its epoch.

        Args:
            worker: the index of this DataLoader worker.
            num_workers: the number of workers of the DataLoader.
            base_seed: the seed that the DataLoader draws for each iteration; None in a process that is not a worker.

        Returns:
            The loaded state at which this pass starts; None if it starts at an epoch.
        """
        integers, loop = self._shared, self._fit_loop
        started_by = int(integers[_STATE_USED_IN_PASS])  # is written last, so it is read first
        number = int(integers[_LAST_PASS]) + 1  # is written after the pass of the DataLoader, so it is read before
        loader, key, is_joined = 0, 0, False
        if base_seed is not None:
            loader, key = self._find_loader(base_seed, num_workers)
            pass_and_loader = int(integers[loader])
            is_joined = pass_and_loader & _MAX_KEY == key and pass_and_loader != int(
                integers[loader + 1 + worker % _MAX_WORKERS]
            )
            number = pass_and_loader >> _KEY_BITS if is_joined else number
        start, self._start = self._start, None
        if base_seed is not None and started_by not in (_UNSET, number):
            start = None
        if start is None and not is_joined and loop is not None:
            number = max(number, loop.epoch)
        self._number = number if start is None else self._pass_at_state(start)
        if base_seed is not None:
            integers[loader] = integers[loader + 1 + worker % _MAX_WORKERS] = self._number << _KEY_BITS | key
            integers[_READ_BY_WORKERS] = 1
        if start is not None or not is_joined:
            integers[_LAST_PASS] = self._number
        if base_seed is not None and start is not None:
            integers[_STATE_USED_IN_PASS] = self._number
        return start

    def _find_loader(self, seed: int, num_workers: int) -> tuple[int, int]:
        """Returns the index of the shared integers of a DataLoader, and its key.

        A DataLoader that has none gets those of the one whose last pass is the earliest. The number of its last pass
        and its key are in one integer, so that workers that begin at the same time write the same value.

        Args:
            seed: the seed of the DataLoader.
            num_workers: the number of its workers; another one with the same seed is another DataLoader.

        Returns:
            (index of the first integer, key); the key is less than `_MAX_KEY`, as in `_UNSET`.
        """
        key = hash((seed, num_workers, int(self._shared[_STATES_LOADED]))) % _MAX_KEY  # of integers, so not salted
        ends = _LOADERS + _MAX_LOADERS * _INTEGERS_OF_LOADER
        indices = [*range(_LOADERS, ends, _INTEGERS_OF_LOADER)]
        first = key % _MAX_LOADERS  # so that loaders that begin at the same time take different ones, mostly
        passes_and_loaders = {index: int(self._shared[index]) for index in indices[first:] + indices[:first]}
        earliest = min(passes_and_loaders, key=passes_and_loaders.__getitem__)
        return next((index for index, number in passes_and_loaders.items() if number & _MAX_KEY == key), earliest), key

    def _iterate_items(self, start: State | None, index: int, count: int, num_workers: int, *, is_worker: bool) -> Any:
        """Returns the iterator over the items of a share.

        Args:
            start: the loaded state at which it starts; None for the beginning of the pass.
            index: the index of the share, in [0, count).
            count: the number of shares.
            num_workers: the number of DataLoader workers of this rank.
            is_worker: whether this process is a DataLoader worker, so that items are sent to its parent.
        """
        begin = self._state_at_beginning(self._number) if start is None else start
        dataset = self._dataset_at_state(begin)
        block = self._block and self._block * count_blocks_of_divider()
        start_state, num_taken, share = self._resume_share(begin, dataset, dataset._share(index, count, block))
        share_dataset = dataset._share_cores(num_workers)._divided(share, self._build_even(dataset))
        return _ShareIterator(share_dataset, share, start_state, num_taken, self._even is not None, is_worker=is_worker)

    def _resume_share(self, start: State, dataset: Dataset, share: Share) -> tuple[State, int, Share]:
        """Returns the state at which the division began, the number of items taken since, and the share to continue.

        With the default block size, the same worker continues with the blocks of the state. The state of the same
        worker of another rank also fits, such as that of rank 0, which Lightning saves: all ranks have taken the same
        number of items.

        Args:
            start: a state of `state_dict()`, or of a `DatasetIterator`, for which the division begins at this state.
            dataset: the dataset of the pass.
            share: the share of this worker.

        Raises:
            StateError: the state of a worker cannot be used for another number of ranks or workers.
        """
        if "begun" not in start:
            return start, 0, share
        saved_share = _rebuild_share(dataset, start)
        is_same_division = (saved_share.worker_count, start["ranks"]) == (share.worker_count, self._num_ranks)
        if is_same_division and saved_share.worker_index // start["ranks"] == share.worker_index // self._num_ranks:
            own_share = replace(saved_share, worker_index=share.worker_index)
            if own_share == share or self._block is None:
                return start["begun"], start["taken"], own_share
        if start["workers"] == start["ranks"]:  # without workers, all ranks have taken the same number
            return _compute_state_after(dataset, start["begun"], saved_share, start["taken"]), 0, share
        raise StateError(
            f"the state is of worker {saved_share.worker_index} of {saved_share.worker_count} with blocks of "
            f"{saved_share.block}, but this is worker {share.worker_index} of {share.worker_count} with blocks of "
            f"{share.block}. The workers of a DataLoader have taken different numbers of items, so the state of one "
            "does not fit the others. Restore it with the same numbers of ranks and workers, or continue from a state "
            "of state_after()."
        )

    @property
    def _set_epoch(self) -> int | None:
        """The number of the pass of `set_epoch()`; None if it was not called."""
        epoch = int(self._shared[_SET_EPOCH])
        return None if epoch == _UNSET else epoch

    @property
    def _last_pass(self) -> int:
        """The number of the last pass; -1 before the first one."""
        return int(self._shared[_LAST_PASS])

    def _pass_at_state(self, state: State) -> int:
        """Returns the number of the pass in which a state was saved."""
        return self._dataset._pass_of(state.get("begun", state)["epoch"])

    def _dataset_at_state(self, state: State) -> Dataset:
        """Returns the dataset of the pass in which a state was saved; see `Dataset._in_pass`.

        Raises:
            StateError: the epoch is too large.
        """
        try:
            return self._dataset._in_pass(self._pass_at_state(state))[0]
        except ValueError as error:
            raise StateError(f"the state's {error} Begin anew.") from None

    def _state_at_beginning(self, number: int) -> dict[str, Any]:
        """Returns the state at the beginning of the pass of `set_epoch()`, or else of the pass `number`."""
        dataset, epoch = self._dataset._in_pass(number if self._set_epoch is None else self._set_epoch)
        return dataset.iterate(epoch=epoch).get_state()

    def set_epoch(self, epoch: int) -> None:
        """Makes all further passes read an epoch, also in persistent workers; without it each reads the next one.

        Args:
            epoch: the epoch, from 0, as frameworks count them: after `repeat(n)` it is the number of a pass, which
                reads n epochs from `n * epoch`.
        """
        self._check_divider()
        self._detach_from_parent()
        self._shared[_SET_EPOCH] = integer("epoch", epoch, at_least=0)

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the last iteration in this process; before the first one, the state at its start.

        Raises:
            StateError: DataLoader workers iterate, so this process has no state.
        """
        if self._current is None and self._shared[_READ_BY_WORKERS]:
            raise StateError(
                "the dataset is read by the workers of a DataLoader, so this process does not know their positions. "
                "Use torchdata's StatefulDataLoader, or state_after(), or num_workers=0."
            )
        if self._start is not None:
            return dict(self._start)
        if self._current is not None:
            return self._read_state(self._current)
        return self._state_at_beginning(self._last_pass + 1)

    def _read_state(self, current: Any) -> dict[str, Any]:
        """Returns the state of the iterator of a share, with the numbers of ranks and of examples per item."""
        return {"ranks": self._num_ranks, "examples": self._dataset._examples_per_item, **current.state()}

    def load_state_dict(self, state: State) -> None:
        """Sets the start of the next iteration; after a state at the end of a pass, it is the beginning of the next.

        Args:
            state: a state of `state_dict()`; or of a `DatasetIterator` or `state_after()`, for any number of ranks and
                workers.

        Raises:
            StateError: the state is of another dataset, slice, configuration or order; the message names the
                differences.
        """
        if isinstance(state, Mapping) and "begun" in state:
            self._check_worker_state(state)
        else:
            self._dataset.iterate().set_state(state)  # raises a StateError if it does not fit
            self._dataset_at_state(state)
        is_worker = _get_worker()[2] is not None  # only a StatefulDataLoader loads a state in its workers
        if not is_worker and not is_stateful_loader() and self._is_at_end(state):
            dataset, epoch = self._dataset._in_pass(self._pass_at_state(state) + 1)
            state = dataset.iterate(epoch=epoch).get_state()
        self._set_start(state)

    def _is_at_end(self, state: State) -> bool:
        """Returns whether the pass has ended at a state, which `load_state_dict` has checked.

        It has if no rank gets an item, which is known of the first one, as no rank has more items; or if the rank that
        saved the state was asked for an item after its last one.
        """
        dataset, start_state = self._dataset_at_state(state), state.get("begun", state)
        even = self._build_even(dataset)

        def count(share: Share) -> int:
            """Returns the number of items of a share."""
            return operator.length_hint(dataset._divided(share, even).iterate(state=start_state))

        if "begun" not in state:
            return count(dataset._share(0, self.ranks.num_ranks, self._block)) == 0
        if state["workers"] != state["ranks"]:
            return False  # of one of several workers, which does not know where the others are
        saved_share, num_taken = _rebuild_share(dataset, state), state["taken"]
        return bool(num_taken >= count(replace(saved_share, worker_index=0)) or num_taken > count(saved_share))

    def _set_start(self, state: State) -> None:
        """Stores the state at which the next pass starts; `load_state_dict` has checked it.

        In the main process the pass is that of this process or of all DataLoader workers that it starts next; in a
        DataLoader worker it is the pass of this worker alone.
        """
        self._detach_from_parent()
        self._start = dict(state)
        worker, _, base_seed = _get_worker()
        if base_seed is None:
            self._shared[_STATES_LOADED] += 1  # changes the keys of all DataLoaders
        else:
            for loader in range(_MAX_LOADERS):
                self._shared[_LOADERS + loader * _INTEGERS_OF_LOADER + 1 + worker % _MAX_WORKERS] = _UNSET
        self._shared[_STATE_USED_IN_PASS] = _UNSET
        self._shared[_READ_BY_WORKERS] = 0

    def _check_worker_state(self, state: State) -> None:
        """Checks a state of `state_dict()`.

        Raises:
            StateError: it is malformed, or does not fit the dataset.
        """
        number = state.get("format")
        if set(state) - {"examples"} != _FIELDS or isinstance(number, bool) or number not in (FORMAT, FORMAT_OF_EVEN):
            raise StateError(
                f"a worker's state: expected format {FORMAT} or {FORMAT_OF_EVEN} with the fields {sorted(_FIELDS)}, "
                f"got format {shown(number)}: {shown(state)}. Restore it with the version that saved it."
            )
        self._dataset.iterate().set_state(state["begun"])  # raises a StateError if it does not fit
        examples = self._dataset._examples_per_item
        saved_examples = state.get("examples", examples)  # states of earlier versions lack it
        if type(saved_examples) is not int or saved_examples != examples:
            raise StateError(
                f"the state counts items of {shown(saved_examples)} examples, and an item of this dataset has "
                f"{examples}. Restore it with the same batch size, or continue from state_after(examples=...)."
            )
        dataset = self._dataset_at_state(state)
        num_left = operator.length_hint(dataset.iterate(state=state["begun"]))
        try:
            ranks = integer("ranks", state["ranks"], at_least=1, at_most=integer("workers", state["workers"]))
            if state["workers"] % ranks:
                raise ValueError(f"workers must be a multiple of ranks, {ranks}, got {state['workers']}.")
            integer("block", state["block"], at_least=1)
            share = _rebuild_share(dataset, state).with_length(num_left)
            integer("taken", state["taken"], at_least=0, at_most=share.count(num_left) + share.block)  # with even="pad"
        except (TypeError, ValueError) as error:
            raise StateError(f"the state of a worker is damaged: {error} Begin anew, or at another state.") from None

    def state_after(
        self, *, examples: int | None = None, batches: int | None = None, start: State | None = None
    ) -> dict[str, Any]:
        """Returns the state after all ranks together have taken some examples, for any number of ranks and workers.

        Args:
            examples: number of examples that all ranks together have taken, such as steps * batch_size * num_ranks.
            batches: number of batches instead, such as steps * num_ranks: those of the dataset, or of `block` examples.
            start: the state at which the ranks began; None for the beginning of the epoch of the last pass, or of the
                first pass if none has begun.

        Raises:
            TypeError: not exactly one of examples and batches is given, or the size of a batch is unknown.
            ValueError: the epoch has fewer left, or `examples` is given and an operation follows `batch()`.
            StateError: `start` is a worker's own state, or does not fit the dataset.
        """
        if (examples is None) == (batches is None):
            raise TypeError(f"state_after(): expected examples or batches, got {examples=} and {batches=}.")
        start_state = (
            self._state_at_beginning(max(self._last_pass, int(self._shared[_FIRST_PASS]))) if start is None else start
        )
        name, count, dataset = "batches", batches, self._dataset_at_state(start_state)
        if batches is None:
            name, count, dataset = "examples", examples, dataset._unbatched()
        elif dataset._steps[0].kind != "batch":
            if self._block is None:
                raise TypeError(
                    "state_after(batches=...): expected a known number of examples in a batch, got none. Give "
                    "as_torch(block=...) the batch_size of the DataLoader, or state_after(examples=...)."
                )
            count = integer("batches", batches, at_least=0) * self._block
        count = integer(name, count, at_least=0)
        return _compute_state_after(dataset, start_state, dataset._share(0, 1, 1), count, may_end=False)


class DividedStream(Divided):
    """An iterable dataset of a stream: each worker filters, batches and packs its own part of the examples.

    The items depend on the number of workers, and a state fits only the same worker of the same number of workers.
    """

    _dataset: Any

    def _iterate_items(self, start: State | None, index: int, count: int, num_workers: int, *, is_worker: bool) -> Any:
        """Returns the iterator over a worker's part of the stream; see `Divided` for the arguments."""
        stream = self._dataset._divided(index, count, self._block)
        pinned = self._set_epoch if start is None else None
        stream, epoch = stream._in_pass(self._number if pinned is None else pinned)
        if start is None:
            return _StreamShareIterator(stream.iterate(epoch=epoch), is_worker)
        stream_state = stream._state_of(start)
        if stream_state.is_beginning:  # for any worker
            return _StreamShareIterator(stream.iterate(epoch=stream_state.epoch), is_worker)

        def begin_next_pass() -> Any:
            """Returns the iterator of the pass after that of the state."""
            self._number += 1
            self._shared[_LAST_PASS] = self._number
            next_stream, epoch = self._dataset._divided(index, count, self._block)._in_pass(self._number)
            return next_stream.iterate(epoch=epoch)

        return _StreamShareIterator(
            stream.iterate(state=start), is_worker, begin_next_pass if self._skips_end else None
        )

    def _read_state(self, current: Any) -> dict[str, Any]:
        """Returns the state of the iterator of a worker's part of the stream."""
        state: dict[str, Any] = current.iterator.get_state()
        return state

    def load_state_dict(self, state: State) -> None:
        """Sets the start of the next iteration, from `state_dict()` of the same worker of the same number of workers.

        After a state at the end of a pass, it is the beginning of the next one.

        Raises:
            StateError: it is not a state of a stream with these operations. If it does not fit the worker, the next
                iteration raises the error.
        """
        self._dataset._state_of(state)
        self._skips_end = _get_worker()[2] is None and not is_stateful_loader()
        self._set_start(state)

    def state_after(
        self, *, examples: int | None = None, batches: int | None = None, start: State | None = None
    ) -> dict[str, Any]:
        """Raises a TypeError whatever the arguments are: how far a stream has read depends on the examples.

        `examples`, `batches` and `start` exist because the `state_after` of a divided dataset has them.
        """
        raise TypeError("a stream has no state_after(): use torchdata's StatefulDataLoader, or num_workers=0.")


class _StreamShareIterator(Iterator[Any]):
    """Iterator over the items of a worker's part of a stream."""

    def __init__(self, iterator: Any, is_worker: bool, begin_next_pass: Callable[[], Any] | None = None) -> None:
        """Wraps the iterator of a stream.

        Args:
            iterator: the iterator.
            is_worker: whether this process is a DataLoader worker, so that items are sent to its parent.
            begin_next_pass: returns the iterator to continue with if this one has no items; None to end.
        """
        self.iterator = iterator
        self._is_worker = is_worker
        self._begin_next_pass = begin_next_pass

    def __next__(self) -> Any:
        begin_next_pass, self._begin_next_pass = self._begin_next_pass, None
        try:
            value = next(self.iterator)
        except StopIteration:
            if begin_next_pass is None:
                raise
            self.iterator = begin_next_pass()
            value = next(self.iterator)
        return wrap_for_transfer(value) if self._is_worker else value

    def close(self) -> None:
        """Closes the open files."""
        self.iterator.close()


class _ShareIterator(Iterator[Any]):
    """Iterator over the items of a share."""

    def __init__(
        self,
        share_dataset: Dataset,
        share: Share,
        start_state: State,
        num_taken: int,
        is_even: bool,
        *,
        is_worker: bool,
    ) -> None:
        """Starts in the middle of a share.

        Args:
            share_dataset: the dataset of the share.
            share: the share.
            start_state: the state at which the shares began.
            num_taken: the number of items of the share that were taken since.
            is_even: whether all ranks have the same number of items.
            is_worker: whether this process is a DataLoader worker, so that items are sent to its parent.
        """
        self._is_worker = is_worker
        self._iterator = share_dataset.iterate(state=start_state)
        self._limit = operator.length_hint(self._iterator)
        # `_taken` after the end: one more than the limit if other ranks may have one more item, as then all have ended.
        self._taken_at_end = self._limit + (not is_even)
        self._share = share
        self._begun = dict(start_state)
        self._taken = min(num_taken, self._taken_at_end)  # another rank may have one more
        self._iterator.advance(self._taken)

    def __next__(self) -> Any:
        """Returns the next item of the share.

        Raises:
            StopIteration: there is none.
        """
        if self._taken >= self._limit:
            self._taken = self._taken_at_end
            self.close()
            raise StopIteration
        value = next(self._iterator)
        self._taken += 1
        return wrap_for_transfer(value) if self._is_worker else value

    def state(self) -> dict[str, Any]:
        """Returns the state of the share as a dict of JSON values; `Divided.state_dict` adds the number of ranks.

        `begun` is the state of a `DatasetIterator` at which the shares began, `taken` the number of items that this
        share has taken since, `worker` and `workers` the index and the number of shares of all ranks, and `block` the
        number of consecutive items of a share.
        """
        share = self._share
        return {
            "format": FORMAT if share.end is None else FORMAT_OF_EVEN,
            "begun": self._begun,
            "taken": self._taken,
            "worker": share.worker_index,
            "workers": share.worker_count,
            "block": share.block,
        }

    def close(self) -> None:
        """Closes the open files; `next()` opens them again."""
        self._iterator.close()


def _rebuild_share(dataset: Dataset, state: State) -> Share:
    """Returns the share of the worker that saved a state of `state_dict()`."""
    is_even = state["format"] == FORMAT_OF_EVEN
    return dataset._share(state["worker"], state["workers"], state["block"], even=is_even)


def _iterate_share(dataset: Dataset, share: Share, start_state: State) -> DatasetIterator:
    """Returns the iterator over a share of a dataset, from the state at which the shares began."""
    return dataset._divided(share).iterate(state=start_state)


def _compute_state_after(
    dataset: Dataset, start_state: State, share: Share, num_taken: int, *, may_end: bool = True
) -> dict[str, Any]:
    """Returns the state of the dataset after each share has taken a number of items.

    Args:
        dataset: the dataset that is divided.
        start_state: the state at which the shares began.
        share: one of the shares, which have all taken the same number of items.
        num_taken: number of items that each share has taken.
        may_end: whether to return the end if the share has fewer items.

    Raises:
        ValueError: the share has fewer items, and `may_end` is False.
    """
    iterator = _iterate_share(dataset, share, start_state)
    num_left = operator.length_hint(iterator)
    if num_taken > num_left and not may_end:
        raise ValueError(
            f"state_after(): expected at most {num_left} items, which are left in epoch {start_state['epoch']}, "
            f"got {num_taken}. Count from the beginning of the epoch of set_epoch(epoch), or give start=..."
        )
    iterator.advance(num_taken)
    return iterator.get_state()


def as_torch(
    dataset: Dataset | Stream,
    *,
    map_style: bool = False,
    rank: int | None = None,
    num_ranks: int | None = None,
    block: int | None = None,
    even: str | None = None,
    fill: Any = None,
    epoch: int = 0,
) -> Any:
    """Returns a dataset for a DataLoader; see `Dataset.as_torch` for the arguments, results and errors."""
    torch = framework("torch", needed_by="as_torch()", name="PyTorch", extra="torch")
    if dataset._has_positions:
        dataset = cast("Dataset", dataset)._with_filler(fill, arrays=np.dtype(np.uint64))
    elif fill is not None or even is not None:
        raise ValueError(
            "as_torch() of a stream: expected no fill or even, as its number of items is unknown. Give fill to "
            "batch() of the stream, and end the epoch after a number of steps that all ranks have."
        )
    if even not in (None, "drop", "pad"):
        raise ValueError(f"even: expected 'drop', 'pad' or None, got {shown(even)}.")
    if even is not None and block is None and dataset._steps[0].kind != "batch":
        raise ValueError(
            f"even={even!r}: expected block=, the batch_size of the DataLoader (1 for batch_size=None), or batch() "
            "before as_torch()."
        )
    if boolean("map_style", map_style):
        if (rank, num_ranks, epoch) != (None, None, 0) or (block is not None and even is None):
            raise ValueError(
                "map_style=True: expected no rank, num_ranks or epoch, and no block without even, as the DataLoader's "
                "sampler orders and divides the indices. Use torch.utils.data.DistributedSampler."
            )
        return _build_map_style(dataset, even, block)
    if (rank is None) != (num_ranks is None):
        raise ValueError(
            f"rank and num_ranks: expected both or neither, got rank={rank} and num_ranks={num_ranks}. Give both."
        )
    options = {"rank": rank, "num_ranks": num_ranks, "block": block, "even": even}
    shared_integers = torch.tensor(_initial_shared_integers(dataset._first_pass(epoch)), dtype=torch.int64)
    torch_dataset = _build_divided(dataset, {**options, "shared": shared_integers})
    if even is not None:
        try:
            len(dataset)
        except TypeError:  # which only an endless dataset raises here, as streams were refused
            pass
        else:
            len(torch_dataset)  # raises errors now, before an iteration begins; so does the next line
    torch_dataset.ranks  # noqa: B018
    return torch_dataset


class Ranks(NamedTuple):
    """The rank of this process and the number of ranks that divide a dataset.

    Attributes:
        rank: rank of this process, in [0, num_ranks).
        num_ranks: number of ranks.
        source: origin of the two numbers, for messages, such as `from torch.distributed`.
        world_size: number of ranks that train together; more than `num_ranks` if something else divides the items
            among them.
    """

    rank: int
    num_ranks: int
    source: str
    world_size: int

    @classmethod
    def of(cls, rank: Any, num_ranks: Any, source: str) -> Ranks:
        """Returns `Ranks` after checking the two numbers; its `world_size` is `num_ranks`.

        Args:
            rank: the rank of this process, an integer in [0, num_ranks).
            num_ranks: the number of ranks, an integer of at least 1.
            source: origin of the two numbers, such as `from torch.distributed`.

        Raises:
            TypeError: a number is not an integer.
            ValueError: `num_ranks` is less than 1, or `rank` is out of range.
        """
        checked_num_ranks, checked_rank = integer("num_ranks", num_ranks, at_least=1), integer("rank", rank)
        if not 0 <= checked_rank < checked_num_ranks:
            raise ValueError(f"rank must be in [0, {checked_num_ranks}), got {checked_rank}.")
        return cls(checked_rank, checked_num_ranks, source, checked_num_ranks)

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.num_ranks} ({self.source})"


_SINGLE_RANK = Ranks.of(0, 1, "no other ranks were found")


def detect_ranks() -> Ranks | None:
    """Returns the ranks from torch.distributed, or else from the environment; None if neither has them.

    Returns rank 0 of 1, which reads all items, if Accelerate or the Trainer of Hugging Face is reading: they divide the
    items of an iterable dataset among ranks themselves.
    """
    ranks = ranks_of_process()
    if is_divided_by_caller():
        return Ranks(0, 1, "Accelerate divides what it reads", ranks.world_size if ranks else 1)
    return ranks


def ranks_of_process() -> Ranks | None:
    """Returns the ranks from torch.distributed, or else from the environment; None if neither has them."""
    torch = framework("torch", needed_by="as_torch()", name="PyTorch", extra="torch")
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return Ranks.of(torch.distributed.get_rank(), torch.distributed.get_world_size(), "from torch.distributed")
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:  # a launcher sets them before the group is initialized
        return Ranks.of(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), "from $RANK and $WORLD_SIZE")
    return None


def _stacks_items(collate_fn: Any) -> bool:
    """Returns whether a collate function stacks items: that of PyTorch, or one of Hugging Face, which Trainer uses."""
    module = getattr(collate_fn, "__module__", None) or type(collate_fn).__module__
    return collate_fn is _import_torch_data().default_collate or str(module).partition(".")[0] == "transformers"


@functools.cache  # warns once
def _warn_of_batches_of_batches(dataset: str, batch_size: int) -> None:
    """Warns that a DataLoader makes batches of batches.

    Args:
        dataset: the `repr` of the dataset.
        batch_size: the batch size of the DataLoader.
    """
    _LOGGER.warning(
        "%s: the dataset is in batches already, and the DataLoader makes batches of %d of them, with a dimension more. "
        "DataLoader(..., batch_size=None) passes the batches of the dataset on.",
        dataset,
        batch_size,
    )


@functools.cache  # warns once
def _warn_of_dispatching(dataset: str, num_skipped: int) -> None:
    """Warns that a run that resumes from a state of Accelerate skips batches.

    Args:
        dataset: the `repr` of the dataset.
        num_skipped: the number of batches that it skips.
    """
    _LOGGER.warning(
        "%s: Accelerate with dispatch_batches and use_stateful_dataloader saves states that count %d of the next "
        "batches as read, so a run that resumes skips as many. Set DataLoaderConfiguration(split_batches=True), and "
        "the batch_size of the DataLoader to that of all processes together.",
        dataset,
        num_skipped,
    )


def _get_worker() -> tuple[int, int, int | None]:
    """Returns the index of this DataLoader worker, their number, and the seed of their DataLoader for this iteration.

    Returns:
        (0, 1, None) in a process that is not a DataLoader worker.
    """
    torch_data = sys.modules.get("torch.utils.data")  # a DataLoader worker has imported it
    info = None if torch_data is None else torch_data.get_worker_info()
    return (0, 1, None) if info is None else (info.id, info.num_workers, info.seed - info.id)


def _inspect_calling_loader() -> tuple[int, int | None, bool]:
    """Returns num_workers, batch_size and drop_last of the DataLoader whose `len()` calls that of its dataset.

    PyTorch does not pass the number of workers to a dataset, so they are read from the caller's frame.

    Returns:
        (0, None, False) if the caller is not a DataLoader.
    """
    caller = sys._getframe(2).f_locals.get("self")
    torch_data = sys.modules.get("torch.utils.data")  # not loaded: the caller is no DataLoader
    if torch_data is None or not isinstance(caller, torch_data.DataLoader):
        return 0, None, False
    return caller.num_workers, caller.batch_size, caller.drop_last


def _import_torch_data() -> Any:
    """Returns the module torch.utils.data; raises MissingDependencyError if PyTorch is not installed."""
    return framework("torch.utils.data", needed_by="as_torch()", name="PyTorch", extra="torch")


@functools.cache
def _subclass_torch_class(our_class: type[Any], torch_class_name: str) -> type[Any]:
    """Returns a subclass of a class of this module and of a class of torch.utils.data, which a DataLoader requires.

    Args:
        our_class: the class of this module, whose name the subclass has.
        torch_class_name: "Dataset" or "IterableDataset".
    """
    return type(
        our_class.__name__, (our_class, getattr(_import_torch_data(), torch_class_name)), {"__module__": __name__}
    )


# pickle cannot find classes that are created at run time; it can find these functions.


_divided: weakref.WeakSet[Divided] = weakref.WeakSet()
"""The iterable datasets of this process."""


def _register_for_forks(torch_dataset: Divided) -> None:
    """Detaches an iterable dataset from the parent of this process before this process forks.

    A DataLoader forks its workers without a call to its dataset.
    """
    _detach_before_forks()
    _divided.add(torch_dataset)


@functools.cache  # once, as it cannot be undone
def _detach_before_forks() -> None:
    """Registers a function that runs before each fork of this process."""

    def detach() -> None:
        """Detaches all iterable datasets of this process from its parent."""
        for torch_dataset in list(_divided):
            torch_dataset._detach_from_parent()

    os.register_at_fork(before=detach)


def _build_map_style(dataset: Any, even: str | None, block: int | None, ranks: Ranks | None = None) -> Any:
    """Returns a `MapStyle` that is a torch.utils.data.Dataset too. For the arguments, see `MapStyle`."""
    return _subclass_torch_class(MapStyle, "Dataset")(dataset, even, block, ranks)


def _build_divided(dataset: Dataset | Stream, options: Mapping[str, Any]) -> Any:
    """Returns a `Divided` or `DividedStream` that is a torch.utils.data.IterableDataset too.

    Args:
        dataset: the dataset or stream.
        options: the keyword arguments of `Divided`.
    """
    options["shared"].share_memory_()  # a copy that pickle made does not share its memory
    our_class = Divided if dataset._has_positions else DividedStream
    return _subclass_torch_class(our_class, "IterableDataset")(dataset, **options)


# ------------------------------------------------------------------------------------------------------------- transfer

# PyTorch passes each tensor as a shared file of its own, for which both processes open a connection, and strings
# through a pipe. Here the numbers and strings of a dict are copied one after the other to a *segment*, a shared tensor
# that is sent once; after that a message contains its number and the layout. The parent's tensors are views of it.
# When the last of them is gone, the worker writes there again, so that its pages are made once.

_ALIGNMENT = 64  # bytes; parts begin at multiples of it. The first part is a flag: 1 while the parent has tensors
_MIN_BYTES = 32 << 10  # of a batch in a segment: smaller ones are as fast in the message, and need no open file
_MAX_SEGMENTS = 16  # segments of a worker; if the parent uses all of them, further batches are sent by value
_STRING_LEAF, _VALUE_LEAF = -1, -2  # kinds of leaves that are not tensors; a tensor has the number of its group instead


class Transferred(dict[Any, Any]):
    """A dict that a worker sends to the parent in one segment; it arrives as a plain dict.

    PyTorch's collate functions keep the class of a dict.
    """

    def __copy__(self) -> Self:
        return type(self)(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)  # if it is not pickled for a queue of multiprocessing


def wrap_for_transfer(value: Any) -> Any:
    """Returns a dict as a `Transferred`, and other values unchanged."""
    return Transferred(value) if type(value) is dict else value


# ----------------------------------------------------------------------------------------------------------- the worker


class _SegmentLayout:
    """Layout of a batch in a segment.

    Attributes:
        size: the number of bytes that are reserved.
        writers: (offset in bytes, function that writes to a tensor of bytes) of each part.
    """

    def __init__(self) -> None:
        self.size = 0
        self.writers: list[tuple[int, Callable[[Any], object]]] = []

    def add(self, size: int, write: Callable[[Any], object]) -> int:
        """Reserves bytes, and returns their offset.

        Args:
            size: the number of bytes.
            write: the function that writes the bytes to a tensor of uint8, which begins at the offset.
        """
        start = self.size
        self.writers.append((start, write))
        self.size += size + -size % _ALIGNMENT
        return start


def _reduce_to_segment(value: Transferred) -> tuple[Any, ...]:
    """Copies a dict to a segment, and returns the function and arguments with which the parent restores it.

    The result has the form that pickle expects of a reducer.
    """
    import torch

    groups: dict[Any, tuple[int, list[Any]]] = {}
    parts, strings = _SegmentLayout(), list[Any]()
    nest = _collect_leaves(torch, value, groups, strings, parts)
    tensors = [
        (
            parts.add(_count_bytes(group), _build_stack_writer(torch, group)),
            _count_bytes(group),
            dtype,
            tuple(shape),
            len(group),
        )
        for (dtype, shape), (_, group) in groups.items()
    ]
    segment = _segments.free(torch, parts.size) if parts.size >= _MIN_BYTES else None
    memory = torch.empty(parts.size, dtype=torch.uint8) if segment is None else segment.tensor[_ALIGNMENT:]
    for start, write in parts.writers:
        write(memory[start:])
    source = memory.numpy() if segment is None else segment.name()
    return _restore_dict, (nest, source, parts.size, tensors, strings)


def _collect_leaves(torch: Any, value: Any, groups: Any, strings: Any, parts: _SegmentLayout) -> Any:
    """Collects the tensors and the lists of bytes in a nest of dicts, and returns the nest with a tuple for each leaf.

    For example, {'a': tensor, 'b': [b'x', b'yz'], 'c': 3} becomes {'a': (0, 0), 'b': (_STRING_LEAF, 0),
    'c': (_VALUE_LEAF, 3)}, `groups` gets {(tensor.dtype, tensor.shape): (0, [tensor])}, and `strings` gets
    (0, '1s2s', None).

    Args:
        torch: the module torch.
        value: a dict of values and dicts, or a value.
        groups: dict from the (dtype, shape) of tensors to (number of the group, list of the tensors). Changed.
        strings: list with (byte offset in the segment, format of `struct` that unpacks the strings, shape) of each
            array of bytes; the shape is None for a list of bytes. Changed.
        parts: the layout of the segment, to which strings are added. Changed.

    Returns:
        `value` with leaves (number of the group, index in the group) for tensors in CPU memory, (`_STRING_LEAF`, index
        in `strings`) for arrays and lists of bytes, and (`_VALUE_LEAF`, value) for all other values.
    """
    kind = type(value)
    if kind is torch.Tensor and _is_copyable_bytewise(torch, value):
        number, group = groups.setdefault((value.dtype, value.shape), (len(groups), []))
        group.append(value)
        return number, len(group) - 1
    if kind is dict or kind is Transferred:
        return {key: _collect_leaves(torch, item, groups, strings, parts) for key, item in value.items()}
    is_array = kind is np.ndarray and value.dtype.hasobject
    items = value.ravel().tolist() if is_array else value if kind is list else ()
    if items and set(map(type, items)) == {bytes}:
        form = "%ds" * len(items) % tuple(map(len, items))  # `struct` makes all strings at once
        write = lambda memory: struct.pack_into(form, memory.numpy(), 0, *items)  # noqa: E731
        strings.append((parts.add(struct.calcsize(form), write), form, value.shape if is_array else None))
        return _STRING_LEAF, len(strings) - 1
    return _VALUE_LEAF, value


def _is_copyable_bytewise(torch: Any, tensor: Any) -> bool:
    """Returns whether a tensor is a plain array in CPU memory, which can be copied byte by byte."""
    is_dense = tensor.is_cpu and tensor.layout is torch.strided and not tensor.is_quantized
    return is_dense and not (tensor.requires_grad or tensor.dtype.is_complex)


def _count_bytes(tensors: list[Any]) -> int:
    """Returns the size of all tensors together, in bytes."""
    return sum(tensor.nbytes for tensor in tensors)


def _build_stack_writer(torch: Any, tensors: list[Any]) -> Callable[[Any], object]:
    """Returns the function that writes tensors of one dtype and shape, one after the other, to a tensor of uint8."""

    def write(memory: Any) -> None:
        """Writes the tensors to the start of a tensor of uint8."""
        stacked = memory[: _count_bytes(tensors)].view(tensors[0].dtype).view(len(tensors), *tensors[0].shape)
        torch.stack(tensors, out=stacked)

    return write


class _Segment:
    """Memory that a worker shares with its parent.

    Args:
        torch: the module torch.
        number: the number of the segment.
        size: minimum size of the memory in bytes, without the reserved bytes.

    Attributes:
        tensor: the memory as a tensor of uint8; its first `_ALIGNMENT` bytes are reserved for the flag.
        flag: an array of one byte: 1 while the parent has tensors in the segment.
        number: the number of the segment in its process.
    """

    def __init__(self, torch: Any, number: int, size: int) -> None:
        step = max(1 << 16, 1 << max(0, size.bit_length() - 3))  # rounded up, so that slightly larger batches fit, too
        self.tensor = torch.zeros(_ALIGNMENT + -(-size // step) * step, dtype=torch.uint8).share_memory_()
        self.flag = self.tensor.numpy()[:1]
        self.number = number
        self._is_sent = False

    def name(self) -> tuple[int, int, Any]:
        """Returns (id of the process, number, tensor); the tensor only at the first call, later None."""
        was_sent, self._is_sent = self._is_sent, True
        return os.getpid(), self.number, None if was_sent else self.tensor


class _Segments:
    """Segments of this process, if it is a worker."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._segments: list[_Segment] = []

    def free(self, torch: Any, size: int) -> _Segment | None:
        """Returns an unused segment for `size` bytes; None if all `_MAX_SEGMENTS` are in use by the parent."""
        if self._process != os.getpid():
            self.__init__()  # type: ignore[misc]  # forked from a process that has segments
        unused = [segment for segment in self._segments if not segment.flag[0]]
        free = next((segment for segment in unused if len(segment.tensor) >= _ALIGNMENT + size), None)
        if free is None:
            if unused:  # too small, so it is replaced
                free = _Segment(torch, unused[0].number, size)
                self._segments[free.number] = free
            elif len(self._segments) < _MAX_SEGMENTS:
                free = _Segment(torch, len(self._segments), size)
                self._segments.append(free)
            else:
                return None
        free.flag[0] = 1
        return free


_segments = _Segments()
ForkingPickler.register(Transferred, _reduce_to_segment)

# ----------------------------------------------------------------------------------------------------------- the parent

_mapped_segments: dict[tuple[int, int], Any] = {}
"""The segments of workers, by process and number."""


def _restore_dict(nest: Any, source: Any, size: int, tensors: list[Any], strings: list[Any]) -> Any:
    """Returns the dict that a worker copied to a segment; the arguments are those of `_reduce_to_segment`.

    Args:
        nest: the dict with leaves (kind, index or value); see `_collect_leaves`.
        source: the bytes of the batch as an array, or the name of the segment.
        size: the size of the batch in the segment, in bytes.
        tensors: (offset, size in bytes, dtype, shape, number of tensors) of each group.
        strings: (byte offset, format of `struct`, shape) of each array of strings; the shape is None for a list.
    """
    root = source if isinstance(source, np.ndarray) else _segment_memory(source, size)
    groups = [_view_tensors(root, *group) for group in tensors]
    return _rebuild_nest(nest, groups, [_read_strings(root, *string_range) for string_range in strings])


def _view_tensors(root: Any, start: int, size: int, dtype: Any, shape: tuple[int, ...], count: int) -> list[Any]:
    """Returns the tensors of a group; each storage has the bytes of one tensor, which `torch.save` writes.

    Args:
        root: the bytes of the batch, as an array.
        start: the offset of the group in `root`, in bytes.
        size: the size of the group, in bytes.
        dtype: PyTorch's dtype of the tensors.
        shape: the shape of each tensor.
        count: the number of tensors.

    The tensors must keep the array `root` alive, because the worker reuses its memory when `root` is deleted. A
    memoryview of `root` does so; a slice keeps only the base array alive.
    """
    import torch

    if not size:
        return [torch.empty(shape, dtype=dtype) for _ in range(count)]
    stored = _numpy_dtype(dtype)
    items = np.frombuffer(memoryview(root)[start : start + size], stored or np.uint8)
    items = items.reshape(count, *(shape if stored and shape else (-1,)))
    tensors = list(map(torch.from_numpy, items))
    return tensors if stored and shape else [tensor.view(dtype).view(shape) for tensor in tensors]


@functools.cache
def _numpy_dtype(dtype: Any) -> np.dtype[Any] | None:
    """Returns NumPy's dtype for one of PyTorch; None if it has none, as for bfloat16."""
    import torch

    try:
        numpy_dtype: np.dtype[Any] = torch.empty(0, dtype=dtype).numpy().dtype
    except TypeError:
        return None
    return numpy_dtype


def _rebuild_nest(nest: Any, groups: list[Any], strings: list[Any]) -> Any:
    """Returns a nest with values in place of the leaves of `_collect_leaves`.

    Args:
        nest: the nest of dicts with leaves (kind, index or value).
        groups: the tensors of each group.
        strings: the arrays and lists of strings.
    """
    if type(nest) is dict:
        return {key: _rebuild_nest(item, groups, strings) for key, item in nest.items()}
    kind, content = nest
    return groups[kind][content] if kind >= 0 else strings[content] if kind == _STRING_LEAF else content


def _segment_memory(name: tuple[int, int, Any], size: int) -> Any:
    """Returns the bytes of a batch in a segment; when the array is deleted, the worker may reuse the segment.

    Args:
        name: (id of the worker's process, number of the segment, tensor of the segment or None if it was sent before).
        size: the size of the batch, in bytes.
    """
    process, number, tensor = name
    if tensor is not None:
        running = {process, *(child.pid for child in multiprocessing.active_children())}
        for key in [key for key in _mapped_segments if key[0] not in running]:
            del _mapped_segments[key]
        _mapped_segments[process, number] = tensor.numpy()
    memory = _mapped_segments[process, number]
    used = memory[_ALIGNMENT : _ALIGNMENT + size]
    weakref.finalize(used, _release_segment, memory, os.getpid()).atexit = False
    return used


def _release_segment(memory: Any, process: int) -> None:
    """Clears the flag of a segment, so that the worker may reuse it.

    Args:
        memory: the segment as an array of bytes, which begins with the flag.
        process: the id of the process that mapped the segment; others, its forked children, do nothing.
    """
    if process == os.getpid():  # in a forked child, the parent may still have the tensors
        memory[0] = 0


def _read_strings(root: Any, start: int, form: str, shape: tuple[int, ...] | None) -> Any:
    """Returns strings of a segment as a list, or as an array of objects if they have a shape.

    Args:
        root: the bytes of the batch, as an array.
        start: the offset of the strings in `root`, in bytes.
        form: the format of `struct`, such as '3s5s' for strings of 3 and 5 bytes.
        shape: the shape of the array; None for a list.
    """
    items = struct.unpack_from(form, root, start)
    if shape is None:
        return list(items)
    array = np.empty(len(items), object)
    array[:] = items
    return array.reshape(shape)
