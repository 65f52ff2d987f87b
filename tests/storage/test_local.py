"""What only the file system of this machine can do, or fail at."""

import copy
import errno
import fcntl
import os
import pickle
import re
import resource
import signal
import socket
import threading
from array import array
from pathlib import Path
from types import SimpleNamespace

import pytest

from beam_datasets import storage
from beam_datasets.errors import PathNotFoundError, StorageError
from beam_datasets.storage import local
from tests.facts import raises_with
from tests.permissions import closed_directory


def test_paths(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    storage.write_bytes("~/a/x", b"home")
    assert storage.read_bytes("a/x") == storage.read_bytes(tmp_path / "a" / "x") == b"home"
    assert storage.normalize("a/../b/") == str(tmp_path / "b")
    assert storage.normalize("~/b") == str(tmp_path / "b")


@pytest.mark.parametrize("has_call", [True, False])
def test_a_large_file_is_on_its_way_to_the_disk_before_it_is_finished(has_call, monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(
        local, "_sync_file_range", lambda: (lambda *arguments: calls.append(arguments)) if has_call else None
    )
    chunk = bytes(range(256)) * (3 << 12)  # 3 MiB
    with storage.open_writer(tmp_path / "a") as writer:
        for _ in range(10):
            writer.write([chunk[:5], chunk[5:]])
    assert storage.read_bytes(tmp_path / "a") == 10 * chunk
    assert len(calls) == 3 * has_call


def test_link(tmp_path):
    storage.write_bytes(tmp_path / "a", b"same")
    storage.link(tmp_path / "a", tmp_path / "new" / "b")
    assert (tmp_path / "new" / "b").samefile(tmp_path / "a")
    with raises_with(FileExistsError, path=str(tmp_path / "new" / "b")):
        storage.link(tmp_path / "a", tmp_path / "new" / "b")
    with raises_with(FileNotFoundError, path=str(tmp_path / "missing")):
        storage.link(tmp_path / "missing", tmp_path / "c")
    with raises_with(StorageError, path="memory://bucket/a", mentions=["local file"]):
        storage.link("memory://bucket/a", tmp_path / "c")


def test_link_to_another_disk(tmp_path, monkeypatch):
    def other_disk(source, target):
        raise OSError(errno.EXDEV, "another disk")

    monkeypatch.setattr(os, "link", other_disk)
    storage.write_bytes(tmp_path / "a", b"same")
    with raises_with(StorageError, path=str(tmp_path / "b"), mentions=[str(tmp_path / "a")], advice=["Copy"]):
        storage.link(tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize("path", [b"bytes", 3, None])
def test_what_is_no_path(path):
    with pytest.raises(TypeError):
        storage.read_bytes(path)
    with pytest.raises(ValueError, match="empty"):
        storage.read_bytes("")


def test_rename_dir(tmp_path):
    source, target = tmp_path / "s", tmp_path / "deep" / "t"
    storage.write_bytes(source / "x", b"1")
    storage.rename_dir(source, target)
    assert storage.list_dir(target) == ["x"]
    assert not storage.exists(source)
    storage.write_bytes(source / "y", b"2")
    with raises_with(FileExistsError, path=str(target)):
        storage.rename_dir(source, target)
    assert storage.list_dir(target) == ["x"]
    assert storage.list_dir(source) == ["y"]
    with pytest.raises(FileExistsError):
        storage.rename_dir(source, target / "x")
    storage.make_dirs(tmp_path / "empty")
    storage.rename_dir(source, tmp_path / "empty")
    with raises_with(FileNotFoundError, path=str(source)) as error:
        storage.rename_dir(source, tmp_path / "u")
    assert str(tmp_path / "u") in str(error.value)
    with raises_with(StorageError, path="memory://b/t", mentions=["local directory"]):
        storage.rename_dir(source, "memory://b/t")


def test_a_directory_is_no_file(tmp_path):
    storage.make_dirs(tmp_path / "d")
    with raises_with(StorageError, path=str(tmp_path / "d"), mentions=["Is a directory"]):
        storage.write_bytes(tmp_path / "d", b"1")
    storage.write_bytes(tmp_path / "f", b"1")
    with raises_with(StorageError, path=f"{tmp_path}/f/x"):
        storage.write_bytes(tmp_path / "f" / "x", b"1")
    assert storage.list_dir(tmp_path) == ["d", "f"]
    for missing in ("f", "missing", "d/missing", "f/below", "x" * 300, "a\0b"):  # as `is_dir` finds
        assert storage.list_dir(tmp_path / missing, missing_ok=True) == [], missing


def _in_a_thread(act, path):
    """What comes of a call, be it an error; where it waits for ever, the test fails."""
    outcome = []

    def call():
        try:
            outcome.append(act(path))
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    for _ in range(200):  # a signal that comes just before a wait is handled after it
        thread.join(0.1)
    assert outcome, f"{act} waits"
    return outcome[0]


_READERS = (
    storage.read_bytes, storage.open_reader, storage.memory_map, storage.size, storage.check_writable,
    lambda path: storage.copy(path, f"{path}.copy"),
)  # fmt: skip


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "link").symlink_to("fifo")
    (tmp_path / "dir").mkdir()
    monkeypatch.chdir(tmp_path)  # the name of a socket may be no longer than 100 bytes
    fifo = r"it is not a regular file but a FIFO \(a named pipe\)$"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        for name, why in (
            ("fifo", fifo), ("link", fifo), ("zero", "it is not a regular file but a device$"),
            ("socket", "it is not a regular file but a socket$"), ("dir", "Is a directory$"),
        ):  # fmt: skip
            for act in _READERS:
                error = _in_a_thread(act, tmp_path / name)
                assert isinstance(error, StorageError)
                assert re.match(f"{re.escape(str(tmp_path / name))}: {why}", str(error))
    assert sorted(os.listdir(tmp_path)) == ["dir", "fifo", "link", "socket", "zero"]


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="needs /dev/fd")
@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd"])
def test_a_pipe_that_a_shell_passes_is_read(folder):
    """As in `--features <(command)`."""
    source, target = os.pipe()
    os.write(target, b"12345")
    os.close(target)
    try:
        assert _in_a_thread(storage.read_bytes, f"{folder}/{source}") == b"12345"
    finally:
        os.close(source)


@pytest.mark.skipif(not hasattr(fcntl, "F_SETLEASE"), reason="needs leases of Linux")
def test_a_file_that_another_process_has_a_lease_of_is_waited_for(tmp_path):
    """As a file server takes one; the kernel asks for it back by a signal."""
    storage.write_bytes(tmp_path / "x", b"12345")
    descriptor = os.open(tmp_path / "x", os.O_RDWR)
    handler = signal.signal(signal.SIGIO, lambda *_: fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK))
    try:
        for act in (storage.read_bytes, lambda path: storage.open_reader(path).read(), storage.memory_map):
            try:
                fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            except OSError as error:
                pytest.skip(f"this file system has no leases: {error}")
            assert _in_a_thread(act, tmp_path / "x") == b"12345"
    finally:
        signal.signal(signal.SIGIO, handler)
        os.close(descriptor)


