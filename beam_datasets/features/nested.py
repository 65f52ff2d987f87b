"""Dataset: a dataset in each example, whose items are decoded one by one."""

from __future__ import annotations

from collections.abc import Sequence as AbstractSequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from beam_datasets.errors import FeatureError, FeatureValueError
from beam_datasets.features.sequence import Sequence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from beam_datasets.features.base import Decode, Lists


@dataclass(frozen=True, repr=False)
class NestedDataset(AbstractSequence[Any]):
    """The items of a `Dataset` feature: a sequence that decodes an item when it is asked for.

    Where an item does not decode, the error has its number, but not the record's, which is not known by then: that is
    named where the items are taken in `map()`, and by `verify --decode`.

    Attributes:
        size: how many items there are.
        item: the function from an index in [0, size) to the item.
    """

    size: int
    item: Callable[[int], Any]

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return list(map(self._item, range(*index.indices(self.size))))
        if not -self.size <= index < self.size:
            raise IndexError(f"index {index} of a dataset of {self.size} items")
        return self._item(index % self.size)

    def __iter__(self) -> Iterator[Any]:
        return map(self._item, range(self.size))

    def _item(self, index: int) -> Any:
        try:
            return self.item(index)
        except FeatureError as error:
            error.args = (f"{str(error).removesuffix('.')} (item {index})",)
            raise

    def __repr__(self) -> str:
        return f"<NestedDataset of {self.size} items>"

    def __reduce__(self) -> tuple[Any, ...]:
        return NestedDataset, (self.size, list(self).__getitem__)  # functions that decode do not pickle; items do


class Dataset(Sequence):
    """A dataset in each example: as `Sequence` in the record, but decoded to a `NestedDataset`, item by item.

    Takes any iterable of items. Below another sequence it decodes as a `Sequence` does.

    Args:
        feature: the items' feature.
        length: how many items there are, where that is fixed.
        doc: what it means.
    """

    PATH: ClassVar[str] = "dataset_feature.Dataset"

    def decoder(self, name: str, rank: int = 0) -> Decode:
        """Returns the function that decodes to a NestedDataset; below sequences to what a `Sequence` decodes to."""
        if rank:
            return super().decoder(name, rank)
        decode_items, length = self.feature.item_decoder(name, 1), self.length

        def decode(lists: Lists) -> NestedDataset:
            count, item = decode_items(lists)
            if length is not None and count != length:
                raise FeatureValueError(f"{name}: the record has {count} items; the feature has length={length}")
            return NestedDataset(count, item)

        return decode
