"""Sort keys: the 16 bytes that determine the position of an example in its split.

A shuffled split is ordered by the MD5 of its name followed by the example's key. The name is the salt: the same keys
have another order in each split. MD5 is used to mix bits, not for security: it is fast, gives the same result on every
machine, and is what TensorFlow Datasets orders by. A change of this module changes the order of every dataset, so all
of them would need a new major version.

A split whose shuffling is disabled is ordered by its integer keys.

Both kinds of keys are 16 bytes that are compared as bytes, so sorting does not depend on the kind.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from beam_datasets.errors import InvalidKeyError

try:  # CPython's own MD5 takes half the time of OpenSSL's on short messages, and also exists under FIPS
    from _md5 import md5  # type: ignore[import-not-found]
except ImportError:  # pragma: no cover
    from hashlib import md5

from collections.abc import Sequence

SORT_KEY_SIZE = 16  # bytes

Key: TypeAlias = "str | bytes | int | np.integer[Any] | np.ndarray[Any, Any]"

_ZERO = 1 << 127  # the stored form of the ordered key 0, in the middle of the range
_ACCEPTED = "str, bytes, int, a NumPy integer, or a NumPy array of one such element"


def key_bytes(key: Key) -> bytes:
    r"""Returns the bytes of a key that are hashed.

    bytes stay as they are; a str has `\` replaced by `/` (so that paths hash alike on every system) and becomes
    UTF-8; an integer becomes its decimal digits, a bool `True` or `False`. Hence 1 and '1' are the same key.

    >>> key_bytes("dir\\a.png"), key_bytes(-12), key_bytes(b"\xff")
    (b'dir/a.png', b'-12', b'\xff')

    Raises:
        InvalidKeyError: the key is of another type, or a str that UTF-8 cannot express.
    """
    if isinstance(key, str):
        return _text_bytes(key)
    if isinstance(key, bytes):
        return bytes(key)
    if isinstance(key, (bool, np.bool_)):
        return b"True" if key else b"False"
    if isinstance(key, (int, np.integer)):
        return b"%d" % int(key)
    if isinstance(key, np.ndarray) and key.size == 1:
        return key_bytes(key.item())
    raise InvalidKeyError(expected=f"a key of type {_ACCEPTED}", got=f"{key!r} of type {_type_name(key)}")


def hash_key(split: str, key: Key) -> bytes:
    """Returns the 16 bytes by which an example of a shuffled split is sorted: MD5 of the split's name and the key.

    >>> hash_key("train", 5).hex()
    '3a53140cdbf3d9ad0cf0a5a97f21f654'

    Raises:
        InvalidKeyError: see `key_bytes`.
    """
    return bytes(md5(key_bytes(split) + key_bytes(key)).digest())


def hash_keys(split: str, keys: Sequence[Any]) -> bytes:
    """Returns the results of `hash_key` for many keys, one after the other, 16 bytes each.

    >>> hash_keys("train", [5, 6]) == hash_key("train", 5) + hash_key("train", 6)
    True

    Raises:
        InvalidKeyError: see `key_bytes`.
    """
    salt = key_bytes(split)
    return b"".join([md5(salt + key_bytes(key)).digest() for key in keys])


def ordered_key(key: int | np.integer[Any]) -> bytes:
    """Returns the 16 bytes by which an example of a split in key order is sorted: key + 2**127, big-endian.

    >>> ordered_key(-1) < ordered_key(0) < ordered_key(1)
    True
    >>> ordered_key(5).hex()
    '80000000000000000000000000000005'

    Raises:
        InvalidKeyError: the key is not an integer, or outside [-2**127, 2**127).
    """
    try:
        return (_key_to_int(key) + _ZERO).to_bytes(SORT_KEY_SIZE, "big")
    except OverflowError:
        expected = "a key in [-2**127, 2**127), as the dataset has disable_shuffling=True"
        raise InvalidKeyError(expected=expected, got=f"{key}") from None


def ordered_keys(keys: Sequence[Any]) -> bytes:
    """Returns the results of `ordered_key` for many keys, one after the other, 16 bytes each.

    Raises:
        InvalidKeyError: see `ordered_key`.
    """
    return b"".join([ordered_key(key) for key in keys])


def reshuffled_keys(salt: str, sort_keys: Sequence[bytes]) -> bytes:
    """Returns the sort keys of examples in a new order, 16 bytes each: MD5 of a salt and the sort key so far.

    >>> reshuffled_keys("again", [hash_key("train", 5)]).hex()
    'df17bd3490c4eeb6642cce04878d9033'
    """
    prefix = salt.encode()
    return b"".join([md5(prefix + sort_key).digest() for sort_key in sort_keys])


def _text_bytes(key: str) -> bytes:
    """Encodes a text as UTF-8, with slashes instead of backslashes.

    Raises:
        InvalidKeyError: UTF-8 cannot express the text.
    """
    try:
        return key.replace("\\", "/").encode()
    except UnicodeEncodeError as error:
        raise InvalidKeyError(
            expected="a key that UTF-8 can express",
            got=f"{key!r:.100} ({error.reason})",
            advice="Give the key as bytes.",
        ) from error


def _key_to_int(key: object) -> int:
    """Converts an integer of Python or NumPy, or an array of one integer, to int.

    Raises:
        InvalidKeyError: the key is not an integer.
    """
    if isinstance(key, np.ndarray) and key.size == 1:
        key = key.item()
    if isinstance(key, (int, np.integer, np.bool_)):
        return int(key)
    raise InvalidKeyError(
        expected="an integer as key, as the dataset has disable_shuffling=True",
        got=f"{key!r} of type {_type_name(key)}",
    )


def _type_name(value: object) -> str:
    """Returns the name of a value's class for errors, such as "float", or "numpy.ndarray of 3 elements of int64"."""
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"{name} of {value.size} elements of {value.dtype}" if isinstance(value, np.ndarray) else name
