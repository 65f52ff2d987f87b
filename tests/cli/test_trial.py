"""`build --trial`, `build --overwrite`, and `build` in the directory of a builder."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

import beam_datasets as bd
from beam_datasets import storage
from beam_datasets.cli.main import main
from beam_datasets.errors import BeamDatasetsError, StorageError
from beam_datasets.publishing import disk_commit

if TYPE_CHECKING:
    from pathlib import Path

ENDLESS = """
import itertools

import apache_beam as beam

import beam_datasets as bd


def pairs(first):
    return ((n, {"n": n}) for n in itertools.count(first))


class EndlessTrial(bd.DatasetBuilder):
    VERSION = "1.0.0"

    def _info(self):
        return bd.DatasetInfo(builder=self, features=bd.features.FeaturesDict({"n": bd.features.Scalar("int64")}))

    def _split_generators(self):
        return {
            "endless": pairs(0),
            "function": lambda: pairs(10),
            "units": bd.SourceUnits([100, 200], pairs, keep=lambda key: key % 2),
            "beam": beam.Create([(n, {"n": n}) for n in range(1000, 1009)]),
        }
"""


def test_a_trial_shows_the_first_examples_and_publishes_nothing(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "endless_trial.py").write_text(ENDLESS)
    command = ["build", str(tmp_path / "endless_trial.py"), "--data_dir", str(tmp_path / "data"), "--num_workers", "1"]
    assert main([*command, "--trial", "2"]) == 0
    said = capsys.readouterr().out
    for split in ("endless", "function", "units", "beam"):
        assert f"{split}: 2 examples" in said
    shown = {int(line.split()[-1]) for line in said.splitlines() if line.startswith("  n")}
    assert {number for number in shown if number < 1000} == {0, 1, 10, 11, 101, 103}
    assert said.endswith("Nothing was published (--trial). Beam makes beam: these have the lowest hashes.\n")
    assert not (tmp_path / "data").exists()
    assert main([*command, "--trial", "0"]) == main([*command, "--trial", "1", "--resume"]) == 2
    assert "expected 1 or more" in capsys.readouterr().err


class Counted(bd.DatasetBuilder, skip_registration=True):
    VERSION = "1.0.0"

    def __init__(self, *, count: int, **kwargs: Any) -> None:
        self._count = count
        super().__init__(**kwargs)

    def _info(self) -> Any:
        return bd.DatasetInfo(builder=self, features=bd.features.FeaturesDict({"n": bd.features.Scalar("int64")}))

    def _split_generators(self) -> Any:
        return {"train": ((n, {"n": 1 // (n + 2)}) for n in range(min(0, self._count), self._count))}


def test_a_version_is_replaced_when_the_new_one_is_complete(tmp_path: Path) -> None:
    def build(count: int, **options: Any) -> Any:
        builder = Counted(count=count, data_dir=tmp_path)
        builder.build(overwrite=True, num_workers=1, **options)
        return builder

    first = build(3)  # there is none yet
    shard = next((tmp_path / "counted" / "1.0.0").glob("*-00001"))
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1])  # damage that the manifest does not show
    build(3)
    assert shard.read_bytes() == whole
    with pytest.raises(BeamDatasetsError):
        build(-3)  # fails while it generates
    with pytest.raises(ValueError, match="overwrite cannot be combined with resume"):
        build(5, resume=True)
    with pytest.raises(ValueError, match="must wait"):
        build(5, wait=False)
    assert first.info.splits["train"].num_examples == 3
    changed = build(5)
    assert changed.info.splits["train"].num_examples == len(changed.as_dataset("train")) == 5
    assert [path.name for path in (tmp_path / "counted").iterdir()] == ["1.0.0"]


def test_a_replacement_that_is_cut_off_loses_no_version(tmp_path: Path, monkeypatch: Any) -> None:
    """The old version is kept by gc, and put back if the process lives."""
    Counted(count=3, data_dir=tmp_path).build(num_workers=1)
    folder, made, rename = tmp_path / "counted", str(tmp_path / "made"), storage.rename_dir

    def fail(source: str, target: str) -> None:
        if source == made:
            raise StorageError("the disk is full")
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "rename_dir", fail)
        with pytest.raises(StorageError, match="the disk is full"):
            disk_commit.replace_published(made, str(folder / "1.0.0"))
    assert len(Counted(count=3, data_dir=tmp_path).as_dataset("train")) == 3

    def killed(source: str, target: str) -> None:
        if "replaced" not in target:
            os._exit(0)
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "rename_dir", killed)
        if (child := os.fork()) == 0:
            disk_commit.replace_published(made, str(folder / "1.0.0"))
        os.waitpid(child, 0)
    (old,) = folder.glob("replaced.*_1.0.0")
    for path in [old, *old.rglob("*")]:
        os.utime(path, (0, 0))
    assert main(["gc", str(tmp_path), "--yes"]) == main(["gc", "--data_dir", str(tmp_path)]) == 0
    old.rename(folder / "1.0.0")
    assert len(Counted(count=3, data_dir=tmp_path).as_dataset("train")) == 3


def test_a_store_has_no_step_that_replaces_a_version() -> None:
    with pytest.raises(BeamDatasetsError, match="only a version on a local disk can be overwritten"):
        disk_commit.beside("memory://overwriting/data/counted/1.0.0").__enter__()


BUILDER = """
import beam_datasets.tfds as tfds


