"""What `_export.json` describes of the files in its folder: splits, names of classes, images."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apache_beam.io.filesystems import FileSystems

from beam_datasets.errors import InputError
from beam_datasets.features import ClassLabel, Image, Sequence, from_json
from beam_datasets.features.class_label import format_names
from beam_datasets.features.tree import below
from beam_datasets.files.fields import Field
from beam_datasets.files.inputs import open_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from beam_datasets.features import FeatureConnector
    from beam_datasets.files.inputs import InputFile

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
