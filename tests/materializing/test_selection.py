"""Requests that make sense and that do not: said before anything is read but metadata."""

import itertools
import re
from functools import partial
from random import Random

import numpy as np
import pytest

from beam_datasets import features as F
from beam_datasets.diffing import diffing
from beam_datasets.errors import BeamDatasetsError, DatasetNotFoundError, DuplicateKeyError, SplitError
from beam_datasets.formats.example import parse
from beam_datasets.materializing.plan import plan_job
from beam_datasets.materializing.selection import is_in_order
from beam_datasets.metadata.keys import hash_key, ordered_key
from beam_datasets.metadata.split_expressions import ReadInstruction, even_splits
from beam_datasets.reading.opening import builder_from_directory
from tests.facts import raises_with
from tests.published import edit_info
from tests.reading.conftest import write_dataset


def plan(source, data_dir, **asked):
    return plan_job(source, data_dir=data_dir, **asked)


@pytest.fixture
def data(tmp_path):
    """A data_dir with the datasets one:1.0.0, one:2.0.0 and two:1.0.0."""
    for name, version, splits in (
        ("one", "1.0.0", {"train": [10, 7], "test": [3]}),
        ("one", "2.0.0", {"train": [10, 7], "test": [3]}),
        ("two", "1.0.0", {"train": [5]}),
    ):
        write_dataset(tmp_path / "data" / name / version, splits, manifest=True)
    return tmp_path / "data"


def reads(job):
    return {split.name: [(r.dataset, r.split, r.start, r.stop) for r in split.reads] for split in job.splits}


@pytest.mark.parametrize(
    "split, expected, expressions",
    [
        (None, {"train": [(0, "train", 0, 17)], "test": [(0, "test", 0, 3)]}, ["train", "test"]),
        ({"a": "train[:50%]"}, {"a": [(0, "train", 0, 8)]}, ["train[:50%]"]),
        ("test", {"test": [(0, "test", 0, 3)]}, ["test"]),
        ("train[5:]", {"train": [(0, "train", 5, 17)]}, ["train[5:]"]),
        (["a=train[:2]", "b = test + train[:1]"],
         {"a": [(0, "train", 0, 2)], "b": [(0, "test", 0, 3), (0, "train", 0, 1)]}, ["train[:2]", "test+train[:1]"]),
        ("a=all", {"a": [(0, "train", 0, 17), (0, "test", 0, 3)]}, ["all"]),
        ("train[1shard]", {"train": [(0, "train", 10, 17)]}, ["train[1shard:2shard]"]),
        ({"a": "train[:5]+train[5:9]+train[8:]"}, {"a": [(0, "train", 0, 9), (0, "train", 8, 17)]},
         ["train[:5]+train[5:9]+train[8:]"]),
        ({"a": "train[:0]+test"}, {"a": [(0, "test", 0, 3)]}, ["train[:0]+test"]),
        ({"a": "test+two:train[:2]"}, {"a": [(0, "test", 0, 3), (1, "train", 0, 2)]}, ["test+two:1.0.0:train[:2]"]),
        ({"a": "two:1.*.*:train+one:1.0.0:test"}, {"a": [(0, "train", 0, 5), (1, "test", 0, 3)]},
         ["two:1.0.0:train+one:1.0.0:test"]),
        ({"a": "b:train[1:2]"}, {"a": [(0, "train", 1, 2)]}, ["two:1.0.0:train[1:2]"]),
        ({"a": "one:test"}, {"a": [(0, "test", 0, 3)]}, ["test"]),
        (ReadInstruction("train", to=3), {"train": [(0, "train", 0, 3)]}, ["train[:3]"]),
        ({"a": even_splits("train", 4)[1], "b": ReadInstruction("test") + ReadInstruction("train", from_=-1)},
         {"a": [(0, "train", 5, 9)], "b": [(0, "test", 0, 3), (0, "train", 16, 17)]},
         ["train[5:9]", "test+train[-1:]"]),
    ],
)  # fmt: skip
def test_expressions(data, split, expected, expressions):
    job = plan("one", data, split=split, to="made", sources={"b": "two"})
    assert reads(job) == expected
    assert [one.expression for one in job.splits] == expressions
    again = plan("one", data, split=dict(zip(expected, expressions)), to="made")
    assert reads(again) == expected


