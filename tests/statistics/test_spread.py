"""Extremes and bins: the order of the codes, the stated error of quantiles, and that grouping changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.statistics.codes import codes_of, values_of
from beam_datasets.statistics.histogram import histogram
from beam_datasets.statistics.spread import MOST_BINS, Spread

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


def spread_of(*parts: Any) -> Spread:
    """Returns the spread of parts, each gathered by itself."""
    whole = Spread(parts[0].dtype.kind)
    for part in parts:
        one = Spread(part.dtype.kind)
        one.add(part)
        whole.merge(one)
    return whole


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_codes_sort_as_floats(numbers: list[float]) -> None:
    array = np.array(numbers)
    codes = codes_of(array)
    assert (np.diff(codes[np.argsort(array, kind="stable")].astype(object)) >= 0).all()
    assert (values_of(codes, "f") == array).all()


@pytest.mark.parametrize("name", NUMBERS)
def test_quantiles_are_within_their_error(name: str) -> None:
    numbers = NUMBERS[name]
    spread = spread_of(*np.array_split(numbers, min(7, len(numbers))))
    assert (spread.count, len(spread.bins) <= MOST_BINS) == (len(numbers), True)
    assert (spread.value(spread.low), spread.value(spread.high)) == (numbers.min().item(), numbers.max().item())
    for share in (0, 0.001, 0.01, 0.25, 0.5, 0.9, 0.999, 1):
        value, error = spread.quantile(share)
        exact = np.quantile(numbers, share, method="inverted_cdf").item()
        assert abs(value - exact) <= error
        if len(np.unique(numbers)) <= MOST_BINS:
            assert (value, error) == (exact, 0)


@pytest.mark.parametrize(("name", "error"), [("normal", 0.004), ("skewed", 0.01), ("times", 5000), ("outlier", 0.005)])
def test_errors_are_small(name: str, error: float) -> None:
    """What the page says of quantiles: relative to the value, or to the range where that is narrow."""
    spread = spread_of(NUMBERS[name])
    for share in (0.05, 0.25, 0.75, 0.95):
        value, bound = spread.quantile(share)
        assert bound <= (error if name == "times" else error * abs(value))


@pytest.mark.parametrize("name", NUMBERS)
def test_grouping_changes_nothing(name: str) -> None:
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


@pytest.mark.parametrize("name", NUMBERS)
def test_histograms_count_all(name: str) -> None:
    numbers = NUMBERS[name]
    found = histogram(spread_of(numbers))
    assert sum(found["counts"]) + found["below"] + found["above"] == len(numbers)
    assert min(found["counts"]) >= 0
    if name in ("few", "constant"):
        edges = found["edges"]
        counts = np.histogram(numbers, edges)[0].tolist() if name == "few" else [100]
        assert found["counts"] == counts


def test_histogram_near_that_of_numpy() -> None:
    numbers = NUMBERS["normal"]
    found = histogram(spread_of(numbers))
    expected, _ = np.histogram(numbers, found["edges"])
    assert np.abs(expected - found["counts"]).max() <= 0.01 * len(numbers)
