"""Draws the imports between packages as a Mermaid graph; `python -m tests.architecture` updates it in the docs."""

from __future__ import annotations

import re
from pathlib import Path

from tests.imports import EXCEPTIONS, PACKAGE, imports, layer_of, sources

PAGE = PACKAGE.parent / "docs" / "explanation" / "architecture.md"
# Packages that nearly every other one imports would hide the structure.
LEFT_OUT = {"__init__", "__main__", "advice", "arguments", "environment", "errors", "error_list", "extras"}
LEFT_OUT |= {"foreign_names", "frames"}
_GRAPH = re.compile(r"^```mermaid\n.*?^```$", re.MULTILINE | re.DOTALL)


def import_edges() -> dict[str, set[str]]:
    """Returns package -> packages that it imports; without imports for typing, EXCEPTIONS and LEFT_OUT."""
    edges: dict[str, set[str]] = {}
    for path in sources("beam_datasets"):
        file = path.relative_to(PACKAGE).as_posix()
        module = f"beam_datasets.{file.removesuffix('.py').replace('/', '.')}"
        is_package = path.name == "__init__.py"
        for item in imports(path.read_text("utf-8"), module.removesuffix(".__init__"), is_package=is_package):
            top, _, rest = item.name.partition(".")
            if top == "beam_datasets" and not item.for_typing and (file, layer_of(rest)) not in EXCEPTIONS:
                edges.setdefault(layer_of(file), set()).add(layer_of(rest))
    packages = edges.keys() - LEFT_OUT
    return {name: (edges[name] & packages) - {name} for name in packages}


def without_shortcuts(edges: dict[str, set[str]]) -> dict[str, set[str]]:
    """Returns the transitive reduction of an acyclic graph: without edges that a longer path makes redundant."""

    def descendants(name: str) -> set[str]:
        return edges[name].union(*map(descendants, edges[name]))

    return {name: targets - set().union(*map(descendants, targets)) for name, targets in edges.items()}


def picture() -> str:
    """Returns the graph as a fenced Mermaid block, in a stable order."""
    edges = without_shortcuts(import_edges())
    lines = [f"    {name} --> {target}" for name in sorted(edges) for target in sorted(edges[name])]
    return "\n".join(["```mermaid", "graph TD", *lines, "```"])


def write(page: Path = PAGE) -> None:
    """Replaces the graph in the page by the current one."""
    page.write_text(_GRAPH.sub(lambda _: picture(), page.read_text("utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()
