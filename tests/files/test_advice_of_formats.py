"""The advice of errors about files of each format, splits and commands is followed, and the next run works."""

import io
import json
import re
import shlex
import shutil
import subprocess
import zipfile

import numpy as np
import pyarrow as pa
import pytest
import soundfile
from PIL import Image

from beam_datasets.cli import main
from beam_datasets.errors import BeamDatasetsError
from beam_datasets.formats.example import serialize
from beam_datasets.formats.tfrecord import frame
from tests.files.advice import advises, follows, jsonl, parquet, refused, rows, write
from tests.files.in_process import advised, make_builder, publish
from tests.parquet_files import encrypted
from tests.sounds import encoded, wav

# ------------------------------------------------------------------------------------------------------ CSV and text


@follows("files/csv.py:_headers --columns")
@pytest.mark.parametrize("text", ["5.1,3.5,setosa\n4.9,3.0,setosa\n", "1,7\n2,8\n", "-.5e3,x\n1,y\n", "1,a\n2,b\n"])
def test_a_header_that_is_a_row(text, tmp_path, caplog):
    path = write(tmp_path, "a.csv", text)
    lost = rows("csv", path)
    found = rows("csv", path, *re.findall(r"(--columns) (\S+)", caplog.text)[0])
    assert (len(lost), len(found)) == (1, 2)


@follows("files/csv.py:_header_problem --skip_bad", "files/csv.py:_header_problem --columns")
@pytest.mark.parametrize("again", ["a,b\n", '"a",b\n', "\ufeffa,b\n"])
@pytest.mark.parametrize("number", [1, 300])
def test_a_header_that_is_repeated(number, again, tmp_path):
    """`cat a.csv b.csv`: the header of the second file was an example if all columns were text."""
    path = write(tmp_path, "a.csv", "a,b\n" + "x,y\n" * number + again + "z,w\n")
    problem = refused("csv", path)
    assert f"a.csv, line {number + 2}: the header once more" in problem
    expected = [{"a": b"x", "b": b"y"}] * number + [{"a": b"z", "b": b"w"}]
    assert ("--skip_bad", "") in advised(problem)
    assert rows("csv", path, "--skip_bad") == expected
    assert "--columns a,b,c --skip_header keep it" in problem
    assert len(rows("csv", path, "--columns", "c,d", "--skip_header")) == number + 2


def test_the_header_of_a_dataframe_that_is_repeated(tmp_path):
    path = write(tmp_path, "a.csv", ",a,b\n0,x,y\n,a,b\n1,z,w\n")
    assert "a.csv, line 3: the header once more" in refused("csv", path)


@follows("files/csv.py:_header_problem --skip_header")
def test_a_header_in_a_file_whose_columns_are_named(tmp_path):
    path = write(tmp_path, "a.csv", "a,b\nx,y\n")
    problem = refused("csv", path, "--columns", "a,b")
    assert "a.csv, line 1: the names of the columns; if it is a header, --skip_header leaves out the first" in problem
    assert "if it is a row, other names by --columns a,b,c keep it" in problem
    assert rows("csv", path, "--columns", "a,b", "--skip_header") == [{"a": b"x", "b": b"y"}]
    assert len(rows("csv", path, "--columns", "c,d")) == 2


@pytest.mark.parametrize("before", ["x,y\n", "\nx,y\n", "x,y\n\n", '"x\n",y\n' * 300])
def test_a_header_in_the_middle_of_a_file_whose_columns_are_named(before, tmp_path):
    """`--skip_header` would leave out the first row, which is not the header."""
    path = write(tmp_path, "a.csv", before + "a,b\nz,w\n")
    problem = refused("csv", path, "--columns", "a,b")
    assert f"a.csv, line {before.count(chr(10)) + 1}: the names of the columns, as where files were joined" in problem
    assert "--skip_header" not in problem
    assert ("--skip_bad", "") in advised(problem)
    num_before = before.count(",")
    found = rows("csv", path, "--columns", "a,b", "--skip_bad")
    assert len(found) == num_before + 1
    assert found[-1] == {"a": b"z", "b": b"w"}
    assert "other names by --columns a,b,c keep it" in problem
    assert len(rows("csv", path, "--columns", "c,d")) == num_before + 2


