"""How ranks and workers divide a dataset, without PyTorch: against a DataLoader of a few lines of Python."""

from __future__ import annotations

import itertools
import json
import os
import pickle
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam_datasets.adapters import callers, torch_workers
from beam_datasets.adapters.callers import FitLoop
from beam_datasets.adapters.torch_data import Divided, DividedStream, MapStyle
from beam_datasets.errors import StateError
from beam_datasets.reading.index import division
from tests.adapters.conftest import flat

if TYPE_CHECKING:
    from collections.abc import Iterator

NUM_RANKS = st.integers(1, 3)
NUM_WORKERS = st.integers(0, 3)
BLOCKS = st.integers(1, 5)
N = 23
LENGTHS = st.integers(1, N)


@contextmanager
def as_worker(worker: int, num_workers: int, iteration: int) -> Iterator[None]:
    """Lets this process pass for a worker of a DataLoader, or for a process without workers if num_workers is 0."""
    with pytest.MonkeyPatch.context() as patch:
        found = (worker, num_workers, iteration) if num_workers else (0, 1, None)
        patch.setattr(torch_workers, "get_worker", lambda: found)
        yield


@contextmanager
def as_stateful_loader() -> Iterator[None]:
    """Lets this process pass for a StatefulDataLoader, which gets nothing after the end of an epoch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(callers, "is_stateful_loader", lambda: True)
        yield


class Loader:
    """What a DataLoader does: a copy of the dataset in each worker, batches from one worker after the other."""

    count = 0

    def __init__(
        self,
        dataset: Divided,
        batch_size: int,
        num_workers: int,
        states: list[Any] | None = None,
        seed: int | None = None,
    ) -> None:
        Loader.count += 10
        seed = Loader.count if seed is None else seed
        self.batch_size = batch_size
        # Copies that share memory with the original, as those of a fork.
        self.datasets = [_copy(dataset) for _ in range(num_workers)] or [dataset]
        self.iterators = []
        for worker, copy in enumerate(self.datasets):
            if states:
                with as_stateful_loader():
                    copy.load_state_dict(json.loads(json.dumps(states[worker])))
            with as_worker(worker, num_workers, seed):
                self.iterators.append(iter(copy))

    def __iter__(self) -> Iterator[list[int]]:
        left = list(self.iterators)
        while left:
            iterator = left.pop(0)
            batch = list(itertools.islice(iterator, self.batch_size))
            if batch:
                yield batch
            if len(batch) == self.batch_size:
                left.append(iterator)

    def states(self) -> list[Any]:
        return [dataset.state_dict() for dataset in self.datasets]


def _copy(dataset: Divided) -> Divided:
    rebuild, (our_class, inner, options) = dataset.__reduce__()
    assert rebuild is torch_workers.unpickle_iterable
    assert our_class is type(dataset)
    return our_class(inner, **options, unpickled_in=os.getpid())


@pytest.fixture(scope="module")
def items(three: Any) -> Any:
    """A dataset whose items are the positions of the read order."""
    train = three.as_dataset("train")
    place = {int(example["idx"]): position for position, example in enumerate(train)}
    return train.map(lambda example: place[int(example["idx"])])


def divided(
    dataset: Any,
    rank: int = 0,
    num_ranks: int = 1,
    block: int | None = 1,
    *,
    state: Any = None,
    even: str | None = None,
) -> Divided:
    """Returns a rank's share, which goes on from a state if there is one."""
    made = Divided(dataset, rank=rank, num_ranks=num_ranks, block=block, even=even)
    if state is not None:
        with as_stateful_loader():
            made.load_state_dict(json.loads(json.dumps(state)))
    return made


def _stream(stream: Any) -> DividedStream:
    return DividedStream(stream, rank=0, num_ranks=1, block=1, even=None)


def rest_of(dataset: Any, state: Any, num_ranks: int, block: int | None) -> list[int]:
    """Returns what any number of ranks yield from a state on."""
    return flat(flat(Loader(divided(dataset, rank, num_ranks, block, state=state), 1, 0)) for rank in range(num_ranks))


def test_loader_asks_workers_in_turn(items: Any) -> None:
    assert list(Loader(divided(items.take(8)), 2, 3)) == [[0, 3], [1, 4], [2, 5], [6], [7]]


