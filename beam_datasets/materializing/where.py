"""`where=`: an expression of SQL that selects examples, evaluated by DuckDB over columns.

    label == 'dog' and length(text) > 100

Columns are the features: numbers, bools, text, class labels as their names (no name is NULL), and lists and structs of
these. Only the features that the expression names are decoded.

An expression can use the example only: no files, settings, times or other tables, which might be different in another
run. It is evaluated in a helper process, which limits its time and memory for each block of examples.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.arguments import is_unicode
from beam_datasets.errors import BeamDatasetsError, did_you_mean, nearest_name
from beam_datasets.extras import framework
from beam_datasets.features import ClassLabel, FeaturesDict, Sequence, Tensor
from beam_datasets.features.decode import PartialDecoding
from beam_datasets.features.dtypes import STRING
from beam_datasets.features.trees import iter_nested_features, join_steps, strip_sequences
from beam_datasets.materializing.database import (
    DatabaseError,
    Evaluator,
    LimitedDatabase,
    LimitError,
    to_error,
)
from beam_datasets.reading.elements.transforms import Decode, compose_many

if TYPE_CHECKING:
    import pyarrow


Convert = Callable[[list[Any]], Any]


_DATABASE = LimitedDatabase()
_TABLE = "examples"
_MAX_NAMES = 10  # of labels or features in an error
_PLAIN = re.compile(r"[A-Za-z_]\w*")  # a name that needs no quotes, unless it is a word of SQL
_TOO_DEEP = (
    "expected a condition with fewer levels of parentheses, got one that is nested too deeply. Replace a chain of "
    "`or` by `x in (...)`, or give a Python function as filter="
)
_BEFORE, _AFTER = f"SELECT 1 FROM {_TABLE} WHERE (\n", "\n)"
_NODES = {
    *("BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION"),
    *("CONSTANT", "FUNCTION", "LAMBDA", "LAMBDA_REF", "OPERATOR", "TYPE"),
}
"""Classes of parsed expressions that see the example alone. Others are subqueries, windows, `*`, `#1`, parameters."""

_SETTING = re.compile(r"(?:, or|\.? Use|^Use) \"?SET [^\n]*\n?", re.MULTILINE)
"""Advice of DuckDB to change a setting, which an expression cannot do."""

_OUTSIDE = re.compile(r"pg_.*|has_.*|current_.*|.*_pg_.*|map_type_id_.*|session_user|user|version|age|getenv")
"""Functions about the session or the machine, though DuckDB calls them consistent; age() counts from today."""


class ExpressionLimitError(BeamDatasetsError):
    """An expression needs more time or memory than it may."""


@dataclass(frozen=True)
class Where:
    """Condition on the features of the examples that are kept.

    Attributes:
        expression: condition in DuckDB's SQL, over the names of features.
    """

    expression: str

    def __post_init__(self) -> None:
        """Checks that the expression is text.

        Raises:
            BeamDatasetsError: it has another type, is empty, or has characters that cannot be encoded.
        """
        if not isinstance(self.expression, str):
            raise BeamDatasetsError(f"where: expected a text such as 'n > 3', got {self.expression!r:.100}")
        if not self.expression.strip():
            raise BeamDatasetsError(
                "where: expected a condition such as 'n > 3', got an empty text", got=repr(self.expression)
            )
        if not is_unicode(self.expression) or "\0" in self.expression:
            raise BeamDatasetsError(
                f"where={self.expression!r:.1000}: expected text in Unicode, got half of a surrogate pair or a NUL",
                expected="text in Unicode",
                got=f"{self.expression!r:.1000}",
                advice="Write the character itself.",
            )

    def compile(self, features: Any, database: Evaluator = _DATABASE) -> Callable[[list[Any]], list[int]]:
        """Returns the function from a list of records to the ascending indices in it of those that are kept.

        Args:
            features: features of the records, a `FeaturesDict`.
            database: evaluates the expression.

        Raises:
            MissingDependencyError: DuckDB or pyarrow is not installed.
            BeamDatasetsError: the expression cannot be parsed, names a feature that does not exist or has no column,
                compares values of different types, is not a bool, or depends on anything but the example.
            ExpressionLimitError: it needs more time or memory than it may. The returned function raises it, too.
        """
        framework("duckdb", needed_by="where=", name="DuckDB", extra="where")
        pa = framework("pyarrow", needed_by="where=", name="the package pyarrow", extra="where")
        optional_columns = {name: _arrow_converter(pa, feature.decoded()) for name, feature in features.items()}
        columns = {name: column for name, column in optional_columns.items() if column is not None}
        try:
            names = self._names(database, features, columns)
        except RecursionError:
            raise self._error(_TOO_DEEP, columns) from None
        schema = pa.schema([(name, columns[name][0]) for name in names])
        table = _unused_name(features)
        source = f" FROM {table}" if names else ""
        note = _note_on_labels(features, names)

        def evaluate(query: str, arrays: list[Any]) -> tuple[str, Any]:
            """Returns the type of a query's only column, and its values."""
            read = pa.table(arrays, schema=schema) if names else None
            try:
                return database.evaluate(query, (), table, read)
            except DatabaseError as error:
                raise self._error(error, columns, note) from None

        def true_rows(arrays: list[Any]) -> list[int]:
            """Returns the ascending indices at which the expression is true; `arrays` holds a column for each name."""
            mask = evaluate(f"SELECT (\n{self.expression}\n){source}", arrays)[1]
            positions: list[int] = np.flatnonzero(np.ma.filled(mask, False)).tolist()
            return positions

        missing = [pa.nulls(1, columns[name][0]) for name in names]
        evaluate(f"SELECT 1{source} WHERE (\n{self.expression}\n)", missing)  # neither an aggregate nor several rows
        kind, _ = evaluate(f"SELECT (\n{self.expression}\n){source}", missing)
        if kind != "BOOLEAN":
            raise self._error(f"expected a condition, which is true or false, got {kind}", columns)
        if not names:
            is_true = bool(true_rows([]))
            return lambda records: list(range(len(records))) if is_true else []
        decode = compose_many((Decode(features, PartialDecoding(list(names))),))

        def kept_records(records: list[Any]) -> list[int]:
            """Returns the ascending indices of the kept records in a list of encoded records.

            Raises:
                BeamDatasetsError: a text is not UTF-8.
            """
            examples = decode(records)
            arrays: list[Any] = []
            for name in names:
                try:
                    arrays.append(columns[name][1]([example[name] for example in examples]))
                except pa.ArrowInvalid as error:  # of text
                    message = f"feature {name!r}: expected text in UTF-8, got other bytes ({error}). Use filter= for it"
                    raise self._error(message, columns) from error
            return true_rows(arrays)

        return kept_records

    def _names(self, database: Evaluator, features: Any, columns: dict[str, Any]) -> list[str]:
        """Returns the names of the features that the expression uses, after checking it.

        Args:
            database: evaluates queries.
            features: the features of the dataset.
            columns: name of a feature with a column -> (Arrow type, function from values to an Arrow array).

        Raises:
            BeamDatasetsError: the expression cannot be parsed, or uses a function, feature or label that it must not.
        """
        for prefix, suffix in ((_BEFORE, _AFTER), (_BEFORE.replace("(", ""), "\n")):  # one expression, and a whole one
            arguments = (f"{prefix}{self.expression}{suffix}",)
            _, (text,) = self._evaluate(database, columns, "SELECT json_serialize_sql(?)", arguments)
            parsed = json.loads(text)
            if parsed["error"]:
                raise self._parse_error(parsed, len(prefix), columns)
        nodes = list(_nodes(parsed["statements"][0]["node"]["where_clause"]))
        self._check_functions(database, nodes, columns)
        refs = self._check_names(nodes, features, columns, len(prefix))
        features_by_steps = {
            tuple(step.lower() for step in steps): feature for _, steps, feature in iter_nested_features(features)
        }
        for node in nodes:
            self._check_labels(node, features_by_steps, columns)
        return [name for name in columns if name.lower() in refs]

    def _check_names(
        self, nodes: list[Any], features: Any, columns: dict[str, Any], num_before: int
    ) -> dict[str, dict[str, Any]]:
        """Checks the names in the expression, and returns {name in lower case: a node with it}.

        A name is that of a feature or of a parameter of a lambda.

        Args:
            nodes: the nodes of the parsed expression; see `_nodes`.
            features: the features of the dataset.
            columns: the columns; see `_names`.
            num_before: number of characters before the expression in the parsed query.

        Raises:
            BeamDatasetsError: a feature does not exist, or has no column; a division is meant as a nested name.
        """
        refs = {node["column_names"][0].lower(): node for node in nodes if node["class"] == "COLUMN_REF"}
        original_names = {name.lower(): name for name in features}
        parameters = {name for node in nodes if node["class"] == "LAMBDA" for name in _parameters(node)}
        for name, node in refs.items():
            pointed = _mark_position(self.expression, node["query_location"] - num_before)
            if name not in original_names and name not in parameters:
                hint = _hint_on_divisions(nodes, features) or _hint_on_quoted_dots(name, columns)
                hint = hint or self._hint_on_quotes(columns) or _hint_on_parents(node["column_names"], columns)
                hint = hint or _propose((near,) for near in [nearest_name(name, columns)] if near)
                hint = hint or f" A text is in single quotes: {name!r}."
                raise self._error(f"unknown feature {name!r}.{hint}\n{pointed}", columns)
            if name in original_names and original_names[name] not in columns:
                feature = features[original_names[name]]
                raise self._error(f"feature {original_names[name]!r}, {feature!r}, has no column\n{pointed}", columns)
            if alike := _names_alike(name, features):
                message = f"features {alike} differ only in upper and lower case, which SQL takes for one name"
                raise self._error(f"{message}. Use a filter in Python\n{pointed}", columns)
        if not parameters and (hint := _hint_on_divisions(nodes, features)):
            raise self._error(hint.strip(), columns)
        return refs

    def _parse_error(self, parsed: Any, num_before: int, columns: dict[str, Any]) -> BeamDatasetsError:
        """Returns the error for an expression that cannot be parsed.

        Args:
            parsed: the answer of DuckDB's `json_serialize_sql`.
            num_before: number of characters before the expression in the parsed query.
            columns: the columns, for the error.
        """
        text, position = parsed["error_message"], int(parsed.get("position", 0)) - num_before
        if isinstance(error := to_error(text), LimitError):
            return self._error(error, columns)
        if "expression depth limit" in text:
            return self._error(_TOO_DEEP, columns)
        near = re.search(r'at or near "(\w+)"', text)
        hint = self._hint_on_quotes(columns, near[1].lower() if near else "")
        return self._error(f"{text}{hint and f'.{hint}'}\n{_mark_position(self.expression, position)}", columns)

    def _hint_on_quotes(self, columns: dict[str, Any], reserved: str = "") -> str:
        """Returns a hint for a name in the expression that needs double quotes, such as order-id; '' if there is none.

        Args:
            columns: the columns; see `_names`.
            reserved: a word of SQL that cannot be a name without quotes, in lower case.
        """
        num_written, quoted = 0, ""
        for steps in _column_steps(columns):
            is_plain = [_PLAIN.fullmatch(step) is not None and step.lower() != reserved for step in steps]
            if all(is_plain):
                continue
            for start in range(is_plain.index(False) + 1):  # perhaps the expression has other parents
                written = ".".join(steps[start:])
                pattern = rf"(?<![\w\"]){re.escape(written)}(?![\w\"])"
                if len(written) > num_written and re.search(pattern, self.expression, re.IGNORECASE):
                    num_written = len(written)
                    quoted = ".".join(step if plain else _quote(step) for step, plain in zip(steps, is_plain))
        return f" The feature is in double quotes in an expression: {quoted}." if quoted else ""

    def _check_functions(self, database: Evaluator, nodes: list[Any], columns: dict[str, Any]) -> None:
        """Raises a BeamDatasetsError if the result of the expression depends on anything but the example.

        Args:
            database: evaluates queries.
            nodes: the nodes of the parsed expression; see `_nodes`.
            columns: the columns, for the error.
        """
        for node in nodes:
            if node["class"] not in _NODES:
                description = {"STAR": "* or COLUMNS()"}.get(node["class"], node["class"].lower().replace("_", " "))
                raise self._error(
                    f"expected an expression of one example, got a {description}. Name the features", columns
                )
        functions = {node["function_name"].lower() for node in nodes if node.get("function_name")}
        _, rows = self._evaluate(  # some, such as +, change for times with a zone alone, and the zone is set
            database,
            columns,
            "SELECT function_name FROM duckdb_functions() GROUP BY 1 HAVING bool_and(stability <> 'CONSISTENT')",
        )
        changing = sorted(functions & {name.lower() for name in rows} | set(filter(_OUTSIDE.fullmatch, functions)))
        if changing:
            message = f"{changing[0]}() does not depend on the example alone, so that a second run would choose others"
            raise self._error(message, columns)

    def _check_labels(self, node: Any, features_by_steps: dict[Any, Any], columns: dict[str, Any]) -> None:
        """Raises a BeamDatasetsError if a class label is compared with a number, or a text that is not a name of it.

        Args:
            node: a node of the parsed expression; others than comparisons, `in` and `between` are not checked.
            features_by_steps: the steps to a feature in lower case, as of `iter_nested_features` -> the feature.
            columns: the columns, for the error.
        """
        sides = _compared(node)
        for steps in [side["column_names"] for side in sides if side["class"] == "COLUMN_REF"]:
            label = features_by_steps.get(tuple(step.lower() for step in steps))
            if not isinstance(label, ClassLabel) or not label.names:
                continue
            for side in sides:
                text, number = _constant_text(side), _constant_number(side)
                if text is not None and text not in label.names and node["type"] in _OF_SAME_VALUES:
                    hint = did_you_mean(text, label.names)
                    raise self._error(
                        f"{text!r} is not a label: expected one of {_in_sql(label.names)}.{hint}", columns
                    )
                if number is not None and not any(map(_is_number, label.names)):
                    expected = f"expected one of {_in_sql(label.names)}, got {number}"
                    raise self._error(f"the label {'.'.join(steps)!r} is compared by its names: {expected}", columns)

    def _evaluate(self, database: Evaluator, columns: dict[str, Any], *query: Any) -> tuple[str, Any]:
        """Returns (type of the first column of a query's result, its values).

        Args:
            database: evaluates queries.
            columns: the columns, for the error.
            query: arguments of `Evaluator.evaluate`.

        Raises:
            BeamDatasetsError: the query failed.
            ExpressionLimitError: it needs more time or memory than it may.
        """
        try:
            return database.evaluate(*query)
        except DatabaseError as error:
            raise self._error(error, columns) from None

    def _error(self, message: str | DatabaseError, columns: dict[str, Any], note: str = "") -> BeamDatasetsError:
        """Returns an error with the expression, a message, a note, and the names of the features that it can use."""
        names = ", ".join(columns) or "none"
        is_limit = isinstance(message, LimitError)
        return (ExpressionLimitError if is_limit else BeamDatasetsError)(
            f"where={self.expression!r:.1000}: {_SETTING.sub('', str(message)):.1000}\n{'' if is_limit else note}"
            f"Give a condition in DuckDB's SQL over these features: {names}."
        )


