"""How examples and batches cross from a DataLoader worker to its parent: small tensors in a few blocks, by value.

PyTorch passes each tensor as a shared file of its own, for which both processes open a connection: 40 columns of 256
numbers take longer to cross than to read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

_MAX_BYTES = 256 << 10
"""Of a tensor that is sent by value; larger ones cross faster in shared memory."""


class Transferred(dict[Any, Any]):
    """A dict that is pickled in few pieces, and unpickled as a plain dict. PyTorch's collate functions keep its class.

    Small tensors of the same dtype and shape cross as one array, of which those of the parent are views.
    """

    def __copy__(self) -> Self:
        return type(self)(self)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        import torch

        groups: dict[Any, dict[Any, Any]] = {}
        others = {}
        for key, value in self.items():
            if type(value) is torch.Tensor and _is_small(torch, value):
                groups.setdefault((value.dtype, value.shape), {})[key] = value
            else:
                others[key] = transferred(value)
        blocks = [(tuple(group), torch.stack(list(group.values())).numpy()) for group in groups.values()]
        return _restored, (tuple(self), blocks, others)


def transferred(value: Any) -> Any:
    """Returns a dict as one that crosses in few pieces, and other values as they are."""
    return Transferred(value) if type(value) is dict else value


def _is_small(torch: Any, tensor: Any) -> bool:
    """Returns whether a tensor crosses by value: NumPy has its dtype, and it is only numbers in memory."""
    if tensor.requires_grad or tensor.is_quantized or tensor.dtype is torch.bfloat16:
        return False
    is_dense = tensor.device.type == "cpu" and tensor.layout is torch.strided
    return is_dense and tensor.numel() * tensor.element_size() <= _MAX_BYTES


def _restored(keys: tuple[Any, ...], blocks: list[tuple[tuple[Any, ...], Any]], others: dict[Any, Any]) -> Any:
    import torch

    for names, block in blocks:
        others.update(zip(names, torch.from_numpy(block).unbind()))
    return {key: others[key] for key in keys}
