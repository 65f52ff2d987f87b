"""Tasks of a job in this process: a function is called for each of them, by a few threads.

`beam.tasks` has the same for the workers of a pipeline. A job is a plan that lists its tasks, a function that does one
of them, and a function of all results; the first two are the same for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from beam_datasets.reading.elements.executor import usable_cores

Task = TypeVar("Task")
Result = TypeVar("Result")

MAX_THREADS = 8


def num_threads() -> int:
    """Returns the number of threads for tasks that copy: one for each usable core, at most `MAX_THREADS`.

    Reading, checksums, sorting, gathering and writing release the interpreter lock.
    """
    return min(usable_cores(), MAX_THREADS)


def run_tasks(tasks: Iterable[Task], function: Callable[[Task], Result], *, threads: int = 1) -> list[Result]:
    """Returns the results of `function` for each task, in the order of the tasks.

    An error is raised when it is the turn of its task; tasks that have not begun by then are left out.

    >>> run_tasks([3, 1, 2], str, threads=2)
    ['3', '1', '2']

    Args:
        tasks: the tasks; with several threads, all are listed before the first begins.
        function: called with each task, by several threads at once.
        threads: number of threads; 1 for the calling thread.
    """
    if threads == 1:
        return list(map(function, tasks))
    pool = ThreadPoolExecutor(threads, "beam_datasets-task")
    try:
        return list(pool.map(function, tasks))
    finally:
        pool.shutdown(cancel_futures=True)
