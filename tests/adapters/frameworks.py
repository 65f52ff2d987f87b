"""Trains with a framework on one rank, as its users do, and writes which examples it got to FOLDER/RANK.json.

frameworks.py FRAMEWORK FOLDER, with the variables that torchrun sets.

`epochs` has the examples of each step of two epochs; `resumed` those of the second epoch after `DONE` of its steps, in
a run that was stopped there; `others` those of a run that goes on there on another number of ranks; `evaluated` those
that rank 0 reads alone. Lightning also trains on a stream: `stream` has the steps of each epoch, `resumed stream` those
after `DONE` steps, and `error` the error of a checkpoint with the state of rank 0 alone.
"""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import beam_datasets as bd

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "training.md"
DIRECTORY = Path(__file__).resolve().parents[1] / "data" / "tfds" / "spec_inter" / "1.2.3"
NUM_EXAMPLES, BATCH_SIZE, DONE = 201, 16, 3
NUM_RANKS = int(os.environ.get("WORLD_SIZE", "1"))
RANK = int(os.environ.get("RANK", "0"))

Steps = list[list[int]]


def train() -> Any:
    """Returns the training data: numbers alone, as Accelerate and JAX take no strings."""
    only = bd.decode.PartialDecoding({"idx": True})
    return bd.builder_from_directory(DIRECTORY).as_dataset(f"train[:{NUM_EXAMPLES}]", decoders=only).shuffle(seed=7)


def steps_of(batches: Iterable[Any]) -> Steps:
    return [[int(number) for number in batch["idx"]] for batch in batches]


def flat(steps: Steps) -> list[int]:
    return [number for step in steps for number in step]


def evaluated() -> list[int]:
    """Returns what rank 0 reads alone."""
    from torch.utils.data import DataLoader

    whole = train().batch(BATCH_SIZE).as_torch(rank=0, num_ranks=1)
    return flat(steps_of(DataLoader(whole, batch_size=None)))


def others() -> list[int]:
    """Returns what one rank gets that goes on where all ranks were in the second epoch."""
    from torch.utils.data import DataLoader

    dataset = train().batch(BATCH_SIZE + 1).as_torch(rank=0, num_ranks=1)
    dataset.load_state_dict(train().as_torch(epoch=1).state_after(examples=DONE * BATCH_SIZE * NUM_RANKS))
    return flat(steps_of(DataLoader(dataset, batch_size=None)))


def batches_of_torch() -> Any:
    return train().batch(BATCH_SIZE).as_torch(even="pad")


def torch_loop(num_workers: int = 1, datasets: Iterable[Any] = ()) -> dict[str, Any]:
    """A loop with DistributedDataParallel, which hangs if ranks take different numbers of steps.

    Its loaders read the datasets that are passed, which another process made, and else those that this rank makes.
    """
    import torch
    from torch.nn.parallel import DistributedDataParallel
    from torchdata.stateful_dataloader import StatefulDataLoader

    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(1, 1))

    passed = iter(datasets)

    def loader() -> Any:
        dataset = next(passed, None)
        dataset = batches_of_torch() if dataset is None else dataset
        return StatefulDataLoader(dataset, batch_size=None, num_workers=num_workers)

    def trained(batches: Any) -> Steps:
        steps = []
        for batch in batches:
            model(batch["idx"].float()[:, None]).sum().backward()
            steps += steps_of([batch])
            if len(steps) == DONE and stop:
                break
        return steps

    batches, stop = loader(), False
    found: dict[str, Any] = {"epochs": [trained(batches) for _ in range(2)]}
    batches = loader()
    trained(batches)
    stop = True
    trained(batches)
    state, stop, batches = batches.state_dict(), False, loader()
    batches.load_state_dict(state)
    found |= {"resumed": trained(batches), "others": others(), "evaluated": evaluated()}
    torch.distributed.destroy_process_group()
    return found


def spawned(rank: int, folder: str, datasets: list[Any]) -> None:
    """Is a process of torch.multiprocessing.spawn, without the variables of torchrun, which gets datasets."""
    import torch

    global RANK, NUM_RANKS
    RANK, NUM_RANKS = rank, 2
    store = f"file://{folder}/store"
    torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=NUM_RANKS)
    write(Path(folder), torch_loop(num_workers=0, datasets=datasets))


