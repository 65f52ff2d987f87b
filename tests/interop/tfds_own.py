"""Runs the tests that the wheel of TFDS contains with the names of this package, and prints a table of their cases.

    python tests/interop/tfds_own.py [-v] [words of a module's name]

Test modules are imported from the wheel. Their imports of `tensorflow_datasets` give what `beam_datasets.tfds` has of
that name, or an adapter of `swapped.py`; what tests are made with (temporary directories, writers of files) stays
TFDS's. A name without an equivalent raises `NoEquivalent` when it is used. A case is a test, or one value of a test of
features. Each that differs must be listed in `DOCUMENTED`, with the row of docs/reference/tfds.md that says so.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import swapped
from documented import DOCUMENTED, NOT_RUN, PAGE

MODULES = (
    *(
        f"core.features.{name}_test"
        for name in (
            *("audio_feature", "bounding_boxes", "class_label_feature", "dataset_feature", "feature", "features"),
            *("image_feature", "labeled_image", "optional_feature", "scalar", "sequence_feature", "tensor_feature"),
            *("text_feature", "top_level_feature", "translation_feature", "video_feature"),
        )
    ),
    *("core.splits_test", "core.subsplits_utils_test", "core.reader_test", "core.utils.version_test"),
    *("core.decode.base_test", "core.decode.partial_decode_test", "core.naming_test", "core.dataset_builder_test"),
)


class Module(pytest.Module):
    """A test module of the wheel, with other names."""

    def _getobj(self) -> Any:
        return swapped.load(self.path)


class Plugin:
    """Collects the modules so, and the outcomes of tests."""

    @pytest.fixture(scope="session")
    def dummy_mnist(self, tmp_path_factory: pytest.TempPathFactory) -> Any:
        """Stands for the fixture of TFDS's conftest.py."""
        builder = swapped.dummies().DummyMnist(data_dir=tmp_path_factory.mktemp("mnist"))
        builder.download_and_prepare()
        return builder

    def __init__(self) -> None:
        self.problems: dict[str, str] = {}
        self.passed: set[str] = set()

    def pytest_pycollect_makemodule(self, module_path: Path, parent: Any) -> Any:
        return Module.from_parent(parent, path=module_path)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.problems[f"{Path(report.nodeid).stem}::(import)"] = str(report.longrepr)[-2000:]

    def pytest_runtest_logreport(self, report: Any) -> None:
        name = f"{Path(report.nodeid.partition('::')[0]).stem}::{report.nodeid.partition('::')[2]}"
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.problems[name] = crash.message if crash else str(report.longrepr)[-500:]
        elif report.when == "call" and report.passed:
            self.passed.add(name)


def row_of(case: str, problem: str) -> str | None:
    """Returns the row of the page that documents a difference; None if there is none."""
    return next((row for row, matches in DOCUMENTED if matches(case, problem)), None)


def main(args: list[str]) -> int:
    """Runs the tests, prints the table and returns 1 if a difference is not documented."""
    verbose, words = "-v" in args, [arg for arg in args if arg != "-v"]
    chosen = [name for name in MODULES if not words or any(word in name for word in words)]
    root = swapped.tfds_root()
    missing = [name for name in chosen if not (root / f"{name.replace('.', '/')}.py").is_file()]
    files = [str(root / f"{name.replace('.', '/')}.py") for name in chosen if name not in missing]
    plugin = Plugin()
    options = ["-q", "--noconftest", "--continue-on-collection-errors", f"--tb={'short' if verbose else 'no'}"]
    options += ["-p", "no:cacheprovider", "-W", "ignore", "--rootdir", str(root), "-c", os.devnull]
    pytest.main([*options, *files], plugins=[plugin])
    cases = dict.fromkeys(plugin.passed - swapped.TESTS_OF_VALUES, "") | plugin.problems | swapped.CASES
    counts: dict[str, Counter[str]] = {}
    used: Counter[str] = Counter()
    text = PAGE.read_text("utf-8")
    failed = False
    for case, problem in sorted(cases.items()):
        row = row_of(case, problem) if problem else ""
        kind = "same" if not problem else "documented" if row else "other"
        kind = "not run" if NOT_RUN(case, problem) and problem else kind
        counts.setdefault(case.partition("::")[0], Counter())[kind] += 1
        if kind == "documented":
            used[str(row)] += 1
        if kind == "other" or (verbose and problem):
            print(f"{kind.upper()} {case}\n    {problem[:600]}")
    for row in used:
        if row not in text:
            failed = True
            print(f"docs/reference/tfds.md has no row with {row!r}")
    print(f"{'module':28} {'same':>6} {'documented':>11} {'other':>6} {'not run':>8}")
    total: Counter[str] = Counter()
    for name, count in counts.items():
        total += count
        print(f"{name:28} {count['same']:6} {count['documented']:11} {count['other']:6} {count['not run']:8}")
    print(f"{'all':28} {total['same']:6} {total['documented']:11} {total['other']:6} {total['not run']:8}")
    if missing:
        print(f"not in the wheel: {', '.join(missing)}")
    return int(failed or total["other"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
