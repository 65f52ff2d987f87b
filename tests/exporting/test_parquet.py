"""Parquet: what pyarrow and DuckDB read is what the dataset holds, in its types and its order."""

import json
from pathlib import Path
from typing import Any

import duckdb
import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from pyarrow import parquet

import beam_datasets as bd
from beam_datasets import errors
from beam_datasets import features as F
from beam_datasets.exporting.writing import _row_groups, arrow_array, arrow_schema
from beam_datasets.features import compile_decoder
from beam_datasets.features.columnar import ColumnarDecoder
from beam_datasets.features.schema import schema_of
from beam_datasets.features.stored_files import replace_files_by_bytes
from tests import strategies
from tests.cases import cases
from tests.exporting.conftest import MANY, dataset_of, encoder_of, export, plain
from tests.exporting.trees import has_empty_dict, strings_below
from tests.facts import raises_with


@given(strategies.examples())
@cases(60)
def test_any_features_are_columns_of_the_same_values(sample: Any) -> None:
    if has_empty_dict(sample.feature):
        with pytest.raises(errors.BeamDatasetsError, match=r"so there is nothing to export"):
            schema_of(sample.feature)
        return
    stored = replace_files_by_bytes(sample.feature)
    encode, decode = encoder_of(sample.feature), compile_decoder(stored)
    values = [decode(encode(value)) for value in sample.values]
    schema = schema_of(sample.feature, strings_below(sample.feature))
    made = arrow_array(pa, schema, values)
    assert made.type == pa.struct(list(arrow_schema(pa, schema)))
    made.validate(full=True)
    expected = [with_paths(stored, sample.feature, plain(stored, value)) for value in values]
    assert made.to_pylist() == expected
    assert arrow_array(pa, schema, []).type == made.type


def with_paths(stored: Any, feature: Any, value: Any) -> Any:
    """Returns a plain value with images as Hugging Face's structs."""
    if isinstance(feature, F.FeaturesDict):
        return {name: with_paths(stored[name], feature[name], value[name]) for name in feature}
    if isinstance(feature, F.Sequence):
        return [with_paths(stored.feature, feature.feature, item) for item in value]
    return {"bytes": value, "path": None} if isinstance(feature, F.Image) else value


def test_types_are_those_of_the_features(tmp_path: Path) -> None:
    made = export(MANY, tmp_path / "out", features=["f16", "flag", "image", "label", "mat", "objs", "opt", "rag", "u8"])
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    expected = {
        "f16": pa.float16(),
        "flag": pa.bool_(),
        "image": image,
        "label": pa.int64(),
        "mat": pa.list_(pa.list_(pa.float32(), 3), 2),
        "objs": pa.list_(pa.struct([("bbox", pa.list_(pa.float32(), 4)), ("cls", pa.int64())])),
        "opt": pa.int64(),
        "rag": pa.list_(pa.list_(pa.int64())),
        "u8": pa.uint8(),
    }
    for file in made.glob("*.parquet"):
        schema = parquet.read_schema(file)
        found = {field.name: field.type for field in schema}
        assert {name: str(kind).replace("element", "item") for name, kind in found.items()} == {
            name: str(kind) for name, kind in expected.items()
        }
        described = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
        assert described["image"] == {"_type": "Image"}
        assert described["label"] == {"_type": "ClassLabel", "names": ["cat", "dog", "fish"]}


def test_duckdb_reads_the_same_in_the_same_order(tmp_path: Path, inter: Any) -> None:
    made = export(inter.dataset_dir, tmp_path / "out", split="train[5%:90%]", num_shards=4)
    assert len(list(made.glob("train-*-of-00004.parquet"))) == 4
    found = duckdb.sql(f"SELECT idx, name FROM '{made}/train-*.parquet'").fetchall()
    examples = inter.as_dataset("train[5%:90%]")[:]
    assert found == [(int(example["idx"]), example["name"].decode()) for example in examples]
    [[number]] = duckdb.sql(f"SELECT sum(idx) FROM '{made}/train-*.parquet' WHERE idx % 2 = 0").fetchall()
    assert number == sum(int(example["idx"]) for example in examples if example["idx"] % 2 == 0)


def test_duckdb_reads_nested_columns_and_images(tmp_path: Path, many: Any) -> None:
    made = export(MANY, tmp_path / "out")
    query = f"SELECT nest.deep.v, objs[1].bbox[2], octet_length(image.bytes) FROM '{made}/train-*.parquet'"
    examples, raw = many.as_dataset("train")[:], many.as_dataset("train", decoders={"image": bd.decode.SkipDecoding()})
    for row, example, stored in zip(duckdb.sql(query).fetchall(), examples, raw[:], strict=True):
        boxes = example["objs"]["bbox"]
        assert row == (example["nest"]["deep"]["v"], float(boxes[0][1]) if len(boxes) else None, len(stored["image"]))


