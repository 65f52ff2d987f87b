"""DuckDB, which evaluates expressions over columns: in this process, or in a helper process with limits.

DuckDB does not limit its time: it handles an interruption only between blocks of rows, and a regular expression can
take hours for one row. It counts only a part of its memory.
"""

from __future__ import annotations

import os
import pickle
import queue
import re
import resource
import signal
import threading
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from numpy.typing import NDArray

from beam_datasets.helper_process import HelperEndedError, HelperProcess

if TYPE_CHECKING:
    import pyarrow


MAX_SECONDS = 60.0
"""Time limit in seconds of a query in a helper process."""

MAX_BYTES = 2 << 30
"""Memory limit of a query, in addition to what its process needs without it."""


_OUT_OF_MEMORY = re.compile(
    r"((Parser|INTERNAL|FATAL|Out of Memory) Error: )?(std::)?(bad_alloc|allocation failure|failed to allocate)",
    re.IGNORECASE,
)
"""Beginning of DuckDB's texts about memory; what follows, or an error of other kinds, may quote an expression."""


class DatabaseError(Exception):
    """A query failed."""


class LimitError(DatabaseError):
    """A query needs more time or memory than it may."""


class Evaluator(Protocol):
    """An evaluator of queries, in this process or in another one."""

    def evaluate(
        self, query: str, parameters: tuple[str, ...] = (), name: str = "", table: Any = None
    ) -> tuple[str, NDArray[Any]]:
        """Returns (type of the first column of a query's result, its values).

        Args:
            query: the query, in SQL.
            parameters: the values of its parameters.
            name: the name in SQL of the table.
            table: an Arrow table that the query reads; None for a query without a table.

        Raises:
            DatabaseError: the query failed; the text is DuckDB's.
            LimitError: the query exceeds the limit of time or memory.
        """


class Database:
    """A connection to DuckDB in this process, with fixed settings and no access to files and networks.

    Args:
        max_bytes: limit of the memory that DuckDB counts.
    """

    def __init__(self, max_bytes: int) -> None:
        import duckdb

        self.max_bytes = max_bytes

        settings: dict[str, str | bool | int | float | list[str]] = {
            "enable_external_access": "false",
            "autoload_known_extensions": "false",
            "autoinstall_known_extensions": "false",
            "max_temp_directory_size": "0KiB",
            "memory_limit": f"{max_bytes}B",
            "threads": "1",
        }
        self._duckdb = duckdb
        self._connection = duckdb.connect(":memory:", config=settings)
        self._connection.execute("SET TimeZone = 'UTC'")  # and not the machine's, which casts of text would depend on
        self._connection.execute("SET lock_configuration = true")

    def evaluate(
        self, query: str, parameters: tuple[str, ...] = (), name: str = "", table: Any = None
    ) -> tuple[str, NDArray[Any]]:
        """Returns (type of the first column of a query's result, its values); see `Evaluator.evaluate`."""
        try:
            if table is not None:
                self._connection.register(name, table)
            result = self._connection.execute(query, list(parameters))
            return str(result.description[0][1]), next(iter(result.fetchnumpy().values()))
        except (MemoryError, self._duckdb.OutOfMemoryException):
            raise LimitError(f"it takes more than {self.max_bytes / 2**30:g} GiB of memory") from None
        except self._duckdb.Error as error:
            raise to_error(str(error), self.max_bytes) from None


def to_error(text: str, max_bytes: int | None = None) -> DatabaseError:
    """Returns the error for a text of DuckDB, whose parser reports memory that it did not get as any other error.

    Args:
        text: DuckDB's text.
        max_bytes: the limit of memory; None for `MAX_BYTES`.
    """
    if _OUT_OF_MEMORY.match(text):
        return LimitError(f"it takes more than {(max_bytes or MAX_BYTES) / 2**30:g} GiB of memory")
    return DatabaseError(text)


