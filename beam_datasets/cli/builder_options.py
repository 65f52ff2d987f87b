"""Command line options for the keyword arguments of a builder's constructor, converted by their type hints.

No library does this: the options share a parser with those of the command, and unknown ones go to Beam. `jsonargparse`
has no `parse_known_args`; `click`, `typer` and `cyclopts` parse whole command lines; `pydantic` converts, but has other
rules for enums, literals and unions of texts than a command line needs.
"""

from __future__ import annotations

import argparse
import ast
import collections.abc as abc
import contextlib
import dataclasses
import datetime
import enum
import functools
import inspect
import numbers
import os
import pathlib
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from beam_datasets.cli.options import OF_EVERY_COMMAND, UsageError

if TYPE_CHECKING:
    from beam_datasets.builders import DatasetBuilder

_NOT_OPTIONS = ("self", "data_dir", "config", "storage_options")
_ARGUMENT = r"^ *{}(?: \(.*?\))?: (.+(?:\n(?! *\w+(?: \(.*?\))?:).*\S.*)*)"  # a type in brackets may follow
_BOOLS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_MAPPINGS = (dict, abc.Mapping, abc.MutableMapping)
_COLLECTIONS: dict[Any, Callable[[list[Any]], Any]] = {
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable), list),
    **dict.fromkeys((set, abc.Set, abc.MutableSet), set),
    frozenset: frozenset,
    tuple: tuple,
}
_EXAMPLES = {
    "--split": "Write shares, as in --split train=80% --split test=20%, or files, as in --split train='a*.csv'",
    "--feature": "Write the type of a column, as in --feature price=float32, or --feature note=drop",
}
"""Option of the builders of files -> how to write its value."""
_QUOTED_NAME = re.compile(r'"((?:[^"]|"")+)"=(.*)', re.DOTALL)
_WORDS: dict[Any, tuple[str, str]] = {
    int: ("a whole number", "8"),
    float: ("a number", "0.5"),
    datetime.date: ("a date", "2026-01-31"),
    datetime.datetime: ("a time", "2026-01-31T12:00:00"),
}
"""Type -> what it is, and an example."""


@dataclasses.dataclass(frozen=True)
class _Kind:
    """One alternative of a type hint.

    Attributes:
        text: the values that it accepts, for errors.
        make: function from all texts of an option to the value; raises if they do not fit.
        rank: position in the order in which alternatives are tried; those that accept any text come last.
        is_repeated: whether several texts make one value.
        is_mapping: whether the texts are NAME=VALUE.
        example: a value, for errors; '' for none.
    """

    text: str
    make: Callable[[Sequence[str]], Any]
    rank: int = 0
    is_repeated: bool = False
    is_mapping: bool = False
    example: str = ""


def add_builder_options(parser: argparse.ArgumentParser, builder: type[DatasetBuilder]) -> None:
    """Adds an option for each keyword argument of a builder's constructor, described by its docstring.

    Options for mappings, dataclasses (`--split train=a --split test=b`) and collections can be repeated. An argument
    that has the name of an option of the command is `--builder.NAME`.
    """
    group = parser.add_argument_group(f"options of {builder.name}")
    options = _constructor_options(builder)
    for option in options:
        kinds = _list_kinds(option.annotation, option.default)
        settings: dict[str, Any] = {"action": "append", "metavar": option.name.upper()}
        if any(kind.is_mapping for kind in kinds):
            settings["metavar"] = "NAME=VALUE"
        flags = _flags(option)
        if [kind.text for kind in kinds] in (["true or false"], ["true or false", "None"]):
            settings, flags = {"action": _Flag, "nargs": "?", "metavar": "true|false"}, [*flags, f"--no_{option.name}"]
        used_flags = {*OF_EVERY_COMMAND, *parser._option_string_actions}
        used_flags |= {f"--{other.name}" for other in options if other is not option}
        prefixed_flags = {f"--{option.name}": f"--{_dest(option.name)}"}
        flags = [prefixed_flags.get(flag, "") if flag in used_flags else flag for flag in flags]
        settings |= {"required": option.default is option.empty, "default": argparse.SUPPRESS}
        flags = list(filter(None, flags))
        group.add_argument(*flags, dest=_dest(option.name), help=_help(builder, option), **settings)
        parser.set_defaults(**{_flag_dest(option.name): flags[0]})