_OF_SAME_VALUES = frozenset(
    f"COMPARE_{name}" for name in ("EQUAL", "NOTEQUAL", "DISTINCT_FROM", "NOT_DISTINCT_FROM", "IN", "NOT_IN")
)
"""Types of the comparisons in which a text must be a name of the label; `<` and others compare with any text."""


def _quote(name: str) -> str:
    """Returns a name in double quotes, as SQL needs it for names with other characters."""
    return '"' + name.replace('"', '""') + '"'


def _propose(names: Iterable[tuple[str, ...]]) -> str:
    """Returns a hint that proposes names, with double quotes where an expression needs them; '' without names.

    Args:
        names: the steps to each.

    >>> print(_propose([("a", "b"), ("a", "order-id")]))
     Did you mean 'a.b' or a."order-id"?
    """
    listed = [
        repr(".".join(steps))
        if all(map(_PLAIN.fullmatch, steps))
        else ".".join(step if _PLAIN.fullmatch(step) else _quote(step) for step in steps)
        for steps in names
    ]
    return f" Did you mean {' or '.join(listed[:_MAX_NAMES])}?" if listed else ""


def _compared(node: Any) -> list[Any]:
    """Returns the nodes that a comparison, `in` or `between` compares with each other; [] for any other node."""
    if node["class"] == "COMPARISON":
        return [node["left"], node["right"]]
    if node["class"] == "BETWEEN":
        return [node["input"], node["lower"], node["upper"]]
    children: list[Any] = node.get("children", []) if node["type"] in ("COMPARE_IN", "COMPARE_NOT_IN") else []
    return children


