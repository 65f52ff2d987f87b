"""Schemas guessed from rows, and written as text."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_datasets.errors import InputError
from beam_datasets.files.convert import row_converter, survives, value_converter
from beam_datasets.files.fields import Field, override, parse_field, problems
from beam_datasets.files.infer import Guess, Inference, text_kinds


def guess_of(rows):
    guess = Guess()
    for i, row in enumerate(rows):
        guess.add_row(row, f"in.jsonl, line {i}")
    return guess


def schema(rows):
    fields = Inference().fields(guess_of(rows))
    if wrong := list(problems(fields)):
        raise InputError("\n".join(wrong))
    return {name: str(field) for name, field in fields.items()}


def test_json_types():
    row = {"b": True, "i": 1, "f": 1.5, "s": "x", "l": [1, 2], "o": {"x": 1, "y": ["a"]}, "n": [[1], [2.5]]}
    assert schema([row]) == {
        "b": "bool",
        "i": "int64",
        "f": "float32",
        "s": "string",
        "l": "int64[]",
        "o": "{x: int64, y: string[]}",
        "n": "float32[][]",
    }


def test_what_is_missing_is_optional():
    rows = [{"a": 1, "o": {"x": 1}}, {"a": None, "b": 2, "o": None}, {"a": 2.5}]
    assert schema(rows) == {"a": "float32?", "b": "int64?", "o": "{x: int64?}?"}


def test_missing_objects_convert():
    fields = Inference().fields(guess_of([{"o": {"x": 1, "l": [1]}}, {}]))
    convert = row_converter(fields)
    assert convert({"o": {"x": 1, "l": [2]}}) == {"o": {"x": 1, "l": [2]}}
    assert convert({}) == convert({"o": None}) == {"o": {"x": None, "l": []}}


@pytest.mark.parametrize(
    "rows, message",
    [
        ([{"a": 1}, {"a": "x"}], r"'a': .*int \(1 times, first 1 in in.jsonl, line 0\), string \(1 times"),
        ([{"a": None}], "'a': no row has a value"),
        ([{"a": []}], "'a': every list is empty"),
        ([{"a": [1, None]}], r"'a\[\]' \(first in in.jsonl, line 0\): a missing value inside the list"),
        ([{"a": [{"x": 1}, {}]}], r"'a\[\]/x': the value is missing inside a list"),
        ([{"a": [1]}, {"a": None}], r"'a' \(first in .*, line 1\): the list is missing.*--feature 'a=int64\[\]\?'"),
        ([{"o": {"a": [1]}}, {"o": {}}], r"'o/a': the list is missing.*--feature 'o/a=int64\[\]\?'"),
        ([{"a": 2**63}], "big integer"),
    ],
)
def test_refused(rows, message):
    with pytest.raises(InputError, match=message):
        schema(rows)


def test_csv_types():
    kind_of = text_kinds(("", "NA"))
    guess = Guess()
    for i, row in enumerate([("1", "1", "x", "01", "true", "", ""), ("2", "1e3", "", "02", "false", "NA", "3")]):
        guess.add_row(dict(zip("abcdefg", row)), f"in.csv, line {i}", kind_of)
    found = {name: str(field) for name, field in Inference(is_text=True).fields(guess).items()}
    assert list(found.values()) == ["int64", "float32", "string", "string", "bool", "string", "int64?"]


def test_floats_that_need_all_their_digits():
    found = {"a": 1.5, "b": 16777217.0, "c": 16777217, "d": 1e300, "e": [0.1, 1 / 3], "f": float("inf"), "g": 16777217}
    rows = [found, {**found, "a": 0.1, "c": 1.5, "f": float("nan")}]
    assert schema(rows) == {
        "a": "float32", "b": "float64", "c": "float64", "d": "float64", "e": "float64[]", "f": "float32", "g": "int64"
    }  # fmt: skip


@given(st.floats() | st.floats(width=32) | st.decimals(-(10**7), 10**7, places=3).map(float))
def test_what_survives_is_what_numpy_shows(number):
    with np.errstate(over="ignore"):
        kept = np.float32(number)
    assert survives(number) == (number in (float(kept), float(str(kept))) or bool(np.isnan(kept)))


def test_later_numbers_that_do_not_survive():
    guess = guess_of([{"x": 1.5, "l": [0.5], "o": {"x": 2.5}, "p": [{"x": 0.5}]}, {"l": [1], "o": {}, "p": []}])
    fields = Inference().fields(guess)
    row = {"x": 0.1, "l": [], "o": {"x": None}, "p": [{"x": 1}]}
    convert = row_converter(fields)
    assert convert(row) == row
    for name, wrong, advised in [
        ("x", 0.123456789, r"--feature 'x=float64\?' keeps it, --feature 'x=float32\?' rounds"),
        ("l", [1e300], r"--feature 'l=float64\[\]' keeps it, --feature 'l=float32\[\]'"),
        ("o", {"x": 16777217}, "--feature 'o/x=float64.'"),
        ("p", [{"x": 16777217}], "--feature p/x=float64 "),
    ]:
        with pytest.raises(ValueError, match=f"^'{name}': .*float32 keeps.*{advised}"):
            convert({**row, name: wrong})
    column = value_converter(fields["x"], "x", missing=("",))
    assert column("1.25") == 1.25
    with pytest.raises(ValueError, match=r"1700000000.123 has more digits.*--feature 'x=float64\?' keeps"):
        column("1700000000.123")
    assert value_converter(parse_field("float32"), missing=())("1700000000.123") == 1700000000.123


def test_specs_round_trip():
    specs = ("int64", "float32?", "string[]", "uint8[28,28]", "class:cat,dog", "class:10", "image", "int64[]?")
    for spec in (*specs, "int64[2]?", "bool[][]"):
        assert str(parse_field(spec)) == spec


@pytest.mark.parametrize("spec", ["", "int65", "int64:5", "drop[]", "int64[][2]", "int64[x]", "[]", "class:"])
def test_specs_refused(spec):
    with pytest.raises(ValueError, match=r"is not a type of a feature|cannot be stored"):
        parse_field(spec)


def test_override():
    fields = {"a": Field("int64"), "o": Field("object", fields={"x": Field("int64"), "y": Field("bool")})}
    assert {n: str(f) for n, f in override(fields, {"a": "drop", "o/x": "float32"}).items()} == {
        "o": "{x: float32, y: bool}"
    }
    with pytest.raises(ValueError, match="'b' is not in the files; they have 'a', 'o'"):
        override(fields, {"b": "int64"})
    assert "b" in override(fields, {"b": "int64"}, may_add=True)
    lists = {"l": Field("list", item=Field("list", item=fields["o"]))}
    assert str(override(lists, {"l/x": "drop", "l/y": "?", "l": "?"})["l"]) == "{y: bool?}[][]?"
    for specs in ({"b": "?"}, {"o/z": "?"}):
        with pytest.raises(ValueError, match=r"'[bz]' is not in the files"):
            override(fields, specs, may_add=True)


TEXTS = {
    "int64": {" 12 ": 12},
    "int64?": {"": None},
    "float32": {"1e3": 1000.0},
    "bool": {"Yes": True},
    "string": {"": ""},
    "string?": {"": None},
    "class:cat,dog": {"dog": 1},
    "class:3": {"2": 2},
    "class:3?": {"": -1},
    "int64[]": {"[1, 2]": [1, 2]},
    "int64[]?": {"": []},
    "int64[2]?": {"": None},
    "int64[2,1]": {"[[1],[2]]": [[1], [2]]},
}
BAD_TEXTS = {
    "int64": ["1_0", "1.0", ""],
    "float32": ["x", "1_0"],
    "bool": ["2"],
    "class:a": ["b"],
    "class:2": ["2"],
    "int64[]": ["[1", "7", ""],
    "int64[2]": [""],
    "int64[2,1]": ["[[1],null]"],
}


@pytest.mark.parametrize("spec", TEXTS | BAD_TEXTS)
def test_text_to_value(spec):
    convert = value_converter(parse_field(spec), missing=("",))
    for text, value in TEXTS.get(spec, {}).items():
        assert convert(text) == value
    for text in BAD_TEXTS.get(spec, ()):
        with pytest.raises(ValueError, match=r"not|missing|none of|neither"):
            convert(text)


def test_lost_names_are_errors():
    convert = row_converter({"a": parse_field("int64")}, dropped={"c"})
    assert convert({"a": 1, "c": 2}) == {"a": 1}
    inner = Field("object", fields={"x": parse_field("int64")})
    convert_inner = row_converter({"o": inner, "l": Field("list", item=inner)}, dropped={"o/y", "l/y"})
    with pytest.raises(ValueError, match="'z': the rows .* add --feature l/z=drop$"):
        convert_inner({"o": {"x": 1, "y": 2}, "l": [{"x": 3, "y": 4, "z": 5}]})
    with pytest.raises(ValueError, match=r"'b': the rows that the schema was taken from"):
        convert({"a": 1, "b": 2})


@given(st.from_regex(r"[+-]?[0-9]{0,4}\.?[0-9]{0,4}(e-?[0-9]{1,2})?", fullmatch=True))
@example("1e-46")
@example("9999999")
def test_short_texts_of_numbers_are_kept_or_refused_as_values_are(text):
    """A column of text converts a number as the value converter does, which looks at all of its digits."""
    try:
        number = float(text)
    except ValueError:
        return
    field = Field("float32", exact=True)
    if survives(number):
        assert value_converter(field, missing=("",))(text) == number
    else:
        with pytest.raises(ValueError, match="float32 keeps"):
            value_converter(field, missing=("",))(text)
