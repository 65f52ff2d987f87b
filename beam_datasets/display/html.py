"""HTML tables for notebooks. All values are escaped, and no table contains a script or a link.

The tables have no colours or styles, so that they look like the notebook's other tables, light or dark.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.display.media import thumbnail, wav
from beam_datasets.display.text import printable, size_text
from beam_datasets.display.values import value_text
from beam_datasets.errors import BeamDatasetsError, shown_name
from beam_datasets.features import Audio, FeatureConnector, FeaturesDict, Image, LabeledImage, Video
from beam_datasets.features.dtypes import STRING
from beam_datasets.features.trees import display_names, iter_nested_features, leaves_with_features

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from beam_datasets.features import FeatureConnector


_PIXELS = 96  # length of the longer side of a thumbnail
_MAX_IMAGES = 4  # images shown of a value
_WIDTH = 80  # characters shown of a value
_MAX_TEXT = 300  # characters shown of a description
_SECONDS, _RATE = 10, 16_000  # of a sound: the duration to play, and the sample rate if the feature has none
MAX_FEATURES = 100  # columns, or rows of features, shown of a table


class Html(str):
    """HTML markup, which must not be escaped again."""

    __slots__ = ()


def text(value: object) -> Html:
    """Returns a value as escaped text; `Html` as it is.

    >>> text("<b>")
    '&lt;b&gt;'
    """
    return value if isinstance(value, Html) else Html(escape(printable(str(value))))


def table(header: Sequence[object], rows: Iterable[Sequence[object]], caption: object = "") -> Html:
    """Returns a table as HTML. Cells that are not `Html` are escaped.

    Args:
        header: cells of the first row.
        rows: cells of the other rows.
        caption: text above the table; '' for none.

    >>> str(table(["a"], [[1]], "A & B"))[:37]
    '<table><caption>A &amp; B</caption><t'
    """
    head = "".join(f'<th scope="col">{text(cell)}</th>' for cell in header)
    body = "".join(f"<tr>{''.join(f'<td>{text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    titled = f"<caption>{text(caption)}</caption>" if caption else ""
    return Html(f"<table>{titled}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def facts(values: Mapping[str, object]) -> Html:
    """Returns a table of names and values; empty values are left out."""
    rows = "".join(
        f'<tr><th scope="row">{text(name)}</th><td>{text(value)}</td></tr>' for name, value in values.items() if value
    )
    return Html(f"<table><tbody>{rows}</tbody></table>")


def paragraph(*parts: object) -> Html:
    """Returns a paragraph of parts, separated by spaces; parts that are not `Html` are escaped."""
    return Html(f"<p>{' '.join(map(text, parts))}</p>")


def examples_table(
    examples: Sequence[Any], features: FeatureConnector | None, keys: Sequence[Any] | None = None
) -> Html:
    """Returns examples as rows with a column for each feature: small pictures, sounds to play, names of labels.

    Args:
        examples: values as they are read; an exception stands for one that cannot be read.
        features: features of the examples; None if they are unknown.
        keys: names of the items of examples that are tuples; None if they are unknown.
    """
    if keys is not None and all(isinstance(key, str) for key in keys):
        examples = [dict(zip(keys, each)) if isinstance(each, tuple) else each for each in examples]
    names = display_names(features) if isinstance(features, FeaturesDict) else {}
    rows: list[dict[str, Html]] = []
    for example in examples:
        if isinstance(example, Exception):
            rows.append({"error": text(example)})
        elif isinstance(example, tuple):
            rows.append({str(number): cell(value, None) for number, value in enumerate(example)})
        else:
            leaves = leaves_with_features(example, features)
            rows.append({names.get(path, path) or "value": cell(value, leaf) for path, value, leaf in leaves})
    columns = list(dict.fromkeys(name for row in rows for name in row))
    visible_columns = columns[:MAX_FEATURES]
    body = ([number, *(row.get(name, "") for name in visible_columns)] for number, row in enumerate(rows))
    return Html(table(["", *visible_columns], body) + _hidden_note(len(columns)))


def cell(value: Any, feature: FeatureConnector | None) -> Html:
    """Returns the cell of a feature's decoded value: pictures, a sound to play, or text."""
    try:
        return _media(value, feature) or text(value_text(value, feature, _WIDTH))
    except (BeamDatasetsError, TypeError, ValueError):  # Pillow is missing, or map() has changed the value
        return text(value_text(value, feature, _WIDTH))


def _media(value: Any, feature: FeatureConnector | None) -> Html | None:
    """Returns the pictures or the sound of a value; None if it has neither."""
    if isinstance(feature, (Image, Video)) and not isinstance(feature, LabeledImage):
        pictures = _pictures(value)
        images = [_image(picture) for picture in pictures[:_MAX_IMAGES]]
        ellipsis = f" ... ({len(pictures):,})" if len(pictures) > _MAX_IMAGES else ""
        return Html(" ".join(images) + ellipsis) if pictures else None
    if isinstance(feature, Audio) and isinstance(value, np.ndarray) and value.ndim in (1, 2) and value.size:
        data = base64.b64encode(wav(value, feature.sample_rate or _RATE, _SECONDS)).decode()
        return Html(f'<audio controls preload="none" src="data:audio/wav;base64,{data}"></audio>')
    return None