def _in_sql(names: list[str]) -> str:
    """Returns the first names of a class label as texts of SQL, joined by commas.

    >>> print(_in_sql(["cat", "cow's"]))
    'cat', 'cow''s'
    """
    texts = ["'" + name.replace("'", "''") + "'" for name in names[:_MAX_NAMES]]
    return ", ".join(texts) + (f", ... (of {len(names)})" if len(names) > _MAX_NAMES else "")


def _note_on_labels(features: Any, names: list[str]) -> str:
    """Returns a line for each class label with names, such as "The label 'kind' is text, one of 'a', 'b'.".

    Args:
        features: the features of the dataset.
        names: names of the features that the expression uses; labels inside them count, also those in sequences.
    """
    lines = []
    for _, steps, feature in iter_nested_features(features):
        label = strip_sequences(feature)
        if steps[0] in names and isinstance(label, ClassLabel) and label.names:
            lines.append(f"The label {join_steps(steps)!r} is text, one of {_in_sql(label.names)}.\n")
    return "".join(lines)


def _unused_name(features: FeaturesDict) -> str:
    """Returns a name for a table that no feature has at any depth: SQL would take `name.field` for a column of it."""
    names = {step.lower() for _, steps, _ in iter_nested_features(features) for step in steps}
    table = _TABLE
    while table in names:
        table += "_"
    return table


