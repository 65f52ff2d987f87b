"""Comparison of feature trees: of decoded values, of stored forms and of documentation, each separately."""

from __future__ import annotations

from collections import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_datasets.diffing.result import FeatureChange
from beam_datasets.features import (
    Dataset,
    FeaturesDict,
    RaggedArray,
    Sequence,
    Tensor,
    UnknownFeature,
)
from beam_datasets.features.base import FeatureConnector, dtype_of, shape_of
from beam_datasets.features.compiler import select_decoded
from beam_datasets.features.decode import skip_decoding
from beam_datasets.features.features_dict import join
from beam_datasets.features.trees import iter_nested_features, leaves_with_features, strip_sequences
from beam_datasets.formats.example import Buffer, parse_spans
from beam_datasets.reading.elements.error_location import UNDECODED, Undecoded, decoding_check, tolerant_decoder

_STORED = {"encoding", "encodingFormat", "fileFormat", "lazyDecode", "ffmpegExtraArgs"}
"""Entries of features.json about how values are stored, not about what is read."""

_DOCUMENTING = {"minimum", "maximum", "useColormap"}
"""Entries for people and viewers."""

_NAMES = "names"
_SHOWN_NAMES = 3


@dataclass(frozen=True)
class Comparison:
    """Two feature trees compared.

    Attributes:
        changes: the differences, in the order of the paths.
        old: the tree of the features that are read alike in both versions, as the old one stores them; None for none.
        new: the same as the new one stores them.
    """

    changes: tuple[FeatureChange, ...] = ()
    old: FeatureConnector | None = None
    new: FeatureConnector | None = None


def compare_features(old: FeatureConnector, new: FeatureConnector, path: str = "") -> Comparison:
    """Returns the differences of two features, and for each the tree of the parts that are decoded alike in both.

    Args:
        old: the feature in the old version.
        new: the feature in the new version.
        path: path of the feature; '' for all features.
    """
    (old_levels, old_inner), (new_levels, new_inner) = _unwrap(old), _unwrap(new)
    dicts = isinstance(old_inner, FeaturesDict) and isinstance(new_inner, FeaturesDict)
    if not dicts or old_levels != new_levels:
        return _compare_leaves(old, new, path)
    inner = _compare_dicts(old_inner, new_inner, path)  # type: ignore[arg-type]
    documented = _describe_difference(_documents(old), _documents(new))
    changes = tuple([FeatureChange(path, "documented", documented)] if documented else []) + inner.changes
    if inner.old is None or inner.new is None:
        return Comparison(changes)
    return Comparison(changes, _rewrap(old, inner.old), _rewrap(new, inner.new))


def _compare_dicts(old: FeaturesDict, new: FeaturesDict, path: str) -> Comparison:
    """Compares two dicts feature by feature; a feature that only one of them has counts as added or removed.

    Args:
        old: the features in the old version.
        new: the features in the new version.
        path: path of the dicts; '' for the top level.
    """
    changes: list[FeatureChange] = []
    shared_old: dict[str, FeatureConnector] = {}
    shared_new: dict[str, FeatureConnector] = {}
    for name in sorted({*old, *new}):
        child = join(path, name)
        if name not in new:
            changes.append(FeatureChange(child, "removed", _one_line(old[name])))
        elif name not in old:
            changes.append(FeatureChange(child, "added", _one_line(new[name])))
        else:
            comparison = compare_features(old[name], new[name], child)
            changes += comparison.changes
            if comparison.old is not None and comparison.new is not None:
                shared_old[name], shared_new[name] = comparison.old, comparison.new
    if not shared_old:
        return Comparison(tuple(changes))
    return Comparison(tuple(changes), old.with_features(shared_old), new.with_features(shared_new))


