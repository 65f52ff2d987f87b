"""Whether records are decoded alike with the native module and without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from beam_datasets import features as F
from beam_datasets.features import columns, compiler
from beam_datasets.features.at_once import AtOnce
from beam_datasets.features.columns import compile_batch_decoder
from tests.strategies import assert_equal

if TYPE_CHECKING:
    from collections.abc import Callable


def in_python(make: Callable[[], Any]) -> Any:
    """What a function makes where there is no native module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "core", None)
        patch.setattr(columns, "core", None)
        return make()


def outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        return type(error), str(error)


def assert_same_outcome(got: Any, want: Any) -> None:
    if isinstance(want, tuple):
        assert got == want
    else:
        assert_equal(got, want)


def arrays_of(value: Any) -> list[np.ndarray]:
    if isinstance(value, dict):
        return [array for item in value.values() for array in arrays_of(item)]
    if isinstance(value, F.RaggedArray):
        return [array for part in (value.flat_values, *value.row_lengths) for array in arrays_of(part)]
    return [value] if isinstance(value, np.ndarray) else []


def memory_of(array: np.ndarray) -> int:
    """Bytes that an array keeps in memory."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    base = array.base
    return array.nbytes if base is None else memoryview(base).nbytes


def assert_own(decoded: list[Any]) -> None:
    """Each array may be written to, and keeps nothing of the others in memory."""
    for value in decoded:
        for array in arrays_of(value):
            assert array.dtype == object or memory_of(array) <= array.nbytes
            assert array.flags.c_contiguous


def assert_agree(feature: Any, records: list[bytes], *, usual: bool = True, **options: Any) -> None:
    """Asserts that records are decoded alike one by one, as a block, and as batches.

    Args:
        feature: what they hold.
        records: at least one.
        usual: whether the native module itself must be able to decode them.
        **options: of `compile_decoder`.
    """
    decode = in_python(lambda: F.compile_decoder(feature, **options))
    wanted = [outcome(lambda record=record: decode(record)) for record in records]
    native = F.compile_decoder(feature, **options)
    for record, want in zip(records, wanted):
        for form in (record, bytearray(record), memoryview(record)):
            assert_same_outcome(outcome(lambda form=form: native(form)), want)
    at_once = AtOnce(compiler.chosen(feature, **options))
    for some in (records, records[:1]):
        found = at_once(list(some))
        assert found is not None or not usual
        if found is not None:
            assert len(found) == len(some)
            for got, want in zip(found, wanted):
                assert_same_outcome(got, want)
            assert_own(found)
    if "partial" not in options:
        assert_batches_agree(feature, records, options)


def assert_batches_agree(feature: Any, records: list[bytes], options: dict[str, Any]) -> None:
    for pad in (False, True):
        want = outcome(lambda pad=pad: in_python(lambda: compile_batch_decoder(feature, pad=pad, **options))(records))
        got = outcome(lambda pad=pad: compile_batch_decoder(feature, pad=pad, **options)(list(records)))
        assert_same_outcome(got, want)
