"""Sketches of values: sums, extremes, bins, and different and most frequent values; grouping changes nothing."""

import bisect
import itertools
import math
import warnings
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.statistics.sketches import (
    COLUMNS,
    MAX_BINS,
    MAX_VALUES,
    MIN_SHARE,
    UNIT,
    DistinctValues,
    Spread,
    codes_of,
    exact_sums,
    histogram,
    mixed,
    occurrences,
    values_of,
    widened,
)
from beam_datasets.statistics.texts import number_text

RANDOM = np.random.default_rng(0)
NUMBERS = {
    "normal": RANDOM.normal(size=50_000),
    "skewed": RANDOM.lognormal(3, 3, 50_000),
    "outlier": np.append(RANDOM.normal(size=20_000), [1e300, -1e300]),
    "constant": np.full(100, 2.5),
    "one": np.array([-0.0]),
    "tiny": RANDOM.normal(size=9000) * 5e-324 * 1e9,
    "widest": np.array([-1.7e308, 1.7e308, 0.0]),
    "times": 1_700_000_000 + RANDOM.integers(0, 86_400 * 365, 50_000),
    "few": RANDOM.integers(-3, 4, 10_000),
    "extremes": np.array([-(2**63), 2**63 - 1, 0]),
    "unsigned": RANDOM.integers(2**63, 2**64, 20_000, np.uint64),
}


def spread_of(*parts):
    """Returns the spread of parts, each gathered by itself."""
    whole, first = Spread(parts[0].dtype.kind), 0
    for part in parts:
        one = Spread(part.dtype.kind)
        one.add(part, first + np.arange(len(part)))
        whole.merge(one)
        first += len(part)
    return whole


# ---------------------------------------------------------------------------------------------------------------- sums


FLOATS = st.lists(st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True), min_size=1, max_size=50)


SIGNED, UNSIGNED = st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1)
ARRAYS = (
    FLOATS.map(np.array)
    | st.lists(SIGNED, max_size=50).map(lambda numbers: np.array(numbers, np.int64))
    | st.lists(UNSIGNED, max_size=50).map(lambda numbers: np.array(numbers, np.uint64))
)


@given(ARRAYS)
def test_sums_are_exact(numbers):
    units = [Fraction(x) * (2**UNIT if numbers.dtype.kind == "f" else 1) for x in numbers.tolist()]
    assert exact_sums(numbers) == (sum(units), sum(unit**2 for unit in units))


@given(FLOATS)
def test_mean_and_deviation(numbers):
    mean, deviation = spread_of(np.array(numbers)).mean_and_deviation()
    exact = [Fraction(x) for x in numbers]
    expected = sum(exact) / len(exact)
    variance = sum((x - expected) ** 2 for x in exact) / len(exact)
    assert mean == float(expected)
    if variance and deviation >= 1e-307:
        assert abs(Fraction(deviation) ** 2 / variance - 1) < Fraction(1, 10**12)
    else:
        assert (deviation < 1e-307, variance < Fraction(1e-307)) == (True, True)


def test_sums_of_many_numbers_that_nearly_cancel():
    """The formula of squares in float64 has no correct digit here."""
    numbers = 1e9 + np.arange(1000) * 1e-6
    _, deviation = spread_of(numbers).mean_and_deviation()
    assert math.isclose(deviation, float(np.std(numbers - 1e9)), rel_tol=1e-9)
    numbers = RANDOM.normal(size=300_000)
    assert float(Fraction(exact_sums(numbers)[0], 1 << UNIT)) == math.fsum(numbers)


# ---------------------------------------------------------------------------------------------------------------- bins


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_codes_sort_as_floats(numbers):
    array = np.array(numbers)
    codes = codes_of(array)
    assert (np.diff(codes[np.argsort(array, kind="stable")].astype(object)) >= 0).all()
    assert (values_of(codes, "f") == array).all()


