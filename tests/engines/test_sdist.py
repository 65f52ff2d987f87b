"""What is staged to workers, the source distribution: it is whole, and its workers write what the checkout's write."""

import json
import os
import site
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from beam_datasets.cli import main
from tests.directories import digests
from tests.servers import portable_engine

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
ROWS = 3_000


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The distribution, made as Beam makes it for --setup_file."""
    folder = tmp_path_factory.mktemp("sdist")
    base = folder / "egg_info"
    base.mkdir()
    command = [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", base, "sdist", "--dist-dir", folder / "dist"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (made,) = (folder / "dist").iterdir()
    return made


def install(sdist: Path, folder: Path, **environment: str) -> str:
    """Installs the distribution into an environment of its own, and returns the environment's Python.

    The libraries are those of the environment that runs the tests; where that has the project from the checkout, a
    .pth file leads there, which counts in its own folder only.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "libraries.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "install", "--no-deps"]
    done = subprocess.run(
        [*pip, "--no-build-isolation", "--ignore-installed", "--no-index", sdist],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return str(python)


def places(python: str, cwd: Path) -> tuple[str, str, bool]:
    """Returns the files of the two packages, and whether the native module is there."""
    code = (
        "import json, beam_datasets, beam_datasets.files, beam_datasets.native as native\n"
        "print(json.dumps([beam_datasets.__file__, beam_datasets.files.__file__, native.core is not None]))"
    )
    told = subprocess.run([python, "-c", code], cwd=cwd, check=True, capture_output=True, text=True)
    first, second, native = json.loads(told.stdout)
    return first, second, native


def test_it_has_what_the_packages_have(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    files = (ROOT / "beam_datasets").rglob("*.*")
    built = {".so", ".pyd", ".pyc"}
    wanted = {path.relative_to(ROOT).as_posix() for path in files if path.is_file() and path.suffix not in built}
    left_out = {"beam_datasets/formats/example.proto"}  # the source of example_pb2.py
    assert wanted - names <= left_out
    assert {"setup.py", "pyproject.toml", "README.md", "LICENSE", "beam_datasets/py.typed"} <= names


@pytest.mark.parametrize("compiler", [None, "/bin/false"], ids=["compiler", "no compiler"])
def test_a_wheel_says_which_machines_it_is_for(sdist: Path, tmp_path: Path, compiler: str | None) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--no-build-isolation"]
    environment = os.environ | ({"CC": compiler} if compiler else {})
    subprocess.run([*command, "--no-index", "-w", tmp_path, sdist], check=True, capture_output=True, env=environment)
    (wheel,) = tmp_path.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (about,) = (archive.read(name).decode() for name in names if name.endswith("/WHEEL"))
    binaries = [name for name in names if name.endswith((".so", ".pyd"))]
    is_pure = wheel.name.endswith("-py3-none-any.whl")
    assert is_pure == (not binaries)
    assert f"Root-Is-Purelib: {str(is_pure).lower()}" in about
    assert not (compiler and binaries)
    assert {"beam_datasets/py.typed", "beam_datasets/native/_core.pyi", "beam_datasets/files/csv.py"} <= set(names)
    assert not [name for name in names if name.endswith((".c", ".h"))]


def test_what_an_earlier_build_left_is_in_no_wheel_where_it_cannot_be_built_anew(sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()

    def binaries(**environment: str) -> list[str]:
        command = [sys.executable, "setup.py", "-q", "bdist_wheel", "--dist-dir", tmp_path / "wheels"]
        subprocess.run(command, cwd=source, check=True, capture_output=True, env=os.environ | environment)
        wheel = max((tmp_path / "wheels").iterdir(), key=os.path.getmtime)
        with zipfile.ZipFile(wheel) as archive:
            return [name for name in archive.namelist() if name.endswith((".so", ".pyd"))]

    built = binaries()
    assert binaries(CC="/bin/false") == built  # which is of these sources
    for file in (source / "beam_datasets" / "native").glob("*.c"):
        file.write_text("changed;")
    assert not binaries(CC="/bin/false")
    assert not binaries()


@pytest.mark.parametrize("compiler", [None, "/bin/false"], ids=["compiler", "no compiler"])
def test_its_workers_write_the_same(sdist: Path, tmp_path: Path, compiler: str | None) -> None:
    python = install(sdist, tmp_path / "venv", **({"CC": compiler} if compiler else {}))
    *files, native = places(python, tmp_path)
    assert all(file.startswith(str(tmp_path / "venv")) for file in files)
    assert not (native and compiler)
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(f'{{"id": {row}, "text": "{"x" * (row % 50)}"}}\n' for row in range(ROWS)))
    arguments = ["build", "jsonl", "--pattern", str(source), "--key", "id", "--num_shards", "3", "--data_dir"]
    assert main([*arguments, str(tmp_path / "here"), "--num_workers", "1"]) == 0
    with portable_engine(tmp_path, python=python) as options:
        assert main([*arguments, str(tmp_path / "there"), *options]) == 0
    (here,), (there,) = (list((tmp_path / place / "jsonl").glob("[0-9]*")) for place in ("here", "there"))
    assert digests(there) == digests(here)
