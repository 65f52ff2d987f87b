"""What every kind of storage does alike: the same tests on a directory and on an object store in memory; and by fsspec,
which is for reading only."""

import glob as shell
import multiprocessing
import os
import re
import threading
import time

import numpy as np
import pytest

from beam_datasets import storage
from beam_datasets.errors import PathNotFoundError, StorageError
from beam_datasets.storage import Requests
from tests.facts import raises_with
from tests.processes import in_threads

DATA = bytes(range(256)) * 4


def test_write_and_read(root):
    path = storage.join(root, "a", "b.bin")
    assert not storage.exists(path)
    storage.write_bytes(path, DATA)
    assert storage.exists(path)
    assert not storage.is_dir(path)
    assert storage.size(path) == len(DATA)
    assert storage.read_bytes(path) == DATA
    assert bytes(storage.memory_map(path)) == DATA
    storage.write_bytes(path, b"new")
    assert storage.read_bytes(path) == b"new"


def test_ranges_are_as_slices(root):
    path = storage.join(root, "b.bin")
    storage.write_bytes(path, DATA)
    ranges = [(0, 3), (1000, 1024), (5, 5), (0, 1024), (2, 4), (1024, 1024)]
    expected = [DATA[start:stop] for start, stop in ranges]
    with storage.open_reader(path) as reader:
        assert reader.size == len(DATA)
        assert [bytes(data) for data in reader.read_many(ranges)] == expected
        assert list(reader.read_many([])) == []
        assert [bytes(reader.read(start, stop)) for start, stop in ranges] == expected
        assert bytes(reader.read()) == DATA
        assert bytes(reader.read(1000)) == DATA[1000:]
        assert np.frombuffer(reader.read(0, 16), "<u8")[1] == int.from_bytes(DATA[8:16], "little")


@pytest.mark.parametrize("start, stop", [(1000, 1025), (2000, 2010), (0, 2**40)])
def test_a_file_that_is_too_short_is_an_error(root, start, stop):
    path = storage.join(root, "b.bin")
    storage.write_bytes(path, DATA)
    with storage.open_reader(path) as reader:
        for read in (lambda: reader.read(start, stop), lambda: list(reader.read_many([(start, stop)]))):
            with raises_with(StorageError, path=path):
                read()


def test_a_range_that_is_none(root):
    path = storage.join(root, "b.bin")
    storage.write_bytes(path, DATA)
    for start, stop in [(-1, 5), (5, 4)]:
        with storage.open_reader(path) as reader, raises_with(ValueError, mentions=[f"[{start}, {stop})"]):
            reader.read(start, stop)


def test_an_empty_file(root):
    path = storage.join(root, "empty")
    with storage.open_writer(path):
        pass
    assert storage.size(path) == 0
    assert storage.read_bytes(path) == b""
    assert bytes(storage.memory_map(path)) == b""
    with storage.open_reader(path) as reader:
        assert bytes(reader.read()) == b""


def test_listing(root):
    for name in ("b", "a/x", "a/y", "c/d/e", "bb"):
        storage.write_bytes(f"{root}/{name}", b"1")
    assert storage.list_dir(root) == ["a", "b", "bb", "c"]
    assert storage.list_dir(root + "/") == ["a", "b", "bb", "c"]
    assert storage.list_dir(f"{root}/a") == ["x", "y"]
    assert storage.is_dir(root)
    assert storage.is_dir(f"{root}/c/d")
    assert storage.exists(f"{root}/c/d")
    assert not storage.is_dir(f"{root}/b")
    assert not storage.exists(f"{root}/c/dd")


def test_what_is_missing(root):
    storage.write_bytes(f"{root}/there", b"1")
    path = f"{root}/missing"
    for act in (
        storage.size,
        storage.read_bytes,
        storage.open_reader,
        storage.list_dir,
        storage.memory_map,
    ):
        with raises_with(FileNotFoundError, path=path) as error:
            act(path)
        assert isinstance(error.value, StorageError)
    storage.remove(path)
    storage.remove_tree(path)
    assert not storage.is_dir(path)


