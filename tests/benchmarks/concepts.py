"""Counts what a newcomer must hold in mind: functions that a call enters, classes, circles of imports, docstrings.

Comprehensions, generator expressions and lambdas are functions, too, for Python before 3.12, and have no name. So each
call has two numbers: with them, and without.

`python tests/benchmarks/concepts.py` prints a table; `--list CALL` the functions that a call enters, in their order.
They are measures of how the code feels, not limits: a function that does two things is worse than two.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import beam_datasets as bd

PACKAGE = Path(bd.__file__).parent
RIDDLES = ("What", "Which", "How", "Of", "Where", "Who", "When", "That")  # first words that name no thing and no deed


class Measured(bd.DatasetBuilder):
    """A dataset of four features."""

    VERSION = "1.0.0"

    def _info(self) -> Any:
        features = bd.features
        return self.dataset_info_from_configs(
            features=features.FeaturesDict(
                {
                    "id": np.int64,
                    "text": features.Text(),
                    "label": features.ClassLabel(num_classes=3),
                    "vector": features.Tensor(shape=(3,), dtype=np.float32),
                }
            )
        )

    def _split_generators(self, _: Any = None) -> Any:
        return {"train": self._generate_examples(1000), "test": self._generate_examples(10)}

    def _generate_examples(self, count: int) -> Iterator[Any]:
        for i in range(count):
            yield i, {"id": i, "text": f"text {i}", "label": i % 3, "vector": np.ones(3, np.float32)}


def functions_entered(call: Callable[[], object]) -> list[tuple[str, str]]:
    """Returns (file, function) of each function of the package that a call enters, in order; imports are warm."""
    call()
    entered: dict[tuple[str, str, int], None] = {}

    def profile(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            file = Path(code.co_filename).relative_to(PACKAGE).as_posix()
            entered[file, getattr(code, "co_qualname", code.co_name), code.co_firstlineno] = None

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return [(file, name) for file, name, _ in entered]


def calls(root: Path) -> dict[str, Callable[[], object]]:
    """Returns the calls that are followed, by name."""
    published = Measured(data_dir=root).build(num_shards={"train": 4, "test": 1}, num_workers=1)
    train = bd.load("measured", data_dir=root, split="train")
    number = iter(range(1000))

    def build() -> object:
        builder = Measured(data_dir=root / f"built {next(number)}")
        return builder.build(num_shards={"train": 4, "test": 1}, num_workers=1)

    def materialize() -> object:
        return bd.materialize(published, split="train[:50%]", data_dir=root / f"made {next(number)}")

    return {
        "iter(ds.shuffle(7).batch(32)), first batch": lambda: next(iter(train.shuffle(7).batch(32))),
        "iter(ds.batch(32)), first batch": lambda: next(iter(train.batch(32))),
        "ds[5]": lambda: train[5],
        "bd.load(...)": lambda: bd.load("measured", data_dir=root, split="train"),
        "build": build,
        "materialize": materialize,
    }


def structure() -> dict[str, int]:
    """Returns counts over the source."""
    counts: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        is_reading = "reading" in path.relative_to(PACKAGE).parts
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Module):
                first = (ast.get_docstring(node) or "-").split()[0].strip(":,.")
                counts["docstrings"] += first != "-"
                counts[f"docstrings that begin with {', '.join(RIDDLES[:4])}, ..."] += first in RIDDLES
            counts["classes in reading/"] += is_reading and isinstance(node, ast.ClassDef)
            if isinstance(node, ast.FunctionDef) and node.args.kwarg and node.args.kwarg.annotation:
                counts["functions with **options: Any"] += ast.unparse(node.args.kwarg.annotation) == "Any"
    return dict(counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", metavar="CALL", help="print the functions that a call enters, such as build")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        for name, call in calls(Path(directory)).items():
            entered = functions_entered(call)
            if arguments.list == name:
                print(*(f"{file}  {function}" for file, function in entered), sep="\n")
            if not arguments.list:
                num_named = sum(not function.endswith(">") for _, function in entered)
                num_files = len({file for file, _ in entered})
                print(f"{name:45}{len(entered):5} functions in {num_files} files; {num_named} have a name")
    if not arguments.list:
        for name, count in structure().items():
            print(f"{name:45}{count:5}")


if __name__ == "__main__":
    main()
