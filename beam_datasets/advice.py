"""Errors for names of other libraries: they contain the code to write instead, with the caller's own arguments."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import linecache
import re
import shlex
import string
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple, NoReturn, ParamSpec, TypeVar

from beam_datasets.arguments import shown
from beam_datasets.errors import BeamDatasetsError, did_you_mean
from beam_datasets.foreign_names import (
    ARGUMENTS,
    ATTRIBUTES,
    COMMANDS,
    FORMATS,
    NAMES_THAT_MEAN_SOMETHING_IF_FALSE,
    OPTIONS,
)

P = ParamSpec("P")
T = TypeVar("T")


class Row(NamedTuple):
    """A row of a table of foreign names.

    Attributes:
        parameters: names of the foreign function's parameters, in order.
        fields: names of the fields of `text` for these parameters, in the same order.
        text: completes "Use ...".
    """

    parameters: tuple[str, ...]
    fields: tuple[str, ...]
    text: str


class WrittenCall(NamedTuple):
    """Source text of an attribute, or of a call of it, in the caller's code.

    Attributes:
        receiver: source of the object before the dot, if it is a name or an attribute; otherwise None.
        positional: sources of the positional arguments.
        keywords: sources of the keyword arguments, by name.
    """

    receiver: str | None = None
    positional: tuple[str, ...] = ()
    keywords: Mapping[str, str] = {}


class _ArgumentText(str):
    """Text of an argument of the call; it ignores the default after the colon of a format field.

    If the default is a percentage, a number such as 0.1 becomes one, and any other text the default.
    """

    __slots__ = ()

    def __format__(self, default: str) -> str:
        if not default.endswith("%"):
            return str(self)
        return f"{100 * float(self):.12g}%" if re.fullmatch(r"0?\.\d+", self) else default


class _MissingArgument(str):
    """Name of an argument that the call lacks; a format field replaces it by the default after its colon."""

    __slots__ = ()

    def __format__(self, default: str) -> str:
        return default or str(self)


class _Fields(dict[str, str]):
    """Fields for `str.format_map`; unknown ones are a `_MissingArgument`."""

    def __missing__(self, name: str) -> str:
        return _MissingArgument(name)


def rows_of(table: Mapping[str, str]) -> dict[str, Row]:
    """Returns the rows of a table of foreign names, by name.

    >>> rows_of({"take(n) | limit(count)": "`{ds}[:{n}]`"})["limit"]
    Row(parameters=('count',), fields=('n',), text='`{ds}[:{n}]`')
    """
    return dict(_rows_of(table))


def _rows_of(table: Mapping[str, str]) -> Iterator[tuple[str, Row]]:
    """Yields (name, row) for each call in the keys of a table, such as "take(n) | limit(count)"; see `rows_of`.

    The rows of one key have the same `fields`: the parameters of the first call that has any.
    """
    for key, text in table.items():
        fields: tuple[str, ...] = ()
        for name, _, arguments in (call.partition("(") for call in key.split(" | ")):
            parameters = tuple(arguments.removesuffix(")").split(", ")) if arguments else ()
            fields = fields or parameters
            yield name, Row(parameters, fields, text)


@functools.cache
def _table(receiver: str) -> Mapping[str, Row]:
    """Returns the foreign attribute names of a receiver, a key in `ATTRIBUTES`, with their rows."""
    return rows_of(ATTRIBUTES[receiver])


def instead_of(receiver: str, name: str) -> str:
    """Returns the sentence "Use ..." for a foreign name in the caller's code; '' if the table lacks the name.

    Args:
        receiver: the key in `ATTRIBUTES` of the object that lacks the name.
        name: the foreign name.
    """
    row = _table(receiver).get(name)
    if row is None:
        return ""
    call = _written_call(name)
    fields = {**dict(zip(row.fields, call.positional)), **call.keywords, **_keyword_fields(call.keywords)}
    if "name" not in row.fields:
        fields["name"] = name
    fields |= {field: call.keywords[name] for name, field in zip(row.parameters, row.fields) if name in call.keywords}
    return _sentence(row, {receiver: call.receiver or receiver, **fields})


def _keyword_fields(keywords: Mapping[str, str]) -> dict[str, str]:
    """Returns the fields `keyword_items` and `keyword_names` of keywords `x=f`: "'x': f(e['x'])" and "{f: 'x'}"."""
    if not keywords:
        return {}
    items = (f"{name!r}: {_parenthesized(text)}(e[{name!r}])" for name, text in keywords.items())
    names = (f"{text}: {name!r}" for name, text in keywords.items())
    return {"keyword_items": ", ".join(items), "keyword_names": f"{{{', '.join(names)}}}"}


def instead_of_command(name: str, args: Sequence[str]) -> str:
    """Returns the sentence "Use ..." for a foreign command with its arguments; '' if the table lacks the command.

    >>> instead_of_command("ls", ["--data_dir", "my data"])
    "Use `beam-datasets list --data_dir 'my data'`."
    """
    row = rows_of(COMMANDS).get(name.replace("-", "_"))
    if row is None:
        return ""
    positional = [arg for previous, arg in zip(["", *args], args) if not arg.startswith("-") and previous[:2] != "--"]
    text = row.text.replace(
        " {args}", "".join(f" {shlex.quote(arg)}" for arg in args).replace("{", "{{").replace("}", "}}")
    )
    files = [repr(arg) for arg in positional if re.search(r"\*|\.[A-Za-z]\w*$", arg)]
    names = [repr(arg) for arg in positional if repr(arg) not in files]
    fields = dict(zip(("name", "second", "file"), [*names, "", ""][:2] + files))
    fields = {field: text for field, text in fields.items() if text}
    return _sentence(row._replace(text=text), fields)


_PATHS = frozenset(("--data_dir", "--from", "--pattern", "--root"))
"""Options for paths, of which one foreign name may mean several: `--directory` is where files are, or datasets."""


def instead_of_option(
    command: str, option: str, value: str | None, options: Collection[str], given: Collection[str] = ()
) -> str:
    """Returns the sentence "Use ..." for a foreign option; '' if the table has none that the command knows.

    A path that the command line already has, such as `--pattern`, is not meant again if another replacement fits.

    Args:
        command: name of the command, such as "build".
        option: the foreign option, such as "--sep".
        value: its value; None if there is none.
        options: the options of the command.
        given: the options that the command line has.

    >>> instead_of_option("build", "--sep", ";", ["--delimiter"])
    "Use `--delimiter ';'`."
    >>> instead_of_option("build", "--dir", "d", ["--pattern", "--data_dir"], given=["--pattern"])
    'Use `--data_dir d`.'
    """
    name, sentence_of_given = option.lstrip("-"), ""
    for text, names in OPTIONS.items():
        only = re.match(r"(?!nothing)(\w+): (?=`|nothing: )", text)
        replacement = text[only.end() :] if only else text
        required_option = re.match(r"`(--\w+)", replacement)
        fits = (only is None or only[1] == command) and (required_option is None or required_option[1] in options)
        if fits and name in names.split(" | "):
            row = Row((), (), replacement)
            sentence = _sentence(row, {"command": repr(command)} | ({} if value is None else {"value": repr(value)}))
            if required_option is None or required_option[1] not in _PATHS.intersection(given):
                return sentence
            sentence_of_given = sentence_of_given or sentence
    return sentence_of_given


def instead_of_format(use: str, name: str) -> str:
    """Returns the sentence "Use ..." for a format of files, or a dataset, of other libraries; '' if there is none.

    Args:
        use: the purpose of the format, a key of `FORMATS`.
        name: the foreign format or dataset.
    """
    row = rows_of(FORMATS[use]).get(name.lower().replace("-", "_"))
    return "" if row is None else _sentence(row, {"name": repr(name)})


def missing_attribute(receiver: str, obj: object, name: str) -> AttributeError | None:
    """Returns the error for a foreign name that an object lacks; None if the table lacks the name, too."""
    sentence = instead_of(receiver, name)
    if not sentence:
        return None
    message = f"{_public_name(obj)} has no attribute {name!r}. {sentence}"
    return AttributeError(message, name=name, obj=None)  # without obj, Python adds no hint of its own


def _public_name(obj: object) -> str:
    """Returns the name of an object's class, or of a class itself, as users know it."""
    kind = obj if isinstance(obj, type) else type(obj)
    return str(getattr(kind, "_public_name", kind.__name__))


