"""`load(text="str")` gives `str` where a dataset otherwise gives bytes of text, and nothing else changes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets.errors import FeatureValueError
from tests.facts import raises_with

LATIN1 = b"caf\xe9"


class Texts(bd.DatasetBuilder, skip_registration=True):
    VERSION = "1.0.0"

    def _info(self) -> bd.DatasetInfo:
        tree = F.FeaturesDict(
            {
                "text": F.Text(),
                "pair": F.Tensor(shape=(2,), dtype="string"),
                "words": F.Sequence(F.Text()),
                "lines": F.Sequence(F.Sequence(F.Text())),
                "parts": F.Sequence({"name": F.Text(), "number": F.Scalar("int64")}),
                "maybe": F.Scalar("string", optional=True),
                "languages": F.Translation(["de", "en"]),
                "any": F.TranslationVariableLanguages(),
                "anys": F.Sequence(F.TranslationVariableLanguages(["de"])),
                "inner": F.Dataset({"text": F.Text()}),
                "raw": {"bytes": F.Text()},
                "image": F.Image(shape=(2, 2, 3)),
                "label": F.ClassLabel(names=["a", "b"]),
            }
        )
        return bd.DatasetInfo(builder=self, features=tree, supervised_keys=("text", "label"))

    def _split_generators(self) -> Any:
        def examples() -> Any:
            for i in range(9):
                yield (
                    i,
                    {
                        "text": "é" * i,
                        "pair": ["ä", f"{i}"],
                        "words": ["ö"] * i,
                        "lines": [["ü"], ["v"] * i],
                        "parts": [{"name": "☃", "number": i}] * (i % 3),
                        "maybe": None if i % 2 else "ja",
                        "languages": {"de": "Straße", "en": "street"},
                        "any": {"de": ["Hüte"] * i, "en": "hats"},
                        "anys": [{"de": "Äpfel"}] * (i % 2),
                        "inner": [{"text": "ñ"}] * i,
                        "raw": {"bytes": LATIN1},
                        "image": np.full((2, 2, 3), i, np.uint8),
                        "label": i % 2,
                    },
                )

        return {"train": examples()}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Any:
    builder = Texts(data_dir=tmp_path_factory.mktemp("data"))
    builder.download_and_prepare()
    return bd.builder_from_directory(builder.dataset_dir)


RAW = {"raw": {"bytes": bd.decode.SkipDecoding()}}


def plain(value: Any, *, as_str: bool) -> Any:
    """Python's own values; bytes of UTF-8 as str if asked for."""
    if isinstance(value, dict):
        return {name: plain(inner, as_str=as_str) for name, inner in value.items()}
    if hasattr(value, "to_list"):
        return plain(value.to_list(), as_str=as_str)
    if isinstance(value, np.ndarray):
        return plain(value.tolist(), as_str=as_str)
    if isinstance(value, (list, tuple)) or type(value).__name__ == "NestedDataset":
        return [plain(inner, as_str=as_str) for inner in value]
    if isinstance(value, bytes) and as_str and value != LATIN1:
        return value.decode()
    return value.item() if isinstance(value, np.generic) else value


@pytest.mark.parametrize(
    "read",
    [
        list,
        lambda d: [d[i] for i in range(len(d))],
        lambda d: d[2:7],
        lambda d: list(d.shuffle(1).skip(2)),
        lambda d: list(d.parallel(processes=2)),
        lambda d: list(d.filter(lambda example: example["label"] == 1)),
    ],
)
def test_examples_are_those_of_bytes_decoded(published: Any, read: Any) -> None:
    given = read(published.as_dataset("train", text="str", decoders=RAW))
    of_bytes = read(published.as_dataset("train"))
    assert len(given) > 3
    assert plain(given, as_str=False) == plain(of_bytes, as_str=True)
    assert type(given[0]["text"]) is str
    assert given[0]["words"].dtype == object


def test_batches(published: Any) -> None:
    chosen = dict.fromkeys(("text", "pair", "words", "maybe", "languages", "label"), True)
    decoders = bd.decode.PartialDecoding(chosen)
    for kwargs in ({"pad": True, "fill": {"maybe": "nein"}}, {"pad": True, "fill": {"maybe": b"nein"}}):
        given, of_bytes = (
            list(published.as_dataset("train", text=text, decoders=decoders).batch(4, **kwargs))
            for text in ("str", "bytes")
        )
        assert plain(given, as_str=False) == plain(of_bytes, as_str=True)
        assert given[0]["text"].dtype == object
    given, of_bytes = (
        list(published.as_dataset("train", text=text, decoders=decoders).padded_batch(4)) for text in ("str", "bytes")
    )
    assert plain(given, as_str=False) == plain(of_bytes, as_str=True)  # with the default in place of missing values


def test_supervised_and_features_of_a_partial_decoding(published: Any) -> None:
    text, label = next(iter(published.as_dataset("train", text="str", as_supervised=True)))
    assert type(text) is str
    assert isinstance(label, np.int64)
    decoders = bd.decode.PartialDecoding({"text": F.Text(), "raw": {"bytes": F.Text()}}, decoders=RAW)
    example = published.as_dataset("train", text="str", decoders=decoders)[3]
    assert type(example["text"]) is str
    assert example["raw"]["bytes"] == LATIN1


def test_frames_are_the_same(published: Any) -> None:
    pytest.importorskip("pyarrow")
    decoders = bd.decode.PartialDecoding(["text", "pair", "words", "maybe", "languages"])
    tables = [published.as_dataset("train", text=text, decoders=decoders).to_arrow() for text in ("bytes", "str")]
    assert tables[0].equals(tables[1])


def test_bytes_that_are_no_text(published: Any) -> None:
    """The error has the place, and its advice works."""
    dataset = published.as_dataset("train", text="str")
    for read in (list, lambda d: d[0], lambda d: next(iter(d.padded_batch(2)))):
        advice = "decoders={'raw': {'bytes': bd.decode.SkipDecoding()}}"
        with raises_with(
            FeatureValueError, feature="raw.bytes", expected="text in UTF-8", got=[r"b'caf\xe9'"], mentions=[advice]
        ):
            read(dataset)


@pytest.mark.parametrize("text", ["unicode", str, None, b"str"])
def test_other_values_are_errors(published: Any, text: Any) -> None:
    with pytest.raises(ValueError, match="^text.*'bytes' or 'str'.* got "):
        published.as_dataset("train", text=text)


def test_load_takes_it(published: Any) -> None:
    root = Path(published.dataset_dir).parents[1]
    assert type(bd.load("texts", data_dir=root, split="train", text="str", decoders=RAW)[0]["text"]) is str
