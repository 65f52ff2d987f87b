"""Missing values have one representation in every batch of a dataset."""

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets.errors import FeatureError, FeatureValueError
from beam_datasets.features.columnar import ColumnarDecoder
from beam_datasets.features.stacking import build_fill
from beam_datasets.formats import columns
from tests.cases import cases
from tests.published import build
from tests.strategies import DTYPES, assert_equal

FEATURES = F.FeaturesDict(
    {
        **{f"one_{dtype}": F.Scalar(dtype, optional=True) for dtype in DTYPES},
        "two": F.Tensor(shape=(2,), dtype=np.int16, optional=True),
        "any": F.Tensor(shape=(None,), dtype=np.float32, optional=True),
        "zlib": F.Tensor(shape=(2, 1), dtype=np.float64, encoding="zlib", optional=True),
        "raw": F.Scalar(np.float64, encoding="bytes", optional=True),
        "dynamic": F.Tensor(shape=(None, None), dtype=np.int64, encoding="bytes", optional=True),
        "strings": F.Tensor(shape=(2,), dtype=np.str_, optional=True),
        "text": F.Text(optional=True),
        "deep": {"deeper": {"number": F.Scalar(np.int64, optional=True)}, "text": F.Text()},
        "label": F.ClassLabel(num_classes=3),
        "words": F.Sequence(F.Text()),
        "there": np.int64,
    }
)
STANDS = {
    **{f"one_{name}": np.dtype(name).type("nan") for name in ("float16", "float32", "float64")},
    **{f"one_uint{bits}": 2**bits - 1 for bits in (8, 16, 32, 64)},
    "one_int8": -128,
    "one_int16": -(2**15),
    "one_int32": -(2**31),
    "one_int64": -(2**31),
    "one_bool": False,
    "two": np.full(2, -(2**15), np.int16),
    "any": np.empty(0, np.float32),
    "raw": np.float64("nan"),
    "zlib": np.full((2, 1), np.nan),
    "dynamic": np.empty((0, 0), np.int64),
    "text": b"",
    "strings": np.array([b"", b""], object),
    "deep": {"deeper": {"number": -(2**31)}, "text": b""},
}
DTYPE_OF = {name: feature.dtype for name, feature in FEATURES.items() if name != "deep"}


def example_of(i: int, present: int) -> dict[str, Any]:
    """Example i; the bits of a number say which of its optional values are present."""
    bits = map(bool, map(int, f"{present:025b}"))
    words = [f"{i}", "x"]

    def maybe(value: Any) -> Any:
        return value if next(bits) else None

    return {
        **{f"one_{dtype}": maybe(np.dtype(dtype).type(i % 2)) for dtype in DTYPES},
        "two": maybe([i, i + 1]),
        "any": maybe(np.arange(3, dtype=np.float32)),
        "zlib": maybe(np.array([[i], [0.1]])),
        "raw": maybe(i + 0.1),
        "dynamic": maybe(np.full((2, 2), i)),
        "strings": maybe([f"{i}", b"\xff"]),
        "text": maybe(f"text {i}"),
        "deep": {"deeper": {"number": maybe(i)}, "text": f"{i}" * i},
        "label": i % 4 - 1,
        "words": words,
        "there": i,
    }


def replaced(example: Any, stands: Any, feature: Any) -> Any:
    """An example with what stands for missing values, by hand."""
    if isinstance(feature, F.FeaturesDict):
        return {key: replaced(example[key], stands.get(key, {}), child) for key, child in feature.items()}
    if example is not None:
        return example
    return feature.dtype.type(stands) if isinstance(stands, (int, bool)) else stands


def stacked(examples: list[Any]) -> Any:
    """A batch by hand, padded."""
    if isinstance(examples[0], dict):
        return {key: stacked([example[key] for example in examples]) for key in examples[0]}
    if isinstance(examples[0], bytes):
        column = np.empty(len(examples), object)
        column[:] = examples
        return column
    if isinstance(examples[0], np.ndarray):
        longest = [max(lengths) for lengths in zip(*(array.shape for array in examples))]
        filler = b"" if examples[0].dtype == object else 0
        made = np.full((len(examples), *longest), filler, examples[0].dtype)
        for row, array in zip(made, examples):
            row[tuple(map(slice, array.shape))] = array
        return made
    return np.array(examples, examples[0].dtype)


def dtypes(batch: Any) -> Any:
    return {key: dtypes(value) for key, value in batch.items()} if isinstance(batch, dict) else batch.dtype


PRESENT = st.integers(0, 2**25 - 1) | st.sampled_from([0, 2**25 - 1])


