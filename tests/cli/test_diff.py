"""`beam-datasets diff` as a user types it: what it prints, and its exit codes."""

import json
import re

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets import features
from tests.diffing.versions import FEATURES, PETS, example
from tests.published import flip

TRAIN = PETS.splits["train"]
EDITED = PETS.but(
    num_shards=3,
    splits={
        "train": {
            **{key: value for key, value in TRAIN.items() if key != "key 3"},
            "key 7": {**TRAIN["key 7"], "text": "pet seven", "label": 2},
            "key 20": example(20),
        },
        "test": PETS.splits["test"],
    },
)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    for version, made in (("1.0.0", PETS), ("1.0.1", EDITED), ("2.0.0", EDITED), ("1.0.2", PETS.but(num_shards=1))):
        made.write(root, version)
    tree = features.FeaturesDict({**FEATURES.features, "age": features.Scalar(np.int64)})
    splits = {name: {key: {**e, "age": 3} for key, e in split.items()} for name, split in PETS.splits.items()}
    PETS.but(features=tree, splits=splits).write(root, "1.1.0")
    PETS.but(indexed=False).write(root, "1.2.0")
    EDITED.but(indexed=False).write(root, "1.2.1")
    return root


TEXT = """\
pets:1.0.0 -> pets:1.0.1

split  old  new  same  changed  removed  added  moved  paired by
train   20   20    18        1        1      1      0       keys
test     6    6     6        0        0      0      0       keys

train, changed
  example 0
    - label: 1 (dog)
    + label: 2 (owl)
    - text: 'pet 7'
    + text: 'pet seven'

train, removed
  example 17
    - box: [3.0, -3.0]
    - id: 3
    - label: 0 (cat)
    - parts.name: []
    - parts.size: []
    - text: 'pet 3'

train, added
  example 2
    + box: [20.0, -20.0]
    + id: 20
    + label: 2 (owl)
    + parts.name: ['part 0', 'part 1']
    + parts.size: [0, 1]
    + text: 'pet 20'

MAJOR  split 'train': 1 changed, 1 removed, 1 added, of 20 examples
PATCH  split 'train': number of shards: 2 -> 3; slices by shards and the read order differ
PATCH  split 'test': number of shards: 2 -> 3; slices by shards and the read order differ
"""


def test_what_it_prints(root, run):
    code, out, _ = run("diff", "pets:1.0.0", "pets:1.0.1", "--data_dir", root)
    assert code == 1
    verdict = "Needed: MAJOR; 1.0.0 -> 1.0.1 is a PATCH version, which is too low for the changes. Call it 2.0.0.\n"
    assert out == TEXT + verdict


@pytest.mark.parametrize(
    "old, new, code, verdict",
    [
        ("1.0.0", "1.0.0", 0, "Needed: NONE, for nothing differs."),
        ("1.0.0", "2.0.0", 0, "Needed: MAJOR; 1.0.0 -> 2.0.0 is a MAJOR version."),
        ("1.0.1", "2.0.0", 0, "Needed: NONE, for nothing differs. 1.0.1 -> 2.0.0 is a MAJOR version."),
        ("1.0.0", "1.0.2", 0, "Needed: PATCH; 1.0.0 -> 1.0.2 is a PATCH version."),
        ("1.0.0", "1.1.0", 0, "Needed: MINOR; 1.0.0 -> 1.1.0 is a MINOR version."),
        ("1.0.2", "1.1.0", 0, "Needed: MINOR; 1.0.2 -> 1.1.0 is a MINOR version."),
        (
            "1.0.0",
            "1.2.0",
            1,
            "Needed: MAJOR; 1.0.0 -> 1.2.0 is a MINOR version, which is too low for the changes. Call it 2.0.0.",
        ),
    ],
)
def test_exit_codes(old, new, code, verdict, root, run):
    got, out, _ = run("diff", root / "pets" / old, f"pets:{new}", "--data-dir", root)
    assert (got, out.splitlines()[-1]) == (code, verdict)


def test_indices_where_there_are_no_keys(root, run):
    out = run("diff", "pets:1.2.0", "pets:1.2.1", "--data_dir", root)[1]
    assert "train: paired index by index, because the old version has no keys\n" in out
    # 20 comes to stand third, and 3 is gone from the place of the eighteenth: what lies between has moved by one.
    (row,) = (line.split() for line in out.splitlines() if line.startswith("train "))
    assert row == ["train", "20", "20", "3", "1", "1", "1", "15", "index"]
    assert "    - text: 'pet 3'\n" in out
    assert "    + text: 'pet 20'\n" in out


