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
import enum
import functools
import inspect
import os
import pathlib
import re
import sys
import types
import typing
from typing import TYPE_CHECKING, Any

from beam_datasets.cli.options import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from beam_datasets.builders import DatasetBuilder

_NOT_OPTIONS = ("self", "data_dir", "config", "storage_options")
_ARGUMENT = r"^ *{}(?: \(.*?\))?: (.+(?:\n(?! *\w+(?: \(.*?\))?:).*\S.*)*)"  # its type may be in brackets
_BOOLS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_MAPPINGS = (dict, abc.Mapping, abc.MutableMapping)
_COLLECTIONS: dict[Any, Callable[[list[Any]], Any]] = {
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable), list),
    **dict.fromkeys((set, abc.Set, abc.MutableSet), set),
    frozenset: frozenset,
    tuple: tuple,
}
_TEXTS = (str, Any, object)


@dataclasses.dataclass(frozen=True)
class _Unresolved:
    """The type hint of an annotation that cannot be evaluated."""

    annotation: str
    error: str


@dataclasses.dataclass(frozen=True)
class _Option:
    """An option for a keyword argument.

    Attributes:
        name: the argument's.
        hint: its type.
        default: `inspect.Parameter.empty` if it is required.
    """

    name: str
    hint: Any
    default: Any

    @property
    def flags(self) -> list[str]:
        """The option strings: of what can be repeated also the singular, `--split` for `splits`."""
        repeated = any(_is_mapping(hint) or _is_collection(hint) for hint in _alternatives(self.hint))
        singular = [f"--{self.name[:-1]}"] if repeated and self.name.endswith("s") else []
        return [*singular, f"--{self.name}"]

    def convert(self, texts: Sequence[str]) -> Any:
        """Returns the value that the texts of the option mean.

        Raises:
            UsageError: they do not fit the type.
        """
        try:
            return _convert(self.hint, texts, self.default)
        except (ValueError, UsageError) as error:
            raise UsageError(f"{self.flags[0]}: {error}. See --help.") from None


def add_builder_options(parser: argparse.ArgumentParser, builder: type[DatasetBuilder]) -> None:
    """Adds an option for each keyword argument of a builder's constructor, described by its docstring.

    Options for mappings, dataclasses (`--split train=a --split test=b`) and collections can be repeated.
    """
    group = parser.add_argument_group(f"options of {builder.name}")
    options = _options(builder)
    for option in options:
        alternatives = _alternatives(option.hint)
        settings: dict[str, Any] = {"action": "append"}
        if any(map(_is_mapping, alternatives)):
            settings["metavar"] = "NAME=VALUE"
        flags = option.flags
        if alternatives[0] is bool and alternatives[1:] in ([], [types.NoneType]):
            settings, flags = {"action": _Flag, "nargs": "?", "metavar": "true|false"}, [*flags, f"--no_{option.name}"]
        taken = {*parser._option_string_actions, *(f"--{other.name}" for other in options if other is not option)}
        flags = [flag for flag in flags if flag not in taken]
        if flags:
            settings |= {"required": option.default is inspect.Parameter.empty, "default": argparse.SUPPRESS}
            group.add_argument(*flags, dest=option.name, help=_help(builder, option.name), **settings)


def builder_arguments(args: argparse.Namespace, builder: type[DatasetBuilder]) -> dict[str, Any]:
    """Returns the constructor's arguments that were given, converted by their type hints.

    Raises:
        UsageError: a value does not fit its type.
    """
    given = [option for option in _options(builder) if isinstance(getattr(args, option.name, None), list)]
    return {option.name: option.convert(getattr(args, option.name)) for option in given}


