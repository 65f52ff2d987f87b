"""Command line options: those that a builder's constructor has, sizes, and which of the rest are Beam's."""

from __future__ import annotations

import argparse
import difflib
import inspect
import json
import os
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from beam_datasets.builders import DatasetBuilder

DATA_DIR_HELP = "where datasets stand; default $BEAM_DATASETS_DATA_DIR, $TFDS_DATA_DIR or ~/beam_datasets"

_DIRECTORIES = ("data_dir", "source_data_dir", "to")
_OWN = ("self", "data_dir", "config", "storage_options")
_OF_EACH_SPLIT = "--num_shards train=8 --num_shards test=1"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]?)(i?)B?", re.IGNORECASE)
_ARGUMENT = r"^ *{}(?: \(.*?\))?: (.+(?:\n(?! *\w+(?: \(.*?\))?:).*\S.*)*)"  # its type may stand in brackets


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
    """Returns the arguments with `--data-dir` written as `--data_dir`; their values stay as they are."""
    return [re.sub(r"^(--(?:no-)?)([^=]+)", lambda name: name[1] + name[2].replace("-", "_"), arg) for arg in args]


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
        help="worker processes of a local run; default: one a core, fewer where materialize has little to copy",
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


def add_builder_options(parser: argparse.ArgumentParser, builder: type[DatasetBuilder]) -> None:
    """Adds an option for each keyword argument of a builder's constructor, described by its docstring.

    A mapping and a sequence become options that can be repeated (`--split train=a --split test=b`); a name of a mapping
    only where the mapping's values may be sequences.
    """
    group = parser.add_argument_group(f"options of {builder.name}")
    taken = set(parser._option_string_actions)
    for parameter in _parameters(builder).values():
        flags = [flag for flag in _flags(parameter) if flag not in taken]
        if flags:
            group.add_argument(*flags, dest=parameter.name, help=_help(builder, parameter.name), **_kind(parameter))


def builder_arguments(args: argparse.Namespace, builder: type[DatasetBuilder]) -> dict[str, Any]:
    """Returns the constructor's arguments that were given."""
    parameters = _parameters(builder)
    given = {name: getattr(args, name) for name in parameters if hasattr(args, name)}
    return {name: _pairs_of(parameters[name], value) for name, value in given.items()}


def _parameters(builder: type[DatasetBuilder]) -> dict[str, inspect.Parameter]:
    """Returns the constructor's keyword arguments, those that it passes on to its base's constructor included."""
    from beam_datasets.builders import DatasetBuilder

    found: dict[str, inspect.Parameter] = {}
    for kind in builder.__mro__:
        if kind is DatasetBuilder:
            break
        if "__init__" not in vars(kind):
            continue
        parameters = inspect.signature(vars(kind)["__init__"]).parameters.values()
        for parameter in parameters:
            named = parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            if named and parameter.name not in _OWN:
                found.setdefault(parameter.name, parameter)
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    return found


def _pairs_of(parameter: inspect.Parameter, value: Any) -> Any:
    """Returns a mapping of the pairs given for one; the values of a repeated name where it takes sequences of them."""
    if not _is_mapping(parameter):
        return value
    if "Sequence" not in _annotation(parameter):
        return _once(_flags(parameter)[0], value)
    values: dict[str, list[str]] = {}
    for name, each in value:
        values.setdefault(name, []).append(each)
    return {name: found if len(found) > 1 else found[0] for name, found in values.items()}


def _once(flag: str, pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Returns the pairs as a dict; a name that is given twice is an error, for nobody would miss the first value."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise UsageError(f"{flag} {name} is given twice, as {found[name]!r} and as {value!r}; give it once")
        found[name] = value
    return found


def _annotation(parameter: inspect.Parameter) -> str:
    kind = parameter.annotation
    text = kind if isinstance(kind, str) else inspect.formatannotation(kind)
    return text.removesuffix("| None").strip() if kind is not parameter.empty else type(parameter.default).__name__


def _is_mapping(parameter: inspect.Parameter) -> bool:
    return _annotation(parameter).partition("[")[0].rpartition(".")[2] in ("Mapping", "dict")


def _is_sequence(parameter: inspect.Parameter) -> bool:
    return _annotation(parameter).partition("[")[0].rpartition(".")[2] in ("Sequence", "list", "tuple")


def _flags(parameter: inspect.Parameter) -> list[str]:
    repeated = _is_mapping(parameter) or _is_sequence(parameter)
    singular = [f"--{parameter.name[:-1]}"] if repeated and parameter.name.endswith("s") else []
    return [*singular, f"--{parameter.name}"]


def _kind(parameter: inspect.Parameter) -> dict[str, Any]:
    required = {"required": parameter.default is parameter.empty, "default": argparse.SUPPRESS}
    if _is_mapping(parameter):
        return {"action": "append", "type": _pair, "metavar": "NAME=VALUE"} | required
    if _is_sequence(parameter):
        return {"action": "append"} | required
    kind = _annotation(parameter)
    if kind == "bool":
        return {"action": argparse.BooleanOptionalAction if parameter.default is True else "store_true"} | required
    return {"type": {"int": int, "float": float}.get(kind, str)} | required


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _help(builder: type[DatasetBuilder], name: str) -> str:
    """Returns what `Args:` say of an argument, in the docstring of a class or of its constructor."""
    documented = [each for kind in builder.__mro__ for each in (kind, vars(kind).get("__init__"))]
    found = (re.search(_ARGUMENT.format(name), inspect.getdoc(each) or "", re.MULTILINE) for each in documented if each)
    match = next(filter(None, found), None)
    return " ".join(match[1].split()).replace("%", "%%") if match else ""


def check_beam_options(options: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Checks that Beam knows what is left of the command line.

    Args:
        options: what the parser did not know.
        parser: of this command, for what may have been meant.

    Raises:
        UsageError: nobody knows one of them.
    """
    if not options:
        return
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