def evened(count: int, multiple: int, even: str | None) -> list[int]:
    """Returns the items of all ranks: without the last ones, or with the first ones after them."""
    if even == "pad":
        return [place % count for place in range(count + -count % multiple)]
    return list(range(count - count % multiple if even == "drop" else count))


EVENS = st.sampled_from([None, "drop", "pad"])


@settings(max_examples=60)
@given(NUM_RANKS, NUM_WORKERS, BLOCKS, st.integers(0, N), EVENS, st.booleans())
def test_workers_change_nothing_where_blocks_are_batches(
    items: Any, num_ranks: int, num_workers: int, block: int, length: int, even: str | None, is_batched: bool
) -> None:
    used = evened(length, num_ranks * block, even)
    batches = [used[first : first + block] for first in range(0, len(used), block)]
    for rank in range(num_ranks):
        expected = batches[rank::num_ranks]
        if is_batched:
            dataset = divided(items.take(length).batch(block), rank, num_ranks, None, even=even)
            assert [batch.tolist() for batch in flat(Loader(dataset, 1, num_workers))] == expected
            assert len(dataset) == len(expected)
        else:
            dataset = divided(items.take(length), rank, num_ranks, block, even=even)
            assert list(Loader(dataset, block, num_workers)) == expected
            assert len(dataset) == len(flat(expected))
        assert even is None or {len(batch) for batch in expected} <= {block}


@settings(max_examples=60)
@given(NUM_RANKS, NUM_WORKERS, BLOCKS, st.integers(1, N), st.sampled_from(["drop", "pad"]), st.integers(0, 9))
def test_even_epochs_go_on_where_they_were(
    items: Any, num_ranks: int, num_workers: int, block: int, length: int, even: str, steps: int
) -> None:
    """With as many ranks and workers by the states of all or of rank 0; with others after a whole step of all."""
    batches = items.take(length).batch(block)
    ranks = [divided(batches, rank, num_ranks, None, even=even) for rank in range(num_ranks)]
    whole = [[batch.tolist() for batch in flat(Loader(_copy(rank), 1, num_workers))] for rank in ranks]
    loaders = [Loader(rank, 1, num_workers) for rank in ranks]
    before = [[batch.tolist() for batch in flat(itertools.islice(loader, steps))] for loader in loaders]
    assert len(set(map(len, whole))) == 1
    for rank, loader in zip(ranks, loaders):
        for states in (loader.states(), loaders[0].states()):
            later = flat(Loader(_copy(rank), 1, num_workers, states))
            assert sorted(batch.tolist() for batch in later) == sorted(whole[ranks.index(rank)][steps:])
    taken = sum(map(len, before))
    if taken * block <= length:
        state = ranks[0].state_after(batches=taken)
        later = [
            divided(items.take(length).batch(block + 1), rank, 2, None, state=state, even=even) for rank in range(2)
        ]
        got = [[batch.tolist() for batch in flat(Loader(rank, 1, 0))] for rank in later]
        left = list(range(taken * block, length))
        if even == "drop":
            assert sorted(flat(flat(got))) == left[: len(left) - len(left) % (2 * (block + 1))]
        else:
            assert set(left) <= set(flat(flat(got))) if left else not flat(got)
        assert len(got[0]) == len(got[1])


@settings(max_examples=60)
@given(NUM_RANKS, NUM_WORKERS, BLOCKS, st.integers(1, 5), st.integers(0, N), st.integers(0, 12), st.booleans())
def test_each_item_goes_to_one_rank_which_goes_on_where_each_worker_was(
    items: Any, num_ranks: int, num_workers: int, block: int, batch_size: int, length: int, steps: int, drop: bool
) -> None:
    used, got = length - length % (num_ranks * block) if drop else length, []
    for rank in range(num_ranks):
        dataset = divided(items.take(length), rank, num_ranks, block, even="drop" if drop else None)
        whole = list(Loader(dataset, batch_size, num_workers))
        loader = Loader(_copy(dataset), batch_size, num_workers)
        before = list(itertools.islice(loader, steps))
        rest = list(Loader(_copy(dataset), batch_size, num_workers, loader.states()))
        # A DataLoader's own state says which worker is next; what each worker yields is what matters here.
        assert sorted(flat(before) + flat(rest)) == sorted(flat(whole))
        assert [batch for batch in whole if batch in rest] == sorted(rest, key=whole.index)
        got += flat(whole)
    assert sorted(got) == list(range(used))


