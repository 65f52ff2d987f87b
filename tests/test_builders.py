"""Builders: versions, configs, registration, what they must define; and DatasetBuilderTestCase."""

from __future__ import annotations

import json
import pickle
import re
import unittest
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np
import pytest

import beam_datasets.tfds as tfds
from beam_datasets import catalog
from beam_datasets.builders import BeamBasedBuilder, BuilderConfig, DatasetBuilder, GeneratorBasedBuilder
from beam_datasets.errors import BeamDatasetsError, DatasetNotFoundError
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.metadata.version import BlockedVersions, Experiment, Version
from beam_datasets.options import BuildOptions, ShardingOptions
from tests.facts import raises_with

if TYPE_CHECKING:
    from pathlib import Path


TFDS = Path(__file__).parent / "data/tfds"


class Plain(DatasetBuilder, skip_registration=True):
    VERSION = Version("2.0.0", "why", experiments={Experiment.DUMMY: True})
    SUPPORTED_VERSIONS = (Version("1.0.0"), Version("3.0.0"), Version("1.5.0", prepare_with="0.0.9"))

    def _info(self):
        return DatasetInfo(builder=self, description="Plain.", homepage="https://x")

    def _split_generators(self):
        return {"train": iter([(0, {"a": 1})])}


@dataclass
class SizedConfig(BuilderConfig):
    size: int = 0


class Multi(DatasetBuilder, skip_registration=True):
    name = "spec_multi"
    VERSION = Version("1.0.0")
    SUPPORTED_VERSIONS = ("0.9.0",)
    RELEASE_NOTES = MappingProxyType({"1.0.0": "init"})
    BUILDER_CONFIGS = (
        SizedConfig("small", description="small cfg", tags=["content.data-type.tabular"], size=4),
        SizedConfig("big-2.x", "3.1.4", ["3.0.0"], {"3.1.4": "pi"}, "big cfg", size=11),
    )
    DEFAULT_BUILDER_CONFIG_NAME = "big-2.x"

    def _info(self):
        return DatasetInfo(builder=self, description="multi")


Multi.__module__ = "spec_generated"


@pytest.mark.parametrize(
    "requested, chosen",
    [
        (None, "2.0.0"),
        ("*.*.*", "3.0.0"),
        ("1.*.*", "1.5.0"),
        ("1.0.0", "1.0.0"),
        ("latest", "3.0.0"),
        ("experimental_latest", "3.0.0"),
    ],
)
def test_versions(tmp_path, requested, chosen):
    builder = Plain(data_dir=tmp_path, version=requested)
    assert str(builder.version) == chosen
    assert builder.dataset_dir == builder.data_dir == str(tmp_path / "plain" / chosen)
    assert str(builder.canonical_version) == "2.0.0"
    assert list(map(str, builder.supported_versions)) == ["1.0.0", "3.0.0", "1.5.0"]


def test_a_version_that_is_not_supported(tmp_path):
    with raises_with(DatasetNotFoundError, mentions=["plain"], got="4.0.0", expected=["1.0.0, 1.5.0"]):
        Plain(data_dir=tmp_path, version="4.0.0")


def test_a_version_has_notes_and_experiments(tmp_path):
    builder = Plain(data_dir=tmp_path)
    assert builder.release_notes == {"2.0.0": "why"}
    assert builder.version.implements(Experiment.DUMMY)
    assert not Plain(data_dir=tmp_path, version="1.0.0").version.implements(Experiment.DUMMY)


@pytest.mark.parametrize(
    "body, message",
    [
        ({"VERSION": None}, r"Made .*VERSION = Version\('1\.0\.0'\)"),
        ({"BUILDER_CONFIGS": (BuilderConfig("b"), BuilderConfig("b"))}, "configs .*'b'"),
        (
            {"BUILDER_CONFIGS": (BuilderConfig("a"),), "DEFAULT_BUILDER_CONFIG_NAME": "b"},
            r"DEFAULT_BUILDER_CONFIG_NAME .*'b'.*\['a'\]",
        ),
    ],
)
def test_classes_that_are_refused(body, message):
    made = type("Made", (DatasetBuilder,), {"VERSION": "1.0.0"} | body, skip_registration=True)
    with pytest.raises(ValueError, match=message):
        made()


