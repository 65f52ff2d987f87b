"""Every option and command that an error proposes exists, and a test follows it: the next run works.

The advice is collected from the source. A new one needs a test with `follows`, or an entry of `FOLLOWED_ELSEWHERE`.
Its name is where it is in the source: `files/csv.py:check_names --columns`.
"""

import ast
import io
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from beam_datasets.cli import main, options
from beam_datasets.cli.main import COMMANDS
from beam_datasets.errors import BeamDatasetsError
from beam_datasets.formats.example import serialize
from beam_datasets.formats.tfrecord import frame
from tests.files.in_process import advised, make_builder, option_names, publish
from tests.parquet_files import encrypted
from tests.sounds import encoded

PACKAGE = Path(main.__code__.co_filename).parents[1]
KINDS = ("csv", "jsonl", "parquet", "text_lines", "tfrecord", "image_folder", "sound_folder")
COMMAND = re.compile(r"\b(?:iconv|jq|pip|beam-datasets|heif-convert|ffmpeg|mogrify|magick) [\w'{-][^\s,;()]*(?: \S+)?")
OPTION = re.compile(r"(?<![\w-])--[a-z]\w*")
FOLLOWED: dict[str, str] = {}
"""Advice -> the test that follows it."""

_APPENDED, _LOOKING = "tests/files/test_appending_files.py", "tests/cli/test_looking.py"
_FILES = "tests/files/test_file_builders.py"
_APPEND, _TRIAL, _VERIFY = "tests/cli/test_append.py", "tests/cli/test_trial.py", "tests/cli/test_verify.py"
FOLLOWED_ELSEWHERE = {
    "cli/adopt.py:_splits --split": f"{_APPEND}::test_directory_of_its_own",
    "cli/adopt.py:run --split": f"{_APPEND}::test_directory_of_its_own",
    "cli/append.py:run --delete": f"{_APPEND}::test_errors",
    "cli/append.py:run --from": f"{_APPEND}::test_errors",
    "cli/append.py:_is_published --from": f"{_APPEND}::test_errors",
    "cli/append.py:_create_builder --splits": f"{_APPEND}::test_errors",
    "cli/build.py:_confirm_overwrite --yes": f"{_TRIAL}::test_overwrite_asks_on_a_terminal",
    "cli/head.py:_format_reads --json": f"{_LOOKING}::test_of_many_shards_the_first_are_shown",
    "cli/history.py:run_prune --yes": "tests/materializing/test_history.py::test_the_commands",
    "cli/history.py:run_gc --yes": "tests/generate/test_leftovers.py",
    "cli/info.py:run_list --data_dir": f"{_LOOKING}::test_list_of_an_empty_directory",
    "cli/main.py:_describe_error --debug": "tests/cli/test_main.py::test_debug_raises",
    "cli/materialize.py:_parse_source --source": "tests/cli/test_materialize.py",
    "cli/options.py:_option_of --from": "tests/cli/test_foreign_commands.py",
    "cli/options.py:_option_of --pattern": "tests/cli/test_foreign_commands.py",
    "cli/options.py:error --format": "tests/cli/test_foreign_commands.py",
    "cli/options.py:check_beam_options --resume": "tests/cli/test_materialize.py",
    "cli/options.py:num_shards --num_shards": "tests/cli/test_options.py::test_no_numbers_of_shards",
    "cli/resolve.py:_build_by --name": "tests/cli/test_resolve.py",
    "cli/resolve.py:builder_file --name": f"{_TRIAL}::test_a_folder_of_images_is_built_as_the_error_says",
    "cli/resolve.py:builder_file --root": f"{_TRIAL}::test_a_folder_of_images_is_built_as_the_error_says",
    "cli/resolve.py:_build_by beam-datasets build {}": f"{_TRIAL}",
    "files/csv.py:_text_warnings --feature": "tests/files/test_text_notes.py",
    "files/infer.py:_field --skip_bad": "tests/files/test_infer.py",
    "files/labeled_folder.py:find_labeled_files --feature": "tests/files/test_text_notes.py",
    "files/text_notes.py:note_on_types --feature": "tests/files/test_text_notes.py",
    "cli/resolve.py:format_of --pattern": "tests/cli/test_resolve.py",
    "cli/stats.py:_save --no_save": "tests/cli/test_stats.py::test_a_place_that_cannot_be_written",
    "cli/stats.py:lines --imports": f"{_LOOKING}::test_imports_registers_what_a_dataset_needs",
    "cli/verify.py:_check_options --beam": f"{_VERIFY}::test_wrong_usage",
    # options that were given, which are named
    "cli/append.py:_create_builder --split": f"{_APPEND}::test_errors",
    "cli/append.py:run --dry_run": f"{_APPEND}",
    "cli/build.py:_try_build --trial": f"{_TRIAL}",
    "cli/build.py:run --overwrite": f"{_TRIAL}",
    "cli/materialize.py:run_export --dry_run": "tests/cli/test_stats.py::test_dry_run_writes_nothing",
    "cli/materialize.py:run_materialize --dry_run": "tests/cli/test_materialize.py",
    "cli/verify.py:repair_lines --dry_run": f"{_VERIFY}",
    "files/builder.py:_check_names_that_no_row_has --feature": f"{_FILES}::test_a_feature_whose_name_is_mistyped",
    "files/builder.py:_row_options --key": _APPENDED,
    "files/builder.py:as_options --split_by": _APPENDED,
    "files/builder.py:as_options --splits": _APPENDED,
    "files/builder.py:as_options --stratify": _APPENDED,
    "files/builder.py:as_options --train_until": _APPENDED,
    "intake/video.py: ffmpeg -i FILE": "tests/features/test_media.py::test_videos_that_are_cut_off",
    # the name of the command itself
    "cli/options.py:__init__ beam-datasets {}": "tests/cli/test_options.py::test_a_command_is_written_as_its_help",
    "cli/options.py:__init__ beam-datasets {} {}": "tests/cli/test_options.py::test_a_command_is_written_as_its_help",
    "cli/site.py:_sample beam-datasets site": "tests/cli/test_site.py",
    "cli/site.py:run beam-datasets site": "tests/cli/test_site.py",
}


