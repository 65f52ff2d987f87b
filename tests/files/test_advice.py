"""Every option and command that an error proposes exists, and a test follows it: the next run works.

A new one needs a test with `follows`, or an entry of `FOLLOWED_ELSEWHERE`.
"""

import io
import itertools
import json
import re
import shlex
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from beam_datasets.cli import options
from beam_datasets.cli.main import COMMANDS
from beam_datasets.formats.example import serialize
from beam_datasets.formats.tfrecord import frame
from tests.files.advice import (
    FOLLOWED_ELSEWHERE,
    KINDS,
    PACKAGE,
    PROGRAMS,
    QUOTED_COMMAND,
    advises,
    collected,
    followed,
    follows,
    jsonl,
    messages,
    parquet,
    refused,
    rows,
    write,
)
from tests.files.in_process import advised, make_builder, option_names, publish
from tests.sounds import encoded


def test_all_advice_is_followed_by_a_test():
    known = followed() | FOLLOWED_ELSEWHERE.keys()
    missing = {key: sorted(texts) for key, texts in collected().items() if key not in known}
    assert missing == {}, "write a test that follows it, with @follows(...)"
    assert known - collected().keys() == set(), "nothing proposes this any more"


def test_programs_are_known():
    """Otherwise a command would not be collected."""
    programs = {program for *_, text in messages() for program in QUOTED_COMMAND.findall(text)}
    assert programs <= {*PROGRAMS.split("|"), "import", "from"}


def test_tests_elsewhere_exist():
    root = PACKAGE.parent
    for place in FOLLOWED_ELSEWHERE.values():
        path, _, name = place.partition("::")
        assert f"def {name or 'test_'}" in (root / path).read_text()


@cache
def options_of_commands():
    """Returns {module of cli: the options of its commands}."""
    found: dict[str, set[str]] = {}
    for name in COMMANDS:
        module, _ = COMMANDS[name]
        source = __import__(f"beam_datasets.cli.{module}", fromlist=[""])
        for command in vars(source).values():
            if isinstance(command, options.Command):
                found.setdefault(module, {"--help"}).update(command.parser()._option_string_actions)
    return found


def test_options_exist():
    of_builders = set().union(*map(option_names, KINDS))
    of_kind = {kind: option_names(kind) | {"--help"} for kind in KINDS}
    commands = options_of_commands()
    of_kind["published"] = commands["append"]  # errors of files that are appended
    of_kind["convert"] = of_kind["late_types"] = of_builders | commands["append"]
    of_all_commands = {"--debug", "--imports", "--builder"}  # --builder.NAME is an argument of a builder
    everywhere = of_all_commands.union(of_builders, *commands.values())
    for key, texts in collected().items():
        place, _, option = key.partition(" ")
        module = place.partition(":")[0].rpartition("/")[2].removesuffix(".py")
        if not option.startswith("--"):
            continue
        known = of_kind.get(module, of_builders) if place.startswith(("files/", "intake/")) else everywhere
        if place.startswith("cli/") and module in commands and module != "build":
            known = commands[module] | of_builders if module == "append" else commands[module]
        if all("beam-datasets " in text for text in texts):  # an option of the command that it names
            known = everywhere
        assert option in known | of_all_commands, key


# ----------------------------------------------------------------------------------------------------- rows left out


@follows("files/bad_rows.py: --skip_bad", "files/sound_folder.py:_sound --skip_bad")
def test_skip_bad(tmp_path):
    path = write(tmp_path, "in.jsonl", '{"a": 1}\nx\n{"a": 3}\n')
    assert "To count and leave out what cannot be used: --skip_bad." in refused("jsonl", path)
    found = publish("jsonl", path, "--skip_bad")
    assert [row["a"] for row in found.rows] == [1, 3]
    assert found.counted["left out"] == 1
    for name, content in {"a.wav": b"no sound", "b.wav": encoded()}.items():
        write(tmp_path / "sounds", f"label/{name}", content)
    assert "leave out what cannot be used: --skip_bad" in refused("sound_folder", tmp_path / "sounds")
    assert len(rows("sound_folder", tmp_path / "sounds", "--skip_bad")) == 1


