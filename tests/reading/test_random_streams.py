"""Random pipelines of filters, parts, chunks, packing and mixtures against lists, resumed everywhere, and divided."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beam_datasets as bd
from tests.cases import cases
from tests.reading.mixtures import sources_of
from tests.reading.resuming import plain

LENGTHS = {"a": [4, 0, 3], "b": [3, 2], "c": [1, 3]}
MAX_ITEMS = 40

Row = dict[str, list[int]]
Epoch = Callable[[int], list[Any]]
"""The items of each epoch."""


@pytest.fixture(scope="module")
def builder(write: Any) -> Any:
    return bd.builder_from_directory(write(LENGTHS))


def is_kept(row: Any) -> bool:
    return sum(plain(row)["t"]) % 3 != 1


def copies(row: Any) -> list[Any]:
    return [row] * (len(row["t"]) % 3)


def reversed_row(row: Any) -> Any:
    return {"t": row["t"][::-1]}


def chunked(row: Row, max_length: int, overlap: int) -> list[Row]:
    """Returns the chunks of a row."""
    starts = range(0, max(len(row["t"]) - overlap, 1), max_length - overlap)
    return [{**row, "t": row["t"][start : start + max_length]} for start in starts]


def packed(rows: list[Row], max_length: int, num_bins: int) -> list[Row]:
    """Returns the arrays that contain rows: each row is put into the first open array that has room."""
    bins: list[list[list[int]]] = []
    full = []
    for row in (row["t"] for row in rows):
        fitting = [some for some in bins if sum(map(len, some)) + len(row) <= max_length]
        if not fitting:
            if len(bins) == num_bins:
                full.append(bins.pop(0))
            bins.append(fitting := [])
            fitting = [bins[-1]]
        fitting[0].append(row)
        if sum(map(len, fitting[0])) == max_length:
            full.append(fitting[0])
            bins = [some for some in bins if some is not fitting[0]]
    return [packed_row(some, max_length) for some in full + bins]


def packed_row(rows: list[list[int]], max_length: int) -> Row:
    """Returns the array of some rows, with the number of the row and the position in it of each item."""
    padding = [0] * (max_length - sum(map(len, rows)))
    return {
        "t": [item for row in rows for item in row] + padding,
        "t_segment_ids": [number for number, row in enumerate(rows, 1) for _ in row] + padding,
        "t_positions": [position for row in rows for position in range(len(row))] + padding,
    }


def applied(stream: Any, step: tuple[Any, ...]) -> Any:
    """Returns a dataset or stream with one more operation."""
    name, *arguments = step
    if name == "map":
        return stream.map(reversed_row)
    if name == "filter":
        return stream.filter(is_kept)
    if name == "flat_map":
        return stream.flat_map(copies)
    if name == "chunk":
        return stream.chunk(arguments[0], ["t"], overlap=arguments[1])
    if name == "pack":
        return stream.pack(arguments[0], ["t"], num_bins=arguments[1], overlong="truncate")
    return getattr(stream, name)(*arguments)


def modelled(items: list[Any], step: tuple[Any, ...]) -> list[Any]:
    """Returns what an operation makes of the items of an epoch."""
    name, *arguments = step
    if name == "map":
        return [reversed_row(row) for row in items]
    if name == "filter":
        return [row for row in items if is_kept(row)]
    if name == "flat_map":
        return [copy for row in items for copy in copies(row)]
    if name == "chunk":
        return [chunk for row in items for chunk in chunked(row, *arguments)]
    if name == "pack":
        max_length, num_bins = arguments
        return packed([{"t": row["t"][:max_length]} for row in items], max_length, num_bins)
    if name == "batch":
        groups = [items[start : start + arguments[0]] for start in range(0, len(items), arguments[0])]
        return [{key: [row[key] for row in group] for key in group[0]} for group in groups]
    return items[arguments[0] :] if name == "skip" else items[: arguments[0]]


def source_of(builder: Any, split: str, seed: int | None) -> Any:
    """Returns the dataset of a split as rows of 0 to 5 items."""
    first = 100 * (1 + list(LENGTHS).index(split))
    rows = builder.as_dataset(split).map(lambda e: {"t": np.arange(first, first + int(e["id"]) * 2 % 6)})
    return rows if seed is None else rows.shuffle(seed=seed)


def mixed(parts: Sequence[Epoch], sources: Iterable[int], stop: str) -> Epoch:
    """Returns the epochs of a mixture of streams: one item after the other, until a source has none."""

    def items_of(epoch: int) -> list[Any]:
        waiting, epochs = [list(part(epoch)) for part in parts], [epoch] * len(parts)
        has_ended = [False] * len(parts)
        items: list[Any] = []
        for source in sources_again():
            if not waiting[source]:
                has_ended[source] = True
                if stop == "first" or all(has_ended):
                    break
                epochs[source] += 1
                waiting[source] = list(parts[source](epochs[source]))
            items.append(waiting[source].pop(0))
        return items

    listed = list(zip(range(4000), sources))

    def sources_again() -> Iterable[int]:
        return (source for _, source in listed)

    return items_of


STEPS_OF_ROWS = st.one_of(
    st.just(("map",)),
    st.just(("filter",)),
    st.just(("flat_map",)),
    st.integers(1, 4).flatmap(lambda size: st.tuples(st.just("chunk"), st.just(size), st.integers(0, size - 1))),
)
GROUPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["skip", "take"]), st.integers(0, 12)),
        st.tuples(st.just("pack"), st.integers(2, 8), st.integers(1, 3)),
        STEPS_OF_ROWS,
    ),
    max_size=2,
)
CHAINS = st.lists(STEPS_OF_ROWS, min_size=1, max_size=3)
SEEDS = st.none() | st.integers(0, 9)


def check(stream: Any, items: Epoch, epoch: int) -> None:
    """Checks the items of an epoch, and that a state at each position, also at the end, goes on with the next one."""
    expected = items(epoch)[:MAX_ITEMS]
    is_whole = len(items(epoch)) <= MAX_ITEMS
    iterator = stream.iterate(epoch=epoch)
    for position in range(len(expected) + 1):
        state = json.loads(json.dumps(iterator.get_state()))
        again = stream.iterate(state=state)
        assert again.get_state() == state
        count = 3 if is_whole else min(3, len(expected) - position)
        assert [plain(item) for _, item in zip(range(count), again)] == expected[position : position + count]
        if position < len(expected):
            assert plain(next(iterator)) == expected[position]
    if is_whole:
        assert list(iterator) == []
        at_end = stream.iterate(state=json.loads(json.dumps(iterator.get_state())))
        assert list(at_end) == []


@cases(40, in_full=300)
@given(
    seed=SEEDS,
    way=st.sampled_from(["one", "weights", "temperature", "schedule"]),
    chain=CHAINS,
    groups=GROUPS,
    batch=st.none() | st.integers(1, 4),
    epoch=st.integers(0, 2),
    num_workers=st.integers(1, 3),
)
def test_chains_of_stream_operations(
    builder: Any,
    seed: int | None,
    way: str,
    chain: list[tuple[Any, ...]],
    groups: list[tuple[Any, ...]],
    batch: int | None,
    epoch: int,
    num_workers: int,
) -> None:
    """The order of a dataset, or of a mixture of datasets, is taken from it: other tests compare it."""
    base = source_of(builder, "a", seed)
    if way != "one":
        parts = [base, *(source_of(builder, split, seed) for split in "bc")]
        how: dict[str, Any] = {
            "weights": {"weights": [2, 1, 1]},
            "temperature": {"temperature": 2.0},
            "schedule": {"schedule": [(0, [1, 1, 1]), (4, [3, 1, 1])]},
        }[way]
        base = bd.mix(parts, seed=3, **how)
    steps = [*chain, *groups]
    if batch is not None and any(step[0] == "pack" for step in groups):
        steps.append(("batch", batch))  # arrays of one length
    has_cut = any(step[0] in ("skip", "take") for step in steps)
    for worker in range(1 if has_cut else num_workers):
        own = base if has_cut else base.shard(worker, num_workers)
        stream, rows = own, own
        for step in steps:
            stream = applied(stream, step)

        def items(number: int, rows: Any = rows) -> list[Any]:
            values = [plain(row) for row in rows.iterate(epoch=number)]
            for step in steps:
                values = modelled(values, step)
            return values

        if not hasattr(stream, "_base"):  # only functions of map(), of which positions are known
            continue
        check(stream, items, epoch)


@cases(25, in_full=200)
@given(
    seeds=st.tuples(SEEDS, SEEDS, SEEDS),
    chains=st.tuples(CHAINS, CHAINS, CHAINS),
    weights=st.lists(st.sampled_from([1, 2, 0.3]), min_size=3, max_size=3),
    seed=st.integers(0, 5),
    stop=st.sampled_from(["first", "all"]),
    groups=GROUPS,
    epoch=st.integers(0, 1),
)
def test_mixtures_of_chains(
    builder: Any, seeds: Any, chains: Any, weights: list[float], seed: int, stop: str, groups: Any, epoch: int
) -> None:
    parts, models = [], []
    for split, order, chain in zip(LENGTHS, seeds, chains):
        base = source_of(builder, split, order)
        part = base.filter(lambda row: len(row["t"]) > 0)

        def items(number: int, base: Any = base, chain: Any = chain) -> list[Any]:
            values = [row for row in map(plain, base.iterate(epoch=number)) if row["t"]]
            for step in chain:
                values = modelled(values, step)
            return values

        for step in chain:
            part = applied(part, step)
        parts.append(part)
        models.append(items)
    if stop == "all" and not all(model(number) for model in models for number in range(8)):
        stop = "first"  # a source without items is an error
    stream, model = bd.mix(parts, weights=weights, seed=seed, stop=stop), mixed(models, sources_of(weights, seed), stop)
    for step in groups:
        stream = applied(stream, step)

    def grouped(number: int) -> list[Any]:
        values = model(number)
        for step in groups:
            values = modelled(values, step)
        return values

    check(stream, grouped, epoch)