def test_blank_lines_before_a_header_are_no_rows(tmp_path):
    path = write(tmp_path, "a.csv", "\n\na,b\nx,y\n")
    assert "if it is a header, --skip_header" in refused("csv", path, "--columns", "a,b")
    assert rows("csv", path, "--columns", "a,b", "--skip_header") == [{"a": b"x", "b": b"y"}]


def test_a_column_alone_may_contain_its_name(tmp_path):
    """A list of words has the word `word`; `a` may follow `b` elsewhere."""
    assert len(rows("csv", write(tmp_path, "a.csv", "word\na\nword\n"))) == 2
    assert len(rows("csv", write(tmp_path, "b.csv", "a,b\nb,b\nb,a\na,\n"))) == 3


@pytest.mark.parametrize("header", ["0,1,2", "1,2,3", "a,1,2", "v1.0,v1.1,x", "0,1,y"])
def test_headers_with_numbers(header, tmp_path, caplog):
    write(tmp_path, "a.csv", f"{header}\n4,5,6\n")
    assert len(rows("csv", tmp_path)) == 1
    assert "--columns" not in caplog.text


@follows(
    "files/csv.py:_check_is_header --comment",
    "files/csv.py:_check_is_header --feature",
    "files/csv.py:rows --comment",
    "files/csv.py:_separators --decimal",
    "files/numerals.py:_options --decimal",
    "files/numerals.py:_options --thousands",
)
def test_comments_and_decimals(tmp_path, caplog):
    path = write(tmp_path, "a.csv", "# exported, 2024\na,b\n1,x\n")
    problem = refused("csv", path)
    assert "a.csv: expected a header, got '# exported'" in problem
    assert rows("csv", path, *advises(problem, "--comment", "#")) == [{"a": 1, "b": b"x"}]
    path = write(tmp_path, "b.csv", "#id,b\n1,x\n")
    assert rows("csv", path, *advises(refused("csv", path), "--feature", "#id=string")) == [{"#id": b"1", "b": b"x"}]
    path = write(tmp_path, "c.csv", "plz;price\n01234;1,5\n12345;2,5\n12346;3,5\n# middle\n")
    comment = advises(refused("csv", path, "--delimiter", ";", "--decimal", ","), "--comment", "#")
    problem = refused("csv", path, "--delimiter", ";", *comment)
    text = advises(problem, "--feature", "price=string")
    assert rows("csv", path, "--delimiter", ";", *comment, *text)[0] == {"plz": b"01234", "price": b"1,5"}
    assert "column 'plz'" not in caplog.text + problem
    assert "line 2: column 'price': expected numbers" in problem
    assert "got numbers with other separators, such as '1,5'; --decimal , reads it as 1.5; " in problem
    assert rows("csv", path, "--delimiter", ";", *comment, "--decimal", ",")[0] == {"plz": b"01234", "price": 1.5}
    path = write(tmp_path, "d.csv", "sep=;\nname;price\na;1.234,50\nb;1,25\nc;1.234\n")
    assert "such as '1.234,50'; --decimal , --thousands . reads it as 1234.50; " in refused("csv", path)
    assert rows("csv", path, "--feature", "price=string")[0] == {"name": b"a", "price": b"1.234,50"}
    numbers = rows("csv", path, "--decimal", ",", "--thousands", ".")
    assert [row["price"] for row in numbers] == [1234.5, 1.25, 1234]
    path = write(tmp_path, "e.csv", "name;price\na;1,5\nb;1,25\nc;1.234,50\n")
    problem = refused("csv", path, "--delimiter", ";", "--decimal", ",")
    assert "--thousands . makes numbers of texts such as '1.234,50'" in problem
    refusal = refused("csv", path, "--delimiter", ";", "--decimal", ",", "--feature", "price=float64")
    assert "line 4: column 'price': '1.234,50' is not a number" in refusal


