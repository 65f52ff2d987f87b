"""What `beam-datasets` prints without a command: each command once, in a group."""

import re

import pytest

from beam_datasets.cli.main import COMMANDS, DESCRIPTION


def test_each_command_is_in_a_group(run):
    assert run("--help")[0] == 0
    lines = DESCRIPTION.partition("options of every command:")[0].splitlines()
    assert lines[0].startswith("Generates datasets as versioned TFRecord shards")  # what it is, before what it can do
    commands = [match[1] for line in lines if (match := re.match(r"  beam-datasets (\w+)", line))]
    groups = [line for line in lines if re.fullmatch(r"[a-z][a-z ,]+", line)]
    assert sorted(commands) == sorted(COMMANDS)
    assert len(set(commands)) == len(commands)
    assert groups[0] == "create datasets"
    assert lines.index(groups[0]) < lines.index(next(line for line in lines if line.startswith("  beam-datasets")))
    assert max(map(len, lines)) <= 120


def test_the_first_steps_of_the_help_work(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "houses1.csv").write_text("rooms,price\n3,100\n")
    [command] = re.findall(r"\$ beam-datasets (.*)", DESCRIPTION)
    [code] = re.findall(r">>> (.*)", DESCRIPTION)
    assert run(*command.replace("'", "").split())[0] == 0
    imported, _, expression = code.partition("; ")
    names: dict[str, object] = {}
    exec(imported, names)
    assert eval(expression, names) == {"rooms": 3, "price": 100}


def test_the_help_of_plan_describes_plan(run):
    code, output, _ = run("plan", "--help")
    assert code == 0
    assert output.startswith("usage: beam-datasets plan NAME_OR_FILE")
    assert "an estimate of its build" in output
    assert "Generates a dataset and publishes it" not in output
    for option in ("--dry_run", "--trial", "--yes"):  # of build alone
        assert option not in output
        assert option in run("build", "--help")[1]


def test_examples_of_commands_stay_whole(monkeypatch, run):
    """A shell runs each line that is pasted as a command, so that options on a second line would be lost."""
    monkeypatch.setenv("COLUMNS", "1000")
    examples = {command: lines for command in COMMANDS if (lines := _examples(run(command, "--help")[1]))}
    assert {"append", "export", "materialize", "prune", "stats"} <= examples.keys()
    for columns in ("80", "40", "1"):
        monkeypatch.setenv("COLUMNS", columns)
        assert {command: _examples(run(command, "--help")[1]) for command in examples} == examples


@pytest.mark.parametrize("columns", [0, 1, 2, 3, 40])
def test_help_in_a_narrow_terminal(monkeypatch, run, columns):
    monkeypatch.setenv("COLUMNS", "1000")
    words = set(run("--help")[1].split())
    monkeypatch.setenv("COLUMNS", str(columns))
    code, output, _ = run("--help")
    assert code == 0
    if columns >= 40:  # in fewer, long words are broken
        assert set(output.split()) == words


def _examples(text):
    return [line for line in text.splitlines() if line.startswith("  beam-datasets ")]


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_the_terminal(monkeypatch, run, command, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    code, output, _ = run(*command.split(), "--help")
    assert code == 0
    copied = r" *(\$|>>>) |  beam-datasets (?!.* {2})"
    lines = [line for line in output.splitlines() if not re.match(copied, line)]
    assert [line for line in lines if len(line) > columns] == []
    whole = " ".join(output.split())
    assert all(" ".join(part.split()) in whole for part in DESCRIPTION.split("\n\n")[:2] if not command)
