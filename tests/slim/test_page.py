"""The example of docs/how-to/slim.md runs."""

import re
from pathlib import Path

from beam_datasets import slim

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "slim.md"


def test_the_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names = {}
    exec(code, names)
    assert names["label"] in (0, 1)


def test_the_page_names_what_there_is():
    named = set(re.findall(r"`([A-Z]\w+)\(", PAGE.read_text(encoding="utf-8")))
    exported = {name for name in vars(slim) if name[0].isupper()}
    assert named <= exported
    assert exported - named == {"DataDecoder", "ItemHandler", "RecordReader", "DatasetDataProvider"}
