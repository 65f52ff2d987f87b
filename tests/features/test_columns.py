"""Batches decoded by columns: the same as records decoded one by one and stacked, or an error too."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_datasets import features as F
from beam_datasets.errors import FeatureError, FeatureValueError
from beam_datasets.features.columns import compile_batch_decoder
from beam_datasets.features.stacking import stack
from beam_datasets.formats.example import ExampleError, serialize
from tests.strategies import assert_equal, dicts, examples


def collides(feature: Any) -> bool:
    names = feature.wire_names("")
    return len(set(names)) != len(names)


def outcome(function: Any) -> Any:
    """What a function returns, or the error that it raises."""
    try:
        return function()
    except (FeatureError, ExampleError) as error:
        return type(error), str(error)


def assert_same_outcome(feature: Any, records: list[bytes], pad: bool) -> Any:
    decode = F.compile_decoder(feature)
    wanted = outcome(lambda: stack([decode(record) for record in records], pad=pad))
    found = outcome(lambda: compile_batch_decoder(feature, pad=pad)([memoryview(record) for record in records]))
    assert type(found) is type(wanted), (found, wanted)
    if not isinstance(wanted, tuple):  # of two errors it may be the other one
        assert_equal(found, wanted)
        assert_same_dtypes(found, wanted)
    return found


def assert_same_dtypes(got: Any, want: Any) -> None:
    if isinstance(want, dict):
        assert list(got) == list(want)
        for key in want:
            assert_same_dtypes(got[key], want[key])
    elif isinstance(want, np.ndarray):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)


@settings(max_examples=40)
@given(examples(), st.booleans())
def test_same_as_one_by_one(sample: Any, pad: bool) -> None:
    if collides(sample.feature):
        return
    encode = F.compile_encoder(sample.feature)
    assert_same_outcome(sample.feature, list(map(encode, sample.values)), pad)


@settings(max_examples=40)
@given(dicts(2), st.data(), st.booleans())
def test_damaged_records_are_an_error_too(sample: Any, data: Any, pad: bool) -> None:
    if collides(sample.feature):
        return
    records = [bytearray(record) for record in map(F.compile_encoder(sample.feature), sample.values)]
    if not records[0]:
        return
    place = data.draw(st.integers(0, len(records[0]) - 1))
    records[0][place] ^= 1 << data.draw(st.integers(0, 7))
    with contextlib.suppress(MemoryError):
        assert_same_outcome(sample.feature, list(map(bytes, records)), pad)


TABLE = F.FeaturesDict(
    {
        **{f"i{i}": np.int64 for i in range(5)},
        **{f"f{i}": np.float32 for i in range(4)},
        "small": np.int8,
        "flag": np.bool_,
        "text": F.Text(),
        "numbers": F.Sequence(np.int64),
    }
)


def table_row(i: int) -> dict[str, Any]:
    integers = {f"i{k}": (i - 3) * 10 ** (3 * k) for k in range(5)}
    floats = {f"f{k}": np.float32(i) / (k + 1) for k in range(4)}
    return {**integers, **floats, "small": i, "flag": i % 2 == 0, "text": "x" * i, "numbers": range(i)}


def test_tables() -> None:
    records = [F.compile_encoder(TABLE)(table_row(i)) for i in range(20)]
    decode = compile_batch_decoder(TABLE, pad=True)
    single = F.compile_decoder(TABLE)
    wanted = stack([single(record) for record in records], pad=True)
    found = decode(records)
    assert_equal(found, wanted)
    assert_same_dtypes(found, wanted)
    with pytest.raises(FeatureValueError, match=r"small: .* not fit int8"):
        decode([*records, serialize({**lists_of(records[0]), "small": [300]})])
    missing = {name: values for name, values in lists_of(records[0]).items() if name != "f1"}
    with pytest.raises(FeatureValueError, match=r"f1: the record does not have"):
        decode([*records, serialize(missing)])


def lists_of(record: bytes) -> dict[str, Any]:
    from beam_datasets.formats.example import parse

    return dict(parse(record))


def test_values_must_not_wander_from_one_record_to_the_next() -> None:
    feature = F.FeaturesDict({"a": F.Tensor(shape=(2,), dtype=np.int64), "b": F.Tensor(shape=(2,), dtype=np.float32)})
    good = {"a": [1, 2], "b": [1.0, 2.0]}
    for wrong in ({"a": [[1, 2, 3], [4]]}, {"b": [[1.0, 2.0, 3.0], [4.0]]}, {"a": [[1, 2, 3, 4], []]}):
        ((name, values),) = wrong.items()
        records = [serialize({**good, name: value}) for value in values]
        found = assert_same_outcome(feature, records, False)
        assert found[0] is FeatureValueError
    boxed = F.FeaturesDict({"s": F.Sequence(F.Tensor(shape=(2,), dtype=np.int64))})
    found = assert_same_outcome(boxed, [serialize({"s": [1, 2, 3]}), serialize({"s": [4]})], True)
    assert found[0] is FeatureValueError


def test_small_images_at_once() -> None:
    feature = F.FeaturesDict({"image": F.Image(shape=(5, 7, 3))})
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (5, 7, 3), np.uint8) for _ in range(4)]
    records = [F.compile_encoder(feature)({"image": image}) for image in images]
    batch = compile_batch_decoder(feature)(records)
    assert np.array_equal(batch["image"], np.stack(images))
    for place in range(0, len(records[1]), 3):
        damaged = bytearray(records[1])
        damaged[place] ^= 4
        assert_same_outcome(feature, [records[0], bytes(damaged)], False)


def test_no_features_and_partial_decoding() -> None:
    feature = F.FeaturesDict({"a": np.int64, "b": F.Text()})
    records = [serialize({"a": [i], "b": [b"x"]}) for i in range(3)]
    partial = compile_batch_decoder(feature, decoders=F.decode.PartialDecoding(["a"]))
    assert partial(records)["a"].tolist() == [0, 1, 2]
    assert set(partial(records)) == {"a"}
