"""What an example costs as datasets grow: more examples, and more shards."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tasks import OURS, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench import Bench
    from report import Measurement

ROWS = 1_000_000
SHARDS = (1, 100, 10_000)
SAME_SHARDS = 16  # while the examples grow
WORKLOAD = "line"
LIMITS = ("read_files", "make_files")
STEPS = ("one_by_one", "in_sequence", "batches", "materialize", "verify")


def measure(bench: Bench, rows: int) -> Iterator[Measurement]:
    """Yields the measurements; their workload says how many examples and shards."""
    sizes = [(count, SAME_SHARDS) for count in (rows // 10, rows, rows * 10)]
    for count, shards in [*sizes, *((count, shards) for count in (rows, rows * 10) for shards in SHARDS)]:
        tasks = [Task("ours", "generate_beam", num_shards=shards)]
        tasks += [Task("ours", step, OURS, num_shards=shards) for step in STEPS]
        tasks += [Task("plain", step, OURS, num_shards=shards) for step in LIMITS]
        for found in bench.run(tasks, WORKLOAD, count):
            yield replace(found, workload=f"{count}/{shards}", system="beam_datasets")


def tables(measurements: list[Measurement]) -> str:
    """Returns the costs by number of examples, and by number of shards."""
    best: dict[tuple[str, int, int], float] = {}
    for m in measurements:
        count, shards = map(int, m.workload.split("/"))
        at = m.way, count, shards
        best[at] = min(best.get(at, m.seconds), m.seconds)
    rows = sorted({count for _, count, shards in best if shards == SAME_SHARDS})
    divided = sorted({count for _, count, shards in best if shards != SAME_SHARDS})
    head = "Microseconds an example of 100 bytes, and how many times the first column"
    by_rows = _table(best, [(count, SAME_SHARDS) for count in rows], lambda at: f"{at[0]:,} examples")
    parts = [f"{head}: in {SAME_SHARDS} shards\n\n{by_rows}"]
    for count in divided:
        by_shards = _table(
            best, [(count, shards) for shards in SHARDS], lambda at: f"{at[1]:,} shard{'s' * (at[1] > 1)}"
        )
        parts.append(f"{head}: {count:,} examples\n\n{by_shards}")
    return "\n".join([*parts, _by_shard(best, divided)])


def _by_shard(best: dict[tuple[str, int, int], float], counts: list[int]) -> str:
    """Returns what each shard costs beside its examples: what many cost more than one, divided by their number."""
    few, many = SHARDS[0], SHARDS[-1]
    lines = ["| | " + " | ".join(f"{count:,} examples" for count in counts) + " |", "|---|" + "---:|" * len(counts)]
    for way in dict.fromkeys(way for way, _, _ in best):
        pairs = [(best.get((way, count, few)), best.get((way, count, many))) for count in counts]
        costs = [_cell(1e6 * (last - first) / (many - few), None) if first and last else "-" for first, last in pairs]
        lines.append(f"| {way} | " + " | ".join(costs) + " |")
    return f"Microseconds a shard beside its examples, of {many:,}\n\n" + "\n".join(lines) + "\n"


def _table(
    best: dict[tuple[str, int, int], float], columns: list[tuple[int, int]], name: Callable[[tuple[int, int]], str]
) -> str:
    lines = ["| | " + " | ".join(map(name, columns)) + " |", "|---|" + "---:|" * len(columns)]
    for way in dict.fromkeys(way for way, _, _ in best):
        costs = [1e6 * best[(way, *at)] / at[0] if (way, *at) in best else None for at in columns]
        lines.append(f"| {way} | " + " | ".join(_cell(cost, costs[0]) for cost in costs) + " |")
    return "\n".join(lines) + "\n"


def _cell(cost: float | None, first: float | None) -> str:
    if cost is None:
        return "-"
    return (f"{cost:,.0f}" if cost >= 100 else f"{cost:.3g}") + (
        f" ({cost / first:.2f}x)" if first and cost != first else ""
    )
