"""Adds pages to the site when it is built: the tour from its notebook, and the help of every command."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from beam_datasets.cli.main import COMMANDS

NOTEBOOK = Path(__file__).parent / "tutorial" / "tour.ipynb"
TOUR = "tutorial/tour.md"


def on_config(config: Any) -> Any:
    """Adds the tour to the navigation."""
    start = next(item["Start"] for item in config.nav if "Start" in item)
    start.insert(1, TOUR)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the page of the tour."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, TOUR, content=page_of(json.loads(NOTEBOOK.read_text(encoding="utf-8")))))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Returns the page's text, with links to the page of the tour; that of options has the help of commands, too."""
    if page.file.src_uri == TOUR:
        return markdown
    markdown = markdown.replace("tutorial/tour.ipynb)", f"{TOUR})")
    if page.file.src_uri != "reference/options.md":
        return markdown
    return markdown + "".join(f"\n## {command}\n\n```text\n{_help(command)}```\n" for command in COMMANDS)


def on_post_page(output: str, **_: Any) -> str:
    """Returns the HTML of a page, with a name for the dialog of the search, which screen readers say."""
    return output.replace('role="dialog">', 'role="dialog" aria-label="Search">')


def page_of(notebook: Any) -> str:
    """Returns a notebook, an object of JSON, as Markdown: its texts, its code, and the outputs of the code."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += map(_output, cell.get("outputs", ()))
    title, _, rest = "\n\n".join(parts).partition("\n")
    return f"{title}\n\nThis page is also a [notebook]({NOTEBOOK.name}) to run.\n\n{rest.lstrip()}\n"


def _output(output: Any) -> str:
    """Returns an output of a cell as Markdown; a table scrolls where it is wider than the window."""
    data = output.get("data", {})
    if "text/html" in data:
        html = "".join(data["text/html"])
        return f'<div class="output" role="region" aria-label="Output" tabindex="0">{html}</div>'
    text = "".join(data["text/plain"] if data else output["text"])
    return f"```text\n{text.rstrip()}\n```"


def _help(command: str) -> str:
    arguments = [sys.executable, "-m", "beam_datasets.cli", command, "--help"]
    return subprocess.run(
        arguments, capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": "100"}
    ).stdout
