"""Options: a builder's constructor on the command line, sizes, and what belongs to Beam."""

from __future__ import annotations

import argparse
import ast
import collections.abc as abc
import dataclasses
import datetime
import decimal
import enum
import importlib
import inspect
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NewType, Optional, Union

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.builders import DatasetBuilder
from beam_datasets.cli import build, materialize, options, stats
from beam_datasets.cli.builder_options import add_builder_options, builder_arguments
from beam_datasets.cli.main import main
from beam_datasets.cli.options import (
    Command,
    Flag,
    Group,
    Option,
    Parser,
    UsageError,
    check_beam_options,
    num_shards,
    size_in_bytes,
    with_underscores,
)
from beam_datasets.cli.resolve import FORMATS, resolve
from beam_datasets.engines.local_runner import LocalRunOptions
from beam_datasets.metadata.version import Version
from beam_datasets.options import EngineOptions

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Mapping, Sequence

    ForTyping = Fraction | None


class Base(DatasetBuilder, skip_registration=True):
    """Base.

    Args:
        splits: which rows
            go where.
        rate: 10% or so.
    """

    VERSION = "1.0.0"

    def __init__(
        self, *, splits: Mapping[str, str] | None = None, rate: float = 0.5, data_dir: str | None = None
    ) -> None:
        super().__init__(data_dir=data_dir)


class Derived(Base, skip_registration=True):
    def __init__(
        self,
        *,
        root: str,
        tags: Sequence[str] = (),
        deep: bool = False,
        wide: bool = True,
        size: int = 3,
        files: Mapping[str, str | Sequence[str]] | None = None,
        **common: Any,
    ) -> None:
        """Looks at the files.

        Args:
            root (str): where the files
                stand.
            tags: which of them.
            size (int, optional): rows of each.
        """
        super().__init__(**common)


def parse(args: list[str], builder: type[DatasetBuilder] = Derived) -> dict[str, Any]:
    parser = Parser("test")
    add_builder_options(parser, builder)
    return builder_arguments(parser.parse_args(args), builder)


class Mode(enum.Enum):
    FAST = "quick"
    SLOW = 2


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Rates:
    learning: float = 0.1
    steps: int | None = 3
    names: list[str] = dataclasses.field(default_factory=list)


UserId = NewType("UserId", int)


class Typed(DatasetBuilder, skip_registration=True):
    """Annotations that are texts, or name what is imported for type checkers alone, or are missing."""

    VERSION = "1.0.0"

    def __init__(
        self,
        *,
        int_or_none: "int | None" = None,  # noqa: UP037
        path_like: os.PathLike[str] | None = None,
        words: Sequence[str] | None = None,
        one_or_more: str | Sequence[str] = "x",
        counts: Mapping[str, int] | None = None,
        for_typing: ForTyping = None,  # type: ignore[assignment]
        only_typing: Collection[Fraction] = (),
        optional_bool: Optional[bool] = None,  # noqa: UP045
        on: bool = False,
        off: bool = True,
        array_flag: np.bool_ = np.bool_(False),  # noqa: B008
        unresolvable: "Nowhere" = None,  # type: ignore[name-defined]  # noqa: F821, UP037
        untyped=5,  # type: ignore[no-untyped-def]
        untyped_items=(1, 2),
        untyped_none=None,
        rates: Rates = Rates(0.5, 7),  # noqa: B008
    ) -> None:
        super().__init__()


