"""Real DataLoaders over `as_torch()`: without workers, with one, with three; and several ranks."""

from __future__ import annotations

import contextlib
import copy
import gc
import multiprocessing
import operator
import os
import pickle
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets.adapters import torch_loader_checks
from beam_datasets.errors import FeatureValueError
from tests.adapters.conftest import flat, ids
from tests.processes import started

# PyTorch warns that three workers are many for this machine.
pytestmark = pytest.mark.filterwarnings("ignore")
N = 23
WORKERS = [0, 1, 3]


def batches_of(items: list[int], size: int) -> list[list[int]]:
    return [items[i : i + size] for i in range(0, len(items), size)]


@pytest.fixture(scope="module")
def order(three: Any) -> list[int]:
    return [int(example["idx"]) for example in three.as_dataset("train")]


@pytest.fixture
def loader(torch: Any) -> Any:
    return torch.utils.data.DataLoader


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Any:
    threads = set(threading.enumerate())
    yield
    gc.collect()  # the traceback of an error refers to the iterator, and so to its workers, in a circle
    for thread in set(threading.enumerate()) - threads:  # a DataLoader's own take a moment to end
        thread.join(timeout=10)
        assert not thread.is_alive()
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("num_workers", WORKERS)
@pytest.mark.parametrize("num_ranks, drop", [(1, False), (2, False), (2, True)])
def test_batches_are_the_same_for_any_number_of_workers(
    three: Any, order: list[int], loader: Any, num_workers: int, num_ranks: int, drop: bool
) -> None:
    expected = batches_of(order[:16] if drop else order, 4)
    for rank in range(num_ranks):
        dataset = three.as_dataset("train").as_torch(
            rank=rank, num_ranks=num_ranks, block=4, even="drop" if drop else None
        )
        batches = loader(dataset, batch_size=4, num_workers=num_workers)
        for _ in range(2):  # epochs
            assert ids(batches) == expected[rank::num_ranks]
        assert len(dataset) == len(flat(expected[rank::num_ranks]))
        assert len(batches) == len(expected[rank::num_ranks])


@pytest.mark.parametrize("num_workers", WORKERS)
def test_batches_made_here(torch: Any, three: Any, order: list[int], loader: Any, num_workers: int) -> None:
    batches = list(loader(three.as_dataset("train").batch(4).as_torch(), batch_size=None, num_workers=num_workers))
    assert ids(batches) == batches_of(order, 4)
    assert batches[0]["idx"].dtype == torch.int64
    assert isinstance(batches[0]["name"], np.ndarray)


@pytest.mark.parametrize("num_workers, context", [(0, None), (2, "fork"), (1, "spawn")])
@pytest.mark.parametrize("kind", ["dataset", "mapped", "stream", "by length"])
def test_a_batch_size_besides_that_of_the_dataset(
    three: Any, loader: Any, kind: str, num_workers: int, context: str | None, caplog: Any
) -> None:
    """Of numbers a DataLoader would make arrays of shape (1, 4), without a word."""
    only = three.as_dataset("train", decoders=bd.decode.PartialDecoding({"idx": True}))
    dataset = {
        "dataset": only.batch(4),
        "mapped": only.batch(4).map(dict),
        "stream": only.filter(bool).batch(4),
        "by length": only.batch_by_length([50], [4, 4], length=operator.itemgetter("idx")),
    }[kind].as_torch()
    options = {"num_workers": num_workers, "multiprocessing_context": context}
    with pytest.raises(ValueError, match=r"in batches already.*DataLoader\(\.\.\., batch_size=None\)"):
        next(iter(loader(dataset, **options)))
    if context == "spawn":  # which takes seconds
        return
    assert len(ids(loader(dataset, batch_size=None, **options))[0]) == 4
    firsts = loader(dataset, collate_fn=operator.itemgetter(0), **options)
    assert {len(batch) for batch in ids(firsts)} == {4, 3}
    if num_workers == 0:  # workers log in their own processes
        torch_loader_checks._warn_once.cache_clear()
        assert next(iter(loader(dataset, batch_size=2)))["idx"].shape == (2, 4)
        assert "batches of 2 of them" in caplog.text


