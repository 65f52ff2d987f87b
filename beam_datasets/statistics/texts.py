"""Texts and tables of statistics, for notebooks, pages and the terminal.

In the signatures, `feature` is the JSON object of the statistics of a feature, which `report` describes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beam_datasets.display.html import paragraph, table

SIZES = ("height", "width", "channels")
"""The statistics of images that are ranges of sizes in pixels."""


def constant_size(feature: dict[str, Any]) -> str:
    """Returns the size of images that all have the same, such as '28x28x1'; '' for others.

    Args:
        feature: the statistics of the feature, by their names in the JSON.
    """
    sizes = [feature.get(name, {}) for name in SIZES]
    constant = all("min" in size and size["min"] == size["max"] for size in sizes)
    return "x".join(str(size["min"]) for size in sizes) if constant else ""


def value_text(value: Any, feature: Mapping[str, Any] | None = None) -> str:
    """Returns a frequent value as one line: a text with signs for line feeds and tabs, "1,200", "0.25", or "True".

    Args:
        value: the value; that of a bool is 0 or 1.
        feature: the statistics of its feature, which has its type; None if it is not known.
    """
    if feature is not None and is_bool(feature):
        return str(bool(value))
    if isinstance(value, str):
        return value.replace("\n", "\u23ce").replace("\t", "\u21e5") or "(empty)"
    return number_text(value)


def is_bool(feature: Mapping[str, Any]) -> bool:
    """Returns whether the values of a feature are bools, from its statistics."""
    return str(feature.get("type", "")).startswith("bool")


def distinct_text(feature: dict[str, Any]) -> str:
    """Returns the number of distinct values: "12", or "~1,200" if it is an estimate."""
    return f"{'' if feature['distinct_exact'] else '~'}{feature['distinct']:,}"


def notebook_tables(name_and_version: str, digest: str, slices: Mapping[str, Any]) -> str:
    """Returns a table for each slice as HTML, with a row for each feature, without styles and scripts.

    Args:
        name_and_version: the dataset.
        digest: the digest of the published version.
        slices: name -> {'examples': number, 'features': name -> statistics}; see `Statistics`.
    """
    header = ["feature", "type", "values", "missing", "distinct", "min", "mean", "max", "frequent"]
    tables = [
        table(
            header,
            [[path, *_cells(feature)] for path, feature in slice_statistics["features"].items()],
            f"{name}: {slice_statistics['examples']:,} examples",
        )
        for name, slice_statistics in slices.items()
    ]
    return paragraph(f"{name_and_version}, digest {digest[:16]}") + "".join(tables)


def _cells(feature: dict[str, Any]) -> list[str]:
    """Returns the cells of a feature's row in a table, without its name."""
    labels = sorted(feature.get("labels", ()), key=lambda label: -label[2])
    top = [(number if name is None else name, count) for number, name, count in labels] or feature.get("top", [])
    numbers = (number_text(feature[name]) if name in feature else "" for name in ("min", "mean", "max"))
    frequent = ", ".join(f"{value_text(value)} ({count:,})" for value, count in top[:3])
    return [
        feature["type"],
        f"{feature['values']:,}",
        f"{feature['missing']:,}",
        distinct_text(feature),
        *numbers,
        frequent,
    ]


def number_text(value: Any) -> str:
    """Returns an integer with all of its digits, and a float with four significant digits, or all before its point.

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

    >>> share_text(1, 3), share_text(1, 100000), share_text(99999, 100000), share_text(5, 5), share_text(0, 0)
    ('33.3%', '<0.1%', '>99.9%', '100%', '-')
    """
    if not total:
        return "-"
    if count in (0, total):
        return "100%" if count else "0%"
    share = 100 * count / total
    if share > 99.9:
        return ">99.9%"
    return "<0.1%" if share < 0.1 else f"{share:.1f}%"