@follows("files/infer.py:_handle_missing --skip_bad", "files/infer.py:_kind --skip_bad")
def test_rows_of_other_types_are_left_out(tmp_path, caplog):
    values = [{"a": 1, "l": [1]}] * 3 + [{"a": "x", "l": [1]}, {"a": 4, "l": None}]
    assert [row["a"] for row in rows("jsonl", jsonl(tmp_path, *values), "--skip_bad")] == [1, 1, 1]
    assert caplog.text.count("left out (--skip_bad)") == 2


@follows("files/labeled_folder.py:_labeled_files --skip_bad")
def test_files_beside_labels(tmp_path):
    for name in ("label/a.wav", "b.wav"):
        write(tmp_path, name, encoded())
    assert "leave them out by --skip_bad" in refused("sound_folder", tmp_path)
    assert len(rows("sound_folder", tmp_path, "--skip_bad")) == 1


@follows("files/convert.py:missing_problem --skip_bad", "files/fields.py:parse_field --skip_bad")
def test_missing_sounds(tmp_path):
    sound = {"bytes": encoded(), "path": "a.wav"}
    path = parquet(tmp_path, {"x": pa.array([sound, None])})
    problem = refused("parquet", path, "--feature", "x=audio")
    assert "leave out such rows by --skip_bad" in problem
    assert len(rows("parquet", path, "--feature", "x=audio", "--skip_bad")) == 1
    assert "leave out such rows by --skip_bad" in refused("parquet", path, "--feature", "x=audio?")


# ------------------------------------------------------------------------------------------------------- types


@follows("files/convert.py:missing_problem --feature")
def test_missing_values(tmp_path):
    lists = jsonl(tmp_path, {"l": [1]}, {"l": None})
    problem = refused("jsonl", lists)
    assert [row["l"] for row in rows("jsonl", lists, *advises(problem, "--feature", "l=int64[]?"))] == [[1], []]
    assert rows("jsonl", lists, *advises(problem, "--feature", "l=drop")) == [{}, {}]
    items = jsonl(tmp_path, {"l": [1, None], "x": 1})
    assert rows("jsonl", items, *advises(refused("jsonl", items), "--feature", "l=drop")) == [{"x": 1}]
    inner = jsonl(tmp_path, {"l": [{"a": 1, "b": 1}, {"a": None, "b": 2}]})
    problem = refused("jsonl", inner)
    assert rows("jsonl", inner, *advises(problem, "--feature", "l/a=drop")) == [{"l": [{"b": 1}, {"b": 2}]}]
    values = jsonl(tmp_path, {"a": 1}, {"a": None})
    problem = refused("jsonl", values, "--infer_rows=1")
    assert [row["a"] for row in rows("jsonl", values, *advises(problem, "--feature", "a=int64?"))] == [1, None]


@follows("files/fields.py:override --feature")
def test_types_of_values_in_lists_that_may_be_missing(tmp_path):
    path = jsonl(tmp_path, {"l": [{"a": 1, "b": 1}, {"a": None, "b": 2}]})
    problem = refused("jsonl", path, "--feature", "l/a=int64?")
    assert rows("jsonl", path, *advises(problem, "--feature", "l/a=drop")) == [{"l": [{"b": 1}, {"b": 2}]}]
    [row] = rows("jsonl", path, *advises(problem, "--feature", "l=string"))
    assert json.loads(row["l"]) == [{"a": 1, "b": 1}, {"a": None, "b": 2}]


def test_what_skip_bad_decides_is_not_said_of_types_that_are_given(tmp_path, caplog):
    path = jsonl(tmp_path, *[{"tags": ["a"], "n": 1}] * 3, {"tags": ["a", None], "n": 2})
    assert len(rows("jsonl", path, "--skip_bad", "--feature", "tags=string")) == 4
    assert "left out" not in caplog.text


@follows("files/convert.py:parse_exactly --feature")
def test_leading_zeros(tmp_path):
    path = write(tmp_path, "in.csv", "id\n1\n007\n")
    problem = refused("csv", path, "--infer_rows=1")
    assert "drops it" in problem  # what changes data says so
    assert [row["id"] for row in rows("csv", path, *advises(problem, "--feature", "id=int64"))] == [1, 7]
    assert [row["id"] for row in rows("csv", path, *advises(problem, "--feature", "id=string"))] == [b"1", b"007"]


