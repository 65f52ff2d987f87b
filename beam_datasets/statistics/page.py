"""Statistics as a self-contained HTML page, without fonts or network access; its script only sorts and scales.

In the signatures, `feature` is the JSON object of the statistics of a feature, which `report` describes, and `parts` or
`feature_parts` is {name of a slice: that object, or None for a slice without the feature}.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from importlib import resources
from math import sqrt
from typing import Any

import numpy as np

from beam_datasets.statistics.report import TOP, Statistics
from beam_datasets.statistics.sketches import bar_edges
from beam_datasets.statistics.texts import SIZES, constant_size, distinct_text, number_text, share_text, value_text

COUNTS = {"zeros": "zero", "nan": "NaN", "inf": "infinite", "-inf": "minus infinite", "empty": "empty"}
COUNTS |= {"unreadable": "of unknown size", "damaged": "damaged"}
_MAX_ROWS = 1000  # of labels
_TOP = 10
_COLOURS = 4
_CAPTIONS = {"values": "values", "items": "items of an example", "bytes": "bytes", "height": "height", "width": "width"}
_CAPTIONS["channels"] = "channels"
_NOISE = 1.95  # the two-sample Kolmogorov-Smirnov test at 0.1%
_EVEN, _MIN_IDS = 0.05, 20


def asset(name: str) -> str:
    """Returns the style sheet of the pages, `page.css`; or `page.js`, which sorts tables, scales bars, filters rows."""
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def page(statistics: Statistics, images: Mapping[str, Sequence[tuple[str, str]]] | None = None) -> str:
    """Returns the HTML page of statistics; the same statistics give the same page.

    Args:
        statistics: statistics of slices of a dataset.
        images: name of a feature -> URL and description of some of its images; no URL and an error of damaged ones.
    """
    title, code, style = escape(statistics.dataset), asset("page.js"), asset("page.css")
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    unknown = escape(", ".join(statistics.unknown))
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head><body>\n'
        f'<main><h1>{title}</h1><p class="note">digest {escape(statistics.digest)}</p>\n'
        f"{f'<p>Left out, as their class is not known: {unknown}</p>' if unknown else ''}\n"
        f"{content(statistics.slices, images=images)}</main><script>{code}</script></body></html>\n"
    )


def content(
    slices: Mapping[str, Any],
    example_url: Callable[[str, int], str] | None = None,
    images: Mapping[str, Sequence[tuple[str, str]]] | None = None,
) -> str:
    """Returns slices side by side as HTML without styles of its own, which needs those of `page.css`.

    Args:
        slices: name -> {'examples': number, 'features': name -> statistics}, as in `Statistics`; they may be of several
            datasets.
        example_url: returns the URL of an example of a slice, for the extremes.
        images: name of a feature -> URL and description of some of its images; no URL and an error of damaged ones.
    """
    paths = list(dict.fromkeys(path for slice_statistics in slices.values() for path in slice_statistics["features"]))
    legend = (
        f'<span class="s{index % _COLOURS}">\u25a0</span> {escape(name)}: {slice_statistics["examples"]:,} '
        f"example{'' if slice_statistics['examples'] == 1 else 's'}"
        for index, (name, slice_statistics) in enumerate(slices.items())
    )
    features = {
        path: {name: slice_statistics["features"].get(path) for name, slice_statistics in slices.items()}
        for path in paths
    }
    sections = (
        _feature(number, path, features[path], example_url, (images or {}).get(path, ()))
        for number, path in enumerate(paths)
    )
    log = '<p><label id="log" hidden><input type="checkbox"> Logarithmic bars</label></p>'
    return "\n".join([f"<p>{', '.join(legend)}</p>", _overview(features), log, *sections, _NOTES])


def _overview(features: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the overview table as HTML: a row with the main facts of each feature."""
    several = any(len(parts) > 1 for parts in features.values())
    heads = ["type", "missing", "distinct", *(["drift"] if several else []), "notes"]
    lines = []
    for number, (path, parts) in enumerate(features.items()):
        feature_statistics = [feature for feature in parts.values() if feature is not None]
        missing_share = max(
            (feature["missing"] / (feature["missing"] + feature["values"] or 1) for feature in feature_statistics),
            default=0,
        )
        distinct = max(feature_statistics, key=lambda feature: feature["distinct"])
        gap, _ = _drift(parts)
        notes = f'<td class="long">{marks}</td>' if (marks := _marks(parts)) else "<td></td>"
        drift = [f'<td class="number">{"-" if gap is None else f"{gap:.1%}"}</td>'] if several else []
        lines.append(
            f'<tr><th scope="row"><a href="#f{number}">{_title(path)}</a></th><td>{escape(_format_types(parts))}</td>'
            f'<td class="number">{f"{missing_share:.1%}" if missing_share else "0"}</td>'
            f'<td class="number">{distinct_text(distinct)}</td>{"".join(drift)}{notes}</tr>'
        )
    numbers = ("missing", "distinct", "drift")
    columns = (f'<th scope="col"{" class=number" * (head in numbers)}>{head}</th>' for head in heads)
    return (
        '<div class="wide" tabindex="0" role="group" aria-label="all features"><table class="sortable"><thead><tr>'
        f'<th scope="col">feature</th>{"".join(columns)}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
    )


