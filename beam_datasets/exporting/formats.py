"""The formats that a dataset can be exported to, by name."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import BeamDatasetsError
from beam_datasets.exporting.array_record import ArrayRecord
from beam_datasets.exporting.jsonl import JsonLines
from beam_datasets.exporting.parquet import Parquet
from beam_datasets.exporting.webdataset import WebDataset
from beam_datasets.metadata.names import did_you_mean

if TYPE_CHECKING:
    from beam_datasets.exporting.writing import Format

_FORMATS: dict[str, type[Format]] = {kind.name: kind for kind in (Parquet, JsonLines, WebDataset, ArrayRecord)}
NAMES = tuple(_FORMATS)


def format_of(name: str, **options: Any) -> Format:
    """Returns a format by its name.

    Args:
        name: one of `NAMES`.
        **options: of the format; those that are None are left out.

    Raises:
        BeamDatasetsError: the format or its option does not exist.
        ValueError: an option's value is unusable.
    """
    if name not in _FORMATS:
        known = ", ".join(NAMES)
        raise BeamDatasetsError(f"there is no format {name!r}; known are {known}.{did_you_mean(name, NAMES)}")
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if option not in {field.name for field in fields(_FORMATS[name])}:
            raise BeamDatasetsError(f"{option} is no option of the format {name}.")
    return _FORMATS[name](**given)
