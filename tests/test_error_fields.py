"""The facts of errors are attributes: nobody has to parse a message, in this process or after a worker's."""

import copy
import errno
import pickle
import re
import shutil
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets import errors, features
from beam_datasets.cli import main
from beam_datasets.engines.failures import add_facts_to_message, reason
from beam_datasets.errors import (
    BeamDatasetsError,
    DuplicateKeyError,
    FeatureName,
    FeatureValueError,
    GenerationError,
    InputError,
    PathNotFoundError,
    SplitError,
)
from beam_datasets.files.csv import Csv
from beam_datasets.metadata.keys import hash_key
from beam_datasets.storage import local

from .facts import facts, raises_with
from .published import build, publish_dataset

TREE = features.FeaturesDict({"box": {"n": np.int64}, "text": features.Text()})
SHARD = "ds-train.tfrecord-00002-of-00004"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (InputError("no rows", path="a.csv", line=3), "a.csv, line 3: no rows"),
        (InputError("no rows", path="a.csv", offset=0), "a.csv, byte 0: no rows"),
        (FeatureValueError("too long", feature="a/b"), "a/b: too long"),
        (FeatureValueError("too long", feature=FeatureName(["a", "b"])), "a.b: too long"),
        (FeatureValueError("too long", feature=""), "too long"),
        (InputError(expected="one", got="two", path="a", advice="Give one."), "a: expected one, got two. Give one."),
        (InputError("Bad value.", advice="Fix it."), "Bad value. Fix it."),
        (GenerationError("It died", outcome="nothing was published"), "It died; nothing was published"),
        (GenerationError("It died.", outcome="it is there", advice="Look."), "It died; it is there. Look."),
        (InputError(advice="Fix it."), "Fix it."),
        (errors.MetadataError(expected="one", got="2", path="a", field="b.c"), "a: field 'b.c': expected one, got 2"),
        (errors.StateError(expected="one", got="2", field="epoch"), "the state's epoch: expected one, got 2"),
        (SplitError(expected="one", got="2", split="a[2]"), "split 'a[2]': expected one, got 2"),
        (BeamDatasetsError(), ""),
        (PathNotFoundError("is gone", path="HTTPS://token@host/x"), "HTTPS://***@host/x: is gone"),
        (PathNotFoundError("is gone", path="http://me:pa#s?s@host/x"), "http://***@host/x: is gone"),
        (
            errors.CorruptRecordError("cut off.", path="s3://k:secret@b/ds-train.tfrecord-00000-of-00001", offset=7),
            "s3://***@b/ds-train.tfrecord-00000-of-00001, byte 7: cut off. To list the damage: "
            "beam-datasets verify s3://***@b; to restore the file from a copy of the dataset, add --repair --from COPY",
        ),
        (errors.CorruptRecordError("cut off.", path="a", offset=7, record=2), "a, byte 7 (record 2): cut off."),
        (PathNotFoundError("is gone", path="http://me:secret@host/x"), "http://***@host/x: is gone"),
        (
            PathNotFoundError("is gone", path="https://host/x?v=1&sig=a%2Fb&X-Goog-Signature=c#d"),
            "https://host/x?v=1&sig=***&X-Goog-Signature=***: is gone",  # a secret may have a # that is not escaped
        ),
        (PathNotFoundError("is gone", path="https://host/x%3Fa_token=b/y"), "https://host/x%3Fa_token=***: is gone"),
        (PathNotFoundError("is gone", path="http://host/x?design=1&keys=2"), "http://host/x?design=1&keys=2: is gone"),
        (InputError(r'{"url": "http://h/x?sig=a\"b"}'), r'{"url": "http://h/x?sig=***\"b"}'),
    ],
)
def test_the_message_is_composed_of_the_facts(error: BeamDatasetsError, message: str) -> None:
    assert str(error) == message
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), str(copied), facts(copied)) == (type(error), message, facts(error))
    renamed = error.with_message("other")
    assert (type(renamed), str(renamed), facts(renamed)) == (type(error), "other", facts(error))
    assert str(error) == message
    renamed.feature = "text"
    copied = pickle.loads(pickle.dumps(renamed))
    assert (str(copied), copied.feature) == ("other", "text")


