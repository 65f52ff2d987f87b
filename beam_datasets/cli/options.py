"""Commands and their options as values, and checks of Beam's options."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from beam_datasets.display.text import wrapped
from beam_datasets.errors import BeamDatasetsError, did_you_mean
from beam_datasets.extras import importing_beam

if TYPE_CHECKING:
    from beam_datasets.options import EngineOptions

_DIRECTORIES = ("data_dir", "source_data_dir", "to")
_OF_EACH_SPLIT = "--num_shards train=8 --num_shards test=1"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]?)(i?)B?", re.IGNORECASE)


class UsageError(Exception):
    """The command line cannot be used; the message gives the reason."""


class Option(NamedTuple):
    """An option of a command, or an argument without an option, as `--help` shows it.

    Attributes:
        name: the option, such as "--split"; without dashes it is a positional argument.
        metavar: the name of the value in `--help`; "" for the name of the option, or for `choices`.
        help: the description in `--help`; None to leave the option out of it.
        type: converts the text of a value; None keeps the text.
        choices: the values that are allowed; empty for any.
        default: the value of an option that is not given.
        const: the value of an option that is given without a value; `value_is_optional` allows that.
        dest: the attribute of the parsed options; "" for the name.
        alias: a short spelling, such as "-n"; "" for none.
        required: whether the option must be given.
        repeated: whether it may be given several times, or a positional argument several values: the value is a list.
        value_is_optional: whether the option may be given without a value, or a positional argument be left out.
    """

    name: str
    metavar: str = ""
    help: str | None = ""
    type: Callable[[str], Any] | None = None
    choices: Sequence[Any] = ()
    default: Any = None
    const: Any = None
    dest: str = ""
    alias: str = ""
    required: bool = False
    repeated: bool = False
    value_is_optional: bool = False

    def add_to(self, container: argparse._ActionsContainer) -> argparse.Action:
        """Adds the option to a parser or to a group of its options."""
        settings: dict[str, Any] = {"default": self.default, "help": _help_of(self.help), "type": self.type}
        is_positional = not self.name.startswith("-")
        if self.metavar:
            settings["metavar"] = self.metavar
        if self.choices:
            settings["choices"] = self.choices
        if self.value_is_optional:
            settings["nargs"] = "?"
        if self.repeated:
            settings |= {"nargs": "*"} if is_positional else {"action": "append"}
        if not is_positional:
            settings |= {"required": self.required}
            settings |= {name: value for name in ("const", "dest") if (value := getattr(self, name))}
        return container.add_argument(self.name, *filter(None, [self.alias]), **settings)


class Flag(NamedTuple):
    """An option without a value. `--x` sets `x`, which is False without it; `--no_x` clears `x`, which is True.

    Attributes:
        name: the option.
        help: the description in `--help`; None to leave the option out of it.
    """

    name: str
    help: str | None

    def add_to(self, container: argparse._ActionsContainer) -> argparse.Action:
        """Adds the option to a parser or to a group of its options."""
        help = _help_of(self.help)
        if self.name.startswith("--no_"):
            return container.add_argument(
                self.name, action="store_false", dest=self.name.removeprefix("--no_"), help=help
            )
        return container.add_argument(self.name, action="store_true", help=help)


def _help_of(text: str | None) -> str:
    """Returns the help of an option as argparse formats it."""
    return argparse.SUPPRESS if text is None else text.replace("%", "%%")


class Group:
    """Options under a heading of `--help`.

    Attributes:
        title: the heading, without a colon.
        options: the options, in the order of `--help`.
    """

    def __init__(self, title: str, *options: Option | Flag) -> None:
        self.title = title
        self.options = options


class Command(NamedTuple):
    """A command of `beam-datasets`.

    Attributes:
        name: its name, as typed.
        description: text that `--help` shows above the options.
        options: its options and groups of options, in the order of `--help`.
        usage: text after the name in the usage line; "" for the text that `argparse` derives from the options.
        example: what to type after the name, for the error about missing arguments; "" for the usage line alone.
    """

    name: str
    description: str
    options: Sequence[Option | Flag | Group]
    usage: str = ""
    example: str = ""

    @property
    def usage_line(self) -> str | None:
        """The usage line; None for the one that `argparse` derives from the options."""
        return f"beam-datasets {self.name} {self.usage}" if self.usage else None

    def parser(self) -> Parser:
        """Returns a new parser of the options."""
        usage = self.usage_line and wrapped(" " * len("usage: ") + self.usage_line).lstrip()
        parser = Parser(f"beam-datasets {self.name}", usage=usage, description=wrapped(self.description))
        parser.example = self.example
        self.add_to(parser)
        return parser

    def add_to(self, parser: argparse.ArgumentParser, completers: Mapping[str, Any] | None = None) -> None:
        """Adds the options to a parser.

        Args:
            parser: changed in place.
            completers: metavar, such as DATASET -> function of argcomplete that completes its values in a shell.
        """
        for item in self.options:
            container: argparse._ActionsContainer = parser
            if isinstance(item, Group):
                container = parser.add_argument_group(item.title)
            for option in item.options if isinstance(item, Group) else (item,):
                action = option.add_to(container)
                if isinstance(option, Option) and (completer := (completers or {}).get(option.metavar)):
                    action.completer = completer  # type: ignore[attr-defined]  # where argcomplete looks for it

    def parse(self, args: Sequence[str]) -> argparse.Namespace:
        """Returns the values of the options, by their names.

        Raises:
            UsageError: an argument is unknown, or does not fit its option.
        """
        parsed: argparse.Namespace = self.parser().parse_args(with_underscores(args))
        return parsed

    def parse_with_beam(self, args: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """Returns (options of the command, arguments for Beam); see the function `parse_with_beam`.

        Raises:
            UsageError: arguments are missing, or an option is invalid.
        """
        if not args:
            raise UsageError(f"which dataset? {self.usage_line}")
        return parse_with_beam(self.parser(), args)


class Parser(argparse.ArgumentParser):
    """A parser that raises instead of ending the process, and refuses empty directories, as of unset variables.

    Attributes:
        example: see `Command`.
    """

    example = ""

    def __init__(
        self, prog: str, usage: str | None = None, description: str | None = None, *, add_help: bool = True
    ) -> None:
        super().__init__(
            prog,
            usage,
            description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            add_help=add_help,
        )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Returns (Namespace of the options, list of the arguments that the parser does not know).

        `--stall_timeout` is among the latter, because it is an option of the pipeline, as those of Beam are.
        `num_shards` of the options is a number, a dict or None; see the function `num_shards`.

        Raises:
            UsageError: the arguments do not fit the options, or a directory is ''.
        """
        self._args: list[str] = list(args or ())  # for the error about missing ones
        parsed, unknown = super().parse_known_args(args, namespace)
        for name in _DIRECTORIES:
            if getattr(parsed, name, None) == "":
                self.error(f"--{name} is empty; is a variable unset?")
        if "num_shards" in parsed:
            parsed.num_shards = num_shards(parsed.num_shards)
        if (seconds := parsed.__dict__.pop("stall_timeout", None)) is not None:
            unknown = [*unknown, f"{STALL_TIMEOUT.name}={seconds:g}"]
        return parsed, unknown

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Returns the Namespace of the options.

        Raises:
            UsageError: an argument is unknown, or does not fit its option.
        """
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            count = _count_before_names(self._args) if "--count" in self._option_string_actions else ""
            near = self._engine_note(unknown) or self._near_options(unknown) or self._option_of(count or unknown[0])
            self.error(f"unrecognized arguments: {' '.join(unknown)}.{near}")
        return parsed

    def _engine_note(self, unknown: Sequence[str]) -> str:
        """Returns a sentence on where this command runs if --runner is among the unknown arguments; otherwise ''."""
        if "--runner" not in {arg.partition("=")[0] for arg in unknown}:
            return ""
        name = self.prog.rpartition(" ")[2]
        advice = " `build` the new examples there as a dataset, and append it with --from." if name == "append" else ""
        return f" {name} runs on this machine, without an engine.{advice}"

    def _near_options(self, unknown: Sequence[str]) -> str:
        """Returns the replacement for the first of the unknown options that has one; '' if there is none."""
        hints = (near_option(unknown[i:], self) for i, arg in enumerate(unknown) if arg.startswith("-"))
        return next(filter(None, hints), "")

    def _option_of(self, text: str) -> str:
        """Returns ` Did you mean '--data_dir x'?`, or another option that may be meant by an argument x without one."""
        options, command = self._option_string_actions, self.prog.rpartition(" ")[2]
        if "--from" in options and re.search(r"\.\w+$", text):
            return f" Files are given by --from FORMAT --pattern {shlex.quote(text)}, where FORMAT is csv, jsonl, ..."
        if text.isdecimal() and "--count" in options:
            return f" Did you mean '--count {text}'?"
        if command == "list" and not os.path.exists(text) and text[:1] != "-":
            return f" Use `beam-datasets info {shlex.quote(text)}` for one dataset."
        if command == "versions":
            return " Use `beam-datasets list --versions` for the versions of datasets."
        if command == "slices" and text[:1] != "-" and not os.path.exists(text):
            return f" Slices are joined by +, as in 'train[:10%]+{text}'."
        if command not in ("gc", "new", "site") and re.fullmatch(r"\d+\.\d+\.\d+", text):
            versions = "NAME:1.0.0 NAME:2.0.0" if command == "diff" else f"NAME:{text}"
            return f" A version is a part of the name: `{self.prog} {versions}`."
        if "--count" in options and re.fullmatch(r"-\d+", text):
            return f" Did you mean '--count {text[1:]}'?"
        is_path = "/" in text or text.startswith(".") or os.path.exists(text)
        option = "--split" if "--split" in options and not is_path else "--data_dir"
        return f" Did you mean '{option} {shlex.quote(text)}'?" if option in options and text[:1] != "-" else ""

    def _foreign_option(self) -> str:
        """Returns the replacement for the first unknown option, such as ". Use `--to out`"; '' if there is none."""
        names = self._option_string_actions
        unknown = [i for i, arg in enumerate(self._args) if arg[:2] == "--" and arg.partition("=")[0] not in names]
        hints = (near_option(self._args[i:], self).strip() for i in unknown)
        return next((f". {hint.removesuffix('.')}" for hint in hints if hint), "")

    def error(self, message: str) -> NoReturn:
        """Raises a UsageError with the message and the usage; argparse calls it for invalid arguments."""
        if choice := re.match(r"argument --(\w+): invalid choice: '(.*?)'", message):
            from beam_datasets.advice import instead_of_format

            uses = {"format": "export", "on_duplicate": "on_duplicate"}
            message = f"{message}. {instead_of_format(uses[choice[1]], choice[2]) if choice[1] in uses else ''}".strip()
        message = _with_expectation(message)
        if message.startswith("the following arguments are required:"):
            message += self._foreign_option()
            if message.endswith("--to") and len(self._args) > 1 and not any(arg[:1] == "-" for arg in self._args[:2]):
                message += f". Use `--to {shlex.quote(self._args[1])}`"
            if self.example:
                example = self.example
                if "--root" in message:  # of folders
                    example = example.replace("csv", self._args[0], 1).replace("--pattern FILES", "--root DIR")
                message += f". Type `{self.prog} {example}`"
        raise UsageError(f"{message}\n{self.format_usage()}See {self.prog} --help.")


def _count_before_names(args: Sequence[str]) -> str:
    """Returns the argument of `head -5 NAME` that argparse takes for the name; '' if there is none.

    >>> _count_before_names(["-5", "digits"]), _count_before_names(["--count", "-5", "digits"])
    ('-5', '')
    """
    pairs = zip(["", *args], args)
    return next((arg for before, arg in pairs if re.fullmatch(r"-\d+", arg) and before[:2] != "--"), "")


_OF_ARGPARSE = (
    (r"argument (\S+): ignored explicit argument (.*)", r"\1: expected no value, got \2"),
    (r"argument (\S+): expected one argument", r"\1: expected a value, got none"),
    (r"argument (\S+): invalid choice: (.*) \(choose from ([^)]*)\)", r"\1: expected one of \3, got \2"),
)
"""Message of argparse, as a regular expression -> the message with what was expected and got."""


def _with_expectation(message: str) -> str:
    """Returns a message of argparse as an error with what was expected and got; any other message unchanged.

    >>> _with_expectation("argument --debug: ignored explicit argument 'yes'")
    "--debug: expected no value, got 'yes'. If it is an argument of the builder, write --builder.debug"
    """
    for pattern, replacement in _OF_ARGPARSE:
        message = re.sub(pattern, replacement, message, flags=re.DOTALL)
    flag = message.partition(":")[0]
    if flag in OF_EVERY_COMMAND and ": expected no value" in message:
        message += f". If it is an argument of the builder, write --builder.{flag[2:]}"
    return message


def with_underscores(args: Sequence[str]) -> list[str]:
    """Returns the arguments with `--data-dir` written as `--data_dir`; values are unchanged."""
    return [re.sub(r"^--[^=]+", lambda name: "--" + name[0][2:].replace("-", "_"), arg) for arg in args]


def until_dashes(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the arguments before a lone `--`, with underscores, and those after it, which go to Beam unchecked.

    >>> until_dashes(["a", "--data-dir", "d", "--", "--runner-x"])
    (['a', '--data_dir', 'd'], ['--runner-x'])
    """
    index = list(args).index("--") if "--" in args else len(args)
    return with_underscores(args[:index]), list(args[index + 1 :])


