"""Features that are inferred of files: types of columns, files that differ, all problems of a schema at once."""

import contextlib
import decimal
import json
import re
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets.errors import InputError
from beam_datasets.files.convert import row_converter, survives, value_converter
from beam_datasets.files.fields import Field, override, parse_field, problems
from beam_datasets.files.infer import Guess, Inference, TextKinds
from tests.files.conftest import rows_of

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


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


@pytest.mark.parametrize(
    "rows, message",
    [
        ([{"a": 1}, {"a": "x"}], r"'a': .*int \(1 time, first 1 in in.jsonl, line 0\), string \(1 time"),
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


def test_brackets_in_a_name_are_part_of_it():
    """Only those at the end of a step mean the items of a list."""
    with pytest.raises(InputError) as caught:
        schema([{"x[]y": [{"a[]b": [1, "c"]}]}])
    proposed = re.search(r"--feature '(.+)=string'", str(caught.value))
    assert proposed, caught.value
    assert proposed[1] == "x[]y/a[]b"


def test_csv_types():
    kind_of = TextKinds(("", "NA"))
    guess = Guess()
    for i, row in enumerate([("1", "1", "x", "01", "true", "", ""), ("2", "1e3", "", "02", "false", "NA", "3")]):
        guess.add_row(dict(zip("abcdefg", row)), f"in.csv, line {i}", kind_of)
    found = {name: str(field) for name, field in Inference(is_text=True).fields(guess).items()}
    assert list(found.values()) == ["int64", "float32", "string", "string", "bool", "string", "int64?"]


NUMERALS = st.text(" \t0123456789+-.eEinfatysNIl_", max_size=24) | st.integers(-(2**66), 2**66).map(str)


@given(NUMERALS | st.floats().map(str) | st.text(max_size=8) | st.sampled_from(["True", "FALSE", " 7 ", "-0", "١"]))
def test_kinds_of_texts_are_those_of_python(text):
    kind = TextKinds()(text)
    is_code = re.match(r"\s*[+-]?0\d", text, re.ASCII) is not None
    if kind == "int":
        assert -(2**63) <= int(text) < 2**63
    elif kind == "float":
        float(text)
    elif kind == "bool":
        assert text.lower() in ("true", "false")
    elif kind == "string" and text.isascii() and "_" not in text and not is_code:
        assert text.lower() not in ("true", "false")
        with contextlib.suppress(ValueError):
            assert abs(float(text)) >= 2.0**63  # too large for an int64, or for a float


@pytest.mark.parametrize("number", [2**24, 2**24 + 1, -(2**24) - 1, 2**24 + 2, 2**40 + 1])
def test_wide_integers(number):
    """They are wide if float32 lacks them: then floats beside them are float64, in texts and in JSON."""
    for values, kind_of in (([number, 0.5], None), ([str(number), "0.5"], TextKinds())):
        guess = Guess()
        for value in values:
            guess.add_row({"a": value}, "in", *([kind_of] if kind_of else []))
        expected = "float32" if int(np.float32(number)) == number else "float64"
        assert str(Inference(is_text=kind_of is not None).fields(guess)["a"]) == expected


@pytest.mark.parametrize(
    "texts, kind",
    [
        (["1", "x"], "string"),
        (["1", "x", "y"], "string"),
        (["1", "2", "x"], None),
        (["1", "2.5", "x"], None),
        (["true", "false", "x"], None),
        (["1", "true"], None),
        (["1", "true", "x"], None),
        (["1", "2", "007"], "string"),
        (["1", "2", "3", "4", "n/a", "007"], "string"),
        (["1", "2", "3", "9223372036854775813"], "string"),
        (["1", "2", "", "x"], None),
        (["", ""], "string"),
        (["1", "2", "1" * 30], "string"),
    ],
)
def test_several_kinds_of_texts(texts, kind):
    """A column of CSV is text if half of its values are; less of them are a problem."""
    guess = Guess()
    for i, text in enumerate(texts):
        guess.add_row({"a": text}, f"in.csv, line {i}", TextKinds())
    fields = Inference(is_text=True).fields(guess)
    assert bool(list(problems(fields))) == (kind is None)
    assert kind is None or str(fields["a"]) == kind


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
    for name in ("b", "o/z"):
        with pytest.raises(ValueError, match=f"'{name}' is not in the files"):
            override(fields, {name: "?"}, may_add=True)
    with pytest.raises(ValueError, match=r"'o/xx' is not .*they have 'o/x', 'o/y'. Did you mean 'x'"):
        override(fields, {"o/xx": "int64"})
    with pytest.raises(
        ValueError, match=r"'l\[\]\[\]/x': expected a type without `\?`, got 'int64\?'.*--feature l=string"
    ):
        override(lists, {"l/x": "int64?"})


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
    convert = row_converter({"a": parse_field("int64")}, dropped_paths={"c"})
    assert convert({"a": 1, "c": 2}) == {"a": 1}
    inner = Field("object", fields={"x": parse_field("int64")})
    convert_inner = row_converter({"o": inner, "l": Field("list", item=inner)}, dropped_paths={"o/y", "l/y"})
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
    if re.match(r"[+-]?0\d", text):
        with pytest.raises(ValueError, match="has a leading zero"):
            value_converter(field, missing=("",))(text)
    elif survives(number):
        assert value_converter(field, missing=("",))(text) == number
    else:
        with pytest.raises(ValueError, match="float32 keeps"):
            value_converter(field, missing=("",))(text)


# Types of columns: decimals and dictionaries, files that differ, all problems of a schema at once


def label_names(made, *path):
    feature = bd.builder_from_directory(made).info.features
    for step in path:
        feature = getattr(feature, "feature", feature)
        feature = feature[step] if step else feature
    return list(getattr(feature, "feature", feature).names)


# Decimals


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20))
@example(Decimal("0.1"))
@example(Decimal("9007199254740993"))
@example(Decimal("0.12345678901234567890"))
@example(Decimal(2**63))
def test_a_decimal_becomes_a_number_if_that_keeps_it(number):
    """A decimal is a float64 if no digit is lost, an int64 if it is an integer in range, else an error."""
    keeps = Decimal(repr(float(number))) == number
    is_integer = number == number.to_integral_value() and -(2**63) <= number < 2**63
    for spec, fits in (("float64", keeps or Decimal(float(number)) == number), ("int64", is_integer)):
        convert = value_converter(parse_field(spec), "x")
        if fits:
            found = convert(number)
            assert type(found) is (float if spec == "float64" else int)
            assert Decimal(repr(found)) == number or Decimal(found) == number
        else:
            with pytest.raises(ValueError, match="--feature x=string keeps it|not an integer|does not fit int64"):
                convert(number)
    assert value_converter(parse_field("float32"))(number) == float(number)  # rounds, because it was asked for


