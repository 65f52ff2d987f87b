"""Transfer of dicts of tensors and strings from a DataLoader worker to its parent, in memory that both share.

PyTorch passes each tensor as a shared file of its own, for which both processes open a connection, and strings through
a pipe. Here the numbers and strings of a dict are copied one after the other to a *segment*, a shared tensor that is
sent once; after that a message contains its number and the layout. The parent's tensors are views of it. When the last
of them is gone, the worker writes there again, so that its pages are made once.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import struct
import weakref
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import NDArray


_ALIGNMENT = 64  # bytes; parts begin at multiples of it. The first part is a flag: 1 while the parent has tensors
_MIN_BYTES = 32 << 10  # of a batch in a segment: smaller ones are as fast in the message, and need no open file
_MAX_SEGMENTS = 16  # segments of a worker; if the parent uses all of them, further batches are sent by value
_STRING_LEAF, _VALUE_LEAF = -1, -2  # kinds of leaves that are not tensors; a tensor has the number of its group instead


class Transferred(dict[Any, Any]):
    """A dict that a worker sends to the parent in one segment; it arrives as a plain dict.

    PyTorch's collate functions keep the class of a dict.
    """

    def __copy__(self) -> Self:
        return type(self)(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)  # if it is not pickled for a queue of multiprocessing


def wrap_for_transfer(value: Any) -> Any:
    """Returns a dict as a `Transferred`, and other values unchanged."""
    return Transferred(value) if type(value) is dict else value


# ----------------------------------------------------------------------------------------------------------- the worker


class _SegmentLayout:
    """Layout of a batch in a segment.

    Attributes:
        size: the number of bytes that are reserved.
        writers: (offset in bytes, function that writes to a tensor of bytes) of each part.
    """

    def __init__(self) -> None:
        self.size = 0
        self.writers: list[tuple[int, Callable[[Any], object]]] = []

    def add(self, size: int, write: Callable[[Any], object]) -> int:
        """Reserves bytes, and returns their offset.

        Args:
            size: the number of bytes.
            write: the function that writes the bytes to a tensor of uint8, which begins at the offset.
        """
        start = self.size
        self.writers.append((start, write))
        self.size += size + -size % _ALIGNMENT
        return start


def _reduce_to_segment(value: Transferred) -> tuple[Any, ...]:
    """Copies a dict to a segment, and returns the function and arguments with which the parent restores it.

    The result has the form that pickle expects of a reducer.
    """
    import torch

    groups: dict[Any, tuple[int, list[Any]]] = {}
    parts, strings = _SegmentLayout(), list[Any]()
    nest = _collect_leaves(torch, value, groups, strings, parts)
    tensors = [
        (
            parts.add(_count_bytes(group), _build_stack_writer(torch, group)),
            _count_bytes(group),
            dtype,
            tuple(shape),
            len(group),
        )
        for (dtype, shape), (_, group) in groups.items()
    ]
    segment = _segments.free(torch, parts.size) if parts.size >= _MIN_BYTES else None
    memory = torch.empty(parts.size, dtype=torch.uint8) if segment is None else segment.tensor[_ALIGNMENT:]
    for start, write in parts.writers:
        write(memory[start:])
    source = memory.numpy() if segment is None else segment.name()
    return _restore_dict, (nest, source, parts.size, tensors, strings)


def _collect_leaves(torch: ModuleType, value: Any, groups: Any, strings: Any, parts: _SegmentLayout) -> Any:
    """Collects the tensors and the lists of bytes in a nest of dicts, and returns the nest with a tuple for each leaf.

    For example, {'a': tensor, 'b': [b'x', b'yz'], 'c': 3} becomes {'a': (0, 0), 'b': (_STRING_LEAF, 0),
    'c': (_VALUE_LEAF, 3)}, `groups` gets {(tensor.dtype, tensor.shape): (0, [tensor])}, and `strings` gets
    (0, '1s2s', None).

    Args:
        torch: the module torch.
        value: a dict of values and dicts, or a value.
        groups: dict from the (dtype, shape) of tensors to (number of the group, list of the tensors). Changed.
        strings: list with (byte offset in the segment, format of `struct` that unpacks the strings, shape) of each
            array of bytes; the shape is None for a list of bytes. Changed.
        parts: the layout of the segment, to which strings are added. Changed.

    Returns:
        `value` with leaves (number of the group, index in the group) for tensors in CPU memory, (`_STRING_LEAF`, index
        in `strings`) for arrays and lists of bytes, and (`_VALUE_LEAF`, value) for all other values.
    """
    kind = type(value)
    if kind is torch.Tensor and _is_copyable_bytewise(torch, value):
        number, group = groups.setdefault((value.dtype, value.shape), (len(groups), []))
        group.append(value)
        return number, len(group) - 1
    if kind is dict or kind is Transferred:
        return {key: _collect_leaves(torch, item, groups, strings, parts) for key, item in value.items()}
    is_array = kind is np.ndarray and value.dtype.hasobject
    items = value.ravel().tolist() if is_array else value if kind is list else ()
    if items and set(map(type, items)) == {bytes}:
        form = "%ds" * len(items) % tuple(map(len, items))  # `struct` makes all strings at once
        write = lambda memory: struct.pack_into(form, memory.numpy(), 0, *items)  # noqa: E731
        strings.append((parts.add(struct.calcsize(form), write), form, value.shape if is_array else None))
        return _STRING_LEAF, len(strings) - 1
    return _VALUE_LEAF, value


def _is_copyable_bytewise(torch: ModuleType, tensor: Any) -> bool:
    """Returns whether a tensor is a plain array in CPU memory, which can be copied byte by byte."""
    is_dense = tensor.is_cpu and tensor.layout is torch.strided and not tensor.is_quantized
    return is_dense and not (tensor.requires_grad or tensor.dtype.is_complex)


def _count_bytes(tensors: list[Any]) -> int:
    """Returns the size of all tensors together, in bytes."""
    return sum(tensor.nbytes for tensor in tensors)


def _build_stack_writer(torch: ModuleType, tensors: list[Any]) -> Callable[[Any], object]:
    """Returns the function that writes tensors of one dtype and shape, one after the other, to a tensor of uint8."""

    def write(memory: Any) -> None:
        """Writes the tensors to the start of a tensor of uint8."""
        stacked = memory[: _count_bytes(tensors)].view(tensors[0].dtype).view(len(tensors), *tensors[0].shape)
        torch.stack(tensors, out=stacked)

    return write


class _Segment:
    """Memory that a worker shares with its parent.

    Args:
        torch: the module torch.
        number: the number of the segment.
        size: minimum size of the memory in bytes, without the reserved bytes.

    Attributes:
        tensor: the memory as a tensor of uint8; its first `_ALIGNMENT` bytes are reserved for the flag.
        flag: an array of one byte: 1 while the parent has tensors in the segment.
        number: the number of the segment in its process.
    """

    def __init__(self, torch: Any, number: int, size: int) -> None:
        step = max(1 << 16, 1 << max(0, size.bit_length() - 3))  # rounded up, so that slightly larger batches fit, too
        self.tensor = torch.zeros(_ALIGNMENT + -(-size // step) * step, dtype=torch.uint8).share_memory_()
        self.flag = self.tensor.numpy()[:1]
        self.number = number
        self._is_sent = False

    def name(self) -> tuple[int, int, Any]:
        """Returns (id of the process, number, tensor); the tensor only at the first call, later None."""
        was_sent, self._is_sent = self._is_sent, True
        return os.getpid(), self.number, None if was_sent else self.tensor


class _Segments:
    """Segments of this process, if it is a worker."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._segments: list[_Segment] = []

    def free(self, torch: ModuleType, size: int) -> _Segment | None:
        """Returns an unused segment for `size` bytes; None if all `_MAX_SEGMENTS` are in use by the parent."""
        if self._process != os.getpid():
            self.__init__()  # type: ignore[misc]  # forked from a process that has segments
        unused = [segment for segment in self._segments if not segment.flag[0]]
        free = next((segment for segment in unused if len(segment.tensor) >= _ALIGNMENT + size), None)
        if free is None:
            if unused:  # too small, so it is replaced
                free = _Segment(torch, unused[0].number, size)
                self._segments[free.number] = free
            elif len(self._segments) < _MAX_SEGMENTS:
                free = _Segment(torch, len(self._segments), size)
                self._segments.append(free)
            else:
                return None
        free.flag[0] = 1
        return free


