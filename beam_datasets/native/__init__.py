"""The fast paths in C: `core` is the module where it was built, else None, and the same work is done in Python.

Whatever `core` does, a plain Python function beside its caller does too: the oracle of the tests, and what an
installation without a compiler uses. Set `BEAM_DATASETS_NATIVE=0` to do without `core`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

core: ModuleType | None = None

if os.environ.get("BEAM_DATASETS_NATIVE", "1") != "0":
    try:
        from beam_datasets.native import _core as core
    except ImportError:  # no compiler was there when the package was installed
        core = None

__all__ = ["core"]
