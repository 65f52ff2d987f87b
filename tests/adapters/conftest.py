"""Datasets that TFDS wrote, and frameworks: skipped where one is absent, unless $BEAM_DATASETS_ADAPTERS names it.

`make test-adapters` names them all, each in the environment that has it.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest

import beam_datasets as bd

DATA = Path(__file__).resolve().parents[1] / "data" / "tfds"


def needed(module: str) -> Any:
    """Returns a framework's module; skips the test where it is absent and may be."""
    required = module.partition(".")[0] in os.environ.get("BEAM_DATASETS_ADAPTERS", "").split()
    if not required:
        pytest.importorskip(module, reason="make test-adapters installs it")
    return importlib.import_module(module)


@pytest.fixture(scope="session")
def torch() -> Any:
    needed("torch.utils.data")
    return needed("torch")


@pytest.fixture(scope="session")
def torchdata(torch: Any) -> Any:
    return needed("torchdata.stateful_dataloader")


@pytest.fixture(scope="session")
def grain() -> Any:
    return needed("grain")


@pytest.fixture(scope="session")
def tf() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return needed("tensorflow")


@pytest.fixture(scope="session")
def tfds() -> Any:
    return needed("tensorflow_datasets")


@pytest.fixture(scope="session")
def three() -> Any:
    """The builder of a small dataset: 23 training examples in 4 shards."""
    return bd.builder_from_directory(DATA / "spec_three" / "1.2.3")


@pytest.fixture(scope="session")
def many() -> Any:
    """The builder of a dataset with every kind of feature, 12 training examples."""
    return bd.builder_from_directory(DATA / "spec_many" / "2.0.1")


@pytest.fixture(scope="session")
def inter() -> Any:
    """The builder of a dataset of 411 examples in 20 shards."""
    return bd.builder_from_directory(DATA / "spec_inter" / "1.2.3")
