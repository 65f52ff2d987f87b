"""A value that a feature cannot store exactly is an error, for every connector and every kind of input."""

import contextlib
import datetime
import itertools
import math
import pickle
import re
import types
from decimal import Decimal
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from beam_datasets import features as F
from beam_datasets.errors import FeatureError, FeatureOverflowError, FeatureTypeError, FeatureValueError
from beam_datasets.features import native_encoding
from tests.cases import cases
from tests.facts import raises_with
from tests.native.values import arrays, lists
from tests.strategies import DTYPES

NUMERIC = {
    **{dtype: np.dtype(dtype) for dtype in DTYPES},
    **{f"bytes_{dtype}": F.Scalar(dtype, encoding="bytes") for dtype in (*DTYPES, "bfloat16")},
    "zlib": F.Scalar(np.float32, encoding="zlib"),
    "optional": F.Scalar(np.float32, optional=True),
    "bounded": F.Scalar(np.int64, minimum=-1000, maximum=1000),
    "label": F.ClassLabel(num_classes=300),
}


MADE: dict[int, Any] = {}


def encoders(feature: Any) -> list[Any]:
    """As `make_encoders`, once for each feature. (Features with and without `allow_rounding` are equal.)"""
    if id(feature) not in MADE:
        MADE[id(feature)] = feature, make_encoders(feature)
    return MADE[id(feature)][1]


def make_encoders(feature: Any) -> list[Any]:
    """Encoders of the feature `x`: with the native module and without it; of a number also among many others."""
    others = (
        {} if isinstance(feature, F.Sequence) or getattr(feature, "shape", ()) else {f"a{i}": feature for i in range(8)}
    )
    native = [F.compile_encoder({"x": feature} | more) for more in ({}, others)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_encoding, "core", None)
        python = [F.compile_encoder({"x": feature} | more) for more in ({}, others)]
    zeros = dict.fromkeys(others, 0)
    return [
        lambda value, encode=encode, more=more: encode({"x": value} | more)
        for encode, more in zip(native + python, ({}, zeros) * 2)
    ]


def decode(feature: Any, record: bytes) -> Any:
    return F.compile_decoder({"x": feature})(record)["x"]


def exact(value: Any) -> Any:
    """A number that compares exactly; NaN and infinities as floats."""
    if isinstance(value, (np.bool_, np.integer)) and not isinstance(value, np.timedelta64):
        return int(value)
    if isinstance(value, (np.floating, ml_dtypes.bfloat16)):
        value = value if isinstance(value, np.longdouble) and np.finfo(np.longdouble).bits > 64 else float(value)
    if isinstance(value, np.longdouble):
        if not np.isfinite(value):
            return float(value)
        return Fraction(*map(int, value.as_integer_ratio()))
    if isinstance(value, (float, Decimal)) and not math.isfinite(value):
        return float(value)
    return Fraction(value)


def same(got: Any, value: Any) -> bool:
    got, value = exact(got), exact(value)
    return got == value or (got != got and value != value)


def check(feature: Any, value: Any, equal: Any = same) -> str:
    """Asserts that a value is stored exactly or refused, alike by all encoders; returns which."""
    outcomes = set()
    for encode in encoders(feature):
        try:
            record = encode(value)
        except FeatureError as error:
            outcomes.add(str(error) if str(error).startswith("x: ") else f"without a path: {error}")
        else:
            assert equal(decode(feature, record), value), (feature, value)
            outcomes.add("stored")
    assert len(outcomes) == 1, outcomes
    assert "without a path" not in str(outcomes)
    return outcomes.pop()