def _dest(name: str) -> str:
    """Returns the name of the parsed attribute for a builder's option, which differs from those of the command."""
    return f"builder.{name}"


def _flag_dest(name: str) -> str:
    """Returns the name of the parsed attribute that contains the option string of a builder's option, for errors."""
    return f"{_dest(name)} flag"


def _flags(option: inspect.Parameter) -> list[str]:
    """Returns the option strings; for a repeatable option also the singular, such as `--split` for `splits`."""
    is_repeated = any(kind.is_repeated for kind in _list_kinds(option.annotation, option.default))
    return [*([f"--{option.name[:-1]}"] if is_repeated and option.name.endswith("s") else []), f"--{option.name}"]


def builder_arguments(args: argparse.Namespace, builder: type[DatasetBuilder]) -> dict[str, Any]:
    """Returns {name: value} of the constructor's arguments for which an option is given, converted by their type hints.

    Raises:
        UsageError: a value does not fit its type.
    """
    arguments = {}
    for option in _constructor_options(builder):
        if (texts := getattr(args, _dest(option.name), None)) is not None:
            try:
                arguments[option.name] = _convert(option.annotation, texts, option.default)
            except (ValueError, UsageError) as error:
                flag = _flags(option)[0]
                example = f" {_EXAMPLES[flag]}." if flag in _EXAMPLES else ""
                written_flag = getattr(args, _flag_dest(option.name), flag)
                raise UsageError(f"{written_flag}: {error}.{example} See --help.") from None
    return arguments


class _Flag(argparse.Action):
    """`--x`, `--x false` or `--no_x`."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        negated = option_string == f"--no_{self.dest.removeprefix(_dest(''))}"
        if negated and values is not None:
            parser.error(f"{option_string}: expected no value, got {values!r}")
        setattr(namespace, self.dest, ["false" if negated else "true" if values is None else values])


def _help(builder: type[DatasetBuilder], option: inspect.Parameter) -> str:
    """Returns the description of an argument from the `Args:` of a class or of its constructor, and its default."""
    documented = [each for kind in builder.__mro__ for each in (kind, vars(kind).get("__init__"))]
    matches = (
        re.search(_ARGUMENT.format(option.name), inspect.cleandoc(each.__doc__ or ""), re.M)
        for each in documented
        if each
    )
    match = next(filter(None, matches), None)
    text = " ".join(match[1].split()) if match else ""
    if text and "default" not in text.lower() and (default := _default_text(option)):
        text = f"{text.removesuffix('.')}. {default}"
    return text.replace("%", "%%")


_MAX_DEFAULT = 40  # characters


def _default_text(option: inspect.Parameter) -> str:
    """Returns the sentence about the default of an argument; '' for None, False, empty values and long ones.

    Compares no values: a default may be an array, whose comparison is an array.

    >>> _default_text(inspect.Parameter("rows", inspect.Parameter.KEYWORD_ONLY, default=20_000))
    'Default: 20000.'
    """
    default = option.default
    if default is option.empty:
        return "Required."
    text = ""
    if isinstance(default, bool):
        text = "true" if default else ""
    elif isinstance(default, enum.Enum):
        text = default.name or ""  # a flag without bits has no name
    elif isinstance(default, (str, pathlib.PurePath)):
        text = repr(str(default)) if str(default) else ""  # quoted, as it may end with a full stop
    elif isinstance(default, (numbers.Real, datetime.date)):
        text = str(default)
    return f"Default: {text}." if 0 < len(text) <= _MAX_DEFAULT else ""


def _constructor_options(builder: type[DatasetBuilder]) -> list[inspect.Parameter]:
    """Returns a constructor's keyword arguments, those passed on to base classes too; their annotations are types."""
    from beam_datasets.builders import DatasetBuilder

    options: dict[str, inspect.Parameter] = {}
    for kind in builder.__mro__[: builder.__mro__.index(DatasetBuilder)]:
        if "__init__" not in vars(kind):
            continue
        function = inspect.unwrap(vars(kind)["__init__"])
        parameters = inspect.signature(function).parameters.values()
        for parameter in parameters:
            is_named = parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            if is_named and parameter.name not in (*_NOT_OPTIONS, *options):
                hint = _resolve_type_hint(parameter, getattr(function, "__globals__", {}))
                options[parameter.name] = parameter.replace(annotation=hint)
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    return list(options.values())