def _feature(
    number: int,
    path: str,
    parts: Mapping[str, dict[str, Any] | None],
    example_url: Callable[[str, int], str] | None,
    images: Sequence[tuple[str, str]],
) -> str:
    """Returns the HTML section of a feature: its images, facts, histograms and tables for all slices.

    Args:
        number: number of the feature on the page, from 0, which its link contains.
        path: path of the feature.
        parts: name of a slice -> statistics of the feature in it; None if the slice lacks it.
        example_url: function (name of the slice, index of an example in it) -> URL; None for no links.
        images: (URL, description) of some of its images; the URL is '' for a damaged image.
    """
    facts = {
        name: _facts(feature) | _spread(feature, name, example_url)
        for name, feature in parts.items()
        if feature is not None
    }
    pictures = "".join(
        f'<img loading="lazy" src="{escape(url)}" alt="{escape(text)}">' if url else f"<br>Damaged: {escape(text)}"
        for url, text in images
    )
    return (
        f'<section id="f{number}"><h2>{_title(path)}</h2><p><span class="soft">{escape(_format_types(parts))}</span> '
        f"{_marks(parts)}</p>{f'<p class=images>{pictures}</p>' if pictures else ''}"
        f"{_facts_table(facts, 'numbers')}{''.join(_plots(parts, example_url))}{_tables(parts)}</section>"
    )


def _title(path: str) -> str:
    """Returns the path of a feature as HTML; "(no name)" if it is ""."""
    return escape(path) or "(no name)"


def _format_types(parts: Mapping[str, dict[str, Any] | None]) -> str:
    """Returns the different types that a feature has in the compared slices: "int64, float32".

    Args:
        parts: slice -> statistics of the feature; None if the slice does not have it.
    """
    return ", ".join(dict.fromkeys(feature["type"] for feature in parts.values() if feature is not None))


def _marks(feature_parts: Mapping[str, dict[str, Any] | None]) -> str:
    """Returns the marks of a feature as HTML, such as <mark>3 missing in train</mark> or <mark>identifier</mark>."""
    marks = []
    for name, feature in feature_parts.items():
        if feature is None:
            marks.append(f"not in {name}")
        elif feature["distinct_exact"] and _num_kinds(feature) == 1 and feature["values"] > 1:
            marks.append(f"{'only NaN' if feature.get('nan') == feature['values'] else 'constant'} in {name}")
        elif feature.get("items", {}).get("max") == 0:
            marks.append(f"always empty in {name}")
        if feature is not None and feature["missing"]:
            marks.append(f"{feature['missing']:,} missing in {name}")
    parts = [feature for feature in feature_parts.values() if feature is not None]
    if parts and all(map(is_identifier, parts)):
        marks.append("identifier")
    if _drift(feature_parts)[1]:
        marks.append("differs")
    return " ".join(f"<mark>{escape(mark)}</mark>" for mark in marks)


