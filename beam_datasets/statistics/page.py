"""Statistics as one HTML page that needs nothing else: no scripts, no fonts, no network."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from beam_datasets.statistics.report import SIZES, constant_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from beam_datasets.statistics.report import Statistics

_STYLE = """
:root { color-scheme: light dark; --bar: #4a87c4; --line: #8886; }
* { box-sizing: border-box; overflow-wrap: anywhere; }
body { margin: 0 auto; padding: 1.5rem; max-width: 76rem; font: 15px/1.45 system-ui, sans-serif; }
h1, h2, h3, p { margin: .2rem 0; }
nav { margin: 1rem 0; line-height: 1.9; }
nav a { margin-right: .9rem; }
section { margin: 1rem 0; padding: 1rem; border: 1px solid var(--line); border-radius: 8px; }
.slices { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)); gap: 1rem 2rem; }
.slices > div { min-width: 0; max-width: 44rem; }
.soft, .note, dt, figcaption, caption { opacity: .7; font-size: .9rem; text-align: left; }
.facts { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; margin: 0 0 .6rem; }
.facts dt, .facts dd { display: inline; margin: 0 0 0 .35rem; }
figure { margin: .4rem 0 .8rem; }
.plot { display: flex; align-items: flex-end; height: 7rem; gap: 1px; border-bottom: 1px solid var(--line); }
.plot b { flex: 1; max-width: 3rem; background: var(--bar); }
.bars { width: 100%; font-size: .85rem; table-layout: fixed; border-collapse: collapse; }
.bars th { width: 40%; font-weight: 400; text-align: left; overflow: hidden; white-space: pre; }
.bars .bar div { height: .8rem; min-width: 1px; background: var(--bar); }
.number { text-align: right; width: 4.6rem; font-variant-numeric: tabular-nums; }
"""
COUNTS = {"zeros": "zero", "nan": "NaN", "inf": "infinite", "-inf": "minus infinite", "empty": "empty"}
COUNTS["unreadable"] = "of unknown size"
_MOST_ROWS = 30  # of labels; values are cut before
_TOP = 10
_CAPTIONS = {"items": "items of an example", "bytes": "bytes", "height": "height", "width": "width"}
_CAPTIONS["channels"] = "channels"


def page(statistics: Statistics) -> str:
    """Returns the page, the same for the same statistics."""
    return "\n".join(_page(statistics)) + "\n"


def _page(statistics: Statistics) -> Iterator[str]:
    title = escape(statistics.dataset)
    paths = list(next(iter(statistics.slices.values()), {"features": {}})["features"])
    yield f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    yield f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
    examples = ", ".join(
        f"{escape(name)}: {part['examples']:,} example{'' if part['examples'] == 1 else 's'}"
        for name, part in statistics.slices.items()
    )
    yield f'<h1>{title}</h1><p>{examples}</p><p class="note">digest {escape(statistics.digest)}</p>'
    if statistics.unknown:
        yield f"<p>Left out, as their class is not known: {escape(', '.join(statistics.unknown))}</p>"
    links = (f'<a href="#f{number}">{escape(path)}</a>' for number, path in enumerate(paths))
    yield f'<nav aria-label="features">{" ".join(links)}</nav><main>'
    for number, path in enumerate(paths):
        parts = {name: part["features"][path] for name, part in statistics.slices.items()}
        yield from _feature(number, path, parts)
    yield _notes()
    yield "</main></body></html>"


def _feature(number: int, path: str, parts: dict[str, dict[str, Any]]) -> Iterator[str]:
    kind = next(iter(parts.values()))["type"]
    yield f'<section id="f{number}"><header><h2>{escape(path)}</h2><span class="soft">{escape(kind)}</span></header>'
    yield '<div class="slices">'
    for name, feature in parts.items():
        yield f"<div><h3>{escape(name)}</h3>{_facts(feature)}{''.join(_plots(feature))}</div>"
    yield "</div></section>"


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


def _plots(feature: dict[str, Any]) -> Iterator[str]:
    if feature.get("min") != feature.get("max"):
        yield _figure(feature, "values")
    for name, caption in _CAPTIONS.items():
        if name in feature and not (name in SIZES and constant_size(feature)):
            yield _figure(feature[name], caption)
    if "labels" in feature:
        rows = [(str(number) if name is None else name, count) for number, name, count in feature["labels"]]
        yield bars_table(rows, feature["values"], "labels")
    elif feature.get("top"):
        rows = [(_shown(value), count) for value, count in feature["top"][:_TOP]]
        yield bars_table(rows, feature["values"], "most frequent", exact=feature["top_exact"])


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value.replace("\n", "\u23ce").replace("\t", "\u21e5") or "(empty)"
    return number_text(value)


def _figure(found: dict[str, Any], caption: str) -> str:
    if found["min"] == found["max"]:
        return f'<p class="soft">{escape(caption)}: {number_text(found["min"])} each</p>'
    facts = "" if caption == "values" else _list(_spread(found))
    plot = histogram_plot(found, caption)
    return f"<figure><figcaption>{escape(caption)}</figcaption>{facts}{plot}</figure>"


def _notes() -> str:
    return (
        '<p class="note">Counts, extremes, means and standard deviations are exact. Quantiles are within the bounds '
        "that the JSON gives with each. A ~ stands before estimates: of different values (standard error 1.6%), and of "
        "how often the most frequent occur, where there are more than 4,096 different ones. Bars are approximate at "
        "their edges.</p>"
    )


# ------------------------------------------------------------------------------------------------------------- plots


def histogram_plot(spread: dict[str, Any], what: str) -> str:
    """Returns the histogram of numbers, with a text for each bar and one for those who do not see it.

    Args:
        spread: what is known of them.
        what: of what it is.
    """
    histogram = spread["histogram"]
    edges, counts = histogram["edges"], histogram["counts"]
    highest = max(counts, default=0)
    last = edges[-1] - _is_whole(edges)
    first, last = number_text(max(edges[0], spread["min"])), number_text(min(last, spread["max"]))
    said = f"{what}: {sum(counts):,} from {first} to {last}, at most {highest:,} in a bar"
    bars = "".join(
        f'<b style="height:{100 * count / max(highest, 1):.1f}%" title="{_bar_range(edges, number)}: {count:,}"></b>'
        for number, count in enumerate(counts)
    )
    outside = [f"{histogram[side]:,} {side}" for side in ("below", "above") if histogram[side]]
    note = ", ".join([f"{first} to {last}", f"at most {highest:,} in a bar", *outside])
    return f'<div class="plot" role="img" aria-label="{escape(said)}">{bars}</div><p class="note">{note}</p>'


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
