"""Datasets that are generated once, by Beam, and read anywhere, without it.

`load(name, split=...)` reads a published dataset, `DatasetBuilder` is what a dataset's author subclasses.

The names are imported when they are first used, so that `import beam_datasets` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beam_datasets import errors as errors
    from beam_datasets import features as features
    from beam_datasets.builders import BeamBasedBuilder as BeamBasedBuilder
    from beam_datasets.builders import BuilderConfig as BuilderConfig
    from beam_datasets.builders import DatasetBuilder as DatasetBuilder
    from beam_datasets.builders import GeneratorBasedBuilder as GeneratorBasedBuilder
    from beam_datasets.exports import export as export
    from beam_datasets.features import decode as decode
    from beam_datasets.materializing.run import materialize as materialize
    from beam_datasets.model.info import DatasetInfo as DatasetInfo
    from beam_datasets.model.info import MetadataDict as MetadataDict
    from beam_datasets.model.split_info import SplitDict as SplitDict
    from beam_datasets.model.split_info import SplitInfo as SplitInfo
    from beam_datasets.model.splits import ReadInstruction as ReadInstruction
    from beam_datasets.model.splits import even_splits as even_splits
    from beam_datasets.model.splits import split_for_jax_process as split_for_jax_process
    from beam_datasets.model.version import BlockedVersions as BlockedVersions
    from beam_datasets.model.version import Experiment as Experiment
    from beam_datasets.model.version import Version as Version
    from beam_datasets.reading.adoption import adopt as adopt
    from beam_datasets.reading.comparing import DatasetDiff as DatasetDiff
    from beam_datasets.reading.comparing import diff as diff
    from beam_datasets.reading.config import ReadConfig as ReadConfig
    from beam_datasets.reading.dataset import Dataset as Dataset
    from beam_datasets.reading.iterator import DatasetIterator as DatasetIterator
    from beam_datasets.reading.opening import ReadOnlyBuilder as ReadOnlyBuilder
    from beam_datasets.reading.opening import builder as builder
    from beam_datasets.reading.opening import builder_from_directory as builder_from_directory
    from beam_datasets.reading.opening import load as load
    from beam_datasets.reading.verifying import verify as verify
    from beam_datasets.writing.repair import repair as repair

_HOMES = {
    "": ("errors", "features"),
    ".features": ("decode",),
    ".builders": ("BeamBasedBuilder", "BuilderConfig", "DatasetBuilder", "GeneratorBasedBuilder"),
    ".model.info": ("DatasetInfo", "MetadataDict"),
    ".model.split_info": ("SplitDict", "SplitInfo"),
    ".model.splits": ("ReadInstruction", "even_splits", "split_for_jax_process"),
    ".model.version": ("BlockedVersions", "Experiment", "Version"),
    ".reading.config": ("ReadConfig",),
    ".reading.dataset": ("Dataset",),
    ".reading.iterator": ("DatasetIterator",),
    ".reading.opening": ("ReadOnlyBuilder", "builder", "builder_from_directory", "load"),
    ".reading.adoption": ("adopt",),
    ".materializing.run": ("materialize",),
    ".exports": ("export",),
    ".reading.comparing": ("DatasetDiff", "diff"),
    ".reading.verifying": ("verify",),
    ".writing.repair": ("repair",),
}
__version__ = "0.1.0"
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = list(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = __name__ + _HOME_OF[name]
    if home in (__name__, f"{__name__}.features"):
        value = importlib.import_module(f"{home}.{name}")
    else:
        value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
