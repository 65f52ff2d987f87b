"""The real TFDS, and the comparison of examples with its."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# Modules of `test_tfds_own.py`, which runs them in a process of their own: they need TensorFlow.
collect_ignore = ["adapters.py", "documented.py", "swapped.py", "tfds_own.py"]

DATA = Path(__file__).resolve().parents[1] / "data" / "tfds"


@pytest.fixture(scope="session")
def tfds() -> Any:
    if os.environ.get("BEAM_DATASETS_INTEROP") != "required":
        pytest.importorskip("tensorflow_datasets", reason="make test-interop installs TensorFlow and TFDS")
    import tensorflow_datasets

    return tensorflow_datasets


def same(ours: Any, theirs: Any, path: str = "") -> None:
    """Asserts that an example equals one that TFDS has decoded."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), path
        for name in theirs:
            same(ours[name], theirs[name], f"{path}/{name}")
    elif ours is None:  # TFDS reads a default where an optional value is absent
        assert theirs in (np.iinfo(np.int64).min, b"")
    elif hasattr(theirs, "to_list"):  # ragged
        assert ours.to_list() == theirs.to_list(), path
    elif hasattr(theirs, "element_spec") or not isinstance(theirs, (bytes, np.ndarray, np.generic)):
        same_all(ours, theirs, path)
    elif path.endswith("jpeg"):
        assert np.abs(np.asarray(ours, np.int32) - np.asarray(theirs, np.int32)).max() <= 2, path
    else:
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        assert ours.dtype == theirs.dtype or object in (ours.dtype, theirs.dtype), path
        np.testing.assert_array_equal(ours, theirs, err_msg=path)


def same_all(ours: Any, theirs: Any, path: str = "") -> None:
    """Asserts that examples are the same in the same order."""
    ours, theirs = list(ours), list(theirs)
    assert len(ours) == len(theirs), path
    for mine, other in zip(ours, theirs):
        same(mine, other, path)


def as_numpy(tfds: Any, directory: str | Path, split: str, *, in_order: bool = False) -> list[Any]:
    """Returns the examples that TFDS reads, in its read order or in dataset order."""
    config = tfds.ReadConfig(interleave_cycle_length=1) if in_order else None
    dataset = tfds.builder_from_directory(str(directory)).as_dataset(split=split, read_config=config)
    found = list(tfds.as_numpy(dataset))
    assert found
    return found
