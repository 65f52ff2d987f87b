"""Tasks in this process."""

import threading
import time

import pytest

from beam_datasets.execute.tasks import MAX_THREADS, num_threads, run_tasks


@pytest.mark.parametrize("threads", [1, 3])
def test_results_are_in_the_order_of_the_tasks(threads):
    def wait_less(number):
        time.sleep(0.03 / (number + 1))
        return number

    assert run_tasks(range(9), wait_less, threads=threads) == list(range(9))


def test_several_tasks_run_at_once():
    barrier = threading.Barrier(3, timeout=10)
    run_tasks(range(3), lambda _: barrier.wait(), threads=3)


@pytest.mark.parametrize("threads", [1, 2])
def test_after_an_error_no_other_task_begins(threads):
    begun = []

    def fail(number):
        begun.append(number)
        time.sleep(0.05)
        raise ZeroDivisionError(number)

    with pytest.raises(ZeroDivisionError, match="0"):
        run_tasks(range(100), fail, threads=threads)
    assert len(begun) < 10


def test_threads_are_limited(monkeypatch):
    monkeypatch.setattr("beam_datasets.execute.tasks.usable_cores", lambda: 99)
    assert num_threads() == MAX_THREADS
