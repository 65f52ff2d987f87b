"""Names that code written for TensorFlow Datasets uses beside builders: features, decoders, configs, mocks."""

import collections
import copy
import io
import operator
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets import storage, tfds
from beam_datasets.builders import BuilderConfig
from beam_datasets.errors import DatasetNotFoundError, FeatureError
from beam_datasets.features import image_codec
from tests.facts import raises_with

PIXELS = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)


def plain(value: Any) -> Any:
    """Returns a value in Python's own types."""
    if isinstance(value, dict):
        return {name: plain(child) for name, child in value.items()}
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (list, F.NestedDataset, F.RaggedArray)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    return value.item() if isinstance(value, np.generic) else value


# ------------------------------------------------------------------------------------------------------------ as_numpy


class FakeTensor:
    def __init__(self, value: Any) -> None:
        self.value = value

    def numpy(self) -> Any:
        return np.asarray(self.value)


class FakeTfDataset:
    def __init__(self, *items: Any) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def as_numpy_iterator(self) -> Iterator[Any]:
        raise AssertionError("it is empty the second time")


class Pair(NamedTuple):
    a: Any
    b: Any


def test_as_numpy_can_be_iterated_twice_and_converts_nests() -> None:
    inner = FakeTfDataset(FakeTensor(5))
    given = {"d": FakeTfDataset({"x": FakeTensor(1), "n": inner}, {"x": FakeTensor(2), "n": inner}), "t": FakeTensor(3)}
    made = tfds.as_numpy(given)
    for _ in range(2):
        assert [(int(each["x"]), [int(i) for i in each["n"]]) for each in made["d"]] == [(1, [5]), (2, [5])]
    assert (len(made["d"]), int(made["t"])) == (2, 3)
    pair = tfds.as_numpy((Pair(FakeTensor(1), [FakeTensor(2)]), None))
    assert (type(pair[0]), int(pair[0].a), int(pair[0].b[0]), pair[1]) == (Pair, 1, 2, None)
    values = {"x": np.int64(1), "text": b"a"}
    assert tfds.as_numpy(values) == values
    ordered = collections.OrderedDict(b=FakeTensor(1), a=FakeTensor(2))
    assert list(tfds.as_numpy(ordered).items()) == [("b", 1), ("a", 2)]
    assert type(tfds.as_numpy(ordered)) is collections.OrderedDict


# ------------------------------------------------------------------------------------------- encode_example and others


CONNECTORS = [
    (F.ClassLabel(names=["a", "b"]), "b", 1, 1),
    (F.ClassLabel(num_classes=3), 2, 2, 2),
    (F.Text(), "é", "é", "é"),
    (F.Scalar(np.int32), 5, 5, 5),
    (F.Tensor(shape=(2,), dtype=np.float32), [1, 0.5], [1, 0.5], [1, 0.5]),
    (F.BBoxFeature(), F.BBox(0.0, 0.25, 0.5, 1.0), [0, 0.25, 0.5, 1], [0, 0.25, 0.5, 1]),
    (F.Sequence(F.ClassLabel(names=["a", "b"])), ["b", "a"], [1, 0], [1, 0]),
    (F.Sequence({"n": np.int64}), [{"n": 1}, {"n": 2}], {"n": [1, 2]}, {"n": [1, 2]}),
    (F.Sequence(F.Sequence(np.int64)), [[1], [2, 3]], [[1], [2, 3]], [[1], [2, 3]]),
    (F.Dataset({"n": np.int64}), [{"n": 1}], {"n": [1]}, [{"n": 1}]),
    (F.Translation(["de", "en"]), {"de": "x", "en": "y"}, {"de": "x", "en": "y"}, {"de": "x", "en": "y"}),
    (F.Audio(), np.arange(3), [0, 1, 2], [0, 1, 2]),
    (F.Text(optional=True), None, None, None),
]