@follows("files/convert.py:convert --feature")
def test_digits_that_a_type_does_not_keep(tmp_path):
    path = jsonl(tmp_path, {"x": 0.5}, {"x": 0.123456789})
    problem = refused("jsonl", path, "--infer_rows=1")
    assert [row["x"] for row in rows("jsonl", path, *advises(problem, "--feature", "x=float64"))] == [0.5, 0.123456789]
    assert "rounds what it can" in problem
    found = rows("jsonl", path, *advises(problem, "--feature", "x=float32"))
    assert [row["x"] for row in found] == [np.float32(0.5), np.float32(0.123456789)]
    big = 2**60 + 1
    path = jsonl(tmp_path, {"x": big})
    problem = refused("jsonl", path, "--feature", "x=float64")
    assert rows("jsonl", path, *advises(problem, "--feature", "x=string")) == [{"x": str(big).encode()}]
    assert "rounds it" in problem
    assert rows("jsonl", path, *advises(problem, "--feature", "x=float32")) == [{"x": np.float32(big)}]
    other = jsonl(tmp_path, {"a": 1}, {"a": 2, "b": 3})
    problem = refused("jsonl", other, "--infer_rows=1")
    assert ("--feature", "b=TYPE?") in advised(problem)
    assert [row["b"] for row in rows("jsonl", other, "--infer_rows=1", "--feature", "b=int64?")] == [None, 3]
    assert rows("jsonl", other, "--infer_rows=1", *advises(problem, "--feature", "b=drop")) == [{"a": 1}, {"a": 2}]


@follows("files/fields.py:with_absent --feature", "files/fields.py:advice --feature")
def test_columns_that_files_lack(tmp_path):
    write(tmp_path, "in/a.csv", "x,y\n1,2\n")
    write(tmp_path, "in/b.csv", "x\n3\n")
    problem = refused("csv", tmp_path / "in")
    assert [row["y"] for row in rows("csv", tmp_path / "in", *advises(problem, "--feature", "y=?"))] == [2, None]
    assert rows("csv", tmp_path / "in", *advises(problem, "--feature", "y=drop")) == [{"x": 1}, {"x": 3}]


@follows("files/infer.py:_hint --feature")
@pytest.mark.parametrize(
    "value, kind, text",
    [
        ([], "string", b"[]"),
        (None, "string?", None),
        ([[[]]], "string", b"[[[]]]"),
        (2**70, "string", str(2**70).encode()),
        (json.loads("[" * 40 + "1" + "]" * 40), "string", b"[" * 40 + b"1" + b"]" * 40),
    ],
)
def test_values_of_no_type(tmp_path, value, kind, text):
    path = jsonl(tmp_path, {"a": value, "b": 1})
    problem = refused("jsonl", path)
    assert "in.jsonl" in problem
    options_of_text = [each for each in advised(problem) if each[1].endswith(f"={kind}")]
    assert [row["a"] for row in rows("jsonl", path, *options_of_text[0])] == [text]
    assert rows("jsonl", path, "--feature", "a=drop") == [{"b": 1}]


@follows("files/infer.py:_options_for_missing --missing", "files/infer.py:_options_for_numbers --decimal")
def test_texts_among_numbers(tmp_path):
    path = write(tmp_path, "in.csv", "a\n1\n2\nn/a\n")
    problem = refused("csv", path)
    assert [row["a"] for row in rows("csv", path, *advises(problem, "--missing", "n/a"))] == [1, 2, None]
    assert [row["a"] for row in rows("csv", path, *advises(problem, "--feature", "a=string"))] == [b"1", b"2", b"n/a"]
    assert "; --skip_bad leaves out the rows with other values than int" in problem
    assert [row["a"] for row in rows("csv", path, "--skip_bad")] == [1, 2]
    decimal = write(tmp_path, "decimal.csv", "a;b\n1;x\n2;y\n3,5;z\n")
    assert "; --decimal , makes numbers of texts such as '3,5'" in refused("csv", decimal, "--delimiter=;")
    assert [row["a"] for row in rows("csv", decimal, "--delimiter=;", "--decimal=,")] == [1, 2, 3.5]


