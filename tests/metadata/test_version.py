import json
import operator
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import DatasetNotFoundError
from beam_datasets.metadata.version import BlockedVersions, Experiment, Version, choose_version

VECTORS = json.loads((Path(__file__).parents[1] / "data/vectors/versions.json").read_text("utf-8"))
ERRORS = {"ValueError": ValueError, "AssertionError": TypeError}  # a wrong type is a TypeError here


@pytest.mark.parametrize("case", VECTORS["parse"], ids=lambda case: repr(case["input"]))
def test_parse(case):
    assert Version.is_valid(case["input"]) is case["valid"]
    if not case["valid"]:
        with pytest.raises(ValueError, match="not a version"):
            Version(case["input"])
        return
    version = Version(case["input"])
    assert [list(version.tuple), str(version), repr(version)] == [case["tuple"], case["str"], case["repr"]]


@pytest.mark.parametrize("case", VECTORS["match"], ids=lambda case: repr(case["pattern"]))
def test_match(case):
    if "error" in case:
        with pytest.raises(ValueError, match="not a version pattern"):
            Version(case["version"]).match(case["pattern"])
    else:
        assert Version(case["version"]).match(case["pattern"]) is case["match"]


@pytest.mark.parametrize("case", VECTORS["compare"], ids=str)
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


def test_not_a_text():
    with pytest.raises(TypeError, match="not 1 of type int"):
        Version(1)
    assert not Version.is_valid(None)


def test_attributes_survive_copying_and_pickling():
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


@pytest.mark.parametrize(
    "requested, canonical, expected",
    [
        (None, "2.0.0", "2.0.0"),
        (None, None, "10.0.0"),
        ("latest", "2.0.0", "10.0.0"),
        ("experimental_latest", "2.0.0", "10.0.0"),
        ("*.*.*", "2.0.0", "10.0.0"),
        ("2.*.*", "2.0.0", "2.1.0"),
        ("2.0.0", None, "2.0.0"),
        (Version("2.1.0"), None, "2.1.0"),
    ],
)
def test_choose(requested, canonical, expected):
    chosen = choose_version(requested, ["2.0.0", "10.0.0", "2.1.0"], canonical=canonical, of="digits")
    assert str(chosen) == expected


def test_choose_keeps_what_a_version_carries():
    old = Version("1.0.0", prepare_with="0.1.0")
    assert choose_version("1.0.0", [old, Version("2.0.0")], of="digits").prepare_with == "0.1.0"


def test_choose_lists_what_there_is():
    with pytest.raises(
        DatasetNotFoundError, match=r"digits has no version 3\.\*\.\*; versions there are: 1\.0\.0, 2\.0\.0\."
    ):
        choose_version("3.*.*", ["2.0.0", "1.0.0"], of="digits")
    with pytest.raises(DatasetNotFoundError, match=r"digits has no version; versions there are: none\."):
        choose_version(None, [], of="digits")
    with pytest.raises(ValueError, match="'newest' is not a version pattern"):
        choose_version("newest", ["1.0.0"], of="digits")


def test_blocked():
    blocked = BlockedVersions({"1.0.0": "leaks", "1.0.1": None}, {"2.0.0": {"big": "wrong labels", "odd": None}})
    assert blocked.reason("1.0.0", "big") == "leaks"
    assert blocked.reason(Version("1.0.1")) == "version 1.0.1 is blocked."
    assert blocked.reason("2.0.0", "big") == "wrong labels"
    assert blocked.reason("2.0.0", "odd") == "config 'odd' of version 2.0.0 is blocked."
    assert blocked.reason("2.0.0") is None
    assert blocked.reason("2.0.0", "small") is None
    assert BlockedVersions().reason("1.0.0") is None