@pytest.mark.skipif(not Path("/proc/sys").exists(), reason="needs /proc/sys")
def test_a_place_for_a_file_is_seen_without_writing(tmp_path):
    (tmp_path / "file").write_text("as it was")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to("nothing")
    before = sorted(os.listdir(tmp_path))
    for good in ("file", "new", "new/deep/file", "dangling"):
        storage.check_writable(tmp_path / good)
    for bad, why in (
        (".", "Is a directory"), ("file/below", "file: Not a directory"), ("dangling/below/it", "Not a directory"),
        ("/proc/sys/new", "/proc/sys: .*may not do this"),
    ):  # fmt: skip
        with pytest.raises(StorageError, match=why):
            storage.check_writable(tmp_path / bad)
        with pytest.raises(StorageError):
            storage.write_bytes(tmp_path / bad, b"")
    with raises_with(StorageError, path=str(tmp_path / "pipe"), mentions=["regular file"]):  # which would be replaced
        storage.check_writable(tmp_path / "pipe")
    assert (sorted(os.listdir(tmp_path)), (tmp_path / "file").read_text()) == (before, "as it was")
    storage.check_writable("memory://bucket/report.json")
    storage.check_writable("memory://bucket/report.json", in_dir=True)
    storage.check_writable(tmp_path / "new", in_dir=True)
    with raises_with(PathNotFoundError, path=str(tmp_path / "new/deep")):
        storage.check_writable(tmp_path / "new/deep/file", in_dir=True)