def test_json_says_the_same(root, run):
    code, out, _ = run("diff", "pets:1.0.0", "pets:1.0.1", "--data_dir", root, "--json", "--examples", 1)
    told = json.loads(out)
    assert code == 1
    assert (told["needed"], told["given"], told["kept"], told["lowest"]) == ("MAJOR", "PATCH", False, "2.0.0")
    train = told["splits"]["train"]
    assert [train[kind] for kind in ("same", "changed", "removed", "added", "moved")] == [18, 1, 1, 1, 0]
    assert train["examples"][0] == {
        "kind": "changed",
        "old_index": 0,
        "new_index": 0,
        "old": {"label": "1", "text": "'pet 7'"},
        "new": {"label": "2", "text": "'pet seven'"},
    }


def test_some_splits_and_no_examples(root, run):
    options = ["--data_dir", root, "--examples", 0]
    code, out, _ = run("diff", "pets:1.0.0", "pets:1.0.1", *options, "--split", "test")
    assert code == 0
    assert out.endswith(" is a PATCH version.\nOnly test was compared: other splits may need more.\n")
    code, out, _ = run("diff", "pets:1.0.0", "pets:1.0.1", *options, "--split", "test", "--split", "train")
    assert (code, "example" in out.replace("20 examples", "")) == (1, False)


@pytest.mark.parametrize(
    "args, problem",
    [
        (["pets:1.0.0"], "required: NEW"),
        (["pets:1.0.1", "pets:1.0.0"], "has a lower number than the old one, pets:1.0.1; give the old one first"),
        (["pets:1.0.0", "pets:7.0.0"], "has no version 7.0.0; published versions: 1.0.0, 1.0.1"),
        (["pets:1.0.0", "pest:1.0.1"], "no dataset 'pest'.* Did you mean 'pets'"),
        (["pets:1.0.0", "1.0.1"], "'1.0.1' is not a dataset name"),
        (["pets:1.0.0", "/nowhere"], "/nowhere is not a published dataset"),
        (
            ["pets:1.0.0", "pets:1.0.1", "--split", "train[:5]"],
            "neither version has a split 'train\\[:5\\]'.* not slices",
        ),
        (["pets:1.0.0", "pets:1.0.1", "--examples", "-1"], "examples is -1"),
        (["pets:1.0.0", "pets:1.0.1", "--example", "1"], "unrecognized arguments: --example"),
    ],
)
def test_what_cannot_be_compared_is_2(args, problem, root, run):
    code, out, err = run("diff", *args, "--data_dir", root)
    assert (code, out) == (2, "")
    assert re.search(problem, err), err


def test_damage_is_named(tmp_path, run):
    old, new = (PETS.write(tmp_path, version) for version in ("1.0.0", "1.0.1"))
    shard = min(new.glob("*train*-of-00002"))
    flip(shard, 40)
    code, _, err = run("diff", old, new)
    assert code == 2
    assert f"{shard}, byte 0 (record 0): data CRC is" in err


def test_a_feature_of_another_type_is_not_compared(run, tmp_path):
    """Examples are not called the same where the type of a feature changed, whose values were not compared."""
    tree = features.FeaturesDict({**FEATURES.features, "id": features.Scalar(np.int64)})
    changed = {**TRAIN, "key 3": {**TRAIN["key 3"], "text": "other"}}
    PETS.write(tmp_path, "1.0.0")
    PETS.but(features=tree, splits={**PETS.splits, "train": changed}).write(tmp_path, "1.1.0")
    code, out, _ = run("diff", "pets:1.0.0", "pets:1.1.0", "--data_dir", tmp_path)
    assert code == 1
    assert "  ~ id: dtype: int32 -> int64\n" in out
    assert re.search(r"split +old +new +same +not compared +changed +removed.*\ntrain +20 +20 +0 +19 +1 +0", out)
    assert "\nNot compared, because their types changed: id\n" in out
    assert "\nMAJOR  feature 'id' changed its type, so its values were not compared: dtype: int32 -> int64\n" in out
    assert "Call it 2.0.0." in out
    code, out, _ = run("diff", "pets:1.0.0", "pets:1.1.0", "--data_dir", tmp_path, "--json")
    found = json.loads(out)
    assert (code, found["needed"], found["not_compared"]) == (1, "MAJOR", ["id"])
    train = found["splits"]["train"]
    assert (train["same"], train["not_compared"], train["changed"]) == (0, 19, 1)
    diff = bd.diff("pets:1.0.0", "pets:1.1.0", data_dir=tmp_path)
    assert diff.not_compared == ("id",)
    assert "'id' changed its type, so its values were not compared" in str(diff)
    renamed = features.FeaturesDict({"name": features.Text()})
    PETS.but(features=renamed, info={}, splits={"test": {"a": {"name": "x"}}}).write(tmp_path, "2.0.0")
    PETS.but(
        info={}, features=features.FeaturesDict({"title": features.Text()}), splits={"test": {"a": {"title": "y"}}}
    ).write(tmp_path, "3.0.0")
    test = bd.diff("pets:2.0.0", "pets:3.0.0", data_dir=tmp_path).splits["test"]
    assert (test.same, test.not_compared) == (0, 1)  # they share no feature
