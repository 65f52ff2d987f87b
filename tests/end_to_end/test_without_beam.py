"""`materialize` and `export` run without Beam, and write the same bytes as with it."""

import json
import site
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import beam_datasets as bd
from tests.directories import contents
from tests.reading.conftest import write_dataset

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("numpy", "google", "crc32c", "pyarrow")

RUN = """
import json, sys
import beam_datasets as bd

for name, arguments in json.load(sys.stdin):
    getattr(bd, name)(**arguments)
assert not [name for name in sys.modules if name.split(".")[0] in ("apache_beam", "grpc")]
try:
    import apache_beam
except ImportError:
    print("done")
"""

FILTER = """
def even(example):
    return example["id"] % 2 == 0
"""

MATERIALIZED: dict[str, dict[str, Any]] = {
    "copy": {"num_shards": {"train": 3}},
    "slice": {"split": {"a": "train[10%:]", "b": "test+train[:7]"}},
    "chosen": {"split": "train", "filter": "filters:even", "features": ["id", "key"]},
    "bare": {"source": "bare", "split": "train[3:]"},
    "shuffled": {"split": {"both": "train+test"}, "reshuffle": "pepper", "num_shards": 4, "block_size": 1000},
    "shuffled_bare": {"source": "bare", "reshuffle": "salt", "payload": "inline", "filter": "filters:even"},
}
EXPORTED = {"parquet": {"split": "train[:50%]"}, "jsonl": {"num_shards": 2, "features": ["id"]}}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data_dir with the datasets `src` and, without indexes, `bare`; and a module of filters."""
    root = tmp_path_factory.mktemp("data")
    write_dataset(root / "src" / "1.0.0", {"train": [120, 3, 0, 77], "test": [30]}, manifest=True)
    write_dataset(root / "bare" / "1.0.0", {"train": [50, 20]}, indexed=False)
    (root / "filters.py").write_text(FILTER)
    return root


def calls(source: Path, target: Path, **engine: Any) -> list[tuple[str, dict[str, Any]]]:
    """Returns the functions to call and their arguments."""
    made = []
    for name, asked in MATERIALIZED.items():
        directory = source / asked.get("source", "src") / "1.0.0"
        made.append(("materialize", {**asked, "source": f"{directory}", "to": name, "data_dir": f"{target}", **engine}))
    for name, asked in EXPORTED.items():
        out = f"{target / name}"
        made.append(("export", {**asked, "source": f"{source / 'src' / '1.0.0'}", "to": out, "format": name, **engine}))
    return made


def published(root: Path) -> dict[str, bytes]:
    """Returns the contents of all files but the reports of runs."""
    return {name: data for name, data in contents(root).items() if not name.endswith("run.json")}


@pytest.mark.filterwarnings("ignore:.*not in hash order:UserWarning")
@pytest.mark.slow
def test_the_same_bytes_without_beam(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Export and materialize run without Beam, in an interpreter that has the base packages alone."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for installed in map(Path, site.getsitepackages()):
        for found in installed.iterdir():
            name = found.name.partition("-")[0]  # a package, its libraries, or what describes it
            if name.partition(".")[0] in PACKAGES:
                (packages / found.name).symlink_to(found)
    (packages / "beam_datasets").symlink_to(ROOT / "beam_datasets")
    (tmp_path / "with").mkdir()
    done = subprocess.run(
        [sys.executable, "-S", "-c", RUN],
        input=json.dumps(calls(source, tmp_path / "without")),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={"PYTHONPATH": f"{packages}:{source}", "PATH": ""},
    )
    assert done.stdout == "done\n", done.stderr
    monkeypatch.syspath_prepend(source)
    for name, arguments in calls(source, tmp_path / "with", num_workers=1):
        getattr(bd, name)(**arguments)
    found = published(tmp_path / "without")
    assert found == published(tmp_path / "with")
    assert len(found) > 40
    run = json.loads((tmp_path / "without" / "copy" / "1.0.0" / "run.json").read_text())
    assert run["runner"] == "in process"


@pytest.mark.parametrize("asked", [{"num_workers": 2}, {"beam_options": ["--runner=FnApiRunner"]}])
def test_what_needs_beam_says_so(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    """A runner or workers are asked for, and Beam is not installed."""
    for module in [name for name in sys.modules if name.startswith(("beam_datasets.beam", "apache_beam"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.delattr(bd, "beam", raising=False)
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    directory = source / "src" / "1.0.0"
    for call in (
        lambda: bd.materialize(directory, split="train", to="x", data_dir=tmp_path, **asked),
        lambda: bd.export(directory, tmp_path / "out", "jsonl", **asked),
    ):
        with pytest.raises(bd.errors.MissingDependencyError, match="needs Apache Beam: pip"):
            call()
    assert not list(tmp_path.iterdir())
