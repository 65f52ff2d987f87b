"""From a name, a module or a file to a builder class; `new`; a project with a package `pipelines` of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import beam_datasets
from beam_datasets.cli.options import UsageError
from beam_datasets.cli.resolve import FORMATS, builder_file, is_builder, known_names, resolve

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
    assert resolve("beam_datasets.files.csv").builder.__name__ == "Csv"
    with pytest.raises(UsageError, match="cannot find module 'nothing.here'"):
        resolve("nothing.here")


@pytest.mark.parametrize(
    "file, command",
    [
        ("/data/My reviews.JSONL.gz", "jsonl --name my_reviews --pattern '/data/My reviews.JSONL.gz'"),
        ("houses.tsv", "csv --name houses --pattern houses.tsv"),
        ("2024-05.parquet", "parquet --name NAME --pattern 2024-05.parquet"),
        ("corpus/*.txt", "text_lines --name NAME --pattern 'corpus/*.txt'"),
    ],
)
def test_a_file_of_data_is_built_by_its_format(file, command):
    """The error has the whole command, which can be copied."""
    with pytest.raises(UsageError, match="expected a dataset or the file of a builder, got a file of data") as error:
        resolve(file)
    assert str(error.value).endswith(f"beam-datasets build {command}")


@pytest.mark.parametrize(
    "file, way",
    [
        ("b.xlsx", "Save it as CSV, then `beam-datasets build csv --name NAME --pattern FILE.csv`"),
        ("data/b.zip", "Unpack it, and build the files in it: `beam-datasets build --help`"),
        ("b.h5", "Write it as Parquet, such as by pandas, then `beam-datasets build parquet --name NAME"),
        ("cat.PNG", "`beam-datasets build image_folder --root DIR --name NAME`"),
        ("photos/*", "`beam-datasets build image_folder --root DIR --name NAME`"),
        ("a.wav", "`beam-datasets build sound_folder --root DIR --name NAME`"),
        ("b.mp4", "Write a builder with `features.Video`: `beam-datasets new NAME`"),
        ("notes.ab", "If it is data, `beam-datasets build --help` lists the formats"),
    ],
)
def test_a_file_that_no_format_reads_has_a_way(tmp_path, monkeypatch, run, file, way):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos" / "cats").mkdir(parents=True)
    for path in ("photos/cats/1.png", "notes.ab", "notes"):
        (tmp_path / path).touch()
    with pytest.raises(UsageError) as caught:
        resolve(file)
    assert f"{file}: expected a dataset or the file of a builder, got another file. " in str(caught.value)
    assert way in str(caught.value)
    code, _, problem = run("append", "ds", "--from", file)
    assert code != 0
    assert way in problem
    with pytest.raises(UsageError, match="unknown dataset 'notes'"):
        resolve("notes")


def test_an_empty_folder_and_one_of_sounds(tmp_path):
    with pytest.raises(UsageError, match="`beam-datasets build --help` lists the formats of files"):
        builder_file(str(tmp_path))
    (tmp_path / "yes").mkdir()
    (tmp_path / "yes" / "1.wav").touch()
    with pytest.raises(UsageError, match="or sounds by their folders: beam-datasets build sound_folder --root "):
        builder_file(str(tmp_path))


def test_folders_are_given_by_any_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos" / "all" / "cats").mkdir(parents=True)
    (tmp_path / "photos" / "all" / "cats" / "1.png").touch()
    for path in ("photos/all", "photos/all/", "./photos/all", f"{tmp_path}/photos/all"):
        with pytest.raises(UsageError, match=f"image_folder --root {path.rstrip('/')} --name NAME"):
            resolve(path)
    (tmp_path / "bd_test_birds" / "small").mkdir(parents=True)
    (tmp_path / "bd_test_birds" / "bd_test_birds.py").write_text(SOURCE.format(name="Birds"))
    for path in ("bd_test_birds/", "./bd_test_birds", f"{tmp_path}/bd_test_birds/"):
        assert resolve(path).builder.__name__ == "Birds"
    assert resolve("bd_test_birds/small").config == "small"  # a config of the builder, though it is a directory, too


@pytest.mark.parametrize("path", ["code/bd_one", "code/bd_two/", "./code/bd_three", "code/bd_four/birds.py"])
def test_code_in_a_package_does_not_travel_with_a_job_however_its_path_is_given(path, tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / path.removesuffix("birds.py")
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "birds.py").write_text(SOURCE.format(name="Birds"))
    engine = ["--runner", "FlinkRunner", "--environment_type", "EXTERNAL", "--environment_config", "pool:50000"]
    code, _, err = run("build", path, "--data_dir", tmp_path / "data", *engine)
    assert (code, "birds.py is in a package of this machine" in err) == (2, True), err


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
    """`build` takes the names that commands print, also with a slash before the version."""
    request = resolve(where + rest)
    version = next((text for text in ("1.2.3", "1.*.*") if text in rest), None)
    assert (request.config, request.version) == ("small" if "small" in rest else None, version)


def test_a_class_of_a_top_level_module(tmp_path, monkeypatch):
    (tmp_path / "bd_test_top.py").write_text(SOURCE.format(name="Top"))
    monkeypatch.syspath_prepend(tmp_path)
    request = resolve("bd_test_top:Top/small:1.2.3")
    assert (request.builder.__name__, request.config, request.version) == ("Top", "small", "1.2.3")
    assert is_builder("bd_test_top:Top")
    for dataset in ("bd_test_top", "bd_test_top:1.2.3", "bd_test_top:latest", "bd_test_none:Tag"):
        assert not is_builder(dataset)
    with pytest.raises(UsageError, match="cannot find module 'bd_test_none'"):
        resolve("bd_test_none:Top")


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


def test_a_file_beside_is_proposed(tmp_path, monkeypatch):
    (tmp_path / "squares.py").write_text(SOURCE.format(name="Squares"))
    monkeypatch.chdir(tmp_path)
    for name in ("squares", "squres"):
        with pytest.raises(UsageError, match=r"Did you mean 'squares\.py'\?"):
            resolve(name)
    assert resolve("squares.py").builder.__name__ == "Squares"


@pytest.mark.parametrize(
    "statement",
    [
        "import tensorflow_datasets as tfds",
        "from tensorflow_datasets.core import Version",
        "import tensorflow as tf",
        "import missing",
    ],
)
def test_a_builder_that_imports_tfds_is_told_of_another_import(tmp_path, monkeypatch, statement):
    for package in ("tensorflow", "tensorflow_datasets"):
        monkeypatch.setitem(sys.modules, package, None)  # as if it was not installed
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "ported"
    folder.mkdir()
    file = folder / "bd_test_of_tfds.py"
    file.write_text(f"{statement}\n{SOURCE.format(name='Ported')}")
    if "tensorflow" not in statement:
        with pytest.raises(ModuleNotFoundError, match="missing"):
            resolve(str(file))
        return
    advice = "Write `import beam_datasets.tfds as tfds` in the place of"
    if "_datasets" not in statement:
        advice = r"Write np\.int64 for tf\.int64"
    for name in (str(file), "ported"):
        with pytest.raises(UsageError, match=advice):
            resolve(name)
    file.write_text(f"import beam_datasets.tfds as tfds\n{SOURCE.format(name='Ported')}")
    assert resolve(str(file)).builder.__name__ == "Ported"


def test_file_without_builder(tmp_path):
    (tmp_path / "bd_test_empty.py").touch()
    with pytest.raises(UsageError, match="has no builder; it needs a class that derives from DatasetBuilder"):
        resolve(str(tmp_path / "bd_test_empty.py"))


def test_known_names():
    assert {"digits", "stdlib_source", *FORMATS} <= {*known_names()}
    assert not {"builder", "convert"} & {*known_names()}


def test_every_format_of_files_has_a_name():
    folder = Path(resolve("csv").builder.__init__.__code__.co_filename).parent
    concrete = re.compile(r"^class \w+\((RowsBuilder|LabeledFolder)\)", re.MULTILINE)
    assert sorted(FORMATS) == sorted(path.stem for path in folder.glob("*.py") if concrete.search(path.read_text()))


# `beam-datasets new` makes a dataset that passes its own test


ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_what_is_made_passes_its_own_test(run: Any, tmp_path: Path) -> None:
    code, printed, _ = run("new", "my_birds", "--to", tmp_path)
    assert code == 0
    made = tmp_path / "my_birds"
    assert sorted(printed.split("Test it")[0].split()) == sorted(str(f) for f in made.rglob("*") if f.is_file())
    done = subprocess.run(
        [sys.executable, "my_birds_test.py"],
        cwd=made,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "OK" in done.stderr


def test_names_that_cannot_be(run: Any, tmp_path: Path) -> None:
    (tmp_path / "birds").mkdir()
    for name, said in (
        ("birds", "exists already"),
        ("My Birds", "My Birds"),
        ("BigCats", "snake_case"),
        ("class", "snake_case"),
        ("json", "json_data"),
    ):
        code, _, err = run("new", name, "--to", tmp_path)
        assert code == 2
        assert said in err


# A project that has a package called `pipelines` of its own


INSTALLED = str(Path(beam_datasets.__file__).resolve().parents[1])
MINE = """
import beam_datasets as bd

