"""Walks through a tree of features."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from beam_datasets.features.features_dict import FeaturesDict, join
from beam_datasets.features.sequence import Sequence

if TYPE_CHECKING:
    from collections.abc import Iterator


def innermost(feature: Any) -> Any:
    """Returns a feature without the sequences around it.

    >>> import numpy as np
    >>> innermost(Sequence(Sequence(np.int64)))
    int64
    """
    while isinstance(feature, Sequence):
        feature = feature.feature
    return feature


def below(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """Yields each feature below another, whatever its depth: its name, the steps that lead to it, and the feature.

    >>> import numpy as np
    >>> [name for name, _, _ in below(FeaturesDict({"id": np.int64, "objects": Sequence({"label": np.int64})}))]
    ['id', 'objects', 'objects/label']
    """
    tree = innermost(tree)
    if isinstance(tree, FeaturesDict):
        for step, child in tree.items():
            steps = (*path, step)
            yield reduce(join, steps), steps, child
            yield from below(child, steps)
