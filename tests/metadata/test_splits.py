import pickle

import pytest

from beam_datasets.errors import MetadataError, SplitError
from beam_datasets.metadata.names import FilenameTemplate
from beam_datasets.metadata.splits import SplitDict, SplitInfo
from tests.facts import raises_with

TRAIN = SplitInfo("train", [3, 4], 70, FilenameTemplate("ds", "train"), "/d/ds/1.0.0")
TEST = SplitInfo("test", [2], 20, FilenameTemplate("ds", "test"), "/d/ds/1.0.0")


def test_a_split():
    assert (TRAIN.num_examples, TRAIN.num_shards, TRAIN.num_bytes) == (7, 2, 70)
    assert TRAIN.offsets.tolist() == [0, 3, 7]
    assert TRAIN.filepaths[1] == "/d/ds/1.0.0/ds-train.tfrecord-00001-of-00002"
    assert TRAIN.file_spec() == "/d/ds/1.0.0/ds-train.tfrecord@2"
    assert TRAIN.examples_in_shards == [3, 4]
    assert repr(TRAIN) == "<SplitInfo num_examples=7, num_shards=2>"
    assert pickle.loads(pickle.dumps(TRAIN)) == TRAIN
    assert TRAIN.replace(num_bytes=1).num_bytes == 1
    with pytest.raises(ValueError, match=r"'train' .* tfrecord.* array_record"):
        TRAIN.file_spec("array_record")


def test_a_split_without_files():
    bare = SplitInfo("train", [3], 0)
    assert bare.file_spec() is None
    assert bare.file_instructions.num_examples == 3
    with pytest.raises(ValueError, match=r"'train' .* filename template"):
        bare.filenames  # noqa: B018


@pytest.mark.parametrize("args", [("../x", [1], 0), ("", [1], 0), ("train", [1, -1], 0), ("train", [1], -5)], ids=repr)
def test_a_split_that_cannot_be(args):
    with raises_with(MetadataError, split=args[0]):
        SplitInfo(*args)


def test_splits_are_a_mapping():
    splits = SplitDict([TRAIN, TEST], dataset_name="ds:1.0.0")
    assert list(splits) == ["train", "test"]
    assert "train" in splits
    assert "train[:1]" not in splits
    assert splits.get("nope") is None
    assert splits.get("test") is TEST
    assert dict(splits.items()) == {"train": TRAIN, "test": TEST}
    assert splits.total_num_examples == 9
    assert splits == SplitDict([TRAIN, TEST])
    assert splits != SplitDict([TEST, TRAIN])
    assert pickle.loads(pickle.dumps(splits)) == splits
    assert repr(splits).startswith("SplitDict({'train': <SplitInfo")


def test_a_name_twice():
    with raises_with(MetadataError, split="train"):
        SplitDict([TRAIN, TRAIN], dataset_name="ds")


def test_a_counter_fills_in_the_bytes_of_a_slice():
    asked = []

    def count(runs):
        asked.append(runs)
        return 10 * runs.num_examples

    splits = SplitDict([TRAIN, TEST]).replace(count_bytes=count)
    info = splits["train[2:]+test"]
    assert asked == []
    assert (info.num_bytes, info.num_bytes) == (70, 70)
    assert len(asked) == 1
    assert repr(info) == "<SubSplitInfo num_examples=7, num_shards=3>"
    assert info.name == "train[2:]+test"
    assert info.examples_in_shards == [3, 4, 2]
    assert splits["train"].num_bytes == 70


def test_more_examples_than_an_int64_counts():
    """A sum of slices, and a split, of 2**63 examples or more are errors, not negative numbers of examples."""
    splits = SplitDict([SplitInfo("train", [2**62], 0), SplitInfo("test", [2**62 - 1], 0)])
    assert splits["all"].num_examples == 2**63 - 1
    with raises_with(SplitError, split="train+all", got="13,835,058,055,282,163,711"):
        splits["train+all"]
    with raises_with(MetadataError, split="train", got=f"{2**63}"):
        SplitInfo("train", [2**62, 2**62], 0)
