"""JSON lines, as Python and DuckDB read them; and ArrayRecord, as its own reader does."""

import base64
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from array_record.python.array_record_data_source import ArrayRecordDataSource
from array_record.python.array_record_module import ArrayRecordReader
from hypothesis import given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets.exporting.writing import json_converter, json_text
from beam_datasets.features import compile_decoder
from beam_datasets.features.schema import schema_of
from beam_datasets.features.stored_files import replace_files_by_bytes
from tests import strategies
from tests.cases import cases
from tests.exporting.conftest import MANY, dataset_of, encoder_of, export, plain
from tests.exporting.trees import has_empty_dict, strings_below
from tests.facts import raises_with
from tests.reading.conftest import write_dataset


def refuse(constant: str) -> Any:
    raise AssertionError(f"{constant} is not JSON")


def lines(directory: Path, split: str = "train") -> list[Any]:
    """Returns the objects of a split, of strict JSON."""
    files = sorted(directory.glob(f"{split}-*.jsonl"))
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    assert text.endswith("\n")
    return [json.loads(line, parse_constant=refuse) for line in text[:-1].split("\n")]


def as_json(value: Any) -> Any:
    """Returns a plain value with bytes as objects, and with null for what is not a finite number."""
    if isinstance(value, dict):
        return {name: as_json(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [as_json(inner) for inner in value]
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    return None if isinstance(value, float) and not np.isfinite(value) else value


def fewest_digits(number: Any) -> int:
    """Returns how many significant digits a decimal must have to be this number in its dtype, by trying."""
    tried = (float(f"{float(number):.{digits - 1}e}") for digits in range(1, 18))
    with np.errstate(over="ignore"):
        return next(digits for digits, decimal in enumerate(tried, 1) if type(number)(decimal) == number)


def shortest(array: Any) -> Any:
    """Returns the numbers with the fewest digits, as float64."""
    array = np.asarray(array)
    flat = [float(f"{float(x):.{fewest_digits(x) - 1}e}") if np.isfinite(x) else float(x) for x in array.reshape(-1)]
    return np.array(flat).reshape(array.shape)


@given(strategies.examples())
@cases(60)
def test_any_features_are_the_same_values(sample: Any) -> None:
    if has_empty_dict(sample.feature):
        return
    stored = replace_files_by_bytes(sample.feature)
    encode, decode = encoder_of(sample.feature), compile_decoder(stored)
    convert = json_converter(schema_of(sample.feature, strings_below(sample.feature)))
    for value in sample.values:
        decoded = decode(encode(value))
        text = json_text(convert(decoded))
        assert "\n" not in text
        assert json.loads(text, parse_constant=refuse) == as_json(plain(stored, decoded, shortest))


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=6).filter(any),
    st.integers(0, 100),
    st.integers(1, 100),
    st.integers(1, 9),
)
@cases(30)
def test_shards_one_behind_the_other_are_the_slice(
    tmp_path_factory: Any, lengths: list[int], start: int, size: int, num_shards: int
) -> None:
    root = tmp_path_factory.mktemp("slice")
    source = write_dataset(root / "d" / "1.0.0", {"train": lengths, "test": [3, 2]}, manifest=True)
    total = sum(lengths)
    first = start % total
    stop = min(first + size, total)
    count = stop - first + 4
    split = {"part": f"train[{first}:{stop}]+test[1:]"}
    made = export(source, root / "out", "jsonl", split=split, num_shards=min(num_shards, count))
    found = [row["id"] for row in lines(made, "part")]
    assert found == [*range(first, stop), 1, 2, 3, 4]
    assert len(list(made.glob("*.jsonl"))) == min(num_shards, count)


def digits_of(text: str) -> int:
    return len(text.partition("e")[0].replace(".", "").replace("-", "").strip("0")) or 1


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_numbers_are_the_shortest_text_that_reads_back(tmp_path: Path, dtype: Any) -> None:
    """The float32 0.1 is exported as 0.1; so are float16 and bfloat16, in arrays, sequences and dicts too."""
    bits = np.random.default_rng(0).integers(0, 256, 4000 * np.dtype(dtype).itemsize, np.uint8)
    rows = [*bits.view(dtype).reshape(-1, 4), np.array([0.1, 1 / 3, -0.0, 65504], dtype)]
    one, item = (F.Tensor(shape=shape, dtype=dtype, encoding="bytes") for shape in ((), (2,)))
    features = {"x": one, "array": item, "more": F.Sequence(one), "deep": {"items": F.Sequence(item)}}
    examples = [{"x": x, "array": [y, z], "more": [z, u], "deep": {"items": [[u, x]]}} for x, y, z, u in rows]
    source = dataset_of(tmp_path, features, examples)
    made = export(source, tmp_path / "out", "jsonl", num_shards=1)
    text = (made / "train-00000-of-00001.jsonl").read_text().splitlines()
    assert text[-1].endswith('"x":0.1}')
    for line, expected in zip(text, rows, strict=True):
        row = json.loads(line, parse_float=str, parse_int=str, parse_constant=refuse)
        (x, (y, z), (same_z, u), [(same_u, same_x)]) = (row["x"], row["array"], row["more"], row["deep"]["items"])
        assert (x, z, u) == (same_x, same_z, same_u)
        for found, number in zip((x, y, z, u), expected, strict=True):
            if not np.isfinite(float(number)):
                assert found is None
                continue
            assert dtype(float(found)).tobytes() == number.tobytes()
            assert digits_of(found) == fewest_digits(number)


# ArrayRecord: its own reader finds the records as they are; the directory says what TensorFlow Datasets looks for


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
    with raises_with(bd.errors.MetadataError, got="array_record", expected=["tfrecord"]):
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
