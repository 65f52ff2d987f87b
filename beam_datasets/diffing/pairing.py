"""Which example of one version is which of the other: by keys, in one pass over two columns; or by content."""

from __future__ import annotations

import bisect
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Keys = NDArray[np.uint8]
    KeyBlocks = Iterator[tuple[int, Keys]]
    Rows = NDArray[np.uint64]
    Content = Mapping[bytes, bytes]

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Pairs:
    """Examples of two splits, by their indices.

    Attributes:
        old: those of the old split that have a partner, ascending.
        new: their partners in the new split, likewise.
        removed: those of the old split that have none.
        added: those of the new split that have none.
    """

    old: Ints = field(default_factory=lambda: _NONE)
    new: Ints = field(default_factory=lambda: _NONE)
    removed: Ints = field(default_factory=lambda: _NONE)
    added: Ints = field(default_factory=lambda: _NONE)


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
        """Takes the next block where the last one is used up; returns whether there is any."""
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
    if len(old) == len(new) and np.array_equal(old, new):
        places = np.arange(len(old))
        return Pairs(old_first + places, new_first + places)
    mine, theirs = match_rows(_halves(old), _halves(new))
    return Pairs(
        old_first + mine,
        new_first + theirs,
        old_first + _others(mine, len(old)),
        new_first + _others(theirs, len(new)),
    )


def _halves(keys: Keys) -> Rows:
    """Returns keys as rows of two numbers, which compare as the keys do."""
    return keys.view(">u8").astype(np.uint64)


def _others(some: Ints, count: int) -> Ints:
    """Returns the numbers in [0, count) that are not among some."""
    rest = np.ones(count, bool)
    rest[some] = False
    return np.flatnonzero(rest)


def match_rows(old: Rows, new: Rows) -> tuple[Ints, Ints]:
    """Returns where rows stand that both arrays have: in the old one, ascending, and in the new one.

    Args:
        old: of shape (n, k), no row twice.
        new: of shape (m, k), likewise.

    >>> rows = np.array([[1], [2], [3]], np.uint64)
    >>> match_rows(rows, rows[[2, 0]])
    (array([0, 2]), array([1, 0]))
    """
    both = np.concatenate([old, new])
    side = np.repeat([0, 1], [len(old), len(new)])
    order = np.lexsort((side, *both.T[::-1]))
    ranked = both[order]
    twins = np.flatnonzero((ranked[1:] == ranked[:-1]).all(axis=1))
    mine, theirs = order[twins], order[twins + 1] - len(old)
    ascending = np.argsort(mine)
    return mine[ascending], theirs[ascending]


def match_contents(old: Iterable[Content], new: Iterable[Content]) -> tuple[Ints, Ints]:
    """Returns where the same content stands in two sequences; the first of several with the first of several.

    Args:
        old: what examples store, by name.
        new: likewise.
    """
    return match_rows(_numbered(_digests(old)), _numbered(_digests(new)))


def _digests(contents: Iterable[Content]) -> Rows:
    """Returns 128 bits of each content, whatever the order of its names; shape (n, 2)."""
    found = []
    for content in contents:
        digest = hashlib.blake2b(digest_size=16)
        for name in sorted(content):
            digest.update(b"%d %d " % (len(name), len(content[name])) + name + content[name])
        found.append(digest.digest())
    return np.frombuffer(b"".join(found), np.uint64).reshape(-1, 2)


def _numbered(rows: Rows) -> Rows:
    """Returns the rows with one column more: how often the same row came before."""
    order = np.lexsort(tuple(rows.T))
    ranked: Any = rows[order]
    begins = np.ones(len(rows), bool)
    begins[1:] = (ranked[1:] != ranked[:-1]).any(axis=1)
    starts = np.flatnonzero(begins)
    count = np.arange(len(rows)) - starts[np.cumsum(begins) - 1]
    numbers = np.empty(len(rows), np.uint64)
    numbers[order] = count
    return np.column_stack([rows, numbers])
