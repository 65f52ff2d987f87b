"""The PTransforms. Each is imported when it is first used: a run should not wait for what it does not need."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beam_datasets.transforms.export import Export as Export
    from beam_datasets.transforms.materialize import Materialize as Materialize
    from beam_datasets.transforms.read import ReadDataset as ReadDataset
    from beam_datasets.transforms.stats import SummarizeDataset as SummarizeDataset
    from beam_datasets.transforms.verify import VerifyDataset as VerifyDataset
    from beam_datasets.transforms.write_dataset import WriteDataset as WriteDataset

_HOMES = {
    "Export": "export",
    "Materialize": "materialize",
    "ReadDataset": "read",
    "SummarizeDataset": "stats",
    "VerifyDataset": "verify",
    "WriteDataset": "write_dataset",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