POOL = [
    *(2**n + more for n in (7, 8, 15, 16, 24, 31, 32, 53, 63, 64, 200) for more in (-1, 0, 1)),
    *(-(2**n) - more for n in (7, 15, 24, 31, 53, 63) for more in (-1, 0, 1)),
    *(0, 1, -1, True, False, 0.0, -0.0, 0.1, 0.5, 1.0, 1.7, -2.5, 65504.0, 65505.0, 123456.789012, 1e300, 5e-324),
    *(float("inf"), float("-inf"), float("nan"), 3.5e38, 2.0**24 + 1, 2.0**63, -(2.0**63), 2.0**64),
    *map(Decimal, ("0.1", "0.5", "7", "NaN", "Infinity", "1e400", "-1e-400", "16777217", "9007199254740993")),
    *(Fraction(1, 3), Fraction(1, 2), Fraction(7), Fraction(2**53 + 1), Fraction(10**400)),
    *(np.float64(123456.789012), np.float64(0.5), np.float32(0.1), np.float16(0.1), np.longdouble("0.1")),
    *(np.longdouble(2**63) + 1, ml_dtypes.bfloat16(0.1), np.bool_(True), np.uint64(2**64 - 1), np.int64(2**53 + 1)),
    *(np.int8(-5), np.uint8(200), np.longlong(5), np.float32(2**24), np.float64("nan")),
]


@pytest.mark.parametrize("name", NUMERIC)
def test_every_number_is_stored_exactly_or_refused(name: str) -> None:
    """Every scalar feature stores a number that equals the given one, or refuses it."""
    outcomes = [check(NUMERIC[name], value) for value in POOL]
    assert outcomes.count("stored") >= 7
    assert len(set(outcomes)) >= 10


@pytest.mark.parametrize("name", NUMERIC)
def test_anything_else_is_refused(name: str) -> None:
    """Text, bytes, dates, complex numbers, None and masked items are not numbers, whatever NumPy makes of them."""
    others: list[Any] = [
        "12",
        b"12",
        "nan",
        "",
        1j,
        np.complex64(1),
        1 + 0j,
        datetime.date(2020, 1, 1),
        object(),
        {},
        set(),
    ]
    others += [
        np.datetime64("2020"),
        np.timedelta64(5, "s"),
        np.datetime64("nat"),
        np.ma.masked,
        int,
        Ellipsis,
        np.void(b"a"),
    ]
    others += [Decimal("sNaN"), [1, 2], [], "\ud800", np.str_("5"), np.bytes_(b"5")]
    if name == "label":  # the names of classes without names are their indices
        others = [value for value in others if not isinstance(value, (str, bytes)) or len(value) not in (1, 2)]
    for value in others:
        assert check_refused(NUMERIC[name], value)


def check_refused(feature: Any, value: Any) -> str:
    messages = set()
    for encode in encoders(feature):
        with raises_with(FeatureError, feature="x") as raised:
            encode(value)
        messages.add(str(raised.value))
    assert len(messages) == 1
    return messages.pop()


@cases(150)
@given(
    st.sampled_from(sorted(NUMERIC)),
    st.integers(-(2**70), 2**70) | st.floats() | st.decimals() | st.fractions() | st.booleans() | st.floats(width=16),
)
def test_any_number(name: str, value: Any) -> None:
    """A number of Python is stored exactly or refused."""
    if isinstance(value, Decimal) and value.is_snan():
        return
    check(NUMERIC[name], value)


MANY = {
    f"{kind}_{dtype}": make(np.dtype(dtype))
    for dtype in DTYPES
    for kind, make in {
        "sequence": F.Sequence,
        "vector": lambda dtype: F.Tensor(shape=(None,), dtype=dtype),
        "bytes": lambda dtype: F.Tensor(shape=(None,), dtype=dtype, encoding="bytes"),
        "zlib": lambda dtype: F.Tensor(shape=(3,), dtype=dtype, encoding="zlib"),
        "dataset": F.Dataset,
    }.items()
} | {
    "labels": F.Sequence(F.ClassLabel(num_classes=300)),
    "bfloat16": F.Tensor(shape=(3,), dtype="bfloat16", encoding="zlib"),
}


