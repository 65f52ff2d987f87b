"""`where=`: an expression of SQL that chooses among the examples, evaluated by DuckDB over columns.

    label == 'dog' and length(text) > 100

Columns are the features: numbers, bools, text, class labels as their names (no name is NULL), and lists and structs of
these. Only the features that the expression names are decoded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_datasets.errors import BeamDatasetsError, did_you_mean
from beam_datasets.extras import framework
from beam_datasets.features import ClassLabel, FeaturesDict, Sequence, Tensor
from beam_datasets.features.base import STRING
from beam_datasets.features.decode import PartialDecoding
from beam_datasets.reading.decoding import Decode, compose_many

Convert = Callable[[list[Any]], Any]


_TABLE, _PLACE = "examples", "#"
_MAX_NAMES = 20  # of labels in an error
_BEFORE, _AFTER = f'SELECT "{_PLACE}" FROM {_TABLE} WHERE (\n', "\n)"


@dataclass(frozen=True)
class Where:
    """Which examples are kept.

    Attributes:
        expression: of DuckDB's SQL, over the names of features.
    """

    expression: str

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            raise BeamDatasetsError(f"where: expected a text such as 'n > 3', got {self.expression!r:.100}.")

    def compile(self, features: Any) -> Callable[[list[Any]], list[int]]:
        """Returns the function from records to the places of those that are kept, ascending.

        Args:
            features: of the records.

        Raises:
            MissingDependencyError: DuckDB or pyarrow is not installed.
            BeamDatasetsError: the expression cannot be parsed, names a feature that does not exist or has no column,
                compares values of different types, is not a bool, or depends on anything but the example.
        """
        duckdb = framework("duckdb", needed_by="where=", name="DuckDB", extra="where")
        pa = framework("pyarrow", needed_by="where=", name="the package pyarrow", extra="where")
        found = {name: _column(pa, feature.decoded()) for name, feature in features.items()}
        columns = {name: column for name, column in found.items() if column is not None}
        connection = duckdb.connect(":memory:", config={"enable_external_access": "false", "threads": "1"})
        connection.execute("SET TimeZone = 'UTC'")  # and not the machine's, which casts of text would depend on
        names = self._names(connection, features, columns)

        schema = pa.schema([(_PLACE, pa.int64()), *((name, columns[name][0]) for name in names)])

        def chosen(arrays: list[Any]) -> list[int]:
            connection.register(_TABLE, pa.table(arrays, schema=schema))
            try:
                rows = connection.execute(f"{_BEFORE}{self.expression}{_AFTER}").fetchall()
            except duckdb.Error as error:
                raise self._error(str(error), columns) from None
            return sorted(place for (place,) in rows)

        chosen([pa.array([0], pa.int64()), *(pa.nulls(1, columns[name][0]) for name in names)])
        result = connection.execute(f"SELECT (\n{self.expression}\n) FROM {_TABLE}")
        kind, _ = result.description[0][1], result.fetchall()  # nothing may be left unread
        if str(kind) != "BOOLEAN":
            raise self._error(f"expected a condition, which is true or false, got {kind}", columns)
        if not names:
            return lambda records: chosen([pa.array(range(len(records)), pa.int64())])
        decode = compose_many((Decode(features, PartialDecoding(list(names))),))

        def places(records: list[Any]) -> list[int]:
            examples = decode(records)
            arrays = [pa.array(range(len(records)), pa.int64())]
            for name in names:
                try:
                    arrays.append(columns[name][1]([example[name] for example in examples]))
                except pa.ArrowInvalid as error:  # of text
                    message = f"feature {name!r}: expected text in UTF-8, got other bytes ({error}). Use filter= for it"
                    raise self._error(message, columns) from error
            return chosen(arrays)

        return places

    def _names(self, connection: Any, features: Any, columns: dict[str, Any]) -> list[str]:
        """Returns the features that the expression names."""
        for before, after in ((_BEFORE, _AFTER), (_BEFORE.replace("(", ""), "\n")):  # one expression, and a whole one
            [[text]] = connection.execute(
                "SELECT json_serialize_sql(?)", [f"{before}{self.expression}{after}"]
            ).fetchall()
            parsed = json.loads(text)
            if parsed["error"]:
                place = int(parsed.get("position", 0)) - len(before)
                message = f"{parsed['error_message']}\n{_pointed(self.expression, place)}"
                raise self._error(message, columns)
        nodes = list(_nodes(parsed["statements"][0]["node"]["where_clause"]))
        if any(node["class"] == "SUBQUERY" for node in nodes):
            raise self._error("expected an expression of one example, got a subquery", columns)
        functions = {node["function_name"].lower() for node in nodes if "function_name" in node}
        found = connection.execute(  # some, such as +, change for times with a zone alone, and the zone is set
            "SELECT function_name FROM duckdb_functions() GROUP BY 1 HAVING bool_and(stability <> 'CONSISTENT')"
        ).fetchall()
        # age() of one time counts from today, though DuckDB calls it consistent.
        changing = sorted(functions & {"age", *(name.lower() for (name,) in found)})
        if changing:
            message = f"{changing[0]}() does not depend on the example alone, so that a second run would choose others"
            raise self._error(message, columns)
        refs = {node["column_names"][0].lower(): node for node in nodes if node["class"] == "COLUMN_REF"}
        known = {name.lower(): name for name in features}
        has_parameters = any(node["class"] == "LAMBDA" for node in nodes)  # they look like columns
        for name, node in refs.items():
            pointed = _pointed(self.expression, node["query_location"] - len(before))
            if name not in known and (not has_parameters or name == _PLACE):
                raise self._error(f"unknown feature {name!r}.{did_you_mean(name, features)}\n{pointed}", columns)
            if name in known and known[name] not in columns:
                feature = features[known[name]]
                raise self._error(f"feature {known[name]!r}, {feature!r}, has no column\n{pointed}", columns)
        for node in nodes:
            sides = [node["left"], node["right"]] if node["class"] == "COMPARISON" else node.get("children", [])
            if node["class"] == "COMPARISON" or node["type"] in ("COMPARE_IN", "COMPARE_NOT_IN"):
                self._check_labels(sides, {name: features[known[name]] for name in refs if name in known}, columns)
        return [name for name in columns if name.lower() in refs]

    def _check_labels(self, sides: list[Any], named: dict[str, Any], columns: dict[str, Any]) -> None:
        """Raises a BeamDatasetsError if a class label is compared with a text that is not one of its names."""
        labels = [named.get(side["column_names"][0].lower()) for side in sides if side["class"] == "COLUMN_REF"]
        for label in labels:
            for text in map(_text, sides):
                if isinstance(label, ClassLabel) and label.names and text is not None and text not in label.names:
                    message = f"{text!r} is not a label: expected one of {', '.join(label.names[:_MAX_NAMES])}"
                    more = ", ..." if len(label.names) > _MAX_NAMES else ""
                    raise self._error(f"{message}{more}.{did_you_mean(text, label.names)}", columns)

    def _error(self, message: str, columns: dict[str, Any]) -> BeamDatasetsError:
        names = ", ".join(columns) or "none"
        return BeamDatasetsError(
            f"where={self.expression!r}: {message}\nGive a condition in DuckDB's SQL over these features: {names}."
        )


def _text(node: Any) -> str | None:
    """Returns the text of a constant; None for other nodes."""
    literal, value = node.get("literal") or {}, node.get("value") or {}  # of later and earlier versions of DuckDB
    if node["class"] != "CONSTANT":
        return None
    is_text = literal.get("kind") == "STRING" or value.get("type", {}).get("id") == "VARCHAR"
    return literal.get("text", value.get("value")) if is_text else None


def _pointed(expression: str, place: int) -> str:
    """Returns the line of an expression with a mark below a place."""
    place = min(max(place, 0), len(expression))
    start = expression.rfind("\n", 0, place) + 1
    line = expression[start:].partition("\n")[0]
    return f"{line}\n{' ' * (place - start)}^ character {place + 1}"


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yields the nodes of a parsed expression."""
    if isinstance(tree, dict):
        if "class" in tree:
            yield tree
        for inner in tree.values():
            yield from _nodes(inner)
    elif isinstance(tree, list):
        for inner in tree:
            yield from _nodes(inner)


