"""Numbers as 64-bit codes that sort as the numbers do, and 64-bit hashes of values."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Codes = NDArray[np.uint64]

_SIGN = np.uint64(1 << 63)


def widened(values: Any) -> NDArray[Any]:
    """Returns numbers as float64, int64 or uint64, whichever holds all values of their dtype."""
    array = np.asarray(values)
    kind = {"b": np.uint64, "u": np.uint64, "i": np.int64}.get(array.dtype.kind, np.float64)
    return array.astype(kind, copy=False)


def codes_of(values: NDArray[Any]) -> Codes:
    """Returns the codes of float64 (without NaN), int64 or uint64; -0.0 and 0.0 have the same code.

    >>> codes_of(np.array([-1.5, 0.0, 2.0])).argsort().tolist()
    [0, 1, 2]
    """
    if values.dtype.kind == "u":
        return values
    if values.dtype.kind == "i":
        return values.view(np.uint64) ^ _SIGN
    bits = (values + 0.0).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def values_of(codes: Codes, kind: str) -> NDArray[Any]:
    """Returns the numbers of codes.

    Args:
        codes: of numbers.
        kind: 'f', 'i' or 'u', as of the dtype of the numbers.

    >>> values_of(codes_of(np.array([-3, 7])), "i").tolist()
    [-3, 7]
    """
    if kind == "u":
        return codes
    if kind == "i":
        return (codes ^ _SIGN).view(np.int64)
    return np.where(codes & _SIGN, codes ^ _SIGN, ~codes).view(np.float64)


def mixed(codes: Codes) -> Codes:
    """Returns hashes of 64-bit numbers, different ones for different numbers (the finalizer of SplitMix64).

    >>> mixed(np.array([1], np.uint64)).tolist()
    [10451216379200822465]
    """
    with np.errstate(over="ignore"):
        codes = codes + np.uint64(0x9E3779B97F4A7C15)
        codes = (codes ^ (codes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        codes = (codes ^ (codes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return codes ^ (codes >> np.uint64(31))


def hashes_of(values: Sequence[bytes]) -> Codes:
    """Returns hashes of strings of bytes: the first 64 bits of BLAKE2b."""
    digest = hashlib.blake2b
    return np.frombuffer(b"".join([digest(value, digest_size=8).digest() for value in values]), np.uint64)


def occurrences(records: NDArray[np.int64], counts: NDArray[np.int64] | int) -> Codes:
    """Returns a hash for each value of each record; samples are those with the smallest hashes.

    Args:
        records: the index in the slice of each record.
        counts: number of values of each.
    """
    hashes = mixed(records.astype(np.uint64))
    if isinstance(counts, int):
        if counts == 1:
            return hashes
        counts = np.full(len(records), counts)
    items = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    with np.errstate(over="ignore"):
        return mixed(np.repeat(hashes, counts) + items.astype(np.uint64))
