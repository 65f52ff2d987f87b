"""What the native module decodes, against the same in Python: the same values, or the same errors, for any record."""

import base64
import random
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets import builder_from_directory
from beam_datasets import features as F
from beam_datasets.errors import FeatureValueError
from beam_datasets.features.columnar import ColumnarDecoder
from beam_datasets.features.compiler import compile_block_decoder
from beam_datasets.features.decode import PartialDecoding, SkipDecoding, make_decoder
from beam_datasets.formats import example, tfrecord
from beam_datasets.native import core
from tests.cases import cases
from tests.features import vectors
from tests.native import wire
from tests.native.agreement import assert_agree, assert_same_outcome, in_python, outcome
from tests.strategies import DTYPES, dicts, examples

pytestmark = pytest.mark.skipif(core is None, reason="the native module was not built")
TFDS_DATA = Path(__file__).parents[1] / "data" / "tfds"


# ------------------------------------------------------------------------------------------------------ good records


@cases(60)
@given(examples())
def test_any_features(sample: Any) -> None:
    names = sample.feature.wire_names("")
    if len(set(names)) == len(names):
        assert_agree(sample.feature, list(map(F.compile_encoder(sample.feature), sample.values)))


FEATURES: dict[str, Any] = {
    **{dtype: np.dtype(dtype) for dtype in DTYPES},
    **{f"{dtype}s": F.Tensor(shape=(3,), dtype=dtype) for dtype in DTYPES},
    **{f"{dtype} sequence": F.Sequence(np.dtype(dtype)) for dtype in DTYPES},
    "label": F.ClassLabel(num_classes=3),
    "any label": F.ClassLabel(),
    "bounded": F.Scalar(np.int64, minimum=0, maximum=9),
    "maybe": F.Scalar(np.int32, optional=True),
    "maybe float": F.Scalar(np.float32, optional=True),
    "maybe array": F.Tensor(shape=(2, 2), dtype=np.int64, optional=True),
    "text": F.Text(),
    "string": np.str_,
    "maybe string": F.Scalar(np.str_, optional=True),
    "strings": F.Tensor(shape=(2,), dtype=np.str_),
    "one string": F.Tensor(shape=(1,), dtype=np.str_),
    "one number": F.Tensor(shape=(1, 1), dtype=np.int64),
    "any strings": F.Tensor(shape=(None,), dtype=np.str_),
    "rows": F.Tensor(shape=(None, 2), dtype=np.int16),
    "nothing": F.Tensor(shape=(0, 2), dtype=np.float32),
    "box": F.BBoxFeature(),
    "zlib": F.Tensor(shape=(2, 3), dtype=np.float64, encoding="zlib"),
    "bytes": F.Tensor(shape=(), dtype=np.uint16, encoding="bytes"),
    "bfloat16": F.Tensor(shape=(2,), dtype=ml_dtypes.bfloat16, encoding="bytes"),
    "maybe zlib": F.Tensor(shape=(2,), dtype=np.int8, encoding="zlib", optional=True),
    "dynamic": F.Tensor(shape=(None, None), dtype=np.int32, encoding="zlib"),
    "image": F.Image(shape=(2, 3, 3)),
    "deep image": F.Image(shape=(2, 3, 1), dtype=np.uint16),
    "float image": F.Image(shape=(2, 3, 1), dtype=np.float32),
    "any image": F.Image(shape=(None, None, 1)),
    "boxes": F.Sequence(F.BBoxFeature()),
    "texts": F.Sequence(F.Text()),
    "images": F.Sequence(F.Image(shape=(2, 2, 1))),
    "pair": F.Sequence(np.int64, length=2),
    "vectors": F.Sequence(F.Tensor(shape=(2,), dtype=np.int32)),
    "compressed": F.Sequence(F.Tensor(shape=(2,), dtype=np.int32, encoding="zlib")),
    "ragged": F.Sequence(F.Sequence(np.int64)),
    "objects": F.Sequence({"id": np.int64, "text": F.Text()}),
    "nested": {"a": np.int64, "b": {"c": F.Text(), "d": np.float32}},
    "no features": {},
    "translation": F.Translation(["de", "en"]),
    "dataset": F.Dataset({"step": np.int64}),
}


