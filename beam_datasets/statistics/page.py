"""Statistics as one HTML page that needs nothing else: no scripts, no fonts, no network."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.statistics.report import SIZES, constant_size
from beam_datasets.statistics.sketches import bar_edges

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from beam_datasets.statistics.report import Statistics

STYLE = """
:root { color-scheme: light dark; --line: #8886; --s0: #4a87c4; --s1: #d9822b; --s2: #4d9a58; --s3: #a05fb5; }
* { box-sizing: border-box; overflow-wrap: anywhere; }
body { margin: 0 auto; padding: 1.5rem; max-width: 76rem; font: 15px/1.45 system-ui, sans-serif; }
h1, h2, h3, p { margin: .2rem 0; }
nav { margin: 1rem 0; line-height: 1.9; }
nav a { margin-right: .9rem; }
section { margin: 1rem 0; padding: 1rem; border: 1px solid var(--line); border-radius: 8px; }
.slices { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)); gap: 1rem 2rem; }
.slices > div { min-width: 0; max-width: 44rem; }
.soft, .note, dt, figcaption, caption { font-size: .9rem; text-align: left; }
.facts { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; margin: 0 0 .6rem; }
.facts dt, .facts dd { display: inline; margin: 0 0 0 .35rem; }
.facts dd { font-weight: 600; }
figure { margin: .4rem 0 .8rem; max-width: 44rem; }
.plot { display: block; width: 100%; height: 7rem; border-bottom: 1px solid var(--line); }
.s0 { fill: var(--s0); color: var(--s0); } .s1 { fill: var(--s1); color: var(--s1); }
.s2 { fill: var(--s2); color: var(--s2); } .s3 { fill: var(--s3); color: var(--s3); }
.plot .many { fill-opacity: .5; }
.bars { width: 100%; font-size: .85rem; table-layout: fixed; border-collapse: collapse; }
.bars th { width: 40%; font-weight: 400; text-align: left; overflow: hidden; white-space: pre; }
.bars svg { display: block; width: 100%; height: .8rem; }
.number { text-align: right; width: 4.6rem; font-variant-numeric: tabular-nums; }
"""
COUNTS = {"zeros": "zero", "nan": "NaN", "inf": "infinite", "-inf": "minus infinite", "empty": "empty"}
COUNTS["unreadable"] = "of unknown size"
_MOST_ROWS = 30  # of labels; values are cut before
_TOP = 10
_COLOURS = 4
_CAPTIONS = {"values": "values", "items": "items of an example", "bytes": "bytes", "height": "height", "width": "width"}
_CAPTIONS["channels"] = "channels"


def page(statistics: Statistics) -> str:
    """Returns the page, the same for the same statistics."""
    return "\n".join(_page(statistics)) + "\n"


def _page(statistics: Statistics) -> Iterator[str]:
    title = escape(statistics.dataset)
    yield f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    yield f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body>'
    yield f'<h1>{title}</h1><p class="note">digest {escape(statistics.digest)}</p>'
    if statistics.unknown:
        yield f"<p>Left out, as their class is not known: {escape(', '.join(statistics.unknown))}</p>"
    yield f"<main>{content(statistics.slices)}</main></body></html>"


def content(slices: Mapping[str, Any]) -> str:
    """Returns slices side by side as HTML without styles of its own, which needs the rules of `STYLE`.

    Args:
        slices: name -> {'examples': number, 'features': path -> statistics}, as in `Statistics`; they may be of several
            datasets.
    """
    paths = list(dict.fromkeys(path for part in slices.values() for path in part["features"]))
    examples = (
        f'<span class="s{place % _COLOURS}">\u25a0</span> {escape(name)}: {part["examples"]:,} '
        f"example{'' if part['examples'] == 1 else 's'}"
        for place, (name, part) in enumerate(slices.items())
    )
    links = (f'<a href="#f{number}">{escape(path)}</a>' for number, path in enumerate(paths))
    sections = (
        _feature(number, path, {name: part["features"].get(path) for name, part in slices.items()})
        for number, path in enumerate(paths)
    )
    nav = f'<nav aria-label="features">{" ".join(links)}</nav>'
    return "\n".join([f"<p>{', '.join(examples)}</p>", nav, *sections, _NOTES])


def _feature(number: int, path: str, found: Mapping[str, dict[str, Any] | None]) -> str:
    parts = {name: part for name, part in found.items() if part is not None}
    kinds = ", ".join(dict.fromkeys(part["type"] for part in parts.values()))
    marks = "".join(f" <mark>{escape(mark)}</mark>" for mark in _marks(found))
    columns = (f"<div><h3>{escape(name)}</h3>{_facts(part)}{_tables(part)}</div>" for name, part in parts.items())
    return (
        f'<section id="f{number}"><h2>{escape(path)}</h2><p><span class="soft">{escape(kinds)}</span>{marks}</p>'
        f'{"".join(_plots(found))}<div class="slices">{"".join(columns)}</div></section>'
    )


def _marks(found: Mapping[str, dict[str, Any] | None]) -> Iterator[str]:
    """Yields what is conspicuous of a feature: that it is missing or constant."""
    for name, part in found.items():
        if part is None:
            yield f"not in {name}"
        elif part["distinct"] == 1 and part["distinct_exact"] and part["values"] > 1:
            yield f"constant in {name}"
        if part is not None and part["missing"]:
            yield f"{part['missing']:,} missing in {name}"


def _facts(feature: dict[str, Any]) -> str:
    """Returns the numbers shown for a feature, as a list of descriptions."""
    facts = {"values": f"{feature['values']:,}"}
    facts |= {name: f"{feature[key]:,}" for key, name in ({"missing": "missing"} | COUNTS).items() if feature.get(key)}
    facts["distinct"] = f"{'' if feature['distinct_exact'] else '~'}{feature['distinct']:,}"
    if size := constant_size(feature):
        facts["size"] = size
    return _list(facts | _spread(feature))


def _spread(found: dict[str, Any]) -> dict[str, str]:
    if "mean" not in found:
        return {}
    if found["min"] == found["max"]:
        return {"always": number_text(found["min"])}
    quantiles = found["quantiles"]
    values = {"min": found["min"], "5%": quantiles["0.05"], "25%": quantiles["0.25"], "median": quantiles["0.5"]}
    values |= {"75%": quantiles["0.75"], "95%": quantiles["0.95"], "max": found["max"]}
    values |= {"mean": found["mean"], "std": found["std"]}
    return {name: number_text(value) for name, value in values.items()}


def _list(facts: dict[str, str]) -> str:
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
    return f'<dl class="facts">{items}</dl>'


def _plots(found: Mapping[str, dict[str, Any] | None]) -> Iterator[str]:
    for name, caption in _CAPTIONS.items():
        spreads = {
            place: (label, part if name == "values" else part[name])
            for place, (label, part) in enumerate(found.items())
            if part is not None and (name == "values" or name in part) and not (name in SIZES and constant_size(part))
        }
        spreads = {place: (label, spread) for place, (label, spread) in spreads.items() if "histogram" in spread}
        sizes = {spread[side] for _, spread in spreads.values() for side in ("min", "max")}
        if len(sizes) < 2:
            if sizes and name != "values":
                yield f'<p class="soft">{caption}: {number_text(sizes.pop())} each</p>'
            continue
        facts = "" if name == "values" else "".join(_list(_spread(spread)) for _, spread in spreads.values())
        yield f"<figure><figcaption>{caption}</figcaption>{facts}{histogram_plot(spreads, caption)}</figure>"


def _tables(feature: dict[str, Any]) -> str:
    if "labels" in feature:
        rows = [(str(number) if name is None else name, count) for number, name, count in feature["labels"]]
        return bars_table(rows, feature["values"], "labels")
    rows = [(_shown(value), count) for value, count in feature.get("top", ())[:_TOP]]
    return bars_table(rows, feature["values"], "most frequent", exact=feature["top_exact"]) if rows else ""


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value.replace("\n", "\u23ce").replace("\t", "\u21e5") or "(empty)"
    return number_text(value)


_NOTES = (
    '<p class="note">Counts, extremes, means and standard deviations are exact. Quantiles are within the bounds '
    "that the JSON gives with each. A ~ stands before estimates: of different values (standard error 1.6%), and of "
    "how often the most frequent occur, where there are more than 4,096 different ones. Bars are approximate at "
    "their edges.</p>"
)


# ------------------------------------------------------------------------------------------------------------- plots


def histogram_plot(spreads: Mapping[int, tuple[str, dict[str, Any]]], what: str) -> str:
    """Returns histograms over a common axis, as SVG with a text for each bar and one for those who do not see it.

    Args:
        spreads: number of the colour -> name, and what is known of the numbers.
        what: of what they are.
    """
    found = [spread["histogram"] for _, spread in spreads.values()]
    edges, heights = found[0]["edges"], [found[0]["counts"]]
    if len(found) > 1:  # shares, because slices have different sizes
        low, high = min(h["edges"][0] for h in found), max(_last(h["edges"]) for h in found)
        edges = bar_edges(low, high, whole=all(_is_whole(h["edges"]) for h in found))
        heights = [_shares(histogram, edges) for histogram in found]
    highest = max(map(max, heights), default=0) or 1
    bars, notes = [], []
    for (place, (name, spread)), values in zip(spreads.items(), heights):
        counted = "{:,}" if len(found) == 1 else f"{{:.2%}} of {name}"
        bars += [
            f'<rect class="s{place % _COLOURS}{" many" * (len(found) > 1)}" x="{number}" y="{100 - height:.4g}" '
            f'width=".97" height="{height:.4g}"><title>{escape(_bar_range(edges, number))}: '
            f"{escape(counted.format(value))}</title></rect>"
            for number, value in enumerate(values)
            if (height := 100 * value / highest)
        ]
        outside = [f"{spread['histogram'][side]:,} {side}" for side in ("below", "above") if spread["histogram"][side]]
        notes += [f"{name}: {', '.join(outside)}"] if outside and len(found) > 1 else outside
    most = f"at most {highest:,} in a bar" if len(found) == 1 else f"at most {highest:.1%} of a slice in a bar"
    if len(found) == 2:
        gap = abs(np.cumsum(heights[0]) - np.cumsum(heights[1])).max()
        notes.append(f"largest difference of cumulative shares {gap:.1%}")
    low, high = (f(spread[m] for _, spread in spreads.values()) for f, m in ((min, "min"), (max, "max")))
    span = f"{number_text(max(edges[0], low))} to {number_text(min(_last(edges), high))}"
    note = escape(", ".join([span, most, *notes]))
    return (
        f'<svg class="plot" viewBox="0 0 {max(len(edges) - 1, 1)} 100" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(what)}: {note}">{"".join(bars)}</svg><p class="note">{note}</p>'
    )


def _shares(histogram: dict[str, Any], edges: Sequence[float]) -> list[float]:
    """Returns the shares of a histogram's numbers in other bars, as if each of its bars were even."""
    own, counts = np.array(histogram["edges"], float), np.array(histogram["counts"], float)
    total = max(counts.sum() + histogram["below"] + histogram["above"], 1)
    if own[0] == own[-1]:
        shares: list[float] = (np.histogram([own[0]], np.array(edges, float))[0] * (counts.sum() / total)).tolist()
        return shares
    cumulated = np.concatenate([[0.0], np.cumsum(counts)]) / total
    between: list[float] = np.diff(np.interp(np.array(edges, float), own, cumulated)).tolist()
    return between


