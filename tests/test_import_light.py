"""What `import beam_datasets` loads, seen in a fresh process."""

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import beam_datasets
from beam_datasets import extras

ROOT = Path(__file__).resolve().parents[1]
HEAVY = (
    "apache_beam",
    "tensorflow",
    "tensorflow_datasets",
    "torch",
    "jax",
    "grain",
    "obstore",
    "fsspec",
    "PIL",
    "imagecodecs",
    "pandas",
    "pyarrow",
    "sklearn",
    "scipy",
    "tqdm",
)


NEED_BEAM = ("beam_datasets.beam", "beam_datasets.engines", "beam_datasets.testing")


def loaded_by(statement: str) -> set[str]:
    """Returns the top-level names of the modules that a statement loads in a new interpreter."""
    code = (
        "import sys, json\n"
        "before = set(sys.modules)\n"
        f"{statement}\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def light_modules() -> list[str]:
    """Returns every module of the package that may not need Beam when it is loaded."""
    files = sorted((ROOT / "beam_datasets").rglob("*.py"))
    names = [".".join(f.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for f in files]
    return [name for name in names if not name.startswith(NEED_BEAM)]


@pytest.mark.parametrize(
    "statement",
    [
        "import beam_datasets",
        "import " + ", ".join(light_modules()),
    ],
)
def test_loads_nothing_heavy(statement: str) -> None:
    loaded = loaded_by(statement)
    assert "beam_datasets" in loaded
    assert not loaded.intersection(HEAVY)


def test_probe_sees_what_is_loaded() -> None:
    assert "wave" in loaded_by("import beam_datasets, wave")


def test_each_public_name_is_where_the_table_has_it() -> None:
    for name in beam_datasets.__all__:
        assert getattr(beam_datasets, name) is not None, name
    assert set(beam_datasets.__all__) <= set(dir(beam_datasets))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        beam_datasets.nothing  # noqa: B018


def test_a_misspelt_public_name_is_hinted_once() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'materialise'. Did you mean 'materialize'"):
        beam_datasets.materialise  # noqa: B018
    code = "import beam_datasets as bd; bd.buildr"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.stderr.count("Did you mean") == 1


def test_errors_name_the_checkout_to_install_from(monkeypatch, tmp_path):
    """No index has the package, so that its name alone would not be found, or would be another's."""
    package = tmp_path / "my checkout" / "beam_datasets"
    monkeypatch.setattr(extras, "__file__", str(package / "extras.py"))
    assert extras.install_command("image") == "pip install 'beam_datasets[image]'"
    package.mkdir(parents=True)
    (package.parent / "setup.py").touch()
    assert extras.install_command("image") == f"pip install -e '{package.parent}[image]'"


@pytest.mark.parametrize(
    "name", ["beam_datasets", "beam_datasets.features", "beam_datasets.beam", "beam_datasets.decode"]
)
def test_public_namespaces_have_no_names_of_others(name: str) -> None:
    """Such as `Any` of typing, which an editor would propose as a feature."""
    module = importlib.import_module(name)
    for other in ("Any", "TYPE_CHECKING", "annotations", "importlib", "PathFinder", "instead_of"):
        assert other not in dir(module)
        with pytest.raises(AttributeError, match=f"has no attribute {other!r}"):
            getattr(module, other)


def test_the_package_runs_as_the_command() -> None:
    command = [sys.executable, "-m", "beam_datasets", "--version"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.startswith("beam_datasets ")


def test_a_module_that_does_not_exist_is_an_error_of_that_kind():
    with pytest.raises(ModuleNotFoundError, match="no 'plugins'"):
        importlib.import_module("beam_datasets.plugins")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("beam_datasets.plugins.more")


def test_an_older_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout on PYTHONPATH is imported by any Python: one that can parse the first module reports the version."""
    source = (ROOT / "beam_datasets" / "__init__.py").read_text()
    compile(ast.parse(source, feature_version=(3, 8)), "__init__.py", "exec")
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    with pytest.raises(ImportError, match="beam_datasets needs Python 3.11 or later"):
        exec(source, {"__name__": "beam_datasets", "__path__": beam_datasets.__path__})
