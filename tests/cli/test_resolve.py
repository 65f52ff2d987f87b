"""From a name, a module or a file to a builder class."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from beam_datasets.cli.options import UsageError
from beam_datasets.cli.resolve import FORMATS, known_names, resolve

SOURCE = """
from beam_datasets.builders import DatasetBuilder

class {name}(DatasetBuilder, skip_registration=True):
    VERSION = "1.0.0"
"""


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("bd_test"):
            del sys.modules[name]


def test_by_name():
    request = resolve("digits:1.0.0")
    assert request.builder.__name__ == "Digits"
    assert (request.config, request.version) == (None, "1.0.0")
    assert resolve("csv").builder.__module__ == "beam_datasets.files.csv"


def test_by_module():
    assert resolve("beam_datasets.files.csv:Csv/small:1.*.*").builder.__name__ == "Csv"
    with pytest.raises(UsageError, match=r"cannot find module 'nothing.here'"):
        resolve("nothing.here")


def test_by_file(tmp_path):
    path = tmp_path / "bd_test_one.py"
    path.write_text(SOURCE.format(name="One"))
    request = resolve(f"{path}/small:2.0.0")
    assert request.builder.__name__ == "One"
    assert (request.config, request.version) == ("small", "2.0.0")
    imported = subprocess.run([sys.executable, "-c", "import bd_test_one"], capture_output=True, check=False)
    assert imported.returncode == 0, "worker processes must be able to import it"


@pytest.mark.parametrize("rest", ["", "/small", ":1.2.3", "/1.2.3", "/small:1.2.3", "/small/1.2.3", "/small:1.*.*"])
@pytest.mark.parametrize("where", ["digits", "pipelines.digits", "pipelines.digits:Digits"])
def test_versions_behind_a_colon_or_a_slash(where, rest):
    """B9: `build` takes the names that commands print, also with a slash before the version."""
    request = resolve(where + rest)
    version = next((text for text in ("1.2.3", "1.*.*") if text in rest), None)
    assert (request.config, request.version) == ("small" if "small" in rest else None, version)


def test_file_in_a_package(tmp_path):
    folder = tmp_path / "bd_test_package"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "two.py").write_text(SOURCE.format(name="First") + SOURCE.format(name="Second"))
    with pytest.raises(UsageError, match="builders First, Second; say which"):
        resolve(str(folder / "two.py"))
    assert resolve(f"{folder / 'two.py'}:Second").builder.__module__ == "bd_test_package.two"
    with pytest.raises(UsageError, match="no builder 'Third'; it has First, Second"):
        resolve(f"{folder / 'two.py'}:Third")


def test_file_whose_name_is_taken(tmp_path):
    (tmp_path / "json.py").write_text(SOURCE.format(name="One"))
    with pytest.raises(UsageError, match=r"imported as 'json'.*rename it"):
        resolve(str(tmp_path / "json.py"))


@pytest.mark.parametrize(
    "text, problem",
    [
        ("digts", r"unknown dataset 'digts'; known are .*Did you mean 'digits'"),
        ("nowhere.py", "the file nowhere.py does not exist"),
        ("a b", "is not a dataset name"),
        ("pipelines.digits/a/b", "expected .*version.* got '/a/b'"),
    ],
)
def test_unknown(text, problem):
    with pytest.raises(UsageError, match=problem):
        resolve(text)


def test_file_without_builder(tmp_path):
    (tmp_path / "bd_test_empty.py").touch()
    with pytest.raises(UsageError, match="has no builder; it needs a class that derives from DatasetBuilder"):
        resolve(str(tmp_path / "bd_test_empty.py"))


def test_known_names():
    assert {"digits", "stdlib_source", *FORMATS} <= {*known_names()}
    assert not {"builder", "convert"} & {*known_names()}


def test_every_format_of_files_has_a_name():
    folder = Path(resolve("csv").builder.__init__.__code__.co_filename).parent
    concrete = re.compile(r"^class \w+\((Files|Rows)Builder\)", re.MULTILINE)
    assert sorted(FORMATS) == sorted(path.stem for path in folder.glob("*.py") if concrete.search(path.read_text()))
