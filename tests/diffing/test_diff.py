"""Edits of a dataset, each with the version number that it needs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets import features
from beam_datasets.diffing import diff
from beam_datasets.formats.example import entry, record, spans_of
from tests.diffing.versions import FEATURES, PETS, Made, example


def with_example(key: str, **changes: Any) -> Made:
    """Returns PETS with some values of an example of `train` changed."""
    train = PETS.splits["train"]
    return PETS.but(splits={**PETS.splits, "train": {**train, key: {**train[key], **changes}}})


def with_features(changes: dict[str, Any], convert: Callable[[dict[str, Any]], dict[str, Any]] = dict) -> Made:
    """Returns PETS with features added, changed, or (None) removed, and its examples converted."""
    tree = {name: feature for name, feature in {**FEATURES.features, **changes}.items() if feature is not None}
    splits = {
        split: {key: {n: v for n, v in convert(value).items() if n in tree} for key, value in examples.items()}
        for split, examples in PETS.splits.items()
    }
    return PETS.but(features=features.FeaturesDict(tree), splits=splits)


def with_train(train: dict[Any, Any]) -> Made:
    return PETS.but(splits={**PETS.splits, "train": train})


def with_info(**info: Any) -> Made:
    return PETS.but(info={**PETS.info, **info})


def other_serialization(value: dict[str, Any]) -> bytes:
    """Returns the record with its map entries in another order, as other libraries write them."""
    data, spans = spans_of(features.compile_encoder(FEATURES)(value))
    return record(b"".join(entry(name, data[slice(*spans[name])]) for name in sorted(spans, reverse=True)))


def labels(*names: str) -> Made:
    return with_features({"label": features.ClassLabel(names=list(names))})


TRAIN = PETS.splits["train"]
ZLIB = features.Tensor(shape=(2,), dtype=np.float32, encoding="zlib")
PARTS = features.Sequence({"size": np.int64, "name": features.Text(), "weight": np.float32})

EDITS: dict[str, tuple[str, Made]] = {
    "nothing": ("NONE", PETS),
    # what a reader cannot tell
    "description": ("PATCH", with_info(description="Pets, described at length.")),
    "metadata": ("PATCH", with_info(metadata=bd.MetadataDict(rows=26))),
    "feature described": ("PATCH", with_features({"text": features.Text(doc="What it says.")})),
    "other shard count": ("PATCH", PETS.but(num_shards=5)),
    "other serialization": ("PATCH", PETS.but(encode=other_serialization)),
    "stored as zlib": ("PATCH", with_features({"box": ZLIB})),
    "bounds said": ("PATCH", with_features({"id": features.Scalar(np.int32, minimum=0, maximum=99)})),
    # what is new, and leaves the old as it was
    "feature added": ("MINOR", with_features({"size": np.int64}, lambda e: {**e, "size": 1})),
    "feature added in a sequence": (
        "MINOR",
        with_features({"parts": PARTS}, lambda e: {**e, "parts": [{**part, "weight": 0.5} for part in e["parts"]]}),
    ),
    "nested features added": (
        "MINOR",
        with_features({"origin": {"place": features.Text()}}, lambda e: {**e, "origin": {"place": "here"}}),
    ),
    # what a reader of the old version would stumble over
    "text changed": ("MAJOR", with_example("key 7", text="pet seven")),
    "one bit of a float": (
        "MAJOR",
        with_example("key 7", box=np.nextafter(TRAIN["key 7"]["box"], np.float32(0))),
    ),
    "zero became minus zero": ("MAJOR", with_example("key 0", box=np.array([0.0, -0.0], np.float32))),
    "label of an example": ("MAJOR", with_example("key 7", label=2)),
    "label names swapped": ("MAJOR", labels("dog", "cat", "owl")),
    "label name added at the end": ("MAJOR", labels("cat", "dog", "owl", "yak")),
    "label names dropped": ("MAJOR", with_features({"label": features.ClassLabel(num_classes=3)})),
    "feature removed": ("MAJOR", with_features({"box": None})),
    "feature renamed": (
        "MAJOR",
        with_features({"text": None, "words": features.Text()}, lambda e: {**e, "words": e["text"]}).but(
            info={**PETS.info, "supervised_keys": ("words", "label")}
        ),
    ),
    "feature removed from a sequence": (
        "MAJOR",
        with_features(
            {"parts": features.Sequence({"size": np.int64})},
            lambda e: {**e, "parts": [{"size": part["size"]} for part in e["parts"]]},
        ),
    ),
    "dtype widened": ("MAJOR", with_features({"id": np.int64})),
    "shape opened": ("MAJOR", with_features({"box": features.Tensor(shape=(None,), dtype=np.float32)})),
    "number became a label": ("MAJOR", with_features({"id": features.ClassLabel(num_classes=100)})),
    "feature became optional": ("MAJOR", with_features({"id": features.Scalar(np.int32, optional=True)})),
    "length of a sequence fixed": ("MAJOR", with_features({"box": features.Sequence(np.float32, length=2)})),
    "feature added, example changed": (
        "MAJOR",
        with_features({"size": np.int64}, lambda e: {**e, "size": 1, "text": e["text"].replace("7", "seven")}),
    ),
    "example added": ("MAJOR", with_train({**TRAIN, "key 20": example(20)})),
    "example removed": ("MAJOR", with_train({key: value for key, value in TRAIN.items() if key != "key 3"})),
    "example under another key": (
        "MAJOR",
        with_train({"other key" if key == "key 3" else key: value for key, value in TRAIN.items()}),
    ),
    "split added": ("MAJOR", PETS.but(splits={**PETS.splits, "dev": {1: example(1)}})),
    "split removed": ("MAJOR", PETS.but(splits={"train": TRAIN})),
    "split renamed": ("MAJOR", PETS.but(splits={"training": TRAIN, "test": PETS.splits["test"]})),
    "splits in another order": ("MAJOR", PETS.but(splits={"test": PETS.splits["test"], "train": TRAIN})),
    "supervised keys changed": ("MAJOR", with_info(supervised_keys=("box", "label"))),
    "supervised keys removed": ("MAJOR", with_info(supervised_keys=None)),
    "keys lost": ("MAJOR", PETS.but(indexed=False)),
}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return PETS.write(tmp_path_factory.mktemp("old"), "1.2.3")


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_needs(edit: str, old: Path, tmp_path: Path) -> None:
    needed, made = EDITS[edit]
    for version, given in (("1.2.3", "NONE"), ("1.2.4", "PATCH"), ("1.3.0", "MINOR"), ("2.0.0", "MAJOR")):
        found = diff(old, made.write(tmp_path, version))
        assert (found.verdict.needed, found.verdict.given) == (needed, given), found.verdict.reasons
        order = ["NONE", "PATCH", "MINOR", "MAJOR"]
        assert found.verdict.kept == (order.index(given) >= order.index(needed))
        assert [r.needs for r in found.verdict.reasons][:1] == ([needed] if needed != "NONE" else [])
    assert str(found.verdict.lowest) == {"NONE": "1.2.3", "PATCH": "1.2.4", "MINOR": "1.3.0", "MAJOR": "2.0.0"}[needed]
