"""Reads all forms of a dataset on two ranks of torch.multiprocessing.spawn, which get the datasets of their parent.

read_forms_on_ranks.py FOLDER writes {form: [batches of an epoch, ...]} to FOLDER/RANK.json.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import beam_datasets as bd

DIRECTORY = Path(__file__).resolve().parents[1] / "data" / "tfds" / "spec_inter" / "1.2.3"
NUM_EXAMPLES, BATCH_SIZE, NUM_RANKS = 201, 16, 2
EVEN = (None, "drop", "pad")


def keep(example: Any) -> bool:
    return True


def forms() -> dict[str, Any]:
    """Returns the datasets by their form; the batched ones have "batched" in its name."""
    only = bd.decode.PartialDecoding({"idx": True})
    plain = bd.builder_from_directory(DIRECTORY).as_dataset(f"train[:{NUM_EXAMPLES}]", decoders=only)
    train = plain.shuffle(seed=7)
    datasets: dict[str, Any] = {
        "stream, None": train.filter(keep).as_torch(),
        "stream, batched, None": train.filter(keep).batch(BATCH_SIZE).as_torch(),
    }
    for even in EVEN:
        block = BATCH_SIZE if even else None
        datasets[f"iterable, {even}"] = train.as_torch(block=BATCH_SIZE, even=even)
        datasets[f"iterable, batched, {even}"] = train.batch(BATCH_SIZE).as_torch(even=even)
        datasets[f"map style, {even}"] = plain.as_torch(map_style=True, block=block, even=even)
    return datasets


def epochs_of(form: str, dataset: Any) -> list[list[list[int]]]:
    """Returns the batches of two epochs of a rank, as ids."""
    from torch.utils.data import DataLoader, DistributedSampler

    sampler = DistributedSampler(dataset) if form.startswith("map style") else None
    batch_size = None if "batched" in form else BATCH_SIZE
    loader = DataLoader(dataset, batch_size=batch_size, sampler=sampler)
    epochs = []
    for epoch in range(2):
        if sampler is not None:
            sampler.set_epoch(epoch)
        epochs.append([batch["idx"].tolist() for batch in loader])
        if "stream" not in form:
            assert len(loader) == len(epochs[-1])
    return epochs


def read(rank: int, folder: str, datasets: dict[str, Any]) -> None:
    """Reads the datasets on one rank, and writes what it got."""
    import torch

    warnings.simplefilter("ignore")
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=NUM_RANKS)
    epochs = {form: epochs_of(form, dataset) for form, dataset in datasets.items()}
    Path(folder, f"{rank}.json").write_text(json.dumps(epochs))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    import torch

    torch.multiprocessing.spawn(read, (sys.argv[1], forms()), nprocs=NUM_RANKS)
