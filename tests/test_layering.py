"""Which module may import which, by the imports in its source."""

import ast
import graphlib
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "beam_datasets"

# First to last; packages of one tuple do not import each other. docs/explanation/architecture.md says what is in each.
LAYERS = (
    ("_version", "arguments", "errors", "foreign_names", "frames", "helper_process", "native"),
    ("advice", "environment", "extras"),
    ("storage", "formats"),
    ("intake",),
    ("downloads", "features"),
    ("decode", "display"),
    ("metadata",),
    ("catalog",),
    ("adapters",),
    ("reading",),
    ("diffing", "slim", "statistics", "verifying"),
    ("generate",),
    ("adopting", "materializing"),
    ("exporting",),
    ("beam",),
    ("builders", "jobs"),
    ("files", "tfds"),
    ("testing",),
    ("cli",),
)
RANK = {layer: rank for rank, layers in enumerate(LAYERS) for layer in layers}

# Imports inside functions of later layers, allowed on purpose: (file, imported layer) -> why.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("beam/main.py", "cli"): "the command for launchers that start a module",
    ("tfds.py", "testing"): "names of tfds.testing, which tests alone import",
}

# Packages whose types an earlier one names under `if TYPE_CHECKING:`.
TYPES = {("adapters", "reading"), ("beam", "builders")}

# Loaded by `import beam_datasets`; everything else from outside the standard library waits inside a function.
BASE = {"numpy", "google", "crc32c"}
BEAM = {"apache_beam", "grpc"}  # what Beam brings along stands where Beam may
BEAM_AT_TOP = ("beam/",)
BEAM_IN_FUNCTIONS = (*BEAM_AT_TOP, "files/", "intake/", "cli/", "builders.py")


class Import(NamedTuple):
    """One imported module: its full name, the line, and whether it happens when the importing module is loaded."""

    name: str
    line: int
    at_top: bool
    for_typing: bool


def imports(source: str, module: str, *, is_package: bool = False) -> Iterator[Import]:
    """Yields every import of a module's source, those inside functions and `if TYPE_CHECKING` included."""

    def visit(node: ast.AST, at_top: bool, for_typing: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno, at_top, for_typing) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (Import(n, node.lineno, at_top, for_typing) for n in _targets(node, module, is_package))
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.body:
                yield from visit(child, at_top, True)
            for child in node.orelse:
                yield from visit(child, at_top, for_typing)
        else:
            text = node.value if isinstance(node, ast.Constant) else ""
            if isinstance(text, str) and re.fullmatch(rf"beam_datasets\.({'|'.join(RANK)})(\.\w+)*\.?", text):
                yield Import(text.rstrip("."), node.lineno, False, for_typing)  # by importlib
            inside = at_top and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            for child in ast.iter_child_nodes(node):
                yield from visit(child, inside, for_typing)

    yield from visit(ast.parse(source), True, False)


def _targets(node: ast.ImportFrom, module: str, is_package: bool) -> Iterator[str]:
    base = node.module or ""
    if node.level:
        parts = module.split(".")
        kept = parts[: len(parts) - node.level + is_package]
        base = ".".join([*kept, base] if base else kept)
    if base in ("beam_datasets", "pipelines"):  # `from beam_datasets import errors` imports a layer
        yield from (f"{base}.{alias.name}" for alias in node.names)
    else:
        yield base


def layer_of(path: str) -> str:
    """Returns the layer of a file of the package, or of a dotted module below `beam_datasets`."""
    return path.replace("/", ".").removesuffix(".py").split(".")[0]


def violations(path: str, source: str) -> list[str]:
    """Returns what a file (its path below beam_datasets/) does against the import rule."""
    module = "beam_datasets." + path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    found = []
    for item in imports(source, module, is_package=path.endswith("__init__.py")):
        top, _, rest = item.name.partition(".")
        if top == "beam_datasets":
            problem = _wrong_layer(path, rest, item)
        elif top == "pipelines":
            problem = "nothing imports pipelines"
        else:
            problem = _wrong_package(path, top, item)
        if problem:
            found.append(f"beam_datasets/{path}:{item.line} imports {item.name}: {problem}")
    return found


def _wrong_layer(path: str, imported: str, item: Import) -> str:
    here, there = layer_of(path), layer_of(imported)
    if path == "__init__.py" or here == there or there not in RANK:
        return "" if path == "__init__.py" or there in RANK else f"{there!r} is not in docs/explanation/architecture.md"
    if here not in RANK:
        return f"{here!r} is not in docs/explanation/architecture.md"
    if item.for_typing and (here, there) in TYPES:
        return ""
    if RANK[there] < RANK[here] or ((path, there) in EXCEPTIONS and not item.at_top):
        return ""
    return f"{there} is not a layer before {here}"


def _wrong_package(path: str, package: str, item: Import) -> str:
    if package in sys.stdlib_module_names or package in BASE or item.for_typing:
        return ""
    if package in BEAM:
        allowed = BEAM_AT_TOP if item.at_top else BEAM_IN_FUNCTIONS
        return "" if path.startswith(allowed) else "Beam belongs to beam/, files/, intake/ and functions of cli/"
    return "an optional package is imported inside the function that needs it" if item.at_top else ""


def sources(*folders: str) -> list[Path]:
    """Returns the Python files that people wrote in folders of the checkout."""
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in files if not path.name.endswith("_pb2.py")]


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

    yield from (module for module in visit(ast.parse(path.read_text("utf-8"))) if module in known)


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
        ("reading/records.py", "def f():\n    import beam_datasets.generate.plan"),
        ("reading/records.py", "from beam_datasets import generate"),
        ("reading/records.py", "def f():\n    import apache_beam as beam"),
        ("cli/main.py", "import apache_beam as beam"),
        ("cli/main.py", "try:\n    import tqdm\nexcept ImportError:\n    tqdm = None"),
        ("features/image.py", "class Image:\n    import PIL.Image"),
        ("builders.py", "def f():\n    from pipelines import digits"),
        ("helpers.py", "from beam_datasets import errors"),
        ("reading/records.py", "from beam_datasets import helpers"),
        ("reading/records.py", "NAME = 'beam_datasets.generate.plan'"),
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
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
