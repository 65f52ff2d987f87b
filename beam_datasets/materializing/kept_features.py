"""Features of the sources that are kept: their tree, their names in records, and whether all sources have them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import BeamDatasetsError, did_you_mean
from beam_datasets.features import FeaturesDict, UnknownFeature
from beam_datasets.features.decode import select
from beam_datasets.features.trees import (
    find_difference,
    iter_nested_features,
    join_steps,
    record_name,
    steps_by_name,
    strip_sequences,
)
from beam_datasets.reading.opening import ReadOnlyBuilder

if TYPE_CHECKING:
    from beam_datasets.features import FeatureConnector


def kept_features(builder: ReadOnlyBuilder, names: Collection[str] | None) -> FeatureConnector:
    """Returns the `FeaturesDict` of the features of a dataset that are kept.

    Args:
        builder: the dataset.
        names: features to keep, nested ones as `objects.label`; a name keeps all features below it. None keeps all.

    Raises:
        BeamDatasetsError: the dataset has no such feature; the message suggests one.
    """
    tree: FeatureConnector = builder.info.features
    dataset = builder.info.display_name
    if names is None:
        return tree
    if not names:
        raise BeamDatasetsError(
            f"expected at least one feature of {dataset}, got none", advice="Name one, or leave the choice out."
        )
    steps_of = steps_by_name(tree)
    spec: dict[str, Any] = {}
    for name in names:
        if name not in steps_of:
            names_text = ", ".join(join_steps(steps) for _, steps, _ in iter_nested_features(tree)) or "none"
            raise BeamDatasetsError(
                f"{dataset} has no feature {name!r}; it has {names_text}",
                expected=names_text,
                got=repr(name),
                advice=did_you_mean(name, steps_of).strip() or None,
            )
        *parents, last = steps_of[name]
        nested: Any = spec
        for step in parents:
            nested = nested if nested is True else nested.setdefault(step, {})
        if nested is not True:
            nested[last] = True
    return select(tree, spec)


def names_of(features: Collection[str], tree: FeatureConnector) -> list[str]:
    """Returns the record names of features, sorted and each once: ['objects/label'] for 'objects.label'.

    Args:
        features: names of features, nested ones as `objects.label`; or one name.
        tree: the features of the dataset.
    """
    return sorted({record_name(name, tree) for name in ([features] if isinstance(features, str) else features)})


def record_names(tree: FeatureConnector) -> frozenset[bytes]:
    """Returns the names of the lists in which a record stores the features, such as {b'image', b'objects/label'}.

    Args:
        tree: the features.

    Raises:
        BeamDatasetsError: the class of a feature is unknown, so its lists are, too.
    """
    for _, steps, feature in iter_nested_features(tree):
        inner = strip_sequences(feature)
        if isinstance(inner, UnknownFeature):
            raise BeamDatasetsError(
                f"{inner!r} cannot be copied without other features, because only its class knows its part of a record",
                feature=join_steps(steps),
                advice="Leave it out, or copy the dataset with all its features.",
            )
    return frozenset(name.encode() for name in tree.wire_names(""))


def dropped_names(features: FeatureConnector, kept: FeatureConnector, path: str = "") -> Iterator[str]:
    """Yields the names of the features that are left out, such as `objects/label`, without those below them.

    Args:
        features: the features of a dataset.
        kept: the features that are kept of them.
        path: path of the two, with a slash at the end.
    """
    features, kept = strip_sequences(features), strip_sequences(kept)
    if isinstance(features, FeaturesDict) and isinstance(kept, FeaturesDict):
        for name in features:
            if name not in kept:
                yield path + name
            else:
                yield from dropped_names(features[name], kept[name], f"{path}{name}/")


def check_alike(builders: Collection[ReadOnlyBuilder], trees: Collection[Any]) -> None:
    """Checks that all `builders` have the features of the first one, in their `trees` of features.

    Raises:
        BeamDatasetsError: the features of one differ.
    """
    (first, tree), *remaining = zip(builders, trees)
    for builder, other in remaining:
        if problem := find_difference(tree, other):
            raise BeamDatasetsError(
                f"{first.info.display_name} and {builder.info.display_name} cannot be put together: {problem}",
                advice="All sources need the same features; --features selects those that all have.",
            )