def test_decimals_of_parquet(files):
    """`--feature amount=float64?` and `--feature units=int64` store decimals as numbers."""
    columns = {
        "amount": pa.array([Decimal("1.10"), None, Decimal("-2.25")], pa.decimal128(10, 2)),
        "units": pa.array([Decimal(7), Decimal(8), Decimal(9)], pa.decimal128(20, 0)),
        "wide": pa.array([Decimal("0.10")] * 3, pa.decimal256(40, 2)),
        "list": pa.array([[Decimal("1.5")]] * 3, pa.list_(pa.decimal128(5, 1))),
    }
    pq.write_table(pa.table(columns), files.write("a.parquet"))
    specs = ["amount=float64?", "units=int64", "wide=float32", "list=float32[]"]
    rows = sorted(files.read("parquet", *(f"--feature={spec}" for spec in specs)), key=lambda row: int(row["units"]))
    assert [row["amount"] for row in rows] == [1.1, None, -2.25]
    assert [int(row["units"]) for row in rows] == [7, 8, 9]
    assert {row["wide"] for row in rows} == {np.float32(0.1)}
    assert [row["list"].tolist() for row in rows] == [[1.5]] * 3
    problem = files.fails("parquet", "--feature=amount=int64?")
    assert "a.parquet, row 0: 'amount': Decimal('1.10') (Decimal) is not an integer" in problem


