"""Shards against the obvious: sort all examples, frame them one by one, cut."""

import contextlib
import dataclasses
import itertools
import os
import random
import signal

import crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets import features, storage
from beam_datasets.errors import DuplicateKeyError
from beam_datasets.formats import example, tfrecord
from beam_datasets.formats.index import Index
from beam_datasets.metadata.keys import hash_key
from beam_datasets.metadata.shards import shard_ends
from beam_datasets.options import ShardingOptions
from beam_datasets.publishing import shard_file
from beam_datasets.publishing.groups import join_parts, write_group
from beam_datasets.publishing.record_text import show
from beam_datasets.shuffle import histogram, merge, plan, routing
from beam_datasets.shuffle.block_builder import BlockBuilder
from beam_datasets.shuffle.blocks import histogram_of, key_array, size_array
from beam_datasets.shuffle.unique_keys import merge_unique, split_by_key
from beam_datasets.storage import TEMPORARY_PREFIX
from tests.facts import raises_with


def build_blocks(examples, num_blocks, spill_dir=None, ordered=False):
    """Returns the blocks of (key, record) pairs dealt out at random."""
    builders = [
        BlockBuilder("train", bytes, block_size=1 << 40, ordered=ordered, spill_dir=spill_dir)
        for _ in range(num_blocks)
    ]
    for key, record in examples:
        random.choice(builders).add(key, record)
    return [new.sent for builder in builders if (new := builder.flush()) is not None]


def read_at_once(monkeypatch, chunk_bytes):
    """Lets a merge read about so many bytes at once; None for as many as it chooses."""
    chunks = merge.Merge.chunks
    monkeypatch.setattr(merge.Merge, "chunks", lambda whole: chunks(whole, chunk_bytes))


def write_all(blocks, options, directory):
    """Plans, routes, writes and joins in a loop, as the pipeline does."""
    where = shard_file.Destination(
        str(directory), "ds", ordered=options.ordered, ignore_duplicates=options.ignore_duplicates
    )
    blocks = [loaded for block in blocks for loaded in block.load()]
    if options.ignore_duplicates:
        buckets = {}
        for block in blocks:
            for key, part in split_by_key(block):
                buckets.setdefault(key, []).append(part)
        counts = histogram.merge([merge_unique(parts) for parts in buckets.values()])
    else:
        counts = histogram.merge([histogram.count_keys(key_array(b.keys), size_array(b.sizes)) for b in blocks])
    made = plan.make_plan(["train"], {"train": counts}, options).split("train")
    groups = {}
    for block in blocks:
        for number, part in routing.route(block, made):
            groups.setdefault(number, []).append(part)
    shards = {}
    for number, parts in groups.items():
        written = write_group(made.group(number), parts, where)
        shards.setdefault(written.shard, []).append(written)
    return [join_parts(shards[i], made.num_shards, where) for i in sorted(shards)]


def expected_files(examples, num_shards, sort_key):
    """Returns [(file bytes, sort keys, offsets)] of each shard."""
    in_order = sorted((sort_key(key), record) for key, record in examples)
    starts = [0, *shard_ends(len(in_order), num_shards)]
    files = []
    for start, stop in itertools.pairwise(starts):
        framed = [tfrecord.frame(record) for _, record in in_order[start:stop]]
        offsets = np.cumsum([0, *map(len, framed)])
        files.append((b"".join(framed), [key for key, _ in in_order[start:stop]], offsets.tolist()))
    return files


def check(shards, expected):
    assert len(shards) == len(expected)
    for shard, (content, keys, offsets) in zip(shards, expected):
        with open(shard.path, "rb") as f:
            assert f.read() == content
        with open(shard.path + ".index", "rb") as f:
            data = f.read()
        index = Index.from_bytes(data, path="x")
        assert index.offsets.tolist() == offsets
        assert [row.tobytes() for row in index.keys] == keys
        assert shard.crc32c == crc32c.crc32c(content)
        assert shard.index_crc32c == crc32c.crc32c(data)
        assert (shard.num_examples, shard.file_bytes) == (len(keys), len(content))
        assert shard.num_bytes == len(content) - 16 * len(keys)