_MAX_LISTED = 50  # public names of an object in an error


def hint_of_names(obj: object, name: str) -> str:
    """Returns " Did you mean ...?" for a name that an object lacks, or " It has ..." with its public names.

    They include those of its instance; no property is evaluated.
    """
    inherited = dir(str) if isinstance(obj, (str, type)) else ()
    public = [other for other in dir(obj) if other[0] != "_" and other not in inherited]
    listed = f" It has {', '.join(public)}." if len(public) <= _MAX_LISTED else ""
    return did_you_mean(name, public, cutoff=0.7) or listed or " docs/reference/api.md lists its names."


def dir_without(internal_names: str) -> Callable[[object], list[str]]:
    """Returns a `__dir__` without names that only this package uses, for completion and errors that list names.

    Args:
        internal_names: the names, with spaces between them.
    """
    internal = frozenset(internal_names.split())

    def __dir__(self: object) -> list[str]:
        """Returns the names of the attributes for users."""
        return [name for name in object.__dir__(self) if name not in internal]

    return __dir__


def advised_getattr(*receivers: str) -> Callable[[Any, str], Any]:
    """Returns a `__getattr__` that raises AttributeError, with advice if the name is one of another library.

    Args:
        receivers: keys in `ATTRIBUTES`; the first one with the name decides. Without any, an error has only the names
            that exist.
    """

    def __getattr__(self: Any, name: str) -> Any:
        """Raises the error that Python raises, with advice for foreign names."""
        if name in dir(type(self)):  # a property, whose function raised an AttributeError
            return object.__getattribute__(self, name)
        for receiver in receivers:
            if (error := missing_attribute(receiver, self, name)) is not None:
                raise error
        if name.startswith("_"):
            return object.__getattribute__(self, name)  # raises what it raised before
        message = f"{_public_name(self)} has no attribute {name!r}.{hint_of_names(self, name)}"
        raise AttributeError(message, name=name, obj=None)

    return __getattr__


