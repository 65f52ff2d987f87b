"""What a split that is put together of several parts lacks: unique keys, and an order by hashes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from beam_datasets.errors import MetadataError
from beam_datasets.reading.comparing.pairing import KeyCursor
from beam_datasets.reading.shards import read_index
from beam_datasets.writing.blocks import key_array, sort_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from beam_datasets.writing.materialize_selection import Piece, SelectedSplit

_BLOCK_KEYS = 1 << 16


@dataclass(frozen=True)
class Repeats:
    """Keys that occur more than once in a split.

    Attributes:
        count: how many examples have a key that an example before them has.
        key: one of the keys: the integer that the author gave, or the hash that is stored.
        first: an example that has it, as a term of a split expression.
        second: another one.
    """

    count: int
    key: str
    first: str
    second: str

    def __str__(self) -> str:
        subject = "1 key occurs" if self.count == 1 else f"{self.count:,} keys occur"
        return f"{subject} more than once: {self.first} and {self.second} have {self.key}"


def find_repeats(split: SelectedSplit) -> Repeats | None:
    """Returns the keys that occur more than once; None for none, and where examples have no keys.

    Reads the keys in the indexes of those parts whose keys were made by the same rules, merged in one pass.

    Raises:
        MetadataError: an index is damaged.
    """
    pieces = [piece for piece in split.pieces if _shares_rules(piece, split.pieces)]
    cursors = [KeyCursor(_key_blocks(piece)) for piece in pieces]
    found: Repeats | None = None
    while True:
        live = [number for number, cursor in enumerate(cursors) if cursor.fill()]
        if len(live) < 2:
            return found
        limit = min(cursors[number].last for number in live)
        taken = [(number, *cursors[number].take(limit)) for number in live]
        keys = key_array(b"".join(keys.tobytes() for _, _, keys in taken))
        order = sort_order(keys)
        ranks = np.flatnonzero((keys[order[1:]] == keys[order[:-1]]).all(axis=1))
        if not len(ranks):
            continue
        if found is None:
            places = [(pieces[number], first + i) for number, first, some in taken for i in range(len(some))]
            one, other = order[ranks[0]], order[ranks[0] + 1]
            found = Repeats(0, _key_text(keys[one], pieces), _place(*places[one]), _place(*places[other]))
        found = Repeats(found.count + len(ranks), found.key, found.first, found.second)


def is_in_order(split: SelectedSplit) -> bool:
    """Returns whether sort keys ascend through all parts of a split."""
    borders: list[bytes] = []
    for piece in split.pieces if len(split.pieces) > 1 else ():
        if not piece.rules or piece.rules != split.pieces[0].rules:
            return False
        for number, last in ((0, False), (len(piece.files) - 1, True)):
            file = piece.files[number]
            keys = _keys_of(file.filename)
            borders.append(keys[file.skip + (file.take - 1 if last else 0)].tobytes())
    return borders == sorted(borders)


def _shares_rules(piece: Piece, pieces: Sequence[Piece]) -> bool:
    return any(other is not piece and set(other.rules) & set(piece.rules) for other in pieces)


def _key_blocks(piece: Piece) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Yields (index of the first one in the source's split, keys), ascending."""
    index = piece.start
    for file in piece.files:
        keys = _keys_of(file.filename)[file.skip : file.skip + file.take]
        for start in range(0, len(keys), _BLOCK_KEYS):
            yield index + start, keys[start : start + _BLOCK_KEYS]
        index += file.take


def _keys_of(path: str) -> NDArray[np.uint8]:
    index = read_index(path)
    if index is None or index.keys is None:
        raise MetadataError(
            f"{path}: expected an index with keys beside it, got none. Restore it, or repair the dataset."
        )
    return index.keys


def _place(piece: Piece, index: int) -> str:
    return f"{piece.name}:{piece.split}[{index}:{index + 1}]"


def _key_text(key: NDArray[np.uint64], pieces: Sequence[Piece]) -> str:
    number = int(key[0]) << 64 | int(key[1])
    if all(rule.split is None and not rule.salts for piece in pieces for rule in piece.rules):
        return f"the key {number - (1 << 127)}"
    return f"a key whose hash is {number:032x}"
