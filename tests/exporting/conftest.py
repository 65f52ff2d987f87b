"""Datasets to export, and exports made in this process, without Beam."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume

import beam_datasets as bd
from beam_datasets import errors
from beam_datasets.exporting.run import plan_export, run_in_process
from beam_datasets.features import compile_encoder
from tests.diffing.versions import Made

DATA = Path(__file__).resolve().parents[1] / "data" / "tfds"
MANY = DATA / "spec_many" / "2.0.1"
INTER = DATA / "spec_inter" / "1.2.3"

Exported = Callable[..., Path]


def export(source: Any, to: Path, format: Any = "parquet", **options: Any) -> Path:
    """Exports and returns the directory."""
    return Path(run_in_process(plan_export(source, to, format, **options)))


def dataset_of(directory: Path, features: Any, examples: list[Any], shards: int = 2) -> Path:
    """Writes examples as a dataset `made`, in their order, and returns its directory."""
    splits = {"train": dict(enumerate(examples))}
    order = {"train": range(len(examples))}
    made = Made(bd.features.FeaturesDict(features), splits, num_shards=shards, indexed=False, orders=order)
    return made.write(directory, "1.0.0", "made")


@pytest.fixture(scope="session")
def many() -> Any:
    """A builder of every kind of feature, 12 training examples."""
    return bd.builder_from_directory(MANY)


@pytest.fixture(scope="session")
def inter() -> Any:
    """A builder of 411 examples in 20 shards."""
    return bd.builder_from_directory(INTER)


def encoder_of(features: Any) -> Any:
    """Returns the encoder; where two features would be stored under one name, the test looks for another sample."""
    try:
        return compile_encoder(features)
    except errors.FeatureValueError:
        assume(False)


def plain(feature: Any, value: Any, floats: Callable[[Any], Any] = np.float64) -> Any:
    """Returns a decoded value as Python has it: a dumb converter, to compare with. Strings stay bytes.

    Args:
        feature: what it is of.
        value: to convert.
        floats: makes float64 of arrays of other floating-point numbers.
    """
    F = bd.features
    if value is None:
        return None
    if isinstance(feature, F.TranslationVariableLanguages):
        feature = feature.inner_connector()
    if isinstance(feature, F.FeaturesDict):
        return {name: plain(child, value[name], floats) for name, child in feature.items()}
    if isinstance(feature, F.Sequence):
        return [plain(feature.feature, item, floats) for item in rows(value)]
    if isinstance(value, (np.ndarray, np.generic)):
        return floats(value).tolist() if value.dtype.kind not in "biuO" else value.tolist()
    return value


def rows(value: Any) -> list[Any]:
    if not isinstance(value, dict):
        return list(value)
    columns = {name: rows(column) for name, column in value.items()}
    return [{name: column[i] for name, column in columns.items()} for i in range(len(next(iter(columns.values()))))]