class _Flag(argparse.Action):
    """`--x`, `--x false` or `--no_x`."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        negated = option_string == f"--no_{self.dest}"
        if negated and values is not None:
            parser.error(f"{option_string}: expected no value, got {values!r}")
        setattr(namespace, self.dest, ["false" if negated else "true" if values is None else values])


def _help(builder: type[DatasetBuilder], name: str) -> str:
    """Returns the description of an argument from the `Args:` of a class or of its constructor."""
    documented = [each for kind in builder.__mro__ for each in (kind, vars(kind).get("__init__"))]
    found = (re.search(_ARGUMENT.format(name), inspect.getdoc(each) or "", re.MULTILINE) for each in documented if each)
    match = next(filter(None, found), None)
    return " ".join(match[1].split()).replace("%", "%%") if match else ""


# ---------------------------------------------------------------------------------------------------------- type hints


def _options(builder: type[DatasetBuilder]) -> list[_Option]:
    """Returns options for a constructor's keyword arguments, including those that it passes on to base classes."""
    from beam_datasets.builders import DatasetBuilder

    found: dict[str, _Option] = {}
    for kind in builder.__mro__:
        if kind is DatasetBuilder:
            break
        if "__init__" not in vars(kind):
            continue
        function = inspect.unwrap(vars(kind)["__init__"])
        parameters = inspect.signature(function).parameters.values()
        for parameter in parameters:
            named = parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            if named and parameter.name not in (*_NOT_OPTIONS, *found):
                hint = _hint(parameter, getattr(function, "__globals__", {}))
                found[parameter.name] = _Option(parameter.name, hint, parameter.default)
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    return list(found.values())


def _hint(parameter: inspect.Parameter, names: dict[str, Any]) -> Any:
    """Returns the type of an argument: its annotation, evaluated, or the type of its default."""
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
        return _Unresolved(str(parameter.annotation), f"{type(error).__name__}: {error}")
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


def _alternatives(hint: Any) -> list[Any]:
    """Returns the members of a union in the order in which they are tried: what accepts any text comes late."""
    for attribute in ("__supertype__", "__value__"):  # of a NewType, of a type alias
        hint = getattr(hint, attribute, hint)
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return [hint]
    return sorted((each for member in typing.get_args(hint) for each in _alternatives(member)), key=_rank)


def _rank(hint: Any) -> int:
    if hint in _TEXTS:
        return 4
    if hint is types.NoneType:
        return 7
    return 6 if _is_collection(hint) else 5 if _is_path(hint) else {int: 1, bool: 2, float: 3}.get(hint, 0)


def _origin(hint: Any) -> Any:
    return typing.get_origin(hint) or hint


def _is_collection(hint: Any) -> bool:
    return _origin(hint) in _COLLECTIONS


def _is_mapping(hint: Any) -> bool:
    return _origin(hint) in _MAPPINGS or (isinstance(hint, type) and dataclasses.is_dataclass(hint))


def _is_path(hint: Any) -> bool:
    return isinstance(_origin(hint), type) and issubclass(_origin(hint), os.PathLike)


# ---------------------------------------------------------------------------------------------------------- conversion


def _convert(hint: Any, texts: Sequence[str], default: Any = None) -> Any:
    """Returns the value of a type that texts mean. Of several texts for one value, the last counts.

    >>> _convert(int | None, ["5"]), _convert(list[float], ["1", "2"]), _convert(dict[str, int], ["a=1"])
    (5, [1.0, 2.0], {'a': 1})

    Raises:
        ValueError: they do not fit the type.
    """
    alternatives = _alternatives(hint)
    for each in alternatives:
        with contextlib.suppress(ValueError, TypeError, LookupError, ArithmeticError):
            if _is_mapping(each):
                return _mapping(each, texts, default)
            if _is_collection(each):
                return _collection(each, texts)
            if len(texts) == 1 or not any(map(_is_collection, alternatives)):
                return _scalar(each, texts[-1])
    raise ValueError(f"expected {_described(hint)}, got {', '.join(map(repr, texts))}")


