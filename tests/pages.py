"""Runs the code of a documentation page, from top to bottom, in the current directory: `python tests/pages.py PAGE`.

Commands are those of this Python's environment, or, if a second argument names a folder, of that first.

What a fenced block is follows from its first line:

    python title="NAME" the file of that name
    python              a program; with `>>>` an interactive session, whose output is compared
    sh                  commands
    console             commands behind `$ `, and what they print, which is compared

Blocks share their variables. In what is compared, `...` stands for anything, and times in seconds are all the same.
"""

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_BLOCK = re.compile(r'^```(\w+)(?: title="(\S+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_SECONDS = re.compile(r"\b\d+\.\d+ s\b")
_OPTIONS = doctest.ELLIPSIS


class Block(NamedTuple):
    """A fenced block of a page: its language, the file that it is, where it is one, its text, and its first line."""

    language: str
    file: str
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    """Yields the blocks of a page that have a language."""
    content = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(content):
        yield Block(*found.groups(default=""), content.count("\n", 0, found.start()) + 2)


def run(page: Path) -> None:
    """Runs a page.

    Raises:
        AssertionError: something else was printed than the page shows.
    """
    variables: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.file:
            Path(block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "python" and ">>> " in block.text:
            _run_session(block, page, variables)
        elif block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.text, page, "exec"), variables)
        elif block.language == "sh":
            for command in block.text.splitlines():
                _run_command(command, check=True)
        elif block.language == "console":
            _compare(block, page)


def _run_session(block: Block, page: Path, variables: dict[str, Any]) -> None:
    session = doctest.DocTestParser().get_doctest(block.text, variables, page.name, str(page), block.line - 1)
    runner = doctest.DocTestRunner(optionflags=_OPTIONS)
    runner.run(session, clear_globs=False)
    variables.update(session.globs)
    assert not runner.summarize(verbose=False).failed, f"{page.name}, line {block.line}"


def _compare(block: Block, page: Path) -> None:
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        got = _run_command(command)
        same = doctest.OutputChecker().check_output(_normal(expected), _normal(got), _OPTIONS)
        assert same, f"{page.name}, line {block.line}: {command}\nprinted\n{got}\nbut the page has\n{expected}"


# What a run that takes longer than 2 s says, on a slow machine.
_PROGRESS = re.compile(
    r"^(?:Apache Beam is being imported|the source is being read; no example is encoded yet(?:; .*)?"
    r"|[\d,]+ examples encoded, .*|[\d,]+ shards? written, .*)\n",
    re.M,
)


def leave_out_progress(output: str) -> str:
    """Returns the output of a command without the lines that only a run on a slow machine prints."""
    return _PROGRESS.sub("", output)


def _normal(text: str) -> str:
    return _SECONDS.sub("0.0 s", text).rstrip() + "\n"


def _run_command(command: str, *, check: bool = False) -> str:
    """Returns what a command prints."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}  # so that errors come where they belong
    done = subprocess.run(
        command,
        shell=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert not check or done.returncode == 0, done.stdout
    return leave_out_progress(done.stdout)


if __name__ == "__main__":
    sys.path.insert(0, "")  # files of the page can be imported
    os.environ["PATH"] = os.pathsep.join([*sys.argv[2:], str(Path(sys.executable).parent), os.environ["PATH"]])
    run(Path(sys.argv[1]))
