"""The cases of tests/data/vectors/examples.json: what TFDS 4.9.10 made of features and values."""

import base64
import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from beam_datasets import features

DATA = Path(__file__).parents[1] / "data" / "vectors" / "examples.json"
INTEGER_BOXES = ("bbox_ints",)  # JSON has made floats of the integers that were given


class Ragged(list):
    """What a case says of a ragged tensor."""


class Nested(list):
    """What a case says of a dataset in an example."""


@cache
def cases() -> dict[str, dict[str, Any]]:
    """All cases, by name."""
    return {case["name"]: case for case in json.loads(DATA.read_text(encoding="utf-8"))["cases"]}


def feature_of(case: dict[str, Any]) -> Any:
    """The features that a case describes; its text is Python."""
    names = {"F": features, "np": np, "tf": TF}
    if "bfloat16" in case["spec"]:
        import ml_dtypes

        names["bfloat16"] = ml_dtypes.bfloat16
    return eval(case["spec"], names)


def dtype_like_tensorflows(dtype: Any) -> Any:
    """An object that is to NumPy's dtype what TensorFlow's are."""
    return SimpleNamespace(as_numpy_dtype=dtype)


TF = SimpleNamespace(
    string=dtype_like_tensorflows(np.object_),
    int64=dtype_like_tensorflows(np.int64),
    bool=dtype_like_tensorflows(np.bool_),
    float16=dtype_like_tensorflows(np.float16),
)


def input_of(case: dict[str, Any]) -> Any:
    """The value that was encoded."""
    value = value_of(case["input"])
    if case["name"] in INTEGER_BOXES:
        return {"b": features.BBox(*map(int, value["b"]))}
    return value


def value_of(node: Any) -> Any:
    """The value that JSON with tags describes."""
    if isinstance(node, list):
        return [value_of(item) for item in node]
    if not isinstance(node, dict):
        return node
    for tag, make in TAGS.items():
        if tag in node:
            return make(node)
    return {key: value_of(item) for key, item in node.items()}


def raw_array(node: dict[str, Any]) -> Any:
    if node["dtype"] == "bfloat16":
        import ml_dtypes

        dtype = np.dtype(ml_dtypes.bfloat16)
    else:
        dtype = np.dtype(node["dtype"])
    return np.frombuffer(base64.b64decode(node["$ndarray_b64"]), dtype).reshape(node["shape"]).copy()


def object_array(node: dict[str, Any]) -> Any:
    array = np.empty(len(node["$ndarray"]), object)
    array[:] = [value_of(item) for item in node["$ndarray"]]
    return array.reshape(node["shape"])


def scalar(node: dict[str, Any]) -> Any:
    text, dtype = node["$scalar"], np.dtype(node["dtype"])
    if dtype == np.bool_:
        return np.bool_(text == "True")
    return dtype.type(int(text) if dtype.kind in "iu" else float(text))


TAGS = {
    "$bytes": lambda node: base64.b64decode(node["$bytes"]),
    "$float": lambda node: float(node["$float"]),
    "$ndarray_b64": raw_array,
    "$ndarray": object_array,
    "$scalar": scalar,
    "$bbox": lambda node: features.BBox(*node["$bbox"]),
    "$ragged": lambda node: Ragged(value_of(node["$ragged"])),
    "$dataset": lambda node: Nested(value_of(node["$dataset"])),
}


def assert_same(got: Any, want: Any, path: str = "") -> None:
    """Asserts that a decoded value is one of a case, to the type and the bit."""
    if isinstance(want, Ragged):
        assert isinstance(got, features.RaggedArray), path
        assert got.to_list() == list(want), path
    elif isinstance(want, Nested):
        assert isinstance(got, features.NestedDataset), path
        assert len(got) == len(want), path
        for i, (item, expected) in enumerate(zip(got, want)):
            assert_same(item, expected, f"{path}[{i}]")
    elif isinstance(want, dict):
        assert isinstance(got, dict), path
        assert list(got) == sorted(want), path
        for key, expected in want.items():
            assert_same(got[key], expected, f"{path}/{key}")
    elif isinstance(want, np.ndarray) and want.shape[:2] == (0, 0) and want.ndim > 1:  # items of any shape
        assert got == [], path
    elif isinstance(want, np.ndarray):
        assert isinstance(got, np.ndarray), path
        assert (got.dtype, got.shape) == (want.dtype, want.shape), path
        assert got.tolist() == want.tolist() if got.dtype == object else got.tobytes() == want.tobytes(), path
        assert got.flags.writeable, path
    else:
        assert type(got) is type(want), path
        assert got == want or (got != got and want != want), path
