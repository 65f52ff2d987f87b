"""The map entries of a record: some of them kept, byte by byte as they are."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from beam_datasets.formats.example import record, regular, spans_of
from beam_datasets.formats.varint import read_varint

if TYPE_CHECKING:
    from collections.abc import Collection

    from beam_datasets.formats.example import Buffer


def keep(data: Buffer, names: Collection[bytes]) -> bytes:
    """Returns the record with only the entries of these names, in the order in which they stand.

    >>> from beam_datasets.formats.example import parse, serialize
    >>> parse(keep(serialize({"a": [1], "b": [2], "c": [b"x"]}), {b"a", b"c"}))
    {'a': array([1]), 'c': [b'x']}

    Raises:
        ExampleError: the bytes are not a serialized tf.train.Example.
    """
    whole, spans = spans_of(data)
    if not _follow_one_another(whole, spans):  # a name stands there twice: the last one counts, as protobuf has it
        whole, spans = spans_of(regular(whole))
    starts = [_first_entry(whole), *(stop for _, stop in spans.values())]
    kept = [whole[a:b] for name, (a, b) in zip(spans, pairwise(starts)) if name in names]
    return record(b"".join(kept))


def _first_entry(whole: bytes) -> int:
    return read_varint(whole, 1)[1] if whole else 0


def _follow_one_another(whole: bytes, spans: dict[bytes, tuple[int, int]]) -> bool:
    """Returns whether each feature ends the entry that begins where the one before it ends."""
    start = _first_entry(whole)
    for _, stop in spans.values():
        size, inner = read_varint(whole, start + 1)
        if inner + size != stop:
            return False
        start = stop
    return True
