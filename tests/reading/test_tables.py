"""Tables of Arrow, pandas, Polars and DuckDB have the examples that iteration yields, in its order."""

import importlib
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets import errors
from beam_datasets import features as F
from beam_datasets.errors import FeatureValueError
from beam_datasets.features import compile_decoder
from beam_datasets.features.arrow import arrow_array, arrow_schema
from beam_datasets.features.columnar import ColumnarDecoder
from beam_datasets.features.schema import schema_of, with_label_names
from beam_datasets.features.stored_files import to_column_features
from beam_datasets.reading import tables
from tests import strategies
from tests.cases import cases
from tests.exporting.conftest import MANY, dataset_of, encoder_of, plain
from tests.exporting.trees import has_empty_dict, strings_below
from tests.facts import raises_with
from tests.reading.conftest import Write


def texts(value: Any) -> Any:
    """Returns the value with text in place of bytes."""
    if isinstance(value, dict):
        return {name: texts(part) for name, part in value.items()}
    if isinstance(value, list):
        return list(map(texts, value))
    return value.decode() if isinstance(value, bytes) else value


def rows(ds: Any) -> list[dict[str, Any]]:
    """Returns the examples of numbers and texts as Python has them."""
    return [texts({name: getattr(value, "item", lambda v=value: v)() for name, value in row.items()}) for row in ds]


operations = st.lists(
    st.one_of(
        st.tuples(st.just("shuffle"), st.tuples(st.integers(0, 3), st.sampled_from([None, 5]))),
        st.tuples(st.sampled_from(["skip", "take"]), st.tuples(st.integers(0, 50))),
        st.tuples(st.just("repeat"), st.tuples(st.integers(1, 3))),
        st.tuples(st.just("shard"), st.sampled_from([(0, 2), (1, 2), (2, 3)])),
    ),
    max_size=4,
)