def test_directories_are_sources_too(data, monkeypatch):
    monkeypatch.chdir(data)
    for source, other in ((data / "one/2.0.0", data / "two/1.0.0"), ("./one/2.0.0", "./two/1.0.0")):
        job = plan(source, data / "out", split={"a": f"train+{other}:train"})
        assert reads(job) == {"a": [(0, "train", 0, 17), (1, "train", 0, 5)]}
        assert job.splits[0].expression == "train+two:1.0.0:train"


@pytest.mark.parametrize("place", ["c++", "+", "a + b", "train+test", "x+/+y"])
def test_a_source_may_have_a_plus_in_it(data, tmp_path, place):
    other = write_dataset(tmp_path / place / "things" / "1.0.0", {"test": [4], "train": [5]}, manifest=True)
    one, two = (1, "test", 0, 4), (0, "train", 0, 2)
    for text, expected in (
        (f"{other}:test", [(0, "test", 0, 4)]),
        (f"train[:2]+{other}:test", [two, one]),
        (f"{other}:test + train[:2]+{other}:train[:4]+two:train", [one, two, (1, "train", 0, 4), (2, "train", 0, 5)]),
    ):
        assert reads(plan("one", data, split={"a": text}, to="made")) == {"a": expected}
    assert reads(plan("one", data, split=f"{other}:test", to="made")) == {"test": [(0, "test", 0, 4)]}
    with raises_with(BeamDatasetsError, got=f"train+{other}:test", advice=["NAME="]):
        plan("one", data, split=f"train+{other}:test", to="made")


def test_a_config_may_have_a_plus_in_its_name(data):
    made = write_dataset(data / "made" / "two" / "1.0.0", {"train": [5]})
    (data / "two" / "b+c").mkdir()
    made = made.rename(data / "two" / "b+c" / "1.0.0")
    edit_info(made, configName="b+c")
    for text in ("two/b+c:train", "two/b+c:1.0.0:train"):
        job = plan("one", data, split={"a": f"test+{text}+train[:1]"}, to="made")
        assert reads(job) == {"a": [(0, "test", 0, 3), (1, "train", 0, 5), (0, "train", 0, 1)]}
        assert job.splits[0].expression == "test+two/b+c:1.0.0:train+train[:1]"


def test_names_are_looked_up_in_the_output_and_then_in_the_default(data, tmp_path, monkeypatch):
    monkeypatch.setenv("BEAM_DATASETS_DATA_DIR", str(data))
    assert plan("one", tmp_path / "out").sources == (f"{data}/one/2.0.0",)
    write_dataset(tmp_path / "out" / "one" / "0.5.0", {"train": [2]}, manifest=True)
    assert plan("one", tmp_path / "out", to="x").sources == (f"{tmp_path}/out/one/0.5.0",)
    assert plan("one", tmp_path / "out", source_data_dir=data, to="x").sources == (f"{data}/one/2.0.0",)
    with pytest.raises(DatasetNotFoundError) as caught:
        plan("noe", tmp_path / "out")
    assert str(caught.value).count("Did you mean 'one'?") == 2


