"""The first examples of each split, for a trial of a builder."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from beam_datasets.sources.units import SourceUnits, read_together, unpack_with_splits


def is_iterated(source: Any) -> bool:
    """Returns whether a source is an iterable, or a function other than a Beam transform."""
    return isinstance(source, Iterable) or (callable(source) and not hasattr(source, "expand"))


def take_first_examples(split: str, sources: Mapping[str, Any], count: int) -> Any:
    """Returns a source of the first examples of a split. A Beam source is returned unchanged.

    Args:
        split: name of the split.
        sources: split -> its source. The units of a split may also contain examples of other splits; these are left out
            of the result, but their sources must be given.
        count: maximum number of examples, at least 1.
    """
    source = sources[split]
    if isinstance(source, SourceUnits):
        units = {name: each for name, each in sources.items() if isinstance(each, SourceUnits)}
        [together] = (names for names in read_together(units) if split in names)
        keeps = {name: units[name].keep for name in together}
        return SourceUnits(["first"], functools.partial(_first_of_units, split, source, keeps, count))
    if is_iterated(source):
        return functools.partial(_first_of_iterable, source, count)
    return source


def _first_of_iterable(source: Any, count: int) -> Iterable[Any]:
    """Returns the first `count` (key, example) pairs of an iterable, or of a function that returns one."""
    return itertools.islice(source() if callable(source) else source, count)


def _first_of_units(split: str, source: SourceUnits, keeps: Any, count: int, _: str) -> Iterable[Any]:
    """Returns the first `count` (key, example) pairs of a split, whose units are read in order.

    Args:
        split: name of the split.
        source: its `SourceUnits`.
        keeps: split -> `keep` of its source, for the splits that are read together.
        count: maximum number of pairs.
    """
    items = itertools.chain.from_iterable(map(source.read, source.units))
    pairs = (unpack_with_splits(item, keeps) for item in items)
    return itertools.islice((pair for pair, splits in pairs if split in splits), count)
