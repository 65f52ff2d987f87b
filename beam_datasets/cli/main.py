"""The beam-datasets command: which subcommand, and how its errors look."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from beam_datasets.cli import adopt, build, info, show
from beam_datasets.cli.options import UsageError
from beam_datasets.errors import BeamDatasetsError

if TYPE_CHECKING:
    from collections.abc import Sequence

FAILED, USAGE, INTERRUPTED = 1, 2, 130

DESCRIPTION = """\
Generates, describes and shows datasets.

  beam-datasets build NAME_OR_FILE --data_dir DIR   generate a dataset and publish it
  beam-datasets adopt FILES --features FILE         make a dataset of TFRecord files
  beam-datasets info NAME_OR_DIR --data_dir DIR     what a published dataset is
  beam-datasets show NAME --data_dir DIR            its first examples
  beam-datasets list --data_dir DIR                 what is published
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code: 0 done, 1 failed, 2 wrong usage.

    Args:
        argv: the arguments; None for those of the process.
    """
    args = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in args
    try:
        return _run([arg for arg in args if arg != "--debug"])
    except SystemExit as stop:  # argparse has printed why
        return stop.code if isinstance(stop.code, int) else USAGE
    except KeyboardInterrupt:
        print("interrupted; nothing was published", file=sys.stderr)
        return INTERRUPTED
    except (BeamDatasetsError, UsageError) as error:
        if debug:
            raise error
        print(f"beam-datasets: {error}", file=sys.stderr)
        return USAGE if isinstance(error, UsageError) else FAILED


def _run(args: list[str]) -> int:
    parser = argparse.ArgumentParser(
        "beam-datasets",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("command", choices=["build", "adopt", "info", "show", "list"], metavar="COMMAND")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="COMMAND --help says which")
    if not args:
        parser.print_help()
        return USAGE
    chosen = parser.parse_args(args)
    commands = {
        "build": build.run,
        "adopt": adopt.run,
        "info": info.run_info,
        "list": info.run_list,
        "show": show.run,
    }
    return commands[chosen.command](chosen.arguments)