# Labels


@pytest.mark.parametrize("as_dictionary", [True, False])
def test_labels_of_parquet(files, as_dictionary):
    """`--feature cat=class` takes the values of a column, dictionary or not, as names, also inside of structs."""
    for part, names in enumerate((["dog", "cat", None], ["emu", "cat", "dog"])):
        cat = pa.array(names)
        columns = {
            "cat": cat.dictionary_encode() if as_dictionary else cat,
            "n": pa.array([0, 1, 2], pa.int8()),
            "o": pa.array([{"kind": name or "x", "tags": [name or "x", "y"]} for name in names]),
        }
        pq.write_table(pa.table(columns), files.write(f"{part}.parquet"))
    specs = ["cat=class?", "n=class", "o/kind=class", "o/tags=class[]"]
    made = files.build("parquet", *(f"--feature={spec}" for spec in specs))
    assert label_names(made, "cat") == ["cat", "dog", "emu"]
    assert label_names(made, "o", "kind") == ["cat", "dog", "emu", "x"]
    assert label_names(made, "o", "tags") == ["cat", "dog", "emu", "x", "y"]
    assert label_names(made, "n") == ["0", "1", "2"]
    assert sorted(int(row["cat"]) for row in rows_of(made)) == [-1, 0, 0, 1, 1, 2]


def test_labels_of_json_lines_inside_of_objects_and_lists(files):
    """`class` without names works inside of objects and lists of JSON lines, and for columns of CSV."""
    rows = [{"o": {"kind": "b"}, "tags": ["x", "y"], "l": [{"k": "q"}]}, {"o": {"kind": "a"}, "tags": [], "l": []}]
    files.write("a.jsonl", "\n".join(map(json.dumps, rows)))
    made = files.build("jsonl", "--feature=o/kind=class", "--feature=tags=class[]", "--feature=l/k=class")
    assert label_names(made, "o", "kind") == ["a", "b"]
    assert label_names(made, "tags") == ["x", "y"]
    assert label_names(made, "l", "k") == ["q"]


# Files that differ


