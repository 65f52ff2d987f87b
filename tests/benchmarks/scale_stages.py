"""What the stages of a spilled run take on many workers and an object store: the real plans, and a model of the store.

    python tests/benchmarks/scale_stages.py                        # the table of docs/explanation/scaling.md
    python tests/benchmarks/scale_stages.py --store gs --workers 100

The plan, its merge levels, the distribution of blocks among runs, and the sizes of reads are those of a pipeline. Each
task costs the time of its requests, its bytes and its records; a stage ends when the last of its slots does, or when
the store has answered all requests at its highest rate.
"""

from __future__ import annotations

import argparse
import heapq
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scale import PARTS, Scenario, _counts, _size

from beam_datasets.beam.counting import MANY_SHARDS
from beam_datasets.engines.engine import SPILLED_BLOCK_SIZE
from beam_datasets.options import ShardingOptions
from beam_datasets.shuffle import histogram, plan
from beam_datasets.shuffle.block_builder import MAX_GROWTH
from beam_datasets.shuffle.blocks import HEAD_BYTES
from beam_datasets.shuffle.levels import MergeLimits, plan_levels
from beam_datasets.shuffle.merge import IN_STORE, READS_AT_ONCE

if TYPE_CHECKING:
    from numpy.typing import NDArray

SLOTS = 4  # bundles that a worker processes at once, one a core
NETWORK = 1.25e9 / SLOTS  # bytes a second of a slot, of 10 Gbit/s of a worker
STREAM = 85e6  # bytes a second of one request
ENCODE, MERGE = 10e-6, 1.5e-6  # seconds of a core for a record of 1 kB
PART = 8 << 20  # of an upload
PARTS_AT_ONCE = 4


@dataclass(frozen=True)
class Store:
    """Documented limits of an object store.

    Attributes:
        latency: seconds to the first byte.
        reads: a second, of a prefix (S3) or of a bucket when it is new (GCS doubles both in 20 minutes).
        writes: a second, likewise.
    """

    latency: float
    reads: float
    writes: float


STORES = {"s3": Store(0.15, 5500, 3500), "gs": Store(0.05, 5000, 1000)}


class Stage(NamedTuple):
    """The tasks of a stage, as arrays of one number each."""

    name: str
    reads: NDArray[np.float64]
    bytes_read: NDArray[np.float64]
    bytes_written: NDArray[np.float64]
    cpu: NDArray[np.float64]
    memory: float


