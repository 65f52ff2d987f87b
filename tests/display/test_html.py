"""Tables for notebooks: what they show, and that no value becomes more than text."""

from __future__ import annotations

import base64
import io
import re
import wave
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import beam_datasets as bd
from beam_datasets import statistics
from beam_datasets.display import html
from beam_datasets.formats.tfrecord import frame_all

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[2J'\"&"
FEATURES = {
    "image": bd.features.Image(shape=(None, None, 3)),
    "label": bd.features.ClassLabel(names=["<b>cat</b>", "dog"]),
    "sound": bd.features.Audio(sample_rate=8000),
    "text": bd.features.Text(),
    "box": {"<i>": np.float32},
}


class Page(HTMLParser):
    """Elements and text of a page; it refuses elements that are not closed in their order."""

    VOID = ("img", "br")

    def __init__(self, content: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, Any]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(content)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


ALLOWED = {"table", "thead", "tbody", "tr", "th", "td", "caption", "p", "img", "audio", "br"}


def read(content: str) -> Page:
    """Returns a page that has tables, pictures and sounds alone."""
    page = Page(content)
    assert {tag for tag, _ in page.elements} <= ALLOWED
    attributes = {name for _, attributes in page.elements for name in attributes}
    assert attributes <= {"scope", "alt", "src", "controls", "preload"}
    sources = [attributes["src"] for _, attributes in page.elements if "src" in attributes]
    assert all(re.match(r"data:(image/png|audio/wav);base64,", source) for source in sources)
    assert not re.search("[\u202e\x1b]", content)
    return page


def write(folder: Path, features: Any, values: list[Any]) -> Any:
    encode = bd.features.compile_encoder(features)
    path = folder / "ds.tfrecord"
    path.write_bytes(b"".join(frame_all([encode(value) for value in values])))
    return bd.adopt(path, features, name="ds")


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    values = [
        {
            "image": np.full((40, 300, 3), n, np.uint8),
            "label": n % 2,
            "sound": np.arange(-8, 8, dtype=np.int64),
            "text": HOSTILE if n == 1 else "long " * 100,
            "box": {"<i>": n / 2},
        }
        for n in range(7)
    ]
    return write(tmp_path_factory.mktemp("html"), FEATURES, values)


def test_examples_are_rows(builder: Any) -> None:
    page = read(builder.as_dataset("train")._repr_html_())
    heads = re.findall(r'<th scope="col">(.*?)</th>', builder.as_dataset("train")._repr_html_())
    assert set(heads) == {"", "image", "label", "sound", "text", "box.&lt;i&gt;"}
    assert sum(tag == "tr" for tag, _ in page.elements) == 1 + 5
    assert "0 (<b>cat</b>)" in page.text
    assert "<script>alert(1)</script>" in page.text
    assert "\\u202e" in page.text
    assert "... (500 characters)" in page.text


def test_pictures_are_small_and_sounds_play(builder: Any) -> None:
    page = read(bd.show_examples(builder.as_dataset("train"), rows=2)._repr_html_())
    pictures = [attributes for tag, attributes in page.elements if tag == "img"]
    assert [picture["alt"] for picture in pictures] == ["300 x 40 pixels"] * 2
    decoded = Image.open(io.BytesIO(base64.b64decode(pictures[1]["src"].partition(",")[2])))
    assert (decoded.size, decoded.getpixel((0, 0))) == ((96, 13), (1, 1, 1))
    [sound, _] = [attributes["src"] for tag, attributes in page.elements if tag == "audio"]
    with wave.open(io.BytesIO(base64.b64decode(sound.partition(",")[2]))) as file:
        assert (file.getframerate(), file.getnframes()) == (8000, 16)


def test_a_batch_is_its_arrays(builder: Any) -> None:
    decoders = bd.decode.PartialDecoding(["label", "box"])
    page = read(builder.as_dataset("train", decoders=decoders).batch(4)._repr_html_())
    assert re.search(r"label\s+int64\s+\(4,\)\s+\[0, 1, 0, 1\]", page.text)
    assert re.search(r"float32\s+\(4,\)\s+\[0\.0, 0\.5, 1\.0, 1\.5\]", page.text)


def test_functions_are_not_called(builder: Any) -> None:
    def fail(example: Any) -> bool:
        raise AssertionError

    ds = builder.as_dataset("train")
    for shown in (ds.map(fail), ds.filter(fail), ds.map(fail).batch(2), bd.mix({ds.map(fail): 1})):
        page = read(shown._repr_html_())
        assert "bd.show_examples(ds)" in page.text
    assert "ClassLabel" in read(ds.map(fail)._repr_html_()).text


def test_tuples_have_the_names_of_their_features(builder: Any) -> None:
    pair = (np.zeros((2, 3, 3), np.uint8), np.int64(1))
    page = read(html.examples_table([pair], bd.features.FeaturesDict(FEATURES), ["image", "label"]))
    assert re.search(r"image\s+label\s+0\s+1 \(dog\)", page.text)
    assert dict(page.elements)["img"]["alt"] == "3 x 2 pixels"
    unnamed = bd.show_examples(builder.as_dataset("train").map(lambda example: (example["label"], 5)), rows=1)
    assert re.search(r"0\s+1\s+0\s+0\s+5", read(unnamed._repr_html_()).text)


def test_what_map_has_made_of_a_picture_is_text() -> None:
    features = bd.features.FeaturesDict(FEATURES)
    for value in (np.zeros(3), np.zeros((2, 0, 3), np.uint8), "path", None, [], np.array(b"x", object)):
        page = read(html.examples_table([{"image": value}], features))
        assert "img" not in {tag for tag, _ in page.elements}


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    builder = write(tmp_path, {"n": np.int64}, [{"n": n} for n in range(3)])
    [shard] = [path for path in tmp_path.glob("*.tfrecord*") if path.suffix != ".index"]
    content = bytearray(shard.read_bytes())
    content[-6] ^= 1  # of the last record
    shard.write_bytes(bytes(content))
    page = read(builder.as_dataset("train")._repr_html_())
    assert "error" in page.text
    assert shard.name in page.text


def test_info(builder: Any) -> None:
    info = builder.info.replace(description=HOSTILE, homepage="javascript:alert(1)", citation="c" * 1000)
    page = read(info._repr_html_())
    assert "<script>" in page.text
    assert "c" * 300 + "..." in page.text
    assert re.search(r"train\s+7\s+1\s+\d+", page.text)
    assert re.search(r"label\s+ClassLabel\s+\(\)\s+int64", page.text)


def test_a_diff(tmp_path: Path) -> None:
    directories = []
    for number, texts in enumerate((["a", "b"], ["a", HOSTILE])):
        folder = tmp_path / str(number)
        folder.mkdir()
        write(folder, {"text": bd.features.Text()}, [{"text": text} for text in texts])
        directories.append(folder)
    diff = bd.diff(*directories)
    page = read(diff._repr_html_())
    assert "MAJOR" in page.text
    assert "<script>" in page.text
    assert re.search(r"train\s+2\s+2\s+1\s+1\s+0\s+0\s+0", page.text)


def test_statistics(builder: Any) -> None:
    decoders = Path(builder.dataset_dir)
    page = read(statistics.compute(decoders, features=["label", "text", "box"])._repr_html_())
    assert "train: 7 examples" in page.text
    assert re.search(r"label\s+label\s+7\s+0\s+2\s+<b>cat</b> \(4\), dog \(3\)", page.text)
    assert re.search(r"box\.<i>\s+float32\s+7\s+0\s+7\s+0\s+1\.5\s+3", page.text)


def test_of_many_features_the_first_are_shown_and_the_others_counted() -> None:
    features = bd.features.FeaturesDict({f"c{number:04}": np.int64 for number in range(1000)})
    example = dict.fromkeys(features, 7)
    tables = [
        html.examples_table([example, example], features),
        html.features_table(features),
        html.batch_table(example),
    ]
    for content in tables:
        page = read(content)
        assert "900 of 1,000 features are not shown." in page.text
        assert "c0099" in page.text
        assert "c0100" not in page.text
    few = bd.features.FeaturesDict({"a": np.int64})
    assert "not shown" not in html.features_table(few) + html.examples_table([{"a": 1}], few) + html.batch_table(
        {"a": 1}
    )
    line = repr(bd.show_examples([example]))
    assert line.endswith("c0099=7, ... (900 more)")


def test_tuples_have_the_names_of_supervised_keys():
    """Of the dataset, or, after `map()`, of the info that is given, as in TFDS."""
    info = SimpleNamespace(supervised_keys=("text", "label"))
    pairs = [("a", 1), ("b", 2)]
    assert list(bd.as_dataframe(pairs, info).columns) == ["text", "label"]
    assert list(bd.as_dataframe(pairs).columns) == ["0", "1"]
    assert list(bd.as_dataframe([("a", 1, 2)], info).columns) == ["0", "1", "2"]
    for shown in (bd.show_examples(pairs, info), bd.show_examples(info, pairs)):
        assert re.fullmatch("0: text=.*a.*, label=1\n1: text=.*b.*, label=2", repr(shown))
