"""What counts as the same example, of every feature that there is."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_datasets import features
from beam_datasets.diffing import diff
from beam_datasets.diffing.features import identical
from beam_datasets.errors import CorruptRecordError
from beam_datasets.features import RaggedArray
from beam_datasets.formats import tfrecord
from beam_datasets.formats.example import entry, record, spans_of
from beam_datasets.reading.opening import builder_from_directory
from tests.diffing.versions import PETS

TFDS = Path(__file__).parents[1] / "data" / "tfds"
MANY = TFDS / "spec_many" / "2.0.1"


def copied(tmp_path: Path, version: str, edit: Callable[[dict[bytes, bytes]], dict[bytes, bytes]]) -> Path:
    """Returns a copy of MANY whose records were edited: {name: feature} to the same."""
    directory = tmp_path / "spec_many" / version
    shutil.copytree(MANY, directory)
    info = directory / "dataset_info.json"
    info.write_text(info.read_text().replace('"2.0.1"', f'"{version}"'))
    for shard in directory.glob("*.tfrecord-*"):
        data = shard.read_bytes()
        records = tfrecord.unframe(data, tfrecord.scan(data, path=""), path="")
        spans = map(spans_of, records)
        edited = [edit({name: whole[slice(*span)] for name, span in found.items()}) for whole, found in spans]
        shard.write_bytes(b"".join(tfrecord.frame(record(b"".join(entry(*f) for f in e.items()))) for e in edited))
    return directory


def reversed_order(stored: dict[bytes, bytes]) -> dict[bytes, bytes]:
    return dict(sorted(stored.items(), reverse=True))


@pytest.mark.parametrize("decoded", [False, True])
def test_another_serialization_is_read_alike(decoded: bool, tmp_path: Path) -> None:
    new = copied(tmp_path, "2.0.2", reversed_order)
    if decoded:  # of features in another form it is the values that are compared, not what is stored
        tree = json.loads((new / "features.json").read_text())
        tree["featuresDict"]["features"]["image"]["image"]["encodingFormat"] = "jpeg"
        (new / "features.json").write_text(json.dumps(tree))
    found = diff(MANY, new)
    count = builder_from_directory(MANY).info.splits.total_num_examples
    assert sum(split.rewritten for split in found.splits.values()) == count
    assert sum(split.same for split in found.splits.values()) == count
    assert {split.by for split in found.splits.values()} == {"index"}
    assert (found.verdict.needed, found.verdict.kept) == ("PATCH", True)
    assert [change.path for change in found.features] == ["image"] * decoded


FEATURES_OF_MANY = sorted(features.from_json_text((MANY / "features.json").read_text()).keys())  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", FEATURES_OF_MANY)
def test_every_feature_is_compared(name: str, tmp_path: Path) -> None:
    """Of one feature the values of two examples are exchanged; no other is seen to differ."""
    kept: list[dict[bytes, bytes]] = []

    def own(stored: dict[bytes, bytes]) -> dict[bytes, bytes]:
        return {key: value for key, value in stored.items() if (key + b"/").startswith(f"{name}/".encode())}

    def exchange(stored: dict[bytes, bytes]) -> dict[bytes, bytes]:
        rest = {key: value for key, value in stored.items() if key not in own(stored)}
        kept.append(own(stored))
        return {**rest, **kept[max(0, len(kept) - 2)]}  # that of the example before

    found = diff(MANY, copied(tmp_path, "3.0.0", exchange), examples=1000)
    examples = [example for split in found.splits.values() for example in split.examples]
    seen = {path for example in examples for path in {**example.old, **example.new}}
    values = {str(stored) for stored in kept}
    assert (seen != set()) == (len(values) > 1)
    assert {path.partition("/")[0] for path in seen} <= {name}
    assert {example.kind for example in examples} <= {"changed"}


@pytest.mark.parametrize(
    "one, other, same",
    [
        (np.float32(np.nan), np.float32(np.nan), True),
        (np.float32(0.0), np.float32(-0.0), False),
        (np.int64(1), np.int32(1), False),
        (np.zeros(3), np.zeros((3, 1)), False),
        (np.array([b"a", None], object), np.array([b"a", None], object), True),
        (np.array([b"a", None], object), np.array([b"a", b""], object), False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": {"b": b"x"}}, {"a": {"b": b"x"}}, True),
        (b"a", "a", False),
        (None, None, True),
        (None, np.int64(0), False),
        (RaggedArray(np.arange(3), (np.array([1, 2]),)), RaggedArray(np.arange(3), (np.array([1, 2]),)), True),
        (RaggedArray(np.arange(3), (np.array([1, 2]),)), RaggedArray(np.arange(3), (np.array([2, 1]),)), False),
        (
            RaggedArray(np.arange(3), (np.array([1, 2]),)),
            RaggedArray(np.arange(3), (np.array([2]), np.array([1, 2]))),
            False,
        ),
        ([1, [2]], [1, [2]], True),
        ([1, [2]], [1, [3]], False),
    ],
)
def test_identical(one: Any, other: Any, same: bool) -> None:
    assert identical(one, other) == identical(other, one) == same


@pytest.mark.parametrize("shown", [0, 3])
def test_a_record_that_cannot_be_decoded_is_named(shown: int, tmp_path: Path) -> None:
    old = PETS.write(tmp_path, "1.0.0")
    new = PETS.but(encode=lambda value: b"no example").write(tmp_path, "1.0.1")
    shard = new / "pets-train.tfrecord-00000-of-00002"
    with pytest.raises(
        CorruptRecordError, match=re.escape(f"{shard}, byte 0 (record 0): the record cannot be decoded")
    ):
        diff(old, new, examples=shown)


def test_features_of_unknown_classes_are_compared_as_they_are_stored(tmp_path: Path) -> None:
    versions = []
    for version, text in (("1.0.0", "a"), ("1.0.1", "b")):
        train = {1: {**PETS.splits["train"]["key 1"], "text": text}}
        directory = PETS.but(splits={"train": train}, indexed=False).write(tmp_path, version)
        tree = json.loads((directory / "features.json").read_text())
        tree["featuresDict"]["features"]["text"] = {"pythonClassName": "my.Own", "jsonFeature": {"json": "{}"}}
        (directory / "features.json").write_text(json.dumps(tree))
        versions.append(directory)
    (example,) = diff(*versions).splits["train"].examples
    assert (example.kind, example.old, example.new) == ("changed", {"text/text": [b"a"]}, {"text/text": [b"b"]})
