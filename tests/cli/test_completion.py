"""Completion, as shells ask for it: what `register-python-argcomplete` prints, with a line and a cursor at its end."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from beam_datasets.cli.completion import _datasets, command_of
from beam_datasets.cli.main import COMMANDS
from tests.diffing.versions import PETS
from tests.reading.conftest import write_dataset

pytest.importorskip("argcomplete")
BIN = Path(sys.executable).parent
ASK_ZSH = """
export PATH={bin}:$PATH
autoload -U compinit is-at-least; compinit -D -u
eval "$({bin}/register-python-argcomplete beam-datasets)"
_describe() {{ print -rl -- "${{(@P)2}}" }}
words=(beam-datasets) BUFFER="$1" CURSOR=${{#1}}
_python_argcomplete
"""
ASK = """
export PATH={bin}:$PATH
eval "$({bin}/register-python-argcomplete beam-datasets)"
COMP_LINE="$1" COMP_POINT=${{#1}} COMP_TYPE=9
eval "COMP_WORDS=($1)"
[[ "$1" == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_python_argcomplete beam-datasets
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    for version in ("1.0.0", "1.1.0"):
        PETS.write(root, version)
    write_dataset(root / "few" / "1.0.0", {"part": [1]})
    (root / "my_builder.py").touch()
    return root


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_known(command):
    file, _ = COMMANDS[command]
    assert command_of(command, file).parser().prog in (f"beam-datasets {command}", "beam-datasets build")


@pytest.mark.skipif(not shutil.which("zsh"), reason="needs zsh")
@pytest.mark.parametrize(
    "line, expected", [("in", ["info"]), ("info --data_dir {data} pets:", ["pets:1.0.0", "pets:1.1.0"])]
)
def test_zsh(line, expected, data):
    command = ["zsh", "-f", "-c", ASK_ZSH.format(bin=BIN), "zsh", f"beam-datasets {line.format(data=data)}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    texts = [text.strip().replace("\\:", ";").partition(":")[0].replace(";", ":") for text in done.stdout.splitlines()]
    assert (sorted(texts), done.stderr) == (expected, "")


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize(
    "line, expected",
    [
        ("in", ["info"]),
        ("head --im", ["--images"]),
        ("build image_f", ["image_folder"]),
        ("plan {data}/my_", ["{data}/my_builder.py"]),
        ("export x --format p", ["parquet"]),
        ("head --data_dir {data} pe", ["pets"]),
        ("info --data_dir {data} pets", ["pets", "pets:1.0.0", "pets:1.1.0"]),
        ("head --data_dir {data} pets --split ", ["test", "train"]),
        ("slices --data_dir {data} pets t", ["test", "train"]),
        ("info {data}/p", ["{data}/pets/"]),
        ("site {data}/p", ["{data}/pets/"]),
        ("explore {data}/p", ["{data}/pets/"]),
        ("explore --data_dir {data} my", ["my_data/"]),
        ("materialize pets --data_dir {data} --split train=te", ["test"]),
        ("materialize pets --data_dir {data} --split all=train+te", ["train+test"]),
        ("append pets --data_dir {data} --split ", ["test", "train"]),
        ("append pets --data_dir {data} --from {data}/few/1.0.0 --split all=", ["part"]),
        ("append pets --data_dir {data} --from {data}/pets/1.0.0 --from {data}/few/1.0.0 --split p", ["part"]),
        ("append pets --data_dir {data} --from {data}/nothing --from {data}/few/1.0.0 --split p", ["part"]),
        ("diff --data_dir {data} pets:1.0.0 pets:1.1.0 --split t", ["test", "train"]),
        ("tag --data_dir {data} pets", ["pets", "pets:1.0.0", "pets:1.1.0"]),
        ("prune --data_dir {data} pe", ["pets"]),
        ("stats --data_dir {data} pets --features parts/s", ["parts/size"]),
        ("stats --data_dir {data} pets --features text,la", ["text,label"]),
        ("head --data_dir {data} nothing --split ", [""]),
    ],
)
@pytest.mark.slow
def test_what_may_stand_at_the_cursor(line, expected, data, tmp_path_factory):
    here = tmp_path_factory.mktemp("here")
    (here / "my_data").mkdir()
    command = ["bash", "-c", ASK.format(bin=BIN), "bash", f"beam-datasets {line.format(data=data)}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=here)
    assert (sorted(text.strip() for text in done.stdout.splitlines()), done.stderr) == (
        [text.format(data=data) for text in expected],
        "",
    )


def test_a_path_is_completed_without_the_datasets(monkeypatch):
    monkeypatch.setattr("beam_datasets.catalog.list_datasets", lambda *_: pytest.fail("datasets are listed"))
    assert [name for path in ("/da", "./da", "../da", "~/da") for name in _datasets(path, None)] == []
