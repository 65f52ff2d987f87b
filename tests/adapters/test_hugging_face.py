"""Runs of Hugging Face's Trainer and Accelerate that resume, or the warning that they repeat examples then."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

import beam_datasets as bd
from beam_datasets.adapters import torch_loader_checks
from tests.adapters.conftest import needed

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the frameworks are not ours to mend
NUM_STEPS = 16


def keep(example: Any) -> bool:
    return int(example["idx"]) % 3 != 0


def ids_alone(example: Any) -> dict[str, Any]:
    return {"idx": example["idx"]}


@pytest.mark.parametrize(
    "kind, is_resumed",
    [("stream", False), ("endless stream", True), ("mixture", False), ("endless mixture", True)],
)
def test_a_stream_that_trainer_resumes_after_its_first_pass(
    torch: Any, three: Any, tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch, kind: str, is_resumed: bool
) -> None:
    """With `repeat()` it goes on with the next examples; without it, a warning says so."""
    transformers = needed("transformers")
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    stream = three.as_dataset("train").map(ids_alone).shuffle(seed=7).filter(keep)
    if "mixture" in kind:
        stream = bd.mix([stream, stream], weights=[0.5, 0.5], seed=1, stop="never" if "endless" in kind else "first")
    elif "endless" in kind:
        stream = stream.repeat()

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.steps: list[list[int]] = []

        def forward(self, idx: Any) -> Any:
            self.steps.append(idx.tolist())
            return {"loss": self.layer(idx.float()[:, None]).sum()}

    def train(checkpoint: str | None) -> list[list[int]]:
        arguments = transformers.TrainingArguments(
            str(tmp_path),
            per_device_train_batch_size=8,
            max_steps=NUM_STEPS,
            save_steps=7,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            logging_strategy="no",
        )
        model = Model()
        transformers.Trainer(model, arguments, train_dataset=stream.as_torch()).train(resume_from_checkpoint=checkpoint)
        return model.steps

    steps, rest = train(None), train(str(tmp_path / "checkpoint-7"))
    assert len(steps) == NUM_STEPS
    assert (rest == steps[7:]) == is_resumed
    assert ("Call repeat() on the stream" in caplog.text) == (not is_resumed)


def test_a_dataset_in_batches_under_trainer(
    torch: Any, three: Any, tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The advice is an argument of Trainer, which makes the DataLoader."""
    transformers = needed("transformers")
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    train = three.as_dataset("train[:20]").map(ids_alone)

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.shapes: list[tuple[int, ...]] = []

        def forward(self, idx: Any) -> Any:
            self.shapes.append(tuple(idx.shape))
            return {"loss": self.layer(torch.ones(1, 1)).sum()}

    def train_on(dataset: Any, batch_size: int) -> list[tuple[int, ...]]:
        options = {"max_steps": 2, "use_cpu": True, "report_to": [], "disable_tqdm": True, "save_strategy": "no"}
        arguments = transformers.TrainingArguments(
            str(tmp_path), per_device_train_batch_size=batch_size, remove_unused_columns=False, **options
        )
        transformers.Trainer(model := Model(), arguments, train_dataset=dataset.as_torch()).train()
        return model.shapes

    with pytest.raises(
        ValueError, match=r"Leave batch\(\) out, and give Trainer the number: per_device_train_batch_size"
    ):
        train_on(train.batch(4), batch_size=1)
    assert train_on(train.batch(4), batch_size=2) == [(2, 4)] * 2
    assert "Leave batch() out, and give Trainer the number" in caplog.text
    assert train_on(train, batch_size=4) == [(4,)] * 2


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_state_of_a_loader_that_accelerate_divides(
    torch: Any, torchdata: Any, three: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any, num_workers: int
) -> None:
    """It fits the epoch that the user sets, as the warning says."""
    accelerate = needed("accelerate.data_loader")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    train = three.as_dataset("train").map(ids_alone).shuffle(seed=7)

    def loader() -> Any:
        shard = accelerate.IterableDatasetShard(train.as_torch(), 4, num_processes=2)
        return torchdata.StatefulDataLoader(shard, batch_size=4, num_workers=num_workers)

    def read(batches: Any) -> list[list[int]]:
        return [batch["idx"].tolist() for batch in batches]

    batches = loader()
    read(batches)
    iterator = iter(batches)
    next(iterator)
    state, expected = copy.deepcopy(batches.state_dict()), read(iterator)
    for epoch in (0, 1):
        batches = loader()
        batches.dataset.set_epoch(epoch)
        batches.load_state_dict(state)
        assert (read(batches) == expected) == (epoch == 1)
    if num_workers == 0:  # workers log in their own processes
        assert "call set_epoch() of the loader" in caplog.text


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("is_set", [False, True])
def test_epochs_of_accelerate_after_a_loaded_state(
    torch: Any, three: Any, monkeypatch: pytest.MonkeyPatch, num_workers: int, is_set: bool
) -> None:
    """Its loader sets the epoch before each pass, and counts from 0 in a run that resumes."""
    accelerate = needed("accelerate")
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    train = three.as_dataset("train").map(ids_alone).shuffle(seed=7)
    dataset = train.as_torch(block=4)
    dataset.load_state_dict(train.as_torch(epoch=2).state_after(examples=8))
    loader = torch.utils.data.DataLoader(dataset, batch_size=4, num_workers=num_workers)
    prepared = accelerate.Accelerator(cpu=True).prepare(loader)
    if is_set:
        prepared.set_epoch(2)
    epochs = [[number for batch in prepared for number in batch["idx"].tolist()] for _ in range(3)]
    expected = [[int(example["idx"]) for example in train.iterate(epoch=epoch)] for epoch in (2, 3, 4)]
    assert epochs == [expected[0][8:], *expected[1:]]


