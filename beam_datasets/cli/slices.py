"""`beam-datasets slices`: which files a slice is read from, how many records and bytes of each, and a picture of it."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from beam_datasets import storage
from beam_datasets.cli.options import DATASET, Command
from beam_datasets.cli.printing import say, size_text, table
from beam_datasets.formats.tfrecord import OVERHEAD
from beam_datasets.metadata.splits import AbstractSplit
from beam_datasets.reading.opening import open_published
from beam_datasets.reading.shards import Shard, read_index

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from beam_datasets.metadata.shards import FileInstruction
    from beam_datasets.metadata.splits import SplitInfo
    from beam_datasets.reading.opening import ReadOnlyBuilder

    Range = tuple[int, int]

BAR = 32  # characters
SINGLE = 16  # shards of a split that have a line each; of more, those in a row that are wholly in or out share one
MOST_LINES = 40
_FILLED = "·░▒▓█"  # by the share of a character's examples that is selected: none, some, all


COMMAND = Command(
    "slices",
    "Which files a slice is read from, how many records and bytes of each, and a picture of it.",
    f"""
{DATASET}
slice SLICE  such as 'train[10%:20%]+test'
--json  print all of it as JSON
""",
)


@dataclass(frozen=True)
class Read:
    """A run of records that a slice reads.

    Attributes:
        split: of which it is.
        filename: the shard.
        skip: how many records come before the run.
        take: how many the run has.
        examples_in_shard: how many the whole shard has.
        start: where the run begins in the file, in bytes.
        stop: where it ends.
    """

    split: str
    filename: str
    skip: int
    take: int
    examples_in_shard: int
    start: int
    stop: int

    @property
    def num_bytes(self) -> int:
        """The size of the records, without the 16 bytes that each takes in addition."""
        return self.stop - self.start - OVERHEAD * self.take


def run(args: Sequence[str]) -> int:
    """Prints what a slice reads."""
    known = COMMAND.parse(args)
    published = open_published(known.dataset, known.data_dir, known.storage_options)
    parts = [
        (part.splitname, part.start, part.stop)
        for part in AbstractSplit.from_spec(known.slice).to_absolute(published.info.splits)
    ]
    reads = [
        _read(published, name, run)
        for name, start, stop in parts
        for run in published.info.splits[name].between(start, stop)
    ]
    say(_json(published, known.slice, reads) if known.json else _text(published, known.slice, parts, reads))
    return 0


def _read(published: ReadOnlyBuilder, split: str, run: FileInstruction) -> Read:
    """Returns a run with its bytes: by the index, or without an index, by reading the shard."""
    path = storage.join(published.dataset_dir, run.filename)
    if run.take == run.examples_in_shard:
        start, stop = 0, storage.size(path)
    else:
        index = read_index(path) if published.manifest is not None or not storage.is_remote(path) else None
        offsets = (index or Shard(path, run.examples_in_shard, indexed=False)).offsets
        start, stop = int(offsets[run.skip]), int(offsets[run.skip + run.take])
    return Read(split, run.filename, run.skip, run.take, run.examples_in_shard, start, stop)


def _json(published: ReadOnlyBuilder, expression: str, reads: Sequence[Read]) -> str:
    summary = {
        "dataset": published.info.display_name,
        "directory": published.dataset_dir,
        "slice": expression,
        "num_examples": sum(read.take for read in reads),
        "num_bytes": sum(read.num_bytes for read in reads),
        "files": [asdict(read) | {"num_bytes": read.num_bytes} for read in reads],
    }
    return json.dumps(summary, indent=1)


# ------------------------------------------------------------------------------------------------------------- pictures


def _text(
    published: ReadOnlyBuilder, expression: str, parts: Sequence[tuple[str, int, int]], reads: Sequence[Read]
) -> str:
    splits = {name: published.info.splits[name] for name, _, _ in parts}
    files, shards = len({read.filename for read in reads}), sum(split.num_shards for split in splits.values())
    head = (
        f"{published.info.display_name}, {expression}: {sum(read.take for read in reads):,} examples, "
        f"{size_text(sum(read.num_bytes for read in reads))}, of {files:,} of {shards:,} shards"
    )
    pictures = [
        _picture(
            split,
            [(start, stop) for part, start, stop in parts if part == name],
            [read for read in reads if read.split == name],
        )
        for name, split in splits.items()
    ]
    return "\n\n".join([head, *pictures])


def _picture(split: SplitInfo, ranges: Sequence[Range], reads: Sequence[Read]) -> str:
    """Returns a bar of the whole split, and a table with a bar for each of its shards."""
    by_file: dict[str, list[Read]] = {}
    for read in reads:
        by_file.setdefault(read.filename, []).append(read)
    groups = list(_groups(split, ranges))
    rows = [_row(split, first, last, ranges, by_file) for first, last in groups[:MOST_LINES]]
    left_out = [f"... and {len(groups) - MOST_LINES:,} lines more; --json has all"] if len(groups) > MOST_LINES else []
    whole = f"{split.name} {bar(0, split.num_examples, ranges, 2 * BAR)} {split.num_examples:,} examples"
    return "\n".join([whole, table(["shard", "", "records", "selected", "of", "bytes"], rows), *left_out])


def _groups(split: SplitInfo, ranges: Sequence[Range]) -> Iterator[Range]:
    """Yields (first shard, last shard) of what has a line: a shard, or many in a row that are wholly in or out."""
    begins, ends = split.offsets[:-1], split.offsets[1:]
    covered: NDArray[np.int64] = np.zeros(split.num_shards, np.int64)
    for start, stop in _union(ranges):
        covered += np.maximum(np.minimum(stop, ends) - np.maximum(start, begins), 0)
    states = np.where(covered == 0, -1, np.where(covered == ends - begins, -2, np.arange(split.num_shards)))
    if split.num_shards <= SINGLE:
        states = np.arange(split.num_shards)
    for _, group in itertools.groupby(range(split.num_shards), key=states.tolist().__getitem__):
        shards = list(group)
        yield shards[0], shards[-1]


def _row(
    split: SplitInfo, first: int, last: int, ranges: Sequence[Range], by_file: dict[str, list[Read]]
) -> list[str | int]:
    """Returns the cells of a line."""
    start, stop = int(split.offsets[first]), int(split.offsets[last + 1])
    reads = [read for shard in range(first, last + 1) for read in by_file.get(split.shard_names[shard], [])]
    name, records = split.shard_names[first], ", ".join(f"{read.skip}:{read.skip + read.take}" for read in reads)
    if last > first:
        name, records = f"{last - first + 1:,} shards, {first:05d} to {last:05d}", "all" if reads else ""
    taken, size = sum(read.take for read in reads), sum(read.num_bytes for read in reads)
    return [name, bar(start, stop, ranges, BAR), records or "none", taken, stop - start, size_text(size)]


def bar(start: int, stop: int, ranges: Sequence[Range], width: int) -> str:
    """Returns a bar of examples [start, stop) in which those in ranges are filled.

    >>> bar(0, 100, [(25, 75)], 8)
    '▕··████··▏'
    """
    if start == stop:
        return f"▕{_FILLED[0] * width}▏"
    edges = start + (stop - start) * np.arange(width + 1) / width
    shares = np.zeros(width)
    for first, last in _union(ranges):
        shares += np.maximum(np.minimum(last, edges[1:]) - np.maximum(first, edges[:-1]), 0) / np.diff(edges)
    return f"▕{''.join(map(_character, shares.tolist()))}▏"


def _union(ranges: Sequence[Range]) -> list[Range]:
    """Returns the ranges in order, those that touch or overlap as one."""
    joined: list[Range] = []
    for start, stop in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(stop, joined[-1][1])
        else:
            joined.append((start, stop))
    return joined


def _character(share: float) -> str:
    """Returns how a character is filled; with nothing and with all only where that is so."""
    if share < 1e-9:
        return _FILLED[0]
    return _FILLED[-1] if share > 1 - 1e-9 else _FILLED[1 + min(int(share * 3), 2)]