@pytest.mark.parametrize(("feature", "value", "stored", "decoded"), CONNECTORS, ids=lambda each: type(each).__name__)
def test_encode_example_gives_what_is_stored_and_decode_example_the_value(
    feature: Any, value: Any, stored: Any, decoded: Any
) -> None:
    encoded = feature.encode_example(value)
    assert plain(encoded) == stored
    assert plain(feature.decode_example(encoded)) == plain(feature.decode_example_np(encoded)) == decoded
    tree = F.FeaturesDict({"f": feature, "deep": {"f": feature}})
    both = tree.encode_example({"f": value, "deep": {"f": value}})
    assert plain(both) == {"f": stored, "deep": {"f": stored}}
    assert plain(tree.decode_example(both)) == {"f": decoded, "deep": {"f": decoded}}


def test_images_and_encoded_tensors_are_stored_as_bytes() -> None:
    image = F.Image(shape=(2, 2, 3))
    png = image.encode_example(PIXELS)
    np.testing.assert_array_equal(image_codec.decoder(3, np.dtype(np.uint8))(png), PIXELS)
    np.testing.assert_array_equal(image.decode_example(png), PIXELS)
    frames = F.Video(shape=(None, 2, 2, 3)).encode_example([PIXELS, PIXELS])
    assert list(frames) == [png, png]
    tensor = F.Tensor(shape=(None, None), dtype=np.int16, encoding="zlib")
    stored = tensor.encode_example(np.ones((1, 2), np.int16))
    assert stored["shape"].tolist() == [1, 2]
    assert tensor.decode_example(stored).tolist() == [[1, 1]]


@pytest.mark.parametrize(
    ("feature", "value", "problem"),
    [
        (F.ClassLabel(num_classes=2), 7, r"^ClassLabel: label 7 is outside \[-1, 2\)"),
        (F.FeaturesDict({"a": np.int64}), {"a": "x"}, "^a: 'x' is text"),
        (F.BBoxFeature(), [0.5, 0.0, 0.2, 1.0], "^BBoxFeature: a minimum is above its maximum"),
    ],
)
def test_encode_example_checks_values(feature: Any, value: Any, problem: str) -> None:
    with pytest.raises(FeatureError, match=problem):
        feature.encode_example(value)


class Shouted(F.Text):
    def encode_example(self, value: Any) -> Any:
        return super().encode_example(value.upper())

    def decode_example(self, stored: Any) -> Any:
        return super().decode_example(stored) + b"!"


def test_a_subclass_still_returns_what_its_connector_encodes() -> None:
    tree = F.FeaturesDict({"a": Shouted()})
    assert plain(tree.deserialize_example(tree.serialize_example({"a": "x"}))) == {"a": "X!"}
    assert plain(tree.encode_example({"a": "x"})) == {"a": "X"}


def test_records_of_examples() -> None:
    tree = F.FeaturesDict({"n": np.int64, "label": F.ClassLabel(names=["a", "b"])})
    record = tree.serialize_example({"n": 5, "label": "b"})
    assert record == F.compile_encoder(tree)({"n": 5, "label": 1})
    assert plain(tree.deserialize_example(record)) == {"n": 5, "label": 1}
    assert tree.deserialize_example_np(record, decoders=bd.decode.PartialDecoding(["n"])) == {"n": 5}
    top = F.Sequence({"n": np.int64})
    assert plain(top.deserialize_example(top.serialize_example([{"n": 1}]))) == {"n": [1]}


def test_tensor_infos() -> None:
    tree = F.FeaturesDict(
        {"n": F.Scalar(np.int64, minimum=1), "images": F.Sequence(F.Image(shape=(None, 4, 3))), "t": F.Text()}
    )
    info, stored = tree.get_tensor_info(), tree.get_serialized_info()
    assert (info["n"].shape, info["n"].np_dtype, info["n"].minimum) == ((), np.int64, 1)
    assert (info["images"].shape, info["images"].dtype) == ((None, None, 4, 3), np.uint8)
    assert (stored["images"].shape, stored["images"].dtype) == ((None,), np.object_)
    assert tree["n"].get_tensor_info() == F.TensorInfo([], np.dtype(np.int64), minimum=1)
    assert bd.decode.PartialDecoding({"n": True, "t": False}).extract_features(tree) == F.FeaturesDict({"n": tree["n"]})
    assert tree.np_dtype == tree.numpy_dtype == tree.dtype == {"images": np.uint8, "n": np.int64, "t": np.object_}


