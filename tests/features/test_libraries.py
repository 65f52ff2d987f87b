"""The libraries whose versions determine bytes: recorded for encoded values, in the manifest too."""

import zlib
from pathlib import Path
from typing import Any

import apache_beam as beam
import imagecodecs
import numpy as np
import pytest
from PIL import Image

from beam_datasets import features as F
from beam_datasets.beam import WriteDataset
from beam_datasets.features import image_codec
from beam_datasets.generate.histogram import Histogram, count_keys, merge
from beam_datasets.metadata.manifest import Manifest

PIXELS = np.zeros((2, 3, 1), np.uint8)
PNG = f"imagecodecs {imagecodecs.__version__} ({imagecodecs.png_version()})"
JPEG = f"imagecodecs {imagecodecs.__version__} ({imagecodecs.jpeg8_version()})"
ZLIB = f"zlib {zlib.ZLIB_RUNTIME_VERSION}"
FILE = image_codec.encode(PIXELS, "png")
GRAY = F.Image(shape=(2, 3, 1))


@pytest.mark.parametrize(
    "feature, value, expected",
    [
        (GRAY, PIXELS, {PNG}),
        (GRAY, Image.fromarray(PIXELS[..., 0]), {PNG}),
        (GRAY, FILE, set()),
        (F.Image(shape=(2, 3, 1), encoding_format="jpeg"), PIXELS, {JPEG}),
        (F.Sequence(GRAY), [FILE, PIXELS], {PNG}),
        (F.Sequence({"a": F.Sequence(F.LabeledImage(labels=3))}), [{"a": [PIXELS]}], {PNG}),
        (F.Video(shape=(None, 2, 3, 1)), [FILE], set()),
        (F.Video(shape=(None, 2, 3, 1)), PIXELS[None], {PNG}),
        (F.Tensor(shape=(2,), dtype=np.int64, encoding="zlib"), np.arange(2), {ZLIB}),
        (F.Tensor(shape=(None, None), dtype=np.int64, encoding="zlib"), np.ones((1, 1), np.int64), {ZLIB}),
        (F.Tensor(shape=(2,), dtype=np.int64, encoding="bytes"), np.arange(2), set()),
    ],
)
def test_what_was_encoded_is_recorded(feature: Any, value: Any, expected: set[str]) -> None:
    used: set[str] = set()
    encode, other = F.compile_encoder({"x": feature}, used), F.compile_encoder({"x": feature})
    assert not used
    assert encode({"x": value}) == other({"x": value})
    assert used == expected


def test_histograms_keep_them() -> None:
    one, other = (count_keys(np.array([[0, n]], np.uint64), np.array([9])) for n in (1, 2))
    parts = [
        Histogram(part.shift, part.bins, part.counts, part.num_bytes, frozenset(names))
        for part, names in ((one, ["a 1"]), (other, ["b 2", "a 1"]), (merge([]), ["ü 3"]))
    ]
    merged = Histogram.from_bytes(merge([Histogram.from_bytes(part.to_bytes()) for part in parts]).to_bytes())
    assert (merged.libraries, merged.total) == ({"a 1", "b 2", "ü 3"}, 2)
    assert merge(parts[2:]).libraries == {"ü 3"}


@pytest.mark.parametrize(
    "image, libraries, ignore_duplicates", [(PIXELS, [PNG], False), (PIXELS, [PNG], True), (FILE, None, False)]
)
def test_the_manifest_names_them(tmp_path: Path, image: Any, libraries: Any, ignore_duplicates: bool) -> None:
    features = {"image": GRAY}
    with beam.Pipeline() as pipeline:
        examples = {
            split: pipeline | split >> beam.Create([(n, {"image": FILE if n else image}) for n in range(3)])
            for split in ("train", "test")
        }
        examples | WriteDataset("images", features, data_dir=str(tmp_path), ignore_duplicates=ignore_duplicates)
    path = tmp_path / "images" / "1.0.0" / "manifest.json"
    assert Manifest.from_text(path.read_text(), path=str(path)).options.get("libraries") == libraries
