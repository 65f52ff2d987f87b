"""Values that mean something in other libraries, and objects in place of others: the error says what to write."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import beam_datasets as bd
from tests.foreign_names.test_guesses import problem_of


@pytest.mark.parametrize(
    "guess, expected",
    [
        ("ds.is_streaming", "isinstance(ds, bd.Dataset)"),
        ("info.shape", "info.features.shape"),
        ("info.digest", "bd.builder(name, data_dir=directory).digest"),
        ("builder.cleanup()", "reading leaves no files"),
        ("bd.visualization", "bd.show_examples(ds)"),
        ("bd.manual_seed(3)", "ds.shuffle(seed=0)"),
        ("bd.collate_fn", "ds.batch(32)"),
        ("bd.keras", "ds.as_tf_dataset()"),
        ("ds.set_worker_info(0, 4)", "ds.as_torch()"),
        ("ds.trim_and_pad({'text': 4})", "ds.padded_batch(32, pad_length={'text': 4})"),
        ("ds.export('out')", "bd.export(source, to='out', format='parquet')"),
        ("ds.select(lambda e: True)", "`ds[indices]`, a list"),
        ("ds.shuffle(1000, initial=100)", "ds.shuffle(seed=0, window=1000)"),
        ("ds[1:2, 'id']", "PartialDecoding(['id'])"),
        ("bd.load(ds)", "It is a dataset already."),
        ("bd.load(builder)", "Its as_dataset('train') is a dataset."),
        ("bd.mix([ds, 3])", "got 3."),
    ],
)
def test_names_and_objects(names: dict[str, Any], tmp_path: Path, guess: str, expected: str) -> None:
    assert expected in problem_of(guess, names, tmp_path)


@pytest.mark.parametrize(
    "guess, expected",
    [
        ("ds.map(f, batched=False)", "can be left out if it is False. Otherwise, use `ds.batch(32).map(f)`."),
        ("ds.map(f, num_proc=None)", "map(): no argument 'num_proc', which can be left out if it is None."),
        ("ds.as_torch(transform=None)", "as_torch(): no argument 'transform', which can be left out if it is None."),
        (
            "bd.load('d', streaming=False)",
            "can be left out if it is False. Otherwise, use `bd.load('d', split='train')`",
        ),
    ],
)
def test_an_argument_that_is_off_can_be_left_out(
    names: dict[str, Any], tmp_path: Path, guess: str, expected: str
) -> None:
    problem = problem_of(guess, names, tmp_path)
    assert expected in problem
    assert "left out" not in problem_of("bd.features.Image(decode=False)", names, tmp_path)  # which changes values


@pytest.mark.parametrize(
    "guess, expected",
    [
        ("bd.features.Scalar('int64', required=False)", "Use `bd.features.Scalar('int64', optional=True)`"),
        ("bd.features.Image(required=False)", "Use `bd.features.Sequence(bd.features.Image())`"),
        ("bd.features.ClassLabel(names=['a'], required=False)", "the label -1 is that of examples without one"),
        ("bd.features.Sequence('int64', required=False)", "a list may be empty"),
    ],
)
def test_required_false_means_optional(names: dict[str, Any], tmp_path: Path, guess: str, expected: str) -> None:
    problem = problem_of(guess, names, tmp_path)
    assert expected in problem
    assert "left out" not in problem


def test_a_negative_count_names_what_returns_all_or_the_last(names: dict[str, Any]) -> None:
    ds = names["ds"]
    for function in (ds.take, ds.skip):
        with pytest.raises(ValueError, match=re.escape("ds[-2:] returns the last ones")):
            function(-2)
    assert [e["id"] for e in ds[-2:]] == [e["id"] for e in list(ds)[-2:]]


def test_a_tag_or_nothing_in_place_of_a_version(names: dict[str, Any]) -> None:
    with pytest.raises(bd.errors.DatasetNotFoundError, match=r"After 'd:' comes a version.* d:1\.0\.0"):
        bd.load("d:final", data_dir=names["data_dir"])
    with pytest.raises(ValueError, match="'d:' is not a dataset name"):
        bd.load("d:")
