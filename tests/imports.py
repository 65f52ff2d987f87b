"""The import rule of the package: its layers, the imports of a file, and what they do against the rule."""

import ast
import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "beam_datasets"

# First to last; packages of one tuple do not import each other. docs/explanation/architecture.md says what is in each.
LAYERS = (
    ("passwords",),
    ("_version", "arguments", "errors", "foreign_names", "frames", "helper_process", "native"),
    ("advice", "environment", "error_list", "extras", "limits"),
    ("storage", "formats"),
    ("intake",),
    ("downloads", "features"),
    ("decode", "display"),
    ("metadata",),
    ("catalog",),
    ("adapters",),
    ("reading",),
    ("diffing", "slim", "statistics", "verifying"),
    ("options",),
    ("shuffle",),
    ("sources",),
    ("publishing",),
    ("execute",),
    ("adopting", "materializing"),
    ("exporting",),
    ("engines",),
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
TYPES = {("adapters", "reading"), ("beam", "builders"), ("options", "publishing"), ("options", "sources")}

# Loaded by `import beam_datasets`; everything else from outside the standard library waits inside a function.
BASE = {"numpy", "google", "crc32c"}
BEAM = {"apache_beam", "grpc"}  # what Beam brings along stands where Beam may
BEAM_AT_TOP = ("beam/", "engines/")
BEAM_IN_FUNCTIONS = (*BEAM_AT_TOP, "files/", "intake/", "cli/", "builders/")


class Import(NamedTuple):
    """One imported module: its full name, the line, and whether it happens when the importing module is loaded."""

    name: str
    line: int
    at_top: bool
    for_typing: bool


@functools.cache
def parse(source: str) -> ast.Module:
    """Parses a source; several tests share the tree, so they must not change it."""
    return ast.parse(source)


def imports(source: str, module: str, *, is_package: bool = False) -> Iterator[Import]:
    """Yields every import of a module's source, those inside functions and `if TYPE_CHECKING` included."""

    named = re.compile(rf"beam_datasets\.({'|'.join(RANK)})(\.\w+)*\.?")

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
            if isinstance(text, str) and named.fullmatch(text):
                yield Import(text.rstrip("."), node.lineno, False, for_typing)  # by importlib
            inside = at_top and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            for child in ast.iter_child_nodes(node):
                yield from visit(child, inside, for_typing)

    yield from visit(parse(source), True, False)


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
    is_package_itself = path in ("__init__.py", "__main__.py")
    if is_package_itself or here == there or there not in RANK:
        return "" if is_package_itself or there in RANK else f"{there!r} is not in docs/explanation/architecture.md"
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
        return "" if path.startswith(allowed) else "Beam belongs to engines/, beam/, files/, intake/ and functions"
    return "an optional package is imported inside the function that needs it" if item.at_top else ""


def sources(*folders: str) -> list[Path]:
    """Returns the Python files that people wrote in folders of the checkout."""
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in files if not path.name.endswith("_pb2.py")]
