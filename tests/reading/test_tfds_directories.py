"""Directories that TFDS wrote, read as TFDS read them: examples, ids, order, whole and sliced."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets.features import NestedDataset, RaggedArray

ROOT = Path(__file__).parents[1] / "data/tfds"
DUMPS = {path.name.removesuffix(".dump.json"): json.loads(path.read_text()) for path in sorted(ROOT.glob("*.json"))}
READS = [(name, split) for name, dump in DUMPS.items() for split in dump["reads"] if split != "train[9:3]"]
WITH_ID = bd.ReadConfig(add_tfds_id=True)


def reader(name: str) -> bd.ReadOnlyBuilder:
    return bd.builder_from_directory(ROOT / DUMPS[name]["dir"])


def tagged(value: Any) -> Any:
    """A value as the dumps write it."""
    if isinstance(value, RaggedArray):
        return {"$ragged": value.to_list(), "dtype": value.dtype.name}
    if isinstance(value, NestedDataset):
        return {"$dataset": [tagged(item) for item in value]}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, np.generic):
        return {"$scalar": str(value), "dtype": value.dtype.name}
    if isinstance(value, np.ndarray) and value.dtype == object:
        return {"$ndarray": [tagged(x) for x in value.ravel().tolist()], "dtype": "object", "shape": [*value.shape]}
    if isinstance(value, np.ndarray):
        flat = [x if isinstance(x, int) else repr(x) for x in value.ravel().tolist()]
        return {"$ndarray": flat, "dtype": value.dtype.name, "shape": [*value.shape]}
    if isinstance(value, dict):
        return {key: tagged(item) for key, item in value.items()}
    return value


def as_tfds_has_it(example: dict[str, Any]) -> dict[str, Any]:
    """An example of a dump, but for what an optional feature is when it is missing: TFDS puts a number there."""
    if example.get("opt") == {"$scalar": str(-(2**63)), "dtype": "int64"}:
        return {**example, "opt": None}
    return example


@pytest.mark.parametrize("name,split", READS)
def test_reads_the_same(name: str, split: str) -> None:
    expected = DUMPS[name]["reads"][split]
    if isinstance(expected, dict):  # TFDS refuses an empty slice
        assert split == "train[:0]"
        expected = []
    found = list(reader(name).as_dataset(split, read_config=WITH_ID))
    if expected and isinstance(expected[0], dict):
        assert [tagged(example) for example in found] == [as_tfds_has_it(example) for example in expected]
    else:
        assert [example["tfds_id"].decode() for example in found] == expected


@pytest.mark.parametrize("name,split", READS)
def test_dataset_order_is_that_of_the_files(name: str, split: str) -> None:
    dataset = reader(name).as_dataset(split, read_config=WITH_ID)
    ids = [example["tfds_id"] for example in dataset[:]]
    assert len(dataset) == len(ids)
    assert ids == [dataset[i]["tfds_id"] for i in range(len(dataset))]
    assert sorted(ids) == sorted(example["tfds_id"] for example in dataset)
    if "+" not in split and split != "all":
        assert ids == sorted(ids, key=lambda name: (name.rpartition(b"__")[0], int(name.rpartition(b"__")[2])))


@pytest.mark.parametrize("name", DUMPS)
def test_info(name: str) -> None:
    dump, info = DUMPS[name], reader(name).info
    assert list(info.splits) == list(dump["splits"])
    for split, expected in dump["splits"].items():
        assert info.splits[split].shard_lengths == expected["shard_lengths"]
        assert info.splits[split].num_bytes == expected["num_bytes"]
        assert info.splits[split].filenames == expected["filenames"]


def test_raw_records_are_those_of_the_files() -> None:
    from beam_datasets.formats import tfrecord

    dataset = reader("spec_three__1.2.3").as_dataset("train").raw()
    files = sorted((ROOT / "spec_three/1.2.3").glob("*train*"))
    stored = []
    for file in files:
        data = file.read_bytes()
        stored += map(bytes, tfrecord.unframe(data, tfrecord.scan(data, path=str(file)), path=str(file)))
    assert dataset[:] == stored
    assert sorted(dataset) == sorted(stored)
    assert type(dataset[0]) is bytes


def test_nested_splits_keep_their_structure() -> None:
    builder = reader("spec_three__1.2.3")
    nest = builder.as_dataset({"a": ["train", ("test", "validation[:3]")], "b": bd.ReadInstruction("test", to=2)})
    assert isinstance(nest["a"][1], tuple)
    assert [len(dataset) for dataset in (nest["a"][0], *nest["a"][1], nest["b"])] == [23, 5, 3, 2]
    whole = builder.as_dataset()
    assert {name: len(dataset) for name, dataset in whole.items()} == {"train": 23, "validation": 7, "test": 5}


def test_as_supervised() -> None:
    dataset = reader("spec_three__1.2.3").as_dataset("train", as_supervised=True)
    assert next(iter(dataset)) == (b"train_8_xxxx", 8)
    with pytest.raises(ValueError, match="no supervised_keys"):
        reader("spec_multi__small__1.0.0").as_dataset("train", as_supervised=True)


def test_batches_are_padded() -> None:
    builder = reader("spec_many__2.0.1")
    batch = builder.as_dataset("train", batch_size=5, decoders=bd.decode.PartialDecoding({"seq": True, "n": True}))
    first = next(iter(batch))
    assert first["n"].shape == (5,)
    single = [example["seq"] for example in builder.as_dataset("train").take(5)]
    assert first["seq"].shape == (5, max(map(len, single)))
    for row, values in zip(first["seq"], single):
        assert row[: len(values)].tolist() == values.tolist()
        assert not row[len(values) :].any()
    whole = builder.as_dataset("train", batch_size=-1)
    assert whole["label"].shape == (12,)
    assert whole["image"].shape[0] == 12
    assert len(whole["rag"]) == 12
    assert whole["text"].dtype == object


def test_ordered_dataset_is_guarded() -> None:
    builder = reader("spec_ordered__1.2.3")
    assert [int(e["idx"]) for e in builder.as_dataset("train")] == [
        int(e["idx"]) for e in builder.as_dataset("train")[:]
    ]
    with pytest.raises(ValueError, match="disable_shuffling"):
        builder.as_dataset("train", shuffle_files=True)
    with pytest.raises(ValueError, match="disable_shuffling"):
        builder.as_dataset("train", read_config=bd.ReadConfig(interleave_cycle_length=4))


def test_sub_splits_of_a_directory_without_index_have_no_size() -> None:
    assert reader("spec_three__1.2.3").info.splits["train[:5]"].num_bytes is None
