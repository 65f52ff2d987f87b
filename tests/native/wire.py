"""Records of any form that protobuf reads, made byte by byte: as foreign writers make them, and as nobody does."""

import struct
from collections.abc import Iterable

from beam_datasets.formats.example import varint

BYTES, FLOATS, INTEGERS = 1, 2, 3  # fields of a Feature


def field(number: int, payload: bytes) -> bytes:
    """A field with a length."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def entry(name: bytes, feature: bytes, extra: bytes = b"") -> bytes:
    return field(1, field(1, name) + field(2, feature) + extra)


def swapped(name: bytes, feature: bytes) -> bytes:
    """An entry whose value stands before its key."""
    return field(1, field(2, feature) + field(1, name))


def record(entries: Iterable[bytes]) -> bytes:
    return field(1, b"".join(entries))


def strings(values: Iterable[bytes]) -> bytes:
    return field(BYTES, b"".join(field(1, value) for value in values))


def floats(values: Iterable[float]) -> bytes:
    return field(FLOATS, field(1, b"".join(struct.pack("<f", value) for value in values)))


def loose_floats(values: Iterable[float]) -> bytes:
    """Not packed."""
    return field(FLOATS, b"".join(b"\x0d" + struct.pack("<f", value) for value in values))


def integers(values: Iterable[int]) -> bytes:
    return field(INTEGERS, field(1, b"".join(map(varint, values))))


def loose_integers(values: Iterable[int]) -> bytes:
    """Not packed."""
    return field(INTEGERS, b"".join(b"\x08" + varint(value) for value in values))


def long_varint(number: int, length: int) -> bytes:
    """A varint that is longer than it must be."""
    digits = [number >> 7 * i & 127 for i in range(length)]
    return bytes([*(digit | 128 for digit in digits[:-1]), digits[-1]])