def _mapping(hint: Any, texts: Sequence[str], default: Any) -> Any:
    """Returns a mapping or a dataclass of texts NAME=VALUE; a default supplies the fields that are not given."""
    pairs: dict[str, list[str]] = {}
    for name, equals, value in (text.partition("=") for text in texts):
        if not name or not equals:
            raise ValueError
        pairs.setdefault(name, []).append(value)
    if not dataclasses.is_dataclass(hint):
        key_hint, value_hint = typing.get_args(hint) or (Any, Any)
        return {_convert(key_hint, [name]): _once(name, value_hint, values) for name, values in pairs.items()}
    kind: Any = hint
    module, parameters = vars(sys.modules[kind.__module__]), inspect.signature(kind).parameters
    values = {name: _once(name, _hint(parameters[name], module), values) for name, values in pairs.items()}
    return dataclasses.replace(default, **values) if isinstance(default, kind) else kind(**values)


def _once(name: str, hint: Any, texts: Sequence[str]) -> Any:
    """Returns the value of NAME=VALUE; a name that is given twice is an error, as the first value would be lost."""
    if len(texts) > 1 and not any(map(_is_collection, _alternatives(hint))):
        raise UsageError(f"{name} is given twice, as {' and as '.join(map(repr, texts))}; give it once")
    return _convert(hint, texts)


def _collection(hint: Any, texts: Sequence[str]) -> Any:
    items = typing.get_args(hint) or (Any, ...)
    if _origin(hint) is not tuple or items[-1] is ...:
        return _COLLECTIONS[_origin(hint)]([_convert(items[0], [text]) for text in texts])
    return tuple(_convert(item, [text]) for item, text in zip(items, texts, strict=True))


def _scalar(hint: Any, text: str) -> Any:
    """Returns the value of a type that is neither a union nor holds others."""
    kind: Any = _origin(hint)
    if hint in _TEXTS:
        return text
    if kind is typing.Literal:
        return {str(value): value for value in typing.get_args(hint)}[text]
    if isinstance(kind, enum.EnumMeta):
        members: dict[str, Any] = dict(kind.__members__)
        return ({str(member.value): member for member in members.values()} | members)[text]
    if kind is types.NoneType:
        return {"None": None}[text]
    if not isinstance(kind, type) or kind is type:
        raise TypeError
    if kind.__name__ in ("bool", "bool_"):  # Python's and NumPy's
        return kind(_BOOLS[text.lower()])
    makers: dict[Any, Any] = {os.PathLike: pathlib.Path, bytes: str.encode}
    # as for argparse, a class that is made from one text is a type of options
    return makers.get(kind, getattr(kind, "fromisoformat", kind))(text)


def _described(hint: Any) -> str:
    """Returns a type for an error.

    >>> _described(int | None), _described(typing.Literal["a", "b"]), _described(dict[str, int])
    ('int or None', "'a' or 'b'", 'NAME=int')
    """
    hint, *others = _alternatives(hint)
    if others:
        return " or ".join(map(_described, (hint, *others)))
    kind: Any = _origin(hint)
    args = [each for each in typing.get_args(hint) if each is not ...]
    if isinstance(hint, _Unresolved):
        return f"a value of {hint.annotation}, which cannot be resolved ({hint.error})"
    if kind is typing.Literal:
        return " or ".join(map(repr, args))
    if isinstance(kind, enum.EnumMeta):
        return " or ".join(kind.__members__)
    if dataclasses.is_dataclass(kind):
        return " or ".join(f"{field.name}=VALUE" for field in dataclasses.fields(kind))
    if kind in _MAPPINGS or kind in _COLLECTIONS:
        items = ", ".join(map(_described, args[kind in _MAPPINGS :] or [str]))
        return f"NAME={items}" if kind in _MAPPINGS else items
    names: dict[Any, str] = {bool: "true or false", types.NoneType: "None", Any: "str", object: "str"}
    return names.get(hint, getattr(kind, "__name__", str(kind)))
