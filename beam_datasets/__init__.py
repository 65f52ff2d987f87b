"""Datasets that Beam generates once, and that are read anywhere without Beam.

`load(name, split=...)` reads a published dataset; the author of a dataset subclasses `DatasetBuilder`.

The names are imported when they are first used, so that `import beam_datasets` takes little time.
"""

from __future__ import annotations

import importlib as _importlib
import sys as _sys
import types as _types
import typing as _typing
from importlib.machinery import PathFinder as _PathFinder

from beam_datasets._version import __version__ as __version__

if _sys.version_info < (3, 11):  # noqa: UP036  # a checkout on PYTHONPATH is not checked by pip
    raise ImportError("beam_datasets needs Python 3.11 or later, this is " + _sys.version.split()[0])

if _typing.TYPE_CHECKING:
    from beam_datasets import decode as decode
    from beam_datasets import errors as errors
    from beam_datasets import features as features
    from beam_datasets.adopting import adopt as adopt
    from beam_datasets.builders import BeamBasedBuilder as BeamBasedBuilder
    from beam_datasets.builders import BuilderConfig as BuilderConfig
    from beam_datasets.builders import DatasetBuilder as DatasetBuilder
    from beam_datasets.builders import GeneratorBasedBuilder as GeneratorBasedBuilder
    from beam_datasets.catalog import list_builders as list_builders
    from beam_datasets.diffing import DatasetDiff as DatasetDiff
    from beam_datasets.diffing import diff as diff
    from beam_datasets.display.examples import as_dataframe as as_dataframe
    from beam_datasets.display.examples import show_examples as show_examples
    from beam_datasets.environment import show_versions as show_versions
    from beam_datasets.jobs import export as export
    from beam_datasets.jobs import materialize as materialize
    from beam_datasets.materializing.appending import append as append
    from beam_datasets.metadata.info import DatasetInfo as DatasetInfo
    from beam_datasets.metadata.info import MetadataDict as MetadataDict
    from beam_datasets.metadata.split_by import SplitByHash as SplitByHash
    from beam_datasets.metadata.split_by import SplitByTime as SplitByTime
    from beam_datasets.metadata.split_by import SplitByValue as SplitByValue
    from beam_datasets.metadata.split_expressions import ReadInstruction as ReadInstruction
    from beam_datasets.metadata.split_expressions import Split as Split
    from beam_datasets.metadata.split_expressions import even_splits as even_splits
    from beam_datasets.metadata.split_expressions import split_for_jax_process as split_for_jax_process
    from beam_datasets.metadata.splits import SplitDict as SplitDict
    from beam_datasets.metadata.splits import SplitInfo as SplitInfo
    from beam_datasets.metadata.version import BlockedVersions as BlockedVersions
    from beam_datasets.metadata.version import Experiment as Experiment
    from beam_datasets.metadata.version import Version as Version
    from beam_datasets.publishing.repair import repair as repair
    from beam_datasets.reading.config import ReadConfig as ReadConfig
    from beam_datasets.reading.dataset import Dataset as Dataset
    from beam_datasets.reading.directories import builder_from_directories as builder_from_directories
    from beam_datasets.reading.iterator import DatasetIterator as DatasetIterator
    from beam_datasets.reading.mixing import mix as mix
    from beam_datasets.reading.opening import ReadOnlyBuilder as ReadOnlyBuilder
    from beam_datasets.reading.opening import builder as builder
    from beam_datasets.reading.opening import builder_from_directory as builder_from_directory
    from beam_datasets.reading.opening import load as load
    from beam_datasets.reading.streams import Stream as Stream
    from beam_datasets.shuffle.rejected import Rejected as Rejected
    from beam_datasets.sources.units import SourceUnits as SourceUnits
    from beam_datasets.verifying import verify as verify