def _compare_leaves(old: FeatureConnector, new: FeatureConnector, path: str) -> Comparison:
    """Compares two features as a whole; they share nothing if a reader gets different values or types from them.

    Args:
        old: the feature in the old version.
        new: the feature in the new version.
        path: path of the feature.
    """
    if read := _describe_difference(_read_properties(old), _read_properties(new)):
        return Comparison((FeatureChange(path, "changed", read),))
    stored = _describe_difference(_select_entries(old, _STORED), _select_entries(new, _STORED))
    documented = _describe_difference(
        *({**_documents(one), **_select_entries(one, _DOCUMENTING)} for one in (old, new))
    )
    changes = [FeatureChange(path, "stored", stored)] if stored else []
    changes += [FeatureChange(path, "documented", documented)] if documented else []
    return Comparison(tuple(changes), old, new)


def _unwrap(feature: FeatureConnector) -> tuple[tuple[Any, ...], FeatureConnector]:
    """Returns ((class name, length) of each sequence around a feature, outer ones first; the innermost feature)."""
    levels = []
    while isinstance(feature, Sequence):
        levels.append(("Dataset" if isinstance(feature, Dataset) else "Sequence", feature.length))
        feature = feature.feature
    return tuple(levels), feature


def _rewrap(feature: FeatureConnector, inner: FeatureConnector) -> FeatureConnector:
    """Returns `inner` inside as many sequences as `feature` has around its innermost feature."""
    if isinstance(feature, Sequence):
        return feature.with_feature(_rewrap(feature.feature, inner))
    return inner


# ------------------------------------------------------------------------------------------------- what features are


def _read_properties(feature: FeatureConnector) -> dict[str, Any]:
    """Returns the properties of a feature that a reader sees, by name: 'class', 'dtype', 'shape' and others.

    If there are sequences around it, 'in' names them, from the outer one inward, with their lengths.
    """
    levels, inner = _unwrap(feature)
    entries: dict[str, Any] = {}
    for kind, length in levels:
        entries["in"] = entries.get("in", "") + f"{kind}({'' if length is None else length})"
    if isinstance(inner, FeaturesDict):
        return {**entries, "class": "dict of features"}
    if isinstance(inner, UnknownFeature):
        return {**entries, "node": inner.node}
    content = inner.content_json()[1]
    excluded_keys = {*_STORED, *_DOCUMENTING, "shape", "dtype"}
    return {
        **entries,
        "class": "Tensor" if isinstance(inner, Tensor) else type(inner).__name__,
        "dtype": str(dtype_of(inner)),
        "shape": str(shape_of(inner)),
        **{key: value for key, value in content.items() if key not in excluded_keys},
        _NAMES: tuple(getattr(inner, "label_names", None) or ()),
    }


def _select_entries(feature: FeatureConnector, names: set[str]) -> dict[str, Any]:
    """Returns the entries of the `content_json` of a feature, or of its items, that have one of the names."""
    inner = strip_sequences(feature)
    content = {} if isinstance(inner, UnknownFeature) else inner.content_json()[1]
    return {key: value for key, value in content.items() if key in names}


def _documents(feature: FeatureConnector) -> dict[str, Any]:
    """Returns {'description': text, 'value range': text}, as far as they are set, of a feature.

    The texts of a sequence are joined with those of its items by "; ".
    """
    documents = [feature.documentation]
    while isinstance(feature, Sequence):
        feature = feature.feature
        documents.append(feature.documentation)
    texts = {"description": [d.desc for d in documents], "value range": [d.value_range for d in documents]}
    return {name: "; ".join(filter(None, parts)) for name, parts in texts.items() if any(parts)}