def advised_getitem(receiver: str) -> Callable[[Any, object], Any]:
    """Returns a `__getitem__` that raises a TypeError with the code to write, for classes without items.

    Args:
        receiver: the key in `ATTRIBUTES`, whose table has a row for `__getitem__`.
    """

    def __getitem__(self: Any, key: object) -> NoReturn:
        """Raises a TypeError."""
        row = _table(receiver)["__getitem__"]
        fields = {receiver: receiver, **dict.fromkeys(row.fields, shown(key))}
        raise TypeError(f"{type(self).__name__} has no items, such as {shown(key)}. {_sentence(row, fields)}")

    return __getitem__


def advised_setitem(receiver: str) -> Callable[[Any, object, object], None]:
    """Returns a `__setitem__`, also for `__delitem__`, that raises a TypeError with advice, for immutable classes.

    Args:
        receiver: the key in `ATTRIBUTES`, whose table has a row for `__setitem__`, also used for `__delitem__`.
    """

    def __setitem__(self: Any, key: object, value: object = None) -> NoReturn:
        """Raises a TypeError."""
        row = _table(receiver)["__setitem__"]
        raise TypeError(
            f"a {type(self).__name__} never changes. {_sentence(row, {receiver: receiver, row.fields[0]: shown(key)})}"
        )

    return __setitem__


