"""The program of a Flex Template: passes the launcher's arguments to the command that the template is for.

An image has this file under the name of its template: `generate.py` runs `beam-datasets build` on Dataflow.

The launcher starts a program with `--name=value` for each parameter of the template and for each option of Dataflow.
What the template's metadata names is the program's; all the rest is Beam's. A map has each name once, so what the
program takes repeatedly is one parameter here, with semicolons between.
"""

from __future__ import annotations

import json
import logging
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from beam_datasets.beam.main import main

COMMANDS = {"generate": ["build"], "materialize": ["materialize"], "verify": ["verify", "--beam"]}
REPEATED = ("num_shards", "split", "source")
MORE = "options"  # the parameter that holds further arguments, as in a shell


def run() -> int:
    """Runs the template's command with the arguments of this process, and returns its exit code."""
    logging.basicConfig(level=logging.INFO)  # Beam's log names the job
    template = Path(__file__).stem
    metadata = Path(__file__).with_name("metadata") / f"{template}.json"
    parameters = {each["name"]: each for each in json.loads(metadata.read_text(encoding="utf-8"))["parameters"]}
    return main([*COMMANDS[template], *arguments(sys.argv[1:], parameters)])


def arguments(given: Sequence[str], parameters: dict[str, dict[str, str]]) -> Iterator[str]:
    """Yields a program's arguments for those that the launcher passes.

    Args:
        given: as '--name=value'.
        parameters: {name: parameter} of the template's metadata.
    """
    beam = ["--runner=DataflowRunner"]
    for argument in given:
        name, _, value = argument.removeprefix("--").partition("=")
        if name in parameters:
            yield from _ours(name, value, parameters[name].get("paramType", "TEXT"))
        else:
            beam.append(argument)
    yield from ("--no_wait", "--", *beam)


def _ours(name: str, value: str, kind: str) -> Iterator[str]:
    """Yields the arguments of the command for a parameter; an option that needs no value for `true`."""
    if name == MORE:
        yield from shlex.split(value)
    elif value.lower() == "true" and kind in ("BOOLEAN", "ENUM"):
        yield f"--{name}"
    elif kind == "BOOLEAN":
        return
    elif value:  # a form sends what was left empty
        yield from (f"--{name}={part.strip()}" for part in (value.split(";") if name in REPEATED else [value]))


if __name__ == "__main__":
    sys.exit(run())
