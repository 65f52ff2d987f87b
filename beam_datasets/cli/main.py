"""The beam-datasets command: finds the subcommand, runs it and prints its errors."""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import os
import re
import select
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from types import TracebackType

from beam_datasets._version import __version__
from beam_datasets.cli.options import Parser, UsageError, comma_separated, with_underscores
from beam_datasets.cli.printing import prepare_streams, say
from beam_datasets.display import progress
from beam_datasets.display.text import wrapped
from beam_datasets.errors import BeamDatasetsError, did_you_mean
from beam_datasets.extras import garbage_kept
from beam_datasets.passwords import without_passwords

FAILED, USAGE, INTERRUPTED, CLOSED = 1, 2, 130, 141

DESCRIPTION = """\
Generates datasets as versioned TFRecord shards, and displays, checks, compares and maintains them. To generate a
dataset from CSV files, and read its first example in Python:

  $ beam-datasets build csv --name houses --pattern 'houses*.csv' --data_dir data
  >>> import beam_datasets; beam_datasets.load("houses", split="train", data_dir="data")[0]

create datasets
  beam-datasets build NAME_OR_FILE --data_dir DIR   generate a dataset and publish it
  beam-datasets plan NAME_OR_FILE --data_dir DIR    estimate shards, memory, requests and hours of a build
  beam-datasets new NAME                            create the files of a new dataset: builder, test, description
  beam-datasets append NAME --from SOURCE           publish the next version with new examples
  beam-datasets materialize SOURCE --split EXPR     write slices of datasets as a new dataset
  beam-datasets adopt FILES --features FILE         create a dataset from existing TFRecord files
  beam-datasets publish RESULT --version V          publish a refused result under another version
look at datasets
  beam-datasets list --data_dir DIR                 list datasets; --versions adds times, sources and tags
  beam-datasets info NAME_OR_DIR --data_dir DIR     print description, features, splits and lineage
  beam-datasets head NAME_OR_DIR --data_dir DIR     print the first examples
  beam-datasets slices NAME_OR_DIR SLICE            print the files and records that a slice reads
  beam-datasets stats NAME_OR_DIR                   compute statistics, as a table or a page with plots
  beam-datasets explore [NAME_OR_DIR]               browse rows, images, filters and comparisons
check and compare
  beam-datasets verify NAME_OR_DIR                  check a dataset for damage; --repair restores files
  beam-datasets diff OLD NEW --data_dir DIR         compare two versions; print the required version
export datasets
  beam-datasets export SOURCE --format F --to DIR   write slices as Parquet, JSON lines, WebDataset or ArrayRecord
  beam-datasets site DATA_DIR --to DIR              write static pages with metadata for search engines
maintain
  beam-datasets tag NAME:VERSION TAG                tag a version; `prune` keeps tagged versions
  beam-datasets prune NAME --keep N                 list old versions that are not needed; --yes removes them
  beam-datasets gc DATA_DIR                         list leftovers of killed runs; --yes removes them
check engines, report bugs
  beam-datasets doctor --runner R --data_dir DIR    check whether an engine can build datasets
  beam-datasets versions                            print versions of Python, packages and engines

options of every command:
  --imports MODULE_OR_FILE[,...]   first import modules that register connectors or builders
  --debug                          show the traceback of an error
  --quiet                          hide progress, and the features of what is built
"""

_TOGETHER = {
    "info": ["info", "list"],
    "head": ["head", "slices"],
    "history": ["publish", "tag", "prune", "gc"],
    "materialize": ["materialize", "export"],
}
_PLACES = {name: (module, f"run_{name}") for module, names in _TOGETHER.items() for name in names}
_PLACES |= {"plan": ("build", "run_plan"), "explore": ("explorer.app", "run")}
COMMANDS = {name: _PLACES.get(name, (name, "run")) for name in re.findall(r"^  beam-datasets (\w+)", DESCRIPTION, re.M)}
"""Name -> module of this package, function in it; only the module of the called command is imported."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code: 0 done, 1 failed, 2 wrong usage.

    Args:
        argv: the arguments; None for those of the process.
    """
    prepare_streams()
    warnings.filterwarnings("ignore", "Image size .* could be decompression bomb")  # of headers that are looked at
    if "_ARGCOMPLETE" in os.environ:
        from beam_datasets.cli.completion import complete

        complete(COMMANDS)
    debug = False
    try:
        args, imports, debug = _for_every_command(list(sys.argv[1:] if argv is None else argv))
        if imports:
            from beam_datasets.cli.resolve import import_code

            import_code(imports)
        with contextlib.nullcontext() if debug else _silence_lost_connections():
            code = _run_command(args)
        _flush(ends_process=argv is None)
        return code
    except SystemExit as stop:
        if _is_of_argparse(stop):  # it has printed why
            return stop.code if isinstance(stop.code, int) else USAGE
        if debug:
            _print_traceback(type(stop), stop, stop.__traceback__)
        say(f"beam-datasets: {_describe_error(stop, _foreign_frame(stop))}", file=sys.stderr)
        return FAILED  # also of sys.exit(0), because the command has not reached its end
    except KeyboardInterrupt as pressed:
        _say_with_notes(f"interrupted; {str(pressed) or 'nothing was published'}", pressed)
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _is_output_closed():  # as `| head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still to be flushed
            return CLOSED
        ours = isinstance(error, (BeamDatasetsError, UsageError))
        frame = "" if ours else _foreign_frame(error)
        if debug or not (ours or frame):  # an error of this package's own code is a bug, and its traceback is needed
            error.__suppress_context__ = False  # also for errors of runners
            if argv is None:
                sys.excepthook = _print_traceback
            raise
        _say_with_notes(f"beam-datasets: {error if ours else _describe_error(error, frame)}", error)
        return USAGE if isinstance(error, UsageError) else FAILED


