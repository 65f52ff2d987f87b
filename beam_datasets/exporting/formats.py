"""The formats that a dataset can be exported to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from beam_datasets.errors import BeamDatasetsError
from beam_datasets.exporting.array_record import ArrayRecord
from beam_datasets.exporting.jsonl import JsonLines
from beam_datasets.exporting.parquet import Parquet
from beam_datasets.exporting.webdataset import WebDataset
from beam_datasets.metadata.names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from beam_datasets.exporting.output import Block, Output
    from beam_datasets.exporting.schema import Struct


class Format(Protocol):
    """What a format is; it pickles, and its fields are options, which do not decide which examples are written.

    Attributes:
        name: as users call it.
        decodes: whether rows are decoded examples (with files as they are stored), not records.
    """

    name: ClassVar[str]
    decodes: ClassVar[bool]

    def check(self, schema: Struct) -> None:
        """Raises an error where the features cannot be written, or a package is missing."""

    def filename(self, dataset: str, split: str, shard: int, num_shards: int) -> str:
        """Returns the name of a shard."""

    def write(self, blocks: Iterator[Block], schema: Struct, out: Output, split: str) -> None:
        """Writes a shard: its rows, some at a time, in order."""


_FORMATS: tuple[type[Any], ...] = (Parquet, JsonLines, WebDataset, ArrayRecord)
NAMES = tuple(kind.name for kind in _FORMATS)


def format_of(name: str, **options: Any) -> Format:
    """Returns a format by its name.

    Args:
        name: one of `NAMES`.
        **options: of the format; those that are None are left out.

    Raises:
        BeamDatasetsError: the format or its option does not exist.
        ValueError: an option's value is unusable.
    """
    kind = next((kind for kind in _FORMATS if kind.name == name), None)
    if kind is None:
        known = ", ".join(NAMES)
        raise BeamDatasetsError(f"there is no format {name!r}; known are {known}.{did_you_mean(name, NAMES)}")
    given = {option: value for option, value in options.items() if value is not None}
    unknown = [option for option in given if option not in kind.__dataclass_fields__]
    if unknown:
        raise BeamDatasetsError(f"{unknown[0]} is no option of the format {name}.")
    made: Format = kind(**given)
    return made