def test_a_caller_adds_the_path() -> None:
    error = errors.MetadataError(expected="one", got="2", field="b").with_path("http://me:secret@host/x")
    assert str(error) == "http://***@host/x: field 'b': expected one, got 2"
    assert facts(error) == {"path": "http://***@host/x", "field": "b", "expected": "one", "got": "2"}


@pytest.mark.parametrize("wanted", [["on"], re.compile("None"), "None"], ids=str)
def test_a_missing_fact_is_not_the_text_none(wanted: object) -> None:
    with pytest.raises(AssertionError, match="^got: "), raises_with(InputError, got=wanted):
        raise InputError("no rows", path="a.csv")


def test_the_message_without_outcome_keeps_the_place() -> None:
    place: dict[str, Any] = {"path": "a", "offset": 7, "record": 2, "feature": "text"}
    error = GenerationError("It is full.", **place, outcome="nothing was published", advice="Free space.")
    assert str(error) == "a, byte 7 (record 2): text: It is full; nothing was published. Free space."
    assert error.without_outcome == "a, byte 7 (record 2): text: It is full. Free space."
    assert GenerationError("It is full.", **place).without_outcome == "a, byte 7 (record 2): text: It is full."


def test_every_error_class_takes_the_facts() -> None:
    own_arguments = (errors.CorruptRecordError, DuplicateKeyError)
    classes = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, BeamDatasetsError)]
    for kind in set(classes) - set(own_arguments):
        error = kind(expected="one", got="two", path="a", line=1)
        assert str(error) == "a, line 1: expected one, got two", kind
        assert facts(pickle.loads(pickle.dumps(error))) == facts(error), kind


def test_an_example_that_does_not_fit() -> None:
    with pytest.raises(errors.FeatureOverflowError) as caught:
        TREE.encode_example({"box": {"n": 2**80}, "text": ""})
    assert facts(caught.value) == {"feature": "box.n"}


@pytest.mark.parametrize("num_workers", [1, 2])
def test_an_example_that_does_not_fit_in_a_build(tmp_path: Path, num_workers: int) -> None:
    rows = [(key, {"box": {"n": key}, "text": "x" if key != 7 else 7.5}) for key in range(9)]
    with pytest.raises(errors.FeatureTypeError, match=r"split 'train', key 7: text: ") as caught:
        build(tmp_path, TREE, {"train": rows})
    assert facts(caught.value) == {"feature": "text", "split": "train", "key": 7}