def all_same(got: Any, value: Any) -> bool:
    """Whether all numbers in nested lists and arrays are the same."""
    if not isinstance(value, (list, tuple, np.ndarray)):
        return same(got, value)
    return len(got) == len(value) and all(map(all_same, got, value))


NUMBERS = st.integers(-(2**70), 2**70) | st.integers(-3, 300) | st.floats(width=32) | st.sampled_from(POOL)
ANY_ARRAYS = st.sampled_from([*DTYPES, "longdouble"]).flatmap(lambda dtype: st_numpy.arrays(dtype, 3))


@cases(400)
@given(st.sampled_from(sorted(MANY)), st.lists(NUMBERS, min_size=3, max_size=3) | ANY_ARRAYS)
def test_any_list_or_array(name: str, value: Any) -> None:
    """One inexact item refuses a list or an array, also where NumPy would make floats of the integers beside it."""
    check(MANY[name], value, all_same)


@pytest.mark.parametrize("name", MANY)
@pytest.mark.slow
def test_lists_and_arrays(name: str) -> None:
    """Lists and arrays of all dtypes are stored exactly or refused, those with text, dates and masks too."""
    for value in itertools.chain(lists(), arrays()):
        usable = (
            isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and not isinstance(value, np.ma.MaskedArray)
        )
        with contextlib.suppress(KeyError):  # of a value that raises it itself
            check(MANY[name], value, all_same if usable else lambda got, value: True)
    masked = np.ma.masked_array(np.zeros(3), [False, True, False])
    for dtype in DTYPES:
        for value in (masked.astype(dtype), list(masked.astype(dtype)), [masked.astype(dtype)], [0, np.ma.masked, 0]):
            assert check(MANY[name], value) != "stored"
    if name.startswith(("sequence", "vector")):
        assert check(MANY[name], np.ma.masked_array([0, 1, 0], [False] * 3, MANY[name].dtype), all_same) == "stored"


MASKED = np.ma.masked_array([1, 2, 3], [False, True, False])
RAGGED = F.Sequence(F.Sequence(np.int64))
BOX = F.BBoxFeature(bbox_format="XYXY")


@pytest.mark.parametrize(
    "feature, value, message",
    [
        (RAGGED, [MASKED, MASKED], "masked items"),
        (RAGGED, [MASKED, np.array([1])], "masked items"),
        (RAGGED, np.ma.masked_array([[1, 2]], [[False, True]]), "masked items"),
        (F.Sequence({"y": F.Sequence(np.int64)}), [{"y": MASKED}], "masked items"),
        (F.Sequence(F.Sequence(F.Text())), [np.ma.masked_array(["a"], [True])], "masked items"),
        (F.Text(), np.ma.masked_array("a", True), "masked items"),
        (F.Sequence({"y": F.Text()}), {"y": "abc"}, "must have lists as values"),
        (F.Sequence({"y": np.int64}), {"y": b"abc"}, "must have lists as values"),
        (F.Sequence({"y": np.int64}), {"y": {1, 2}}, "must have lists as values"),
        (F.Sequence(F.Text()), {"a", "b"}, "expected a sequence, got set"),
        (F.Dataset(F.Text()), types.MappingProxyType({"a": 1}), "expected a sequence, got mappingproxy"),
        (BOX, b"abcd", "b'abcd' is not a box"),
        (BOX, {1: 2, 3: 4, 5: 6, 7: 8}, "is not a box"),
        (BOX, {1, 2, 3, 4}, "is not a box"),
        (F.TranslationVariableLanguages(), {"de": {"a": 1}}, "expected texts, got dict"),
        (F.TranslationVariableLanguages(), {"de": None}, "expected texts, got NoneType: None"),
        (F.TranslationVariableLanguages(), {"de": ["a", 5]}, "5 is int; expected str or bytes"),
        (F.TranslationVariableLanguages(), {"de": "a", 5: "b"}, "5 is int; expected str or bytes"),
        (F.TranslationVariableLanguages(["de"]), {"fr": "a", 5: "b"}, "expected languages of ['de'], got ['fr', 5]"),
    ],
)
def test_items_that_iteration_would_make_up(feature: Any, value: Any, message: str) -> None:
    """Values below a mask, letters, bytes, keys of dicts, and a set in some order are not the items of a value."""
    with raises_with(FeatureError, feature=re.compile(r"^x(\.y)?$")) as raised:
        F.compile_encoder({"x": feature})({"x": value})
    assert message in str(raised.value)