def _names_alike(name: str, features: Any) -> str:
    """Returns the names that SQL cannot tell apart, such as "'a.x', 'a.X'", of a feature or inside it; '' if none.

    Args:
        name: the feature's name in lower case.
        features: the features of the dataset.
    """
    by_lower_case: dict[tuple[str, ...], list[str]] = {}
    for _, steps, _ in iter_nested_features(features):
        if steps[0].lower() == name:
            by_lower_case.setdefault(tuple(step.lower() for step in steps), []).append(join_steps(steps))
    return next((", ".join(map(repr, alike)) for alike in by_lower_case.values() if len(alike) > 1), "")


def _parameters(node: Any) -> Iterator[str]:
    """Yields the names in lower case of the parameters of a lambda, a node of the class LAMBDA."""
    for inner in _nodes(node.get("lhs")):
        if inner["class"] == "COLUMN_REF":
            yield inner["column_names"][0].lower()


def _hint_on_divisions(nodes: list[Any], features: Any) -> str:
    """Returns a hint for a division that is meant as the name of a nested feature; '' if there is none.

    Such a division has a struct on its left, as `a` in a/b, which SQL cannot divide; a.b/a.d divides numbers.
    """
    nested = {tuple(map(str.lower, steps)): steps for _, steps, _ in iter_nested_features(features)}
    for node in nodes:
        names = _names_in_divisions(node) if node.get("function_name") == "/" else []
        for stop in range(len(names), 1, -1):  # the deepest first
            for start in range(stop - 1):
                steps = nested.get(tuple(step for name in names[start:stop] for step in name))
                if steps is not None:
                    written = "/".join(".".join(name) for name in names[start:stop])
                    return f" In an expression {written} is a division; the feature is {'.'.join(steps)}."
    return ""


