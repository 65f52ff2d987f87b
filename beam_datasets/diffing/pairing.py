"""Which examples of two versions belong together: by keys, by index, or by content."""

from __future__ import annotations

import bisect
import hashlib
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Keys = NDArray[np.uint8]
    KeyBlocks = Iterator[tuple[int, Keys]]
    Content = Mapping[bytes, bytes]

NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Pairs:
    """Examples of two splits, by their indices.

    Attributes:
        old: those of the old split that have a partner, ascending.
        new: their partners in the new split, likewise.
        removed: those of the old split that have none.
        added: those of the new split that have none.
    """

    old: Ints = field(default_factory=lambda: NONE)
    new: Ints = field(default_factory=lambda: NONE)
    removed: Ints = field(default_factory=lambda: NONE)
    added: Ints = field(default_factory=lambda: NONE)


def pair_by_index(old: int, new: int, size: int) -> Iterator[Pairs]:
    """Yields the pairs of examples that have the same index, and the others, `size` at a time.

    Args:
        old: how many examples the old split has.
        new: likewise the new one.
        size: indices that are paired at once.
    """
    for start in range(0, max(old, new), size):
        mine, theirs = (np.arange(start, max(start, min(start + size, count))) for count in (old, new))
        both = min(len(mine), len(theirs))
        yield Pairs(mine[:both], theirs[:both], mine[both:], theirs[both:])


def pair_by_keys(old: KeyBlocks, new: KeyBlocks) -> Iterator[Pairs]:
    """Yields the pairs of two columns of ascending keys, and what is in one of them alone; a block at a time.

    Args:
        old: blocks (index of the first one, keys of shape (n, 16)).
        new: likewise.
    """
    left, right = KeyCursor(old), KeyCursor(new)
    while left.fill() and right.fill():
        limit = min(left.last, right.last)
        yield _pair(*left.take(limit), *right.take(limit))
    while left.fill():
        first, keys = left.take(left.last)
        yield Pairs(removed=np.arange(first, first + len(keys)))
    while right.fill():
        first, keys = right.take(right.last)
        yield Pairs(added=np.arange(first, first + len(keys)))


class KeyCursor:
    """What is left of blocks of ascending keys while they are merged with others."""

    def __init__(self, blocks: KeyBlocks) -> None:
        self._blocks = blocks
        self._first = 0
        self._keys: Keys = np.zeros((0, 16), np.uint8)

    def fill(self) -> bool:
        """Reads the next block if the last one is used up; returns whether any keys are left."""
        while not len(self._keys):
            block = next(self._blocks, None)
            if block is None:
                return False
            self._first, self._keys = block
        return True

    @property
    def last(self) -> bytes:
        """The block's greatest key."""
        return bytes(self._keys[-1])

    def take(self, limit: bytes) -> tuple[int, Keys]:
        """Returns (index of the first one, keys) of those up to a key."""
        keys, first = self._keys, self._first
        count = bisect.bisect_right(range(len(keys)), limit, key=lambda i: keys[i].tobytes())
        self._first, self._keys = first + count, keys[count:]
        return first, keys[:count]


def _pair(old_first: int, old: Keys, new_first: int, new: Keys) -> Pairs:
    if np.array_equal(old, new):
        places = np.arange(len(old))
        return Pairs(old_first + places, new_first + places)
    left, right = (np.ascontiguousarray(keys).view("S16").ravel() for keys in (old, new))
    _, mine, theirs = np.intersect1d(left, right, assume_unique=True, return_indices=True)
    return Pairs(
        old_first + mine,
        new_first + theirs,
        old_first + np.delete(np.arange(len(old)), mine),
        new_first + np.delete(np.arange(len(new)), theirs),
    )


def match_contents(old: Iterable[Content], new: Iterable[Content]) -> tuple[Ints, Ints]:
    """Returns where the same content is in two sequences; the first of several with the first of several.

    Args:
        old: what examples store, by name.
        new: likewise.
    """
    places = defaultdict[bytes, deque[int]](deque)
    for place, content in enumerate(old):
        places[_digest(content)].append(place)
    found = sorted((places[key].popleft(), j) for j, key in enumerate(map(_digest, new)) if places.get(key))
    pairs = np.array(found, np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _digest(content: Content) -> bytes:
    """Returns 128 bits of a content, whatever the order of its names."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(content):
        digest.update(b"%d %d " % (len(name), len(content[name])) + name + content[name])
    return digest.digest()