def _resolve_type_hint(parameter: inspect.Parameter, names: dict[str, Any]) -> Any:
    """Returns the type of an argument: its annotation, evaluated, or the type of its default.

    Returns a `_Kind` that refuses all texts if the annotation cannot be evaluated, and Any without annotation and
    default.

    Args:
        parameter: the argument.
        names: the global names of the constructor's module.
    """
    if parameter.annotation is parameter.empty:
        default = parameter.default
        if isinstance(default, (list, tuple)) and default:
            return list[type(default[0])] if isinstance(default, list) else tuple[type(default[0]), ...]  # type: ignore[misc]
        return Any if default is parameter.empty or default is None else type(default)
    holder = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        try:
            hints = typing.get_type_hints(holder, names)
        except NameError:  # imported for type checkers alone
            hints = typing.get_type_hints(holder, _names_for_typing(names.get("__name__", "")))
    except Exception as error:  # an annotation may be any expression
        description = f"{parameter.annotation}, which cannot be resolved ({type(error).__name__}: {error})"
        return _Kind(f"a value of {description}", _refuse_text)
    return hints[parameter.name]


@functools.cache
def _names_for_typing(module: str) -> dict[str, Any]:
    """Returns the names of a module with those that its `if TYPE_CHECKING:` blocks define."""
    names = dict(vars(sys.modules[module])) if module in sys.modules else {}
    with contextlib.suppress(OSError, TypeError, KeyError):  # no source, as of a module typed into an interpreter
        for node in ast.walk(ast.parse(inspect.getsource(sys.modules[module]))):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                for statement in node.body:
                    with contextlib.suppress(Exception):  # an import that fails leaves its names unresolved
                        exec(compile(ast.Module([statement], []), module, "exec"), names)
    return names


# ---------------------------------------------------------------------------------------------------------- conversion


def _convert(hint: Any, texts: Sequence[str], default: Any = None) -> Any:
    """Returns the value of a type that texts mean. Of several texts for one value, the last counts.

    Args:
        hint: the type, such as `int | None`.
        texts: texts of the option, one for each time it occurs in the command.
        default: default value of the argument, from which the type is derived if the hint does not determine it.

    >>> _convert(int | None, ["5"]), _convert(list[float], ["1", "2"]), _convert(dict[str, int], ["a=1"])
    (5, [1.0, 2.0], {'a': 1})

    Raises:
        ValueError: they do not fit the type.
    """
    kinds = _list_kinds(hint, default)
    is_collection = any(kind.is_repeated and not kind.is_mapping for kind in kinds)
    for kind in kinds:
        if kind.is_repeated or len(texts) == 1 or not is_collection:
            with contextlib.suppress(ValueError, TypeError, LookupError, ArithmeticError):
                return kind.make(texts)
    raise ValueError(f"expected {_describe_type(hint)}, got {', '.join(map(repr, texts))}")


