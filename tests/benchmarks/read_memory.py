"""Peak memory of reading, which should not grow with the dataset; prints a line for each way.

    python tests/benchmarks/read_memory.py 1 && python tests/benchmarks/read_memory.py 10      # GB

Records of about 1 kB are written as they stand in shards of 250 MB, and adopted. Anonymous memory is the process's own;
the resident size also counts the pages of mapped index files, which the kernel may take back.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import beam_datasets as bd
from beam_datasets.features import FeaturesDict, compile_encoder
from beam_datasets.formats import tfrecord

FEATURES = {"data": np.bytes_, "n": np.int64}
WAYS = ("one by one", "batches of 256", "window of 10,000", "shuffled", "at random")
SHARDS_PER_GB, RECORDS, SOME = 4, 10_000, 50_000


def write(directory: Path, gigabytes: int) -> None:
    """Writes and adopts a dataset."""
    encode, rng = compile_encoder(FeaturesDict(FEATURES)), np.random.default_rng(0)
    for shard in range(SHARDS_PER_GB * gigabytes):
        records = [encode({"data": rng.bytes(960), "n": n}) for n in range(RECORDS)]
        piece = b"".join(tfrecord.frame_all(records))
        with (directory / f"raw-{shard:05d}").open("wb") as file:
            file.writelines([piece] * (1_000_000 // RECORDS // SHARDS_PER_GB))
    bd.adopt({"train": f"{directory}/raw-*"}, FeaturesDict(FEATURES), name="big", data_dir=directory)


def read(directory: str, way: str) -> int:
    """Reads in one way, and returns how many examples."""
    train = bd.load("big", split="train", data_dir=directory)
    if way == "one by one":
        return sum(1 for _ in train)
    if way == "batches of 256":
        return sum(len(batch["n"]) for batch in train.batch(256))
    if way == "window of 10,000":
        return sum(1 for _ in train.shuffle(seed=1, window=10_000).take(1_000_000))
    if way == "shuffled":
        return sum(1 for _ in train.shuffle(seed=1).take(SOME))
    places = random.Random(0)
    return sum(1 for _ in range(SOME) if train[places.randrange(len(train))])


def measured(directory: str, way: str) -> None:
    """Reads in one way, and prints the peaks of this process."""
    peaks, done = {"RssAnon": 0, "VmRSS": 0}, threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            for line in Path("/proc/self/status").read_text().splitlines():
                name, _, value = line.partition(":")
                if name in peaks:
                    peaks[name] = max(peaks[name], int(value.split()[0]) >> 10)

    thread = threading.Thread(target=watch)
    thread.start()
    begin = time.perf_counter()
    count = read(directory, way)
    seconds = time.perf_counter() - begin
    done.set()
    thread.join()
    print(f"{way}: {count:,} examples in {seconds:.1f} s; MiB: anonymous {peaks['RssAnon']}, all {peaks['VmRSS']}")


def main() -> None:
    if len(sys.argv) > 2:
        measured(*sys.argv[1:])
        return
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), int(sys.argv[1]))
        for way in WAYS:
            subprocess.run([sys.executable, __file__, folder, way], check=True)


if __name__ == "__main__":
    main()
