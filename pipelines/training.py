"""A training loop that goes on after a preemption as if there had been none; the examples of training use it.

A checkpoint has all that the next step depends on: the model, the optimizer, the random generator, and where the
DataLoader is. So the losses of a run that was stopped, or killed, and started again are those of one that was not.
"""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torchdata.stateful_dataloader import StatefulDataLoader


def train(
    dataset: Any, model: torch.nn.Module, loss_of: Callable[[Any], torch.Tensor], options: argparse.Namespace
) -> list[float]:
    """Trains a model until there are as many steps as wanted, or SIGTERM; returns the loss of each step.

    Args:
        dataset: of batches, without end.
        model: the model, untrained.
        loss_of: the loss of a batch.
        options: of `arguments()`.
    """
    torch.use_deterministic_algorithms(True)
    checkpoint = Path(options.checkpoint)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = StatefulDataLoader(dataset.as_torch(), batch_size=None, num_workers=options.num_workers)
    losses: list[float] = []
    saved = torch.load(checkpoint) if checkpoint.exists() else None
    if saved is not None:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        losses = saved["losses"]
    batches = iter(loader)
    torch.set_rng_state(torch.Generator().manual_seed(0).get_state() if saved is None else saved["random"])

    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: signals.append(number))
    while len(losses) < options.steps and not signals:
        loss = loss_of(next(batches))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        print(f"step {len(losses)}: loss {losses[-1]:.4f}", flush=True)
        if signals or len(losses) % options.save_every == 0 or len(losses) == options.steps:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "loader": loader.state_dict()}
            unfinished = checkpoint.with_suffix(".tmp")
            torch.save({**state, "random": torch.get_rng_state(), "losses": losses}, unfinished)
            os.replace(unfinished, checkpoint)  # a checkpoint is whole, whenever the process is killed
    return losses


def arguments(description: str) -> argparse.Namespace:
    """Returns the options of the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data_dir", required=True, help="where the dataset was built")
    parser.add_argument("--checkpoint", required=True, help="a file; training goes on from it if it exists")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--save_every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--num_workers", type=int, default=2, help="of the DataLoader")
    return parser.parse_args()