def test_which_versions_can_be_generated(tmp_path):
    for version in ("2.0.0", "3.0.0"):
        Plain(data_dir=tmp_path, version=version).check_buildable()
    with raises_with(BeamDatasetsError, mentions=["plain:1.0.0"], expected="2.0.0 or 3.0.0", got="1.0.0"):
        Plain(data_dir=tmp_path, version="1.0.0").build()
    with raises_with(BeamDatasetsError, expected="0.0.9", advice=["beam_datasets==0.0.9"]):
        Plain(data_dir=tmp_path, version="1.5.0").build()


def test_a_blocked_version(tmp_path):
    class Blocked(Plain, skip_registration=True):
        BLOCKED_VERSIONS = BlockedVersions({"2.0.0": "wrong labels"})

    builder = Blocked(data_dir=tmp_path)
    for use in (builder.build, builder.as_dataset):
        with raises_with(BeamDatasetsError, mentions=["blocked:2.0.0", "wrong labels"]):
            use()
    Blocked(data_dir=tmp_path, version="3.0.0").check_buildable()


def test_configs(tmp_path):
    default, small = Multi(data_dir=tmp_path), Multi(data_dir=tmp_path, config="small")
    assert (default.builder_config.size, str(default.version)) == (11, "3.1.4")
    assert (small.builder_config.size, str(small.version)) == (4, "1.0.0")
    assert small.dataset_dir == str(tmp_path / "spec_multi/small/1.0.0")
    assert str(Multi(data_dir=tmp_path, version="3.0.0").version) == "3.0.0"
    assert str(Multi(data_dir=tmp_path, config="small", version="0.9.0").version) == "0.9.0"
    assert small.release_notes == {"1.0.0": "init"}
    assert default.release_notes == {"3.1.4": "pi"}
    with raises_with(DatasetNotFoundError, got="'smal'", expected="'small', 'big-2.x'", advice=["'small'"]):
        Multi(data_dir=tmp_path, config="smal")
    with raises_with(DatasetNotFoundError, got="'smal'", expected="none"):
        Plain(data_dir=tmp_path, config="smal")


def test_configs_of_the_class_by_name(tmp_path):
    by_name = {config.name: config for config in Multi.BUILDER_CONFIGS}
    assert Multi.builder_configs == Multi(data_dir=tmp_path).builder_configs == by_name
    assert Plain.builder_configs == {}


def test_a_config_of_ones_own(tmp_path):
    own = SizedConfig("huge", size=1000)
    assert Multi(data_dir=tmp_path, config=own).builder_config is own
    assert Multi(data_dir=tmp_path, config=SizedConfig(**vars(Multi.BUILDER_CONFIGS[0]))).builder_config.size == 4
    with pytest.raises(ValueError, match="config 'small' "):
        Multi(data_dir=tmp_path, config=SizedConfig("small", size=5))
    with pytest.raises(ValueError, match="'../x' .*config"):
        Multi(data_dir=tmp_path, config=SizedConfig("../x"))


def test_one_config_name_in_several_versions(tmp_path):
    class Several(Plain, skip_registration=True):
        BUILDER_CONFIGS = (BuilderConfig("a"), BuilderConfig("b", "1.0.0"), BuilderConfig("b", "2.0.0"))

    assert list(Several.configs()) == ["a", "b:1.0.0", "b:2.0.0"]
    assert list(Several.builder_configs) == ["a:None", "b:1.0.0", "b:2.0.0"]
    assert str(Several(data_dir=tmp_path, config="b:1.0.0").version) == "1.0.0"
    assert str(Several(data_dir=tmp_path, config="b").version) == "2.0.0"


