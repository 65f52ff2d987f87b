"""Plots for a page: histograms as SVG, bars of labels and values as a table."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from beam_datasets.statistics.wording import number_text, share_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WIDTH, _HEIGHT, _ABOVE, _BELOW = 400, 130, 16, 18
_MOST_ROWS = 30  # of labels; values are cut before


def histogram_svg(spread: dict[str, Any], what: str) -> str:
    """Returns the histogram of numbers as SVG, with a text for each bar and one for those who do not see it.

    Args:
        spread: what is known of them.
        what: of what it is.
    """
    histogram = spread["histogram"]
    edges, counts = histogram["edges"], histogram["counts"]
    highest = max(counts, default=0)
    first, last = _ends(spread)
    said = f"{what}: {sum(counts):,} from {first} to {last}, at most {highest:,} in a bar"
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(said)}">',
        f'<text class="tick" x="0" y="11">{highest:,}</text>',
        f'<line class="grid" x1="0" x2="{_WIDTH}" y1="{_ABOVE}" y2="{_ABOVE}"/>',
        *_bars(edges, counts, highest),
        f'<line class="axis" x1="0" x2="{_WIDTH}" y1="{_HEIGHT - _BELOW}" y2="{_HEIGHT - _BELOW}"/>',
        f'<text class="tick" x="0" y="{_HEIGHT - 4}">{first}</text>',
        "" if first == last else f'<text class="tick end" x="{_WIDTH}" y="{_HEIGHT - 4}">{last}</text>',
        "</svg>",
    ]
    outside = [f"{histogram[side]:,} {side}" for side in ("below", "above") if histogram[side]]
    note = f'<p class="note">and {", ".join(outside)}</p>' if outside else ""
    return "".join(parts) + note


def _bars(edges: Sequence[float], counts: Sequence[int], highest: int) -> Iterator[str]:
    room, floor = _HEIGHT - _ABOVE - _BELOW, _HEIGHT - _BELOW
    each = _WIDTH / max(len(counts), 1)
    gap = 1 if len(counts) > 1 else 0
    narrow = each if len(counts) > 8 else min(each, 40)  # a few bars as wide as the plot look like a wall
    for number, count in enumerate(counts):
        if count:
            height = max(room * count / highest, 1)
            left = number * each + (each - narrow) / 2
            yield (
                f'<rect x="{left:.1f}" y="{floor - height:.1f}" width="{max(narrow - gap, 1):.1f}" '
                f'height="{height:.1f}"><title>{escape(_bar_range(edges, number))}: {count:,}</title></rect>'
            )


def _bar_range(edges: Sequence[float], number: int) -> str:
    low, high = edges[number], edges[number + 1] - _is_whole(edges)
    return number_text(low) if low == high else f"{number_text(low)} to {number_text(high)}"


def _ends(spread: dict[str, Any]) -> tuple[str, str]:
    """Returns the first and the last number that bars show, as text."""
    edges = spread["histogram"]["edges"]
    last = edges[-1] - _is_whole(edges)
    return number_text(max(edges[0], spread["min"])), number_text(min(last, spread["max"]))


def _is_whole(edges: Sequence[float]) -> bool:
    """Returns whether bars are of integers; then the upper edge of a bar is not in it."""
    return isinstance(edges[0], int)


def bars_table(rows: Sequence[tuple[str, int]], total: int, caption: str, *, exact: bool = True) -> str:
    """Returns values and their counts as a table with bars.

    Args:
        rows: what to call each value, and its count.
        total: what shares are of.
        caption: of the table.
        exact: whether the counts are.
    """
    highest = max((count for _, count in rows), default=0)
    shown = rows if len(rows) <= _MOST_ROWS + 1 else rows[:_MOST_ROWS]
    about = "" if exact else "~"
    lines = [f"<table class=bars><caption>{escape(caption)}</caption><tbody>"]
    for name, count in shown:
        bar = f'<div style="width:{100 * count / highest:.1f}%"></div>' if count else ""
        lines.append(
            f'<tr><th scope="row">{escape(name)}</th>'
            f'<td class="bar">{bar}</td>'
            f'<td class="number">{about}{count:,}</td><td class="number">{share_text(count, total)}</td></tr>'
        )
    lines.append("</tbody></table>")
    if len(shown) < len(rows):
        rest = rows[len(shown) :]
        lines.append(f'<p class="note">and {len(rest):,} more, {sum(count for _, count in rest):,} in all</p>')
    return "".join(lines)