def _describe_type(hint: Any) -> str:
    """Returns a text about the values that a type accepts; without None, the default of most options that accept it.

    >>> _describe_type(int | None), _describe_type(typing.Literal["a", "b"]), _describe_type(dict[str, int])
    ('a whole number, such as 8', "'a' or 'b'", 'NAME=VALUE (a whole number), such as a=8')
    """
    kinds = _list_kinds(hint)
    example = _example(kinds)
    return _in_words(kinds) + (f", such as {example}" if example else "")


def _example(kinds: Sequence[_Kind]) -> str:
    """Returns the first example of a value of the kinds; "" if no kind has an example."""
    return next((kind.example for kind in kinds if kind.example), "")


def _in_words(kinds: Sequence[_Kind]) -> str:
    """Returns the values that the kinds accept as text, without None: "a number or text"."""
    texts = list(dict.fromkeys(kind.text for kind in kinds))
    return " or ".join([text for text in texts if text != "None"] or texts)


def _list_kinds(hint: Any, default: Any = None) -> list[_Kind]:
    """Returns the alternatives of a type in the order in which they are tried.

    Args:
        hint: the type, such as `int | None` or `list[str]`.
        default: the default of the argument; if it is a dataclass, it supplies the fields that are not given.

    >>> [kind.text for kind in _list_kinds(int | None)]
    ['a whole number', 'None']
    """
    for attribute in ("__supertype__", "__value__"):  # of a NewType, of a type alias
        hint = getattr(hint, attribute, hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        members = (kind for member in typing.get_args(hint) for kind in _list_kinds(member, default))
        return sorted(members, key=lambda kind: kind.rank)
    return [hint if isinstance(hint, _Kind) else _kind_of_type(hint, default)]


def _kind_of_type(hint: Any, default: Any) -> _Kind:
    """Returns the texts that a type accepts, and their conversion; the type is not a union. See `_list_kinds`."""
    origin: Any = typing.get_origin(hint) or hint
    args = [each for each in typing.get_args(hint) if each is not ...]
    if hint in (str, Any, object):
        return _Kind("text", lambda texts: texts[-1], 4)
    if hint is types.NoneType:
        return _kind_of_choices("None", {"None": None}, 7)
    if origin is typing.Literal:
        return _kind_of_choices(" or ".join(map(repr, args)), {str(value): value for value in args})
    if isinstance(origin, enum.EnumMeta):
        members: dict[str, Any] = dict(origin.__members__)
        return _kind_of_choices(
            " or ".join(members), {str(member.value): member for member in members.values()} | members
        )
    if origin in _MAPPINGS:
        of_key, of_value = args or (Any, Any)

        def make(texts: Sequence[str]) -> dict[Any, Any]:
            """Returns the mapping of NAME=VALUE texts."""
            return {_convert(of_key, [name]): _convert_single(name, of_value, v) for name, v in _pairs(texts)}

        values = _list_kinds(of_value)
        value = "" if "text" in (words := _in_words(values)) else f" ({words})"
        example = f"a={_example(values) or 'b'}"
        return _Kind(f"NAME=VALUE{value}", make, is_repeated=True, is_mapping=True, example=example)
    if dataclasses.is_dataclass(origin):
        text = " or ".join(f"{field.name}=VALUE" for field in dataclasses.fields(origin))
        return _Kind(text, functools.partial(_dataclass, origin, default), is_repeated=True, is_mapping=True)
    if origin in _COLLECTIONS:
        items = [_list_kinds(arg) for arg in args]
        text = " and ".join(map(_in_words, items)) or "text"
        example = _example(items[0]) if len(items) == 1 else ""
        return _Kind(text, functools.partial(_collection, hint, origin), 6, is_repeated=True, example=example)
    if getattr(origin, "__name__", "") in ("bool", "bool_"):  # Python's and NumPy's
        return _Kind("true or false", lambda texts: origin(_BOOLS[texts[-1].lower()]), 2 if origin is bool else 0)
    # as for argparse, a class that is made from one text is a type of options
    makers: dict[Any, Any] = {os.PathLike: pathlib.Path, bytes: str.encode, type: _refuse_text}
    make = makers.get(origin, getattr(origin, "fromisoformat", origin))
    is_path = isinstance(origin, type) and issubclass(origin, os.PathLike)
    text, example = _WORDS.get(origin, (f"a value of {getattr(origin, '__name__', origin)}", ""))
    rank = 5 if is_path else {int: 1, float: 3}.get(origin, 0)
    return _Kind("a path" if is_path else text, lambda texts: make(texts[-1]), rank, example=example)


def _refuse_text(text: object) -> NoReturn:
    """Refuses any text: the function of a kind whose values cannot be given as text.

    Raises:
        ValueError: always.
    """
    raise ValueError


def _kind_of_choices(text: str, values: Mapping[str, Any], rank: int = 0) -> _Kind:
    """Returns the kind of a fixed set of values; of several texts, the last counts.

    Args:
        text: the accepted values, for errors.
        values: text -> its value.
        rank: see `_Kind`.
    """
    return _Kind(text, lambda texts: values[texts[-1]], rank)


def _pairs(texts: Sequence[str]) -> Iterable[tuple[str, list[str]]]:
    """Returns (name, list of its values) of texts NAME=VALUE, in the order of the names.

    A name in double quotes, as in CSV, may contain `=`.

    Raises:
        ValueError: a text has another form.

    >>> list(_pairs(["a=1", "b=2", "a=3", '"c=d"=4=5']))
    [('a', ['1', '3']), ('b', ['2']), ('c=d', ['4=5'])]
    """
    pairs: dict[str, list[str]] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if quoted := _QUOTED_NAME.fullmatch(text):
            name, value = quoted[1].replace('""', '"'), quoted[2]
        if not name or not equals:
            raise ValueError
        pairs.setdefault(name, []).append(value)
    return pairs.items()


def _convert_single(name: str, hint: Any, texts: Sequence[str]) -> Any:
    """Returns the value of one NAME of `NAME=VALUE` arguments, converted to its type.

    Args:
        name: the name.
        hint: the type of the value.
        texts: the values that are given for the name.

    Raises:
        UsageError: there are several values, and the type is not a collection.
        ValueError: a value does not fit the type.
    """
    if len(texts) > 1 and not any(kind.is_repeated and not kind.is_mapping for kind in _list_kinds(hint)):
        raise UsageError(f"{name} is given twice, as {' and as '.join(map(repr, texts))}; give it once")
    return _convert(hint, texts)


def _dataclass(kind: Any, default: Any, texts: Sequence[str]) -> Any:
    """Returns an instance of a dataclass with the fields that texts set.

    Args:
        kind: the dataclass.
        default: the default of the option; an instance of the dataclass provides the other fields.
        texts: NAME=VALUE, one per field.
    """
    names, parameters = vars(sys.modules[kind.__module__]), inspect.signature(kind).parameters
    values = {
        name: _convert_single(name, _resolve_type_hint(parameters[name], names), field_texts)
        for name, field_texts in _pairs(texts)
    }
    return dataclasses.replace(default, **values) if isinstance(default, kind) else kind(**values)


def _collection(hint: Any, origin: Any, texts: Sequence[str]) -> Any:
    """Returns a collection of the values that the texts mean; `_collection(list[int], list, ["1", "2"])` is [1, 2].

    Args:
        hint: the type of the collection, such as `tuple[int, str]`.
        origin: its class, such as `tuple`.
        texts: the text of each item.

    Raises:
        ValueError: a text does not fit the type of its item, or a tuple has another number of items.
    """
    items = typing.get_args(hint) or (Any, ...)
    if origin is not tuple or items[-1] is ...:
        return _COLLECTIONS[origin]([_convert(items[0], [text]) for text in texts])
    return tuple(_convert(item, [text]) for item, text in zip(items, texts, strict=True))