def test_a_config_with_a_version_beside_another_version(tmp_path):
    class Versioned(Plain, skip_registration=True):
        VERSION = "2.0.0"
        SUPPORTED_VERSIONS = ("1.0.0",)
        BUILDER_CONFIGS = (BuilderConfig("a"), BuilderConfig("b"))

    for version in "1.0.0", Version("1.0.0"):
        assert str(Versioned(data_dir=tmp_path, config="b:1.0.0", version=version).version) == "1.0.0"
    for version in "2.0.0", Version("2.0.0"), "2.*.*":
        with pytest.raises(ValueError, match=rf"config='b:1.0.0', version='{re.escape(str(version))}': expected one"):
            Versioned(data_dir=tmp_path, config="b:1.0.0", version=version)
    with pytest.raises(ValueError, match="config='b:': expected a version after the colon"):
        Versioned(data_dir=tmp_path, config="b:")
    with pytest.raises(ValueError, match=r"config='small:1.0.0', version='2.0.0': expected one version"):
        catalog.find_dataset_dir("multi:2.0.0", tmp_path, config="small:1.0.0")


def test_a_config_with_an_older_version_of_the_class(tmp_path):
    class Older(Plain, skip_registration=True):
        VERSION = "2.0.0"
        SUPPORTED_VERSIONS = ("1.0.0",)
        BUILDER_CONFIGS = (BuilderConfig("a"), BuilderConfig("b"))

    for config in "a", "b":
        for arguments in {"config": f"{config}:1.0.0"}, {"config": config, "version": "1.0.0"}:
            builder = Older(data_dir=tmp_path, **arguments)
            assert (builder.builder_config.name, str(builder.version)) == (config, "1.0.0")


@pytest.mark.parametrize("config, splits", [("small", {"train": ([4], 132)}), ("big-2.x", {"train": ([11], 386)})])
def test_what_is_written_is_what_tfds_wrote(tmp_path, config, splits):
    builder = Multi(data_dir=tmp_path, config=config)
    expected = TFDS / "spec_multi" / config / str(builder.version) / "dataset_info.json"
    assert builder.info.to_json_text(splits) == expected.read_text("utf-8")
    assert not builder.is_prepared()


def test_info_without_a_builder(tmp_path):
    class Short(Plain, skip_registration=True):
        def _info(self):
            return DatasetInfo(description="d")

    assert Short(data_dir=tmp_path).info.full_name == "short/2.0.0"


def test_what_must_be_defined(tmp_path):
    class Empty(DatasetBuilder, skip_registration=True):
        VERSION = "1.0.0"

    builder = Empty(data_dir=tmp_path)
    with pytest.raises(TypeError, match=r"Empty .*_info\("):
        builder.info  # noqa: B018
    with pytest.raises(TypeError, match=r"Empty .*_split_generators\("):
        builder.split_generators(None)


def returning(splits, parameters="self"):
    scope = {"splits": splits}
    exec(f"def _split_generators({parameters}): return splits(locals())", scope)
    return type("Made", (Plain,), {"_split_generators": scope["_split_generators"]}, skip_registration=True)


@pytest.mark.parametrize(
    "parameters", ["self", "self, pipeline", "self, dl_manager, pipeline", "self, dl_manager", "self, n=5"]
)
def test_parameters_of_split_generators(tmp_path, parameters):
    seen = {}
    builder = returning(lambda given: seen.update(given) or {"train": []}, parameters)(data_dir=tmp_path)
    assert builder.split_generators("the pipeline") == {"train": []}
    assert seen.get("pipeline", "the pipeline") == "the pipeline"
    assert seen.get("n", 5) == 5
    if "dl_manager" in seen:
        assert not hasattr(seen["dl_manager"], "__len__")
        assert seen["dl_manager"].download([]) == []


