"""A dataset as PyTorch takes it: a map-style Dataset, or an IterableDataset whose positions workers and ranks divide.

What is here needs no PyTorch, but for the classes that `as_torch` derives of PyTorch's own when it is called.
"""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from typing import TYPE_CHECKING, Any

from beam_datasets.adapters.framework import framework
from beam_datasets.arguments import boolean, integer
from beam_datasets.errors import StateError
from beam_datasets.reading.positions import Share

if TYPE_CHECKING:
    from beam_datasets.reading.dataset import Dataset
    from beam_datasets.reading.iterator import DatasetIterator

    State = Mapping[str, Any]

FORMAT, FORMAT_OF_EVEN = 1, 2
"""Of a worker's state; the second where the size of blocks was left to us. A change to the meaning of a field needs a
new number."""

_EPOCH, _STARTED_BY, _READ_BY_WORKERS = range(3)
"""Of what processes share: the epoch; which iteration of a DataLoader used the state that was loaded; whether there was
any iteration by workers."""

_NOBODY = -1
_FIELDS = {"format", "begun", "taken", "worker", "workers", "ranks", "block"}


class MapStyle:
    """Examples by their index in dataset order; PyTorch's sampler chooses the order."""

    def __init__(self, dataset: Dataset) -> None:
        dataset[:0]  # which says what is wrong with its order
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Any:
        return self._dataset[operator.index(index)]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Returns several examples at once: what a DataLoader asks for to make a batch."""
        examples: list[Any] = self._dataset[list(indices)]
        return examples

    def __reduce__(self) -> tuple[Any, ...]:
        return _map_style, (self._dataset,)


class Divided:
    """Items in read order, divided among ranks and the DataLoader workers of each.

    Item by item, or block by block, they are dealt to (worker 0, rank 0), (worker 0, rank 1), ..., (worker 1, rank 0),
    and so on. A DataLoader asks its workers in turn, so that a rank gets blocks rank, rank + ranks, rank + 2 ranks, ...
    in this order, however many workers it has.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        rank: int,
        num_ranks: int,
        block: int | None,
        drop_remainder: bool,
        shared: MutableSequence[Any] | None = None,
        start: State | None = None,
    ) -> None:
        """Takes a dataset.

        Args:
            dataset: what is divided.
            rank: in [0, num_ranks).
            num_ranks: how many there are.
            block: how many items in a row are one worker's; None as in `Dataset.shard`.
            drop_remainder: whether the items at the end of which some ranks would get more are left out.
            shared: three integers in memory that this process shares with its workers; see `_EPOCH` and so on.
            start: a state that `load_state_dict` takes.

        Raises:
            TypeError: a number is not an integer.
            ValueError: the rank does not exist.
        """
        self._dataset = dataset
        self._num_ranks = integer("num_ranks", num_ranks, at_least=1)
        self._rank = integer("rank", rank)
        if not 0 <= self._rank < self._num_ranks:
            raise ValueError(f"rank must be in [0, {self._num_ranks}), got {self._rank}.")
        self._block = None if block is None else integer("block", block, at_least=1)
        self._drop_remainder = boolean("drop_remainder", drop_remainder)
        self._shared: MutableSequence[Any] = [0, _NOBODY, 0] if shared is None else shared
        self._start = start
        self._current: _Items | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        options = {
            "rank": self._rank,
            "num_ranks": self._num_ranks,
            "block": self._block,
            "drop_remainder": self._drop_remainder,
            "shared": self._shared,
            "start": self._start,
        }
        return _divided, (self._dataset, options)

    def __len__(self) -> int:
        """Returns how many items the rank gets in an epoch, from all its workers together.

        Raises:
            TypeError: they never end.
        """
        items = len(self._dataset)
        return self._dataset._share(self._rank, self._num_ranks, self._block).count(self._even(items))

    def _even(self, items: int) -> int:
        """Returns how many of so many items are used."""
        return items - items % (self._num_ranks * (self._block or 1)) if self._drop_remainder else items

    def __iter__(self) -> Iterator[Any]:
        """Yields what is this worker's, where a DataLoader's worker calls it, else what is the rank's.

        From a state that was loaded, once; else from the beginning of the epoch.

        Raises:
            StateError: the state that was loaded was another worker's.
        """
        worker, num_workers, iteration = _worker()
        index, count = worker * self._num_ranks + self._rank, num_workers * self._num_ranks
        share = self._dataset._share(index, count, self._block)
        start = self._start if self._may_start(iteration) else None
        self._start = None
        if self._current is not None:
            self._current.close()
        begun, taken, share = self._place(start, share)
        self._current = _Items(self._dataset, share, begun, taken, self._even)
        return self._current

    def _may_start(self, iteration: int | None) -> bool:
        """Returns whether the state that was loaded is for this iteration.

        A process that has no workers forgets the state when it has used it. One that has does not see it used: the
        workers of the next epoch would get it again, so the first ones write down whose it is.
        """
        if iteration is None:
            return True
        self._shared[_READ_BY_WORKERS] = 1
        if self._shared[_STARTED_BY] == _NOBODY:
            self._shared[_STARTED_BY] = iteration
        return bool(self._shared[_STARTED_BY] == iteration)

    def _place(self, start: State | None, share: Share) -> tuple[State, int, Share]:
        """Returns the state in which positions began to be divided, how many items were taken since, and the share.

        Where the size of blocks is left to us, the same worker goes on with those that it had.
        """
        if start is None:
            return self._beginning(), 0, share
        if "begun" not in start:
            return start, 0, share
        saved = Share(start["worker"], start["workers"], block=start["block"])
        if start["format"] == FORMAT_OF_EVEN:
            length = self._dataset._operation.length
            saved = Share.even(start["worker"], start["workers"], length, start["block"])
        same = (saved.worker_index, saved.worker_count) == (share.worker_index, share.worker_count)
        if same and (saved == share or self._block is None):
            return start["begun"], start["taken"], saved
        if start["workers"] == start["ranks"]:  # then all have taken as much
            return _state_after(self._dataset, start["begun"], saved, start["taken"]), 0, share
        raise StateError(
            f"the state is of worker {saved.worker_index} of {saved.worker_count} with blocks of {saved.block}, but "
            f"this is worker {share.worker_index} of {share.worker_count} with blocks of {share.block}. Workers that "
            "a DataLoader asks in turn have not all taken as much, so that one of them cannot say for the others. "
            "Restore it with as many ranks and workers, or go on from the state that state_after() gives."
        )

    def _beginning(self) -> dict[str, Any]:
        """Returns the state at the beginning of the epoch."""
        return self._dataset.iterate(epoch=int(self._shared[_EPOCH])).get_state()

    def set_epoch(self, epoch: int) -> None:
        """Sets which epoch the next iterations are of; workers that persist from epoch to epoch see it too."""
        self._shared[_EPOCH] = operator.index(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Returns where the last iteration in this process is, or where the next one begins.

        Raises:
            StateError: DataLoader workers iterate, and only they know.
        """
        if self._current is None and self._shared[_READ_BY_WORKERS]:
            raise StateError(
                "the dataset is read by the workers of a DataLoader, so this process does not know where they are: "
                "use torchdata's StatefulDataLoader, or state_after(), or num_workers=0."
            )
        if self._start is not None:
            return dict(self._start)
        if self._current is not None:
            return {"ranks": self._num_ranks, **self._current.state()}
        return self._beginning()

    def load_state_dict(self, state: State) -> None:
        """Lets the next iteration go on where the state was.

        Args:
            state: of `state_dict()`; or of a `DatasetIterator` or `state_after()`, which any number of ranks and
                workers can go on from.

        Raises:
            StateError: it was of another dataset, slice, configuration or order; the message says what differs.
        """
        begun = state
        if isinstance(state, Mapping) and "begun" in state:
            if set(state) != _FIELDS or state["format"] not in (FORMAT, FORMAT_OF_EVEN):
                raise StateError(
                    f"a worker's state of format {FORMAT} or {FORMAT_OF_EVEN} has the fields {sorted(_FIELDS)}; this "
                    f"one of format {state.get('format')!r} has {sorted(state)}. Restore it with the version that "
                    "saved it."
                )
            begun = state["begun"]
        self._dataset.iterate(state=begun)  # which says whether it fits
        self._start = state
        self._shared[_STARTED_BY] = _NOBODY
        self._shared[_READ_BY_WORKERS] = 0

    def state_after(self, count: int, *, start: State | None = None) -> dict[str, Any]:
        """Returns the state when all ranks together have taken so many items.

        It says no more than a number of steps does, but any number of ranks and workers can go on from it.

        Args:
            count: for instance steps * batch_size * num_ranks; of a dataset in batches, steps * num_ranks.
            start: the state that they began with; None for the beginning of the epoch.

        Raises:
            StateError: the state at the start is a worker's own, or of something else.
        """
        begun = self._beginning() if start is None else start
        return _state_after(self._dataset, begun, Share(), count)


class _Items(Iterator[Any]):
    """What is a share's of the items, from a place on."""

    def __init__(self, dataset: Dataset, share: Share, begun: State, taken: int, even: Any) -> None:
        whole = dataset.iterate(state=begun)
        items = operator.length_hint(whole)
        self._limit = share.of(items).count(even(items))
        # One more than it has, where other ranks may have had one more: so its state says that all are at the end.
        self._asked_in_vain = self._limit + (even(items) == items)
        self._share = share
        self._begun = dict(begun)
        self._taken = taken
        self._iterator = _divide(dataset, share, begun)
        self._iterator.advance(taken)

    def __next__(self) -> Any:
        if self._taken >= self._limit:
            self._taken = self._asked_in_vain
            self.close()
            raise StopIteration
        value = next(self._iterator)
        self._taken += 1
        return value

    def state(self) -> dict[str, Any]:
        """Returns where the share is."""
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
        """Lets go of the open files; `next()` opens them again."""
        self._iterator.close()


def _divide(dataset: Dataset, share: Share, begun: State) -> DatasetIterator:
    return dataset._divided(share).iterate(state=begun)


def _state_after(dataset: Dataset, begun: State, share: Share, taken: int) -> dict[str, Any]:
    iterator = _divide(dataset, share, begun)
    iterator.advance(taken)
    return iterator.get_state()


def as_torch(
    dataset: Dataset,
    *,
    map_style: bool = False,
    rank: int | None = None,
    num_ranks: int | None = None,
    block: int | None = None,
    drop_remainder: bool = False,
    fill: Any = None,
) -> Any:
    """Returns a dataset for `torch.utils.data.DataLoader`, or torchdata's `StatefulDataLoader`.

    Values are NumPy's, which a DataLoader makes tensors of; strings are bytes. A dataset that is put in batches already
    goes into a DataLoader with batch_size=None. So do examples whose shapes vary, which a DataLoader cannot put in one
    batch: `padded_batch()` can; or `map()` them to one shape.

    Args:
        dataset: what is read. Functions that were put on it by `map()` are pickled where workers are spawned.
        map_style: an indexable dataset for PyTorch's samplers, in dataset order. Otherwise an IterableDataset in read
            order; it has `set_epoch`, `state_dict`, `load_state_dict` and `state_after`.
        rank: of this process among those that train together; None asks torch.distributed, else $RANK.
        num_ranks: how many they are; None asks torch.distributed, else $WORLD_SIZE, else it is 1.
        block: how many items in a row one worker takes; by default as in `Dataset.shard`. With the DataLoader's
            batch_size here, its batches are the same for any number of workers.
        drop_remainder: leaves out the items at the end of which some ranks would get more than others.
        fill: what stands for missing values, which a DataLoader cannot put in a batch; see `Dataset.batch()`.

    Raises:
        MissingDependencyError: PyTorch is not installed.
        TypeError: map_style is asked for of a dataset whose order was changed, by `shuffle()`, `batch()` and the like.
        ValueError: the rank does not exist, or one of the two numbers is missing.
    """
    torch = framework("torch", needed_by="as_torch()", name="PyTorch", extra="torch")
    dataset = dataset._with_filler(fill)
    if boolean("map_style", map_style):
        if (rank, num_ranks, block, drop_remainder) != (None, None, None, False):
            raise ValueError(
                "map_style=True leaves it to the DataLoader's sampler who reads what, so rank, num_ranks, block and "
                "drop_remainder mean nothing; torch.utils.data.DistributedSampler divides the indices among ranks."
            )
        return _map_style(dataset)
    if (rank is None) != (num_ranks is None):
        raise ValueError(f"rank is {rank} and num_ranks is {num_ranks}: give both, or neither.")
    if rank is None or num_ranks is None:
        rank, num_ranks = _rank(torch)
        if num_ranks > 1 and any(text.startswith("shard(") for text in dataset._operation.texts):
            raise ValueError(
                f"shard() has divided the dataset, and as_torch() would divide it once more among {num_ranks} ranks. "
                "Leave shard() out, or say rank=0, num_ranks=1."
            )
    options = {"rank": rank, "num_ranks": num_ranks, "block": block, "drop_remainder": drop_remainder}
    shared = torch.tensor([0, _NOBODY, 0], dtype=torch.int64).share_memory_()
    return _divided(dataset, {**options, "shared": shared})


def _rank(torch: Any) -> tuple[int, int]:
    """Returns this process's rank and how many there are."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:  # a launcher sets them before the group is initialized
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return 0, 1


def _worker() -> tuple[int, int, int | None]:
    """Returns which of how many DataLoader workers of its rank this process is, and a number of their iteration.

    Returns:
        (0, 1, None) in a process that is not such a worker.
    """
    info = _torch_data().get_worker_info()
    return (0, 1, None) if info is None else (info.id, info.num_workers, info.seed - info.id)


def _torch_data() -> Any:
    return framework("torch.utils.data", needed_by="as_torch()", name="PyTorch", extra="torch")


@functools.cache
def _derived(ours: type[Any], theirs: str) -> type[Any]:
    """Returns a class of ours that is also one of PyTorch's, by which a DataLoader knows what to do with it."""
    return type(ours.__name__, (ours, getattr(_torch_data(), theirs)), {"__module__": __name__})


# Classes that are made when they are needed cannot be found by pickle; these functions can.


def _map_style(dataset: Dataset) -> Any:
    return _derived(MapStyle, "Dataset")(dataset)


def _divided(dataset: Dataset, options: Mapping[str, Any]) -> Any:
    return _derived(Divided, "IterableDataset")(dataset, **options)