def follows(*keys):
    """Registers a test as one that follows advice."""

    def register(test):
        FOLLOWED.update(dict.fromkeys(keys, test.__name__))
        return test

    return register


# ----------------------------------------------------------------------------------------------------------- collecting


def text_of(node):
    """Returns a string of the source, with {} for what is put in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(each.value if isinstance(each, ast.Constant) else "{}" for each in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def strings_of(node, function="") -> Iterator[tuple[str, str]]:
    """Yields (function, string) of the strings in a part of the source, without docstrings and tests of values."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        function = node.name if isinstance(node, ast.FunctionDef) else function
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant | ast.JoinedStr):
        return
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "advice":
        yield function, "--feature"
    if text := text_of(node):
        yield function, text
    for child in ast.iter_child_nodes(node):
        if not (isinstance(node, ast.JoinedStr) and isinstance(child, ast.Constant)):
            yield from strings_of(child, function)


def problems_of(tree) -> Iterator[tuple[str, str]]:
    """Yields (function, string) of what a command says; not of the help of options, and not the options themselves."""
    for function, text in strings_of(tree):
        if function and not OPTION.fullmatch(text):
            yield function, text


@cache
def collected():
    """Returns {advice: the strings that have it}."""
    found: dict[str, set[str]] = {}
    for folder in ("files", "intake", "cli"):
        for path in sorted((PACKAGE / folder).glob("*.py")):
            tree = ast.parse(path.read_text())
            for function, text in problems_of(tree) if folder == "cli" else strings_of(tree):
                is_given = folder == "cli"  # `--count is -1`: what a string begins with names what was given
                items = [each[0] for each in OPTION.finditer(text) if each.start() or not is_given]
                for item in [*items, *(each[0] for each in COMMAND.finditer(text))]:
                    found.setdefault(f"{folder}/{path.name}:{function} {item}", set()).add(text)
    return found


def test_all_advice_is_followed_by_a_test():
    known = FOLLOWED.keys() | FOLLOWED_ELSEWHERE.keys()
    missing = {key: sorted(texts) for key, texts in collected().items() if key not in known}
    assert missing == {}, "write a test that follows it, with @follows(...)"
    assert known - collected().keys() == set(), "nothing proposes this any more"


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
    of_all_commands = {"--debug", "--imports"}
    everywhere = of_all_commands.union(of_builders, *commands.values())
    for key in collected():
        place, _, option = key.partition(" ")
        module = place.partition(":")[0].partition("/")[2].removesuffix(".py")
        if not option.startswith("--"):
            continue
        known = of_kind.get(module, of_builders) if place.startswith(("files/", "intake/")) else everywhere
        if place.startswith("cli/") and module in commands and module != "build":
            known = commands[module] | of_builders if module == "append" else commands[module]
        assert option in known | of_all_commands, key


# ------------------------------------------------------------------------------------------------------------- helpers


def refused(kind, path, *given):
    """Returns the error of a build."""
    with pytest.raises((BeamDatasetsError, ValueError)) as caught:
        publish(kind, path, *given)
    return str(caught.value)