class LimitedDatabase:
    """DuckDB in a helper process, whose memory and time the system limits."""

    def __init__(self) -> None:
        self._helper = HelperProcess(__name__)

    def evaluate(
        self, query: str, parameters: tuple[str, ...] = (), name: str = "", table: Any = None
    ) -> tuple[str, NDArray[Any]]:
        """Returns (type of the first column of a query's result, its values); see `Evaluator.evaluate`."""
        request = (query, parameters, name, None if table is None else _to_bytes(table), MAX_SECONDS, MAX_BYTES)
        try:
            error_class, answer = self._ask(request)
        except HelperEndedError as error:
            raise _end_error(error.code) from None
        if error_class is not None:
            raise error_class(answer)
        kind, values = answer
        return kind, values

    def _ask(self, request: Any) -> Any:
        """Returns the reply to a request; sends it again if the helper process was killed.

        The cause may be gone by then, such as another process that had filled the memory of the machine.
        """
        try:
            return self._helper.ask(request)
        except HelperEndedError as error:
            if error.code != -signal.SIGKILL:
                raise
            return self._helper.ask(request)


def _end_error(code: int) -> DatabaseError:
    """Returns the error about a helper process that has ended with an exit code before it replied."""
    if code == -signal.SIGALRM:
        return LimitError(f"it takes more than {MAX_SECONDS:g} s for a block of examples")
    if code in (0, -signal.SIGABRT):  # by `_receive`, or by C++, which could allocate no more
        return LimitError(f"it takes more than {MAX_BYTES / 2**30:g} GiB of memory")
    if code == -signal.SIGKILL:
        return DatabaseError("the process that evaluates it was killed (SIGKILL), as if the machine had no memory left")
    name = f"exit code {code}" if code > 0 else f"signal {-code} ({signal.strsignal(-code)})"
    return DatabaseError(f"the process that evaluates it ended with {name}; an error of it is above")


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Runs the helper process: answers each request until the pipe is closed, which also ends a query that runs.

    Requests are pickled (query, parameters, name of the table, Arrow stream of it or None, maximum of seconds, maximum
    of bytes). Replies are pickled (None, (type, values)) or (error class, error message).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal; the process that asks ends then
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # this ends the process
    waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests, waiting), daemon=True).start()
    database, initial_bytes = None, 0
    while True:
        query, parameters, name, stream, max_seconds, max_bytes = waiting.get()
        if database is None or database.max_bytes != max_bytes:
            database = Database(max_bytes)
        initial_bytes = initial_bytes or _data_bytes()
        _limit_memory(initial_bytes, max_bytes)
        signal.setitimer(signal.ITIMER_REAL, max_seconds)
        try:
            reply: tuple[Any, Any] = None, database.evaluate(query, parameters, name, _from_bytes(stream))
        except (DatabaseError, MemoryError) as error:
            reply = LimitError if isinstance(error, MemoryError) else type(error), str(error)
        signal.setitimer(signal.ITIMER_REAL, 0)
        pickle.dump(reply, replies)
        replies.flush()


def _receive(requests: BinaryIO, waiting: queue.SimpleQueue[Any]) -> None:
    """Puts each request into a queue, and ends the process when no more can come, while a query may run."""
    try:
        while True:
            waiting.put(pickle.load(requests))
    finally:
        os._exit(0)


def _limit_memory(used: int, max_bytes: int) -> None:
    """Limits the memory of this process to `used` + `max_bytes`; does nothing if `used` is 0, which means unknown."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if used:
        limits = [used + max_bytes, *([] if hard == resource.RLIM_INFINITY else [hard])]
        resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))


def _data_bytes() -> int:
    """Returns the bytes of memory that this process has written to; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[5]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        return 0


def _to_bytes(table: pyarrow.Table) -> bytes:
    """Returns the Arrow stream of a table."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _from_bytes(stream: bytes | None) -> pyarrow.Table | None:
    """Returns the Arrow table of a stream; None for None."""
    if stream is None:
        return None
    import pyarrow as pa

    with pa.ipc.open_stream(stream) as reader:
        return reader.read_all()
