"""A project that has a package called `pipelines` of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import beam_datasets

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
for name in ("csv", "jsonl", "parquet", "text_lines", "tfrecord", "image_folder"):
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
    """B3: the installed package takes no name but its own: file builders and main modules stay with everybody.

    `build NAME` finds `pipelines/NAME.py` below the current directory, in a checkout as in any project.
    """
    printed = run(project, "-c", SCRIPT)
    assert printed.splitlines()[0] == str(project / "pipelines" / "__init__.py")
    for name in ("csv", "mine", "copy"):
        assert (project / "out" / name / "1.0.0" / "dataset_info.json").exists()
    run(project, "-m", "beam_datasets.beam.main", "verify", "--help")
