"""Iterable datasets of streams for PyTorch: each rank and DataLoader worker makes items of its own part."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any

from beam_datasets.adapters import callers, torch_workers
from beam_datasets.adapters.torch_iterable import Divided, PassIterator
from beam_datasets.adapters.torch_loader_checks import STATES_OF_ALL_RANKS
from beam_datasets.adapters.torch_states import State
from beam_datasets.adapters.torch_transfer import wrap_for_transfer
from beam_datasets.errors import StateError


class DividedStream(Divided):
    """An iterable dataset of a stream: each worker filters, batches and packs its own part of the examples.

    The items depend on the number of workers, and a state fits only the same worker of the same number of workers.
    """

    _dataset: Any

    def _our_class(self) -> type[Divided]:
        """Returns `DividedStream`, the class that a pickle names; see `Divided._our_class`."""
        return DividedStream

    def _iterate_items(
        self, start: State | None, index: int, count: int, num_workers: int, *, is_worker: bool
    ) -> Iterator[Any]:
        """Returns the iterator over a worker's part of the stream; see `Divided` for the arguments.

        Raises:
            StateError: the loaded state is of another worker, or Lightning restores that of rank 0 on all ranks.
        """
        stream = self._dataset._part_of_worker(index, count, self._block)
        pinned = self._passes.pinned if start is None else None
        stream, epoch = stream._in_pass(self._passes.number if pinned is None else pinned)
        if start is None:
            return _StreamShareIterator(stream.iterate(epoch=epoch), is_worker)
        stream_state = stream._state_of(start)
        if stream_state.is_beginning:  # for any worker
            return _StreamShareIterator(stream.iterate(epoch=stream_state.epoch), is_worker)
        self._check_restored_ranks()

        def begin_next_pass() -> Any:
            """Returns the iterator of the pass after that of the state."""
            number = self._passes.begin_next()
            next_stream, epoch = self._dataset._part_of_worker(index, count, self._block)._in_pass(number)
            return next_stream.iterate(epoch=epoch)

        return _StreamShareIterator(
            stream.iterate(state=start), is_worker, begin_next_pass if self._skips_end else None
        )

    def _check_restored_ranks(self) -> None:
        """Checks that Lightning has not restored the state of rank 0 on all ranks: rank 0 would wait for the others.

        Raises:
            StateError: Lightning has done so.
        """
        loop = self._fit_loop
        if self._num_ranks > 1 and loop is not None and loop.is_resuming and loop.saves_rank_0_alone:
            raise StateError(
                f"{self._dataset!r}: Lightning restores the state of rank 0 on all ranks, and that of a stream fits "
                f"no other rank, as each has read its own number of examples. {STATES_OF_ALL_RANKS}"
            )

    def _read_state(self, current: Any) -> dict[str, Any]:
        """Returns the state of `current`, the iterator of a worker's part of the stream, as a dict of JSON values."""
        state: dict[str, Any] = current.iterator.get_state()
        return state

    def load_state_dict(self, state: State) -> None:
        """Sets the start of the next iteration, from `state_dict()` of the same worker of the same number of workers.

        If the state is at the end of a pass, the next iteration begins the next pass.

        Raises:
            StateError: it is not a state of a stream with these operations. If it does not fit the worker, the next
                iteration raises the error.
        """
        self._dataset._state_of(state)
        self._skips_end = torch_workers.get_worker()[2] is None and not callers.is_stateful_loader()
        self._set_start(state)

    def state_after(
        self, *, examples: int | None = None, batches: int | None = None, start: State | None = None
    ) -> dict[str, Any]:
        """Raises a TypeError whatever the arguments are: how far a stream has read depends on the examples.

        `examples`, `batches` and `start` exist because the `state_after` of a divided dataset has them.
        """
        raise TypeError("a stream has no state_after(): use torchdata's StatefulDataLoader, or num_workers=0.")


class _StreamShareIterator(PassIterator):
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

    def end(self) -> None:
        """Reads all items: how many examples a part has is only known then."""
        collections.deque(self.iterator, maxlen=0)

    def close(self) -> None:
        """Closes the open files."""
        self.iterator.close()
