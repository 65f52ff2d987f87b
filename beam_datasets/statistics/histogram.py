"""Histograms for display: bars of equal width, made from the bins of a spread."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beam_datasets.statistics.spread import Spread

BARS = 40
_TAIL = 0.005  # share of the numbers, on each side, that is left out if it would take most of the width
_WIDE = 4


def histogram(spread: Spread) -> dict[str, Any]:
    """Returns edges and counts of bars, and how many numbers are 'below' and 'above' them.

    Bars are half-open; the last one of floats is closed. Edges of integers are integers. The numbers of a bin that
    spans several bars are divided among them, so counts are exact only where bins are single numbers.
    """
    whole = spread.kind != "f"
    lows, highs = (bounds.tolist() for bounds in spread.bounds())
    totals: list[int] = [0, *accumulate(spread.counts.tolist())]
    edges = _edges(*_range(spread), whole=whole)

    def below(edge: Any) -> int:
        place = bisect_left(highs, edge)
        if place == len(lows) or lows[place] >= edge:
            return totals[place]
        share: float = (edge - lows[place]) / (highs[place] - lows[place] + whole)  # of the bin that the edge is in
        return totals[place] + round((totals[place + 1] - totals[place]) * share)

    first, last = (
        totals[bisect_left(highs, edges[0])],
        totals[(bisect_left if whole else bisect_right)(lows, edges[-1])],
    )
    cumulated = [first, *map(below, edges[1:-1]), last]
    counts = [stop - start for start, stop in pairwise(cumulated)]
    return {"edges": edges, "counts": counts, "below": first, "above": spread.count - last}


def _range(spread: Spread) -> tuple[Any, Any]:
    """Returns the smallest and the largest number to show: all, or without tails that would take most of the width."""
    low, high = spread.value(spread.low), spread.value(spread.high)
    first, last = spread.quantile(_TAIL)[0], spread.quantile(1 - _TAIL)[0]
    # halves, because the difference of two floats may be infinite
    return (first, last) if first < last and high / 2 - low / 2 > _WIDE * (last / 2 - first / 2) else (low, high)


def _edges(first: Any, last: Any, *, whole: bool) -> list[Any]:
    if whole:
        width = -(-(last - first + 1) // BARS)
        return [first + width * bar for bar in range(-(-(last - first + 1) // width) + 1)]
    if first == last:
        return [first, last]
    return [first * (1 - bar / BARS) + last * (bar / BARS) for bar in range(BARS + 1)]
