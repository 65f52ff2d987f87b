"""Worker processes that read, decode and map examples; the parent process yields them in order.

Worker i of n takes blocks i, i + n, i + 2n, ... of the positions. It sends the values of its blocks in messages. The
arrays of a message are in an anonymous file in memory, which the system removes when both processes have ended. The
parent maps the file; the arrays of a batch are views of it. A worker has a bounded number of unread messages.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import multiprocessing
import os
import pickle
import signal
import socket
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from beam_datasets.errors import WorkerError
from beam_datasets.reading.elements.executor import num_bytes
from beam_datasets.reading.elements.transforms import Batch, share_cores
from beam_datasets.reading.index.division import Share
from beam_datasets.reading.index.transforms import Operation, Shared

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess
    from types import FrameType

    from beam_datasets.reading.plan import ReadPlan

    Worker: TypeAlias = tuple[SpawnProcess, socket.socket]

_PART, _BLOCK, _END, _ERROR = range(4)
"""Kinds of messages: values of a block that continues; the last values of a block; the last values of all; an error."""

_HEADER = struct.Struct("<B?QQQ")  # kind, whether it has one value, number of buffers, end of the buffers, file size
_ALIGNMENT = 64  # bytes
_MESSAGE_BYTES = 16 << 20  # approximate limit of a message; a larger value is sent in its own message
_MESSAGE_SECONDS = 0.2  # after which a worker sends the values that it has
_MAX_UNREAD = 2  # messages of a worker
_BLOCK_BYTES, _MAX_BLOCK = 1 << 20, 256  # limits of a worker's block: stored bytes, and items
_SECONDS_TO_END = 5
_WORKER_NAME = "beam_datasets-worker"
_UNGUARDED = 3  # exit code of a worker that would start workers itself while it imports the main script
_GUARD = (
    "parallel(processes=...): each worker process imports the script, so the script must start reading under "
    "`if __name__ == '__main__':`. Put its statements there, or into a function that is called there."
)


def blocks_of_processes(dataset: ReadPlan, operation: Operation, epoch: int, count: int) -> Iterator[list[Any]]:
    """Yields lists of examples (or batches), in order, that worker processes have made.

    The processes start when the first list is requested, and end after the last one.

    Args:
        dataset: the dataset, with the steps that make the examples.
        operation: the items to read.
        epoch: epoch to read, at least 0.
        count: number of processes, at least 1.

    Raises:
        TypeError: a function of the dataset cannot be pickled.
        RuntimeError: this process is a worker itself, which cannot start processes; or it imports the main script.
        WorkerError: a process has died, or the main script would start processes when a worker imports it.
        Exception: the error of a worker, after the examples before it.
    """
    _check_main_script()
    owner = os.getpid()
    workers: list[Worker] = []
    try:
        workers.extend(map(_start_worker, _worker_payloads(dataset, operation, epoch, count)))
        for process, connection in itertools.cycle(workers):
            kind = _PART
            while kind == _PART:
                kind, values = _receive(process, connection)
                if kind == _ERROR:
                    error, text = values
                    error.add_note(f"Traceback of the worker process:\n{text}")
                    raise error
                yield values
                del values
            if kind == _END:
                return
    finally:
        _end_workers(workers, is_owner=os.getpid() == owner)  # not in a child that was forked


def _check_main_script() -> None:
    """Checks that new processes can import the main script, and that this one is not importing it.

    Raises:
        SystemExit: this process is a worker that imports the script; its parent reports it.
        RuntimeError: it is a process of the user's that imports the script; or the script is not a file.
    """
    if getattr(sys.modules.get("__main__"), "__file__", None) == "<stdin>":
        raise RuntimeError(
            "parallel(processes=...): expected a script in a file, got standard input, which worker processes cannot "
            "import. Save the script, or use parallel(threads=...)."
        )
    frame: FrameType | None = sys._getframe()
    while frame is not None and (frame.f_code.co_name, frame.f_globals.get("__name__")) != ("<module>", "__mp_main__"):
        frame = frame.f_back
    if frame is None:
        return
    if multiprocessing.current_process().name == _WORKER_NAME:
        raise SystemExit(_UNGUARDED)
    raise RuntimeError(_GUARD)


def _worker_payloads(dataset: ReadPlan, operation: Operation, epoch: int, count: int) -> list[bytes]:
    """Returns the argument of each worker, a pickle of (dataset with its share of the items, epoch, block size).

    Args:
        dataset: the dataset.
        operation: the items that all workers read.
        epoch: the epoch to read, from 0.
        count: number of workers.

    Raises:
        RuntimeError: this process is a worker itself, which cannot start processes.
        TypeError: a function of the dataset cannot be pickled.
    """
    if multiprocessing.current_process().daemon:
        raise RuntimeError(
            "parallel(processes=...): this process is a worker, and cannot start processes. Use the workers that "
            "there are, without parallel()."
        )
    size = _block_size(dataset, operation)
    worker_dataset = dataset._with(steps=share_cores(count, dataset._steps))
    worker_dataset._processes = None
    shares = [Share(index, count, block=size) for index in range(count)]
    return [_pickle(worker_dataset._with(operation=Shared(operation, share)), epoch, size) for share in shares]


def _start_worker(payload: bytes) -> Worker:
    """Starts a worker process with a payload; returns the process and this process's end of the connection.

    The process is spawned, which is safe even if this process has threads.
    """
    connection, worker_connection = socket.socketpair()
    with worker_connection:
        process = multiprocessing.get_context("spawn").Process(
            target=_run_worker, args=(payload, worker_connection), name=_WORKER_NAME, daemon=True
        )
        # Ctrl-C is for this process, which ends its workers: they would print a traceback each
        old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        except BaseException:
            connection.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
    return process, connection


def _end_workers(workers: list[Worker], *, is_owner: bool) -> None:
    """Closes the connections of workers. If this process started them, terminates them, then kills any that remain."""
    for _, connection in workers:
        connection.close()
    for process, _ in workers if is_owner else ():
        process.terminate()
    for process, _ in workers if is_owner else ():
        process.join(_SECONDS_TO_END)
        if process.is_alive():  # a user's function has caught the signal
            process.kill()
            process.join()
        process.close()


def _block_size(dataset: ReadPlan, operation: Operation) -> int:
    """Returns the number of items of an operation in a worker's block: 1 batch, or about 1 MiB of examples."""
    if isinstance(dataset._steps[0], Batch):
        return 1
    return int(max(1, min(_BLOCK_BYTES / max(operation.item_bytes, 1), _MAX_BLOCK)))


