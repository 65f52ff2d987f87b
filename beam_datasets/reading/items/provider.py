"""The provider: items of one record after the other, of a dataset that a specification describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beam_datasets.errors import BeamDatasetsError, InputError
from beam_datasets.reading.items.decoders import check_items
from beam_datasets.reading.items.queue import QueueConfig, RecordQueue

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from typing_extensions import Self

    from beam_datasets.reading.items.queue import Record
    from beam_datasets.reading.items.specification import DatasetSpecification


class DatasetDataProvider:
    """Provides the items of one record after the other; iterating yields them as dicts. For one thread.

    The order is a function of the arguments and the files, as `queue` says, and `get_state()` says where in it the
    provider is. As a context manager it closes the files at the end.
    """

    def __init__(
        self,
        dataset: DatasetSpecification,
        num_readers: int = 1,
        shuffle: bool = True,
        num_epochs: int | None = None,
        common_queue_capacity: int = 256,
        common_queue_min: int = 128,
        record_key: str = "record_key",
        seed: int | None = None,
    ) -> None:
        """Finds the files; opens none yet.

        Args:
            dataset: what to read.
            num_readers: how many files are read in turn.
            shuffle: whether files are shuffled, and records leave the queue at random.
            num_epochs: how many times each file is read; None for ever.
            common_queue_capacity: how many records are in the queue from which they leave, at most.
            common_queue_min: how many stay in it when one leaves, until all files have been read, at least.
            record_key: the name of the item that says which record it is: `<path>:<number in the file>`.
            seed: of the shuffle, any integer; None counts as 0.

        Raises:
            InputError: a pattern matches no file.
            ValueError: `record_key` is an item of the dataset, or a number is out of its range.
        """
        items = list(dataset.decoder.list_items())
        if record_key in items:
            raise ValueError(f"record_key={record_key!r} is the name of an item of the dataset; give it another name")
        config = QueueConfig(num_readers, num_epochs, shuffle, common_queue_capacity, common_queue_min, seed or 0)
        self._queue = RecordQueue(dataset.data_files(), dataset.reader, config)
        self._dataset = dataset
        self._items = [*items, record_key]

    def list_items(self) -> list[str]:
        """Returns the names of the items, `record_key` last."""
        return list(self._items)

    def num_samples(self) -> int | None:
        """Returns how many records the dataset has, as its author says."""
        return self._dataset.num_samples

    def get(self, items: Sequence[str] | None = None) -> list[Any]:
        """Goes on to the next record and returns its items, in the asked order; all where None. Parses nothing else.

        Raises:
            ValueError: there is no such item; the provider does not go on.
            EOFError: all records have been provided.
            InputError: the record cannot be decoded; the message says which it is.
            CorruptRecordError: the record is damaged.
        """
        asked = self._items if items is None else items
        if items is not None:
            check_items(items, self._items)
        record = self._queue.next()
        if record is None:
            raise EOFError("all records have been provided, as often as num_epochs says")
        return self._decode(record, asked)

    def _decode(self, record: Record, asked: Sequence[str]) -> list[Any]:
        record_key = self._items[-1]
        path = self._queue.files[record.file]
        try:
            made = self._dataset.decoder.decode(record.data, [item for item in asked if item != record_key])
        except BeamDatasetsError as error:
            place = record.place
            raise InputError(f"{path}, byte {place.start} (record {place.number}): {error}") from error
        values = iter(made)
        return [f"{path}:{record.place.number}" if item == record_key else next(values) for item in asked]

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> dict[str, Any]:
        try:
            return dict(zip(self._items, self.get()))
        except EOFError:
            raise StopIteration from None

    def get_state(self) -> dict[str, Any]:
        """Returns where the provider is, as a dict that JSON can hold; the records in the queue by their places."""
        return self._queue.get_state()

    def set_state(self, state: object) -> None:
        """Goes on with the record after those that the provider which gave the state had provided.

        The dataset, `num_readers`, `shuffle`, the queue's capacity and the seed must be the same. The files may be in
        another directory, and `num_epochs` another one.

        Raises:
            StateError: the state is malformed, or of another dataset or configuration.
            CorruptRecordError: a record that was in the queue is no longer there.
        """
        self._queue.set_state(state)

    def close(self) -> None:
        """Closes the files. The provider can be used on, and opens them again."""
        self._queue.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.close()