def _describe_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Returns the differences of two dicts of properties, such as "dtype: int64 -> int32; shape: ..."; '' for none."""
    pairs = [(key, old.get(key), new.get(key)) for key in {**old, **new} if old.get(key) != new.get(key)]
    return "; ".join(
        _names_difference(one, other)
        if key == _NAMES and one is not None and other is not None
        else f"{key}: {_format_property(one)} -> {_format_property(other)}"
        for key, one, other in pairs
    )


def _names_difference(old: tuple[str, ...], new: tuple[str, ...]) -> str:
    """Describes how lists of class names differ, such as "class names added at the end: 'cat'"; they must differ."""
    if not old or not new:
        return f"class names: {'none' if not old else len(old)} -> {'none' if not new else len(new)}"
    if new[: len(old)] == old:
        return f"class names added at the end: {_join_names(new[len(old) :])}"
    if sorted(old) == sorted(new):
        return f"class names in another order: {_join_names(old)} -> {_join_names(new)}"
    changed = [f"{i} {a!r} -> {b!r}" for i, (a, b) in enumerate(zip(old, new)) if a != b]
    changed += [f"{i} {a!r} -> none" for i, a in enumerate(old) if i >= len(new)]
    return f"class names: {', '.join(changed[:_SHOWN_NAMES])}" + (", ..." if len(changed) > _SHOWN_NAMES else "")


def _join_names(names: tuple[str, ...]) -> str:
    """Returns names in quotes, the first `_SHOWN_NAMES` of them: "'cat', 'dog', ..."."""
    return ", ".join(map(repr, names[:_SHOWN_NAMES])) + (", ..." if len(names) > _SHOWN_NAMES else "")


def _format_property(value: Any) -> str:
    """Returns the value of a property as text; "none" for None and ""."""
    return "none" if value in (None, "") else str(value)


def _one_line(feature: FeatureConnector) -> str:
    """Returns the `repr` of a feature on one line."""
    return " ".join(repr(feature).split())


class VersionReader:
    """Reader of the records of two versions, for comparing them.

    Attributes:
        is_partial: whether values are not compared: of features whose type changed, or of all where the versions share
            none.
        stores_all_alike: whether the new version stores all that the old one has, in the same form.
        problem_old: returns why the shared features of a record of the old version do not decode; '' if they do.
        problem_new: the same for the new one.
        decode_old: decodes a record of the old version to {path: value}; an `Undecoded` for values that do not decode.
        decode_new: the same for the new one.
    """

    def __init__(self, old: FeatureConnector, new: FeatureConnector, comparison: Comparison) -> None:
        """Compiles the decoders of the two versions' features, and of the features that both share."""
        kinds = {change.kind for change in comparison.changes}
        self.is_partial = comparison.old is None or "changed" in kinds
        self.stores_all_alike = kinds <= {"added", "documented"}
        self.decode_old, self.decode_new = _record_flattener(old), _record_flattener(new)
        self._shared_old, self._shared_new = _record_flattener(comparison.old), _record_flattener(comparison.new)
        self.problem_old, self.problem_new = _problem_finder(comparison.old), _problem_finder(comparison.new)
        self._shares_none = comparison.old is None
        self._names = _wire_names(comparison.old)  # in the old version's records
        self._compare_stored = "stored" not in kinds and self._names == _wire_names(comparison.new)
        descendants = (
            iter_nested_features(comparison.old) if comparison.old is not None else []
        )  # of unknown classes only they know all names
        self._unknown = tuple(
            f"{n}/".encode() for n, _, one in descendants if isinstance(strip_sequences(one), UnknownFeature)
        )

    def compare(self, old: Buffer, new: Buffer) -> tuple[bool, bool]:
        """Returns (whether two examples have the same values, whether a value of one of them does not decode).

        Only features that both versions have are compared, bit by bit. Values that do not decode are compared as
        stored.

        Raises:
            ExampleError: a record is not a serialized Example.
        """
        if self._shares_none or (self._compare_stored and self.features_of(old) == self.features_of(new)):
            return True, False
        one, other = self._shared_old(old), self._shared_new(new)
        is_damaged = any(isinstance(value, Undecoded) for value in (*one.values(), *other.values()))
        return not self._find_differing_paths(old, new, one, other), is_damaged

    def _find_differing_paths(self, old: Buffer, new: Buffer, one: dict[str, Any], other: dict[str, Any]) -> list[str]:
        """Returns the paths of the values that differ between two records.

        Args:
            old: record of the old version.
            new: record of the new version.
            one: values of `old`: path -> value; an `Undecoded` for values that do not decode.
            other: values of `new`, likewise.
        """

        def is_alike(path: str) -> bool:
            """Returns whether two records have the same value at a path; undecodable values are compared as stored."""
            mine, theirs = one.get(path), other.get(path)
            if isinstance(mine, Undecoded) and isinstance(theirs, Undecoded):
                return self._compare_stored and self._read_stored_values(old, path) == self._read_stored_values(
                    new, path
                )
            return identical(mine, theirs)

        return [path for path in {**one, **other} if not is_alike(path)]

    def _read_stored_values(self, record: Buffer, path: str) -> dict[bytes, bytes]:
        """Returns {name in the record: serialized Feature} of the feature at a path, and of features inside it."""
        entries = self.features_of(record)
        return {
            name: data
            for name, data in entries.items()
            if name == path.encode() or name.startswith(f"{path}/".encode())
        }

    def features_of(self, record: Buffer) -> dict[bytes, bytes]:
        """Returns {name in the record: serialized Feature} of the features that both versions read alike.

        Raises:
            ExampleError: it is not a serialized Example.
        """
        data, spans = parse_spans(record)
        return {
            name: data[start:stop]
            for name, (start, stop) in spans.items()
            if name in self._names or name.startswith(self._unknown)
        }

    def differences(self, old: Buffer, new: Buffer) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns ({path: value} of the old example, the same of the new one) for the values in which they differ."""
        one, other = self._shared_old(old), self._shared_new(new)
        differing = self._find_differing_paths(old, new, one, other)
        return {path: one.get(path) for path in differing}, {path: other.get(path) for path in differing}


def _wire_names(feature: FeatureConnector | None) -> frozenset[bytes]:
    """Returns the names of a feature's lists in a record, as bytes; empty for None."""
    return frozenset(name.encode() for name in feature.wire_names("")) if feature is not None else frozenset()


