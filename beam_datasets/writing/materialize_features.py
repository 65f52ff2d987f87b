"""Which features of a dataset are kept when it is materialized, and where those of two datasets differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beam_datasets.errors import BeamDatasetsError
from beam_datasets.features import FeaturesDict, Sequence, UnknownFeature
from beam_datasets.features.decode import select
from beam_datasets.features.features_dict import join
from beam_datasets.features.tree import below, innermost
from beam_datasets.model.names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection


def project(tree: Any, names: Collection[str], dataset: str) -> Any:
    """Returns the features of these names; those of nested ones are written with `/`, `objects/label`.

    Args:
        tree: the features of the dataset.
        names: what to keep: a name keeps all that is below it.
        dataset: the dataset's name, for errors.

    Raises:
        BeamDatasetsError: the dataset has no such feature; the message suggests one.
    """
    if not names:
        raise BeamDatasetsError(f"no feature of {dataset} is named; name at least one, or leave the choice out.")
    known = {name: path for name, path, _ in below(tree)}
    spec: dict[str, Any] = {}
    for name in names:
        if name not in known:
            raise BeamDatasetsError(
                f"{dataset} has no feature {name!r}; it has {', '.join(known) or 'none'}.{did_you_mean(name, known)}"
            )
        _put(spec, known[name])
    return select(tree, spec)


def _put(spec: dict[str, Any], path: tuple[str, ...]) -> None:
    """Adds a feature to a nest of those that are kept."""
    for step in path[:-1]:
        nested = spec.setdefault(step, {})
        if nested is True:
            return
        spec = nested
    spec[path[-1]] = True


def record_names(tree: Any) -> frozenset[bytes]:
    """Returns under which names a record holds the features.

    Raises:
        BeamDatasetsError: that cannot be known of one of them, because its class is not known here.
    """
    for name, _, feature in below(tree):
        inner = innermost(feature)
        if isinstance(inner, UnknownFeature):
            raise BeamDatasetsError(
                f"feature {name!r} is of the class {inner.python_class_name!r}, which is not known here, so neither "
                "is where a record holds it. Leave it out, or copy the dataset with all its features."
            )
    return frozenset(name.encode() for name in tree.wire_names(""))


def difference(one: Any, other: Any, name: str = "") -> str | None:
    """Returns how two trees of features differ, the first difference only; None where they are alike.

    Documentation does not count: examples of both can stand in one dataset.
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
    if one != other:
        return f"{where} is {one!r} in the first, {other!r} in the second"
    return None


def _labels(feature: Any) -> str:
    names = "".join(feature.label_files("x").values()).splitlines()
    return ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "") if names else "none"
