"""Reads a dataset in one of two processes, in a way that frameworks do; writes what it got to a file.

read_on_a_rank.py WAY FOLDER NUM_WORKERS RANK
"""

from __future__ import annotations

import copy
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


def keep(example: Any) -> bool:
    return True


def made(batch_size: int | None = None, way: str = "") -> Any:
    train = bd.builder_from_directory(DIRECTORY).as_dataset("train").shuffle(seed=7).map(ids_alone)
    if "of 20" in way:
        train = train.take(20)
    if "filter" in way:
        return train.filter(keep).as_torch()
    if "dispatch" in way:
        return train.as_torch(block=3 if "block" in way else None)
    return train.as_torch(block=4) if batch_size is None else train.batch(batch_size).as_torch()


def started(rank: int, dataset: Any, folder: str, num_workers: int) -> None:
    """Reads two epochs of a dataset that was made before there were ranks."""
    import torch
    from torch.utils.data import DataLoader

    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD_SIZE)
    loader = DataLoader(dataset, batch_size=4, num_workers=num_workers, persistent_workers=num_workers > 0)
    save(folder, rank, [batch for _ in range(2) for batch in loader])
    torch.distributed.destroy_process_group()


def accelerated(rank: int, folder: str, num_workers: int, way: str) -> None:
    """Reads by Accelerate, which divides iterable datasets itself.

    With "stateful", a second loader goes on from the state of the first one after two steps.
    """
    import torch
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration
    from torch.utils.data import DataLoader

    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(WORLD_SIZE)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "ACCELERATE_USE_CPU": "true"}
    is_stateful, is_split, batch_size = "stateful" in way, "split" in way, 8 if "split" in way else 4
    config = DataLoaderConfiguration(
        dispatch_batches={"shard": False, "shard, spawned": False, "default": None}.get(way, True),
        even_batches=False,
        use_stateful_dataloader=is_stateful,
        split_batches=is_split,
    )
    accelerator = Accelerator(cpu=True, dataloader_config=config)

    def loader() -> Any:
        if way == "batches":
            return accelerator.prepare(DataLoader(made(batch_size=4), batch_size=None, num_workers=num_workers))
        context = "spawn" if "spawned" in way else None
        options = {"batch_size": batch_size, "num_workers": num_workers, "multiprocessing_context": context}
        return accelerator.prepare(DataLoader(made(way=way), **options))

    batches = loader()
    if not is_stateful:
        save(folder, rank, batches)
    else:
        before = [batch for _, batch in zip(range(2), batches)]
        state = copy.deepcopy(batches.state_dict())
        batches = loader()
        batches.load_state_dict(state)
        save(folder, rank, [*before, *batches])
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
        accelerated(rank, folder, num_workers, way)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