@given(operations, st.integers(1, 30))
@cases(60)
def test_a_table_is_what_iteration_yields(write: Write, done: Any, size: int) -> None:
    ds: Any = bd.builder_from_directory(write({"train": [20, 0, 13, 17]})).as_dataset("train")
    for name, arguments in done:
        ds = getattr(ds, name)(*arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_MAX_ROWS", size)
        table = ds.to_arrow()
    expected = rows(ds)
    assert table.to_pylist() == expected
    assert table.schema.types == [pa.int64(), pa.int64(), pa.string()]
    table.validate(full=True)
    assert ds.to_pandas().to_dict("records") == expected
    assert ds.to_polars().to_dicts() == expected
    assert pl.DataFrame(ds).to_dicts() == expected
    assert pa.table(ds).equals(table)
    assert duckdb.sql("SELECT id, key, text FROM ds").fetchall() == [tuple(row.values()) for row in expected]


@given(strategies.examples())
@cases(60)
def test_columns_of_any_features_have_the_values_of_rows(sample: Any) -> None:
    if has_empty_dict(sample.feature) or not sample.values:
        return
    encode, tree = encoder_of(sample.feature), to_column_features(sample.feature)
    records = [encode(value) for value in sample.values]
    columns, examples = ColumnarDecoder(tree).columns(records), list(map(compile_decoder(tree), records))
    schema = schema_of(sample.feature, strings_below(sample.feature))
    for wanted in (schema, with_label_names(schema)):
        try:
            expected = arrow_array(pa, wanted, examples).to_pylist()
        except FeatureValueError:  # some bytes are not text; rows and columns may name different ones of them
            with raises_with(FeatureValueError, mentions=["text"]):
                arrow_array(pa, wanted, columns)
            continue
        found = arrow_array(pa, wanted, columns)
        found.validate(full=True)
        assert found.type == pa.struct(list(arrow_schema(pa, wanted)))  # type: ignore[arg-type]
        assert found.to_pylist() == expected


def test_every_kind_of_feature_is_a_column_of_the_same_values() -> None:
    builder = bd.builder_from_directory(MANY)
    stored = to_column_features(builder.info.features)
    files = {"image": bd.decode.SkipDecoding(), "gray": bd.decode.SkipDecoding(), "vid": bd.decode.SkipDecoding()}
    table = builder.as_dataset("train").to_arrow()
    table.validate(full=True)
    expected = [plain(stored, example) for example in builder.as_dataset("train", decoders=files)]
    for name in table.column_names:
        found = table[name].to_pylist()
        if name in ("image", "gray"):
            found = [row["bytes"] for row in found]
        if name == "vid":
            found = [[image["bytes"] for image in row] for row in found]
        assert found == [texts(row[name]) if name not in files else row[name] for row in expected], name
    assert set(table.column_names) == set(builder.info.features)


def pets(directory: Path, count: int = 40) -> Any:
    """Writes and opens a dataset with labels here and there, some of them missing."""
    label = F.ClassLabel(names=["cat", "dog"])
    features = {
        "n": np.int64,
        "label": label,
        "bare": F.ClassLabel(num_classes=3),
        "deep": {"labels": F.Sequence(label)},
        "objs": F.Sequence({"cls": label, "x": np.float32}),
        "size": F.Scalar(np.int32, optional=True),
    }
    examples = [
        {
            "n": i,
            "label": i % 3 - 1,
            "bare": i % 3,
            "deep": {"labels": [j % 3 - 1 for j in range(i % 4)]},
            "objs": [{"cls": j % 2, "x": j / 2} for j in range(i % 3)],
            "size": None if i % 5 == 0 else i,
        }
        for i in range(count)
    ]
    return bd.builder_from_directory(dataset_of(directory, features, examples, shards=1)).as_dataset("train")


def test_labels_by_name_and_missing_values(tmp_path: Path) -> None:
    ds = pets(tmp_path)
    names = {-1: None, 0: "cat", 1: "dog"}
    expected = [
        {
            "n": i,
            "label": names[i % 3 - 1],
            "bare": i % 3,
            "deep": {"labels": [names[j % 3 - 1] for j in range(i % 4)]},
            "objs": [{"cls": names[j % 2], "x": j / 2} for j in range(i % 3)],
            "size": None if i % 5 == 0 else i,
        }
        for i in range(40)
    ]
    table = ds.to_arrow(label_names=True)
    assert [dict(sorted(row.items())) for row in table.to_pylist()] == [dict(sorted(row.items())) for row in expected]
    assert table.schema.field("size").type == pa.int32()
    assert ds.to_polars(label_names=True).equals(pl.from_arrow(table))
    frame = ds.to_pandas(label_names=True)
    assert frame["label"].dropna().value_counts().to_dict() == {"cat": 13, "dog": 13}
    assert frame["size"].isna().sum() == 8
    assert ds.to_arrow()["label"].to_pylist() == [i % 3 - 1 for i in range(40)]


def test_text_that_is_none_is_named_and_can_be_binary(tmp_path: Path) -> None:
    features = {"id": np.int64, "more": {"words": F.Sequence(F.Text())}}
    examples: list[Any] = [{"id": i, "more": {"words": ["a", f"ä{i}"]}} for i in range(20)]
    examples[13]["more"]["words"] = ["a", b"\xff\xfe"]
    ds = bd.builder_from_directory(dataset_of(tmp_path, features, examples)).as_dataset("train")
    with raises_with(errors.FeatureError, feature="more.words", record=3, mentions=[r"b'\xff\xfe'", "00001-of-00002"]):
        ds.to_arrow()
    with pytest.raises(pl.exceptions.ComputeError, match=r"more\.words: b'\\xff\\xfe' .*record 3"):
        pl.DataFrame(ds)
    table = ds.to_arrow(binary=["more.words"])
    assert table.sort_by("id")["more"][13].as_py() == {"words": [b"a", b"\xff\xfe"]}
    with raises_with(errors.BeamDatasetsError, mentions=["'id'", "more.words"]):
        ds.to_arrow(binary=["id"])


def test_a_stream_reads_what_is_asked_for(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batches before a damaged record are there, and the error is that of the record."""
    directory = shutil.copytree(write({"train": [100]}), tmp_path / "copied" / "1.0.0")
    (shard,) = directory.glob("*.tfrecord-00000-of-00001")
    content = bytearray(shard.read_bytes())
    content[-5] ^= 1
    shard.write_bytes(content)
    monkeypatch.setattr(tables, "_MAX_ROWS", 10)
    ds = bd.builder_from_directory(directory).as_dataset("train")
    reader = pa.RecordBatchReader.from_stream(ds)
    found = [number for _ in range(9) for number in reader.read_next_batch()["id"].to_pylist()]
    assert found == list(range(90))
    with pytest.raises(pa.ArrowInvalid, match=rf"{shard.name}.*record 99"):
        reader.read_next_batch()
    with raises_with(errors.CorruptRecordError, path=str(shard), record=99):
        ds.to_arrow()


def test_a_stream_is_cast_as_asked_for(write: Write) -> None:
    ds = bd.builder_from_directory(write({"train": [5]})).as_dataset("train")
    schema = pa.schema([("id", pa.int8()), ("key", pa.float64()), ("text", pa.large_string())])
    reader = pa.RecordBatchReader.from_stream(ds, schema=schema)
    assert reader.schema == schema
    assert reader.read_all()["id"].to_pylist() == list(range(5))


def test_duckdb_reads_half_floats_as_the_page_on_frames_says(tmp_path: Path) -> None:
    """DuckDB has no float16; if it reads them one day, the page needs no advice."""
    features = {"id": np.int64, "score": np.float16, "scores": F.Sequence(np.float16)}
    examples: list[Any] = [{"id": i, "score": np.float16(i / 8), "scores": [np.float16(i)] * 2} for i in range(9)]
    builder = bd.builder_from_directory(dataset_of(tmp_path, features, examples))
    ds = builder.as_dataset("train")
    ids = builder.as_dataset("train", decoders=bd.decode.PartialDecoding(["id"]))  # noqa: F841  # DuckDB finds it
    with pytest.raises(duckdb.NotImplementedException, match="Unsupported Internal Arrow Type e$"):
        duckdb.sql("SELECT id FROM ds")
    page = Path(__file__).parents[2] / "docs" / "how-to" / "frames.md"
    code = re.findall("```py\n(.*?)```", page.read_text(), re.DOTALL)[0].rstrip()
    setup, _, query = code.rpartition("\n")
    scores = builder.as_dataset("train", decoders=bd.decode.PartialDecoding(["id", "score"]))
    names = {"pyarrow": pa, "duckdb": duckdb, "ds": scores}
    exec(setup, names)
    assert eval(query, names) == [(1.0,)]
    lists = pa.schema([("id", pa.int64()), ("score", pa.float32()), ("scores", pa.list_(pa.float32()))])
    reader = pa.RecordBatchReader.from_stream(ds, schema=lists)
    expected = [(i, i / 8, [float(i)] * 2) for i in range(9)]
    assert sorted(duckdb.from_arrow(reader).fetchall()) == expected
    frame = ds.to_pandas()  # noqa: F841  # DuckDB finds it
    rows = duckdb.sql("SELECT id, score, scores FROM frame").fetchall()
    assert sorted((number, score, list(values)) for number, score, values in rows) == expected
    assert duckdb.sql("SELECT sum(id) FROM ids").fetchall() == [(36,)]


@pytest.mark.parametrize("how", [{"threads": 2}, pytest.param({"processes": 2}, marks=pytest.mark.slow)])
def test_batches_are_made_in_parallel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: Any) -> None:
    monkeypatch.setattr(tables, "_MAX_ROWS", 7)
    ds = pets(tmp_path)
    assert ds.parallel(**how).to_arrow().equals(ds.to_arrow())


def test_mixtures_and_parts_of_features(tmp_path: Path) -> None:
    ds = pets(tmp_path)
    few = ds.take(10)
    mixed = bd.mix([(ds.skip(10), 1), (few, 1)])
    assert mixed.to_arrow()["n"].to_pylist() == [int(example["n"]) for example in mixed]
    builder = bd.builder_from_directory(tmp_path / "made" / "1.0.0")
    part = builder.as_dataset("train", decoders=bd.decode.PartialDecoding(["n", "size"]))
    assert part.to_arrow().column_names == ["n", "size"]
    numbered = builder.as_dataset("train", read_config=bd.ReadConfig(add_tfds_id=True))
    assert numbered.to_arrow()["tfds_id"].to_pylist() == [example["tfds_id"].decode() for example in numbered]


@pytest.mark.parametrize(
    "make, what",
    [
        (lambda ds: ds.map(len), "results of map()"),
        (lambda ds: ds.batch(2), "batches"),
        (lambda ds: ds.raw(), "records"),
        (lambda ds: bd.mix([(ds, 1)], source_key="from"), "those of a mixture with source_key"),
    ],
)
def test_other_items_have_no_columns(write: Write, make: Any, what: str) -> None:
    ds = bd.builder_from_directory(write({"train": [5]})).as_dataset("train")
    for table in (make(ds).to_arrow, make(ds).to_pandas, lambda: pl.DataFrame(make(ds)), lambda: pa.table(make(ds))):
        with pytest.raises(TypeError, match=f"columns of their features.* {what}"):
            table()


def test_a_value_of_a_decoder_of_a_user_has_no_column(write: Write) -> None:
    @bd.decode.make_decoder()
    def halved(stored: Any, feature: Any) -> Any:
        return stored / 2

    ds = bd.builder_from_directory(write({"train": [5]})).as_dataset("train", decoders={"id": halved()})
    with pytest.raises(errors.BeamDatasetsError, match=r"feature 'id', .* has no column: .*decode\.PartialDecoding"):
        ds.to_arrow()


def test_endless_datasets_and_streams_have_no_table(write: Write) -> None:
    ds = bd.builder_from_directory(write({"train": [5]})).as_dataset("train")
    with pytest.raises(TypeError, match="endless"):
        ds.repeat().to_arrow()
    with pytest.raises(AttributeError, match=r"Stream has no attribute 'to_arrow'. .*before .filter\(\)"):
        ds.filter(bool).to_arrow()


@pytest.mark.parametrize("package, method", [("pyarrow", "to_arrow"), ("pandas", "to_pandas"), ("polars", "to_polars")])
def test_a_missing_package_is_named(write: Write, monkeypatch: pytest.MonkeyPatch, package: str, method: str) -> None:
    ds = bd.builder_from_directory(write({"train": [5]})).as_dataset("train")
    monkeypatch.setitem(sys.modules, package, None)
    importlib.invalidate_caches()
    with raises_with(errors.MissingDependencyError, mentions=["[frames]"]):
        getattr(ds, method)()


def test_pandas_of_each_kind_of_feature() -> None:
    frame = bd.builder_from_directory(MANY).as_dataset("train").to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == 12


def test_pandas_with_exact_integers(tmp_path: Path) -> None:
    """Integers beyond 2**53 beside missing values, in a column and in dicts, by dtypes that the caller chooses."""
    big = (1 << 53) + 1
    optional = F.Scalar("int64", optional=True)
    features = {"n": optional, "u": F.Scalar("uint8", optional=True), "t": F.Text(), "deep": {"n": optional}}
    examples = [
        {"n": None if i % 2 else big, "u": None, "t": f"{i}", "deep": {"n": None if i % 2 else big}} for i in range(4)
    ]
    ds = bd.builder_from_directory(dataset_of(tmp_path, features, examples)).as_dataset("train")
    order = [text == "0" for text in ds.to_pandas()["t"]].index(True)
    assert ds.to_pandas()["n"].dtype == np.float64
    nullable = ds.to_pandas(dtype_backend="numpy_nullable")
    assert (nullable["n"].dtype, nullable["u"].dtype, nullable["t"].dtype) == (
        pd.Int64Dtype(),
        pd.UInt8Dtype(),
        "string",
    )
    arrow = ds.to_pandas(dtype_backend="pyarrow")
    assert arrow["n"].dtype == pd.ArrowDtype(pa.int64())
    assert nullable["n"][order] == arrow["n"][order] == arrow["deep"][order]["n"] == big
    assert nullable["n"].isna().sum() == arrow["n"].isna().sum() == 2
    with pytest.raises(ValueError, match="dtype_backend.*'numpy_nullable', 'pyarrow'.*'arrow'"):
        ds.to_pandas(dtype_backend="arrow")


def test_more_text_than_an_array_has_offsets_for(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = bd.builder_from_directory(write({"train": [5]})).as_dataset("train")
    table = ds.to_arrow()
    monkeypatch.setattr("beam_datasets.features.arrow._MAX_STRING_BYTES", 1)
    assert ds.to_arrow().equals(table)
