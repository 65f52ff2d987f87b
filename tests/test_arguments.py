"""What is taken for an integer and what for a flag, and what the error says of all else."""

import re

import numpy as np
import pytest

from beam_datasets.arguments import boolean, count_of, integer


@pytest.mark.parametrize("kind", [bool, int, np.bool_, np.int64, np.uint8])
def test_flags(kind):
    assert boolean("x", kind(1)) is True
    assert boolean("x", kind(0)) is False


@pytest.mark.parametrize("bad", ["no", "False", "", b"1", None, 2, -1, np.int64(2), 1.0, np.float32(0), [], [1]])
def test_what_is_no_flag(bad):
    with pytest.raises(TypeError, match="^x must be True or False, not ") as caught:
        boolean("x", bad)
    assert repr(bad) in str(caught.value)


def test_an_array_is_no_flag():
    for bad in (np.array(True), np.array([True, False])):
        with pytest.raises(TypeError, match="must be True or False"):
            boolean("x", bad)


def test_integers():
    assert type(integer("x", np.int32(7))) is int
    for bad in (True, np.True_, 7.0, "7", None):
        with pytest.raises(TypeError, match="^x must be an int, not "):
            integer("x", bad)
    with pytest.raises(ValueError, match="^x must be at least 1, got 0"):
        integer("x", 0, at_least=1)
    with pytest.raises(ValueError, match="^x must be at most 3, got 4"):
        integer("x", 4, at_most=3)


@pytest.mark.parametrize("method", ["take", "skip"])
@pytest.mark.parametrize("count", [-1, -3, -10, -11, -150, -1_000_000, pytest.param(-(10**5000), id="huge")])
def test_slices_for_a_negative_count(count, method):
    """They are parts of the examples, as slices of a list are."""
    with pytest.raises(ValueError, match="^count must be at least 0, got ") as caught:
        count_of(count, method)
    ds = list(range(200))
    last, others = (eval(code, {"ds": ds}) for code in re.findall(r"ds\[[^\]]*\]", str(caught.value)))
    assert last == ds[count:]
    assert others == ds[:count]


@pytest.mark.parametrize(
    "count, method, advice",
    [
        (0.125, "take", "split='train[:12.5%]')"),
        (0.1, "skip", "split='train[10%:]')"),
        ("25%", "take", "split='train[:25%]')"),
        (250.5, "take", "Divide by // to get one"),
        (-0.5, "skip", "Divide by // to get one"),
    ],
)
def test_a_count_that_is_a_share(count, method, advice):
    with pytest.raises(TypeError) as caught:
        count_of(count, method)
    assert advice in str(caught.value)
