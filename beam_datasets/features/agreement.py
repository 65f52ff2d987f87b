"""Whether examples of two trees of features can be in one dataset."""

from __future__ import annotations

from typing import Any

from beam_datasets.features.features_dict import FeaturesDict, join
from beam_datasets.features.sequence import Sequence


def difference(one: Any, other: Any, name: str = "") -> str | None:
    """Returns the first difference of two trees of features; None if examples of both can be in one dataset.

    Documentation does not count.
    """
    where = f"feature {name!r}" if name else "the examples"
    if isinstance(one, FeaturesDict) and isinstance(other, FeaturesDict) and type(one) is type(other):
        for missing, there, which in ((set(one) - set(other), one, "first"), (set(other) - set(one), other, "second")):
            if missing:
                found = min(missing)
                return f"feature {join(name, found)!r}, {there[found]!r}, is in the {which} only"
        found_below = (difference(one[child], other[child], join(name, child)) for child in one)
        return next(filter(None, found_below), None)
    if isinstance(one, Sequence) and isinstance(other, Sequence) and type(one) is type(other):
        if one.length == other.length:
            return difference(one.feature, other.feature, name)
        return f"{where} has length={one.length} in the first, length={other.length} in the second"
    if one.label_files("x") != other.label_files("x"):
        return f"{where} has other class names: {_labels(one)} in the first, {_labels(other)} in the second"
    return None if one == other else f"{where} is {one!r} in the first, {other!r} in the second"


def _labels(feature: Any) -> str:
    names = "".join(feature.label_files("x").values()).splitlines()
    return ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "") if names else "none"
