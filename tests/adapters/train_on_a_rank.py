"""What each process of `test_processes_that_train_together` does; the launcher's variables say which one it is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import beam_datasets as bd


def main(folder: Path) -> None:
    import torch
    from torch import distributed

    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = f"file://{folder}/store"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=world_size)
    directory = Path(__file__).resolve().parents[1] / "data" / "tfds" / "spec_three" / "1.2.3"
    dataset = bd.builder_from_directory(directory).as_dataset("train").as_torch(block=4, even="drop")
    sums = []
    for batch in torch.utils.data.DataLoader(dataset, batch_size=4, num_workers=1):
        distributed.all_reduce(total := batch["idx"].sum())
        sums.append(int(total))
    (folder / f"sums{rank}").write_text(repr(sums))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