def functions_of_page() -> list[Any]:
    """Returns the functions on docs/how-to/training.md by which Lightning saves the states of all ranks."""
    import torch

    names = ["on_save_checkpoint", "on_load_checkpoint"]
    [block] = [
        block for block in re.findall(r"```py\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL) if names[0] in block
    ]
    defined: dict[str, Any] = {"torch": torch}
    exec(block, defined)
    return [defined[name] for name in names]


def lightning() -> dict[str, Any]:
    """Trainer of Lightning with ddp, which saves the state of the loader of rank 0."""
    import lightning
    import torch
    from torchdata.stateful_dataloader import StatefulDataLoader

    checkpoint = Path(sys.argv[2]) / "lightning.ckpt"

    class Model(lightning.LightningModule):
        def __init__(self, saved_epoch: int | None) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.steps: dict[int, Steps] = {0: [], 1: []}
            self.saved_epoch = saved_epoch

        def training_step(self, batch: Any, index: int) -> Any:
            self.steps[self.current_epoch] += steps_of([batch])
            return self.layer(batch["idx"].float()[:, None]).sum()

        def on_train_batch_end(self, *_: Any) -> None:
            if len(self.steps.get(self.saved_epoch, [])) == DONE:  # on all ranks: each waits for the others
                self.trainer.save_checkpoint(checkpoint)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 1e-9)

    class SavingAllStates(Model):
        on_save_checkpoint, on_load_checkpoint = functions_of_page()

    def trained(model: Any, dataset: Any, path: Path | None = None, **options: Any) -> Any:
        quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
        loader = StatefulDataLoader(dataset.as_torch(**options), batch_size=None)
        trainer = lightning.Trainer(
            accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, limit_train_batches=7, **quiet
        )
        trainer.fit(model, loader, ckpt_path=path, weights_only=False)
        return model.steps

    whole = trained(Model(1), train().batch(BATCH_SIZE), even="pad")
    resumed = trained(Model(None), train().batch(BATCH_SIZE), checkpoint, even="pad")
    found = {"epochs": [whole[0], whole[1]], "resumed": resumed[1], "others": others(), "evaluated": evaluated()}
    stream = train().filter(lambda example: int(example["idx"]) % 3 > 0).batch(4)
    found["stream"] = trained(SavingAllStates(0), stream)
    found["resumed stream"] = trained(SavingAllStates(None), stream, checkpoint)
    trained(Model(0), stream)
    try:
        trained(Model(None), stream, checkpoint)
    except RuntimeError as error:  # one of Lightning
        found["error"] = str(error.__context__)
    return found


def transformers() -> dict[str, Any]:
    """Trainer of Hugging Face, which divides the examples by Accelerate, and skips those of a stopped run."""
    import torch
    from transformers import Trainer, TrainingArguments

    folder = Path(sys.argv[2]) / "trainer"

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.steps: Steps = []

        def forward(self, idx: Any) -> Any:
            self.steps += steps_of([{"idx": idx}])
            return {"loss": self.layer(idx.float()[:, None]).sum()}

    def trained(resume: str | None) -> Steps:
        arguments = TrainingArguments(
            str(folder),
            per_device_train_batch_size=BATCH_SIZE,
            num_train_epochs=2,
            save_steps=7 + DONE,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            logging_strategy="no",
        )
        model = Model()
        Trainer(model, arguments, train_dataset=train().as_torch(block=BATCH_SIZE)).train(resume_from_checkpoint=resume)
        return model.steps

    steps = trained(None)
    resumed = trained(str(folder / f"checkpoint-{7 + DONE}"))
    return {"epochs": [steps[:7], steps[7:]], "resumed": resumed, "others": others(), "evaluated": evaluated()}


def accelerate(*, dispatch: bool) -> dict[str, Any]:
    """A loop with Accelerate, which divides the examples, or dispatches batches that rank 0 reads."""
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration
    from torch.utils.data import DataLoader

    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=dispatch))

    def loader(dataset: Any) -> Any:
        return accelerator.prepare(DataLoader(dataset, batch_size=BATCH_SIZE))

    batches = loader(train().as_torch(block=BATCH_SIZE))
    epochs = [steps_of(batches) for _ in range(2)]
    dataset = train().as_torch(block=BATCH_SIZE)
    dataset.load_state_dict(train().as_torch(epoch=1).state_after(examples=DONE * BATCH_SIZE * NUM_RANKS))
    return {"epochs": epochs, "resumed": steps_of(loader(dataset)), "others": others(), "evaluated": evaluated()}


