"""Records as text in errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from beam_datasets.features.trees import display_names, iter_nested_features, strip_sequences
from beam_datasets.formats import example as example_format

if TYPE_CHECKING:
    from beam_datasets.features import FeatureConnector


VALUES_SHOWN = 8  # of a feature, in an error
TEXT_SHOWN = 80  # characters


def show(record: bytes, tree: FeatureConnector | None = None, limit: int = 300) -> str:
    """Returns a record's content in about `limit` characters: short features first, because they distinguish examples.

    Args:
        record: the record.
        tree: its features, for names and for values of bool; None if they are not known.
        limit: maximum number of characters.

    >>> show(example_format.serialize({"image": [bytes(range(100, 200))], "id": [7], "tags": [b"a", b"b"]}))
    "id: 7, tags: ['a', 'b'], image: 100 bytes that begin with b'defg'"
    """
    try:
        features = example_format.parse(record)
    except ValueError:
        return _show_value(record)
    names = {} if tree is None else display_names(tree)
    leaves = {} if tree is None else {path: leaf for path, _, leaf in iter_nested_features(tree)}
    bools = {path for path, leaf in leaves.items() if _is_bool(leaf)}
    lists = {path for path, leaf in leaves.items() if strip_sequences(leaf) is not leaf}
    texts = (
        f"{names.get(path, path)}: "
        + _show_values([bool(value) for value in values] if path in bools else values, is_list=path in lists)
        for path, values in features.items()
    )
    text = ", ".join(sorted(texts, key=len))
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _is_bool(feature: FeatureConnector) -> bool:
    """Returns whether the values of a feature are bools, which a record has as integers."""
    return getattr(strip_sequences(feature), "dtype", None) == np.bool_


def _show_values(values: Sequence[Any] | NDArray[Any], *, is_list: bool) -> str:
    """Returns the values of a feature for an error message: "7", "[1, 2]", or "9 values" for more than 8.

    Args:
        values: the values of the record.
        is_list: whether a single value is that of a list: "[7]".
    """
    if len(values) > VALUES_SHOWN:
        return f"{len(values):,} values"
    texts = [_show_value(value) for value in values]
    return texts[0] if len(texts) == 1 and not is_list else f"[{', '.join(texts)}]"


def _show_value(value: Any) -> str:
    r"""Returns text for a value; bytes as UTF-8, cut to `TEXT_SHOWN` characters, or else their length and start.

    >>> _show_value(3), _show_value(b"abc"), _show_value(b"\xff\xd8\xff\xe0\x00")
    ('3', "'abc'", "5 bytes that begin with b'\\xff\\xd8\\xff\\xe0'")
    """
    if not isinstance(value, bytes):
        return str(value)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"{len(value):,} bytes that begin with {value[:4]!r}"
    ellipsis = f" ... ({len(text):,} characters)" if len(text) > TEXT_SHOWN else ""
    return repr(text[:TEXT_SHOWN]) + ellipsis
