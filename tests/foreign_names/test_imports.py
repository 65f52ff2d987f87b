"""Imports of names that other libraries have: each error says what to write."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys

import pytest

IMPORTS = [
    ("from beam_datasets import load_dataset", "Use `bd.load(path, split='train')`"),
    ("from beam_datasets import Dataset, MDSWriter", "`bd.DatasetBuilder`"),
    ("from beam_datasets import lloadd", "Did you mean 'load'?"),
    ("from beam_datasets import StateError", "Use `bd.errors.StateError`"),
    ("from beam_datasets import Nonsense", "`dir(beam_datasets)` lists the names"),
    ("import beam_datasets.torch", "`ds.as_torch()`"),
    ("import beam_datasets.load", "`from beam_datasets import load`"),
    ("from beam_datasets.core import Version", "Use `import beam_datasets.tfds as tfds`"),
    ("from beam_datasets.core.download import DownloadManager", "Use `import beam_datasets.tfds as tfds`"),
    ("from beam_datasets.utils.anything import function", "docs/reference/api.md"),
    ("from beam_datasets.features import Value", "Use `bd.features.Scalar('int64')`"),
    ("from beam_datasets.features import Scalr", "Did you mean 'Scalar'?"),
]


IMPORTS += [
    ("from beam_datasets.tfds import load_dataset", "docs/reference/tfds.md lists the names that have an equivalent."),
    ("import beam_datasets.tfds.rocks", "'rocks'; docs/reference/tfds.md lists the names that have an equivalent."),
    ("import beam_datasets.tfds.load", "tfds.load is not a module. Write `from beam_datasets.tfds import load`."),
    ("from beam_datasets.tfds.testing import TestCase", "use unittest.TestCase"),
    ("from beam_datasets.tfds.core import DownloadConfig", "use tfds.download.DownloadConfig"),
    ("from beam_datasets.tfds.features import Txt", "use tfds.features.Text"),
    ("import beam_datasets.tfds.testing.test_utils", "beam_datasets.testing has DatasetBuilderTestCase"),
]


@pytest.mark.parametrize("statement, expected", IMPORTS)
def test_an_import_of_a_foreign_name_says_what_to_write(statement: str, expected: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(statement, {})
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "statement",
    [
        "from beam_datasets import load, features, storage, native",
        "from beam_datasets.features import Scalar",
        "import beam_datasets.tfds as tfds",
        "from beam_datasets.tfds import core",
    ],
)
def test_imports_of_what_exists(statement: str) -> None:
    exec(statement, {})


@pytest.mark.parametrize(
    "statement",
    ["from beam_datasets.reading import nothing", "import beam_datasets.reading.nothing", "import nothing_at_all"],
)
def test_other_imports_fail_as_ever(statement: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(statement, {})
    assert re.match("cannot import name 'nothing'|No module named", str(caught.value))


@pytest.mark.parametrize("name", ["unknown", "features.unknown", "tfds.unknown", "load_dataset"])
def test_a_module_that_is_looked_for_does_not_exist(name: str) -> None:
    assert importlib.util.find_spec(f"beam_datasets.{name}") is None


def test_a_finder_that_is_asked_by_a_script_finds_no_module() -> None:
    code = "import sys, beam_datasets; assert sys.meta_path[-1].find_spec('beam_datasets.torch') is None"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_package_that_is_reloaded_has_one_finder() -> None:
    code = (
        "import importlib, sys, beam_datasets as bd; finders = len(sys.meta_path); importlib.reload(bd); "
        "assert len(sys.meta_path) == finders; del sys.modules['beam_datasets']; import beam_datasets; "
        "assert len(sys.meta_path) == finders"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