def rows(kind, path, *given):
    return publish(kind, path, *given).rows


def advises(problem, *given):
    """Checks that an error proposes options, and returns them."""
    pairs = list(zip(given[::2], given[1::2]))
    assert set(pairs) <= set(advised(problem)), problem
    return given


def write(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def jsonl(folder, *values):
    return write(folder, "in.jsonl", "".join(f"{json.dumps(value)}\n" for value in values))


def parquet(folder, columns, name="in.parquet"):
    pq.write_table(pa.table(columns), folder / name)
    return folder / name


# ----------------------------------------------------------------------------------------------------- rows left out


@follows("files/builder.py: --skip_bad", "files/sound_folder.py:_sound --skip_bad")
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


@follows("files/infer.py:_without_missing --skip_bad", "files/infer.py:_kind --skip_bad")
def test_rows_of_other_types_are_left_out(tmp_path, caplog):
    values = [{"a": 1, "l": [1]}] * 3 + [{"a": "x", "l": [1]}, {"a": 4, "l": None}]
    assert [row["a"] for row in rows("jsonl", jsonl(tmp_path, *values), "--skip_bad")] == [1, 1, 1]
    assert caplog.text.count("left out (--skip_bad)") == 2


@follows("files/labeled_folder.py:_folder --skip_bad")
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


@follows(
    "files/infer.py:stray_texts --missing",
    "files/infer.py:stray_texts --skip_bad",
    "files/infer.py:stray_texts --feature",
)
def test_texts_among_numbers(tmp_path, caplog):
    path = write(tmp_path, "in.csv", "a\n1\n2\nn/a\n")
    assert [row["a"] for row in rows("csv", path)] == [b"1", b"2", b"n/a"]
    warned = caplog.text
    assert [row["a"] for row in rows("csv", path, *advises(warned, "--missing", "n/a"))] == [1, 2, None]
    caplog.clear()
    assert [row["a"] for row in rows("csv", path, *advises(warned, "--feature", "a=string"))] == [b"1", b"2", b"n/a"]
    assert not caplog.text
    assert [row["a"] for row in rows("csv", path, "--feature=a=int64", "--skip_bad")] == [1, 2]


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
        ("csv", "a.csv", b'{"id": 1, "name": "x"}\n{"id": 2, "name": "y"}\n'),
        ("csv", "a.csv", b'[\n {"id": 1},\n {"id": 2}\n]\n'),
        ("jsonl", "a.jsonl", b"id,name\n1,x\n2,y\n"),
        ("jsonl", "a.jsonl", b"id;name\n1;x\n2;y\n"),
        ("parquet", "a.parquet", b"id\tname\n1\tx\n2\ty\n"),
        ("parquet", "a.parquet", b'{"id": 1}\n'),
        ("tfrecord", "a.tfrecord", b"id|name\n1|x\n2|y\n"),
        ("tfrecord", "a.tfrecord", b'[{"id": 1}]'),
    ],
    ids=range(11),
)
@follows(
    "files/csv.py:_check_is_header beam-datasets build jsonl`;",
    "intake/contents.py: beam-datasets build image_folder`",
    "intake/contents.py: beam-datasets build parquet`",
    "intake/contents.py:other_content beam-datasets build tfrecord`",
    "intake/contents.py:text_format --delimiter",
    "intake/contents.py:text_format beam-datasets build csv{}`",
    "intake/contents.py:text_format beam-datasets build jsonl`",
)
def test_a_file_of_another_format(kind, name, content, tmp_path):
    path = write(tmp_path, name, content)
    [command] = re.findall(r"`beam-datasets build (.*?)`", refused(kind, path))
    other_kind, *given = shlex.split(command)
    found = rows(other_kind, tmp_path if other_kind == "image_folder" else path, *given)
    assert other_kind != kind
    assert other_kind == "image_folder" or found[0]["id"] == 1


# ------------------------------------------------------------------------------------------------------ CSV and text


@follows("files/csv.py:_headers --columns")
@pytest.mark.parametrize("text", ["5.1,3.5,setosa\n4.9,3.0,setosa\n", "1,7\n2,8\n", "-.5e3,x\n1,y\n"])
def test_a_header_that_is_a_row(text, tmp_path, caplog):
    path = write(tmp_path, "a.csv", text)
    lost = rows("csv", path)
    found = rows("csv", path, *re.findall(r"(--columns) (\S+)", caplog.text)[0])
    assert (len(lost), len(found)) == (1, 2)