def _num_kinds(feature: dict[str, Any]) -> int:
    """Returns the number of distinct values; NaN and each infinity count as one value."""
    return int(feature["distinct"]) + sum(bool(feature.get(kind)) for kind in ("nan", "inf", "-inf"))


def is_identifier(feature: dict[str, Any]) -> bool:
    """Returns whether integers all differ and are evenly spread, so that bars would be of one height."""
    if "quantiles" not in feature or not isinstance(feature["min"], int) or feature["values"] < _MIN_IDS:
        return False
    low, width = feature["min"], feature["max"] - feature["min"]
    even = all(
        abs(value - low - float(share) * width) <= _EVEN * width for share, value in feature["quantiles"].items()
    )
    return even and feature["distinct"] >= feature["values"] * (1 if feature["distinct_exact"] else 0.95)


def _facts(feature: dict[str, Any]) -> dict[str, str]:
    """Returns the counts of a feature as texts by their titles, such as {'values': '1,200', 'distinct': '10'}."""
    facts = {"values": f"{feature['values']:,}"}
    facts |= {name: f"{feature[key]:,}" for key, name in ({"missing": "missing"} | COUNTS).items() if feature.get(key)}
    facts["distinct"] = distinct_text(feature)
    if size := constant_size(feature):
        facts["size"] = size
    return facts


def _spread(feature: dict[str, Any], name: str, example_url: Callable[[str, int], str] | None) -> dict[str, str]:
    """Returns the extremes, quantiles and moments of a feature: name -> HTML. The extremes link to their examples.

    Args:
        feature: statistics of the feature in a slice; {} is returned if it has no numbers.
        name: name of the slice.
        example_url: function (name of the slice, index of an example in it) -> URL; None for no links.
    """
    if "mean" not in feature:
        return {}

    def extreme(side: str) -> str:
        """Returns the "min" or "max" as HTML, with a link to its example if that is known."""
        text, index = number_text(feature[side]), feature.get(f"{side}_at")
        if index is None or feature["min"] == feature["max"]:
            return text
        url = example_url and example_url(name, index)
        text = f'<a href="{escape(url)}">{text}</a>' if url else text
        return f'{text} <span class="soft">example {index:,}</span>'

    quantiles = {"5%": "0.05", "25%": "0.25", "median": "0.5", "75%": "0.75", "95%": "0.95"}
    middle = {text: number_text(feature["quantiles"][share]) for text, share in quantiles.items()}
    moments = {moment: number_text(feature[moment]) for moment in ("mean", "std")}
    return {"min": extreme("min"), **middle, "max": extreme("max"), **moments}


def _facts_table(facts: Mapping[str, Mapping[str, str]], caption: str) -> str:
    """Returns a table with a row for each slice.

    Args:
        facts: name of the slice -> name of a column -> HTML.
        caption: caption of the table.
    """
    heads = list(dict.fromkeys(head for row in facts.values() for head in row))
    order = [*(head for head in heads if head not in _LAST), *(head for head in _LAST if head in heads)]
    lines = (
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(f'<td class="number">{row.get(head, "")}</td>' for head in order)
        + "</tr>"
        for name, row in facts.items()
    )
    columns = "".join(f'<th scope="col" class="number">{escape(head)}</th>' for head in order)
    return (
        f'<div class="wide" tabindex="0" role="group" aria-label="{escape(caption)}"><table><thead><tr>'
        f'<th scope="col">slice</th>{columns}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
    )


_LAST = ("min", "5%", "25%", "median", "75%", "95%", "max", "mean", "std")