def test_texts_and_bytes_in_one_language() -> None:
    """Both are texts, also together."""
    feature = F.TranslationVariableLanguages()
    stored = F.compile_encoder({"x": feature})({"x": {b"de": ["b", b"a"], "en": b"c"}})
    assert decode(feature, stored)["translation"].tolist() == [b"a", b"b", b"c"]


@pytest.mark.slow
def test_large_arrays_are_checked_whole() -> None:
    """One inexact number among many is found, and the error says where."""
    doubles = np.random.default_rng(0).random(100_000, np.float32).astype(np.float64)
    for feature in (F.Sequence(np.float32), F.Tensor(shape=(None,), dtype=np.float64), F.Sequence(np.float64)):
        assert check(feature, doubles, lambda got, value: np.array_equal(got, value)) == "stored"
        wrong = doubles.copy()
        wrong[76_543] = 0.1
        message = check(feature, wrong)
        assert "got 0.1" in message
        assert "76543" in message
        assert "would be stored as 0.10000000149011612" in message


FLOAT32, TENTH = "expected a number that float32 holds, got", "0.10000000149011612"
WIDER = "Pass a value of the dtype, or give the feature allow_rounding=True or a wider dtype if it can have one"
BYTES = "Give the feature encoding='bytes', which keeps all bits, or allow_rounding=True"


