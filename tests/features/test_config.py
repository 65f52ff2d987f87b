"""features.json, and connectors that users write."""

from __future__ import annotations

import json
import operator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from beam_datasets import features, storage, tfds
from beam_datasets import features as F
from beam_datasets.errors import FeatureError, FeatureOverflowError, FeatureTypeError, MetadataError
from beam_datasets.features import registry
from beam_datasets.features.base import CLASS_PREFIX
from beam_datasets.features.decode import SkipDecoding, skip_decoding
from beam_datasets.formats import example


def old(name, content, **more):
    """A node of the form that TFDS wrote before 4.4."""
    return {"type": CLASS_PREFIX + name, "content": content, **more}


OLD = {
    "a": (old("feature.Tensor", {"shape": [2], "dtype": "int64"}), F.Tensor(shape=(2,), dtype=np.int64)),
    "b": (old("text_feature.Text", {}), F.Text()),
    "c": (old("class_label_feature.ClassLabel", {"num_classes": 3}), F.ClassLabel(num_classes=3)),
    "d": (
        old("image_feature.Image", {"shape": [None, None, 3], "dtype": "uint8", "encoding_format": "jpeg"}),
        F.Image(encoding_format="jpeg"),
    ),
    "e": (
        old("sequence_feature.Sequence", {"feature": old("text_feature.Text", {}), "length": None}),
        F.Sequence(F.Text()),
    ),
    "f": (
        old("video_feature.Video", {"shape": [None, 2, 2, 1], "encoding_format": "png", "ffmpeg_extra_args": []}),
        F.Video(shape=(None, 2, 2, 1)),
    ),
    "g": (old("translation_feature.Translation", {"languages": ["de", "en"]}), F.Translation(["de", "en"])),
    "h": (old("bounding_boxes.BBoxFeature", {}), F.BBoxFeature(bbox_format=None)),
    "i": (old("features_dict.FeaturesDict", {"x": old("text_feature.Text", {})}), F.FeaturesDict({"x": F.Text()})),
    "j": (
        old(
            "tensor_feature.Tensor",
            json.dumps({"shape": {"dimensions": ["-1"]}, "dtype": "float32"}),
            proto_cls="tensorflow_datasets.TensorFeature",
        ),
        F.Tensor(shape=(None,), dtype=np.float32),
    ),
}


def test_the_older_form():
    nodes = {name: node for name, (node, _) in OLD.items()}
    loaded = F.from_json(old("features_dict.FeaturesDict", nodes))
    assert loaded == F.FeaturesDict({name: feature for name, (_, feature) in OLD.items()})


def test_proto_names_in_snake_case():
    node = {"python_class_name": CLASS_PREFIX + "class_label_feature.ClassLabel", "class_label": {"num_classes": 5}}
    assert F.from_json(node) == F.ClassLabel(num_classes=5)


CUSTOM = {"pythonClassName": "os.system", "jsonFeature": {"json": '{"secret": 1}'}, "description": "theirs"}


def custom_json():
    return F.from_json(
        {
            "pythonClassName": CLASS_PREFIX + "features_dict.FeaturesDict",
            "featuresDict": {"features": {"x": CUSTOM, "y": F.Text().to_json(), "s": sequence_of(CUSTOM)}},
        }
    )


def sequence_of(node):
    return {
        "pythonClassName": CLASS_PREFIX + "sequence_feature.Sequence",
        "sequence": {"feature": node, "length": "-1"},
    }


def test_unknown_classes_are_kept_but_not_imported():
    features = custom_json()
    assert isinstance(features["x"], F.UnknownFeature)
    assert json.loads(F.to_json_text(features))["featuresDict"]["features"]["x"] == CUSTOM
    assert F.from_json_text(F.to_json_text(features)) == features
    record = example.serialize({"x/part": [1, 2], "x": [b"raw"], "y": [b"text"], "xx": [b"other"], "s": [b"a", b"b"]})
    with pytest.raises(FeatureTypeError, match=r"^(s|x): features of the class 'os.system' are not known here"):
        F.compile_decoder(features)(record)
    assert F.compile_decoder(features, partial={"y"})(record) == {"y": b"text"}
    got = F.compile_decoder(features, decoders={"x": SkipDecoding(), "s": SkipDecoding()})(record)
    assert got["x"].keys() == {"x", "x/part"}
    assert got["x"]["x"] == [b"raw"]
    assert got["x"]["x/part"].tolist() == [1, 2]
    assert got["s"] == {"s": [b"a", b"b"]}
    with pytest.raises(FeatureTypeError, match="not known here"):
        F.compile_encoder(features)


