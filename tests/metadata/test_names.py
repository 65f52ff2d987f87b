"""Names, keys and versions, against what TFDS makes of them."""

import base64
import dataclasses
import hashlib
import json
import operator
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import InvalidKeyError, MetadataError
from beam_datasets.metadata import keys, names
from beam_datasets.metadata.names import DatasetName, FilenameTemplate, ShardFilename
from beam_datasets.metadata.version import BlockedVersions, Experiment, Version, choose_version
from tests.facts import raises_with

VECTORS = json.loads((Path(__file__).parents[1] / "data/vectors/names.json").read_text("utf-8"))


def cast(tagged):
    kind, value = tagged
    return float(value) if kind == "float" else value


@pytest.mark.parametrize("case", VECTORS["parse"], ids=lambda case: repr(case["input"]))
def test_parse_agrees_with_tfds(case):
    if "error" in case or case["input"].endswith("\n"):  # TFDS passes over a line break at the end
        with pytest.raises(ValueError, match=f"^{re.escape(repr(case['input']))}"):
            DatasetName.parse(case["input"])
        return
    expected = {key: cast(tagged) for key, tagged in case["kwargs"].items()}
    parsed = DatasetName.parse(case["input"])
    if case["input"] == "ds:experimental_latest":  # for TFDS, the dataset experimental_latest in the namespace ds
        assert parsed == DatasetName("ds", version="experimental_latest")
        return
    assert (parsed.namespace, parsed.name) == (case["namespace"], case["name"])
    assert (parsed.config, parsed.version) == (expected.pop("config", None), expected.pop("version", None))
    assert parsed.kwargs == expected
    assert [type(value) for value in parsed.kwargs.values()] == [type(value) for value in expected.values()]


CONFIGS = st.from_regex(r"[a-z+\-.]*[a-z]", fullmatch=True)
VALUES = st.one_of(
    st.integers(), st.booleans(), st.floats(allow_nan=False), st.from_regex(r"[g-m]{1,5}", fullmatch=True)
)


@given(
    st.builds(
        DatasetName,
        st.from_regex(r"[a-z][a-z0-9_]*", fullmatch=True),
        st.none() | CONFIGS,
        st.none() | st.from_regex(r"([0-9]|\*)\.([0-9]|\*)\.([0-9]|\*)", fullmatch=True),
        st.dictionaries(st.from_regex(r"k[a-z]*", fullmatch=True), VALUES, max_size=3),
        st.none() | st.from_regex(r"[a-z\-]+", fullmatch=True),
    )
)
def test_parse_reads_what_is_written(name):
    assert DatasetName.parse(str(name)) == name


@pytest.mark.parametrize("version", ["latest", "experimental_latest"])
@pytest.mark.parametrize("name", ["ds", "ds/small", "ns:ds", "ns:ds/small"])
def test_the_latest_version_is_no_dataset_of_a_namespace(name, version):
    expected = dataclasses.replace(DatasetName.parse(name), version=version)
    assert DatasetName.parse(f"{name}:{version}") == expected
    assert DatasetName.parse(str(expected)) == expected
    assert DatasetName.parse(f"ns:{version}_ds").name == f"{version}_ds"


def test_garbage_is_refused_fast():
    for config in ("..", ".", "..."):
        with pytest.raises(ValueError, match=f"{re.escape(repr(config))} .*config"):
            DatasetName.parse(f"ds/{config}")
    with pytest.raises(ValueError, match="^'ds/a=ba=b"):
        DatasetName.parse("ds/" + "a=b" * 10_000 + ",!")


def test_checks_of_single_names():
    assert names.check_dataset_name("a_1") == "a_1"
    assert names.check_config_name("big-2.x") == "big-2.x"
    for check in (names.check_dataset_name, names.check_config_name):
        for bad in ("a/b", "", "a b", "a\n"):
            with pytest.raises(ValueError, match=f"^{re.escape(repr(bad))} .*name"):
                check(bad)


@pytest.mark.parametrize("case", VECTORS["split_name_errors"], ids=lambda case: repr(case["split"]))
def test_split_names(case):
    if "error" in case:
        with pytest.raises(ValueError, match=f"^{re.escape(repr(case['split']))} .*split"):
            names.check_split_name(case["split"])
    else:
        assert names.check_split_name(case["split"]) == case["split"]


