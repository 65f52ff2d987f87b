"""The notebook of the documentation runs from top to bottom, and has the outputs that it shows."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOUR = ROOT / "docs" / "tutorial" / "tour.ipynb"

# Of images that are encoded, which depend on the version of the codec library, and of sizes that follow from them.
_VARYING = re.compile(r"(?<=base64,)[\w+/=]+|(?<=digest )[0-9a-f]+|[\d.]+ [KM]?i?B\b")


def outputs(path: Path) -> list[Any]:
    """Returns the outputs of the cells of a notebook, without what depends on versions of libraries."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [json.loads(_VARYING.sub("?", json.dumps(cell["outputs"]))) for cell in cells if "outputs" in cell]


@pytest.mark.slow
def test_the_tour_runs_and_shows_its_outputs(tmp_path: Path) -> None:
    copy = tmp_path / TOUR.name
    shutil.copy(TOUR, copy)
    command = [sys.executable, "-m", "tests.notebooks", str(copy)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert outputs(copy) == outputs(TOUR), "write the outputs with: python -m tests.notebooks docs/tutorial/tour.ipynb"


def test_the_tour_has_outputs_and_links_that_exist() -> None:
    shown = json.dumps(outputs(TOUR))
    assert shown.count("<table>") > 5
    assert "Traceback" not in shown
    for link in re.findall(r"\]\(([^)#]+\.md)\)", TOUR.read_text(encoding="utf-8")):
        assert (TOUR.parent / link).is_file(), link


def test_the_site_shows_the_tour_as_a_page() -> None:
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "docs" / "hooks.py")
    assert spec
    assert spec.loader
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    notebook = json.loads(TOUR.read_text(encoding="utf-8"))
    page = hooks.page_of(notebook)
    assert page.startswith("# A tour\n\nThis page is also a [notebook](tour.ipynb) to run.\n\n")
    shown = [text for cell in notebook["cells"] for text in ["".join(cell["source"]), *outputs_of(cell)]]
    assert all(text.removeprefix("# A tour\n") in page for text in shown)
    blocks = [line for line in page.splitlines() if line.startswith('<div class="output"')]
    assert len(blocks) == sum("text/html" in str(cell.get("outputs")) for cell in notebook["cells"]) > 3
    assert all(block.endswith("</div>") for block in blocks)  # an empty line would end it, and show the rest as text


def outputs_of(cell: Any) -> list[str]:
    """Returns the texts of a cell's outputs, as HTML where there is some."""
    texts = []
    for output in cell.get("outputs", ()):
        data = output.get("data", {"text/plain": output.get("text")})
        texts.append("".join(data.get("text/html") or data["text/plain"]).rstrip())
    return texts
