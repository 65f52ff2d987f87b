"""Comparisons of versions: edits and the numbers that they need, examples, and counts against Python's own."""

import itertools
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets import features
from beam_datasets.diffing import SplitDiff, diff
from beam_datasets.diffing.diffing import pair_by_keys
from beam_datasets.diffing.features import identical
from beam_datasets.errors import CorruptRecordError
from beam_datasets.features import RaggedArray
from beam_datasets.formats import tfrecord
from beam_datasets.formats.example import entry, parse_spans, record
from beam_datasets.reading.opening import builder_from_directory
from tests.cases import cases
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
    data, spans = parse_spans(features.compile_encoder(FEATURES)(value))
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
    for version, change in (("1.2.3", "NONE"), ("1.2.4", "PATCH"), ("1.3.0", "MINOR"), ("2.0.0", "MAJOR")):
        found = diff(old, made.write(tmp_path, version))
        assert (found.verdict.needed, found.verdict.given) == (needed, change), found.verdict.reasons
        order = ["NONE", "PATCH", "MINOR", "MAJOR"]
        assert found.verdict.kept == (order.index(change) >= order.index(needed))
        assert [r.needs for r in found.verdict.reasons][:1] == ([needed] if needed != "NONE" else [])
    assert str(found.verdict.lowest) == {"NONE": "1.2.3", "PATCH": "1.2.4", "MINOR": "1.3.0", "MAJOR": "2.0.0"}[needed]


def test_added_examples_are_no_part_of_the_old_ones(old: Path, tmp_path: Path) -> None:
    _, made = EDITS["example added"]
    texts = [reason.text for reason in diff(old, made.write(tmp_path, "2.0.0")).verdict.reasons]
    assert f"split 'train': 1 added to {len(TRAIN)} examples" in texts


# What counts as the same example, of every feature that there is


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
        spans = map(parse_spans, records)
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


# Counts of a comparison against dictionaries, lists and multisets of Python, for arbitrary splits


TREE = features.FeaturesDict({"v": np.int64})
MAPS = st.dictionaries(st.integers(0, 40), st.integers(0, 5), max_size=30)
LISTS = st.lists(st.integers(0, 5), max_size=30)


def made(values: dict[int, int], num_shards: int = 1, **options: Any) -> Made:
    splits = {"train": {key: {"v": value} for key, value in values.items()}, "rest": {0: {"v": 0}}}
    return Made(TREE, splits, num_shards=num_shards, **options)


def compared(old: Made, new: Made, **options: Any) -> SplitDiff:
    with tempfile.TemporaryDirectory() as root:
        found = diff(old.write(Path(root), "1.0.0"), new.write(Path(root), "1.0.1"), **options)
    return found.splits["train"]


def in_both(old: Sequence[Any], new: Sequence[Any]) -> int:
    """Returns how many values two multisets share."""
    return (Counter(old) & Counter(new)).total()


@cases(60)
@given(MAPS, MAPS, st.integers(1, 5), st.integers(1, 5), st.booleans())
def test_by_keys_as_dicts(
    old: dict[int, int], new: dict[int, int], old_shards: int, new_shards: int, ordered: bool
) -> None:
    found = compared(made(old, old_shards, ordered=ordered), made(new, new_shards, ordered=ordered))
    if not old or not new:  # a split without examples has no keys
        assert (found.same, found.removed, found.added) == (0, len(old), len(new))
        return
    shared = old.keys() & new.keys()
    removed, added = [old[key] for key in old.keys() - new.keys()], [new[key] for key in new.keys() - old.keys()]
    moved = in_both(removed, added)
    assert found.by == "keys"
    assert found.same == sum(old[key] == new[key] for key in shared)
    assert found.changed == len(shared) - found.same
    assert (found.moved, found.removed, found.added) == (moved, len(removed) - moved, len(added) - moved)


