import json
import pickle
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from beam_datasets import features
from beam_datasets.errors import FeatureValueError, MetadataError
from beam_datasets.features import ClassLabel, FeaturesDict, Sequence
from beam_datasets.metadata.info import DatasetIdentity, DatasetInfo, MetadataDict
from beam_datasets.metadata.names import FilenameTemplate
from beam_datasets.metadata.splits import SplitDict, SplitInfo
from beam_datasets.metadata.version import Version
from tests.facts import raises_with

TFDS = Path(__file__).parents[1] / "data/tfds"
FILES = sorted(TFDS.glob("**/dataset_info.json"))
assert len(FILES) == 10


def read(content, **kwargs):
    return DatasetInfo.from_json_text(json.dumps(content), path="/d/dataset_info.json", **kwargs)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(TFDS).parent))
def test_what_tfds_wrote_is_read_and_written_alike(path):
    text = path.read_text("utf-8")
    info = DatasetInfo.from_json_text(text, path=str(path), directory=str(path.parent))
    assert info.to_json_text() == info.as_json == text
    assert info.stored["splits"]
    assert info.stored["schema"] is None
    assert info.data_dir == str(path.parent)
    content = json.loads(text)
    assert [list(map(int, split["shardLengths"])) for split in content["splits"]] == [
        split.shard_lengths for split in info.splits.values()
    ]
    for split in info.splits.values():
        assert all(Path(file).exists() for file in split.filepaths)


def test_attributes():
    path = TFDS / "spec_multi/small/1.0.0/dataset_info.json"
    info = DatasetInfo.from_json_text(path.read_bytes(), path=str(path))
    assert (info.name, info.config_name, str(info.version)) == ("spec_multi", "small", "1.0.0")
    assert info.full_name == "spec_multi/small/1.0.0"
    assert info.splits.dataset_name == "spec_multi/small:1.0.0"
    assert (info.config_description, list(info.config_tags)) == ("small cfg", ["content.data-type.tabular"])
    assert (info.release_notes, info.module_name, info.dataset_size) == ({"1.0.0": "init"}, "spec_generated", 132)
    many = DatasetInfo.from_json_text((TFDS / "spec_many/2.0.1/dataset_info.json").read_bytes(), path="")
    assert many.supervised_keys == ({"a": "image", "b": "text"}, "label")
    assert many.config_name is None
    three = DatasetInfo.from_json_text((TFDS / "spec_three/1.2.3/dataset_info.json").read_bytes(), path="")
    assert (three.homepage, three.license) == ("https://example.org/spec_three", "CC-BY-4.0")
    assert three.splits["train[2:4]+test"].num_examples == 7
    assert three.extra_files() == {"LICENSE": "CC-BY-4.0"}
    assert "full_name='spec_three/1.2.3'" in repr(three)


BUILDER = SimpleNamespace(
    name="spec_three",
    version=Version("1.2.3"),
    dataset_dir="/d/spec_three/1.2.3",
    __module__="spec_generated",
    builder_config=None,
    release_notes={"1.2.3": "small spec_three", "1.0.0": "first"},
)


def test_what_a_builder_says_is_written_as_tfds_writes_it():
    info = DatasetInfo(
        builder=BUILDER,
        description="Dataset spec_three.\n\n    Indented second paragraph é.",
        supervised_keys=("name", "idx"),
        homepage="https://example.org/spec_three",
        citation="\n    @misc{x,\n      title={y}}\n",
        license="CC-BY-4.0",
        metadata=MetadataDict({"note": "hello", "n": [1, 2]}),
    )
    splits = {"train": ([6, 6, 5, 6], 1010), "validation": ([2, 2, 1, 2], 351), "test": ([1, 1, 2, 1], 207)}
    directory = TFDS / "spec_three/1.2.3"
    assert info.to_json_text(splits) == (directory / "dataset_info.json").read_text("utf-8")
    assert info.extra_files() == {name: (directory / name).read_text("utf-8") for name in ("LICENSE", "metadata.json")}
    assert info.splits == SplitDict()
    assert pickle.loads(pickle.dumps(info)) == info


