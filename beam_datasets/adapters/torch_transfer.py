"""How examples and batches cross from a DataLoader worker to its parent: in memory that both have mapped.

PyTorch passes each tensor as a shared file of its own, for which both processes open a connection, and strings through
a pipe. Here the numbers and strings of a dict are copied one behind the other to a *segment*, a shared tensor that is
sent once; after that a message has its number and where what stands. The parent's tensors are views of it. When the
last of them is gone, the worker writes there again, so that its pages are made once.
"""

from __future__ import annotations

import multiprocessing
import os
import struct
import weakref
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from typing_extensions import Self

_ALIGNMENT = 64  # of each part of a segment; the first one is its flag, 1 while the parent has tensors in it
_MIN_BYTES = 32 << 10  # of what is put in a segment: less crosses as fast in the message, and needs no open file
_MAX_SEGMENTS = 16  # of a worker; what the parent keeps beyond is sent by value
_STRINGS, _VALUE = -1, -2  # of leaves that are not tensors, where a tensor has its group


class Transferred(dict[Any, Any]):
    """A dict that crosses to the parent as this module describes, and arrives as a plain dict.

    PyTorch's collate functions keep its class.
    """

    def __copy__(self) -> Self:
        return type(self)(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)  # for others than the queues of multiprocessing


def transferred(value: Any) -> Any:
    """Returns a dict as one that crosses in one piece, and other values as they are."""
    return Transferred(value) if type(value) is dict else value


# ----------------------------------------------------------------------------------------------------------- the worker


class _Parts:
    """What stands where in the memory that crosses."""

    def __init__(self) -> None:
        self.size = 0
        self.writers: list[tuple[int, Callable[[Any], object]]] = []

    def add(self, size: int, write: Callable[[Any], object]) -> int:
        """Returns where `size` bytes begin, which `write` will write to a tensor of bytes."""
        start = self.size
        self.writers.append((start, write))
        self.size += size + -size % _ALIGNMENT
        return start


def _reduced(value: Transferred) -> tuple[Any, ...]:
    """Returns how a dict is pickled for the parent."""
    import torch

    groups: dict[Any, tuple[int, list[Any]]] = {}
    parts, strings = _Parts(), list[Any]()
    nest = _taken_apart(torch, value, groups, strings, parts)
    tensors = [
        (parts.add(_size(some), _stacking(torch, some)), _size(some), dtype, tuple(shape), len(some))
        for (dtype, shape), (_, some) in groups.items()
    ]
    segment = _segments.free(torch, parts.size) if parts.size >= _MIN_BYTES else None
    memory = torch.empty(parts.size, dtype=torch.uint8) if segment is None else segment.tensor[_ALIGNMENT:]
    for start, write in parts.writers:
        write(memory[start:])
    source = memory.numpy() if segment is None else segment.name()
    return _restored, (nest, source, parts.size, tensors, strings)


def _taken_apart(torch: Any, value: Any, groups: Any, strings: Any, parts: _Parts) -> Any:
    """Returns a nest of dicts whose leaves are tuples: the group and number of a tensor, of strings, or any value."""
    kind = type(value)
    if kind is torch.Tensor and _is_plain(torch, value):
        place, some = groups.setdefault((value.dtype, value.shape), (len(groups), []))
        some.append(value)
        return place, len(some) - 1
    if kind is dict or kind is Transferred:
        return {key: _taken_apart(torch, inner, groups, strings, parts) for key, inner in value.items()}
    is_array = kind is np.ndarray and value.dtype.hasobject
    items = value.ravel().tolist() if is_array else value if kind is list else ()
    if items and set(map(type, items)) == {bytes}:
        form = "%ds" * len(items) % tuple(map(len, items))  # `struct` makes all strings at once
        write = lambda memory: struct.pack_into(form, memory.numpy(), 0, *items)  # noqa: E731
        strings.append((parts.add(struct.calcsize(form), write), form, value.shape if is_array else None))
        return _STRINGS, len(strings) - 1
    return _VALUE, value