@pytest.mark.parametrize(
    "source, asked, kind, wanted",
    [
        ("noe", {}, DatasetNotFoundError, {"mentions": ["'noe'", "Did you mean 'one'"]}),
        ("one:9.*.*", {}, DatasetNotFoundError, {"mentions": ["version 9"]}),
        ("one two", {}, DatasetNotFoundError, {"mentions": ["'one two'"]}),
        (
            "one",
            {"split": {"a": "trian"}},
            SplitError,
            {"got": "'trian'", "mentions": ["one:2.0.0"], "advice": ["'train'"]},
        ),
        ("one", {"split": {"a": "train[:200]"}}, SplitError, {"split": "train[:200]", "got": "200"}),
        ("one", {"split": {"a": "train[5:2]"}}, SplitError, {"split": "train[5:2]", "got": ["start 5", "end 2"]}),
        ("one", {"split": {"a": "train[x]"}}, SplitError, {"split": "train[x]", "got": "'x'"}),
        ("one", {"split": {"a": "train[:10"}}, SplitError, {"split": "train[:10", "got": "'train[:10'"}),
        ("one", {"split": {"a": "train+"}}, SplitError, {"got": "''"}),
        ("one", {"split": {"a": "train[3:3]"}}, SplitError, {"split": "a", "got": "train[3:3]"}),
        ("one", {"split": {"a": "two:trian"}}, SplitError, {"got": "'trian'", "mentions": ["two:1.0.0"]}),
        ("one", {"split": {"a": "owt:train"}}, DatasetNotFoundError, {"mentions": ["'owt'"]}),
        ("one", {"split": {"all": "train"}}, ValueError, {"mentions": ["'all'", "split"]}),
        ("one", {"split": {"a/b": "train"}}, ValueError, {"mentions": ["'a/b'", "split"]}),
        ("one", {"split": {}}, BeamDatasetsError, {"expected": ["one split"], "got": "none"}),
        ("one", {"split": 5}, TypeError, {"mentions": ["split", "5", "{name: expression}", "'NAME=EXPRESSION'"]}),
        ("one", {"split": ["a=train", 5]}, TypeError, {"mentions": ["split", "5 of type int"]}),
        ("one", {"split": ["a=train", "a=test"]}, BeamDatasetsError, {"split": "a", "advice": ["'+'"]}),
        ("one", {"split": "train+test"}, BeamDatasetsError, {"got": "train+test", "advice": ["NAME="]}),
        ("one", {"split": "all"}, BeamDatasetsError, {"got": "all", "advice": ["NAME="]}),
        ("one", {"split": "=train"}, ValueError, {"mentions": ["''", "split"]}),
        (
            "one",
            {"features": ["txet"]},
            BeamDatasetsError,
            {"got": "'txet'", "mentions": ["one:2.0.0"], "advice": ["'text'"]},
        ),
        ("one", {"features": []}, BeamDatasetsError, {"mentions": ["feature of one"]}),
        ("one", {"filter": "nothing:keep"}, BeamDatasetsError, {"got": "nothing", "mentions": ["'nothing:keep'"]}),
        (
            "one",
            {"filter": "json:laods"},
            BeamDatasetsError,
            {"got": "laods", "mentions": ["json"], "advice": ["'loads'"]},
        ),
        ("one", {"filter": "string:digits.x"}, BeamDatasetsError, {"got": "x", "mentions": ["no functions"]}),
        ("one", {"to": "one:1.0.0"}, BeamDatasetsError, {"expected": ["2.0.0"], "got": "1.0.0"}),
        ("one", {"to": "made:1.*.*"}, BeamDatasetsError, {"got": ["pattern", "'made:1.*.*'"]}),
        ("one", {"to": "made:1.0"}, ValueError, {"mentions": ["'made:1.0'", "dataset name"]}),
        ("one", {"to": "a-b"}, ValueError, {"mentions": ["'a-b'", "dataset name"]}),
        ("one", {"to": "made/k=v"}, BeamDatasetsError, {"got": "'made/k=v'"}),
        ("one", {}, BeamDatasetsError, {"got": "one:2.0.0", "mentions": ["/one/2.0.0", "source"]}),
        *(
            ("one", {"reshuffle": salt}, TypeError, {"mentions": ["reshuffle", type(salt).__name__]})
            for salt in (True, 7, [""])
        ),
        ("one", {"num_shards": {"tset": 1}}, ValueError, {"mentions": ["num_shards", "'tset'"]}),
    ],
)
def test_what_cannot_be(data, source, asked, kind, wanted):
    with raises_with(kind, **wanted):
        plan(source, data, **asked)


