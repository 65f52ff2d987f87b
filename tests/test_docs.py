"""The code of the README and of the pages of docs/ runs as it is, and prints what they show."""

import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import beam_datasets as bd
from beam_datasets.cli import printing
from beam_datasets.formats.index import Index
from beam_datasets.publishing.progress import Progress
from tests import forked_commands, pages, rates

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
API = DOCS / "reference" / "api.md"
NOT_RUN = {
    "how-to/adapters.md": "run by tests/adapters/test_page.py",
    "how-to/flink.md": "run by tests/engines/test_flink.py, on a cluster",
    "how-to/flink-on-kubernetes.md": "its manifests are tested by tests/engines/test_kubernetes.py",
    "how-to/spark.md": "run by tests/engines/test_spark.py, on a cluster",
    "how-to/training.md": "run by tests/adapters/test_programs.py",
}
PAGES = [
    name
    for page in sorted(DOCS.rglob("*.md"))
    if (name := page.relative_to(DOCS).as_posix()) not in NOT_RUN
    and re.search(r"^```(python|sh|console)", page.read_text(encoding="utf-8"), re.MULTILINE)
]


# Its commands are processes that import all themselves, as those of the README; see `commands`.
PAGE_OF_PROCESSES = "how-to/looking.md"


def run_page(page: Path, folder: Path, *commands: Path) -> str:
    """Runs a page's blocks in a folder, in a process of its own, and returns their output.

    Args:
        page: the page.
        folder: the folder.
        commands: a folder whose commands stand before those of the environment.
    """
    command = [sys.executable, str(ROOT / "tests" / "pages.py"), str(page), *map(str, commands)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def readme(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder in which the README was run, whose dataset the pages use, and its output."""
    folder = tmp_path_factory.mktemp("readme")
    return folder, run_page(README, folder)


def test_readme_runs(readme: tuple[Path, str]) -> None:
    assert "900 {" in readme[1]


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a command `beam-datasets` that does not import Beam each time."""
    with forked_commands.served(tmp_path_factory.mktemp("commands") / "log") as folder:
        yield folder


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_page_runs(readme: tuple[Path, str], commands: Path, tmp_path: Path, page: str) -> None:
    shutil.copytree(readme[0], tmp_path, dirs_exist_ok=True)
    shutil.copytree(ROOT / "pipelines", tmp_path / "pipelines")  # pages name its datasets as in a checkout
    run_page(DOCS / page, tmp_path, *([] if page == PAGE_OF_PROCESSES else [commands]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "info squares --data_dir data",
        "info circles --data_dir data",
        "head squares --data_dir data --count many",
        "--imports given.py list --data_dir data",
    ],
)
def test_a_forked_command_is_the_command(
    readme: tuple[Path, str], commands: Path, tmp_path: Path, command: str
) -> None:
    shutil.copytree(readme[0] / "data", tmp_path / "data")
    (tmp_path / "given.py").write_text(
        "import os, sys\n"
        "print(sys.argv, sys.path[0], sys.stdin.read(), os.environ['GIVEN'], os.getcwd())\n"
        "print('apart', file=sys.stderr)\n"
    )
    ran = []
    for path in (commands, Path(sys.executable).parent):
        environment = {**os.environ, "PATH": f"{path}{os.pathsep}{os.environ['PATH']}", "GIVEN": "an ü"}
        ran.append(
            subprocess.run(
                f"beam-datasets {command}; echo $?",
                shell=True,
                input="a line\n",
                capture_output=True,
                text=True,
                cwd=tmp_path,
                env=environment,
                timeout=60,
                check=False,
            )
        )
    assert (ran[0].stdout, ran[0].stderr) == (ran[1].stdout, ran[1].stderr)


def test_readme_says_what_for_whom_why_and_what_is_needed_before_the_two_commands() -> None:
    opening, commands, rest = README.read_text(encoding="utf-8").split("```\n", maxsplit=2)
    assert [line.split("#")[0].strip() for line in commands.splitlines()] == ["make quickstart", "make test"]
    what, *questions = opening.removeprefix("# beam_datasets\n\n").strip().split("\n\n")
    assert len(re.findall(r"[.]( |$)", what, re.MULTILINE)) == 2
    assert [re.findall(r"^\*\*(.*?)\*\*", text)[0][:8] for text in questions] == ["For whom", "Why not ", "What do "]
    assert rest.strip().startswith("| compared with | advantages")


def test_the_readme_is_short() -> None:
    """Each of its blocks has at most ten lines of code, and its table a row for each system."""
    text = README.read_text(encoding="utf-8")
    for block in re.findall(r"^```(?:python|py|sh)\b.*?\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        assert len([line for line in block.splitlines() if line.strip()]) <= 10
    assert len(re.findall(r"^\| .* as fast \|", text, re.MULTILINE)) == len(rates.SYSTEMS) - 1


@pytest.mark.parametrize(
    "row, system",
    [
        *(("TFDS", "TFDS"), ("Grain with ArrayRecord", "ArrayRecord by TFDS"), ("MosaicML Streaming", "MosaicML MDS")),
        *((name, name) for name in ("WebDataset", "Hugging Face datasets", "LitData", "Lance")),
    ],
)
def test_the_readme_has_the_ratios_of_the_tables(row: str, system: str) -> None:
    [line] = re.findall(rf"^\| {row} \|.*$", README.read_text(encoding="utf-8"), re.MULTILINE)
    least, most = re.search(r"reads one by one ([\d.]+) to ([\d.]+) times as fast", line).groups()
    assert rates.ratios("read one by one", system) == pytest.approx((float(least), float(most)), rel=0.06)


def test_the_page_on_why_has_the_size_of_the_index() -> None:
    sizes = [len(Index([*range(0, 16 * n + 1, 16)], [bytes([i] * 16) for i in range(n)]).to_bytes()) for n in (7, 8)]
    page = (DOCS / "explanation" / "why.md").read_text(encoding="utf-8")
    assert f"| index | {sizes[1] - sizes[0]} bytes per example" in page


def test_what_others_do_faster_is_that_of_the_tables() -> None:
    lance = {way: rates.rates(way)["Lance"] for way in ("generate", "read in batches of 4,096")}
    ours = {way: rates.rates(way)[rates.OURS] for way in lance}
    faster = {(way, kind) for way in lance for kind in rates.WORKLOADS if lance[way][kind] > ours[way][kind]}
    assert faster == {("generate", "tabular"), ("generate", "tokens"), ("read in batches of 4,096", "tabular")}
    for way, kind, ratio in (("generate", "tabular", 0.8), ("generate", "tokens", 0.9)):
        assert ours[way][kind] / lance[way][kind] == pytest.approx(ratio, abs=0.05)
    assert ours["read in batches of 4,096"]["tabular"] / lance["read in batches of 4,096"]["tabular"] < 0.75
    for page in (README, DOCS / "explanation" / "why.md"):
        assert "0.8 and 0.9 of" in page.read_text(encoding="utf-8")
        assert re.search(r"4,096[^.]* 0\.7\b", page.read_text(encoding="utf-8"))


def test_the_page_on_performance_has_the_ratios_of_the_tables() -> None:
    tables = rates.TABLES.read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in tables.splitlines() if line[:2] == "| "]
    ratios = {(row[0], row[3].partition(":")[0], row[1]): row[5] for row in rows if len(row) > 5}
    page = (DOCS / "explanation" / "performance.md").read_text(encoding="utf-8")
    head, _, *lines = re.findall(
        r"^\|.*(?=\|$)", page.partition("<!-- /ratios -->")[0].partition("<!-- ratios -->")[2], re.M
    )
    checked = 0
    for title, *cells in ([cell.strip() for cell in line[1:].split("|")] for line in lines):
        way, _, other = title.rpartition(", compared with ")
        for workload, cell in zip([name.strip() for name in head.split("|")[2:]], cells):
            if cell != "-":
                assert ratios[way, other, workload] == cell, title
                checked += 1
    assert checked > 40


def test_the_plot_has_the_rates_of_the_tables() -> None:
    assert rates.PLOT.read_text(encoding="utf-8") == rates.svg(), "write it with: python -m tests.rates"


def test_links_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]:
        for path, anchor in re.findall(r"\]\((?!https?://)([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
            target = page.parent / path if path else page
            assert target.exists(), f"{page.name} links to {path}"
            assert not anchor or anchor in anchors(target), f"{page.name} links to {path}#{anchor}"


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_index_and_the_site_have_every_page() -> None:
    names = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    linked = set(re.findall(r"\]\(([\w/-]+\.md)\)", (DOCS / "index.md").read_text(encoding="utf-8")))
    assert linked == names - {"index.md", "why.md"}  # why.md only leads to explanation/why.md
    assert set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))) == names