# ---------------------------------------------------------------------------------------------- sequences and datasets


def test_a_sequence_has_the_attributes_of_its_items() -> None:
    labels = F.Sequence(F.ClassLabel(names=["a", "b"]), length=2)
    assert (labels.names, labels.num_classes, labels.int2str(1), labels.str2int("a"), labels.length) == (
        ["a", "b"],
        2,
        "b",
        0,
        2,
    )
    dicts = F.Sequence({"a": np.int64, "b": labels})
    assert (list(dicts.keys()), "a" in dicts, "z" in dicts, list(dicts), dict(dicts)["b"]) == (
        ["a", "b"],
        True,
        False,
        ["a", "b"],
        labels,
    )
    assert "a" not in labels
    with pytest.raises(TypeError, match="has no names to iterate"):
        list(labels)
    with pytest.raises(AttributeError, match="neither Sequence nor its ClassLabel has the attribute 'shap'"):
        _ = labels.shap
    for made in (pickle.loads(pickle.dumps(dicts)), copy.deepcopy(dicts), copy.copy(dicts)):
        assert made == dicts


NESTED = {
    "episodes": [{"steps": [{"r": 1}, {"r": 2}], "n": 1}, {"steps": [], "n": 2}],
    "groups": [[[1], [2, 3]], [], [[]]],
    "rows": {"parts": [[5], []], "n": [1, 2]},
}
NESTED_FEATURES = {
    "episodes": F.Dataset({"steps": F.Dataset({"r": np.int64}), "n": np.int64}),
    "groups": F.Sequence(F.Sequence(F.Dataset(np.int64))),
    "rows": F.Sequence({"parts": F.Dataset(np.int64), "n": np.int64}),
}


def test_datasets_inside_of_others_are_nested_data() -> None:
    tree = F.FeaturesDict(NESTED_FEATURES)
    record = tree.serialize_example(NESTED)
    example = tree.deserialize_example(record)
    assert plain(example) == NESTED
    assert isinstance(example["episodes"][0]["steps"], F.NestedDataset)
    assert isinstance(example["groups"][0][1], F.NestedDataset)
    assert isinstance(example["rows"]["parts"][0], F.NestedDataset)
    assert plain(pickle.loads(pickle.dumps(example))) == NESTED
    bad = F.FeaturesDict({"d": F.Dataset({"a": F.Dataset(F.Image())})})
    item = bad.deserialize_example(bad.serialize_example({"d": [{"a": [PIXELS]}]}))["d"][0]["a"][0]
    np.testing.assert_array_equal(item, PIXELS)


# ------------------------------------------------------------------------------------------------------------ decoders


class Plus(bd.decode.Decoder):
    def __init__(self, summand: int) -> None:
        super().__init__()
        self.summand = summand

    def decode_example(self, stored: Any) -> Any:
        assert self.feature.shape == ()
        return self.feature.decode_example(stored) + self.summand


def test_subclasses_of_decoder() -> None:
    tree = F.FeaturesDict({"n": np.int64, "m": np.int64, "s": F.Sequence({"a": np.int64}), "d": F.Dataset(np.int64)})
    record = tree.serialize_example({"n": 1, "m": 2, "s": [{"a": 3}], "d": [4]})
    ten = Plus(10)
    made = tree.deserialize_example(record, decoders={"n": ten, "m": ten, "s": {"a": Plus(20)}, "d": Plus(30)})
    assert plain(made) == {"n": 11, "m": 12, "s": {"a": [23]}, "d": [34]}
    with pytest.raises(ValueError, match="setup"):
        _ = ten.feature


