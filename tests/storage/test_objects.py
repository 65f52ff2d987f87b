"""Object stores: errors, web servers, and the options."""

import os
import signal
import uuid

import pytest

from beam_datasets import storage
from beam_datasets.errors import StorageError

pytest.importorskip("obstore")


def test_reads_from_a_web_server(server, tmp_path):
    storage.write_bytes(tmp_path / "web" / "d" / "x", bytes(range(200)))
    path = f"{server}/d/x"
    assert storage.read_bytes(path) == bytes(range(200))
    assert storage.size(path) == 200
    with storage.open_reader(path) as reader:
        assert list(reader.read_many([(5, 10), (150, 160)])) == [bytes(range(5, 10)), bytes(range(150, 160))]
        assert bytes(reader.read(190)) == bytes(range(190, 200))
    assert storage.exists(path)
    assert not storage.exists(f"{server}/d/y")
    with pytest.raises(FileNotFoundError, match=f"^{server}/d/y: "):
        storage.read_bytes(f"{server}/d/y")
    for act in (storage.list_dir, storage.is_dir, storage.remove_tree):
        with pytest.raises(StorageError, match=f"^{server}/d: .* web server"):
            act(f"{server}/d")
    with pytest.raises(StorageError, match=f"^{server}: names a server"):
        storage.read_bytes(server)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_process_says_so_and_does_not_hang(server, tmp_path):
    (tmp_path / "web" / "x").write_bytes(b"hello")
    assert storage.read_bytes(f"{server}/x") == b"hello"
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            storage.read_bytes(f"{server}/x")
        except StorageError as error:
            os._exit(7 if "spawn" in str(error) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_errors_are_one_line_that_begins_with_the_path():
    path = f"memory://{uuid.uuid4().hex}/x"
    storage.write_bytes(path, b"1")
    with pytest.raises(StorageError) as error, storage.open_reader(path, size=9) as reader:
        reader.read(5, 9)
    assert str(error.value).startswith(path)
    assert "\n" not in str(error.value)


def test_stores_of_another_name_are_others():
    one, two = (f"memory://{uuid.uuid4().hex}" for _ in range(2))
    storage.write_bytes(f"{one}/x", b"1")
    assert storage.exists(f"{one}/x")
    assert not storage.exists(f"{two}/x")
    assert storage.list_dir(one) == ["x"]
    assert storage.list_dir(two) == []


def test_an_object_under_the_name_of_a_directory_is_not_its_content():
    root = f"memory://{uuid.uuid4().hex}"
    storage.write_bytes(f"{root}/d", b"")
    storage.write_bytes(f"{root}/d/x", b"1")
    assert storage.list_dir(f"{root}/d") == ["x"]


@pytest.mark.parametrize("url, bucket", [("s3://b/x", "b"), ("gs://c/x/y", "c")])
def test_buckets_need_no_options(url, bucket, monkeypatch):
    from beam_datasets.storage import objects

    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:1")
    _, store, key = objects._at(url)
    assert store.config["bucket"] == bucket
    assert url.endswith(f"{bucket}/{key}")
    objects._store.cache_clear()


def test_a_plain_http_endpoint_is_allowed_where_the_environment_names_one(server, tmp_path, monkeypatch):
    """The web server stands for an object store: a read without signature is a plain GET."""
    bucket = f"b{uuid.uuid4().hex}"
    storage.write_bytes(tmp_path / "web" / bucket / "x", b"hello")
    monkeypatch.setenv("AWS_ENDPOINT", server)
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    assert storage.read_bytes(f"s3://{bucket}/x") == b"hello"
    with storage.open_reader(f"s3://{bucket}/x") as reader:
        assert bytes(reader.read(1, 3)) == b"el"
    with pytest.raises(FileNotFoundError, match=f"^s3://{bucket}/y: "):
        storage.read_bytes(f"s3://{bucket}/y")


def test_other_schemes_say_what_is_missing():
    with pytest.raises(StorageError, match=r"^nonsense://x/y: "):
        storage.read_bytes("nonsense://x/y")
