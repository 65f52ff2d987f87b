"""The index against a literal file, dictionaries and lists, and every damage to a small file."""

import itertools
import mmap
import struct

import crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import MetadataError
from beam_datasets.formats.index import Index

KEYS = [bytes(16), bytes(15) + b"\x01", b"\x01" + bytes(15), b"\xff" * 16]
OFFSETS = [0, 16, 40, 60, 2000]


def slow_index(offsets, keys, ordered, version=1, unsorted=False):
    body = b"".join(struct.pack("<Q", offset) for offset in offsets)
    key_bytes = b"".join(keys or [])
    flags = (1 if keys is not None else 0) + (2 if ordered else 0) + (4 if unsorted else 0)
    header = b"BDINDEX" + bytes([version]) + struct.pack("<QQI", len(offsets) - 1, offsets[-1], flags)
    header += struct.pack("<II", crc32c.crc32c(body), crc32c.crc32c(key_bytes))
    return header + struct.pack("<I", crc32c.crc32c(header)) + body + key_bytes


def content(index):
    keys = index.keys
    return index.offsets.tolist(), None if keys is None else [key.tobytes() for key in keys], index.ordered


@st.composite
def contents(draw):
    keys = sorted(draw(st.sets(st.binary(min_size=16, max_size=16), max_size=30)))
    sizes = draw(st.lists(st.integers(16, 2**40), min_size=len(keys), max_size=len(keys)))
    offsets = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    if draw(st.booleans()):
        return offsets, None, False
    return offsets, keys, draw(st.booleans())


def test_golden_bytes():
    got = Index([0, 20], [b"0123456789abcdef"], ordered=True).to_bytes()
    assert got[:28].hex() == "4244494e444558010100000000000000140000000000000003000000"
    assert got[28:40].hex() == "33111be79e11d342cb554b65"
    assert got[40:].hex() == "0000000000000000140000000000000030313233343536373839616263646566"


@given(contents())
def test_round_trip(value):
    offsets, keys, ordered = value
    index = Index(offsets, keys, ordered=ordered)
    data = index.to_bytes()
    assert data == slow_index(offsets, keys, ordered)
    again = Index.from_bytes(data, path="f")
    assert content(again) == content(index) == (offsets, keys, ordered)
    assert (len(again), again.shard_size, again.has_keys) == (len(offsets) - 1, offsets[-1], keys is not None)
    assert again.to_bytes() == data


@given(contents(), st.binary(min_size=16, max_size=16))
def test_find(value, other):
    offsets, keys, _ = value
    index = Index(offsets, keys or [bytes([i]) * 16 for i in range(len(offsets) - 1)])
    listed = [key.tobytes() for key in index.keys]
    assert [index.find(key) for key in listed] == list(range(len(index)))
    assert index.find(other) == (listed.index(other) if other in listed else None)


@given(contents().filter(lambda value: value[1]), st.randoms(use_true_random=False), st.data())
def test_keys_in_any_order(value, random, data):
    offsets, keys, ordered = value
    random.shuffle(keys)
    index = Index(offsets, keys, ordered=ordered, unsorted=True)
    assert index.unsorted == (keys != sorted(keys))
    written = index.to_bytes()
    assert written == slow_index(offsets, keys, ordered, unsorted=index.unsorted)
    again = Index.from_bytes(written, path="f")
    assert content(again) == (offsets, keys, ordered)
    assert again.unsorted == index.unsorted
    start = data.draw(st.integers(0, len(keys) - 1))
    stop = next((i for i in range(start + 1, len(keys)) if keys[i] < keys[i - 1]), len(keys))
    assert [again.find(key, start, stop) for key in keys] == [
        i if start <= i < stop else None for i in range(len(keys))
    ]
    if index.unsorted:
        with pytest.raises(ValueError, match="must ascend"):
            Index(offsets, keys, ordered=ordered)
        with pytest.raises(ValueError, match="say in which stretch"):
            again.find(keys[0])


def test_equal_keys_do_not_ascend():
    assert Index(OFFSETS, [KEYS[1]] * 4, unsorted=True).unsorted
    assert not Index(OFFSETS, unsorted=True).unsorted


def test_find_without_keys_or_with_another_length():
    with pytest.raises(MetadataError, match="no sort keys"):
        Index([0, 16]).find(bytes(16))
    with pytest.raises(ValueError, match="16 bytes; got 3"):
        Index([0, 16], [bytes(16)]).find(b"abc")


