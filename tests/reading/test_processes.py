"""Examples made by worker processes: the same examples, states and errors as without, and nothing left behind."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets.errors import WorkerError
from beam_datasets.reading.elements.processes import _to_picklable
from tests.facts import raises_with
from tests.reading.conftest import drain

COUNT = 90
CHAINS: dict[str, Any] = {
    "examples": lambda d: d.shuffle(3).repeat(2).skip(11).map(doubled),
    "batches": lambda d: d.shuffle(1, 20).shard(1, 2).batch(7).map(doubled),
    "error": lambda d: d.map(fail_at_60).batch(8),
    "error of each": lambda d: d.map(fail_at_60).map(delayed),
}


def doubled(example: Any) -> Any:
    return {**example, "id": example["id"] * 2, "process": os.getpid() != PARENT}


def fail_at_60(example: Any) -> Any:
    if example["key"] == 60:
        raise ZeroDivisionError("it is 60")
    return example


def delayed(example: Any) -> Any:
    time.sleep(0.001 * (int(example["id"]) % 3))
    return example


def slow(example: Any) -> Any:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(0.05)
    return example


def fail_strangely(example: Any) -> Any:
    class Local(Exception):
        """Cannot be pickled."""

    raise Local("of a worker")


PARENT = int(os.environ.setdefault("TEST_PROCESSES_PARENT", str(os.getpid())))


@pytest.fixture
def dataset(write: Any) -> Any:
    config = bd.ReadConfig(interleave_cycle_length=2)
    return bd.builder_from_directory(write({"train": [40, 50]})).as_dataset("train", read_config=config)


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Any:
    before = held()
    yield
    gc.collect()
    assert not workers()
    assert held() == before


def workers() -> list[Any]:
    """Returns the processes of `parallel`; those of other tests have other names."""
    return [process for process in multiprocessing.active_children() if process.name == "beam_datasets-worker"]


def held() -> list[str]:
    """Returns the sockets and the memory that this process shares with others."""
    if not os.path.isdir("/proc/self/fd"):
        return []
    links = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    maps = Path("/proc/self/maps").read_text().splitlines()
    shared = [link for link in links if link.startswith(("socket:", "/memfd:"))]
    segments = [name for name in os.listdir("/dev/shm") if name.startswith("psm_")]  # other processes have semaphores
    return sorted(shared + [line for line in maps if "/memfd:" in line] + segments)


@pytest.mark.parametrize(
    "chain", ["batches", *(pytest.param(name, marks=pytest.mark.slow) for name in CHAINS if name != "batches")]
)
def test_processes_change_nothing(dataset: Any, chain: str) -> None:
    serial = CHAINS[chain](dataset)
    parallel = CHAINS[chain](dataset.parallel(processes=2))
    expected, iterator = drain(iter(serial), "process"), iter(parallel)
    np.testing.assert_equal(drain(iterator, "process"), expected)
    assert iterator.get_state() == expected[1][-1]
    start = len(expected[0]) // 2 + 1
    rest = drain(parallel.parallel(processes=1).iterate(state=expected[1][start]), "process")
    np.testing.assert_equal(rest, (expected[0][start:], expected[1][start:], expected[2]))


@pytest.mark.slow
def test_examples_are_made_elsewhere_and_can_be_changed(dataset: Any) -> None:
    with iter(dataset.map(doubled).parallel(processes=2).batch(40)) as batches:
        batch = next(batches)
        batch["id"][:] = 1
        assert batch["process"].all()
    assert batch["id"].sum() == 40


class TwoArguments(Exception):
    def __init__(self, name: str, count: int) -> None:
        super().__init__(f"{count} of {name}")
        self.count = count


def test_an_error_has_the_traceback_of_the_worker(dataset: Any) -> None:
    with pytest.raises(ZeroDivisionError, match="it is 60") as raised:
        list(dataset.map(fail_at_60).parallel(processes=1))
    assert "in fail_at_60" in raised.value.__notes__[-1]
    with raises_with(WorkerError, mentions=["Local: of a worker"]):
        list(dataset.map(fail_strangely).parallel(processes=1))
    error = pickle.loads(pickle.dumps(_to_picklable(TwoArguments("lamp", 3))))
    assert (type(error), str(error), error.count) == (TwoArguments, "3 of lamp", 3)


@pytest.mark.slow
def test_a_killed_worker_is_an_error(dataset: Any) -> None:
    iterator = iter(dataset.repeat().map(delayed).parallel(processes=2))
    next(iterator)
    victim = workers()[1]
    os.kill(victim.pid or 0, signal.SIGKILL)
    with raises_with(WorkerError, mentions=[f"{victim.pid}", "-9"]):
        deque(iterator, 0)  # a list would ask for memory for all epochs
    before = iterator.get_state()
    next(iterator)  # with new processes
    assert iterator.get_state() != before
    iterator.close()


@pytest.mark.slow
@pytest.mark.parametrize("end", ["close", "delete"])
def test_workers_end_with_the_iterator(dataset: Any, end: str) -> None:
    iterator = iter(dataset.repeat().map(slow).parallel(processes=2))
    list(itertools.islice(iterator, 3))
    processes = workers()
    assert len(processes) == 2
    if end == "close":
        iterator.close()
    del iterator


@pytest.mark.slow
def test_a_forked_child_starts_workers_of_its_own(dataset: Any) -> None:
    iterator = iter(dataset.parallel(processes=1))
    before = [next(iterator)["id"] for _ in range(5)]
    child = os.fork()
    if not child:
        rest = [example["id"] for example in iterator]
        os._exit(len(before + rest) != COUNT)
    assert os.waitpid(child, 0)[1] == 0
    assert len(before + list(iterator)) == COUNT


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_parent(dataset: Any, tmp_path: Path, sent: int) -> None:
    script = tmp_path / "reads.py"
    script.write_text(
        "import multiprocessing, sys\n"
        "import beam_datasets as bd\n"
        "if __name__ == '__main__':\n"
        "    dataset = bd.builder_from_directory(sys.argv[1]).as_dataset('train').repeat().parallel(processes=2)\n"
        "    for i, _ in enumerate(dataset):\n"
        "        if i == 100:\n"
        "            print(*(process.pid for process in multiprocessing.active_children()), flush=True)\n"
    )
    command = [sys.executable, script, dataset._source.pool.directory]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        workers = [int(pid) for pid in process.stdout.readline().split()]
        os.kill(process.pid, sent)
        _, errors = process.communicate(timeout=20)
    assert len(workers) == 2
    end = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") for pid in workers) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in workers)
    assert errors.count("Traceback") == (sent == signal.SIGINT)


@pytest.mark.slow
def test_what_is_filtered_and_mixed_is_made_by_processes(dataset: Any) -> None:
    made = dataset.map(doubled).parallel(processes=2)
    filtered = made.filter(lambda example: example["id"] % 3 == 0)
    iterator = iter(filtered)
    found = [next(iterator) for _ in range(7)]
    found += list(filtered.iterate(state=iterator.get_state()))
    iterator.close()
    assert all(example["process"] for example in found)
    assert [example["id"] for example in found] == [2 * e["id"] for e in dataset if e["id"] % 3 == 0]
    mixture = bd.mix([(dataset.map(doubled), 2), (dataset.shuffle(1).map(doubled), 1)])
    np.testing.assert_equal(drain(iter(mixture.parallel(processes=2)), "process"), drain(iter(mixture), "process"))


UNGUARDED = """\
import sys
import beam_datasets as bd
def read():
    for example in bd.builder_from_directory(sys.argv[1]).as_dataset('train').parallel(processes=2):
        print(example)
