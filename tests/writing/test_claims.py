"""Publishing where there is no rename: who may, who must wait, and what a dead publisher leaves."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from beam_datasets import catalog, storage
from beam_datasets.errors import AlreadyPublishedError, StorageError
from beam_datasets.model.manifest import RUN_FILE
from beam_datasets.writing import claims, publish
from tests.writing.test_publish import announced, contents, staged


@pytest.fixture
def data_dir() -> str:
    return f"memory://{uuid.uuid4().hex}/data"


@pytest.fixture
def place(data_dir: str) -> str:
    return storage.join(data_dir, "ds", "1.0.0")


def write(claim: claims.Claim) -> claims.Claim:
    storage.write_bytes(claim.path, claim.text)
    return claim


def test_one_of_many_takes_it(place: str) -> None:
    barrier = threading.Barrier(8)

    def attempt(job: int) -> str | None:
        barrier.wait()
        try:
            return claims.take(place, str(job)).job
        except AlreadyPublishedError:
            return None

    with ThreadPoolExecutor(8) as executor:
        taken = [job for job in executor.map(attempt, range(8)) if job is not None]
    assert len(taken) == 1
    assert claims.take(place, taken[0]).job == taken[0]
    with pytest.raises(AlreadyPublishedError, match="is being published by job"):
        claims.take(place, "another")


def test_a_dead_publisher_s_place_is_taken(place: str) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    first = claims.take(place, "one")
    for dead in (replace(first, pid=ended.pid), replace(first, renewed=time.time() - claims.LEASE_SECONDS)):
        number, _ = claims.latest(place)
        write(replace(dead, path=claims.latest(place)[1].path))
        assert claims.take(place, f"job {number}").job == f"job {number}"
        assert claims.latest(place)[0] == number + 1
    with pytest.raises(StorageError, match="another publisher took its place"):
        claims.check_held(place, first)


def test_a_publisher_in_another_container_is_not_taken_for_dead(place: str) -> None:
    """Containers may have one host name; a process of one has no number in the other."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    write(replace(claims.take(place, "there"), pid=ended.pid, space="another container"))
    with pytest.raises(AlreadyPublishedError, match="there"):
        claims.take(place, "here")


def test_another_machine_is_believed(place: str) -> None:
    first = claims.take(place, "one")
    write(replace(first, host="elsewhere", pid=2**22 + 1))
    with pytest.raises(AlreadyPublishedError, match=f"process {2**22 + 1} on elsewhere"):
        claims.take(place, "two")


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"job": "a", "host": "b", "pid": "c", "renewed": 1}', b"\xff"])
def test_a_damaged_claim_is_nobody_s(place: str, text: bytes) -> None:
    storage.write_bytes(claims.take(place, "one").path, text)
    assert claims.take(place, "two").job == "two"


def test_a_claim_is_renewed_from_time_to_time(place: str) -> None:
    claim = claims.take(place, "one")
    assert claim.renewed_now() is claim
    old = replace(claim, renewed=claim.renewed - claims.RENEW_SECONDS)
    assert old.renewed_now().renewed >= claim.renewed
    assert claims.latest(place)[1].pid == os.getpid()


def race(data_dir: str) -> None:
    """Lets two publish at once, and checks that one does."""
    runs = [announced(data_dir), announced(data_dir)]
    ready = [staged(run) for run in runs]
    barrier = threading.Barrier(2)

    def go(number: int) -> object:
        barrier.wait()
        try:
            return publish.publish(runs[number], *ready[number])
        except AlreadyPublishedError as error:
            return error

    with ThreadPoolExecutor(2) as executor:
        results = list(executor.map(go, range(2)))
    won = [number for number in range(2) if results[number] == runs[number].dataset_dir]
    assert len(won) == 1, results
    assert isinstance(results[1 - won[0]], AlreadyPublishedError)
    assert f'"job": "{runs[won[0]].job}"'.encode() in contents(runs[0].dataset_dir)[RUN_FILE]
    assert set(contents(runs[0].dataset_dir)) == _names()


@pytest.mark.parametrize("attempt", range(20))
def test_two_publishers_at_once(data_dir: str, attempt: int) -> None:
    race(data_dir)


def test_what_a_publisher_left_who_died_at_any_file(data_dir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each copy and the last creation fail once: nothing is visible then, and the next run publishes."""
    copy, create = storage.copy, storage.create_bytes
    for fails_at in range(len(_names())):
        place = f"{data_dir}/{fails_at}"
        run = announced(place)
        made = staged(run)
        left = [fails_at]

        def dies(door, left=left):
            def call(*args):
                if ".publishing" not in args[0] and (left.append(left.pop() - 1) or left[0] < 0):
                    raise Killed
                return door(*args)

            return call

        monkeypatch.setattr(publish, "COPIES_AT_ONCE", 1)
        monkeypatch.setattr(storage, "copy", dies(copy))
        monkeypatch.setattr(storage, "create_bytes", dies(create))
        monkeypatch.setattr(storage, "remove", lambda path: None)  # a dead process tidies nothing up
        with pytest.raises(Killed):
            publish.publish(run, *made)
        monkeypatch.undo()
        assert not catalog.is_published(run.dataset_dir)
        claim = claims.latest(run.dataset_dir)[1]
        write(replace(claim, renewed=claim.renewed - claims.LEASE_SECONDS))
        again = announced(place)
        assert set(contents(publish.publish(again, *staged(again)))) == _names()


class Killed(BaseException):
    pass


def _names() -> set[str]:
    shards = {f"ds-train.tfrecord-{i:05d}-of-00002" for i in range(2)}
    small = {"dataset_info.json", "features.json", "manifest.json", "run.json"}
    return small | shards | {f"{name}.index" for name in shards}
