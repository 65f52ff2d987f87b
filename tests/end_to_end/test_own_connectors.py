"""Datasets with connectors that users write, compared with the same values in connectors of this package."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import given

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets import testing
from beam_datasets.cli.explorer import searching
from beam_datasets.diffing.features import identical
from beam_datasets.features import registry
from beam_datasets.statistics import compute
from beam_datasets.statistics.report import json_text
from tests.end_to_end.own_connectors import Colour, Grade, Money, Negative, Pair
from tests.exporting.conftest import dataset_of, encoder_of, export
from tests.strategies import assert_equal, dicts, leaves, sequences

OWN = {
    "price": Money(),
    "offer": Money(optional=True),
    "history": F.Sequence(Money()),
    "years": F.Sequence(F.Sequence(Money())),
    "sky": Colour(),
    "flag": F.Sequence(Colour()),
    "shot": Negative(shape=(2, 2, 1)),
    "pair": Pair(),
    "grade": Grade(num_classes=3),
    "inside": {"sky": Colour(), "n": np.int64},
}
EUROS = {"cents": F.Scalar(np.int64), "currency": F.Text()}
PLAIN = {
    "price": EUROS,
    "offer": {"cents": F.Scalar(np.int64, optional=True), "currency": F.Text(optional=True)},
    "history": F.Sequence(EUROS),
    "years": F.Sequence(F.Sequence(EUROS)),
    "sky": F.Tensor(shape=(3,), dtype=np.uint8),
    "flag": F.Sequence(F.Tensor(shape=(3,), dtype=np.uint8)),
    "shot": F.Tensor(shape=(2, 2, 1), dtype=np.uint8),
    "pair": {"image": F.Tensor(shape=(2, 2, 1), dtype=np.uint8), "count": np.int64},
    "grade": np.int64,
    "inside": {"sky": F.Tensor(shape=(3,), dtype=np.uint8), "n": np.int64},
}


def own(n: int) -> Any:
    prices = [f"{n}.{k}5 EUR" for k in range(n % 4)]
    image = np.full((2, 2, 1), n, np.uint8)
    return {
        "price": f"{n}.25 USD",
        "offer": prices[0] if prices else None,
        "history": prices,
        "years": [prices, [], prices[:1]][: n % 3],
        "sky": f"#0000{n:02x}",
        "flag": ["#010203"] * (n % 3),
        "shot": image,
        "pair": image,
        "grade": "abc"[n % 3],
        "inside": {"sky": "#ffffff", "n": n},
    }


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_REGISTERED", {})
        for kind in (Money, Colour, Negative, Pair, Grade):
            F.register(kind)
        yield


class Broken(Colour):
    """A connector of which one thing is wrong, by its name."""

    def __init__(self, problem: str = "") -> None:
        super().__init__()
        self.problem, self.count = problem, 0

    def get_tensor_info(self) -> Any:
        return {"sky": super().get_tensor_info()} if self.problem == "structure" else super().get_tensor_info()

    def encode_example(self, value: str) -> Any:
        self.count += self.problem == "bytes"
        return value[: 7 - 2 * (self.count > 1)]

    def decode_example(self, stored: bytes) -> Any:
        found = super().decode_example(stored)
        wrong = {"dtype": found.astype(int), "shape": found[:2], "text": "text"}
        return wrong.get(self.problem, found)

    def from_inner_items_converter(self, path: str, rank: int) -> Any:
        lift = super().from_inner_items_converter(path, rank)
        return (lambda rows: lift(rows)[::-1]) if self.problem == "items" else lift

    def build_empty_items(self) -> Any:
        return np.zeros(0) if self.problem == "empty" else super().build_empty_items()

    def to_json_content(self) -> Any:
        return {"problem": self.problem}

    @classmethod
    def from_json_content(cls, value: Any, doc: Any = None) -> Any:
        return cls("" if value["problem"] == "content" else value["problem"])


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("bytes", "'#010203': expected the same bytes each time"),
        ("content", "'value': Broken(problem='content'),\n}) of features.json, got "),
        ("structure", "expected a dict of ['sky'], as declared, got 'ndarray'"),
        ("dtype", "expected uint8 of shape (3,), as declared, got int64 of shape (3,)"),
        ("shape", "expected uint8 of shape (3,), as declared, got uint8 of shape (2,)"),
        ("text", "expected uint8 of shape (3,), as declared, got <U4 of shape ()"),
        ("empty", "expected uint8 of shape (0, 3), as declared, got float64 of shape (0,)"),
        ("items", "expected item 0 of Sequence(Broken(problem='items')) to be read as the value alone"),
    ],
)
def test_a_check_finds_what_is_wrong(problem: str, message: str) -> None:
    F.register(Broken)
    assert len(testing.check_connector(Broken(), ["#010203", "#040506"])) == 2
    with pytest.raises(AssertionError, match=re.escape(message)):
        testing.check_connector(Broken(problem), ["#010203", "#040506"])


def test_a_check_of_a_connector() -> None:
    found = testing.check_connector(Money(optional=True), [None, "1.25 EUR"])
    assert found == [{"cents": None, "currency": None}, {"cents": 125, "currency": b"EUR"}]
    image = np.full((2, 2, 1), 3, np.uint8)
    optional = F.FeaturesDict({"a": F.Scalar(np.int64, optional=True)})
    for feature, value in (
        (optional, {"a": None}),
        (Negative(shape=(2, 2, 1)), image),
        (Negative(), np.full((2, 2, 3), 3, np.uint8)),
        (Pair(), image),
        (Grade(num_classes=3), "b"),
        (F.Tensor(shape=(None, None), dtype=np.uint8, encoding="bytes"), image[..., 0]),
        (F.ClassLabel(names=["a", "b"]), "b"),
        (F.Sequence(Colour()), ["#010203"]),
        (F.Tensor(shape=(None,), dtype=np.int64), [1, 2]),
        (F.TranslationVariableLanguages(), {"de": "a"}),
    ):
        assert len(testing.check_connector(feature, [value, value])) == 2
    with pytest.raises(ValueError, match="at least one"):
        testing.check_connector(Colour(), [])


@given(leaves(2) | dicts(2) | sequences(2))
def test_a_check_passes_all_connectors_of_this_package(sample: Any) -> None:
    encoder_of({"value": sample.feature})  # else two features have one name in the record
    found = testing.check_connector(sample.feature, sample.values)
    for value, expected in zip(found, sample.decoded, strict=True):
        assert_equal(value, expected)


@pytest.fixture(scope="module")
def directories(tmp_path_factory: Any) -> tuple[Path, Path]:
    """A dataset of own connectors, and one of plain connectors with the values that are read of the first."""
    examples = [own(n) for n in range(25)]
    first = dataset_of(tmp_path_factory.mktemp("own"), OWN, examples)
    values = bd.builder_from_directory(first).as_dataset("train", read_config=bd.ReadConfig(interleave_cycle_length=1))
    return first, dataset_of(tmp_path_factory.mktemp("plain"), PLAIN, [as_items(value) for value in values])


def as_items(example: Any) -> Any:
    """Returns a decoded example as it is given to be encoded: dicts in place of the columns of nested sequences."""
    years = example["years"]
    rows = [
        [{"cents": cents, "currency": name} for cents, name in zip(*row)]
        for row in zip(years["cents"].to_list(), years["currency"].to_list())
    ]
    return example | {"years": rows}


def test_statistics(directories: tuple[Path, Path]) -> None:
    found, expected = (json.loads(json_text(compute(directory))) for directory in directories)
    of_records = {"digest": "", "crc32c": ""}
    assert found | of_records == expected | of_records
    some = compute(directories[0], features=["price/cents", "history"])
    assert list(some.slices["train"]["features"]) == ["history.cents", "history.currency", "price.cents"]


def test_exports(directories: tuple[Path, Path], tmp_path: Path) -> None:
    for format, name in (("jsonl", "train-00000-of-00001.jsonl"), ("parquet", "train-00000-of-00001.parquet")):
        files = [export(one, tmp_path / f"{i}.{format}", format) / name for i, one in enumerate(directories)]
        read = pyarrow.parquet.read_table if format == "parquet" else Path.read_bytes
        found, expected = (read(file) for file in files)
        assert found == expected
    table = pyarrow.parquet.read_table(export(directories[0], tmp_path / "bytes", "parquet", binary=["price/currency"]))
    assert table["price"][0].as_py()["currency"] == b"USD"


@pytest.mark.parametrize("where", ["price.cents > 1000 and inside.n % 2 = 0", "sky[3] < 5", "offer.currency is null"])
def test_conditions(directories: tuple[Path, Path], tmp_path: Path, where: str) -> None:
    made = [
        bd.materialize(one, split={"train": "train"}, to=f"some{i}", data_dir=tmp_path, where=where)
        for i, one in enumerate(directories)
    ]
    found, expected = (list(bd.builder_from_directory(one).as_dataset("train")) for one in made)
    assert 0 < len(found) < 25
    assert identical(found, expected)
    indices, _ = searching.search(str(directories[0]), "train", where, 0, 25, 10.0)
    assert len(indices) == len(found)


def test_batches(directories: tuple[Path, Path]) -> None:
    for fill in (None, -1, {"offer/cents": -5, "offer/currency": "none"}):
        found, expected = (
            next(iter(bd.builder_from_directory(directory).as_dataset("train").batch(25, fill=fill, pad_value=0)))
            for directory in directories
        )
        assert identical(found, expected), fill


def test_verifying_without_the_classes(directories: tuple[Path, Path], monkeypatch: Any) -> None:
    monkeypatch.setattr(registry, "_REGISTERED", {})
    for decode in (False, True):
        report = bd.verify(directories[0], decode=decode)
        assert report.whole, report.findings
        assert "flag, grade, history, inside/sky, offer" in str(report.not_known)
