"""The fast paths in C: `core` is the compiled module, or None if it was not built.

For each function of `core` there is a Python function beside its caller. It is the oracle of the tests, and is used in
installations without a compiler. Set `BEAM_DATASETS_NATIVE=0` to disable `core`.
"""

from __future__ import annotations

import functools
import importlib
import os
import warnings
import zlib
from pathlib import Path
from types import ModuleType

INTERFACE = zlib.crc32(Path(__file__).with_name("_core.pyi").read_bytes()) & 0x7FFFFFFF
"""Identifies the C interface: a checksum of its stubs, which setup.py compiles into the module."""

core: ModuleType | None = None
_problem = ""

if os.environ.get("BEAM_DATASETS_NATIVE", "1") != "0":
    try:
        _module = importlib.import_module("beam_datasets.native._core")
        if getattr(_module, "INTERFACE", None) == INTERFACE:
            core = _module
        else:
            _problem = "it was built from other sources: install beam_datasets again"
    except ModuleNotFoundError:
        _problem = "it was not built: no C compiler when beam_datasets was installed"
    except ImportError as error:
        _problem = str(error)

if core is None:
    from crc32c import crc32c
else:  # without the package, whose import takes an eighth of opening a dataset
    crc32c = core.crc32c

__all__ = ["NoNativeModuleWarning", "core", "crc32c", "note_if_missing", "problem"]


class NoNativeModuleWarning(UserWarning):
    """The native module was not built, or cannot be loaded."""


def problem() -> str:
    """Returns why there is no native module; '' if there is one."""
    if os.environ.get("BEAM_DATASETS_NATIVE", "1") == "0":
        return "switched off by BEAM_DATASETS_NATIVE=0"
    return _problem


@functools.cache
def note_if_missing() -> None:
    """Warns once for each process if the native module is missing and was not switched off.

    Functions that read or generate call it first; importing the package does not warn.
    """
    if core is None and os.environ.get("BEAM_DATASETS_NATIVE", "1") != "0":
        warnings.warn(
            f"beam_datasets has no native module here ({_problem}), so reading and generating take several times as "
            "long. Install a C compiler and reinstall beam_datasets. BEAM_DATASETS_NATIVE=0 silences this.",
            NoNativeModuleWarning,
            stacklevel=2,
        )