def some_examples(n, seed=0):
    rng = random.Random(seed)
    return [(f"key-{i}", rng.randbytes(rng.randrange(60))) for i in range(n)]


@pytest.mark.parametrize("spilled", [False, True])
@pytest.mark.parametrize(
    "num_blocks, num_shards, max_part_size, chunk_bytes",
    [
        (1, 1, 1 << 30, 1 << 20),
        (5, 3, 1 << 30, 300),
        (7, 4, 2000, 1),
        (3, 40, 100, 64),
        (4, 300, 1 << 30, 64),
        (4, 300, 1 << 30, None),
    ],
)
def test_shards_are_the_sorted_examples_cut(
    tmp_path, monkeypatch, spilled, num_blocks, num_shards, max_part_size, chunk_bytes
):
    monkeypatch.setattr(plan, "MAX_PART_SIZE", max_part_size)
    examples = some_examples(500)
    blocks = build_blocks(examples, num_blocks, str(tmp_path / "spill") if spilled else None)
    options = ShardingOptions(num_shards=num_shards)
    read_at_once(monkeypatch, chunk_bytes)
    shards = write_all(blocks, options, tmp_path / "out")
    check(shards, expected_files(examples, num_shards, lambda key: hash_key("train", key)))


def test_integer_keys_keep_their_order(tmp_path):
    examples = [(i * i - 300 if i != 7 else 2**90, b"%d" % i) for i in range(60)]
    blocks = build_blocks(examples, 4, ordered=True)
    shards = write_all(blocks, ShardingOptions(num_shards=5, ordered=True), tmp_path)
    check(shards, expected_files(examples, 5, lambda key: (key + 2**127).to_bytes(16, "big")))


@given(
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=60),
    runs=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 20)), min_size=1),
    left_out=st.sets(st.integers(0, 59)),
    chunk_bytes=st.integers(1, 400),
    ranks=st.integers(1, 30),
    run_bytes=st.sampled_from([1, 60, 1 << 20]),
)
def test_chunks_are_the_records_in_order(sizes, runs, left_out, chunk_bytes, ranks, run_bytes):
    """Whether they follow each other in a block or not, and with records between them that are not written."""
    dealt = list(itertools.chain.from_iterable([block] * length for block, length in runs))
    records = [bytes([65 + key % 26]) * size for key, size in enumerate(sizes)]
    builders = [BlockBuilder("train", bytes, block_size=1 << 40, ordered=True) for _ in range(4)]
    for key, record in enumerate(records):
        builders[dealt[key % len(dealt)]].add(key, record)
    blocks = [new.sent for builder in builders if (new := builder.flush()) is not None]
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        patch.setattr(merge, "_RANKS", ranks)
        patch.setattr(merge, "MIN_RUN_BYTES", run_bytes)
        whole = merge.Merge.of(blocks, stack)
        kept = [key for key in range(len(records)) if key not in left_out]
        chunks = list(dataclasses.replace(whole, order=whole.order[kept]).chunks(chunk_bytes))
    assert b"".join(map(bytes, itertools.chain.from_iterable(chunks))) == b"".join(
        tfrecord.frame(records[key]) for key in kept
    )
    largest = max((len(records[key]) + 16 for key in kept), default=0)
    assert all(sum(map(len, chunk)) <= max(chunk_bytes, largest) for chunk in chunks)


@pytest.mark.parametrize("num_shards", [2, 200])
def test_writing_a_group_twice_gives_the_same_bytes(tmp_path, num_shards):
    blocks = build_blocks(some_examples(200), 3, str(tmp_path / "spill"))
    options = ShardingOptions(num_shards=num_shards)
    first = write_all(blocks, options, tmp_path / "out")
    before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
    assert write_all(list(reversed(blocks)), options, tmp_path / "out") == first
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before


