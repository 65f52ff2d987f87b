"""The features that Parquet files of Hugging Face's datasets describe: labels with names, images and other files."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from beam_datasets.features import ClassLabel
from beam_datasets.files.arrow_types import FILE
from beam_datasets.files.fields import INTEGERS, Field

_KEY = b"huggingface"
_SOUND = re.compile(
    rb"RIFF....WAVE|RF64....WAVE|ID3|fLaC|OggS|FORM....AIF[CF]|\xff[\xe2-\xef\xf2-\xf7\xfa-\xff]", re.DOTALL
)
_OTHER = re.compile(  # of other sounds, videos and documents
    rb"RIFF....AVI |BW64|\.snd|caff|wvPk|#!AMR|\xff[\xf1\xf9]|\x1a\x45\xdf\xa3|%PDF"
    rb"|....ftyp(?!avif|avis|crx |heic|heix|heim|heis|hevc|hevx|mif1|msf1)",
    re.DOTALL,
)
_FILES = {"Image": "image", "Audio": "audio", **dict.fromkeys(("Video", "Pdf", "Nifti"), "string")}
log = logging.getLogger(__name__)

Bounds = Callable[[str], tuple[int, int] | None]
"""From the path of integers to the least and the greatest of them; None if they are not known."""


def described_features(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """Returns the descriptions of features in the metadata of an Arrow schema, by the names of their columns.

    >>> described_features({b"huggingface": b'{"info": {"features": {"x": {"_type": "Image"}}}}'})
    {'x': {'_type': 'Image'}}
    """
    try:
        features = json.loads((metadata or {})[_KEY])["info"]["features"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


@dataclass(frozen=True)
class Description:
    """The metadata of a Parquet file from which the fields of its columns are derived.

    Attributes:
        features: name of a column -> its Hugging Face feature; see `described_features`.
        bounds: function from the path of an integer column to its least and greatest value; see `Bounds`.
        nulls: paths of values that may be null.
        path: path of the file.
    """

    features: Mapping[str, Any]
    bounds: Bounds
    nulls: Collection[str]
    path: str

    def described(self, name: str, field: Field) -> Field:
        """Returns the field of a column, with the labels, images and sounds that its description declares."""
        return self._describe_field(field, self.features.get(name), name)

    def _describe_field(self, field: Field, feature: Any, path: str) -> Field:
        """Returns a field with the labels, images and sounds of a feature, also in its lists and structs.

        Args:
            field: the field of the Arrow type.
            feature: the feature in the metadata of Hugging Face: {'_type': 'ClassLabel', 'names': [...]}, a dict of
                features by name, or a list of one feature. Anything else changes nothing.
            path: path of the field; see `arrow_types.arrow_field`.
        """
        kind = feature.get("_type") if isinstance(feature, dict) else None
        if isinstance(feature, list) and len(feature) == 1:
            feature, kind = {"feature": feature[0]}, "List"
        if not isinstance(feature, dict) or field.problem:
            return field
        if kind == "ClassLabel":
            return self._label_field(field, feature.get("names"), path)
        if kind in _FILES:
            is_struct = field.fields is not None and field.fields.keys() == {"bytes", "path"}
            return file_field(_FILES[kind], path, self.nulls) if field.kind == "image" or is_struct else field
        members = feature if not isinstance(kind, str) else feature.get("feature")
        if field.item is not None and field.kind == "list" and kind is not None:
            return replace(field, item=self._describe_field(field.item, members, f"{path}[]"))
        if field.fields is None or not isinstance(members, dict):
            return field
        # a sequence of dicts is stored as a struct of lists
        steps = {name: [each] if isinstance(kind, str) else each for name, each in members.items()}
        inner = {
            name: self._describe_field(each, steps.get(name), f"{path}/{name}") for name, each in field.fields.items()
        }
        return replace(field, fields=inner)

    def _label_field(self, field: Field, names: Any, path: str) -> Field:
        """Returns the field of labels if the integers of a field are indices of names; otherwise the field itself.

        Args:
            field: the field.
            names: the list of str of the metadata; anything else changes nothing.
            path: path of the field. Its values must be in [-1, len(names)); -1 is a missing label.
        """
        if field.kind not in INTEGERS or not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            return field
        try:
            labels = ClassLabel(names=names).label_names
        except ValueError as error:
            log.warning("%s: column %r has no labels, because of their names: %s", self.path, path, error)
            return field
        lowest, highest = self.bounds(path) or (0, 0)
        if lowest < -1 or highest >= len(names):
            log.warning(
                "%s: column %r has integers from %d to %d, and so no labels of the %d names in the file",
                *(self.path, path, lowest, highest, len(names)),
            )
            return field
        return Field("class", optional=field.optional, labels=labels, is_index=True)


def file_field(kind: str, path: str, nulls: Collection[str]) -> Field:
    """Returns the field of files, whose content is text if they are neither images nor sounds, or sounds in a list.

    Args:
        kind: `image`, `audio` or `string`.
        path: path of the files.
        nulls: the paths of values that may be null.
    """
    if kind == "image" or (kind == "audio" and not path.endswith("[]")):
        return Field(kind)
    return Field("string", optional="[]" not in path and f"{path}/bytes" in nulls, source=FILE)


def with_kinds_of_files(field: Field, path: str, nulls: Collection[str], first_of: Callable[[Field], bytes]) -> Field:
    """Returns the field, in which fields of files, at any depth, have the kind that the first file of each has.

    Args:
        field: at the path.
        path: path of the field.
        nulls: the paths of values that may be null.
        first_of: function from a field of images or sounds to the first of its files.
    """
    if field.kind in ("image", "audio"):
        content = first_of(field)
        is_other = _OTHER.match(content)
        return file_field("audio" if _SOUND.match(content) else "string" if is_other else field.kind, path, nulls)
    inner = field.fields and {
        name: with_kinds_of_files(each, f"{path}/{name}", nulls, first_of) for name, each in field.fields.items()
    }
    return replace(
        field, fields=inner, item=field.item and with_kinds_of_files(field.item, f"{path}[]", nulls, first_of)
    )