@pytest.mark.parametrize("name", NUMBERS)
def test_quantiles_are_within_their_error(name):
    numbers = NUMBERS[name]
    spread = spread_of(*np.array_split(numbers, min(7, len(numbers))))
    assert (spread.count, len(spread.bins) <= MAX_BINS) == (len(numbers), True)
    assert (spread.value(spread.low), spread.value(spread.high)) == (numbers.min().item(), numbers.max().item())
    assert (spread.low_at, spread.high_at) == (numbers.argmin(), numbers.argmax())
    for share in (0, 0.001, 0.01, 0.25, 0.5, 0.9, 0.999, 1):
        value, error = spread.quantile(share)
        exact = np.quantile(numbers, share, method="inverted_cdf").item()
        assert abs(value - exact) <= error
        if len(np.unique(numbers)) <= MAX_BINS:
            assert (value, error) == (exact, 0)


@pytest.mark.parametrize(("name", "error"), [("normal", 0.004), ("skewed", 0.01), ("times", 5000), ("outlier", 0.005)])
def test_errors_are_small(name, error):
    """What the page says of quantiles: relative to the value, or to the range where that is narrow."""
    spread = spread_of(NUMBERS[name])
    for share in (0.05, 0.25, 0.75, 0.95):
        value, bound = spread.quantile(share)
        assert bound <= (error if name == "times" else error * abs(value))


@pytest.mark.parametrize("name", NUMBERS)
def test_grouping_changes_nothing(name):
    numbers = NUMBERS[name]
    expected = spread_of(numbers)
    for seed in range(5):
        random = np.random.default_rng(seed)
        mixed = random.permutation(numbers)
        parts = np.split(mixed, np.sort(random.integers(0, len(mixed), 6)))
        found = spread_of(*parts)
        assert (found.shift, found.total, found.squares) == (expected.shift, expected.total, expected.squares)
        assert found.bins.tolist() == expected.bins.tolist()
        assert found.counts.tolist() == expected.counts.tolist()


@pytest.mark.parametrize("name", ["few", "constant", "one", "widest", "extremes"])
def test_histograms_of_few_distinct_numbers_are_exact(name):
    found = histogram(spread_of(NUMBERS[name]))
    edges = found["edges"]
    if name in ("constant", "one"):
        assert (edges, found["counts"]) == ([NUMBERS[name][0]] * 2, [len(NUMBERS[name])])
    else:
        last = math.nextafter(edges[-1], math.inf) if NUMBERS[name].dtype.kind == "f" else edges[-1]
        assert found["counts"] == bars([*edges[:-1], last], NUMBERS[name])


def bars(edges, numbers):
    """Returns how many numbers are in each half-open bar, counted one by one."""
    counts = Counter(bisect.bisect_right(edges, number) - 1 for number in numbers.tolist())
    return [counts[bar] for bar in range(len(edges) - 1)]


@given(st.data())
def test_histograms_of_integers_are_exact_and_whole(data):
    """Bars of integers have integer edges, all different, however large the integers are."""
    low, high = data.draw(st.sampled_from([(-(2**63), 2**63 - 1), (0, 2**64 - 1)]))
    first = data.draw(st.integers(low, high))
    near = st.integers(max(low, first - 1000), min(high, first + 1000))
    numbers = data.draw(st.lists(st.one_of(near, st.integers(low, high)), min_size=1))
    array = np.array(numbers, np.int64 if low else np.uint64)
    found = histogram(spread_of(array))
    edges = found["edges"]
    assert all(type(edge) is int for edge in edges)
    assert all(type(count) is int for count in found["counts"])
    assert len({stop - start for start, stop in itertools.pairwise(edges)}) == 1
    assert edges[0] < edges[1]
    assert found["counts"] == bars(edges, array)
    assert found["below"] == sum(number < edges[0] for number in numbers)
    assert found["above"] == sum(number >= edges[-1] for number in numbers)
    assert number_text(numbers[0]).replace(",", "") == str(numbers[0])