DEEP = json.dumps({"pythonClassName": CLASS_PREFIX + "text_feature.Text", "text": {}})
for _ in range(3000):
    DEEP = f'{{"pythonClassName": "{CLASS_PREFIX}sequence_feature.Sequence", "sequence": {{"feature": {DEEP}}}}}'


@pytest.mark.parametrize("node", ["x" * 100_000, {"pythonClassName": "x" * 100_000, "a": {}}])
def test_an_error_does_not_repeat_a_long_value(node):
    """An error of features.json shows the beginning of what is wrong there, however long that is."""
    with pytest.raises((MetadataError, FeatureTypeError)) as caught:
        features.from_json_text(json.dumps(node), path="/data/features.json").decoder("x")({})
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        '{"pythonClassName": 5}',
        '{"type": "x", "content": "{"}',
        json.dumps(F.Scalar(np.int64).to_json()).replace("int64", "int65"),
        json.dumps(F.Scalar(np.int64).to_json()).replace("none", "lzma"),
        json.dumps(F.Image().to_json()).replace('"3"', '"7"'),
        json.dumps(F.Sequence(np.int64).to_json()).replace('"-1"', '"many"'),
        '{"pythonClassName": "tensorflow_datasets.core.features.sequence_feature.Sequence", "sequence": {}}',
        json.dumps(F.FeaturesDict({}).to_json()).replace("{}", '{"features": 3}'),
        DEEP,
    ],
)
def test_damaged_files_are_named(text):
    with pytest.raises(MetadataError, match=r"^/data/features.json does not describe the features"):
        F.from_json_text(text, path="/data/features.json")


def test_a_name_with_half_of_a_surrogate_pair_is_named():
    text = F.to_json_text(F.FeaturesDict({"text": F.Text()})).replace('"text": {', r'"te\ud800": {', 1)
    with pytest.raises(
        MetadataError, match=r"^/data/features.json does not .*'te\\ud800' is not a name of a feature: .* half"
    ):
        F.from_json_text(text, path="/data/features.json")


def test_a_class_name_with_half_of_a_surrogate_pair_is_refused():
    with pytest.raises(ValueError, match=r"class name 'a\\ud800' has half of a surrogate pair"):
        F.ClassLabel(names=["a\ud800", "b"])


def test_documentation():
    features = F.FeaturesDict(
        {"a": F.Scalar(np.int64, doc="a number"), "b": F.Text(doc=F.Documentation(desc="a text", value_range="words"))},
        doc="all",
    )
    loaded = F.from_json_text(F.to_json_text(features))
    assert loaded.documentation == F.Documentation("all")
    assert loaded["b"].documentation == F.Documentation("a text", "words")
    assert features.documentation.desc == "all"
    with pytest.raises(TypeError, match="doc="):
        F.Text(doc=5)


LABELS = F.FeaturesDict(
    {
        "a": {"b": F.ClassLabel(names=["x", "y z"])},
        "s": F.Sequence({"l": F.ClassLabel(names=["é"])}),
        "i": F.LabeledImage(labels=["p", "q"]),
        "n": F.ClassLabel(num_classes=2),
    }
)


def test_label_files():
    files = LABELS.label_files()
    assert files == {"a-b.labels.txt": "x\ny z\n", "s-l.labels.txt": "é\n", "i.labels.txt": "p\nq\n"}
    loaded = F.from_json_text(F.to_json_text(LABELS))
    assert loaded["a"]["b"].names == ["0", "1"]
    assert loaded.load_labels(files.get) == LABELS
    assert loaded.load_labels(lambda file: None) == loaded


@pytest.mark.parametrize("text", ["x\n", "x\ny\nz\n", "x\nx\n"])
def test_label_files_that_do_not_fit(text):
    loaded = F.from_json_text(F.to_json_text(LABELS))
    with pytest.raises(MetadataError, match=r"^a-b.labels.txt"):
        loaded.load_labels({"a-b.labels.txt": text}.get)


