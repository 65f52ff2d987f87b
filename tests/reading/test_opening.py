"""Opening a dataset by name, version, config, code or directory; and directories of TFDS, read as TFDS reads them."""

import base64
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets import catalog
from beam_datasets.features import NestedDataset, RaggedArray
from beam_datasets.reading.opening import ReadOnlyBuilder
from tests.facts import raises_with
from tests.published import build

ROOT = Path(__file__).parents[1] / "data/tfds"


@pytest.mark.parametrize(
    "name,found",
    [
        ("spec_three", "spec_three/1.2.3"),
        ("SpecThree", "spec_three/1.2.3"),
        ("spec_three:1.2.3", "spec_three/1.2.3"),
        ("spec_three:1.*.*", "spec_three/1.2.3"),
        ("spec_multi", "spec_multi/big-2.x/3.1.4"),
        ("spec_multi/small", "spec_multi/small/1.0.0"),
        ("spec_multi/small:1.0.*", "spec_multi/small/1.0.0"),
        ("spec_multi/big-2.x:3.1.4", "spec_multi/big-2.x/3.1.4"),
    ],
)
def test_names(name: str, found: str) -> None:
    builder = bd.builder(name, data_dir=ROOT)
    assert isinstance(builder, ReadOnlyBuilder)
    assert builder.info.full_name == found
    assert builder.dataset_dir == str(ROOT / found)
    assert (builder.name, str(builder.version)) == (builder.info.name, found.rpartition("/")[2])
    assert found in repr(builder)
    assert builder.is_prepared()


