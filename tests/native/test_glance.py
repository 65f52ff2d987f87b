"""glance.c against Python, on good, damaged and hostile shards and indexes."""

from __future__ import annotations

import struct

import crc32c
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_datasets.errors import CorruptRecordError, MetadataError
from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import Index
from beam_datasets.native import core

if core is None:
    pytest.skip("the native module was not built", allow_module_level=True)

RECORDS = st.lists(st.binary(max_size=60), min_size=1, max_size=12)
KINDS = st.sampled_from(["keys", "ordered", "no keys", "no index"])


def make(records: list[bytes], kind: str) -> tuple[bytes, bytes | None]:
    """A good shard, and its index."""
    shard = b"".join(map(tfrecord.frame, records))
    if kind == "no index":
        return shard, None
    keys = None if kind == "no keys" else [i.to_bytes(16, "big") for i in range(len(records))]
    offsets = np.cumsum([0, *(len(record) + 16 for record in records)])
    return shard, Index(offsets, keys, ordered=kind == "ordered").to_bytes()


def plainly(shard: bytes, file: bytes | None) -> tuple[object, ...] | None:
    """The same in Python, from what reads these formats."""
    try:
        offsets = tfrecord.scan(shard, path="")
        index = None if file is None else Index.from_bytes(file, path="")
        keys = None if index is None else index.keys
    except (CorruptRecordError, MetadataError):
        return None
    if len(offsets) == 1 or (index is not None and (index.unsorted or list(index.offsets) != list(offsets))):
        return None
    flags = 0 if index is None else index.has_keys + 2 * index.ordered
    ends = (None, None) if keys is None else (keys[0].tobytes(), keys[-1].tobytes())
    crcs = crc32c.crc32c(shard), crc32c.crc32c(file or b"")
    return len(offsets) - 1, *crcs, flags, int(offsets[1]) - 16, *ends


@given(RECORDS, KINDS)
def test_what_is_good_is_told(records: list[bytes], kind: str) -> None:
    shard, index = make(records, kind)
    seen = core.glance(shard, index)
    assert seen is not None
    assert seen == plainly(shard, index)
    assert core.glance(memoryview(shard), index and bytearray(index)) == seen


@given(RECORDS, KINDS, st.data())
def test_what_is_damaged_is_refused(records: list[bytes], kind: str, data: st.DataObject) -> None:
    files = [bytearray(file) for file in make(records, kind) if file is not None]
    file = files[data.draw(st.integers(0, len(files) - 1))]
    action = data.draw(st.sampled_from(["flip", "cut", "append", "insert"]))
    place = data.draw(st.integers(0, len(file) - 1))
    if action == "flip":
        file[place] ^= data.draw(st.integers(1, 255))
    elif action == "cut":
        del file[place:]
    elif action == "insert":
        file[place:place] = data.draw(st.binary(min_size=1, max_size=40))
    else:
        file += data.draw(st.binary(min_size=1, max_size=40))
    shard, index = bytes(files[0]), bytes(files[1]) if len(files) > 1 else None
    assert core.glance(shard, index) == plainly(shard, index)
    if action in ("flip", "append") and not (index is None and action == "append"):
        assert core.glance(shard, index) is None


def signed(n: int, size: int, flags: int, body: bytes, keys: bytes) -> bytes:
    """An index whose checksums agree, whatever it says."""
    crcs = crc32c.crc32c(body), crc32c.crc32c(keys)
    head = struct.pack("<7sBQQIII", b"BDINDEX", 1, n, size, flags, *crcs)
    return head + struct.pack("<I", crc32c.crc32c(head)) + body + keys


NUMBERS = st.one_of(st.integers(0, 4), st.sampled_from([2**32, 2**61, 2**62, 2**63, 2**64 - 1, 40, 60]))


@given(NUMBERS, NUMBERS, st.integers(0, 9), st.lists(NUMBERS, max_size=5), st.integers(0, 5), st.booleans())
@example(2**61 - 1, 0, 0, [], 0, True)
@example(2**64 - 1, 0, 1, [0], 0, True)
def test_an_index_that_lies_is_refused(
    n: int, size: int, flags: int, offsets: list[int], num_keys: int, falling: bool
) -> None:
    shard = make([b"a" * 4, b"b" * 4], "no index")[0]
    numbers = range(num_keys, 0, -1) if falling else range(num_keys)
    body, keys = struct.pack(f"<{len(offsets)}Q", *offsets), b"".join(i.to_bytes(16, "big") for i in numbers)
    index = signed(n, size, flags, body, keys)
    assert core.glance(shard, index) == plainly(shard, index)


@pytest.mark.parametrize("kind", ["keys", "no keys"])
def test_records_elsewhere_than_the_index_says(kind: str) -> None:
    shard, index = make([b"aa", b"b", b"ccc"], kind)
    for others in ([b"a", b"bb", b"ccc"], [b"aa", b"bccc" + bytes(15)], [b"aa", b"b"], [b"aa", b"b", b"ccc", b""]):
        other, of_other = make(others, kind)
        assert core.glance(shard, of_other) is None
        assert core.glance(other, index) is None
        assert core.glance(other, of_other) is not None


def test_keys_that_do_not_ascend() -> None:
    records, offsets = [b"", b""], [0, 16, 32]
    shard = make(records, "no index")[0]
    keys = [bytes(15) + b"b", bytes(15) + b"a"]
    index = Index(offsets, keys, unsorted=True).to_bytes()
    assert core.glance(shard, index) is None
    ends = [bytes(15) + b"a"] * 2
    assert core.glance(shard, signed(2, 32, 1, np.array(offsets, "<u8").tobytes(), b"".join(ends))) is None


def test_nothing_is_not_good() -> None:
    assert core.glance(b"", None) is None
    assert core.glance(b"", Index([0]).to_bytes()) is None
    assert core.glance(make([b"a"], "keys")[0], b"") is None


def test_large_files() -> None:
    shard, index = make([bytes(100_000), b"a"] * 20, "keys")
    assert core.glance(shard, index) == plainly(shard, index)


@pytest.mark.parametrize("arguments", [(), (b"",), (b"", b"", b""), (None, b""), ("", None), (b"", 1)])
def test_other_arguments_are_refused(arguments: tuple[object, ...]) -> None:
    with pytest.raises(TypeError):
        core.glance(*arguments)