def _flush(*, ends_process: bool) -> None:
    """Flushes standard output; in a process that ends, also spares the last collections of garbage.

    They would take a tenth of the time of `head`.
    """
    sys.stdout.flush()
    if ends_process:
        gc.freeze()


def _say_with_notes(message: str, error: BaseException) -> None:
    """Prints a message about an error, then the notes of the error, to standard error."""
    say("\n".join([message, *getattr(error, "__notes__", [])]), file=sys.stderr)


def _is_of_argparse(stop: SystemExit) -> bool:
    """Returns whether argparse ends the process, after it has printed help or an error; an author's code may, too."""
    return os.path.basename(traceback.extract_tb(stop.__traceback__)[-1].filename) == "argparse.py"


def _is_output_closed() -> bool:
    """Returns whether nobody reads standard output, a pipe or socket, any more; True if the system does not tell."""
    if not hasattr(select, "poll"):
        return True
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # it is not a file of the system
        return False
    return bool(poll.poll(0))  # of POLLERR and POLLHUP, which are always reported


def _print_traceback(kind: type[BaseException], error: BaseException, frames: TracebackType | None) -> None:
    """Prints an error that ends the process as Python does, without the passwords of URLs; see `sys.excepthook`."""
    print(without_passwords("".join(traceback.format_exception(kind, error, frames))), end="", file=sys.stderr)


@contextlib.contextmanager
def _silence_lost_connections() -> Iterator[None]:
    """Keeps threads of Beam from printing a traceback if they lose a job server or Dataflow: the command reports it."""
    original_hook = threading.excepthook

    def report(failure: threading.ExceptHookArgs) -> None:
        if not _is_lost_connection(failure):
            original_hook(failure)

    threading.excepthook = report
    try:
        yield
    finally:
        threading.excepthook = original_hook


def _is_lost_connection(failure: threading.ExceptHookArgs) -> bool:
    """Returns whether gRPC or a client of Google Cloud raised the error, in a thread that runs a function of Beam."""
    files = [frame.filename for frame in traceback.extract_tb(failure.exc_traceback)]
    first = next((file for file in files if file != threading.__file__), "")
    is_of_client = failure.exc_type.__module__.partition(".")[0] in ("grpc", "google")
    return is_of_client and f"{os.sep}apache_beam{os.sep}" in first


def _for_every_command(args: list[str]) -> tuple[list[str], list[str], bool]:
    """Returns (arguments without the options of every command, values of `--imports`, whether `--debug` is given).

    Applies `--quiet`. Arguments after a lone `--` are not changed.
    """
    end = args.index("--") if "--" in args else len(args)
    parser = Parser("beam-datasets", add_help=False, usage=argparse.SUPPRESS)
    parser.add_argument("--imports", action="extend", type=comma_separated, default=[])
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    parsed, other_arguments = parser.parse_known_args(args[:end])
    progress.is_shown = not parsed.quiet
    if parsed.quiet:
        from beam_datasets.downloads import http

        http.show_progress = False
    return [*other_arguments, *args[end:]], parsed.imports, parsed.debug


def _foreign_frame(error: BaseException) -> str:
    """Returns the last place in a dataset author's code that an error came through; '' if there is none."""
    from beam_datasets import frames

    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    return str(frames.last_of_author(frames.of(error)) or "")


def _describe_error(error: BaseException, location: str) -> str:
    """Returns "<class>: <message>" and a second line with the location and the advice to use `--debug`."""
    message = error.msg if isinstance(error, SyntaxError) else error
    return f"{type(error).__name__}: {message}\n  (at {location}; --debug shows all of it)"


def _run_command(args: list[str]) -> int:
    """Imports the module of the command, runs it and returns its exit code; prints the help without arguments.

    Raises:
        UsageError: the command is unknown.
    """
    parser = argparse.ArgumentParser(
        "beam-datasets",
        description=wrapped(DESCRIPTION),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", "-V", action="version", version=f"beam_datasets {__version__}")
    parser.add_argument("command", metavar="COMMAND")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="see COMMAND --help")
    if not args:
        parser.print_help()
        return USAGE
    if args[0] == "help":  # as git and pip take it
        args = [*args[1:2], "--help"]
    if args[0].startswith("-") and args[0] not in ("-h", "--help", "-V", "--version"):
        version = " `beam-datasets --version` prints the version." if args[0] == "-v" else ""
        raise UsageError(f"expected a command, got {args[0]!r}.{version} Type `beam-datasets COMMAND [options]`")
    parsed = parser.parse_args(args)
    if parsed.command not in COMMANDS:
        from beam_datasets.advice import instead_of_command

        name = parsed.command.lower()
        near = f"Did you mean {name!r}?" if name in COMMANDS else did_you_mean(name, COMMANDS).strip()
        hint = instead_of_command(name, with_underscores(parsed.arguments)) or near
        raise UsageError(f"unknown command {parsed.command!r}; expected {', '.join(COMMANDS)}. {hint}".strip())
    module, function = COMMANDS[parsed.command]
    with garbage_kept():
        imported = importlib.import_module(f"beam_datasets.cli.{module}")
    code: int = getattr(imported, function)(parsed.arguments)
    return code
