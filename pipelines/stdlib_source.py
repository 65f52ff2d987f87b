"""The Python source files of the running interpreter's standard library: real text that every machine has already.

    beam-datasets build stdlib_source --data_dir out

The dataset's version is Python's own, for that decides what the files hold. Tests and installed packages are left out.
"""

from __future__ import annotations

import hashlib
import re
import sys
import sysconfig
import tokenize
from pathlib import Path
from typing import Any

import apache_beam as beam

from beam_datasets import DatasetBuilder, DatasetInfo
from beam_datasets.features import FeaturesDict, Scalar, Sequence, Text

_LEFT_OUT = frozenset(("__pycache__", "site-packages", "dist-packages", "test", "tests", "idle_test"))
_IMPORT = re.compile(r"^\s*(?:from|import)\s+([A-Za-z_]\w*)", re.MULTILINE)
TEST_PERCENT = 20


class StdlibSource(DatasetBuilder):
    """One example a source file; train and test never share a package."""

    VERSION = "{}.{}.{}".format(*sys.version_info)

    def _info(self) -> DatasetInfo:
        return DatasetInfo(
            builder=self,
            description="Source files of Python's standard library, without its tests.",
            features=FeaturesDict(
                {
                    "path": Text(doc="below the library's folder, with /"),
                    "package": Text(doc="the package or module at the top that the file belongs to"),
                    "text": Text(),
                    "num_lines": Scalar("int64"),
                    "imports": Sequence(Text(), doc="what the file imports, top packages by name"),
                }
            ),
            homepage="https://docs.python.org/3/library/",
            license="PSF-2.0",
        )

    def _split_generators(self, pipeline: beam.Pipeline) -> dict[str, beam.PCollection[tuple[str, dict[str, Any]]]]:
        """Shares the files' names out; the workers read them."""
        root = sysconfig.get_path("stdlib")
        splits: dict[str, list[str]] = {"train": [], "test": []}
        for path in source_files(Path(root)):
            splits[split_of(path)].append(path)
        return {
            split: pipeline | f"Files of {split}" >> beam.Create(paths) | f"Read {split}" >> beam.Map(read_source, root)
            for split, paths in splits.items()
        }


def source_files(root: Path) -> list[str]:
    """Returns the names of the source files below a folder, with `/`, in order."""
    names = [path.relative_to(root).as_posix() for path in root.rglob("*.py")]
    return sorted(name for name in names if _LEFT_OUT.isdisjoint(name.split("/")[:-1]))


def package_of(path: str) -> str:
    """Returns the top package or module of a file.

    >>> package_of("json/decoder.py"), package_of("ast.py")
    ('json', 'ast')
    """
    return path.partition("/")[0].removesuffix(".py")


def split_of(path: str) -> str:
    """Returns the split of a file, decided by its package alone: files of one package are alike."""
    place = int.from_bytes(hashlib.md5(package_of(path).encode()).digest(), "big") % 100
    return "test" if place < TEST_PERCENT else "train"


def read_source(path: str, root: str) -> tuple[str, dict[str, Any]]:
    """Returns (key, example) of a file; its name is its key."""
    with tokenize.open(Path(root, path)) as file:  # minds the encoding that a file declares
        text = file.read()
    return path, {
        "path": path,
        "package": package_of(path),
        "text": text,
        "num_lines": text.count("\n"),
        "imports": sorted(set(_IMPORT.findall(text))),
    }