class Mine(bd.DatasetBuilder):
    VERSION = "1.0.0"

    def _info(self):
        return bd.DatasetInfo(builder=self, features=bd.features.FeaturesDict({"n": bd.features.Scalar("int64")}))

    def _split_generators(self):
        return {"train": [(i, {"n": i}) for i in range(3)]}
"""


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    (folder / "pipelines").mkdir(parents=True)
    (folder / "pipelines" / "__init__.py").write_text("raise_if_missing = 1\n")
    (folder / "pipelines" / "mine.py").write_text(MINE)
    (folder / "a.csv").write_text("x\n1\n")
    return folder


def run(project, *arguments):
    """Runs Python in the project, whose folder is first on the path; returns what it prints."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(project), INSTALLED])}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


SCRIPT = """
import contextlib, importlib, io, sys
import pipelines
print(pipelines.__file__)
for name in ("csv", "jsonl", "parquet", "text_lines", "tfrecord", "image_folder", "sound_folder"):
    importlib.import_module(f"beam_datasets.files.{name}")
    from beam_datasets.cli import main
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        main(["build", name, "--help"])
    assert f"options of {name}" in out.getvalue(), out.getvalue()
from beam_datasets.beam import worker_pool
from beam_datasets.beam.main import main
options = ["--data_dir", "out", "--num_workers", "1"]
sys.exit(
    main(["build", "--dataset", "csv", "--pattern", "a.csv", *options])
    or main(["build", "--dataset", "mine", *options])
    or main(["materialize", "--dataset", "mine", "--split", "few=train[:1]", "--to", "copy", *options])
)
"""