@pytest.mark.parametrize(
    ("args", "value"),
    [
        ("--int_or_none=-5", -5),
        ("--path_like a/b", Path("a/b")),
        ("--one_or_more a", "a"),
        ("--one_or_more a --one_or_more b", ["a", "b"]),
        ("--count a=1 --count b=2", {"a": 1, "b": 2}),
        ("--for_typing 1/2", Fraction(1, 2)),
        ("--only_typing 1/2 --only_typing 1/4", [Fraction(1, 2), Fraction(1, 4)]),
        ("--optional_bool False", False),
        ("--optional_bool=true", True),
        ("--optional_bool", True),
        ("--optional_bool None", None),
        ("--no_optional_bool", False),
        ("--no-optional-bool", False),
        ("--on False", False),
        ("--no_on", False),
        ("--off false", False),
        ("--no-off", False),
        ("--array_flag False", np.bool_(False)),
        ("--untyped 6 --untyped 7", 7),
        ("--untyped_item 6", (6,)),
        ("--untyped_none 6", "6"),
        ("--rates learning=1", Rates(1.0, 7)),
        ("--rate steps=None --rate names=x --rate names=y", Rates(0.5, None, ["x", "y"])),
    ],
)
def test_values_have_the_types_of_their_annotations(args: str, value: Any) -> None:
    """Options of a builder are converted by its type hints, however these are written."""
    [found] = parse(with_underscores(args.split()), Typed).values()
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("hint", "texts", "value"),
    [
        (Optional[int], "5", 5),  # noqa: UP045
        (Optional[int], "None", None),  # noqa: UP045
        (str | None, "5", "5"),
        (str | None, "None", "None"),
        (Literal["a", "b"], "b", "b"),
        *((Literal["1", 2, False] | None, str(value), value) for value in ("1", 2, False)),
        (Path, "a/b", Path("a/b")),
        (Optional[Path], "a/b", Path("a/b")),  # noqa: UP045
        (str | Path, "a/b", "a/b"),
        (Union[str, int], "5", 5),  # noqa: UP007
        (Union[str, int], "five", "five"),  # noqa: UP007
        (float | int, "5", 5),
        (float | int, "5.5", 5.5),
        (bool | int | str, "1", 1),
        (bool | int | str, "false", False),
        (bool | int | str, "x", "x"),
        (list[int], "1 2", [1, 2]),
        (list[float] | None, "1 2.5", [1.0, 2.5]),
        (tuple[int, ...], "1 2", (1, 2)),
        (tuple[int, str], "1 2", (1, "2")),
        (tuple, "1 2", ("1", "2")),
        (set[int], "2 2", {2}),
        (frozenset[str], "a", frozenset("a")),
        (dict[str, list[int]] | None, "a=1 a=2 b=3", {"a": [1, 2], "b": [3]}),
        (dict[int, bool], "1=no", {1: False}),
        (Mode, "SLOW", Mode.SLOW),
        (Mode, "quick", Mode.FAST),
        (Mode | None, "2", Mode.SLOW),
        (Level, "LOW", Level.LOW),
        (Optional[Rates], "steps=5", Rates(0.1, 5)),  # noqa: UP045
        (UserId, "5", 5),
        (Annotated[int, "doc"], "5", 5),
        (Any, "5", "5"),
        (datetime.date | None, "2024-02-03", datetime.date(2024, 2, 3)),
        (decimal.Decimal, "1.10", decimal.Decimal("1.10")),
        (Version | None, "1.2.3", Version("1.2.3")),
        (bytes, "x", b"x"),
    ],
)
def test_every_type(hint: Any, texts: str, value: Any) -> None:
    """See docs/reference/command.md for the types."""
    found = converted(hint, *texts.split())
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ("--optional_bool x", "--optional_bool: expected true or false, got 'x'"),
        ("--on x", "--on: expected true or false, got 'x'"),
        ("--no_on x", "--no_on: expected no value, got 'x'"),
        ("--count a", r"--count: expected NAME=VALUE \(a whole number\), such as a=8, got 'a'"),
        ("--count a=1 --count a=2", "--count: a is given twice, as '1' and as '2'"),
        ("--rates speed=1", "--rate: expected learning=VALUE or steps=VALUE or names=VALUE, got 'speed=1'"),
        ("--rate learning=1 --rate name=x", "--rate: expected learning=VALUE or steps=VALUE or names=VALUE, got 'le"),
        ("--unresolvable x", "a value of 'Nowhere', which cannot be resolved .*'Nowhere' is not defined.*, got"),
        ("--untyped x", "--untyped: expected a whole number, such as 8, got 'x'"),
    ],
)
def test_values_of_other_types_are_errors(args: str, problem: str) -> None:
    """A value that does not fit its type is an error that names the option, the type and the value."""
    with pytest.raises(UsageError, match=problem):
        parse(args.split(), Typed)


