"""Datasets of other libraries that read `as_torch()` and divide its items once more, which is an error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.conftest import flat, needed

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")  # those of the libraries


def chain(parts: Iterable[Any]) -> Iterator[dict[str, int]]:
    """Yields the examples of all parts, as the function of `from_generator()`."""
    for part in parts:
        yield from ({"idx": int(example["idx"])} for example in part)


def read(loader: Any) -> list[int]:
    return sorted(flat(batch["idx"].tolist() for batch in loader))


@pytest.fixture
def datasets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    module = needed("datasets")
    module.disable_progress_bars()
    return module


@pytest.fixture
def train(three: Any) -> Any:
    return three.as_dataset("train")


@pytest.mark.parametrize("is_stream", [False, True])
def test_workers_of_hugging_face(torch: Any, datasets: Any, train: Any, is_stream: bool) -> None:
    """It gives the whole generator to one of two workers, where `as_torch()` would yield the half of it."""
    data = train.filter(lambda example: True) if is_stream else train
    expected = sorted(int(example["idx"]) for example in train)

    def loader(parts: list[Any], num_workers: int) -> Any:
        dataset = datasets.IterableDataset.from_generator(chain, gen_kwargs={"parts": parts})
        return torch.utils.data.DataLoader(dataset, batch_size=4, num_workers=num_workers)

    with pytest.raises(ValueError, match="a dataset of Hugging Face .* reads as_torch"):
        read(loader([data.as_torch()], num_workers=2))
    assert read(loader([data.as_torch()], num_workers=0)) == expected
    assert read(loader([data.shard(i, 4) for i in range(4)], num_workers=2)) == expected


def test_ranks_of_hugging_face(
    torch: Any, datasets: Any, train: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    split_by_node = needed("datasets.distributed").split_dataset_by_node
    expected = sorted(int(example["idx"]) for example in train)
    monkeypatch.setenv("WORLD_SIZE", "2")

    def read_part(parts: list[Any], rank: int) -> list[int]:
        monkeypatch.setenv("RANK", str(rank))
        dataset = datasets.IterableDataset.from_generator(chain, gen_kwargs={"parts": parts})
        return [example["idx"] for example in split_by_node(dataset, rank=rank, world_size=2)]

    with pytest.raises(ValueError, match="a dataset of Hugging Face .* reads as_torch"):
        read_part([train.as_torch()], rank=0)
    parts = [train.shard(i, 4) for i in range(4)]
    assert sorted(read_part(parts, rank=0) + read_part(parts, rank=1)) == expected
    everything = train.as_torch(rank=0, num_ranks=1)
    assert sorted(read_part([everything], rank=0) + read_part([everything], rank=1)) == expected
    with pytest.raises(datasets.exceptions.DatasetGenerationError) as error:  # it would store one rank's part for all
        datasets.Dataset.from_generator(chain, gen_kwargs={"parts": [train.as_torch()]}, cache_dir=str(tmp_path))
    assert "a dataset of Hugging Face" in str(error.value.__cause__)


def test_a_loader_with_workers_inside_of_a_generator(torch: Any, datasets: Any, train: Any) -> None:
    """Its workers divide nothing twice, though the library is on the stack of the process that starts them."""

    def generate() -> Iterator[dict[str, int]]:
        yield from ({"idx": number} for number in read(torch.utils.data.DataLoader(train.as_torch(), num_workers=2)))

    examples = datasets.IterableDataset.from_generator(generate)
    assert [example["idx"] for example in examples] == sorted(int(example["idx"]) for example in train)


def test_a_sharding_filter(torch: Any, train: Any) -> None:
    pipes = pytest.importorskip("torch.utils.data.datapipes.iter")

    def loader(*, is_sharded: bool) -> Any:
        pipe = pipes.IterableWrapper(train.as_torch(), deepcopy=False)
        return torch.utils.data.DataLoader(pipe.sharding_filter() if is_sharded else pipe, batch_size=4, num_workers=2)

    assert read(loader(is_sharded=False)) == sorted(int(example["idx"]) for example in train)
    with pytest.raises(ValueError, match=r"sharding_filter\(\) reads as_torch"):
        read(loader(is_sharded=True))
