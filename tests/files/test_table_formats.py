"""Folders of Delta Lake, Hudi and Iceberg tables, whose logs list the files that belong to them."""

import re
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_datasets.errors import InputError
from beam_datasets.files.inputs import find
from beam_datasets.files.parquet import Parquet
from tests.files.in_process import publish

TABLES = {
    "delta": ("_delta_log/00000000000000000000.json", "part-{}.parquet"),
    "delta_partitions": ("_delta_log/00000000000000000003.checkpoint.parquet", "day=2020-01-01/part-{}.parquet"),
    "hudi": (".hoodie/20240101.commit", "2020/01/01/{}_0-1-0_20240101.parquet"),
    "iceberg": ("metadata/00001-8f8f.metadata.json", "data/day=1/00000-{}.parquet"),
    "iceberg_of_hadoop": ("metadata/v2.metadata.json", "data/00000-{}.parquet"),
    "iceberg_compressed": ("metadata/00001-8f8f.gz.metadata.json", "data/0101/1010/00000-{}.parquet"),
    "iceberg_compressed_otherwise": ("metadata/v1.metadata.json.gz", "data/00000-{}.parquet"),
}


@pytest.fixture(params=TABLES)
def table(request, tmp_path):
    """A folder of a table with a file that its log has removed."""
    log, data = TABLES[request.param]
    folder = tmp_path / "lake/t[1]"
    for path in (folder / log, folder / data):
        path.parent.mkdir(parents=True, exist_ok=True)
    (folder / log).write_text("{}")
    for name in ("old", "new"):
        pq.write_table(pa.table({"x": [name]}), folder / data.format(name))
    return folder


def test_a_table_is_not_read_as_all_of_its_files(table):
    data = next(table.rglob("*new*.parquet"))
    escaped = f"{table}".replace("[", "[[]")
    relative = data.parent.relative_to(table)
    for pattern in (table, table.parent, f"{escaped}/**/*.parquet", f"{escaped}/{relative}/*.parquet", data.parent):
        with pytest.raises(InputError, match=r"got an? (Delta Lake|Hudi|Iceberg) table .*name each file") as caught:
            publish("parquet", pattern)
        assert str(caught.value).startswith(f"{table}: expected Parquet files that all belong")


def test_files_of_a_table_that_are_named_one_by_one(table):
    paths = [str(path) for path in table.rglob("*new*.parquet")]
    assert find(paths, may_be_table=False) == find(paths)
    assert Parquet(data_dir=table.parent, name="x", splits={"train": paths}).info.features.keys() == {"x"}


def test_folders_that_only_look_like_tables(tmp_path):
    logs = "_delta_logs/0.json", "delta_log/0.json", "metadata/a.json", "_delta_log.json"
    samples = "sample1", "a", "v", "v1-notes", "2024-01-01", "20240101-run", "train.v2"
    for log in (*logs, *(f"metadata/{name}.metadata.json" for name in samples)):
        (tmp_path / log).parent.mkdir(exist_ok=True)
        (tmp_path / log).write_text("{}")
    (tmp_path / "sub/_delta_log").mkdir(parents=True)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    for pattern in ("*.parquet", "**/*.parquet"):
        assert [row["x"] for row in publish("parquet", f"{tmp_path}/{pattern}").rows] == [1]


def test_a_table_beside_the_files_that_match(table):
    """Only files below the folder of the table are its own."""
    path = table.parent / "sub/x.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"x": [1]}), path)
    assert [row["x"] for row in publish("parquet", f"{table.parent}/**/x.parquet").rows] == [1]
    pq.write_table(pa.table({"x": [2]}), table / "x.parquet")
    with pytest.raises(InputError, match="table .*name each file"):
        publish("parquet", f"{table.parent}/**/x.parquet")


def test_other_formats_are_read_beside_the_log_of_a_table(tmp_path):
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log/0.json").write_text("{}")
    (tmp_path / "a.csv").write_text("x\n1\n")
    assert [row["x"] for row in publish("csv", tmp_path).rows] == [1]
    assert [file.name for file in find(str(tmp_path))] == ["a.csv"]


@pytest.mark.parametrize("pattern", ["t", "t/", "t/data/", "t/data/day=1/*.parquet", "t/data/day=1/0*.parquet", "**"])
@pytest.mark.parametrize("name", ["iceberg", "delta_partitions", "hudi"])
def test_a_table_in_a_store(name, pattern, monkeypatch):
    log, _ = TABLES[name]
    keys = [f"s3://bucket/lake/t/{path}" for path in (log, "data/day=1/00-a.parquet", "data/day=1/00-b.parquet")]

    def match(pattern, limit=None):
        wanted = re.escape(pattern).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
        urls = [key for key in keys if re.fullmatch(wanted, key)][:limit]
        objects = [SimpleNamespace(path=url, size_in_bytes=1, last_updated_in_seconds=0) for url in urls]
        return [SimpleNamespace(metadata_list=objects)]

    for module in ("glob", "table_formats"):
        monkeypatch.setattr(f"beam_datasets.files.{module}.match_by_beam", match)
    with pytest.raises(InputError, match=r"^s3://bucket/lake/t: .* got an? (Delta Lake|Hudi|Iceberg) table"):
        find(f"s3://bucket/lake/{pattern}", may_be_table=False)
    assert sum(file.path.endswith(".parquet") for file in find(f"s3://bucket/lake/{pattern}")) == 2
    [file] = find("s3://bucket/lake/t/data/day=1/00-a.parquet", may_be_table=False)
    assert file.name == "00-a.parquet"
