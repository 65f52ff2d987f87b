"""Both columns of the pages in docs/how-to/coming-from run, with the library that a page is about."""

from __future__ import annotations

import importlib
import inspect
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets.formats.tfrecord import frame_all
from beam_datasets.metadata.keys import hash_key

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the libraries are not ours to mend
PAGES = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "coming-from"
LIBRARIES = {  # page -> modules that it needs
    "hugging-face": ("datasets", "torch", "pandas", "pyarrow"),
    "pytorch": ("torch", "torchdata.stateful_dataloader"),
    "tf-data": ("tensorflow",),
    "tfds": ("tensorflow_datasets", "pandas"),
    "mosaicml": ("streaming",),
    "webdataset": ("webdataset",),
    "seqio": ("seqio",),
}
FEATURES = {
    "number": bd.features.Scalar("int64"),
    "square": bd.features.Scalar("float32"),
    "parity": bd.features.ClassLabel(names=["even", "odd"]),
}


def functions(example: Any) -> Any:
    """Stands for `function` of the pages; worker processes import it."""
    return example


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The examples of the README's dataset, which is in the current directory, in one shard."""
    folder = tmp_path / "data" / "squares" / "1.0.0"
    folder.mkdir(parents=True)
    encode = bd.features.compile_encoder(FEATURES)
    numbers = sorted(range(1000), key=lambda n: hash_key("train", n))
    found = [{"number": n, "parity": n % 2, "square": float(n * n)} for n in numbers]
    shard = folder / "squares-train.tfrecord-00000-of-00001"
    shard.write_bytes(b"".join(frame_all([encode(row) for row in found])))
    bd.adopt(folder / "*", FEATURES)
    monkeypatch.chdir(tmp_path)
    return found


def setups(text: str) -> tuple[str, str]:
    """Returns the two blocks of a page that come before its table: those of the other library and of this one."""
    (_, other), (name, ours) = re.findall(r"^```py\n# (.*?)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert name == "beam_datasets"
    return other, ours


def table(text: str) -> Iterator[tuple[str, str, str]]:
    """Yields the code of both columns of each row, and what differs."""
    for line in re.findall(r"^\| (`.*) \|$", text, re.MULTILINE):
        there, here, differs = re.fullmatch(r"`(.+?)` \| `(.+?)` \|(.*)", line).groups()
        yield there, here, differs.strip()


@pytest.mark.slow
@pytest.mark.parametrize("page", LIBRARIES)
def test_both_columns_run(rows: list[dict[str, Any]], page: str) -> None:
    for module in LIBRARIES[page]:
        if module.partition(".")[0] not in os.environ.get("BEAM_DATASETS_ADAPTERS", "").split():
            pytest.importorskip(module, reason="make test-adapters and make test-coming-from install it")
        importlib.import_module(module)
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    there: dict[str, Any] = {"rows": rows, "function": functions}
    here: dict[str, Any] = {"function": functions}
    other_setup, our_setup = setups(text)
    exec(other_setup, there)
    exec(our_setup, here)
    here |= {name: value for name, value in there.items() if inspect.ismodule(value) and name not in here}
    count = 0
    for left, right, differs in table(text):
        one, other = eval(left, there), eval(right, here)
        assert differs or plain(one) == plain(other), f"{left} | {right}"
        count += 1
    assert count >= 7


def test_each_page_has_a_test_and_rows() -> None:
    pages = {path.stem for path in PAGES.glob("*.md")}
    assert pages == set(LIBRARIES)
    for page in pages:
        text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
        assert len(list(table(text))) == len(re.findall(r"^\| `", text, re.MULTILINE))
        assert all(setups(text))


def plain(value: Any) -> Any:
    """Returns a value as Python's own types, to be compared."""
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return repr(value) if getattr(value, "names", None) else np.asarray(value).tolist()
