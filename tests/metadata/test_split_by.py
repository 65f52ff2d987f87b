"""Values to splits: by the value alone, so that an example stays where it is when others are added."""

import datetime
import decimal
import itertools
import math
import pickle
import random
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets import SplitByHash, SplitByTime, SplitByValue
from beam_datasets.files.split_assignment import SplitBy, as_options
from beam_datasets.metadata.split_by import meaning_of

SHARES = {"train": "70%", "val": 0.125, "test": "17.5%"}
VALUES = st.one_of(
    st.text(max_size=9), st.integers(), st.binary(max_size=9), st.floats(allow_nan=False), st.booleans(), st.dates()
)


@given(st.lists(VALUES, max_size=30), st.randoms(use_true_random=False))
def test_no_value_moves_when_others_are_added(values, rng):
    """Appended 100 times, in any order and by other processes, against a dict of where each value was first."""
    first = {}
    split_of = SplitByHash(SHARES)
    for append in range(100):
        split_of = split_of if append % 20 else pickle.loads(pickle.dumps(SplitByHash(SHARES)))
        for value in rng.sample(values, min(len(values), append % 4)):
            found = split_of(value)
            assert first.setdefault((type(value), repr(value)), found) == found
            assert found in SHARES


def test_the_hash_is_a_format():
    split_of = SplitByHash({"train": "50%", "test": "50%"})
    assert [key for key in range(10) if split_of(key) == "train"] == [0, 2, 4, 5, 7, 8]
    for same in (
        [4, "4", b"4", 4.0, np.int8(4), "4.0", decimal.Decimal("4.00")],
        ["-7", "-7.0", -7],
        ["é", "é".encode()],
        [1.5, "1.5", np.float64(1.5)],
    ):
        assert len({SplitByHash({str(i): 0.001 for i in range(1000)})(value) for value in same}) == 1
    assert split_of("\ud800") == split_of("\ud800")


def test_shares_hold_as_documented():
    """Also within each label: the number is within twice the stated deviation in every case of this sample."""
    split_of = SplitByHash(SHARES)
    for label, n in (("rare", 200), ("common", 20_000)):
        found = [split_of(label, key) for key in range(n)]
        for split, share in (("train", 0.7), ("val", 0.125), ("test", 0.175)):
            assert abs(found.count(split) - n * share) < 2 * 2 * math.sqrt(n * share * (1 - share))


TIMES = st.datetimes(datetime.datetime(1, 1, 3), datetime.datetime(9999, 12, 29))
UTC = datetime.UTC


@given(st.lists(TIMES, min_size=1, max_size=4, unique=True), st.lists(TIMES, max_size=20), st.integers(0, 10**6))
def test_times_are_in_the_half_open_range_that_a_search_finds(bounds, times, seed):
    bounds.sort()
    texts = ["", *(bound.isoformat() for bound in bounds), ""]
    ranges = [(f"s{i}", f"{start}..{stop}") for i, (start, stop) in enumerate(itertools.pairwise(texts))]
    random.Random(seed).shuffle(ranges)
    split_of = SplitByTime(dict(ranges))
    for time in [*times, *bounds]:
        expected = f"s{sum(bound <= time for bound in bounds)}"
        zone = datetime.timezone(datetime.timedelta(hours=seed % 24 - 12))
        own = [time, time.isoformat(" "), f"{time.isoformat()}Z", time.replace(tzinfo=UTC).astimezone(zone)]
        assert {split_of(each) for each in [*own, time.isoformat().encode(), np.datetime64(time)]} == {expected}


def test_dates_and_numbers():
    by_date = SplitByTime({"train": "..2026-01-01", "val": "2026-01-01..2026-02-01", "test": "2026-02-01.."})
    assert by_date("2025-12-31T23:59:59.999999") == by_date("2026-01-01T00:30+01:00") == "train"
    assert by_date(datetime.date(2026, 1, 1)) == by_date("2026-01-31") == "val"
    by_number = SplitByTime({"old": "..1767225600", "new": "1767225600.."})
    assert [by_number(each) for each in (0, "1767225599.9", 1767225600, np.float64(2e9))] == ["old"] * 2 + ["new"] * 2
    by_fraction = SplitByTime({"old": "..0.1", "new": "0.1.."})
    assert [by_fraction(decimal.Decimal(each)) for each in ("0.09", "0.10", "2")] == ["old", "new", "new"]
    for split_of, value in (
        (by_date, 5),
        (by_number, decimal.Decimal("NaN")),
        (by_number, "2026-01-01"),
        (by_date, "soon"),
        (by_date, None),
        (by_date, "nan"),
    ):
        with pytest.raises(ValueError, match="expected a (number|date).* got "):
            split_of(value)