def _column(pa: Any, feature: Any) -> tuple[Any, Convert] | None:
    """Returns the Arrow type of a feature, and the function from its decoded values to an array; None for neither."""
    if isinstance(feature, ClassLabel):
        if not feature.names:
            return pa.int64(), lambda values: pa.array(values, pa.int64())
        named = dict(enumerate(feature.names))  # -1 and numbers beyond have no name
        return pa.string(), lambda values: pa.array([named.get(value) for value in values], pa.string())
    if isinstance(feature, FeaturesDict):
        fields = {name: found for name, child in feature.items() if (found := _column(pa, child)) is not None}
        if not fields:
            return None
        kind = pa.struct([(name, found[0]) for name, found in fields.items()])
        makers = [(name, found[1]) for name, found in fields.items()]
        return kind, lambda values: pa.StructArray.from_arrays(
            [make([value[name] for value in values]) for name, make in makers], [name for name, _ in makers]
        )
    levels = 0
    while isinstance(feature, Sequence) and type(feature) is Sequence:
        feature, levels = feature.feature, levels + 1
    if isinstance(feature, ClassLabel) and levels == 1 and feature.names:
        named, kind = dict(enumerate(feature.names)), pa.list_(pa.string())
        return kind, lambda values: pa.array([list(map(named.get, np.asarray(v).tolist())) for v in values], kind)
    if not isinstance(feature, Tensor) or type(feature).__name__ not in ("Tensor", "Scalar", "Text"):
        return None
    is_text = feature.dtype == STRING
    if not is_text and feature.dtype.kind not in "biuf":
        return None
    kind = pa.string() if is_text else pa.from_numpy_dtype(feature.dtype)
    stored = pa.binary() if is_text else kind
    for _ in range(levels + len(feature.shape)):
        kind, stored = pa.list_(kind), pa.list_(stored)
    is_list = kind != stored or levels + len(feature.shape) > 0

    def convert(values: list[Any]) -> Any:
        plain = [value if value is None or not hasattr(value, "tolist") else value.tolist() for value in values]
        return pa.array(plain if is_list else values, stored).cast(kind)

    return kind, convert
