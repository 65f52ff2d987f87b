"""Examples made by worker processes: in order, in bounded memory, errors in their places.

Workers divide the positions in blocks, in turn, and each reads, decodes and maps its own. What a worker has made it
puts in one file in memory, which has no name: nothing is left of it when both processes have ended, however they end.
Its parent maps the file; the arrays of a batch are views of it.
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
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from beam_datasets.errors import WorkerError
from beam_datasets.reading.elements.executor import num_bytes
from beam_datasets.reading.elements.transforms import Batch, one_of
from beam_datasets.reading.index.division import Share
from beam_datasets.reading.index.transforms import Operation, Shared

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    from beam_datasets.reading.dataset import Dataset

    Worker: TypeAlias = tuple[SpawnProcess, socket.socket]

_PART, _BLOCK, _END, _ERROR = range(4)
"""What a message is: values of a block that goes on, or its last ones; the last ones of all; an error."""

_HEADER = struct.Struct("<B?QQQ")  # what it is, whether of one value, number of buffers, start of the rest, size
_ALIGNMENT = 64
_MESSAGE_BYTES = 16 << 20  # of values, about; a larger value is a message of its own
_MESSAGE_SECONDS = 0.2
_MAX_UNREAD = 2  # messages of a worker
_BLOCK_BYTES, _MAX_BLOCK = 1 << 20, 256  # stored bytes, and items, of the positions that a worker takes in turn
_SECONDS_TO_END = 5


class WorkerTraceback(Exception):
    """The traceback of a worker process, as the cause of its error."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def blocks_of_processes(dataset: Dataset, operation: Operation, epoch: int, count: int) -> Iterator[list[Any]]:
    """Yields lists of examples, in order, of processes that start with the first list and end with the last.

    Args:
        dataset: whose examples to make.
        operation: what is left to read.
        epoch: of the operation.
        count: number of processes.

    Raises:
        TypeError: a function of the dataset cannot be pickled.
        RuntimeError: this process is a worker itself, which may not have others.
        WorkerError: a process has died.
        Exception: what a worker raised, after the examples before it.
    """
    owner = os.getpid()
    workers: list[Worker] = []
    try:
        workers.extend(map(_started, _payloads(dataset, operation, epoch, count)))
        for process, connection in itertools.cycle(workers):
            kind = _PART
            while kind == _PART:
                kind, values = _received(process, connection)
                if kind == _ERROR:
                    error, text = values
                    raise error from WorkerTraceback(text)
                yield values
                del values
            if kind == _END:
                return
    finally:
        _end(workers, is_owner=os.getpid() == owner)  # not in a child that was forked


def _payloads(dataset: Dataset, operation: Operation, epoch: int, count: int) -> list[bytes]:
    """Returns what each worker does."""
    if multiprocessing.current_process().daemon:
        raise RuntimeError(
            "parallel(processes=...): this process is a worker, and cannot start processes. Use the workers that "
            "there are, without parallel()."
        )
    size = _block_size(dataset, operation)
    limited = dataset._with(steps=one_of(count, dataset._steps))
    limited._processes = None
    shares = [Share(index, count, block=size) for index in range(count)]
    return [_pickled(limited._with(operation=Shared(operation, share)), epoch, size) for share in shares]


def _started(payload: bytes) -> Worker:
    """Starts a worker by the method that no thread of this process, nor any library, can disturb."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = multiprocessing.get_context("spawn").Process(
            target=_work, args=(payload, theirs), name="beam_datasets-worker", daemon=True
        )
        # Ctrl-C is for this process, which ends its workers: they would print a traceback each
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process, ours


def _end(workers: list[Worker], *, is_owner: bool) -> None:
    """Closes the connections and, if this process started the workers, terminates them; kills those that do not end."""
    for _, connection in workers:
        connection.close()
    for process, _ in workers if is_owner else ():
        process.terminate()
    for process, _ in workers if is_owner else ():
        process.join(_SECONDS_TO_END)
        if process.is_alive():  # a function of the user's has caught the signal
            process.kill()
            process.join()
        process.close()


def _block_size(dataset: Dataset, operation: Operation) -> int:
    """Returns how many examples, or batches, a worker takes in turn."""
    if isinstance(dataset._steps[0], Batch):
        return 1
    return int(max(1, min(_BLOCK_BYTES / max(operation.item_bytes, 1), _MAX_BLOCK)))


def _pickled(*values: Any) -> bytes:
    """Pickles what a worker needs.

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