def test_splits_that_are_not_written():
    for bad in ("a/b", "a\\b", "../a", "a\0", "a\n"):
        with pytest.raises(ValueError, match=f"^{re.escape(repr(bad))} .*split .*file name"):
            names.check_split_name(bad)
    for bad in ("all", "ALL", "All"):
        with pytest.raises(ValueError, match=f"^'{bad}' .*every split"):
            names.check_split_name(bad, reserved=["all"])
    for unnameable in ("tr ain", "train[:10]", "a+b", "a.b"):
        assert names.check_split_name(unnameable) == unnameable
        with pytest.raises(ValueError, match=f"^{re.escape(repr(unnameable))} .*split.*letters, digits"):
            names.check_split_name(unnameable, reserved=["all"])


def test_camel_to_snake():
    for camel, snake in VECTORS["camel_to_snake"].items():
        assert names.camel_to_snake(camel) == snake


@pytest.mark.parametrize("case", VECTORS["filename_info"], ids=lambda case: case["filename"])
def test_filenames_are_parsed(case):
    assert ShardFilename.is_valid(case["filename"]) is case["is_valid"]
    if "error" in case:
        with pytest.raises(ValueError, match=f"^{re.escape(repr(case['filename']))} .*shard"):
            ShardFilename.parse(case["filename"])
        return
    parsed = ShardFilename.parse(case["filename"])
    keys = ("dataset_name", "split", "filetype_suffix", "shard_index", "num_shards")
    assert parsed == ShardFilename(*[case[key] for key in keys])
    assert str(parsed) == case["str"]


@pytest.mark.parametrize("case", VECTORS["templates"], ids=str)
def test_templates(case):
    def filename():
        template = FilenameTemplate("ds", "train", template=case["template"] or names.DEFAULT_FILENAME_TEMPLATE)
        return template.filename(case["shard_index"], case["num_shards"])

    if "error" in case:
        with pytest.raises(
            ValueError, match=f"filename template .*{re.escape(case['template'] or names.DEFAULT_FILENAME_TEMPLATE)}"
        ):
            filename()
    else:
        assert filename() == case["path"]


HOSTILE = [
    "../{SPLIT}",
    "/etc/{SPLIT}",
    "a/../../{SPLIT}",
    "..",
    "",
    "a//{SPLIT}",
    "s3://bucket/{SPLIT}",
    "C:{SPLIT}",
    "..\\{SPLIT}",
    "{SPLIT}\0",
    "./{SPLIT}",
    "{SPLIT.__class__}",
    "{{SPLIT}}",
    "{SPLIT",
]


@pytest.mark.parametrize("template", HOSTILE, ids=repr)
def test_a_hostile_template(template):
    with raises_with(MetadataError, expected=["filename template"], got=[repr(template)]):
        FilenameTemplate("ds", "train", template=template)


@pytest.mark.parametrize(
    "values", [("../x", "train"), ("ds", "a/b"), ("ds", "..\\b"), ("ds", "train", "x/y")], ids=repr
)
def test_hostile_values(values):
    label, value = next(
        each for each in zip(("dataset", "split", "file format"), values) if re.search(r"[/\\]", each[1])
    )
    with raises_with(MetadataError, expected=[label], got=repr(value)):
        FilenameTemplate(*values)


def test_braces_in_a_value_mean_nothing():
    assert FilenameTemplate("ds", "{0.x}{SPLIT}", template="{SPLIT}").filename(0) == "{0.x}{SPLIT}"


def test_values_cannot_make_a_step_up():
    with raises_with(MetadataError, expected=["directory"], got=["'../00000'"]):
        FilenameTemplate("ds", "..", template="{SPLIT}/{SHARD_INDEX}")


def test_filenames_of_many_shards():
    filenames = FilenameTemplate("ds", "train").filenames(100_000)
    assert len(filenames) == 100_000
    assert filenames[42] == "ds-train.tfrecord-000042-of-100000"
    assert filenames[-1] == "ds-train.tfrecord-099999-of-100000"
    assert filenames[1:3] == ["ds-train.tfrecord-000001-of-100000", "ds-train.tfrecord-000002-of-100000"]
    with pytest.raises(IndexError):
        filenames[100_000]
    assert list(filenames) == sorted(filenames)
    assert pickle.loads(pickle.dumps(filenames)) == filenames
    assert len(pickle.dumps(filenames)) < 1000


