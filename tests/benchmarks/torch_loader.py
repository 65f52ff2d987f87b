"""PyTorch's DataLoader over a map-style dataset of a peer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from steps import BATCH_SIZE
from torch import as_tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, default_collate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Function = Callable[[Any], Any]


def loader(dataset: Any, workers: int, *functions: Function, kind: Any = DataLoader, **options: Any) -> Any:
    """Returns a loader of batches, whose rows the functions are applied to, one after the other."""
    collate = partial(_collated, functions)
    return kind(dataset, batch_size=BATCH_SIZE, num_workers=workers, collate_fn=collate, **options)


def _collated(functions: Sequence[Function], rows: Sequence[Any]) -> Any:
    for function in functions:
        rows = list(map(function, rows))
    if "tokens" not in rows[0]:
        return default_collate(rows)
    tokens = pad_sequence([as_tensor(row["tokens"]) for row in rows], batch_first=True)
    return {"tokens": tokens, "embedding": default_collate([row["embedding"] for row in rows])}
