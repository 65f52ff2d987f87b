"""Batches by length, packed sequences and padding against simple models."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets.errors import FeatureValueError
from beam_datasets.features.ragged import RaggedArray
from beam_datasets.formats.tfrecord import frame_all
from tests.cases import cases
from tests.reading.resuming import plain, resumes_everywhere

LENGTHS = [3, 1, 4, 1, 5, 0, 2, 6, 5, 3, 5, 8, 2, 7, 2]
ROWS = RaggedArray(np.array([1, 2, 3]), (np.array([2, 1]),))


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A dataset of sequences of these lengths: example i has i + 1 everywhere, and text."""
    folder = tmp_path_factory.mktemp("tokens")
    tree = {"ids": F.Sequence(np.int32), "words": F.Sequence(F.Text()), "n": np.int64}
    encode = F.compile_encoder(tree)
    rows = [{"ids": [i + 1] * n, "words": ["w"] * (n // 2), "n": n} for i, n in enumerate(LENGTHS)]
    (folder / "tokens.tfrecord").write_bytes(b"".join(frame_all([encode(row) for row in rows])))
    return bd.adopt(str(folder / "tokens.tfrecord"), tree, name="tokens").as_dataset("train")


# ------------------------------------------------------------ batches by length


def by_length(lengths: list[int], boundaries: list[int], sizes: list[int], drop: bool) -> list[list[int]]:
    """Returns the numbers of the examples of each batch."""
    bins: list[list[int]] = [[] for _ in sizes]
    batches = []
    for number, length in enumerate(lengths):
        place = sum(length >= boundary for boundary in boundaries)
        bins[place].append(number)
        if len(bins[place]) == sizes[place]:
            batches.append(bins[place])
            bins[place] = []
    return batches if drop else batches + [some for some in bins if some]


@given(
    st.sets(st.integers(1, 9), max_size=3).map(sorted),
    st.lists(st.integers(1, 4), min_size=4, max_size=4),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=20)
def test_batches_by_length(tokens: Any, boundaries: list[int], sizes: list[int], drop: bool, named: bool) -> None:
    sizes = sizes[: len(boundaries) + 1]
    length: Any = "ids" if named else (lambda example: len(example["ids"]))
    stream = tokens.batch_by_length(boundaries, sizes, length=length, drop_remainder=drop, pad_to_boundary=named)
    lengths = [len(example["ids"]) for example in tokens]
    wanted = by_length(lengths, boundaries, sizes, drop)
    found = list(stream)
    assert [batch["n"].tolist() for batch in found] == [[lengths[i] for i in batch] for batch in wanted]
    for batch in found:
        longest = int(batch["n"].max())
        above = [boundary - 1 for boundary in boundaries if longest < boundary]
        assert batch["ids"].shape[1] == (min(above) if above and named else longest)
        assert (batch["ids"] > 0).sum(axis=1).tolist() == batch["n"].tolist()
    resumes_everywhere(stream)


# ------------------------------------------------------------ packing


def packed(lengths: list[int], most: int, num_bins: int) -> list[list[int]]:
    """Returns the numbers of the examples in each array: the first of the open ones that has room."""
    bins: list[list[int]] = []
    full: list[list[int]] = []
    for number, length in enumerate(lengths):
        used = [sum(lengths[i] for i in some) for some in bins]
        place = next((i for i, count in enumerate(used) if count + length <= most), None)
        if place is None:
            if len(bins) == num_bins:
                full.append(bins.pop(0))
            bins.append([])
            place = len(bins) - 1
        bins[place].append(number)
        if sum(lengths[i] for i in bins[place]) == most:
            full.append(bins.pop(place))
    return full + bins


@given(st.integers(8, 16), st.integers(1, 4))
@settings(max_examples=15)
def test_packs(tokens: Any, most: int, num_bins: int) -> None:
    stream = tokens.pack(most, ["ids"], num_bins=num_bins)
    lengths = [len(example["ids"]) for example in tokens]
    values = [example["ids"] for example in tokens]
    for item, numbers in itertools.zip_longest(stream, packed(lengths, most, num_bins)):
        rest = [0] * (most - sum(lengths[i] for i in numbers))
        assert item["ids"].tolist() == [token for i in numbers for token in values[i].tolist()] + rest
        segments = [[place] * lengths[i] for place, i in enumerate(numbers, 1)]
        assert item["ids_segment_ids"].tolist() == [*itertools.chain(*segments), *rest]
        assert item["ids_positions"].tolist() == [*itertools.chain(*(range(lengths[i]) for i in numbers)), *rest]
        assert (item["ids"].dtype, item["ids_positions"].dtype) == (np.int32, np.int32)
    resumes_everywhere(stream)
    np.testing.assert_equal(list(tokens.map(dict).pack(most, ["ids"], num_bins=num_bins)), list(stream))


def test_packs_several_features_and_batches_them(tokens: Any) -> None:
    stream = tokens.shuffle(1).repeat(2).pack({"ids": 8, "words": 4}, num_bins=3)
    seen = 0
    for item in stream:
        assert {name: len(array) for name, array in item.items() if "_" not in name} == {"ids": 8, "words": 4}
        seen += int((item["ids"] > 0).sum())
    assert seen == 2 * sum(LENGTHS)
    resumes_everywhere(stream.batch(2))
    resumes_everywhere(stream.batch(2).map(plain))
    short = tokens.pack(4, ["ids"], overlong="truncate")
    assert sum(int((item["ids"] > 0).sum()) for item in short) == sum(min(n, 4) for n in LENGTHS)
    resumes_everywhere(short)
    kept = tokens.pack(4, ["ids"], overlong="drop")
    assert sum(int((item["ids"] > 0).sum()) for item in kept) == sum(n for n in LENGTHS if n <= 4)
    filtered = tokens.filter(lambda example: example["n"] > 1).batch_by_length([4], [2, 3], length="ids").repeat(2)
    resumes_everywhere(filtered.filter(lambda batch: len(batch["n"]) > 1))


# ------------------------------------------------------------ chunks


def chunks(row: list[int], most: int, overlap: int) -> list[list[int]]:
    """Returns the chunks of a list, one item after the other."""
    found = [row[:most]]
    at = most
    while at < len(row):
        found.append(row[at - overlap : at - overlap + most])
        at += most - overlap
    return found


@given(st.integers(1, 9), st.integers(0, 8), st.sampled_from([(0, 1), (0, 2), (1, 2), (2, 3)]))
@cases(60)
def test_chunks(tokens: Any, most: int, overlap: int, share: tuple[int, int]) -> None:
    overlap = min(overlap, most - 1)
    base = tokens.map(lambda example: {**example, "ids": np.arange(len(example["ids"])) + 10 * example["n"]})
    part = base.shuffle(1).shard(*share, block=2)
    stream = part.map(dict).chunk(most, ["ids"], overlap=overlap)
    wanted = [(row["n"], chunk) for row in part for chunk in chunks(row["ids"].tolist(), most, overlap)]
    assert [(chunk["n"], chunk["ids"].tolist()) for chunk in stream] == wanted
    resumes_everywhere(stream)
    together = stream.pack(9, ["ids"], num_bins=2)
    numbers = packed([len(chunk) for _, chunk in wanted], 9, 2)
    rows = [[token for i in some for token in wanted[i][1]] for some in numbers]
    assert [item["ids"].tolist() for item in together] == [row + [0] * (9 - len(row)) for row in rows]
    resumes_everywhere(together)


def test_chunks_of_several_features(tokens: Any) -> None:
    both = tokens.map(lambda example: {"ids": example["ids"], "mask": [1] * len(example["ids"])})
    found = [(plain(chunk["ids"]), chunk["mask"]) for chunk in both.chunk(4, ["ids", "mask"])]
    rows = [chunk for i, length in enumerate(LENGTHS) for chunk in chunks([i + 1] * length, 4, 0)]
    assert found == [(row, [1] * len(row)) for row in rows]
    assert sum(len(ids) for ids, _ in found) == sum(LENGTHS)


# ------------------------------------------------------------ padding


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize(
    "options,ids,words",
    [
        ({"pad": True}, [[1, 1, 1, 0], [2, 0, 0, 0], [3, 3, 3, 3]], [[b"w", b""], [b"", b""], [b"w", b"w"]]),
        ({"pad_value": -1}, [[1, 1, 1, -1], [2, -1, -1, -1], [3, 3, 3, 3]], [[b"w", b""], [b"", b""], [b"w", b"w"]]),
        ({"pad_side": "left"}, [[0, 1, 1, 1], [0, 0, 0, 2], [3, 3, 3, 3]], [[b"", b"w"], [b"", b""], [b"w", b"w"]]),
        (
            {"pad_length": {"ids": 5}, "pad_value": {"words": "p", "ids": 9}},
            [[1, 1, 1, 9, 9], [2, 9, 9, 9, 9], [3, 3, 3, 3, 9]],
            [[b"w", b"p"], [b"p", b"p"], [b"w", b"w"]],
        ),
        (
            {"pad_length": 4},
            [[1, 1, 1, 0], [2, 0, 0, 0], [3, 3, 3, 3]],
            [[b"w", *[b""] * 3], [b""] * 4, [b"w"] * 2 + [b""] * 2],
        ),
    ],
    ids=str,
)
def test_padding(tokens: Any, options: Any, ids: Any, words: Any, mapped: bool) -> None:
    source = tokens.map(dict) if mapped else tokens
    for batched in (source.batch(3, **options), source.filter(bool).batch(3, **options)):
        batch = next(iter(batched))
        assert batch["ids"].tolist() == ids
        assert batch["words"].tolist() == words
        assert batch["ids"].dtype == np.int32


@pytest.mark.parametrize(
    "call,error,words",
    [
        (
            lambda d: list(d.batch(3, pad_length=3)),
            bd.errors.FeatureError,
            "at most pad_length=3 .* got 4",
        ),
        (lambda d: list(d.batch(3, pad_length={"n": 3})), bd.errors.FeatureError, "n: expected an array .* got int64"),
        (lambda d: d.batch(3, pad_side="top"), ValueError, "pad_side must be 'left' or 'right', got 'top'"),
        (lambda d: d.batch(3, pad_length="x"), TypeError, "pad_length must be an int"),
        (
            lambda d: d.batch(3, pad_value={"idz": 0}),
            ValueError,
            "'idz'; there are ids.* mean 'ids'",
        ),
        (lambda d: list(d.batch(3, pad_value=0.5)), bd.errors.FeatureError, "pad_value=0.5 does not fit int32"),
        (
            lambda d: list(d.batch(3, pad_value={"ids": "x"})),
            bd.errors.FeatureError,
            "'x' does not fit int32",
        ),
        (lambda d: d.batch_by_length([3, 2], [1, 1, 1], length="ids"), ValueError, "boundaries must ascend"),
        (lambda d: d.batch_by_length([3], [1], length="ids"), ValueError, "one more than the 1 boundaries, got 1"),
        (lambda d: d.batch_by_length([3], [1, 1], length=3), TypeError, "the name of a feature or a function"),
        (lambda d: d.batch_by_length([3], [1, 1], length="idz"), bd.errors.FeatureError, "'idz'.* Did you mean 'ids'"),
        (
            lambda d: d.batch_by_length([3], [1, 1], length="n"),
            bd.errors.FeatureError,
            "'n': expected a sequence or an",
        ),
        (lambda d: list(d.map(dict).batch_by_length([3], [1, 1], length="x")), bd.errors.FeatureError, "x: expected a"),
        (lambda d: d.pack(4, ["wrods"]), bd.errors.FeatureError, "names feature 'wrods'; .* Did you mean 'words'"),
        (lambda d: d.filter(bool).pack(4, ["n"]), bd.errors.FeatureError, "'n': expected a sequence or an array"),
        (lambda d: bd.mix([(d, 1), (d, 1)], seed=1).pack(4, ["wrods"]), bd.errors.FeatureError, "Did you mean 'words'"),
        (lambda d: list(d.pack(4, ["ids"])), bd.errors.FeatureError, "ids: expected at most 4 items, got 5"),
        (lambda d: d.pack(4), TypeError, "must be names of features"),
        (lambda d: d.pack(0, ["ids"]), ValueError, "max_length must be at least 1"),
        (lambda d: d.pack(9, ["ids"], overlong="cut"), ValueError, "overlong must be"),
        (lambda d: d.pack({}), ValueError, "at least one feature"),
        (lambda d: d.pack(9, ["ids"]).shuffle(1), ValueError, "comes before batches"),
        (lambda d: d.pack(8, ["a", "a_positions"]), ValueError, r"pack\(\) adds 'a_positions' for 'a'"),
        (lambda d: d.batch_by_length(3, [1, 2], length=len), TypeError, "boundaries: expected a list of int.*, got 3"),
        (lambda d: list(d.map(dict).batch(2, pad_value={"no": 1})), FeatureValueError, "padding names feature 'no'"),
        (lambda d: list(d.map(dict).batch(2, pad_length={"no": 3})), FeatureValueError, "padding names feature 'no'"),
        (lambda d: list(d.map(lambda e: {"t": b"a"}).pack(8, ["t"])), FeatureValueError, "a feature with a length"),
        (lambda d: d.chunk(0, ["ids"]), ValueError, "max_length must be at least 1"),
        (lambda d: d.chunk(4, ["ids"], overlap=4), ValueError, "overlap must be at most 3, got 4"),
        (lambda d: d.chunk(4, "ids"), TypeError, "must be names of features"),
        (lambda d: d.chunk(4, ["idz"]), bd.errors.FeatureError, "Did you mean 'ids'"),
        (
            lambda d: list(d.chunk(4, ["ids", "words"])),
            FeatureValueError,
            "one length in an example, got {'ids': 3, 'w",
        ),
        (lambda d: list(d.map(lambda e: {"r": ROWS}).chunk(1, ["r"])), FeatureValueError, "r: sequences of sequences"),
        (lambda d: list(d.map(lambda e: {"r": ROWS}).pack(8, ["r"])), FeatureValueError, "r: sequences of sequences"),
    ],
)
def test_refuses(tokens: Any, call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(tokens)