def _pickle(*values: Any) -> bytes:
    """Pickles a tuple of values for a worker.

    Raises:
        TypeError: a value cannot be pickled, such as a function that is not at the top level of a module.
    """
    try:
        return pickle.dumps(values)
    except Exception as error:
        raise TypeError(
            f"parallel(processes=...): the dataset cannot be pickled for worker processes ({error}). Functions given "
            "to map() must be defined at the top level of a module. Use parallel(threads=...) for others."
        ) from error


# ------------------------------------------------------------------------------------------------------------- messages


def _receive(process: SpawnProcess, connection: socket.socket) -> tuple[int, Any]:
    """Waits for the next message of a worker, acknowledges it, and returns (kind, values).

    The kind is `_PART`, `_BLOCK`, `_END` or `_ERROR`.

    Raises:
        WorkerError: the worker has ended without a message.
    """
    header, files = b"", list[int]()
    with contextlib.suppress(ConnectionError):
        header, files, _, _ = socket.recv_fds(connection, _HEADER.size, 1)
        connection.send(b"\0")  # that it is read
    if len(files) != 1:
        process.join(_SECONDS_TO_END)
        if process.exitcode == _UNGUARDED:
            raise WorkerError(_GUARD)
        raise WorkerError(
            f"worker process {process.pid} ended with exit code {process.exitcode} before its examples did. Its "
            "standard error says why. -9 may be the system, out of memory."
        )
    kind, is_one, count, start, size = _HEADER.unpack(header)
    try:
        mapped = mmap.mmap(files[0], size)
    finally:
        os.close(files[0])
    memory = memoryview(mapped)
    sizes = struct.unpack_from(f"<{count}Q", memory, start)
    buffers, offset = [], 0
    for length in sizes:
        view = memory[offset : offset + length]
        buffers.append(view if is_one else bytearray(view))  # a view of one array would keep the memory of all others
        offset += length + -length % _ALIGNMENT
    return kind, pickle.loads(memory[start + 8 * count :], buffers=buffers)


# --------------------------------------------------------------------------------------------------------- the workers


