"""From the arguments that the launcher of a Flex Template passes to those of this project's programs.

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

REPEATED = ("num_shards", "split", "source")
MORE = "options"  # the parameter that holds further arguments, as in a shell


def run(template: str, *command: str) -> int:
    """Runs `beam-datasets COMMAND` with the arguments of this process, and returns its exit code.

    Args:
        template: its parameters are in `metadata/TEMPLATE.json` beside this file.
        command: such as "verify", "--beam".
    """
    logging.basicConfig(level=logging.INFO)  # Beam's log names the job
    metadata = Path(__file__).with_name("metadata") / f"{template}.json"
    parameters = {each["name"]: each for each in json.loads(metadata.read_text(encoding="utf-8"))["parameters"]}
    return main([*command, *arguments(sys.argv[1:], parameters)])


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
    if name == MORE:
        yield from shlex.split(value)
    elif kind == "BOOLEAN":
        yield from [f"--{name}"] if value.lower() == "true" else []
    elif value:  # a form sends what was left empty
        yield from (f"--{name}={part.strip()}" for part in (value.split(";") if name in REPEATED else [value]))
