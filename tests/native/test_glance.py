"""glance.c against Python, on good, damaged and hostile shards and indexes."""

from __future__ import annotations

import os
import resource
import struct
import tempfile
import threading
from pathlib import Path

import crc32c
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_datasets.errors import CorruptRecordError, MetadataError
from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import Index
from beam_datasets.native import core
from beam_datasets.reading.glancing import GLANCED
from tests.native.gil import when_it_is_free

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


# ----------------------------------------------------------------------------------------------------- many small files

needs_files = pytest.mark.skipif(not hasattr(core, "glance_files"), reason="not on this system")
MOST = 1 << 20


def look(directory: Path, names: list[str], most: int = MOST, seconds: float = 9.0) -> list[tuple[object, ...] | None]:
    """What is seen of each file, with its first record last, as of `glanced`."""
    rows, seen, firsts = np.empty(len(names), GLANCED), 0, []
    while seen < len(names):
        done, more = core.glance_files(
            str(directory), os.fsencode("\0".join(names[seen:])), ".index", most, seconds, rows[seen:]
        )
        seen, firsts = seen + done, firsts + more
    records = iter(firsts)
    found = [_of_row(row, records) if row["state"] else None for row in rows]
    assert not list(records)
    assert all(not any(row.tobytes()) for row in rows if not row["state"])
    return found


def _of_row(row: np.void, firsts: object) -> tuple[object, ...]:
    ends = [row[name].tobytes() if row["flags"] & 1 else None for name in ("first_key", "last_key")]
    numbers = [int(row[name]) for name in ("num_records", "crc32c", "index_crc32c", "flags", "first_size")]
    first = next(firsts)  # type: ignore[call-overload]
    assert len(first) == numbers[-1]
    return (*numbers, *ends, int(row["size"]), row["state"] == 2, first)


def glanced(shard: bytes, index: bytes | None) -> tuple[object, ...] | None:
    """The same of what files hold, by `core.glance`."""
    seen = core.glance(shard, index)
    return None if seen is None else (*seen, len(shard), index is not None, shard[12 : 12 + seen[4]])


def write(directory: Path, name: str, shard: bytes, index: bytes | None) -> None:
    (directory / name).write_bytes(shard)
    if index is not None:
        (directory / f"{name}.index").write_bytes(index)


@needs_files
@given(st.lists(st.tuples(RECORDS, KINDS, st.integers(0, 3), st.integers(0, 2**32)), min_size=1, max_size=8))
def test_files_are_seen_as_their_contents(shards: list[tuple[list[bytes], str, int, int]]) -> None:
    """The same memory is used for one after the other, good or not, small or large."""
    with tempfile.TemporaryDirectory() as folder:
        expected = []
        for number, (records, kind, damage, place) in enumerate(shards):
            files = [bytearray(file) for file in make(records, kind) if file is not None]
            file = files[place % len(files)]
            if damage == 1:
                file[place % len(file)] ^= 1 + place % 255
            elif damage == 2:
                del file[place % len(file) :]
            shard, index = bytes(files[0]), bytes(files[1]) if len(files) > 1 else None
            write(Path(folder), f"{number}", shard, index)
            expected.append(glanced(shard, index))
        names = [f"{number}" for number in range(len(shards))]
        assert look(Path(folder), names) == expected
        assert look(Path(folder), names, seconds=0) == expected
        assert look(Path(folder), names[::-1]) == expected[::-1]


@needs_files
@pytest.mark.parametrize("kind", ["keys", "ordered", "no keys"])
def test_each_flipped_byte_is_refused(kind: str, tmp_path: Path) -> None:
    whole = make([b"one", b"", b"three" * 3], kind)
    names = []
    for number, file in enumerate(whole):
        for place in range(len(file)):
            for flip in (1, 0x80):
                damaged = [bytearray(file) for file in whole]
                damaged[number][place] ^= flip
                names.append(f"{number}-{place}-{flip}")
                write(tmp_path, names[-1], *damaged)
    write(tmp_path, "good", *whole)
    seen = look(tmp_path, [*names, "good"])
    assert seen[:-1] == [None] * len(names)
    assert seen[-1] == glanced(*whole)


@needs_files
def test_what_is_no_readable_file_is_refused(tmp_path: Path) -> None:
    shard, index = make([b"a", b"bc"], "keys")
    good = glanced(shard, index)
    for name in ("good", "index is a directory", "index is a circle", "empty index", "shard is a directory", "empty"):
        write(tmp_path, name, shard, index)
    for name in ("index is a directory.index", "shard is a directory", "index is a circle.index"):
        (tmp_path / name).unlink()
    (tmp_path / "index is a directory.index").mkdir()
    (tmp_path / "index is a circle.index").symlink_to("index is a circle.index")
    (tmp_path / "empty index.index").write_bytes(b"")
    (tmp_path / "shard is a directory").mkdir()
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "index alone.index").write_bytes(index or b"")
    (tmp_path / "link").symlink_to("good")
    (tmp_path / "link.index").symlink_to(tmp_path / "good.index")
    (tmp_path / "nowhere").symlink_to("nothing")
    (tmp_path / "below").mkdir()
    write(tmp_path, "below/good", shard, index)
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.suffix != ".index")
    names += ["missing", "", "x" * 300, "x" * 5000, "good/x", str(tmp_path / "good")]
    seen = dict(zip(names, look(tmp_path, names)))
    assert {name: facts for name, facts in seen.items() if facts} == dict.fromkeys(
        ("below/good", "good", "link", str(tmp_path / "good")), good
    )
    assert look(tmp_path / "missing", ["good"]) == look(tmp_path / "good", ["good"]) == [None]
    (tmp_path / "good.index").unlink()
    assert look(tmp_path, ["good"]) == [glanced(shard, None)]