def test_partial_decoding_of_names_that_are_left_out() -> None:
    tree = F.FeaturesDict({"x": np.int64, "y": np.int64})
    record = tree.serialize_example({"x": 1, "y": 2})
    for spec in ({"x": True, "y": False}, {"x": np.True_, "y": np.False_}, {"x": True, "unknown": False}):
        assert plain(tree.deserialize_example(record, decoders=bd.decode.PartialDecoding(spec))) == {"x": 1}


# ------------------------------------------------------------------------------------------------ info and read config


def test_licence_and_blocked_versions_by_tfds_names() -> None:
    info = bd.DatasetInfo(name="a", version="1.0.0", redistribution_info={"license": "MIT"})
    assert (info.redistribution_info.license, info.license, info.initialized) == ("MIT", "MIT", False)
    assert info.replace(license="BSD").redistribution_info.license == "BSD"
    assert bd.DatasetInfo(name="a", version="1.0.0").redistribution_info.license == ""
    blocked = bd.BlockedVersions(versions={"1.0.0": None}, configs={"2.0.0": {"c": "no"}})
    assert blocked.is_blocked("1.0.0")
    assert not blocked.is_blocked("2.0.0")
    found = blocked.is_blocked(bd.Version("2.0.0"), "c")
    assert (found.result, found.blocked_msg) == (True, "no")


def test_fields_of_a_read_config_are_set_before_it_is_used() -> None:
    config = bd.ReadConfig()
    config.add_tfds_id = True
    config.options.deterministic = False
    config.options.experimental_threading.private_threadpool_size = 4
    assert config.replace(shuffle_seed=3).add_tfds_id
    assert pickle.loads(pickle.dumps(config)) == config
    with pytest.raises(AttributeError, match=r"no field 'shuffel_seed'. Did you mean 'shuffle_seed'\?"):
        config.shuffel_seed = 1


def test_a_dataset_keeps_the_read_config_it_was_made_with(folders: list[str]) -> None:
    config = bd.ReadConfig(add_tfds_id=True)
    builder = bd.builder_from_directory(folders[0])
    dataset = builder.as_dataset("train", read_config=config)
    config.add_tfds_id = False
    assert "tfds_id" in dataset[0]
    config.interleave_cycle_length = 0
    with pytest.raises(ValueError, match="interleave_cycle_length"):
        builder.as_dataset("train", read_config=config)


# ----------------------------------------------------------------------------------------- configs, directories, mocks


