"""Writing groups of a plan, which are shards or parts of one: merged blocks, cut at exact ranks, and joined parts.

The output depends only on the examples of the group, so a repeated call writes the same bytes. See `merge` for the
memory that this takes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from beam_datasets import storage
from beam_datasets.errors import DuplicateKeyError, LostExamplesError
from beam_datasets.formats.index import Index
from beam_datasets.publishing.record_text import show
from beam_datasets.publishing.shard_file import Destination, ShardFile, WrittenShard
from beam_datasets.reading.records.shards import INDEX_SUFFIX
from beam_datasets.shuffle.blocks import AnyBlock
from beam_datasets.shuffle.merge import Merge
from beam_datasets.shuffle.plan import Group

OR_IGNORE = ", or keep one example of each key with --ignore_duplicates"
"""Advice about two examples with the same key, for `build`."""


def write_group(group: Group, blocks: Iterable[AnyBlock], destination: Destination) -> WrittenShard:
    """Writes a group's shard, or part of one, and its index; returns their sizes and checksums.

    Args:
        group: the group; its records are those at [skip, skip + take) of the received ones, in order.
        blocks: the received blocks, in any order; together they have `group.received` records, not
            counting duplicates if they are ignored.
        destination: the staging directory.

    Raises:
        LostExamplesError: the number of received examples is not `group.received`.
        DuplicateKeyError: two examples have the same key, and duplicates are not ignored.
    """
    with contextlib.ExitStack() as stack:
        merge = Merge.of(blocks, stack)
        if destination.ignore_duplicates:
            merge = merge.without_duplicates()
        if len(merge) != group.received:
            raise LostExamplesError(
                f"{group.text}: {len(merge)} examples arrived, {group.received} were counted when they were encoded. "
                "The engine lost or duplicated some",
                split=group.split,
                expected=f"{group.received} examples",
                got=f"{len(merge)}",
                outcome="nothing was published",
                advice="Run it again, but not with direct_running_mode=multi_threading.",
            )
        _check_unique(merge, group, destination)
        merge = merge.slice(group.skip, group.skip + group.take)
        with ShardFile(destination.group_path(group)) as shard_file:
            for chunk in merge.chunks():
                shard_file.write(chunk)
        keys = None if group.split in destination.keyless else merge.ordered_keys()
        shard_file.add_to_index(merge.sizes[merge.order], keys)
        del merge, keys  # an index takes as much memory
    return shard_file.finish(group.split, group.shard, part=group.part, ordered=destination.ordered)


def _check_unique(merge: Merge, group: Group, destination: Destination) -> None:
    """Checks that no two records of a group have the same sort key.

    Args:
        merge: the records of the group.
        group: the group, for errors.
        destination: decides whether a key is an integer or a hash in errors.

    Raises:
        DuplicateKeyError: two records have the same key; the message shows the key and both records.
    """
    repeats = merge.repeats()
    if not len(repeats):
        return
    second = int(repeats[0])
    one, other = (merge.record(int(merge.order[rank])) for rank in (second - 1, second))
    key = merge.keys[merge.order[second]]
    number = int(key[0]) << 64 | int(key[1])
    integer = number - (1 << 127) if destination.ordered else None
    name = f"its hash is {number:032x}" if integer is None else str(integer)
    count_note = f", one of {len(repeats):,} such repeats" if len(repeats) > 1 else ""
    raise DuplicateKeyError(
        f"{group.text}: two examples have the same key ({name}){count_note}. Keys must be unique, because they "
        f"determine the order. Make them unique{OR_IGNORE}. The two examples:"
        f"\n  {show(one, destination.features)}\n  {show(other, destination.features)}",
        split=group.split,
        key=integer,
        sort_key=number.to_bytes(16, "big") if integer is None else None,
    )


def join_parts(parts: Iterable[WrittenShard], num_shards: int, destination: Destination) -> WrittenShard:
    """Joins the parts of a shard to one file, and returns the shard. A shard of one part may be returned unchanged.

    TFRecord files concatenate, so a shard is its parts one after the other.

    Args:
        parts: the parts, in any order.
        num_shards: number of shards of the split.
        destination: the staging directory.
    """
    parts = sorted(parts, key=lambda part: part.part)
    first = parts[0]
    path = destination.path(first.split, first.shard, num_shards)
    if len(parts) == 1 and storage.basename(first.path) == storage.basename(path):
        return first
    with ShardFile(path) as shard_file:
        for part in parts:
            shard_file.copy(part.path)
            index_path = part.path + INDEX_SUFFIX
            index = Index.from_bytes(storage.read_bytes(index_path), path=index_path)
            shard_file.add_to_index(np.diff(index.offsets), index.keys)
    joined_shard = shard_file.finish(first.split, first.shard, ordered=destination.ordered)
    return replace(joined_shard, requests=storage.sum_requests(part.requests for part in parts))
