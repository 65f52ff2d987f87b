"""Runs the cells of a notebook as Jupyter does: `python -m tests.notebooks NOTEBOOK` runs it and keeps its outputs."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

METADATA = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """Returns the notebook with the outputs of its cells, which are run in the current directory."""
    variables: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    for number, cell in enumerate(notebook["cells"]):
        kept = {"cell_type": cell["cell_type"], "id": f"cell-{number}", "metadata": {}, "source": cell["source"]}
        if cell["cell_type"] == "code":
            count += 1
            kept |= {"execution_count": count, "outputs": _outputs("".join(cell["source"]), variables, count)}
        cells.append(kept)
    return {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def _outputs(source: str, variables: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Returns what a cell prints, and the value of its last line if that is an expression."""
    tree = ast.parse(source)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"<cell {count}>", "exec"), variables)
        value = eval(compile(last, f"<cell {count}>", "eval"), variables) if last else None
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        html = getattr(value, "_repr_html_", None)  # beside it the text, which may name directories, is left out
        data = {"text/html": _lines(str(html()))} if html else {"text/plain": _lines(repr(value))}
        outputs.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main(path: Path) -> None:
    """Runs a notebook in a temporary directory, and writes it with its outputs."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            finished = run(notebook)
        finally:
            os.chdir(here)
    path.write_text(json.dumps(finished, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
