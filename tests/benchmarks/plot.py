"""A plot of rates as SVG, made without a library: for each way a line a workload, on one logarithmic scale."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from ratios import OURS, best_rates, limit
from report import times
from steps import LIMITS, OPEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from report import Measurement

    Row = tuple[str, str, dict[str, float], float | None]  # way, workload, system -> rate, limit

COLOURS = {  # what a system's name begins with -> its colour; Okabe and Ito's, which the colour-blind can tell apart
    OURS: "#0072b2",
    "TFDS": "#d55e00",
    "tf.data": "#d55e00",
    "ArrayRecord": "#e69f00",
    "MosaicML MDS": "#009e73",
    "WebDataset": "#cc79a7",
    "Hugging Face datasets": "#56b4e9",
}
LEGEND = {"TFDS": "TFDS, tf.data", "ArrayRecord": "ArrayRecord, Grain"}
WIDTH, LEFT, RIGHT, LINE, TOP = 860, 96, 76, 22, 68
GREY = "#666"


def rows(measurements: list[Measurement]) -> list[Row]:
    """Returns what has a line: each way and workload in which somebody else was measured, too."""
    rates = best_rates(measurements)
    found: dict[tuple[str, str], dict[str, float]] = {}
    for (way, workload, system), rate in rates.items():
        if way not in (LIMITS, OPEN):
            found.setdefault((way, workload), {})[system] = rate
    return [
        (way, workload, systems, (limit(rates, way, workload) or (None, None))[1])
        for (way, workload), systems in sorted(found.items(), key=lambda item: _order(item[0][0], rates))
        if any(not system.startswith(OURS) for system in systems)
    ]


def _order(way: str, rates: Iterable[tuple[str, str, str]]) -> int:
    return list(dict.fromkeys(at[0] for at in rates)).index(way)


def svg(measurements: list[Measurement]) -> str:
    """Returns the plot."""
    lines = rows(measurements)
    values = [rate for _, _, systems, bound in lines for rate in (*systems.values(), bound) if rate]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    scale = _Scale(low, high)
    titles = len({way for way, *_ in lines})
    height = TOP + LINE * len(lines) + 34 * titles + 30
    body = "\n".join([*_legend(), *_grid(scale, height), *_panels(lines, scale)])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
    )


class _Scale:
    """Where a rate stands, between two powers of ten."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def __call__(self, rate: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(rate) - self.low) / (self.high - self.low)


def _legend() -> Iterator[str]:
    x = 16.0
    for start, colour in COLOURS.items():
        if start != "tf.data":
            text = LEGEND.get(start, start)
            yield _dot(x, 18, colour, start == OURS, text) + _text(x + 9, 22, text)
            x += 28 + 6.2 * len(text)
    yield _mark(16, 38) + _text(25, 42, "the limit named in the tables")
    right = "examples a second, logarithmic; on the right: beam_datasets / fastest of the others"
    yield _text(WIDTH - 16, 42, right, anchor="end", fill=GREY)


def _grid(scale: _Scale, height: int) -> Iterator[str]:
    for power in range(scale.low, scale.high + 1):
        x = scale(10**power)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{height - 24}" stroke="#e4e4e4"/>'
        for y in (TOP - 6, height - 8):
            yield _text(x, y, f"{10**power:,}", anchor="middle", fill=GREY)


def _panels(lines: list[Row], scale: _Scale) -> Iterator[str]:
    y, before = float(TOP), ""
    for way, workload, systems, bound in lines:
        if way != before:
            y, before = y + 34, way
            yield _text(16, y - 10, way, weight="bold")
        yield _text(LEFT - 10, y + 15, workload, anchor="end")
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y + 11:.1f}" y2="{y + 11:.1f}" stroke="#f0f0f0"/>'
        if bound:
            yield _mark(scale(bound), y + 11)
        for system, rate in sorted(systems.items(), key=lambda item: item[0].startswith(OURS)):  # ours above
            yield _dot(scale(rate), y + 11, _colour(system), system == OURS, f"{system}: {rate:,.0f}")
        others = [rate for system, rate in systems.items() if not system.startswith(OURS)]
        if OURS in systems:
            yield _text(WIDTH - 16, y + 15, times(systems[OURS] / max(others)), anchor="end")
        y += LINE


def _colour(system: str) -> str:
    return next((colour for start, colour in COLOURS.items() if system.startswith(start)), GREY)


def _dot(x: float, y: float, colour: str, large: bool, title: str) -> str:
    size = 6.5 if large else 4.5
    shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" fill="{colour}" fill-opacity="0.9" stroke="#fff">'
    return f"{shape}<title>{escape(title)}</title></circle>"


def _mark(x: float, y: float) -> str:
    return f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - 9:.1f}" y2="{y + 9:.1f}" stroke="#222" stroke-width="2"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", fill: str = "#222", weight: str = "normal") -> str:
    style = f'text-anchor="{anchor}" fill="{fill}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'