@pytest.mark.parametrize("name", ["int64", "float32", "bfloat16"])
def test_a_dtype_of_torch_has_a_name_that_a_feature_takes(torch: Any, name: str) -> None:
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes", reason="bfloat16 is a dtype of ml_dtypes")
    with pytest.raises(ValueError, match=rf"torch\.{name} is not a dtype of a feature: .*; write '{name}'$"):
        bd.features.Tensor(shape=(2,), dtype=getattr(torch, name))
    assert bd.features.Tensor(shape=(2,), dtype=name).dtype.name == name


def test_batches_inside_of_another_dataset(torch: Any, three: Any, loader: Any) -> None:
    class Singly(torch.utils.data.IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Any:
            for batch in batches:
                yield from batch["idx"]

    batches = three.as_dataset("train").batch(4).as_torch()
    assert [len(batch) for batch in loader(Singly())] == [1] * N
    parts = three.as_dataset("train").batch(4).filter(lambda batch: True).flat_map(lambda batch: list(batch["idx"]))
    assert [len(batch) for batch in loader(parts.as_torch())] == [1] * N


@pytest.mark.parametrize("num_workers", [0, 1])
def test_arrays_of_different_lengths(torch: Any, three: Any, loader: Any, num_workers: int) -> None:
    arrays = three.as_dataset("train").map(lambda e: {"idx": np.arange(int(e["idx"]))})
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        list(loader(arrays.as_torch(), batch_size=4))
    [batch] = loader(arrays.padded_batch(N).as_torch(), batch_size=None, num_workers=num_workers)
    assert batch["idx"].shape == (N, N - 1)
    same = arrays.map(lambda e: {"idx": np.pad(e["idx"], (0, N - 1 - len(e["idx"])))})
    [stacked] = loader(same.as_torch(), batch_size=N)
    assert torch.equal(stacked["idx"], batch["idx"])


def test_set_epoch_counts_passes(three: Any, loader: Any) -> None:
    """As a framework does, for which each pass over its loader is an epoch."""
    shuffled = three.as_dataset("train").shuffle(seed=5)
    dataset = shuffled.repeat(2).as_torch()
    for epoch in (1, 2):
        dataset.set_epoch(epoch)
        expected = ids(shuffled.iterate(epoch=2 * epoch)) + ids(shuffled.iterate(epoch=2 * epoch + 1))
        assert flat(ids(loader(dataset, batch_size=4))) == expected


@pytest.mark.parametrize("num_workers", WORKERS)
def test_resumes_after_steps_with_other_numbers(three: Any, order: list[int], loader: Any, num_workers: int) -> None:
    before = three.as_dataset("train").as_torch(rank=0, num_ranks=2, block=3)
    state = before.state_after(examples=2 * 3 * 2)  # two steps of batches of 3 of two ranks
    assert state == before.state_after(batches=2 * 2)
    dataset = three.as_dataset("train").as_torch(block=4)
    dataset.load_state_dict(state)
    batches = loader(dataset, batch_size=4, num_workers=num_workers)
    assert ids(batches) == batches_of(order[12:], 4)
    assert ids(batches) == batches_of(order, 4)  # the next epoch, from its beginning


@pytest.mark.parametrize("num_workers", WORKERS)
@pytest.mark.parametrize("form", ["batches", "examples", "map-style", "examples without block"])
@pytest.mark.parametrize("even", [None, "drop", "pad"])
def test_equal_batches_of_ranks(
    torch: Any,
    three: Any,
    order: list[int],
    loader: Any,
    num_workers: int,
    form: str,
    even: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each rank gets as many batches of 4, in every form; and `len()` is their number, also without `even`."""
    train, got = three.as_dataset("train"), []
    for rank in range(2):
        ranks = {"rank": rank, "num_ranks": 2}
        if form == "batches":
            batches = loader(train.batch(4).as_torch(even=even, **ranks), batch_size=None, num_workers=num_workers)
        elif form == "examples":
            batches = loader(train.as_torch(even=even, block=4, **ranks), batch_size=4, num_workers=num_workers)
        elif form == "map-style":
            monkeypatch.setenv("RANK", str(rank))
            monkeypatch.setenv("WORLD_SIZE", "2")
            dataset = train.as_torch(map_style=True, even=even, block=even and 4)
            sampler = torch.utils.data.DistributedSampler(dataset, 2, rank, shuffle=True)
            batches = loader(dataset, batch_size=4, sampler=sampler, num_workers=num_workers)
        elif even is None:
            batches = loader(train.as_torch(**ranks), batch_size=4, num_workers=num_workers)
        else:
            with pytest.raises(ValueError, match="the batch_size of the DataLoader"):
                train.as_torch(even=even, **ranks)
            return
        got.append(ids(batches))
        assert len(batches) == len(got[-1])
    if even is not None:
        assert [[len(batch) for batch in rank] for rank in got] == [[4] * (2 if even == "drop" else 3)] * 2
    if even != "drop":
        assert set(flat(flat(got))) == set(order)


def test_length_of_smaller_last_batches(three: Any, loader: Any) -> None:
    train = three.as_dataset("train")
    for num_workers in (2, 3):
        for options in ({"batch_size": 4}, {"batch_size": 4, "drop_last": True}, {"batch_size": 5}):
            batches = loader(train.as_torch(), num_workers=num_workers, **options)
            assert len(batches) == len(list(batches))
        assert len(train.as_torch()) == N


@pytest.mark.parametrize("num_workers", [0, 2, 3])
def test_length_of_a_chain(torch: Any, three: Any, num_workers: int) -> None:
    """A batch of a worker may have examples of several parts."""
    parts = [three.as_dataset(split) for split in ("train", "train[:9]")]
    for options in ({"batch_size": 4}, {"batch_size": 5}, {"batch_size": 20, "drop_last": True}, {"batch_size": None}):
        chain = torch.utils.data.ChainDataset([part.as_torch() for part in parts])
        loader = torch.utils.data.DataLoader(chain, num_workers=num_workers, **options)
        batches = list(loader)
        assert len(loader) == len(batches)
        assert len(chain) == N + 9
        if "drop_last" not in options:
            read = np.concatenate([np.atleast_1d(batch["idx"]) for batch in batches])
            assert sorted(read.tolist()) == sorted(flat(ids(part.batch(N)) for part in parts)[0] + ids(parts[1]))
    part = parts[0].as_torch()
    assert len(torch.utils.data.ChainDataset([part, part])) == 2 * N


def test_unequal_steps_are_announced_once(torch: Any, three: Any, caplog: Any) -> None:
    def announced(dataset: Any, rank: int = 0, **options: Any) -> list[str]:
        caplog.clear()
        made = dataset.as_torch(rank=rank, num_ranks=2, **options)
        for _ in range(2):
            next(iter(made), None)
        return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

    train = three.as_dataset("train")
    [message] = announced(train.take(20).batch(4))
    assert "rank 0 gets 3 batches in an epoch, and rank 1 gets 2." in message
    [message] = announced(train.take(20), block=4)
    assert "rank 0 gets 3 batches in an epoch, and rank 1 gets 2." in message
    [message] = announced(train)
    assert "rank 0 gets 12 examples in an epoch, and rank 1 gets 11." in message
    for quiet in (
        announced(train.take(20).batch(4), even="drop"),
        announced(train.take(20).batch(4), rank=1),
        announced(train.batch(4)),
        announced(train.repeat()),
        announced(train.filter(lambda example: True)),
    ):
        assert not quiet


@pytest.mark.parametrize(
    "num_examples, options, expected",
    [
        (22, {"batch_size": 4, "drop_last": True}, "3 batches in an epoch, and rank 1 gets 2"),
        (22, {"batch_size": 1}, "12 batches in an epoch, and rank 1 gets 10"),
        (22, {"batch_size": None}, "12 examples in an epoch, and rank 1 gets 10"),
        (22, {"batch_size": 4}, None),  # of rank 1, the last one is of 2
        (20, {"batch_size": 12}, None),
    ],
)
def test_unequal_steps_of_a_loader_are_announced(
    torch: Any, three: Any, caplog: Any, num_examples: int, options: dict[str, Any], expected: str | None
) -> None:
    """They are those of the DataLoader, whose batches may not be blocks, and which may drop a smaller one."""
    train, steps = three.as_dataset("train").take(num_examples), []
    for rank in range(2):
        dataset = train.as_torch(rank=rank, num_ranks=2, block=4)
        steps.append(len(list(torch.utils.data.DataLoader(dataset, **options))))
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert (steps[0] == steps[1]) == (expected is None)
    assert len(warnings) == (expected is not None)
    assert all(f"rank 0 gets {expected}." in warning for warning in warnings)


def test_batches_that_cannot_be_made_equal(torch: Any, three: Any) -> None:
    train = three.as_dataset("train")
    with pytest.raises(ValueError, match=r"last one of an epoch has 3.*Call batch\(\) last"):
        train.batch(4).repeat(2).as_torch(even="drop")
    assert len(train.batch(4, drop_remainder=True).repeat(2).as_torch(even="drop", rank=0, num_ranks=2)) == 5
    assert len(train.repeat(2).batch(4).as_torch(even="pad", rank=0, num_ranks=2)) == 6


def test_spawned_workers(three: Any, order: list[int], loader: Any) -> None:
    train = three.as_dataset("train")
    train[0]  # so that there are open files, which do not go along
    batches = loader(train.as_torch(block=4), batch_size=4, num_workers=2, multiprocessing_context="spawn")
    assert ids(batches) == batches_of(order, 4)


def test_epochs_reach_workers_that_persist(three: Any, loader: Any) -> None:
    shuffled = three.as_dataset("train").shuffle(seed=5)
    dataset = shuffled.as_torch(block=4)
    batches = loader(dataset, batch_size=4, num_workers=2, persistent_workers=True)
    for epoch in (0, 3, 1):
        dataset.set_epoch(epoch)
        expected = [int(example["idx"]) for example in shuffled.iterate(epoch=epoch)]
        assert ids(batches) == batches_of(expected, 4)
    del batches


@pytest.mark.parametrize("num_workers, persistent", [(0, False), (2, False), (2, True)])
def test_each_pass_is_the_next_epoch(torch: Any, three: Any, loader: Any, num_workers: int, persistent: bool) -> None:
    shuffled = three.as_dataset("train").shuffle(seed=5)
    dataset = shuffled.as_torch(block=4, epoch=3)
    assert dataset.state_after(batches=2) == dataset.state_after(examples=8)
    assert dataset.state_after(batches=2)["epoch"] == dataset.state_dict()["epoch"] == 3
    expected = [batches_of(ids(shuffled.iterate(epoch=epoch)), 4) for epoch in range(3, 6)]
    batches = loader(dataset, batch_size=4, num_workers=num_workers, persistent_workers=persistent)
    assert [ids(batches) for _ in range(2)] == expected[:2]
    torch.manual_seed(1)  # another DataLoader has the seed of the next pass
    again = loader(dataset, batch_size=4, num_workers=num_workers)
    assert ids(again) == expected[2]
    torch.manual_seed(1)
    assert ids(again) == batches_of(ids(shuffled.iterate(epoch=6)), 4)
    with pytest.raises(ValueError, match="expected 4, with which a pass"):
        shuffled.repeat(2).as_torch(epoch=5)
    del batches


@pytest.mark.parametrize("batch_size", [4, 23, None])
def test_a_state_after_the_end_of_a_pass(three: Any, loader: Any, batch_size: int | None) -> None:
    """A plain DataLoader begins the next epoch: nothing would look like an epoch without steps."""
    shuffled = three.as_dataset("train").shuffle(seed=5)
    dataset = shuffled.as_torch(block=4)
    for epoch in range(3):
        expected = ids(shuffled.iterate(epoch=epoch))
        got = ids(loader(dataset, batch_size=batch_size))
        assert (got if batch_size is None else flat(got)) == expected
        state = dataset.state_dict()
        dataset = shuffled.as_torch(block=4)
        dataset.load_state_dict(state)


@pytest.mark.parametrize("num_workers, context", [(0, None), (1, "fork"), (1, "spawn")])
@pytest.mark.parametrize("is_asked", [False, True])
def test_a_state_after_the_end_of_a_stream(
    three: Any, loader: Any, num_workers: int, context: str | None, is_asked: bool
) -> None:
    """A stream finds out that it has ended when it is asked for an item, and then begins the next epoch."""
    stream = three.as_dataset("train").shuffle(seed=5).filter(partial(is_below, 20)).batch(4)
    dataset = stream.as_torch()
    iterator = iter(dataset)
    epochs = [ids(stream.iterate(epoch=epoch)) for epoch in range(3)]
    assert [ids([next(iterator)])[0] for _ in epochs[0]] == epochs[0]
    assert not is_asked or next(iterator, None) is None
    resumed = stream.as_torch()
    resumed.load_state_dict(dataset.state_dict())
    options = {"num_workers": num_workers, "multiprocessing_context": context}
    assert [ids(loader(resumed, batch_size=None, **options)) for _ in range(2)] == epochs[1:]


def is_below(limit: int, example: Any) -> bool:
    return bool(example["idx"] < limit)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("num_workers", [2, 0])
def test_loaders_that_read_at_the_same_time(three: Any, loader: Any, num_workers: int, persistent: bool) -> None:
    shuffled = three.as_dataset("train").shuffle(seed=5)
    dataset = shuffled.as_torch(block=4)
    expected = [batches_of(ids(shuffled.iterate(epoch=epoch)), 4) for epoch in range(7)]
    first = loader(dataset, batch_size=4, num_workers=3, persistent_workers=persistent)
    second = loader(dataset, batch_size=4, num_workers=num_workers, persistent_workers=persistent and num_workers > 0)
    got = []
    for _ in range(2):
        pairs = list(zip(first, second))
        got += [ids(batch for batch, _ in pairs), ids(batch for _, batch in pairs)]
    next(iter(first))  # a pass that ends early
    got += [ids(second), ids(first)]
    assert sorted(map(expected.index, got)) == [0, 1, 2, 3, 5, 6]
    del first, second


def test_loaders_that_begin_at_the_same_time(torch: Any, three: Any, loader: Any) -> None:
    """Each reads one whole epoch: workers recognize those of their own DataLoader by its seed."""
    shuffled = three.as_dataset("train").shuffle(seed=5)
    expected = [batches_of(ids(shuffled.iterate(epoch=epoch)), 4) for epoch in range(12)]
    for seed in range(4):
        torch.manual_seed(seed)
        dataset = shuffled.as_torch(block=4)
        iterators = [iter(loader(dataset, batch_size=4, num_workers=2)) for _ in range(4)]
        epochs = [expected.index(ids(iterator)) for iterator in iterators]
        assert expected.index(ids(loader(dataset, batch_size=4))) == max(epochs) + 1


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("is_pickled", [False, True])
def test_copies_count_their_own_passes(three: Any, loader: Any, num_workers: int, is_pickled: bool) -> None:
    shuffled = three.as_dataset("train").shuffle(seed=5)
    expected = [batches_of(ids(shuffled.iterate(epoch=epoch)), 4) for epoch in range(3)]
    dataset = shuffled.as_torch(block=4)
    assert ids(loader(dataset, batch_size=4, num_workers=num_workers)) == expected[0]
    for one in (pickle.loads(pickle.dumps(dataset)) if is_pickled else copy.deepcopy(dataset), dataset):
        batches = loader(one, batch_size=4, num_workers=num_workers)
        assert [ids(batches) for _ in range(2)] == expected[1:]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_loop_that_ends_early(three: Any, order: list[int], loader: Any, num_workers: int) -> None:
    dataset = three.as_dataset("train").as_torch(block=4)
    for batch in loader(dataset, batch_size=4, num_workers=num_workers):
        assert batch["idx"].tolist() == order[:4]
        break


def test_persistent_workers_of_a_loop_that_ends_early(three: Any, loader: Any) -> None:
    """Those that start late read the same epoch as the others in the next loop."""
    train = three.as_dataset("train").shuffle(seed=7)
    options = {"num_workers": 2, "persistent_workers": True, "worker_init_fn": lambda worker: time.sleep(worker / 2)}
    batches = loader(train.as_torch(block=4), batch_size=4, **options)
    next(iter(batches))
    assert flat(ids(batches)) == ids(train.iterate(epoch=1))


@pytest.mark.parametrize("num_workers", WORKERS)
def test_map_style_with_a_sampler(torch: Any, three: Any, loader: Any, num_workers: int) -> None:
    train = three.as_dataset("train")
    dataset = train.as_torch(map_style=True)
    assert isinstance(dataset, torch.utils.data.Dataset)
    assert not isinstance(dataset, torch.utils.data.IterableDataset)
    in_order = [int(example["idx"]) for example in train[:]]
    assert flat(ids(loader(dataset, batch_size=4, num_workers=num_workers))) == in_order
    generator = torch.Generator().manual_seed(1)
    got = flat(ids(loader(dataset, batch_size=4, shuffle=True, num_workers=num_workers, generator=generator)))
    assert sorted(got) == sorted(in_order)
    assert got != in_order


def test_a_batch_sampler_in_place_of_a_sampler_names_the_argument(torch: Any, three: Any, loader: Any) -> None:
    dataset = three.as_dataset("train").as_torch(map_style=True)
    batches = torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(dataset), 4, drop_last=False)
    with pytest.raises(TypeError, match=r"got \[0, 1, 2, 3\]. Give a BatchSampler as batch_sampler="):
        list(loader(dataset, batch_size=None, sampler=batches))
    read = [batch["idx"].tolist() for batch in loader(dataset, batch_sampler=batches)]
    assert [index for batch in read for index in batch] == [int(example["idx"]) for example in dataset]


def test_map_style_is_divided_by_a_sampler(torch: Any, three: Any) -> None:
    with pytest.raises(ValueError, match="DistributedSampler"):
        three.as_dataset("train").as_torch(map_style=True, rank=0, num_ranks=2)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_every_kind_of_feature(torch: Any, many: Any, loader: Any, num_workers: int) -> None:
    train = many.as_dataset("train")
    got = list(loader(train.as_torch(), batch_size=None, num_workers=num_workers))
    assert len(got) == len(train)
    for example, expected in zip(got, train):
        assert torch.equal(example["mat"], torch.from_numpy(expected["mat"]))
        assert torch.equal(example["image"], torch.from_numpy(expected["image"]))
        assert example["u64"].dtype == torch.uint64
        assert example["text"] == expected["text"]
        assert example["toks"].tolist() == expected["toks"].tolist()
        assert example["rag"] == expected["rag"]
        assert [float(step["r"]) for step in example["steps"]] == [float(step["r"]) for step in expected["steps"]]


def test_ranks_come_from_the_launcher(
    torch: Any, three: Any, order: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(three.as_dataset("train").as_torch()) == N
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert [int(example["idx"]) for example in three.as_dataset("train").as_torch()] == order[1::4]
    with pytest.raises(ValueError, match=r"shard\(\) has divided the dataset.*among 4 ranks"):
        three.as_dataset("train").shard(0, 2).as_torch()
    assert len(three.as_dataset("train").shard(0, 2).as_torch(rank=0, num_ranks=1)) == 12
    with pytest.raises(ValueError, match="expected both or neither, got rank=1 and num_ranks=None"):
        three.as_dataset("train").as_torch(rank=1)


def test_processes_that_train_together(torch: Any, order: list[int], tmp_path: Path) -> None:
    if not torch.distributed.is_gloo_available():
        pytest.skip("this PyTorch has no gloo")
    script = Path(__file__).with_name("train_on_a_rank.py")
    command = [sys.executable, script, tmp_path]
    with contextlib.ExitStack() as stack:
        environments = ({**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"} for rank in range(2))
        processes = [stack.enter_context(started(command, env=environment)) for environment in environments]
        assert [process.wait(timeout=120) for process in processes] == [0, 0]
    expected = repr([sum(order[:8]), sum(order[8:16])])
    assert [(tmp_path / f"sums{rank}").read_text() for rank in range(2)] == [expected, expected]


@pytest.mark.parametrize("size", [4, 4096], ids=["in the message", "in a segment"])
def test_a_batch_crosses_in_one_piece(torch: Any, size: int) -> None:
    """What arrives is a plain dict of the same values in the same order, also while others are held."""
    from multiprocessing import resource_sharer
    from multiprocessing.reduction import ForkingPickler

    from beam_datasets.adapters.torch_data import Transferred

    def batch(start: int) -> dict[str, Any]:
        return {
            **{f"column {i}": torch.arange(size, dtype=(torch.float32, torch.int64)[i % 2]) + start for i in range(6)},
            "text": [b"a", b"", str(start).encode()],
            "mixed": [b"a", "b"],
            "words": np.array([[b"x"], [b"yz"]], object),
            "nested": {"mask": torch.ones(3, 4, dtype=torch.bool), "tuple": (1, 2)},
            "scalar": torch.tensor(3),
            "empty": torch.zeros(0, 3),
            "strided": torch.arange(12).reshape(3, 4).T,
            "half": torch.ones(2, dtype=torch.bfloat16),
            "complex": torch.ones(2, dtype=torch.complex64),
        }

    def check(found: Any, start: int) -> None:
        assert type(found) is type(found["nested"]) is dict
        assert list(found) == list(batch(0))
        for name, value in {**batch(start), **batch(start)["nested"]}.items():
            got = {**found, **found["nested"]}[name]
            if isinstance(value, torch.Tensor):
                assert (got.dtype, got.shape) == (value.dtype, value.shape)
                assert torch.equal(got, value)
            elif name != "nested":
                np.testing.assert_equal(got, value)

    def crossed(start: int) -> Any:
        converted = torch.utils.data.default_convert(Transferred(batch(start)))
        assert type(converted) is Transferred
        return ForkingPickler.loads(bytes(ForkingPickler.dumps(converted)))

    held = [crossed(start) for start in range(40)]
    for start, found in enumerate(held):
        check(found, start)
    held[1]["column 1"][:] = -1  # writable, and apart from others
    check(held[0], 0)
    check(crossed(2), 2)
    part = held.pop(3)["column 3"]
    del held, found
    for start in range(100, 140):
        check(crossed(start), start)
    assert torch.equal(part, torch.arange(size) + 3)
    assert pickle.loads(pickle.dumps(Transferred(a=1))) == {"a": 1}
    resource_sharer.stop(timeout=10)  # this process was its own worker


def test_a_saved_tensor_is_saved_alone(torch: Any, three: Any, loader: Any, tmp_path: Path) -> None:
    wide = three.as_dataset("train").map(lambda e: {"id": e["idx"], "pixels": np.zeros((64, 64), np.float32)})
    for batch in loader(wide.batch(8).as_torch(), batch_size=None, num_workers=1):
        assert batch["id"].untyped_storage().nbytes() == batch["id"].nbytes
        torch.save(batch["id"], tmp_path / "of worker.pt")
        assert (tmp_path / "of worker.pt").stat().st_size < 4096 < batch["pixels"].nbytes


@pytest.mark.parametrize("map_style", [False, True])
def test_workers_give_plain_dicts(three: Any, loader: Any, map_style: bool) -> None:
    plain, batched = three.as_dataset("train"), three.as_dataset("train").batch(4)
    here, there = (
        list(loader(plain.as_torch(map_style=map_style), batch_size=4, num_workers=count)) for count in (0, 1)
    )
    assert [type(batch) for batch in here + there] == [dict] * 12
    np.testing.assert_equal(
        *([{k: np.asarray(v) for k, v in batch.items()} for batch in some] for some in (here, there))
    )
    assert {type(batch) for batch in loader(batched.as_torch(), batch_size=None, num_workers=1)} == {dict}


def test_tensors_that_map_returns(torch: Any, three: Any, loader: Any) -> None:
    """As torchvision returns tensors and tokenizers lists."""
    train = three.as_dataset("train").map(
        lambda e: {"tensor": torch.full((2, 3), int(e["idx"]), dtype=torch.float32), "ids": [int(e["idx"])] * 4}
    )
    plain = list(loader(train.as_torch(), batch_size=4, collate_fn=lambda examples: examples))
    batches = list(loader(train.batch(4).as_torch(), batch_size=None))
    assert len(batches) == len(plain)
    for batch, examples in zip(batches, plain):
        assert torch.equal(batch["tensor"], torch.stack([example["tensor"] for example in examples]))
        assert torch.equal(batch["ids"], torch.tensor([example["ids"] for example in examples]))
    with_gradient = train.map(lambda e: {"weight": e["tensor"].requires_grad_()})
    with pytest.raises(FeatureValueError, match="weight: a Tensor cannot be put in a batch .*requires grad"):
        next(iter(with_gradient.batch(4)))
