"""Command line options that commands share, and a check of those that are Beam's."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import gc
import json
import os
import re
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import BeamDatasetsError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DATA_DIR_HELP = "where datasets stand; default $BEAM_DATASETS_DATA_DIR, $TFDS_DATA_DIR or ~/beam_datasets"

_DIRECTORIES = ("data_dir", "source_data_dir", "to")
_OF_EACH_SPLIT = "--num_shards train=8 --num_shards test=1"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]?)(i?)B?", re.IGNORECASE)


class UsageError(Exception):
    """The command line makes no sense; the message says why."""


class Parser(argparse.ArgumentParser):
    """A parser that raises instead of ending the process, and takes no empty directory, as of an unset variable."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Returns (options, arguments that are none of them).

        Raises:
            UsageError: the arguments are not as the parser says.
        """
        known, rest = super().parse_known_args(args, namespace)
        for name in _DIRECTORIES:
            if getattr(known, name, None) == "":
                self.error(f"--{name} is empty; is a variable unset?")
        return known, rest

    def error(self, message: str) -> Any:
        """Raises UsageError."""
        raise UsageError(f"{message}\n{self.format_usage()}See {self.prog} --help.")


def size_in_bytes(text: str) -> int:
    """Returns the bytes that a size means.

    >>> size_in_bytes("64MiB"), size_in_bytes("1.5 GB"), size_in_bytes("1000")
    (67108864, 1500000000, 1000)
    """
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write 1000, 64MiB or 1GB")
    power = " kMGT".lower().index(match[2].lower() or " ")
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)


def add_store_options(parser: argparse._ActionsContainer, *, prefix: str = "", of: str = "the store") -> None:
    """Adds the option that names a file with the options of a store.

    Args:
        parser: to add it to.
        prefix: of its name.
        of: whose options they are.
    """
    help = f"options of {of}, as a JSON file: credentials, endpoint, region; default: of the environment"
    parser.add_argument(f"--{prefix}storage_options", type=store_options, metavar="FILE", help=help)


def store_options(path: str) -> dict[str, Any]:
    """Returns the options of a store that stand in a file, as a JSON object. Errors show nothing of it."""
    if not os.path.exists(path) and ("=" in path or path.lstrip().startswith("{")):
        raise argparse.ArgumentTypeError(
            "give the name of a JSON file; on the command line secrets would stay in the shell's history, and other "
            "users of this machine see them"
        )
    try:
        with open(path, "rb") as file:  # also of a pipe, as <(command) is one
            options = json.loads(file.read())
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        options = None
    if not isinstance(options, dict):
        raise argparse.ArgumentTypeError(f'{path} is no JSON object, such as {{"endpoint": "http://host:9000"}}')
    return options


def with_underscores(args: Sequence[str]) -> list[str]:
    """Returns the arguments with `--data-dir` written as `--data_dir`; values are unchanged."""
    return [re.sub(r"^--[^=]+", lambda name: "--" + name[0][2:].replace("-", "_"), arg) for arg in args]


def add_shard_options(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Adds the options of the shards, and returns their group."""
    group = parser.add_argument_group("shards (they decide the bytes)")
    group.add_argument(
        "--num_shards", action="append", metavar="N|SPLIT=N", help="repeated for each split; default: by the size rule"
    )
    group.add_argument("--min_shard_size", type=size_in_bytes, metavar="SIZE", help="default 64MiB")
    group.add_argument("--max_shard_size", type=size_in_bytes, metavar="SIZE", help="default 1GiB")
    return group


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the engine, but for Beam's own."""
    group = parser.add_argument_group("engine (they change no byte)")
    group.add_argument(
        "--num_workers",
        type=int,
        metavar="N",
        help="worker processes of a local run, 0 for one a core; default: one a core, of materialize this process",
    )
    group.add_argument(
        "--payload", choices=["inline", "spilled"], help="how records travel; default: inline on Dataflow, else spilled"
    )
    group.add_argument("--spill_dir", metavar="DIR", help="where they spill; every worker must see it")
    group.add_argument("--shared_disk", action="store_true", help="remote workers see this machine's paths")
    group.add_argument("--no_wait", action="store_true", help="end when a remote runner has the job")


def num_shards(values: Sequence[str] | None) -> int | dict[str, int] | None:
    """Returns what `--num_shards` asks for; None where it is not given.

    >>> num_shards(["8"]), num_shards(["train=8", "test=1"])
    (8, {'train': 8, 'test': 1})
    """
    if not values:
        return None
    try:
        if len(values) == 1 and "=" not in values[0]:
            return int(values[0])
        pairs = [(split, number) for split, number in (value.split("=") for value in values)]
        return {split: int(values) for split, values in _once("--num_shards", pairs).items()}
    except ValueError:
        raise UsageError(f"--num_shards is {' '.join(values)!r}; write --num_shards 8, or {_OF_EACH_SPLIT}") from None


def until_dashes(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the arguments before a lone `--`, with underscores, and those behind it, which go to Beam unchecked."""
    place = list(args).index("--") if "--" in args else len(args)
    return with_underscores(args[:place]), list(args[place + 1 :])


def _once(flag: str, pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Returns the pairs as a dict; a name that is given twice is an error, for nobody would miss the first value."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise UsageError(f"{flag} {name} is given twice, as {found[name]!r} and as {value!r}; give it once")
        found[name] = value
    return found


def import_beam() -> None:
    """Imports Beam, without the garbage collections that would take a quarter of the time.

    Raises:
        MissingDependencyError: Beam is not installed.
    """
    gc.disable()
    try:
        from beam_datasets import transforms  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("this needs Apache Beam: pip install 'beam_datasets[beam]'") from error
    finally:
        gc.enable()


@contextlib.contextmanager
def as_usage_errors(what: str) -> Iterator[None]:
    """Turns a TypeError or ValueError about an argument into a UsageError that starts with `what`."""
    try:
        yield
    except BeamDatasetsError:
        raise
    except (TypeError, ValueError) as error:
        raise UsageError(f"{what}: {error}") from error


def check_beam_options(options: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Checks that Beam knows what is left of the command line.

    Args:
        options: what the parser did not know.
        parser: of this command, for what may have been meant.

    Raises:
        MissingDependencyError: Beam is not installed.
        UsageError: nobody knows one of them.
    """
    if not options:
        return
    import_beam()
    beam = _beam_parser()
    _, unknown = beam.parse_known_args(list(options))
    if not unknown:
        return
    first = unknown[0]
    if not first.startswith("-"):
        again = f", and is repeated for each split, as in {_OF_EACH_SPLIT}" if "=" in first else ""
        raise UsageError(f"what is {first!r}? An option begins with --{again}; see {parser.prog} --help.")
    name = first.partition("=")[0]
    known = [*parser._option_string_actions, *beam._option_string_actions]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    meant = f" Did you mean {near[0]}?" if near else ""
    raise UsageError(
        f"there is no option {name}, neither here nor in Beam.{meant} See {parser.prog} --help; what stands behind a "
        "lone -- goes to Beam unchecked."
    )


def _beam_parser() -> argparse.ArgumentParser:
    from apache_beam.options import pipeline_options

    from beam_datasets.transforms import flink  # noqa: F401  # has options of its own

    class Collected(argparse.ArgumentParser):
        def error(self, message: str) -> Any:
            raise UsageError(f"{message} (an option of Beam)")

    parser = Collected(allow_abbrev=False, add_help=False, conflict_handler="resolve")
    for kind in pipeline_options.PipelineOptions.__subclasses__():
        kind._add_argparse_args(parser)  # type: ignore[arg-type]
    return parser