_segments = _Segments()
ForkingPickler.register(Transferred, _reduce_to_segment)

# ----------------------------------------------------------------------------------------------------------- the parent

_mapped_segments: dict[tuple[int, int], Any] = {}
"""The segments of workers, by process and number."""


def _restore_dict(nest: Any, source: Any, size: int, tensors: list[Any], strings: list[Any]) -> Any:
    """Returns the dict that a worker copied to a segment; the arguments are those of `_reduce_to_segment`.

    Args:
        nest: the dict with leaves (kind, index or value); see `_collect_leaves`.
        source: the bytes of the batch as an array, or the name of the segment.
        size: the size of the batch in the segment, in bytes.
        tensors: (offset, size in bytes, dtype, shape, number of tensors) of each group.
        strings: (byte offset, format of `struct`, shape) of each array of strings; the shape is None for a list.
    """
    root = source if isinstance(source, np.ndarray) else _segment_memory(source, size)
    groups = [_view_tensors(root, *group) for group in tensors]
    return _rebuild_nest(nest, groups, [_read_strings(root, *string_range) for string_range in strings])


def _view_tensors(root: Any, start: int, size: int, dtype: Any, shape: tuple[int, ...], count: int) -> list[Any]:
    """Returns the tensors of a group; each storage has the bytes of one tensor, which `torch.save` writes.

    Args:
        root: the bytes of the batch, as an array.
        start: the offset of the group in `root`, in bytes.
        size: the size of the group, in bytes.
        dtype: PyTorch's dtype of the tensors.
        shape: the shape of each tensor.
        count: the number of tensors.

    The tensors must keep the array `root` alive, because the worker reuses its memory when `root` is deleted. A
    memoryview of `root` does so; a slice keeps only the base array alive.
    """
    import torch

    if not size:
        return [torch.empty(shape, dtype=dtype) for _ in range(count)]
    stored = _numpy_dtype(dtype)
    items = np.frombuffer(memoryview(root)[start : start + size], stored or np.uint8)
    items = items.reshape(count, *(shape if stored and shape else (-1,)))
    tensors = list(map(torch.from_numpy, items))
    return tensors if stored and shape else [tensor.view(dtype).view(shape) for tensor in tensors]