def _memory_file() -> BinaryIO:
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("beam_datasets"), "wb")
    return tempfile.TemporaryFile("wb")


def _send(connection: socket.socket, kind: int, values: Any) -> None:
    """Sends values: a file with the memory of their arrays, the sizes of these, and the pickle of the rest."""
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


def _received(process: SpawnProcess, connection: socket.socket) -> tuple[int, Any]:
    """Returns the next message of a worker."""
    header, files = b"", list[int]()
    with contextlib.suppress(ConnectionError):
        header, files, _, _ = socket.recv_fds(connection, _HEADER.size, 1)
        connection.send(b"\0")  # that it is read
    if len(files) != 1:
        process.join(_SECONDS_TO_END)
        raise WorkerError(
            f"worker process {process.pid} ended with exit code {process.exitcode} before its examples did. Its "
            "standard error says why. -9 may be the system, out of memory; 1 at the start a script that does not begin "
            "under `if __name__ == '__main__':`."
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
        part = memory[offset : offset + length]
        buffers.append(part if is_one else bytearray(part))  # else one that is kept would keep the others
        offset += length + -length % _ALIGNMENT
    return kind, pickle.loads(memory[start + 8 * count :], buffers=buffers)


# --------------------------------------------------------------------------------------------------------- the workers


def _work(payload: bytes, connection: socket.socket) -> None:
    """Makes the examples of a share and sends them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    unread = 0

    def send(kind: int, values: Any) -> None:
        nonlocal unread
        if unread == _MAX_UNREAD:
            if not connection.recv(1):
                raise BrokenPipeError
            unread -= 1
        _send(connection, kind, values)
        unread += 1

    with contextlib.suppress(ConnectionError):  # the parent has ended, or needs no more
        try:
            _make(payload, send)
        except ConnectionError:
            raise
        except BaseException as error:
            send(_ERROR, (_picklable(error), traceback.format_exc()))
        while unread and connection.recv(1):  # what is in memory is the parent's when it has read it
            unread -= 1


def _make(payload: bytes, send: Callable[[int, Any], None]) -> None:
    """Sends the values of a worker's share in blocks of the size given in the payload, large or slow blocks in parts.

    An error is raised after the values before it are sent.
    """
    dataset, epoch, size = pickle.loads(payload)  # here, where an error is sent
    values: list[Any] = []
    count = held = 0
    deadline = time.monotonic() + _MESSAGE_SECONDS

    def flush(kind: int) -> None:
        nonlocal values, held, deadline
        send(kind, values)
        values, held = [], 0
        deadline = time.monotonic() + _MESSAGE_SECONDS

    try:
        for value in dataset.iterate(epoch=epoch):
            values.append(value)
            count, held = count + 1, held + num_bytes(value)
            del value
            if count == size:
                flush(_BLOCK)
                count = 0
            elif held >= _MESSAGE_BYTES or time.monotonic() > deadline:
                flush(_PART)
    except BaseException:
        if values:
            flush(_PART)
        raise
    flush(_END)


class _Rebuilt:
    """An error that pickles without its constructor, which may have other arguments than the error has."""

    def __init__(self, error: Exception) -> None:
        self._parts = type(error), error.args, dict(error.__dict__)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, self._parts


def _rebuilt(kind: type[Exception], args: tuple[Any, ...], fields: dict[str, Any]) -> Exception:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


def _picklable(error: BaseException) -> Any:
    """Returns an error as its parent can raise it."""
    for candidate in (error, _Rebuilt(error)) if isinstance(error, Exception) else ():
        try:
            if type(pickle.loads(pickle.dumps(candidate))) is type(error):
                return candidate
        except Exception:
            continue
    return WorkerError(f"a worker process raised {type(error).__name__}: {error}")
