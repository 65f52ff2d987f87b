"""Features of which the examples of two versions are examples, where one lacks some of them."""

from __future__ import annotations

from typing import Any

from beam_datasets.errors import BeamDatasetsError
from beam_datasets.features import FeaturesDict, Scalar, Sequence, Tensor, Text
from beam_datasets.features.features_dict import join
from beam_datasets.features.sequence import difference


def union(one: Any, other: Any, name: str = "") -> Any:
    """Returns features of which examples of both are examples: what one of them lacks may be missing.

    Raises:
        BeamDatasetsError: they differ in another way, or a feature that one lacks cannot be missing.
    """
    if type(one) is type(other) is FeaturesDict:
        joined = {
            child: union(one[child], other[child], join(name, child))
            if child in one and child in other
            else _optional((one if child in one else other)[child], join(name, child))
            for child in {**one, **other}
        }
        return FeaturesDict(joined, doc=one.doc)
    if not difference(one, other):
        return one
    if isinstance(one, Tensor) and isinstance(other, Tensor) and (one.shape, one.dtype) == (other.shape, other.dtype):
        loose = [_optional(each, name) for each in (one, other)]
        kinds = [each for each in loose if type(each) is not Text] or loose
        if not difference(kinds[0], kinds[-1]):
            return kinds[0]
    raise BeamDatasetsError(f"{difference(one, other, name)}. No feature can store both.")


def _optional(feature: Any, name: str) -> Any:
    """Returns a feature of which None is a value, too; a missing sequence is an empty one.

    Raises:
        BeamDatasetsError: the feature cannot be missing.
    """
    if type(feature) is FeaturesDict:
        return FeaturesDict({child: _optional(feature[child], join(name, child)) for child in feature}, doc=feature.doc)
    if type(feature) in (Sequence, Text):
        return feature
    if type(feature) in (Scalar, Tensor):
        more = {name: getattr(feature, name) for name in ("encoding", "doc", "minimum", "maximum", "allow_rounding")}
        made = Scalar(feature.dtype, optional=True, **more)
        return (
            made if type(feature) is Scalar else Tensor(shape=feature.shape, dtype=feature.dtype, optional=True, **more)
        )
    raise BeamDatasetsError(
        f"feature {name!r}, {feature!r}, is in one dataset only, and cannot be missing. Leave it out, or append "
        "examples that have it."
    )