_HOMES = {
    "": ("decode", "errors", "features"),
    ".builders": ("BeamBasedBuilder", "BuilderConfig", "DatasetBuilder", "GeneratorBasedBuilder"),
    ".metadata.info": ("DatasetInfo", "MetadataDict"),
    ".metadata.split_by": ("SplitByHash", "SplitByTime", "SplitByValue"),
    ".metadata.split_expressions": ("ReadInstruction", "Split", "even_splits", "split_for_jax_process"),
    ".metadata.splits": ("SplitDict", "SplitInfo"),
    ".metadata.version": ("BlockedVersions", "Experiment", "Version"),
    ".reading.config": ("ReadConfig",),
    ".reading.dataset": ("Dataset",),
    ".reading.directories": ("builder_from_directories",),
    ".reading.iterator": ("DatasetIterator",),
    ".reading.mixing": ("mix",),
    ".reading.opening": ("ReadOnlyBuilder", "builder", "builder_from_directory", "load"),
    ".reading.streams": ("Stream",),
    ".adopting": ("adopt",),
    ".catalog": ("list_builders",),
    ".display.examples": ("as_dataframe", "show_examples"),
    ".jobs": ("export", "materialize"),
    ".materializing.appending": ("append",),
    ".diffing": ("DatasetDiff", "diff"),
    ".verifying": ("verify",),
    ".environment": ("show_versions",),
    ".publishing.repair": ("repair",),
    ".shuffle.rejected": ("Rejected",),
    ".sources.units": ("SourceUnits",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = list(_HOME_OF)


def __getattr__(name: str) -> _typing.Any:
    if name not in _HOME_OF:
        if _PathFinder.find_spec(f"{__name__}.{name}", __path__):
            hint = f"Write `import {__name__}.{name}`"
            # `from beam_datasets import storage` asks for it, and then imports the module: without NumPy if it can.
            if "importlib" not in _sys._getframe(1).f_code.co_filename:
                from beam_datasets.advice import instead_of

                hint = instead_of("bd", name) or hint
        else:
            hint = _hint(name)
        message = f"module {__name__!r} has no attribute {name!r}. {hint}".strip()
        raise AttributeError(message, name=name, obj=None)  # without obj, Python adds no hint of its own
    home = _importlib.import_module(__name__ + (_HOME_OF[name] or f".{name}"))
    value = getattr(home, name) if _HOME_OF[name] else home
    globals()[name] = value
    return value


def _hint(name: str) -> str:
    """Returns a hint for a name that this package lacks, such as "Use `bd.errors.SplitError`."."""
    from beam_datasets.advice import instead_of
    from beam_datasets.errors import did_you_mean

    error = getattr(_importlib.import_module(f"{__name__}.errors"), name, None)
    hint = f"Use `bd.errors.{name}`." if isinstance(error, type) and issubclass(error, Exception) else ""
    hint = hint or instead_of("bd", name) or did_you_mean(name, __all__, cutoff=0.7).strip()
    return hint or f"`dir({__name__})` lists the names that there are; docs/reference/api.md describes them."


def _is_importing(frame: _types.FrameType) -> bool:
    """Returns whether a frame that calls a finder belongs to an import, not to a question for a module."""
    callers = (frame, frame.f_back)  # of a question, the second one is not Python's import system
    return all(caller and caller.f_globals.get("__name__") == "importlib._bootstrap" for caller in callers)


class _MissingNames:
    """The last finder of `sys.meta_path`: an import that no other one resolves is an error with advice.

    Python drops the message of the AttributeError of a module's `__getattr__` in `from beam_datasets import name`.
    """

    @staticmethod
    def find_spec(fullname: str, path: object = None, target: object = None) -> None:
        """Raises a ModuleNotFoundError for a missing name of this package, its features or names of TFDS.

        It returns None for others, and for all calls that only ask whether a module exists, such as those of
        `importlib.util.find_spec`. The error has the name of the package: Python ignores one that has the full name of
        the module.
        """
        package, _, name = fullname.rpartition(".")
        is_tfds = f"{package}.".startswith(f"{__name__}.tfds.")
        is_ours = is_tfds or package in (__name__, f"{__name__}.features")
        if not is_ours or name.startswith("_") or not _is_importing(_sys._getframe(1)):
            return
        try:
            getattr(_importlib.import_module(package), name)
        except AttributeError as error:
            _, _, hint = str(error).partition("; " if is_tfds else ". ")
        else:
            message = f"{fullname} is not a module. Write `from {package} import {name}`."
            raise ModuleNotFoundError(message, name=package)
        hint = hint or f"`dir({package})` lists the names that there are; docs/reference/api.md describes them."
        raise ModuleNotFoundError(f"{package} has no {name!r}{'; ' if is_tfds else '. '}{hint}", name=package) from None


# A module that is imported again, as by importlib.reload, replaces its finder.
_sys.meta_path[:] = [finder for finder in _sys.meta_path if getattr(finder, "__module__", "") != __name__]
_sys.meta_path.append(_MissingNames)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})


del annotations  # not a name of this package, although the import binds it
