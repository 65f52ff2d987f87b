"""The programs of docs/how-to/training.md, each run by the command above it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adapters.conftest import needed
from tests.processes import started

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "training.md"
SECTIONS = {
    heading: (command, program)
    for heading, command, program in re.findall(
        r"^## (.*?)\n.*?^```\n(.*?)^```\n```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
}
MODULES = {
    "PyTorch": ["torch", "torchdata"],
    "Lightning": ["torch", "lightning", "torchdata"],
    "Hugging Face Trainer": ["torch", "transformers"],
    "Accelerate": ["torch", "accelerate"],
    "JAX": ["jax"],
    "Keras": ["tensorflow"],
    "Grain": ["grain"],
    "scikit-learn": ["sklearn"],
}

ABORT = "terminate called without an active exception"
"""PyTorch at the end of the interpreter, if a thread of gloo still holds a tensor (pytorch/pytorch#179291)."""


def test_each_section_has_a_program_of_at_most_30_lines() -> None:
    assert list(SECTIONS) == list(MODULES) == re.findall(r"^## (.*)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert [heading for heading, (_, program) in SECTIONS.items() if len(program.splitlines()) > 30] == []


@pytest.mark.slow
@pytest.mark.parametrize("heading", MODULES)
def test_program(squares: Path, heading: str) -> None:
    for module in MODULES[heading]:
        needed(module)
    command, program = SECTIONS[heading]
    (squares / "train.py").write_text(program)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {
        "PATH": path,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
    }
    for _ in range(3):
        with started(
            ["bash", "-ec", command], cwd=squares, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            output = process.communicate(timeout=200)[0].decode()
        if ABORT not in output:
            break
    assert process.returncode == 0, output[-4000:]
    assert re.search(r"^epoch [12]: ", output, re.MULTILINE), output[-4000:]
    if (squares / "checkpoint.pt").exists():  # the same command continues with the next epochs
        done = subprocess.run(["bash", "-ec", command], cwd=squares, env=environment, capture_output=True, text=True)
        assert re.findall(r"^epoch (\d+): ", done.stdout, re.MULTILINE) == ["2", "3"], done.stdout + done.stderr


def test_each_section_says_what_to_install() -> None:
    extras = set(re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE))
    for section in PAGE.read_text("utf-8").split("\n## ")[1:]:
        [extra] = re.findall(r"\nTo install the dependencies, run `pip install '/path/to/checkout\[(\w+)\]'", section)
        assert extra in extras