@pytest.mark.parametrize(
    "feature, value, message",
    [
        (np.float32, np.float64(123456.789012), f"{FLOAT32} 123456.789012, which would be stored as 123456.7890625. {WIDER}"),  # noqa: E501
        (np.float32, 16777217, "got 16777217, which would be stored as 16777216.0"),
        (np.float16, 0.1, "got 0.1, which would be stored as 0.0999755859375"),
        (np.float64, 0.1, f"float32, as which it is stored, holds, got 0.1, which would be stored as {TENTH}. {BYTES}"),
        (F.Scalar("float64", encoding="bytes"), 2**53 + 1, f"got {2**53 + 1}, which would be stored as {float(2**53)}"),
        (np.float32, 1e300, "1e+300 does not fit float32, where"),
        (F.Scalar(np.float16, encoding="bytes"), 10**400, "does not fit float16"),
        (F.Sequence(np.float16), np.array([0.5, 1e9]), "item 1: 1000000000.0 does not fit float16"),
        (F.BBoxFeature(bbox_format=None), [0.0, 1.0, 2.0, 1e300], "1e+300 does not fit float32"),
        (np.int64, 1.7, "an integer, got 1.7, which would be stored as 1. Round it first, or use a float dtype"),
        (np.int64, Decimal("1.7"), "expected an integer, got Decimal('1.7'), which would be stored as 1"),
        (np.uint8, 300, "300 does not fit uint8, which holds 0 to 255"),
        (np.uint16, -1, "-1 does not fit uint16, which holds 0 to 65535"),
        (np.int64, 2**63, "9223372036854775808 does not fit int64"),
        (np.bool_, 2, "expected a bool (or 0 or 1), got 2, which would be stored as True"),
        (F.ClassLabel(num_classes=5), 1.7, "expected an integer, got 1.7, which would be stored as 1"),
        (F.ClassLabel(num_classes=5), np.float64(1.7), "expected an integer, got 1.7, which would be stored as 1"),
        (F.ClassLabel(num_classes=5), float("nan"), "a NaN or infinity cannot be converted to int64"),
        (F.ClassLabel(num_classes=5), 5, "label 5 is outside [-1, 5)"),
        (F.ClassLabel(names=["a", "\ufffd"]), b"\xff", "b'\\xff' is not UTF-8, so it is not a class name"),
        (F.ClassLabel(num_classes=50), "1_0", "'1_0' is not the index of a class"),
        (F.Sequence(np.float32), [0.5, 0.1], f"item 1: {FLOAT32} 0.1, which would be"),
        (F.Tensor(shape=(2, 2), dtype=np.float32), [[1, 2], [3, 0.1]], "got 0.1 at index (1, 1), which would be"),
        (F.Sequence({"y": F.Sequence(np.int8)}), [{"y": [1]}, {"y": [1, 2.5]}], "item 2: expected an integer, got 2.5"),
        (F.BBoxFeature(), F.BBox(0.0, 0.25, 0.5, 0.6), "got 0.6 at index (3,), which would be stored as 0.6000000238"),
        (F.Audio(dtype=np.float32), [0.5, 0.1], f"got 0.1 at index (1,), which would be stored as {TENTH}"),
        (F.Audio(dtype=np.int16), [1, 2.5], "an integer, got 2.5 at index (1,), which would be stored as 2"),
        (F.Text(), 5, "5 is int; expected str or bytes"),
        (F.Text(), "\ud800", "the text is not valid Unicode"),
        (F.Tensor(shape=(2,), dtype=np.str_), ["a", float("nan")], "nan is float; expected str or bytes"),
        (F.Image(shape=(1, 1, 1)), np.ma.masked_array(np.zeros((1, 1, 1), np.uint8), True), "an array without masked"),
        (F.Tensor(shape=(None, None), dtype=np.float32, encoding="zlib"), [[0.5], [0.1]], "got 0.1 at index (1, 0), "),
    ],
)  # fmt: skip
def test_messages(feature: Any, value: Any, message: str) -> None:
    """The error names the feature by its path, the value, what would be stored, and what to do."""
    found = []
    for native in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native_encoding, "core", native_encoding.core if native else None)
            encode = F.compile_encoder({"deep": {"x": feature}})
        with pytest.raises(FeatureError) as raised:
            encode({"deep": {"x": value}})
        found.append(str(raised.value))
    assert found[0] == found[1]
    assert re.match(r"deep\.x(\.y)?: ", found[0])
    assert message in found[0]