def test_class_labels(tmp_path):
    file = tmp_path / "names.txt"
    file.write_text("cat\n\n dog \n")
    storage.write_bytes("memory://labels/names.txt", file.read_bytes())
    assert F.ClassLabel(names_file="memory://labels/names.txt") == F.ClassLabel(names_file=file)
    label = F.ClassLabel(names_file=file)
    assert (label.num_classes, label.names) == (2, ["cat", "dog"])
    assert (label.str2int("dog"), label.int2str(0)) == (1, "cat")
    assert F.ClassLabel(num_classes=3).int2str(2) == "2"
    assert (label.str2int(" dog\n"), F.ClassLabel(num_classes=3).str2int(" 2\n")) == (1, 2)
    for wrong in ("cow", "0"):
        with pytest.raises(ValueError, match="one of the 2 class names 'cat', 'dog', got"):
            label.str2int(wrong)
    with pytest.raises(ValueError, match="'cat', 'dog', got 'dgo'. Did you mean 'dog'"):
        label.str2int("dgo")
    for index in (-1, 2):
        with pytest.raises(ValueError, match="not the index"):
            label.int2str(index)
    assert F.ClassLabel(names=[" a", "b\n"]).names == ["a", "b"]  # as a label file keeps them
    for name in ("", " ", "a\nb"):
        with pytest.raises(ValueError, match="cannot be saved"):
            F.ClassLabel(names=[name])


# Connectors that users write