def parse_with_beam(parser: argparse.ArgumentParser, args: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Returns (Namespace of the parser's options, arguments for Beam).

    Arguments that the parser does not know are for Beam. Those before a lone `--` must be options of Beam.

    Raises:
        UsageError: an option is invalid, or unknown to both the parser and Beam.
    """
    command_args, unchecked = until_dashes(args)
    parsed, beam_args = parser.parse_known_args(command_args)
    check_beam_options(beam_args, parser)
    return parsed, [*beam_args, *unchecked]


def size_in_bytes(text: str) -> int:
    """Returns the bytes that a size means.

    >>> size_in_bytes("64MiB"), size_in_bytes("1.5 GB"), size_in_bytes("1000")
    (67108864, 1500000000, 1000)
    """
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write 1000, 64MiB or 1GB")
    power = " kMGT".lower().index(match[2].lower() or " ")
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)


def whole_number(text: str) -> int:
    """Returns the integer in a text; raises an ArgumentTypeError for any other text."""
    with contextlib.suppress(ValueError):
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a whole number, such as 8, got {text!r}")


def number(text: str) -> float:
    """Returns the number in a text; raises an ArgumentTypeError for any other text."""
    with contextlib.suppress(ValueError):
        return float(text)
    raise argparse.ArgumentTypeError(f"expected a number, such as 0.5, got {text!r}")


def positive_number(text: str) -> float:
    """Returns the number in a text; raises an ArgumentTypeError for any other text, and for 0 and less."""
    if (value := number(text)) > 0:
        return value
    raise argparse.ArgumentTypeError(f"expected a number greater than 0, got {text!r}")


def comma_separated(text: str) -> list[str]:
    """Returns the names in a text with commas, without outer spaces: ['a', 'b'] for "a, b"."""
    return [name.strip() for name in text.split(",")]


def read_storage_options(path: str) -> dict[str, Any]:
    """Returns the options of a store, the JSON object in a file. Errors contain nothing of the content.

    Raises:
        argparse.ArgumentTypeError: the file cannot be read, or does not contain a JSON object.
    """
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
        raise argparse.ArgumentTypeError(f'{path} is not a JSON object, such as {{"endpoint": "http://host:9000"}}')
    return options


def storage_options(name: str, store: str, *, dest: str = "") -> Option:
    """Returns the option for the JSON file with the options of a store.

    Args:
        name: name of the option, such as "storage_options".
        store: the store in the text of `--help`, such as "the store of --data_dir".
        dest: name of the parsed attribute; '' for `name`.
    """
    return Option(
        name,
        "JSON_FILE",
        f"options of {store}, as a JSON file: credentials, endpoint, region; default: taken from the environment",
        type=read_storage_options,
        dest=dest,
    )


DATA_DIR_HELP = "directory of the datasets; default: $BEAM_DATASETS_DATA_DIR, $TFDS_DATA_DIR or ~/beam_datasets"
DATA_DIR = Option("--data_dir", "DATA_DIR", DATA_DIR_HELP)
STORAGE_OPTIONS = storage_options("--storage_options", "the store")
DATASET = (
    Option("dataset", "NAME_OR_DIR", "name[/config][:version], or the directory of a version"),
    DATA_DIR,
    STORAGE_OPTIONS,
)
MAX_REJECTED = Option(
    "--max_rejected",
    "N",
    "number of examples that the code of a builder may reject (bd.Rejected); they are left out and listed; default: 0",
    type=whole_number,
)
SHARDS = Group(
    "shards (these options affect the written bytes)",
    Option(
        "--num_shards",
        "N|SPLIT=N",
        "number of shards, of all splits or of one split; can be repeated; default: chosen by size",
        repeated=True,
    ),
    Option(
        "--min_shard_size",
        "SIZE",
        "minimum size of a shard, if the number is chosen by size; default: 64MiB",
        type=size_in_bytes,
    ),
    Option(
        "--max_shard_size",
        "SIZE",
        "maximum size of a shard, if the number is chosen by size; default: 1GiB",
        type=size_in_bytes,
    ),
)
SOURCES = (
    Option("--data_dir", "DATA_DIR", f"{DATA_DIR_HELP}; the output is written here"),
    Option(
        "--source_data_dir",
        "DIR",
        "directory of datasets in which source names are found; default: --data_dir, then the default of --data_dir",
    ),
    storage_options("--storage_options", "the store of --data_dir"),
    storage_options("--source_storage_options", "the stores of sources"),
    Flag("--dry_run", "print what would be read and written, and publish nothing"),
)
"""Options of commands that make a dataset of others."""
SHARED_DISK = Flag(
    "--shared_disk",
    "declare that remote workers can access this machine's paths, as on NFS; without it, these paths are an error with "
    "a remote runner",
)
STALL_TIMEOUT = Option(
    "--stall_timeout",
    "SECONDS",
    "end a local run whose worker processes neither print nor compute for this time; default: 600",
    type=positive_number,
)
NO_WAIT = Flag("--no_wait", "return as soon as the job is submitted to a remote runner")


def engine_group(default_workers: str) -> Group:
    """Returns the group of the options of `EngineOptions`.

    Args:
        default_workers: description of the default of --num_workers.
    """
    return Group(
        "engine (these options do not affect the written bytes)",
        Option(
            "--num_workers",
            "N",
            f"number of worker processes of a local run; 0 means one per core; default: {default_workers}",
            type=whole_number,
        ),
        Option(
            "--payload",
            help="how records are shuffled: inline (through the engine) or spilled (through files); "
            "default: inline on Dataflow, otherwise spilled",
            choices=("inline", "spilled"),
        ),
        Option("--spill_dir", "DIR", "directory for spilled records; all workers must be able to access it"),
        STALL_TIMEOUT,
        SHARED_DISK,
        NO_WAIT,
    )


OF_EVERY_COMMAND = ("--debug", "--imports", "--quiet")
"""Options that `main` reads and removes before it calls a command."""


def engine_options(parsed: argparse.Namespace, beam_options: Sequence[str]) -> EngineOptions:
    """Returns the options of where and how a job runs, of those that the command has."""
    from beam_datasets.options import EngineOptions

    return EngineOptions(beam_options, **given(parsed, EngineOptions))


def given(parsed: argparse.Namespace, *functions: Callable[..., Any]) -> dict[str, Any]:
    """Returns the options that are arguments of one of the functions, by their names; without those that are None."""
    import inspect  # which takes 3 ms, and `--help` needs no signatures

    names = {name for function in functions for name in inspect.signature(function).parameters}
    return {name: value for name, value in vars(parsed).items() if name in names and value is not None}


def num_shards(values: Sequence[str] | None) -> int | dict[str, int] | None:
    """Returns the numbers of shards of `--num_shards`; None if it is not given.

    >>> num_shards(["8"]), num_shards(["train=8", "test=1"])
    (8, {'train': 8, 'test': 1})
    """
    if not values:
        return None
    try:
        if len(values) == 1 and "=" not in values[0]:
            return int(values[0])
        texts_by_split: dict[str, str] = {}
        for split, text in (value.split("=") for value in values):
            if split in texts_by_split:  # the first number would be lost
                raise UsageError(
                    f"--num_shards {split} is given twice, as {texts_by_split[split]!r} and as {text!r}; give it once"
                )
            texts_by_split[split] = text
        return {split: int(text) for split, text in texts_by_split.items()}
    except ValueError:
        raise UsageError(f"--num_shards is {' '.join(values)!r}; write --num_shards 8, or {_OF_EACH_SPLIT}") from None


@contextlib.contextmanager
def as_usage_errors(prefix: str = "") -> Iterator[None]:
    """Turns a TypeError or ValueError about an argument into a UsageError that starts with `prefix`."""
    try:
        yield
    except BeamDatasetsError:
        raise
    except (TypeError, ValueError) as error:
        raise UsageError(f"{prefix}: {error}" if prefix else str(error)) from error


def check_beam_options(options: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Checks that Beam knows the options that a parser does not.

    Args:
        options: arguments that the parser did not recognize.
        parser: parser of this command, whose options may have been meant.

    Raises:
        MissingDependencyError: Beam is not installed.
        UsageError: Beam does not know one of them either.
    """
    if not options:
        return
    beam = _beam_parser()
    parsed, unknown = beam.parse_known_args(list(options))
    for label in getattr(parsed, "labels", None) or []:
        if "=" not in label and "{" not in label:  # of Dataflow's jobs; Beam would ignore it elsewhere
            hint = near_option(["--label", label], parser)
            raise UsageError(f"--label {label}: expected KEY=VALUE, a label of a job on Dataflow, got {label!r}.{hint}")
    if not unknown:
        return
    first = unknown[0]
    if not first.startswith("-"):
        repetition_note = f", and is repeated for each split, as in {_OF_EACH_SPLIT}" if "=" in first else ""
        raise UsageError(
            f"what is {first!r}? An option begins with --{repetition_note}; see {parser.prog} --help."
            f"{_hint_on_positional(first, parser)}"
        )
    if first.partition("=")[0] == "--resume":
        raise UsageError(
            f"--resume: expected build, got {parser.prog}. Only build continues a failed run: "
            "start the same command without --resume, and it starts from the beginning."
        )
    raise UsageError(
        f"unknown option {first.partition('=')[0]}: neither this command nor Beam has it."
        f"{near_option(unknown, parser, beam)} See {parser.prog} --help; arguments "
        "after a lone -- go to Beam unchecked."
    )


def _hint_on_positional(argument: str, parser: argparse.ArgumentParser) -> str:
    """Returns a sentence, after a space, on the option that may be missing before an argument; '' if none is likely.

    Args:
        argument: an argument that is neither an option nor the value of one.
        parser: parser of the command.
    """
    from beam_datasets.metadata.names import USUAL_SPLITS

    options = parser._option_string_actions
    if "--pattern" in options:
        return f" Files are given by --pattern {argument}."
    if "--split" in options and (argument.partition("[")[0] in USUAL_SPLITS or "[" in argument):
        return f" Did you mean '--split {argument}'?"
    if "--source" in options:
        return (
            f" --to gives the new name, such as --to {argument}; features are joined by commas, as in --features "
            f"A,{argument}, and datasets are joined by --split, as in --split 'train=train+{argument}:train'."
        )
    return f" Did you mean '--features {argument}'?" if "--features" in options else ""


def near_option(args: Sequence[str], *parsers: argparse.ArgumentParser) -> str:
    """Returns ` Use `--option VALUE`.` or ` Did you mean '--option'?` for an unknown option; '' if none is similar.

    Args:
        args: the arguments from the unknown option on.
        parsers: the parser of the command, and others whose options may be meant.
    """
    from beam_datasets.advice import instead_of_option

    option, equals, value = args[0].partition("=")
    following = args[1] if len(args) > 1 and not args[1].startswith("-") else None
    command = (parsers[0].prog or "").partition(" ")[2]
    option_names = [name for parser in parsers for name in parser._option_string_actions]
    available = {*parsers[0]._option_string_actions, *OF_EVERY_COMMAND}
    given = {arg.partition("=")[0] for arg in getattr(parsers[0], "_args", ())}
    if foreign := instead_of_option(command, option, value if equals else following, available, given):
        return f" {foreign}"
    positive = f"--{option[4:].removeprefix('_')}"
    if option.startswith("--no") and f"--no_{positive[2:]}" not in option_names and positive in option_names:
        return f" Leave out {option}: an option such as {positive} has its effect only if it is given."  # as of absl
    return did_you_mean(option, option_names, cutoff=0.7)  # all begin with --


def _beam_parser() -> argparse.ArgumentParser:
    """Returns a parser of the options of Beam and of engines, which raises UsageError instead of ending the process."""
    with importing_beam():
        from apache_beam.options import pipeline_options

        from beam_datasets.engines import flink, local_runner  # noqa: F401  # their options become Beam's

    class Collected(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            """Raises the error about an option of Beam, instead of exiting; see `argparse.ArgumentParser.error`.

            Raises:
                UsageError: always.
            """
            raise UsageError(f"{message} (an option of Beam)")

    parser = Collected(allow_abbrev=False, add_help=False, conflict_handler="resolve")
    for kind in pipeline_options.PipelineOptions.__subclasses__():
        kind._add_argparse_args(parser)  # type: ignore[arg-type]
    return parser