def test_a_builder_that_takes_no_download_manager_reads_no_checksums(tmp_path, monkeypatch):
    def checksums_file(cls):
        raise AssertionError("asked for the checksums of downloads")

    monkeypatch.setattr(Plain, "checksums_file", classmethod(checksums_file))
    builder = Plain(data_dir=tmp_path)
    assert set(pickle.loads(pickle.dumps(builder)).split_generators(None)) == set(builder.split_generators(None))


@pytest.mark.parametrize(
    "splits, error, message",
    [
        ({}, BeamDatasetsError, "with at least one split"),
        *(({split: []}, TypeError, f"{split!r} .*split .*str") for split in (1, None, b"train")),
        (["train"], BeamDatasetsError, "expected {split name: source}"),
        ({"All": []}, ValueError, "'All' .*every split"),
        ({"a/b": []}, ValueError, "'a/b' .*split"),
        ({"--": []}, ValueError, "'--' .*split"),
        ({"": []}, ValueError, "''"),
    ],
)
def test_bad_splits(tmp_path, splits, error, message):
    with pytest.raises(error, match=message):
        returning(lambda _: splits)(data_dir=tmp_path).split_generators(None)


@pytest.mark.usefixtures("registry")
def test_registration():
    class MyDigits(DatasetBuilder):
        VERSION = "1.0.0"

    class Other(DatasetBuilder):
        name = "some_digits"
        VERSION = "1.0.0"

    class Hidden(DatasetBuilder, skip_registration=True):
        VERSION = "1.0.0"

    assert catalog.registered() == {"my_digits": MyDigits, "some_digits": Other}
    again = type("MyDigits", (DatasetBuilder,), {"__module__": __name__, "VERSION": "2.0.0"})  # as of a notebook
    catalog.registered().clear()
    assert catalog.registered() == {"my_digits": again, "some_digits": Other}
    assert Hidden.name == "hidden"
    with pytest.raises(ValueError, match="builders .*'my_digits'"):
        type("Another", (DatasetBuilder,), {"name": "my_digits"})
    builder = type("Builder", (DatasetBuilder,), {"__module__": "datasets.cats_dataset_builder"})
    assert builder.name == "cats"
    with pytest.raises(ValueError, match="'a b' .*dataset name"):
        type("X", (DatasetBuilder,), {"name": "a b"})


@pytest.mark.usefixtures("registry")
def test_a_private_base_of_builders_is_no_dataset():
    class _Base(DatasetBuilder):
        VERSION = "1.0.0"

    class Cats(_Base):
        pass

    class _Named(DatasetBuilder):
        name = "dogs"

    assert catalog.registered() == {"cats": Cats, "dogs": _Named}


@pytest.mark.usefixtures("registry")
def test_a_pickle_by_value_leaves_the_class_registered():
    class Cats(DatasetBuilder):
        VERSION = "1.0.0"

    class Hidden(DatasetBuilder, skip_registration=True):
        VERSION = "1.0.0"

    for builder in (Cats, Hidden):
        assert pickle.loads(cloudpickle.dumps(builder)) is builder
        assert pickle.loads(cloudpickle.dumps(builder)).VERSION == "1.0.0"
    assert catalog.registered() == {"cats": Cats}


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(catalog, "_registered", {})


def test_a_builder_pickles(tmp_path):
    builder = Multi(data_dir=tmp_path, config="small")
    assert builder.info.name == "spec_multi"
    Multi.__module__ = __name__
    try:
        again = pickle.loads(pickle.dumps(builder))
    finally:
        Multi.__module__ = "spec_generated"
    assert again.dataset_dir == builder.dataset_dir
    assert again.builder_config == builder.builder_config
    assert "info" not in vars(again)


def test_aliases():
    assert GeneratorBasedBuilder is DatasetBuilder
    assert issubclass(BeamBasedBuilder, DatasetBuilder)