def test_pages_that_code_names_exist() -> None:
    files = [
        file
        for folder in ("beam_datasets", "pipelines", "templates", "tests")
        for file in (ROOT / folder).rglob("*.py")
    ]
    for file in [ROOT / "Makefile", *files]:
        for page in re.findall(r"(?<![\w/])docs/[\w/-]+\.md", file.read_text(encoding="utf-8")):
            assert (ROOT / page).exists(), f"{file} names {page}"


def documented() -> list[str]:
    """Returns the names in the API reference."""
    return re.findall(r"^::: (\S+)$", API.read_text(encoding="utf-8"), re.MULTILINE)


MODULES = ("errors", "features", "decode")


def is_ours(kind: Any) -> bool:
    return (getattr(kind, "__module__", None) or "").startswith("beam_datasets")


def test_the_api_reference_has_every_public_name() -> None:
    public = {f"beam_datasets.{name}" for name in bd.__all__} - {f"beam_datasets.{name}" for name in MODULES}
    for module in (bd.errors, bd.features):
        kinds = {name: kind for name, kind in vars(module).items() if isinstance(kind, type)}
        public |= {f"{module.__name__}.{name}" for name, kind in kinds.items() if is_ours(kind)}
    assert public <= set(documented())


@pytest.mark.parametrize("name", documented())
def test_public_names_have_docstrings(name: str) -> None:
    module, _, last = name.rpartition(".")
    target = getattr(importlib.import_module(module), last)
    assert inspect.getdoc(target)
    members = vars(target) if isinstance(target, type) else {}
    functions = (types.FunctionType, property, classmethod, staticmethod)
    public = [member for member, value in members.items() if member[0] != "_" and isinstance(value, functions)]
    assert not [member for member in public if not inspect.getdoc(getattr(target, member))]


@pytest.mark.slow
def test_the_site_builds(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pages_leave_out_what_a_slow_run_says(capsys: pytest.CaptureFixture[str]) -> None:
    for now in [
        Progress(0, 0, 0, 0),
        Progress(0, 0, 0, 0, units_finished=1, num_units=8),
        Progress(1200, 5000, 0, 0, units_finished=2, num_units=8),
        Progress(1200, 5000, 1, 70),
        Progress(1200, 5000, 1200, 4000),
    ]:
        printing.progress_lines(first=-100.0)(now)
    with printing.announced("Apache Beam is being imported", seconds=0.0):
        pass
    lines = capsys.readouterr().err
    assert lines.count("\n") >= 5
    assert pages.leave_out_progress(f"{lines}Published: 1,200 examples\n") == "Published: 1,200 examples\n"