@pytest.mark.slow
def test_a_project_with_its_own_pipelines_has_everything(project):
    """The installed package takes no name but its own: file builders and main modules stay with everybody.

    `build NAME` finds `pipelines/NAME.py` below the current directory, in a checkout as in any project.
    """
    printed = run(project, "-c", SCRIPT)
    assert printed.splitlines()[0] == str(project / "pipelines" / "__init__.py")
    for name in ("csv", "mine", "copy"):
        assert (project / "out" / name / "1.0.0" / "dataset_info.json").exists()
    run(project, "-m", "beam_datasets.beam.main", "verify", "--help")


def test_an_error_in_the_package_of_a_builder_is_raised(tmp_path, monkeypatch):
    (tmp_path / "broken_package").mkdir()
    (tmp_path / "broken_package" / "__init__.py").write_text("from os import no_such_name\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="no_such_name"):
        resolve("broken_package.builder")


@pytest.mark.parametrize("text", ["/nowhere/none", "./none", "~/none_there", "a/b/none"])
def test_a_path_that_does_not_exist(text: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(text)}: the file or directory does not exist"):
        resolve(text)


def test_the_latest_version_of_a_file(tmp_path: Path) -> None:
    """The advice to leave it out is followed."""
    path = tmp_path / "bd_latest.py"
    path.write_text(
        "import beam_datasets as bd\nclass Latest(bd.DatasetBuilder, skip_registration=True): VERSION = '1.0.0'\n"
    )
    with pytest.raises(UsageError, match="has no builder 'latest'; it has Latest. Leave out :latest"):
        resolve(f"{path}:latest")
    assert resolve(str(path)).builder.__name__ == "Latest"
