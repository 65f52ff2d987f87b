"""Walks over trees of features: their names, their leaves, and the first difference of two trees.

Names of nested features are joined by slashes in the record, and by dots for people and expressions.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Steps
from functools import reduce
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import FeatureName, shown_name
from beam_datasets.features.features_dict import FeaturesDict, join
from beam_datasets.features.sequence import Sequence
from beam_datasets.features.tensor import Scalar, Tensor

if TYPE_CHECKING:
    from beam_datasets.features.base import FeatureConnector


def strip_sequences(feature: FeatureConnector) -> FeatureConnector:
    """Returns a feature without the sequences around it.

    >>> import numpy as np
    >>> strip_sequences(Sequence(Sequence(np.int64)))
    int64
    """
    while isinstance(feature, Sequence):
        feature = feature.feature
    return feature


def iter_nested_features(
    tree: FeatureConnector, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """Yields (name, steps, connector) of each feature inside a tree, at any depth; the tree itself is not yielded.

    The name joins the steps by slashes, as in the record. Sequences add no step.

    >>> import numpy as np
    >>> tree = FeaturesDict({"id": np.int64, "objects": Sequence({"label": np.int64})})
    >>> [(name, steps) for name, steps, _ in iter_nested_features(tree)]
    [('id', ('id',)), ('objects', ('objects',)), ('objects/label', ('objects', 'label'))]

    Args:
        tree: a connector.
        path: the steps that lead to the tree.
    """
    tree = strip_sequences(tree)
    if isinstance(tree, FeaturesDict):
        for step, child in tree.items():
            steps = (*path, step)
            yield reduce(join, steps, ""), steps, child
            yield from iter_nested_features(child, steps)


def join_steps(steps: Steps[str]) -> str:
    """Returns the name of a feature for people and expressions: the steps that lead to it, joined by dots.

    If a step contains a dot or a slash, the steps are joined by slashes, as in the record.

    >>> join_steps(["product", "price"]), join_steps(["product", "price.eur"])
    ('product.price', 'product/price.eur')
    """
    return FeatureName(steps).shown


def steps_by_name(tree: FeatureConnector) -> dict[str, tuple[str, ...]]:
    """Returns the steps that lead to each feature inside a tree, by its name with slashes and by its name with dots.

    If a name with dots of one feature is the name with slashes of another, it stands for the latter.

    >>> import numpy as np
    >>> tree = FeaturesDict({"a": {"b": np.int64}, "a.b": np.int64})
    >>> steps_by_name(tree)["a.b"], steps_by_name(tree)["a/b"]
    (('a.b',), ('a', 'b'))
    """
    steps_by_path = {name: steps for name, steps, _ in iter_nested_features(tree)}
    return {join_steps(steps): steps for steps in steps_by_path.values()} | steps_by_path


def display_names(tree: FeatureConnector) -> dict[str, str]:
    """Returns {name with slashes: name for people and expressions} of the features inside a tree.

    The latter has dots, unless that means another feature.

    >>> import numpy as np
    >>> display_names(FeaturesDict({"a": {"b": np.int64, "c": np.int64}, "a.b": np.int64}))
    {'a': 'a', 'a/b': 'a/b', 'a/c': 'a.c', 'a.b': 'a.b'}
    """
    by_name = steps_by_name(tree)
    return {
        path: join_steps(steps) if by_name.get(join_steps(steps)) == steps else path
        for path, steps, _ in iter_nested_features(tree)
    }


def record_name(name: str, tree: FeatureConnector) -> str:
    """Returns the name with slashes, as in the record, of the feature that a name with dots or slashes means.

    A name of no feature in the tree is returned unchanged.

    >>> import numpy as np
    >>> record_name("a.b", FeaturesDict({"a": {"b": np.int64}}))
    'a/b'
    """
    return reduce(join, steps_by_name(tree).get(name, (name,)), "")


def leaves_with_features(
    value: Any, feature: FeatureConnector | None = None, path: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yields (name with slashes, value, connector) of each value in nested dicts that is not a dict itself.

    The connector is the one inside sequences; None if it is not known.

    >>> [(path, value) for path, value, _ in leaves_with_features({"a": 1, "b": {"c": 2}})]
    [('a', 1), ('b/c', 2)]
    """
    item_feature = None if feature is None else strip_sequences(feature)
    if not isinstance(value, dict):
        yield path, value, item_feature
        return
    child_features = item_feature.features if isinstance(item_feature, FeaturesDict) else {}
    for name, child in value.items():
        yield from leaves_with_features(child, child_features.get(name), join(path, str(name)))


def find_difference(one: FeatureConnector, other: FeatureConnector, name: str = "") -> str | None:
    """Returns the first difference of two trees of features, as a clause; None if they fit one dataset.

    Documentation is not compared, and a Scalar equals a Tensor of shape ().

    Args:
        one: the first tree.
        other: the second tree.
        name: the name of both, with slashes; '' for the top.

    >>> import numpy as np
    >>> find_difference(Tensor(shape=(2,), dtype=np.int64), Tensor(shape=(3,), dtype=np.int64), "a")
    "feature 'a' is Tensor(shape=(2,), dtype=int64) in the first, Tensor(shape=(3,), dtype=int64) in the second"
    """
    label = f"feature {shown_name(name)!r}" if name else "the examples"
    if isinstance(one, FeaturesDict) and isinstance(other, FeaturesDict) and type(one) is type(other):
        for missing, children, ordinal in (
            (set(one) - set(other), one, "first"),
            (set(other) - set(one), other, "second"),
        ):
            if missing:
                first_missing = min(missing)
                path = join(name, first_missing)
                return f"feature {path.shown!r}, {children[first_missing]!r}, is in the {ordinal} only"
        differences = (find_difference(one[child], other[child], join(name, child)) for child in one)
        return next(filter(None, differences), None)
    if isinstance(one, Sequence) and isinstance(other, Sequence) and type(one) is type(other):
        if one.length == other.length:
            return find_difference(one.feature, other.feature, name)
        return f"{label} has length={one.length} in the first, length={other.length} in the second"
    if one.label_files("x") != other.label_files("x"):
        first_names, second_names = _format_class_names(one), _format_class_names(other)
        return f"{label} has other class names: {first_names} in the first, {second_names} in the second"
    is_equal = one == other or _scalar_to_tensor(one) == _scalar_to_tensor(other)
    return None if is_equal else f"{label} is {one!r} in the first, {other!r} in the second"


def _scalar_to_tensor(feature: FeatureConnector) -> FeatureConnector:
    """Returns a Scalar as a Tensor of shape (), and other features unchanged."""
    if type(feature) is not Scalar:
        return feature
    options = ("shape", "dtype", "encoding", "minimum", "maximum", "optional")
    return Tensor(**{name: getattr(feature, name) for name in options})


def _format_class_names(feature: FeatureConnector) -> str:
    """Returns the first five names of a feature's classes, for errors: "'cat', 'dog'"; 'none' if it has no names."""
    names = "".join(feature.label_files("x").values()).splitlines()
    return ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "") if names else "none"
