import copy
import dataclasses
import hashlib
import json
import pickle
import re
from hashlib import md5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import InvalidKeyError, MetadataError
from beam_datasets.metadata.keys import hash_key, ordered_key, reshuffled_keys
from beam_datasets.metadata.lineage import Ascent, KeyRule, Lineage, Read, SourceDataset, SplitLineage, between
from beam_datasets.metadata.manifest import FORMAT_VERSION, Manifest, ShardColumns
from tests.facts import raises_with

TRAIN = ShardColumns([2, 3], [20, 30], [52, 78], [0, 0xFFFFFFFF], [1, 0xABCDEF])
MANIFEST = Manifest(
    name="digits",
    config=None,
    version="1.0.0",
    splits={"train": TRAIN, "test": ShardColumns([1], [9], [25], [7], [8])},
    metadata={"dataset_info.json": "ab" * 32, "features.json": "cd" * 32},
    builder="my.module:Digits",
    options={"num_shards": {"train": 2}, "ignore_duplicates": True},
)
TEXT = """\
{
 "builder": "my.module:Digits",
 "config": null,
 "format_version": 1,
 "metadata": {
  "dataset_info.json": "abababababababababababababababababababababababababababababababab",
  "features.json": "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd"
 },
 "name": "digits",
 "needs": "beam_datasets>=0.1",
 "options": {
  "ignore_duplicates": true,
  "num_shards": {
   "train": 2
  }
 },
 "source": null,
 "splits": {
  "test": {
   "crc32c": ["00000007"],
   "file_bytes": [25],
   "index_crc32c": ["00000008"],
   "num_bytes": [9],
   "num_examples": [1]
  },
  "train": {
   "crc32c": ["00000000","ffffffff"],
   "file_bytes": [52,78],
   "index_crc32c": ["00000001","00abcdef"],
   "num_bytes": [20,30],
   "num_examples": [2,3]
  }
 },
 "version": "1.0.0"
}"""


def test_the_text_is_a_format():
    digest = hashlib.sha256(TEXT.encode()).hexdigest()
    assert MANIFEST.digest == digest
    assert MANIFEST.to_text() == TEXT[:-2] + f',\n "digest": "{digest}"\n}}'


def test_reading_what_is_written():
    again = Manifest.from_text(MANIFEST.to_text(), path="m")
    assert again == MANIFEST == Manifest.from_text(MANIFEST.to_text().encode(), path="m")
    assert pickle.loads(pickle.dumps(again)) == MANIFEST
    assert again.splits["train"].num_shards == 2


@given(
    st.permutations(["train", "test", "é"]),
    st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.integers())),
)
def test_the_text_does_not_depend_on_the_order_of_entries(order, options):
    one = dataclasses.replace(MANIFEST, splits=dict.fromkeys(sorted(order), TRAIN), options=options)
    other = dataclasses.replace(
        MANIFEST, splits=dict.fromkeys(order, TRAIN), options=dict(reversed(list(options.items())))
    )
    assert one.to_text() == other.to_text()
    assert Manifest.from_text(one.to_text(), path="m") == one


def test_another_layout_of_the_same_content_is_read():
    assert Manifest.from_text(json.dumps(json.loads(MANIFEST.to_text())), path="m") == MANIFEST


@pytest.mark.parametrize(
    "old, new", [("[2,3]", "[2,4]"), ('"1.0.0"', '"1.0.1"'), ("cdcd", "cdce"), ("ffffffff", "fffffffe")]
)
def test_a_change_is_noticed(old, new):
    changed = MANIFEST.to_text().replace(old, new, 1)
    assert changed != MANIFEST.to_text()
    for text in (changed, json.dumps(json.loads(changed))):
        stored = json.loads(text)["digest"]
        with raises_with(MetadataError, path="m", expected=[stored], got=re.compile("^[0-9a-f]{64}$")):
            Manifest.from_text(text, path="m")


def test_a_later_format_says_what_it_needs():
    content = json.loads(MANIFEST.to_text()) | {"format_version": FORMAT_VERSION + 1, "new": 1}
    wanted = {"path": "m", "field": "format_version", "expected": "1", "got": "2"}
    with raises_with(MetadataError, **wanted, advice=["newer"]):
        Manifest.from_text(json.dumps({key: content[key] for key in content if key != "needs"}), path="m")
    with raises_with(MetadataError, **wanted, advice=["beam_datasets>=0.7"]):
        Manifest.from_text(json.dumps(content | {"needs": "beam_datasets>=0.7"}), path="m")


