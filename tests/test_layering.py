"""Which module may import which, by the imports in its source."""

import ast
import graphlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.imports import EXCEPTIONS, PACKAGE, ROOT, imports, parse, sources, violations


def test_package_keeps_the_import_rule() -> None:
    files = sources("beam_datasets")
    assert len(files) > 10
    found = [v for f in files for v in violations(f.relative_to(PACKAGE).as_posix(), f.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)


def modules() -> dict[str, Path]:
    """Returns the files of the package by the names of their modules."""
    names = {
        path: path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for path in sources("beam_datasets")
    }
    return {name.removesuffix(".__init__"): path for path, name in names.items()}


def imported_modules(path: Path, known: Iterable[str]) -> Iterator[str]:
    """Yields the modules that a file imports, in functions too, but not those that only its annotations name."""

    def visit(node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            submodules = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (module if module in known else str(node.module) for module in submodules)
        elif not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            for child in ast.iter_child_nodes(node):
                yield from visit(child)

    yield from (module for module in visit(parse(path.read_text("utf-8"))) if module in known)


def test_no_files_import_each_other() -> None:
    known = modules()
    graph = {name: {*imported_modules(path, known)} - {name} for name, path in known.items()}
    assert "beam_datasets.features.base" in graph["beam_datasets.features.tensor"]
    graphlib.TopologicalSorter(graph).prepare()  # raises a CycleError, which contains the circle


def test_exceptions_are_in_use() -> None:
    for path, layer in EXCEPTIONS:
        source = (PACKAGE / path).read_text(encoding="utf-8")
        names = {item.name for item in imports(source, "beam_datasets." + path.removesuffix(".py").replace("/", "."))}
        assert any(name.startswith(f"beam_datasets.{layer}") for name in names), f"{path} -> {layer}: unused"


@pytest.mark.parametrize(
    "path, source",
    [
        ("formats/tfrecord.py", "from beam_datasets.storage import exists"),
        ("formats/tfrecord.py", "from ..metadata import keys"),
        ("reading/records.py", "def f():\n    import beam_datasets.shuffle.plan"),
        ("reading/records.py", "from beam_datasets import publishing"),
        ("reading/records.py", "def f():\n    import apache_beam as beam"),
        ("cli/main.py", "import apache_beam as beam"),
        ("cli/main.py", "try:\n    import tqdm\nexcept ImportError:\n    tqdm = None"),
        ("features/image.py", "class Image:\n    import PIL.Image"),
        ("builders.py", "def f():\n    from pipelines import digits"),
        ("helpers.py", "from beam_datasets import errors"),
        ("reading/records.py", "from beam_datasets import helpers"),
        ("reading/records.py", "NAME = 'beam_datasets.shuffle.plan'"),
    ],
)
def test_rule_sees(path: str, source: str) -> None:
    assert violations(path, source)


def test_the_picture_of_the_packages_is_that_of_their_imports() -> None:
    from tests.architecture import PAGE, picture

    assert picture() in PAGE.read_text("utf-8"), "python -m tests.architecture draws it anew"


def test_functions_stay_short() -> None:
    package = sources("beam_datasets", "pipelines")
    long = [problem for path in package for problem in _long_functions(path)]
    assert not long, "\n".join(long)


def test_lines_of_c_stay_short() -> None:
    files = sorted(PACKAGE.glob("native/*.[ch]"))
    assert len(files) > 10
    lines = ((path, i, line) for path in files for i, line in enumerate(path.read_text("utf-8").splitlines(), 1))
    long = [f"{path.relative_to(ROOT)}:{i} has more than 120 columns" for path, i, line in lines if len(line) > 120]
    assert not long, "\n".join(long)


def _long_functions(path: Path) -> Iterator[str]:
    for node in ast.walk(parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (length := _code_lines(node)) > 40:
            yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}() has {length} lines (40 at most)"


def _code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Returns the lines of a function's body, without its docstring and the functions inside it."""
    left_out = [n for n in ast.walk(function) if n is not function and isinstance(n, ast.FunctionDef)]
    docstring = function.body[:1] if ast.get_docstring(function) else []
    lines = set(range(function.body[0].lineno, (function.end_lineno or function.lineno) + 1))
    for node in [*left_out, *docstring]:
        lines -= _span(node)
    return len(lines)


def _span(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def test_no_drawer_modules() -> None:
    drawers = {"utils", "util", "common", "helpers", "helper", "misc"}
    found = [str(path.relative_to(ROOT)) for path in sources("beam_datasets", "pipelines") if path.stem in drawers]
    assert not found, f"{found}: name a module after what it does"
