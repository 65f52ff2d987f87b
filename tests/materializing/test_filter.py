"""A filter of a file: any ordinary file, whose functions work in other processes too."""

import json
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest

from beam_datasets.errors import BeamDatasetsError
from beam_datasets.materializing.records import Filter

ORDINARY = """\
import enum
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

class Kind(enum.Enum):
    EVEN = 0

class Pair(NamedTuple):
    a: int

@dataclass(frozen=True)
class Limits:
    step: ClassVar[int] = 2
    kinds: list[Kind] = field(default_factory=lambda: [Kind.EVEN])

    def hold(self, example: dict) -> bool:
        return Kind(Pair(example["id"]).a % self.step) is Kind.EVEN if example["id"] % 2 == 0 else False

LIMITS = Limits()

def keep(example: dict) -> bool:
    return LIMITS.hold(example)
"""


@pytest.mark.parametrize("name", ["chosen", "json", "two.words", "not a name"])
def test_a_file_with_dataclasses_here_and_in_another_process(tmp_path: Path, name: str) -> None:
    file = tmp_path / f"{name}.py"
    file.write_text(ORDINARY)
    before = dict(sys.modules)
    found = Filter.of(f"{file}:keep")
    assert sys.modules == before
    assert sys.modules["json"] is json
    assert found.name == f"{name}:keep"
    assert [found.function({"id": i}) for i in range(4)] == [True, False, True, False]
    (tmp_path / "filter").write_bytes(cloudpickle.dumps(found.function))
    code = (
        f"import pickle; f = pickle.load(open({str(tmp_path / 'filter')!r}, 'rb'));"
        "print([f({'id': i}) for i in range(4)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.stdout == "[True, False, True, False]\n", done.stderr


def test_what_a_file_raises_passes_through_and_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("import dataclasses\nraise RuntimeError('no')\n")
    with pytest.raises(RuntimeError, match="^no$"):
        Filter.of(f"{file}:keep")
    assert "broken" not in sys.modules
    with pytest.raises(BeamDatasetsError, match="does not exist"):
        Filter.of(f"{tmp_path}/nothing.py:keep")