@pytest.mark.parametrize("header", ["0,1,2", "1,2,3", "a,1,2", "v1.0,v1.1,x"])
def test_headers_with_numbers(header, tmp_path, caplog):
    write(tmp_path, "a.csv", f"{header}\n4,5,6\n")
    assert len(rows("csv", tmp_path)) == 1
    assert "--columns" not in caplog.text


@follows(
    "files/csv.py:_check_is_header --comment",
    "files/csv.py:_check_is_header --feature",
    "files/csv.py:rows --comment",
    "files/csv.py:_text_warnings --decimal",
    "files/numerals.py:options_for --decimal",
    "files/numerals.py:options_for --thousands",
)
def test_comments_and_decimals(tmp_path, caplog):
    path = write(tmp_path, "a.csv", "# exported, 2024\na,b\n1,x\n")
    problem = refused("csv", path)
    assert "a.csv: expected a header, got '# exported'" in problem
    assert rows("csv", path, *advises(problem, "--comment", "#")) == [{"a": 1, "b": b"x"}]
    path = write(tmp_path, "b.csv", "#id,b\n1,x\n")
    assert rows("csv", path, *advises(refused("csv", path), "--feature", "#id=string")) == [{"#id": b"1", "b": b"x"}]
    path = write(tmp_path, "c.csv", "plz;price\n01234;1,5\n12345;2,5\n12346;3,5\n# middle\n")
    comment = advises(refused("csv", path, "--delimiter", ";"), "--comment", "#")
    assert rows("csv", path, "--delimiter", ";", *comment)[0] == {"plz": b"01234", "price": b"1,5"}
    assert "column 'plz'" not in caplog.text
    assert "column 'price' is text, such as '1,5'; --decimal , makes numbers of it" in caplog.text
    assert rows("csv", path, "--delimiter", ";", *comment, "--decimal", ",")[0] == {"plz": b"01234", "price": 1.5}
    path = write(tmp_path, "d.csv", "sep=;\nname;price\na;1.234,50\nb;1,25\nc;1.234\n")
    assert rows("csv", path)[0] == {"name": b"a", "price": b"1.234,50"}
    assert "column 'price' is text, such as '1.234,50'; --decimal , --thousands . makes numbers of it" in caplog.text
    numbers = rows("csv", path, "--decimal", ",", "--thousands", ".")
    assert [row["price"] for row in numbers] == [1234.5, 1.25, 1234]
    caplog.clear()
    path = write(tmp_path, "e.csv", "name;price\na;1,5\nb;1,25\nc;1.234,50\n")
    assert rows("csv", path, "--delimiter", ";", "--decimal", ",")[0]["price"] == b"1,5"
    assert "'1.234,50'; --thousands . makes numbers of it" in caplog.text
    refusal = refused("csv", path, "--delimiter", ";", "--decimal", ",", "--feature", "price=float64")
    assert "line 4: column 'price': '1.234,50' is not a number" in refusal


@follows("files/csv.py:_infer_fields --delimiter", "files/csv.py:_infer_fields --feature")
def test_another_delimiter(tmp_path):
    path = write(tmp_path, "in.csv", "a;b\n1;2\n")
    problem = refused("csv", path)
    assert rows("csv", path, *advises(problem, "--delimiter", ";")) == [{"a": 1, "b": 2}]
    assert rows("csv", path, *advises(problem, "--feature", "a;b=string")) == [{"a;b": b"1;2"}]
    tabs = write(tmp_path, "tabs.csv", "a\tb\n1\t2\n")
    [given] = re.findall(r"--delimiter '.*?'", refused("csv", tabs))
    assert rows("csv", tabs, *shlex.split(given)) == [{"a": 1, "b": 2}]


@follows(
    "files/csv.py:check_names --columns",
    "files/csv.py:check_names --skip_header",
    "files/csv.py:__post_init__ --columns",
)
def test_names_of_columns(tmp_path):
    path = write(tmp_path, "in.csv", "a,a\n1,2\n")
    assert "--columns a,b,c --skip_header" in refused("csv", path)
    assert rows("csv", path, "--columns", "a,b", "--skip_header") == [{"a": 1, "b": 2}]
    assert "(--columns a,b,c)" in refused("csv", path, "--skip_header")


@follows("files/csv.py:_csv_problem --quote", "files/csv.py:_csv_problem --encoding")
def test_quotes(tmp_path):
    path = write(tmp_path, "in.csv", 'a,b\n1,5" tape\n2,"x\n')
    assert "--quote ''" in refused("csv", path)
    assert [row["b"] for row in rows("csv", path, "--quote", "")] == [b'5" tape', b'"x']


