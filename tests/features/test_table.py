"""Many numbers at once must be the same as one by one."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_datasets import features as F
from beam_datasets.errors import FeatureError, FeatureOverflowError
from beam_datasets.features import table
from beam_datasets.formats import example
from tests.strategies import DTYPES, assert_equal, elements

COLUMNS = {f"{i:02}_{name}": np.dtype(name) for i, name in enumerate([*DTYPES, "int64", "float32"])}
FEATURES = F.FeaturesDict(
    {
        **COLUMNS,
        "07_label": F.ClassLabel(num_classes=300),
        "text": F.Text(),
        "inner": {"a": np.int64, "b": F.Text()},
        "maybe": F.Scalar(np.int16, optional=True),
    }
)
ROWS = st.fixed_dictionaries(
    {
        **{name: elements(dtype) for name, dtype in COLUMNS.items()},
        "07_label": st.integers(-1, 299),
        "text": st.text(),
        "inner": st.fixed_dictionaries({"a": st.integers(-5, 5), "b": st.binary()}),
        "maybe": st.none() | st.integers(-300, 300),
    }
)


def one_by_one(row):
    """The record, by the encoders of the single features."""
    parts = {name: feature.encoder(name)(row[name]) for name, feature in FEATURES.items()}
    return example.record(b"".join(parts[name] for name in sorted(parts)))


def decoded_one_by_one(record):
    return FEATURES.decoder("")(*example.spans_of(record))


@settings(max_examples=25)
@given(st.lists(ROWS, min_size=1, max_size=3))
def test_same_as_one_by_one(rows):
    encode, decode = F.compile_encoder(FEATURES), FEATURES.record_decoder()
    for row in rows * 3:
        as_python = {name: value.item() if isinstance(value, np.generic) else value for name, value in row.items()}
        record = one_by_one(row)
        assert encode(row) == encode(as_python) == record
        assert_equal(decode(record), decoded_one_by_one(record))


def records(count=5):
    encode = F.compile_encoder(FEATURES)
    rng = np.random.default_rng(0)
    for i in range(count):
        numbers = {
            name: dtype.type(rng.integers(0, 2) if dtype.kind == "b" else i * 7 % 100)
            for name, dtype in COLUMNS.items()
        }
        yield encode({**numbers, "07_label": i, "text": str(i), "inner": {"a": i, "b": b"x" * 200}, "maybe": 5})


def reordered(record, order):
    spans = example.scan(record)
    names = sorted(spans, key=lambda name: (hash((order, name)), name))
    return example.record(b"".join(example.entry(name, record[slice(*spans[name])]) for name in names))


def test_orders_are_learned_up_to_a_number_and_all_are_read():
    decode = FEATURES.record_decoder()
    assert isinstance(decode, table.TableDecoder)
    for order in range(8):
        for record in records():
            assert_equal(decode(reordered(record, order)), decoded_one_by_one(record))
    assert len(decode.layouts) == table._MAX_LAYOUTS
    assert len({layout.order for layout in decode.layouts}) == table._MAX_LAYOUTS


def test_changing_orders_are_not_learned():
    decode = FEATURES.record_decoder()
    (record,) = records(1)
    for order in range(20):
        decode(reordered(record, order))
    assert decode.layouts == []


def test_damaged_records_are_read_as_one_by_one():
    decode = FEATURES.record_decoder()
    (record,) = records(1)
    decode(record)
    decode(record)
    assert decode.layouts
    outcomes = {"same": 0, "refused": 0}
    for place in range(len(record)):
        for damaged in (record[:place], record[:place] + bytes([record[place] ^ 1]) + record[place + 1 :]):
            try:
                expected = decoded_one_by_one(damaged)
            except (FeatureError, example.ExampleError) as error:
                with pytest.raises(type(error)):
                    decode(damaged)
                outcomes["refused"] += 1
            else:
                assert_equal(decode(damaged), expected)
                outcomes["same"] += 1
    assert min(outcomes.values()) > 50


@pytest.mark.parametrize(
    "name, value",
    [
        ("04_int64", 12.0),
        ("10_float32", Decimal("1.5")),
        ("11_float64", -math.inf),
        ("11_float64", math.nan),
        ("00_bool", 1),
        ("07_label", "4"),
    ],
)
def test_unusual_values_are_what_they_are_one_by_one(name, value):
    row = {**{key: dtype.type(1) for key, dtype in COLUMNS.items()}, "07_label": 1, "text": "", "maybe": None}
    row = {**row, "inner": {"a": 1, "b": ""}, name: value}
    assert F.compile_encoder(FEATURES)(row) == one_by_one(row)


def test_the_error_names_the_number():
    row = {**dict.fromkeys(COLUMNS, 1), "07_label": 1, "text": "", "maybe": None, "inner": {"a": 1, "b": ""}}
    with pytest.raises(FeatureOverflowError, match=r"^11_float64: 1e\+300 does not fit float32"):
        F.compile_encoder(FEATURES)({**row, "11_float64": 1e300})
    with pytest.raises(FeatureOverflowError, match=r"^05_uint8: 256 does not fit uint8, which holds 0 to 255$"):
        F.compile_encoder(FEATURES)({**row, "05_uint8": 256})
    wide = F.FeaturesDict(dict.fromkeys(COLUMNS, np.int64))
    narrow = F.FeaturesDict({**dict.fromkeys(COLUMNS, np.int64), "03_int32": np.int8})
    record = F.compile_encoder(wide)(dict.fromkeys(COLUMNS, 300))
    decode = narrow.record_decoder()
    for _ in range(4):
        with pytest.raises(ValueError, match=r"^03_int32: the record has 300, which does not fit int8$"):
            decode(record)


def test_few_numbers_are_not_worth_it():
    assert not isinstance(F.FeaturesDict({"a": np.int64, "b": np.float32}).record_decoder(), table.TableDecoder)
