"""Facts about trees of features that decide what can be exported."""

from typing import Any

from beam_datasets import features as F


def strings_below(feature: Any, steps: tuple[str, ...] = ()) -> list[str]:
    """Returns the paths of the strings in a tree."""
    while isinstance(feature, F.Sequence):
        feature = feature.feature
    if isinstance(feature, F.FeaturesDict):
        return [s for key, child in feature.items() for s in strings_below(child, (*steps, key))]
    return ["/".join(steps)] if isinstance(feature, F.Tensor) and feature.dtype == object else []


def has_empty_dict(feature: Any) -> bool:
    """Returns whether a dict in a tree has no features."""
    if isinstance(feature, F.FeaturesDict):
        return not feature or any(map(has_empty_dict, feature.features.values()))
    return isinstance(feature, F.Sequence) and has_empty_dict(feature.feature)