@follows("files/inputs.py:undecodable --encoding", "files/inputs.py:undecodable iconv -f utf-16")
def test_encodings(tmp_path):
    for encoding in ("cp1252", "latin-1", "utf-16"):
        path = write(tmp_path, f"{encoding}.csv", "a,b\n1,é\n".encode(encoding))
        problem = refused("csv", path)
        assert encoding in problem
        assert rows("csv", path, "--encoding", encoding) == [{"a": 1, "b": "é".encode()}]
    text = write(tmp_path, "in.txt", "é\nè\n".encode("utf-16"))
    [command] = re.findall(r"iconv -f utf-16 -t utf-8", refused("text_lines", text))
    assert rows("text_lines", converted(command, text)) == [{"text": "é".encode()}, {"text": "è".encode()}]


def converted(command, path):
    """Returns the file that a command of another program makes of one."""
    if shutil.which(command.split()[0]) is None:
        pytest.skip(f"{command.split()[0]} is not installed")
    made = path.with_name(f"made_{path.name}")
    made.write_bytes(subprocess.run([*shlex.split(command), path], check=True, capture_output=True).stdout)
    return made


@follows("files/inputs.py:check_encoding iconv -f {}")
def test_encodings_that_cannot_be_cut(tmp_path):
    path = write(tmp_path, "in.txt", "é\n".encode("utf-32"))
    [command] = re.findall(r"iconv -f \S+ -t utf-8", refused("text_lines", path, "--encoding", "utf-32"))
    assert rows("text_lines", converted(command, path)) == [{"text": "é".encode()}]


# ---------------------------------------------------------------------------------------------------------------- JSON


@follows("files/jsonl.py:_parse_line jq -c .", "files/jsonl.py:checked_object jq -c '.[]'")
def test_json_of_other_layouts(tmp_path):
    path = write(tmp_path, "in.jsonl", '{"a":\n  1}\n{"a":\n  2}\n')
    assert "(jq -c . writes an object of several lines in one)" in refused("jsonl", path)
    assert [row["a"] for row in rows("jsonl", converted("jq -c .", path))] == [1, 2]
    path = write(tmp_path, "in.jsonl", '{"a": 0}\n[{"a": 1}, {"a": 2}]\n')
    assert "(jq -c '.[]' makes lines of an array)" in refused("jsonl", path)
    array = write(tmp_path, "array.jsonl", '[{"a": 1}, {"a": 2}]\n')
    assert [row["a"] for row in rows("jsonl", converted("jq -c .[]", array))] == [1, 2]


# --------------------------------------------------------------------------------------------------- Parquet, TFRecord


@follows("files/merged_fields.py:_conflict --feature")
def test_files_of_two_types(tmp_path):
    (tmp_path / "in").mkdir()
    parquet(tmp_path / "in", {"x": [1], "y": [1]}, "a.parquet")
    parquet(tmp_path / "in", {"x": ["2"], "y": [2]}, "b.parquet")
    problem = refused("parquet", tmp_path / "in")
    assert [r["x"] for r in rows("parquet", tmp_path / "in", *advises(problem, "--feature", "x=string"))] == [
        b"1",
        b"2",
    ]
    assert rows("parquet", tmp_path / "in", *advises(problem, "--feature", "x=drop")) == [{"y": 1}, {"y": 2}]


@follows("files/arrow_types.py:_unknown --feature", "files/arrow_types.py:_struct --feature")
def test_types_that_no_feature_stores(tmp_path):
    path = parquet(tmp_path, {"n": pa.nulls(1), "x": [1]})
    problem = refused("parquet", path)
    assert rows("parquet", path, *advises(problem, "--feature", "n=string?")) == [{"n": None, "x": 1}]
    assert rows("parquet", path, *advises(problem, "--feature", "n=drop")) == [{"x": 1}]
    twice = pa.StructArray.from_arrays([pa.array([1])] * 2, ["a", "a"])
    path = parquet(tmp_path, {"s": twice, "x": [1]})
    assert rows("parquet", path, *advises(refused("parquet", path), "--feature", "s=drop")) == [{"x": 1}]


@follows("files/arrow_types.py:field --feature")
def test_a_column_that_is_nested_too_deeply(tmp_path):
    column = pa.array([1])
    for _ in range(40):
        column = pa.ListArray.from_arrays([0, 1], column)
    path = parquet(tmp_path, {"l": column, "x": [1]})
    problem = refused("parquet", path)
    [row] = rows("parquet", path, *advises(problem, "--feature", "l=string?"))
    assert json.loads(row["l"]) == column[0].as_py()
    assert rows("parquet", path, *advises(problem, "--feature", "l=drop")) == [{"x": 1}]


