"""What a dataset far larger than this machine costs: the real plan, routing and metadata on simulated counts.

    python tests/benchmarks/scale.py                              # the scenarios of docs/explanation/scaling.md
    python tests/benchmarks/scale.py --examples 1e9 --bytes 1000 --shards 100000

Keys are hashes, spread evenly, so a histogram of 10^11 of them can be drawn instead of counted; all else is what runs
in a pipeline. Nothing of the records themselves is made.
"""

from __future__ import annotations

import argparse
import math
import pickle
import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import beam_datasets
from beam_datasets import features
from beam_datasets.beam.counting import MANY_SHARDS
from beam_datasets.engines.engine import INLINE_BLOCK_SIZE
from beam_datasets.formats import tfrecord
from beam_datasets.metadata.info import DatasetIdentity, DatasetInfo
from beam_datasets.metadata.manifest import Manifest, ShardColumns
from beam_datasets.metadata.shards import shard_ends
from beam_datasets.metadata.version import Version
from beam_datasets.options import ShardingOptions
from beam_datasets.shuffle import histogram, plan, routing
from beam_datasets.shuffle.blocks import Block

if TYPE_CHECKING:
    from collections.abc import Callable

PARTS = 16  # histograms, as of so many workers, that are really merged


@dataclass(frozen=True)
class Scenario:
    """A dataset: how many examples of how many bytes, and its shards; None by the size rule."""

    examples: int
    record_bytes: int
    shards: int | None = None

    @property
    def framed(self) -> int:
        """Bytes of a record in a shard."""
        return self.record_bytes + tfrecord.OVERHEAD


SCENARIOS = (
    Scenario(10**9, 1000),
    Scenario(10**9, 1000, 100_000),
    Scenario(10**11, 1000),
)