def value_of(name: str, rng: random.Random) -> Any:
    """A value of a feature."""
    dtype = name.removesuffix(" sequence").removesuffix("s")
    if dtype in DTYPES:
        return numbers(dtype, rng, None if name == dtype else 3 if name == f"{dtype}s" else rng.randrange(4))
    count = rng.randrange(4)
    integers = [rng.randrange(-300, 300) for _ in range(count)]
    texts = [rng.choice(["", "a", "é" * 70, b"\xff\x00"]) for _ in range(count)]
    maybe = rng.random() < 0.5
    values: dict[str, Any] = {
        "label": rng.randrange(-1, 3),
        "any label": None,
        "bounded": rng.randrange(10),
        "maybe": rng.randrange(-9, 9) if maybe else None,
        "maybe float": np.float32(rng.random()) if maybe else None,
        "maybe array": [[1, -2], [3, rng.getrandbits(60)]] if maybe else None,
        "text": rng.choice(["", "text", "x" * 300]),
        "string": b"\x00",
        "maybe string": "x" if maybe else None,
        "strings": ["a", rng.choice(["", "b"])],
        "one string": ["a"],
        "one number": [[rng.randrange(9)]],
        "any strings": texts,
        "rows": [[i, -i] for i in integers] or np.empty((0, 2), np.int16),
        "nothing": np.empty((0, 2), np.float32),
        "box": F.BBox(0.0, 0.25, 0.5, np.float32(1 - rng.random() / 2)),
        "zlib": np.full((2, 3), rng.random()),
        "bytes": rng.randrange(1 << 16),
        "bfloat16": np.array([1, rng.random()], ml_dtypes.bfloat16),
        "maybe zlib": np.array([1, -2], np.int8) if maybe else None,
        "dynamic": np.full((count, 2), 7, np.int32),
        "image": np.full((2, 3, 3), rng.randrange(256), np.uint8),
        "deep image": np.full((2, 3, 1), rng.randrange(1 << 16), np.uint16),
        "float image": np.full((2, 3, 1), rng.random(), np.float32),
        "any image": np.full((1 + count, 2, 1), rng.randrange(256), np.uint8),
        "boxes": [F.BBox(0.0, 0.0, 1.0, np.float32(rng.random()))] * count,
        "texts": texts,
        "images": [np.full((2, 2, 1), i % 256, np.uint8) for i in integers],
        "pair": [rng.getrandbits(62), -1],
        "vectors": [[i, 1 << 30] for i in integers],
        "compressed": [np.array([i, 5], np.int32) for i in integers],
        "ragged": [integers[:i] for i in range(count)],
        "objects": [{"id": i, "text": "t"} for i in integers],
        "nested": {"a": rng.randrange(9), "b": {"c": "c", "d": np.float32(rng.random())}},
        "no features": {},
        "translation": {"de": "ja", "en": "yes"},
        "dataset": [{"step": i} for i in integers],
    }
    return values[name]


def numbers(dtype: str, rng: random.Random, count: int | None) -> Any:
    bits = rng.choice([0, 7, 8, 14, 15, 31, 64])
    made = np.array([rng.getrandbits(bits) for _ in range(8)], np.uint64).astype(np.float32 if "f" in dtype else "u8")
    with np.errstate(over="ignore"):
        made = made.astype(dtype)
    return made[0] if count is None else made[:count]


KNOWN = {name: feature for name, feature in FEATURES.items() if name != "any label"}  # which cannot be encoded


def records_of(count: int, seed: int = 0) -> list[bytes]:
    rng = random.Random(seed)
    encode = F.compile_encoder(KNOWN)
    return [encode({name: value_of(name, rng) for name in KNOWN}) for _ in range(count)]


@pytest.mark.parametrize("name", KNOWN)
def test_each_kind_of_feature(name: str) -> None:
    rng = random.Random(name)
    encode = F.compile_encoder({name: FEATURES[name]})
    assert_agree({name: FEATURES[name]}, [encode({name: value_of(name, rng)}) for _ in range(40)])


def test_all_kinds_together() -> None:
    assert_agree(KNOWN, records_of(5))
    assert_agree(KNOWN, records_of(5), decoders=SkipDecoding())
    some = {"int8": True, "nested": {"b": {"d"}}, "objects": {"id"}, "maybe": True}
    assert_agree(KNOWN, records_of(5), decoders=PartialDecoding(some))
    assert_agree(KNOWN, records_of(5), partial=some)
    assert_agree(KNOWN, records_of(5), partial={"ragged"})


def test_labels_without_classes() -> None:
    assert_agree({"any label": F.ClassLabel()}, [example.serialize({"any label": [i]}) for i in range(3)])


def test_no_features() -> None:
    assert ColumnarDecoder(F.FeaturesDict({})).examples([]) == []
    assert ColumnarDecoder(F.FeaturesDict({})).examples([b"", example.serialize({"a": [1]})]) == [{}, {}]


def test_names_that_collide() -> None:
    colliding = {"a/b": np.int64, "a": {"b": np.int64}}
    assert_agree(colliding, [example.serialize({"a/b": [7]})])


