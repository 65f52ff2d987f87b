"""`as_torch`: datasets for PyTorch, map-style or iterable.

Importing this module does not need PyTorch: `as_torch` derives classes from PyTorch's when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from beam_datasets.adapters.torch_iterable import Divided
from beam_datasets.adapters.torch_map_style import MapStyle
from beam_datasets.adapters.torch_passes import initial_integers
from beam_datasets.adapters.torch_streams import DividedStream
from beam_datasets.adapters.torch_transfer import Transferred
from beam_datasets.adapters.torch_workers import build_iterable, build_map_style
from beam_datasets.arguments import boolean, shown
from beam_datasets.extras import framework

if TYPE_CHECKING:
    from beam_datasets.reading.dataset import Dataset
    from beam_datasets.reading.streams import Stream

__all__ = ["Divided", "DividedStream", "MapStyle", "Transferred", "as_torch"]


def as_torch(
    dataset: Dataset | Stream,
    *,
    map_style: bool = False,
    rank: int | None = None,
    num_ranks: int | None = None,
    block: int | None = None,
    even: str | None = None,
    fill: Any = None,
    epoch: int = 0,
) -> Any:
    """Returns a dataset for a DataLoader; see `Dataset.as_torch` for the arguments, results and errors."""
    torch = framework("torch", needed_by="as_torch()", name="PyTorch", extra="torch")
    if dataset._has_positions:
        dataset = cast("Dataset", dataset)._with_filler(fill, arrays=np.dtype(np.uint64))
    elif fill is not None or even is not None:
        raise ValueError(
            "as_torch() of a stream: expected no fill or even, as its number of items is unknown. Give fill to "
            "batch() of the stream, and end the epoch after a number of steps that all ranks have."
        )
    if even not in (None, "drop", "pad"):
        raise ValueError(f"even: expected 'drop', 'pad' or None, got {shown(even)}.")
    if even is not None and block is None and dataset._steps[0].kind != "batch":
        raise ValueError(
            f"even={even!r}: expected block=, the batch_size of the DataLoader (1 for batch_size=None), or batch() "
            "before as_torch()."
        )
    if boolean("map_style", map_style):
        if (rank, num_ranks, epoch) != (None, None, 0) or (block is not None and even is None):
            raise ValueError(
                "map_style=True: expected no rank, num_ranks or epoch, and no block without even, as the DataLoader's "
                "sampler orders and divides the indices. Use torch.utils.data.DistributedSampler."
            )
        return build_map_style(MapStyle, dataset, even, block)
    if (rank is None) != (num_ranks is None):
        raise ValueError(
            f"rank and num_ranks: expected both or neither, got rank={rank} and num_ranks={num_ranks}. Give both."
        )
    options = {"rank": rank, "num_ranks": num_ranks, "block": block, "even": even}
    shared_integers = torch.tensor(initial_integers(dataset._first_pass(epoch)), dtype=torch.int64)
    our_class = Divided if dataset._has_positions else DividedStream
    torch_dataset = build_iterable(our_class, dataset, {**options, "shared": shared_integers})
    if even is not None:
        try:
            len(dataset)
        except TypeError:  # which only an endless dataset raises here, as streams were refused
            pass
        else:
            len(torch_dataset)  # raises errors now, before an iteration begins; so does the next line
    torch_dataset.ranks  # noqa: B018
    return torch_dataset
