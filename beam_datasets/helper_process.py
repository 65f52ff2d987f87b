"""Helper process: a new Python interpreter that answers requests of this process through pipes, one at a time."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
from typing import Any

_COMMAND = "import sys; from {module} import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"


class HelperEndedError(Exception):
    """The helper process has ended, or sent a damaged reply.

    Attributes:
        code: its exit code, as of `subprocess`: negative for a signal, such as -9 of a process that was killed.
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"the helper process ended with exit code {code}")
        self.code = code


class HelperProcess:
    """A process that runs `serve` of a module; it is started when it is first needed, and ends with this one.

    Threads take turns. A forked process starts one of its own.

    Args:
        module: name of the module. Its function `serve(requests, replies)` reads pickled requests from one binary file
            until it ends, and writes a pickled reply to each to the other one.
    """

    def __init__(self, module: str) -> None:
        self._command = [sys.executable, "-c", _COMMAND.format(module=module)]
        self._reset()
        os.register_at_fork(after_in_child=self._reset)  # the process belongs to the parent

    def _reset(self) -> None:
        """Resets the lock and the process to the initial state."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: Any) -> Any:
        """Returns the reply to a request; both are values that pickle.

        Raises:
            HelperEndedError: the process ended before it replied. The next request starts another one.
        """
        with self._lock:
            process = self._process = self._process or self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                pickle.dump(request, process.stdin)
                process.stdin.flush()
                return pickle.load(process.stdout)
            except BaseException as error:
                self._process = None  # the next request must not get the reply to this one
                code = _kill(process)
                if not isinstance(error, (EOFError, OSError, pickle.UnpicklingError)):
                    raise  # such as an interrupt
                raise HelperEndedError(code) from None

    def _start(self) -> subprocess.Popen[bytes]:
        """Starts the process, with the import path of this one."""
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        return subprocess.Popen(self._command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _kill(process: subprocess.Popen[bytes]) -> int:
    """Kills a process, closes its pipes, and returns its exit code."""
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # closing writes what is left of a request, to a process that is gone
                pipe.close()
    return process.wait()