@pytest.mark.parametrize(
    "text, kind, ways",
    [
        ("1,50", "float64", {"--decimal ,": 1.5}),
        (" 2,25", "float32?", {"--decimal ,": 2.25}),
        ("1.234,50", "float64", {"--decimal , --thousands .": 1234.5}),
        ("1.234.567", "int64", {"--decimal , --thousands .": 1234567}),
        ("1,234", "int32", {"--thousands ,": 1234}),
        ("1,234", "float64", {"--decimal ,": 1.234, "--thousands ,": 1234.0}),
        ("12 345", "int64", {"--thousands ' '": 12345}),
    ],
)
def test_separators_of_a_column_whose_type_is_given(text, kind, ways, tmp_path):
    """The type leaves no doubt that the texts are numbers, so the error of the row names the options."""
    path = write(tmp_path, "in.csv", f"n;m\n7;x\n{text};y\n")
    given = ("--delimiter", ";", "--feature", f"n={kind}")
    problem = refused("csv", path, *given)
    assert problem.count(" reads it as ") + problem.count(" makes a number of it") == len(ways)
    for options, number in ways.items():
        assert f"; {options} reads it as " in problem or f"; {options} makes a number of it" in problem
        assert [row["n"] for row in rows("csv", path, *given, *shlex.split(options))] == [7, number]


@pytest.mark.parametrize("text", ["x", "1,2,3", "1.5.2", "12 34", "030 123", "--5,0"])
def test_texts_that_no_separators_make_numbers(text, tmp_path):
    path = write(tmp_path, "in.csv", f"n;m\n7;x\n{text};y\n")
    problem = refused("csv", path, "--delimiter=;", "--feature=n=float64")
    assert not {"--decimal", "--thousands"} & {option for option, _ in advised(problem)}


@pytest.mark.parametrize("space", [" ", "\u00a0", "\u2009", "\u202f"])
@pytest.mark.parametrize("decimal", [",", "."])
def test_thousands_with_spaces(space, decimal, tmp_path, caplog):
    """A note and no error, as telephone numbers may have this form."""
    texts = ["999", f"1{space}234", f"-12{space}345{space}678{decimal}5", f"1{space}234{decimal}50"]
    path = write(tmp_path, "a.csv", "n\n" + "".join(f'"{text}"\n' for text in texts))
    assert [row["n"].decode() for row in rows("csv", path)] == texts
    given = shlex.split(re.findall(r"such as .*?; (--.*?) makes numbers of it", caplog.text)[0])
    decimals = () if decimal == "." else ("--decimal", ",")
    found = [row["n"] for row in rows("csv", path, *given, *decimals)]
    assert found == [float(text.replace(space, "").replace(decimal, ".")) for text in texts]
    path = write(tmp_path, "b.csv", f'n\n1\n2\n3\n"1{space}234"\n')
    assert [row["n"] for row in rows("csv", path, *advises(refused("csv", path), "--thousands", " "))][3] == 1234


@pytest.mark.parametrize("text", ["<html>\n<body>\n", '{"a": 1}\n{"a": 2}\n', "# a comment\na\n7\n"])
def test_a_file_without_a_header_is_left_out_as_others(text, tmp_path):
    """Its first line was a column that the other files lack."""
    write(tmp_path, "in/a.csv", "a\n1\n")
    write(tmp_path, "in/b.csv", text)
    assert "b.csv: expected a header" in refused("csv", tmp_path / "in")
    found = publish("csv", tmp_path / "in", "--skip_bad")
    assert (found.rows, found.counted["left out"]) == ([{"a": 1}], 1)


@pytest.mark.parametrize(
    "text", ["<html>\n<body>\nnot found\n", "<!DOCTYPE html>\nx\n", '<?xml version="1.0"?>\n<Error/>\n']
)
def test_the_error_page_of_a_server(text, tmp_path):
    """Each line was a row."""
    path = write(tmp_path, "a.csv", text)
    problem = refused("csv", path)
    assert "a.csv: expected a header, got '<" in problem
    assert "download it again" in problem
    names = [value for option, value in advised(problem) if option == "--feature"]
    assert len(names) == 1
    assert [len(rows("csv", path, "--feature", name)) for name in names] == [text.count("\n") - 1] * len(names)


