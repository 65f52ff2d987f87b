"""Values of all kinds, usual and odd, that somebody may give for a feature."""

import array
import datetime
import decimal
import fractions
from typing import Any

import ml_dtypes
import numpy as np

from beam_datasets import features as F
from tests.strategies import DTYPES


class Text(str):
    """A str that says other things of itself."""

    def encode(self, *_: Any) -> bytes:
        return b"mine"


class Octets(bytes):
    pass


class Whole(int):
    def __index__(self) -> int:
        return 7


class Real(float):
    def __float__(self) -> float:
        return 0.5


class Truth(list):
    def __iter__(self) -> Any:
        return iter([1, 2, 3])

    def __len__(self) -> int:
        return 3


class Once:
    """Items that can be had once."""

    def __init__(self, items: list[Any]) -> None:
        self._items = iter(items)

    def __iter__(self) -> Any:
        return self._items

    def __repr__(self) -> str:
        return "Once"


class Masked(np.ndarray):
    pass


class Index:
    def __index__(self) -> int:
        return 5


class Raises:
    def __index__(self) -> int:
        raise KeyError("index")

    __array__ = __float__ = __iter__ = __bool__ = __index__  # type: ignore[assignment]


class AsArray:
    def __array__(self, *_: Any, **__: Any) -> Any:
        return np.array([1, 2, 3])


def scalars() -> list[Any]:
    values: list[Any] = [None, True, False, Index(), Raises(), Whole(3), Real(3.0), Ellipsis, int, object()]
    for n in (0, 1, 7, 63, 64, 127, 128, 300, 2**14, 2**21 - 1, 2**28, 2**31, 2**32, 2**35, 2**49, 2**56, 2**63, 2**64):
        values += [n - 1, n, -n]
    values += [2**200, -(2**200)]
    values += [0.0, -0.0, 0.1, 1.5, -3.0, 1e38, 3.4028235677973366e38, 3.5e38, -1e300, 1e-46, 5e-324]
    values += [float("inf"), float("-inf"), float("nan"), -float("nan"), 2 + 1j]
    values += [decimal.Decimal("1.5"), fractions.Fraction(1, 3), datetime.date(2020, 1, 1), np.datetime64("2020")]
    for dtype in (*DTYPES, "longlong", "ulonglong", "longdouble", "complex64", "timedelta64[s]"):
        values += [np.dtype(dtype).type(n) for n in (0, 1, 100)]
        values += [np.zeros((), dtype), np.ones((), np.dtype(dtype).newbyteorder())]
    values += [np.uint64(2**64 - 1), np.int64(-(2**63)), np.float32("nan"), np.float64("inf"), np.float64(1e300)]
    values += [np.array([0x7FA00000], np.uint32).view(np.float32)[0], ml_dtypes.bfloat16(1), np.void(b"abc")]
    values += ["", "a", "b", "1", "é€𝄞", "\0", "x" * 200, "\ud800", "a\udfff", Text("a"), np.str_("a"), "12", "nan"]
    values += [b"", b"a", b"\xff", b"y" * 20_000, Octets(b"a"), np.bytes_(b"a\0"), bytearray(b"ab"), memoryview(b"ab")]
    return values


