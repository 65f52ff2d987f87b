"""Lineages against JSON, and the rules of keys against hashes made step by step."""

import copy
import json
from hashlib import md5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import InvalidKeyError, MetadataError
from beam_datasets.metadata.keys import hash_key, ordered_key, reshuffled_key, reshuffled_keys
from beam_datasets.metadata.manifest import Ascent, KeyRule, Lineage, Read, SourceDataset, SplitLineage, between

names = st.text(min_size=1, max_size=5)
rules = st.builds(KeyRule, st.none() | names, st.lists(names, max_size=3).map(tuple))


@st.composite
def ascents(draw):
    starts = [0, *sorted(draw(st.sets(st.integers(1, 50), max_size=4)))]
    return tuple(Ascent(start, tuple(draw(st.lists(rules, min_size=1, max_size=3)))) for start in starts)


reads = st.builds(Read, st.integers(0, 3), names, st.integers(0, 9), st.integers(0, 9))
splits = st.builds(SplitLineage, names, st.lists(reads, max_size=3).map(tuple), st.none() | ascents())
source = st.none() | st.just({"datasets": [], "splits": {}, "filter": None, "features": None, "reshuffle": None})
datasets = st.builds(SourceDataset, names, st.none() | names, names, names, st.just("manifest"), source)
lineages = st.builds(
    Lineage,
    st.lists(datasets, max_size=2).map(tuple),
    st.dictionaries(names, splits, max_size=3),
    st.none() | names,
    st.none() | st.lists(names, max_size=3).map(tuple),
    st.none() | names,
    st.none() | st.dictionaries(names, st.dictionaries(names, st.integers(0, 9), max_size=4), max_size=2),
)


@given(lineages)
def test_json_both_ways(lineage):
    text = json.dumps(lineage.to_json())
    assert Lineage.from_json(json.loads(text), path="p") == lineage


@given(names, st.lists(names, max_size=3), st.integers() | names)
def test_a_rule_is_its_steps(split, salts, key):
    expected = md5((split + str(key)).replace("\\", "/").encode()).digest()
    rule = KeyRule(split)
    for salt in salts:
        expected = md5(salt.encode() + expected).digest()
        rule = rule.reshuffled(salt)
    assert rule.sort_key(key) == expected


def test_rules_of_integer_keys():
    assert KeyRule(None).sort_key(7) == ordered_key(7)
    assert KeyRule(None, ("a",)).sort_key(7) == md5(b"a" + ordered_key(7)).digest()
    with pytest.raises(InvalidKeyError):
        KeyRule(None).sort_key("7")


@given(names, st.lists(names, max_size=5))
def test_many_reshuffled_keys(salt, keys):
    hashes = [hash_key("s", key) for key in keys]
    assert reshuffled_keys(salt, hashes) == b"".join(reshuffled_key(salt, key) for key in hashes)


@given(ascents(), st.integers(0, 60), st.integers(0, 60))
def test_between_is_the_slice(stretches, start, stop):
    rule_of = [next(a.rules for a in reversed(stretches) if a.start <= i) for i in range(60)]
    got = [(rules, i) for rules, first, last in between(stretches, start, stop) for i in range(first, last)]
    assert got == [(rule_of[i], i) for i in range(start, stop)]


GOOD = Lineage(
    (SourceDataset("a", None, "1.0.0", "00", "manifest"),),
    {"train": SplitLineage("train", (Read(0, "train", 0, 5),), (Ascent(0, (KeyRule("train"),)),))},
).to_json()


@pytest.mark.parametrize(
    "path, value",
    [
        (["datasets"], None),
        (["datasets", 0], {"name": "a"}),
        (["splits"], []),
        (["splits", "train", "keys"], [[5, [["train"]]]]),
        (["splits", "train", "keys"], [[0, [["train"]]], [0, [["train"]]]]),
        (["splits", "train", "keys"], [[0, [[7]]]]),
        (["splits", "train", "keys"], [["0", []]]),
        (["splits", "train", "keys"], 7),
        (["splits", "train", "reads"], [[0, "train", 0]]),
        (["splits", "train", "reads"], [[0, "train", 0, "5"]]),
        (["splits", "train", "expression"], None),
        (["features"], 3),
    ],
)
def test_damage_is_an_error_that_names_the_file(path, value):
    damaged = copy.deepcopy(GOOD)
    place = damaged
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(MetadataError, match=r"dir/manifest\.json: field 'source'"):
        Lineage.from_json(damaged, path="dir/manifest.json")


def test_a_missing_field_is_an_error():
    for name in GOOD:
        with pytest.raises(MetadataError, match=name):
            Lineage.from_json({key: value for key, value in GOOD.items() if key != name}, path="p")
