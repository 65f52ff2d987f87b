"""Prefetching: calls are made in a thread, one ahead of the reader of their results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def prefetched(calls: Iterable[Callable[[], T]], threads: int) -> Iterator[T]:
    """Yields the results of calls in order; with threads, the next call is made while a result is used."""
    if not threads:
        yield from (call() for call in calls)
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