@follows("files/csv.py:_separators --feature")
def test_texts_that_may_be_numbers_are_an_error_only_if_all_are_numbers(tmp_path, caplog):
    path = write(tmp_path, "a.csv", "n;m\n1,234;1,5\n5,678;about 2\n")
    problem = refused("csv", path, "--delimiter", ";")
    assert "'n': expected numbers" in problem
    assert "--decimal , reads it as 1.234, --thousands , reads it as 1234; --feature n=string accepts text" in problem
    assert "column 'm'" not in problem
    assert "column 'm' is text, such as '1,5'; --decimal , makes numbers of it" in caplog.text
    assert [row["n"] for row in rows("csv", path, "--delimiter", ";", "--thousands", ",")] == [1234, 5678]
    assert [row["n"] for row in rows("csv", path, "--delimiter", ";", "--decimal", ",")] == [1.234, 5.678]
    for texts in ("1,5 2.5 x", "1,5 2,5 1.5", "01,5 2,5 007", "x,1 y,2 z,3"):
        path = write(tmp_path, "b.csv", "n\n" + "".join(f'"{text}"\n' for text in texts.split()))
        assert [row["n"] for row in rows("csv", path)] == [text.encode() for text in texts.split()]


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


@follows(
    "files/csv.py:_csv_problem --quote",
    "files/csv.py:_csv_problem --escapechar",
)
def test_quotes(tmp_path):
    path = write(tmp_path, "in.csv", 'a,b\n1,5" tape\n2,"x\n')
    assert "--quote ''" in refused("csv", path)
    assert [row["b"] for row in rows("csv", path, "--quote", "")] == [b'5" tape', b'"x']
    path = write(tmp_path, "in.csv", 'a,b\n1,x\n2,"5\\" tape, red"\n')
    problem = refused("csv", path)
    assert "line 3: ',' expected after '\"'; are quotes" in problem
    assert rows("csv", path, *advises(problem, "--escapechar", "\\"))[1] == {"a": 2, "b": b'5" tape, red'}
    path = write(tmp_path, "in.csv", 'a,b\n1,x\n2,"The Hobbit" by Tolkien\n')
    assert rows("csv", path, *advises(refused("csv", path), "--quote", ""))[1]["b"] == b'"The Hobbit" by Tolkien'
    assert "--escapechar" not in refused("csv", path, "--escapechar", "\\")


@follows("files/inputs.py:undecodable --encoding", "files/inputs.py:undecodable iconv -f utf-16")
def test_encodings(tmp_path):
    for encoding in ("cp1252", "latin-1", "utf-16"):
        path = write(tmp_path, f"{encoding}.csv", "a,b\n1,é\n".encode(encoding))
        problem = refused("csv", path)
        assert encoding in problem
        assert rows("csv", path, "--encoding", encoding) == [{"a": 1, "b": "é".encode()}]
    for kind, name, content in (("csv", "c.csv", b"a,b\n1,\x81\n"), ("text_lines", "c.txt", b"\x81\n")):
        path = write(tmp_path, name, content)
        problem = refused(kind, path, "--encoding", "cp1252")
        assert "not cp1252: byte 0x81" in problem
        assert "cp1252" not in problem.partition("--encoding")[2]
        assert list(rows(kind, path, *advises(problem, "--encoding", "latin-1"))[0].values())[-1] == "\x81".encode()
        path = write(tmp_path, name, content.replace(b"\x81", "é".encode()))
        problem = refused(kind, path, "--encoding", "ascii")
        assert "not ascii: byte 0xc3" in problem
        assert list(rows(kind, path, *advises(problem, "--encoding", "utf-8"))[0].values())[-1] == "é".encode()
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


@pytest.mark.parametrize("encoding", ["idna", "punycode", "undefined", "rot13", "nonsense"])
def test_encodings_that_do_not_mark_damage(encoding, tmp_path):
    path = write(tmp_path, "in.csv", "a\n1\n")
    with pytest.raises(ValueError, match=f"encoding {encoding!r} is unknown; write utf-8, cp1252"):
        publish("csv", path, f"--encoding={encoding}")


@follows("intake/streams.py:_check_width --encoding", "intake/streams.py:_check_width iconv -f {}")
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-32"])
@pytest.mark.parametrize("text", ["name\nGröße\nx\n", "a\n1\n"])
def test_wide_encodings_without_a_mark(text, encoding, tmp_path):
    """Their bytes were published, as UTF-8 with NULs."""
    lines = text.encode().split()
    path = write(tmp_path, "in.csv", text.encode(encoding))
    problem = refused("csv", path)
    assert f"in.csv: expected text, got a file of another encoding: it looks like {encoding.upper()}" in problem
    found = rows("csv", path, *advises(problem, "--encoding", encoding))
    assert [str(row[lines[0].decode()]) for row in found] == [
        str(each) if text[0] == "n" else "1" for each in lines[1:]
    ]
    path = write(tmp_path, "in.txt", text.encode(encoding))
    assert "in.txt: expected text" in refused("jsonl", path)
    [command] = re.findall(r"iconv -f \S+ -t utf-8", refused("text_lines", path))
    assert rows("text_lines", converted(command, path)) == [{"text": each} for each in lines]


