import json

import numpy as np
import pytest

from beam_datasets import features as F
from beam_datasets.errors import FeatureTypeError, MetadataError
from beam_datasets.features.base import CLASS_PREFIX
from beam_datasets.features.decode import SkipDecoding
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


def custom():
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
    features = custom()
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
    label = F.ClassLabel(names_file=file)
    assert (label.num_classes, label.names) == (2, ["cat", "dog"])
    assert (label.str2int("dog"), label.int2str(0)) == (1, "cat")
    assert F.ClassLabel(num_classes=3).int2str(2) == "2"
    for wrong in ("cow", "0"):
        with pytest.raises(ValueError, match="none of the 2 class names"):
            label.str2int(wrong)
    with pytest.raises(ValueError, match="'dgo' is none of the 2 class names. Did you mean 'dog'"):
        label.str2int("dgo")
    for index in (-1, 2):
        with pytest.raises(ValueError, match="not the index"):
            label.int2str(index)
    assert F.ClassLabel(names=[" a", "b\n"]).names == ["a", "b"]  # as a label file keeps them
    for name in ("", " ", "a\nb"):
        with pytest.raises(ValueError, match="cannot be saved"):
            F.ClassLabel(names=[name])