def test_reading_what_is_not_published(tmp_path):
    with raises_with(DatasetNotFoundError, got="plain:2.0.0", advice=["build()", "data_dir"]):
        Plain(data_dir=tmp_path).as_dataset()
    for name in ("dataset_info.json", "features.json"):
        place = tmp_path / "spec_multi/small/1.0.0" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("{}")
    with raises_with(DatasetNotFoundError, got="spec_multi/big-2.x:3.1.4", mentions=["spec_multi/small:1.0.0."]):
        Multi(data_dir=tmp_path, config="big-2.x").as_dataset()
    with raises_with(DatasetNotFoundError, mentions=["/nowhere: the directory does not exist"]):
        Plain(data_dir=tmp_path / "nowhere").as_dataset()


@pytest.fixture
def generated(monkeypatch):
    """Puts a fake in the place of the pipeline; it notes its options."""
    calls = []

    def generate(builder, options):
        calls.append(options)
        return builder.dataset_dir

    module = pytest.importorskip("beam_datasets.beam.generate")
    monkeypatch.setattr(module, "generate", generate)
    return calls


def test_build(tmp_path, generated):
    builder = Multi(data_dir=tmp_path)
    assert builder.build(num_shards=3) == builder.dataset_dir
    assert generated == [BuildOptions(ShardingOptions(num_shards=3))]
    assert json.loads((tmp_path / "spec_multi/.config/metadata.json").read_text()) == {"default_config_name": "big-2.x"}


def test_download_and_prepare(tmp_path, generated):
    config = SimpleNamespace(num_shards=3, max_examples_per_split=None, ignore_duplicates=True, beam_runner="x")
    builder = Plain(data_dir=tmp_path)
    builder.download_and_prepare(download_dir="/nowhere", download_config=config)
    builder.download_and_prepare(download_config=config, num_shards=4)
    builder.download_and_prepare(max_shard_size=2**27)
    assert generated == [
        BuildOptions(ShardingOptions(num_shards=3, ignore_duplicates=True)),
        BuildOptions(ShardingOptions(num_shards=4, ignore_duplicates=True)),
        BuildOptions(ShardingOptions(max_shard_size=2**27)),
    ]
    assert not (tmp_path / "plain").exists()


def test_download_and_prepare_does_nothing_where_it_is_published(tmp_path, generated):
    builder = Plain(data_dir=tmp_path)
    Path(builder.dataset_dir).mkdir(parents=True)
    for name in ("dataset_info.json", "features.json"):
        (Path(builder.dataset_dir) / name).write_text("{}")
    builder.download_and_prepare()
    assert generated == []


# DatasetBuilderTestCase, with builders that are right and wrong


URL = "http://example.org/a.zip"


class Lines(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[misc, name-defined]
    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> Any:
        features = {"line": tfds.features.Text(), "number": np.float32}
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager: Any) -> Any:
        folder = dl_manager.download_and_extract(URL)
        return {"train": self._generate_examples(folder / "a.txt"), "test": self._generate_examples(folder / "b.txt")}

    def _generate_examples(self, path: Path) -> Any:
        for number, line in enumerate(path.read_text().split()):
            yield number, {"line": line, "number": number / 10}


def outcome(folder: Path, **attributes: Any) -> str:
    """Returns what the test of the builder complains of; '' for nothing."""
    (folder / "a.txt").write_text("x y z")
    (folder / "b.txt").write_text("v")
    given = {"DATASET_CLASS": Lines, "SPLITS": {"train": 3, "test": 1}, "EXAMPLE_DIR": folder, "SKIP_CHECKSUMS": True}
    case = type("Case", (tfds.testing.DatasetBuilderTestCase,), {**given, **attributes})
    result = unittest.TestResult()
    case("test_download_and_prepare_as_dataset").run(result)
    assert result.testsRun == 1
    return "".join(text for _, text in [*result.errors, *result.failures])


def test_a_builder_that_is_right(tmp_path: Path) -> None:
    assert outcome(tmp_path) == ""


