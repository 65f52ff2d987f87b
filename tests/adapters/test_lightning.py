"""Lightning, restarted from checkpoints of any step: the epochs that it trains on, and what it warns of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.adapters.conftest import ids, needed

pytestmark = pytest.mark.filterwarnings("ignore")
NUM_STEPS = 6  # of an epoch of 23 examples in batches of 4


@pytest.fixture
def fit(torchdata: Any, tmp_path: Path) -> Any:
    """Returns the function that trains, and returns (epoch, ids of the batch) of each step."""
    lightning = needed("lightning")
    needed("lightning.pytorch.callbacks")

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            import torch

            self.layer = torch.nn.Linear(1, 1)
            self.steps: list[tuple[int, Any]] = []

        @staticmethod
        def ids(batch: Any) -> Any:
            return batch["idx"].tolist()

        def training_step(self, batch: Any, index: int) -> Any:
            import torch

            self.steps.append((self.current_epoch, self.ids(batch)))
            return self.layer(torch.ones(1, 1)).sum()

        def configure_optimizers(self) -> Any:
            import torch

            return torch.optim.SGD(self.parameters(), 1e-9)

    def fit(loader: Any, checkpoint: str | None = None, every: int | None = None, **options: Any) -> Any:
        saving = lightning.pytorch.callbacks.ModelCheckpoint(
            tmp_path, filename="{step}", save_top_k=-1, every_n_train_steps=every
        )
        quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
        trainer = lightning.Trainer(accelerator="cpu", devices=1, callbacks=[saving], **quiet, **options)
        path = None if checkpoint is None else tmp_path / checkpoint
        trainer.fit(model := Model(), loader, ckpt_path=path, weights_only=False)
        return model.steps

    fit.model = Model  # type: ignore[attr-defined]
    return fit


@pytest.fixture
def train(three: Any) -> Any:
    return three.as_dataset("train").shuffle(seed=11)


def steps_of_epochs(train: Any, *epochs: int) -> list[tuple[int, list[int]]]:
    return [(epoch, batch) for epoch in epochs for batch in ids(train.batch(4).iterate(epoch=epoch))]


def loader_of(torchdata: Any, dataset: Any, kind: str) -> Any:
    from torch.utils.data import DataLoader

    options: dict[str, Any] = (
        {"num_workers": 2, "persistent_workers": "persistent" in kind} if "workers" in kind else {}
    )
    return (torchdata.StatefulDataLoader if "stateful" in kind else DataLoader)(dataset, batch_size=None, **options)


@pytest.mark.parametrize("kind", ["plain", "stateful", "stateful, workers", "plain, persistent workers"])
def test_a_run_that_is_restarted_after_an_epoch_trains_on_the_next(
    torchdata: Any, train: Any, fit: Any, kind: str
) -> None:
    whole = fit(loader_of(torchdata, train.batch(4).as_torch(), kind), max_epochs=2)
    assert whole == steps_of_epochs(train, 0, 1)
    for epoch in (1, 2):
        loader = loader_of(torchdata, train.batch(4).as_torch(), kind)
        resumed = fit(loader, f"step={epoch * NUM_STEPS}.ckpt", max_epochs=4)
        assert resumed == steps_of_epochs(train, *range(epoch, 4))


@pytest.mark.parametrize("kind", ["plain", "stateful"])
def test_a_run_of_a_number_of_steps_that_is_restarted_after_an_epoch(
    torchdata: Any, train: Any, fit: Any, kind: str
) -> None:
    """Lightning trains on a batch of the epoch before, if it has no state of the loader."""
    fit(loader_of(torchdata, train.batch(4).as_torch(), kind), max_steps=NUM_STEPS + 1)
    resumed = fit(loader_of(torchdata, train.batch(4).as_torch(), kind), f"step={NUM_STEPS}.ckpt", max_steps=15)
    assert [step for step in resumed if step[0]] == steps_of_epochs(train, 1, 2)[: len(resumed) - (kind == "plain")]


def test_a_loader_that_begins_with_the_epoch_of_the_trainer(torchdata: Any, train: Any, fit: Any) -> None:
    fit(loader_of(torchdata, train.batch(4).as_torch(), "stateful"), max_epochs=1)
    loader = loader_of(torchdata, train.batch(4).as_torch(epoch=1), "stateful")
    assert fit(loader, f"step={NUM_STEPS}.ckpt", max_epochs=2) == steps_of_epochs(train, 1)


@pytest.mark.parametrize("kind", ["stateful", "stateful, workers"])
def test_a_run_that_is_restarted_in_an_epoch(torchdata: Any, train: Any, fit: Any, kind: str) -> None:
    whole = fit(loader_of(torchdata, train.batch(4).as_torch(), kind), every=8, max_epochs=3)
    for step in (8, 16):
        loader = loader_of(torchdata, train.batch(4).as_torch(), kind)
        assert fit(loader, f"step={step}.ckpt", max_epochs=3) == whole[step:]


@pytest.mark.parametrize("kind", ["plain", "combined", "map-style", "stateful"])
def test_a_run_that_is_restarted_in_an_epoch_without_a_state(
    torchdata: Any, three: Any, train: Any, fit: Any, caplog: Any, kind: str
) -> None:
    """Lightning trains on the first batches again, as it does with lists; a warning says what to use."""
    from torch.utils.data import DataLoader

    combined = needed("lightning.pytorch.utilities").CombinedLoader

    def loader(*, is_list: bool = False) -> Any:
        if kind == "map-style":
            dataset = three.as_dataset("train").as_torch(map_style=True)
            return DataLoader([dataset[i] for i in range(len(dataset))] if is_list else dataset, batch_size=4)
        batches = list(train.batch(4)) if is_list else train.batch(4).as_torch()
        if kind == "combined":
            return combined([DataLoader(batches, batch_size=None) for _ in range(2)], "min_size")
        return (torchdata.StatefulDataLoader if kind == "stateful" else DataLoader)(batches, batch_size=None)

    if kind == "combined":
        fit.model.ids = staticmethod(lambda batch: batch[0]["idx"].tolist())
    fit(loader(), every=4, max_epochs=1)
    assert "the checkpoint was saved in the middle of epoch" not in caplog.text
    resumed = fit(loader(), "step=4.ckpt", max_epochs=1)
    assert ("the checkpoint was saved in the middle of epoch 0" in caplog.text) == (kind != "stateful")
    if kind != "stateful":
        assert resumed == fit(loader(is_list=True), "step=4.ckpt", max_epochs=1)


@pytest.mark.parametrize("kind", ["stateful", "stateful, workers"])
def test_loaders_that_are_made_anew(torchdata: Any, train: Any, fit: Any, kind: str) -> None:
    """Lightning begins a pass over each new loader that it does not train on; a run that resumes has the same order."""

    class Data(needed("lightning").LightningDataModule):  # type: ignore[misc]
        def train_dataloader(self) -> Any:
            return loader_of(torchdata, train.batch(4).as_torch(), kind)

    options = {"max_epochs": 3, "reload_dataloaders_every_n_epochs": 2}
    whole = fit(Data(), every=8, **options)
    assert whole == steps_of_epochs(train, 0, 1, 2)
    assert fit(Data(), "step=8.ckpt", **options) == whole[8:]


@pytest.mark.parametrize("form", ["stream", "endless"])
def test_a_loader_without_a_length(torchdata: Any, train: Any, fit: Any, form: str, caplog: Any) -> None:
    """Lightning reads ahead of it, unless a limit is given: a warning says so, and the limit helps."""
    unsized = train.filter(lambda example: True).batch(4) if form == "stream" else train.batch(4).repeat()

    def loader() -> Any:
        return loader_of(torchdata, unsized.as_torch(), "stateful")

    def is_warned() -> bool:
        return "Lightning reads a batch ahead of a loader without a length" in caplog.text

    whole = fit(loader(), every=2, max_steps=5)
    assert is_warned()
    assert fit(loader(), "step=2.ckpt", max_steps=4) == whole[3:5]  # without one
    caplog.clear()
    whole = fit(loader(), every=3, max_steps=5, limit_train_batches=NUM_STEPS)
    assert fit(loader(), "step=3.ckpt", max_steps=5, limit_train_batches=NUM_STEPS) == whole[3:5]
    assert not is_warned()


@pytest.mark.parametrize("kind", ["plain", "stateful"])
def test_a_checkpoint_of_the_last_batch_of_an_epoch(
    torchdata: Any, train: Any, fit: Any, kind: str, caplog: Any
) -> None:
    """Lightning trains on what is left of the epoch in the next one if it restores the loader; a warning says so."""
    warning = "before its end, so Lightning trains in epoch 1 on what is left of epoch 0: on no batch, or"

    def resumed(limit: int) -> Any:
        options = {"limit_train_batches": limit}
        fit(loader_of(torchdata, train.batch(4).as_torch(), kind), every=limit, max_epochs=1, **options)
        caplog.clear()
        steps = fit(
            loader_of(torchdata, train.batch(4).as_torch(), kind), f"step={limit}.ckpt", max_epochs=3, **options
        )
        assert (warning in caplog.text) == (kind == "stateful")
        return steps

    assert resumed(NUM_STEPS) == steps_of_epochs(train, *((1, 2) if kind == "plain" else (2,)))
    left = [(1, batch) for _, batch in steps_of_epochs(train, 0)[4:]]
    second, third = steps_of_epochs(train, 1)[:4], steps_of_epochs(train, 2)[:4]
    assert resumed(4) == (second if kind == "plain" else left) + third


@pytest.mark.parametrize("kind", ["stateful", "stateful, workers", "stateful, persistent workers", "stateful, stream"])
def test_a_run_that_is_restarted_after_the_shorter_of_two_loaders_has_ended(
    torchdata: Any, three: Any, train: Any, fit: Any, kind: str
) -> None:
    """With `max_size`, the shorter loader gives None until the end of the epoch, also after two restarts."""
    combined = needed("lightning.pytorch.utilities").CombinedLoader
    short = three.as_dataset("train[:8]").shuffle(seed=3)
    if "stream" in kind:
        short = short.filter(lambda example: True)

    def loaders() -> Any:
        longer = loader_of(torchdata, train.batch(4).as_torch(), "stateful")
        return combined({"longer": longer, "short": loader_of(torchdata, short.batch(4).as_torch(), kind)}, "max_size")

    def ids_of_both(batch: Any) -> Any:
        return [None if part is None else part["idx"].tolist() for part in (batch["longer"], batch["short"])]

    fit.model.ids = staticmethod(ids_of_both)
    options = {"max_epochs": 2, "limit_train_batches": NUM_STEPS}  # the limit for the stream
    whole = fit(loaders(), every=3, **options)
    assert [short is None for _, (_, short) in whole] == [False, False, *[True] * 4] * 2
    assert [step for _, (step, _) in whole] == [batch for _, batch in steps_of_epochs(train, 0, 1)]
    assert fit(loaders(), "step=3.ckpt", every=4, **options) == whole[3:]
    assert fit(loaders(), "step=4.ckpt", **options) == whole[4:]


def test_other_loaders_in_a_loop_of_lightning(torchdata: Any, train: Any) -> None:
    """Only the loaders of the loop have its epoch: not those of validation, or of the user's functions."""
    lightning = needed("lightning")
    import torch

    other, validation = train.batch(4).as_torch(), train.batch(4).as_torch()
    begun: dict[str, list[int]] = {"other": [], "validation": []}

    class Model(lightning.LightningModule):
        def training_step(self, batch: Any, index: int) -> Any:
            if not index:
                begun["other"].append(next(iter(other))["idx"].tolist())
            return torch.zeros((), requires_grad=True) + 0

        def validation_step(self, batch: Any, index: int) -> None:
            if not index:
                begun["validation"].append(batch["idx"].tolist())

        def configure_optimizers(self) -> None:
            return None

    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = lightning.Trainer(accelerator="cpu", devices=1, max_epochs=3, num_sanity_val_steps=0, **quiet)
    trainer.fit_loop.epoch_progress.current.processed = trainer.fit_loop.epoch_progress.current.completed = 1
    loaders = [torch.utils.data.DataLoader(data, batch_size=None) for data in (train.batch(4).as_torch(), validation)]
    trainer.fit(Model(), *loaders)
    expected = [ids(train.batch(4).iterate(epoch=epoch))[0] for epoch in range(2)]
    assert begun == {"other": expected, "validation": expected}