def test_several_shards_cannot_share_a_name():
    assert list(FilenameTemplate("ds", "train", template="{SPLIT}").filenames(1)) == ["train"]
    with raises_with(MetadataError, expected=["{SHARD_INDEX}", "2 shards"], got="'{SPLIT}'"):
        FilenameTemplate("ds", "train", template="{SPLIT}").filenames(2)


HASHES = json.loads((Path(__file__).parents[1] / "data/vectors/hashing.json").read_text("utf-8"))


def untag(tagged):
    convert = {"str": str, "bytes": base64.b64decode, "int": int, "bool": bool}[tagged["type"]]
    return convert(tagged["value"])


@pytest.mark.parametrize("case", HASHES["cases"], ids=str)
def test_hash_is_that_of_tfds(case):
    salt, key = untag(case["salt"]), untag(case["key"])
    assert keys.hash_key(salt, key).hex() == case["hash"]
    assert keys.hash_keys(salt, [key, key]).hex() == case["hash"] * 2


@pytest.mark.parametrize("case", HASHES["shuffle_order"], ids=lambda case: f"{case['salt']}-{case['keys']}")
def test_order_is_that_of_tfds(case):
    names = list(range(case["n"])) if case["keys"] == "int" else [f"ex{i}" for i in range(case["n"])]
    assert sorted(range(case["n"]), key=lambda i: keys.hash_key(case["salt"], names[i])) == case["order"]


FIVE = "3a53140cdbf3d9ad0cf0a5a97f21f654"
AB = "abeccbde3dad1c8f969031589acf12a8"


@pytest.mark.parametrize(
    "same, expected",
    [
        ([np.array(5), np.array([5]), np.int64(5), np.uint8(5), "5", b"5", np.str_("5")], FIVE),
        ([np.array("ab"), np.str_("ab"), np.bytes_(b"ab"), np.array([b"ab"])], AB),
    ],
)
def test_keys_that_are_the_same(same, expected):
    assert {keys.hash_key("train", key).hex() for key in same} == {expected}
    assert keys.hash_keys("train", same).hex() == expected * len(same)


@pytest.mark.parametrize(
    "key, kind",
    [
        (1.5, "float"),
        (None, "NoneType"),
        (("a",), "tuple"),
        (bytearray(b"a"), "bytearray"),
        (np.array([5, 6]), "numpy.ndarray of 2 elements"),
        (np.float32(1), "numpy.float32"),
        (np.array(1.5), "float"),
    ],
)
def test_error_names_type_and_what_is_accepted(key, kind):
    for hashed in (lambda: keys.hash_key("train", key), lambda: keys.hash_keys("train", [1, key])):
        with raises_with(InvalidKeyError, expected=["str, bytes, int"], got=[f"of type {kind}"]):
            hashed()


def test_error_of_a_lone_surrogate_names_the_key():
    for hashed in (lambda: keys.hash_key("train", "\udcff"), lambda: keys.hash_keys("train", ["a", "\udcff"])):
        with raises_with(InvalidKeyError, expected=["UTF-8"], got=[r"'\udcff'"], advice=["bytes"]):
            hashed()


@given(
    st.lists(st.one_of(st.integers(), st.text(st.characters(exclude_categories=["Cs"])), st.binary(), st.booleans()))
)
def test_block_is_the_single_hashes_joined(block):
    expected = b"".join(hashlib.md5(b"s/x" + keys.key_bytes(key)).digest() for key in block)
    assert keys.hash_keys("s\\x", block) == expected


@given(st.lists(st.integers(-(2**127), 2**127 - 1), min_size=1))
def test_ordered_keys_sort_as_numbers(numbers):
    assert sorted(numbers) == sorted(numbers, key=keys.ordered_key)
    assert keys.ordered_keys(numbers) == b"".join(map(keys.ordered_key, numbers))


def test_ordered_keys_are_integers_of_any_type():
    for key in (True, np.int8(1), np.array([1]), np.uint64(1)):
        assert keys.ordered_key(key) == keys.ordered_key(1)
    for wrong in ("1", b"1", 1.0, None):
        with raises_with(InvalidKeyError, expected=["an integer"], got=[f"{wrong!r} of type"]):
            keys.ordered_key(wrong)


