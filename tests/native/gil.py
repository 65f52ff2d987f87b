"""What a second thread does while C code works without the GIL."""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def when_it_is_free(act: Callable[[], object]) -> Iterator[None]:
    """Has another thread act once, and only while this one, within the context, gives up the GIL of its own accord."""
    ready, begin = threading.Event(), threading.Lock()

    def wait() -> None:
        ready.set()
        with begin:
            act()

    before = sys.getswitchinterval()
    thread = threading.Thread(target=wait)
    begin.acquire()
    thread.start()
    ready.wait()
    sys.setswitchinterval(1e6)  # nobody is made to give it up
    begin.release()
    try:
        yield
    finally:
        sys.setswitchinterval(before)
        thread.join()
