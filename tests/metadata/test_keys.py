import base64
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import InvalidKeyError
from beam_datasets.metadata import keys

VECTORS = json.loads((Path(__file__).parents[1] / "data/vectors/hashing.json").read_text("utf-8"))


def untag(tagged):
    convert = {"str": str, "bytes": base64.b64decode, "int": int, "bool": bool}[tagged["type"]]
    return convert(tagged["value"])


@pytest.mark.parametrize("case", VECTORS["cases"], ids=str)
def test_hash_is_that_of_tfds(case):
    salt, key = untag(case["salt"]), untag(case["key"])
    assert keys.hash_key(salt, key).hex() == case["hash"]
    assert keys.hash_keys(salt, [key, key]).hex() == case["hash"] * 2


@pytest.mark.parametrize("case", VECTORS["shuffle_order"], ids=lambda case: f"{case['salt']}-{case['keys']}")
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
        with pytest.raises(InvalidKeyError, match=rf"type {kind}.* a key is str, bytes, int"):
            hashed()


def test_error_of_a_lone_surrogate_names_the_key():
    for hashed in (lambda: keys.hash_key("train", "\udcff"), lambda: keys.hash_keys("train", ["a", "\udcff"])):
        with pytest.raises(InvalidKeyError, match=r"'\\udcff' cannot be written as UTF-8"):
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


@pytest.mark.parametrize("key", [True, np.int8(1), np.array([1]), np.uint64(1)])
def test_ordered_key_takes_integers_of_any_type(key):
    assert keys.ordered_key(key) == keys.ordered_key(1)


@pytest.mark.parametrize("key", ["1", b"1", 1.0, None])
def test_ordered_key_refuses_the_rest(key):
    with pytest.raises(InvalidKeyError, match=r"must be integers"):
        keys.ordered_key(key)


@pytest.mark.parametrize("key", [2**127, -(2**127) - 1])
def test_ordered_key_out_of_range(key):
    for ordered in (lambda: keys.ordered_key(key), lambda: keys.ordered_keys([1, key])):
        with pytest.raises(InvalidKeyError, match=rf"key {key} .*\[-2\*\*127, 2\*\*127\)"):
            ordered()