def advised_operator(receiver: str, method: str) -> Callable[[Any, object], Any]:
    """Returns a method for a binary operator, such as `__mul__`, that raises a TypeError with the code to write.

    Args:
        receiver: the key in `ATTRIBUTES`.
        method: name of the method; the table has a row for it.
    """

    def operate(self: Any, other: object) -> NoReturn:
        """Raises a TypeError."""
        row = _table(receiver)[method]
        sentence = _sentence(row, {receiver: receiver, **dict.fromkeys(row.fields, shown(other))})
        raise TypeError(f"a {type(self).__name__} has no {method}. {sentence}")

    return operate


def advised_len(receiver: str) -> Callable[[Any], int]:
    """Returns a `__len__` that raises a TypeError with the code to write; the class needs a `__bool__`, too."""

    def __len__(self: Any) -> int:
        """Raises a TypeError."""
        row = _table(receiver)["__len__"]
        raise TypeError(f"{type(self).__name__} has no len(). {_sentence(row, {receiver: receiver})}")

    return __len__


def instead_of_argument(table: str, argument: str, arguments: Mapping[str, Any]) -> str:
    """Returns the sentence "Use ..." for an argument of other libraries; '' if the table lacks it.

    Args:
        table: the key in `ARGUMENTS`.
        argument: name of the argument.
        arguments: {name: value} of the arguments of the call.
    """
    row = rows_of(ARGUMENTS[table]).get(argument)
    if row is None:
        return ""
    fields = {name: _abbreviate(value) for name, value in arguments.items()}
    return _sentence(row, {**fields, "argument": argument, "value": fields[argument]})


