"""Text in a terminal: what is in a dataset does not command it; progress as a bar, and as lines."""

import contextlib
import json
import os
import pty
import shutil
import subprocess
import sys
import threading
import unicodedata
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets import features as F
from beam_datasets.cli import main
from beam_datasets.cli.printing import announced, progress_bar, progress_bars, progress_lines, table
from beam_datasets.display import progress
from beam_datasets.display.text import printable, text_width
from beam_datasets.downloads import http
from beam_datasets.publishing.progress import Progress
from tests.exporting.conftest import dataset_of

EVIL = "\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202e\u200f\u2028"


@given(st.text())
def test_what_is_shown_has_no_control_character_but_line_breaks_and_tabs(text):
    shown = printable(text)
    assert not controls(shown)
    assert printable(shown) == shown
    assert [c for c in text if not controls(c)] == [c for c in text if c in shown and not controls(c)]
    if not controls(text):
        assert shown == text


def controls(text):
    bidirectional = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    return [
        c
        for c in text
        if (unicodedata.category(c) in ("Cc", "Zl", "Zp") and c not in "\n\t")
        or unicodedata.bidirectional(c) in bidirectional
        or c in "\u061c\u200e\u200f"
    ]


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    """A dataset with escape sequences wherever a text can be."""
    folder = tmp_path_factory.mktemp("evil")
    features = {
        f"name{EVIL}": F.Text(doc=EVIL),
        "label": F.ClassLabel(names=[f"a{EVIL}b", "b"]),
        f"deep{EVIL}": {f"x{EVIL}": np.int64},
    }
    examples = [{f"name{EVIL}": f"text{EVIL}{i}", "label": i % 2, f"deep{EVIL}": {f"x{EVIL}": i}} for i in range(4)]
    for version in ("1.0.0", "2.0.0"):
        made = dataset_of(folder / f"to {version}", features, examples[: 3 + (version > "1")])
        info = json.loads((made / "dataset_info.json").read_text())
        info |= {"version": version, "description": EVIL, "location": {"urls": [f"http://x{EVIL}"]}}
        (made / "dataset_info.json").write_text(json.dumps(info))
        (folder / "made").mkdir(exist_ok=True)
        made.rename(folder / "made" / version)
    return folder


@pytest.mark.parametrize(
    "args",
    [
        ("info", "made"),
        ("head", "made"),
        ("stats", "made", "--no_save", "--num_workers=1"),
        ("diff", "made:1.0.0", "made:2.0.0"),
        ("slices", "made", "train"),
        ("verify", "made", "--num_workers=1"),
        ("materialize", "made", "--to", "new", "--dry_run"),
        ("materialize", "made", "--to", "new", "--features", EVIL),
        ("export", "made", "--to", "{folder}/out", "--dry_run"),
        ("head", "made", "--split", EVIL),
        ("info", "{folder}/" + EVIL),
    ],
)
def test_no_command_lets_it_through(evil, args, capsys):
    command, *rest = [arg.format(folder=evil) for arg in args]
    main([command, *rest, "--data_dir", str(evil)])
    printed = capsys.readouterr()
    assert printed.out + printed.err
    assert not controls(printed.out + printed.err)


def test_tables_are_aligned_and_cut_in_a_terminal(monkeypatch):
    rows = [["a", 1_000_000], ["日本" * 9, 2], ["c\x1b[2J\n", 3]]
    whole = table(["feature", "values"], rows, short=(0,)).splitlines()
    assert {text_width(line) for line in whole} == {4 * 9 + 2 + 9}
    assert whole[2].startswith("日本" * 9)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "23")
    assert table(["feature", "values"], rows, short=(0,)).splitlines() == [
        "feature" + 5 * " " + "     values",
        "a" + 11 * " " + "  1,000,000",
        "日本日本..." + " " + 10 * " " + "2",
        r"c\x1b[2J\n" + 2 * " " + 10 * " " + "3",
    ]
    assert table(["feature", "values"], rows).splitlines()[2] == whole[2]  # names to be typed are not cut


def test_long_names_of_features_are_folded_in_a_terminal(tmp_path, monkeypatch, capsys):
    long = "corner_of_its_box"
    features = {"objects": F.Sequence({"label": np.int64, "box": {long: np.float32}})}
    dataset_of(tmp_path, features, [{"objects": [{"label": 1, "box": {long: 0.5}}]}])
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["stats", "made", "--data_dir", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("objects."))
    assert [line.split()[0] for line in lines[begin : begin + 4]] == ["objects.box.", "corner_of_its", "_box", "items"]
    assert max(map(len, lines[begin - 2 : begin + 4])) <= 80