def test_a_damaged_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = publish_dataset(tmp_path)
    intact = shutil.copytree(directory, tmp_path / "intact")
    path = directory / SHARD
    content = bytearray(path.read_bytes())
    content[len(content) // 15 * 3 + 20] ^= 1  # in record 3 of 15
    path.write_bytes(content)
    expected = {"path": str(path), "offset": len(content) // 15 * 3, "record": 3}
    verify = f"beam-datasets verify {directory}"
    advice = f"To list the damage: {verify}; to restore the file from a copy of the dataset, add --repair --from COPY"
    dataset = bd.load("ds", data_dir=tmp_path, split="train")
    for read in (
        lambda: list(dataset),
        lambda: list(dataset.shuffle(seed=1)),
        lambda: list(dataset.parallel(threads=2)),
    ):
        with pytest.raises(errors.CorruptRecordError) as caught:
            read()
        assert facts(caught.value) == {**expected, "advice": advice}
    command = verify.split()[1:]
    assert main(command) == main([*command, "--repair"]) == 1
    assert "record 3" in capsys.readouterr().out
    assert main([*command, "--repair", "--from", str(intact)]) == 0
    assert len(list(bd.load("ds", data_dir=tmp_path, split="train"))) == len(dataset)


@pytest.mark.parametrize("is_parallel", [False, True])
def test_a_record_that_does_not_decode(tmp_path: Path, is_parallel: bool) -> None:
    tree = features.FeaturesDict({"text": features.Text()})
    directory = build(tmp_path, tree, {"train": [(key, {"text": b"\xff" if key == 3 else b"ok"}) for key in range(9)]})
    dataset = bd.load("ds", data_dir=tmp_path, split="train", text="str")
    with pytest.raises(FeatureValueError, match="It is in") as caught:
        list(dataset.parallel(processes=2) if is_parallel else dataset)
    error = caught.value
    assert (error.feature, error.expected, error.path) == (
        "text",
        "text in UTF-8",
        str(next(directory.glob("*-of-*1"))),
    )
    raw = list(bd.load("ds", data_dir=tmp_path, split="train"))
    assert raw[error.record]["text"] == b"\xff"
    assert error.offset == sum(len(record) + 16 for record in list(dataset.raw())[: error.record])


def test_two_examples_with_one_key(tmp_path: Path) -> None:
    rows = [(key, {"box": {"n": 1}, "text": str(key)}) for key in ("a", "b", "a")]
    with pytest.raises(DuplicateKeyError) as caught:
        build(tmp_path, TREE, {"train": rows})
    assert (caught.value.split, caught.value.sort_key) == ("train", hash_key("train", "a"))


def test_the_key_of_examples_from_an_engine() -> None:
    """An engine passes the text of an error alone."""
    sort_key = hash_key("train", "a")
    error = DuplicateKeyError("two examples have the same key", split="train", key=7, sort_key=sort_key)
    add_facts_to_message(error)
    try:
        raise error.with_message(f"{error} [while running 'WriteExamples/Write']")
    except DuplicateKeyError:
        rebuilt = reason(RuntimeError(traceback.format_exc()))
    assert (type(rebuilt), str(rebuilt)) == (DuplicateKeyError, "two examples have the same key")
    assert facts(rebuilt) == {"split": "train", "key": 7}
    assert vars(rebuilt)["sort_key"] == sort_key


def test_rows_with_one_key_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,n\nx,1\ny,2\nx,3\n")
    builder = Csv(splits={"train": str(tmp_path / "a.csv")}, key="id", data_dir=tmp_path / "data")
    with pytest.raises(DuplicateKeyError, match=r"a\.csv, line 2(.|\n)*a\.csv, line 4") as caught:
        builder.build(num_workers=1)
    assert (caught.value.split, caught.value.sort_key) == ("train", hash_key("train", "x"))


def test_a_published_version(tmp_path: Path) -> None:
    build(tmp_path, TREE, {"train": [(1, {"box": {"n": 1}, "text": ""})]})
    with pytest.raises(errors.AlreadyPublishedError) as caught:
        build(tmp_path, TREE, {"train": [(1, {"box": {"n": 1}, "text": ""})]})
    assert str(caught.value.advice).startswith("To publish again, raise the version")
    assert str(caught.value).endswith(f"never changes. {caught.value.advice}")


@pytest.mark.parametrize(
    "wanted",
    [
        {"path": "b.csv"},
        {"line": 4},
        {"got": re.compile("^two$")},
        {"feature": "a"},
        {"got": ["two"]},
        {"got": ["e", "o"]},
        {"mentions": ["a.csv", "line 4"]},
    ],
)
def test_a_test_that_wants_other_facts_fails(wanted: dict[str, object]) -> None:
    with raises_with(InputError, path="a.csv", line=3, got=re.compile("one")):
        raise InputError(expected="two", got="one", path="a.csv", line=3)
    with raises_with(InputError, mentions=["a.csv", "line 3"], got=["o", "e"]):
        raise InputError(expected="two", got="one", path="a.csv", line=3)
    with (
        pytest.raises(AssertionError, match="line 4" if "mentions" in wanted else next(iter(wanted))),
        raises_with(InputError, **wanted),
    ):
        raise InputError(expected="two", got="one", path="a.csv", line=3)


@pytest.mark.parametrize("copied", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_the_number_of_an_error_of_the_system_is_copied(copied):
    with pytest.raises(errors.PathNotFoundError) as raised, local._NamingPath("/x"):
        Path("/nowhere/at/all").read_bytes()
    assert copied(raised.value).errno == raised.value.with_path("/y").errno == errno.ENOENT