@settings(max_examples=60)
@given(st.lists(st.tuples(NUM_RANKS, NUM_WORKERS, st.integers(0, 3)), min_size=1, max_size=6), BLOCKS)
def test_any_sequence_of_ranks_and_workers_covers_each_item_once(
    items: Any, phases: list[tuple[int, int, int]], block: int
) -> None:
    state, got = None, []
    for num_ranks, num_workers, steps in [*phases, (1, 0, N)]:
        taken = 0
        for rank in range(num_ranks):
            dataset = divided(items, rank, num_ranks, block, state=state)
            for batch in itertools.islice(Loader(dataset, block, num_workers), steps):
                got += batch
                taken += len(batch)
        state = json.loads(json.dumps(dataset.state_after(examples=taken, start=state)))
    assert sorted(got) == list(range(N))


def asked(iterator: Any, times: int) -> Iterator[int]:
    """Yields at most so many items; asks an iterator that has fewer as often."""
    for _ in range(times):
        yield from itertools.islice(iterator, 1)


@settings(max_examples=100)
@given(st.integers(0, N), NUM_RANKS, BLOCKS, st.integers(1, 2), st.integers(0, N + 1), st.booleans(), NUM_RANKS)
@example(length=5, num_ranks=2, block=1, parts=1, steps=2, drop=False, others=1)
@example(length=N, num_ranks=2, block=3, parts=1, steps=2, drop=False, others=1)
def test_the_state_of_any_rank_without_workers_is_that_of_all(
    items: Any, length: int, num_ranks: int, block: int, parts: int, steps: int, drop: bool, others: int
) -> None:
    """Up to the end, where ranks that have fewer are asked in vain."""
    ranks = [
        divided(items.take(length), rank, num_ranks, block, even="drop" if drop else None) for rank in range(num_ranks)
    ]
    with as_worker(0, 0, 1):
        got = [item for dataset in ranks for item in asked(iter(dataset), steps * block * parts)]
    used = length - length % (num_ranks * block) if drop else length
    assert sorted(got) == list(range(min(used, num_ranks * steps * block * parts)))
    for rank, dataset in enumerate(ranks):
        state = dataset.state_dict()
        assert sorted(got + rest_of(items.take(length), state, others, block + 1)) == list(range(length))
        again = divided(items.take(length), rank, num_ranks, block, even="drop" if drop else None, state=state)
        assert len(flat(Loader(again, 1, 0))) == max(0, len(dataset) - steps * block * parts)


def test_the_state_of_one_of_several_workers_is_its_own(items: Any) -> None:
    loader = Loader(divided(items), 1, 2)
    next(iter(loader))
    other = divided(items, state=loader.states()[0])
    problem = r"worker 0 of 2 with blocks of 1, but this is worker 1 of 3.*state_after\(\)"
    with pytest.raises(StateError, match=problem), as_worker(1, 3, 1):
        iter(other)


def test_state_in_the_middle_of_a_block_fits_other_divisions(items: Any) -> None:
    """A rank's state in the middle of a block says where all ranks are."""
    dataset = divided(items, 0, 2, block=3)
    assert next(iter(Loader(dataset, 2, 0))) == [0, 1]
    state = dataset.state_dict()
    assert list(Loader(divided(items, 0, 2, block=3, state=state), 1, 0))[:3] == [[2], [6], [7]]
    assert sorted(rest_of(items, state, 3, 3)) == [2, *range(5, N)]  # the other rank had 3 and 4