def test_the_page_of_statistics_shows_it_as_escapes(evil):
    file = evil / "page.html"
    assert main(["stats", "made", "--no_save", "--html", str(file), "--data_dir", str(evil)]) == 0
    text = file.read_text()
    assert not controls(text)
    assert rf"<h2>name{printable(EVIL)}</h2>" in text


# ------------------------------------------------------------------------------------------ streams that are not UTF-8

WORDS = "é 日本 😀"
BUILDER = f"""
import beam_datasets as bd

class Words(bd.DatasetBuilder, skip_registration=True):
    VERSION = "1.0.0"

    def _info(self):
        features = bd.features.FeaturesDict({{"{WORDS}": bd.features.Text()}})
        return bd.DatasetInfo(builder=self, description="{WORDS}", features=features)

    def _split_generators(self):
        print("{WORDS}")
        return {{"train": [(str(i), {{"{WORDS}": "{WORDS}"}}) for i in range(9)]}}
"""
COMMANDS = {  # arguments -> exit code
    "info made": 0,
    "info made --json": 0,
    "list": 0,
    "head made": 0,
    "slices made train[:50%]": 0,
    "stats made --html {folder}/page.html --num_workers 1": 0,
    "stats made --json": 0,
    "diff made {folder}/other/made/1.0.0": 1,
    "verify made": 0,
    "gc {folder}": 0,
    "adopt {folder}/loose/made-train* --features {folder}/loose/features.json --data_dir {folder}/new": 0,
    "export made --format jsonl --to {folder}/out --num_workers 1": 0,
    "materialize made --to copy --num_workers 1": 0,
    "build {folder}/bd_test_words.py --num_workers 1": 0,
    "info words": 0,
    "info nothing": 1,
    "--help": 0,
}


@pytest.mark.parametrize(
    "encoding", ["C", *(pytest.param(name, marks=pytest.mark.slow) for name in ("ascii", "latin-1"))]
)
def test_every_command_prints_in_any_encoding(tmp_path, encoding):
    """If standard output is not UTF-8, what it cannot show is escaped, and no command fails."""
    tree = {WORDS: F.Text(), "label": F.ClassLabel(names=[WORDS, "b"]), "image": F.Image(shape=(4, 4, 3))}
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    examples = [{WORDS: f"{WORDS} {i}", "label": i % 2, "image": pixels} for i in range(9)]
    shutil.copytree(dataset_of(tmp_path, tree, examples), tmp_path / "loose")
    (tmp_path / "loose" / "dataset_info.json").unlink()
    dataset_of(tmp_path / "other", tree, [*examples[:-1], {**examples[-1], WORDS: "ü"}])
    (tmp_path / "bd_test_words.py").write_text(BUILDER, encoding="utf-8")
    commands = [command.format(folder=tmp_path).split() for command in COMMANDS]
    code = (
        "import sys\nfrom beam_datasets.cli import main\n"
        f"for args in {commands!a}:\n    print('exit code', main(args), file=sys.stderr)"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    if encoding == "C":
        encoding = "ascii"
        env |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    else:
        env["PYTHONIOENCODING"] = encoding
    env["BEAM_DATASETS_DATA_DIR"] = str(tmp_path)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300, check=False, env=env)
    out, err = done.stdout.decode(encoding), done.stderr.decode(encoding)
    codes = [int(line.split()[-1]) for line in err.splitlines() if line.startswith("exit code ")]
    assert dict(zip(COMMANDS, codes)) == COMMANDS, err
    assert "Traceback" not in err
    assert out.count(WORDS.encode(encoding, "backslashreplace").decode(encoding)) > 9


# The bar of a build


def test_examples_then_bytes_with_their_rates(capsys):
    with progress_bars() as bar:
        bar(Progress(0, 0, 0, 0))
        bar(Progress(1500, 2_000_000, 0, 0))
        encoding = capsys.readouterr().err
        bar(Progress(3000, 4_000_000, 2, 1_000_000))
        bar(Progress(0, 0, 4, 4_000_000))
    writing = capsys.readouterr().err
    assert "Encode: 1.50k examples" in encoding
    assert "examples/s" in encoding
    assert "1.9 MiB" in encoding
    assert "Write: " in writing
    assert "100%" in writing
    assert "4 shards" in writing
    assert writing.endswith("\r")