ROUNDED = {
    "float32": (F.Scalar("float32", allow_rounding=True), np.float32),
    "float64": (F.Scalar("float64", allow_rounding=True), np.float32),
    "float16": (F.Scalar("float16", allow_rounding=True), np.float16),
    "bytes": (F.Scalar("float32", encoding="bytes", allow_rounding=True), np.float32),
    "bfloat16": (F.Scalar("bfloat16", encoding="zlib", allow_rounding=True), ml_dtypes.bfloat16),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_rounding(name: str) -> None:
    """Allow_rounding=True stores the nearest float, and still refuses what would become an infinity."""
    feature, dtype = ROUNDED[name]
    vector = F.Tensor(shape=(2,), dtype=feature.dtype, encoding=feature.encoding, allow_rounding=True)
    sequence = F.Sequence(feature)
    for value in (
        0.1,
        123.456,
        np.float64(1 / 3),
        np.float32(0.1),
        Decimal("0.1"),
        Fraction(1, 3),
        257,
        2049,
        5e-324,
        np.nan,
    ):
        want = dtype(float(value))
        assert check(feature, value, lambda got, value, want=want: same(got, want)) == "stored"
        for many, items in ((vector, [value, 0]), (sequence, [value, 0]), (vector, np.array([value, 0], np.float64))):
            wanted = [want, dtype(0)]
            assert check(many, items, lambda got, value, wanted=wanted: all(map(same, got, wanted))) == "stored"
    for value in (1e300, Decimal("1e400"), 10**400, -1e300):
        for encode in encoders(feature):
            with raises_with(FeatureOverflowError, feature="x"):
                encode(value)
        with raises_with(FeatureOverflowError, feature="x"):
            F.compile_encoder({"x": sequence})({"x": [0.5, value]})
    for value in ("0.1", 1j, None, np.datetime64("2020")):
        check_refused(feature, value)


def test_rounding_of_boxes_and_sound() -> None:
    """Boxes and samples of sound have the option too."""
    box = F.BBoxFeature(allow_rounding=True)
    assert (
        check(box, F.BBox(0.1, 0.2, 0.3, 0.4), lambda got, value: np.array_equal(got, np.array(value, np.float32)))
        == "stored"
    )
    sound = F.Audio(dtype=np.float32, allow_rounding=True)
    assert check(sound, [0.1, 0.2], lambda got, value: np.array_equal(got, np.array(value, np.float32))) == "stored"


def test_the_option_is_a_matter_of_encoding() -> None:
    """Allow_rounding is for floats; it is not in features.json, and features with and without it are equal."""
    for make in (
        lambda flag: F.Scalar("float32", allow_rounding=flag),
        lambda flag: F.Tensor(shape=(2,), dtype="float64", allow_rounding=flag),
        lambda flag: F.BBoxFeature(allow_rounding=flag),
        lambda flag: F.Audio(dtype="float32", allow_rounding=flag),
    ):
        assert make(True) == make(False) == make(1)
        assert make(True).to_json() == make(False).to_json()
        assert pickle.loads(pickle.dumps(make(True))).allow_rounding is True
        with pytest.raises(TypeError, match="allow_rounding must be True or False, not 'no'"):
            make("no")
    for wrong in (lambda: F.Scalar("int64", allow_rounding=True), lambda: F.Audio(allow_rounding=True)):
        with pytest.raises(
            ValueError, match="allow_rounding=True is for floats, not for int64. Round the values first"
        ):
            wrong()


@pytest.mark.parametrize("value", [0.1, np.float64(0.1), [0.1], np.array([0.1])])
def test_exact_numbers_of_other_libraries(value: Any) -> None:
    """What pandas and Arrow lack is not a NaN, and their numbers are compared as all others are."""
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    feature = F.Sequence(np.float32)
    for lacks in (
        [1.0, pandas.NA], [arrow.scalar(None)], arrow.array([1, None]), pandas.Series([1, None], dtype="Int64"),
        arrow.array([2, None]), [pandas.NaT], pandas.Series(pandas.to_datetime(["2020"])), [arrow.scalar('a')],
    ):  # fmt: skip
        with raises_with(FeatureTypeError, feature="x"):
            F.compile_encoder({"x": feature})({"x": lacks})
    for good in (pandas.Series([0.5, 1.0]), arrow.array([0.5, 1.0]), pandas.Series([1, 2], dtype="Int64"), range(2)):
        assert decode(feature, F.compile_encoder({"x": feature})({"x": good})).tolist() == list(
            map(float, np.asarray(good))
        )
    with pytest.raises(FeatureValueError, match="^x: item 0: .* got 0.1, which would be stored as"):
        F.compile_encoder({"x": feature})({"x": pandas.Series(np.ravel(value))})


def test_a_label_without_classes_takes_no_index():
    """Its bound is below 0, which the native module took for the greatest number."""
    encode = F.compile_encoder(F.FeaturesDict({"label": F.ClassLabel(num_classes=0)}))
    for value in (0, 5, 2**40):
        with pytest.raises(FeatureValueError, match=r"label: label \d+ is outside \[-1, 0\), for 0 classes"):
            encode({"label": value})
    assert encode({"label": -1})
