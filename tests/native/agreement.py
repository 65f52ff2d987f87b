"""Whether records are decoded alike in all ways: by the native module or without, one by one, as a list, as a batch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from beam_datasets import features as F
from beam_datasets.features import columnar, compiler
from beam_datasets.features.stacking import stack
from beam_datasets.formats import columns, example
from tests.strategies import assert_equal


def in_python(make: Callable[[], Any]) -> Any:
    """What a function makes where there is no native module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "core", None)
        patch.setattr(columnar, "_examples", columnar._examples_in_python)
        return make()


def by_connector(feature: Any, record: bytes) -> Any:
    """The example that the connectors make of the lists of a record, without any view."""
    example.parse_spans(record)
    lists = {}
    for name, kind in ((name, kind) for name, kind in feature.lists("") if kind is not None):
        group = columns.FeatureGroup(columns.KINDS[kind], columns.ANY, True, (name.encode(),))
        lists[name] = columnar._split_lists(columns.parse([group], [record])[0], group.kind)[0]
    return feature.decoder("")(lists)


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


def assert_row(by_feature: Any, i: int, example: Any) -> None:
    """Asserts that the values of features, at the place of a record, are its example."""
    if not isinstance(by_feature, dict):
        assert_equal(by_feature[i], example)
        return
    assert list(by_feature) == list(example)
    for key, values in by_feature.items():
        assert_row(values, i, example[key])


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


def assert_agree(feature: Any, records: list[bytes], **options: Any) -> None:
    """Asserts that records are decoded alike in all ways.

    Args:
        feature: what they hold.
        records: at least one.
        **options: of `compile_decoder`.
    """
    top = compiler.select_decoded(feature, **options)
    plain = in_python(lambda: columnar.ColumnarDecoder(top))
    native = columnar.ColumnarDecoder(top)
    wanted = [outcome(lambda record=record: plain.one()(record)) for record in records]
    for record, want in zip(records, wanted):
        for form in (record, bytearray(record), memoryview(record)):
            assert_same_outcome(outcome(lambda form=form: native.one()(form)), want)
        meant = outcome(lambda record=record: by_connector(top, record))
        if isinstance(want, tuple):
            assert meant[0] is want[0]  # the texts may differ
        else:
            assert_equal(want, meant)
    failed = any(isinstance(want, tuple) for want in wanted)
    for decoder in (native, plain):
        found = outcome(lambda decoder=decoder: decoder.examples(list(records)))
        if failed:
            assert isinstance(found, tuple)
        else:
            assert len(found) == len(wanted)
            for each, want in zip(found, wanted):
                assert_equal(each, want)
            assert_own(found)
            by_feature = decoder.columns(list(records))
            for i, want in enumerate(wanted):
                assert_row(by_feature, i, want)
    for pad in (False, True):
        want = outcome(lambda pad=pad: stack(list(map(native.one(), records)), pad=pad))
        for make in (lambda make: make(), in_python):
            decode = make(lambda pad=pad: columnar.ColumnarDecoder(top).of_batches(pad=pad).batch)
            got = outcome(lambda decode=decode: decode(list(records)))
            if isinstance(want, tuple):
                assert got[0] in {want[0], *(each[0] for each in wanted if isinstance(each, tuple))}
            else:
                assert_equal(got, want)
