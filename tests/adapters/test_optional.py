"""Frameworks accept the representation of missing values: each batch has the same dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets.reading.elements import transforms
from tests.adapters.conftest import write_bare

STANDS = {"float32": np.nan, "int64": -(2**31), "int32": -(2**31), "uint8": 255, "bool": False, "vector": [np.nan] * 2}
THERE = {"float32": 0.5, "int64": 5, "int32": 6, "uint8": 7, "bool": True, "vector": [1, 2]}
NUMBERS = tuple(STANDS)


def assert_filled(columns: dict[str, Any], stands: Any = STANDS) -> None:
    """Asserts that columns of the 12 examples have the numbers that are there, and what stands for the others."""
    for name in NUMBERS:
        wanted = [THERE[name] if i % 3 == 1 else stands[name] for i in range(12)]
        np.testing.assert_array_equal(columns[name], np.array(wanted))
    np.testing.assert_array_equal(columns["label"], [-1] * 12)


@pytest.mark.parametrize("size", [1, 2, 5, 12])
@pytest.mark.parametrize("way", ["loader", "map_style", "batches", "workers"])
def test_torch(torch: Any, gaps: Any, size: int, way: str) -> None:
    """PyTorch's own batches, of examples and of indices, have one dtype; so have batches that are made here."""
    from torch.utils.data import DataLoader

    if way == "batches":
        loader = DataLoader(gaps.batch(size).as_torch(), batch_size=None)
    else:
        dataset = gaps.as_torch(map_style=True) if way == "map_style" else gaps.as_torch(block=size)
        loader = DataLoader(dataset, batch_size=size, num_workers=2 * (way == "workers"))
    batches = list(loader)
    assert len({str([batch[name].dtype for name in (*NUMBERS, "label")]) for batch in batches}) == 1
    assert batches[0]["int64"].dtype == batches[0]["inner"]["int64"].dtype == torch.int64
    assert_filled({name: torch.cat([batch[name] for batch in batches]).numpy() for name in (*NUMBERS, "label")})
    assert [text for batch in batches for text in batch["text"]] == [b"x" if i % 3 == 1 else b"" for i in range(12)]


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("map_style", [False, True])
def test_torch_collates_numbers_of_uint64(torch: Any, tmp_path: Any, map_style: bool, num_workers: int) -> None:
    """PyTorch's default collate takes numbers of uint64, also missing ones; NumPy users get the same as before."""
    number = bd.features.Scalar("uint64")
    features = {"n": number, "missing": bd.features.Scalar("uint64", optional=True), "inner": {"n": number}}
    values = [{"n": 2**64 - 1 - i, "missing": i if i % 2 else None, "inner": {"n": i}} for i in range(6)]
    dataset = write_bare(tmp_path / "numbers.tfrecord", features, values)
    loader = torch.utils.data.DataLoader(dataset.as_torch(map_style=map_style), batch_size=3, num_workers=num_workers)
    batches = list(loader)
    stands = 2**64 - 1
    expected = {"n": [value["n"] for value in values], "missing": [stands, 1, stands, 3, stands, 5]}
    for name, wanted in expected.items():
        assert [batch[name].dtype for batch in batches] == [torch.uint64] * 2
        assert torch.cat([batch[name] for batch in batches]).numpy().tolist() == wanted
    assert [n for batch in batches for n in batch["inner"]["n"].numpy().tolist()] == list(range(6))
    assert type(dataset[0]["n"]) is np.uint64
    assert [int(x["n"]) for x in dataset.map(lambda x: {"n": int(x["inner"]["n"])}).as_torch()] == list(range(6))


def test_torch_with_another_value(torch: Any, gaps: Any) -> None:
    """Fill= of as_torch() is that of batch(), for labels too."""
    loader = torch.utils.data.DataLoader(gaps.as_torch(fill={"int64": 1, "label": -100}), batch_size=4)
    assert [batch["int64"].tolist() for batch in loader] == [[1, 5, 1, 1], [5, 1, 1, 5], [1, 1, 5, 1]]
    assert {int(label) for batch in loader for label in batch["label"]} == {-100}
    with pytest.raises(ValueError, match="fill names 'nothing', but no feature has this name"):
        gaps.as_torch(fill={"nothing": 1})


