"""Datasets that TFDS wrote, and frameworks: tests are skipped without one, unless $BEAM_DATASETS_ADAPTERS names it.

`make test-adapters` names them all, each in the environment that has it.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets.formats.tfrecord import frame_all
from beam_datasets.metadata.keys import hash_key

collect_ignore = ["fit_py_dataset.py"]  # a program, which imports Keras

ROWS: list[str] = []
"""Rows of the table of frameworks, which is printed at the end."""

SQUARES = {"number": np.int64, "square": np.float32, "parity": bd.features.ClassLabel(names=["even", "odd"])}
DATA = Path(__file__).resolve().parents[1] / "data" / "tfds"


def flat(lists: Any) -> list[Any]:
    return [item for part in lists for item in part]


def ids(examples: Any) -> list[Any]:
    """Returns `idx` of each example; of a batch, the list of its examples."""
    return [example["idx"].tolist() for example in examples]


def write_bare(path: Path, features: Any, values: list[Any]) -> Any:
    """Writes values to a TFRecord file, and returns the dataset that is adopted from it."""
    encode = bd.features.compile_encoder(features)
    path.write_bytes(b"".join(frame_all([encode(value) for value in values])))
    return bd.adopt(path, features, name=path.stem).as_dataset("train")


def needed(module: str) -> Any:
    """Returns a framework's module; skips the test if it is not installed and not required."""
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
    """Grain, with the flags of absl parsed: its worker processes read them, and refuse to start before."""
    module = needed("grain")
    needed("absl.flags").FLAGS.mark_as_parsed()
    return module


@pytest.fixture(scope="session")
def jax() -> Any:
    """JAX, with four devices."""
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
    return needed("jax")


@pytest.fixture(scope="session")
def tf() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return needed("tensorflow")


@pytest.fixture(scope="session")
def tfds() -> Any:
    return needed("tensorflow_datasets")


@pytest.fixture(scope="session")
def gaps(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A dataset of 12 examples with optional features, of which only every third example has values."""
    features = {
        **{dtype: bd.features.Scalar(dtype, optional=True) for dtype in ("float32", "int64", "int32", "uint8", "bool")},
        "vector": bd.features.Tensor(shape=(2,), dtype="float32", optional=True),
        "text": bd.features.Text(optional=True),
        "label": bd.features.ClassLabel(names=["a", "b"]),
        "inner": {"int64": bd.features.Scalar("int64", optional=True)},
    }
    there = {"float32": 0.5, "int64": 5, "int32": 6, "uint8": 7, "bool": True, "vector": [1, 2], "text": "x"}
    values = [
        (there if i % 3 == 1 else dict.fromkeys(there)) | {"label": -1, "inner": {"int64": None}} for i in range(12)
    ]
    return write_bare(tmp_path_factory.mktemp("gaps") / "gaps.tfrecord", features, values)


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


@pytest.fixture
def squares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The dataset of the README, in the current directory, but made without Beam."""
    folder = tmp_path / "data" / "squares" / "1.0.0"
    folder.mkdir(parents=True)
    encode = bd.features.compile_encoder(SQUARES)
    numbers = sorted(range(1000), key=lambda n: hash_key("train", n))
    for shard in range(4):
        some = numbers[250 * shard : 250 * (shard + 1)]
        records = [encode({"number": n, "square": float(n * n), "parity": n % 2}) for n in some]
        (folder / f"squares-train.tfrecord-{shard:05d}-of-00004").write_bytes(b"".join(frame_all(records)))
    bd.adopt(folder / "*", SQUARES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints the table of frameworks that were tested."""
    if ROWS:
        terminalreporter.section("frameworks")
        for row in ROWS:
            terminalreporter.line(row)