@pytest.mark.parametrize("way", ["random seed", "set_seed", "data_seed", "one rank"])
def test_a_sampler_of_accelerate_with_a_seed_of_its_own(
    torch: Any, three: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any, way: str
) -> None:
    """Ranks have different orders then, also of a list; a warning says so."""
    sampler_class = needed("accelerate.data_loader").SeedableRandomSampler
    monkeypatch.setenv("WORLD_SIZE", "1" if way == "one rank" else "2")
    monkeypatch.setenv("RANK", "0")
    torch_loader_checks._warn_once.cache_clear()
    dataset = three.as_dataset("train").as_torch(map_style=True)

    def order_of(data: Any, process: int) -> list[int]:
        torch.manual_seed(7 if way == "set_seed" else (1 << 40) + process)  # PyTorch draws one of 64 bits at the start
        return list(sampler_class(data, data_seed=3 if way == "data_seed" else None))

    is_random = way in ("random seed", "one rank")
    assert (order_of(dataset, 0) == order_of(dataset, 1)) == (not is_random)
    assert order_of(dataset, 0) == order_of([*range(len(dataset))], 0)
    assert ("has a random seed, another one on each of 2 ranks" in caplog.text) == (way == "random seed")


def test_trainer_that_ignores_the_skipped_data_starts_the_epoch_again(
    torch: Any, three: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/how-to/training.md says: the last steps are left out."""
    transformers = needed("transformers")
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    dataset = three.as_dataset("train").map(ids_alone).shuffle(seed=7)
    steps: list[list[int]] = []

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def forward(self, idx: Any) -> Any:
            steps.append(idx.tolist())
            return {"loss": self.layer(idx.float()[:, None]).sum()}

    def train(checkpoint: str | None, **options: Any) -> list[list[int]]:
        steps.clear()
        arguments = transformers.TrainingArguments(
            str(tmp_path),
            per_device_train_batch_size=8,
            num_train_epochs=2,
            save_steps=2,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            logging_strategy="no",
            **options,
        )
        torch_dataset = dataset.as_torch(block=8)
        transformers.Trainer(Model(), arguments, train_dataset=torch_dataset).train(resume_from_checkpoint=checkpoint)
        return list(steps)

    whole, checkpoint = train(None), str(tmp_path / "checkpoint-2")
    assert len(whole) == 6  # of three steps in each epoch
    assert train(checkpoint) == whole[2:]
    assert train(checkpoint, ignore_data_skip=True) == whole[:-2]
