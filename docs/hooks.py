"""Adds the help of every command to reference/options.md, and a label for the search, when the site is built."""

import os
import subprocess
import sys
from typing import Any

from beam_datasets.cli.main import COMMANDS


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Returns the page's text, with the help of the commands behind it if it is the page of options."""
    if page.file.src_uri != "reference/options.md":
        return markdown
    return markdown + "".join(f"\n## {command}\n\n```text\n{_help(command)}```\n" for command in COMMANDS)


def on_post_page(output: str, **_: Any) -> str:
    """Returns the HTML of a page, with a name for the dialog of the search, which screen readers say."""
    return output.replace('role="dialog">', 'role="dialog" aria-label="Search">')


def _help(command: str) -> str:
    arguments = [sys.executable, "-m", "beam_datasets.cli", command, "--help"]
    return subprocess.run(
        arguments, capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": "100"}
    ).stdout
