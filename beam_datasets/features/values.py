"""How features.json writes numbers and shapes: as protobuf's JSON does, with 64-bit integers as strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beam_datasets.features.base import Json, Shape


def shape_to_json(shape: Shape) -> Json:
    """Returns a shape as features.json has it; unknown lengths are -1.

    >>> shape_to_json((None, 2)), shape_to_json(())
    ({'dimensions': ['-1', '2']}, {})
    """
    return {"dimensions": [str(-1 if length is None else length) for length in shape]} if shape else {}


def shape_from_json(shape: Any) -> Shape:
    """Returns the shape of such a value, or of the plain list that old files have."""
    lengths = shape.get("dimensions", []) if isinstance(shape, dict) else shape or []
    return tuple(None if length is None or int(length) < 0 else int(length) for length in lengths)


def int_from_json(value: Any) -> int | None:
    """Returns an integer that may be written as a string, or be missing."""
    return None if value is None else int(value)


def size_of(shape: Shape) -> int | None:
    """Returns how many values an array of a shape has; None where a length is unknown.

    >>> size_of((2, 3)), size_of(()), size_of((None, 3))
    (6, 1, None)
    """
    size = 1
    for length in shape:
        if length is None:
            return None
        size *= length
    return size