def test_remove(root):
    for name in ("a/x", "a/y/z", "ab"):
        storage.write_bytes(f"{root}/{name}", b"1")
    storage.remove(f"{root}/a/x")
    assert not storage.exists(f"{root}/a/x")
    storage.remove_tree(f"{root}/a")
    assert storage.list_dir(root) == ["ab"]


def test_create_bytes(root):
    path = f"{root}/a/manifest.json"
    storage.create_bytes(path, b"first")
    with raises_with(FileExistsError, path=path) as error:
        storage.create_bytes(path, b"second")
    assert isinstance(error.value, StorageError)
    assert storage.read_bytes(path) == b"first"
    assert storage.list_dir(f"{root}/a") == ["manifest.json"]


def test_of_many_that_create_one_succeeds(root):
    storage.make_dirs(root)
    done, start = [], threading.Barrier(8)

    def create(number):
        start.wait()
        try:
            storage.create_bytes(f"{root}/x", b"%d" % number)
        except FileExistsError:
            return
        done.append(b"%d" % number)

    in_threads(8, create)
    assert [storage.read_bytes(f"{root}/x")] == done


def test_writer_takes_any_buffers(root):
    path = f"{root}/x"
    with storage.open_writer(path) as writer:
        writer.write([b"ab", bytearray(b"cd"), memoryview(b"ef")])
        writer.write(iter([np.array([1, 2], "<u2").data, b""]))
    assert storage.read_bytes(path) == b"abcdef\1\0\2\0"


def test_writer_of_much(root):
    rng = np.random.default_rng(0)
    piece = rng.bytes(1_000_003)
    with storage.open_writer(f"{root}/x") as writer:
        for _ in range(5):
            writer.write([piece, *[piece[i : i + 100] for i in range(0, 100_000, 100)], piece * 3])
    expected = (piece + piece[:100_000] + piece * 3) * 5
    assert storage.read_bytes(f"{root}/x") == expected


def test_nothing_is_seen_before_commit_or_after_abort(root):
    path = f"{root}/a/x"
    storage.write_bytes(path, b"old")
    writer = storage.open_writer(path)
    writer.write([b"new" * 100])
    assert storage.read_bytes(path) == b"old"
    writer.abort()
    with pytest.raises(KeyError), storage.open_writer(path) as writer:  # noqa: PT012
        writer.write([b"new"])
        raise KeyError
    assert storage.read_bytes(path) == b"old"
    assert storage.list_dir(f"{root}/a") == ["x"]
    writer = storage.open_writer(path)
    writer.write([b"new"])
    writer.commit()
    assert storage.read_bytes(path) == b"new"
    assert storage.list_dir(f"{root}/a") == ["x"]


def test_two_writers_of_one_path_do_not_mix(root):
    path = f"{root}/x"
    with storage.open_writer(path) as one, storage.open_writer(path) as two:
        one.write([b"one" * 10])
        two.write([b"two"])
        one.write([b"one"])
    assert storage.read_bytes(path) == b"one" * 11  # `one` commits last
    assert storage.list_dir(root) == ["x"]


def test_threads_share_a_reader(root):
    path = f"{root}/x"
    data = np.arange(20_000, dtype="<u8").tobytes()
    storage.write_bytes(path, data)
    wrong = []
    with storage.open_reader(path) as reader:

        def read(step):
            starts = range(0, len(data) - 800, 800 * (step + 1))
            wrong.extend(at for at in starts if bytes(reader.read(at, at + 800)) != data[at : at + 800])

        in_threads(4, read)
    assert not wrong


