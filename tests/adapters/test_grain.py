"""Real Grain over `as_grain_source()`: its datasets and its DataLoader, with processes and checkpoints."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tests.adapters.conftest import flat, ids

pytestmark = pytest.mark.filterwarnings("ignore")  # of Grain
N = 23


@pytest.fixture
def source(grain: Any, three: Any) -> Any:
    return three.as_dataset("train").as_grain_source()


@pytest.fixture(scope="module")
def in_order(three: Any) -> list[int]:
    return ids(three.as_dataset("train")[:])


def examples_of(batches: Any) -> list[int]:
    return flat(ids(batches))


def test_is_a_source(grain: Any, three: Any, source: Any, in_order: list[int]) -> None:
    assert isinstance(source, grain.sources.RandomAccessDataSource)
    assert len(source) == N
    assert ids(source[i] for i in range(N)) == in_order
    assert ids(source._getitems([4, 0])) == [in_order[4], in_order[0]]
    copy = pickle.loads(pickle.dumps(source))
    assert ids([copy[7]]) == in_order[7:8]
    assert repr(copy) == repr(source)
    assert repr(source) != repr(three.as_dataset("train[1:]").as_grain_source())
    with pytest.raises(TypeError, match="dataset order"):
        three.as_dataset("train").batch(2).as_grain_source()


def test_map_dataset(grain: Any, source: Any, in_order: list[int]) -> None:
    dataset = grain.MapDataset.source(source)
    assert ids(dataset) == in_order
    assert examples_of(dataset.shuffle(seed=1).batch(4)) == ids(dataset.shuffle(seed=1))
    assert sorted(ids(dataset.shuffle(seed=1))) == sorted(in_order)


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_iter_dataset_with_processes(grain: Any, source: Any, num_workers: int) -> None:
    shuffled = grain.MapDataset.source(source).shuffle(seed=2).batch(4)
    expected = examples_of(shuffled)
    dataset = shuffled.to_iter_dataset()
    if num_workers:
        dataset = dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=num_workers))
    assert sorted(examples_of(dataset)) == sorted(expected)
    iterator = iter(dataset)
    before = examples_of([next(iterator) for _ in range(2)])
    state = iterator.get_state()
    rest = examples_of(iterator)
    later = iter(dataset)
    later.set_state(state)
    assert examples_of(later) == rest
    assert before + rest == expected


@pytest.mark.parametrize("worker_count", [0, 2])
def test_data_loader(grain: Any, three: Any, in_order: list[int], worker_count: int) -> None:
    def loader() -> Any:
        sampler = grain.samplers.IndexSampler(N, shuffle=True, seed=5, num_epochs=1)
        return grain.DataLoader(
            data_source=three.as_dataset("train").as_grain_source(),
            sampler=sampler,
            operations=[grain.transforms.Batch(4, drop_remainder=False)],
            worker_count=worker_count,
        )

    whole = examples_of(loader())
    assert sorted(whole) == sorted(in_order)
    iterator = iter(loader())
    before = examples_of([next(iterator) for _ in range(3)])
    later = iter(loader())
    later.set_state(iterator.get_state())
    assert before + examples_of(later) == whole


def test_every_kind_of_feature_goes_through_processes(grain: Any, many: Any) -> None:
    train = many.as_dataset("train")
    dataset = grain.MapDataset.source(train.as_grain_source()).to_iter_dataset()
    got = list(dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=1)))
    assert len(got) == len(train)
    for example, expected in zip(got, train[:]):
        assert example["mat"].tolist() == expected["mat"].tolist()
        assert example["toks"].tolist() == expected["toks"].tolist()
        assert example["rag"] == expected["rag"]
        assert [float(step["r"]) for step in example["steps"]] == [float(step["r"]) for step in expected["steps"]]
