"""Rejected examples: their reasons, counts and limit, compared with a plain Counter."""

import pickle
from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import FeatureValueError, TooManyRejectedError
from beam_datasets.shuffle.block_builder import BlockBuilder
from beam_datasets.shuffle.histogram import EMPTY, merge
from beam_datasets.shuffle.rejected import (
    MAX_REASONS,
    NUM_SHOWN,
    OTHER_REASONS,
    Rejected,
    Rejections,
    merge_rejections,
)

KEYS = st.one_of(st.integers(), st.text(max_size=5), st.binary(max_size=5), st.none())


def count(pairs):
    """Returns the counts of (key, reason) pairs of the split `a`."""
    return merge_rejections(Rejections.of("a", key, Rejected(reason)) for key, reason in pairs)


@given(parts=st.lists(st.lists(st.tuples(KEYS, st.sampled_from(["too short", "no label", "x: 3"])), max_size=30)))
def test_counts_are_those_of_a_counter_however_the_parts_are_merged(parts):
    pairs = [pair for part in parts for pair in part]
    examples = defaultdict(set)
    for key, reason in pairs:
        examples[reason].add(" ".join(f"split 'a', key {key!r}: {reason}".split()))
    numbers = Counter(reason for _, reason in pairs)
    expected = {reason: (numbers[reason], tuple(sorted(examples[reason])[:NUM_SHOWN])) for reason in numbers}
    merged = merge_rejections(map(count, parts))
    assert merged.by_reason == count(pairs).by_reason == expected
    assert merged.total == len(pairs)
    histogram = pickle.loads(pickle.dumps(merge([EMPTY, *(merge([EMPTY]) for _ in parts)])))
    assert histogram.rejections.total == histogram.total == 0


@given(st.lists(st.integers(0, 3 * MAX_REASONS), max_size=200), st.integers(1, 20))
def test_the_total_is_right_if_there_are_many_reasons(reasons, size):
    parts = [count((n, f"reason {n}") for n in reasons[i : i + size]) for i in range(0, len(reasons), size)]
    merged = merge_rejections(parts)
    assert merged.total == len(reasons)
    assert len(merged.by_reason) <= MAX_REASONS + 1
    if len(set(reasons)) > MAX_REASONS:
        assert OTHER_REASONS in merged.by_reason


@pytest.mark.parametrize(
    "reason, counted, shown",
    [
        ("shorter than 3 s", "shorter than 3 s", "shorter than 3 s"),
        (ValueError("'x' is\nbad"), "ValueError: ... is", "ValueError: 'x' is bad"),
        (KeyError("label"), "KeyError: ...", "KeyError: 'label'"),
        (ValueError(), "ValueError:", "ValueError:"),
        (FeatureValueError("n: 300 does not fit"), "n: ... does not fit", "n: 300 does not fit"),
        ("half of \ud800", "half of \\ud800", "half of \\ud800"),
        ("no http://me:secret@host/x", "no http://***@host/x", "no http://***@host/x"),
        ("x" * 1000, "x" * 120, "x" * 500),
    ],
)
def test_reason_and_problem(reason, counted, shown):
    rejected = pickle.loads(pickle.dumps(Rejected(reason)))
    assert (rejected.reason, rejected.problem) == (counted, shown)


@pytest.mark.parametrize("reason, error", [(None, TypeError), (3, TypeError), ("", ValueError), (" \n", ValueError)])
def test_an_unusable_reason_is_refused(reason, error):
    with pytest.raises(error, match=r"^reason: expected a text"):
        Rejected(reason)


def test_the_error_has_the_reasons_numbers_keys_and_the_option():
    rejections = count([*((f"k{n}", "no label") for n in range(7)), ("b", ValueError("'x' is bad"))])
    rejections.check(8)
    with pytest.raises(TooManyRejectedError) as caught:
        rejections.check(7)
    summary, *lines = str(caught.value).splitlines()
    assert summary.startswith("expected at most 7 rejected examples, got 8. ")
    assert summary.endswith(": --max_rejected 8 (max_rejected=8)")
    shown = [f"  split 'a', key 'k{n}': no label" for n in range(4)]
    assert lines == [
        "rejected: 8",
        "  7: no label",
        "  1: ValueError: ... is bad",
        "for example:",
        "  split 'a', key 'b': ValueError: 'x' is bad",
        *shown,
    ]
    assert caught.value.got == "8"


@given(st.lists(st.tuples(st.booleans(), st.booleans())))
def test_a_bundle_that_is_started_again_counts_once(examples):
    """The first attempt fails after any number of examples."""
    builder = BlockBuilder("a", bytes, block_size=1 << 20)
    for attempt in (examples[: len(examples) // 2], examples):
        builder.reset()
        for key, (is_rejected, is_short) in enumerate(attempt):
            builder.add(key, Rejected("short" if is_short else "long") if is_rejected else b"x")
    numbers = {reason: number for reason, (number, _) in builder.take_rejections().by_reason.items()}
    assert numbers == Counter("short" if is_short else "long" for is_rejected, is_short in examples if is_rejected)
    assert len(builder) == sum(not is_rejected for is_rejected, _ in examples)
    assert builder.take_rejections().total == 0
