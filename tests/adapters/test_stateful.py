"""torchdata's StatefulDataLoader over `as_torch()`: resumed at every step, it goes on with the same batches."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest

import beam_datasets as bd
from tests.adapters.conftest import flat, ids

# PyTorch warns that three workers are many for this machine, torchdata calls deprecated functions.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def make(torchdata: Any, three: Any) -> Any:
    def make(num_workers: int, batch_size: int | None = 4, **options: Any) -> Any:
        train = three.as_dataset("train").shuffle(seed=11)
        dataset = (train if batch_size else train.batch(4)).as_torch(**options)
        return torchdata.StatefulDataLoader(dataset, batch_size=batch_size, num_workers=num_workers)

    return make


@pytest.mark.parametrize(
    "num_workers, options",
    [
        (0, {}),
        (0, {"rank": 1, "num_ranks": 2, "block": 3}),
        (1, {"block": 4}),
        (3, {"block": 4}),
        (3, {"rank": 1, "num_ranks": 2}),
        (2, {"batch_size": None}),
    ],
)
def test_resumes_at_every_step(make: Any, num_workers: int, options: dict[str, Any]) -> None:
    loader = make(num_workers, **options)
    states, whole = [copy.deepcopy(loader.state_dict())], []
    for batch in loader:
        whole += ids([batch])
        states.append(copy.deepcopy(loader.state_dict()))
    assert len(whole) > 2
    steps = range(len(states)) if num_workers == 0 else (0, 1, len(states) // 2)
    for step in steps:
        later = make(num_workers, **options)
        later.load_state_dict(states[step])
        assert ids(later) == whole[step:]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_resumes_twice_and_goes_on_to_the_next_epoch(make: Any, num_workers: int) -> None:
    from torch.utils.data import DataLoader

    whole = ids(make(num_workers, block=4))
    loader, got = make(num_workers, block=4), []
    for _ in range(2):
        got += ids(batch for _, batch in zip(range(2), loader))
        state = copy.deepcopy(loader.state_dict())
        loader = make(num_workers, block=4)
        loader.load_state_dict(state)
    assert got + ids(loader) == whole
    dataset = make(num_workers, block=4).dataset
    dataset.set_epoch(1)
    next_epoch = ids(DataLoader(dataset, batch_size=4, num_workers=num_workers))
    assert ids(loader) == next_epoch != whole
    ended = copy.deepcopy(loader.state_dict())
    later = make(num_workers, block=4)
    later.load_state_dict(ended)
    dataset.set_epoch(2)
    assert ids(later) == ids(DataLoader(dataset, batch_size=4, num_workers=num_workers))


def test_two_ranks_go_on_together(make: Any, three: Any) -> None:
    """Stopped after the same step, the ranks together read each example once, in the batches of a whole epoch."""
    order = [int(example["idx"]) for example in three.as_dataset("train").shuffle(seed=11)]
    got = []
    for rank in range(2):
        loader = make(2, block=4, rank=rank, num_ranks=2)
        before = ids(batch for _, batch in zip(range(1), loader))
        later = make(2, block=4, rank=rank, num_ranks=2)
        later.load_state_dict(copy.deepcopy(loader.state_dict()))
        got.append(before + ids(later))
    assert [batch for step in zip(*got) for batch in step] == [order[i : i + 4] for i in range(0, len(order), 4)]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("options", [{"block": 4}, {}, {"batch_size": None}], ids=str)
def test_every_rank_goes_on_from_the_state_of_rank_0(
    make: Any, three: Any, num_workers: int, options: dict[str, Any]
) -> None:
    """Lightning saves the state of rank 0 alone, and restores it on every rank."""
    loaders = [make(num_workers, rank=rank, num_ranks=2, **options) for rank in range(2)]
    before = [ids(batch for _, batch in zip(range(2), loader)) for loader in loaders]
    state = copy.deepcopy(loaders[0].state_dict())
    after = []
    for rank in range(2):
        later = make(num_workers, rank=rank, num_ranks=2, **options)
        later.load_state_dict(copy.deepcopy(state))
        after.append(ids(later))
    whole = [ids(make(num_workers, rank=rank, num_ranks=2, **options)) for rank in range(2)]
    assert [first + second for first, second in zip(before, after)] == whole
    assert sorted(flat(flat(whole))) == sorted(int(example["idx"]) for example in three.as_dataset("train"))


def is_odd(example: Any) -> bool:
    return bool(example["idx"] % 2)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("kind", ["filter", "pack", "by length", "mixture", "parts"])
def test_streams(torchdata: Any, three: Any, num_workers: int, kind: str) -> None:
    train = three.as_dataset("train").shuffle(seed=3)
    odd = train.filter(is_odd)
    stream = {
        "filter": odd.batch(2),
        "pack": odd.map(lambda example: {"n": example["idx"].reshape(1)}).pack(3, ["n"], num_bins=1),
        "mixture": bd.mix([odd, train], weights=[1, 2], seed=1, stop="all").batch(3),
        "parts": train.flat_map(lambda example: [example] * int(example["idx"] % 2)).batch(3),
        "by length": train.batch_by_length([12], [2, 3], length=lambda example: int(example["idx"])),
    }[kind]

    def make(epoch: int = 0) -> Any:
        dataset = stream.as_torch()
        if epoch:
            dataset.set_epoch(epoch)
        return torchdata.StatefulDataLoader(dataset, batch_size=None, num_workers=num_workers)

    def numbers(items: Any) -> list[Any]:
        return [item["n" if kind == "pack" else "idx"].tolist() for item in items]

    loader, states, whole = make(), [], []
    for item in loader:
        whole += numbers([item])
        states.append(copy.deepcopy(loader.state_dict()))
    wanted = Counter(int(example["idx"]) for example in (train if kind in ("by length", "mixture") else odd))
    found = Counter(n for item in whole for n in item if n or kind != "pack")
    assert found == wanted if kind != "mixture" else found.keys() == wanted.keys()  # whose sources repeat
    if num_workers == 0:
        assert whole == numbers(stream)
    for step in (0, len(states) // 2):
        later = make()
        later.load_state_dict(states[step])
        assert numbers(later) == whole[step + 1 :]
    assert numbers(loader) == numbers(make(epoch=1)) != whole
    assert numbers(later) == numbers(make(epoch=1))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_mixtures(torchdata: Any, three: Any, num_workers: int) -> None:
    train = three.as_dataset("train")
    mixture = bd.mix({train.shuffle(1): 2, train.take(5): 1}, seed=4, stop="all").batch(4)
    loader = torchdata.StatefulDataLoader(mixture.as_torch(), batch_size=None, num_workers=num_workers)
    assert ids(loader) == ids(mixture)


def test_streams_refuse(three: Any, torchdata: Any) -> None:
    stream = three.as_dataset("train").filter(is_odd)
    dataset = stream.as_torch()
    with pytest.raises(TypeError, match="the number of items is unknown"):
        len(dataset)
    with pytest.raises(TypeError, match="no state_after"):
        dataset.state_after(examples=3)
    with pytest.raises(ValueError, match="expected no fill or even"):
        stream.as_torch(fill=3)
    with pytest.raises(TypeError, match="a stream has no ds"):
        stream.as_torch(map_style=True)
    with pytest.raises(bd.errors.StateError, match="expected a stream's state"):
        dataset.load_state_dict(three.as_dataset("train").iterate().get_state())
    two = stream.as_torch(rank=0, num_ranks=2)
    next(iter(two))
    other = stream.as_torch(rank=0, num_ranks=3)
    other.load_state_dict(two.state_dict())
    with pytest.raises(bd.errors.StateError, match="worker was '0 of 2' and is '0 of 3' now"):
        next(iter(other))


def test_a_dataset_around_it_that_has_no_state(torch: Any, torchdata: Any, three: Any, caplog: Any) -> None:
    """The loader then begins with the first epoch: a warning names the way."""
    train = three.as_dataset("train").shuffle(seed=1)
    alone, chained = train.as_torch(), torch.utils.data.ChainDataset([train.as_torch()])
    for dataset, is_warned in ((alone, False), (chained, True)):
        next(iter(torchdata.StatefulDataLoader(dataset, batch_size=4)))
        assert ("reads by ChainDataset, which has no state" in caplog.text) == is_warned