def test_a_directory_is_made_below_one_that_somebody_removes_while_it_is_empty(tmp_path, monkeypatch):
    removed, mkdir = [], os.mkdir

    def removed_before(path, *args):
        if os.path.basename(path) == "c" and not removed:
            removed.append(os.rmdir(os.path.dirname(path)))
        mkdir(path, *args)

    monkeypatch.setattr(os, "mkdir", removed_before)
    storage.make_dirs(tmp_path / "a" / "b" / "c")
    assert removed
    assert (tmp_path / "a" / "b" / "c").is_dir()


def test_the_directory_that_cannot_be_made_is_named(tmp_path):
    for name in ("file", "a{x}b{}"):
        (tmp_path / name).touch()
    for path, named, why in (
        (tmp_path / "file", tmp_path / "file", "it is a file"),
        (tmp_path / "file/x/y", tmp_path / "file/x", f"Not a directory; {tmp_path / 'file'} is a file"),
        (tmp_path / "a{x}b{}/x", tmp_path / "a{x}b{}/x", f"Not a directory; {tmp_path / 'a{x}b{}'} is a file"),
        ("/proc/none/x/y", "/proc/none", "the file or directory does not exist"),
    ):
        with raises_with(StorageError, path=str(named)) as error:
            storage.make_dirs(path)
        assert str(error.value) == f"{named}: this directory cannot be made: {why}"


