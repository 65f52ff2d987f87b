"""What an installation without the native module says and does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from beam_datasets.native import INTERFACE

ROOT = Path(__file__).resolve().parents[2]
MISSING = "import sys; sys.modules['beam_datasets.native._core'] = None\n"
READ_TWICE = """
import beam_datasets as bd
from beam_datasets.native import core
builder = bd.builder_from_directory(DIRECTORY)
for _ in range(2):
    print(core is None, len(list(builder.as_dataset("train"))), file=sys.stdout)
"""
GENERATE = """
from beam_datasets.shuffle.block_builder import BlockBuilder
for _ in range(2):
    builder = BlockBuilder("train", bytes, block_size=1)
    print(builder.add(1, b"a"), len(builder.flush().sent.payload))
"""


def run(code: str, native: str | None) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "BEAM_DATASETS_NATIVE"}
    env |= {} if native is None else {"BEAM_DATASETS_NATIVE": native}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=120, check=True, cwd=ROOT
    )


@pytest.fixture(scope="module")
def directory() -> Path:
    return next(ROOT.joinpath("tests/data/tfds").glob("spec_three/*"))


def test_reading_says_once_that_it_is_slow(directory: Path) -> None:
    done = run(MISSING + READ_TWICE.replace("DIRECTORY", repr(str(directory))), None)
    assert done.stdout.split()[::2] == ["True", "True"]
    assert done.stderr.count("NoNativeModuleWarning: beam_datasets has no native module here (it was not built: ") == 1
    assert "Install a C compiler and reinstall" in done.stderr
    assert "BEAM_DATASETS_NATIVE=0" in done.stderr


def test_generating_says_so_too() -> None:
    done = run(MISSING + GENERATE, None)
    assert done.stdout.split() == ["True", "17"] * 2
    assert done.stderr.count("NoNativeModuleWarning") == 1


def test_who_chose_it_hears_nothing(directory: Path) -> None:
    for beginning in ("import sys\n", MISSING):
        done = run(beginning + READ_TWICE.replace("DIRECTORY", repr(str(directory))) + GENERATE, "0")
        assert done.stdout.startswith("True")
        assert not done.stderr


@pytest.mark.parametrize("interface", [None, INTERFACE - 1, INTERFACE + 1])
def test_a_module_of_other_sources_is_left_alone(directory: Path, interface: int | None) -> None:
    """As an older one beside newer Python code, whose functions take other arguments."""
    other = "import sys, types\nother = sys.modules['beam_datasets.native._core'] = types.ModuleType('_core')\n"
    other += "other.chunk = lambda: None\n"
    other += "" if interface is None else f"other.INTERFACE = {interface}\n"
    done = run(other + READ_TWICE.replace("DIRECTORY", repr(str(directory))), None)
    assert done.stdout.split()[::2] == ["True", "True"]
    assert done.stderr.count("(it was built from other sources: install beam_datasets again)") == 1


def test_importing_says_nothing() -> None:
    assert not run(MISSING + "import beam_datasets; beam_datasets.load; beam_datasets.Dataset", None).stderr


@pytest.mark.slow
def test_all_holds_without_the_module() -> None:
    env = os.environ | {"BEAM_DATASETS_NATIVE": "0"}
    tests = ["tests/reading/test_dataset.py", "tests/reading/test_damage.py", "tests/publishing/test_groups.py"]
    selected = ["--hypothesis-profile=few", "-k", "not metadata_file"]  # these are read in Python in any case
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests, *selected]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:]
