"""A dataset of 20 source files, whose reading is counted, delayed and failed by variables of the environment."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import beam_datasets as bd
from beam_datasets.features import FeaturesDict, Scalar, Text

FILES = 20
EXAMPLES = 40  # a file


def write_sources(folder: Path) -> list[str]:
    """Writes the source files and returns their paths."""
    folder.mkdir()
    paths = [folder / f"{number:02d}.txt" for number in range(FILES)]
    for number, path in enumerate(paths):
        path.write_text("\n".join(f"{number}:{line} {'x' * (line * number % 97)}" for line in range(EXAMPLES)))
    return list(map(str, paths))


def _note(path: str, variable: str = "UNITS_LOG") -> None:
    """Notes that a file was read to its end, or in another log that one of its examples was; without a log nothing."""
    if variable in os.environ:
        with open(os.environ[variable], "a") as log:
            log.write(f"{path}\n")


def read(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the examples of a file."""
    for number, line in enumerate(Path(path).read_text().split("\n")):
        time.sleep(float(os.environ.get("UNITS_DELAY", "0")) / EXAMPLES)
        if path.endswith(os.environ.get("UNITS_BAD", "none")) and number == EXAMPLES // 2:
            raise ValueError("a bad record")
        _note(path, "UNITS_EXAMPLES")
        yield line.partition(" ")[0], {"n": number, "text": line}
    _note(path)


def _is_test(key: str) -> bool:
    return key.endswith("7")


def _is_train(key: str) -> bool:
    return not _is_test(key)


class Units(bd.DatasetBuilder, skip_registration=True):
    """Two splits of the same files."""

    VERSION = "1.0.0"

    def __init__(self, *, paths: list[str], scale: int = 1, **kwargs: Any) -> None:
        self._paths, self.scale = paths, scale
        super().__init__(**kwargs)

    def _info(self) -> bd.DatasetInfo:
        return bd.DatasetInfo(builder=self, features=FeaturesDict({"n": Scalar("int64"), "text": Text()}))

    def _split_generators(self) -> dict[str, bd.SourceUnits]:
        units = self._paths, read
        return {"train": bd.SourceUnits(*units, _is_train), "test": bd.SourceUnits(*units, _is_test)}