@functools.cache
def _numpy_dtype(dtype: Any) -> np.dtype[Any] | None:
    """Returns NumPy's dtype for one of PyTorch; None if it has none, as for bfloat16."""
    import torch

    try:
        numpy_dtype: np.dtype[Any] = torch.empty(0, dtype=dtype).numpy().dtype
    except TypeError:
        return None
    return numpy_dtype


def _rebuild_nest(nest: Any, groups: list[Any], strings: list[Any]) -> Any:
    """Returns a nest with values in place of the leaves of `_collect_leaves`.

    Args:
        nest: the nest of dicts, whose leaves are pairs: (number of a group, index in it), (`_STRING_LEAF`, index in
            `strings`) or (`_VALUE_LEAF`, value).
        groups: the tensors of each group.
        strings: the arrays and lists of strings.
    """
    if type(nest) is dict:
        return {key: _rebuild_nest(item, groups, strings) for key, item in nest.items()}
    kind, content = nest
    return groups[kind][content] if kind >= 0 else strings[content] if kind == _STRING_LEAF else content


def _segment_memory(name: tuple[int, int, Any], size: int) -> NDArray[np.uint8]:
    """Returns the bytes of a batch in a segment; when the array is deleted, the worker may reuse the segment.

    Args:
        name: (id of the worker's process, number of the segment, tensor of the segment or None if it was sent before).
        size: the size of the batch, in bytes.
    """
    process, number, tensor = name
    if tensor is not None:
        running = {process, *(child.pid for child in multiprocessing.active_children())}
        for key in [key for key in _mapped_segments if key[0] not in running]:
            del _mapped_segments[key]
        _mapped_segments[process, number] = tensor.numpy()
    memory = _mapped_segments[process, number]
    batch_memory: NDArray[np.uint8] = memory[_ALIGNMENT : _ALIGNMENT + size]
    weakref.finalize(batch_memory, _release_segment, memory, os.getpid()).atexit = False
    return batch_memory


def _release_segment(memory: Any, process: int) -> None:
    """Clears the flag of a segment, so that the worker may reuse it.

    Args:
        memory: the segment as an array of bytes, which begins with the flag.
        process: the id of the process that mapped the segment; others, its forked children, do nothing.
    """
    if process == os.getpid():  # in a forked child, the parent may still have the tensors
        memory[0] = 0


def _read_strings(root: Any, start: int, form: str, shape: tuple[int, ...] | None) -> Any:
    """Returns strings of a segment as a list, or as an array of objects if they have a shape.

    Args:
        root: the bytes of the batch, as an array.
        start: the offset of the strings in `root`, in bytes.
        form: the format of `struct`, such as '3s5s' for strings of 3 and 5 bytes.
        shape: the shape of the array; None for a list.
    """
    items = struct.unpack_from(form, root, start)
    if shape is None:
        return list(items)
    array = np.empty(len(items), object)
    array[:] = items
    return array.reshape(shape)
