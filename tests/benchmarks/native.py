"""What the native module saves: the same work with it and without, in turns, in one run. Prints a table.

    python tests/benchmarks/native.py [--records 50000] [--size 1000] [--repeat 5]

Rates are of processor time, the best of all turns, which other work on the machine disturbs least.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import beam_datasets
from beam_datasets import features
from beam_datasets.formats import example, tfrecord
from beam_datasets.generate.blocks import BlockBuilder
from beam_datasets.generate.plan import Group
from beam_datasets.generate.shard_writer import Destination, write_group
from beam_datasets.metadata import keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SHARDS, PASSES = 16, 5
FEATURES = features.FeaturesDict({"data": features.Scalar(dtype=np.bytes_)})


def prepare(directory: Path, count: int, size: int) -> None:
    """Writes a dataset of records of that many bytes."""
    pool = np.random.default_rng(0).bytes(1 << 20)
    spare = len(example.serialize({"data": [bytes(size)]})) - size
    (directory / "bare").mkdir()
    for shard in range(SHARDS):
        starts = [i * 131 % (len(pool) - size) for i in range(shard, count, SHARDS)]
        records = [example.serialize({"data": [pool[start : start + size - spare]]}) for start in starts]
        (directory / "bare" / f"{shard:02}").write_bytes(b"".join(tfrecord.frame_all(records, 1000)))
    beam_datasets.adopt(str(directory / "bare" / "*"), FEATURES, name="x", data_dir=directory, files="link")


def work(directory: Path) -> dict[str, Callable[[], Any]]:
    """Returns what is measured: name -> one pass over all records."""
    dataset = beam_datasets.builder("x", data_dir=directory).as_dataset("train")
    records, numbers = list(dataset.raw()), list(range(len(dataset)))
    data, spill = b"".join(tfrecord.frame_all(records)), directory / "spill"
    group = Group("train", 0, 1, 0, 1, len(records), 0, (len(records),))

    def make_blocks() -> list[Any]:
        shutil.rmtree(spill, ignore_errors=True)
        builder = BlockBuilder("train", bytes, block_size=16 << 20, spill_dir=str(spill))
        blocks = [builder.flush() for number, record in zip(numbers, records) if builder.add(number, record)]
        last = builder.flush()
        return blocks if last is None else [*blocks, last]

    made: list[Any] = []
    return {
        "memcpy": lambda: bytearray(data),
        "sort keys of integers": lambda: keys.hash_keys("train", numbers),
        "checked, a whole file": lambda: tfrecord.scan(data, path=""),
        "blocks made and spilled": lambda: made.__setitem__(slice(None), make_blocks()),
        "a shard written of blocks": lambda: write_group(group, made, Destination(str(directory / "out"), "x")),
        "`for record in ds.raw()`": lambda: drain(dataset.raw()),
        "`for example in ds`": lambda: drain(dataset),
    }


def drain(items: Iterable[Any]) -> None:
    """Consumes the items, as a loop with nothing in it does."""
    deque(items, 0)


def measure(directory: Path) -> None:
    """Prints the seconds of the best pass of each work."""
    best = {}
    for name, run in work(directory).items():
        for _ in range(PASSES):
            start = time.process_time()
            run()
            best[name] = min(best.get(name, 1e9), time.process_time() - start)
    print(json.dumps(best))


def main() -> None:
    """Runs the turns and prints their table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--size", type=int, default=1000, help="of a record in bytes")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure)
        return
    best: dict[str, dict[str, float]] = {"1": {}, "0": {}}
    with tempfile.TemporaryDirectory() as directory:
        prepare(Path(directory), options.records, options.size)
        for _ in range(options.repeat):
            for native, found in best.items():
                command = [sys.executable, __file__, "--measure", directory]
                environment = os.environ | {"BEAM_DATASETS_NATIVE": native}
                seconds = json.loads(
                    subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE).stdout
                )
                found.update({name: min(found.get(name, 1e9), value) for name, value in seconds.items()})
    print(f"Records/s of {options.size:,} bytes, {options.records:,} of them in {SHARDS} shards.\n")
    print("| | with | without | |\n|---|---:|---:|---:|")
    for name, fast in best["1"].items():
        slow = best["0"][name]
        print(f"| {name} | {options.records / fast:,.0f} | {options.records / slow:,.0f} | {slow / fast:.1f}x |")


if __name__ == "__main__":
    main()
