"""The PTransforms. Each is imported when it is first used, so a run imports only the modules that it needs."""

from __future__ import annotations

import importlib as _importlib
import typing as _typing

import beam_datasets.engines  # noqa: F401  imports Beam, and silences what it logs then

if _typing.TYPE_CHECKING:
    from beam_datasets.beam.export import Export as Export
    from beam_datasets.beam.materialize import Materialize as Materialize
    from beam_datasets.beam.read import ReadDataset as ReadDataset
    from beam_datasets.beam.reports import SummarizeDataset as SummarizeDataset
    from beam_datasets.beam.reports import VerifyDataset as VerifyDataset
    from beam_datasets.beam.write_dataset import WriteDataset as WriteDataset

_HOMES = {
    "Export": "export",
    "Materialize": "materialize",
    "ReadDataset": "read",
    "SummarizeDataset": "reports",
    "VerifyDataset": "reports",
    "WriteDataset": "write_dataset",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> _typing.Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


del annotations  # not a name of this package, although the import binds it