def _plots(parts: Mapping[str, dict[str, Any] | None], example_url: Callable[[str, int], str] | None) -> Iterator[str]:
    """Yields a histogram for each kind of number, such as values or sizes; a note if all are the same or all differ."""
    if all(feature is None or is_identifier(feature) for feature in parts.values()):
        yield '<p class="soft">Integers that all differ and are evenly spread, so no histogram.</p>'
        return
    for name, caption in _CAPTIONS.items():
        spreads = _spreads(parts, name)
        sizes = {spread[side] for _, spread in spreads.values() for side in ("min", "max")}
        if len(sizes) < 2:
            if sizes and name != "values":
                yield f'<p class="soft">{caption}: {number_text(sizes.pop())} each</p>'
            continue
        rows = {label: _spread(spread, label, example_url) for label, spread in spreads.values()}
        facts = "" if name == "values" else _facts_table(rows, caption)
        yield f"<figure><figcaption>{caption}</figcaption>{histogram_plot(spreads, caption)}</figure>{facts}"


def _spreads(parts: Mapping[str, dict[str, Any] | None], name: str) -> dict[int, tuple[str, dict[str, Any]]]:
    """Returns {index of a slice: (label, statistics)}; `name` selects those of its values, or of items, bytes, ...."""
    spreads = {
        index: (label, feature if name == "values" else feature[name])
        for index, (label, feature) in enumerate(parts.items())
        if feature is not None
        and (name == "values" or name in feature)
        and not (name in SIZES and constant_size(feature))
    }
    return {index: (label, spread) for index, (label, spread) in spreads.items() if "histogram" in spread}


def _tables(feature_parts: Mapping[str, dict[str, Any] | None]) -> str:
    """Returns an HTML table of the labels or the most frequent values of all slices; '' if there are none."""
    counts: dict[str, dict[int, int]] = {}
    for index, feature in enumerate(feature_parts.values()):
        labels = [(str(n) if name is None else name, count) for n, name, count in (feature or {}).get("labels", ())]
        top = [(value_text(value, feature), count) for value, count in (feature or {}).get("top", ())]
        for name, count in labels or top[:_TOP]:
            counts.setdefault(name, {})[index] = counts.get(name, {}).get(index, 0) + count
        for name, count in top[_TOP:]:  # of what is among the first of another slice
            if name in counts:
                counts[name].setdefault(index, count)
    if not counts:
        return ""
    features = list(feature_parts.values())
    caption = "labels" if any("labels" in (feature or {}) for feature in features) else "most frequent"
    return bars_table(
        [(name, [row.get(index) for index in range(len(features))]) for name, row in counts.items()],
        [
            (name, (feature or {}).get("values", 0), (feature or {}).get("top_exact", True))
            for name, feature in feature_parts.items()
        ],
        caption,
    )


_NOTES = (
    '<p class="note">Counts, extremes, means and standard deviations are exact. Quantiles are within the bounds '
    "that the JSON gives with each. A ~ precedes estimates: of different values (standard error 1.6%), and of "
    "how often the most frequent occur, where there are more than 4,096 different ones. Bars are approximate at "
    "their edges. Drift is the largest difference between the cumulative shares of the first slice and of another: of "
    "numbers, lengths, sizes, labels in their order, and texts if a slice has few different ones; or that between the "
    "shares that are missing. A - in a table of "
    f"most frequent values: in that slice it is not among the {TOP}, or occurs once. A feature differs if chance makes "
    "such a difference in fewer than one of a thousand pairs of slices.</p>"
)


# ------------------------------------------------------------------------------------------------------------- plots


def _drift(parts: Mapping[str, dict[str, Any] | None]) -> tuple[float | None, bool]:
    """Returns (largest difference of shares between the first slice and another, whether it is more than noise).
    The shares are the cumulative ones of the values, and those that are missing; None without two slices.
    """
    gaps = []
    for name in _CAPTIONS:
        spreads = list(_spreads(parts, name).values())
        for other in spreads[1:]:
            _, (first, second) = _align_histograms([spreads[0][1]["histogram"], other[1]["histogram"]])
            gaps.append(_largest_difference(first, second))
    feature_statistics = [feature for feature in parts.values() if feature is not None]
    value_shares = [_shares_of_values(feature) for feature in feature_statistics if feature["values"]]
    for shares in value_shares[1:] if all(value_shares) else ():
        names = sorted({*value_shares[0], *shares})
        gaps.append(
            _largest_difference(
                [value_shares[0].get(name, 0) for name in names], [shares.get(name, 0) for name in names]
            )
        )
    counts, totals = (
        [feature["values"] for feature in feature_statistics],
        [feature["values"] + feature["missing"] for feature in feature_statistics],
    )
    missing = [feature["missing"] / (total or 1) for feature, total in zip(feature_statistics, totals)]
    missing_gap = max((abs(share - missing[0]) for share in missing), default=0)
    differs = max(gaps, default=0) > _noise(counts) or missing_gap > _noise(totals)
    return max([*gaps, missing_gap] if missing_gap else gaps, default=None), differs