@cases(60)
@given(st.lists(PRESENT, min_size=1, max_size=6), st.booleans())
def test_any_batch(present: list[int], native: bool) -> None:
    """Whatever is missing, a batch has the dtypes of the features, and is what stacking by hand makes."""
    encode, decode = F.compile_encoder(FEATURES), F.compile_decoder(FEATURES)
    records = [encode(example_of(i, bits)) for i, bits in enumerate(present)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "core", columns.core if native else None)
        decoder = ColumnarDecoder(FEATURES).of_batches(pad=True)
    batch = decoder.batch(list(records), build_fill(FEATURES).values)
    assert_equal(batch, stacked([replaced(decode(record), STANDS, FEATURES) for record in records]))
    assert dtypes(batch) == dtypes(stacked([replaced(decode(records[0]), STANDS, FEATURES)]))
    for name, dtype in DTYPE_OF.items():
        assert batch[name].dtype == dtype


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """31 examples of which others are missing; the first eight have nothing, the last ones all."""
    directory = tmp_path_factory.mktemp("missing")

    def rows() -> Any:
        generator = np.random.default_rng(5)
        for i in range(31):
            yield i, example_of(i, 0 if i < 8 else 2**25 - 1 if i > 25 else int(generator.integers(2**25)))

    info = {"disable_shuffling": True, "supervised_keys": ("two", "text")}
    build(directory, FEATURES, {"train": rows}, info=info, num_shards=4)
    return bd.load("ds", data_dir=directory, split="train")


def filled(dataset: Any) -> list[Any]:
    return [replaced(example, STANDS, dataset.features) for example in dataset]


