"""DatasetIterator: goes through a dataset in read order; can be saved and resumed."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from beam_datasets.advice import advised_getattr, note_value
from beam_datasets.arguments import integer
from beam_datasets.errors import StateError
from beam_datasets.extras import Self
from beam_datasets.reading.blocks import BlockIterator, Items, block_sizes, join_blocks, stop_at_damaged
from beam_datasets.reading.checkpoint import ReadState, fingerprint
from beam_datasets.reading.elements.error_location import UNDECODED, add_location_of_position
from beam_datasets.reading.elements.executor import Deferred
from beam_datasets.reading.elements.transforms import STOPPED
from beam_datasets.reading.index.progress import Progress, divide_again, stream_of, stream_progress
from beam_datasets.reading.index.transforms import ENDLESS, MAX_ENDLESS, Repeat, Slice, spans_of_range

if TYPE_CHECKING:
    from beam_datasets.reading.dataset import Dataset


class StateDict:
    """The names that PyTorch has for the state of an iterator, as torchdata's StatefulDataLoader uses them."""

    get_state: Any
    set_state: Any

    if not TYPE_CHECKING:  # so that a type checker reports missing attributes
        __getattr__ = advised_getattr("iterator")

    def state_dict(self) -> dict[str, Any]:
        """Returns `get_state()`."""
        state: dict[str, Any] = self.get_state()
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Calls `set_state(state_dict)`."""
        self.set_state(state_dict)


class DatasetIterator(StateDict, BlockIterator, Iterator[Any]):
    """Goes through a dataset in read order, and knows where it is.

    All good examples before one that cannot be read, decoded or mapped are yielded before its error, and after the
    error the iterator is still at that example. (Shuffled, a shard without index in which a length is damaged is an
    error at its first example: where its records are cannot be known.)
    """

    def __init__(self, dataset: Dataset, epoch: int = 0) -> None:
        self._dataset = dataset
        self._read: Iterator[Items] = iter(())
        self._blocks: Iterator[Items] | None = None
        self._is_decoded = False  # whether the items of blocks are decoded already
        self._process = os.getpid()  # that reads ahead
        self._stream = stream_of(dataset._operation)
        self._go_to(epoch, Progress())

    def _go_to(self, epoch: int, progress: Progress) -> None:
        """Goes to the first item that remains of an epoch."""
        self._epoch, position = self._stream_position(epoch, progress.position)
        progress = replace(progress, position=position)
        operation = self._dataset._operation
        taken = progress.num_taken_of_block(operation)
        self._progress = progress.without_last() if taken else progress
        self._operation = divide_again(operation, self._progress.remaining(self._stream), taken)
        self._ended = False
        self.close()
        self._taken = 0

    def _stream_position(self, epoch: int, position: int) -> tuple[int, int]:
        """Returns the epoch to read and the position in the stream: a repeated stream has one epoch after another."""
        if isinstance(self._stream, Repeat):
            return 0, min(epoch * self._num_examples + position, self._stream.length)
        return epoch, position

    def __length_hint__(self) -> int:
        """Returns how many items are left."""
        return self._operation.length - self._taken

    def advance(self, count: int) -> None:
        """Goes past the next `count` items, or all there are, without reading them."""
        wanted = self._taken + integer("count", count, at_least=0)
        self._ended |= wanted > self._operation.length
        self.close()
        self._taken = min(wanted, self._operation.length)

    def _next_block(self) -> Items:
        """Returns the next block; after an error, closes the iterator, which opens again at the same item.

        Raises:
            StopIteration: no items are left.
        """
        if self._process != os.getpid():  # threads and processes of a parent do not work for the child that it forked
            self.close()
        try:
            block = next(self._blocks or self._open(), None)
        except BaseException as error:
            if isinstance(error, UNDECODED) and self._dataset._processes is None:  # a process has named it
                self._name_record(error)
            self.close()
            raise
        if block is None:
            self._ended = True
            self.close()
            raise StopIteration
        return block

    def _open(self) -> Iterator[Items]:
        """Returns the blocks of what is left, and begins to read."""
        self._process = os.getpid()
        if self._dataset._processes is not None:
            return self._open_processes(self._dataset._processes)
        where = spans_of_range(self._taken, self._operation.length)
        self._read, program = self._operation.blocks(where, self._epoch), self._dataset.program
        self._finish = program.finish
        self._is_decoded = program.decode_block is not None or program.executor is not None
        self._blocks = program.run(stop_at_damaged(self._read), block_sizes(self._operation.item_bytes))
        return self._blocks

    def _open_processes(self, count: int) -> Iterator[Items]:
        """Returns the blocks of the items that are left, which `count` worker processes decode."""
        from beam_datasets.reading.elements.processes import (
            blocks_of_processes,  # multiprocessing is not needed to read
        )

        left = Slice(self._operation, self._taken, self._operation.length)
        self._finish = None
        self._blocks = blocks_of_processes(self._dataset, left, self._epoch, count)
        return self._blocks

    def _finished(self, item: Any) -> Any:
        """Returns the value of an item; after an error, the iterator is still at this item.

        Raises:
            RuntimeError: a function given to `map()` raised StopIteration.
        """
        try:
            return self._finish(item)
        except BaseException as error:
            self._taken -= 1  # it was not handed out
            is_deferred = type(item) is Deferred
            if isinstance(error, UNDECODED) and (is_deferred or not self._is_decoded):
                self._name_record(error, item.item if is_deferred else item)
            self.close()
            has_map = any(step.kind == "map" for step in self._dataset._steps)
            if isinstance(error, Exception) and has_map and self._is_decoded and not is_deferred:
                note_value(error, "map", item)
            if isinstance(error, StopIteration):  # it would look like the end
                raise RuntimeError(STOPPED) from error
            raise

    def _name_record(self, error: Exception, item: Any | None = None) -> None:
        add_location_of_position(self._dataset._steps, error, self._operation, self._taken, self._epoch, item)

    def values_at(self, positions: list[int]) -> list[Any]:
        """Returns the items at positions, counted from where the iterator began."""
        blocks = [self._operation.fetch(np.array(positions, np.int64), self._epoch)]
        return self._dataset.decode_many(join_blocks(stop_at_damaged(blocks)))

    def get_state(self) -> dict[str, Any]:
        """Returns where the iterator is: a small dict that JSON can hold.

        It holds for all workers that `shard()` divided the dataset among, where all were asked for as many items, had
        they them or not. It does not depend on how many they are, nor on batch sizes, so that either may change.

        Raises:
            StateError: a worker's workers are in the middle of blocks.
        """
        count, blocks = stream_progress(self._operation, self._taken, ended=self._ended)
        progress = self._progress.advanced(count, blocks).simplified(self._stream)
        epoch, position = self._epoch, progress.position
        if isinstance(self._stream, Repeat) and self._num_examples:
            epoch, position = divmod(position, self._num_examples)
        return ReadState(position, epoch, self._fingerprint(), progress.unfinished).to_dict()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes to where the iterator was that gave the state.

        Raises:
            StateError: it was of another dataset, slice, configuration or order; the message says what differs.
        """
        saved = ReadState.from_dict(state)
        saved.check(self._fingerprint(), num_examples=self._num_examples)
        if saved.epoch and isinstance(self._stream, Repeat) and self._num_examples == ENDLESS:
            raise StateError(f"the state's epoch is {saved.epoch}: the first epoch of an endless dataset never ends.")
        _, position = self._stream_position(saved.epoch, saved.position)
        if self._stream.length == ENDLESS and position >= MAX_ENDLESS:
            raise StateError(
                f"the state's epoch is {saved.epoch} and its position {saved.position}: expected less than "
                f"{MAX_ENDLESS} examples before it. Begin anew."
            )
        Progress(position, saved.unfinished).check(self._stream)
        self._go_to(saved.epoch, Progress(saved.position, saved.unfinished))

    @property
    def _num_examples(self) -> int:
        """Of an epoch, as states count them."""
        return self._stream.child.length if isinstance(self._stream, Repeat) else self._stream.length

    def _fingerprint(self) -> dict[str, str]:
        epoch = self._stream.child if isinstance(self._stream, Repeat) else self._stream
        return fingerprint(**self._dataset._identity, operations=epoch.texts)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an iterator does not pickle, and cannot be copied: pickle the dataset and get_state(), and go on with "
            "dataset.iterate(state=...), or set_state() of another iterator."
        )

    def close(self) -> None:
        """Lets go of the open files, and ends the threads that read ahead; `next()` begins again."""
        self._items = ()
        blocks, self._blocks = self._blocks, None
        for part in (blocks, self._read):  # the traceback of an error may hold the latter
            if isinstance(part, Generator):
                part.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