@follows("files/arrow_values.py:way_of_times --feature")
def test_times_that_python_does_not_have(tmp_path):
    path = parquet(tmp_path, {"l": pa.array([[10**12]], pa.list_(pa.timestamp("s")))})
    option, value = advises(refused("parquet", path), "--feature", "l=string[]")
    assert rows("parquet", path, option, value)[0]["l"] == [b"+33658-09-27T01:46:40"]


@follows("files/fields.py:_lost_lengths --feature", "files/fields.py:problems --feature")
def test_what_would_be_lost(tmp_path):
    path = jsonl(tmp_path, {"l": [{}, {}], "x": 1})
    problem = refused("jsonl", path)
    assert rows("jsonl", path, *advises(problem, "--feature", "l=string?")) == [{"l": b"[{}, {}]", "x": 1}]
    assert rows("jsonl", path, *advises(problem, "--feature", "l=drop")) == [{"x": 1}]
    path = jsonl(tmp_path, {"a/b": 1, "a": {"b": 2}})
    assert rows("jsonl", path, *advises(refused("jsonl", path), "--feature", "a/b=drop")) == [{"a": {"b": 2}}]


@follows("files/parquet.py:_fields_of --feature")
def test_encrypted_columns(tmp_path):
    path = tmp_path / "in.parquet"
    path.write_bytes(encrypted(pa.table({"x": [1], "y": [2]}), column_keys={"k": ["y"]}, plaintext_footer=True))
    assert rows("parquet", path, *advises(refused("parquet", path), "--feature", "y=drop")) == [{"x": 1}]


@follows("files/tfrecord.py:field --feature", "files/tfrecord.py:__init__ --feature")
def test_features_of_records(tmp_path):
    lists = [{"a": [1], "e": [], "x": [2]}, {"a": [b"x"], "e": [], "x": [3]}]
    path = write(tmp_path, "in.tfrecord", b"".join(map(frame, map(serialize, lists))))
    problem = refused("tfrecord", path)
    given = advises(problem, "--feature", "a=drop", "--feature", "e=int64[]")
    assert rows("tfrecord", path, *given) == [{"e": [], "x": 2}, {"e": [], "x": 3}]
    assert "give no --feature" in refused("tfrecord", path, "--features_json=f.json", "--feature=a=drop")


@follows("files/tfrecord.py: --pattern", "files/tfrecord.py: --split")
def test_records_without_features(tmp_path):
    write(tmp_path, "in/a.tfrecord", frame(serialize({"x": [2]})))
    write(tmp_path, "in/b.tfrecord", frame(b""))
    assert "Leave the file out of --pattern or --split" in refused("tfrecord", tmp_path / "in")
    assert rows("tfrecord", tmp_path / "in/a*") == [{"x": 2}]
    assert rows("tfrecord", "", f"--split=train={tmp_path}/in/a*") == [{"x": 2}]


# ------------------------------------------------------------------------------------------------------ images, sounds