@pytest.mark.parametrize(
    ("hint", "texts", "expected"),
    [
        (int | None, "1.5", "a whole number, such as 8"),
        (Literal["a", "b"], "zzz", "'a' or 'b'"),
        (Literal["1", 2, False] | None, "3", "'1' or 2 or False"),
        (Mode, "medium", "FAST or SLOW"),
        (list[int], "1 x", "a whole number, such as 8"),
        (tuple[int, str], "1", "a whole number and text"),
        (tuple[int, str], "x y", "a whole number and text"),
        (dict[str, list[int]], "a=x", "NAME=VALUE (a whole number), such as a=8"),
        (datetime.date | None, "tomorrow", "a date, such as 2026-01-31"),
        (dict[str, str], "a", "NAME=VALUE, such as a=b"),
        (float, "x", "a number, such as 0.5"),
        (decimal.Decimal, "x", "a value of Decimal"),
        (Version | None, "x", "a value of Version"),
        (abc.Callable[[int], int] | None, "x", "a value of Callable"),
    ],
)
def test_every_error(hint: Any, texts: str, expected: str) -> None:
    """An error says which values a type has."""
    shown = ", ".join(map(repr, texts.split()))
    with pytest.raises(UsageError, match=re.escape(f"--x: expected {expected}, got {shown}")):
        converted(hint, *texts.split())


@given(st.integers() | st.none() | st.floats(allow_nan=False))
def test_what_python_prints_is_read_back(value: Any) -> None:
    hints = {"x": float | int | None}
    assert converted(hints["x"], str(value)) == value
    assert type(converted(hints["x"], str(value))) is type(value)


def converted(hint: Any, *texts: str) -> Any:
    """Returns the value of an option of a type."""

    def init(self: Any, *, x=None) -> None:  # type: ignore[no-untyped-def]
        pass

    init.__annotations__["x"] = hint
    kind = type("Made", (DatasetBuilder,), {"__init__": init, "VERSION": "1.0.0"}, skip_registration=True)
    return parse([part for text in texts for part in ("--x=" + text,)], kind)["x"]


def test_a_builder_that_is_a_dataclass() -> None:
    @dataclasses.dataclass
    class Data(DatasetBuilder, skip_registration=True):
        VERSION = "1.0.0"
        size: Optional[int] = 3  # noqa: UP045
        names: list[str] = dataclasses.field(default_factory=list)

    assert parse(["--size", "4", "--name", "x", "--name", "y"], Data) == {"size": 4, "names": ["x", "y"]}
    assert parse([], Data) == {}


def test_a_repeated_name() -> None:
    args = ["--root", "r", "--file", "a=x", "--file", "a=y", "--file", "b=z"]
    assert parse(args) == {"root": "r", "files": {"a": ["x", "y"], "b": "z"}}
    with pytest.raises(UsageError, match="--split: train is given twice, as 'x' and as 'y'"):
        parse(["--root", "r", "--split", "train=x", "--split", "train=y"])
    with pytest.raises(UsageError, match="--num_shards train is given twice, as '2' and as '3'"):
        num_shards(["train=2", "test=1", "train=3"])


@pytest.mark.parametrize("args", [[], ["--root"], ["--root", "r", "--split", "train"], ["--root", "r", "--size", "x"]])
def test_wrong_usage(args: list[str]) -> None:
    with pytest.raises(UsageError, match="--help"):
        parse(args)


def test_help_is_the_docstring_of_classes_and_constructors() -> None:
    parser = Parser("test")
    add_builder_options(parser, Derived)
    text = " ".join(parser.format_help().split())
    assert "which rows go where." in text
    assert "10% or so." in text
    assert "--root ROOT where the files stand. Required. --tag" in text
    assert re.search(r"--tag( TAGS)?, --tags TAGS which of them. --deep( \[true\|false\])?, --no_deep", text)
    assert "--size SIZE rows of each. Default: 3. --file" in text


@pytest.mark.parametrize("name", FORMATS)
def test_each_option_of_a_format_of_files_is_described(name: str) -> None:
    parser = Parser("build")
    add_builder_options(parser, resolve(name).builder)
    assert [action.dest for action in parser._actions if not action.help] == []
    [version] = [action.help for action in parser._actions if action.dest == "builder.version"]
    assert version == "version of the dataset; raise it when the files have changed. Default: '1.0.0'."


class Kind(enum.Enum):
    SMALL = 1


