"""Trains a classifier of images of the dataset `digits`. Stopped and started again, it goes on with the next batch.

beam-datasets build digits --data_dir out
python -m pipelines.train_digits --data_dir out --checkpoint out/digits.pt
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import beam_datasets as bd
from pipelines.training import arguments, train


def make_model() -> nn.Module:
    """Returns a small convolutional network for images of 8 x 8 pixels and ten classes."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(512, 10),
    )


def logits_of(model: nn.Module, images: torch.Tensor) -> Any:
    """Returns the logits of uint8 images of shape (batch, height, width, channels)."""
    return model(images.permute(0, 3, 1, 2) / 255)


def main() -> None:
    """Trains, and prints how many images of the test split are recognized."""
    options = arguments("Trains a classifier of digits.")
    digits = bd.load("digits", data_dir=options.data_dir)
    model = make_model()

    def loss_of(batch: Any) -> torch.Tensor:
        return nn.functional.cross_entropy(logits_of(model, batch["image"]), batch["label"])

    losses = train(digits["train"].shuffle(seed=1).repeat().batch(64), model, loss_of, options)
    if len(losses) == options.steps:
        [test] = digits["test"].batch(1000)
        model.eval()
        found = logits_of(model, torch.from_numpy(test["image"])).argmax(dim=1)
        print(f"recognized: {(found.numpy() == test['label']).mean():.1%} of {len(found)}")


if __name__ == "__main__":
    main()