@follows("files/inputs.py:check_encoding iconv -f {}")
@pytest.mark.parametrize("encoding", ["utf-32", "utf-16-le", "UTF_16_BE", "utf-16", "utf_16", "U32"])
def test_encodings_that_cannot_be_cut(encoding, tmp_path):
    path = write(tmp_path, "in.txt", "é\n".encode(encoding))
    [command] = re.findall(r"iconv -f \S+ -t utf-8", refused("text_lines", path, "--encoding", encoding))
    assert rows("text_lines", converted(command, path)) == [{"text": "é".encode()}]


# ---------------------------------------------------------------------------------------------------------------- JSON


@follows(
    "files/jsonl.py:_way_to_lines jq -c .",
    "files/jsonl.py:_way_to_lines sed 's/",
    "files/jsonl.py:checked_object jq -c '.[]'",
    "files/jsonl.py:expect jq -c '.[]'",
)
def test_json_of_other_layouts(tmp_path):
    path = write(tmp_path, "in.jsonl", '{"a":\n  1}\n{"a":\n  2}\n')
    assert "(jq -c . writes each object in one line)" in refused("jsonl", path)
    assert [row["a"] for row in rows("jsonl", converted("jq -c .", path))] == [1, 2]
    path = write(tmp_path, "in.jsonl", '{"a": 1}{"a": 2}\n')
    assert "(jq -c . writes each object in one line)" in refused("jsonl", path)
    assert [row["a"] for row in rows("jsonl", converted("jq -c .", path))] == [1, 2]
    path = write(tmp_path, "in.jsonl", '{"a": 1},\n{"a": 2},\n')
    assert "(sed 's/,$//' removes commas at the ends of lines)" in refused("jsonl", path)
    assert [row["a"] for row in rows("jsonl", converted("sed s/,$//", path))] == [1, 2]
    path = write(tmp_path, "in.jsonl", '[{"a": 1}]\n[{"a": 2}]\n')
    assert "; jq -c '.[]' makes lines of several arrays" in refused("jsonl", path)
    assert [row["a"] for row in rows("jsonl", converted("jq -c .[]", path))] == [1, 2]
    path = write(tmp_path, "in.jsonl", '[{"a": 1}]\n{"a": 2}\n')
    assert "jq" not in refused("jsonl", path)  # it would make a line of the number 2
    path = write(tmp_path, "in.jsonl", '{"a": 0}\n[{"a": 1}, {"a": 2}]\n')
    assert "(jq -c '.[]' makes lines of an array)" in refused("jsonl", path)
    array = write(tmp_path, "array.jsonl", '[{"a": 1}, {"a": 2}]\n')
    assert [row["a"] for row in rows("jsonl", converted("jq -c .[]", array))] == [1, 2]


@follows("files/convert.py:_way_to_numbers jq -c '.NAME")
@pytest.mark.parametrize("kind, texts", [("float32", ["1.5", "-2e3"]), ("int64", ["1", "-20"])])
def test_numbers_in_quotes(tmp_path, kind, texts):
    path = write(tmp_path, "in.jsonl", "".join(f'{{"a": "{text}"}}\n' for text in texts))
    problem = refused("jsonl", path, "--feature", f"a={kind}")
    [command] = re.findall(r"jq -c '.*?'", problem)
    numbers = [row["a"] for row in rows("jsonl", converted(command.replace("NAME", "a"), path))]
    assert sorted(numbers) == sorted(map(float, texts))
    (tmp_path / "other").mkdir()
    for other in ("1,5", "n/a", "", "1 2", "0x1"):
        path = write(tmp_path / "other", "in.jsonl", f'{{"a": "{other}"}}\n')
        assert "jq" not in refused("jsonl", path, "--feature", f"a={kind}")


