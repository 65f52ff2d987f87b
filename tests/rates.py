"""Rates of docs/explanation/performance-tables.md; `python -m tests.rates` writes their plot, docs/images/rates.svg."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLES = ROOT / "docs" / "explanation" / "performance-tables.md"
PLOT = ROOT / "docs" / "images" / "rates.svg"
OURS = "beam_datasets"
WORKLOADS = ("digits", "text", "tabular", "tokens")
WAYS = {"generate": "Generate", "read one by one": "Read one by one"}
SYSTEMS = (
    *(OURS, "Lance", "LitData", "MosaicML MDS", "Hugging Face datasets", "TFDS", "ArrayRecord by TFDS", "WebDataset"),
)

_WIDTH, _LABELS, _PANEL, _BAR, _GAP = 940, 150, 190, 15, 46


def rates(way: str, text: str = "") -> dict[str, dict[str, float]]:
    """Returns system -> workload -> examples a second; of several ways of a system to do it, the fastest."""
    text = text or TABLES.read_text(encoding="utf-8")
    table = re.findall(rf"^\*\*{re.escape(way)}\*\*, examples/s.*?\n\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL)[0]
    head, _, *rows = (line.strip("|").split("|") for line in table.splitlines())
    found: dict[str, dict[str, float]] = {}
    for name, *cells in rows:
        system = found.setdefault(name.split(",")[0].strip(), {})
        for workload, cell in zip((part.strip() for part in head[1:]), cells):
            if number := re.match(r" ([\d,]+)", cell):
                system[workload] = max(system.get(workload, 0), float(number[1].replace(",", "")))
    return found


def ratios(way: str, system: str) -> tuple[float, float]:
    """Returns how many times as fast beam_datasets is as another system: the least and the most of the workloads."""
    found = rates(way)
    each = [found[OURS][workload] / found[system][workload] for workload in WORKLOADS if workload in found[system]]
    return min(each), max(each)


def svg() -> str:
    """Returns the plot: for each way a row of panels, one for each workload, with a bar for each system."""
    height = len(WAYS) * (len(SYSTEMS) * _BAR + _GAP) + 10
    body = [line for row, way in enumerate(WAYS) for line in _row(way, row * (len(SYSTEMS) * _BAR + _GAP) + 20)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="{" and ".join(WAYS.values())}: examples a second of {len(SYSTEMS)} systems">\n'
        "<style>.g{fill:#fff}text{font:11px sans-serif;fill:#24292f}.t{font-weight:bold}"
        ".o{fill:#0969da}.b{fill:#8c959f}"
        "@media(prefers-color-scheme:dark){.g{fill:#0d1117}text{fill:#e6edf3}.o{fill:#4493f8}.b{fill:#7d8590}}</style>\n"
        f'<rect class="g" width="{_WIDTH}" height="{height}"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _row(way: str, top: int) -> Iterator[str]:
    found = rates(way)
    yield f'<text class="t" x="0" y="{top}">{escape(WAYS[way])}</text>'
    for line, system in enumerate(SYSTEMS):
        bold = ' class="t"' if system == OURS else ""
        yield f'<text{bold} x="0" y="{top + 20 + line * _BAR}">{escape(system)}</text>'
    for column, workload in enumerate(WORKLOADS):
        left = _LABELS + column * (_PANEL + 8)
        best = max(found.get(system, {}).get(workload, 0) for system in SYSTEMS)
        yield f'<text class="t" x="{left}" y="{top}">{workload}</text>'
        for line, system in enumerate(SYSTEMS):
            rate = found.get(system, {}).get(workload)
            if rate:
                y, width = top + 11 + line * _BAR, max(1, round(rate / best * (_PANEL - 70)))
                kind = "o" if system == OURS else "b"
                yield f'<rect class="{kind}" x="{left}" y="{y}" width="{width}" height="{_BAR - 4}"/>'
                yield f'<text x="{left + width + 4}" y="{y + 9}">{rate:,.0f}</text>'


if __name__ == "__main__":
    PLOT.write_text(svg(), encoding="utf-8")