def test_text_that_is_none_is_named_and_can_be_binary(tmp_path: Path) -> None:
    features = {"id": np.int64, "text": F.Text(), "more": {"words": F.Sequence(F.Text())}}
    examples: list[Any] = [{"id": i, "text": f"täxt {i}", "more": {"words": ["a", "b"]}} for i in range(20)]
    examples[13]["text"] = b"\xff\xfe"
    source = dataset_of(tmp_path, features, examples)
    with raises_with(
        errors.FeatureError, record=3, feature="text", mentions=["00001-of-00002", r"b'\xff\xfe'", "--binary"]
    ):
        export(source, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    made = export(source, tmp_path / "out", binary=["text"])
    table = parquet.read_table(made / "train-00000-of-00001.parquet")
    assert (table.schema.field("text").type, table["text"][13].as_py()) == (pa.binary(), b"\xff\xfe")
    assert table["more"][0].as_py() == {"words": ["a", "b"]}
    examples[13]["text"], examples[5]["more"]["words"] = "text", ["a", b"\xff"]
    source = dataset_of(tmp_path / "second", features, examples)
    with raises_with(errors.FeatureError, record=5, feature="more.words", mentions=[r"b'\xff'"]):
        export(source, tmp_path / "second" / "out")
    made = export(source, tmp_path / "second" / "out", binary=["more/words"])
    assert parquet.read_table(made)["more"][5].as_py() == {"words": [b"a", b"\xff"]}


def test_arrays_that_may_be_missing(tmp_path: Path) -> None:
    features = {
        "pair": F.Tensor(shape=(2,), dtype=np.float32, optional=True),
        "grid": F.Tensor(shape=(2, 3), dtype=np.int16, optional=True),
        "tags": F.Tensor(shape=(2,), dtype=np.str_, optional=True),
        "never": F.Tensor(shape=(1, 2), dtype=np.int64, optional=True),
        "always": F.Tensor(shape=(2,), dtype=np.int64),
    }
    there = {"pair": [1.5, 2.5], "grid": [[1, 2, 3], [4, 5, 6]], "tags": ["a", "b"], "always": [1, 2], "never": None}
    gone: dict[str, Any] = {**dict.fromkeys(there), "always": [3, 4]}
    rows = [gone, there, there, gone, there, gone]
    made = export(dataset_of(tmp_path, features, rows), tmp_path / "out", num_shards=1)
    file = made / "train-00000-of-00001.parquet"
    table = parquet.read_table(file)
    assert table.to_pylist() == rows
    assert str(table.schema.field("grid").type) == "list<element: fixed_size_list<element: int16>[3]>"
    described = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert described["pair"] == [{"dtype": "float32", "_type": "Value"}]
    columns = sorted(there)
    found = duckdb.sql(f"SELECT {', '.join(columns)} FROM '{file}'").fetchall()
    assert [dict(zip(columns, map(as_lists, row))) for row in found] == rows


def test_sequences_of_arrays_of_different_shapes(tmp_path: Path) -> None:
    """Those of an example are an array if their shapes agree, else a list."""
    features = {"grids": F.Sequence(F.Tensor(shape=(None, 2), dtype=np.int64, encoding="zlib"))}
    rows = [{"grids": [[[1, 2]], [[3, 4], [5, 6]]]}, {"grids": [[[1, 2]], [[3, 4]]]}, {"grids": []}]
    made = export(dataset_of(tmp_path, features, rows), tmp_path / "out", num_shards=1)
    assert parquet.read_table(made).to_pylist() == rows


def as_lists(value: Any) -> Any:
    return [as_lists(item) for item in value] if isinstance(value, (list, tuple)) else value


def test_batches_of_a_row_group_are_summed_up_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time to write a row group grows with its batches, not with their square."""

    class Batch:
        calls = 0

        @property
        def nbytes(self) -> int:
            Batch.calls += 1
            return 10

    monkeypatch.setattr("beam_datasets.exporting.writing.ROW_GROUP_BYTES", 30_000)
    groups = list(_row_groups(Batch() for _ in range(7000)))
    assert [len(group) for group in groups] == [3000, 3000, 1000]
    assert Batch.calls == 7000


def test_examples_of_uniform_features_are_not_made_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of numbers, labels, texts and fixed-size arrays are made of many records at once."""
    features = {
        "n": np.int64,
        "label": F.ClassLabel(names=["a", "b"]),
        "nest": {
            "text": F.Text(),
            "half": F.Tensor(shape=(), dtype=ml_dtypes.bfloat16, encoding="bytes"),
            "array": F.Tensor(shape=(2, 3), dtype=np.uint8),
        },
        "words": F.Tensor(shape=(2,), dtype=np.str_),
        "image": F.Image(shape=(2, 2, 3), dtype=np.uint8),
    }
    examples = [
        {
            "n": i,
            "label": i % 2,
            "nest": {
                "text": f"täxt {i}",
                "half": ml_dtypes.bfloat16(i / 2),
                "array": np.full((2, 3), i % 256, np.uint8),
            },
            "words": [f"{i}", ""],
            "image": np.full((2, 2, 3), i % 256, np.uint8),
        }
        for i in range(700)
    ]
    source = dataset_of(tmp_path, features, examples)
    by_columns = parquet.read_table(export(source, tmp_path / "columns"))
    tree = bd.builder_from_directory(source).info.features
    decode = compile_decoder(replace_files_by_bytes(tree))
    rows = [decode(record) for record in bd.builder_from_directory(source).as_dataset("train").raw()[:]]
    assert by_columns.to_pylist() == arrow_array(pa, schema_of(tree), rows).to_pylist()
    monkeypatch.setattr(ColumnarDecoder, "examples", None)  # it would be an error to call it
    assert parquet.read_table(export(source, tmp_path / "again")).equals(by_columns)
