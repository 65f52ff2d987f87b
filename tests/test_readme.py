"""What the README shows works as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
_BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_readme_runs(tmp_path: Path) -> None:
    ran = []
    program = ""
    for language, file, text in _BLOCK.findall(README.read_text(encoding="utf-8")):
        ran.append(language)
        if file:
            (tmp_path / file).write_text(text)
        elif language == "python":  # later blocks go on where earlier ones ended
            program += text
        elif language == "sh":
            for line in text.splitlines():
                name, *args = shlex.split(line)
                assert name == "beam-datasets"
                _run([sys.executable, "-m", "beam_datasets.cli", *args], tmp_path)
    assert ran == ["python", "sh", "python", "python"]
    assert "900 {" in _run([sys.executable, "-W", "error", "-c", program], tmp_path)


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_readme_opens_with_the_two_commands() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    assert [line.split("#")[0].strip() for line in lines[2:6]] == ["```", "make quickstart", "make test", "```"]


def test_links_lead_somewhere() -> None:
    pages = [README, *(README.parent / "docs").glob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
