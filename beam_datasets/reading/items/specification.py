"""The specification of a dataset that somebody else wrote: where it is, how it is read, and what is in it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from beam_datasets import storage
from beam_datasets.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from beam_datasets.reading.items.decoders import DataDecoder
    from beam_datasets.reading.items.readers import RecordReader
    from beam_datasets.storage.paths import PathLike


class DatasetSpecification:
    """What a provider needs to know of a dataset, and whatever else its author adds.

    Attributes:
        data_sources: a path, a pattern, or a list of them.
        reader: finds the records in a file.
        decoder: makes items of a record.
        num_samples: how many records there are, as the author says; None where he does not.
        items_to_descriptions: what each item is.
    """

    data_sources: PathLike | Sequence[PathLike]
    reader: RecordReader
    decoder: DataDecoder
    num_samples: int | None
    items_to_descriptions: Mapping[str, str]

    def __init__(
        self,
        data_sources: PathLike | Sequence[PathLike],
        reader: RecordReader | type[RecordReader],
        decoder: DataDecoder,
        num_samples: int | None,
        items_to_descriptions: Mapping[str, str],
        **attributes: Any,
    ) -> None:
        """Takes the parts.

        Args:
            data_sources: a path, a pattern (see `storage.glob`), or a list of them.
            reader: finds the records in a file; a class stands for what it makes without arguments.
            decoder: makes items of a record.
            num_samples: how many records there are, or None.
            items_to_descriptions: what each item is.
            **attributes: whatever else shall be known of the dataset, for instance `num_classes`.

        Raises:
            ValueError: `num_samples` is negative.
        """
        if num_samples is not None and num_samples < 0:
            raise ValueError(f"num_samples must be at least 0 or None, got {num_samples}")
        vars(self).update(
            attributes,
            data_sources=data_sources,
            reader=reader() if isinstance(reader, type) else reader,
            decoder=decoder,
            num_samples=num_samples,
            items_to_descriptions=items_to_descriptions,
        )

    if TYPE_CHECKING:  # what the author added

        def __getattr__(self, name: str) -> Any: ...

    def data_files(self) -> list[str]:
        """Returns the paths of the files: of each source in turn, those that match a pattern sorted.

        Raises:
            InputError: a source matches no file.
        """
        sources = [self.data_sources] if isinstance(self.data_sources, (str, os.PathLike)) else self.data_sources
        found = [path for source in sources for path in _matching(source)]
        if not found:
            raise InputError("the dataset has no data sources; give a path, a pattern, or a list of them")
        return found


def _matching(source: PathLike) -> list[str]:
    if not storage.has_wildcard(source):
        return [storage.normalize(source)]
    paths = storage.glob(source)
    if not paths:
        raise InputError(f"no file matches {os.fspath(source)!r}")
    return paths
