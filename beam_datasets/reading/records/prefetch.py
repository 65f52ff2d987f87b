"""Prefetching: calls of functions in a thread, one ahead of the reader of their results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def prefetch_results(calls: Iterable[Callable[[], T]], threads: int) -> Iterator[T]:
    """Calls functions and yields their results, in order. With threads, calls the next one while a result is used.

    At most two calls that have not been yielded exist at a time, so more than two threads are of no use.

    Args:
        calls: functions without arguments.
        threads: number of threads; 0 to call each function when its result is requested.

    >>> list(prefetch_results([lambda: 1, lambda: 2], threads=0))
    [1, 2]
    """
    if not threads:
        for call in calls:
            yield call()
        return
    executor = ThreadPoolExecutor(threads, "beam_datasets-read")
    waiting: deque[Future[T]] = deque()
    try:
        for call in calls:
            waiting.append(executor.submit(call))
            if len(waiting) > 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        executor.shutdown(cancel_futures=True)
