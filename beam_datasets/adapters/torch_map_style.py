"""Map-style datasets for PyTorch, whose samplers choose the order and divide the examples among ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from beam_datasets.adapters import torch_workers
from beam_datasets.adapters.callers import find_fit_loop
from beam_datasets.adapters.torch_loader_checks import warn_of_random_seed, warn_of_restarted_epoch
from beam_datasets.adapters.torch_ranks import SINGLE_RANK, Ranks, ranks_of_process
from beam_datasets.adapters.torch_transfer import wrap_for_transfer
from beam_datasets.advice import advised_getattr
from beam_datasets.arguments import index_of, shown

if TYPE_CHECKING:
    from beam_datasets.reading.dataset import Dataset


class MapStyle:
    """A map-style dataset: examples by their index in dataset order. PyTorch's sampler chooses the order."""

    def __init__(
        self, dataset: Dataset, even: str | None = None, block: int | None = None, parent_ranks: Ranks | None = None
    ) -> None:
        """Wraps a dataset.

        Args:
            dataset: the dataset to read.
            even: "drop" or "pad" makes the length a multiple of ranks times `block`; None leaves it as it is.
            block: batch size of the DataLoader.
            parent_ranks: the ranks that the parent of this DataLoader worker detected.
        """
        dataset[:0]  # raises a TypeError if the order was changed
        dataset._even(even, 1, block)
        self._dataset = dataset
        self._even = even
        self._block = block
        self._parent_ranks = parent_ranks
        self._worker_dataset: Dataset | None = None  # in the process of a DataLoader worker
        self._has_announced_loop = False

    if not TYPE_CHECKING:  # so that a type checker reports missing attributes
        __getattr__ = advised_getattr("map_style", "torch_dataset")

    def __len__(self) -> int:
        """Returns the number of examples of all ranks together; a sampler divides them.

        A sampler calls it when an iteration begins, so it logs warnings about the sampler and about its caller.
        """
        ranks = self._detect_ranks()
        warn_of_random_seed(self._dataset, ranks.world_size)
        loop = None if self._has_announced_loop else find_fit_loop()
        if loop is not None:
            self._has_announced_loop = True
            warn_of_restarted_epoch(self._dataset, loop)
        return self._count_examples(ranks)

    def _detect_ranks(self) -> Ranks:
        """Returns the ranks of this process, or of the parent of this DataLoader worker."""
        return ranks_of_process() or self._parent_ranks or SINGLE_RANK

    def _count_examples(self, ranks: Ranks) -> int:
        """Returns the number of examples of all ranks together."""
        length = len(self._dataset)
        even = self._dataset._even(self._even, ranks.world_size, self._block)
        return length if even is None else even.length(length)

    def __getitem__(self, index: Any) -> Any:
        """Returns the example at an index.

        Raises:
            TypeError: it is a list of indices, as of a `BatchSampler` that is the sampler of a DataLoader.
        """
        if isinstance(index, (list, tuple, range, slice)):
            raise TypeError(
                f"a map-style dataset: expected one index, got {shown(index)}. Give a BatchSampler as batch_sampler=, "
                "without batch_size, or use `ds[indices]` of the dataset before as_torch()."
            )
        return self._dataset[self._wrap_indices([index])[0]]

    def _wrap_indices(self, indices: Sequence[int]) -> list[int]:
        """Returns the indices in the dataset of items of this map-style dataset, given their indices in it.

        With `even="pad"`, indices at or after the end of the dataset begin again at 0.

        Raises:
            IndexError: an index is out of range, as of a sampler that was made for another dataset.
        """
        even_length, length = self._count_examples(self._detect_ranks()), len(self._dataset)
        return [index_of(index, even_length) % length for index in indices]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Returns the examples at some indices; called by a DataLoader for a batch."""
        info = torch_workers.import_torch_data().get_worker_info()
        if info is None:
            return self._dataset[self._wrap_indices(indices)]  # type: ignore[no-any-return]
        if self._worker_dataset is None:
            self._worker_dataset = self._dataset._share_cores(info.num_workers)
        return list(map(wrap_for_transfer, self._worker_dataset[self._wrap_indices(indices)]))

    def __reduce__(self) -> tuple[Any, ...]:
        return torch_workers.build_map_style, (MapStyle, self._dataset, self._even, self._block, ranks_of_process())
