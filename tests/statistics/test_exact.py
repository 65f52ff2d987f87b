"""Exact sums, against Python's integers and fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.statistics.exact import UNIT, mean_and_deviation, sums

FLOATS = st.lists(st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True), max_size=50)


def in_units(number: float, power: int = 1) -> int:
    whole = Fraction(number) ** power * 2 ** (UNIT * power)
    assert whole.denominator == 1
    return whole.numerator


@given(FLOATS)
def test_floats(numbers: list[float]) -> None:
    expected = sum(in_units(x) for x in numbers), sum(in_units(x, 2) for x in numbers)
    assert sums(np.array(numbers, np.float64)) == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50))
def test_signed(numbers: list[int]) -> None:
    assert sums(np.array(numbers, np.int64)) == (sum(numbers), sum(x * x for x in numbers))


@given(st.lists(st.integers(0, 2**64 - 1), max_size=50))
def test_unsigned(numbers: list[int]) -> None:
    assert sums(np.array(numbers, np.uint64)) == (sum(numbers), sum(x * x for x in numbers))


@given(FLOATS.filter(len))
def test_mean_and_deviation(numbers: list[float]) -> None:
    mean, deviation = mean_and_deviation(len(numbers), *sums(np.array(numbers)), floats=True)
    exact = [Fraction(x) for x in numbers]
    expected = sum(exact) / len(exact)
    assert mean == float(expected)
    variance = sum((x - expected) ** 2 for x in exact) / len(exact)
    assert (
        deviation == 0
        if not variance
        else abs(Fraction(deviation) ** 2 / variance - 1) < Fraction(1, 10**12) or (deviation < 1e-307)
    )


def test_no_cancellation() -> None:
    """The usual formula of squares has no correct digit here."""
    numbers = 1e9 + np.arange(1000) * 1e-6
    _, deviation = mean_and_deviation(1000, *sums(numbers), floats=True)
    assert math.isclose(deviation, float(np.std(numbers - 1e9)), rel_tol=1e-9)


def test_many_at_once() -> None:
    numbers = np.random.default_rng(0).normal(size=300_000)
    total, _ = sums(numbers)
    assert float(Fraction(total, 1 << UNIT)) == math.fsum(numbers)
