"""Test kit for authors: a builder on fake data, without a network; a connector; and the builders of TFDS."""

from __future__ import annotations

import dataclasses
import inspect
import os
import sys
import tempfile
import unittest
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from beam_datasets.downloads import DownloadManager, DownloadSettings, Resource, read_checksums
from beam_datasets.testing.connectors import check_connector as check_connector
from beam_datasets.testing.mocking import MockPolicy as MockPolicy
from beam_datasets.testing.mocking import mock_data as mock_data
from beam_datasets.testing.tfds_catalogue import load_tfds_builder as load_tfds_builder

if TYPE_CHECKING:
    from beam_datasets.builders import DatasetBuilder


@dataclasses.dataclass(frozen=True)
class FakeDownloads(DownloadSettings):
    """Settings whose manager returns files of a directory instead of downloading them.

    Attributes:
        results: {method of the manager: its result, with paths relative to the directory}; a method without a result
            returns the directory.
        check: whether a URL without recorded checksum is an error.
    """

    results: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    check: bool = False

    def manager(self) -> DownloadManager:
        """Returns a `DownloadManager` whose downloads are the local files of the test."""
        return _FakeManager(self)


class _FakeManager(DownloadManager):
    """A manager that returns files of a directory for any request."""

    _settings: FakeDownloads

    @property
    def manual_dir(self) -> Path:
        """Returns the directory with the fake files."""
        return self.download_dir

    def download(self, urls: Any) -> Any:
        """Returns the paths of fake files in place of URLs; see `DownloadManager.download`."""
        return self._recorded_result("download", urls)

    def extract(self, paths: Any) -> Any:
        """Returns the paths of fake files in place of archives; see `DownloadManager.extract`."""
        return self._recorded_result("extract", paths)

    def download_and_extract(self, urls: Any) -> Any:
        """Returns the paths of fake files in place of URLs; see `DownloadManager.download_and_extract`."""
        return self._recorded_result("download_and_extract", urls)

    def download_kaggle_data(self, competition_or_dataset: str) -> Path:
        """Returns the directory with the fake files, for any competition or dataset."""
        del competition_or_dataset
        return self.download_dir

    def _recorded_result(self, method: str, requested: Any) -> Any:
        """Returns the recorded result of a method, with paths in the directory; the directory if none is recorded.

        Args:
            method: name of the method.
            requested: the URLs or paths that it was called with, in any structure.
        """
        if self._settings.check and method != "extract":
            self._map_in_threads(self._check_recorded, requested)
        result = self._settings.results.get(method)
        return self.download_dir if result is None else self._map_in_threads(self.download_dir.joinpath, result)

    def _check_recorded(self, resource: str | Resource) -> None:
        """Checks that the checksum of a URL or of a `Resource` is recorded.

        Raises:
            AssertionError: it is not recorded.
        """
        url = resource.url if isinstance(resource, Resource) else resource
        if url not in self._settings.checksums:
            raise AssertionError(
                f"{url} has no recorded checksum. Record it: beam-datasets build ... --register_checksums; "
                "or set SKIP_CHECKSUMS = True."
            )


