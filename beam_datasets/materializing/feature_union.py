"""Union of the features of a published version and of appended datasets; those that one of them lacks are optional."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import BeamDatasetsError
from beam_datasets.features import FeaturesDict, Scalar, Tensor, Text
from beam_datasets.features.features_dict import join
from beam_datasets.features.sequence import Sequence as FeatureSequence
from beam_datasets.features.trees import find_difference
from beam_datasets.materializing.selection import display_name
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.reading.opening import ReadOnlyBuilder

if TYPE_CHECKING:
    from beam_datasets.features import FeatureConnector


def join_features(info: DatasetInfo, datasets: Sequence[ReadOnlyBuilder], *, union_features: bool) -> DatasetInfo:
    """Returns the info of the next version, with the features of all datasets.

    Args:
        info: of the next version, with the features of `datasets[0]`.
        datasets: the published version, then the datasets that are appended.
        union_features: whether features that some of them lack become optional.

    Raises:
        BeamDatasetsError: the features differ, and either `union_features` is False or no union exists.
    """
    for other in datasets[1:]:
        if not (problem := _describe_differences(info.features, other.info.features)):
            continue
        way = ", or let those that one of them lacks be missing: --union_features (union_features=True)"
        try:
            joined_features = union(info.features, other.info.features)
        except BeamDatasetsError as error:
            reason = str(error).rstrip(".")
            joined_features, way = None, ""
            problem = f"{problem}. {reason}" if " features differ: " in problem else reason
        if joined_features is None or not union_features:
            raise BeamDatasetsError(
                f"{display_name(other)} cannot be appended to {datasets[0].info.display_name}: {problem}",
                advice=f"Appended examples need the same features; make them with those of the published version{way}.",
            )
        info = info.replace(features=joined_features)
    return info


def _describe_differences(one: Any, other: Any) -> str:
    """Returns the differences of two trees of features as a clause, one for each feature that differs; '' for none."""

    def only(name: str, tree: FeaturesDict) -> FeaturesDict:
        """Returns the features of this name in a tree: one, or none."""
        return FeaturesDict({name: tree[name]} if name in tree else {})

    names = {**one, **other} if type(one) is type(other) is FeaturesDict else {}
    differences = list(filter(None, (find_difference(only(name, one), only(name, other)) for name in names)))
    if len(differences) < 2:
        return find_difference(one, other) or ""
    return f"{len(differences)} features differ: {'; '.join(differences)}"


def union(one: FeatureConnector, other: FeatureConnector, name: str = "") -> FeatureConnector:
    """Returns features that can store the examples of both: features that one of them lacks become optional.

    Args:
        one: a connector, such as the `FeaturesDict` of a dataset.
        other: the connector of the other dataset.
        name: the name of both, with slashes, for errors; '' for the top.

    Raises:
        BeamDatasetsError: the features differ in another way, or a feature that one lacks cannot be optional.
    """
    if type(one) is type(other) is FeaturesDict:
        joined_features = {
            child: union(one[child], other[child], join(name, child))
            if child in one and child in other
            else _optional((one if child in one else other)[child], join(name, child))
            for child in {**one, **other}
        }
        return FeaturesDict(joined_features, doc=one.doc)
    if not find_difference(one, other):
        return one
    if isinstance(one, Tensor) and isinstance(other, Tensor) and (one.shape, one.dtype) == (other.shape, other.dtype):
        loose = [_optional(each, name) for each in (one, other)]
        kinds = [each for each in loose if type(each) is not Text] or loose
        if not find_difference(kinds[0], kinds[-1]):
            return kinds[0]
    raise BeamDatasetsError(f"{find_difference(one, other, name)}. No feature can store both.")


def _optional(feature: FeatureConnector, name: str) -> FeatureConnector:
    """Returns the feature made optional; sequences and `Text` are unchanged (missing means empty).

    Raises:
        BeamDatasetsError: the feature cannot be optional.
    """
    if type(feature) is FeaturesDict:
        return FeaturesDict({child: _optional(feature[child], join(name, child)) for child in feature}, doc=feature.doc)
    if type(feature) in (FeatureSequence, Text):
        return feature
    if isinstance(feature, Tensor) and type(feature) in (Scalar, Tensor):
        properties = {
            name: getattr(feature, name) for name in ("encoding", "doc", "minimum", "maximum", "allow_rounding")
        }
        scalar = Scalar(feature.dtype, optional=True, **properties)
        return (
            scalar
            if type(feature) is Scalar
            else Tensor(shape=feature.shape, dtype=feature.dtype, optional=True, **properties)
        )
    raise BeamDatasetsError(
        f"feature {name!r}, {feature!r}, is in one dataset only, and cannot be missing",
        advice="Leave it out, or append examples that have it.",
    )
