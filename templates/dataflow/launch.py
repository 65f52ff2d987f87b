"""The program of a Dataflow Flex Template: runs a `beam-datasets` command with the launcher's arguments.

The image contains this file named after its template: `generate.py` runs `beam-datasets build` on Dataflow.

The launcher starts a program with `--name=value` for each parameter of the template and for each option of Dataflow.
Names in the template's metadata are arguments of the command; all others are options of Beam. The launcher passes each
name once, so the values of a repeatable option are one parameter, separated by semicolons.
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
    """Runs the command of this template, named by the file name, with `sys.argv`; returns its exit code."""
    logging.basicConfig(level=logging.INFO)  # Beam's log names the job
    template = Path(__file__).stem
    metadata = Path(__file__).with_name("metadata") / f"{template}.json"
    parameters = {each["name"]: each for each in json.loads(metadata.read_text(encoding="utf-8"))["parameters"]}
    return main([*COMMANDS[template], *arguments(sys.argv[1:], parameters)])


def arguments(given: Sequence[str], parameters: dict[str, dict[str, str]]) -> Iterator[str]:
    """Converts the launcher's arguments: yields those of the command, then `--no_wait`, `--` and Beam's options.

    Args:
        given: arguments of the launcher, as '--name=value'.
        parameters: {name: parameter} from the template's metadata; other names are Beam's.
    """
    beam = ["--runner=DataflowRunner"]
    for argument in given:
        name, _, value = argument.removeprefix("--").partition("=")
        if name in parameters:
            yield from _command_arguments(name, value, parameters[name].get("paramType", "TEXT"))
        else:
            beam.append(argument)
    yield from ("--no_wait", "--", *beam)


def _command_arguments(name: str, value: str, kind: str) -> Iterator[str]:
    """Yields the command's arguments for a parameter of the template, whose type in the metadata is `kind`.

    `true` becomes an option without a value; other values of a BOOLEAN, and empty values, yield nothing.
    """
    if name == MORE:
        yield from shlex.split(value)
    elif value.lower() == "true" and kind in ("BOOLEAN", "ENUM"):
        yield f"--{name}"
    elif kind == "BOOLEAN":
        return
    elif value:  # forms also send empty fields
        yield from (f"--{name}={part.strip()}" for part in (value.split(";") if name in REPEATED else [value]))


if __name__ == "__main__":
    sys.exit(run())