@pytest.mark.parametrize("keys", [KEYS, None])
def test_every_flip_and_cut_is_an_error_or_right_data(keys):
    data = slow_index(OFFSETS, keys, False)
    damaged = [data[:end] for end in range(len(data))] + [data + b"\0"]
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        damaged.append(bytes(flipped))
    for buffer in damaged:
        with pytest.raises(MetadataError, match="dir/f"):
            content(Index.from_bytes(buffer, path="dir/f"))


def test_keys_are_checked_at_their_first_use():
    data = slow_index(OFFSETS, KEYS, False)
    index = Index.from_bytes(data[:-1] + b"\0", path="dir/f")
    assert index.offsets.tolist() == OFFSETS
    for use in (lambda: index.keys, lambda: index.find(KEYS[0]), index.to_bytes):
        with pytest.raises(MetadataError, match="dir/f: CRC of the keys is 0x"):
            use()


@pytest.mark.parametrize(
    "data, problem",
    [
        (slow_index(OFFSETS, KEYS, False, version=2), "index of format 2, and .* reads format 1. Upgrade"),
        (slow_index([0, 20, 10], None, False), "record 1 is from byte 20 to 10"),
        (slow_index([0, 20, 35], None, False), "record 1 is from byte 20 to 35"),
        (slow_index([1, 20], None, False), "begins at byte 1"),
        (slow_index([0, 2**64 - 1, 2**64 - 1], None, False), "record 1"),
        (slow_index(OFFSETS, KEYS[::-1], False), "must ascend"),
        (slow_index(OFFSETS, None, True), "flags are 0x2"),
        (slow_index(OFFSETS, None, False, unsorted=True), "flags are 0x4"),
        (slow_index(OFFSETS, KEYS, False, unsorted=True), "the sort keys ascend, but"),
        (slow_index(OFFSETS, KEYS[:-1], False), "168 bytes|128 bytes|144"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "is not an index"),
    ],
)
def test_a_file_that_is_whole_but_wrong(data, problem):
    with pytest.raises(MetadataError, match=problem):
        content(Index.from_bytes(data, path="f"))


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=4), st.integers(0, 2**64 - 1), st.integers(0, 15))
def test_an_index_whose_sums_are_right_but_not_its_content(offsets, size, flags):
    body = struct.pack(f"<{len(offsets)}Q", *offsets)
    good = offsets[0] == 0 and all(b - a >= 16 for a, b in itertools.pairwise(offsets)) and size == offsets[-1]
    for n in (len(offsets) - 1, 2**61 - 6, 2**64 - 1):
        header = struct.pack("<7sBQQIII", b"BDINDEX", 1, n, size, flags, crc32c.crc32c(body), 0)
        data = header + struct.pack("<I", crc32c.crc32c(header)) + body
        if good and n == len(offsets) - 1 and flags == 0:
            assert Index.from_bytes(data, path="f").offsets.tolist() == offsets
        elif not (n == 0 and flags % 2):  # it has no keys, as it should
            with pytest.raises(MetadataError):
                Index.from_bytes(data, path="f")


@pytest.mark.parametrize(
    "arguments, problem",
    [
        (([],), "n \\+ 1 integers"),
        (([0.0, 20.0],), "float64"),
        (([[0, 20]],), "shape \\(1, 2\\)"),
        (([0, -20],), "0 or more; got -20"),
        (([0, 20], [b"abc"]), "16 bytes; got 3"),
        (([0, 20], []), "1 records but 0 keys"),
        (([0, 20], np.zeros((1, 8), np.uint8)), "shape \\(1, 8\\)"),
        (([0, 20], np.zeros((1, 16))), "float64"),
        (([0, 20, 40], [b"k" * 16] * 2), "those of records 0 and 1"),
    ],
)
def test_values_are_checked_at_birth(arguments, problem):
    with pytest.raises(ValueError, match=problem):
        Index(*arguments)
    with pytest.raises(ValueError, match="no keys"):
        Index([0, 20], ordered=True)


def test_works_in_a_memory_map_without_a_copy(tmp_path):
    path = tmp_path / "f.index"
    path.write_bytes(slow_index(OFFSETS, KEYS, True))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        index = Index.from_bytes(mapped, path=str(path))
        whole = np.frombuffer(mapped, np.uint8)
        assert np.shares_memory(index.offsets, whole)
        assert np.shares_memory(index.keys, whole)
        assert index.find(KEYS[2]) == 2
        del index, whole
