"""Orders, saved states and batches that each version must reproduce; `python -m tests.reading.pins` prints them.

tests/data/pins.json was printed by an early version. A difference from it breaks the orders and the states of users.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import beam_datasets as bd

DIGITS = Path(__file__).parent.parent / "data" / "states" / "digits" / "1.0.0"
TAKEN = (0, 1, 7, 16, 33, 95)  # items after which a state is saved
MAX_ITEMS = 400


def digits(split: str = "train", **options: Any) -> Any:
    """Returns the 300 examples of the dataset, each as its id."""
    builder = bd.builder_from_directory(DIGITS)
    return builder.as_dataset(split, **options).map(lambda example: int(example["id"]))


def _undecoded(split: str = "train", **options: Any) -> Any:
    return bd.builder_from_directory(DIGITS).as_dataset(split, **options)


def _mixture() -> Any:
    return bd.mix({_undecoded("train[:100]"): 1, _undecoded("train[100:]").shuffle(3): 2})


def _is_even(example: Any) -> bool:
    return int(example["id"]) % 2 == 0


PIPELINES: dict[str, Callable[[], Any]] = {
    "file order": digits,
    "slice": lambda: digits("train[10%:30%]+train[-20:]"),
    "narrow interleave": lambda: digits(
        read_config=bd.ReadConfig(interleave_cycle_length=2, interleave_block_length=5)
    ),
    "shuffled files": lambda: digits(shuffle_files=True, read_config=bd.ReadConfig(shuffle_seed=3)),
    "shuffled": lambda: digits().shuffle(7),
    "window": lambda: digits().shuffle(7, window=50),
    "repeated": lambda: digits().shuffle(2).repeat(2),
    "endless": lambda: digits().skip(20).take(30).shuffle(1).repeat(),
    "batches": lambda: digits().shuffle(7).batch(32),
    "whole batches": lambda: digits().batch(7, drop_remainder=True),
    **{f"worker {worker} of 3": lambda worker=worker: digits().shuffle(1).shard(worker, 3) for worker in range(3)},
    **{
        f"worker {worker} of 2 in blocks of {block}": lambda worker=worker, block=block: (
            digits().shard(worker, 2, block=block).batch(4)
        )
        for worker in range(2)
        for block in (1, 4, 7)
    },
    "worker of a worker": lambda: digits().shard(1, 2, block=8).shard(0, 2, block=2),
    "worker, shuffled again": lambda: digits().shard(1, 3, block=1).shuffle(2).repeat(2),
    "mixture": lambda: _mixture().map(lambda example: int(example["id"])),
    "shuffled mixture": lambda: _mixture().map(lambda example: int(example["id"])).shuffle(9).batch(3),
    "filtered": lambda: _undecoded().filter(_is_even).map(lambda example: int(example["id"])),
    "filtered and batched": lambda: _undecoded().shuffle(3).filter(_is_even).batch(6).map(lambda batch: batch["id"]),
    "packed": lambda: _undecoded().shuffle(3).map(_as_tokens).pack(16, ["tokens"]),
    "by length": lambda: _undecoded().map(_as_tokens).batch_by_length([3, 6], [4, 4, 2], length="tokens"),
}


def _as_tokens(example: Any) -> dict[str, Any]:
    return {"tokens": np.arange(int(example["id"]) % 9 + 1)}


def digest(value: Any) -> str:
    """Returns a digest of structure, dtypes, shapes and values."""
    return hashlib.sha256(repr(_plain(value)).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, _plain(value.ravel().tolist())
    if isinstance(value, np.generic):
        return str(value.dtype), repr(value.item())
    return repr(value)


def order(dataset: Any) -> dict[str, Any]:
    """Returns digests of the first epochs, and states with digests of what follows them."""
    epochs = [digest(list(itertools.islice(dataset.iterate(epoch=epoch), MAX_ITEMS))) for epoch in (0, 1)]
    states = []
    for taken in TAKEN:
        iterator = iter(dataset)
        before = list(itertools.islice(iterator, taken))
        try:
            state = json.loads(json.dumps(iterator.get_state()))
        except bd.errors.StateError:  # where a worker of a worker is in the middle of a block
            states.append({"taken": len(before), "state": None})
            continue
        rest = digest(list(itertools.islice(dataset.iterate(state=state), MAX_ITEMS)))
        states.append({"taken": len(before), "state": state, "rest": rest})
    return {"epochs": epochs, "states": states}


class Kinds(bd.DatasetBuilder):
    """A feature of each kind that has values of its own."""

    VERSION = "1.0.0"

    def _info(self) -> Any:
        return self.dataset_info_from_configs(features=bd.features.FeaturesDict(_features()))

    def _split_generators(self, dl_manager: Any = None) -> Any:
        return {"train": ((i, _example(i)) for i in range(50))}

    def _generate_examples(self) -> Any:
        raise NotImplementedError


def _features() -> dict[str, Any]:
    f = bd.features
    return {
        "scalar": np.int64,
        "small": np.uint8,
        "flag": np.bool_,
        "real": np.float32,
        "double": np.float64,
        "half": np.float16,
        "text": f.Text(),
        "label": f.ClassLabel(names=["a", "b", "c"]),
        "vector": f.Tensor(shape=(3,), dtype=np.float32),
        "matrix": f.Tensor(shape=(None, 2), dtype=np.int32),
        "texts": f.Tensor(shape=(2,), dtype=np.str_),
        "packed": f.Tensor(shape=(2, 2), dtype=np.int16, encoding="zlib"),
        "sequence": f.Sequence(np.int64),
        "fixed": f.Sequence(np.float32, length=2),
        "ragged": f.Sequence(f.Sequence(np.int64)),
        "rows": f.Sequence({"x": np.int64, "y": f.Text()}),
        "inner": {"a": np.int64, "b": {"c": f.Text()}},
        "box": f.BBoxFeature(),
        "maybe": f.Scalar(np.int64, optional=True),
        "maybe_text": f.Text(optional=True),
        "maybe_vector": f.Tensor(shape=(2,), dtype=np.float32, optional=True),
        "words": f.Translation(["en", "de"]),
    }


def _example(i: int) -> dict[str, Any]:
    return {
        "scalar": i - 25,
        "small": i,
        "flag": i % 2 == 0,
        "real": i / 8,
        "double": i / 8,
        "half": i / 8,
        "text": f"text {i} é",
        "label": i % 3,
        "vector": [i, i + 0.5, -i],
        "matrix": np.arange(2 * (i % 4), dtype=np.int32).reshape(-1, 2),
        "texts": [f"{i}", "ü"],
        "packed": np.arange(4, dtype=np.int16).reshape(2, 2) * i,
        "sequence": list(range(i % 5)),
        "fixed": [i, -i],
        "ragged": [list(range(j)) for j in range(i % 4)],
        "rows": [{"x": j, "y": f"y{j}"} for j in range(i % 3)],
        "inner": {"a": i, "b": {"c": f"c{i}"}},
        "box": bd.features.BBox(0.125, 0.25, 0.5, 0.75),
        "maybe": None if i % 3 else i,
        "maybe_text": None if i % 2 else f"{i}",
        "maybe_vector": None if i % 5 else [i, i],
        "words": {"en": f"e{i}", "de": f"d{i}"},
    }


def values() -> dict[str, Any]:
    """Returns digests of examples and batches of each feature, and of the published shard."""
    with tempfile.TemporaryDirectory() as directory:
        builder = Kinds(data_dir=directory)
        published = builder.build(num_shards={"train": 2}, num_workers=1)
        shards = sorted(path for path in Path(published).iterdir() if ".tfrecord" in path.name)
        result: dict[str, Any] = {
            "shards": {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in shards}
        }
        for name in _features():
            dataset = builder.as_dataset("train", decoders=bd.decode.PartialDecoding({name: True}))
            result[name] = {
                "examples": digest([_listed(example[name]) for example in dataset]),
                "at": digest(_listed(dataset[7][name])),
                "batches": _digest_or_error(dataset.batch(16), name),
                "padded": _digest_or_error(dataset.padded_batch(16), name),
                "shuffled": _digest_or_error(dataset.shuffle(3).batch(16), name),
            }
    return result


def _listed(value: Any) -> Any:
    """Returns the value with nested datasets as lists."""
    is_nested = not isinstance(value, (dict, list, tuple, str, bytes, np.ndarray, np.generic)) and hasattr(
        value, "__iter__"
    )
    return [_listed(item) for item in value] if is_nested else value


def _digest_or_error(batches: Any, name: str) -> str:
    try:
        return digest([batch[name] for batch in batches])
    except Exception as error:
        return type(error).__name__


def pins() -> dict[str, Any]:
    """Returns all of them, as JSON holds them."""
    return {"orders": {name: order(make()) for name, make in PIPELINES.items()}, "values": values()}


if __name__ == "__main__":
    print(json.dumps(pins(), indent=1))
