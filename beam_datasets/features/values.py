"""How features.json writes numbers and shapes: as protobuf's JSON does, with 64-bit integers as strings."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beam_datasets.features.base import Json, Shape

_MAX_SIZE = 2**56  # values of an array, of up to 16 bytes each: NumPy counts bytes in 63 bits
_MAX_RANK = 32


def shape_to_json(shape: Shape) -> Json:
    """Returns a shape as features.json has it; unknown lengths are -1.

    >>> shape_to_json((None, 2)), shape_to_json(())
    ({'dimensions': ['-1', '2']}, {})
    """
    return {"dimensions": [str(-1 if length is None else length) for length in shape]} if shape else {}


def shape_from_json(shape: Any) -> Shape:
    """Returns the shape that the content contains, or of the plain list that old files have.

    Raises:
        ValueError: it is not a shape, or NumPy cannot have arrays of it.
    """
    lengths = shape.get("dimensions", []) if isinstance(shape, dict) else shape or []
    if not isinstance(lengths, list):
        raise ValueError(f"expected a list of dimensions, got {lengths!r:.100}")
    numbers = [int_from_json(length) for length in lengths]
    if math.prod(number for number in numbers if number and number > 0) > _MAX_SIZE or len(numbers) > _MAX_RANK:
        raise ValueError(f"expected a shape of at most {_MAX_RANK} dimensions and 2**56 values, got {lengths!r:.200}")
    return tuple(None if number is None or number < 0 else number for number in numbers)


def int_from_json(value: Any) -> int | None:
    """Returns an integer of 64 bits that may be written as a string, or be missing.

    Raises:
        ValueError: it is something else.
    """
    if value is None:
        return None
    is_integer = type(value) is int or (type(value) is float and value.is_integer())
    if is_integer or (type(value) is str and re.fullmatch(r"-?[0-9]{1,19}", value)):
        number = int(value)
        if -(2**63) <= number < 2**63:
            return number
    raise ValueError(f"expected an integer of 64 bits, got {value!r:.100}")


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
