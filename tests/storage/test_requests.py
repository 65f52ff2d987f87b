"""What a process reads and writes is counted, locally and in an object store."""

from __future__ import annotations

import multiprocessing

import pytest

from beam_datasets import storage
from beam_datasets.storage import Requests


@pytest.mark.parametrize("remote", [False, True])
def test_reads_and_writes_are_counted(tmp_path, remote):
    path = "memory://counted/a/file" if remote else str(tmp_path / "file")
    storage.take_requests()
    storage.write_bytes(path, bytes(1000))
    assert storage.take_requests() == Requests(writes=1, bytes_written=1000)
    with storage.open_reader(path, size=1000) as reader:
        assert reader.read(10, 30) == bytes(20)
        assert list(reader.read_many([(0, 100), (7, 7), (500, 600)])) == [bytes(100), b"", bytes(100)]
    assert storage.take_requests() == Requests(3, 220)
    storage.read_bytes(path)
    assert storage.take_requests() == Requests(1, 1000)
    assert storage.take_requests() == Requests()


def test_each_part_of_an_upload_is_a_request():
    storage.take_requests()
    with storage.open_writer("memory://counted/large") as writer:
        writer.write([bytes(20 << 20)])
    assert storage.take_requests() == Requests(writes=5, bytes_written=20 << 20)


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
    assert answer.get(timeout=60) == Requests(1, 5)
    process.join()
