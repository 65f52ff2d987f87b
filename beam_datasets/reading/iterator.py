"""`DatasetIterator`, which iterates over a dataset in read order, and can be saved and resumed."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from beam_datasets.advice import advised_getattr, advised_getitem, advised_len, dir_without, note_value
from beam_datasets.arguments import integer
from beam_datasets.errors import StateError
from beam_datasets.reading.blocks import BlockIterator, Items, block_sizes, join_blocks, stop_at_damaged
from beam_datasets.reading.checkpoint import ReadState, fingerprint
from beam_datasets.reading.elements.error_location import UNDECODED, add_location_of_position
from beam_datasets.reading.elements.executor import Deferred
from beam_datasets.reading.elements.transforms import STOPPED
from beam_datasets.reading.index.progress import Progress, stream_of, stream_progress
from beam_datasets.reading.index.transforms import ENDLESS, MAX_ENDLESS, Repeat, Slice, spans_of_range

if TYPE_CHECKING:
    from beam_datasets.reading.plan import ReadPlan


class ResumableIterator(ABC):
    """Base of the iterators of datasets and streams, whose position can be saved and restored.

    `state_dict` and `load_state_dict` are PyTorch's names, which torchdata's StatefulDataLoader calls.
    """

    __dir__ = dir_without("values_at")

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """Returns the position as a dict of JSON values."""

    @abstractmethod
    def set_state(self, state: Mapping[str, Any]) -> None:
        """Moves to a saved position."""

    @abstractmethod
    def close(self) -> None:
        """Closes the open files; `next()` opens them again."""

    def _restore_in_epoch(self, state: Mapping[str, Any], epoch: int | None) -> None:
        """Moves to a saved position, which must be in an epoch unless that is None.

        Raises:
            StateError: the state does not fit, or is of another epoch.
        """
        self.set_state(state)
        if epoch is not None and epoch != state["epoch"]:
            raise StateError(
                expected=f"{epoch}, the argument",
                got=f"{state['epoch']}",
                field="epoch",
                advice="Leave one of them out.",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    if not TYPE_CHECKING:  # so that a type checker reports missing attributes
        __getattr__ = advised_getattr("iterator")
        __getitem__ = advised_getitem("iterator")
        __len__ = advised_len("iterator")

    def __bool__(self) -> bool:
        return True

    def state_dict(self) -> dict[str, Any]:
        """Returns `get_state()`."""
        return self.get_state()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Calls `set_state(state_dict)`."""
        self.set_state(state_dict)