def test_many_features_and_entries() -> None:
    feature = {f"{i:04}": np.int64 if i % 3 else np.float32 for i in range(500)}
    encode = F.compile_encoder(feature)
    records = [encode(dict.fromkeys(feature, i % 100)) for i in range(4)]
    assert_agree(feature, records)
    assert_agree(feature, records, partial={"0003", "0004", "0499"})


@pytest.mark.parametrize("size", [*range(1, 45), 64, 100, 122, 123, 124, 125, 126, 127, 128, 129, 200])
def test_names_that_differ_in_one_character_from_those_of_the_record_before(size: int) -> None:
    names = ["a" * i + "b" + "a" * (size - i - 1) for i in range(size)]
    scalar = F.Scalar(np.int64, optional=True)
    some = names if size < 20 else [*names[::7], names[-1]]  # 7: at every place within a word or a vector
    records = [example.serialize({name: [i]}) for i, name in enumerate(some)]
    assert_agree(dict.fromkeys(some, scalar), records)
    others = [example.serialize({name: [1], "z": [i]}) for i, name in enumerate([*names, "a" * size])]
    assert_agree({"a" * size: scalar, "z": np.int64}, others)


def test_a_block_decoder_is_for_small_examples() -> None:
    def small(feature: Any, **options: Any) -> bool:
        return compile_block_decoder(feature, **options) is not None

    assert small({"a": np.int64, "text": F.Text(), "tokens": F.Sequence(np.int64), "image": F.Image(shape=(28, 28, 1))})
    assert not small({"image": F.Image(shape=(512, 512, 3))})
    assert not small({"image": F.Image()})
    assert small({"image": F.Image()}, decoders={"image": SkipDecoding()})
    assert not small({"zlib": F.Tensor(shape=(None,), dtype=np.int64, encoding="zlib")})
    assert not small({"video": F.Video(shape=(None, 8, 8, 3))})
    assert not small({"a": np.int64}, decoders={"a": make_decoder()(lambda stored, feature: stored)()})


def test_a_block_decoder_raises_the_error_of_a_record() -> None:
    decode = compile_block_decoder({"a": np.int64})
    assert decode is not None
    with pytest.raises(FeatureValueError, match=r"^a: the record has 2 values, expected one$"):
        decode([example.serialize({"a": [1]}), example.serialize({"a": [1, 2]})])


# ------------------------------------------------------------------------------------------------- unusual records


@pytest.mark.slow
@pytest.mark.parametrize("partial", [None, {"int64", "text"}], ids=["all", "two features"])
def test_damaged_records(partial: set[str] | None) -> None:
    """Each byte another one, and cut at each byte with and without what the record says of its length."""
    (good,) = records_of(1, seed=1)
    decode = in_python(lambda: F.compile_decoder(KNOWN, partial=partial))
    native = F.compile_decoder(KNOWN, partial=partial)
    entries = good[next(place for place in range(2, 9) if good[place - 1] < 128) :]  # behind tag and length
    rng = random.Random(2)
    refused = 0
    for place in range(len(good)):
        other = bytes([good[place] ^ rng.choice([1, 2, 4, 8, 16, 32, 64, 128, rng.randrange(1, 256)])])
        for record in (good[:place], good[:place] + other + good[place + 1 :], wire.record([entries[:place]])):
            want = outcome(lambda record=record: decode(record))
            assert_same_outcome(outcome(lambda record=record: native(record)), want)
            refused += isinstance(want, tuple)
    assert refused > 2 * len(good)


@cases(100)
@given(dicts(1), st.data())
def test_damaged_records_of_any_features(sample: Any, data: Any) -> None:
    names = sample.feature.wire_names("")
    if len(set(names)) < len(names):
        return
    record = bytearray(F.compile_encoder(sample.feature)(sample.values[0]))
    for _ in range(data.draw(st.integers(1, 3))):
        if record:
            record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(record)))
    for damaged in (bytes(record), bytes(record[:cut])):
        assert_agree(sample.feature, [damaged])


@pytest.mark.parametrize("place", sorted(path.parent for path in TFDS_DATA.glob("*/*/features.json")), ids=str)
def test_records_that_tfds_wrote(place: Path) -> None:
    features = builder_from_directory(str(place)).info.features
    for shard in sorted(place.glob("*.tfrecord-*")):
        data = shard.read_bytes()
        records = tfrecord.unframe(data, tfrecord.scan(data, path=str(shard)), path=str(shard))
        if records:
            assert_agree(features, list(map(bytes, records)))


@pytest.mark.parametrize("name", [name for name, case in vectors.cases().items() if "serialized_canonical_b64" in case])
def test_vectors(name: str) -> None:
    case = vectors.cases()[name]
    assert_agree(vectors.feature_of(case), [base64.b64decode(case["serialized_canonical_b64"])] * 2)