def test_local_paths_import_neither_obstore_nor_fsspec(tmp_path):
    import subprocess
    import sys

    code = (
        "import sys; from beam_datasets import storage; storage.write_bytes(sys.argv[1], b'1'); "
        "storage.list_dir('.'); storage.is_remote('s3://b/x'); storage.memory_map(sys.argv[1]); "
        "sys.exit(bool({'obstore', 'fsspec', 'numpy'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "x")], check=True, env=environment, cwd=tmp_path)


def test_copies_replace_and_leave_the_source(root, tmp_path):
    one, two = storage.join(root, "one"), storage.join(root, "below/two")
    storage.write_bytes(one, b"new")
    storage.write_bytes(two, b"old and longer")
    storage.copy(one, two)
    assert storage.read_bytes(one) == storage.read_bytes(two) == b"new"
    elsewhere = str(tmp_path / "elsewhere/three")
    storage.copy(two, elsewhere)
    assert storage.read_bytes(elsewhere) == b"new"
    with pytest.raises(FileNotFoundError):
        storage.copy(storage.join(root, "none"), two)
    assert storage.read_bytes(two) == b"new"


def test_fsspec_reads_as_the_disk(tmp_path):
    pytest.importorskip("fsspec")
    for name in ("a/x", "a/y", "b"):
        storage.write_bytes(tmp_path / name, DATA)
    root = f"local://{tmp_path}"
    assert storage.list_dir(root) == storage.list_dir(tmp_path)
    assert [storage.is_dir(f"{root}/{name}") for name in ("a", "b", "c")] == [True, False, False]
    assert [storage.exists(f"{root}/{name}") for name in ("a", "b", "c")] == [True, True, False]
    path = f"{root}/a/x"
    assert storage.size(path) == len(DATA)
    assert storage.read_bytes(path) == bytes(storage.memory_map(path)) == DATA
    with storage.open_reader(path) as reader:
        assert list(reader.read_many([(3, 9), (0, 0)])) == [DATA[3:9], b""]
        assert bytes(reader.read(1000)) == DATA[1000:]
        with raises_with(StorageError, path=path, got=f"{len(DATA)}"):
            reader.read(0, 2000)
    with raises_with(FileNotFoundError, path=f"{root}/none"):
        storage.read_bytes(f"{root}/none")
    storage.copy(path, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == DATA


@pytest.mark.parametrize(
    "write",
    [
        lambda path: storage.write_bytes(path, b"1"),
        lambda path: storage.create_bytes(path, b"1"),
        lambda path: storage.copy(path, path),
        storage.open_writer,
        storage.make_dirs,
        storage.remove,
        storage.remove_tree,
    ],
)
def test_fsspec_writes_nothing(tmp_path, write):
    """Two publishers could win where a file system cannot create exclusively, so nothing is written there."""
    pytest.importorskip("fsspec")
    (tmp_path / "x").write_bytes(b"old")
    with raises_with(StorageError, path=f"local://{tmp_path}/x", got=re.compile("for reading only")):
        write(f"local://{tmp_path}/x")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_bytes() == b"old"


def test_sizes_of_files(root):
    with pytest.raises(FileNotFoundError):
        storage.file_sizes(root)
    for name in ("b", "a/x", "a/y/z", "bb"):
        storage.write_bytes(f"{root}/{name}", name.encode())
    assert storage.file_sizes(root) == {"b": 1, "a/x": 3, "a/y/z": 5, "bb": 2}
    assert storage.file_sizes(f"{root}/a") == {"x": 3, "y/z": 5}


@pytest.mark.parametrize("is_too_large", [False, True])
def test_a_copy_is_created_once(root, monkeypatch, is_too_large):
    if not storage.is_remote(root):
        with raises_with(StorageError, path=f"{root}/one", mentions=["object store"]):
            storage.create_copy(f"{root}/one", f"{root}/two")
        return
    monkeypatch.setattr("beam_datasets.storage.objects._MAX_COPY_BYTES", 0 if is_too_large else 4 << 30)
    storage.write_bytes(f"{root}/one", b"1")
    storage.create_copy(f"{root}/one", f"{root}/two")
    storage.write_bytes(f"{root}/one", b"11")
    with raises_with(FileExistsError, path=f"{root}/two"):
        storage.create_copy(f"{root}/one", f"{root}/two")
    assert storage.read_bytes(f"{root}/two") == b"1"
    with raises_with(FileNotFoundError, path=f"{root}/none"):
        storage.create_copy(f"{root}/none", f"{root}/three")


@pytest.mark.parametrize("url", ["hdfs://host/data", "ftp://host/data", "http://host/data", "https://host/data"])
def test_places_that_cannot_create_a_file_only_where_there_is_none(url):
    """Publishing there is refused, for two publishers would both win."""
    with raises_with(StorageError, path=url, expected=re.compile("^a local path or an object store")):
        storage.check_can_create(url)
    for good in ("data", "s3://b/data", "gs://b/data", "az://c/data", "memory://x"):
        storage.check_can_create(good)


FILES = ["a-1.rec", "a-2.rec", "b-1.rec", "x/a-1.rec", "x/a-2.txt", "y/a-1.rec", "y/z/a-1.rec", ".tmp-a", "s*r", "[q]"]


@pytest.mark.parametrize(
    "pattern, expected",
    [
        ("a-*", ["a-1.rec", "a-2.rec"]),
        ("?-1.rec", ["a-1.rec", "b-1.rec"]),
        ("[bc]-*", ["b-1.rec"]),
        ("*/a-1.rec", ["x/a-1.rec", "y/a-1.rec"]),
        ("*/*/*", ["y/z/a-1.rec"]),
        ("*/z/a-1.rec", ["y/z/a-1.rec"]),
        ("x/*.rec", ["x/a-1.rec"]),
        (".tmp-*", [".tmp-a"]),
        ("*", ["[q]", "a-1.rec", "a-2.rec", "b-1.rec", "s*r", "x", "y"]),
        ("s[*]r", ["s*r"]),
        ("[[]q]", ["[q]"]),
        ("b-1.rec", ["b-1.rec"]),
        ("c-1.rec", []),
        ("c-*", []),
        ("missing/*", []),
        ("a-1.rec/*", []),
        ("*/*/a-2.txt", []),
    ],
)
@pytest.mark.parametrize("by_fsspec", [False, True])
def test_finds_what_a_shell_finds(root, by_fsspec, pattern, expected):
    for name in FILES:
        storage.write_bytes(f"{root}/{name}", b"1")
    if by_fsspec and not storage.is_remote(root):
        pytest.importorskip("fsspec")
        root = f"local://{root}"
    assert storage.glob(f"{root}/{pattern}") == [f"{root}/{name}" for name in expected]
    if not storage.is_remote(root):
        assert sorted(shell.glob(f"{root}/{pattern}")) == [f"{root}/{name}" for name in expected]


def test_web_addresses_are_no_patterns():
    assert not storage.has_wildcard("https://host/file?part=[1]")
    assert storage.has_wildcard("s3://bucket/file-?")
    with raises_with(StorageError, path="s3://buck*/x"):
        storage.glob("s3://buck*/x")


def test_bytes_and_time(root):
    before = time.time() - 5
    for name, count in (("a", 3), ("below/b", 5), ("below/deeper/c", 0)):
        storage.write_bytes(storage.join(root, name), bytes(count))
    for path, expected in ((root, 8), (storage.join(root, "below"), 5), (storage.join(root, "a"), 3)):
        found = storage.usage(path)
        assert found.num_bytes == expected
        assert before < found.modified < time.time() + 5
    with pytest.raises(PathNotFoundError):
        storage.usage(storage.join(root, "nowhere"))


def test_the_newest_counts(tmp_path):
    for name, when in (("a", 1000), ("b", 3000), ("c", 2000)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (when, when))
    os.utime(tmp_path, (500, 500))
    assert storage.usage(tmp_path).modified == 3000


def test_a_file_with_another_name_elsewhere_frees_nothing(root):
    for name in ("one/a", "two/a", "three/b"):
        storage.write_bytes(storage.join(root, name), bytes(100))
    one, two, three = (storage.join(root, name) for name in ("one", "two", "three"))
    assert storage.freed([one, two]) == 200
    assert storage.freed([]) == 0
    if not storage.is_remote(root):
        storage.link(storage.join(one, "a"), storage.join(two, "b"))
        storage.link(storage.join(one, "a"), storage.join(one, "b"))
        assert [storage.freed(some) for some in ([one], [two], [one, two], [one, two, three])] == [0, 100, 200, 300]


def test_links_are_not_followed(tmp_path):
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "large").write_bytes(bytes(1000))
    (inside / "directory").symlink_to(outside)
    (inside / "file").symlink_to(outside / "large")
    (inside / "own").write_bytes(b"1234567")
    assert storage.usage(inside).num_bytes == 7
    assert storage.usage(inside / "file").num_bytes == 0
    assert [storage.is_link(inside / name) for name in ("directory", "file", "own", "nothing")] == [
        True,
        True,
        False,
        False,
    ]
    assert not storage.is_link("memory://bucket/file")


def test_only_an_empty_directory_is_removed(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").touch()
    storage.remove_if_empty(folder)
    assert (folder / "file").exists()
    with raises_with(StorageError, path=str(folder / "file")):
        storage.remove_if_empty(folder / "file")
    (folder / "file").unlink()
    storage.remove_if_empty(folder)
    assert not folder.exists()
    storage.remove_if_empty(folder)


@pytest.mark.parametrize("remote", [False, True])
def test_reads_and_writes_are_counted(tmp_path, remote):
    path = "memory://counted/a/file" if remote else str(tmp_path / "file")
    storage.take_requests()
    storage.write_bytes(path, bytes(1000))
    assert storage.take_requests()[:4] == Requests(writes=1, bytes_written=1000)[:4]
    with storage.open_reader(path, size=1000) as reader:
        assert reader.read(10, 30) == bytes(20)
        assert list(reader.read_many([(0, 100), (7, 7), (500, 600)])) == [bytes(100), b"", bytes(100)]
    assert storage.take_requests()[:4] == Requests(3, 220)[:4]
    storage.read_bytes(path)
    assert storage.take_requests()[:4] == Requests(1, 1000)[:4]
    assert storage.take_requests()[:4] == Requests()[:4]
    storage.create_bytes(f"{path}-new", bytes(10))
    assert storage.take_requests()[:4] == Requests(writes=1, bytes_written=10)[:4]


def test_each_part_of_an_upload_is_a_request():
    storage.take_requests()
    with storage.open_writer("memory://counted/large") as writer:
        writer.write([bytes(20 << 20)])
    assert storage.take_requests()[:4] == Requests(writes=5, bytes_written=20 << 20)[:4]


def _reading(path, answer):
    storage.read_bytes(path)
    answer.put(storage.take_requests())


def test_a_forked_process_begins_anew(tmp_path):
    path = str(tmp_path / "file")
    storage.write_bytes(path, b"12345")
    context = multiprocessing.get_context("fork")
    answer = context.Queue()
    process = context.Process(target=_reading, args=(path, answer))
    process.start()
    assert answer.get(timeout=60)[:4] == Requests(1, 5)[:4]
    process.join()


def test_hdfs_without_hadoop(monkeypatch):
    """As pyarrow reports it: a line for each place, and in the next call another text."""
    import fsspec

    for text in (
        "/opt/x/libjvm.so: cannot open shared object file\nUnable to load libjvm",
        "attempt to load libhdfs failed",
    ):

        def fail(*_, text=text, **__):
            raise OSError(text)

        monkeypatch.setattr(fsspec.core, "url_to_fs", fail)
        with raises_with(StorageError, path="hdfs://host/x", advice=["HADOOP_HOME", "for reading only"]) as error:
            storage.exists("hdfs://host/x")
        assert "\n" not in str(error.value)
