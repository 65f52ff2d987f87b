"""Examples as text for people: one feature per line, long values truncated, classes by name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from beam_datasets.display.text import printable, text_width, truncate
from beam_datasets.extras import needs
from beam_datasets.features import ClassLabel, FeatureConnector, FeaturesDict, LabeledImage, NestedDataset, RaggedArray
from beam_datasets.features.trees import display_names, leaves_with_features, strip_sequences

if TYPE_CHECKING:
    from PIL.Image import Image


_SHOWN = 8  # numbers of an array
_MIN_WIDTH = 20  # characters of a value, however long its name is


def feature_lines(example: Any, feature: FeatureConnector, width: int) -> Iterator[str]:
    """Yields a printable `name: value` for each feature of an example, nested ones with dots in their names."""
    names = display_names(feature)
    for path, value, leaf in leaves_with_features(example, feature):
        name = printable(names.get(path, path))
        yield f"{name}: {printable(value_text(value, leaf, width - text_width(name) - 2))}"


def feature_at(feature: FeatureConnector | None, path: str) -> FeatureConnector | None:
    """Returns the feature at a path, without the sequences around it; None where there is none.

    >>> feature_at(FeaturesDict({"a": {"b": ClassLabel(num_classes=2)}}), "a/b")
    ClassLabel(shape=(), dtype=int64, num_classes=2)
    """
    inner = None if feature is None else strip_sequences(feature)
    if not path or not isinstance(inner, FeaturesDict):
        return None if path else inner
    names = [name for name in inner if path == name or path.startswith(f"{name}/")]
    candidates = (feature_at(inner[name], path[len(name) + 1 :]) for name in names)
    return next((child for child in candidates if child is not None), None)


def value_text(value: Any, feature: FeatureConnector | None, width: int) -> str:
    """Returns a value in one line of about `width` characters.

    >>> value_text(np.arange(100).reshape(10, 10), None, 60)
    'int64 (10, 10), 0 to 99'
    >>> value_text(np.int64(1), ClassLabel(names=["cat", "dog"]), 60)
    '1 (dog)'
    """
    width = max(width, _MIN_WIDTH)
    if isinstance(value, (bytes, str)):
        return _quote(value, width)
    if isinstance(value, NestedDataset):
        first = f", the first {truncate(str(value[0]), width)}" if len(value) else ""
        return f"{len(value):,} items{first}"
    if isinstance(value, RaggedArray):
        return _format_ragged(value, feature, width)
    if isinstance(value, (np.ndarray, np.generic)):
        return _array_text(np.asarray(value), feature, width)
    if isinstance(value, list):
        return _format_items(value, feature, width)
    return "none" if value is None else truncate(str(value), width)


def _quote(value: bytes | str, width: int) -> str:
    """Returns text in quotes, with escapes for whatever a terminal would not show as a character."""
    text: bytes | str = value
    if isinstance(value, bytes):
        with contextlib.suppress(UnicodeDecodeError):
            text = value.decode("utf-8")
    if len(text) <= width and text_width(repr(text)) <= width:
        return repr(text)
    size_note = f" ... ({len(text):,} {'bytes' if isinstance(text, bytes) else 'characters'})"
    prefix = text[: max(width - len(size_note), _MIN_WIDTH)]
    while len(prefix) > 1 and text_width(repr(prefix)) + len(size_note) > max(width, _MIN_WIDTH):
        prefix = prefix[:-1]
    return repr(prefix) + size_note


def _array_text(array: Any, feature: FeatureConnector | None, width: int) -> str:
    """Returns a scalar or a short vector as text, in full; of other arrays the dtype, the shape and the range.

    Args:
        array: the NumPy array.
        feature: feature of the value, which has names of labels; None if it is unknown.
        width: approximate maximum number of characters.
    """
    if array.dtype.hasobject:
        return _format_items(array.tolist(), feature, width) if array.ndim else value_text(array.item(), feature, width)
    if not array.ndim:
        return _format_number(array.item(), array.dtype, feature)
    if array.size <= _SHOWN and array.ndim == 1:
        return "[" + ", ".join(_format_number(number, array.dtype, feature) for number in array.tolist()) + "]"
    return f"{array.dtype} {array.shape}{_range(array, feature)}"


def _range(array: Any, feature: FeatureConnector | None) -> str:
    """Returns a suffix with the range of an array, ", 0 to 255", or the classes of a `LabeledImage`; '' if empty."""
    if not array.size:
        return ""
    if isinstance(feature, LabeledImage):
        classes = np.unique(array).tolist()
        classes_text = ", ".join(_format_number(number, array.dtype, feature.label) for number in classes[:_SHOWN])
        return f", classes {classes_text}" + (", ..." if len(classes) > _SHOWN else "")
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    if not finite.size:
        return ", no finite number"
    low, high = (_format_number(number.item(), array.dtype, None) for number in (finite.min(), finite.max()))
    missing = array.size - finite.size
    return f", {low} to {high}" + (f", and {missing:,} not finite" if missing else "")


def _format_number(number: Any, dtype: Any, feature: FeatureConnector | None) -> str:
    """Returns a number as text; "3 (cat)" if the feature is a `ClassLabel` with names, and "-1 (no label)".

    A float is written with the digits of its dtype, the NumPy dtype of the array that contains it.
    """
    if isinstance(feature, ClassLabel):
        if number == -1:
            return "-1 (no label)"
        names = feature.label_names
        return f"{number} ({names[number]})" if names and 0 <= number < len(names) else str(number)
    return str(dtype.type(number)) if dtype.kind == "f" else str(number)


def _format_items(values: list[Any], feature: FeatureConnector | None, width: int) -> str:
    """Returns a list as text; its items share the width.

    Args:
        values: the items; only the first ones are shown if there are many.
        feature: feature of the items; None if it is unknown.
        width: approximate maximum number of characters.

    >>> _format_items([1, 2], None, 60)
    '[1, 2]'
    """
    each = max(_MIN_WIDTH, width // max(1, min(len(values), _SHOWN)) - 2)
    items_text = ", ".join(value_text(value, feature, each) for value in values[:_SHOWN])
    ending = f", ...] ({len(values):,} items)" if len(values) > _SHOWN else "]"
    return truncate(f"[{items_text}", max(width - len(ending), _MIN_WIDTH)) + ending


def _format_ragged(value: RaggedArray, feature: FeatureConnector | None, width: int) -> str:
    """Returns a ragged array as text: a short one as lists, else "1,000 rows of 5,000 items, int64, 0 to 9".

    Args:
        value: the ragged array.
        feature: feature of the value; None if it is unknown.
        width: approximate maximum number of characters of a short array.
    """
    flat = value.flat_values
    if len(flat) <= _SHOWN and not isinstance(feature, ClassLabel):
        return _format_items(value.to_list(), feature, width)
    items = "" if isinstance(flat, list) or flat.dtype.hasobject else _range(flat, feature)
    return f"{len(value):,} rows of {len(flat):,} items, {value.dtype}{items}"


def to_image(array: NDArray[Any]) -> Image:
    """Returns pixels as an RGB image of Pillow: alpha over white, floats between their extremes.

    Args:
        array: shape (height, width, channels); 1 channel is gray, 2 are gray and alpha, 3 RGB, 4 RGB and alpha.

    Raises:
        MissingDependencyError: Pillow is not installed.
    """
    with needs("pictures need Pillow", "image"):
        from PIL import Image
    pixels = _to_bytes(array)
    image = Image.fromarray(pixels if 2 <= pixels.shape[-1] <= 4 else pixels[..., 0]).convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")


def _to_bytes(image: NDArray[Any]) -> NDArray[Any]:
    """Converts pixels to uint8: integers by their high byte, floats by scaling them between their extremes."""
    if image.dtype == np.uint8:
        return image
    if image.dtype.kind in "iu":
        high_bits: NDArray[Any] = (image >> (8 * (image.dtype.itemsize - 1))).astype(np.uint8)
        return high_bits
    finite = np.nan_to_num(image.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = finite.min(initial=np.inf), finite.max(initial=-np.inf)
    grays: NDArray[Any] = ((finite - low) / max(high - low, 1e-30) * 255).astype(np.uint8)
    return grays
