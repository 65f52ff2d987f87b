"""Which rows make up which split: the files of a pattern, those of an export, or a share of all rows by key hash."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from apache_beam.io.filesystems import FileSystems

from beam_datasets.errors import InputError
from beam_datasets.features import ClassLabel, Image, Sequence, from_json
from beam_datasets.features.class_label import format_names
from beam_datasets.features.sequence import below
from beam_datasets.files.fields import Field
from beam_datasets.files.inputs import open_bytes

if TYPE_CHECKING:
    from collections import abc
    from collections.abc import Iterable, Mapping

    from beam_datasets.features import FeatureConnector
    from beam_datasets.files.inputs import InputFile

_PERCENT = re.compile(r"(\d+(?:\.\d+)?)%")
_WHOLE = 2**128
_SALT = b"share of a split\x00"


@dataclass(frozen=True)
class Share:
    """The rows of a split: those of the files of `pattern` whose key's 128-bit hash lies in [start, stop).

    Several patterns are all files that match any of them.
    """

    pattern: str | tuple[str, ...]
    start: int = 0
    stop: int = _WHOLE

    @property
    def is_all(self) -> bool:
        """Whether every row of the files belongs to it."""
        return self.stop - self.start == _WHOLE

    def has(self, key: str | int) -> bool:
        """Whether the row of this key belongs to it.

        The answer depends only on the key: rows that are added later move no other row to another split.
        """
        digest = hashlib.md5(_SALT + str(key).encode("utf-8", "surrogatepass")).digest()
        return self.start <= int.from_bytes(digest, "big") < self.stop


def shares(splits: Mapping[str, str | abc.Sequence[str]] | None, pattern: str | None) -> dict[str, Share]:
    """Returns the share of each split.

    Args:
        splits: split name -> the patterns of its files, or its percentage of the rows of `pattern`. Percentages add up
            to 100 and are met on average only, for each row is assigned by itself.
        pattern: the files of all splits, where they are given as percentages.

    >>> halves = shares({"train": "50%", "test": "50%"}, "data/*.csv")
    >>> halves["train"].stop == halves["test"].start == 2**127
    True

    Raises:
        ValueError: patterns and percentages are mixed, or the percentages do not add up to 100.
    """
    if not splits:
        if pattern is None:
            raise ValueError("no input: give a pattern (--pattern 'data/*') or splits (--split train='data/train*')")
        return {"train": Share(pattern)}
    percents = {name: _percent_of(name, value) for name, value in splits.items()}
    named = [name for name, percent in percents.items() if percent is None]
    if pattern is None:
        if len(named) < len(splits):
            raise ValueError(
                f"splits {dict(splits)} have percentages, of which files? Give them by pattern (--pattern)."
            )
        return {name: Share(value if isinstance(value, str) else tuple(value)) for name, value in splits.items()}
    if named:
        raise ValueError(
            f"pattern is {pattern!r} and split {named[0]!r} is {splits[named[0]]!r}: with a pattern for all splits "
            "give percentages (--split train=80% --split test=20%), or leave the pattern out"
        )
    return _consecutive({name: percent for name, percent in percents.items() if percent is not None}, pattern)


def _percent_of(name: str, value: str | abc.Sequence[str]) -> Fraction | None:
    if isinstance(value, str):
        return _percent(value)
    if not value or any(map(_percent, value)):
        raise ValueError(f"split {name!r} is {list(value)}; expected patterns of files, or one percentage")
    return None


def _percent(value: str) -> Fraction | None:
    match = _PERCENT.fullmatch(value.strip())
    return Fraction(match[1]) / 100 if match else None


def _consecutive(percents: Mapping[str, Fraction], pattern: str) -> dict[str, Share]:
    total = sum(percents.values())
    if total != 1:
        raise ValueError(f"the percentages of splits {sorted(percents)} add up to {float(total * 100):g}, not 100")
    ends = [int(end * _WHOLE) for end in accumulate(percents.values())]
    return {name: Share(pattern, start, end) for name, start, end in zip(percents, [0, *ends], ends)}


_NAME = "_export.json"


@dataclass(frozen=True)
class Export:
    """The description of an export.

    Attributes:
        splits: name -> paths of those of its files that are read.
        fields: name of a feature -> what its files do not contain; `a/b` is b in object, or list of objects, a.
    """

    splits: Mapping[str, tuple[str, ...]]
    fields: Mapping[str, Field]


def export_of(files: Iterable[InputFile], kind: str) -> Export | None:
    """Returns the description of the export that the files belong to; None if they belong to none.

    Args:
        files: all in one folder, else they belong to no export.
        kind: the format of the export.

    Raises:
        InputError: `_export.json` cannot be read, or does not name one of the files.
    """
    paths = {file.path: FileSystems.split(file.path) for file in files}
    folders = {folder for folder, _ in paths.values()}
    place = FileSystems.join(next(iter(folders)), _NAME) if len(folders) == 1 else ""
    if not place or not FileSystems.exists(place):
        return None
    try:
        with open_bytes(place) as stream:
            described = json.loads(stream.read())
        if described["format"] != kind:
            return None
        split_of = {file: split for split, columns in described["splits"].items() for file in columns["filenames"]}
        fields = dict(_fields(_tree(described)))
    except (ValueError, TypeError, KeyError, AttributeError, NotImplementedError) as error:
        raise InputError(
            f"{place} is not a valid description of an export ({type(error).__name__}: {error}); move it away"
        ) from error
    splits: dict[str, tuple[str, ...]] = dict.fromkeys(described["splits"], ())
    for path, (_, name) in paths.items():
        if name not in split_of:
            raise InputError(
                f"{path} is not of the export that {place} describes; say the splits by --split NAME=FILES"
            )
        splits[split_of[name]] += (path,)
    return Export({split: own for split, own in splits.items() if own}, fields)


def _tree(described: Mapping[str, Any]) -> FeatureConnector:
    texts = {f"{name}.labels.txt": format_names(names) for name, names in described["class_names"].items()}
    return from_json(described["features"]).load_labels(texts.get)


def _fields(tree: FeatureConnector) -> Iterable[tuple[str, Field]]:
    for name, _, feature in below(tree):
        field = _field(feature)
        if field is not None:
            yield name, field


def _field(feature: FeatureConnector) -> Field | None:
    """Returns the field of labels and images, also in lists; None for other features, whose types are in the files."""
    if isinstance(feature, Sequence):
        item = _field(feature.feature)
        return item and Field("list", item=item)
    if isinstance(feature, ClassLabel) and feature.num_classes:
        names = feature.label_names
        return Field("class", labels=feature.num_classes if names is None else tuple(names), exact=True)
    return Field("image", shape=feature.shape or (), exact=True) if type(feature) is Image else None