class Defaults(DatasetBuilder, skip_registration=True):
    """A builder whose arguments have defaults of each kind.

    Args:
        rows: rows to read.
        kind: the kind.
        scale: 100% is 1.
        folder: the folder.
        plain: whether it is plain.
        fast: whether it is fast.
        text: the text.
        names: the names.
        long: the long text.
        limit: the limit; by default none.
        source: the source.
    """

    VERSION = "1.0.0"

    def __init__(
        self,
        *,
        rows: int = 20_000,
        kind: Kind = Kind.SMALL,
        scale: float = 0.0,
        folder: Path = Path("a/b"),
        plain: bool = False,
        fast: bool = True,
        text: str = "",
        names: tuple[str, ...] = (),
        long: str = "x" * 60,
        limit: int = 3,
        source: str,
    ) -> None:
        super().__init__()


def test_the_help_of_an_option_has_the_default() -> None:
    parser = Parser("build")
    add_builder_options(parser, Defaults)
    helps = {action.dest.removeprefix("builder."): action.help for action in parser._actions}
    del helps["help"]
    assert helps == {
        "rows": "rows to read. Default: 20000.", "kind": "the kind. Default: SMALL.",
        "scale": "100%% is 1. Default: 0.0.", "folder": "the folder. Default: 'a/b'.", "plain": "whether it is plain.",
        "fast": "whether it is fast. Default: true.", "text": "the text.",
        "names": "the names.",
        "long": "the long text.", "limit": "the limit; by default none.", "source": "the source. Required.",
    }  # fmt: skip
    assert "100% is 1" in parser.format_help()


class Flags(enum.Flag):
    LEFT, RIGHT = 1, 2


@pytest.mark.parametrize(
    "default, sentence",
    [
        (0, "Default: 0."), (np.int64(0), "Default: 0."), (np.int32(7), "Default: 7."), (0.5, "Default: 0.5."),
        (np.float32(1.5), "Default: 1.5."), (".", "Default: '.'."), ('"', "Default: '\"'."), (" ", "Default: ' '."),
        (Path(), "Default: '.'."), (Flags.LEFT, "Default: LEFT."), (Flags(0), ""), (datetime.date(2026, 1, 31),
        "Default: 2026-01-31."), (np.array([0, 0]), ""), (np.array([]), ""), (np.array(0), ""), (np.ma.masked, ""),
        (pa.array([0, 1]), ""), (pa.scalar(None), ""), (b"", ""), ([], ""), ({}, ""), (object(), ""),
    ],
)  # fmt: skip
def test_the_default_of_an_option_is_of_any_type(default: Any, sentence: str) -> None:
    """A comparison of an array with 0 raised an error, and a full stop followed the one of a text."""

    class WithDefault(DatasetBuilder, skip_registration=True):
        """A builder.

        Args:
            x: the argument.
        """

        VERSION = "1.0.0"

        def __init__(self, *, x: Any = default) -> None:
            super().__init__()

    parser = Parser("build")
    add_builder_options(parser, WithDefault)
    [text] = [action.help for action in parser._actions if action.dest == "builder.x"]
    assert text == ("the argument. " + sentence if sentence else "the argument.")
    assert builder_arguments(parser.parse_args([]), WithDefault) == {}


def test_the_options_of_a_command() -> None:
    command = Command(
        "show",
        "What it does.",
        (
            Option("source", "SOURCE", "50% of it"),
            Option("--size", "SIZE", type=size_in_bytes),
            Option("--name", "NAME", "can be repeated", repeated=True),
            Option("--mode", help="how", choices=("a", "b")),
            Option("--check", "VERSION", "against it", value_is_optional=True, const="latest"),
            Group("engine", Flag("--fast_mode", "quickly"), Flag("--no_wait", "end early")),
        ),
    )
    found = vars(command.parse(["x", "--size=1kB", "--name", "a", "--name=b", "--check", "--fast-mode"]))
    assert found == {
        "source": "x", "size": 1000, "name": ["a", "b"], "mode": None, "check": "latest", "fast_mode": True,
        "wait": True,
    }  # fmt: skip
    assert vars(command.parse(["x"])) == dict.fromkeys(found) | {"source": "x", "fast_mode": False, "wait": True}
    text = " ".join(command.parser().format_help().split())
    for part in (
        "usage: beam-datasets show",
        "What it does.",
        "SOURCE 50% of it",
        "engine: --fast_mode quickly --no_wait end early",
    ):
        assert part in text
    for wrong in (["x", "--mode", "c"], ["x", "--size", "1 X"], ["x", "--none"], []):
        with pytest.raises(UsageError, match="See beam-datasets show --help"):
            command.parse(wrong)