@follows("files/json_tables.py:table_problem --feature", "files/json_tables.py: jq -c 'to_entries[]")
def test_a_json_table_that_is_one_object(tmp_path, caplog):
    command = "jq -c 'to_entries[] | {key} + .value'"
    path = write(tmp_path, "in.json", '{"7": {"a": 1}, "9": {"a": 2}}')
    problem = refused("jsonl", path)
    assert f"{command} writes one object per field" in problem
    assert "--skip_bad" not in problem
    rows_of_fields = [{"key": b"7", "a": 1}, {"key": b"9", "a": 2}]
    assert rows("jsonl", converted(command, path)) == rows_of_fields
    given = advises(problem, "--feature", "7=?")
    assert rows("jsonl", path, *given) == [{"7": {"a": 1}, "9": {"a": 2}}]
    path = write(tmp_path, "in.json", '{"x": {"a": 1}, "y": {"a": 2}}')
    assert rows("jsonl", path) == [{"x": {"a": 1}, "y": {"a": 2}}]
    assert f"{path}: its only object becomes one example; if it is a table: pandas writes" in caplog.text
    assert command in caplog.text


@pytest.mark.parametrize("line", ['{"a": 1,}', '{"a": "x\ty"}', "// c", '\x1e{"a": 1}', '{"a": 01}'])
def test_lines_of_which_no_command_makes_json(line, tmp_path):
    """An option or a command that would fail, too, is not proposed."""
    problem = refused("jsonl", write(tmp_path, "in.jsonl", f'{{"a": 0}}\n{line}\n'))
    assert "line 2 (byte 9): not JSON: " in problem
    assert "jq" not in problem


@pytest.mark.parametrize("number, problem", [("-1e400", "is too large for a float64"), ("1" * 5000, "too many digits")])
def test_numbers_that_python_does_not_have(number, problem, tmp_path):
    """Also as text, because they are not read as they are written."""
    for options in ([], ["--feature=a=string"]):
        error = refused("jsonl", write(tmp_path, "in.jsonl", f'{{"a": {number}}}\n'), *options)
        assert problem in error
        assert "Write it as text in the file" in error
    [row] = rows("jsonl", write(tmp_path, "in.jsonl", f'{{"a": "{number}"}}\n'))
    assert row["a"].decode() == number


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


@pytest.mark.parametrize("is_inside", [False, True])
def test_lists_of_no_items(is_inside, tmp_path):
    """They were called damaged: pyarrow writes them, and cannot read them."""
    column = pa.array([[], []], pa.list_(pa.int32(), 0))
    path = parquet(tmp_path, {"l": pa.StructArray.from_arrays([column], ["v"]) if is_inside else column, "x": [1, 2]})
    assert f"{'l/v' if is_inside else 'l'!r} has lists of 0 items" in (problem := refused("parquet", path))
    assert rows("parquet", path, *advises(problem, "--feature", "l=drop")) == [{"x": 1}, {"x": 2}]


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
    places = [
        f"(first in {path}, byte {offset} (record {i}))"
        for i, offset in enumerate([0, len(frame(serialize(lists[0])))])
    ]
    assert f"feature 'a' holds int64 {places[0]} and string {places[1]}; leave" in problem
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
    commands = re.findall(r"`(ffmpeg .*?)`", refused("sound_folder", tmp_path / "in"))
    assert len(rows("sound_folder", converted_sounds(tmp_path, commands[0], path))) == 1


@follows("intake/sound_layout.py: ffmpeg -i FILE")
def test_sounds_of_other_formats_whose_samples_are_floats(tmp_path):
    """FLAC, the only advice, rounded them."""
    path = write(tmp_path, "in/label/a.caf", encoded(form="CAF", subtype="FLOAT"))
    commands = re.findall(r"`(ffmpeg .*?)`", refused("sound_folder", tmp_path / "in"))
    [row] = rows("sound_folder", converted_sounds(tmp_path, commands[-1], path))
    np.testing.assert_array_equal(row["audio"], soundfile.read(path, dtype="float32")[0])


def converted_sounds(folder, command, path):
    """Returns the folder of labels with the file that ffmpeg makes of a sound."""
    ffmpeg = shutil.which("ffmpeg") or pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()
    write(folder, "made/label/none", b"").unlink()
    names = {"ffmpeg": ffmpeg, "FILE": str(path)}
    words = [f"made/label/{word}" if word.startswith("new.") else names.get(word, word) for word in command.split()]
    subprocess.run(words, check=True, cwd=folder, capture_output=True)
    return folder / "made"