def names_foreign_arguments(function_name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Returns a decorator that adds "Use ..." to the TypeError for an argument name of another library.

    Args:
        function_name: the key in `ARGUMENTS`. A row with an empty name is the advice for any other invalid call;
            without it, such calls raise Python's own error. Any other unknown argument is an error that names a similar
            argument, or all of them.
    """
    rows = rows_of(ARGUMENTS[function_name])
    is_method = function_name.islower()  # otherwise the constructor of a class

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        """Returns the function with a check of its arguments."""
        signature = inspect.signature(function)
        names = tuple(
            name
            for name, parameter in signature.parameters.items()
            if name != "self" and parameter.kind not in _VARIADIC
        )
        called_name = function.__name__ if is_method else function_name
        foreign_names = rows.keys() - {*names, ""}

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> T:
            """Calls the function; raises the TypeError with advice if an argument is foreign or missing."""
            if foreign_names.isdisjoint(kwargs):
                try:
                    return function(*args, **kwargs)
                except TypeError:
                    problem = _problem_of_call(signature, args, kwargs)
                    if problem.startswith(_UNEXPECTED):
                        unknown = next(name for name in kwargs if name not in names)
                        hint = did_you_mean(unknown, names) or f" Its arguments are {', '.join(names)}."
                        raise TypeError(f"{called_name}(): no argument {unknown!r}.{hint}") from None
                    if not problem or "" not in rows:
                        raise
            foreign = next((name for name in kwargs if name in foreign_names), "")
            values = args[1:] if "self" in signature.parameters else args
            fields = _argument_fields(called_name, dict(zip(names, values)) | kwargs, names)
            sentence = _sentence(rows[foreign], fields | {"argument": foreign, "value": fields.get(foreign, "")})
            if foreign:
                problem = f"no argument {foreign!r}"
                is_off = kwargs[foreign] is None or kwargs[foreign] is False
                if is_off and foreign not in NAMES_THAT_MEAN_SOMETHING_IF_FALSE:
                    problem += f", which can be left out if it is {kwargs[foreign]}"
                    sentence = "" if "{value}" in rows[foreign].text else sentence.replace("Use ", "Otherwise, use ", 1)
            raise TypeError(f"{called_name}(): {problem}. {sentence}".strip())

        return checked

    return decorate


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_UNEXPECTED = "got an unexpected keyword argument"  # as `inspect.Signature.bind` says it


def _problem_of_call(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Returns Python's error text for a call with these arguments, "missing a required argument: 'n'"; '' for none."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return ""


def names_foreign_constructor_arguments(cls: type[T]) -> type[T]:
    """Class decorator: applies `names_foreign_arguments` to the constructor; the class's name is the key."""
    cls.__init__ = names_foreign_arguments(cls.__name__)(cls.__init__)  # type: ignore[method-assign]
    return cls


_MIN_BUFFER_SIZE = 100  # smaller numbers are more often seeds


def warns_of_buffer_size(function: Callable[P, T]) -> Callable[P, T]:
    """Decorates `shuffle(seed, window)`: warns if positional arguments may be a buffer size and a seed of tf.data.

    It warns once for each pair of arguments.
    """

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        """Calls the function, and warns if the first of the positional arguments looks like a buffer size."""
        seed, window = (*args[1:3], None, None)[:2] if not kwargs else (None, None)
        if isinstance(seed, int) and seed >= _MIN_BUFFER_SIZE and (window is None or isinstance(window, int)):
            _warn_of_buffer_size(seed, window)
        return function(*args, **kwargs)

    return checked


@functools.cache  # warns once for each pair
def _warn_of_buffer_size(seed: int, window: int | None) -> None:
    """Warns that a seed is not the size of a shuffle buffer, and that a window is not a seed."""
    message = (
        f"shuffle({seed}): {seed} is the seed, and all examples are shuffled; no buffer is needed. Write "
        f"shuffle(seed={seed}), or shuffle(seed=0, window={seed}) to shuffle within a window."
    )
    if window is not None:
        message = (
            f"shuffle({seed}, {window}): {seed} is the seed and {window} is the window. If they are the buffer size "
            f"and the seed of tf.data, write shuffle(seed={window}, window={seed}); otherwise shuffle(seed={seed}, "
            f"window={window})."
        )
    warnings.warn(message, stacklevel=3)


def _argument_fields(function_name: str, values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, str]:
    """Returns the text of each argument, and of the receiver as `ds`: its source if known, otherwise its value.

    Args:
        function_name: name of the function as the user calls it, such as 'batch'.
        values: the call's arguments: name -> value.
        names: names of the function's parameters without `self`, in order.
    """
    call = _written_call(function_name)
    fields = {name: _abbreviate(value) for name, value in values.items()}
    for name in names:  # of an object without source, such as <Dataset ...>, the default of the text is better
        if name in fields and _expression(fields[name]) is None:
            del fields[name]
    fields |= {**dict(zip(names, call.positional)), **call.keywords}
    first = {"first": call.positional[0]} if call.positional else {}
    return {"ds": call.receiver or "ds", **first, **fields}


def _abbreviate(value: Any) -> str:
    """Returns a short text for a value: a callable's name, or "function"; otherwise an abbreviated `repr`."""
    name = getattr(value, "__name__", "")
    return (name if name.isidentifier() else "function") if callable(value) else shown(value)


_NOTHING = "nothing: "  # begins a text of what needs no replacement


def _sentence(row: Row, fields: Mapping[str, str]) -> str:
    """Returns the advice of a row as a sentence, "Use ..." or "Leave it out: ...".

    Args:
        row: the row; `{name}` in its text stands for a field.
        fields: {name of a field: source text of the caller's argument}. In shell commands only string literals are
            inserted, quoted for the shell; other arguments stay placeholders.
    """
    literals = {name: _string_literal(text) for name, text in fields.items()}
    words = {name: shlex.quote(literal) for name, literal in literals.items() if literal is not None}
    parts = row.text.split("`")
    for number, fragment in enumerate(parts):  # shell commands take only strings, quoted for the shell
        is_shell = fragment.startswith(("beam-datasets ", "--", "NAME"))
        available = _Fields((name, _ArgumentText(text)) for name, text in (words if is_shell else fields).items())
        is_code = number % 2 and not is_shell
        parts[number] = _insert_in_code(fragment, available) if is_code else fragment.format_map(available)
    sentence = "`".join(parts)
    return f"Leave it out: {sentence.removeprefix(_NOTHING)}." if sentence.startswith(_NOTHING) else f"Use {sentence}."


def _insert_in_code(fragment: str, fields: _Fields) -> str:
    """Returns a code fragment with its fields replaced, in parentheses where Python needs them.

    A list of names as the key of an example, such as `e[{column}]`, becomes a tuple of values, and a lambda is called.
    A list as a key of a dict is left out.
    """
    pieces = list(string.Formatter().parse(fragment))
    following = [*(literal for literal, *_ in pieces[1:]), ""]
    for (literal, name, *_), after in zip(pieces, following):
        is_key = after.startswith(":") and re.search(r"(^|[{,] )$", literal)
        if name and is_key and isinstance(_expression(fields[name]), _UNHASHABLE):
            fields = _Fields({other: text for other, text in fields.items() if other != name})
    code = closing = ""
    for (literal, name, default, _), after in zip(pieces, following):
        code += literal.removeprefix(closing)
        closing = ""
        if name is None:
            continue
        text = format(fields[name], (default or "").format_map(fields))
        if code.endswith("e[") and after.startswith("]") and (value := _value_of(text)):
            code, closing = code.removesuffix("e[") + value, "]"
        elif code.endswith("[") and isinstance(_expression(text), ast.Lambda):  # a function is no index
            code += name
        else:
            is_argument = _BEFORE_ARGUMENT.search(code) and _AFTER_ARGUMENT.match(after)
            code += text if is_argument else _parenthesized(text)
    return code


_BEFORE_ARGUMENT = re.compile(r"(^|[(\[{,:]|[^=]=) *$")
_AFTER_ARGUMENT = re.compile(r" *($|[)\]},])")
_UNHASHABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_NEEDS_PARENTHESES = (ast.Lambda, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Await)


def _expression(text: str) -> ast.expr | None:
    """Returns the syntax tree of an expression; None for other text, such as 20%."""
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None


def _parenthesized(text: str) -> str:
    """Returns the source of an expression, in parentheses if it cannot be called or indexed without them."""
    return f"({text})" if isinstance(_expression(text), _NEEDS_PARENTHESES) else text


def _value_of(text: str) -> str:
    """Returns code for the value of an example `e` under a list of names, or of a lambda; '' for one name."""
    node = _expression(text)
    if isinstance(node, ast.Lambda):
        return f"({text})(e)"
    if isinstance(node, (ast.List, ast.Tuple)) and node.elts:
        values = ", ".join(f"e[{ast.unparse(name)}]" for name in node.elts)
        return f"({values})" if len(node.elts) > 1 else values
    return ""


def _string_literal(text: str) -> str | None:
    """Evaluates the source text of a string literal; returns None for any other expression."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError):
        return None
    return value if isinstance(value, str) else None


_MAX_ARGUMENT = 60  # characters of the caller's source


def _written_call(name: str) -> WrittenCall:
    """Returns the source texts of the caller's use of attribute `name`.

    It is an empty `WrittenCall` if the source is unknown or several uses are possible.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __package__:
        frame = frame.f_back
    if frame is None:
        return WrittenCall()
    uses = _accesses_by_name("".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))).get(name, [])
    end = _end_of_expression(frame)
    if end is not None:  # of the attribute that is missing, or of the call whose arguments are wrong
        uses = [use for use in uses if end in map(_end_of_node, use)]
    else:
        uses = [use for use in uses if use[0].lineno <= frame.f_lineno <= (use[-1].end_lineno or 0)]
    return _as_written(*uses[0]) if len(uses) == 1 else WrittenCall()  # several: ambiguous