@needs_files
def test_what_this_user_may_not_read_is_refused() -> None:
    shard, index = make([b"a"], "keys")
    with tempfile.TemporaryDirectory() as folder:
        directory, user = Path(folder), os.geteuid()
        directory.chmod(0o755)
        for name in ("a", "b", "c"):
            write(directory, name, shard, index)
        (directory / "a").chmod(0)
        (directory / "b.index").chmod(0)
        try:
            os.seteuid(user or 65534)  # root may read anything
            assert look(directory, ["a", "b", "c"]) == [None, None, glanced(shard, index)]
        finally:
            os.seteuid(user)


@needs_files
def test_large_files_are_refused(tmp_path: Path) -> None:
    small, large = make([b"a" * 100] * 10, "keys"), make([b"b" * 101] * 10, "keys")
    write(tmp_path, "small", *small)
    write(tmp_path, "large", *large)
    write(tmp_path, "large index", small[0], (small[1] or b"") + bytes(4000))
    assert look(tmp_path, ["large", "small", "large index"], most=1160) == [None, glanced(*small), None]
    assert look(tmp_path, ["large", "small"], most=1170) == [glanced(*large), glanced(*small)]
    assert look(tmp_path, ["small"], most=-1) == [None]


@needs_files
def test_first_records_are_held_up_to_a_limit(tmp_path: Path) -> None:
    names = [f"{number}" for number in range(9)]
    for number, name in enumerate(names):
        write(tmp_path, name, *make([bytes([number]) * 400_000, b"x"], "keys"))
    rows = np.empty(9, GLANCED)
    done, firsts = core.glance_files(str(tmp_path), "\0".join(names).encode(), ".index", MOST, 9.0, rows)
    assert (done, len(firsts)) == (3, 3)
    assert [seen and seen[-1] for seen in look(tmp_path, names)] == [bytes([n]) * 400_000 for n in range(9)]


@needs_files
def test_no_descriptor_is_kept_and_none_is_needed_for_long(tmp_path: Path) -> None:
    shard, index = make([b"a"], "keys")
    names = [f"{number}" for number in range(200)]
    for name in names:
        write(tmp_path, name, shard, index)
    highest = max(map(int, os.listdir("/dev/fd")))
    held = [os.dup(0)]
    while held[-1] < highest:  # so that none is free below what the limit leaves
        held.append(os.dup(0))
    lowest = held.pop()
    os.close(lowest)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        for room, seen in ((2, glanced(shard, index)), (1, None), (0, None)):
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + room, limits[1]))
            assert look(tmp_path, [*names, "missing"]) == [*[seen] * 200, None]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    again = os.dup(0)
    for descriptor in (again, *held):
        os.close(descriptor)
    assert again == lowest


@needs_files
def test_a_file_that_grows_is_seen_as_it_was_at_some_time(tmp_path: Path) -> None:
    record = tfrecord.frame(b"a" * 50)
    (tmp_path / "grows").write_bytes(record)

    def grow() -> None:
        with (tmp_path / "grows").open("ab", buffering=0) as file:
            for _ in range(2000):
                file.write(record)

    thread = threading.Thread(target=grow)
    thread.start()
    told = []
    while thread.is_alive():
        told += look(tmp_path, ["grows"] * 4)
    thread.join()
    assert look(tmp_path, ["grows"]) == [glanced(record * 2001, None)]
    for seen in told:
        assert seen is None or seen == glanced(record * int(str(seen[0])), None)


@needs_files
def test_others_run_meanwhile(tmp_path: Path) -> None:
    write(tmp_path, "a", *make([b"a"], "keys"))
    ran: list[int] = []
    with when_it_is_free(lambda: ran.append(1)):
        while not ran:
            look(tmp_path, ["a"] * 100)
    assert ran


@needs_files
def test_other_arguments_of_files_are_refused(tmp_path: Path) -> None:
    def call(
        directory: object = str(tmp_path), names: object = b"a\0b", seconds: object = 1.0, rows: object = bytearray(144)
    ) -> object:
        return core.glance_files(directory, names, ".index", MOST, seconds, rows)

    assert call() == (2, [])
    assert call(names=b"", rows=bytearray()) == (0, [])
    for rows in (bytearray(), bytearray(72), bytearray(143), bytearray(216)):
        with pytest.raises(ValueError, match="a row for each name"):
            call(rows=rows)
    for wrong in ({"directory": 1}, {"names": "a\0b"}, {"seconds": "1"}, {"rows": None}, {"names": None}):
        with pytest.raises(TypeError):
            call(**wrong)
    with pytest.raises((BufferError, TypeError)):
        call(rows=bytes(144))
    with pytest.raises(ValueError, match="null"):
        call(directory="a\0b")
