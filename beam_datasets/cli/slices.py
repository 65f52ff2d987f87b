"""`beam-datasets slices`: which files a slice is read from, how many records and bytes of each, and a picture of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from beam_datasets import storage
from beam_datasets.cli.options import DATASET, Command
from beam_datasets.cli.printing import say, size_text, table
from beam_datasets.formats.tfrecord import OVERHEAD
from beam_datasets.metadata.shards import FileInstruction
from beam_datasets.metadata.splits import AbstractSplit
from beam_datasets.reading.opening import ReadOnlyBuilder, open_published
from beam_datasets.reading.shards import Shard, read_index

BAR = 64  # characters
MAX_LINES = 40
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


def _read(published: ReadOnlyBuilder, split: str, run: FileInstruction) -> dict[str, Any]:
    """Returns a run of records with its bytes: by the index, or without an index, by reading the shard.

    `start` and `stop` are its place in the file; `num_bytes` is without the framing of 16 bytes a record.
    """
    path = storage.join(published.dataset_dir, run.filename)
    if run.take == run.examples_in_shard:
        start, stop = 0, storage.size(path)
    else:
        index = read_index(path) if published.manifest is not None or not storage.is_remote(path) else None
        offsets = (index or Shard(path, run.examples_in_shard, indexed=False)).offsets
        start, stop = int(offsets[run.skip]), int(offsets[run.skip + run.take])
    num_bytes = stop - start - OVERHEAD * run.take
    return {"split": split, **asdict(run), "start": start, "stop": stop, "num_bytes": num_bytes}


def _json(published: ReadOnlyBuilder, expression: str, reads: Sequence[dict[str, Any]]) -> str:
    summary = {
        "dataset": published.info.display_name,
        "directory": published.dataset_dir,
        "slice": expression,
        "num_examples": sum(read["take"] for read in reads),
        "num_bytes": sum(read["num_bytes"] for read in reads),
        "files": reads,
    }
    return json.dumps(summary, indent=1)


def _text(
    published: ReadOnlyBuilder,
    expression: str,
    parts: Sequence[tuple[str, int, int]],
    reads: Sequence[dict[str, Any]],
) -> str:
    splits = {name: published.info.splits[name] for name, _, _ in parts}
    files, shards = len({read["filename"] for read in reads}), sum(split.num_shards for split in splits.values())
    head = (
        f"{published.info.display_name}, {expression}: {sum(read['take'] for read in reads):,} examples, "
        f"{size_text(sum(read['num_bytes'] for read in reads))}, of {files:,} of {shards:,} shards"
    )
    pictures = []
    for name, split in splits.items():
        ranges = [(start, stop) for part, start, stop in parts if part == name]
        pictures.append(f"{name} {bar(0, split.num_examples, ranges, BAR)} {split.num_examples:,} examples")
    rows = [
        [
            read["filename"],
            f"{read['skip']}:{read['skip'] + read['take']}",
            read["take"],
            read["examples_in_shard"],
            size_text(read["num_bytes"]),
        ]
        for read in reads[:MAX_LINES]
    ]
    left_out = [f"... and {len(reads) - MAX_LINES:,} lines more; --json has all"] if len(reads) > MAX_LINES else []
    return "\n".join([head, *pictures, table(["shard", "records", "selected", "of", "bytes"], rows), *left_out])


def bar(start: int, stop: int, ranges: Sequence[tuple[int, int]], width: int) -> str:
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


def _union(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the ranges in order, those that touch or overlap as one."""
    joined: list[tuple[int, int]] = []
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