def jax() -> dict[str, Any]:
    """Two processes with two devices each, which put global batches on all of them."""
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{os.environ['MASTER_PORT']}", NUM_RANKS, RANK)
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    assert jax.device_count() == 4
    total = jax.jit(lambda array: array.sum())

    def trained(batches: Any) -> Steps:
        steps = []
        for batch in batches:
            total(batch["idx"]).block_until_ready()
            assert len(batch["idx"]) == BATCH_SIZE * NUM_RANKS
            parts = sorted(batch["idx"].addressable_shards, key=lambda part: part.index[0].start)
            steps.append([int(number) for part in parts for number in part.data])
        return steps

    part = train().shard(jax.process_index(), jax.process_count(), even="pad")
    mine, same = (part.batch(BATCH_SIZE).as_jax(device=sharding) for _ in range(2))
    for batch, array in zip(part.batch(BATCH_SIZE), same, strict=True):  # by JAX's own function
        made = jax.make_array_from_process_local_data(sharding, batch["idx"])
        assert made.shape == (BATCH_SIZE * NUM_RANKS,)
        assert all((a.data == b.data).all() for a, b in zip(made.addressable_shards, array["idx"].addressable_shards))
    epochs = [trained(mine) for _ in range(2)]
    stopped = mine.iterate(epoch=1)
    for _ in range(DONE):
        next(stopped)
    state = stopped.get_state()
    alone = flat(steps_of(train().batch(BATCH_SIZE + 1).iterate(state=state)))
    everything = flat(steps_of(train().batch(BATCH_SIZE)))
    return {"epochs": epochs, "resumed": trained(mine.iterate(state=state)), "others": alone, "evaluated": everything}


def keras() -> dict[str, Any]:
    """`fit` of Keras on tf.data, in one process."""
    import keras
    import numpy as np

    class Model(keras.Sequential):
        steps: Steps = []  # noqa: RUF012

        def train_step(self, data: Any) -> Any:
            Model.steps += steps_of([{"idx": np.ravel(data[0])}])
            return super().train_step(data)

    pairs = train().map(lambda example: (np.float32([example["idx"]]), np.float32([0])))

    def trained(dataset: Any, **options: Any) -> Steps:
        Model.steps = []
        model = Model([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", run_eagerly=True)
        model.fit(dataset, verbose=0, **options)
        return Model.steps

    steps = trained(pairs.batch(BATCH_SIZE).as_tf_dataset(), epochs=2)
    stopped = pairs.batch(BATCH_SIZE).iterate(epoch=1)
    stopped.advance(DONE)
    endless = pairs.batch(BATCH_SIZE).as_tf_dataset(state=stopped.get_state())
    return {"epochs": [steps[:13], steps[13:]], "resumed": trained(endless, epochs=1)}


def grain() -> dict[str, Any]:
    """Grain, which shuffles, divides and saves checkpoints itself, in one process."""
    import grain

    def batches() -> Any:
        only = bd.builder_from_directory(DIRECTORY).as_dataset(f"train[:{NUM_EXAMPLES}]")
        examples = grain.MapDataset.source(only.map(lambda example: {"idx": example["idx"]}).as_grain_source())
        epochs = [examples.shuffle(seed=epoch).batch(BATCH_SIZE) for epoch in range(2)]
        return grain.MapDataset.concatenate(epochs).to_iter_dataset()

    steps = steps_of(batches())
    stopped = iter(batches())
    for _ in range(13 + DONE):
        next(stopped)
    later = iter(batches())
    later.set_state(stopped.get_state())
    return {"epochs": [steps[:13], steps[13:]], "resumed": steps_of(later)}


FRAMEWORKS = {
    "torchrun": torch_loop,
    "lightning": lightning,
    "transformers": transformers,
    "accelerate": lambda: accelerate(dispatch=False),
    "accelerate, dispatching": lambda: accelerate(dispatch=True),
    "jax": jax,
    "keras": keras,
    "grain": grain,
}


def write(folder: Path, found: dict[str, Any]) -> None:
    (folder / f"{RANK}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1] == "spawn":
        import torch

        torch.multiprocessing.spawn(spawned, (sys.argv[2], [batches_of_torch() for _ in range(3)]), nprocs=2)
    else:
        write(Path(sys.argv[2]), FRAMEWORKS[sys.argv[1]]())
        distributed = sys.modules.get("torch.distributed")
        if distributed and distributed.is_initialized():
            os._exit(0)  # while the interpreter ends, a thread of gloo may abort the process (pytorch/pytorch#179291)
