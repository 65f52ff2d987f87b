"""Iterables and small files that are appended without Beam: the same dataset as with it, and the same errors."""

import functools
import gzip
import hashlib
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from hypothesis import example, given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets.errors import (
    BeamDatasetsError,
    DuplicateKeyError,
    GenerationError,
    InputError,
    InvalidKeyError,
    MissingDependencyError,
    SplitError,
)
from beam_datasets.execute import in_process
from beam_datasets.files import builder
from beam_datasets.files.csv import Csv
from beam_datasets.files.inputs import find
from beam_datasets.files.jsonl import Jsonl
from beam_datasets.files.parquet import Parquet
from beam_datasets.files.split_assignment import SplitBy
from beam_datasets.files.text_lines import TextLines
from tests.facts import raises_with
from tests.materializing.generated import content, generate

ROWS = [{"id": f"k{i % 1000}", "day": i // 100, "text": "x" * (i % 40), "n": [i, -i]} for i in range(1000)]
FLAT = [{name: value for name, value in row.items() if name != "n"} for row in ROWS]


def files_of(directory):
    """Returns the content of the files of a dataset, without when and where it was made."""
    found = {path.name: path.read_bytes() for path in Path(directory).iterdir() if path.name != "run.json"}
    manifest = json.loads(found.pop("manifest.json"))
    return found, {name: value for name, value in manifest.items() if name not in ("created", "digest")}


@pytest.fixture(params=["jsonl", "csv", "parquet", "text_lines", "shares", "groups", "two patterns", "bad rows"])
def files(request, tmp_path):
    """Makes the builder of some files, for a data_dir."""
    folder = tmp_path / "in"
    folder.mkdir()
    for part in range(3):
        rows, flat = ROWS[part::3], FLAT[part::3]
        (folder / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        table = pa.Table.from_pylist(flat)
        pq.write_table(table, folder / f"{part}.parquet")
        (folder / f"{part}.csv").write_text(
            "id,day,text\n" + "".join(f"{r['id']},{r['day']},{r['text']}\n" for r in flat)
        )
    (folder / "bad.json").write_text('{"id": "a", "n": 1}\n{\n[]\n{"id": "b", "n": 2}\n')
    json_lines = {"pattern": f"{folder}/*.jsonl", "key": "id"}
    kind, options = {
        "jsonl": (Jsonl, {"pattern": f"{folder}/*.jsonl"}),
        "csv": (Csv, {"pattern": f"{folder}/*.csv", "key": "id"}),
        "parquet": (Parquet, {"pattern": f"{folder}/*.parquet", "key": "id"}),
        "text_lines": (TextLines, {"pattern": f"{folder}/*.jsonl"}),
        "shares": (Jsonl, json_lines | {"splits": {"train": "70%", "test": "30%"}}),
        "groups": (Jsonl, json_lines | {"splits": {"a": "50%", "b": "50%"}, "split_by": SplitBy(group="day")}),
        "two patterns": (Jsonl, {"splits": {"one": f"{folder}/0.jsonl", "two": f"{folder}/[12].jsonl"}}),
        "bad rows": (Jsonl, {"pattern": f"{folder}/bad.json", "key": "id", "skip_bad": True}),
    }[request.param]
    return lambda data_dir: kind(name="ds", data_dir=data_dir, **options)


def test_is_the_dataset_that_beam_makes(files, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.WARNING)
    expected = files_of(files(tmp_path / "beam").build(num_workers=1))
    said = caplog.messages.copy()
    caplog.clear()
    monkeypatch.setattr(in_process, "BLOCK_SIZE", 3000)  # so that there are several blocks
    monkeypatch.setattr("beam_datasets.beam.generate.generate", None)
    assert files_of(files(tmp_path).elsewhere(tmp_path / "here").build(skip_empty_splits=True)) == expected
    assert caplog.messages == said
    assert sorted(path.name for path in (tmp_path / "here/ds").iterdir()) == ["1.0.0"]


@pytest.mark.parametrize(
    "content",
    [
        '{"id": "a", "n": 1}\n{"id": "a", "n": 2}\n',
        '{"id": "a", "n": 1}\n{\n',
        '{"id": "a", "n": "\\ud800"}\n',
        '{"id": "\\ud800", "n": "b"}\n',
    ],
    ids=["a key twice", "a bad row", "a text that is not UTF-8", "a key that is not"],
)
def test_errors_are_those_of_beam(tmp_path, content):
    (tmp_path / "a.jsonl").write_text(content)
    made = Jsonl(name="ds", pattern=f"{tmp_path}/a.jsonl", key="id", data_dir=tmp_path / "beam")
    with pytest.raises(BeamDatasetsError) as expected:
        made.build(num_workers=1)
    with pytest.raises(type(expected.value)) as found:
        made.elsewhere(tmp_path / "here").build()
    assert str(found.value) == str(expected.value).partition("\n  (in ")[0]
    assert not [path for path in (tmp_path / "here").rglob("*") if path.is_file()]


def kept(builder):
    yield from ((f"k{i}", {"n": i, "text": "x" * (i % 40)}) for i in range(builder.count))


def even(key):
    return int(key[1:]) % 2 == 0


def failing(builder):
    yield from kept(builder)
    {}["text: 1"]


SOURCES = {
    "a generator": lambda builder: {"train": kept(builder), "test": kept(builder)},
    "functions": lambda builder: {"train": functools.partial(kept, builder)},
    "lists": lambda builder: {"a": list(kept(builder)), "b": list(kept(builder))[:5], "empty": []},
    "ordered": lambda builder: {"train": kept(builder)},
    "a unit": lambda builder: {"train": bd.SourceUnits([builder], kept), "test": kept(builder)},
    "no units": lambda builder: {"train": kept(builder), "test": bd.SourceUnits([], kept)},
    "a unit of two splits": lambda builder: {
        "train": bd.SourceUnits(units := [builder], kept, keep=even),
        "test": bd.SourceUnits(units, kept),
    },
    "integers": lambda builder: {"train": ((i * 7 % 1000, example) for i, (_, example) in enumerate(kept(builder)))},
    "an exception": lambda builder: {"train": failing(builder)},
    "an exception at once": lambda builder: {"train": ([][1] for _ in range(3))},
    "a wrong example": lambda builder: {"train": [("a", {"n": 1, "text": ""}), ("b", {"n": "1", "text": ""})]},
    "a key that is not UTF-8": lambda builder: {"train": [("\ud800", {"n": 1, "text": ""})]},
    "a key twice": lambda builder: {"train": [("a", {"n": 1, "text": ""}), ("a", {"n": 2, "text": ""})]},
    "no pair": lambda builder: {"train": [{"n": 1, "text": ""}]},
    "nothing": lambda builder: {"train": lambda: None},
    "no examples": lambda builder: {"train": []},
    "a unit that fails": lambda builder: {"train": bd.SourceUnits([builder], failing)},
    "a unit whose keys are no integers": lambda builder: {"train": bd.SourceUnits([builder], kept)},
}


class Own(bd.DatasetBuilder, skip_registration=True):
    """An author's builder, of iterables."""

    VERSION = bd.Version("1.0.0")
    count = 1000
    sources = ""

    def _info(self):
        features = {"n": bd.features.Scalar("int64"), "text": bd.features.Text()}
        return bd.DatasetInfo(
            builder=self,
            features=bd.features.FeaturesDict(features),
            disable_shuffling=self.sources in ("ordered", "integers", "a unit whose keys are no integers"),
        )

    def _split_generators(self):
        return SOURCES[self.sources](self)


@pytest.mark.parametrize("sources", SOURCES)
def test_iterables_are_built_as_by_beam(sources, tmp_path, monkeypatch):
    def built(builder):
        builder.sources = sources
        try:
            return files_of(builder.build(skip_empty_splits=True, **options))
        except BeamDatasetsError as error:
            return type(error), str(error)

    options = {"num_workers": 1}
    expected = built(Own(data_dir=tmp_path / "beam"))
    assert isinstance(expected[0], type) == (list(SOURCES).index(sources) > 7)
    options = {}
    monkeypatch.setattr(in_process, "BLOCK_SIZE", 3000)  # so that there are several blocks
    monkeypatch.setattr("beam_datasets.beam.generate.generate", None)
    assert built(Own(data_dir=tmp_path).elsewhere(tmp_path / "here")) == expected


def test_a_source_that_ends_the_process_is_an_error(tmp_path, monkeypatch):
    def exiting(builder):
        yield from kept(builder)
        sys.exit(0)

    monkeypatch.setitem(SOURCES, "an exit", lambda builder: {"train": exiting(builder)})
    monkeypatch.setattr(Own, "sources", "an exit")
    with pytest.raises(GenerationError, match=r"SystemExit: 0\n  \(in the source of 'train', after key 'k999' .*exit"):
        Own(data_dir=tmp_path).elsewhere(tmp_path / "here").build()
    assert not [path for path in (tmp_path / "here").rglob("*") if path.is_file()]


def hash_of(key):
    return hashlib.md5(f"train{key}".encode()).hexdigest()


def test_errors_name_the_key_of_what_is_appended(tmp_path, monkeypatch):
    monkeypatch.setattr(Own, "sources", "a key twice")
    with raises_with(
        DuplicateKeyError, key="a", mentions=["two examples", f"the same key 'a' (its hash is {hash_of('a')})"]
    ):
        bd.append(generate(tmp_path, {"train": {"x": 0}}), Own(data_dir=tmp_path))
    monkeypatch.setitem(SOURCES, "a key twice", lambda builder: {"train": [(k, {"n": 1, "text": ""}) for k in "yxz"]})
    with raises_with(
        DuplicateKeyError, key="x", mentions=["builder Own", f"the same key 'x' (its hash is {hash_of('x')})"]
    ):
        bd.append("ds", Own(data_dir=tmp_path), data_dir=tmp_path)


def test_a_day_without_rows_for_a_split(tmp_path, monkeypatch):
    sources = {"train": [], "test": [(2, {"n": 2, "text": "xx"})]}
    monkeypatch.setitem(SOURCES, "lists", lambda builder: sources)
    monkeypatch.setattr(Own, "sources", "lists")
    published = generate(tmp_path, {"train": {0: 0}, "test": {1: 1}})
    append = functools.partial(bd.append, "ds", Own(data_dir=tmp_path), data_dir=tmp_path)
    for split in ("train", "train=train[:50%]", "test[:50%]"):
        assert append(split=split) == str(published)
    with raises_with(SplitError, got="'trian'", expected="'test', 'train'", mentions=["builder Own"]):
        append(split="trian")
    whole = content(generate(tmp_path / "x", {"train": {0: 0}, "test": {1: 1, 2: 2}}))
    made = append(split=["train=train", "test=test+train"])
    assert content(Path(made)) == whole
    lineage = bd.builder_from_directory(made).lineage
    assert [each.full_name for each in lineage.datasets] == ["ds:1.0.0", "Own"]  # not a dataset that can be opened
    assert lineage.splits["test"].expression == "test+Own:test+Own:train"


def test_a_config_is_named_with_its_builder(tmp_path, monkeypatch):
    class WithConfigs(Own, skip_registration=True):
        BUILDER_CONFIGS = (bd.BuilderConfig(name="eu"), bd.BuilderConfig(name="us"))
        sources = "a config"

    monkeypatch.setitem(SOURCES, "a config", lambda _: {"train": [(2, {"n": 2, "text": "xx"})]})
    generate(tmp_path, {"train": {1: 1}})
    made = bd.append("ds", WithConfigs(data_dir=tmp_path, config="us"), data_dir=tmp_path)
    assert bd.builder_from_directory(made).lineage.datasets[1].full_name == "WithConfigs/us"
    with raises_with(
        DuplicateKeyError, key=2, mentions=["and the builder WithConfigs/eu", "the same key 2 (its hash is "]
    ):
        bd.append("ds", WithConfigs(data_dir=tmp_path), data_dir=tmp_path)


def test_positions_are_not_the_keys_of_what_is_appended(tmp_path, monkeypatch):
    monkeypatch.setattr(Own, "sources", "ordered")
    generate(tmp_path, {"train": {0: 0, 1: 1}}, ordered=True)
    with raises_with(InvalidKeyError, split="train", expected="an integer", got="'k0'", advice=["directory"]):
        bd.append("ds", Own(data_dir=tmp_path), data_dir=tmp_path, on_duplicate="replace")
    monkeypatch.setitem(SOURCES, "ordered", lambda builder: {"train": [(5, {"n": 5, "text": "xxxxx"})]})
    made = bd.append("ds", Own(data_dir=tmp_path), data_dir=tmp_path)
    assert content(Path(made)) == content(generate(tmp_path / "x", {"train": {0: 0, 1: 1, 5: 5}}, ordered=True))


@pytest.mark.parametrize("source", [bd.SourceUnits([1, 2], lambda unit: []), beam.Create([]), None])
def test_units_and_transforms_are_left_to_beam(source, tmp_path, monkeypatch):
    class WithPipeline(Own, skip_registration=True):
        def _split_generators(self, pipeline):
            return {"train": kept(self)}

    class OfBeam(Own, skip_registration=True):
        def _split_generators(self):
            return {"test": kept(self), "train": source}

    used = []
    monkeypatch.setattr("beam_datasets.beam.generate.generate", lambda *_, **__: used.append(1) or str(tmp_path))
    made = (OfBeam if source else WithPipeline)(data_dir=tmp_path)
    made.elsewhere(tmp_path / "x").build(skip_empty_splits=True)
    assert used


def test_large_and_compressed_files_and_images_are_left_to_beam(tmp_path, monkeypatch):
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n')
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"id": 1}\n'))
    (tmp_path / "i.jsonl").write_text('{"id": 1, "at": {"file": "a.png"}}\n')
    used = []
    monkeypatch.setattr("beam_datasets.beam.generate.generate", lambda *_, **__: used.append(1) or str(tmp_path))

    def build(name, **options):
        used.clear()
        Jsonl(name="ds", pattern=f"{tmp_path}/{name}", **options).elsewhere(tmp_path / "x" / name).build()
        return bool(used)

    assert not build("a.jsonl")
    assert build("a.jsonl.gz")
    assert build("i.jsonl", features={"at/file": "image"})
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    size = os.path.getsize(tmp_path / "a.parquet")
    for limit in (8 * size - 1, 8 * size):
        monkeypatch.setattr(builder, "MAX_BYTES_IN_PROCESS", limit)
        used.clear()
        made = Parquet(name="ds", pattern=f"{tmp_path}/a.parquet").elsewhere(tmp_path / "x" / str(limit))
        made.build()
        assert bool(used) == (limit < 8 * size)
    used.clear()
    Jsonl(name="ds", pattern=f"{tmp_path}/a.jsonl").elsewhere(tmp_path / "y").build(num_workers=1)
    assert used
    monkeypatch.setattr(builder, "MAX_BYTES_IN_PROCESS", 9)
    assert build("a.jsonl")


OWN = """
import beam_datasets as bd

class Day(bd.GeneratorBasedBuilder):
    VERSION = bd.Version("1.0.0")

    def _info(self):
        return bd.DatasetInfo(builder=self, features=bd.features.FeaturesDict({"id": bd.features.Scalar("int64")}))

    def _split_generators(self):
        return {"train": ((i, {"id": i}) for i in range(2, 9))}
"""


@pytest.mark.parametrize("new", [["jsonl", "--pattern", "*.jsonl", "--key", "id"], ["day.py"]])
def test_appending_does_not_load_beam(tmp_path, new):
    (tmp_path / "1.jsonl").write_text('{"id": 1}\n')
    Jsonl(name="ds", pattern=f"{tmp_path}/*.jsonl", key="id", data_dir=tmp_path).build(num_workers=1)
    (tmp_path / "2.jsonl").write_text('{"id": 2}\n')
    (tmp_path / "day.py").write_text(OWN)
    code = (
        "import sys; from beam_datasets.cli.main import main\n"
        f"code = main(['append', 'ds', '--data_dir', '.', '--from', *{new}])\n"
        "sys.exit(code or 'apache_beam' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert (tmp_path / "ds/2.0.0").is_dir()


WITHOUT = """
import sys
from beam_datasets.cli.main import main

class NotInstalled:
    def find_spec(name, path=None, target=None):
        if name == "{0}":
            raise ModuleNotFoundError(f"No module named '{{name}}'", name=name)

sys.meta_path.insert(0, NotInstalled)
"""


@pytest.mark.parametrize("imports", ["", "import apache_beam\n"])
@pytest.mark.parametrize("missing", ["apache_beam", "grpc"])
@pytest.mark.parametrize("args", [["build"], ["append", "ds", "--from"]])
@pytest.mark.slow
def test_a_command_that_needs_beam_says_so(tmp_path, args, missing, imports):
    """Beam, or a package that it needs, is not installed."""
    (tmp_path / "1.jsonl").write_text('{"id": 1}\n')
    Jsonl(name="ds", pattern=f"{tmp_path}/*.jsonl", key="id", data_dir=tmp_path).build(num_workers=1)
    units = "bd.SourceUnits([2, 3], lambda i: [(i, {'id': i})])"
    (tmp_path / "day.py").write_text(imports + OWN.replace('((i, {"id": i}) for i in range(2, 9))', units))
    code = f"sys.exit(main([*{args}, 'day.py', '--data_dir', '.']))"
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing) + code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    why = "" if missing == "apache_beam" else r" \(the installed one cannot be imported: No module named 'grpc'\)"
    assert re.fullmatch(rf"beam-datasets: .* needs Apache Beam{why}: pip install .*\n", run.stderr), run.stderr


# Without `**` in a name: there it goes into folders in Beam, and not in Python.
NAMES = st.text("ab.[]*?!-", min_size=1, max_size=4).filter(lambda name: name.strip(".") and "**" not in name)


@given(names=st.sets(NAMES, min_size=1), pattern=NAMES, deep=st.booleans())
@example(names={"?"}, pattern="*??", deep=False)
def test_files_are_found_as_by_beam(tmp_path_factory, names, pattern, deep):
    folder = tmp_path_factory.mktemp("found")
    for name in names:
        (folder / name).write_text("1")
        (folder / f"d-{name}").mkdir(exist_ok=True)
        (folder / f"d-{name}" / name).write_text("22")
    pattern = f"{folder}/{pattern}"
    if deep:
        pattern = f"{folder}/**"
    elif os.path.isdir(pattern):
        pattern += "/**"
    if os.path.exists(pattern):  # it is a name, not a pattern
        return
    try:
        found = find(pattern, hidden=())
    except BeamDatasetsError:
        found = []
    try:
        [expected] = FileSystems.match([pattern])
    except BeamIOError:  # a range such as [b-a]; tests/files/test_glob.py compares those with Python's glob
        return
    assert sorted((file.path, file.size) for file in found) == sorted(
        (file.path, file.size_in_bytes)
        for file in expected.metadata_list
        if "**" in pattern or os.path.dirname(file.path) == str(folder)  # a `?` of Beam is a separator, too
    )


def test_what_needs_beam_says_so(tmp_path, monkeypatch):
    """Files that are large, if Beam is not installed."""
    (tmp_path / "1.jsonl").write_text('{"id": 1}\n')
    monkeypatch.setattr(builder, "MAX_BYTES_IN_PROCESS", 0)
    monkeypatch.setitem(sys.modules, "beam_datasets.beam.generate", None)
    made = Jsonl(name="ds", pattern=f"{tmp_path}/*.jsonl", data_dir=tmp_path).elsewhere(tmp_path / "here")
    with pytest.raises(MissingDependencyError, match="needs Apache Beam: pip"):
        made.build()


def test_a_file_that_is_deleted_while_it_is_found_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("os.path.exists", lambda _: True)
    with raises_with(InputError, mentions=["/gone.csv"]):
        find(f"{tmp_path}/gone.csv")


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.csv", "a.parquet"])
def test_a_file_that_cannot_be_opened_is_named(tmp_path, name):
    (path := tmp_path / name).write_bytes(b"x")
    kind = {"csv": Csv, "parquet": Parquet}.get(name.rpartition(".")[2], Jsonl)
    made = kind(name="ds", pattern=str(path), data_dir=tmp_path)
    assert made.has_files  # it is found
    path.unlink()
    with pytest.raises(InputError) as caught:
        made.build()
    assert str(caught.value).splitlines()[0] == f"{path} cannot be read: No such file or directory"