@pytest.mark.parametrize(
    "texts", [("n/a",), ("-", "A/5 21171"), ("-1-", " ", "x;y"), ("1", "2", "3", "x" * 41), ("a", "b", "c", "d")]
)
def test_the_first_advice_about_texts_among_numbers_is_enough(texts, tmp_path):
    """Followed alone, with the shell's words; texts that mean a missing value are listed if they are few, and all."""
    numbers = list(map(str, range(9)))
    path = write(tmp_path, "in.csv", "id,a\n" + "".join(f'0,"{text}"\n' for text in (*numbers, *texts)))
    problem = refused("csv", path)
    options = list(advised(problem))
    assert options[0] == ("--feature", "a=string")
    assert [row["a"].decode() for row in rows("csv", path, *options[0])] == [*numbers, *texts]
    missing = [f"{option}={value}" for option, value in options if option == "--missing"]
    assert len(missing) == (len(texts) if len(texts) < 4 else 0)
    if missing:
        assert [row["a"] for row in rows("csv", path, *missing)] == [*map(int, numbers), *[None] * len(texts)]


@pytest.mark.parametrize("values", ["1,5 2,5 n/a", "1,5 2.5", "1,5 true"])
def test_separators_are_not_proposed_where_they_leave_texts(values, tmp_path):
    path = write(tmp_path, "in.csv", "id;a\n" + "".join(f"0;{value}\n" for value in ("1 2 3 4 " + values).split()))
    assert "--decimal" not in refused("csv", path, "--delimiter=;")


@follows("files/partitions.py:add --feature")
def test_folders_with_another_value(tmp_path):
    path = write(tmp_path, "in/year=2019/a.csv", "year,x\n2020,1\n").parents[1]
    assert rows("csv", path, *advises(refused("csv", path), "--feature", "year=drop")) == [{"x": 1}]


# ---------------------------------------------------------------------------------------------- files of other formats


def content_of_png():
    stream = io.BytesIO()
    Image.new("RGB", (3, 2)).save(stream, "PNG")
    return stream.getvalue()


def content_of_parquet():
    stream = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2]}), stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    "kind, name, content",
    [
        ("csv", "a.csv", content_of_parquet()),
        ("text_lines", "a.txt", frame(serialize({"id": [1]}))),
        ("text_lines", "label/a.png", content_of_png()),
        ("text_lines", "label/a.wav", encoded()),
        ("csv", "a.csv", b'{"id": 1, "name": "x"}\n{"id": 2, "name": "y"}\n'),
        ("csv", "a.csv", b'[\n {"id": 1},\n {"id": 2}\n]\n'),
        ("jsonl", "a.jsonl", b"id,name\n1,x\n2,y\n"),
        ("jsonl", "a.jsonl", b"id;name\n1;x\n2;y\n"),
        ("parquet", "a.parquet", b"id\tname\n1\tx\n2\ty\n"),
        ("parquet", "a.parquet", b'{"id": 1}\n'),
        ("tfrecord", "a.tfrecord", b"id|name\n1|x\n2|y\n"),
        ("tfrecord", "a.tfrecord", b'[{"id": 1}]'),
    ],
    ids=range(12),
)
@follows(
    "files/csv.py:_check_is_header beam-datasets build jsonl`{}",
    "intake/signatures.py: beam-datasets build image_folder`",
    "intake/signatures.py: beam-datasets build sound_folder`",
    "intake/signatures.py: beam-datasets build parquet`",
    "intake/contents.py:_content_of beam-datasets build tfrecord`",
    "intake/contents.py:text_format --delimiter",
    "intake/contents.py:text_format beam-datasets build csv{}`",
    "intake/contents.py:text_format beam-datasets build jsonl`",
)
def test_a_file_of_another_format(kind, name, content, tmp_path):
    path = write(tmp_path, name, content)
    [command] = re.findall(r"`beam-datasets build (.*?)`", refused(kind, path))
    other_kind, *given = shlex.split(command)
    found = rows(other_kind, tmp_path if other_kind.endswith("_folder") else path, *given)
    assert other_kind != kind
    assert other_kind.endswith("_folder") or found[0]["id"] == 1


def test_advice_for_names_with_brackets(tmp_path):
    """The bracket was cut off the name."""
    path = write(tmp_path, "in.csv", "t [C],x[0]\n1,a\n2,b\n?,c\n")
    given = advises(refused("csv", path), "--feature", "t [C]=string")
    assert [row["t [C]"] for row in rows("csv", path, *given)] == [b"1", b"2", b"?"]