def test_names_with_hyphens() -> None:
    assert with_underscores(["--data-dir=a-b", "--key", "x-y", "-v"]) == ["--data_dir=a-b", "--key", "x-y", "-v"]
    assert with_underscores(["--no-keep-blank"]) == ["--no_keep_blank"]


@pytest.mark.parametrize("text", ["", "x", "-1", "1 XB", "1KK"])
def test_no_size(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        size_in_bytes(text)


def test_beam_options() -> None:
    parser = Parser("test")
    parser.add_argument("--num_shards", action="append")
    check_beam_options([], parser)
    check_beam_options(["--runner", "FlinkRunner", "--flink_master=localhost:8081", "--experiments", "x"], parser)
    check_beam_options(["--labels", "team=speech", "--labels", '{"cost": "research"}'], parser)  # both forms of Beam
    with pytest.raises(UsageError, match="--label kind: expected KEY=VALUE"):
        check_beam_options(["--label", "kind"], parser)
    with pytest.raises(UsageError, match=r"unknown option --num_shard: .* Did you mean '--num_shards'\?"):
        check_beam_options(["--num_shard", "3"], parser)
    with pytest.raises(UsageError, match=r"unknown option --runer: .* Did you mean '--runner'\?"):
        check_beam_options(["--runer=x"], parser)
    with pytest.raises(UsageError, match="what is 'stray'"):
        check_beam_options(["--streaming", "stray"], parser)
    words = r"what is 'test=1'\? .* is repeated for each split, as in --num_shards train=8 --num_shards test=1; see"
    with pytest.raises(UsageError, match=words):
        check_beam_options(parser.parse_known_args(["--num_shards", "train=8", "test=1"])[1], parser)


def test_a_new_process_knows_the_options_of_engines() -> None:
    """Beam has them where the modules of engines are imported, which they are in the process of the tests."""
    code = (
        "from beam_datasets.cli.options import Parser, check_beam_options\n"
        "check_beam_options(['--stall_timeout', '60', '--execution_mode_for_batch=PIPELINED'], Parser('test'))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("command", [build.COMMAND, materialize.MATERIALIZE, materialize.EXPORT, stats.COMMAND])
def test_help_has_the_options_that_this_package_adds_to_those_of_beam(command: Command) -> None:
    parser = argparse.ArgumentParser()
    LocalRunOptions._add_argparse_args(parser)
    [name] = [name for action in parser._actions for name in action.option_strings if name not in ("-h", "--help")]
    assert f"{name} SECONDS" in command.parser().format_help()
    arguments = (
        ["a", "--to=b", "--format=parquet", name, "2.5"] if command is materialize.EXPORT else ["a", name, "2.5"]
    )
    beam_options = command.parse_with_beam(arguments)[1]
    assert PipelineOptions(beam_options).view_as(LocalRunOptions).stall_timeout == 2.5
    with pytest.raises(UsageError, match="expected a number greater than 0, got '0'"):
        command.parse_with_beam([*arguments[:-1], "0"])


@pytest.mark.parametrize("values", [["train=8,test=1"], ["train=8", "1"], ["8", "1"], ["train"]])
def test_no_numbers_of_shards(values: list[str]) -> None:
    with pytest.raises(UsageError, match="write --num_shards 8, or --num_shards train=8 --num_shards test=1"):
        num_shards(values)


class OptionsOfTheCommand(DatasetBuilder, skip_registration=True):
    """A builder with arguments that are options of each command, and of this one."""

    VERSION = "1.0.0"

    def __init__(self, *, imports: str = "", debug: bool = False, salt: int = 0) -> None:
        super().__init__()


def test_arguments_with_the_names_of_options_of_the_command() -> None:
    """`main` takes --debug and --imports out of the arguments, whose help said that the builder gets them."""
    parser = Parser("build")
    parser.add_argument("--salt")
    add_builder_options(parser, OptionsOfTheCommand)
    text = parser.format_help()
    assert re.findall(r"--[a-z_.]+", text.partition("options of")[2]) == [
        "--builder.imports", "--builder.debug", "--no_debug", "--builder.salt",
    ]  # fmt: skip
    args = parser.parse_args(["--builder.imports", "x", "--builder.debug", "--builder.salt=3", "--salt=9"])
    assert builder_arguments(args, OptionsOfTheCommand) == {"imports": "x", "debug": True, "salt": 3}
    assert args.salt == "9"
    args = parser.parse_args(["--builder.debug=maybe", "--salt=9"])
    with pytest.raises(UsageError, match=r"^--builder.debug: expected true or false, got 'maybe'"):
        builder_arguments(args, OptionsOfTheCommand)


@pytest.mark.parametrize(
    "args, problem",
    [
        (
            ["--debug=yes"],
            "--debug: expected no value, got 'yes'. If it is an argument of the builder, write --builder.debug",
        ),
        (
            ["--quiet=a\nb"],
            "--quiet: expected no value, got 'a\\nb'. If it is an argument of the builder, write --builder.quiet",
        ),
        (["--dry_run="], "--dry_run: expected no value, got ''"),
        (["--pattern"], "--pattern: expected a value, got none"),
        (["--imports"], "--imports: expected a value, got none"),
        (["--name", "--key", "a"], "--name: expected a value, got none"),
    ],
)
def test_errors_of_argparse_have_what_was_expected_and_got(
    args: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", "csv", *args]) == 2
    assert capsys.readouterr().err.startswith(f"beam-datasets: {problem}\n")


FILES = sorted(Path(options.__file__).parent.glob("*.py"))
MODULES_OF_COMMANDS = [path for path in FILES if "= Command(" in path.read_text()]


def names_read(tree: ast.Module) -> set[str]:
    """Returns the names of options that a module reads, itself or as arguments of functions that `given` gets."""
    is_declaration = lambda node: ast.unparse(getattr(getattr(node, "value", None), "func", node)) == "Command"  # noqa: E731
    tree = ast.Module([node for node in tree.body if not is_declaration(node)], [])
    space: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("beam_datasets"):
            exec(ast.unparse(node), space)  # the imports inside of functions, too
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    found = {node.attr for node in attributes if ast.unparse(node.value) == "parsed"}
    found |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "given":
            for function in node.args[1:]:
                if ast.unparse(function).split(".")[0] in space:
                    found |= set(inspect.signature(eval(ast.unparse(function), space)).parameters)
    return found


@pytest.mark.parametrize("path", MODULES_OF_COMMANDS, ids=lambda path: path.stem)
def test_every_option_of_a_command_is_read(path: Path) -> None:
    """`given` leaves out what no function takes, so an argument with another name would be an option without effect."""
    module = importlib.import_module(f"beam_datasets.cli.{path.stem}")
    commands = [value for value in vars(module).values() if isinstance(value, Command)]
    declared = {action.dest for command in commands for action in command.parser()._actions} - {"help"}
    read = names_read(ast.parse(path.read_text()))
    if "engine_options(" in path.read_text():
        read |= {field.name for field in dataclasses.fields(EngineOptions)} | {options.STALL_TIMEOUT.name[2:]}
    assert declared
    assert declared <= read


@pytest.mark.parametrize("option, positive", [("--nooverwrite", "--overwrite"), ("--nodry-run", "--dry_run")])
def test_a_negated_flag_is_left_out(option: str, positive: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Options such as those of absl have the effect of no option here."""
    assert main(["build", "csv", "--name", "a", "--pattern", "a.csv", option]) == 2
    error = capsys.readouterr().err
    assert f"Leave out {with_underscores([option])[0]}: an option such as {positive}" in error
    assert "Did you mean" not in error


def test_a_negated_flag_that_exists(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "csv", "--name", "a", "--pattern", "a.csv", "--noverify_ssl"]) == 2
    assert "Did you mean '--no_verify_ssl'?" in capsys.readouterr().err


def test_values_of_resume(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, value in (["--resume"], True), (["--resume", "changed"], "changed"), ([], None):
        assert build.COMMAND.parse(["csv", *arguments]).resume == value
    assert main(["build", "csv", "--name", "a", "--pattern", "a.csv", "--resume", "yes"]) == 2
    assert "expected --resume without a value or --resume changed, got 'yes'" in capsys.readouterr().err


def test_a_trial_of_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n\n1\n")
    arguments = ["csv", "--name", "a", "--pattern", str(tmp_path / "a.csv"), "--data_dir", str(tmp_path)]
    assert main(["plan", *arguments, "--trial", "2"]) == 2
    assert "--trial: expected build, got plan" in capsys.readouterr().err