@pytest.mark.parametrize("inodes", [0, 1])
def test_a_directory_on_a_full_disk_is_not_called_a_file(tmp_path, monkeypatch, inodes):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_files=9, f_favail=inodes, f_bavail=7))
    monkeypatch.setattr(os, "mkdir", fail)
    with raises_with(StorageError, path=str(tmp_path / "a")) as error:
        storage.make_dirs(tmp_path / "a")
    assert "this directory cannot be made: the disk is full" in str(error.value)
    assert "this file" not in str(error.value)


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path):
    """A limit of the file size stands for the full disk: both fail in the middle of a write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    storage.write_bytes(tmp_path / "x", b"old")
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        with raises_with(StorageError, path=str(tmp_path / "x"), mentions=["File too large", "`ulimit -f unlimited`"]):
            storage.write_bytes(tmp_path / "x", bytes(3_000_000))
        with raises_with(StorageError, path=str(tmp_path / "x"), mentions=["File too large"]):
            storage.write_bytes(tmp_path / "x", bytes(120_000))  # fails at the last flush
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert storage.list_dir(tmp_path) == ["x"]
    assert storage.read_bytes(tmp_path / "x") == b"old"


@pytest.mark.parametrize(
    "number, advice",
    [
        (errno.EDQUOT, ["Disk quota exceeded", "quota"]),
        (errno.EROFS, ["read-only", "Mount"]),
    ],
)
def test_an_error_of_a_disk_has_its_advice(tmp_path, monkeypatch, number, advice):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "replace", fail)
    with raises_with(StorageError, path=str(tmp_path / "a"), mentions=advice) as error:
        storage.write_bytes(tmp_path / "a", b"x")
    assert error.value.errno == number
    assert "this user (" not in str(error.value)


@pytest.mark.parametrize("module, call, number", [(fcntl, "flock", errno.ENOLCK), (os, "samestat", errno.EIO)])
def test_a_file_that_cannot_be_locked_is_named(tmp_path, monkeypatch, module, call, number):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(module if module is fcntl else os.path, call, fail)
    with raises_with(StorageError, path=str(tmp_path / "a")) as error, storage.locked(tmp_path / "a"):
        raise AssertionError
    assert error.value.errno == number


def test_an_error_below_a_lock_is_not_that_of_its_file(tmp_path):
    with pytest.raises(OSError, match="^x$"), storage.locked(tmp_path / "a"):
        raise OSError("x")


@pytest.mark.parametrize("is_used_up", [True, False])
def test_a_disk_without_inodes_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_used_up: bool) -> None:
    """It has space, as `df` shows; small files must go."""

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    usage = SimpleNamespace(f_files=9, f_favail=0 if is_used_up else 1, f_bavail=7)
    monkeypatch.setattr(os, "statvfs", lambda _: usage)
    monkeypatch.setattr(os, "replace", fail)
    with raises_with(StorageError, path=str(tmp_path / "a"), mentions=["the disk is full"]) as error:
        storage.write_bytes(tmp_path / "a", b"x")
    assert ("its inodes are used up (No space left on device)" in str(error.value)) == is_used_up
    assert ("Free some space" in str(error.value)) != is_used_up


def test_an_error_is_told_where_its_file_cannot_be_removed_either(tmp_path, monkeypatch):
    def fail(number):
        def call(*_):
            raise OSError(number, os.strerror(number))

        return call

    monkeypatch.setattr(os, "replace", fail(errno.EIO))
    monkeypatch.setattr(os, "unlink", fail(errno.EROFS))
    with raises_with(StorageError, path=str(tmp_path / "a"), mentions=["Input/output error"]):
        storage.write_bytes(tmp_path / "a", b"1")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda reader: pickle.loads(pickle.dumps(reader))])
def test_a_copy_of_a_reader_has_a_file_of_its_own(tmp_path, copied):
    storage.write_bytes(tmp_path / "x", b"12345")
    for closes_copy in (True, False):
        one = storage.open_reader(tmp_path / "x")
        other = copied(one)
        assert other.descriptor != one.descriptor
        closed, kept = (other, one) if closes_copy else (one, other)
        closed.close()
        assert (kept.path, kept.size, kept.read(1, 4)) == (str(tmp_path / "x"), 5, b"234")
        kept.close()


def test_a_reader_is_closed_once(tmp_path):
    (tmp_path / "f").write_bytes(b"1")
    reader = storage.open_reader(tmp_path / "f")
    descriptor = reader.descriptor
    reader.close()
    other = os.open(tmp_path / "f", os.O_RDONLY)
    assert other == descriptor  # the system gives the number away again
    reader.close()
    del reader
    assert os.read(other, 1) == b"1"
    os.close(other)
    closed = storage.open_reader(tmp_path / "f")
    closed.close()
    with pytest.raises(ValueError, match="was closed"):
        closed.read(0, 1)


def test_errors_are_of_the_kind_that_they_say():
    kinds = {
        errno.EACCES: PermissionError,
        errno.EROFS: PermissionError,
        errno.ENOENT: FileNotFoundError,
        errno.EEXIST: FileExistsError,
        errno.EIO: StorageError,
        errno.EDQUOT: StorageError,
        errno.ENOSPC: StorageError,
    }
    for number, kind in kinds.items():
        with raises_with(kind, path="/x") as error, local._NamingPath("/x"):
            raise OSError(number, os.strerror(number))
        assert isinstance(error.value, StorageError)
        assert error.value.errno == number
        assert ("the disk is full" in str(error.value)) == (number in (errno.EDQUOT, errno.ENOSPC))


def test_create_where_there_are_no_hard_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    storage.take_requests()
    storage.create_bytes(tmp_path / "x", b"first")
    assert storage.take_requests().bytes_written >= len(b"first")
    with raises_with(FileExistsError, path=f"{tmp_path}/x"):
        storage.create_bytes(tmp_path / "x", b"second")
    assert storage.read_bytes(tmp_path / "x") == b"first"
    assert storage.list_dir(tmp_path) == ["x"]


def test_a_read_that_the_system_cuts_goes_on(tmp_path, monkeypatch):
    data = bytes(range(100))
    storage.write_bytes(tmp_path / "x", data)
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, start: pread(file, min(size, 7), start))
    with storage.open_reader(tmp_path / "x") as reader:
        assert reader.read(3, 90) == data[3:90]
        (tmp_path / "x").write_bytes(data[:50])
        with raises_with(StorageError, path=str(tmp_path / "x"), expected="100 bytes", got="50"):
            reader.read(3, 90)


def test_buffers_that_are_written_together_follow_each_other_also_if_the_system_cuts_them(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "writev", lambda file, some: real(file, b"".join(some)[:2500]))
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:7]))
    parts = [bytes([i % 256]) * (i % 5) for i in range(2200)]
    with storage.open_writer(tmp_path / "a") as writer:
        writer.write([b"first", b""])
        writer.write([b"one"])
        writer.write([*parts, array("q", [1, 2])])
        writer.write([b"last"])
    expected = b"firstone" + b"".join(parts) + array("q", [1, 2]).tobytes() + b"last"
    assert (tmp_path / "a").read_bytes() == expected


def test_permissions_of_a_new_file_follow_the_umask(tmp_path):
    storage.write_bytes(tmp_path / "x", b"1")
    (tmp_path / "y").write_bytes(b"1")
    assert len({(tmp_path / name).stat().st_mode for name in "xy"}) == 1


def test_a_directory_is_removed_that_somebody_still_writes_to(tmp_path, monkeypatch):
    storage.write_bytes(tmp_path / "a" / "x", b"1")
    late, rmdir = [b"2", b"3"], os.rmdir

    def write_before(path, **where):
        if late:
            storage.write_bytes(tmp_path / "a" / "late", late.pop())
        rmdir(path, **where)

    monkeypatch.setattr(os, "rmdir", write_before)
    storage.remove_tree(tmp_path / "a")
    assert not list(tmp_path.iterdir())
    assert not late


def test_nobody_finds_a_part_of_a_directory_that_is_removed(tmp_path, monkeypatch):
    """A publisher that was suspended must not rename a directory of which some files are gone already."""
    for name in "xyz":
        storage.write_bytes(tmp_path / "a" / name, b"1")
    seen, unlink = [], os.unlink

    def looking(path, **where):
        seen.append((tmp_path / "a").exists())
        unlink(path, **where)

    monkeypatch.setattr(os, "unlink", looking)
    storage.remove_tree(tmp_path / "a")
    assert seen == [False] * 3


def test_a_directory_is_on_the_disk_before_it_is_renamed_and_its_place_after(tmp_path, monkeypatch):
    """Every file, every directory, then the rename, then the directories above."""
    for name in ("a/x", "a/y", "a/b/z"):
        storage.write_bytes(tmp_path / name, b"1")
    calls, fsync, rename = [], os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda fd: (calls.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd)))
    monkeypatch.setattr(os, "rename", lambda *paths: (calls.append("rename"), rename(*paths)))
    storage.rename_dir(tmp_path / "a", tmp_path / "new" / "c")
    before, after = calls[: calls.index("rename")], calls[calls.index("rename") + 1 :]
    assert set(before[:3]) == {str(tmp_path / name) for name in ("a/x", "a/y", "a/b/z")}
    assert set(before[3:]) == {str(tmp_path / name) for name in ("a", "a/b")}
    assert after[:2] == [str(tmp_path / "new"), str(tmp_path)]


@pytest.mark.parametrize("act", [storage.exists, storage.is_dir, storage.list_dir, storage.size])
def test_a_path_that_this_user_may_not_look_at_is_not_taken_for_missing(act):
    """Permission denied, with the path."""
    with closed_directory("ds") as folder, raises_with(PermissionError, path=f"{folder}/ds/1.0.0"):
        act(f"{folder}/ds/1.0.0")


def test_a_tree_is_removed_where_a_quota_allows_no_other_name(tmp_path, monkeypatch):
    def rename(source, target):
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("a/b/file", "a/1", "a/dataset_info.json", "a/features.json"):
        (tmp_path / name).touch()
    removed, unlink = [], os.unlink
    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(os, "unlink", lambda path, **where: (removed.append(Path(path).name), unlink(path, **where)))
    storage.remove_tree(tmp_path / "a")
    assert not list(tmp_path.iterdir())
    assert set(removed[:2]) == {"dataset_info.json", "features.json"}  # it is no version from there on
