"""What the README and the pages of docs/ show works as it stands there, and prints what they say."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = [
    "adopt",
    "building",
    "deriving",
    "diff",
    "engines",
    "exporting",
    "features",
    "format",
    "generating",
    "housekeeping",
    "looking",
    "materializing",
    "reading",
    "resuming",
    "slim",
    "splits",
    "stats",
    "tfds",
    "verifying",
]


def run_page(page: Path, folder: Path) -> str:
    """Runs a page's blocks in a folder, in a process of its own, and returns what they print."""
    command = [sys.executable, str(ROOT / "tests" / "pages.py"), str(page)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def readme(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder in which the README was run, whose dataset the pages go on with; and what it printed."""
    folder = tmp_path_factory.mktemp("readme")
    return folder, run_page(README, folder)


def test_readme_runs(readme: tuple[Path, str]) -> None:
    assert "900 {" in readme[1]


@pytest.mark.parametrize("page", PAGES)
def test_page_runs(readme: tuple[Path, str], tmp_path: Path, page: str) -> None:
    shutil.copytree(readme[0], tmp_path, dirs_exist_ok=True)
    shutil.copytree(ROOT / "pipelines", tmp_path / "pipelines")  # pages name its datasets as in a checkout
    run_page(ROOT / "docs" / f"{page}.md", tmp_path)


def test_readme_opens_with_the_two_commands() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    assert [line.split("#")[0].strip() for line in lines[2:6]] == ["```", "make quickstart", "make test", "```"]


def test_links_lead_somewhere() -> None:
    for page in [README, *(ROOT / "docs").glob("*.md")]:
        for path, anchor in re.findall(r"\]\((?!https?://)([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
            target = page.parent / path if path else page
            assert target.exists(), f"{page.name} links to {path}"
            assert not anchor or anchor in anchors(target), f"{page.name} links to {path}#{anchor}"


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_index_has_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    missing = [page.name for page in (ROOT / "docs").glob("*.md") if f"({page.name})" not in index]
    assert missing == ["index.md"]