@settings(max_examples=60)
@given(NUM_RANKS, NUM_WORKERS, st.integers(1, 5), st.integers(0, 9), NUM_RANKS, st.booleans())
def test_blocks_by_default(
    items: Any, num_ranks: int, num_workers: int, batch_size: int, steps: int, others: int, drop: bool
) -> None:
    """Ranks and workers that take blocks of the default size have each item once, and go on from their states."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(division, "_MIN_ROUNDS", 1)
        ranks = [divided(items, rank, num_ranks, None, even="drop" if drop else None) for rank in range(num_ranks)]
        whole = [flat(Loader(rank, 1, num_workers)) for rank in ranks]
        assert len(set(map(len, whole))) == 1 or (not drop and max(map(len, whole)) - min(map(len, whole)) == 1)
        assert [len(rank) for rank in ranks] == list(map(len, whole))
        assert set(flat(whole)) >= set(range(N - N % num_ranks if drop else N))
        assert len(flat(whole)) == (N - N % num_ranks if drop else N)
        for rank, mine in zip(ranks, whole):
            loader = Loader(rank, batch_size, num_workers)
            before = list(itertools.islice(loader, steps))
            later = Loader(_copy(rank), batch_size, num_workers, loader.states())
            assert sorted(flat(before) + flat(later)) == sorted(mine)
        begun = [divided(items, rank, num_ranks, None) for rank in range(num_ranks)]
        with as_worker(0, 0, 1):
            got = [item for dataset in begun for item in asked(iter(dataset), steps)]
        for dataset in begun:
            assert sorted(got + rest_of(items, dataset.state_dict(), others, None)) == list(range(N))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_loaded_state_is_for_one_iteration(items: Any, num_workers: int) -> None:
    dataset = divided(items)
    dataset.load_state_dict(dataset.state_after(examples=20))
    assert dataset.state_dict()["position"] == 20
    assert sorted(flat(Loader(dataset, 1, num_workers))) == [20, 21, 22]
    assert sorted(flat(Loader(dataset, 1, num_workers))) == list(range(N))
    dataset.load_state_dict(dataset.state_after(examples=21))
    assert sorted(flat(Loader(dataset, 1, num_workers))) == [21, 22]
    assert sorted(flat(Loader(dataset, 1, 2 - num_workers))) == list(range(N))  # with workers, or without


@settings(max_examples=60)
@given(LENGTHS, NUM_RANKS, BLOCKS, st.integers(0, N + 1), EVENS, NUM_WORKERS, st.booleans(), st.integers(1, 2))
def test_after_the_end_of_a_pass_the_next_one_begins(
    items: Any,
    length: int,
    num_ranks: int,
    block: int,
    steps: int,
    even: str | None,
    num_workers: int,
    is_counted: bool,
    times: int,
) -> None:
    """By the state of any rank, or by that of a number of examples, the ranks get a whole epoch instead of nothing."""
    shuffled = items.take(length).shuffle(seed=3).repeat(times)
    ranks = [divided(shuffled, rank, num_ranks, block, even=even) for rank in range(num_ranks)]
    if max(map(len, ranks)) == 0:
        return
    with as_worker(0, 0, 1):
        whole = [list(divided(shuffled, rank, num_ranks, block, even=even)) for rank in range(num_ranks)]
        taken = [list(asked(iter(rank), steps * block)) for rank in ranks]
    for rank, dataset in enumerate(ranks):
        is_at_end = steps * block >= max(map(len, ranks))
        state = dataset.state_dict()
        if is_counted:
            num_taken = len(flat(taken))
            if even == "pad" and num_taken > length * times:
                continue
            state = dataset.state_after(examples=num_taken)
        later = divided(shuffled, rank, num_ranks, block, even=even)
        later.load_state_dict(json.loads(json.dumps(state)))
        after = divided(shuffled, rank, num_ranks, block, even=even)
        after.set_epoch(1 if is_at_end else 0)
        expected = flat(Loader(after, 1, num_workers))
        got = flat(Loader(later, 1, num_workers))
        if is_at_end:
            assert sorted(got) == sorted(expected)
        elif not is_counted:
            assert sorted(taken[rank] + got) == sorted(whole[rank])


def test_the_state_of_workers_is_not_guessed(items: Any) -> None:
    dataset = divided(items)
    assert dataset.state_dict()["position"] == 0
    list(Loader(dataset, 1, 2))
    with pytest.raises(StateError, match="StatefulDataLoader"):
        dataset.state_dict()


def test_epochs(items: Any) -> None:
    shuffled = items.shuffle(seed=3)
    dataset = divided(shuffled)
    copy = _copy(dataset)
    dataset.set_epoch(2)
    with as_worker(0, 0, 1):
        for _ in range(2):
            assert list(copy) == list(shuffled.iterate(epoch=2))
    assert copy.state_dict()["begun"]["epoch"] == 2
    assert list(shuffled.iterate(epoch=2)) != list(shuffled)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("is_filtered", [False, True])
def test_a_pass_of_several_epochs_is_set(items: Any, num_workers: int, is_filtered: bool) -> None:
    """As frameworks count them: the second pass over repeat(2) has the epochs 2 and 3."""
    shuffled = items.shuffle(seed=3)
    twice = shuffled.repeat(2)
    dataset = _stream(twice.filter(lambda item: True)) if is_filtered else divided(twice)
    for number in (0, 1, 3, 3):
        dataset.set_epoch(number)
        expected = [item for epoch in range(2) for item in shuffled.iterate(epoch=2 * number + epoch)]
        got = flat(Loader(dataset, 1, num_workers))
        assert sorted(got) == sorted(expected)
        assert got == expected or num_workers
        if not is_filtered:
            assert len(got) == len(dataset)
            assert dataset.state_after(examples=N + 1)["epoch"] == 2 * number + 1


@settings(max_examples=40)
@given(st.lists(st.tuples(NUM_WORKERS, st.integers(0, 2)), min_size=2, max_size=5), st.integers(1, 2), st.booleans())
def test_each_pass_is_the_next_epoch(items: Any, passes: list[tuple[int, int]], times: int, is_filtered: bool) -> None:
    """For any numbers of workers of the passes, and seeds of their DataLoaders, which may be the same."""
    shuffled = items.shuffle(seed=3).repeat(times)
    kept = shuffled.filter(lambda item: True) if is_filtered else shuffled
    dataset = divided(kept) if not is_filtered else _stream(kept)
    for number, (num_workers, seed) in enumerate(passes):
        expected = [
            item for epoch in range(times) for item in items.shuffle(seed=3).iterate(epoch=number * times + epoch)
        ]
        got = flat(Loader(dataset, 1, num_workers, seed=seed))
        assert got == expected if num_workers < 2 else sorted(got) == sorted(expected)


WORKERS_OF_LOADERS = [(loader, worker) for loader, count in enumerate((3, 2)) for worker in range(count)]


@settings(max_examples=40)
@given(st.lists(st.permutations(WORKERS_OF_LOADERS), min_size=1, max_size=3), st.integers(0, 1), st.booleans())
def test_loaders_that_read_at_the_same_time(
    items: Any, rounds: list[list[tuple[int, int]]], other_seed: int, are_persistent: bool
) -> None:
    """Whichever workers of two DataLoaders begin first, each reads whole epochs, and no two read the same one."""
    dataset = divided(items.shuffle(seed=3))
    copies = {key: _copy(dataset) for key in WORKERS_OF_LOADERS}
    epochs = []
    for number, order in enumerate(rounds):
        if not are_persistent:
            copies = {key: _copy(dataset) for key in WORKERS_OF_LOADERS}
        iterators = {}
        for loader, worker in order:
            seed = 100 * (0 if are_persistent else number) + other_seed * loader
            with as_worker(worker, (3, 2)[loader], seed):
                iterators[loader, worker] = iter(copies[loader, worker])
        for loader in range(2):
            workers = [key for key in WORKERS_OF_LOADERS if key[0] == loader]
            assert sorted(item for key in workers for item in iterators[key]) == list(range(N))
            epochs.append({copies[key].state_dict()["begun"]["epoch"] for key in workers})
    assert sorted(epochs, key=min) == [{epoch} for epoch in range(2 * len(rounds))]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_pass_after_a_loaded_state_is_the_next_epoch(items: Any, num_workers: int) -> None:
    shuffled = items.shuffle(seed=3)
    for epoch in (0, 4):
        iterator = shuffled.iterate(epoch=epoch)
        before = list(itertools.islice(iterator, 9))
        dataset = divided(shuffled)
        dataset.load_state_dict(iterator.get_state())
        assert sorted(before + flat(Loader(dataset, 1, num_workers))) == list(range(N))
        expected = list(shuffled.iterate(epoch=epoch + 1))
        assert (
            flat(Loader(dataset, 1, num_workers))[::2]
            == flat(Loader(divided(items.map(expected.__getitem__)), 1, num_workers))[::2]
        )
        assert dataset.state_after(examples=5)["epoch"] == epoch + 1


def test_workers_begin_with_the_epoch_of_the_loop_that_started_them(items: Any) -> None:
    """Spawned workers cannot find the loop of Lightning, and those that persist go on by themselves."""
    shuffled = items.shuffle(seed=3)
    dataset = Divided(shuffled, rank=0, num_ranks=1, block=1, even=None, fit_loop=FitLoop(3, *[False] * 6))
    for epoch in (3, 4):
        with as_worker(0, 1, 7):
            assert list(dataset) == list(shuffled.iterate(epoch=epoch))
    with as_worker(0, 0, 0):  # the parent itself is not in the loop
        dataset = Divided(shuffled, rank=0, num_ranks=1, block=1, even=None, fit_loop=FitLoop(3, *[False] * 6))
        assert list(dataset) == list(shuffled)


def test_an_iteration_is_closed_before_lightning_resumes_at_the_end_of_a_pass(items: Any) -> None:
    """The open files of the iteration before are closed, as before any other pass."""
    loop = FitLoop(0, *[False] * 4, resumes_longest_loader=True, restarts_epoch=False)
    dataset = Divided(items.shuffle(seed=3), rank=0, num_ranks=1, block=1, even=None, fit_loop=loop)
    with as_worker(0, 1, 7):
        before = iter(dataset)
        next(before)
        with mock.patch.object(before, "close", wraps=before.close) as close:
            assert list(dataset) == []
    close.assert_called_once_with()


@pytest.mark.parametrize(
    "attributes, missing",
    [
        ("_mode = 'min_size'", "'Loop' object has no attribute 'trainer'"),
        ("mode = 'max_size'", "'CombinedLoader' object has no attribute '_mode'"),
    ],
)
def test_a_loop_of_lightning_with_other_attributes_is_announced(
    items: Any, caplog: Any, attributes: str, missing: str
) -> None:
    """In place of a later version, whose loop has them: the stack has only the names of its files."""
    callers._warn_of_unknown_loop.cache_clear()
    space: dict[str, Any] = {"read": lambda: list(divided(items))}
    for file, code in (
        (
            "/pytorch/utilities/combined_loader.py",
            f"class CombinedLoader:\n    {attributes}\n    def read(self): return read()",
        ),
        ("/pytorch/loops/fit_loop.py", "class Loop:\n    def run(self): return CombinedLoader().read()"),
    ):
        exec(compile(code, file, "exec"), space)
    assert space["Loop"]().run() == space["Loop"]().run() == list(items)
    [record] = [record for record in caplog.records if "version of Lightning is not known" in record.message]
    assert missing in record.message
    assert "as_torch(epoch=N)" in record.message


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("num_taken", [0, 8])
def test_a_pass_that_keras_begins_to_build_a_model_does_not_count(items: Any, num_workers: int, num_taken: int) -> None:
    """It reads a batch, and later begins at the loaded state, or with the same epoch: the stack has its functions."""
    space: dict[str, Any] = {}
    exec(compile("def _symbolic_build(read): return read()", "/keras/src/trainers/trainer.py", "exec"), space)
    shuffled = items.shuffle(seed=3)
    dataset = divided(shuffled)
    if num_taken:
        dataset.load_state_dict(dataset.state_after(examples=num_taken))
    for epoch in range(3):
        probed = space["_symbolic_build"](lambda: next(iter(Loader(dataset, 1, num_workers))))
        got = flat(Loader(dataset, 1, num_workers))
        assert probed == got[:1]
        expected = list(shuffled.iterate(epoch=epoch))[0 if epoch else num_taken :]
        assert sorted(got) == sorted(expected)
        assert num_workers or got == expected


def test_a_pass_that_keras_begins_after_an_epoch_does_not_count(items: Any) -> None:
    code = """class EpochIterator:
        num_batches, steps_per_epoch = 6, None
        def _enumerate_iterator(self, read, seen):
            self._steps_seen = seen
            return read()
    """
    space: dict[str, Any] = {}
    exec(compile(code, "/keras/src/trainers/epoch_iterator.py", "exec"), space)
    dataset, begin = divided(items.shuffle(seed=3)), space["EpochIterator"]()._enumerate_iterator
    epochs = []
    for _ in range(2):
        epochs.append(list(begin(lambda: iter(dataset), 0)))
        begin(lambda: iter(dataset), 6)
    assert epochs == [list(items.shuffle(seed=3).iterate(epoch=epoch)) for epoch in range(2)]


def test_persistent_workers_count_the_passes_after_one_that_keras_has_begun(items: Any) -> None:
    """Their stack remains that of the first pass, which does not count."""
    shuffled = items.shuffle(seed=3)
    dataset = Divided(shuffled, rank=0, num_ranks=1, block=1, even=None, is_probe=True)
    with as_worker(0, 1, 7):
        assert [list(dataset) for _ in range(3)] == [list(shuffled.iterate(epoch=epoch)) for epoch in (0, 0, 1)]


@given(data=st.data(), num_workers=st.integers(2, 3), num_passes=st.integers(1, 4))
@settings(max_examples=30)
def test_persistent_workers_that_begin_passes_late(items: Any, data: Any, num_workers: int, num_passes: int) -> None:
    """A loop that ends early begins the next pass before all workers have begun theirs."""
    shuffled = items.shuffle(seed=3)
    dataset = divided(shuffled)
    copies = [_copy(dataset) for _ in range(num_workers)]
    for worker in data.draw(st.permutations(sorted([*range(num_workers)] * (num_passes - 1)))):
        with as_worker(worker, num_workers, 7):
            iter(copies[worker])
    got = [0] * N
    for worker in data.draw(st.permutations(range(num_workers))):
        with as_worker(worker, num_workers, 7):
            got[worker::num_workers] = list(copies[worker])
    assert got == list(shuffled.iterate(epoch=num_passes - 1))


def test_repeated(items: Any) -> None:
    dataset = divided(items.repeat(), 1, 2, block=2, even="drop")
    assert list(itertools.islice(Loader(dataset, 2, 3), 3)) == [[2, 3], [6, 7], [10, 11]]
    with pytest.raises(TypeError, match="endless"):
        len(dataset)
    dataset = divided(items.repeat(3))
    whole = flat(Loader(_copy(dataset), 4, 0))
    list(itertools.islice(Loader(dataset, 4, 0), 8))
    assert flat(Loader(divided(items.repeat(3), state=dataset.state_dict()), 4, 0)) == whole[32:]  # the next epoch


def test_batches_are_items_too(items: Any) -> None:
    batches = [b.tolist() for b in items.batch(4)]
    for rank in range(2):
        got = [[b.tolist() for b in some] for some in Loader(divided(items.batch(4), rank, 2), 1, 2)]
        assert flat(got) == batches[rank::2]
    other = divided(items.batch(5), state=divided(items.batch(4), 0, 2).state_after(batches=3))
    assert flat(b.tolist() for b in flat(Loader(other, 1, 0))) == list(range(12, N))


def test_states_after_examples_and_batches(items: Any) -> None:
    """Each unit gives the state of a plain iterator there; what an epoch does not have is an error."""
    iterator = iter(items)
    for taken in range(N + 1):
        expected = iterator.get_state()
        for dataset in (items, items.batch(4), items.batch(4).map(lambda batch: batch), items.batch(2).batch(3)):
            assert divided(dataset).state_after(examples=taken) == expected
        if taken % 4 == 0 or taken == N:
            assert divided(items.batch(4)).state_after(batches=-(-taken // 4)) == expected
        if taken % 4 == 0:
            assert divided(items, 0, 2, 4).state_after(batches=taken // 4) == expected
        next(iterator, None)
    start = divided(items.batch(4)).state_after(batches=2)
    assert divided(items.batch(5)).state_after(examples=10, start=start)["position"] == 18
    assert divided(items.repeat().batch(4)).state_after(batches=8)["epoch"] == 1
    for arguments in ({"examples": N + 1}, {"batches": 7}, {"examples": 16, "start": start}):
        with pytest.raises(ValueError, match="expected at most .*, which are left in epoch 0"):
            divided(items.batch(4)).state_after(**arguments)
    for arguments, problem in (({}, "examples or batches"), ({"examples": 1, "batches": 1}, "examples or batches")):
        with pytest.raises(TypeError, match=problem):
            divided(items.batch(4)).state_after(**arguments)
    with pytest.raises(TypeError, match=r"as_torch\(block=\.\.\.\)"):
        divided(items, block=None).state_after(batches=1)
    with pytest.raises(ValueError, match="an operation follows batch"):
        divided(items.batch(4).repeat()).state_after(examples=1)


@pytest.mark.parametrize(
    "state, problem",
    [
        ({"begun": {}}, "a worker's state: expected format 1 or 2"),
        ({"format": 9, "begun": 0, "taken": 0, "worker": 0, "workers": 1, "ranks": 1, "block": 1}, "format 9"),
        ({"position": 1}, "expected a state, a dict with"),
        (17, "expected a state, a dict with"),
        ("test", "slices was 'test"),
    ],
)
def test_states_of_something_else(three: Any, items: Any, state: Any, problem: str) -> None:
    if state == "test":
        state = three.as_dataset("test").iterate().get_state()
    with pytest.raises(StateError, match=problem):
        divided(items).load_state_dict(state)


def test_map_style_is_in_dataset_order(three: Any) -> None:
    pytest.importorskip("torch", reason="make test-adapters installs PyTorch")
    train = three.as_dataset("train")
    dataset = MapStyle(train)
    assert len(dataset) == N
    assert [dataset[i]["idx"] for i in range(N)] == [train[i]["idx"] for i in range(N)]
    assert [example["idx"] for example in dataset.__getitems__([5, 0, 22])] == [train[i]["idx"] for i in (5, 0, 22)]
    with pytest.raises(IndexError):
        dataset[N]
    with pytest.raises(TypeError, match="dataset order"):
        MapStyle(train.shuffle(1))


def test_datasets_pickle_without_open_files(three: Any) -> None:
    train = three.as_dataset("train")
    train[0]
    copy = pickle.loads(pickle.dumps(train))
    assert not copy._source.pool._open
    assert copy[3]["idx"] == train[3]["idx"]
    assert repr(copy) == repr(train)
    assert "spec_three:1.2.3 train[0:23], digest 4c7fc3c0" in repr(train)


@pytest.mark.parametrize(
    "options, kind, words",
    [
        ({"rank": "0"}, TypeError, "^rank must be an int, not '0'"),
        ({"num_ranks": 2.0}, TypeError, r"^num_ranks must be an int, not 2\.0"),
        ({"num_ranks": 0}, ValueError, "^num_ranks must be at least 1, got 0"),
        ({"rank": 2}, ValueError, r"^rank must be in \[0, 2\), got 2"),
        ({"rank": -1}, ValueError, r"^rank must be in \[0, 2\), got -1"),
        ({"even": "no"}, ValueError, "^even must be 'drop', 'pad' or None, got 'no'"),
        ({"block": 0}, ValueError, "^block must be at least 1, got 0"),
    ],
    ids=str,
)
def test_options_are_refused_by_their_names(three: Any, options: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        Divided(three.as_dataset("train"), **{"rank": 0, "num_ranks": 2, "block": 1, "even": None} | options)


def test_a_state_is_for_items_of_as_many_examples(items):
    """Positions count batches, so those of another size would lose or repeat examples."""
    saved = Divided(items.batch(4), rank=0, num_ranks=1, block=1, even=None)
    list(itertools.islice(iter(saved), 3))
    state = json.loads(json.dumps(saved.state_dict()))
    for same in (items.batch(4), items.batch(4, drop_remainder=True), items.batch(2).batch(2)):
        Divided(same, rank=0, num_ranks=1, block=1, even=None).load_state_dict(state)
    for other, size in ((items.batch(8), 8), (items, 1)):
        divided = Divided(other, rank=0, num_ranks=1, block=1, even=None)
        with pytest.raises(StateError, match=f"counts items of 4 examples, and an item of this dataset has {size}"):
            divided.load_state_dict(state)
    del state["examples"]  # as an earlier version saved it
    Divided(items.batch(4), rank=0, num_ranks=1, block=1, even=None).load_state_dict(state)


def test_a_spawned_worker_has_the_length_of_its_parent(three, monkeypatch):
    """It cannot detect ranks that torch.distributed has, so its parent passes them on."""
    pytest.importorskip("torch")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    parent = MapStyle(three.as_dataset("train"), "pad", 5)
    assert len(parent) == 30
    pickled = pickle.dumps(parent)
    monkeypatch.delenv("RANK")
    worker = pickle.loads(pickled)
    assert len(worker) == 30
    assert worker[29]["idx"] == worker[6]["idx"]


def test_indices_of_even_ranks_end_with_their_length(items):
    pytest.importorskip("torch")
    even = MapStyle(items, "drop", 16)
    assert len(even) < N
    assert even[-1] == even[len(even) - 1]
    for index in (len(even), -len(even) - 1):
        with pytest.raises(IndexError):
            even[index]


@pytest.mark.parametrize("mode", ["drop", "pad"])
def test_batches_of_even_ranks_have_the_indices_of_examples(items, mode):
    """A sampler that was made for a longer dataset would get examples twice otherwise."""
    pytest.importorskip("torch")
    even = MapStyle(items, mode, 16)
    indices = [-1, 0, len(even) - 1, -len(even)]
    assert even.__getitems__(indices) == [even[index] for index in indices]
    for index in (len(even), -len(even) - 1):
        with pytest.raises(IndexError):
            even.__getitems__([0, index])
