"""Measurements as Markdown, and where in a page they go."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steps import CORES, LIMITS, OPEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Cells = dict[tuple[str, str], Any]  # (system, workload) -> value

MEBIBYTE = 2**20


@dataclass(frozen=True)
class Measurement:
    """One pass of a step.

    Attributes:
        system: who was measured; rows of a table.
        way: what it did; a table each.
        workload: on which rows; columns of a table.
        examples: how many.
        seconds: in which time.
        processor_seconds: of the step's processes together, without servers; 0 where it is not known.
        versions: of the packages that took part.
        peak_memory: of the step's processes in bytes; 0 where it was not watched.
    """

    system: str
    way: str
    workload: str
    examples: int
    seconds: float
    versions: dict[str, str]
    processor_seconds: float = 0
    peak_memory: int = 0

    @property
    def rate(self) -> float:
        """Examples per second."""
        return self.examples / self.seconds

    @property
    def processor_rate(self) -> float:
        """Examples per second of processor time; 0 where it is not known."""
        return self.examples / self.processor_seconds if self.processor_seconds else 0


def tables(measurements: list[Measurement]) -> str:
    """Returns for each way the best rate of every system and workload, and the highest of its memory peaks.

    The first system of a way is what the others are compared with. What is opened has times instead of rates.
    """
    parts = []
    for way in dict.fromkeys(m.way for m in measurements):
        mine = [m for m in measurements if m.way == way]
        parts.append(_times(way, mine) if way == OPEN else _rates(way, mine))
        if any(m.peak_memory for m in mine):
            peaks = _highest(mine, lambda m: m.peak_memory)
            parts.append(f"**{way}**, peak memory in MiB\n")
            parts.append(_table({at: f"{peak / MEBIBYTE:,.0f}" for at, peak in peaks.items()}))
    return "\n".join(parts)


def _rates(way: str, measurements: list[Measurement]) -> str:
    rates, first = _highest(measurements, lambda m: m.rate), measurements[0].system
    if way == LIMITS:
        return f"**{way}**, examples/s\n\n" + _table({at: f"{rate:,.0f}" for at, rate in rates.items()})
    head = f"**{way}**, examples/s; in brackets, how many times as fast {first} is\n\n"
    return head + _table({at: _compared(rate, rates.get((first, at[1]))) for at, rate in rates.items()})


def _times(way: str, measurements: list[Measurement]) -> str:
    rates = _highest(measurements, lambda m: m.rate)
    return f"**{way}**, milliseconds\n\n" + _table({at: f"{1000 / rate:,.1f}" for at, rate in rates.items()})


def _highest(measurements: Iterable[Measurement], value: Callable[[Measurement], float]) -> Cells:
    cells: Cells = {}
    for m in measurements:
        cells[m.system, m.workload] = max(cells.get((m.system, m.workload), 0), value(m))
    return cells


def _compared(rate: float, first: float | None) -> str:
    return f"{rate:,.0f}" if first in (None, rate) else f"{rate:,.0f} ({times(first / rate)})"


def times(ratio: float) -> str:
    """Returns a ratio as text, of three digits or of as many as there are before the point."""
    return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.3g}x"


def _table(cells: Cells) -> str:
    systems, workloads = (list(dict.fromkeys(names)) for names in zip(*cells))
    lines = ["| | " + " | ".join(workloads) + " |", "|---|" + "---:|" * len(workloads)]
    lines += [f"| {s} | " + " | ".join(cells.get((s, w), "-") for w in workloads) + " |" for s in systems]
    return "\n".join(lines) + "\n"


def setting(measurements: list[Measurement], command: str, load: float) -> str:
    """Returns the machine, its load average when the run began, the versions and the command."""
    versions: dict[str, str] = {}
    for m in measurements:
        versions.update(m.versions)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    described = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    commit = subprocess.run(described, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    lines = [
        f"- command: `{command}`",
        f"- machine: {_cpu()}, {CORES} cores, {memory:.0f} GiB; {platform.system()} {platform.machine()}; "
        f"load average {load:.1f} when the run began",
        f"- commit {commit}, Python {platform.python_version()}; "
        + ", ".join(f"{name} {version}" for name, version in sorted(versions.items())),
    ]
    return "\n".join(lines) + "\n"


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    models = re.findall(r"model name\s*: (.*)", info.read_text()) if info.exists() else []
    return models[0] if models else platform.processor() or platform.machine()


def put_rows(rows: dict[str, dict[str, str]], page: Path, name: str) -> None:
    """Updates cells of the table between the page's lines `<!-- NAME -->` and `<!-- /NAME -->`; others stay.

    Args:
        rows: {row: {column: text}}; new rows and columns are added.
        page: a file of Markdown.
        name: as of `put`.
    """
    text = page.read_text() if page.exists() else ""
    block = text.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->\n")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.strip().splitlines()]
    cells: Cells = {}
    for line in lines[2:]:
        cells |= {(line[0], column): cell for column, cell in zip(lines[0][1:], line[1:]) if cell != "-"}
    cells |= {(row, column): cell for row, columns in rows.items() for column, cell in columns.items()}
    put(_table(cells), page, name)


def put(text: str, page: Path, name: str) -> None:
    """Writes a text between the page's lines `<!-- NAME -->` and `<!-- /NAME -->`, which are added where missing."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
    before = page.read_text() if page.exists() else ""
    if begin not in before:
        before += f"\n{begin}{end}" if before else begin + end
    head, _, rest = before.partition(begin)
    page.write_text(f"{head}{begin}\n{text}\n{end}{rest.partition(end)[2]}")
