"""`build --trial`, `build --overwrite`, and `build` in the directory of a builder."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

import beam_datasets as bd
from beam_datasets.cli.main import main
from beam_datasets.errors import BeamDatasetsError
from beam_datasets.generate import publish

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
    assert "Nothing was published" in said
    assert not (tmp_path / "data").exists()
    assert main([*command, "--trial", "0"]) == 2
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
    inode = shard.stat().st_ino
    build(3)
    assert shard.stat().st_ino == inode  # the same bytes
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


def test_a_store_has_no_step_that_replaces_a_version() -> None:
    with pytest.raises(BeamDatasetsError, match="only a version on a local disk can be overwritten"):
        publish.beside("memory://overwriting/data/counted/1.0.0").__enter__()


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
    (folder / "my_birds_dataset_builder.py").write_text(BUILDER)
    command = ["--data_dir", str(tmp_path / "data"), "--dry_run"]
    assert main(["build", *command]) == 0
    assert "my_birds/one:1.0.0 -> " in capsys.readouterr().out
    assert main(["build", ".", *command, "--config", "two"]) == 0
    assert "my_birds/two:1.0.0 -> " in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    for spelled in ("my_birds/two", "./my_birds"):
        assert main(["build", spelled, *command]) == 0
        assert "my_birds/" in capsys.readouterr().out
    assert main(["build", "my_birds/two", *command, "--config", "one"]) == 2
    assert "names the config 'two' already" in capsys.readouterr().err
