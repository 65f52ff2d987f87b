"""Rows of a small image -> the stream that its PNG has of them: the same bytes everywhere, whatever zlib there is.

A zlib stream (RFC 1950) with one deflate block (RFC 1951), made to be found fast: it knows bytes and runs of the byte
before alone, and its codes have Shannon's lengths, with what these leave free given out, so there is no tree to build.
It is hardly larger than zlib's with Z_RLE, which looks for the same. native/deflate.c makes the same to the bit, in a
hundredth of the time. What is chosen here is a format: another choice changes the bytes of datasets.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from itertools import groupby
from operator import mul
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_BYTES = 8190  # with the end of the block fewer than 2**13 symbols, so that no code is longer than 13 bits

_HEADER = b"\x48\x0d"  # deflate with a window of 4 kB; what makes the two a multiple of 31
_RUN = re.compile(rb"(?<=(.))\1{3,258}", re.DOTALL)
_SHORTEST_RUN = 3
_END_OF_BLOCK = 256
_SYMBOLS = 286  # bytes, the end of the block, lengths of runs
_LONGEST_CODE = 13
_EXTRA = [0] * 8 + [n for n in range(1, 6) for _ in range(4)]  # bits that follow the symbol of a run
_META_SYMBOLS = 19  # lengths of codes, and repetitions of these
_META_ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1)  # the last but one; 15 does not occur
_REPEAT, _FEW_ZEROS, _MANY_ZEROS = 16, 17, 18  # the length before 3 to 6 times, 3 to 10 zeros, 11 to 138 of them

_FIXED = [8] * 144 + [9] * 112 + [7] * 24 + [8] * 8  # bits of the code that need not be described


def deflate(data: bytes) -> bytes:
    """Returns the stream of at least one and at most `MOST_BYTES` bytes.

    >>> zlib.decompress(deflate(b"abc" + bytes(1000))) == b"abc" + bytes(1000)
    True
    """
    if not 0 < len(data) <= MOST_BYTES:
        raise ValueError(f"{len(data)} bytes are not compressed here, only 1 to {MOST_BYTES}")
    tokens = _divide(data)
    counted = Counter(tokens)
    counts = _symbol_counts(counted)
    lengths = _code_lengths(counts)
    described, runs = _described(lengths), sum(counts[_END_OF_BLOCK + 1 :])
    if _cost(counts, _FIXED) + 5 * runs <= len(described) + _cost(counts, lengths) + runs:
        beginning, words = "110", _words(counted, _FIXED_CODES, "00000")
    else:
        beginning, words = "101" + described, _words(counted, _codes(lengths), "0")
    block = _bytes_of(beginning + "".join(map(words.__getitem__, tokens)))
    if len(data) + 5 <= len(block):
        block = b"\x01" + len(data).to_bytes(2, "little") + (len(data) ^ 0xFFFF).to_bytes(2, "little") + data
    return _HEADER + block + zlib.adler32(data).to_bytes(4, "big")


# Bits are text of zeros and ones, in the order in which they are written.


def _bits(number: int, count: int) -> str:
    """Returns a number as `count` bits, the lowest first."""
    return format(number, f"0{count}b")[::-1] if count else ""


def _bytes_of(bits: str) -> bytes:
    return int(bits[::-1], 2).to_bytes((len(bits) + 7) // 8, "little")


def _divide(data: bytes) -> list[int]:
    """Returns tokens: bytes, _END_OF_BLOCK + the length of a run, and at the end of all _END_OF_BLOCK.

    Each run is as long as it can be.
    """
    tokens: list[int] = []
    at = 0
    for run in _RUN.finditer(data):
        tokens += data[at : run.start()]
        at = run.end()
        tokens.append(_END_OF_BLOCK + at - run.start())
    return [*tokens, *data[at:], _END_OF_BLOCK]


def _symbols() -> dict[int, tuple[int, str]]:
    """Returns the symbol of each token, and the bits that follow its code."""
    found = {byte: (byte, "") for byte in range(_END_OF_BLOCK + 1)}
    run = _END_OF_BLOCK + _SHORTEST_RUN
    for symbol, extra in enumerate(_EXTRA, _END_OF_BLOCK + 1):
        for number in range(1 << extra):
            found[run] = symbol, _bits(number, extra)
            run += 1
    found[_END_OF_BLOCK + 258] = _SYMBOLS - 1, ""  # the longest run has a symbol of its own
    return found


_SYMBOL = _symbols()


def _symbol_counts(counted: Mapping[int, int]) -> list[int]:
    counts = [0] * _SYMBOLS
    for token, count in counted.items():
        counts[_SYMBOL[token][0]] += count
    return counts


def _words(tokens: Iterable[int], codes: list[str], distance: str) -> dict[int, str]:
    """Returns the bits of each token; `distance` says that a run repeats what is one byte back."""
    words = {}
    for token in tokens:
        symbol, extra = _SYMBOL[token]
        words[token] = codes[symbol] + extra + (distance if symbol > _END_OF_BLOCK else "")
    return words


def _code_lengths(counts: list[int]) -> list[int]:
    """Returns how many bits the code of each symbol has; 0 for those that do not occur. Two must occur at least.

    A code of n bits takes 2**-n of the room there is. First each has as many as its symbol's share of all calls for,
    rounded up (Shannon's lengths). What these leave free is given out in rounds, in each of which a symbol may lose one
    bit. The first are those with 3/2 of what they take for a share, then those with 5/4, then the others; among these
    those with the shortest codes, then the lowest. In the end nothing is free, because before that it is a multiple of
    what a longest code takes. Symbols take some 0.2% more than by Huffman's lengths; 6% where counts are powers of two.

    >>> _code_lengths([5, 0, 2, 1])
    [1, 0, 2, 2]
    """
    total, free = sum(counts), 1 << _LONGEST_CODE
    lengths, lost = [0] * len(counts), {}
    for symbol, count in enumerate(counts):
        if count:
            lengths[symbol] = length = (-(-total // count) - 1).bit_length()
            lost[symbol] = min(2, 4 * ((count << length) - total) // total)
            free -= 1 << _LONGEST_CODE - length
    while free:  # less than half, so that no code of one bit loses it
        for symbol in sorted(lost, key=lambda symbol: lengths[symbol] - 16 * lost[symbol]):
            taken = 1 << _LONGEST_CODE - lengths[symbol]
            if taken <= free:
                lengths[symbol] -= 1
                free -= taken
    return lengths


def _cost(counts: list[int], lengths: list[int]) -> int:
    """Returns how many bits the codes of all symbols take."""
    return sum(map(mul, counts, lengths))


def _codes(lengths: list[int]) -> list[str]:
    """Returns the code of each symbol: numbers in the order of the lengths, then of the symbols."""
    codes, code, before = [""] * len(lengths), 0, 0
    used = filter(lengths.__getitem__, range(len(lengths)))
    for symbol in sorted(used, key=lengths.__getitem__):
        length = lengths[symbol]
        code <<= length - before
        codes[symbol] = format(code, f"0{length}b")
        code, before = code + 1, length
    return codes


_FIXED_CODES = _codes(_FIXED)


def _described(lengths: list[int]) -> str:
    """Returns the bits that tell the lengths of a code, and those of the distances: two of one bit.

    Runs need one distance, and data without runs none; but there are decoders that refuse fewer than two.
    """
    last = max(symbol for symbol, length in enumerate(lengths) if length)
    told = _told([*lengths[: last + 1], 1, 1])
    counts = [0] * _META_SYMBOLS
    for symbol, _ in told:
        counts[symbol] += 1
    more = (len(told) + _META_SYMBOLS) >> 7  # so that no code has more than the 7 bits that can be told
    metas = _code_lengths([count and count + more for count in counts])
    codes = _codes(metas)
    sizes = _bits(last - _END_OF_BLOCK, 5) + _bits(1, 5) + _bits(len(_META_ORDER) - 4, 4)
    lengths_of_metas = [_bits(metas[symbol], 3) for symbol in _META_ORDER]
    return "".join([sizes, *lengths_of_metas, *[codes[symbol] + extra for symbol, extra in told]])


def _told(lengths: list[int]) -> list[tuple[int, str]]:
    """Returns lengths as symbols with extra bits: themselves, or how often they are repeated."""
    told: list[tuple[int, str]] = []
    for length, same in groupby(lengths):
        left = len(list(same))
        if length:
            told.append((length, ""))
            left -= 1
        while left >= _SHORTEST_RUN:
            taken = min(left, 6 if length else 138)
            if length:
                told.append((_REPEAT, _bits(taken - 3, 2)))
            elif taken <= 10:
                told.append((_FEW_ZEROS, _bits(taken - 3, 3)))
            else:
                told.append((_MANY_ZEROS, _bits(taken - 11, 7)))
            left -= taken
        told += [(length, "")] * left
    return told