def _column_steps(columns: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yields the steps to each value that an expression can name: a column, or a field of a struct, at any depth.

    Args:
        columns: the columns; see `Where._names`. A sequence becomes a list, which has no such fields.
    """
    import pyarrow as pa  # which the columns have imported

    for name, (kind, _) in columns.items():
        yield (name,)
        if pa.types.is_struct(kind):
            fields = {field.name: (field.type, None) for field in map(kind.field, range(kind.num_fields))}
            yield from ((name, *steps) for steps in _column_steps(fields))


def _hint_on_quoted_dots(name: str, columns: dict[str, Any]) -> str:
    """Returns a hint for the quoted name of a nested feature, such as "a.b" in quotes; '' if there is none."""
    nested = {".".join(steps).lower(): steps for steps in _column_steps(columns) if len(steps) > 1}
    return f" Without quotes around the dots, it is the feature {'.'.join(nested[name])}." if name in nested else ""


def _hint_on_parents(steps: list[str], columns: dict[str, Any]) -> str:
    """Returns a hint for the name of a nested feature without the features that contain it; '' if there is none.

    Args:
        steps: the steps in the expression, such as ['price'] for product.price.
        columns: the columns; see `Where._names`.
    """
    written = list(map(str.lower, steps))
    nested = [inner for inner in _column_steps(columns) if len(inner) > len(steps)]
    return _propose(inner for inner in nested if list(map(str.lower, inner[-len(steps) :])) == written)


def _names_in_divisions(node: Any) -> list[list[str]]:
    """Returns the steps of each name in a chain of divisions, in lower case; [] if the chain contains other nodes.

    The node of a.b/c has [['a', 'b'], ['c']].
    """
    if node["class"] == "COLUMN_REF":
        return [[step.lower() for step in node["column_names"]]]
    if node.get("function_name") != "/":
        return []
    children = [argument["expression"] for argument in node.get("arguments", ())]  # of DuckDB 2
    parts = [_names_in_divisions(child) for child in children or node.get("children", ())]
    return [name for names in parts for name in names] if all(parts) else []


def _constant_text(node: Any) -> str | None:
    """Returns the text of a node that is a text constant; None for other nodes.

    Args:
        node: a node of an expression in the JSON of DuckDB's `json_serialize_sql`.

    >>> _constant_text({"class": "CONSTANT", "value": {"type": {"id": "VARCHAR"}, "value": "dog"}})
    'dog'
    """
    literal, value = node.get("literal") or {}, node.get("value") or {}  # of later and earlier versions of DuckDB
    if node["class"] != "CONSTANT":
        return None
    is_text = literal.get("kind") == "STRING" or value.get("type", {}).get("id") == "VARCHAR"
    return literal.get("text", value.get("value")) if is_text else None


def _constant_number(node: Any) -> str | None:
    """Returns the text of a node that is a constant number or bool; None for other nodes.

    >>> _constant_number({"class": "CONSTANT", "literal": {"kind": "INTEGER", "text": "-1"}})
    '-1'
    """
    literal, value = node.get("literal") or {}, node.get("value") or {}  # of later and earlier versions of DuckDB
    if node["class"] != "CONSTANT" or value.get("is_null"):
        return None
    is_number = literal.get("kind") in ("INTEGER", "NUMERIC", "BOOLEAN")
    is_number = is_number or value.get("type", {}).get("id") in (
        "INTEGER",
        "BIGINT",
        "HUGEINT",
        "DECIMAL",
        "DOUBLE",
        "BOOLEAN",
    )
    return str(literal.get("text", value.get("value"))) if is_number else None


def _is_number(text: str) -> bool:
    """Returns whether a text is a number, to which SQL can convert it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _mark_position(expression: str, position: int) -> str:
    """Returns the line of an expression that contains a position, and a second line "^ character 5" for position 4."""
    position = min(max(position, 0), len(expression))
    start = expression.rfind("\n", 0, position) + 1
    line = expression[start:].partition("\n")[0]
    return f"{line}\n{' ' * (position - start)}^ character {position + 1}"


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yields the nodes of a parsed expression, each before the nodes inside it.

    Args:
        tree: the JSON of DuckDB's `json_serialize_sql`, or a part of it. A node is a dict with the name 'class'.

    >>> [node["class"] for node in _nodes({"class": "A", "children": [{"class": "B"}]})]
    ['A', 'B']
    """
    if isinstance(tree, dict):
        if "class" in tree:
            yield tree
        for inner in tree.values():
            yield from _nodes(inner)
    elif isinstance(tree, list):
        for inner in tree:
            yield from _nodes(inner)


def _arrow_converter(pa: Any, feature: Any) -> tuple[Any, Convert] | None:
    """Returns (Arrow type of a feature, function from a list of its decoded values to an Arrow array).

    Class labels with names are text. Returns None for a feature without a column, such as an image.

    Args:
        pa: the module pyarrow.
        feature: the connector.
    """
    if isinstance(feature, ClassLabel):
        if not feature.names:
            return pa.int64(), lambda values: pa.array(values, pa.int64())
        names_by_number = dict(enumerate(feature.names))  # -1 and numbers beyond have no name
        return pa.string(), lambda values: pa.array([names_by_number.get(value) for value in values], pa.string())
    if isinstance(feature, FeaturesDict):
        fields = {
            name: column for name, child in feature.items() if (column := _arrow_converter(pa, child)) is not None
        }
        if not fields:
            return None
        kind = pa.struct([(name, column[0]) for name, column in fields.items()])
        makers = [(name, column[1]) for name, column in fields.items()]
        return kind, lambda values: pa.StructArray.from_arrays(
            [make([value[name] for value in values]) for name, make in makers], [name for name, _ in makers]
        )
    levels = 0
    while isinstance(feature, Sequence) and type(feature) is Sequence:
        feature, levels = feature.feature, levels + 1
    if isinstance(feature, ClassLabel) and levels == 1 and feature.names:
        names_by_number, kind = dict(enumerate(feature.names)), pa.list_(pa.string())
        return kind, lambda values: pa.array(
            [list(map(names_by_number.get, np.asarray(v).tolist())) for v in values], kind
        )
    if not isinstance(feature, Tensor) or type(feature).__name__ not in ("Tensor", "Scalar", "Text"):
        return None
    is_text = feature.dtype == STRING
    if not is_text and feature.dtype.kind not in "biuf":
        return None
    dtype = np.dtype(np.float32) if feature.dtype == np.float16 else feature.dtype  # DuckDB has no half floats
    kind = pa.string() if is_text else pa.from_numpy_dtype(dtype)
    stored = pa.binary() if is_text else kind
    for _ in range(levels + len(feature.shape)):
        kind, stored = pa.list_(kind), pa.list_(stored)
    is_list = kind != stored or levels + len(feature.shape) > 0

    def convert(values: list[Any]) -> pyarrow.Array:
        """Returns an Arrow array of a feature's values, one element per example; None becomes null."""
        plain = [value if value is None or not hasattr(value, "tolist") else value.tolist() for value in values]
        return pa.array(plain if is_list else values, stored).cast(kind)

    return kind, convert