class DatasetBuilderTestCase(unittest.TestCase):
    """Builds a dataset twice from the fake sources in `dummy_data`, and compares the results.

    Attributes:
        DATASET_CLASS: the builder.
        SPLITS: {split: number of examples}.
        BUILDER_CONFIG_NAMES_TO_TEST: the configs; all where this is empty.
        VERSION: version to build; None for the builder's.
        EXAMPLE_DIR: directory of the fake sources; None for `dummy_data` beside the test, which `manual_dir` is too.
        DL_EXTRACT_RESULT, DL_DOWNLOAD_RESULT, DL_EXTRACT_ONLY_RESULT: results of `download_and_extract`, `download` and
            `extract` return, with paths within EXAMPLE_DIR; None for that directory.
        OVERLAPPING_SPLITS: splits that may have examples of others.
        SKIP_CHECKSUMS: downloads need no recorded checksum.
        SKIP_TF1_GRAPH_MODE, MOCK_OUT_FORBIDDEN_OS_FUNCTIONS: have no meaning here.
    """

    DATASET_CLASS: ClassVar[Any] = None
    SPLITS: ClassVar[Mapping[str, int]] = {}
    BUILDER_CONFIG_NAMES_TO_TEST: ClassVar[Any] = ()
    VERSION: ClassVar[str | None] = None
    EXAMPLE_DIR: ClassVar[str | os.PathLike[str] | None] = None
    DL_EXTRACT_RESULT: ClassVar[Any] = None
    DL_DOWNLOAD_RESULT: ClassVar[Any] = None
    DL_EXTRACT_ONLY_RESULT: ClassVar[Any] = None
    OVERLAPPING_SPLITS: ClassVar[Any] = ()
    SKIP_CHECKSUMS: ClassVar[bool] = False
    SKIP_TF1_GRAPH_MODE: ClassVar[bool] = True
    MOCK_OUT_FORBIDDEN_OS_FUNCTIONS: ClassVar[bool] = False

    @property
    def dummy_data(self) -> Path:
        """The directory of the fake sources."""
        return Path(self.EXAMPLE_DIR or Path(inspect.getfile(type(self))).parent / "dummy_data")

    def setUp(self) -> None:
        """Skips the base class itself, and checks the attributes of the test."""
        if self.DATASET_CLASS is None:
            self.skipTest("a subclass sets DATASET_CLASS")
        self.assertTrue(self.dummy_data.is_dir(), f"{self.dummy_data} does not exist; put the fake sources there")

    def test_registered(self) -> None:
        """The builder is found by its name."""
        from beam_datasets import catalog

        self.assertIn(self.DATASET_CLASS.name, catalog.registered())

    def test_info(self) -> None:
        """The description is complete, for each config."""
        for config in self._configs():
            with self.subTest(config=config), tempfile.TemporaryDirectory() as data_dir:
                info = self._builder(data_dir, config).info
                self.assertIsNotNone(info.features, "DatasetInfo needs features")

    def test_download_and_prepare_as_dataset(self) -> None:
        """Building gives the numbers of examples, values that can be read, and the same bytes again."""
        for config in self._configs():
            with self.subTest(config=config), tempfile.TemporaryDirectory() as data_dir:
                had_tensorflow = "tensorflow" in sys.modules
                first, second = (self._built(os.path.join(data_dir, run), config) for run in ("first", "second"))
                if not had_tensorflow and "tensorflow" in sys.modules:
                    print(f"note: {self.DATASET_CLASS.name} imports TensorFlow while it generates", file=sys.stderr)
                self._check_splits(first)
                self.assertEqual(_read_shard_files(first), _read_shard_files(second), "two runs gave different bytes")

    def _configs(self) -> list[Any]:
        """Returns the configs to test: as the test names them, or all of the builder; [None] if it has none."""
        return list(self.BUILDER_CONFIG_NAMES_TO_TEST) or list(self.DATASET_CLASS.configs()) or [None]

    def _builder(self, data_dir: str, config: Any) -> DatasetBuilder:
        """Returns a builder of the tested class that gets `dummy_data` instead of downloads."""
        builder: DatasetBuilder = self.DATASET_CLASS(data_dir=data_dir, config=config, version=self.VERSION)
        results = {
            "download_and_extract": self.DL_EXTRACT_RESULT,
            "download": self.DL_DOWNLOAD_RESULT,
            "extract": self.DL_EXTRACT_ONLY_RESULT,
        }
        checksums = read_checksums(builder.checksums_file())
        builder.use_downloads(
            FakeDownloads(self.dummy_data, checksums=checksums, results=results, check=not self.SKIP_CHECKSUMS)
        )
        return builder

    def _built(self, data_dir: str, config: Any) -> DatasetBuilder:
        """Builds the dataset of a config in a directory, and returns the builder."""
        builder = self._builder(data_dir, config)
        builder.build(num_workers=1)
        return builder

    def _check_splits(self, builder: DatasetBuilder) -> None:
        """Checks the number of examples of each split, and that only OVERLAPPING_SPLITS share examples."""
        splits = builder.info.splits
        counts = {name: split.num_examples for name, split in splits.items()}
        self.assertEqual(counts, dict(self.SPLITS), "examples of each split")
        names_by_example: dict[Any, str] = {}
        for name in splits:
            for example in builder.as_dataset(name):
                if name not in self.OVERLAPPING_SPLITS:
                    other = names_by_example.setdefault(_comparable(example), name)
                    self.assertEqual(other, name, f"{name} has an example of {other}; OVERLAPPING_SPLITS allows it")


def _comparable(example: Any) -> Any:
    """Returns a hashable value that is equal for equal examples."""
    if isinstance(example, Mapping):
        return tuple((name, _comparable(value)) for name, value in sorted(example.items()))
    if isinstance(example, (list, tuple)):
        return tuple(map(_comparable, example))
    return example.tobytes() if hasattr(example, "tobytes") else repr(example)


def _read_shard_files(builder: DatasetBuilder) -> dict[str, bytes]:
    """Returns {file name: content} of the shards and their indexes."""
    return {path.name: path.read_bytes() for path in sorted(Path(builder.dataset_dir).glob("*.tfrecord*"))}


def test_main() -> None:
    """Runs the tests of a file that is started as a script."""
    unittest.main()


test_main.__test__ = False  # type: ignore[attr-defined]  # of pytest: it is not a test
