"""Statistics as one HTML page that needs nothing else: no scripts, no fonts, no network."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from beam_datasets.statistics.plots import bars_table, histogram_svg
from beam_datasets.statistics.report import SIZES, constant_size
from beam_datasets.statistics.wording import number_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from beam_datasets.statistics.report import Statistics

_STYLE = """
:root { color-scheme: light dark; --back: #fff; --card: #f6f7f9; --text: #1c2024; --soft: #5b6470; --line: #d5dae1;
  --bar: #2f6fb3; }
@media (prefers-color-scheme: dark) { :root { --back: #14171b; --card: #1d2126; --text: #e6e9ed; --soft: #a3adb9;
  --line: #363d46; --bar: #6aa9ea; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 76rem; background: var(--back); color: var(--text);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { margin: 0 0 .2rem; font-size: 1.6rem; }
h2 { margin: 0; font-size: 1.1rem; overflow-wrap: anywhere; }
h3 { margin: 0 0 .4rem; font-size: .95rem; color: var(--soft); font-weight: 600; }
p { margin: .3rem 0; overflow-wrap: anywhere; }
a { color: var(--bar); }
.soft, .note { color: var(--soft); }
.note { font-size: .85rem; }
nav { margin: 1rem 0; line-height: 1.9; }
nav a { margin-right: .9rem; white-space: nowrap; }
section { margin: 1rem 0; padding: 1rem; background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
section header { display: flex; flex-wrap: wrap; gap: .2rem .8rem; align-items: baseline; margin-bottom: .6rem; }
.slices { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)); gap: 1rem 2rem; }
.slices > div { min-width: 0; max-width: 44rem; }
.facts { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; margin: 0 0 .6rem; }
.facts div { white-space: nowrap; }
.facts dt { display: inline; color: var(--soft); }
.facts dd { display: inline; margin: 0 0 0 .35rem; font-variant-numeric: tabular-nums; }
figure { margin: .4rem 0 .8rem; }
figcaption, caption { text-align: left; font-size: .85rem; color: var(--soft); padding: 0 0 .2rem; }
svg { display: block; width: 100%; height: auto; }
rect { fill: var(--bar); }
.axis { stroke: var(--soft); }
.grid { stroke: var(--line); stroke-dasharray: 3 3; }
.tick { font: 11px system-ui, sans-serif; fill: var(--soft); }
.end { text-anchor: end; }
table { border-collapse: collapse; }
.bars { width: 100%; font-size: .85rem; table-layout: fixed; margin-bottom: .4rem; }
.bars th { width: 40%; font-weight: 400; text-align: left; overflow: hidden; text-overflow: ellipsis;
  white-space: pre; padding: 1px .5rem 1px 0; }
.bars .bar { width: auto; }
.bars .bar div { height: .8rem; min-width: 1px; background: var(--bar); border-radius: 2px; }
.number { text-align: right; width: 4.6rem; padding-left: .5rem; font-variant-numeric: tabular-nums; }
"""
_COUNTS = {
    "missing": "missing",
    "zeros": "zeros",
    "nan": "NaN",
    "inf": "infinite",
    "-inf": "minus infinite",
    "empty": "empty",
    "unreadable": "of unknown size",
}
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
    facts |= {name: f"{feature[key]:,}" for key, name in _COUNTS.items() if feature.get(key)}
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
    plot = histogram_svg(found, caption)
    return f"<figure><figcaption>{escape(caption)}</figcaption>{facts}{plot}</figure>"


def _notes() -> str:
    return (
        '<p class="note">Counts, extremes, means and standard deviations are exact. Quantiles are within the bounds '
        "that the JSON gives with each. A ~ stands before estimates: of different values (standard error 1.6%), and of "
        "how often the most frequent occur, where there are more than 4,096 different ones. Bars are approximate at "
        "their edges.</p>"
    )
