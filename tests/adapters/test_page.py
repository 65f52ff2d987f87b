"""The sessions of docs/how-to/adapters.md, each in the environment that has its framework."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import beam_datasets as bd

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the frameworks are not ours to mend
ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "how-to" / "adapters.md"


@pytest.mark.parametrize(
    "heading, framework", [("PyTorch", "torch"), ("tf.data", "tf"), ("Grain", "grain"), ("JAX", "jax")]
)
def test_page(squares: None, request: pytest.FixtureRequest, heading: str, framework: str) -> None:
    request.getfixturevalue(framework)
    section = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    [text] = [part for part in section if part.startswith(f"{heading}\n")]
    sessions = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    test = doctest.DocTestParser().get_doctest(sessions, {}, heading, str(PAGE), 0)
    assert len(test.examples) > 3
    assert not doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed


def test_the_readme_trains(squares: None, torch: object) -> None:
    [block] = re.findall(r"^```py\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names = {"train": bd.load("squares", data_dir="data", split="train[:90%]")}
    exec(block, names)
    assert float(names["loss"]) == 0
