"""Iterable datasets for PyTorch: items in read order, which ranks and DataLoader workers divide by positions."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from beam_datasets.adapters import callers, torch_workers
from beam_datasets.adapters.torch_loader_checks import (
    LOGGER,
    check_divider,
    check_loader,
    check_outer_divider,
    count_split_items,
    has_length,
    warn_of_dropped_examples,
    warn_of_filled_batches,
    warn_of_hugging_face,
    warn_of_lightning,
    warn_of_lost_state,
)
from beam_datasets.adapters.torch_passes import Passes
from beam_datasets.adapters.torch_ranks import SINGLE_RANK, Ranks, detect_ranks
from beam_datasets.adapters.torch_states import (
    FORMAT,
    FORMAT_OF_EVEN,
    State,
    check_worker_state,
    compute_state_after,
    dataset_at_state,
    pass_at_state,
    rebuild_share,
    resume_share,
)
from beam_datasets.adapters.torch_transfer import wrap_for_transfer
from beam_datasets.advice import advised_getattr, advised_getitem
from beam_datasets.arguments import integer
from beam_datasets.errors import StateError

if TYPE_CHECKING:
    from beam_datasets.adapters.callers import FitLoop
    from beam_datasets.reading.dataset import Dataset
    from beam_datasets.reading.index.division import Share
    from beam_datasets.reading.index.transforms import Even
    from beam_datasets.reading.streams import Stream


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
        unpickled_in: int | None = None,
        fit_loop: FitLoop | None = None,
        skips_end: bool = False,
        is_probe: bool = False,
    ) -> None:
        """Divides a dataset.

        Args:
            dataset: the dataset to divide.
            rank: rank of this process, in [0, num_ranks); None to detect it when an iteration begins.
            num_ranks: number of ranks; None with rank None.
            block: number of consecutive items for a worker; None as in `Dataset.shard`.
            even: "drop" or "pad" gives all ranks the same number of whole blocks; None for neither.
            shared: the integers that count passes; see `Passes`. None for new ones of this process alone.
            start: a state as for `load_state_dict`.
            process: the id of the process that shares the integers with its workers; None for this process.
            detected_ranks: the ranks that the parent of this DataLoader worker detected; None if there are none.
            unpickled_in: the id of the process that has unpickled the dataset; None if it was not pickled.
            fit_loop: the loop of Lightning in which the parent of this DataLoader worker started it.
            skips_end: whether a stream that starts at the end of an epoch continues with the next one.
            is_probe: whether the first pass of this DataLoader worker does not count, as its parent only looks at it.

        Raises:
            TypeError: a number is not an integer.
            ValueError: the rank is out of range.
        """
        self._dataset = dataset
        self._given_ranks = None if rank is None or num_ranks is None else Ranks.of(rank, num_ranks, "given")
        self._parent_ranks = detected_ranks
        self._process_of_unpickling = unpickled_in
        self._parent_fit_loop = fit_loop
        self._skips_end = skips_end
        self._is_probe = is_probe
        self._process_of_pass: int | None = None  # id of the process that has begun a pass
        self._process_of_ended_pass: int | None = None  # id of the process that has resumed at the end of a pass
        self._block = None if block is None else integer("block", block, at_least=1)
        if even is not None:
            dataset._even(even, 1, block)  # raises a ValueError if it does not exist
        self._even = even
        self._passes = Passes(shared, process)
        self._start = start
        self._current: Any = None
        self._num_ranks = 1  # number of ranks of the last iteration
        self._num_epochs_before = 0  # epochs before a loaded state that Accelerate does not count

    if not TYPE_CHECKING:  # so that a type checker reports missing attributes
        __getattr__ = advised_getattr("torch_dataset")
        __getitem__ = advised_getitem("torch_dataset")

    def __reduce__(self) -> tuple[Any, ...]:
        """Returns the arguments for another process, with the ranks that this process detects."""
        check_loader(self, self._dataset)  # here for spawned workers, which do not see the DataLoader
        warn_of_dropped_examples(self, self._dataset, self._block)
        self._passes.detach_from_parent()
        declared_ranks = self._given_ranks
        options = {
            "rank": declared_ranks and declared_ranks.rank,
            "num_ranks": declared_ranks and declared_ranks.num_ranks,
            "detected_ranks": None if declared_ranks else self._detect_ranks(),
            "fit_loop": callers.find_fit_loop(),
            "skips_end": self._skips_end,
            "is_probe": callers.is_probed(),
            "block": self._block or self._find_dispatched_batch_size(),
            "even": self._even,
            "shared": self._passes.integers,
            "process": self._passes.process,
            "start": self._start,
        }
        return torch_workers.unpickle_iterable, (self._our_class(), self._dataset, options)

    def _our_class(self) -> type[Divided]:
        """Returns `Divided`, which a pickle names: pickle cannot find the class of this object, created at run time."""
        return Divided

    def __len__(self) -> int:
        """Returns the number of items that all workers of the rank get in an epoch.

        The `len()` of a DataLoader is this number divided by its batch size. If several workers each make a smaller
        last batch, this returns the number of batches times the batch size, so that the result is right. For a
        DataLoader with workers that reads a `ChainDataset`, the first dataset returns the number of all and each other
        one 0, because a batch may span two datasets. Under Accelerate with `split_batches`, see `count_split_items`.

        Raises:
            TypeError: the dataset is endless.
        """
        len(self._dataset)  # raises a TypeError if it is endless
        check_divider(self._dataset)
        ranks = self.ranks
        loader = torch_workers.inspect_calling_loader()
        if loader.batch_size is not None and callers.does_accelerate_split_batches():
            return count_split_items(self._dataset, self._count_items_of_workers(ranks, max(1, loader.num_workers)))
        if loader.num_workers < 2 or loader.batch_size is None:
            return self._count_items(ranks.rank, ranks.num_ranks)
        parts = loader.chained if _are_distinct(loader.chained) else (self,)
        if parts[0] is not self:
            return 0  # the first part of a `ChainDataset` counts for all, as a batch may have examples of several
        counts: list[int] = [
            sum(part) for part in zip(*(p._count_items_of_workers(p.ranks, loader.num_workers) for p in parts))
        ]
        step_size = loader.batch_size * callers.count_blocks_of_divider()
        return step_size * sum(count // step_size if loader.drop_last else -(-count // step_size) for count in counts)

    def _count_items_of_workers(self, ranks: Ranks, num_workers: int) -> list[int]:
        """Returns the number of items that each DataLoader worker of a rank reads in an epoch."""
        first, count = ranks.rank, num_workers * ranks.num_ranks
        return [self._count_items(worker * ranks.num_ranks + first, count) for worker in range(num_workers)]

    def _count_items(self, index: int, count: int) -> int:
        """Returns the number of items of a share in an epoch.

        Args:
            index: the index of the share, in [0, count).
            count: the number of shares, which is that of all workers of all ranks.
        """
        share = self._dataset._share(index, count, self._block_of_worker())
        return len(self._dataset._divided(share, self._build_even(self._dataset)))

    def _block_of_worker(self) -> int | None:
        """Returns the number of consecutive items of a worker; None for the default.

        If Accelerate divides the examples, it takes `block` times the number of ranks. If it dispatches batches, the
        default is a batch, so that only the last one of an epoch is smaller.
        """
        block = self._block or self._find_dispatched_batch_size()
        return block and block * callers.count_blocks_of_divider()

    def _find_dispatched_batch_size(self) -> int | None:
        """Returns the batch size of the DataLoader whose batches Accelerate dispatches; None if it dispatches none."""
        if not self._dataset._has_positions or self._dataset._steps[0].kind == "batch" or not callers.is_dispatched():
            return None
        loader = callers.find_loader(self)
        return None if loader is None else loader.batch_size

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
        ranks = self._given_ranks or self._detect_ranks() or SINGLE_RANK
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

    def _detect_ranks(self) -> Ranks | None:
        """Returns the ranks that this process, or the parent of a spawned DataLoader worker, detects.

        A spawned worker has the environment of a launcher, but does not see whether a framework divides the items.
        """
        is_spawned_worker = self._process_of_unpickling == os.getpid() and torch_workers.get_worker()[2] is not None
        return self._parent_ranks if is_spawned_worker else detect_ranks()

    def __iter__(self) -> Iterator[Any]:
        """Yields the items of this DataLoader worker, or those of the rank in a process that is no worker.

        The first iteration after `load_state_dict()` starts at that state. Others start at the epoch of
        `set_epoch()`, or at the epoch after the previous pass.

        Raises:
            StateError: the loaded state belongs to another worker.
            ValueError: a DataLoader makes batches of one batch, or another dataset divides the items once more.
        """
        check_loader(self, self._dataset)
        self._passes.detach_from_parent()
        worker, num_workers, base_seed = torch_workers.get_worker()
        ranks = self.ranks
        check_outer_divider(self._dataset, num_workers * (1 if self._given_ranks else ranks.num_ranks))
        if worker == 0 and self._passes.claim_announcement():
            self._announce(ranks, num_workers)
        self._num_ranks = ranks.num_ranks
        index, count = worker * ranks.num_ranks + ranks.rank, num_workers * ranks.num_ranks
        is_worker = base_seed is not None
        if self._is_probed(is_worker=is_worker):
            start = self._start if self._passes.probe() else None
            return self._iterate_items(start, index, count, num_workers, is_worker=is_worker)
        start, self._start, loop = self._start, None, self._fit_loop
        if self._current is not None:
            self._current.close()
        if start is None and self._has_ended_in_epoch(loop):
            self._passes.number = self._passes.last
            items = self._iterate_items(None, index, count, num_workers, is_worker=is_worker)
            self._current = items
            self._current.end()
            return items
        pass_of_start = None if start is None else pass_at_state(self._dataset, start)
        at_least = 0 if loop is None else loop.epoch
        if not self._passes.begin(worker, num_workers, base_seed, pass_of_start=pass_of_start, at_least=at_least):
            start = None
        self._current = items = self._iterate_items(start, index, count, num_workers, is_worker=is_worker)
        return items

    def _announce(self, ranks: Ranks, num_workers: int) -> None:
        """Logs the ranks, and warnings about items that the training framework would lose or repeat.

        Args:
            ranks: the rank of this process, and the number of ranks.
            num_workers: the number of DataLoader workers of this rank.
        """
        LOGGER.info("%r: %s", self._dataset, ranks)
        self._warn_of_unequal_steps(ranks)
        if has_length(self._dataset):
            warn_of_filled_batches(self._dataset, self._count_items_of_workers(ranks, num_workers))
        elif not self._dataset._has_positions:
            warn_of_filled_batches(self._dataset, None)
        warn_of_dropped_examples(self, self._dataset, self._block)
        warn_of_lost_state(self._dataset)
        warn_of_lightning(self._dataset, self._fit_loop)
        warn_of_hugging_face(self._dataset)

    def _is_probed(self, *, is_worker: bool) -> bool:
        """Returns whether the current pass is not counted, because a framework starts it without training on its items.

        Call it once at the start of each pass. A framework is recognized by the stack of calls. The stack of a
        persistent DataLoader worker is always the stack of its first pass, so later passes of a worker are counted.

        Args:
            is_worker: whether this process is a DataLoader worker.
        """
        is_first = self._process_of_pass != os.getpid()
        self._process_of_pass = os.getpid()
        if not is_worker:
            return callers.is_probed()
        return is_first and (self._is_probe or callers.is_probed())

    def _has_ended_in_epoch(self, loop: FitLoop | None) -> bool:
        """Returns whether Lightning resumes at the end of this loader's pass while longer loaders continue the epoch.

        A StatefulDataLoader begins the next pass after it has restored a state at the end of one. Lightning would train
        on its first items in this epoch, where an uninterrupted run has None, and not on the others in the next one.

        Args:
            loop: the loop of Lightning that reads; None if another program reads.
        """
        if loop is None or not loop.resumes_longest_loader or self._process_of_ended_pass == os.getpid():
            return False
        has_ended = self._passes.last == loop.epoch
        if has_ended:  # once, as the stack of a persistent worker stays the same
            self._process_of_ended_pass = os.getpid()
        return has_ended

    def _warn_of_unequal_steps(self, ranks: Ranks) -> None:
        """Logs a warning if ranks get different numbers of steps, as ranks then wait for others that have ended.

        Logs nothing on ranks other than 0, with `even`, or if the length of the dataset is not known.

        Args:
            ranks: the rank of this process, and the number of ranks.
        """
        if ranks.rank or self._even is not None or not has_length(self._dataset):
            return
        loader = callers.find_loader(self)
        batch_size = self._block if loader is None else loader.batch_size
        name = "examples" if batch_size is None and self._dataset._steps[0].kind != "batch" else "batches"
        max_steps, min_steps = (
            self._count_steps(ranks._replace(rank=rank), batch_size or 1, loader) for rank in (0, ranks.num_ranks - 1)
        )
        if max_steps != min_steps:
            LOGGER.warning(
                "%r: rank 0 gets %d %s in an epoch, and rank %d gets %d. Where ranks wait for each other, training "
                "fails or hangs at the end. as_torch(even='drop'%s) or even='pad' gives all the same number.",
                self._dataset,
                max_steps,
                name,
                ranks.num_ranks - 1,
                min_steps,
                ", block=batch_size" if name == "examples" else "",
            )

    def _count_steps(self, ranks: Ranks, batch_size: int, loader: Any) -> int:
        """Returns the number of batches of a rank in an epoch.

        Args:
            ranks: the rank and the number of ranks.
            batch_size: the number of items in a batch.
            loader: the DataLoader that reads; None if it is not known, for batches that no worker divides.
        """
        if loader is None:
            return -(-self._count_items(ranks.rank, ranks.num_ranks) // batch_size)
        counts = self._count_items_of_workers(ranks, max(1, loader.num_workers))
        return sum(count // batch_size if loader.drop_last else -(-count // batch_size) for count in counts)

    @property
    def _fit_loop(self) -> FitLoop | None:
        """The loop of Lightning that reads; None if another program reads."""
        return callers.find_fit_loop() or (None if torch_workers.get_worker()[2] is None else self._parent_fit_loop)

    def _iterate_items(
        self, start: State | None, index: int, count: int, num_workers: int, *, is_worker: bool
    ) -> Iterator[Any]:
        """Returns the iterator over the items of a share, a `_ShareIterator` or, of a stream, a `_StreamShareIterator`.

        Args:
            start: the loaded state at which it starts; None for the beginning of the pass.
            index: the index of the share, in [0, count).
            count: the number of shares.
            num_workers: the number of DataLoader workers of this rank.
            is_worker: whether this process is a DataLoader worker, so that items are sent to its parent.
        """
        begin = self._state_at_beginning(self._passes.number) if start is None else start
        dataset = dataset_at_state(self._dataset, begin)
        whole_share = dataset._share(index, count, self._block_of_worker())
        start_state, num_taken, share = resume_share(
            begin, dataset, whole_share, self._num_ranks, has_block=self._block is not None
        )
        share_dataset = dataset._share_cores(num_workers)._divided(share, self._build_even(dataset))
        return _ShareIterator(share_dataset, share, start_state, num_taken, self._even is not None, is_worker=is_worker)

    def _state_at_beginning(self, number: int) -> dict[str, Any]:
        """Returns the state at the beginning of a pass: that of `set_epoch()` if it was called, otherwise `number`."""
        pinned = self._passes.pinned
        dataset, epoch = self._dataset._in_pass(number if pinned is None else pinned)
        return dataset.iterate(epoch=epoch).get_state()

    def set_epoch(self, epoch: int) -> None:
        """Makes all further passes read an epoch, also in persistent workers; without it each reads the next one.

        Args:
            epoch: the epoch, from 0, as frameworks count them: after `repeat(n)` it is the number of a pass, which
                reads n epochs from `n * epoch`.
        """
        check_divider(self._dataset)
        self._passes.detach_from_parent()
        epoch = integer("epoch", epoch, at_least=0)
        if not callers.is_epoch_set_by_accelerate():
            self._num_epochs_before = 0
        elif self._start is not None and not self._passes.has_used_state:
            self._num_epochs_before = max(0, pass_at_state(self._dataset, self._start) - epoch)
        self._passes.pin(epoch + self._num_epochs_before)

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the last iteration in this process; before the first one, the state at its start.

        Raises:
            StateError: DataLoader workers iterate, so this process has no state.
        """
        if self._current is None and self._passes.are_of_workers:
            raise StateError(
                "the dataset is read by the workers of a DataLoader, so this process does not know their positions. "
                "Use torchdata's StatefulDataLoader, or state_after(), or num_workers=0."
            )
        if self._start is not None:
            return dict(self._start)
        if self._current is not None:
            return self._read_state(self._current)
        return self._state_at_beginning(self._passes.last + 1)

    def _read_state(self, current: Any) -> dict[str, Any]:
        """Returns the state of `current`, the iterator of a share: a dict with `ranks` and `examples` (per item)."""
        return {"ranks": self._num_ranks, "examples": self._dataset._examples_per_item, **current.state()}

    def load_state_dict(self, state: State) -> None:
        """Sets the start of the next iteration. If the state is at the end of a pass, it begins the next pass.

        Args:
            state: a state of `state_dict()`; or of a `DatasetIterator` or `state_after()`, for any number of ranks and
                workers.

        Raises:
            StateError: the state is of another dataset, slice, configuration or order; the message names the
                differences.
        """
        if isinstance(state, Mapping) and "begun" in state:
            check_worker_state(self._dataset, state)
        else:
            self._dataset.iterate().set_state(state)  # raises a StateError if it does not fit
            dataset_at_state(self._dataset, state)
        is_worker = torch_workers.get_worker()[2] is not None  # only a StatefulDataLoader loads a state in its workers
        if not is_worker and not callers.is_stateful_loader() and self._is_at_end(state):
            dataset, epoch = self._dataset._in_pass(pass_at_state(self._dataset, state) + 1)
            state = dataset.iterate(epoch=epoch).get_state()
        self._set_start(state)

    def _is_at_end(self, state: State) -> bool:
        """Returns whether the pass has ended at a state, which `load_state_dict` has checked.

        It has if no rank gets an item, which is known of the first one, as no rank has more items; or if the rank that
        saved the state was asked for an item after its last one.
        """
        dataset, start_state = dataset_at_state(self._dataset, state), state.get("begun", state)
        even = self._build_even(dataset)

        def count(share: Share) -> int:
            """Returns the number of items of a share."""
            return operator.length_hint(dataset._divided(share, even).iterate(state=start_state))

        if "begun" not in state:
            return count(dataset._share(0, self.ranks.num_ranks, self._block)) == 0
        if state["workers"] != state["ranks"]:
            return False  # of one of several workers, which does not know where the others are
        saved_share, num_taken = rebuild_share(dataset, state), state["taken"]
        return bool(num_taken >= count(replace(saved_share, worker_index=0)) or num_taken > count(saved_share))

    def _set_start(self, state: State) -> None:
        """Stores the state at which the next pass starts; `load_state_dict` has checked it."""
        self._passes.load_state()
        self._process_of_ended_pass = None
        self._start = dict(state)

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
        start_state = self._state_at_beginning(self._passes.last_or_first) if start is None else start
        name, count, dataset = "batches", batches, dataset_at_state(self._dataset, start_state)
        if batches is None:
            name, count, dataset = "examples", examples, dataset._without_batches()
        elif dataset._steps[0].kind != "batch":
            if self._block is None:
                raise TypeError(
                    "state_after(batches=...): expected a known number of examples in a batch, got none. Give "
                    "as_torch(block=...) the batch_size of the DataLoader, or state_after(examples=...)."
                )
            count = integer("batches", batches, at_least=0) * self._block
        count = integer(name, count, at_least=0)
        return compute_state_after(dataset, start_state, dataset._share(0, 1, 1), count, may_end=False)


def _are_distinct(parts: Sequence[Any]) -> bool:
    """Returns whether the parts of a `ChainDataset` are different `Divided`, which count their items together."""
    return bool(parts) and all(isinstance(part, Divided) for part in parts) and len({*map(id, parts)}) == len(parts)


class PassIterator(Iterator[Any]):
    """Iterator of one pass; the state of the pass is that of the dataset, which a StatefulDataLoader saves."""

    _public_name = "iter(ds.as_torch())"

    if not TYPE_CHECKING:  # so that a type checker reports missing attributes
        __getattr__ = advised_getattr("torch_iterator")


class _ShareIterator(PassIterator):
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

    def end(self) -> None:
        """Moves to the end of the share, without reading its items."""
        self._taken = self._taken_at_end

    def close(self) -> None:
        """Closes the open files; `next()` opens them again."""
        self._iterator.close()