def lists() -> list[Any]:
    values: list[Any] = [[], (), [[]], [None], [1], [1, 2, 3], (1, 2, 3), [1, 2, 2**40], [2**63, 1, 2], [2**64, 1, 2]]
    values += [[2**63 + 1, 0, 2**64 - 1], [[2**63 + 1, 0, 1]], [np.uint64(2**63 + 1), 0, 1], [2**63 + 1, 0.5, 1]]
    values += [[2**63, -1, 0], [-1, 0, 2], [0, 1, 3], [1, 2.0, 3], [1, None, 3], [True, False, True], [1, True, 0]]
    values += [[0.5, 1.5, -0.0], [1e39, float("nan"), -1e300], [1.0, 2, 3], [np.float64(1), 2.0, 3.0], [Real(1)] * 3]
    values += [
        ["a", "b", "c"],
        ["a", b"\xff", ""],
        ["\ud800"] * 3,
        [Text("a")] * 3,
        ["1", "2", "3"],
        [b"a", b"b", b"c"],
    ]
    values += [
        [b"a", b"b", b"c"],
        [[1, 2, 3]],
        [[1, 2, 3], [4, 5, 6]],
        [[1], [2, 3]],
        [[], []],
        [np.int64(1), np.int64(2), np.int64(3)],
    ]
    values += [Truth([1]), range(3), {1, 2, 3}, frozenset(), {"a": [1]}, {"a": 1}, [{"a": 1}], "abc", b"abc"]
    values += [array.array("q", [1, 2, 3]), memoryview(np.arange(3)), AsArray(), [AsArray()], [Raises()] * 3]
    values += [[np.arange(3), np.arange(3)], [np.arange(3.0)], [np.ones((1, 3), np.int64)], [1.0, 2.0, 3.0, 4.0]]
    values += [{"inner": 1, "other": "x"}, {"inner": 1}, {"inner": 2**70, "other": "x"}, {"other": "x", "inner": "a"}]
    values += [F.BBox(0.0, 0.1, 0.5, 1.0), F.BBox(0.0, 0.25, 0.5, 1.0), [F.BBox(0.0, 0.0, 1.0, 1.0)] * 2, {}, ["a"]]
    values += [[[1, -2], [3, 2**60]], [[7]], [np.array([1, 5], np.int32)] * 2, [np.zeros((2, 3, 1), np.uint8)] * 3]
    values += [{"de": "ja", "en": b"yes"}, {"a": 1, "b": {"c": "c", "d": 0.5}}, [{"a": 1}, {"a": -2}], [[1], [], [2]]]
    return values


def arrays() -> list[Any]:
    values: list[Any] = [np.array([b"a", "b", None], object), np.array(["a", "bc", ""]), np.array([b"a", b"bc", b""])]
    values += [np.array([[1], [2, 3]], object), np.array([1, 2, 3], object), np.array([], object), np.arange(3) * 1j]
    values += [np.array(["2020", "2021", "nat"], "datetime64[D]"), np.zeros(3, "i4,f8"), np.rec.array([(1, 2.0)] * 3)]
    values += [np.array([2, 0, 255], np.uint8).view(np.bool_), np.array([5, 0, 2**63], np.uint64)]
    values += [np.array([float("nan"), 1e300, -0.0]), np.array([0x7FA00000] * 3, np.uint32).view(np.float32)]
    values += [np.array([0x7FF4_0000_0000_0001] * 3, np.uint64).view(np.float64)]
    values += [np.arange(6).reshape(2, 3, 1).astype(dtype) for dtype in (np.uint8, np.uint16, np.float32)]
    for dtype in (*DTYPES, "longlong", ml_dtypes.bfloat16):
        plain = np.arange(12).astype(dtype)
        frozen = plain[:3].copy()
        frozen.flags.writeable = False
        unaligned = np.frombuffer(b"\0" + plain[:3].tobytes(), np.uint8)[1:].view(dtype)
        values += [plain[:3], plain[:0], plain[3::-1][:3], plain[::4], frozen, unaligned, plain[:3].view(Masked)]
        values += [
            plain[:3].astype(np.dtype(dtype).newbyteorder()),
            np.ma.masked_array(plain[:3], [True, False, False]),
        ]
        values += [plain[:6].reshape(2, 3), plain[:6].reshape(3, 2).T, plain[:3].reshape(1, 1, 3), plain[:4, None]]
        values += [plain[:1].reshape((1,) * 9), np.empty((0, 3), dtype), np.broadcast_to(plain[:1], 3)]
    return values