@functools.lru_cache(maxsize=4)  # hasattr() may ask for missing names repeatedly
def _accesses_by_name(source: str) -> dict[str, list[tuple[ast.expr, ...]]]:
    """Returns attribute name -> its accesses in a source text: (attribute node,), or (attribute node, call node).

    It is empty if the source cannot be parsed, such as a notebook cell with shell commands.
    """
    uses: dict[str, list[tuple[ast.expr, ...]]] = {}
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:
        return uses
    calls = {id(node.func): node for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Attribute):
            call = calls.get(id(node))
            uses.setdefault(node.attr, []).append((node,) if call is None else (node, call))
    return uses


def _end_of_node(node: ast.expr) -> tuple[int | None, int | None]:
    """Returns (line, column in bytes) of the end of a node."""
    return node.end_lineno, node.end_col_offset


def _end_of_expression(frame: FrameType) -> tuple[int, int] | None:
    """Returns (line, column in bytes) of the end of the expression a frame is evaluating; None if not recorded."""
    positions = getattr(frame.f_code, "co_positions", None)  # since Python 3.11
    if positions is None:
        return None
    _, line, _, column = next(itertools.islice(positions(), frame.f_lasti // 2, None), (None,) * 4)
    return None if line is None or column is None else (line, column)


def _as_written(attribute: ast.expr, call: ast.expr | None = None) -> WrittenCall:
    """Returns the source texts of an attribute access, and of the call's arguments if it is called."""
    assert isinstance(attribute, ast.Attribute)
    receiver = _receiver(attribute.value)
    if not isinstance(call, ast.Call):
        return WrittenCall(receiver)
    positional = tuple(_source(arg) for arg in call.args if not isinstance(arg, ast.Starred))
    keywords = {keyword.arg: _source(keyword.value) for keyword in call.keywords if keyword.arg}
    return WrittenCall(receiver, positional, keywords)


def _receiver(node: ast.expr) -> str | None:
    """Returns the source of a name or an attribute; None for any other expression."""
    return _source(node) if isinstance(node, (ast.Name, ast.Attribute)) else None


def _source(node: ast.expr) -> str:
    """Returns the source of an expression; "..." if it is longer than `_MAX_ARGUMENT`."""
    text = ast.unparse(node)
    return text if len(text) <= _MAX_ARGUMENT else "..."


_SHOWN_FEATURES = 20  # of an item, in a note


def note_value(error: Exception, operation: str, value: Any) -> None:
    """Adds the argument `value` as a note to an error raised by a user's function that was passed to `operation`.

    It adds nothing to errors of this package, which already name the file and record, nor to those that have notes.
    The note may also say how to take a tuple apart, or that text is read as bytes.
    """
    if getattr(error, "__notes__", None) or isinstance(error, BeamDatasetsError):
        return
    note = f"The function of {operation}() was given {_summarize(value)}"
    if isinstance(value, tuple) and isinstance(error, TypeError) and "argument" in str(error):
        note += f", a tuple, as one argument: {operation}(lambda pair: ...)"
    if isinstance(error, (AttributeError, TypeError)) and "bytes" in str(error):
        note += ". Text is read as bytes; bd.load(..., text='str') reads str"
    error.add_note(note)


def _summarize(value: Any) -> str:
    """Returns a text of an item: arrays as dtype and shape, and of a dict the short values first.

    >>> import numpy as np
    >>> _summarize({"image": np.zeros((28, 28, 1), np.uint8), "label": 3})
    "{'label': 3, 'image': uint8 array of shape (28, 28, 1)}"
    """
    if isinstance(value, dict):
        texts = sorted((f"{name!r}: {_summarize(item)}" for name, item in value.items()), key=len)
        shown_texts = texts[:_SHOWN_FEATURES] + ["..."] * (len(texts) > _SHOWN_FEATURES)
        return "{" + ", ".join(shown_texts) + "}"
    if getattr(value, "ndim", 0) and hasattr(value, "dtype"):
        return f"{value.dtype} array of shape {value.shape}"
    return shown(value)