@follows("intake/sound_layout.py: ffmpeg -i FILE")
@pytest.mark.parametrize("size", [0, 0xFFFFFFFF])
def test_a_sound_that_was_written_to_a_pipe(size, tmp_path):
    """A size of 0 was taken for bytes that were lost."""
    samples = np.arange(-500, 500, dtype="<i2")
    data = wav(samples.tobytes())
    path = write(tmp_path, "in/label/a.wav", data[:40] + size.to_bytes(4, "little") + data[44:])
    problem = refused("sound_folder", tmp_path / "in")
    assert "the program that wrote the file could not go back to the header" in problem
    [command] = re.findall(r"`(ffmpeg .*?)`", problem)
    [row] = rows("sound_folder", converted_sounds(tmp_path, command, path))
    np.testing.assert_array_equal(row["audio"], samples)


@follows("intake/sound_layout.py: ffmpeg -f s16le")
@pytest.mark.parametrize("suffix", ["pcm", "raw"])
def test_samples_without_a_header(suffix, tmp_path):
    """The command for other formats fails there, because ffmpeg does not know the type of the samples."""
    samples = np.arange(-500, 500, dtype="<i2")
    path = write(tmp_path, f"in/label/a.{suffix}", samples.tobytes())
    commands = re.findall(r"`(ffmpeg .*?)`", refused("sound_folder", tmp_path / "in"))
    [row] = rows("sound_folder", converted_sounds(tmp_path, commands[-1], path))
    np.testing.assert_array_equal(row["audio"], samples)


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


@follows("files/split_assignment.py:__call__ --split_by", "files/split_assignment.py:__call__ --skip_bad")
def test_rows_without_a_value_to_split_by(table):
    by = ("--split_by=group=user", "--split=train=50%", "--split=test=50%")
    with pytest.raises(BeamDatasetsError, match="--split_by missing=SPLIT, or leave them out by --skip_bad") as caught:
        splits(table, *by)
    assert "in.csv" in str(caught.value)
    assert sum(splits(table, *by, "--split_by=missing=test").values()) == 41
    assert sum(splits(table, *by, "--skip_bad").values()) in (40, 41)


@follows("files/split_assignment.py:assignment --split_by", "files/split_assignment.py:assignment --stratify")
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
    "files/split_assignment.py:_make_assignment --split",
    "files/split_assignment.py:assignment --split",
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


@follows("files/split_assignment.py:assignment --pattern", "files/labeled_folder.py:_labeled_files --split")
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


@follows("cli/options.py:_hint_on_positional --pattern", "cli/options.py:_hint_on_positional --split")
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


@pytest.mark.parametrize("kind, name", [("csv", "a.csv"), ("jsonl", "a.jsonl"), ("text_lines", "a.txt")])
def test_bytes_of_another_encoding_advise_to_name_it(tmp_path, kind, name):
    text = {"csv": "id,name\n1,José\n2,ann\n", "jsonl": '{"name": "José"}\n', "text_lines": "José\nZoë\n"}[kind]
    path = write(tmp_path, name, text.encode("cp1252"))
    problem = refused(kind, path)
    assert "cp1252 reads 'José'" in problem
    assert "cannot be used: --skip_bad" not in problem
    if kind != "jsonl":
        assert "Only if few rows are damaged, and the others are right: --skip_bad counts" in problem
    column = "text" if kind == "text_lines" else "name"
    assert "José" in [row[column].decode() for row in rows(kind, path, "--encoding", "cp1252")]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "text_lines", "parquet", "tfrecord"])
@pytest.mark.parametrize("content", ["excel", "png"])
def test_files_of_other_formats_advise_no_option_that_leaves_out_all_of_them(tmp_path, kind, content):
    if content == "excel":
        with zipfile.ZipFile(tmp_path / "a.csv", "w") as archive:
            archive.writestr("[Content_Types].xml", "<x/>")
        other, way = (tmp_path / "a.csv").read_bytes(), "Save it as CSV"
    else:
        other, way = b"\x89PNG\r\n\x1a\n" + bytes(200), "`beam-datasets build image_folder`"
    problem = refused(kind, write(tmp_path, "a.data", other))
    assert way in problem
    assert "--skip_bad" not in problem
