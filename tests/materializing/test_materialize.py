"""What is materialized is the slice of the source, byte by byte, and its keys are found: against lists."""

import itertools
import json
import tempfile
from hashlib import md5
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from beam_datasets.errors import BeamDatasetsError, MetadataError, NoExamplesError
from beam_datasets.formats.example import parse, serialize
from beam_datasets.formats.index import Index
from beam_datasets.metadata.shards import shard_ends
from beam_datasets.reading.opening import builder_from_directory
from beam_datasets.verifying import verify
from tests.cases import cases
from tests.facts import raises_with
from tests.materializing.materialized import materialize
from tests.reading.conftest import write_dataset

many = cases(60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
LENGTHS = st.lists(st.integers(0, 7), min_size=1, max_size=5).filter(sum)
KINDS = [
    {"manifest": True},
    {"manifest": True, "ordered": True},
    {"manifest": False},
    {"manifest": False, "indexed": False},
    {"manifest": False, "indexed": False, "ordered": True},
]


@st.composite
def sources(draw, kinds=KINDS):
    """The splits of a dataset, and what it has."""
    splits = {name: draw(LENGTHS) for name in draw(st.sampled_from([["train"], ["train", "test"]]))}
    return splits, draw(st.sampled_from(kinds))


@st.composite
def slices(draw, splits):
    """Terms: the split, and where the slice begins and ends; not all of them empty."""
    terms = []
    for _ in range(draw(st.integers(1, 4))):
        name = draw(st.sampled_from(sorted(splits)))
        start = draw(st.integers(0, sum(splits[name])))
        terms.append((name, start, draw(st.integers(start, sum(splits[name])))))
    name = draw(st.sampled_from(sorted(splits)))
    start = draw(st.integers(0, sum(splits[name]) - 1))
    return [*terms, (name, start, draw(st.integers(start + 1, sum(splits[name]))))]


def text_of(terms, label=""):
    return "+".join(f"{label}{name}[{start}:{stop}]" for name, start, stop in terms)


def raw(builder, split):
    """Returns the records of a slice, in dataset order."""
    return builder.as_dataset(split).raw()[:] if builder.info.splits[split].num_examples else []


def ids(records):
    return [int(parse(record)["id"][0]) for record in records]


def keys(records):
    return [int(parse(record)["key"][0]) for record in records]


def check_find(dataset, records, keyed=True):
    """Checks `find` of every key, against the first of the records that has it."""
    if not keyed:
        with raises_with(MetadataError, mentions=["sort keys"]):
            dataset.find(0)
        return
    first = {}
    for place, key in enumerate(keys(records)):
        first.setdefault(key, place)
    assert {key: dataset.find(key) for key in range(40)} == {key: first.get(key) for key in range(40)}


@many
@given(sources(), st.data())
def test_a_copy_is_the_slice(source, data):
    splits, kind = source
    with tempfile.TemporaryDirectory() as folder:
        directory = write_dataset(Path(folder, "src", "1.0.0"), splits, **kind)
        opened = builder_from_directory(directory)
        wanted = {f"s{i}": data.draw(slices(splits)) for i in range(data.draw(st.integers(1, 2)))}
        records = {s: [r for n, a, b in terms for r in raw(opened, n)[a:b]] for s, terms in wanted.items()}
        counts = {name: data.draw(st.integers(1, len(found))) for name, found in records.items()}
        made = materialize(
            directory,
            Path(folder, "out"),
            split={name: text_of(terms) for name, terms in wanted.items()},
            to="made",
            num_shards=counts,
        )
        assert list(made.info.splits) == list(wanted)
        for name, expected in records.items():
            assert raw(made, name) == expected
            assert np.cumsum(made.info.splits[name].shard_lengths).tolist() == shard_ends(len(expected), counts[name])
            assert made.info.splits[name].num_bytes == sum(map(len, expected))
            check_find(made.as_dataset(name), expected, kind.get("indexed", True))
            start = data.draw(st.integers(0, len(expected) - 1))
            stop = data.draw(st.integers(start + 1, len(expected)))
            part = made.as_dataset(f"{name}[{start}:{stop}]+{name}[:{start}]")
            check_find(part, expected[start:stop] + expected[:start], kind.get("indexed", True))
        assert made.info.disable_shuffling == kind.get("ordered", False)
        assert verify(made.dataset_dir).whole


@many
@given(sources(), st.data())
def test_a_filter_keeps_what_it_says_true_of(source, data):
    splits, kind = source
    with tempfile.TemporaryDirectory() as folder:
        directory = write_dataset(Path(folder, "src", "1.0.0"), splits, **kind)
        opened = builder_from_directory(directory)
        terms = data.draw(slices(splits))
        whole = [r for n, a, b in terms for r in raw(opened, n)[a:b]]
        kept = set(data.draw(st.sets(st.sampled_from(ids(whole)), min_size=1)))
        expected = [record for record in whole if ids([record])[0] in kept]
        count = data.draw(st.integers(1, len(expected)))
        made = materialize(
            directory,
            Path(folder, "out"),
            split={"x": text_of(terms), "y": text_of(terms)},
            num_shards={"x": count},
            filter=lambda example: np.bool_(int(example["id"]) in kept),
            range_bytes=data.draw(st.sampled_from([60, 200, 10**6])),
        )
        assert raw(made, "x") == expected
        assert np.cumsum(made.info.splits["x"].shard_lengths).tolist() == shard_ends(len(expected), count)
        check_find(made.as_dataset("x"), expected, kind.get("indexed", True))
        assert raw(made, "y") == expected


@pytest.mark.slow
@many
@given(sources(), st.text(max_size=3), st.data())
def test_a_new_order_is_that_of_salted_keys(source, salt, data):
    splits, kind = source
    with tempfile.TemporaryDirectory() as folder:
        directory = write_dataset(Path(folder, "src", "1.0.0"), splits, **kind)
        opened = builder_from_directory(directory)
        terms = data.draw(slices(splits))
        whole = [r for n, a, b in terms for r in raw(opened, n)[a:b]]
        made = materialize(
            directory,
            Path(folder, "out"),
            split={"x": text_of(terms)},
            reshuffle=salt,
            num_shards=data.draw(st.integers(1, len(whole))),
            range_bytes=data.draw(st.sampled_from([60, 10**6])),
        )
        got = raw(made, "x")
        assert sorted(got) == sorted(whole)
        assert not made.info.disable_shuffling
        dataset, keyed = made.as_dataset("x"), kind.get("indexed", True)
        if len(set(keys(whole))) == len(whole):
            check_find(dataset, got, keyed)
        elif keyed:  # of several examples with a key, any is found
            assert {key for key in range(40) if dataset.find(key) is not None} == set(keys(whole))
            assert all(keys([got[dataset.find(key)]]) == [key] for key in set(keys(whole)))


def test_the_new_order_by_hand(tmp_path):
    directory = write_dataset(tmp_path / "src" / "1.0.0", {"train": [4, 5]}, manifest=True)
    source = builder_from_directory(directory)
    made = materialize(directory, tmp_path / "out", split={"a": "train"}, reshuffle="pepper")
    old = {record: md5(b"train%d" % key).digest() for record in raw(source, "train") for key in keys([record])}
    assert raw(made, "a") == sorted(old, key=lambda record: md5(b"pepper" + old[record]).digest())

    bare = write_dataset(tmp_path / "bare" / "1.0.0", {"train": [4, 5]}, indexed=False)
    source = builder_from_directory(bare)
    made = materialize(bare, tmp_path / "out", split={"a": "train"}, reshuffle="pepper")
    names = [f"bare-train.tfrecord-{s:05d}-of-00002__{i}" for s, n in enumerate([4, 5]) for i in range(n)]
    ids_of = dict(zip(raw(source, "train"), names))
    assert raw(made, "a") == sorted(ids_of, key=lambda r: md5(f"pepper{ids_of[r]}".encode()).digest())


@pytest.mark.slow
@many
@given(st.data())
def test_again_and_again(data):
    """Materialized of materialized: copies, unions, filters and new orders, in any order."""
    with tempfile.TemporaryDirectory() as folder:
        known = {}
        for name, kind in (("one", KINDS[0]), ("two", data.draw(st.sampled_from(KINDS)))):
            splits = {"train": data.draw(LENGTHS), "test": data.draw(LENGTHS)}
            known[name] = write_dataset(Path(folder, name, "1.0.0"), splits, **kind)
        for step in range(3):
            main, other = data.draw(st.permutations(sorted(known)))[:2]
            terms, expected, keyed = [], [], True
            for label, name in (("", main), ("o:", other)):
                opened = builder_from_directory(known[name])
                lengths = {s: info.shard_lengths for s, info in opened.info.splits.items()}
                chosen = data.draw(slices(lengths))
                terms.append(text_of(chosen, label))
                expected += [r for n, a, b in chosen for r in raw(opened, n)[a:b]]
                keyed = keyed and all(has_keys(known[name], n) for n, a, b in chosen if b > a)
            kept = data.draw(st.none() | st.just({i for i in ids(expected) if i % 3}))
            if kept == set():
                continue
            salt = data.draw(st.none() | st.text(max_size=2))
            made = materialize(
                known[main],
                Path(folder, "out"),
                split={"train": "+".join(terms), "test": "+".join(terms)},
                to=f"made{step}",
                sources={"o": known[other]},
                filter=None if kept is None else lambda example, kept=kept: int(example["id"]) in kept,
                reshuffle=salt,
            )
            known[made.name] = Path(made.dataset_dir)
            expected = [record for record in expected if kept is None or ids([record])[0] in kept]
            got = raw(made, "train")
            assert (got if salt is None else sorted(got)) == (expected if salt is None else sorted(expected))
            if salt is None or len(set(keys(got))) == len(got) or not keyed:
                check_find(made.as_dataset("train"), got, keyed)


def has_keys(directory, split):
    files = sorted(directory.glob(f"*-{split}.*.index"), key=lambda path: -path.stat().st_size)
    return bool(files) and Index.from_bytes(files[0].read_bytes(), path="").has_keys


def test_features_are_dropped_and_the_rest_is_not_touched(tmp_path):
    directory = write_dataset(tmp_path / "src" / "1.0.0", {"train": [3, 4]}, manifest=True)
    source = builder_from_directory(directory)
    made = materialize(directory, tmp_path / "out", features=["key", "id"], num_shards=3)
    assert list(made.info.features) == ["id", "key"]
    parsed = [parse(record) for record in raw(source, "train")]
    assert raw(made, "train") == [serialize({"id": p["id"], "key": p["key"]}) for p in parsed]
    check_find(made.as_dataset("train"), raw(made, "train"))
    assert made.lineage.features == ("id", "key")


def test_a_union_of_two_datasets_whose_keys_are_the_same(tmp_path):
    one = write_dataset(tmp_path / "one" / "1.0.0", {"train": [4, 5]}, manifest=True)
    two = write_dataset(tmp_path / "two" / "2.0.0", {"train": [6]}, manifest=True)
    for salt in (None, "x"):
        made = materialize(
            one, tmp_path / f"out{salt}", split={"train": "train+other:train"}, sources={"other": two}, reshuffle=salt
        )
        both = raw(builder_from_directory(one), "train") + raw(builder_from_directory(two), "train")
        assert sorted(raw(made, "train")) == sorted(both)
        found = made.as_dataset("train").find(5)
        assert keys([raw(made, "train")[found]]) == [5]
        assert made.lineage.splits["train"].expression == "train+two:2.0.0:train"
        assert [dataset.full_name for dataset in made.lineage.datasets] == ["one:1.0.0", "two:2.0.0"]


def test_lineage_nests(tmp_path):
    first = write_dataset(tmp_path / "first" / "1.0.0", {"train": [4, 5], "test": [3]}, manifest=True)
    second = materialize(first, tmp_path / "out", split={"train": "train[2:]+test"}, to="second:1.1.0")
    third = materialize(second.dataset_dir, tmp_path / "out", split={"few": "train[5:9]"}, to="third")
    assert third.lineage.datasets[0].digest == second.manifest.digest
    assert third.lineage.datasets[0].digest_of == "manifest"
    assert third.lineage.datasets[0].source == json.loads(json.dumps(second.lineage.to_json()))
    assert third.lineage.datasets[0].source["datasets"][0]["digest"] == builder_from_directory(first).manifest.digest
    runs = [(ascent.start, [rule.split for rule in ascent.rules]) for ascent in third.lineage.splits["few"].keys]
    assert runs == [(0, ["train"]), (2, ["test"])]


def test_the_same_bytes_wherever_the_source_stands(tmp_path, monkeypatch):
    for place in ("a", "b"):
        write_dataset(tmp_path / place / "src" / "1.0.0", {"train": [4, 5]}, indexed=False)
    monkeypatch.chdir(tmp_path)
    contents = [
        {
            path.name: path.read_bytes()
            for path in Path(materialize(source, tmp_path / out).dataset_dir).iterdir()
            if path.name not in ("run.json", "owner.json")
        }
        for source, out in ((tmp_path / "a/src/1.0.0", "o1"), ("./b/src/1.0.0", "o2"))
    ]
    assert contents[0] == contents[1]
    assert len(contents[0]) > 4


def test_nothing_left_is_an_error(tmp_path):
    directory = write_dataset(tmp_path / "src" / "1.0.0", {"train": [4, 5]}, manifest=True)
    for salt in (None, "x"):
        with raises_with(NoExamplesError, split="train"):
            materialize(directory, tmp_path / "out", filter=lambda example: False, reshuffle=salt)
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


def test_more_shards_than_examples(tmp_path):
    directory = write_dataset(tmp_path / "src" / "1.0.0", {"train": [4, 5]}, manifest=True)
    with raises_with(BeamDatasetsError, split="train", got="9", mentions=["10 shards"]):
        materialize(directory, tmp_path / "out", num_shards=10)
    with raises_with(BeamDatasetsError, split="train", got="4", mentions=["5 shards"]):
        materialize(directory, tmp_path / "out", num_shards=5, filter=lambda example: bool(example["id"] % 2))


def test_shards_are_cut_by_the_size_rule_on_the_bytes_of_the_slice(tmp_path):
    for manifest, indexed in itertools.product([True, False], [True, False]):
        if manifest and not indexed:
            continue
        name = f"src{manifest}{indexed}"
        directory = write_dataset(
            tmp_path / name / "1.0.0", {"train": [300, 100]}, manifest=manifest, indexed=indexed, size=900
        )
        slices = {"a": "train[:70]", "b": "train[100:300]", "c": "train"}
        made = materialize(directory, tmp_path / "out", split=slices, min_shard_size=64_000)
        assert [split.num_shards for split in made.info.splits.values()] == [1, 2, 4]