def _noise(counts: Sequence[int]) -> float:
    """Returns the difference that chance makes between slices in one of a thousand pairs."""
    return _NOISE * sqrt(sum(1 / max(count, 1) for count in sorted(counts)[:2]))


def _shares_of_values(feature: dict[str, Any]) -> dict[Any, float]:
    """Returns the share in [0, 1] of each label, by its number, or of each text if all are listed; otherwise {}."""
    if "labels" in feature:
        return {number: count / feature["values"] for number, _, count in feature["labels"]}
    if (
        not {"bytes", "top"} <= feature.keys()
        or not feature["distinct_exact"]
        or feature["distinct"] > len(feature["top"])
    ):
        return {}
    return {value: count / feature["values"] for value, count in feature["top"]}


def _largest_difference(first: Sequence[float], second: Sequence[float]) -> float:
    """Returns the largest difference of the cumulative sums of two sequences of shares; in [0, 1]."""
    return float(abs(np.cumsum(first) - np.cumsum(second)).max(initial=0))


def _align_histograms(histograms: Sequence[dict[str, Any]]) -> tuple[list[Any], list[list[float]]]:
    """Returns (common edges of n bars, for each histogram a list of n shares of its numbers in these bars).

    Args:
        histograms: dicts with `edges`, `counts`, `below` and `above`; see `sketches.histogram`.
    """
    low, high = min(h["edges"][0] for h in histograms), max(_last_number(h["edges"]) for h in histograms)
    edges = bar_edges(low, high, are_integers=all(_is_whole(h["edges"]) for h in histograms))
    return edges, [_shares(histogram, edges) for histogram in histograms]


def histogram_plot(spreads: Mapping[int, tuple[str, dict[str, Any]]], quantity: str) -> str:
    """Returns histograms over a common axis, as SVG with a text for each bar and one for those who do not see it.

    Args:
        spreads: number of the colour -> (name of the slice, statistics of the numbers; see `report._spread`).
        quantity: meaning of the numbers, such as "values" or "height", for a screen reader.
    """
    histograms = [spread["histogram"] for _, spread in spreads.values()]
    edges, heights = histograms[0]["edges"], [histograms[0]["counts"]]
    if len(histograms) > 1:  # shares, because slices have different sizes
        edges, heights = _align_histograms(histograms)
    highest = max(map(max, heights), default=0) or 1
    bars, notes = [], []
    for (colour, (name, spread)), values in zip(spreads.items(), heights):
        count_format = "{:,}" if len(histograms) == 1 else f"{{:.2%}} of {name}"
        bars += [
            f'<rect class="s{colour % _COLOURS}{" many" * (len(histograms) > 1)}" x="{number}" y="{100 - height:.4g}" '
            f'width=".97" height="{height:.4g}"><title>{escape(_bar_range(edges, number))}: '
            f"{escape(count_format.format(value))}</title></rect>"
            for number, value in enumerate(values)
            if (height := 100 * value / highest)
        ]
        outside_notes = [
            f"{spread['histogram'][side]:,} {side}" for side in ("below", "above") if spread["histogram"][side]
        ]
        notes += [f"{name}: {', '.join(outside_notes)}"] if outside_notes and len(histograms) > 1 else outside_notes
    highest_note = (
        f"at most {highest:,} in a bar" if len(histograms) == 1 else f"at most {highest:.1%} of a slice in a bar"
    )
    if len(histograms) == 2:
        notes.append(f"largest difference of cumulative shares {_largest_difference(*heights):.1%}")
    low, high = (f(spread[m] for _, spread in spreads.values()) for f, m in ((min, "min"), (max, "max")))
    first, last = number_text(max(edges[0], low)), number_text(min(_last_number(edges), high))
    note = escape(", ".join([highest_note, *notes]))
    return (
        f'<svg class="plot" viewBox="0 0 {max(len(edges) - 1, 1)} 100" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(quantity)}: {first} to {last}, {note}">{"".join(bars)}</svg>'
        f'<p class="axis"><span>{first}</span><span>{note}</span><span>{last}</span></p>'
    )


