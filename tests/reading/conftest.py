"""Small published datasets to read, written by the formats alone."""

import functools
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_datasets import features, storage
from beam_datasets.formats.example import serialize
from beam_datasets.metadata.keys import hash_key, ordered_key
from beam_datasets.reading.records import shards
from tests.diffing.versions import Made

Write = Callable[..., Path]


def write_dataset(
    directory: Path,
    splits: dict[str, Sequence[int]],
    *,
    indexed: bool = True,
    ordered: bool = False,
    manifest: bool = False,
    size: int = 0,
) -> Path:
    """Writes a dataset: example i of a split has `id` = i, and `key` = the key that gave it this place.

    Args:
        directory: to be made.
        splits: the shard lengths of each.
        indexed: whether the shards get an index.
        ordered: whether the dataset has disable_shuffling; its keys are then 0, 1, ...
        manifest: whether there is a manifest.json.
        size: bytes that each record has besides.
    """
    examples = {}
    for split, lengths in splits.items():
        keys = sorted(range(sum(lengths)), key=lambda key: ordered_key(key) if ordered else hash_key(split, key))
        examples[split] = {
            key: {"id": [i], "key": [key], "text": [b"x" * (size + key % 5)]} for i, key in enumerate(keys)
        }
    tree = features.FeaturesDict({"id": np.int64, "key": np.int64, "text": features.Text()})
    made = Made(tree, examples, lengths=splits, ordered=ordered, indexed=indexed, manifest=manifest, encode=serialize)
    return made.write(directory.parents[1], directory.name, directory.parent.name)


@pytest.fixture(scope="session")
def write(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Returns `write_dataset` without its first argument; it writes what was asked for before only once."""
    root = tmp_path_factory.mktemp("written")

    def make(splits: dict[str, Sequence[int]], **options: object) -> Path:
        name = "d" + hashlib.md5(repr((splits, sorted(options.items()))).encode()).hexdigest()
        directory = root / name / "1.0.0"
        return directory if directory.exists() else write_dataset(directory, splits, **options)  # type: ignore[arg-type]

    return make


def read_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the native functions that read, which ask the system for the same bytes."""
    for name in ("_read_record", "_read_records", "_run"):
        monkeypatch.setattr(shards, name, None)


class Storage:
    """Records the calls of functions that access storage, and the ranges (file, start, stop) that are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, str]] = []
        self.reads: list[tuple[str, int, int]] = []
        read_by_python(monkeypatch)
        for name, function in list(vars(storage).items()):
            if getattr(function, "__module__", "") == "beam_datasets.storage" and name[0] != "_":
                monkeypatch.setattr(storage, name, self._counted(name, function))

    def _counted(self, name: str, function: Any) -> Any:
        @functools.wraps(function)
        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            self.calls.append((name, Path(path).name))
            found = function(path, *arguments, **options)
            if name == "open_reader":
                read = found.read

                def counted_read(start: int = 0, stop: int | None = None) -> Any:
                    content = read(start, stop)
                    self.reads.append((Path(path).name, start, start + len(memoryview(content))))
                    return content

                found.read = counted_read
            return found

        return call

    def opened(self) -> list[str]:
        return [file for name, file in self.calls if name == "open_reader"]


def drain(iterator: Any, leave_out: str = "") -> tuple[list[Any], list[Any], str]:
    """Returns the items without a feature, the states before each and after the last, and the error."""
    items, states, error = [], [iterator.get_state()], ""
    try:
        for item in iterator:
            if leave_out:
                item.pop(leave_out, None)
            items.append(item)
            states.append(iterator.get_state())
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    return items, states, error