def test_neither_directory_may_lie_in_the_other(data):
    with raises_with(BeamDatasetsError, mentions=["output", "inside the source"]):
        plan("one", data / "one" / "2.0.0", source_data_dir=data)
    inner = write_dataset(data / "made" / "2.0.0" / "deep" / "1.0.0", {"train": [2]}, manifest=True)
    with raises_with(BeamDatasetsError, mentions=["source", "inside the output"]):
        plan(inner, data, to="made:2.0.0")
    made = write_dataset(data / "made" / "1.0.0", {"train": [2]})
    unfinished = made.rename(made.with_name("incomplete.abc_1.0.0"))
    with raises_with(BeamDatasetsError, path=str(unfinished)):
        plan(unfinished, data / "out")


def test_only_tfrecord(data):
    path = data / "one" / "2.0.0" / "dataset_info.json"
    path.write_text(path.read_text().replace('"tfrecord"', '"array_record"'))
    (data / "one" / "2.0.0" / "manifest.json").unlink()
    with raises_with(BeamDatasetsError, path=str(path.parent), expected=["tfrecord"], got="array_record"):
        plan("one", data, to="made")


TREE = {
    "id": np.int64,
    "label": F.ClassLabel(names=["cat", "dog"]),
    "deep": {"a": F.Text(), "b": F.Sequence({"x": np.float32, "y": F.Tensor(shape=(2,), dtype=np.int64)})},
    "fixed": F.Sequence(np.int64, length=3),
}


def with_tree(directory, tree):
    """Gives a dataset without a manifest other features."""
    tree = F.FeaturesDict(tree)
    (directory / "features.json").write_text(F.to_json_text(tree))
    for name, text in tree.label_files().items():
        (directory / name).write_text(text)
    return directory


@pytest.mark.parametrize(
    "change, words",
    [
        ({"more": F.Text()}, "feature 'more', Text.*, is in the second only"),
        ({"id": None}, "feature 'id', int64, is in the first only"),
        ({"id": np.int32}, "feature 'id' is int64 in the first, int32 in the second"),
        ({"label": F.ClassLabel(names=["cat", "cow"])}, "'label' has other class names: 'cat', 'dog' in the first"),
        ({"label": F.ClassLabel(num_classes=2)}, "'label' has other class names: 'cat', 'dog' in the first, none"),
        ({"label": F.ClassLabel(names=["cat"])}, "feature 'label' "),
        ({"deep": {"a": F.Text(), "b": F.Sequence({"x": np.float32})}}, "feature 'deep.b.y', .* is in the first only"),
        (
            {"deep": {"a": F.Text(), "b": F.Sequence({"x": np.float64, "y": TREE["deep"]["b"]["y"]})}},
            r"'deep\.b\.x' is",
        ),
        ({"fixed": F.Sequence(np.int64)}, "feature 'fixed' has length=3 in the first, length=None"),
        ({"fixed": np.int64}, "feature 'fixed' is"),
    ],
)
def test_features_that_differ_are_named(tmp_path, change, words):
    one = with_tree(write_dataset(tmp_path / "one" / "1.0.0", {"train": [2]}), TREE)
    changed = {name: feature for name, feature in (TREE | change).items() if feature is not None}
    two = with_tree(write_dataset(tmp_path / "two" / "1.0.0", {"train": [2]}), changed)
    with pytest.raises(BeamDatasetsError, match=words) as caught:
        plan(one, tmp_path / "out", split={"a": "train+b:train"}, sources={"b": two})
    assert str(caught.value).startswith("one:1.0.0 and two:1.0.0 ")
    shared = sorted(name for name in TREE if TREE[name] == changed.get(name) and name != "label")
    plan(one, tmp_path / "out", split={"a": "train+b:train"}, sources={"b": two}, features=shared)


