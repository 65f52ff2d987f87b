"""DatasetBuilderTestCase, with builders that are right and wrong."""

from __future__ import annotations

import unittest
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import beam_datasets.tfds as tfds

if TYPE_CHECKING:
    from pathlib import Path

URL = "http://example.org/a.zip"


class Lines(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[misc, name-defined]
    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> Any:
        features = {"line": tfds.features.Text(), "number": np.float32}
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager: Any) -> Any:
        folder = dl_manager.download_and_extract(URL)
        return {"train": self._generate_examples(folder / "a.txt"), "test": self._generate_examples(folder / "b.txt")}

    def _generate_examples(self, path: Path) -> Any:
        for number, line in enumerate(path.read_text().split()):
            yield number, {"line": line, "number": number / 10}


def outcome(folder: Path, **attributes: Any) -> str:
    """Returns what the test of the builder complains of; '' for nothing."""
    (folder / "a.txt").write_text("x y z")
    (folder / "b.txt").write_text("v")
    given = {"DATASET_CLASS": Lines, "SPLITS": {"train": 3, "test": 1}, "EXAMPLE_DIR": folder, "SKIP_CHECKSUMS": True}
    case = type("Case", (tfds.testing.DatasetBuilderTestCase,), {**given, **attributes})
    result = unittest.TestResult()
    case("test_download_and_prepare_as_dataset").run(result)
    assert result.testsRun == 1
    return "".join(text for _, text in [*result.errors, *result.failures])


def test_a_builder_that_is_right(tmp_path: Path) -> None:
    assert outcome(tmp_path) == ""


@pytest.mark.parametrize(
    "attributes, said",
    [
        ({"SPLITS": {"train": 4, "test": 1}}, "examples of each split"),
        ({"SKIP_CHECKSUMS": False}, f"{URL} has no recorded checksum"),
        ({"EXAMPLE_DIR": "/nowhere"}, "put the fake sources there"),
        ({"DL_EXTRACT_RESULT": "none"}, "/none/"),
    ],
    ids=["counts", "checksums", "directory", "paths"],
)
def test_what_is_wrong_is_said(tmp_path: Path, attributes: dict[str, Any], said: str) -> None:
    assert said in outcome(tmp_path, **attributes)


def test_examples_in_two_splits(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()

    class Twice(Lines, skip_registration=True):
        def _split_generators(self, dl_manager: Any) -> Any:
            path = dl_manager.manual_dir / "a.txt"
            return {"train": self._generate_examples(path), "test": self._generate_examples(path)}

    given = {"DATASET_CLASS": Twice, "SPLITS": {"train": 3, "test": 3}}
    assert "test has an example of train" in outcome(tmp_path, **given)
    assert outcome(tmp_path, **given, OVERLAPPING_SPLITS=["test"]) == ""
