"""Connectors that users write."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from beam_datasets import features, tfds
from beam_datasets.features import wrapped
from beam_datasets.features.decode import skip_decoding


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
    monkeypatch.setattr(wrapped, "_REGISTERED", {})


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
    monkeypatch.setitem(wrapped._REGISTERED, f"other.moved.{__name__}.Rgb", Length)
    assert skip_decoding(features.from_json_text(text.replace(__name__, f"moved.{__name__}")), features.UnknownFeature)
    assert features.from_json_text(text)["one"].documentation.desc == "a colour"  # type: ignore[index]
    assert Rgb(2) != Rgb(1) != Length()
    assert len({Rgb(2), Rgb(2)}) == 1


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
