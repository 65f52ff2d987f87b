"""Different and most frequent values: exact up to a number of them, near behind it, and the same in every order."""

import warnings
from collections import Counter

import numpy as np
import pytest

from beam_datasets.statistics.sketches import COLUMNS, MAX_VALUES, MIN_SHARE, Values, mixed, occurrences, widened


def values_of(numbers, order=None, parts=1):
    """Returns the values of numbers (unsigned), taken up in an order and in parts; which occurrence is which stays."""
    where = occurrences(np.arange(len(numbers)), 1)
    order = np.arange(len(numbers)) if order is None else order
    whole = Values.empty(np.uint64)
    for part in np.array_split(order, parts):
        some = numbers[part]
        one = Values.empty(np.uint64)
        unique, counts = np.unique(some, return_counts=True)
        one.add(mixed(unique), counts, unique)
        one.sample(where[part], lambda i, some=some: (mixed(some[i]), some[i]))
        whole.merge(one)
    return whole


def test_exact_up_to_most_values():
    numbers = np.random.default_rng(0).permutation(np.repeat(np.arange(MAX_VALUES, dtype=np.uint64), 3))
    found = values_of(np.append(numbers, np.full(5, 17, np.uint64)), parts=9)
    assert (found.complete, found.distinct()) == (True, MAX_VALUES)
    assert found.top(2, 1)[0] == (17, 8)
    more = values_of(np.append(numbers, np.uint64(MAX_VALUES)), parts=9)
    assert not more.complete


@pytest.mark.parametrize("number", [5000, 20_000, 300_000])
def test_distinct_is_near(number):
    """Within four standard errors, each 1 / sqrt(MAX_VALUES - 2)."""
    found = values_of(np.arange(number, dtype=np.uint64), parts=3).distinct()
    assert abs(found / number - 1) < 4 / (MAX_VALUES - 2) ** 0.5


def test_frequent_among_many():
    random = np.random.default_rng(1)
    total = 200_000
    rare = random.integers(1000, 2**60, total // 2, np.uint64)
    frequent = random.choice(50, total // 2, p=(p := 0.8 ** np.arange(50)) / p.sum()).astype(np.uint64)
    numbers = random.permutation(np.concatenate([rare, frequent]))
    exact = Counter(numbers.tolist())
    found = values_of(numbers, parts=4)
    top = found.top(100, total)
    assert not found.complete
    for value, count in top:
        assert exact[int(value)] <= count <= exact[int(value)] + np.e / COLUMNS * total
    expected = {value for value, count in exact.items() if count >= 2 * MIN_SHARE * total}
    assert len(expected) > 5
    assert expected <= {int(value) for value, _ in top}


@pytest.mark.parametrize("number", [10, 3000, 50_000])
def test_grouping_changes_nothing(number):
    random = np.random.default_rng(number)
    numbers = (random.zipf(1.2, number) % 10**12).astype(np.uint64)
    expected = values_of(numbers)
    for parts in (2, 7):
        found = values_of(numbers, random.permutation(number), parts)
        for name in ("hashes", "counts", "shown", "sampled", "sampled_shown", "table", "complete"):
            assert np.array_equal(getattr(found, name), getattr(expected, name)), name
        assert found.top(50, number) == expected.top(50, number)


def test_nothing():
    empty = Values.empty(np.uint64)
    assert (empty.distinct(), empty.top(5, 0)) == (0, [])


def test_a_signalling_nan_gives_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(widened(np.array([0x7FA00000], np.uint32).view(np.float32)))