def _run_worker(payload: bytes, connection: socket.socket) -> None:
    """Makes the examples of a worker's share and sends them; sends an error if one is raised.

    Args:
        payload: see `_worker_payloads`.
        connection: the connection to the parent process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    unread = 0

    def send(kind: int, values: Any) -> None:
        """Sends a message; first waits until the parent has read one, if it has too many unread ones."""
        nonlocal unread
        if unread == _MAX_UNREAD:
            if not connection.recv(1):
                raise BrokenPipeError
            unread -= 1
        _send(connection, kind, values)
        unread += 1

    with contextlib.suppress(ConnectionError):  # the parent has ended, or needs no more
        try:
            _send_values(payload, send)
        except ConnectionError:
            raise
        except BaseException as error:
            send(_ERROR, (_to_picklable(error), traceback.format_exc()))
        while unread and connection.recv(1):  # until the parent has mapped the memory of each message
            unread -= 1


def _send(connection: socket.socket, kind: int, values: Any) -> None:
    """Sends a message with values.

    The socket transfers a header and a file. The file contains the memory of the arrays, each aligned to 64 bytes; the
    size of each; and the pickle of the values without this memory.

    Args:
        connection: the connection to the receiving process.
        kind: kind of the message.
        values: list of values; (error, traceback) for an error.
    """
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(values, 5, buffer_callback=buffers.append)
    with _memory_file() as file:
        for buffer in buffers:
            raw = buffer.raw()
            file.write(raw)
            file.write(bytes(-raw.nbytes % _ALIGNMENT))
        start = file.tell()
        file.write(struct.pack(f"<{len(buffers)}Q", *(buffer.raw().nbytes for buffer in buffers)))
        file.write(pickled)
        file.flush()
        header = _HEADER.pack(kind, len(values) == 1, len(buffers), start, file.tell())
        socket.send_fds(connection, [header], [file.fileno()])


def _memory_file() -> BinaryIO:
    """Opens an anonymous file in memory, or a temporary file without a name on systems without `memfd_create`."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("beam_datasets"), "wb")
    return tempfile.TemporaryFile("wb")


def _send_values(payload: bytes, send: Callable[[int, Any], None]) -> None:
    """Makes the values of a worker's share and sends them in blocks, large or slow blocks in several messages.

    If an error is raised, the values before it are sent first.

    Args:
        payload: the pickle of (dataset, epoch, number of values in a block); see `_worker_payloads`.
        send: function (kind, values) that sends a message; the kind is `_PART` of a block, `_BLOCK` for the end of a
            block, or `_END` for the end of the share.
    """
    dataset, epoch, size = pickle.loads(payload)  # not in the caller, which could not send an error
    values: list[Any] = []
    count = message_bytes = 0
    deadline = time.monotonic() + _MESSAGE_SECONDS

    def flush(kind: int) -> None:
        """Sends the values that were made since the last message."""
        nonlocal values, message_bytes, deadline
        send(kind, values)
        values, message_bytes = [], 0
        deadline = time.monotonic() + _MESSAGE_SECONDS

    try:
        for value in dataset.iterate(epoch=epoch):
            values.append(value)
            count, message_bytes = count + 1, message_bytes + num_bytes(value)
            del value
            if count == size:
                flush(_BLOCK)
                count = 0
            elif message_bytes >= _MESSAGE_BYTES or time.monotonic() > deadline:
                flush(_PART)
    except BaseException:
        if values:
            flush(_PART)
        raise
    flush(_END)


class _PicklableError:
    """A wrapper whose pickle is loaded as the wrapped error, without calling the constructor of the error.

    A constructor may have other parameters than `error.args`, which makes the pickle of the error itself fail.
    """

    def __init__(self, error: Exception) -> None:
        self._parts = type(error), error.args, dict(error.__dict__)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_error, self._parts


def _rebuild_error(kind: type[Exception], args: tuple[Any, ...], fields: dict[str, Any]) -> Exception:
    """Creates an error of a type with the given `args` and attributes, without calling its constructor.

    Args:
        kind: type of the error.
        args: its `args`.
        fields: name of an attribute -> value.

    >>> _rebuild_error(KeyError, ("a",), {"record": 3}).record
    3
    """
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


def _to_picklable(error: BaseException) -> Exception | _PicklableError:
    """Returns an object whose pickle is loaded as the error; a `WorkerError` with its text if there is none."""
    for candidate in (error, _PicklableError(error)) if isinstance(error, Exception) else ():
        try:
            if type(pickle.loads(pickle.dumps(candidate))) is type(error):
                return candidate
        except Exception:
            continue
    return WorkerError(f"a worker process raised {type(error).__name__}: {error}")
