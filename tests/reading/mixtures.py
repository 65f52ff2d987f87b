"""The sources of a mixture, computed from its weights alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from beam_datasets.reading.index.mixture import quotas_of
from beam_datasets.reading.index.permutations import block_orders


def sources_of(weights: list[float], seed: int) -> Iterator[int]:
    """Yields the source of each position."""
    quotas = quotas_of(weights)
    slots = np.repeat(np.arange(len(quotas)), quotas)
    for block in itertools.count():
        yield from slots[block_orders(np.array([block]), len(slots), seed, "mix")[0]]
