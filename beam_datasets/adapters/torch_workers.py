"""The current DataLoader worker: its index and its seed; and base classes that a DataLoader accepts.

Importing this module does not need PyTorch.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Hashable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from beam_datasets.adapters.callers import find_dividing_shard
from beam_datasets.extras import framework

if TYPE_CHECKING:
    from types import ModuleType

    from beam_datasets.adapters.torch_iterable import Divided
    from beam_datasets.adapters.torch_map_style import MapStyle


def get_worker() -> tuple[int, int, int | None]:
    """Returns the index of this DataLoader worker, their number, and the seed of their DataLoader for this iteration.

    Returns:
        (0, 1, None) in a process that is not a DataLoader worker.
    """
    torch_data = sys.modules.get("torch.utils.data")  # a DataLoader worker has imported it
    info = None if torch_data is None else torch_data.get_worker_info()
    return (0, 1, None) if info is None else (info.id, info.num_workers, info.seed - info.id)


class CallingLoader(NamedTuple):
    """The DataLoader whose `len()` calls that of its dataset.

    Attributes:
        num_workers: its number of workers.
        batch_size: its batch size; None if it makes no batches.
        drop_last: whether each worker drops a smaller last batch.
        chained: the datasets of the `ChainDataset` that it reads; empty if it reads the dataset itself.
    """

    num_workers: int
    batch_size: int | None
    drop_last: bool
    chained: tuple[Any, ...]


def inspect_calling_loader() -> CallingLoader:
    """Returns the DataLoader whose `len()` calls that of its dataset.

    PyTorch does not pass the number of workers to a dataset, so they are read from the frame of the caller's caller:
    call it directly from `__len__`.

    Returns:
        One without workers and batches if the caller is not a DataLoader, nor an `IterableDatasetShard` or a
        `ChainDataset` that a DataLoader reads.
    """
    frame: FrameType | None = sys._getframe(2)
    shard = find_dividing_shard()
    torch_data = sys.modules.get("torch.utils.data")  # if not imported, the caller cannot be a DataLoader
    chain: Any = None
    while torch_data is not None and frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, torch_data.DataLoader):
            chained = () if chain is None else tuple(chain.datasets)
            return CallingLoader(caller.num_workers, caller.batch_size, caller.drop_last, chained)
        if isinstance(caller, torch_data.ChainDataset):
            chain = caller
        elif shard is None or caller is not shard:  # the `len()` of a DataLoader calls that of the shard
            break
        frame = frame.f_back
    return CallingLoader(0, None, False, ())


def import_torch_data() -> ModuleType:
    """Returns the module torch.utils.data; raises MissingDependencyError if PyTorch is not installed."""
    return framework("torch.utils.data", needed_by="as_torch()", name="PyTorch", extra="torch")


@functools.cache
def _subclass_torch_class(our_class: type[MapStyle] | type[Divided], torch_class_name: str) -> type[Any]:
    """Returns a subclass of a class of ours and of a class of torch.utils.data, which a DataLoader requires.

    Args:
        our_class: the class of ours, whose name the subclass has.
        torch_class_name: "Dataset" or "IterableDataset".
    """
    torch_class = getattr(import_torch_data(), torch_class_name)
    return type(our_class.__name__, (our_class, torch_class), {"__module__": our_class.__module__})


# pickle cannot find classes that are created at run time; it can find these functions.


def build_map_style(our_class: type[MapStyle], *arguments: Any) -> MapStyle:
    """Returns an object of a class of ours that is a torch.utils.data.Dataset too."""
    map_style: MapStyle = _subclass_torch_class(cast("Hashable", our_class), "Dataset")(*arguments)
    return map_style


def build_iterable(our_class: type[Divided], dataset: Any, options: Mapping[str, Any]) -> Divided:
    """Returns an object of a class of ours that is a torch.utils.data.IterableDataset too.

    Args:
        our_class: `Divided`, or a subclass of it.
        dataset: the dataset or stream.
        options: the keyword arguments of `our_class`.
    """
    options["shared"].share_memory_()  # a copy that pickle made does not share its memory
    iterable: Divided = _subclass_torch_class(cast("Hashable", our_class), "IterableDataset")(dataset, **options)
    return iterable


def unpickle_iterable(our_class: type[Divided], dataset: Any, options: Mapping[str, Any]) -> Divided:
    """Creates an iterable dataset from its pickle, and records the process in which it is loaded, for `Divided.ranks`.

    Args:
        our_class: `Divided` or a subclass; see `build_iterable`.
        dataset: the dataset or stream.
        options: the arguments of the class by name.
    """
    return build_iterable(our_class, dataset, {**options, "unpickled_in": os.getpid()})