def test_the_bar_has_the_units_and_the_time_left(capsys, monkeypatch):
    clock = iter([100.0, 130.0, 160.0])
    monkeypatch.setattr("beam_datasets.cli.printing.time.monotonic", lambda: next(clock))
    with progress_bars() as bar:
        bar(Progress(0, 0, 0, 0, num_units=4))
        bar(Progress(1500, 2_000_000, 0, 0, 1, num_units=4))
    assert "1.9 MiB, units: 1 of 4, about 180 s left to encode" in capsys.readouterr().err


def test_the_bar_of_a_terminal_without_a_width_is_shown(tmp_path):
    code = (
        "from beam_datasets.cli.printing import progress_bars\n"
        "from beam_datasets.publishing.progress import Progress\n"
        "with progress_bars() as bar: bar(Progress(1500, 2_000_000, 0, 0))"
    )
    process, terminal = pty.fork()
    if process == 0:
        os.execv(sys.executable, [sys.executable, "-c", code])
    shown = b""
    with contextlib.suppress(OSError):  # raised at the end of the output
        while chunk := os.read(terminal, 4096):
            shown += chunk
    os.close(terminal)
    assert os.waitpid(process, 0)[1] == 0
    assert b"Encode: 1.50k examples" in shown


def test_nothing_is_shown_of_a_run_that_did_nothing(capsys):
    with progress_bars():
        pass
    assert not capsys.readouterr().err


def test_lines_where_there_is_no_terminal(capsys, monkeypatch):
    progress_lines()(Progress(1500, 2_000_000, 0, 0))
    assert not capsys.readouterr().err
    clock = iter([100.0, 101.0, 102.0, 132.0, 162.0, 192.0, 222.0])
    monkeypatch.setattr("beam_datasets.cli.printing.time.monotonic", lambda: next(clock))
    lines = progress_lines()  # at 100
    lines(Progress(10, 1000, 0, 0))  # too early
    lines(Progress(0, 0, 0, 0))
    assert capsys.readouterr().err == "the source is being read; no example is encoded yet\n"
    lines(Progress(1500, 2_000_000, 0, 0, 2, num_units=20))
    assert capsys.readouterr().err == (
        "1,500 examples encoded, 1.9 MiB, 50 examples/s; units: 2 of 20; about 288 s left to encode\n"
    )
    lines(Progress(3000, 4_000_000, 0, 0, num_units=20))  # no unit has a checkpoint
    assert capsys.readouterr().err == "3,000 examples encoded, 3.8 MiB, 50 examples/s\n"
    lines(Progress(3000, 4_000_000, 2, 1_000_000))
    assert capsys.readouterr().err == "2 shards written, 976.6 KiB; about 90 s left to write\n"
    lines(Progress(3000, 4_000_000, 4, 4_000_000))
    assert capsys.readouterr().err == "4 shards written, 3.8 MiB\n"


def test_a_slow_start_is_announced(capsys, monkeypatch):
    monkeypatch.setattr(progress, "is_shown", True)
    with announced("Apache Beam is being imported", seconds=60):
        pass
    assert not capsys.readouterr().err
    printed = threading.Event()
    monkeypatch.setattr("sys.stderr", SimpleNamespace(write=lambda text: printed.set()))
    with announced("Apache Beam is being imported", seconds=0):
        assert printed.wait(30)
    printed.clear()
    monkeypatch.setattr(progress, "is_shown", False)
    with announced("Apache Beam is being imported", seconds=0):
        pass
    assert not printed.is_set()


def test_a_quiet_command_shows_no_progress(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(http, "show_progress", True)
    monkeypatch.setattr(progress, "is_shown", True)
    lines = progress_lines(seconds=0.0, first=0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert main(["list", "--data_dir", str(tmp_path), "--quiet"]) == 0
    assert (progress.is_shown, http.show_progress) == (False, False)
    capsys.readouterr()
    lines(Progress(1500, 2_000_000, 0, 0))
    with progress_bars() as bar, progress_bar("Compare", " examples") as other:
        bar(Progress(1500, 2_000_000, 0, 0))
        assert other is None
    assert not capsys.readouterr().err
    assert main(["list", "--data_dir", str(tmp_path)]) == 0
    assert progress.is_shown


def test_finished_units_before_the_first_example(capsys):
    """The blocks of a unit are counted when they are written, its checkpoint before."""
    progress_lines(first=0.0)(Progress(0, 0, 0, 0, 13, 20))
    assert "no example is encoded yet; units: 13 of 20" in capsys.readouterr().err