def write(files, kind, tables):
    for i, table in enumerate(tables):
        lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values()))]
        path = files.write(f"{i}.{kind}", "".join(f"{line}\n" for line in lines))
        if kind == "parquet":
            pq.write_table(pa.table(table), path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("more_in", [0, 1])
def test_a_column_that_some_files_lack(files, kind, more_in):
    """A column that one file has more, or less, is refused only if no option says what to do."""
    tables = [{"n": [1, 2]}, {"n": [3]}]
    tables[more_in] |= {"w": ["x"] * len(tables[more_in]["n"]), "v": [7] * len(tables[more_in]["n"])}
    write(files, kind, tables)
    problem = files.fails(kind)
    for name in ("w", "v"):
        assert f"column '{name}' is in some files but not in {files.folder}/{1 - more_in}.{kind}; --feature" in problem
    specs = {"--feature=w=drop": {None}, "--feature=w=string?": {None, b"x"}, "--feature=w=?": {None, b"x"}}
    for spec, values in specs.items():
        rows = files.read(kind, spec, "--feature=v=int8?")
        assert sorted(int(row["n"]) for row in rows) == [1, 2, 3]
        assert {row.get("w") for row in rows} == values
        assert {None if row["v"] is None else int(row["v"]) for row in rows} == {None, 7}
    assert "'w': the value is missing" in files.fails(kind, "--feature=w=string", "--feature=v=drop")


def test_types_that_differ_between_parquet_files(files):
    """A column with two types is an error until an option says which; one that is null in a file is optional.

    `?` makes a struct, with all that is in it, and a list optional.
    """
    tables = [
        {"n": [1], "m": [None], "s": pa.array(["x"]), "o": [{"x": 1}], "l": [[1]]},
        {"n": ["2"], "m": [5], "s": pa.array(["y"], pa.large_string())},
    ]
    write(files, "parquet", tables)
    options = ["--feature=o=?", "--feature=l=?"]
    problem = files.fails("parquet", *options)
    assert re.search(r"column 'n' is int64 in .*0\.parquet and string in .*1\.parquet", problem)
    assert "columns cannot be stored" not in problem
    rows = sorted(files.read("parquet", *options, "--feature=n=string"), key=lambda row: row["n"])
    assert [(row["n"], row["m"] and int(row["m"]), row["s"]) for row in rows] == [(b"1", None, b"x"), (b"2", 5, b"y")]
    assert [(row["o"]["x"], row["l"].tolist()) for row in rows] == [(1, [1]), (None, [])]


# All problems at once


BAD = [{"i": 1, "a": 1, "l": [1], "m": [None], "o": {"e": []}}] * 3 + [
    {"i": 2, "a": "x", "l": None, "m": [2], "o": {"e": []}}
]


def test_all_problems_of_json_lines_are_reported_together(files):
    """One run reports every problem of the schema, with the option for each."""
    files.write("a.jsonl", "\n".join(map(json.dumps, BAD)))
    problem = files.fails("jsonl")
    assert "4 columns cannot be stored as they are:" in problem
    for start, place in (
        ("'a': the values do not fit", "line 4"),
        ("'l' (first in ", "line 4 (byte 168)): the list is"),
        ("'m[]' (first in ", "line 1"),
        ("'o/e': every list is empty", ""),
    ):
        [line] = [line for line in problem.splitlines() if start in line]
        assert place in line
        assert "--feature" in line
    assert (
        len(files.read("jsonl", "--feature=a=string", "--feature=l=?", "--feature=m=drop", "--feature=o/e=drop")) == 4
    )


def test_skip_bad_counts_while_the_schema_is_inferred(files):
    """With --skip_bad the type that most rows have is taken, and the other rows are left out and counted.

    Where no type has more than half of the values, the schema is an error with --skip_bad too.
    """
    rows = [{"i": i, "a": i, "l": [i], "o": [{"x": 1.5}]} for i in range(9)]
    bad = [
        {"i": 9, "a": "x", "l": [1], "o": []},
        {"i": 10, "a": 1, "l": None, "o": []},
        {"i": 11, "a": 1, "l": [1], "o": [{}]},
    ]
    files.write("a.jsonl", "\n".join([*map(json.dumps, [*rows, *bad]), "{nonsense"]))
    files.fails("jsonl")
    assert sorted(int(row["i"]) for row in files.read("jsonl", "--skip_bad")) == list(range(9))
    said = files.said()
    assert "left out: 4\n" in said
    for line in ("line 10", "line 11", "line 12", "line 13"):
        assert f"a.jsonl, {line} (byte" in said
    files.write("a.jsonl", '{"a": 1}\n{"a": "x"}\n')
    assert "do not fit one type" in files.fails("jsonl", "--skip_bad")
    assert "--skip_bad" not in files.fails("jsonl")
    files.write("a.jsonl", '{"a": 1}\n{"a": 2.5}\n{"a": "13.20"}\n')
    assert "--skip_bad leaves out the rows with other values than float or int" in files.fails("jsonl")


# Nothing is lost: rows against what Python's json, csv and decimal say

LEAF = st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.floats(allow_nan=False) | st.text(max_size=3)
VALUE = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2),
    max_leaves=6,
)
ROWS = st.lists(st.dictionaries(st.sampled_from("ab"), VALUE, max_size=2), min_size=1, max_size=6)