def test_grain(grain: Any, gaps: Any) -> None:
    """Grain's batches have one dtype."""
    batches = list(grain.MapDataset.source(gaps.as_grain_source()).batch(4))
    assert len({str([batch[name].dtype for name in NUMBERS]) for batch in batches}) == 1
    assert_filled({name: np.concatenate([batch[name] for batch in batches]) for name in (*NUMBERS, "label")})
    assert next(iter(grain.MapDataset.source(gaps.as_grain_source(fill=3)).batch(4)))["int64"].tolist() == [3, 5, 3, 3]


def test_jax(jax: Any, gaps: Any) -> None:
    """JAX keeps 32 bits of a number by default; what stands for a missing one is still no other."""
    batches = [jax.device_put({name: batch[name] for name in (*NUMBERS, "label")}) for batch in gaps.batch(5)]
    assert len({str([batch[name].dtype for name in NUMBERS]) for batch in batches}) == 1
    assert_filled({name: np.concatenate([batch[name] for batch in batches]) for name in (*NUMBERS, "label")})


def test_tf_data(tf: Any, gaps: Any) -> None:
    """Tf.data gets the same values, one by one and in batches, with the element_spec of the features."""
    single, batches = gaps.as_tf_dataset(), gaps.batch(5).as_tf_dataset()
    assert single.element_spec["int64"] == tf.TensorSpec((), tf.int64)
    for made in (single.batch(12), batches.unbatch().batch(12)):
        (batch,) = made.as_numpy_iterator()
        assert_filled(batch)
        assert batch["text"].tolist() == [b"x" if i % 3 == 1 else b"" for i in range(12)]


@pytest.mark.parametrize("way", ["examples", "batches"])
def test_default_integers_are_announced(torch: Any, gaps: Any, caplog: Any, way: str) -> None:
    """A warning names them once; it does not if values are given, or if a function may have replaced them."""
    announced = transforms._warn_of_values

    def warned(dataset: Any, fill: Any = None) -> str:
        announced.cache_clear()
        caplog.clear()
        for _ in range(2):
            if way == "batches":
                dataset.batch(4, fill=fill).as_torch()
            else:
                dataset.as_torch(fill=fill)
        assert caplog.text.count("a model gets these") <= 1
        return str(caplog.text)

    values = "False ('bool'), -2147483648 ('inner.int64'), -2147483648 ('int32'), -2147483648 ('int64'), 255 ('uint8')"
    text = warned(gaps)
    assert f"Where values are missing, a model gets these: {values}. fill={{'bool': True}} of batch()" in text
    assert 'materialize --where "bool IS NOT NULL"' in text
    rest = dict.fromkeys(("inner.int64", "int32", "int64"), 0)
    assert "these: 255 ('uint8'). fill={'uint8': 0}" in warned(gaps, fill={"bool": True, **rest})
    assert "these: False ('bool')." in warned(gaps, fill=0)
    given = {"int64": -(2**31), "int32": 0, "uint8": 255, "bool": False, "inner.int64": 0}
    assert not warned(gaps, fill=given)
    assert not warned(gaps.map(lambda example: example))


def test_default_integers_of_some_features_are_announced(torch: Any, tmp_path: Any, caplog: Any) -> None:
    features = {name: bd.features.Scalar("int64", optional=True) for name in ("age", "size")}
    write_bare(tmp_path / "people.tfrecord", features, [{"age": None, "size": 1}])
    transforms._warn_of_values.cache_clear()
    some = bd.decode.PartialDecoding(["age"])
    bd.builder_from_directory(tmp_path).as_dataset("train", decoders=some).as_torch()
    assert "a model gets these: -2147483648 ('age'). fill={'age': 0}" in caplog.text