def _is_plain(torch: Any, tensor: Any) -> bool:
    """Returns whether a tensor is only numbers in memory."""
    is_dense = tensor.is_cpu and tensor.layout is torch.strided and not tensor.is_quantized
    return is_dense and not (tensor.requires_grad or tensor.dtype.is_complex)


def _size(tensors: list[Any]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def _stacking(torch: Any, tensors: list[Any]) -> Callable[[Any], object]:
    def write(memory: Any) -> None:
        made = memory[: _size(tensors)].view(tensors[0].dtype).view(len(tensors), *tensors[0].shape)
        torch.stack(tensors, out=made)

    return write


class _Segment:
    """Memory that a worker shares with its parent."""

    def __init__(self, torch: Any, number: int, size: int) -> None:
        step = max(1 << 16, 1 << max(0, size.bit_length() - 3))  # sizes that differ little can use it too
        self.tensor = torch.zeros(_ALIGNMENT + -(-size // step) * step, dtype=torch.uint8).share_memory_()
        self.flag = self.tensor.numpy()[:1]
        self.number = number
        self._is_sent = False

    def name(self) -> tuple[int, int, Any]:
        """Returns the process and number; and the tensor, the first time."""
        sent, self._is_sent = self._is_sent, True
        return os.getpid(), self.number, None if sent else self.tensor


class _Segments:
    """The segments that this process has made."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._made: list[_Segment] = []

    def free(self, torch: Any, size: int) -> _Segment | None:
        """Returns a segment for `size` bytes in which the parent has nothing; None if there are as many as may be."""
        if self._process != os.getpid():
            self.__init__()  # type: ignore[misc]  # this process was forked from one that has some
        unused = [segment for segment in self._made if not segment.flag[0]]
        found = next((segment for segment in unused if len(segment.tensor) >= _ALIGNMENT + size), None)
        if found is None:
            if unused:  # it is too small
                found = _Segment(torch, unused[0].number, size)
                self._made[found.number] = found
            elif len(self._made) < _MAX_SEGMENTS:
                found = _Segment(torch, len(self._made), size)
                self._made.append(found)
            else:
                return None
        found.flag[0] = 1
        return found


_segments = _Segments()
ForkingPickler.register(Transferred, _reduced)

# ----------------------------------------------------------------------------------------------------------- the parent

_mapped: dict[tuple[int, int], Any] = {}
"""The segments of workers, by process and number."""


def _restored(nest: Any, source: Any, size: int, tensors: list[Any], strings: list[Any]) -> Any:
    """Returns the dict that `_reduced` took apart."""
    import torch

    root = source if isinstance(source, np.ndarray) else _held(source, size)
    memory = torch.from_numpy(root)
    groups = [
        memory[start : start + length].view(dtype).view(count, *shape).unbind()
        for start, length, dtype, shape, count in tensors
    ]
    return _put_together(nest, groups, [_strings(root, *where) for where in strings])


def _put_together(nest: Any, groups: list[Any], strings: list[Any]) -> Any:
    if type(nest) is dict:
        return {key: _put_together(inner, groups, strings) for key, inner in nest.items()}
    kind, what = nest
    return groups[kind][what] if kind >= 0 else strings[what] if kind == _STRINGS else what


def _held(name: tuple[int, int, Any], size: int) -> Any:
    """Returns the memory of a segment; its worker writes there again when no tensor needs it any more."""
    process, number, tensor = name
    if tensor is not None:
        running = {process, *(child.pid for child in multiprocessing.active_children())}
        for key in [key for key in _mapped if key[0] not in running]:
            del _mapped[key]
        _mapped[process, number] = tensor.numpy()
    memory = _mapped[process, number]
    held = memory[_ALIGNMENT : _ALIGNMENT + size]
    weakref.finalize(held, _give_back, memory, os.getpid()).atexit = False
    return held


def _give_back(memory: Any, process: int) -> None:
    if process == os.getpid():  # a child that was forked lets go of tensors that its parent still has
        memory[0] = 0


def _strings(root: Any, start: int, form: str, shape: tuple[int, ...] | None) -> Any:
    items = struct.unpack_from(form, root, start)
    if shape is None:
        return list(items)
    made = np.empty(len(items), object)
    made[:] = items
    return made.reshape(shape)