def same(found, value, field):
    """Returns whether a converted value is the value of JSON; what is missing is None, a missing list []."""
    if value is None:
        if field.fields is not None:
            return all(same(found[name], None, inner) for name, inner in field.fields.items())
        return bool(found == ([] if field.kind == "list" else None))
    if field.fields is not None:
        return all(same(found[name], value.get(name), inner) for name, inner in field.fields.items())
    if field.item is not None:
        return len(found) == len(value) and all(same(f, v, field.item) for f, v in zip(found, value))
    return bool(found == value) and isinstance(found, bool) == isinstance(value, bool)


@given(ROWS, st.booleans())
@example([{"a": ""}, {"a": []}, {"a": ""}], True)
@example([{"a": ""}, {"a": []}, {"a": ""}, {"a": None}], True)
@example([{"a": {"x": 1, "y": [1]}}, {}, {"a": None}], False)
def test_what_is_inferred_keeps_every_value(rows, skip_bad):
    """Without problems in the schema every row converts to itself; with skip_bad a row does, or is an error."""
    guess = Guess()
    for i, row in enumerate(rows):
        guess.add_row(row, f"line {i}")
    fields = Inference(skip_bad=skip_bad).fields(guess)
    if any(problems(fields)):
        return
    convert = row_converter(fields)
    for row in rows:
        try:
            found = convert(row)
        except ValueError:
            assert skip_bad
            continue
        assert all(same(found[name], row.get(name), field) for name, field in fields.items())


NUMBER = st.from_regex(r"[+-]?[0-9]{1,25}(\.[0-9]{0,20})?(e[+-]?[0-9]{1,3})?", fullmatch=True)


@given(NUMBER)
@example("1e400")
@example("9007199254740993")
@example("1" * 400)
def test_a_number_in_text_is_kept_or_refused(text):
    """A CSV number is the float64 nearest to the decimal; an integer that has more digits, or infinity, is an error."""
    with decimal.localcontext(decimal.Context(prec=800, Emax=9999, Emin=-9999)):
        number = Decimal(text)
        try:
            found = value_converter(parse_field("float64"), missing=())(text)
        except ValueError:
            is_integer = text.lstrip("+-").isdecimal()
            assert (is_integer and Decimal(float(text)) != number) if abs(number) < 10**308 else True
            return
        assert np.isfinite(found)
        assert all(abs(Decimal(found) - number) <= abs(Decimal(float(np.nextafter(found, way))) - number)
                   for way in (-np.inf, np.inf) if np.isfinite(np.nextafter(found, way)))  # fmt: skip


@given(st.integers(-(2**70), 2**70), st.sampled_from(["int8", "uint8", "int32", "int64", "uint64"]))
def test_an_integer_is_kept_or_refused(number, kind):
    limits = np.iinfo(kind)
    for convert, value in (
        (value_converter(parse_field(kind)), number),
        (value_converter(parse_field(kind), missing=()), str(number)),
    ):
        if limits.min <= number <= limits.max:
            assert convert(value) == number
        else:
            with pytest.raises(ValueError, match=f"does not fit {kind}"):
                convert(value)


@pytest.mark.parametrize("kind, text", [("csv", "x\n1.5\n1e400\n"), ("jsonl", '{"x": 1.5}\n{"x": 1e400}\n')])
def test_a_number_that_would_be_infinite(files, kind, text):
    files.write(f"a.{kind}", text)
    assert f"a.{kind}, line {3 if kind == 'csv' else 2}" in files.fails(kind, "--feature=x=float64")
    files.build(kind, "--feature=x=float64", "--skip_bad")
    assert "left out: 1\n" in files.said()


def test_problems_of_a_schema_name_the_file_and_advice_that_suffices(files):
    files.write("a.jsonl", '{"id": 1, "tags": [], "note": null}\n')
    problem = files.fails("jsonl")
    assert f"{files.folder}/a.jsonl: 2 columns cannot be stored as they are:" in problem
    assert "--feature tags=string makes text" in problem
    assert "--feature 'note=string?' makes text" in problem
    [row] = files.read("jsonl", "--feature=tags=string", "--feature=note=string?")
    assert (row["tags"], row["note"]) == (b"[]", None)