def _shares(histogram: dict[str, Any], edges: Sequence[float]) -> list[float]:
    """Returns the shares of a histogram's numbers in bars with other edges; each old bar is taken as evenly filled."""
    base = edges[0] if _is_whole(edges) else 0  # different large integers are equal as floats
    bin_edges, common = (np.array([edge - base for edge in each], float) for each in (histogram["edges"], edges))
    counts = np.array(histogram["counts"], float)
    total = max(counts.sum() + histogram["below"] + histogram["above"], 1)
    if bin_edges[0] == bin_edges[-1]:
        shares: list[float] = (np.histogram([bin_edges[0]], common)[0] * (counts.sum() / total)).tolist()
        return shares
    cumulated = np.concatenate([[0.0], np.cumsum(counts)]) / total
    between: list[float] = np.diff(np.interp(common, bin_edges, cumulated)).tolist()
    return between


def _last_number(edges: Sequence[Any]) -> Any:
    """Returns the largest number in bars: the last edge, or for integers one less.

    >>> _last_number([0, 2, 4]), _last_number([0.0, 2.0])
    (3, 2.0)
    """
    return edges[-1] - _is_whole(edges)


def _bar_range(edges: Sequence[float], number: int) -> str:
    """Returns the range of the bar with a number: "7" or "0 to 9"; `edges` are the edges of all bars."""
    low, high = edges[number], edges[number + 1] - _is_whole(edges)
    return number_text(low) if low == high else f"{number_text(low)} to {number_text(high)}"


def _is_whole(edges: Sequence[float]) -> bool:
    """Returns whether bars are of integers; then the upper edge of a bar is not in it."""
    return isinstance(edges[0], int)


def bars_table(
    rows: Sequence[tuple[str, Sequence[int | None]]], slices: Sequence[tuple[str, int, bool]], caption: str
) -> str:
    """Returns values and their counts in slices as a table with bars of shares.

    Args:
        rows: name of each value, and its count in each slice; None if it is unknown.
        slices: name of each slice, total of its shares, and whether its counts are exact.
        caption: caption of the table.
    """
    highest = max((n / total for _, row in rows for n, (_, total, _) in zip(row, slices) if n and total), default=1)
    lines = []
    for name, row in rows[:_MAX_ROWS]:
        cells = ""
        for index, (count, (_, total, exact)) in enumerate(zip(row, slices)):
            width = 100 * (count or 0) / (total or 1) / highest
            bar = f'<rect class="s{index % _COLOURS}" width="{width:.1f}%" height="100%"/>' if count else ""
            number = "-" if count is None else f"{'' if exact else '~'}{count:,}"
            cells += f'<td><svg aria-hidden="true">{bar}</svg></td><td class="number">{number}</td>'
            cells += f'<td class="number">{share_text(count or 0, 0 if count is None else total)}</td>'
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    heads = "".join(
        f'<td></td><th scope="col" class="number">{escape(name)}</th><th scope="col" class="number">share</th>'
        for name, _, _ in slices
    )
    hidden_counts = [sum(count or 0 for count in row) for _, row in rows[_MAX_ROWS:]]
    note = (
        f'<p class="note">and {len(hidden_counts):,} more, {sum(hidden_counts):,} in all</p>' if hidden_counts else ""
    )
    return (
        f'<div class="wide high" tabindex="0" role="group" aria-label="{caption}"><table class="bars sortable">'
        f'<caption>{caption}</caption><thead><tr><th scope="col">{"label" if caption == "labels" else "value"}</th>'
        f"{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>{note}"
    )
