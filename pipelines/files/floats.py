"""Whether a number keeps its digits as a float32."""

from __future__ import annotations

import struct

import numpy as np

_LEAST, _MOST = 1.2e-38, 3.4e38  # between them a float32 has all its 24 bits, and so six digits of any number
_FLOAT = struct.Struct("<f")


def survives(number: float) -> bool:
    """Returns whether the float32 nearest to a number is the number, or has it as its shortest text.

    >>> [survives(x) for x in (0.1, 1 / 2**30, 3.4028235e38, 16777217.0, 52.123456789, 1e300, float("nan"))]
    [True, True, True, False, False, False, True]
    """
    if number == 0 or number != number:
        return True
    if _LEAST < abs(number) < _MOST and float("%.6g" % number) == number:  # noqa: UP031  # in half the time
        return True
    try:
        [narrow] = _FLOAT.unpack(_FLOAT.pack(number))
    except OverflowError:
        return False
    return narrow == number or float(str(np.float32(narrow))) == number