def simulate(scenario: Scenario) -> dict[str, str]:
    """Returns what was seen, as text by name."""
    seen: dict[str, str] = {"examples": f"{scenario.examples:.0e}", "bytes": _size(scenario.examples * scenario.framed)}
    bins = histogram.max_bins(max(scenario.shards or 0, MANY_SHARDS))
    parts = [_counts(scenario, bins, seed) for seed in range(PARTS)]
    merged, seconds = _timed(lambda: histogram.merge(parts, bins))
    seen["histogram"] = f"{len(merged.bins):,} bins, {_size(len(pickle.dumps(merged, -1)))}"
    seen["merging 16 histograms"] = f"{seconds:.1f} s"
    options = ShardingOptions(num_shards=scenario.shards)
    made, seconds = _timed(lambda: plan.make_plan(["train"], {"train": merged}, options))
    split = made.splits[0]
    seen["shards"] = f"{split.num_shards:,}"
    seen["groups"] = f"{len(split):,}"
    seen["plan"] = f"{_size(len(pickle.dumps(made, -1)))}, computed in {seconds:.1f} s"
    seen["sent twice"] = f"{split.received.sum() / merged.total - 1:.1%} of the records"
    seen["largest group"] = f"{split.received.max():,} examples, {_size(int(split.received.max()) * scenario.framed)}"
    seen |= _routing(scenario, split) | _metadata(scenario, split.num_shards)
    seen["indexes"] = _size(24 * scenario.examples)
    seen["peak memory here"] = _size(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    return seen


def _counts(scenario: Scenario, bins: int, seed: int) -> histogram.Histogram:
    """Returns the histogram that a worker's share of the examples has."""
    shift = 128 - int(bins).bit_length() + 1
    rng = np.random.default_rng(seed)
    share = scenario.examples // PARTS
    counts = rng.multinomial(share, np.full(bins, 1 / bins)) if share < 2**31 else _many(rng, share, bins)
    firsts = np.zeros((bins, 2), np.uint64)
    firsts[:, 0] = np.arange(bins, dtype=np.uint64) << np.uint64(shift - 64)
    some = counts > 0
    return histogram.Histogram(shift, firsts[some], counts[some], counts[some] * scenario.framed)


def _many(rng: np.random.Generator, share: int, bins: int) -> Any:
    counts = rng.poisson(share / bins, bins)
    counts[0] += share - counts.sum()
    return np.maximum(counts, 0)


def _routing(scenario: Scenario, split: plan.SplitPlan) -> dict[str, str]:
    """Returns into how many pieces a block falls, and how long that takes."""
    records = INLINE_BLOCK_SIZE // scenario.framed
    keys = np.sort(np.frombuffer(np.random.default_rng(0).bytes(16 * records), "S16"))
    sizes = np.full(records, scenario.framed, "<u4").tobytes()
    block = Block("train", keys.tobytes(), sizes, bytes(records * scenario.framed))
    pieces = list(routing.route(block, split))  # the first block of a worker makes tables of the plan, once
    seconds = min(_timed(lambda: list(routing.route(block, split)))[1] for _ in range(3))
    blocks = -(-scenario.examples // records)
    return {
        "blocks": f"{blocks:,} of {records:,} records",
        "pieces": f"{len(pieces):,} a block, {len(pieces) * blocks:.1e} in all",
        "routing": f"{1e3 * seconds:.0f} ms a block, {1e6 * seconds / records:.1f} us a record",
    }


def _metadata(scenario: Scenario, num_shards: int) -> dict[str, str]:
    """Returns how large the metadata are, and how long opening and slicing take."""
    ends = np.asarray(shard_ends(scenario.examples, num_shards), np.int64)
    lengths = np.diff(ends, prepend=0).tolist()
    file_bytes = [length * scenario.framed for length in lengths]
    crcs = (np.arange(num_shards, dtype=np.int64) * 2654435761 % 2**32).tolist()
    num_bytes = [length * scenario.record_bytes for length in lengths]
    tree = features.FeaturesDict({"data": features.Text()})
    with tempfile.TemporaryDirectory() as folder:
        identity = DatasetIdentity("big", Version("1.0.0"), folder)
        info = DatasetInfo(builder=identity, features=tree).to_json_text({"train": (lengths, sum(num_bytes))})
        columns = ShardColumns(lengths, num_bytes, file_bytes, crcs, crcs)
        texts = {
            "dataset_info.json": info,
            "features.json": features.to_json_text(tree),
            "manifest.json": Manifest("big", None, "1.0.0", {"train": columns}, {}).to_text(),
        }
        for name, text in texts.items():
            Path(folder, name).write_text(text)

        def open_and_slice() -> Any:
            return beam_datasets.builder_from_directory(folder).as_dataset("train[10%:20%]")

        open_and_slice()
        seconds = min(_timed(open_and_slice)[1] for _ in range(3))
    sizes = ", ".join(f"{name} {_size(len(text))}" for name, text in texts.items() if name != "features.json")
    return {"metadata": sizes, "opening and slicing": f"{1e3 * seconds:.0f} ms"}


def _timed(function: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.process_time()
    value = function()
    return value, time.process_time() - begin


def _size(num_bytes: float) -> str:
    power = min(int(math.log10(max(num_bytes, 1))) // 3, 4)
    return f"{num_bytes / 1000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"


def main() -> None:
    """Prints a Markdown table of the scenarios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=float)
    parser.add_argument("--bytes", type=int, default=1000, help="of a record")
    parser.add_argument("--shards", type=int, help="default: by the size rule")
    args = parser.parse_args()
    chosen = (Scenario(int(args.examples), args.bytes, args.shards),) if args.examples else SCENARIOS
    columns = [simulate(scenario) for scenario in chosen]
    print("|" + " |" * (len(columns) + 1) + "\n|---" + "|---" * len(columns) + "|")
    for name in columns[0]:
        print("| " + " | ".join([name, *(column[name] for column in columns)]) + " |")


if __name__ == "__main__":
    main()