FEATURES: dict[str, Any] = {
    **{dtype: np.dtype(dtype) for dtype in DTYPES},
    "bfloat16": F.Tensor(shape=(2,), dtype=ml_dtypes.bfloat16, encoding="bytes"),
    "text": F.Text(),
    "string": np.str_,
    "optional_text": F.Text(optional=True),
    "optional_int": F.Scalar(np.int32, optional=True),
    "optional_vector": F.Tensor(shape=(3,), dtype=np.float32, optional=True),
    "bounded": F.Scalar(np.int64, minimum=0, maximum=9),
    "label": F.ClassLabel(num_classes=3),
    "one_label": F.ClassLabel(num_classes=1),
    "names": F.ClassLabel(names=["a", "b", "1"]),
    "many_labels": F.ClassLabel(num_classes=10**6),
    **{f"vector_{dtype}": F.Tensor(shape=(3,), dtype=dtype) for dtype in DTYPES},
    **{f"any_{dtype}": F.Tensor(shape=(None,), dtype=dtype) for dtype in DTYPES},
    **{f"sequence_{dtype}": F.Sequence(np.dtype(dtype)) for dtype in DTYPES},
    "matrix": F.Tensor(shape=(None, 3), dtype=np.int64),
    "matrix_float": F.Tensor(shape=(2, 3), dtype=np.float32),
    "bounded_vector": F.Tensor(shape=(None,), dtype=np.int64, minimum=1),
    "empty": F.Tensor(shape=(0,), dtype=np.int64),
    "bytes": F.Tensor(shape=(3,), dtype=np.int64, encoding="bytes"),
    "zlib": F.Tensor(shape=(3,), dtype=np.int64, encoding="zlib"),
    "raw_half": F.Tensor(shape=(None,), dtype=np.float16, encoding="bytes"),
    "raw_scalar": F.Scalar(np.float64, encoding="bytes"),
    "dynamic": F.Tensor(shape=(None, None), dtype=np.int64, encoding="bytes"),
    "deep": F.Tensor(shape=(1,) * 9, dtype=np.int64),
    "strings": F.Tensor(shape=(3,), dtype=np.str_),
    "string_matrix": F.Tensor(shape=(1, None), dtype=np.str_),
    "texts": F.Sequence(F.Text()),
    "three_texts": F.Sequence(F.Text(), length=3),
    "three": F.Sequence(np.int64, length=3),
    "labels": F.Sequence(F.ClassLabel(num_classes=3)),
    "vectors": F.Sequence(F.Tensor(shape=(3,), dtype=np.float64)),
    "matrices": F.Sequence(F.Tensor(shape=(1, 3), dtype=np.int64), length=1),
    "rows": F.Sequence(F.Tensor(shape=(None,), dtype=np.int64, encoding="bytes")),
    "optional_items": F.Sequence(F.Scalar(np.int64, optional=True)),
    "ragged": F.Sequence(F.Sequence(np.int64)),
    "dataset": F.Dataset(np.int64),
    "nested": {"inner": np.int64, "other": F.Text()},
    "sequence_of_dicts": F.Sequence({"a": np.int64}),
    "box": F.BBoxFeature(),
    "image": F.Image(shape=(None, None, 1)),
    "optional_string": F.Scalar(np.str_, optional=True),
    "optional_matrix": F.Tensor(shape=(2, 2), dtype=np.int64, optional=True),
    "optional_zlib": F.Tensor(shape=(3,), dtype=np.int8, encoding="zlib", optional=True),
    "one_string": F.Tensor(shape=(1,), dtype=np.str_),
    "one_number": F.Tensor(shape=(1, 1), dtype=np.int64),
    "any_strings": F.Tensor(shape=(None,), dtype=np.str_),
    "nothing": F.Tensor(shape=(0, 3), dtype=np.float32),
    "zlib_items": F.Sequence(F.Tensor(shape=(2,), dtype=np.int32, encoding="zlib")),
    "boxes": F.Sequence(F.BBoxFeature()),
    "images": F.Sequence(F.Image(shape=(2, 3, 1))),
    "color_image": F.Image(shape=(1, 1, 3)),
    "deep_image": F.Image(shape=(2, 3, 1), dtype=np.uint16),
    "float_image": F.Image(shape=(2, 3, 1), dtype=np.float32),
    "deeper": {"a": np.int64, "b": {"c": F.Text(), "d": np.float32}},
    "no_features": {},
    "translation": F.Translation(["de", "en"]),
    "steps": F.Dataset({"a": np.int64}),
}
