"""Names of nested features: with dots everywhere, and with slashes where they were taken before."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets.cli import main
from beam_datasets.errors import BeamDatasetsError, FeatureError
from beam_datasets.formats.tfrecord import frame_all
from tests.facts import raises_with

TREE = F.FeaturesDict(
    {
        "product": {
            "title": F.Text(),
            "price": {"amount": F.Scalar(np.int64, optional=True), "km/h": np.int64},
            "sizes": F.Sequence(np.int64),
        },
        "product.price": np.int64,
        "n": np.int64,
    }
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, encode = tmp_path_factory.mktemp("nested"), F.compile_encoder(TREE)
    records = [
        encode(
            {
                "product": {
                    "title": f"t{i}",
                    "price": {"amount": i if i % 2 else None, "km/h": 3},
                    "sizes": list(range(i)),
                },
                "product.price": -i,
                "n": i,
            }
        )
        for i in range(5)
    ]
    (folder / "rows.tfrecord").write_bytes(b"".join(frame_all(records)))
    return Path(bd.adopt(str(folder / "rows.tfrecord"), TREE, name="rows").dataset_dir)


@pytest.mark.parametrize(
    "name,kept",
    [
        ("product.title", {"product": {"title"}}),
        ("product/title", {"product": {"title"}}),
        ("product.price.amount", {"product": {"price"}}),
        ("product/price", {"product": {"price"}}),
        ("product.price", {"product.price": None}),  # a feature of that name comes first
        ("product/price/km/h", {"product": {"price"}}),
    ],
)
def test_features_that_are_kept(source: Path, tmp_path: Path, name: str, kept: dict[str, Any]) -> None:
    bd.materialize(source, to="some", data_dir=tmp_path, features=[name])
    made = bd.builder("some", data_dir=tmp_path).info.features
    assert {step: set(child) if isinstance(child, F.FeaturesDict) else None for step, child in made.items()} == kept
    by_slashes = {"product.title": "product/title", "product.price.amount": "product/price/amount"}
    if name in by_slashes:  # both are one choice, also in the lineage
        bd.materialize(source, to="same", data_dir=tmp_path, features=[by_slashes[name]])
        lineages = [bd.builder(each, data_dir=tmp_path).lineage for each in ("some", "same")]
        assert lineages[0].features == lineages[1].features == (by_slashes[name],)


def test_an_unknown_name(source: Path, tmp_path: Path) -> None:
    with raises_with(BeamDatasetsError, got="'product.tite'", expected=["product.title"], advice=["'product.title'"]):
        bd.materialize(source, to="some", data_dir=tmp_path, features=["product.tite"])


def test_statistics_have_the_names_that_they_take(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("product.title", "product/title"):
        assert main(["stats", str(source), "--features", name, "--no_save"]) == 0
        out = capsys.readouterr().out
        assert "product.title" in out
        assert "product/title" not in out
    assert main(["stats", str(source), "--no_save"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("product.price.amount", "product/price/km/h", "product.sizes"))


@pytest.mark.parametrize("name", ["product.price.amount", "product/price/amount"])
def test_values_for_missing_ones_and_padding(source: Path, name: str) -> None:
    train = bd.builder_from_directory(source).as_dataset("train")
    batch = next(iter(train.padded_batch(5, fill={name: -7}, pad_value={"product.sizes": -1, "product/sizes": -1})))
    assert batch["product"]["price"]["amount"].tolist() == [-7, 1, -7, 3, -7]
    assert batch["product"]["sizes"][:2].tolist() == [[-1] * 4, [0, -1, -1, -1]]
    shorter = next(iter(train.padded_batch(2, fill={name: 0}, pad_length={"product.sizes": 6})))
    assert shorter["product"]["sizes"].shape == (2, 6)


def test_expressions(source: Path, tmp_path: Path) -> None:
    where = "product.price.amount > 2 or product.title = 't2' or \"product.price\" = 0"
    bd.materialize(source, to="some", data_dir=tmp_path, where=where)
    some = bd.load("some", split="train", data_dir=tmp_path)
    assert sorted(int(example["n"]) for example in some) == [0, 2, 3]
    with raises_with(BeamDatasetsError, mentions=["product/title", "product.title."]):
        bd.materialize(source, to="other", data_dir=tmp_path, where="product/title = 't2'")


def test_errors_print_dots(source: Path) -> None:
    """A slash or a dot in the name of a feature itself keeps the slashes, with which it can be given."""
    encode = F.compile_encoder(
        F.FeaturesDict(
            {"image/encoded": F.Text(), "a": {"b": {"n": np.int8, "km/h": np.int8}, "l": F.Sequence(np.int8)}}
        )
    )
    good = {"image/encoded": "x", "a": {"b": {"n": 1, "km/h": 2}, "l": [1]}}
    for inner, name in (
        ({"a": {"b": {"n": 300, "km/h": 2}, "l": [1]}}, "a.b.n"),
        ({"a": {"b": {"n": 1, "km/h": 300}, "l": [1]}}, "a/b/km/h"),
        ({"a": {"b": {"n": 1, "km/h": 2}, "l": [1, 300]}}, "a.l"),
        ({"image/encoded": 3}, "image/encoded"),
    ):
        with raises_with(FeatureError, feature=name) as caught:
            encode(good | inner)
        assert pickle.loads(pickle.dumps(caught.value)).feature == name
    with raises_with(FeatureError, feature="a.b"):
        encode(good | {"a": {"b": {"n": 1}, "l": [1]}})
    ds = bd.builder_from_directory(source).as_dataset("train")
    with raises_with(FeatureError, mentions=["product.sizes: ", "shapes"]):
        next(iter(ds.batch(5)))
    with raises_with(FeatureError, mentions=["product.sizes: ", "pad_value", "0.5", "int64"]):
        next(iter(ds.padded_batch(5, pad_value={"product/sizes": 0.5})))
    with pytest.raises(ValueError, match=r"'product\.titl'.*'product\.title'"):
        bd.builder_from_directory(source).as_dataset("train", decoders=bd.decode.PartialDecoding(["product.titl"]))
