"""The page docs/how-to/slim.md names what there is; test_docs.py runs its example."""

import re
from pathlib import Path

from beam_datasets import slim

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "slim.md"


def test_the_page_names_what_there_is():
    named = set(re.findall(r"`([A-Z]\w+)\(", PAGE.read_text(encoding="utf-8")))
    exported = {name for name in vars(slim) if name[0].isupper()}
    assert named <= exported
    assert exported - named == {"DataDecoder", "ItemHandler", "RecordReader", "DatasetDataProvider"}
