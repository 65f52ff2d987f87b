"""What stands in a dataset does not command the terminal that shows it."""

from __future__ import annotations

import json
import unicodedata
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets import features as F
from beam_datasets.cli import main
from beam_datasets.cli.terminal import printable
from tests.exporting.conftest import dataset_of

if TYPE_CHECKING:
    from pathlib import Path

EVIL = "\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202e"


@given(st.text())
def test_what_is_shown_has_no_control_character_but_line_breaks_and_tabs(text: str) -> None:
    shown = printable(text)
    assert not controls(shown)
    assert printable(shown) == shown
    assert [c for c in text if not controls(c)] == [c for c in text if c in shown and not controls(c)]
    if not controls(text):
        assert shown == text


def controls(text: str) -> list[str]:
    bidirectional = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    return [
        c
        for c in text
        if (unicodedata.category(c) == "Cc" and c not in "\n\t") or unicodedata.bidirectional(c) in bidirectional
    ]


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with escape sequences wherever a text can be."""
    folder = tmp_path_factory.mktemp("evil")
    features = {
        f"name{EVIL}": F.Text(doc=EVIL),
        "label": F.ClassLabel(names=[f"a{EVIL}b", "b"]),
        f"deep{EVIL}": {f"x{EVIL}": np.int64},
    }
    examples: list[Any] = [
        {f"name{EVIL}": f"text{EVIL}{i}", "label": i % 2, f"deep{EVIL}": {f"x{EVIL}": i}} for i in range(4)
    ]
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
        ("head", "made", "--thumbnails"),
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
def test_no_command_lets_it_through(evil: Path, args: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    command, *rest = [arg.format(folder=evil) for arg in args]
    main([command, *rest, "--data_dir", str(evil)])
    printed = capsys.readouterr()
    assert printed.out + printed.err
    assert not controls(printed.out + printed.err)