class Config(tfds.core.BuilderConfig):
    pass


class Builder(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=name) for name in ("one", "two")]

    def _info(self):
        return self.dataset_info_from_configs(features=tfds.features.FeaturesDict({"n": tfds.features.Scalar("int64")}))

    def _split_generators(self, dl_manager):
        return {"train": [(n, {"n": n}) for n in range(3)]}
"""


def test_a_directory_with_a_builder_is_a_dataset(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    folder = tmp_path / "my_birds"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "other.py").write_text("class Other(SomeBuilder):\n    pass\n")
    assert main(["build", "--data_dir", "data"]) == 2
    assert "the dataset comes first" in (said := capsys.readouterr().err)
    assert "expected one file with a builder, got none" in said
    assert "--pattern" not in said
    (folder / "a.log").touch()
    (folder / "b.2.csv.gz").touch()
    assert main(["build", "--data_dir", "data"]) == 2
    assert "beam-datasets build csv --name NAME --pattern './*.csv.gz'" in capsys.readouterr().err
    (folder / "my_birds_dataset_builder.py").write_text(BUILDER)
    command = ["--data_dir", str(tmp_path / "data"), "--dry_run"]
    assert main(["build", *command]) == 0
    out = capsys.readouterr().out
    assert "my_birds/one:1.0.0 -> " in out
    assert "This is the default of 2 configs: 'one', 'two'. Build others with --config NAME.\n" in out
    assert main(["build", ".", *command, "--config", "two"]) == 0
    out = capsys.readouterr().out
    assert "my_birds/two:1.0.0 -> " in out
    assert "configs" not in out
    monkeypatch.chdir(tmp_path)
    for spelled in ("my_birds/two", "./my_birds"):
        assert main(["build", spelled, *command]) == 0
        assert "my_birds/" in capsys.readouterr().out
    assert main(["build", "my_birds/two", *command, "--config", "one"]) == 2
    assert "names the config 'two' already" in capsys.readouterr().err


PLANNED = """
import beam_datasets.tfds as tfds


class PlannedTrial(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = tfds.features.FeaturesDict({"c": tfds.features.ClassLabel()})
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager):
        self.info.features["c"].names = (dl_manager.manual_dir / "names.txt").read_text().split()
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        yield 1, {"c": "b"}
"""


def test_a_published_version_is_planned_with_the_options_of_downloads(tmp_path: Path, capsys: Any) -> None:
    """Class names are set anew though the published version has them."""
    (tmp_path / "planned_trial.py").write_text(PLANNED)
    (tmp_path / "manual").mkdir()
    (tmp_path / "manual" / "names.txt").write_text("a b")
    command = ["build", str(tmp_path / "planned_trial.py"), "--data_dir", str(tmp_path / "data"), "--num_workers", "1"]
    command += ["--manual_dir", str(tmp_path / "manual")]
    assert main([*command, "--dry_run"]) == main(command) == main([*command, "--dry_run", "--overwrite"]) == 0
    assert capsys.readouterr().out.count("nothing was built") == 2
    assert main([*command, "--overwrite"]) == 2
    assert "--overwrite: expected --yes to replace the published version" in capsys.readouterr().err
    assert main([*command, "--overwrite", "--yes"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("answer, code", [("y", 0), ("", 2), ("no", 2)])
def test_overwrite_asks_on_a_terminal(tmp_path: Path, answer: str, code: int) -> None:
    (tmp_path / "a.txt").write_text("a line\n")
    command = ["build", "text_lines", "--name", "lines", "--pattern", str(tmp_path / "a.txt"), "--num_workers", "1"]
    command += ["--data_dir", str(tmp_path / "data")]
    assert main(command) == 0
    published = tmp_path / "data" / "lines" / "1.0.0" / "run.json"
    before = published.read_text()
    controller, terminal = pty.openpty()
    program = "import sys; from beam_datasets.cli import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *command, "--overwrite"],
        stdin=terminal,
        stderr=terminal,
        stdout=subprocess.PIPE,
    )
    os.close(terminal)
    os.write(controller, f"{answer}\n".encode())
    process.communicate(timeout=60)
    os.close(controller)
    assert process.returncode == code
    assert (published.read_text() != before) == (code == 0)


def test_a_folder_of_images_is_built_as_the_error_says(tmp_path: Path, capsys: Any) -> None:
    for label in ("cat", "dog"):
        path = tmp_path / "my pets" / label / "1.PNG"
        path.parent.mkdir(parents=True)
        Image.new("L", (2, 3)).save(path)
    assert main(["build", str(tmp_path / "my pets"), "--data_dir", str(tmp_path)]) == 2
    [advised] = re.findall("images by their folders: beam-datasets (.*)$", capsys.readouterr().err, re.MULTILINE)
    assert main([*shlex.split(advised), "--data_dir", str(tmp_path)]) == 2
    assert "expected one in snake case, got 'NAME', which would be looked for as 'name'" in capsys.readouterr().err
    assert main([*shlex.split(advised.replace("NAME", "pets")), "--data_dir", str(tmp_path)]) == 0
    dataset = bd.load("pets", data_dir=tmp_path, split="train")
    assert sorted(dataset.features["label"].int2str(int(example["label"])) for example in dataset) == ["cat", "dog"]
