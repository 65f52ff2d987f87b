"""Numbers and arrays that records contain as their bytes, such as float64: decoded together as they are one by one."""

from typing import Any

import numpy as np
import pytest

from beam_datasets import features as F
from beam_datasets.errors import FeatureValueError
from beam_datasets.features.columnar import ColumnarDecoder
from beam_datasets.features.compiler import select_decoded
from beam_datasets.formats import example

SHAPES: list[tuple[int | None, ...]] = [(), (3,), (2, 2), (None,), (None, 2), (0,)]


def decoder(shape: tuple[int | None, ...], dtype: Any, *, optional: bool = False) -> ColumnarDecoder:
    tensor = F.Tensor(shape=shape, dtype=dtype, encoding="bytes", optional=optional)
    return ColumnarDecoder(select_decoded({"x": tensor}))


def record(value: Any) -> bytes:
    """Returns a record of an array in little-endian bytes, as a foreign writer would compose it; b"" of None."""
    if value is None:
        return example.serialize({})
    array = np.asarray(value)
    return example.serialize({"x": [array.astype(array.dtype.newbyteorder("<")).tobytes()]})


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.uint64, np.int8, np.bool_])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_examples_and_batches_are_the_stored_arrays(shape: tuple[int | None, ...], dtype: Any, count: int) -> None:
    lengths = [4 if length is None else length for length in shape]
    arrays = [np.random.default_rng(i).integers(0, 100, lengths).astype(dtype) for i in range(count)]
    records = list(map(record, arrays))
    decode = decoder(shape, dtype)
    for decoded, array in zip(decode.examples(records), arrays, strict=True):
        value = decoded["x"]
        assert value.dtype == dtype
        assert isinstance(value, np.ndarray if shape else np.generic)
        np.testing.assert_array_equal(value, array)
    batch = decode.of_batches().batch(records)["x"]
    np.testing.assert_array_equal(batch, np.stack(arrays))
    assert batch.dtype == dtype
    assert batch.flags.writeable


def test_arrays_of_examples_share_no_memory() -> None:
    records = [record(np.arange(3.0) + i) for i in range(4)]
    first, *others = (each["x"] for each in decoder((3,), np.float64).examples(records))
    assert not any(np.shares_memory(first, other) for other in others)
    first[:] = -1
    np.testing.assert_array_equal(others[0], [1, 2, 3])


def test_missing_values_stay_none_or_are_replaced_in_batches() -> None:
    values = [1.5, None, 2.5, None]
    records = list(map(record, values))
    decode = decoder((), np.float64, optional=True)
    assert [each["x"] for each in decode.examples(records)] == values
    assert [each["x"] for each in decode.examples(records[1:2])] == [None]
    assert [each["x"] for each in decode.examples([records[1]] * 3)] == [None] * 3
    assert list(decode.of_batches().batch(records)["x"]) == values
    np.testing.assert_array_equal(decode.of_batches().batch(records, {"x": -1.0})["x"], [1.5, -1, 2.5, -1])


def test_arrays_of_different_lengths() -> None:
    arrays = [np.arange(float(i)) for i in (2, 0, 3)]
    decode = decoder((None,), np.float64)
    for decoded, array in zip(decode.examples(list(map(record, arrays))), arrays, strict=True):
        np.testing.assert_array_equal(decoded["x"], array)
    with pytest.raises(FeatureValueError, match="^x: "):
        decode.of_batches().batch(list(map(record, arrays)))
    padded = decode.of_batches(pad=True).batch(list(map(record, arrays)))["x"]
    np.testing.assert_array_equal(padded, [[0, 1, 0], [0, 0, 0], [0, 1, 2]])


@pytest.mark.parametrize("sizes", [[7, 9], [8, 16], [7, 7], [0, 8], [0, 0]], ids=str)
def test_bytes_of_another_size_are_an_error(sizes: list[int]) -> None:
    """Also if all bytes together have the size of the arrays."""
    records = [example.serialize({"x": [b"\0" * size]}) for size in sizes]
    for decode in (decoder((), np.float64).examples, decoder((), np.float64).of_batches().batch):
        with pytest.raises(FeatureValueError, match="^x: "):
            decode(records)


def test_sequences_of_such_numbers() -> None:
    feature = {
        "x": F.Sequence(F.Scalar(np.float64, encoding="bytes")),
        "rows": F.Sequence(F.Tensor(shape=(2,), dtype=np.uint8, encoding="bytes")),
    }
    sample = {"x": [0.1, 0.2, 0.3], "rows": [[1, 2], [3, 4]]}
    decoded = F.compile_decoder(feature)(F.compile_encoder(feature)(sample))
    np.testing.assert_array_equal(decoded["x"], sample["x"])
    np.testing.assert_array_equal(decoded["rows"], sample["rows"])


def test_such_numbers_are_small_of_any_shape() -> None:
    assert all(decoder(shape, np.float64).is_small for shape in SHAPES)
