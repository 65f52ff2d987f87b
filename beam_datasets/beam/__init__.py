"""The PTransforms, each imported when it is first used, so that a run imports only what it needs.

This package imports Beam before its modules do, and silences what Beam logs when it is imported.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from beam_datasets.extras import importing_beam

if TYPE_CHECKING:
    from beam_datasets.beam.export import Export as Export
    from beam_datasets.beam.materialize import Materialize as Materialize
    from beam_datasets.beam.read import ReadDataset as ReadDataset
    from beam_datasets.beam.reports import SummarizeDataset as SummarizeDataset
    from beam_datasets.beam.reports import VerifyDataset as VerifyDataset
    from beam_datasets.beam.write import WriteDataset as WriteDataset

_HOMES = {
    "Export": "export",
    "Materialize": "materialize",
    "ReadDataset": "read",
    "SummarizeDataset": "reports",
    "VerifyDataset": "reports",
    "WriteDataset": "write",
}
__all__ = list(_HOMES)


with importing_beam():
    importlib.import_module("apache_beam")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