NOT_PLAIN = ("", ".", "..", "../pwned", "/etc/pwned", "a/b", "..\\pwned", "s3://b/x", "a\nb", "a\x00", "\x1b")


@pytest.mark.parametrize(
    "change, wanted",
    [
        ({"format_version": "1"}, {"field": "format_version", "expected": "1", "got": "'1'"}),
        ({"more": 1}, {"got": ["unknown ['more']", "missing []"]}),
        ({"name": 5}, {"field": "name", "expected": "text", "got": "5"}),
        ({"config": 5}, {"field": "config", "expected": "text or null", "got": "5"}),
        ({"splits": {"train": {}}}, {"got": ["unknown []", "missing ['crc32c'"]}),
        ({"splits": {"train": 5}}, {"got": ["missing ['crc32c'"]}),
        *(
            ({"metadata": {"features.json": sha256}}, {"field": "metadata.features.json", "got": repr(sha256)})
            for sha256 in ("cd" * 31, 5, "cd" * 32 + "\n")
        ),
        *(({"metadata": {file: "cd" * 32}}, {"got": repr(file)}) for file in NOT_PLAIN),
    ],
)
def test_damage_is_named(change, wanted):
    with raises_with(MetadataError, path="m", **wanted):
        Manifest.from_text(json.dumps(json.loads(MANIFEST.to_text()) | change), path="m")


@pytest.mark.parametrize(
    "column, values, wanted",
    [
        ("num_examples", [1], {"got": ["'num_examples': 1", "'num_bytes': 2"]}),
        ("num_examples", [1, -1], {"field": "num_examples"}),
        ("num_bytes", [1, 1.5], {"field": "num_bytes"}),
        ("num_bytes", [1, True], {"field": "num_bytes"}),
        ("crc32c", ["0000000g", "00000000"], {"field": "crc32c"}),
        ("crc32c", ["000000", "0000000000"], {"field": "crc32c"}),
        ("crc32c", ["000000  ", "00000000"], {"field": "crc32c"}),
        ("crc32c", [5, 6], {"field": "crc32c"}),
        ("file_bytes", 5, {"field": "file_bytes", "expected": "a list", "got": "5"}),
    ],
)
def test_damaged_columns(column, values, wanted):
    content = json.loads(MANIFEST.to_text())
    content["splits"]["train"][column] = values
    with raises_with(MetadataError, path="m", **wanted):
        Manifest.from_text(json.dumps(content), path="m")


@pytest.mark.parametrize("text", ["", "[]", "5", b"\xff", "[" * 100_000])
def test_no_manifest(text):
    with raises_with(MetadataError, path="m"):
        Manifest.from_text(text, path="m")


# Lineages against JSON, and the rules of keys against hashes made step by step

names = st.text(min_size=1, max_size=5)
rules = st.builds(KeyRule, st.none() | names, st.lists(names, max_size=3).map(tuple))


@st.composite
def ascents(draw):
    starts = [0, *sorted(draw(st.sets(st.integers(1, 50), max_size=4)))]
    return tuple(Ascent(start, tuple(draw(st.lists(rules, min_size=1, max_size=3)))) for start in starts)


reads = st.builds(Read, st.integers(0, 3), names, st.integers(0, 9), st.integers(0, 9))
splits = st.builds(SplitLineage, names, st.lists(reads, max_size=3).map(tuple), st.none() | ascents())
source = st.none() | st.just({"datasets": [], "splits": {}, "filter": None, "features": None, "reshuffle": None})
datasets = st.builds(SourceDataset, names, st.none() | names, st.none() | names, names, st.just("manifest"), source)
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
    assert reshuffled_keys(salt, hashes) == b"".join(md5(salt.encode() + key).digest() for key in hashes)


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
def test_a_damaged_lineage_is_an_error_that_names_the_file(path, value):
    damaged = copy.deepcopy(GOOD)
    place = damaged
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with raises_with(MetadataError, path="dir/manifest.json", field="source"):
        Lineage.from_json(damaged, path="dir/manifest.json")


def test_a_missing_field_of_a_lineage_is_an_error():
    for name in GOOD:
        with raises_with(MetadataError, path="p", field="source", mentions=[repr(name)]):
            Lineage.from_json({key: value for key, value in GOOD.items() if key != name}, path="p")