@follows("files/fields.py:check_spec --feature", "files/fields.py:feature_option --feature")
def test_advice_for_names_with_an_equals_sign(tmp_path):
    """The option ended such a name at the first one, so that no column had a type of the user's."""
    path = write(tmp_path, "in.csv", 'city=Bonn,city=Paris,"a ""b""=c"\n1,1,1\n2,0,2\n?,1,?\n3,0,3\n')
    problem = refused("csv", path)
    given = advises(problem, "--feature", '"city=Bonn"=string', "--feature", '"a ""b""=c"=drop')
    found = rows("csv", path, *given, "--feature", '"city=Paris"=bool')
    assert found[:2] == [{"city=Bonn": b"1", "city=Paris": True}, {"city=Bonn": b"2", "city=Paris": False}]
    problem = refused("csv", path, "--feature", "city=Bonn=string", *given[2:])
    assert "'Bonn=string' is not a type" in problem
    assert "'Did you mean=string' is not a type" in refused("csv", path, "--feature", "city=Did you mean=string")
    assert len(rows("csv", path, *advises(problem, "--feature", '"city=Bonn"=string'), *given[2:])) == 4


def test_advice_for_names_in_quotes(tmp_path):
    """The option took the quotes off the name, so that it named another column."""
    path = write(tmp_path, "in.csv", '"""id""",x\n1,1\n2,2\n?,3\n')
    given = advises(refused("csv", path), "--feature", '"""id"""=string')
    assert rows("csv", path, *given)[2] == {'"id"': b"?", "x": 3}


def test_advice_for_nested_names_beside_names_with_dots(tmp_path):
    """It has slashes, since a dot may belong to a name; options take dots, too, where they name no other column.

    `o.k.z` was taken for a field of a field `k`, which no row has.
    """
    values = [{"o": {"x": "p", "k.z": "u"}, "o.x": "a"}, {"o": {"x": "q", "k.z": "v"}, "o.x": "b"}]
    late = jsonl(tmp_path, *values, {"o": {"x": "q"}, "o.x": "b"})
    given = advises(refused("jsonl", late, "--infer_rows", "2"), "--feature", "o/k.z=string?")
    assert [row["o"]["k.z"] for row in rows("jsonl", late, "--infer_rows", "2", *given)] == [b"u", b"v", None]
    path = jsonl(tmp_path, *values)
    columns = {"o/x": {"p", "q"}, "o.x": {"a", "b"}, "o/k.z": {"u", "v"}, "o.k.z": {"u", "v"}}
    for name, splits in columns.items():
        assert make_builder("jsonl", path, "--split_by", f"column={name}").split_generators(None).keys() == splits
        assert len(rows("jsonl", path, "--key", name, "--stratify", name, "--split", "train=100%")) == 2
        [row, _] = rows("jsonl", path, "--feature", f"{name}=drop")
        kept = {*row, *(f"o/{inner}" for inner in row["o"])} - {"o"}
        assert kept == {"o.x", "o/x", "o/k.z"} - {name, name.replace("o.k", "o/k")}


def test_a_name_with_dots_that_has_two_meanings(tmp_path):
    """A dot that may be a separator is one, in any order of the keys; the order decided."""
    parts = [{"k": {"z": name}, "k.z": other, "k.w": name + other} for name, other in ("ap", "bq")]
    for keys in itertools.permutations(parts[0]):
        path = jsonl(tmp_path, *({"o": {key: each[key] for key in keys}} for each in parts))
        for name, splits in {"o.k.z": {"a", "b"}, "o/k.z": {"p", "q"}, "o.k.w": {"ap", "bq"}}.items():
            assert make_builder("jsonl", path, "--split_by", f"column={name}").split_generators(None).keys() == splits
    columns = {"o.k": {"z": "a"}, "o": {"k.z": "p"}}
    for keys in itertools.permutations(columns):
        path = jsonl(tmp_path, {key: columns[key] for key in keys})
        assert make_builder("jsonl", path, "--split_by", "column=o.k.z").split_generators(None).keys() == {"p"}


@follows("files/table_formats.py:_error --split")
def test_files_of_a_table(files):
    files.write("_delta_log/0.json", "{}")
    paths = [files.folder / f"{name}.parquet" for name in "abc"]
    for path in paths:
        pq.write_table(pa.table({"x": [path.stem]}), path)
    assert ("--split", "train=FILE") in advised(refused("parquet", files.folder))
    examples = files.read("parquet", f"--split=train={paths[0]}", f"--split=train={paths[2]}")
    assert sorted(example["x"] for example in examples) == [b"a", b"c"]