@cases(60)
@given(LISTS, LISTS, st.integers(1, 5), st.integers(1, 5))
def test_by_index_as_lists(old: list[int], new: list[int], old_shards: int, new_shards: int) -> None:
    def listed(values: list[int], num_shards: int) -> Made:
        return made(dict(enumerate(values)), num_shards, orders={"train": range(len(values))}, indexed=False)

    found = compared(listed(old, old_shards), listed(new, new_shards))
    same = [a == b for a, b in zip(old, new)]
    left = [value for i, value in enumerate(old) if i >= len(same) or not same[i]]
    right = [value for i, value in enumerate(new) if i >= len(same) or not same[i]]
    assert found.by == "index"
    assert found.same == sum(same)
    assert found.moved == in_both(left, right)
    assert found.same + found.changed + found.removed + found.moved == len(old)
    assert found.same + found.changed + found.added + found.moved == len(new)
    assert found.differs == (old != new)


@given(st.lists(st.binary(min_size=16, max_size=16), unique=True), st.data())
def test_the_merge_is_that_of_sets(keys: list[bytes], data: st.DataObject) -> None:
    old, new = (sorted(key for key in keys if data.draw(st.booleans())) for _ in range(2))

    def blocks(column: list[bytes]) -> Iterator[tuple[int, Any]]:
        cuts = sorted({0, len(column), *data.draw(st.lists(st.integers(0, len(column)), max_size=4))})
        for start, stop in itertools.pairwise(cuts):
            yield start, np.frombuffer(b"".join(column[start:stop]), np.uint8).reshape(-1, 16)

    pairs = list(pair_by_keys(blocks(old), blocks(new)))
    both = [(int(i), int(j)) for part in pairs for i, j in zip(part.old, part.new)]
    assert both == [(i, new.index(key)) for i, key in enumerate(old) if key in new]
    assert [i for part in pairs for i in part.removed.tolist()] == [i for i, k in enumerate(old) if k not in new]
    assert [i for part in pairs for i in part.added.tolist()] == [i for i, k in enumerate(new) if k not in old]


def test_records_larger_than_what_is_read_at_once() -> None:
    tree = features.FeaturesDict({"data": features.Tensor(shape=(None,), dtype=np.uint8, encoding="bytes")})
    sizes = [100_000, 3_000_000, 0, 900_000, 200_000, 1_500_000]
    old = {number: {"data": np.full(size, number, np.uint8)} for number, size in enumerate(sizes)}
    new = {**old, 3: {"data": np.full(900_001, 3, np.uint8)}, 5: {"data": np.append(old[5]["data"][1:], np.uint8(99))}}
    found = compared(*(Made(tree, {"train": examples}, ordered=True, num_shards=2) for examples in (old, new)))
    assert (found.same, found.changed) == (4, 2)
    assert [example.old_index for example in found.examples] == [3, 5]


PEAK = """
import sys, beam_datasets as bd
found = bd.diff(*sys.argv[1:], data_dir="/nowhere").splits["train"]
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(found.same, found.changed, found.removed, found.added, peak.split()[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of a process's memory from Linux's /proc")
def test_memory_does_not_grow_with_the_examples(tmp_path: Path) -> None:
    peaks = {}
    for count in (100_000, 1_000_000):
        rng = np.random.default_rng(count)
        numbers, values = np.arange(count), rng.integers(0, 2**31, count)
        in_old, in_new, changed = rng.random(count) > 0.01, rng.random(count) > 0.01, rng.random(count) < 0.01
        directories = [
            made(dict(zip(numbers[there].tolist(), given[there].tolist())), count // 50_000).write(tmp_path, version)
            for version, there, given in (("1.0.0", in_old, values), ("2.0.0", in_new, np.where(changed, -1, values)))
        ]
        done = subprocess.run([sys.executable, "-c", PEAK, *directories], capture_output=True, text=True, check=True)
        *counts, peak = map(int, done.stdout.split())
        both = in_old & in_new
        alone = (in_old & ~in_new).sum(), (in_new & ~in_old).sum()
        assert counts == [(both & ~changed).sum(), (both & changed).sum(), *alone]
        peaks[count] = peak
        shutil.rmtree(tmp_path)
    assert peaks[1_000_000] < peaks[100_000] + 16_000, peaks
