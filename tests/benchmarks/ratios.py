"""What beam_datasets is compared with, way by way, and what is asked of it."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

import steps
from report import times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from report import Measurement

OURS = "beam_datasets"
NAMED = ("cp", "all 40 features", "one thread", "decoding alone", "no workers", "obstore", "local files")
"""Comparisons with one system."""

MILLIONS = 2e6  # records of 1 kB a second: enough, however fast memory is
LOOP, MEMCPY, CP, GET = (
    "a plain loop: records with their CRC-32C",
    "memcpy of the same bytes",
    "cp of the same files",
    "one obstore client that gets the same files",
)
DECODING = "imagecodecs alone, on all cores"
LIMITS_OF = {  # the first that was measured
    steps.GENERATE: ("a plain loop: MD5, sort, CRC-32C, one file; records made before",),
    steps.ONE_BY_ONE: ("zlib alone, decompressing", LOOP),
    steps.BATCHES: ("zlib alone, decompressing", MEMCPY),
    steps.LARGE_BATCHES: ("zlib alone, decompressing", MEMCPY),
    steps.RANDOM: ("a plain loop: pread and CRC-32C",),
    steps.ONE_FEATURE: (LOOP,),
    steps.PARTIAL: (LOOP,),
    steps.PARTIAL_BATCHES: (MEMCPY,),
    steps.REMOTE: (GET,),
    steps.TABLE: (MEMCPY,),
    steps.RAW: (MEMCPY,),
    steps.MATERIALIZE: (CP,),
    steps.MATERIALIZE_TENTH: (CP,),
    steps.VERIFY: (CP,),
}


@dataclass(frozen=True)
class Rule:
    """A comparison.

    Attributes:
        way: of ours, and of the others unless `among` says where else they are found.
        what: with whom, in words.
        among: whether a system takes part; the fastest that does is compared.
        asked: workload -> how many times as fast beam_datasets should be; those that are missing are only shown.
        other_way: the way of the others, if it is another.
    """

    way: str
    what: str
    among: Callable[[str], bool]
    asked: dict[str, float]
    other_way: str = ""


def _peer(system: str) -> bool:
    return not system.startswith(OURS)


def _tfds_beam(system: str) -> bool:
    return system.startswith("TFDS, Beam")


def _parallel(system: str) -> bool:
    return _peer(system) and not _tfds_beam(system) and system.endswith("a process a core")


def _plain(system: str) -> bool:
    return _peer(system) and not _tfds_beam(system) and not _parallel(system)


def _ours(system: str) -> bool:
    return system == OURS


def _one_thread(system: str) -> bool:
    return system == f"{OURS}, one thread"


def _asked(number: float, **others: float) -> dict[str, float]:
    return dict.fromkeys(("digits", "text", "tabular", "tokens"), number) | others


RULES = (
    Rule(steps.GENERATE, "best plain writing, one process", _plain, _asked(2)),
    Rule(steps.GENERATE, "best plain writing, a process a core", _parallel, {}),
    Rule(steps.GENERATE, "TFDS on Beam", _tfds_beam, _asked(20)),
    Rule(steps.ONE_BY_ONE, "best peer", _peer, _asked(2, photos=1.8)),
    Rule(steps.ONE_BY_ONE, "one thread", _one_thread, {"photos": 1.8}),
    Rule(steps.ONE_BY_ONE, "decoding alone", lambda system: system == DECODING, {"photos": 0.85}, steps.LIMITS),
    Rule(steps.BATCHES, "best peer", _peer, _asked(1.5, digits=2, photos=1.8)),
    Rule(steps.BATCHES, "one thread", _one_thread, {"photos": 1.8}),
    Rule(steps.BATCHES, "decoding alone", lambda system: system == DECODING, {"photos": 0.85}, steps.LIMITS),
    Rule(steps.AUGMENTED, "best peer", _peer, {"photos": 1.8}),
    Rule(steps.LOADER, "best peer", _peer, {}),
    Rule(steps.LOADER_2, "best peer", _peer, _asked(2, photos=2)),
    Rule(steps.LOADER_2, "no workers", _ours, _asked(1, photos=1), steps.LOADER),
    Rule(steps.LARGE_BATCHES, "best peer", _peer, {}),
    Rule(steps.RANDOM, "best peer", _peer, _asked(2)),
    Rule(steps.ONE_FEATURE, "best peer", _peer, {}),
    Rule(steps.PARTIAL, "all 40 features", _ours, {"tabular": 5}, steps.ONE_BY_ONE),
    Rule(steps.PARTIAL, "best peer", _peer, {}),
    Rule(steps.PARTIAL_BATCHES, "all 40 features", _ours, {"tabular": 5}, steps.BATCHES),
    Rule(steps.PARTIAL_BATCHES, "best peer", _peer, {}),
    Rule(steps.RAW, "half of memcpy, or 2 million", lambda system: system == MEMCPY, {"kilobyte": 1}, steps.LIMITS),
    Rule(steps.RAW, "best peer", _peer, {}),
    Rule(steps.REMOTE, "best peer", _peer, _asked(2, photos=2)),
    Rule(steps.REMOTE, "obstore", lambda system: system == GET, _asked(0.5), steps.LIMITS),
    Rule(steps.REMOTE_AGAIN, "best peer", _peer, {}),
    Rule(steps.REMOTE_AGAIN, "local files", _ours, _asked(0.8, photos=0.8), steps.BATCHES),
    Rule(steps.TABLE, "best peer", _peer, {"text": 2, "tabular": 2}),
    Rule(steps.OPEN, "best peer", _peer, {}),
    Rule(steps.MATERIALIZE, "cp", lambda system: system == CP, {"kilobyte": 0.5}, steps.LIMITS),
    Rule(steps.MATERIALIZE, "best peer", _peer, {}),
    Rule(steps.MATERIALIZE_TENTH, "cp", lambda system: system == CP, {}, steps.LIMITS),
    Rule(steps.MATERIALIZE_TENTH, "best peer", _peer, {}),
    Rule(steps.VERIFY, "cp", lambda system: system == CP, {"kilobyte": 0.5}, steps.LIMITS),
)


@dataclass(frozen=True)
class Ratio:
    """A row of the table; rates are of examples a second."""

    rule: Rule
    workload: str
    system: str
    ours: float
    other: str
    theirs: float

    @property
    def value(self) -> float:
        """How many times as fast we are."""
        return self.ours / self.theirs

    @property
    def verdict(self) -> str:
        """What is asked for, and whether it is reached."""
        asked = self.rule.asked.get(self.workload)
        return "" if asked is None else f"{asked:g}: {'yes' if self.value >= asked else '**no**'}"


def best_rates(measurements: list[Measurement], kind: str = "rate") -> dict[tuple[str, str, str], float]:
    """Returns {(way, workload, system): best rate}, of a second of time or of processor time ("processor_rate")."""
    rates: dict[tuple[str, str, str], float] = {}
    for m in measurements:
        at = m.way, m.workload, m.system
        rates[at] = max(rates.get(at, 0), attrgetter(kind)(m))
    return rates


def ratios(measurements: list[Measurement]) -> Iterator[Ratio]:
    """Yields all comparisons that were measured, rule by rule."""
    rates = best_rates(measurements)
    for rule in RULES:
        for (way, workload, system), ours in rates.items():
            if way != rule.way or not (system == OURS or (way == steps.OPEN and system.startswith(OURS))):
                continue
            others = {s: r for (w, row, s), r in rates.items() if (w, row) == (rule.other_way or way, workload)}
            if found := {s: rate for s, rate in others.items() if rule.among(s)}:
                other = max(found, key=lambda s: found[s])
                halved = min(found[other] / 2, MILLIONS) if way == steps.RAW and rule.other_way else found[other]
                yield Ratio(rule, workload, system, ours, other, halved)


def limit(rates: dict[tuple[str, str, str], float], way: str, workload: str) -> tuple[str, float] | None:
    """Returns what a way cannot be faster than, or need not be, and its rate; None where nothing was measured."""
    for name in LIMITS_OF.get(way, ()):
        if rate := rates.get((steps.LIMITS, workload, name)):
            return name, rate
    return None


def table(measurements: list[Measurement]) -> list[str]:
    """Returns the comparisons as a Markdown table; nothing where there are none."""
    rates, work, lines = best_rates(measurements), best_rates(measurements, "processor_rate"), []
    for r in ratios(measurements):
        found = limit(rates, r.rule.way, r.workload)
        bound = f"{found[1]:,.0f} ({found[0].partition(';')[0]})" if found else ""
        named = f"{r.rule.what}: {r.other}" if r.rule.what not in NAMED else r.rule.what
        way = r.rule.way + r.system.removeprefix(OURS)
        theirs = work[r.rule.other_way or r.rule.way, r.workload, r.other]
        worked = times(work[r.rule.way, r.workload, r.system] / theirs) if theirs else ""
        ours, other = f"{r.ours:,.0f}", f"{r.theirs:,.0f}"
        cells = way, r.workload, ours, named, other, times(r.value), worked, r.verdict, bound
        lines.append(f"| {' | '.join(cells)} |")
    head = "| way | rows | beam_datasets /s | compared with | /s | ratio | by processor time | at least | limit /s |\n"
    return [head + "|---|---|---:|---|---:|---:|---:|---|---|\n" + "\n".join(lines)] if lines else []


def summary(measurements: list[Measurement]) -> dict[str, dict[str, str]]:
    """Returns the ratios alone: {comparison: {workload: ratio}}."""
    rows: dict[str, dict[str, str]] = {}
    for r in ratios(measurements):
        way = r.rule.way + r.system.removeprefix(OURS)
        rows.setdefault(f"{way}, compared with {r.rule.what}", {})[r.workload] = times(r.value)
    return rows