"""
PROCESS = """\
import multiprocessing
process = multiprocessing.get_context('spawn').Process(target=print)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "script, num_tracebacks, error",
    [
        (f"{UNGUARDED}read()", 1, "WorkerError: parallel(processes=...): each worker process imports the script"),
        (f"{UNGUARDED}if __name__ == '__main__':\n    read()", 0, ""),
        # a process of the user's, whose parent would not report the end of the import
        (
            f"{UNGUARDED}{PROCESS}if __name__ == '__main__':\n    process.start()\nelse:\n    read()",
            1,
            "RuntimeError: par",
        ),
    ],
)
def test_a_script_without_a_guard_is_one_error(
    dataset: Any, tmp_path: Path, script: str, num_tracebacks: int, error: str
) -> None:
    path = tmp_path / "reads.py"
    path.write_text(script)
    command = [sys.executable, str(path), dataset._source.pool.directory]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert completed.stderr.count("Traceback") == num_tracebacks
    assert error in completed.stderr
    assert ("if __name__ == '__main__'" in completed.stderr) == bool(error)
    assert completed.stdout.count("id") == (0 if error else COUNT)


@pytest.mark.slow
def test_a_script_that_is_no_file_is_one_error(dataset: Any) -> None:
    command = [sys.executable, "-", dataset._source.pool.directory]
    completed = subprocess.run(command, input=f"{UNGUARDED}read()", capture_output=True, text=True, timeout=60)
    assert completed.stderr.count("Traceback") == 1
    assert "expected a script in a file, got standard input" in completed.stderr


def test_what_parallel_refuses(dataset: Any) -> None:
    with pytest.raises(TypeError, match="pickled .*lambda.*module"):
        next(iter(dataset.map(lambda example: example).parallel(processes=1)))
    with pytest.raises(TypeError, match="processes=None, threads=None"):
        dataset.parallel()
    with pytest.raises(ValueError, match="threads"):
        dataset.parallel(threads=0)


@pytest.mark.parametrize("chain", CHAINS)
def test_threads_change_nothing(dataset: Any, chain: str) -> None:
    expected = drain(iter(CHAINS[chain](dataset)), "process")
    np.testing.assert_equal(drain(iter(CHAINS[chain](dataset).parallel(threads=3)), "process"), expected)
