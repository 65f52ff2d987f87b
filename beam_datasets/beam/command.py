"""The beam-datasets command as the main function of a module."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Protocol

from beam_datasets.cli import main as run

if TYPE_CHECKING:
    from collections.abc import Sequence


class Main(Protocol):
    """A main function: returns the exit code; None stands for the arguments of this process."""

    def __call__(self, argv: Sequence[str] | None = None) -> int: ...  # noqa: D102


def main_of(command: str, *options: str) -> Main:
    """Returns a main function that runs `beam-datasets COMMAND` and takes the dataset as the option `--dataset` too.

    Args:
        command: such as "build".
        options: put before those that the main function is called with.
    """

    def main(argv: Sequence[str] | None = None) -> int:
        """Runs the command and returns its exit code."""
        parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
        parser.add_argument("--dataset", default=None)
        known, rest = parser.parse_known_args(sys.argv[1:] if argv is None else argv)
        return run([command, *([known.dataset] if known.dataset else []), *options, *rest])

    return main
