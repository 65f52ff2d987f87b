"""`beam-datasets new` makes a dataset that passes its own test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def test_what_is_made_passes_its_own_test(run: Any, tmp_path: Path) -> None:
    code, printed, _ = run("new", "my_birds", "--to", tmp_path)
    assert code == 0
    made = tmp_path / "my_birds"
    assert sorted(printed.split("Test it")[0].split()) == sorted(str(f) for f in made.rglob("*") if f.is_file())
    done = subprocess.run(
        [sys.executable, "my_birds_test.py"],
        cwd=made,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "OK" in done.stderr


def test_names_that_cannot_be(run: Any, tmp_path: Path) -> None:
    (tmp_path / "birds").mkdir()
    for name, said in (
        ("birds", "exists already"),
        ("My Birds", "My Birds"),
        ("BigCats", "snake_case"),
        ("class", "snake_case"),
        ("json", "json_data"),
    ):
        code, _, err = run("new", name, "--to", tmp_path)
        assert code == 2
        assert said in err
