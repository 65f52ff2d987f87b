"""Protocol-buffer varints: seven bits a byte, low bits first, the high bit says that another byte follows.

Signed 64-bit integers are stored as their two's complement, so a negative number takes ten bytes.
Source: https://protobuf.dev/programming-guides/encoding/#varints
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from beam_datasets.errors import BeamDatasetsError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX_BYTES = 10  # ceil(64 / 7)
_SMALL = tuple(bytes((i,)) for i in range(128))


class ExampleError(BeamDatasetsError, ValueError):
    """Bytes are not a serialized tf.train.Example."""


def varint(number: int) -> bytes:
    """Returns the varint of an integer in [-2**63, 2**64).

    >>> varint(300).hex(), varint(-1).hex()
    ('ac02', 'ffffffffffffffffff01')
    """
    if 0 <= number < 128:
        return _SMALL[number]
    if 128 <= number < 16384:
        return bytes((number & 127 | 128, number >> 7))
    number &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Returns the unsigned varint at a position, and the position behind it.

    Raises:
        ExampleError: it has more than ten bytes.
        IndexError: the data end within it.
    """
    byte = data[position]
    if byte < 128:
        return byte, position + 1
    second = data[position + 1]
    if second < 128:
        return byte & 127 | second << 7, position + 2
    number = byte & 127 | (second & 127) << 7
    shift = 14
    for place in range(position + 2, position + _MAX_BYTES):
        byte = data[place]
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place + 1
        shift += 7
    raise ExampleError(f"the varint at byte {position} has more than {_MAX_BYTES} bytes")


def encode_varints(values: NDArray[np.int64]) -> bytes:
    """Returns the varints of a one-dimensional array of int64, one after the other."""
    if len(values) <= 8:
        return b"".join(map(varint, values.tolist()))
    from beam_datasets.formats.example_pb2 import Int64List  # type: ignore[attr-defined]

    message: bytes = Int64List(value=values.tolist()).SerializeToString()
    return message[read_varint(message, 1)[1] :]
