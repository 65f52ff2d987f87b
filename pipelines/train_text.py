"""Trains a small language model on the bytes of `stdlib_source`, several files packed into each sequence.

    beam-datasets build stdlib_source --data_dir out
    python -m pipelines.train_text --data_dir out --checkpoint out/text.pt

Attention does not cross from one file to the next: the model masks it by the segments that `pack()` yields.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

import beam_datasets as bd
from pipelines.training import arguments, train

LENGTH, WIDTH, HEADS = 512, 64, 4


def is_short(example: Any) -> bool:
    """Returns whether a file has few lines, so that sequences have several files."""
    return bool(example["num_lines"] < 40)


def tokens_of(example: Any) -> dict[str, Any]:
    """Returns the bytes of the text as tokens."""
    return {"tokens": np.frombuffer(example["text"], np.uint8).astype(np.int64)}


class LanguageModel(nn.Module):
    """A transformer of one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(256, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, batch_first=True)
        self.logits = nn.Linear(WIDTH, 256)

    def forward(self, tokens: Any, segments: Any, positions: Any) -> Any:
        """Returns the logits of each next token."""
        is_seen = (segments[:, :, None] == segments[:, None, :]).tril()
        hidden = self.tokens(tokens) + self.positions(positions)
        return self.logits(self.layer(hidden, src_mask=~is_seen.repeat_interleave(HEADS, dim=0)))


def main() -> None:
    """Trains the model."""
    options = arguments("Trains a language model.")
    files = bd.load("stdlib_source", data_dir=options.data_dir, split="train")
    packed = (
        files.shuffle(seed=1).repeat().filter(is_short).map(tokens_of).pack(LENGTH, ["tokens"], overlong="truncate")
    )
    torch.manual_seed(0)
    model = LanguageModel()

    def loss_of(batch: Any) -> torch.Tensor:
        tokens, segments = batch["tokens"], batch["tokens_segment_ids"]
        logits = model(tokens, segments, batch["tokens_positions"])
        has_next = (segments[:, 1:] == segments[:, :-1]) & (segments[:, 1:] != 0)
        return nn.functional.cross_entropy(logits[:, :-1][has_next], tokens[:, 1:][has_next])

    train(packed.batch(4), model, loss_of, options)


if __name__ == "__main__":
    main()