@pytest.mark.parametrize("name", NUMBERS)
def test_histograms_count_all_and_are_near_those_of_numpy(name):
    numbers = NUMBERS[name]
    found = histogram(spread_of(numbers))
    assert sum(found["counts"]) + found["below"] + found["above"] == len(numbers)
    assert min(found["counts"]) >= 0
    if name == "normal":
        expected, _ = np.histogram(numbers, found["edges"])
        assert np.abs(expected - found["counts"]).max() <= 0.01 * len(numbers)


# Different and most frequent values: exact up to a number of them, near behind it, and the same in every order


def taken(numbers, order=None, parts=1):
    """Returns the values of numbers (unsigned), taken up in an order and in parts; which occurrence is which stays."""
    where = occurrences(np.arange(len(numbers)), 1)
    order = np.arange(len(numbers)) if order is None else order
    whole = DistinctValues.empty(np.uint64)
    for part in np.array_split(order, parts):
        some = numbers[part]
        one = DistinctValues.empty(np.uint64)
        unique, counts = np.unique(some, return_counts=True)
        one.add(mixed(unique), counts, unique)
        one.sample(where[part], lambda i, some=some: (mixed(some[i]), some[i]))
        whole.merge(one)
    return whole


def test_exact_up_to_most_values():
    numbers = np.random.default_rng(0).permutation(np.repeat(np.arange(MAX_VALUES, dtype=np.uint64), 3))
    found = taken(np.append(numbers, np.full(5, 17, np.uint64)), parts=9)
    assert (found.complete, found.distinct()) == (True, MAX_VALUES)
    assert found.top(2, 1)[0] == (17, 8)
    more = taken(np.append(numbers, np.uint64(MAX_VALUES)), parts=9)
    assert not more.complete


@pytest.mark.parametrize("number", [5000, 20_000, 300_000])
def test_distinct_is_near(number):
    """Within four standard errors, each 1 / sqrt(MAX_VALUES - 2)."""
    found = taken(np.arange(number, dtype=np.uint64), parts=3).distinct()
    assert abs(found / number - 1) < 4 / (MAX_VALUES - 2) ** 0.5


def test_frequent_among_many():
    random = np.random.default_rng(1)
    total = 200_000
    rare = random.integers(1000, 2**60, total // 2, np.uint64)
    frequent = random.choice(50, total // 2, p=(p := 0.8 ** np.arange(50)) / p.sum()).astype(np.uint64)
    numbers = random.permutation(np.concatenate([rare, frequent]))
    exact = Counter(numbers.tolist())
    found = taken(numbers, parts=4)
    top = found.top(100, total)
    assert not found.complete
    for value, count in top:
        assert exact[int(value)] <= count <= exact[int(value)] + np.e / COLUMNS * total
    expected = {value for value, count in exact.items() if count >= 2 * MIN_SHARE * total}
    assert len(expected) > 5
    assert expected <= {int(value) for value, _ in top}


@pytest.mark.parametrize("number", [10, 3000, 50_000])
def test_grouping_changes_no_values(number):
    random = np.random.default_rng(number)
    numbers = (random.zipf(1.2, number) % 10**12).astype(np.uint64)
    expected = taken(numbers)
    for parts in (2, 7):
        found = taken(numbers, random.permutation(number), parts)
        for name in ("hashes", "counts", "shown", "sampled", "sampled_shown", "table", "complete"):
            assert np.array_equal(getattr(found, name), getattr(expected, name)), name
        assert found.top(50, number) == expected.top(50, number)


def test_nothing():
    empty = DistinctValues.empty(np.uint64)
    assert (empty.distinct(), empty.top(5, 0)) == (0, [])


def test_a_signalling_nan_gives_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(widened(np.array([0x7FA00000], np.uint32).view(np.float32)))
