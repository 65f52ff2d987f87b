"""Advice of commands about files that none of them reads: the next command works."""

import re
import shlex
import subprocess

import pytest

from beam_datasets.cli.append import _read_keys
from beam_datasets.cli.data_files import way_to_build
from beam_datasets.cli.main import main
from beam_datasets.cli.options import UsageError
from tests.files.advice import follows, parquet, refused, rows, write


@follows(
    "cli/data_files.py: beam-datasets build csv",
    "cli/data_files.py: beam-datasets build parquet",
    "cli/data_files.py: beam-datasets build text_lines",
    "cli/data_files.py: --name",
    "cli/data_files.py: --pattern",
)
@pytest.mark.parametrize(
    "name, placeholder, converted",
    [("b.xlsx", "FILE.csv", "b.csv"), ("b.avro", "FILE.parquet", "b.parquet"), ("b.pdf", "FILES", "b.txt")],
)
def test_files_that_must_be_converted(tmp_path, name, placeholder, converted):
    parquet(tmp_path, {"a": [1]}, "b.parquet")
    write(tmp_path, "b.csv", "a\n1\n")
    write(tmp_path, "b.txt", "a line\n")
    [command] = re.findall("`(.*?)`", way_to_build(name))
    words = shlex.split(command.replace(placeholder, str(tmp_path / converted)).replace("NAME", "made"))
    assert words[0] == "beam-datasets"
    assert main([*words[1:], "--data_dir", str(tmp_path / "out"), "--dry_run"]) == 0


@follows(
    "cli/data_files.py: beam-datasets build --help`",
    "cli/data_files.py: --help",
    "cli/data_files.py: beam-datasets new NAME`",
)
@pytest.mark.parametrize("name, printed", [("b.zip", "jsonl"), ("b.mp4", "made")])
def test_files_that_need_another_command(tmp_path, monkeypatch, capsys, name, printed):
    monkeypatch.chdir(tmp_path)
    [command] = re.findall("`(beam.*?)`", way_to_build(name))
    assert main(shlex.split(command.replace("NAME", "made"))[1:]) == 0
    assert printed in capsys.readouterr().out


@follows("cli/builder_options.py: --split", "cli/builder_options.py: --feature")
def test_how_values_of_options_are_written(tmp_path, capsys):
    path = write(tmp_path, "a.csv", "price,note\n1,x\n2,y\n")
    build = ["build", "csv", "--pattern", str(path), "--data_dir", str(tmp_path / "out"), "--dry_run"]
    for option, wrong in (("--split", "train"), ("--feature", "price")):
        assert main([*build, option, wrong]) == 2
        problem = capsys.readouterr().err
        ways = re.findall(rf"{option} (?:'[^']*'|[^\s,']|'[^']*')+", problem.partition("as in ")[2])
        assert len(ways) > 1, problem
        given = [shlex.split(way)[1].removesuffix(".") for way in ways]
        if option == "--feature":
            assert rows("csv", path, *(f"--feature={each}" for each in given)) == [{"price": 1.0}, {"price": 2.0}]
        else:
            *shares, files = given
            assert len(rows("csv", path, *(f"--split={each}" for each in shares))) == 4  # each split reads all
            assert len(rows("csv", "", f"--split={files.replace('=', f'={tmp_path}/')}")) == 2


@follows("cli/append.py:_read_keys printf '%s\\n' KEY")
def test_a_file_of_keys(tmp_path):
    with pytest.raises(UsageError, match="expected a file of keys") as caught:
        _read_keys("k1")
    [command] = re.findall("`(printf .*?)`", str(caught.value))
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    assert _read_keys(str(tmp_path / "keys.txt")) == ["KEY"]


@follows("intake/contents.py:_content_of git lfs pull`")
def test_pointers_of_git_lfs(tmp_path):
    """The command needs Git LFS and a remote; after it, the file has its content."""
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22e\nsize 12\n"
    path = write(tmp_path, "a.csv", pointer)
    assert "Get the file: `git lfs pull`" in refused("csv", path)
    write(tmp_path, "a.csv", "a\n1\n")
    assert rows("csv", path) == [{"a": 1}]


@follows(
    "cli/build.py:_with_dataset beam-datasets build {}`",
    "cli/build.py:_note_if_published --from",
    "cli/build.py:_note_if_published --data_dir",
    "cli/build.py:_note_if_published beam-datasets info {}`",
    "cli/build.py:_note_if_published beam-datasets append {}",
    "cli/main.py:_run_command --version",
    "cli/main.py:_run_command beam-datasets --version` prints",
    "cli/options.py:_option_of --versions",
    "cli/options.py:_option_of beam-datasets list --versions`",
    "cli/options.py:error --to",
)
@pytest.mark.parametrize(
    "wrong, printed",
    [
        ("build --max_examples_per_split 1 csv --pattern in.csv --name other --dry_run", "other"),
        ("build few", "few"),
        ("build few --data_dir data", "few"),
        ("-v", "beam_datasets "),
        ("versions few", "few"),
        ("export few copy --format jsonl", "copy"),
    ],
)
def test_a_command_with_the_wrong_arguments(few, monkeypatch, capsys, wrong, printed):
    monkeypatch.chdir(few)
    monkeypatch.setenv("BEAM_DATASETS_DATA_DIR", str(few / "data"))
    words = shlex.split(wrong)
    assert main(words) == 2
    commands = re.findall(
        "`((?:beam-datasets|--to) .*?)`", capsys.readouterr().err.replace("SOURCE", "csv --pattern more.csv")
    )
    proposed = [command for command in commands if not re.search(r"\b(COMMAND|NAME)\b", command)]  # not of the usage
    assert proposed
    for command in proposed:
        if command.startswith("--to"):
            advised = [words[0], words[1], *shlex.split(command), *words[3:]]
        else:
            advised = shlex.split(command)[1:]
        assert main(advised) == 0
        assert printed in capsys.readouterr().out


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Returns a directory with the dataset `few` in `data`, and files with further examples."""
    directory = tmp_path_factory.mktemp("few")
    path = write(directory, "in.csv", "a\n1\n2\n")
    write(directory, "more.csv", "a\n3\n")
    build = ["build", "csv", "--pattern", str(path), "--name", "few", "--num_workers", "1"]
    assert main([*build, "--data_dir", str(directory / "data")]) == 0
    return directory