@pytest.mark.parametrize("key", [2**127, -(2**127) - 1])
def test_ordered_key_out_of_range(key):
    for ordered in (lambda: keys.ordered_key(key), lambda: keys.ordered_keys([1, key])):
        with raises_with(InvalidKeyError, expected=["[-2**127, 2**127)"], got=f"{key}"):
            ordered()


VERSIONS = json.loads((Path(__file__).parents[1] / "data/vectors/versions.json").read_text("utf-8"))
ERRORS = {"ValueError": ValueError, "AssertionError": TypeError}  # a wrong type is a TypeError here


@pytest.mark.parametrize("case", VERSIONS["parse"], ids=lambda case: repr(case["input"]))
def test_parse(case):
    is_valid = case["valid"] and not case["input"].endswith("\n")  # which TFDS passes over
    assert Version.is_valid(case["input"]) is is_valid
    if not is_valid:
        with pytest.raises(ValueError, match=f"^{re.escape(repr(case['input']))} .*version"):
            Version(case["input"])
        return
    version = Version(case["input"])
    assert [list(version.tuple), str(version), repr(version)] == [case["tuple"], case["str"], case["repr"]]


@pytest.mark.parametrize("case", VERSIONS["match"], ids=lambda case: repr(case["pattern"]))
def test_match(case):
    if "error" in case:
        with pytest.raises(ValueError, match=f"^{re.escape(repr(case['pattern']))} .*version pattern"):
            Version(case["version"]).match(case["pattern"])
    else:
        assert Version(case["version"]).match(case["pattern"]) is case["match"]


@pytest.mark.parametrize("case", VERSIONS["compare"], ids=str)
def test_compare(case):
    left, right = Version(case["a"]), case["b"]
    if "error" in case:
        with pytest.raises(ERRORS[case["error"]]):
            getattr(operator, case["op"])(left, right)
    elif "op" in case:
        assert getattr(operator, case["op"])(left, right) is case["result"]
    else:
        for op in ("eq", "ne", "lt", "le", "gt", "ge"):
            assert getattr(operator, op)(left, right) is case[op]
            assert getattr(operator, op)(left, Version(right)) is case[op]
        assert (hash(left) == hash(Version(right))) is case["hash_equal"]


@given(st.lists(st.tuples(*[st.integers(0, 20)] * 3)))
def test_order_is_that_of_the_numbers(numbers):
    versions = [Version(".".join(map(str, n))) for n in numbers]
    assert [v.tuple for v in sorted(versions)] == sorted(numbers)


def test_attributes_survive_copying_and_pickling():
    with pytest.raises(TypeError, match="version .*1 of type int"):
        Version(1)
    assert not Version.is_valid(None)
    version = Version("1.0.0", "first", experiments={Experiment.DUMMY: True}, prepare_with="0.3.0")
    for same in (Version(version), pickle.loads(pickle.dumps(version))):
        assert same == version
        assert same.implements(Experiment.DUMMY)
        assert (same.description, same.prepare_with, same.tfds_version_to_prepare) == ("first", "0.3.0", "0.3.0")
    assert not Version("1.0.0").implements(Experiment.DUMMY)


def test_forms_of_tensorflow_datasets():
    version = Version("1.0.0", {Experiment.DUMMY: True}, tfds_version_to_prepare="4.0.0")
    assert version.implements(Experiment.DUMMY)
    assert version.prepare_with == "4.0.0"


def test_choose_keeps_what_a_version_carries():
    old = Version("1.0.0", prepare_with="0.1.0")
    assert choose_version("1.0.0", [old, Version("2.0.0")], of="digits").prepare_with == "0.1.0"


def test_blocked():
    blocked = BlockedVersions({"1.0.0": "leaks", "1.0.1": None}, {"2.0.0": {"big": "wrong labels", "odd": None}})
    assert blocked.reason("1.0.0", "big") == "leaks"
    assert blocked.reason(Version("1.0.1")) == "version 1.0.1 is blocked."
    assert blocked.reason("2.0.0", "big") == "wrong labels"
    assert blocked.reason("2.0.0", "odd") == "config 'odd' of version 2.0.0 is blocked."
    assert blocked.reason("2.0.0") is None
    assert blocked.reason("2.0.0", "small") is None
    assert BlockedVersions().reason("1.0.0") is None
