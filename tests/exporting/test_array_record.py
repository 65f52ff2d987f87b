"""ArrayRecord: its own reader finds the records as they are; the directory says what TensorFlow Datasets looks for."""

import json
from pathlib import Path
from typing import Any

import pytest
from array_record.python.array_record_data_source import ArrayRecordDataSource
from array_record.python.array_record_module import ArrayRecordReader

import beam_datasets as bd
from beam_datasets.features import compile_decoder
from tests.exporting.conftest import MANY, export


def records(path: Path) -> list[bytes]:
    reader = ArrayRecordReader(str(path))
    try:
        return list(reader.read_all())
    finally:
        reader.close()


def test_records_as_they_are_in_the_same_order(tmp_path: Path, inter: Any) -> None:
    made = export(inter.dataset_dir, tmp_path / "out", "arrayrecord", split="train[5%:]", num_shards=3)
    files = sorted(made.glob("*.array_record-*"))
    assert [path.name for path in files] == [
        f"spec_inter-train.array_record-{shard:05d}-of-00003" for shard in range(3)
    ]
    config = bd.ReadConfig(interleave_cycle_length=1)
    expected = list(inter.as_dataset("train[5%:]", read_config=config).raw())
    assert [record for path in files for record in records(path)] == expected
    with ArrayRecordDataSource([str(path) for path in files]) as source:
        assert len(source) == len(expected)
        assert source[len(expected) - 3] == expected[-3]


def test_each_record_is_compressed_alone(tmp_path: Path) -> None:
    [path] = export(MANY, tmp_path / "out", "arrayrecord").glob("*-train.array_record-*")
    reader = ArrayRecordReader(str(path))
    assert "group_size:1," in reader.writer_options_string()
    reader.close()


def test_the_directory_is_one_of_tfds(tmp_path: Path, many: Any) -> None:
    made = export(MANY, tmp_path / "out", "arrayrecord", split="train[:7]")
    info = json.loads((made / "dataset_info.json").read_text())
    assert info["fileFormat"] == "array_record"
    assert info["splits"] == [
        {
            "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
            "name": "train",
            "numBytes": info["splits"][0]["numBytes"],
            "shardLengths": ["7"],
        }
    ]
    assert (made / "features.json").read_text() == (MANY / "features.json").read_text()
    assert (made / "label.labels.txt").read_text() == (MANY / "label.labels.txt").read_text()
    published = bd.builder_from_directory(made)
    assert published.info.full_name == many.info.full_name
    with pytest.raises(ValueError, match="stored as array_record; only tfrecord can be read"):
        published.as_dataset("train")


def test_chosen_features_are_cut_out_of_the_records(tmp_path: Path, many: Any) -> None:
    kept = ["label", "nest/deep", "objs", "steps/r"]
    made = export(MANY, tmp_path / "out", "arrayrecord", features=kept)
    [path] = made.glob("*-train.array_record-*")
    tree = bd.builder_from_directory(made).info.features
    assert sorted(tree) == ["label", "nest", "objs", "steps"]
    decode = compile_decoder(tree)
    partial = {"label": True, "nest": {"deep"}, "objs": True, "steps": {"r"}}
    expected = many.as_dataset("train", decoders=bd.decode.PartialDecoding(partial))[:]
    for record, example in zip(records(path), expected, strict=True):
        found = decode(record)
        assert repr({**found, "steps": list(found["steps"])}) == repr({**example, "steps": list(example["steps"])})
        assert b"text" not in record