def test_of_duplicates_the_smallest_record_stays(tmp_path):
    rng = random.Random(3)
    examples = [(rng.randrange(80), rng.randbytes(rng.randrange(5))) for _ in range(400)]
    kept = {}
    for key, record in examples:
        kept[key] = min(kept.get(key, record), record)
    options = ShardingOptions(num_shards=6, ignore_duplicates=True)
    shards = write_all(build_blocks(examples, 5), options, tmp_path)
    check(shards, expected_files(kept.items(), 6, lambda key: hash_key("train", key)))


def test_a_duplicate_key_is_an_error_that_shows_both(tmp_path):
    blocks = build_blocks([*some_examples(20), ("key-3", b"the other")], 2)
    sort_key = hash_key("train", "key-3")
    with raises_with(DuplicateKeyError, split="train", mentions=[sort_key.hex(), "--ignore_duplicates", "the other"]):
        write_all(blocks, ShardingOptions(num_shards=1), tmp_path)
    blocks = build_blocks([*some_examples(20), ("key-3", b"the other"), ("key-5", b"")], 2)
    with raises_with(DuplicateKeyError, split="train", mentions=["one of 2 such repeats"]):
        write_all(blocks, ShardingOptions(num_shards=1), tmp_path)
    assert not list(tmp_path.glob("*.tfrecord*"))


def test_what_is_shown_of_duplicates(tmp_path):
    record = example.serialize({"image": [b"\x89PNG" * 9], "text": [b"x" * 1000], "id": [7], "numbers": list(range(9))})
    blocks = build_blocks([*some_examples(20), ("key-3", record)], 2)
    shown = (
        f"\n  id: 7, numbers: 9 values, image: 36 bytes that begin with b'\\x89PNG', text: '{'x' * 80}' ... (1,000 ch"
    )
    with pytest.raises(DuplicateKeyError) as error:
        write_all(blocks, ShardingOptions(num_shards=1), tmp_path)
    assert shown in str(error.value)


def test_an_attempt_killed_half_way_does_no_harm(tmp_path, monkeypatch):
    read_at_once(monkeypatch, 500)
    examples = some_examples(300)
    blocks, options = build_blocks(examples, 3, str(tmp_path / "spill")), ShardingOptions(num_shards=1)
    child = os.fork()
    if child == 0:
        try:
            checksum, calls = shard_file.crc32c, []

            def checksum_or_die(*arguments):
                calls.append(1)
                return os.kill(os.getpid(), signal.SIGKILL) if len(calls) == 5 else checksum(*arguments)

            shard_file.crc32c = checksum_or_die
            write_all(blocks, options, tmp_path / "out")
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert [path.name.startswith(TEMPORARY_PREFIX) for path in (tmp_path / "out").iterdir()] == [True]
    shards = write_all(blocks, options, tmp_path / "out")
    check(shards, expected_files(examples, 1, lambda key: hash_key("train", key)))


def test_the_histogram_of_a_new_block_needs_no_read(tmp_path):
    builder = BlockBuilder("train", bytes, block_size=1 << 40, spill_dir=str(tmp_path))
    for key in range(100):
        builder.add(key, bytes(key))
    storage.take_requests()
    sent, loaded = builder.flush()
    histogram_of(loaded)
    requests = storage.take_requests()
    assert (requests.reads, requests.writes) == (0, 1)
    assert sent.load() == [loaded]  # what a reader of the file finds


def test_a_list_of_one_value_is_shown_as_a_list():
    tree = features.FeaturesDict({"tags": features.Sequence("string"), "n": "int64"})
    record = tree.serialize_example(tree.encode_example({"tags": ["a"], "n": 3}))
    assert show(record, tree) == "n: 3, tags: ['a']"