@pytest.mark.parametrize("keys", [("", "b"), ({}, ()), ("a", ("b", {"x": ("c",), "y": ""}), "w")], ids=repr)
def test_supervised_keys(keys):
    info = DatasetInfo(builder=DatasetIdentity("a", Version("1.0.0")), supervised_keys=keys)
    again = DatasetInfo.from_json_text(info.as_json, path="")
    assert again.supervised_keys == keys
    assert again.as_json == info.as_json


def test_code_wins_over_what_was_published():
    text = (TFDS / "spec_three/1.2.3/dataset_info.json").read_text("utf-8")
    stored, code = (features.FeaturesDict({name: np.int64}) for name in ("stored", "code"))
    published = DatasetInfo.from_json_text(text, path="").replace(features=stored, metadata=MetadataDict(n=1))
    info = DatasetInfo(builder=BUILDER, description="New.", features=code).with_published(published)
    assert (info.description, info.features, info.metadata) == ("New.", code, {"n": 1})
    assert (info.homepage, info.supervised_keys) == ("https://example.org/spec_three", ("name", "idx"))
    assert info.splits == published.splits
    assert info.data_dir == "/d/spec_three/1.2.3"
    other = published.replace(version=Version("2.0.0"), data_dir="/x")
    with raises_with(MetadataError, path="/x", expected="spec_three:1.2.3", got="spec_three:2.0.0"):
        info.with_published(other)


def test_both_spellings_of_names_and_numbers_are_read():
    camel = {
        "name": "a",
        "version": "1.0.0",
        "splits": [{"name": "train", "shardLengths": ["3", "4"], "numBytes": "9"}],
    }
    snake = {"name": "a", "version": "1.0.0", "splits": [{"name": "train", "shard_lengths": [3, 4.0], "num_bytes": 9}]}
    assert read(camel).splits == read(snake).splits
    assert read(camel).splits["train"].shard_lengths == [3, 4]
    assert read({"name": "a", "version": "1.0.0", "citation": None}).citation == ""


def test_what_nothing_keeps_is_carried_along():
    content = {
        "name": "a",
        "version": "1.0.0",
        "fileFormat": "tfrecord",
        "schema": {"feature": [{"name": "x"}]},
        "sizeInBytes": "77",
        "downloadChecksums": {"url": "abc"},
        "location": {"urls": ["https://x", "https://y"]},
        "redistributionInfo": {},
        "supervisedKeys": {"input": "x", "output": "y"},
        "dataSourceAccesses": [
            {"accessTimestampMs": "5", "fileSystem": {"path": "/f"}, "url": {}},
            {"tfdsDataset": {"name": "b", "dsNamespace": "n"}, "sqlQuery": {"sqlQuery": "select"}},
        ],
        "splits": [{"name": "train", "numShards": "3", "statistics": {"numExamples": "4"}}],
        "isBlocked": "why",
        "alternativeFileFormats": ["array_record"],
        "nondeterministicOrder": True,
    }
    info = read(content)
    assert (info.homepage, info.license, info.supervised_keys) == ("https://x", None, ("x", "y"))
    assert (info.download_size, info.is_blocked, info.nondeterministic_order) == (77, "why", True)
    assert info.splits["train"].num_examples == 0
    assert info.to_json_text() == json.dumps(content, indent=2, sort_keys=True)
    changed = json.loads(info.replace(splits=SplitDict([SplitInfo("test", [3], 4)])).to_json_text())
    assert [split["name"] for split in changed["splits"]] == ["test"]
    other = DatasetIdentity("b", Version("2.0.0"))
    assert json.loads(info.replace(builder=other).to_json_text()) == content | {"name": "b", "version": "2.0.0"}
    without = json.loads(read(content | {"features": {"a": 1}}, features=features.FeaturesDict({})).to_json_text())
    assert without == content  # the features are in a file of their own
    changed = json.loads(info.replace(homepage="https://z", license="MIT").to_json_text())
    assert changed["location"] == {"urls": ["https://z"]}
    assert changed["redistributionInfo"] == {"license": "MIT"}