def _pictures(value: Any) -> list[Any]:
    """Returns the images in a value, each of shape (height, width, channels)."""
    if isinstance(value, np.ndarray) and value.ndim == 3:
        return [value] if value.size else []
    if isinstance(value, (list, np.ndarray)) and np.ndim(value[0] if len(value) else 0) == 3:
        return list(value)
    return []


def _image(array: NDArray[Any]) -> str:
    """Returns an image of shape (height, width, channels) as an HTML element with a small PNG."""
    height, width = array.shape[:2]
    data = base64.b64encode(thumbnail(array, _PIXELS)).decode()
    return f'<img alt="{width} x {height} pixels" src="data:image/png;base64,{data}">'


def batch_table(batch: Any) -> Html:
    """Returns the arrays of a batch as rows: name, dtype, shape, and some of the values."""
    leaves = [(shown_name(path), value) for path, value, _ in leaves_with_features(batch)]
    rows = [
        [path, getattr(value, "dtype", type(value).__name__), str(getattr(value, "shape", "")), _range_of(value)]
        for path, value in leaves[:MAX_FEATURES]
    ]
    return Html(table(["feature", "dtype", "shape", "values"], rows) + _hidden_note(len(leaves)))


def _hidden_note(num_features: int) -> Html:
    """Returns a paragraph with the number of the features that a table leaves out; '' if it has all of them."""
    hidden = num_features - MAX_FEATURES
    return paragraph(f"{hidden:,} of {num_features:,} features are not shown.") if hidden > 0 else Html("")


def _range_of(value: Any) -> str:
    """Returns the range of an array of numbers as text, "0 to 9"; for other values, the value as text."""
    range_text = value_text(value, None, _WIDTH)
    has_numbers = isinstance(value, np.ndarray) and not value.dtype.hasobject
    return range_text.rpartition("), ")[2] if has_numbers and "), " in range_text else range_text


def features_table(features: FeatureConnector) -> Html:
    """Returns the features as rows: name, class, shape, dtype and description."""
    names = display_names(features) if isinstance(features, FeaturesDict) else {}
    leaves = list(iter_nested_features(features))
    rows = [
        [
            names.get(path, path) or "value",
            type(child).__name__,
            str(getattr(child, "shape", "")),
            "text" if getattr(child, "dtype", None) == STRING else getattr(child, "dtype", ""),
            _truncate_description(getattr(getattr(child, "doc", None), "desc", None) or ""),
        ]
        for path, _, child in leaves[:MAX_FEATURES]
    ]
    return Html(table(["feature", "class", "shape", "dtype", "description"], rows) + _hidden_note(len(leaves)))


def info_html(info: Any) -> Html:
    """Returns a `DatasetInfo` as tables of metadata, splits and features."""
    metadata = {
        "dataset": info.full_name,
        "description": _truncate_description(info.description),
        "homepage": info.homepage or "",
        "license": _truncate_description(info.license or ""),
        "citation": _truncate_description(info.citation or ""),
        "supervised_keys": info.supervised_keys or "",
    }
    splits = [[name, f"{s.num_examples:,}", f"{s.num_shards:,}", _format_size(s)] for name, s in info.splits.items()]
    tables = [facts(metadata), table(["split", "examples", "shards", "size"], splits) if splits else ""]
    return Html("".join([*tables, features_table(info.features) if info.features is not None else ""]))


def _format_size(split: Any) -> str:
    """Returns the size of a split as text, such as "1.5 KiB"; "" if it is unknown."""
    return "" if split.num_bytes is None else size_text(split.num_bytes)


def _truncate_description(description: str) -> str:
    """Returns a text; of a longer one, the first `_MAX_TEXT` characters followed by "..."."""
    return description if len(description) <= _MAX_TEXT else f"{description[:_MAX_TEXT]}..."


def diff_html(diff: Any) -> Html:
    """Returns a `DatasetDiff`, the differences of two versions, as tables."""
    counts = ("old_examples", "new_examples", "same", "changed", "added", "removed", "moved")
    rows = [
        [name, *(_format_optional_count(getattr(split, kind)) for kind in counts)]
        for name, split in diff.splits.items()
    ]
    reasons = [[reason.needs, reason.text] for reason in diff.verdict.reasons]
    parts: list[object] = [
        paragraph(f"{diff.old} \u2192 {diff.new}: {diff.verdict}"),
        table(["needs", "reason"], reasons) if reasons else "",
        table(["split", "old", "new", *counts[2:]], rows),
        *(_changes(name, split) for name, split in diff.splits.items() if split.examples),
    ]
    return Html("".join(map(str, parts)))


def _format_optional_count(number: int | None) -> str:
    """Returns a number as text, such as "1,200"; "" for None."""
    return "" if number is None else f"{number:,}"


def _changes(name: str, split: Any) -> Html:
    """Returns a table of the first examples of a split that differ."""
    rows = [[change.kind, _format_values(change.old), _format_values(change.new)] for change in split.examples]
    return table(["change", "old", "new"], rows, f"{name}: the first examples that differ")


def _format_values(values: Mapping[str, Any]) -> Html:
    """Returns values as HTML, one line "name: value" each."""
    return Html("<br>".join(f"{text(name)}: {text(value_text(value, None, _WIDTH))}" for name, value in values.items()))
