"""A small dataset with real checksums, which fixtures publish and copy; and what damages and restores copies."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

import beam_datasets as bd
from beam_datasets import features, storage

FEATURES = features.FeaturesDict(
    {
        "n": np.int64,
        "label": features.ClassLabel(names=["even", "odd"]),
        "text": features.Text(),
        "values": features.Sequence(np.float32, length=4),
    }
)
SIZES = {"train": (60, 4), "test": (12, 2)}  # split -> examples, shards; so 15 and 6 in each

Copy = Callable[[], Path]
Fields = Mapping[str, object]


def example(n: int) -> dict[str, object]:
    """An example whose record has the same size for each n: so shards can be swapped for others of their size."""
    return {"n": n % 100, "label": n % 2, "text": f"{n:04d}", "values": np.full(4, n, np.float32)}


def build(
    data_dir: Path, tree: object, splits: Fields, *, name: str = "ds", info: Fields | None = None, **options: object
) -> Path:
    """Builds a dataset of given sources of keys and examples in this process, and returns its directory."""

    class Given(bd.DatasetBuilder, skip_registration=True):
        """A dataset."""

        VERSION = "1.0.0"

        def _info(self) -> bd.DatasetInfo:
            return bd.DatasetInfo(builder=self, features=tree, **(info or {}))

        def _split_generators(self) -> Fields:
            return splits

    Given.name = name
    return Path(Given(data_dir=data_dir).build(num_workers=1, **options))


def publish_dataset(data_dir: Path, *, ordered: bool = False) -> Path:
    """Publishes a dataset and returns its directory."""
    splits = {split: [(n, example(n)) for n in range(total)] for split, (total, _) in SIZES.items()}
    shards = {split: shards for split, (_, shards) in SIZES.items()}
    return build(data_dir, FEATURES, splits, info={"disable_shuffling": ordered}, num_shards=shards)


def restore(directory: Path, files: dict[str, bytes]) -> None:
    """Gives a directory the content that it had."""
    for path in directory.iterdir():
        if path.name not in files:
            path.unlink()
    for name, content in files.items():
        path = directory / name
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)


def edit_json(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    """Changes what a JSON file says."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content, indent=1, sort_keys=True))


def flip(path: Path, place: int) -> None:
    """Flips the lowest bit of a byte of a file; a negative place counts from the end."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def edit_info(directory: Path, **fields: object) -> None:
    """Replaces fields of dataset_info.json."""
    edit_json(directory / "dataset_info.json", lambda info: info.update(fields))


def upload(directory: Path | str, remote: str) -> str:
    """Copies the files of a directory to a store, and returns where they are."""
    for name in storage.list_dir(directory):
        storage.write_bytes(storage.join(remote, name), storage.read_bytes(storage.join(directory, name)))
    return remote