class PortedSquares(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("2.0.0")
    BUILDER_CONFIGS = (BuilderConfig("b", "1.0.0"), BuilderConfig("b", "2.0.0"), BuilderConfig("c", "3.0.0"))

    def _info(self) -> Any:
        return tfds.core.DatasetInfo(builder=self, features={"n": np.int64, "label": tfds.features.ClassLabel()})

    def _split_generators(self, dl_manager: Any) -> Any:
        raise AssertionError("nothing is generated")


def test_configs_of_one_name_and_several_versions() -> None:
    expected = ["b:1.0.0", "b:2.0.0", "c:3.0.0"]
    assert list(PortedSquares.builder_configs) == list(PortedSquares().builder_configs) == expected
    for config, version, expected in [
        (None, None, "2.0.0"),
        ("b", None, "2.0.0"),
        ("b:1.0.0", None, "1.0.0"),
        ("b", "1.0.0", "1.0.0"),
        ("b", "1.*.*", "1.0.0"),
        ("b", "latest", "2.0.0"),
        ("c", None, "3.0.0"),
        ("c:3.0.0", None, "3.0.0"),
    ]:
        made = PortedSquares(config=config, version=version)
        assert (made.version, made.builder_config.version) == (expected, expected), (config, version)
    assert bd.builder("ported_squares/b:1.0.0").version == "1.0.0"
    assert bd.builder("ported_squares", config="b:1.0.0").builder_config.version == "1.0.0"
    with raises_with(DatasetNotFoundError, mentions=["ported_squares/b"], got="7.0.0", expected="1.0.0, 2.0.0"):
        PortedSquares(config="b:7.0.0")
    with pytest.raises(DatasetNotFoundError, match=r"no config 'd'; it has 'b:1\.0\.0'"):
        PortedSquares(config="d")


class Blocked(PortedSquares, skip_registration=True):
    BLOCKED_VERSIONS = tfds.core.utils.BlockedVersions(configs={"1.0.0": {"b": None}})
    DEFAULT_BUILDER_CONFIG_NAME = "c"


def test_classes_and_builders_say_what_their_configs_are() -> None:
    assert (PortedSquares.default_builder_config.version, Blocked().default_builder_config.name) == ("1.0.0", "c")
    assert PortedSquares.get_builder_config("b", version="2.0.0").version == "2.0.0"
    assert (PortedSquares.get_builder_config("c").name, PortedSquares.get_builder_config("d")) == ("c", None)
    blocked, free = Blocked(config="b:1.0.0"), Blocked()
    assert (blocked.is_blocked().result, free.is_blocked().result, blocked.builder_config_name) == (True, False, "b")
    assert (free.blocked_versions, PortedSquares().blocked_versions) == (Blocked.BLOCKED_VERSIONS, None)
    free.assert_is_not_blocked()
    with pytest.raises(tfds.core.utils.DatasetVariantBlockedError, match="Config b for version 1.0.0 is blocked"):
        blocked.assert_is_not_blocked()


def test_supervised_keys_that_are_new_in_the_code_are_used(folders: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    builder = PortedNumbers(data_dir=Path(folders[0]).parents[1])
    with pytest.raises(ValueError, match="as_supervised=True needs supervised_keys, got none"):
        builder.as_dataset("train", as_supervised=True)
    described = bd.DatasetInfo(builder=builder, features={"n": np.int64}, supervised_keys=("n", "n"))
    monkeypatch.setattr(PortedNumbers, "_info", lambda self: described)
    one, two = builder.as_dataset("train", as_supervised=True)[0]
    assert one == two


class PortedNumbers(bd.DatasetBuilder):
    VERSION = "1.0.0"

    def __init__(self, *, first: int = 0, **options: Any) -> None:
        self.first = first
        super().__init__(**options)

    def _info(self) -> bd.DatasetInfo:
        return bd.DatasetInfo(builder=self, features={"n": np.int64})

    def _split_generators(self) -> Any:
        numbers = range(self.first, self.first + 40)
        return {"train": [(n, {"n": n}) for n in numbers]} | ({} if self.first else {"test": [(0, {"n": 7})]})


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two directories with different examples."""
    root = tmp_path_factory.mktemp("folders")
    made = [PortedNumbers(first=first, data_dir=root / f"copy{first}") for first in (0, 100)]
    return [builder.build(num_workers=1, num_shards=1 if builder.first == 0 else 3) for builder in made]


def test_directories_are_read_as_one(folders: list[str]) -> None:
    builder = tfds.builder_from_directories(folders)
    config = bd.ReadConfig(add_tfds_id=True)
    parts = [list(bd.builder_from_directory(folder).as_dataset("train")) for folder in folders]
    dataset = builder.as_dataset("train", read_config=config)
    assert sorted(int(e["n"]) for e in dataset) == sorted(int(e["n"]) for part in parts for e in part)
    assert builder.info.splits["train"].shard_lengths == [40, 13, 14, 13]
    stored = [
        int(bd.builder_from_directory(folder).as_dataset("train")[i]["n"]) for folder in folders for i in range(40)
    ]
    assert [int(builder.as_dataset("train[35:45]")[i]["n"]) for i in range(10)] == stored[35:45]
    assert dataset[0]["tfds_id"] == b"copy0/ported_numbers/1.0.0/ported_numbers-train.tfrecord-00000-of-00001__0"
    assert (
        builder.as_dataset("test", read_config=config)[0]["tfds_id"]
        == b"ported_numbers-test.tfrecord-00000-of-00001__0"
    )
    for key in (3, 139):
        assert dataset[dataset.find(key)]["n"] == key
    assert [e["n"] for e in pickle.loads(pickle.dumps(dataset))] == [e["n"] for e in dataset]
    iterator = dataset.iterate()
    seen = [next(iterator) for _ in range(50)]
    rest = list(builder.as_dataset("train", read_config=config).iterate(state=iterator.get_state()))
    assert [e["n"] for e in seen + rest] == [e["n"] for e in dataset]


def test_directories_are_opened_once_each(folders: list[str]) -> None:
    storage.take_requests()
    for folder in folders:
        bd.builder_from_directory(folder)
    requests = storage.take_requests()
    bd.builder_from_directories(folders)
    assert storage.take_requests()[:2] == requests[:2]


def test_directories_that_differ_are_refused(folders: list[str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected one or more directories"):
        bd.builder_from_directories([])
    other = tmp_path / "ported_numbers" / "1.0.0"
    shutil.copytree(folders[0], other)
    for name in ("manifest.json", "features.json"):
        text = (other / name).read_text()
        (other / "manifest.json").unlink(missing_ok=True)
        if name == "features.json":
            (other / name).write_text(text.replace("int64", "int32"))
    with pytest.raises(ValueError, match="have different features.*'n'"):
        bd.builder_from_directories([folders[0], other])


def test_mock_data_of_an_info_that_was_made_without_its_builder() -> None:
    class WithoutBuilder(bd.DatasetBuilder, skip_registration=True):
        VERSION = "1.2.0"

        def _info(self) -> bd.DatasetInfo:
            return bd.DatasetInfo(features={"number": np.int64})

        def _split_generators(self) -> dict[str, Any]:
            return {"train": []}

    builder = WithoutBuilder()
    with tfds.testing.mock_data(num_examples=3, max_value=9):
        numbers = [example["number"] for example in builder.as_dataset("train")]
    assert len(numbers) == 3
    assert all(0 <= number <= 9 for number in numbers)
    assert (builder.info.name, str(builder.info.version)) == ("without_builder", "1.2.0")


def test_mock_data_of_code() -> None:
    with tfds.testing.mock_data(num_examples=3, max_value=9):
        dataset = tfds.load("ported_squares", split="train[:1000]", data_dir="/nowhere")
        one, two = tfds.load("ported_squares/c", split=["train", "test[50%:]"])
        values = [plain(e) for e in dataset]
        tfds.builder("ported_squares").download_and_prepare()
        with pytest.raises(ValueError, match="which splits"):
            tfds.load("ported_squares")
    assert len(values) == len(one) == len(two) == 3
    assert all(0 <= each["n"] <= 9 for each in values)
    assert sorted(each["n"] for each in values) == sorted(int(e["n"]) for e in two)
    with pytest.raises(DatasetNotFoundError):
        tfds.builder("ported_squares").as_dataset("train")


@pytest.mark.parametrize(
    "options", [{"num_examples": 0}, {"num_examples": -1}, {"num_sub_examples": -1}, {"max_value": -1}, {"policy": "x"}]
)
def test_arguments_of_mock_data_are_checked(options: dict[str, Any]) -> None:
    words = f"{next(iter(options))} must be at least|MockPolicy"
    with pytest.raises(ValueError, match=words), tfds.testing.mock_data(**options):
        pass


def test_mock_data_of_metadata_files(folders: list[str], tmp_path: Path) -> None:
    target = tmp_path / "elsewhere" / "1.0.0"
    target.mkdir(parents=True)
    for name in ("dataset_info.json", "features.json"):
        shutil.copy(Path(folders[0]) / name, target)
    with tfds.testing.mock_data(num_examples=2, data_dir=tmp_path):
        assert {name: len(each) for name, each in tfds.load("elsewhere").items()} == {"train": 2, "test": 2}
        with raises_with(bd.errors.SplitError, got="'trian'"):
            tfds.load("elsewhere", split="trian")
    with tfds.testing.mock_data(as_dataset_fn=lambda builder, split, **options: (builder.name, split)):
        assert tfds.load("ported_squares", split="train") == ("ported_squares", "train")
    policy = tfds.testing.MockPolicy.USE_FILES
    with tfds.testing.mock_data(policy=policy), pytest.raises(DatasetNotFoundError, match="USE_FILES"):
        tfds.load("ported_squares", split="train", data_dir=tmp_path)


ALL_KINDS = F.FeaturesDict(
    {
        "label": F.ClassLabel(names=["a", "b"]),
        "image": F.Image(shape=(None, None, 3)),
        "depth": F.Image(shape=(4, 4, 1), dtype=np.float32),
        "mask": F.LabeledImage(labels=3, shape=(4, 4, 1)),
        "zlib": F.Tensor(shape=(None, None), dtype=np.int64, encoding="zlib"),
        "box": F.BBoxFeature(),
        "ragged": F.Sequence(F.Sequence(np.int64)),
        "steps": F.Dataset({"image": F.Image(shape=(2, 2, 1))}),
        "video": F.Video(shape=(None, 2, 2, 3)),
        "speech": F.Translation(["de", "en"]),
        "versions": F.TranslationVariableLanguages(["de", "en"]),
        "sound": F.Audio(),
        "file": F.Audio(lazy_decode=True, sample_rate=8000),
        "small": F.Scalar(np.int8, minimum=3, maximum=5),
        "own": Shouted(),
        **{name: np.dtype(name) for name in ("bool", "uint8", "uint64", "float16", "float64")},
    }
)


class Everything(bd.DatasetBuilder):
    VERSION = "1.0.0"

    def _info(self) -> bd.DatasetInfo:
        return bd.DatasetInfo(builder=self, features=ALL_KINDS, supervised_keys=("image", "label"))


def test_mock_data_has_values_of_all_connectors() -> None:
    with tfds.testing.mock_data(num_examples=2, num_sub_examples=4):
        dataset = bd.load("everything", split="train")
        skip = {"image": bd.decode.SkipDecoding()}
        (first, _), (png, _) = dataset, bd.load("everything", split="train", decoders=skip)
        image, label = next(iter(bd.load("everything", split="train", as_supervised=True)))
    assert first.keys() == ALL_KINDS.keys()
    assert (len(first["steps"]), first["small"] in (3, 4, 5), first["mask"].max() < 3) == (4, True, True)
    assert Image.open(io.BytesIO(png["image"])).size == image.shape[1::-1]
    assert label in (0, 1)


# ----------------------------------------------------------------------------------------------------- names and hints


def test_the_package_names_the_module_of_tfds_names() -> None:
    for name in ("core", "download", "dataset_builders", "deprecated", "enable_progress_bar", "public_api", "typing"):
        with pytest.raises(AttributeError, match=rf"'{name}'.*import beam_datasets\.tfds as tfds.*tfds\.{name}"):
            getattr(bd, name)
        assert hasattr(tfds, name)


def problem_of(path: str) -> str:
    """Returns what the error says of a name that has no equivalent."""
    try:
        operator.attrgetter(path)(tfds)
    except AttributeError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "path",
    [
        *("GenerateMode", "transform", "list_dataset_collections", "decode.DeserializeMethod", "core.FileFormat"),
        *("core.utils.zip_dict", "core.ShardedFileTemplate", "testing.MockFs", "testing.PickableDataSourceMock"),
        *("core.add_dataset_builder_provider", "core.as_path", "dataset_builders.ConllBuilderConfig"),
    ],
)
def test_every_public_name_of_tfds_is_there_or_says_what_to_use(path: str) -> None:
    assert "has no equivalent in beam_datasets; " in problem_of(path)
