"""What somebody's own script says, on standard error, when it builds a dataset: in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """\
import sys
import beam_datasets as bd
from beam_datasets import features as F


class Shapes(bd.DatasetBuilder):
    VERSION = "1.0.0"

    def _info(self):
        return bd.DatasetInfo(builder=self, features=F.FeaturesDict({"n": F.Scalar("int64")}))

    def _split_generators(self):
        return {"train": self._shapes()}

    def _shapes(self):
        for n in range(40):
            BODY
            yield f"shape-{n:05d}", {"n": n}


if __name__ == "__main__":
    Shapes(data_dir="data").build(num_workers=int(sys.argv[1]), block_size=100)
"""


def run_script(script: str, num_workers: int, directory: Path) -> tuple[str, str]:
    (directory / "shapes.py").write_text(script)
    command = [sys.executable, "shapes.py", str(num_workers)]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=300, check=False)
    return done.stdout, done.stderr


def said_where(body: str, num_workers: int, directory: Path) -> str:
    out, said = run_script(SCRIPT.replace("BODY", body), num_workers, directory)
    assert out == ""
    return said


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_run_that_fails_says_why_and_little_else(tmp_path, num_workers):
    lines = said_where("assert n != 30, 'boom'", num_workers, tmp_path).splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-2].endswith("GenerationError: AssertionError: boom")
    assert lines[-1].endswith(
        f"after key 'shape-00029' (example 30 of 'train'), at {tmp_path}/shapes.py:17 in _shapes)"
    )
    assert len(lines) < 25
    assert "apache_beam" not in "".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("thread", ["", "threading.Thread(target=threading.Event().wait, daemon=True).start()"])
def test_what_workers_print_comes_to_standard_error(tmp_path, thread):
    """Of forked workers, which have text that this process has still to print; beside a thread of new processes."""
    script = SCRIPT.replace(
        "    Shapes(", f"    import threading\n    {thread}\n    print('begun', end='')\n    Shapes("
    )
    out, said = run_script(script.replace("BODY", "print('row', n)"), 2, tmp_path)
    assert out == "begun"
    assert said.splitlines() == [f"row {n}" for n in range(40)]


@pytest.mark.slow
def test_a_run_that_ends_well_says_nothing(tmp_path):
    assert said_where("pass", 2, tmp_path) == ""