def stages(scenario: Scenario, *, levels: bool) -> list[Stage]:
    """Returns the stages of a run, planned by the functions of a pipeline."""
    framed, examples = scenario.framed, scenario.examples
    bins = histogram.max_bins(max(scenario.shards or 0, MANY_SHARDS))
    counts = histogram.merge([_counts(scenario, bins, seed) for seed in range(PARTS)], bins)
    split = plan.plan_split("train", counts, ShardingOptions(num_shards=scenario.shards))
    num_blocks = -(-examples * framed // (SPILLED_BLOCK_SIZE * MAX_GROWTH))
    limits = MergeLimits(max_levels=2 if levels else 0)
    num_bytes = int(split.received.sum()) * framed
    block = num_bytes / num_blocks
    ones = np.ones(num_blocks)
    found = [Stage("Encode", 0 * ones, 0 * ones, ones * block, ones * ENCODE * block / framed, 2 * block)]
    heads = ones * HEAD_BYTES * block / framed
    found.append(Stage("Route", ones, heads, 0 * ones, heads / HEAD_BYTES * 0.1e-6, heads[0] * 3))
    runs, columns = num_blocks, 1
    for number, level in enumerate(plan_levels(split.received, num_bytes, num_blocks, limits)):
        here = len(level.last_groups)
        of_run = np.bincount([zlib.crc32(b"%d" % i) % level.num_runs for i in range(runs)], minlength=level.num_runs)
        ends = np.cumsum(split.received)[level.last_groups]
        share = np.diff(ends, prepend=0) / ends[-1]
        size = np.outer(of_run / runs, share).ravel() * num_bytes
        inputs = np.repeat(of_run, here) * (1 + (columns - 1) / here)
        found.append(_merging(f"Merge, level {number + 1}", size, inputs, framed))
        runs, columns = level.num_runs, here
    groups = split.received * float(framed)
    found.append(_merging("Write", groups, np.full(len(groups), runs + (columns - 1) / len(groups)), framed))
    shards = np.full(split.num_shards, num_bytes / split.num_shards)
    if split.shards.max() + 1 < len(split.shards):
        found.append(Stage("Join", shards / (4 << 20), shards, shards, shards / 1e9, 4 << 20))
    return found


def _merging(name: str, size: NDArray[np.float64], inputs: NDArray[np.float64], framed: int) -> Stage:
    """Returns a stage that merges ranges of blocks; a block is read in one range for its heads, and one a chunk."""
    per_block = np.array([IN_STORE.chunks(int(number), int(num_bytes)) for number, num_bytes in zip(inputs, size)])
    memory = size / per_block + 75 * size / framed
    return Stage(
        name,
        inputs * (1 + per_block),
        size * (1 + HEAD_BYTES / framed),
        size,
        MERGE * size / framed,
        float(memory.max()),
    )


def seconds(stage: Stage, store: Store, workers: int) -> tuple[float, float, float]:
    """Returns the seconds of a stage, of its busiest slot relative to the mean, and of the store's limits alone."""
    uploads = stage.bytes_written / PART
    requests = stage.reads * store.latency / READS_AT_ONCE + uploads * store.latency / PARTS_AT_ONCE
    moved = np.maximum(stage.bytes_read / min(NETWORK, STREAM * READS_AT_ONCE), stage.bytes_written / NETWORK)
    tasks = requests + moved + stage.cpu
    slots = [0.0] * (workers * SLOTS)
    for task in tasks.tolist():
        heapq.heapreplace(slots, slots[0] + task)
    limit = max(stage.reads.sum() / store.reads, uploads.sum() / store.writes)
    return max(max(slots), limit), max(slots) / (sum(slots) / len(slots)), limit


def table(scenario: Scenario, store: Store, workers: list[int], *, levels: bool) -> list[str]:
    """Returns the rows of a scenario."""
    rows = []
    total = np.zeros(len(workers))
    for stage in stages(scenario, levels=levels):
        taken = [seconds(stage, store, count) for count in workers]
        total += [each[0] for each in taken]
        cells = [_time(took) + (" (store)" if took == limit else "") for took, _, limit in taken]
        reads = f"{stage.reads.sum():.1e} of {_size(stage.bytes_read.sum() / max(1, stage.reads.sum()))}"
        rows.append([stage.name, f"{len(stage.reads):,}", reads, _size(stage.memory), f"{taken[-1][1]:.2f}", *cells])
    rows.append(["all", "", "", "", "", *map(_time, total)])
    return ["| " + " | ".join(row) + " |" for row in rows]


def _time(took: float) -> str:
    return f"{took / 3600:.1f} h" if took >= 3600 else f"{took / 60:.1f} min" if took >= 60 else f"{took:.1f} s"


def main() -> None:
    """Prints Markdown tables of the scenarios, with merge levels and without."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=float, nargs="+", default=[1e9, 1e11])
    parser.add_argument("--bytes", type=int, default=1000, help="of a record")
    parser.add_argument("--shards", type=int, help="default: by the size rule")
    parser.add_argument("--store", choices=sorted(STORES), default="s3")
    parser.add_argument("--workers", type=int, nargs="+", default=[10, 100, 1000])
    args = parser.parse_args()
    for examples in args.examples:
        scenario = Scenario(int(examples), args.bytes, args.shards)
        for levels in (False, True):
            print(f"\n{examples:.0e} examples, {args.store}, {'with' if levels else 'without'} merge levels\n")
            heads = ["stage", "tasks", "reads", "memory", "slowest / mean", *(f"{n} workers" for n in args.workers)]
            print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
            print("\n".join(table(scenario, STORES[args.store], args.workers, levels=levels)))


if __name__ == "__main__":
    main()