def _record_flattener(feature: FeatureConnector | None) -> Callable[[Buffer], dict[str, Any]]:
    """Returns the function from a record to {path: value}."""
    if feature is None:
        return lambda record: {}
    decode = tolerant_decoder(_replace_unknown(feature))
    return lambda record: {path: value for path, value, _ in leaves_with_features(decode(record))}


def _replace_unknown(feature: FeatureConnector) -> FeatureConnector:
    """Returns the features, with those of unknown classes replaced by features that decode to the stored lists."""
    return select_decoded(feature, skip_decoding(feature, UnknownFeature))


def _problem_finder(feature: FeatureConnector | None) -> Callable[[Buffer], str]:
    """Returns the function that returns why a record does not decode; '' if it does."""
    check = (lambda record: None) if feature is None else decoding_check(_replace_unknown(feature))

    def problem(record: Buffer) -> str:
        """Returns why a record does not decode; "" if it does."""
        try:
            check(record)
        except UNDECODED as error:
            return str(error)
        return ""

    return problem


def identical(one: Any, other: Any) -> bool:
    """Returns whether two decoded values are the same in type, shape and bits: NaN is itself, and 0.0 is not -0.0.

    >>> identical({"a": np.float32(np.nan)}, {"a": np.float32(np.nan)}), identical(np.int64(1), np.int32(1))
    (True, False)
    """
    if isinstance(one, (np.ndarray, np.generic)) and isinstance(other, (np.ndarray, np.generic)):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        is_plain = not one.dtype.hasobject
        return one.tobytes() == other.tobytes() if is_plain else identical(one.ravel().tolist(), other.ravel().tolist())
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(identical(one[key], other[key]) for key in one)
    if isinstance(one, RaggedArray):
        return identical(one.row_lengths, other.row_lengths) and identical(one.flat_values, other.flat_values)
    if isinstance(one, abc.Sequence) and not isinstance(one, (str, bytes)):
        return len(one) == len(other) and all(map(identical, one, other))
    return bool(one == other)