@pytest.mark.parametrize("length", ["1_0", " 5 ", "\u0663", "", "+3", "-1", "9" * 20])
def test_lengths_that_only_python_takes_for_integers(length):
    with pytest.raises(MetadataError):
        read({"name": "a", "version": "1.0.0", "splits": [{"name": "train", "shardLengths": ["3", length]}]})


@pytest.mark.parametrize(
    "content, wanted",
    [
        ({"nom": "a"}, {"field": "nom", "mentions": ["citation"]}),
        ({"splits": [{}, {"shardLength": []}]}, {"field": "splits[1].shardLength", "mentions": ["shardLengths"]}),
        (
            {"splits": [{"shardLengths": [1, "x"]}]},
            {"field": "splits[0].shardLengths[1]", "got": "'x'", "expected": ["an integer"]},
        ),
        ({"splits": [{"shardLengths": [True]}]}, {"field": "splits[0].shardLengths[0]", "got": "True"}),
        ({"splits": {}}, {"field": "splits", "got": "{}", "expected": "a list"}),
        ({"name": 5}, {"field": "name", "got": "5", "expected": "a string"}),
        ({"name": "a\ud800"}, {"field": "name", "got": r"'a\ud800'", "expected": ["UTF-8"]}),
        ({"splits": [{"name": "\udc00"}]}, {"field": "splits[0].name", "got": r"'\udc00'", "expected": ["UTF-8"]}),
        ({"releaseNotes": {"\ud800": "x"}}, {"field": ["releaseNotes"], "got": r"'\ud800'", "expected": ["UTF-8"]}),
        ({"configName": "a", "config_name": "a"}, {"field": "config_name", "mentions": ["twice"]}),
        ({"disableShuffling": "yes"}, {"field": "disableShuffling", "got": "'yes'", "expected": "true or false"}),
        ([], {"got": "[]", "expected": "an object"}),
        ({"version": "1.0.0"}, {"field": "name", "mentions": ["missing"]}),
        ({"name": "a"}, {"field": "version", "mentions": ["missing"]}),
        ({"name": "a", "version": "1.0"}, {"mentions": ["'1.0'"]}),
        ({"name": "../a", "version": "1.0.0", "splits": [{"name": "t"}]}, {"got": "'../a'", "expected": ["dataset"]}),
        ({"name": "a", "version": "1.0.0", "splits": [{"name": "../t"}]}, {"got": "'../t'", "expected": ["split"]}),
        ({"name": "a", "version": "1.0.0", "splits": [{}]}, {"split": ""}),
        ({"name": "a", "version": "1.0.0", "splits": [{"name": "t"}, {"name": "t"}]}, {"split": "t"}),
        (
            {"name": "a", "version": "1.0.0", "splits": [{"name": "t", "filepathTemplate": "/x"}]},
            {"got": ["'/x'"], "expected": ["template"]},
        ),
        (
            {"name": "a", "version": "1.0.0", "splits": [{"name": "t", "shardLengths": ["-1"]}]},
            {"split": "t", "got": "-1"},
        ),
        (
            {"name": "a", "version": "1.0.0", "supervisedKeys": {"tuple": {"items": [{}, {}]}}},
            {"field": "supervisedKeys", "mentions": ["featureKey"]},
        ),
        ({"name": "a", "version": "1.0.0", "supervisedKeys": {}}, {"mentions": ["supervised_keys", "()"]}),
    ],
)
def test_damage_is_named(content, wanted):
    with raises_with(MetadataError, path="/d/dataset_info.json", **wanted) as caught:
        read(content)
    assert str(caught.value).startswith("/d/dataset_info.json: ")


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, b"\xff"])
def test_no_json(text):
    with raises_with(MetadataError, path="x", expected="JSON"):
        DatasetInfo.from_json_text(text, path="x")


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"homepage": ["http://a"]}, r"^homepage .*\['http://a'\] of type list"),
        ({"description": 5}, "^description .*5 of type int"),
        ({"citation": b"@misc"}, "^citation .*b'@misc' of type bytes"),
        ({"citation": "a\ud800"}, r"^citation .*'a\\ud800'"),
        ({"redistribution_info": {"license": 3}}, "^license .*3 of type int"),
        ({"metadata": MetadataDict({"a": {1, 2}})}, "^metadata .*JSON.* set"),
        ({"builder": DatasetIdentity("a", Version("1.0.0"), release_notes={"1.0.0": 1})}, r"^release_notes\['1.0.0'\]"),
        ({"builder": DatasetIdentity("a", Version("1.0.0"), release_notes="new")}, "^release_notes .*'new'"),
        (
            {"builder": DatasetIdentity("a", Version("1.0.0"), release_notes={"\ud800": "x"})},
            r"release_notes .*\\ud800",
        ),
        ({"builder": DatasetIdentity("a", Version("1.0.0"), config_tags=(1,))}, "config_tags .*1 of type int"),
        (
            {"builder": DatasetIdentity("a", Version("1.0.0"), config_description=1)},
            "^config_description .*1 of type int",
        ),
        ({"supervised_keys": ("a",)}, r"^supervised_keys .*\('a',\)"),
        ({"supervised_keys": ("a", ["b"])}, r"^supervised_keys .*\['b'\] of type list"),
        ({"metadata": "x"}, "^metadata .*'x'"),
        ({"license": "a", "redistribution_info": {"license": "b"}}, "^license .*'a'.* redistribution_info .*'b'"),
        ({"redistribution_info": {"x": "b"}}, r"^redistribution_info .*\['x'\]"),
    ],
)
def test_what_could_be_written_but_not_read_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        DatasetInfo(**arguments)
    assert DatasetInfo(redistribution_info={"license": "b"}).license == "b"