def test_all_batches_of_a_dataset(dataset: Any) -> None:
    """All batches have the same dtypes: of any size, with and without the remainder, of slices and of shards."""
    seen = set()
    examples = filled(dataset)
    for size, drop in itertools.product((1, 2, 3, 7, 31, 40), (False, True)):
        batches = list(dataset.padded_batch(size, drop_remainder=drop))
        assert len(batches) == (len(examples) // size if drop else -(-len(examples) // size))
        for start, batch in zip(range(0, len(examples), size), batches):
            assert_equal(batch, stacked(examples[start : start + size]))
            seen.add(str(dtypes(batch)))
    for part in (
        dataset.take(8),
        dataset.skip(26),
        dataset.shard(1, 3, block=5),
        dataset.shuffle(7),
        dataset.repeat(2).skip(20),
    ):
        for batch, start in zip(part.padded_batch(5), range(0, 100, 5)):
            assert_equal(batch, stacked(filled(part)[start : start + 5]))
            seen.add(str(dtypes(batch)))
    assert len(seen) == 1


def test_a_mapped_dataset(dataset: Any) -> None:
    """Functions of map() see None; what they leave is filled in behind them, and other None are refused."""
    nones = dataset.map(lambda example: sum(value is None for value in example.values()))
    assert max(nones) >= 18
    kept = dataset.map(lambda example: {**example, "number": example["there"] * 2})
    want = stacked([{**example, "number": example["there"] * 2} for example in filled(dataset)[:7]])
    assert_equal(next(iter(kept.padded_batch(7))), want)
    other = dataset.map(lambda example: {"other": example["one_int64"]})
    with pytest.raises(
        FeatureValueError, match=r"^other: expected a value, got None.* Give batch\(\.\.\., fill=\{'other'"
    ):
        next(iter(other.batch(4)))
    for batch in other.batch(4, fill={"other": np.int64(-5)}):
        assert batch["other"].dtype == np.int64
    assert next(iter(other.batch(4, fill={"other": -5})))["other"].tolist() == [-5] * 4


def test_supervised_keys(dataset: Any, tmp_path: Any) -> None:
    """Tuples of the supervised keys are filled in as the examples are."""
    pairs = dataset._with(steps=(type(dataset._steps[0])(dataset.features, supervised_keys=("two", "text")),))
    want = stacked([{"a": example["two"], "b": example["text"]} for example in filled(dataset)[:9]])
    for made in (pairs, pairs.map(lambda pair: pair)):
        two, text = next(iter(made.padded_batch(9)))
        assert_equal({"a": two, "b": text}, want)
    assert next(iter(pairs.padded_batch(3, fill={"text": "?"})))[1].tolist() == [b"?"] * 3


def test_fill(dataset: Any) -> None:
    """Fill= replaces what stands for missing values: for all of a kind, or by name, class labels too."""
    names = [name for name in DTYPE_OF if name.startswith(("one_int", "one_float"))] + ["two", "zlib", "raw"]
    first = next(iter(dataset.padded_batch(8, fill=0)))
    for name in names:
        assert not first[name].any()
        assert first[name].dtype == DTYPE_OF[name]
    assert first["deep"]["deeper"]["number"].tolist() == [0] * 8
    assert first["text"].tolist() == [b""] * 8
    assert next(iter(dataset.padded_batch(8, fill=True)))["one_bool"].all()
    assert next(iter(dataset.padded_batch(8, fill="?", pad_value="")))["strings"].tolist() == [[b"?"] * 2] * 8
    chosen: dict[str, Any] = {
        "deep/deeper/number": 7,
        "two": [1, 2],
        "any": [1.0, 2.0],
        "label": -100,
        "one_bool": True,
    }
    batch = next(iter(dataset.padded_batch(8, fill=chosen | {"one_float32": 0.1, "text": b"none"})))
    assert batch["deep"]["deeper"]["number"].tolist() == [7] * 8
    assert batch["two"].tolist() == [[1, 2]] * 8
    assert batch["any"].tolist() == [[1, 2]] * 8
    assert batch["label"].tolist() == [-100, 0, 1, 2] * 2
    assert batch["one_bool"].all()
    assert batch["one_float32"].tolist() == [np.float32(0.1)] * 8
    assert batch["text"].tolist() == [b"none"] * 8
    assert np.isnan(batch["one_float64"]).all()
    assert pickle.loads(pickle.dumps(dataset.padded_batch(3, fill=chosen)))


@pytest.mark.parametrize(
    "fill, error",
    [
        ({"there": 5}, "fill names 'there', which cannot be missing. These may be missing: "),
        ({"nothing": 5}, "fill names 'nothing', but no feature has this name. These may be missing: "),
        (
            {"deep.deeper.numbah": 5},
            "fill names 'deep.deeper.numbah', but no feature .* Did you mean 'deep.deeper.number'",
        ),
        (
            {"dep/deeper/number": 5},
            "fill names 'dep/deeper/number', but no feature .* Did you mean 'deep.deeper.number'",
        ),
        ({"wordz": 5}, "fill names 'wordz', but no feature has this name.* Did you mean 'words'"),
        ({"words": "x"}, "fill names 'words', which cannot be missing"),
        ({"labell": 5}, "fill names 'labell', but no feature has this name. .* Did you mean 'label'"),
        ({"deep": 5}, "fill names 'deep', which cannot be missing"),
        ({"one_int8": 300}, "fill: one_int8: 300 does not fit int8"),
        ({"one_int8": 0.5}, "fill: one_int8: expected an integer, got 0.5"),
        ({"one_int8": float("nan")}, "fill: one_int8: a NaN or infinity"),
        ({"one_int8": "x"}, "fill: one_int8: 'x' is text"),
        ({"one_bool": 2}, "fill: one_bool: expected a bool"),
        ({"text": 5}, "fill: text: 5 is int"),
        ({"two": [1, 2, 3]}, r"fill: two: the value has the shape \(3,\)"),
        ({"any": 5.0}, r"fill: any: the value has the shape \(\)"),
        ({"label": "x"}, "fill: label: 'x' is text"),
        (300, "fill: one_int8: 300 does not fit int8"),
        (0.5, "fill: "),
    ],
)
def test_a_fill_that_does_not_fit(dataset: Any, fill: Any, error: str) -> None:
    """Fill= is checked before anything is read."""
    with pytest.raises((ValueError, FeatureError), match=f"^{error}") as raised:
        dataset.batch(4, fill=fill)
    assert isinstance(raised.value, FeatureError) or "may be missing" in str(raised.value)


def test_a_fill_with_two_values_for_a_feature(dataset: Any) -> None:
    with pytest.raises(ValueError, match=r"fill names 'deep\.deeper\.number' twice"):
        dataset.batch(4, fill={"deep.deeper.number": 5, "deep/deeper/number": 6})


def test_a_fill_where_nothing_is_missing() -> None:
    """A value that fits no feature is an error, too."""
    for feature, fill in ((F.FeaturesDict({"a": np.int64}), 5), (F.FeaturesDict({"a": F.Text()}), 5), (None, 5)):
        with pytest.raises(ValueError, match="fits no feature that may be missing"):
            build_fill(feature, fill)


def test_lists_of_pictures_of_different_shapes() -> None:
    """They are lists whether or not their sizes agree, and are padded to arrays."""
    feature = F.FeaturesDict({"pictures": F.Sequence(F.Image(shape=(None, None, 1)))})
    encode = F.compile_encoder(feature)
    same, other = np.zeros((2, 2, 1), np.uint8), np.zeros((1, 2, 1), np.uint8)
    records = [encode({"pictures": [same, same]}), encode({"pictures": [same, other]})]
    for record in records:
        assert [type(picture) for picture in F.compile_decoder(feature)(record)["pictures"]] == [np.ndarray] * 2
        assert isinstance(F.compile_decoder(feature)(record)["pictures"], list)
    empty = encode({"pictures": []})
    assert F.compile_decoder(feature)(empty) == {"pictures": []}
    fills = build_fill(feature).values

    def decode(records: list[bytes], *, pad: bool = False) -> Any:
        return ColumnarDecoder(feature).of_batches(pad=pad).batch(records, fills)

    assert decode(records[:1])["pictures"].shape == (1, 2, 2, 2, 1)
    for some in (records, records[1:]):
        with pytest.raises(FeatureValueError, match="^pictures: arrays of the shapes .* batch with pad=True"):
            decode(some)
    white = [np.full((2, 3, 1), 255, np.uint8), np.full((1, 4, 1), 255, np.uint8), np.full((3, 1, 1), 255, np.uint8)]
    made = decode([encode({"pictures": white[:2]}), empty, encode({"pictures": white[2:]})], pad=True)["pictures"]
    assert (made.shape, made.dtype) == ((3, 2, 3, 4, 1), np.uint8)
    expected = np.zeros_like(made)
    expected[0, 0, :2, :3], expected[0, 1, :1, :4], expected[2, 0, :3, :1] = 255, 255, 255
    np.testing.assert_array_equal(made, expected)
    assert decode([empty, empty], pad=True)["pictures"].shape[:2] == (2, 0)
