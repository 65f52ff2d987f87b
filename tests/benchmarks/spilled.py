"""What a spilled run costs as the dataset grows: processor and wall seconds, reads and writes, memory of all processes.

python tests/benchmarks/spilled.py 1 2 4        # GB of records of 1 kB; TMPDIR needs three times as much
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from memory import PeakMemory

from beam_datasets import features
from beam_datasets.builders import DatasetBuilder
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.metadata.version import Version

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD, PART = 984, 20_000  # bytes of a text, so that a framed record has about 1 kB; records of an element


def _rows(part: int) -> Iterator[tuple[str, dict[str, Any]]]:
    text = random.Random(part).randbytes(RECORD)
    for number in range(PART):
        yield f"{part}-{number}", {"data": text}


class Lines(DatasetBuilder):
    """So many GB of records of 1 kB."""

    VERSION = Version("1.0.0")

    def __init__(self, *, gigabytes: float, **kwargs: Any) -> None:
        self.gigabytes = gigabytes
        super().__init__(**kwargs)

    def _info(self) -> DatasetInfo:
        return DatasetInfo(builder=self, features=features.FeaturesDict({"data": features.Text()}))

    def _split_generators(self) -> dict[str, Any]:
        parts = int(self.gigabytes * 1e6) // PART
        return {"train": beam.Create(range(parts)) | beam.Reshuffle() | beam.FlatMap(_rows)}


def _processor_seconds() -> float:
    """Returns the processor time, user and system, of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    """Prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gigabytes", type=float, nargs="+")
    parser.add_argument("--num_workers", type=int)
    args = parser.parse_args()
    print(
        "| GB | processor seconds a GB | seconds a GB | reads a GB | MB a read | writes a GB "
        "| bytes read and written a byte | peak memory, MiB |"
    )
    print("|" + "---:|" * 8)
    for size in args.gigabytes:
        with tempfile.TemporaryDirectory() as folder, PeakMemory(os.getpid()) as peak:
            begin, before = time.perf_counter(), _processor_seconds()
            directory = Lines(data_dir=folder, gigabytes=size).build(num_workers=args.num_workers)
            seconds, used = time.perf_counter() - begin, _processor_seconds() - before
            report = json.loads((Path(directory) / "run.json").read_text())
        counts, written = report["storage"], report["bytes"]
        gigabytes = written / 1e9
        reads = f"{counts['reads'] / gigabytes:,.0f} | {counts['bytes_read'] / counts['reads'] / 1e6:.2f}"
        took = f"{used / gigabytes:.1f} | {seconds / gigabytes:.1f}"
        writes = f"{counts['writes'] / gigabytes:,.0f}"
        moved = f"{counts['bytes_read'] / written:.2f} + {counts['bytes_written'] / written:.2f}"
        print(f"| {size:g} | {took} | {reads} | {writes} | {moved} | {peak.bytes >> 20} |", flush=True)


if __name__ == "__main__":
    main()