def test_values():
    split_of = SplitByValue({"train": ["train", "extra"], "test": "1"})
    assert [split_of(value) for value in ("extra", b" train", 1, "1")] == ["train", "train", "test", "test"]
    with pytest.raises(ValueError, match="'train', 'extra', '1'.* got 'trian'"):
        split_of("trian")


@pytest.mark.parametrize(
    "kind, splits, message",
    [
        (SplitByHash, {"train": "80%", "test": "10%"}, "add up to 90%, not 100%"),
        (SplitByHash, {"train": 0.8, "test": 0.205}, "add up to 100.5%"),
        (SplitByHash, {"train": 1.1, "test": -0.1}, "'train': expected a share such as 80% or 0.8, got 1.1"),
        (SplitByHash, {"train": "most"}, "'train': expected a share"),
        (SplitByHash, {}, "add up to 0%"),
        (SplitByTime, {"train": "..2026-01-01", "test": "2026-01-02.."}, "all times, .*'2026-01-02..'"),
        (SplitByTime, {"train": "..2026-01-02", "test": "2026-01-01.."}, "all times, .*'..2026-01-02'"),
        (SplitByTime, {"train": "..2026-01-01"}, "all times, .*'..2026-01-01'"),
        (SplitByTime, {}, "all times, .*{}"),
        (SplitByTime, {"train": "..2026-13-01", "test": "2026-13-01.."}, "'train': expected a date or time .*2026-13"),
        (SplitByTime, {"train": "80%"}, "'train': expected a range START..STOP"),
        (SplitByTime, {"train": "..5", "val": "5..2026-01-01", "test": "2026-01-01.."}, "all times or all numbers"),
        (SplitByValue, {"train": "a", "test": ["b", "a"]}, r"values .*\['b', 'a'\]"),
        (SplitByValue, {"train": []}, r"values .*\[\]"),
    ],
)
def test_refused(kind, splits, message):
    with pytest.raises(ValueError, match=message):
        kind(splits)


@pytest.mark.parametrize("kind", [SplitByHash, SplitByTime, SplitByValue])
@pytest.mark.parametrize("splits", [["train", "test"], "train", 5, None])
def test_only_dicts_name_splits(kind, splits):
    with pytest.raises(TypeError, match=f"dict .*got {re.escape(repr(splits))}"):
        kind(splits)


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, np.zeros(2), {1, 2}, (1,), object(), float("nan")])
def test_only_single_values_have_a_hash(value):
    with pytest.raises(ValueError, match=f"text, number, bool, date .*got {re.escape(repr(value)[:60])}"):
        SplitByHash(SHARES)(value)
    assert SplitByHash(SHARES)(decimal.Decimal("1.50")) == SplitByHash(SHARES)("1.50")


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("--splits train=80% --splits test=20%", "--splits train=0.8 --splits test=.20", True),
        ("--splits train=80% --splits test=20%", "--splits test=20% --splits train=80%", False),
        (
            "--split_by group=user id --splits a=1/2 --splits b=50%",
            "--split_by group=user id --splits a=.5 --splits b=.5",
            True,
        ),
        ("--split_by group=a --splits a=50% --splits b=50%", "--split_by group=b --splits a=50% --splits b=50%", False),
        ("--stratify a --splits a=50% --splits b=50%", "--split_by group=a --splits a=50% --splits b=50%", False),
        ("--split_by time=t --train_until 2026-01-01", "--split_by time=t --train_until 2026-01-01T00:00Z", True),
        ("--split_by time=t --train_until 5", "--split_by time=t --splits test=5.0.. --splits train=..5", True),
        ("--split_by time=t --train_until 2026-01-01", "--split_by time=t --train_until 2026-01-02", False),
        ("--split_by time=t --split_by missing=train --train_until 5", "--split_by time=t --train_until 5", False),
        ("--split_by column=c --splits a=x --splits a=y", "--split_by column=c --splits a=y --splits a=x", True),
        ("--split_by column=c --splits a=x", "--split_by column=c", False),
        ("--split_by column=c", "--split_by column=c", True),
        ("", "--splits train=80% --splits test=20%", False),
    ],
)
def test_options_are_compared_by_what_they_mean(one, other, is_same):
    assert (meaning_of(one) == meaning_of(other)) is is_same
    assert meaning_of(one) == meaning_of(one)


def test_values_that_look_like_options_are_values():
    """`train=x --y` once meant the same as `train=x`."""
    one, other = (as_options({"train": value}, SplitBy(column="part")) for value in ("x --splits y", "x"))
    assert meaning_of(one) != meaning_of(other)
    assert meaning_of(one)[1] != meaning_of("--split_by column=part --splits train=x")[1]
    assert meaning_of("--split_by column=part --splits train=a b") == meaning_of(
        as_options({"train": "a b"}, SplitBy(column="part"))
    )