def test_other_documentation_does_not_matter(tmp_path):
    one = with_tree(write_dataset(tmp_path / "one" / "1.0.0", {"train": [2]}), TREE)
    documented = TREE | {"id": F.Tensor(shape=(), dtype=np.int64, doc="x")}
    two = with_tree(write_dataset(tmp_path / "two" / "1.0.0", {"train": [2]}), documented)
    plan(one, tmp_path / "out", split={"a": "train+b:train"}, sources={"b": two})
    plan(two, tmp_path / "out", split={"a": "train+b:train"}, sources={"b": one})


@pytest.mark.parametrize(
    "names, kept",
    [
        (["id"], {"id"}),
        (["deep"], {"deep/a", "deep/b/x", "deep/b/y"}),
        (["deep/b/x", "id"], {"deep/b/x", "id"}),
        (["deep/b", "deep/b/x"], {"deep/b/x", "deep/b/y"}),
        (["deep/b/x", "deep"], {"deep/a", "deep/b/x", "deep/b/y"}),
        (["fixed", "label"], {"fixed", "label"}),
    ],
)
def test_projections(tmp_path, names, kept):
    one = with_tree(write_dataset(tmp_path / "one" / "1.0.0", {"train": [2]}), TREE)
    job = plan(one, tmp_path / "out", features=names)
    assert job.transform.names == {name.encode() for name in kept}
    assert set(job.info.features.wire_names("")) == kept
    assert set(job.info.features.label_files()) == ({"label.labels.txt"} if "label" in kept else set())


def test_the_description_is_the_source_s(tmp_path):
    directory = with_tree(write_dataset(tmp_path / "one" / "1.0.0", {"train": [2]}), TREE)
    edit_info(
        directory,
        description="About cats.",
        citation="@x",
        location={"urls": ["https://example.org"]},
        redistributionInfo={"license": "CC0"},
        supervisedKeys={"tuple": {"items": [{"featureKey": "id"}, {"featureKey": "label"}]}},
        releaseNotes={"1.0.0": "first"},
        downloadSize="7",
        disableShuffling=True,
    )
    made = plan(directory, tmp_path / "out").info
    assert (made.name, str(made.version), made.data_dir) == ("one", "1.0.0", f"{tmp_path}/out/one/1.0.0")
    assert (made.description, made.citation, made.homepage) == ("About cats.", "@x", "https://example.org")
    assert (made.license, made.supervised_keys, made.disable_shuffling) == ("CC0", ("id", "label"), True)
    assert (made.release_notes, made.download_size) == ({"1.0.0": "first"}, 7)
    other = plan(directory, tmp_path / "out", to="other/small:3.0.0", features=["id"], reshuffle="x").info
    assert (other.full_name, other.config_name) == ("other/small/3.0.0", "small")
    assert (other.description, other.supervised_keys, other.disable_shuffling) == ("About cats.", None, False)
    assert other.release_notes is None


# ----------------------------------------------------------------------------------- what is read, and repeated keys


def test_the_lineage_names_what_is_read_alone(data):
    """A dataset that is named, but of which nothing is read, is not in the lineage, and need not fit."""
    write_dataset(data / "one" / "4.0.0", {"train": [9]})
    (data / "one" / "4.0.0" / "features.json").write_text(F.to_json_text(F.FeaturesDict({"other": F.Text()})))
    write_dataset(data / "one" / "3.0.0", {"train": [9]}, manifest=True)
    for split in (
        {"train": "one:2.0.0:train[:10]", "test": "one:2.0.0:test"},
        {"train": "train[:0]+one:2.0.0:train[:10]+two:train[:0]", "test": "one:2.0.0:test"},
    ):
        job = plan("one:3.0.0", data, split=split, to="one:9.0.0")
        assert [dataset.full_name for dataset in job.lineage.datasets] == ["one:2.0.0"]
        assert job.sources == (str(data / "one" / "2.0.0"),)
        assert reads(job) == {"train": [(0, "train", 0, 10)], "test": [(0, "test", 0, 3)]}
        assert job.info.display_name == "one:9.0.0"
    job = plan("one", data, split={"train": "two:train+one:2.0.0:train"}, to="one:9.0.0")  # one:4.0.0 has no `id`
    assert [dataset.full_name for dataset in job.lineage.datasets] == ["two:1.0.0", "one:2.0.0"]
    assert "id" in job.info.features


