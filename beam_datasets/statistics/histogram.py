"""Histograms to look at: bars of equal width, made of a spread's bins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from beam_datasets.statistics.spread import Spread

BARS = 40
_TAIL = 0.005  # of the numbers, on each side, that are left out where they would take most of the width
_WIDE = 4


def histogram(spread: Spread) -> dict[str, Any]:
    """Returns edges and counts of bars; 'below' and 'above' are how many numbers are outside, as outliers are.

    Bars are half-open but the last. The numbers of a bin that goes over several bars are divided among these, so counts
    are exact only where bins are single numbers. Integers have bars of a whole width, from a half to a half.
    """
    lows, highs = spread.bounds()
    first, last = _range(spread)
    counts = spread.counts
    if first == last:
        return {"edges": [first, last], "counts": [int(counts.sum())], "below": 0, "above": 0}
    edges = _edges(first, last, whole=spread.kind != "f")
    lows, highs = lows.astype(np.float64), highs.astype(np.float64)
    below, above = highs < edges[0], lows > edges[-1]
    inside = ~(below | above)
    cumulated = _cumulated(edges, lows[inside], highs[inside], counts[inside])
    bars = np.diff(np.rint(cumulated)).astype(np.int64)
    return {
        "edges": edges.tolist(),
        "counts": bars.tolist(),
        "below": int(counts[below].sum()),
        "above": int(counts[above].sum()),
    }


def _range(spread: Spread) -> tuple[Any, Any]:
    """Returns where bars begin and end: all there is, or without the tails, where most of the width would be theirs."""
    low, high = spread.value(spread.low), spread.value(spread.high)
    first, last = spread.quantile(_TAIL)[0], spread.quantile(1 - _TAIL)[0]
    # halves, because the width of all floats is no float
    return (first, last) if first < last and high / 2 - low / 2 > _WIDE * (last / 2 - first / 2) else (low, high)


def _edges(first: Any, last: Any, *, whole: bool) -> NDArray[np.float64]:
    if not whole:
        share = np.linspace(0, 1, BARS + 1)
        return float(first) * (1 - share) + float(last) * share
    width = -(-(last - first + 1) // BARS)
    bars = -(-(last - first + 1) // width)
    return float(first) - 0.5 + float(width) * np.arange(bars + 1)


def _cumulated(
    edges: NDArray[np.float64], lows: NDArray[np.float64], highs: NDArray[np.float64], counts: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Returns how many numbers are below each edge."""
    total = np.concatenate([[0], np.cumsum(counts)])
    whole = np.searchsorted(highs, edges, side="left")  # so many bins are wholly below
    below = total[whole].astype(np.float64)
    for place, bin_number in enumerate(whole.tolist()):
        if bin_number < len(lows) and lows[bin_number] < edges[place]:
            width = highs[bin_number] - lows[bin_number]
            below[place] += counts[bin_number] * (edges[place] - lows[bin_number]) / width
    below[-1] = total[-1]
    below[0] = 0
    return below