@follows("files/images.py:_refuse_orientation --exif_orientation", "files/images.py: --exif_orientation")
def test_orientation(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    write(tmp_path, "label/a.jpg", image_file("RGB", "JPEG", exif=exif))
    problem = refused("image_folder", tmp_path, "--exif_orientation=error")
    [row] = rows("image_folder", tmp_path, *advises(problem, "--exif_orientation", "apply"))
    assert row["image"].shape == (4, 2, 3)
    found = publish("image_folder", tmp_path)
    assert found.rows[0]["image"].shape == (2, 4, 3)
    assert any("(--exif_orientation apply)" in what for what in found.counted)


def image_file(mode, kind="PNG", **more):
    file = io.BytesIO()
    Image.new(mode, (4, 2)).save(file, kind, **more)
    return file.getvalue()


@follows("files/images.py:_check_image --frames", "files/images.py: --frames")
def test_frames(tmp_path):
    frames = [Image.new("L", (4, 2), color) for color in (0, 255)]
    write(tmp_path, "label/a.gif", image_file("L", "GIF", save_all=True, append_images=frames))
    problem = refused("image_folder", tmp_path)
    assert "keeps" in problem  # what is lost is said
    found = publish("image_folder", tmp_path, *advises(problem, "--frames", "first"))
    assert found.rows[0]["image"].shape == (2, 4, 3)
    assert any("(--frames first)" in what for what in found.counted)


@follows(
    "files/images.py:_options_for --image_dtype",
    "files/images.py:_options_for --channels",
    "files/images.py:_options_for --feature",
)
def test_depth(tmp_path):
    write(tmp_path, "label/a.png", image_file("I;16"))
    problem = refused("image_folder", tmp_path)
    given = advises(problem, "--image_dtype", "uint16", "--channels", "1")
    [row] = rows("image_folder", tmp_path, *given)
    assert (row["image"].dtype, row["image"].shape) == (np.uint16, (2, 4, 1))
    path = parquet(tmp_path, {"x": [image_file("I;16")]})
    problem = refused("parquet", path, "--feature=x=image")
    [(option, value)] = [each for each in advised(problem) if each[0] == "--feature"]
    assert rows("parquet", path, option, value)[0]["x"].dtype == np.uint16


@follows("intake/sound_layout.py: ffmpeg -i FILE")
def test_sounds_of_other_formats(tmp_path):
    path = write(tmp_path, "in/label/a.wav", encoded(subtype="IMA_ADPCM"))
    [command] = re.findall(r"`(ffmpeg .*?)`", refused("sound_folder", tmp_path / "in"))
    ffmpeg = shutil.which("ffmpeg") or pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()
    write(tmp_path, "made/label/none", b"").unlink()
    names = {"ffmpeg": ffmpeg, "FILE": str(path), "new.flac": "made/label/new.flac"}
    words = [names.get(word, word) for word in command.split()]
    subprocess.run(words, check=True, cwd=tmp_path, capture_output=True)
    assert len(rows("sound_folder", tmp_path / "made")) == 1


@follows(
    "files/sound_folder.py:_command_options --sample_rate",
    "files/sound_folder.py:_command_options --dtype",
    "files/sounds.py:sound_of --feature",
)
def test_sounds_that_differ(tmp_path):
    write(tmp_path, "label/a.wav", encoded(rate=8000))
    write(tmp_path, "label/b.wav", encoded(rate=16000))
    problem = refused("sound_folder", tmp_path)
    assert len(rows("sound_folder", tmp_path, *advises(problem, "--sample_rate", "any"))) == 2
    write(tmp_path, "label/b.wav", encoded(rate=8000, subtype="PCM_24"))
    problem = refused("sound_folder", tmp_path)
    assert len(rows("sound_folder", tmp_path, *advises(problem, "--sample_rate", "8000", "--dtype", "int32"))) == 2
    files = [{"bytes": encoded(rate=rate), "path": "a.wav"} for rate in (8000, 16000)]
    path = parquet(tmp_path, {"x": files})
    problem = refused("parquet", path, "--feature=x=audio")
    [(option, value)] = [each for each in advised(problem) if each[0] == "--feature"]
    assert len(rows("parquet", path, option, value)) == 2


# -------------------------------------------------------------------------------------------------------------- splits


@pytest.fixture
def table(tmp_path):
    lines = [f"{i},u{i % 7},2025-{i % 12 + 1:02d}-01,{'ab'[i % 2]}" for i in range(40)]
    return write(tmp_path, "in.csv", "\n".join(["id,user,day,part", *lines, "40,,2026-05-01,a", ""]))


def splits(path, *given):
    """Returns how many rows each split has."""
    builder = make_builder("csv", path, *given)
    counts: dict[str, int] = {}
    for name, source in builder.split_generators(None).items():
        items = [item for unit in source.units for item in source.read(unit)]
        counts[name] = sum(len(item) == 2 or item[2] == name for item in items)
    return counts


@follows("files/builder.py:__call__ --split_by", "files/builder.py:__call__ --skip_bad")
def test_rows_without_a_value_to_split_by(table):
    by = ("--split_by=group=user", "--split=train=50%", "--split=test=50%")
    with pytest.raises(BeamDatasetsError, match="--split_by missing=SPLIT, or leave them out by --skip_bad") as caught:
        splits(table, *by)
    assert "in.csv" in str(caught.value)
    assert sum(splits(table, *by, "--split_by=missing=test").values()) == 41
    assert sum(splits(table, *by, "--skip_bad").values()) in (40, 41)


@follows("files/builder.py:assignment --split_by", "files/builder.py:assignment --stratify")
def test_one_way_to_split(table):
    shares = ("--split=train=50%", "--split=test=50%")
    problem = refused("csv", table, "--split_by=group=user", "--stratify=part", *shares)
    assert "--split_by group=COLUMN, time=COLUMN, column=COLUMN, and --stratify COLUMN" in problem
    assert "expected none with --stratify" in refused(
        "csv", table, "--split_by=missing=test", "--stratify=part", *shares
    )
    assert sum(splits(table, "--stratify=part", *shares).values()) == 41
    assert set(splits(table, "--split_by=column=part")) == {"a", "b"}


@follows(
    "files/builder.py:_make_assignment --split",
    "files/builder.py:assignment --split",
    "files/builder.py:_assign --split",
)
def test_values_of_splits(table):
    problem = refused("csv", table, "--split_by=time=day")
    assert splits(
        table, "--split_by=time=day", *advises(problem, "--split", "train=..2026-01-01", "--split", "test=2026-01-01..")
    ) == {
        "train": 40,
        "test": 1,
    }
    problem = refused("csv", table, "--split=train=somewhere")
    assert sum(splits(table, *advises(problem, "--split", "train=80%", "--split", "test=20%")).values()) == 41
    problem = refused("csv", table, "--train_until=2026-01-01")
    assert "--split_by time=COLUMN and no --split" in problem
    assert splits(table, "--train_until=2026-01-01", "--split_by=time=day") == {"train": 40, "test": 1}
    write(table.parent, "many.csv", "id,part\n" + "".join(f"{i},p{i}\n" for i in range(150)))
    problem = refused("csv", table.parent / "many.csv", "--split_by=column=part")
    assert "--split train=VALUE --split test=VALUE" in problem
    found = splits(
        table.parent / "many.csv", "--split_by=column=part", "--split=train=p1", "--split=test=p2", "--skip_bad"
    )
    assert found == {"train": 1, "test": 1}


@follows("files/builder.py:assignment --pattern", "files/labeled_folder.py:_folder --split")
def test_where_files_are(table):
    from beam_datasets.files.csv import Csv

    with pytest.raises(ValueError, match=r"give a pattern \(--pattern 'data/\*'\) or splits \(--split train='data/"):
        Csv(data_dir="out")
    with pytest.raises(ValueError, match=r"the files of all splits \(--pattern 'data/\*'\) beside"):
        Csv(data_dir="out", splits={"train": "80%"})
    assert splits(table.parent / "*.csv", "--split=train=100%") == {"train": 41}
    for name in ("train/label/a.wav", "test/label/b.wav"):
        write(table.parent / "sounds", name, encoded())
    assert "give none by --split" in refused(
        "sound_folder", table.parent / "sounds", "--split=train=80%", "--split=test=20%"
    )
    assert len(rows("sound_folder", table.parent / "sounds")) == 2


@follows("files/builder.py:_generate_version --key")
def test_rows_with_one_key(tmp_path):
    path = write(tmp_path, "in.csv", "id,user\n1,a\n2,a\n")
    with pytest.raises(BeamDatasetsError, match=r"which is the key \(--key\)"):
        make_builder("csv", path, "--key=user").elsewhere(tmp_path / "out").build(num_workers=1)
    make_builder("csv", path, "--key=id").elsewhere(tmp_path / "out").build(num_workers=1)


# ------------------------------------------------------------------------------------------------------------- commands


@follows("cli/head.py:run_head --images", "cli/head.py:run_head --json")
def test_json_without_images(published, capsys):
    assert main(["head", str(published), "--json", "--images", "out"]) == 2
    assert "leave out --images or --json" in capsys.readouterr().err
    assert main(["head", str(published), "--json"]) == 0


@follows("cli/new.py:run --to")
def test_another_place(tmp_path, capsys):
    assert main(["new", "birds", "--to", str(tmp_path / "a")]) == 0
    assert main(["new", "birds", "--to", str(tmp_path / "a")]) == 2
    assert "another place by --to" in capsys.readouterr().err
    assert main(["new", "birds", "--to", str(tmp_path / "b")]) == 0


@follows(
    "cli/builder_options.py:builder_arguments --help",
    "cli/main.py:_run_command --help",
    "cli/options.py:check_beam_options --help",
    "cli/options.py:error --help",
)
@pytest.mark.parametrize("command", [["build", "csv"], ["head"]])
def test_help(command, capsys):
    assert main([*command, "--help"]) == 0
    assert "--data_dir" in capsys.readouterr().out


@follows("cli/options.py:check_beam_options --pattern", "cli/options.py:check_beam_options --split")
def test_what_is_no_option(tmp_path, published, capsys):
    path = str(write(tmp_path, "in.csv", "a\n1\n"))
    assert main(["build", "csv", path, "--dry_run"]) == 2
    [given] = re.findall(r"--pattern \S+?(?=\.?\n)", capsys.readouterr().err)
    assert main(["build", "csv", *shlex.split(given), "--dry_run", "--data_dir", str(tmp_path)]) == 0
    command = ["materialize", str(published), "--to", "made", "--data_dir", str(tmp_path), "--dry_run"]
    capsys.readouterr()
    assert main([*command, str(published)]) == 2
    [given] = re.findall(r"--split '.*?'", capsys.readouterr().err)
    assert main([*command, *shlex.split(given)]) == 0
