"""Reads a dataset in one of two processes, in a way that frameworks do; writes what it got to a file.

read_on_a_rank.py WAY FOLDER NUM_WORKERS RANK
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import beam_datasets as bd

WORLD_SIZE = 2
DIRECTORY = Path(__file__).resolve().parents[1] / "data" / "tfds" / "spec_three" / "1.2.3"


def ids_alone(example: dict[str, Any]) -> dict[str, Any]:
    """Returns an example without its strings, which Accelerate does not take."""
    return {"idx": example["idx"]}


def made() -> Any:
    train = bd.builder_from_directory(DIRECTORY).as_dataset("train").shuffle(seed=7)
    return train.map(ids_alone).as_torch(block=4)


def started(rank: int, dataset: Any, folder: str, num_workers: int) -> None:
    """Reads two epochs of a dataset that was made before there were ranks."""
    import torch
    from torch.utils.data import DataLoader

    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD_SIZE)
    loader = DataLoader(dataset, batch_size=4, num_workers=num_workers, persistent_workers=num_workers > 0)
    save(folder, rank, [batch for _ in range(2) for batch in loader])
    torch.distributed.destroy_process_group()


def accelerated(rank: int, folder: str, num_workers: int, dispatch: bool | None) -> None:
    """Reads by Accelerate, which divides iterable datasets itself."""
    import torch
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration
    from torch.utils.data import DataLoader

    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(WORLD_SIZE)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "ACCELERATE_USE_CPU": "true"}
    config = DataLoaderConfiguration(dispatch_batches=dispatch, even_batches=False)
    accelerator = Accelerator(cpu=True, dataloader_config=config)
    loader = accelerator.prepare(DataLoader(made(), batch_size=4, num_workers=num_workers))
    save(folder, rank, loader)
    torch.distributed.destroy_process_group()


def save(folder: str, rank: int, loader: Any) -> None:
    ids = [int(number) for batch in loader for number in batch["idx"]]
    Path(folder, f"ids{rank}").write_text(repr(ids))


def main(way: str, folder: str, num_workers: int, rank: int) -> None:
    if way in ("spawn", "fork"):
        import torch

        arguments = (made(), folder, num_workers)
        torch.multiprocessing.start_processes(started, arguments, nprocs=WORLD_SIZE, start_method=way)
    else:
        accelerated(rank, folder, num_workers, {"dispatch": True, "shard": False, "default": None}[way])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