class DatasetIterator(ResumableIterator, BlockIterator, Iterator[Any]):
    """Iterator over a dataset in read order, with a position that can be saved and restored.

    If an example cannot be read, decoded or mapped, all examples before it are yielded before its error. After the
    error the iterator is still at that example. (In a shuffled order, a shard without index in which a length is
    damaged is an error at the first of its examples, because the offsets of its records are unknown.)
    """

    def __init__(self, dataset: ReadPlan, epoch: int = 0) -> None:
        """Begins at the start of an epoch; opens no files yet."""
        self._dataset = dataset
        self._records: Iterator[Items] = iter(())  # blocks of records, while they are read
        self._blocks: Iterator[Items] | None = None  # blocks of elements, while they are read
        self._is_decoded = False  # whether the items of blocks are decoded already
        self._process = os.getpid()  # process that has opened the blocks
        self._stream = stream_of(dataset._operation)
        stream_epoch, position = self._stream_position(epoch, 0)
        self._move_to(stream_epoch, Progress(position))

    def _move_to(self, epoch: int, progress: Progress) -> None:
        """Moves to the first remaining item of an epoch of the stream, given the progress of all workers in it."""
        operation = self._dataset._operation
        self._epoch, self._progress, self._operation = epoch, progress, operation
        if progress != Progress():
            self._progress, self._operation = progress.divide_remaining(operation, self._stream)
        self._ended = False
        self.close()
        self._taken = 0

    def _stream_position(self, epoch: int, position: int) -> tuple[int, int]:
        """Converts (epoch, position in it) to (epoch, position) of the stream.

        A repeated stream has one epoch, which contains all epochs of the dataset.
        """
        if isinstance(self._stream, Repeat):
            return 0, min(epoch * self._num_examples + position, self._stream.length)
        return epoch, position

    def __length_hint__(self) -> int:
        """Returns the number of remaining items."""
        return self._operation.length - self._taken

    def advance(self, count: int) -> None:
        """Skips the next `count` items, or all remaining ones if there are fewer, without reading them."""
        position = self._taken + integer("count", count, at_least=0)
        self._ended |= position > self._operation.length
        self.close()
        self._taken = min(position, self._operation.length)

    def _next_block(self) -> Items:
        """Returns the next block of elements. After an error, closes the iterator; it opens again at the same item.

        Raises:
            StopIteration: no items remain.
        """
        if self._process != os.getpid():  # a forked process cannot use the threads and processes of its parent
            self.close()
        try:
            block = next(self._blocks or self._open(), None)
        except BaseException as error:
            if isinstance(error, UNDECODED) and self._dataset._processes is None:  # a worker process does this itself
                self._add_record_location(error)
            self.close()
            raise
        if block is None:
            self._ended = True
            self.close()
            raise StopIteration
        return block

    def _open(self) -> Iterator[Items]:
        """Returns the blocks of the remaining elements, and begins to read."""
        self._process = os.getpid()
        if self._dataset._processes is not None:
            return self._open_processes(self._dataset._processes)
        spans = spans_of_range(self._taken, self._operation.length)
        self._records, program = self._operation.blocks(spans, self._epoch), self._dataset.program
        self._finish = program.finish
        self._is_decoded = program.decode is not None
        self._blocks = program.run(stop_at_damaged(self._records), block_sizes(self._operation.item_bytes))
        return self._blocks

    def _open_processes(self, count: int) -> Iterator[Items]:
        """Returns the blocks of the remaining elements, which `count` worker processes make."""
        from beam_datasets.reading.elements.processes import (
            blocks_of_processes,  # multiprocessing is not needed to read
        )

        remaining = Slice(self._operation, self._taken, self._operation.length)
        self._finish = None
        self._blocks = blocks_of_processes(self._dataset, remaining, self._epoch, count)
        return self._blocks

    def _finished(self, item: Any) -> Any:
        """Applies the remaining transforms to an item of a block. After an error, the iterator is still at this item.

        Raises:
            RuntimeError: a function given to `map()` raised StopIteration.
        """
        try:
            return self._finish(item)
        except BaseException as error:
            self._taken -= 1  # it was not yielded
            is_deferred = type(item) is Deferred
            if isinstance(error, UNDECODED) and (is_deferred or not self._is_decoded):
                self._add_record_location(error, item.item if is_deferred else item)
            self.close()
            has_map = any(step.kind == "map" for step in self._dataset._steps)
            if isinstance(error, Exception) and has_map and self._is_decoded and not is_deferred:
                note_value(error, "map", item)
            if isinstance(error, StopIteration):  # it would look like the end
                raise RuntimeError(STOPPED) from error
            raise

    def _add_record_location(self, error: Exception, item: Any | None = None) -> None:
        """Appends the location of the record at the current position to a decoding error.

        Args:
            error: the error, whose `args` are changed.
            item: the item at this position, if it was read; see `add_location_of_position`.
        """
        add_location_of_position(self._dataset._steps, error, self._operation, self._taken, self._epoch, item)

    def values_at(self, positions: list[int]) -> list[Any]:
        """Returns the elements at positions, counted from the item at which the iterator began."""
        blocks = [self._operation.fetch(np.array(positions, np.int64), self._epoch)]
        return self._dataset.decode_many(join_blocks(stop_at_damaged(blocks)))

    def get_state(self) -> dict[str, Any]:
        """Returns the position as a small dict that JSON can hold.

        The state is the same for all workers of `shard()` from which the same number of items was requested, even if a
        worker had fewer. The exception is a worker of `shard(block=...)` without `even` that has no items of the last
        blocks: once it is exhausted, its state is the end of the epoch, although others may have items; save the state
        of worker 0. The state does not depend on the number of workers or on batch sizes, so both may change.

        Raises:
            StateError: nested `shard()` calls are in the middle of blocks.
        """
        count, blocks = stream_progress(self._operation, self._taken, has_ended=self._ended)
        progress = self._progress.advanced(count, blocks).simplified(self._stream)
        epoch, position = self._epoch, progress.position
        if isinstance(self._stream, Repeat) and self._num_examples:
            epoch, position = divmod(position, self._num_examples)
        return ReadState(position, epoch, self._fingerprint(), progress.unfinished).to_dict()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Moves to the position of a saved state.

        Raises:
            StateError: the state belongs to another dataset, slice, configuration or order; the message names the
                differences.
        """
        saved_state = ReadState.from_dict(state)
        saved_state.check(self._fingerprint(), num_examples=self._num_examples)
        if saved_state.epoch and isinstance(self._stream, Repeat) and self._num_examples == ENDLESS:
            raise StateError(
                expected="0, as the first epoch of an endless dataset never ends",
                got=f"{saved_state.epoch}",
                field="epoch",
            )
        epoch, position = self._stream_position(saved_state.epoch, saved_state.position)
        if self._stream.length == ENDLESS and position >= MAX_ENDLESS:
            raise StateError(
                f"the state's epoch is {saved_state.epoch} and its position {saved_state.position}: expected less than "
                f"{MAX_ENDLESS} examples before it. Start from the beginning."
            )
        progress = Progress(position, saved_state.unfinished)
        progress.check(self._stream)
        self._move_to(epoch, progress)

    @property
    def _num_examples(self) -> int:
        """Number of examples of the stream in an epoch, which states count."""
        return self._stream.child.length if isinstance(self._stream, Repeat) else self._stream.length

    def _fingerprint(self) -> dict[str, str]:
        """Returns the fingerprint of one epoch of the stream; see `checkpoint.fingerprint`."""
        epoch = self._stream.child if isinstance(self._stream, Repeat) else self._stream
        return fingerprint(**self._dataset._identity, operations=epoch.texts)

    def __reduce__(self) -> NoReturn:
        """Raises a TypeError."""
        raise TypeError(
            "an iterator does not pickle, and cannot be copied: pickle the dataset and get_state(), and go on with "
            "dataset.iterate(state=...), or set_state() of another iterator."
        )

    def close(self) -> None:
        """Closes the open files, and ends the threads that read ahead; `next()` opens them again."""
        self._items = ()
        blocks, self._blocks = self._blocks, None
        for generator in (blocks, self._records):  # the traceback of an error may hold the latter
            if isinstance(generator, Generator):
                generator.close()