@pytest.mark.parametrize(
    "arguments,error,text",
    [
        ({"data_dir": ""}, ValueError, "data_dir is empty; is a variable unset?"),
        ({"data_dir": b"data"}, TypeError, "data_dir must be a str or an os.PathLike, not b'data'"),
        ({"data_dir": 3}, TypeError, "data_dir must be a str or an os.PathLike, not 3"),
        (
            {"data_dir": __file__},
            bd.errors.DatasetNotFoundError,
            "test_opening.py: it is a file, not a directory",
        ),
        ({"name": None}, TypeError, "a dataset's name is a str such as 'digits' .*, not None"),
        ({"name": Path("spec_three")}, TypeError, "a dataset's name is a str .*, not PosixPath"),
        ({"name": "spec_three:9"}, ValueError, "'spec_three:9' is not a dataset name; needed: "),
        ({"name": "spec_three:*.*.*:x"}, ValueError, r"'spec_three:\*.\*.\*:x' is not a dataset name; needed: "),
        ({"name": "spec_three/"}, ValueError, "'spec_three/' is not a dataset name; needed: "),
        ({"config": 3}, TypeError, "a config is named by a str, not 3"),
        ({"version": 3}, ValueError, r"'3' is not a version pattern; needed: 'x\.y\.z'"),
        ({"verison": "1.2.3"}, bd.errors.DatasetNotFoundError, "no builder called 'spec_three' .* could take verison"),
        ({"name": "spec_three/a=1"}, bd.errors.DatasetNotFoundError, "no builder called 'spec_three' .* could take a"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    given = {"name": "spec_three", "data_dir": ROOT, **arguments}
    with pytest.raises(error, match=text):
        bd.builder(**given)
    where = {name: given.pop(name) for name in ("name", "data_dir")}
    with pytest.raises(error, match=text):
        bd.load(**where, builder_kwargs=given)


def test_arguments_are_for_the_registered_builder_whatever_the_config(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a config of that name is published, which the code does not know: they would be ignored."""

    class Multi(bd.DatasetBuilder, skip_registration=True):
        name = "spec_multi"
        VERSION = "1.0.0"
        BUILDER_CONFIGS = (bd.BuilderConfig("other"),)

        def __init__(self, *, rate: int = 1, **arguments: Any) -> None:
            self.rate = rate
            super().__init__(**arguments)

    monkeypatch.setitem(catalog._registered, "spec_multi", Multi)
    assert bd.builder("spec_multi/other", data_dir=ROOT, rate=3).rate == 3
    assert bd.builder("spec_multi/small", data_dir=ROOT).info.full_name == "spec_multi/small/1.0.0"
    with pytest.raises(bd.errors.DatasetNotFoundError, match="small"):
        bd.builder("spec_multi/small", data_dir=ROOT, rate=3)


def test_load() -> None:
    dataset, info = bd.load("spec_three", split="train[:10]", data_dir=ROOT, with_info=True)
    assert len(dataset) == 10
    assert info.supervised_keys == ("name", "idx")
    assert info.metadata == {"note": "hello", "n": [1, 2]}
    assert info.license == "CC-BY-4.0"
    everything = bd.load("spec_three", data_dir=ROOT, as_supervised=True, batch_size=4)
    assert sorted(everything) == ["test", "train", "validation"]
    names, numbers = next(iter(everything["train"]))
    assert (len(names), numbers.shape) == (4, (4,))
    with raises_with(bd.errors.SplitError, got="'trian'", advice=["'train'"]):
        bd.load("spec_three", split="trian", data_dir=ROOT)


def test_flags_are_bools() -> None:
    for bad in ("no", "False", "", 2, 1.0, None):
        for name in ("shuffle_files", "as_supervised", "with_info"):
            with pytest.raises(TypeError, match=f"^{name} .*{bad!r}"):
                bd.load("spec_three", split="train", data_dir=ROOT, **{name: bad})
        for name in ("drop_remainder", "pad"):
            with pytest.raises(TypeError, match=f"^{name} .*{bad!r}"):
                bd.load("spec_three", split="train", data_dir=ROOT).batch(4, **{name: bad})
    train = bd.load("spec_three", split="train", data_dir=ROOT, shuffle_files=np.False_, as_supervised=np.bool_(True))
    assert len(next(iter(train))) == 2
    assert len(train.batch(4, drop_remainder=np.bool_(True))) == len(train) // 4
    assert len(train.batch(4, drop_remainder=1)) == len(train) // 4


def test_as_supervised_decodes_only_what_it_yields(tmp_path: Path) -> None:
    tree = {"x": {"n": np.int64}, "y": np.int64, "other": bd.features.Sequence(np.int64), "image": bd.features.Image()}
    pixels = np.zeros((1, 1, 3), np.uint8)
    examples = [(i, {"x": {"n": i}, "y": 2 * i, "other": [0] * i, "image": pixels}) for i in range(6)]
    directory = build(tmp_path, tree, {"train": examples}, info={"supervised_keys": ("x/n", "y")})
    train = bd.builder_from_directory(directory).as_dataset("train", as_supervised=True)
    assert sorted(train.features) == ["x", "y"]
    [(first, second)] = train.batch(6)  # of other, lengths differ
    assert sorted(first.tolist()) == list(range(6))
    assert (second == 2 * first).all()
    decoders = {"y": bd.decode.SkipDecoding(), "image": bd.decode.SkipDecoding()}
    assert (
        len(list(bd.builder_from_directory(directory).as_dataset("train", as_supervised=True, decoders=decoders))) == 6
    )
    with pytest.raises(ValueError, match="imgae"):
        bd.builder_from_directory(directory).as_dataset("train", as_supervised=True, decoders={"imgae": None})


def test_supervised_keys_of_no_feature(tmp_path: Path) -> None:
    directory = tmp_path / "spec_three/1.2.3"
    shutil.copytree(ROOT / "spec_three/1.2.3", directory)
    info = directory / "dataset_info.json"
    info.write_text(info.read_text().replace('"featureKey": "idx"', '"featureKey": "idy"'))
    assert len(bd.load("spec_three", split="train", data_dir=tmp_path)) == 23
    with raises_with(bd.errors.MetadataError, path=str(info), mentions=["'idy'", "'idx'"]):
        bd.load("spec_three", split="train", data_dir=tmp_path, as_supervised=True)


def test_supervised_keys_that_are_not_decoded() -> None:
    partial = bd.decode.PartialDecoding({"idx": True})
    with pytest.raises(ValueError, match="supervised_keys .*'name'.* idx"):
        bd.load("spec_three", split="train", data_dir=ROOT, as_supervised=True, decoders=partial)


@pytest.mark.parametrize("given", [{"shuffle_seed": 3}, {}, 0, False, "x", bd.ReadConfig])
def test_a_read_config_is_none_but_its_own(given: Any) -> None:
    words = re.escape(f"(interleave_cycle_length=1), not {given!r} of type {type(given).__name__}.")
    words = f"read_config must be a beam_datasets.ReadConfig, such as ReadConfig{words}"
    with pytest.raises(TypeError, match=words):
        bd.load("spec_three", split="train", data_dir=ROOT, read_config=given)
    with pytest.raises(TypeError, match=words):
        bd.builder("spec_three", data_dir=ROOT).as_dataset(read_config=given)


def test_datasets_without_examples(write: Any) -> None:
    builder = bd.builder_from_directory(write({"train": [0], "test": []}))
    for split in ("train", "test", "train+test"):
        dataset = builder.as_dataset(split)
        assert len(dataset) == 0
        assert not dataset
        assert list(dataset.shuffle(1).repeat().batch(3)) == []
        assert dataset[:] == []
        assert dataset.find(1) is None
    assert builder.info.splits["train[:0]"].num_bytes == 0


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(catalog, "_registered", {})

    class SpecThree(bd.DatasetBuilder):
        VERSION = bd.Version("1.2.3")
        SUPPORTED_VERSIONS = (bd.Version("1.0.0"),)

        def _info(self) -> bd.DatasetInfo:
            tree = bd.features.FeaturesDict({"idx": np.int64, "name": bd.features.Text()})
            return bd.DatasetInfo(builder=self, description="by code", features=tree, supervised_keys=("name", "idx"))

    return SpecThree


def test_code_is_read_where_versions_cannot_be_listed(
    registered: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the warning about higher versions needs a list, which a web server or a bucket may refuse."""
    shutil.copytree(ROOT / "spec_three", tmp_path / "spec_three")

    def refuse(*_: Any, **__: Any) -> Any:
        raise bd.errors.PathPermissionError("this user may not list it", path=str(tmp_path))

    monkeypatch.setattr(catalog.storage, "list_dir", refuse)
    assert len(bd.load("spec_three", split="train", data_dir=tmp_path)) == 23


def test_code_wins_where_no_version_is_asked_for(registered: Any, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "spec_three", tmp_path / "spec_three")
    shutil.copytree(tmp_path / "spec_three/1.2.3", tmp_path / "spec_three/9.0.0")
    builder = bd.builder("spec_three", data_dir=tmp_path)
    assert type(builder) is registered
    assert builder.info.description == "by code"
    assert builder.info.splits["train"].num_examples == 23
    words = "'spec_three' means 1.2.3 here, .* means 9.0.0, .*'spec_three:1.2.3' or 'spec_three:latest'"
    with pytest.warns(UserWarning, match=words) as warned:
        assert len(bd.load("spec_three", split="train", data_dir=tmp_path)) == 23
    assert [warning.filename for warning in warned] == [__file__]
    for other in ({}, {"version": "1.2.3"}, {"version": "latest"}):  # once, and not of a version that is named
        bd.load("spec_three", split="train", data_dir=tmp_path, **other)
    assert isinstance(bd.builder("spec_three:1.2.3", data_dir=tmp_path), ReadOnlyBuilder)
    assert bd.builder("spec_three", version="latest", data_dir=tmp_path).dataset_dir.endswith("9.0.0")
    assert bd.builder("spec_three:latest", data_dir=tmp_path).dataset_dir.endswith("9.0.0")
    unpublished = bd.builder("spec_three:1.0.0", data_dir=tmp_path)
    assert (type(unpublished), unpublished.version) == (registered, "1.0.0")
    with raises_with(bd.errors.DatasetNotFoundError, mentions=["spec_three", "/empty"]):
        bd.load("spec_three", split="train", data_dir=tmp_path / "empty")
    with raises_with(bd.errors.DatasetNotFoundError, got="2.0.0"):
        bd.builder("spec_three:2.0.0", data_dir=tmp_path)


def test_code_that_needs_arguments_does_not_stand_in_the_way(
    registered: Any, tmp_path: Path, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = Path(write({"train": [3]}))
    name = bd.builder_from_directory(published).info.name

    class OfFiles:
        def __init__(self, *, pattern: str, data_dir: Any = None, version: Any = None) -> None:
            raise AssertionError

    monkeypatch.setitem(catalog._registered, name, OfFiles)
    shutil.copytree(published, tmp_path / name / "1.0.0")
    assert len(bd.load(name, split="train", data_dir=tmp_path)) == 3


# Directories that TFDS wrote, read as TFDS read them: examples, ids, order, whole and sliced


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
    with pytest.raises(ValueError, match="supervised_keys"):
        reader("spec_multi__small__1.0.0").as_dataset("train", as_supervised=True)


def test_ordered_dataset_is_guarded() -> None:
    builder = reader("spec_ordered__1.2.3")
    assert [int(e["idx"]) for e in builder.as_dataset("train")] == [
        int(e["idx"]) for e in builder.as_dataset("train")[:]
    ]
    with pytest.raises(ValueError, match=r"disable_shuffling.*shuffle_files=True reads.*enable_ordering_guard=False"):
        builder.as_dataset("train", shuffle_files=True)
    with pytest.raises(ValueError, match="interleave_cycle_length=4"):
        builder.as_dataset("train", read_config=bd.ReadConfig(interleave_cycle_length=4))
    unguarded = bd.ReadConfig(interleave_cycle_length=4, enable_ordering_guard=False)
    with pytest.warns(UserWarning, match="interleave_cycle_length=4"):
        builder.as_dataset("train", read_config=unguarded)
    builder.as_dataset("train", read_config=bd.ReadConfig(interleave_cycle_length=1))


def test_sub_splits_of_a_directory_without_index_have_no_size() -> None:
    assert reader("spec_three__1.2.3").info.splits["train[:5]"].num_bytes is None


@pytest.mark.parametrize("text", ["[]", '""', '[["a", 1]]', '["ab"]', "3", "null", "{"])
def test_metadata_of_the_author_that_are_no_object(write: Any, tmp_path: Path, text: str) -> None:
    directory = shutil.copytree(write({"train": [3]}), tmp_path / "d" / "1.0.0")
    (directory / "metadata.json").write_text(text)
    with raises_with(bd.errors.MetadataError, path=str(directory / "metadata.json"), expected="a JSON object"):
        bd.builder_from_directory(directory).info  # noqa: B018