PLACES = ["train", "train[3:]", "train[:5]", "two:train", "two:train[2:4]", "other:train", "test", "train[8:12]"]


@pytest.mark.parametrize("ordered", [False, True])
def test_repeated_keys_are_counted(tmp_path, monkeypatch, ordered):
    """Keys that occur more than once are reported, with how many they are and an example."""
    monkeypatch.setattr(diffing, "KEY_ROWS", 3)
    for name, lengths in (
        ("one", {"train": [10, 7], "test": [3]}),
        ("two", {"train": [5, 8]}),
        ("other", {"train": [40]}),
    ):
        write_dataset(tmp_path / name / "1.0.0", lengths, manifest=True, ordered=ordered)
    for terms in Random(0).sample([*itertools.product(PLACES, repeat=3)], 30):
        job = plan("one", tmp_path, split={"a": "+".join(terms)}, to="made")
        seen, expected = set(), 0
        order = []
        for read in job.splits[0].reads:
            source = builder_from_directory(job.sources[read.dataset])
            records = source.as_dataset(f"{read.split}[{read.start}:{read.stop}]").raw()[:]
            keys = [int(parse(record)["key"][0]) for record in records]
            salt = None if ordered else read.split
            expected += sum((salt, key) in seen for key in keys)
            seen |= {(salt, key) for key in keys}
            order += [(ordered_key if ordered else partial(hash_key, read.split))(key) for key in keys]
        found = job.repeats.get("a")
        assert (found.count if found else 0) == expected
        one_rule = ordered or len({read.split for read in job.splits[0].reads}) == 1
        assert is_in_order(job.splits[0]) == (order == sorted(order) and one_rule)
        if found is None:
            continue
        examples = []
        for place in (found.first, found.second):
            name, version, split = place.split(":", 2)
            examples.append(builder_from_directory(tmp_path / name / version).as_dataset(split).raw()[0])
        one, other = (int(parse(record)["key"][0]) for record in examples)
        assert one == other
        assert found.key == f"the key {one}" if ordered else hash_key(split.partition("[")[0], one).hex() in found.key


def test_what_readers_may_not_expect(data):
    """Notes name repeated keys and an order that is not by hashes; repeats can be refused."""
    for split in ("train+two:train", "train+train[:5]"):
        job = plan("one", data, split={"big": split}, to="made")
        first, second = job.notes
        assert first.startswith("split 'big': 5 keys occur more than once: one:2.0.0:train[")
        assert first.endswith("All are kept; --refuse_repeats refuses them.")
        assert re.search(r"2 parts, .* big\[:60%\] is not a random sample\. --reshuffle SALT", second)
        assert len(plan("one", data, split={"big": split}, to="made", reshuffle="x").notes) == 1
        with raises_with(DuplicateKeyError, split="big", mentions=["5 keys"]):
            plan("one", data, split={"big": split}, to="made", refuse_repeats=True)
    assert (
        plan("one", data, split={"big": "train[:5]+train[7:9]+train[12:]"}, to="made", refuse_repeats=True).notes == ()
    )
    (note,) = plan("one", data, split={"big": "train+test"}, to="made").notes
    assert "not in hash order" in note
    (note,) = plan("one", data, split={"train": "train[:5]"}, to="one:2.1.0").notes
    assert note.startswith("it has the name of its source, so readers of one:2.*.* get the highest of these versions.")
    assert plan("one", data, split={"train": "train[:5]"}, to="one:3.0.0").notes == ()
    assert plan("one", data, to="one:2.1.0").notes == ()
    write_dataset(data / "bare" / "1.0.0", {"train": [9]}, indexed=False)
    (note,) = plan(
        "bare", data, split={"big": "train+train"}, to="made", refuse_repeats=True
    ).notes  # there are no keys
    assert "not in hash order" in note
