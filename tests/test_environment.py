"""What `beam-datasets versions` says of the environment."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets import environment, native
from beam_datasets.cli.main import COMMANDS, main

ROOT = Path(__file__).resolve().parents[1]


def test_versions_of_python_and_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: REQUIREMENTS)
    facts = environment.versions()
    assert facts["beam_datasets"].startswith(bd.__version__)
    assert facts["Python"].startswith(platform.python_version())
    assert facts["needed"] == f"numpy {np.__version__}, no-such-package not installed"
    assert facts["[image]"].startswith("pytest ")
    assert "[explore]" not in facts  # it has only the package itself
    assert "[dev]" not in facts


REQUIREMENTS = [
    "numpy>=1.24",
    "no-such-package<2,>=1",
    'pytest>=7; extra == "image"',
    'beam_datasets[image]; extra == "explore"',
    'pytest>=7; extra == "dev"',
]


def test_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", missing)
    assert "not installed" in environment.versions()["packages"]


def test_engines_and_the_native_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jars = tmp_path / ".apache_beam" / "cache" / "jars"
    jars.mkdir(parents=True)
    (jars / "beam-runners-flink-1.19-job-server-2.77.0.jar").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(native, "core", None)
    monkeypatch.setattr(native, "_problem", "it was not built")
    facts = environment.versions()
    assert facts["job servers"] == "beam-runners-flink-1.19-job-server-2.77.0.jar"
    assert facts["Java"] == facts["docker"] == "not installed"
    assert facts["native module"] == "it was not built"
    monkeypatch.setenv("BEAM_DATASETS_NATIVE", "0")
    assert "BEAM_DATASETS_NATIVE=0" in environment.versions()["native module"]


@pytest.mark.parametrize("code, expected", [(0, 'openjdk version "17.0.1" 2021-10-19'), (1, "not installed")])
def test_java_prints_more_than_its_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, expected: str
) -> None:
    """The values of variables, as everywhere, are not shown."""
    java = tmp_path / "java"
    lines = ("Picked up JAVA_TOOL_OPTIONS: -Dpassword=secret", 'openjdk version "17.0.1" 2021-10-19', "OpenJDK 64-Bit")
    java.write_text("#!/bin/sh\n" + "".join(f"echo '{line}' >&2\n" for line in lines) + f"exit {code}\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert environment.versions()["Java"] == expected


def test_values_of_variables_are_not_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("BEAM_DATASETS_DATA_DIR", "s3://key:secret@bucket")
    bd.show_versions()
    printed = capsys.readouterr().out
    assert re.search(r"^variables set +.*BEAM_DATASETS_DATA_DIR", printed, re.MULTILINE)
    assert "secret" not in printed
    assert main(["versions"]) == 0
    assert capsys.readouterr().out == printed
    assert main(["versions", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == environment.versions()


def test_the_template_of_issues_asks_for_a_command_that_exists() -> None:
    asked = re.findall(r"beam-datasets (\w+)", (ROOT / ".github/ISSUE_TEMPLATE/bug.yml").read_text(encoding="utf-8"))
    assert asked == ["versions"]
    assert set(asked) <= set(COMMANDS)