def _last(edges: Sequence[Any]) -> Any:
    """Returns the largest number that bars hold."""
    return edges[-1] - _is_whole(edges)


def _bar_range(edges: Sequence[float], number: int) -> str:
    low, high = edges[number], edges[number + 1] - _is_whole(edges)
    return number_text(low) if low == high else f"{number_text(low)} to {number_text(high)}"


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
    lines = [f'<table class="bars"><caption>{escape(caption)}</caption><tbody>']
    for name, count in shown:
        width = 100 * count / (highest or 1)
        bar = f'<svg aria-hidden="true"><rect class="s0" width="{width:.1f}%" height="100%"/></svg>' if count else ""
        lines.append(
            f'<tr><th scope="row">{escape(name)}</th>'
            f"<td>{bar}</td>"
            f'<td class="number">{about}{count:,}</td><td class="number">{share_text(count, total)}</td></tr>'
        )
    lines.append("</tbody></table>")
    if len(shown) < len(rows):
        rest = rows[len(shown) :]
        lines.append(f'<p class="note">and {len(rest):,} more, {sum(count for _, count in rest):,} in all</p>')
    return "".join(lines)


# ----------------------------------------------------------------------------------------------------------- wording


def number_text(value: Any) -> str:
    """Returns an integer with all of its digits, and a float with four significant digits.

    >>> number_text(1234567), number_text(0.0001235), number_text(1234.56), number_text(2.5), number_text(2**63)
    ('1,234,567', '0.0001235', '1,235', '2.5', '9,223,372,036,854,775,808')
    """
    if isinstance(value, int):
        return f"{value:,}"
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e9:
        return f"{value:.4g}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def share_text(count: int, total: int) -> str:
    """Returns a share in percent; '-' for a share of nothing.

    >>> share_text(1, 3), share_text(1, 100000), share_text(5, 5), share_text(0, 5), share_text(0, 0)
    ('33.3%', '<0.1%', '100%', '0%', '-')
    """
    if not total:
        return "-"
    if count in (0, total):
        return "100%" if count else "0%"
    share = 100 * count / total
    return "<0.1%" if share < 0.1 else f"{share:.1f}%"