class Rgb(features.CustomFeature):
    """A colour, written as '#rrggbb'."""

    def __init__(self, scale: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scale = scale

    def get_tensor_info(self) -> Any:
        return features.TensorInfo(shape=(3,), dtype=np.uint8)

    def get_serialized_info(self) -> Any:
        return {"r": features.TensorInfo((), np.uint8), "gb": features.TensorInfo((2,), np.float32)}

    def encode_example(self, value: str) -> Any:
        r, g, b = (int(value[i : i + 2], 16) for i in (1, 3, 5))
        return {"r": r, "gb": [g / 255, b / 255]}

    def decode_example(self, stored: Any) -> Any:
        return np.concatenate([[stored["r"]], np.round(stored["gb"] * 255).astype(np.uint8)])

    def to_json_content(self) -> Any:
        return {"scale": self.scale}


class Length(features.CustomFeature):
    """A text, of which the length is stored, and read as a dict."""

    def get_tensor_info(self) -> Any:
        return {"length": features.TensorInfo((), np.int64), "half": features.TensorInfo((), np.int64)}

    def get_serialized_info(self) -> Any:
        return features.Sequence(features.Text())

    def encode_example(self, value: str) -> Any:
        return list(value)

    def decode_example(self, stored: Any) -> Any:
        return {"length": np.int64(len(stored)), "half": np.int64(len(stored) // 2)}


class Plus(features.Tensor):
    """A subclass of a connector that changes its values."""

    def encode_example(self, value: Any) -> Any:
        return super().encode_example(value + 5)

    def decode_example(self, stored: Any) -> Any:
        return super().decode_example(stored) * 10


@dataclass(frozen=True)
class Times(Plus):
    """A subclass whose __init__ is of its own module, and takes the arguments of Tensor."""


class Named(features.ClassLabel):
    """A class that is read as its name."""

    def decode_example(self, stored: Any) -> Any:
        return self.int2str(int(stored))

    @classmethod
    def from_json_content(cls, content: Any) -> Any:
        return cls(num_classes=int(content["numClasses"]))


class Scaled(features.CustomFeature):
    """A connector with an argument, of which features.json has what `to_json_content` returns."""

    content: ClassVar[Any] = {"scale": 2}

    def __init__(self, scale: int) -> None:
        self.scale = scale

    def get_tensor_info(self) -> Any:
        return features.TensorInfo((), np.int64)

    def encode_example(self, value: int) -> Any:
        return value * self.scale

    def to_json_content(self) -> Any:
        return self.content


class Shifted(Plus):
    """A subclass of a connector with an argument that features.json does not have."""

    def __init__(self, shift: int = 0) -> None:
        super().__init__(shape=(), dtype=np.int64)


class Refusing(features.CustomFeature):
    """A text of which each name is an error."""

    def get_tensor_info(self) -> Any:
        return features.TensorInfo((), np.str_)

    def encode_example(self, value: Any) -> Any:
        if value in ("text", "read"):
            return value
        if value == "ours":
            raise FeatureOverflowError("too long")
        return {"value": int, "key": {}.__getitem__, "type": operator.neg}[value]("x")

    def decode_example(self, stored: Any) -> Any:
        return stored if stored == b"text" else 1 / 0


TREE = {
    "one": Rgb(2, doc="a colour"),
    "many": features.Sequence(Rgb()),
    "deep": features.Sequence(features.Sequence(Rgb())),
    "lengths": features.Sequence(Length()),
    "plus": Plus(shape=(), dtype=np.int64),
}
EXAMPLE = {"one": "#010203", "many": ["#ff0001", "#000002"], "deep": [["#010101"] * 2, [], ["#020202"]]}
EXAMPLE |= {"lengths": ["abcd", "", "x"], "plus": 1}


@pytest.fixture(autouse=True)
def unregistered(monkeypatch: Any) -> None:
    monkeypatch.setattr(registry, "_REGISTERED", {})


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ((3,), r"expected a feature, .* got \(3,\)"),
        (features.Text, r"expected a feature, .* the class Text; write Text\(...\)"),
        (features.TensorInfo((), int), "<class 'int'> is not a dtype of a feature"),
        ({"a": {"b": features.TensorInfo("3", np.int64)}}, "shape: expected a tuple of lengths"),
    ],
)
def test_a_declaration_that_is_unusable_names_the_class(declared: Any, problem: str) -> None:
    class Odd(Scaled):
        def get_tensor_info(self) -> Any:
            return declared

    F.register(Odd)
    with pytest.raises(FeatureTypeError, match=rf"Odd: what get_tensor_info or get_serialized_info .*: {problem}"):
        F.compile_encoder({"a": Odd(2)})


@pytest.mark.parametrize(
    ("value", "kind", "problem"),
    [
        ("value", ValueError, r"invalid literal for int\(\).* \(at .*test_config.py:\d+ in encode_example\)"),
        ("key", KeyError, r"KeyError: 'x' \(at .*"),
        ("type", TypeError, r"bad operand .*"),
        ("ours", FeatureOverflowError, "too long"),
        ("read", ValueError, r"ZeroDivisionError: .* \(at .* in decode_example\)"),
    ],
)
@pytest.mark.parametrize("is_many", [False, True])
def test_errors_of_users_methods_name_the_feature(value: str, kind: Any, problem: str, is_many: bool) -> None:
    tree = {"a": {"b": features.Sequence(Refusing()) if is_many else Refusing()}}
    encode, decode = features.compile_encoder(tree), features.compile_decoder(tree)

    def through(one: Any) -> Any:
        return decode(encode({"a": {"b": ["text", one] if is_many else one}}))

    through("text")
    with pytest.raises(FeatureError, match=rf"^a\.b: {problem}$") as caught:
        through(value)
    assert isinstance(caught.value, kind)


def test_values_are_stored_as_declared_and_read_back() -> None:
    found = features.compile_decoder(TREE)(features.compile_encoder(TREE)(EXAMPLE))
    assert found["one"].tolist() == [1, 2, 3]
    assert found["many"].tolist() == [[255, 0, 1], [0, 0, 2]]
    assert found["deep"].to_list() == [[[1, 1, 1]] * 2, [], [[2, 2, 2]]]
    assert {name: column.tolist() for name, column in found["lengths"].items()} == {
        "length": [4, 0, 1], "half": [2, 0, 0],
    }  # fmt: skip
    assert found["plus"] == 60
    tree = features.FeaturesDict(TREE)
    assert (tree["one"].shape, tree["one"].dtype, tree["plus"].shape) == ((3,), np.uint8, ())  # type: ignore[attr-defined]


def test_empty_sequences_have_the_types_of_others() -> None:
    empty: dict[str, Any] = {"one": "#000000", "many": [], "deep": [[], []], "lengths": [], "plus": 1}
    full, none = (
        features.compile_decoder(TREE)(features.compile_encoder(TREE)(example)) for example in (EXAMPLE, empty)
    )
    assert (none["many"].shape, none["many"].dtype) == ((0, 3), full["many"].dtype)
    assert none["deep"].flat_values.dtype == full["deep"].flat_values.dtype
    assert {name: (len(column), column.dtype) for name, column in none["lengths"].items()} == {
        name: (0, column.dtype) for name, column in full["lengths"].items()
    }


def test_json_names_the_class_which_must_be_registered(monkeypatch: Any) -> None:
    tree = features.FeaturesDict({name: TREE[name] for name in ("one", "lengths")})
    text = features.to_json_text(tree)
    node = json.loads(text)["featuresDict"]["features"]["one"]
    assert node == {
        "pythonClassName": f"{__name__}.Rgb", "jsonFeature": {"json": '{"scale": 2}'}, "description": "a colour"
    }  # fmt: skip
    unknown = features.from_json_text(text)
    assert skip_decoding(unknown, features.UnknownFeature)
    assert features.to_json_text(unknown) == text
    features.register(Rgb)
    features.register(Length)
    assert features.from_json_text(text) == tree
    assert features.from_json_text(text.replace(__name__, f"moved.{__name__}")) == tree
    monkeypatch.setitem(registry._REGISTERED, f"other.moved.{__name__}.Rgb", Length)
    assert skip_decoding(features.from_json_text(text.replace(__name__, f"moved.{__name__}")), features.UnknownFeature)
    assert features.from_json_text(text)["one"].documentation.desc == "a colour"  # type: ignore[index]
    assert Rgb(2) != Rgb(1) != Length()
    assert len({Rgb(2), Rgb(2)}) == 1


@pytest.mark.parametrize("content", [{"scale": 2}, '{"scale": 2}'])
def test_registered_classes_are_found_by_a_node_of_the_older_form(content: Any) -> None:
    node = {"type": f"{__name__}.Rgb", "content": content}
    assert isinstance(F.from_json(node), F.UnknownFeature)
    features.register(Rgb)
    assert F.from_json(old("features_dict.FeaturesDict", {"a": node})) == F.FeaturesDict({"a": Rgb(2)})


def test_a_script_has_the_same_name_in_processes_that_it_starts(monkeypatch: Any) -> None:
    node = {"pythonClassName": "__main__.Rgb", "jsonFeature": {"json": '{"scale": 2}'}}
    monkeypatch.setattr(registry, "_REGISTERED", {})
    monkeypatch.setattr(Rgb, "__module__", "__mp_main__")  # as multiprocessing names it
    features.register(Rgb)
    assert features.from_json(node) == Rgb(2)  # without a warning
    assert Rgb(2).to_json()["pythonClassName"] == "__main__.Rgb"


@pytest.mark.parametrize(
    "content, problem",
    [
        ({}, "missing 1 required positional argument: 'scale'"),
        ([2], "argument after .* must be a mapping, not list"),
        ({"factor": 2}, "unexpected keyword argument 'factor'"),
    ],
)
def test_a_class_that_does_not_make_a_connector_of_its_content_is_an_error(
    monkeypatch: Any, content: Any, problem: str
) -> None:
    """Before anything is generated; of a dataset that has it, the rest can be read."""
    record = features.compile_encoder({"a": Scaled(2), "b": np.int64})({"a": 3, "b": 4})
    monkeypatch.setattr(Scaled, "content", content)
    tree = features.FeaturesDict({"a": Scaled(2), "b": np.int64})
    with pytest.raises(FeatureTypeError, match=f"^a: .*Scaled.*{problem}.*from to_json_content, as a dict"):
        features.compile_encoder(tree)
    text = features.to_json_text(tree)
    features.register(Scaled)
    read = features.from_json_text(text)
    assert features.to_json_text(read) == text
    with pytest.raises(FeatureTypeError, match=f"^a: the registered class .*Scaled.*{problem}.*Define its from_json"):
        features.compile_decoder(read)(record)
    assert features.compile_decoder(features.FeaturesDict({"b": read["b"]}))(record) == {"b": 4}  # type: ignore[index]


def test_content_that_is_not_json_is_an_error(monkeypatch: Any) -> None:
    monkeypatch.setattr(Scaled, "content", {"scale": np.int64(2)})
    with pytest.raises(FeatureTypeError, match=r"Scaled.to_json_content: expected values of JSON, got .*int64"):
        features.to_json_text(features.FeaturesDict({"a": Scaled(2)}))


@pytest.mark.parametrize("kind", [Plus, Times])
def test_a_subclass_of_a_connector_is_made_by_the_arguments_of_that_connector(kind: Any) -> None:
    tree = features.FeaturesDict({"plus": kind(shape=(), dtype=np.int64)})
    features.register(kind)
    read = features.from_json_text(features.to_json_text(tree))
    assert features.compile_decoder(read)(features.compile_encoder(tree)({"plus": 1})) == {"plus": 60}


def test_a_subclass_of_a_connector_with_other_arguments_is_an_error() -> None:
    with pytest.raises(FeatureTypeError, match=r"^a: .*Shifted takes other arguments than Tensor.*define from_json"):
        features.compile_encoder({"a": Shifted(1)})


@pytest.mark.parametrize("names", [("__main__.Rgb", "colours.Rgb"), ("colours.Rgb", "__main__.Rgb")])
def test_a_class_of_a_script_is_known_by_its_name(monkeypatch: Any, names: tuple[str, str]) -> None:
    stored, registered = names
    monkeypatch.setitem(registry._REGISTERED, registered, Rgb)
    node = {"pythonClassName": stored, "jsonFeature": {"json": '{"scale": 2}'}}
    with pytest.warns(UserWarning, match=rf"names the class '{stored}', and .* '{registered}' is used: .*ALIASES"):
        assert features.from_json(node) == Rgb(2)
    monkeypatch.setattr(Rgb, "ALIASES", (stored,), raising=False)
    monkeypatch.setattr(registry, "_REGISTERED", {})
    features.register(Rgb)
    assert features.from_json(node) == Rgb(2)


def test_several_classes_that_may_be_meant_are_an_error(monkeypatch: Any) -> None:
    for name in ("colours.Rgb", "more.Rgb"):
        monkeypatch.setitem(registry._REGISTERED, name, type("Rgb", (Rgb,), {}))
    read = features.from_json({"pythonClassName": "__main__.Rgb", "jsonFeature": {"json": "{}"}})
    with pytest.raises(FeatureTypeError, match=r"several registered classes have its name: colours\.Rgb, more\.Rgb"):
        features.compile_decoder({"a": read})(b"")


def test_a_subclass_of_class_label_has_its_names_again() -> None:
    tree = features.FeaturesDict({"a": Named(names=["cat", "dog"], doc="which"), "b": {"c": Named(names=["x"])}})
    features.register(Named)
    read = features.from_json_text(features.to_json_text(tree)).load_labels(tree.label_files().get)
    assert read == tree
    assert read.label_files() == tree.label_files()
    assert features.compile_decoder(read)(features.compile_encoder(tree)({"a": "dog", "b": {"c": 0}})) == {
        "a": "dog", "b": {"c": "x"},
    }  # fmt: skip


def test_connectors_of_tfds_are_registered_when_they_are_defined() -> None:
    class Own(tfds.features.FeatureConnector):  # type: ignore[misc, name-defined]
        ALIASES = ("old.Own",)

        def get_tensor_info(self) -> Any:
            return tfds.features.TensorInfo(shape=(), dtype=np.float32)

        def encode_example(self, value: Any) -> Any:
            return value / 3

    for name in (f"{__name__}.Own", "old.Own"):
        assert features.from_json({"pythonClassName": name, "jsonFeature": {"json": "{}"}}) == Own()
    tree = {"a": Own()}
    assert features.compile_decoder(tree)(features.compile_encoder(tree)({"a": 1.0})) == {"a": np.float32(1 / 3)}


def test_names_of_tfds_are_pickled_by_name() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")  # by which a script sends its classes
    names = (tfds.core, tfds.features, tfds.core.utils.lazy_imports_utils)
    assert all(cloudpickle.loads(cloudpickle.dumps(each)) is each for each in names)


def test_documentation_of_users_connectors(tmp_path: Any) -> None:
    class Documented(features.Tensor):
        def encode_example(self, value: Any) -> Any:
            return super().encode_example(value)

    made = features.FeaturesDict({"a": Documented(shape=(), dtype=np.int64, doc="meaning")})
    assert made["a"].to_json()["description"] == "meaning"
    assert Rgb(doc="one") == Rgb(doc="other")
    assert hash(Rgb(doc="one")) == hash(Rgb())


def test_a_custom_feature_stores_its_values_by_default() -> None:
    class Plain(features.CustomFeature):
        def get_tensor_info(self) -> Any:
            return features.TensorInfo((), np.int64)

    assert Plain().encode_example(3) == 3
    record = features.compile_encoder({"a": Plain()})({"a": 3})
    assert features.compile_decoder({"a": Plain()})(record) == {"a": 3}


@pytest.mark.parametrize("dtype", [None, 5, 1.5])
def test_what_is_no_dtype_is_a_value_error(dtype: Any) -> None:
    with pytest.raises(ValueError, match="dtype"):
        features.Tensor(shape=(), dtype=dtype)