@pytest.mark.parametrize(
    "attributes, said",
    [
        ({"SPLITS": {"train": 4, "test": 1}}, "examples of each split"),
        ({"SKIP_CHECKSUMS": False}, f"{URL} has no recorded checksum"),
        ({"EXAMPLE_DIR": "/nowhere"}, "put the fake sources there"),
        ({"DL_EXTRACT_RESULT": "none"}, "/none/"),
    ],
    ids=["counts", "checksums", "directory", "paths"],
)
def test_what_is_wrong_is_said(tmp_path: Path, attributes: dict[str, Any], said: str) -> None:
    assert said in outcome(tmp_path, **attributes)


@pytest.mark.slow
def test_examples_in_two_splits(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()

    class Twice(Lines, skip_registration=True):
        def _split_generators(self, dl_manager: Any) -> Any:
            path = dl_manager.manual_dir / "a.txt"
            return {name: self._generate_examples(path) for name in ("train", "test", "more")[: self.count]}

        count = 2

    given = {"DATASET_CLASS": Twice, "SPLITS": {"train": 3, "test": 3}}
    assert "test has an example of train" in outcome(tmp_path, **given)
    assert outcome(tmp_path, **given, OVERLAPPING_SPLITS=["test"]) == ""
    Twice.count = 3
    given["SPLITS"]["more"] = 3
    assert "more has an example of test" in outcome(tmp_path, **given, OVERLAPPING_SPLITS=["train"])


def test_a_builder_without_features_is_named(tmp_path):
    class Bare(DatasetBuilder, skip_registration=True):
        VERSION = "1.0.0"

        def _info(self):
            return DatasetInfo(builder=self)

    with raises_with(BeamDatasetsError, mentions=["Bare._info()", "features"]):
        Bare(data_dir=tmp_path).build()


class Inheriting(DatasetBuilder, skip_registration=True):
    """One config has a version of its own, one further supported versions, as TFDS's datasets have them."""

    VERSION = "2.0.0"
    SUPPORTED_VERSIONS = ("1.0.0",)
    BUILDER_CONFIGS = (
        BuilderConfig("plain"),
        BuilderConfig("newer", version="3.0.0"),
        BuilderConfig("older", supported_versions=["0.9.0"]),
        BuilderConfig("own", version="3.0.0", supported_versions=["2.5.0"]),
    )

    def _info(self):
        return DatasetInfo(builder=self, features={"a": np.int64})

    def _split_generators(self):
        return {"train": iter([(0, {"a": 1})])}


@pytest.mark.parametrize(
    "config, versions",
    [
        ("plain", ["2.0.0", "1.0.0"]),
        ("newer", ["3.0.0", "1.0.0"]),
        ("older", ["2.0.0", "0.9.0"]),
        ("own", ["3.0.0", "2.5.0"]),
    ],
)
def test_a_config_replaces_only_what_it_sets(tmp_path, config, versions):
    """`supported_versions` of TFDS: those of the config if it has any, else those of the class."""
    assert str(Inheriting(config=config, data_dir=tmp_path).version) == versions[0]
    for version in versions:
        assert str(Inheriting(config=config, version=version, data_dir=tmp_path).version) == version
    for version in {"3.0.0", "2.5.0", "2.0.0", "1.0.0", "0.9.0"} - set(versions):
        with raises_with(DatasetNotFoundError, got=version, mentions=[f"inheriting/{config}", "in its code"]):
            Inheriting(config=config, version=version, data_dir=tmp_path)


@pytest.mark.parametrize(
    "config, advice",
    [("2.0.0", "'inheriting:2.0.0'"), ("train", "split='train'"), ("newr", "'newer'"), ("x", None)],
)
def test_what_stands_in_the_place_of_a_config(tmp_path, config, advice):
    with raises_with(DatasetNotFoundError, got=repr(config)) as caught:
        Inheriting(config=config, data_dir=tmp_path)
    assert (advice in str(caught.value)) if advice else (caught.value.advice is None)