@pytest.mark.parametrize("name", ["disable_shuffling", "nondeterministic_order"])
def test_flags(name):
    for given in (True, 1, np.True_):
        assert getattr(DatasetInfo(**{name: given}), name) is True
    with pytest.raises(TypeError, match=f"^{name} .*'no'"):
        DatasetInfo(**{name: "no"})


def test_splits_with_templates_of_their_own():
    split = SplitInfo("train", [1], 2, FilenameTemplate("a", "train", template="{SPLIT}-{SHARD_INDEX}"))
    info = DatasetInfo(builder=DatasetIdentity("a", Version("1.0.0")), split_dict=SplitDict([split]))
    assert DatasetInfo.from_json_text(info.to_json_text(), path="").splits["train"].filenames == ["train-00000"]


@pytest.mark.parametrize(
    "one, other", [({"names": ["x", "y"]}, {"names": ["p", "q"]}), ({"names": ["x", "y"]}, {"num_classes": 2})]
)
def test_two_labels_of_one_label_file_have_one_list_of_names(one, other):
    features = {"a-b": ClassLabel(**one), "a": {"b": Sequence(ClassLabel(**other))}}
    with pytest.raises(FeatureValueError, match=r"'a-b.labels.txt'"):
        DatasetInfo(features=features)
    with pytest.raises(FeatureValueError, match=r"'d-x.y.labels.txt'"):
        DatasetInfo(features=Sequence({"d": {"x/y": ClassLabel(**one), "x.y": ClassLabel(names=["x"])}}))
    features["a"]["b"] = ClassLabel(**one)
    assert DatasetInfo(features=features).features.label_files() == {"a-b.labels.txt": "x\ny\n"}


@pytest.mark.parametrize("keys", [("image", "lab"), ("image", {"a": ("lab",)})])
@pytest.mark.parametrize("make", [dict, FeaturesDict, Sequence], ids=lambda make: make.__name__)
def test_supervised_keys_name_features(make, keys):
    tree, identity = make({"image": np.int64, "label": np.int64}), DatasetIdentity("a", Version("1.0.0"))
    DatasetInfo(builder=identity, features=tree, supervised_keys=("image", {"a": ("label",)}))
    with pytest.raises(ValueError, match="supervised_keys .*'lab'.* image, label.* 'label'"):
        DatasetInfo(builder=identity, features=tree, supervised_keys=keys)
