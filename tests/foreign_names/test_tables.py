"""The tables of foreign names: public names of other libraries lead on, and what the tables say can be written."""

from __future__ import annotations

import ast
import collections
import importlib
import importlib.util
import inspect
import re
import shlex
from typing import Any

import pytest

from beam_datasets import advice, foreign_names
from beam_datasets.cli.main import COMMANDS
from tests.files.in_process import option_names
from tests.foreign_api import NAMES


@pytest.mark.parametrize("receiver, library", [(r, library) for r, of in NAMES.items() for library in of])
def test_each_public_name_of_other_libraries(names: dict[str, Any], receiver: str, library: str) -> None:
    unknown = [name for name in NAMES[receiver][library].split() if not _leads_on(names[receiver], receiver, name)]
    assert not unknown


def _leads_on(target: Any, receiver: str, name: str) -> bool:
    """Returns whether an object has a name, or its table, or it is a module of the package."""
    if name in dir(target) or name in advice._table(receiver):
        return True
    try:
        return receiver == "bd" and importlib.util.find_spec(f"beam_datasets.{name}") is not None
    except ImportError:
        return False


def test_names_that_exist_are_none_of_other_libraries(names: dict[str, Any]) -> None:
    assert not _leads_on(names["ds"], "ds", "anything_else")
    assert not hasattr(names["ds"], "num_rows")
    assert not hasattr(names["stream"], "set_epoch")  # by which Accelerate and others ask for an ability


TABLES = {**foreign_names.ATTRIBUTES, **foreign_names.ARGUMENTS, "command": foreign_names.COMMANDS}
TABLES |= {f"format to {use}": table for use, table in foreign_names.FORMATS.items()}


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_each_name_once(table: str) -> None:
    counts = collections.Counter(name for key in TABLES[table] for name, _ in advice._rows_of({key: ""}))
    assert not [name for name, count in counts.items() if count > 1]


@pytest.mark.parametrize("table", TABLES)
def test_what_the_tables_say_can_be_written(names: dict[str, Any], table: str) -> None:
    """Code in advice is Python or a command, and names what exists."""
    fields = {"ds": "ds", "info": "info", "stream": "stream", "iterator": "iterator", "builder": "builder"}
    for name, row in advice.rows_of({key: text.replace(" {args}", "") for key, text in TABLES[table].items()}).items():
        sentence = advice._sentence(row, {**fields, "name": name} if table in foreign_names.ATTRIBUTES else fields)
        for code in re.findall(r"`([^`]+)`", sentence):
            if code.startswith("--") or (table == "command" and " " not in code):
                continue  # options are tested by tests/cli/test_foreign_commands.py
            if code.startswith("beam-datasets"):
                command, *words = shlex.split(code)[1:]
                assert command in COMMANDS, code
                if command == "build" and words and words[0].isidentifier() and words[0].islower():
                    options = {word for word in words if word.startswith("--")} - {"--data_dir"}
                    assert options <= option_names(words[0]), code
            elif not code.startswith(("import ", "from ", "for ", "with ")):
                _check(ast.parse(code), _Names(names))


def _check(tree: ast.AST, names: dict[str, Any]) -> None:
    """Checks that what code names of the package and of its objects exists, and takes such arguments."""
    for node in ast.walk(tree):
        path = ast.unparse(node.func if isinstance(node, ast.Call) else node)
        if not re.fullmatch(r"(bd|ds|info|iterator|builder|stream)(\.\w+)+", path):
            continue
        found = eval(path, {}, names)
        if isinstance(node, ast.Call):
            given = [arg for arg in node.args if ast.unparse(arg) != "..."]
            inspect.signature(found).bind_partial(*given, **{keyword.arg: None for keyword in node.keywords})


class _Names(dict[str, Any]):
    """Names of a guess; others, which stand for what the caller has, are None."""

    def __missing__(self, name: str) -> None:
        return None
