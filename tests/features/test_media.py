"""Samples, video files and translations, and the libraries that encoded them."""

import ast
import io
import pickle
import re
import shlex
import shutil
import stat
import subprocess
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import imagecodecs
import numpy as np
import pytest
from PIL import Image

from beam_datasets import features as F
from beam_datasets.beam import WriteDataset
from beam_datasets.errors import FeatureTypeError, FeatureValueError, InputError, MissingDependencyError
from beam_datasets.features import image_codec
from beam_datasets.intake.video import read_frames
from beam_datasets.intake.video_layout import check_ogg
from beam_datasets.metadata.manifest import Manifest
from beam_datasets.shuffle.histogram import count_keys, merge
from tests.facts import raises_with


def round_trip(feature, value):
    return F.compile_decoder({"x": feature})(F.compile_encoder({"x": feature})({"x": value}))["x"]


@pytest.mark.parametrize("given", [[1, -2, 3], (1, -2, 3), np.array([1, -2, 3], np.int16), np.array([1, -2, 3])])
def test_audio_samples_of_any_integers(given):
    got = round_trip(F.Audio(), given)
    assert got.dtype == np.int64
    assert got.tolist() == [1, -2, 3]


def test_audio_in_sequences():
    assert round_trip(F.Sequence(F.Audio(shape=(2,), dtype=np.int16)), [[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]


def test_audio_that_does_not_fit():
    with raises_with(FeatureValueError, feature="x", expected="the shape (None,)", got="(2, 2)"):
        round_trip(F.Audio(), [[1, 2], [3, 4]])
    with raises_with(FeatureValueError, feature="x", expected="the dtype int64", got="float64"):
        round_trip(F.Audio(), np.zeros(3))
    with raises_with(FeatureTypeError, feature="x", expected=re.compile("an array, a list, a path"), got="int"):
        round_trip(F.Audio(), 5)


FRAMES = np.arange(2 * 2 * 2 * 3, dtype=np.uint8).reshape(2, 2, 2, 3)


@pytest.fixture
def _ffmpeg(tmp_path, monkeypatch):
    """A program that writes two frames, if it is given a file that says so."""
    for i, frame in enumerate(FRAMES):
        (tmp_path / f"{i}.png").write_bytes(image_codec.encode(frame, "png"))
    program = tmp_path / "ffmpeg"
    program.write_text(
        "#!/bin/sh\n"
        'test "$7" = -i || exit 2\n'
        'grep -q video "$8" || { echo not a video in "$8" >&2; exit 1; }\n'
        'shift $(($# - 1)); folder=$(dirname "$1")\n'
        f'cp {tmp_path}/0.png "$folder/0000000001.png"; cp {tmp_path}/1.png "$folder/0000000002.png"\n'
        'grep -q damaged "$folder/../video" && echo "Invalid NAL unit size" >&2\n'
        'grep -q irregular "$folder/../video" && echo drop_frames=0 && echo drop_frames=3\n'
        "exit 0\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


@pytest.mark.usefixtures("_ffmpeg")
def test_video_files(tmp_path):
    file = tmp_path / "clip.avi"
    file.write_bytes(b"a video")
    feature = F.Video(shape=(None, 2, 2, 3), ffmpeg_extra_args=["-r", "1"])
    for given in (file, str(file), b"a video", io.BytesIO(b"a video")):
        assert np.array_equal(round_trip(feature, given), FRAMES)
    with pytest.raises(FeatureValueError, match="^x: expected a whole video, got errors of ffmpeg: not a video in the"):
        round_trip(feature, b"something else")
    file.write_bytes(b"a damaged video")
    with raises_with(FeatureValueError, feature="x", path=str(file)) as error:
        round_trip(feature, file)
    assert str(error.value).startswith(f"x: {file}: expected a whole video, got")
    assert ": Invalid NAL unit size." in str(error.value)


@pytest.mark.usefixtures("_ffmpeg")
def test_frames_that_ffmpeg_leaves_out():
    video = b"an irregular video"
    with pytest.raises(FeatureValueError, match="^x: expected all frames, got 2, as 3 were left out to") as error:
        round_trip(F.Video(shape=(None, 2, 2, 3)), video)
    [way, *_] = re.findall(r"ffmpeg_extra_args=(\[.*?\])", str(error.value))
    feature = F.Video(shape=(None, 2, 2, 3), ffmpeg_extra_args=ast.literal_eval(way))
    assert np.array_equal(round_trip(feature, video), FRAMES)


def ffmpeg():
    program = shutil.which("ffmpeg")
    return program or pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["mp4", "mkv", "webm", "avi", "ts", "m2ts", "gif", "ogv", "wmv"])
def test_videos_that_are_cut_off(ending, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ffmpeg").symlink_to(ffmpeg())
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    path = tmp_path / f"whole.{ending}"
    codecs = {"avi": "mjpeg", "ts": "mpeg2video", "m2ts": "mpeg2video"}
    codec = ["-c:v", codecs[ending]] if ending in codecs else []
    source = ["-f", "lavfi", "-i", "testsrc=duration=3:size=32x24:rate=10"]
    subprocess.run(["ffmpeg", "-v", "error", *source, *codec, str(path)], check=True)
    feature, data = F.Video(shape=(None, 24, 32, 3)), path.read_bytes()
    assert len(round_trip(feature, path)) == 30
    for size in np.linspace(len(data) // 3, len(data) - 1, 12, dtype=int):
        packet = 192 if ending == "m2ts" else 188
        size += int(size % packet == 0)  # a stream that ends between two packets may be a whole one
        with pytest.raises(FeatureValueError, match=r"^x: (byte \d+: )?(expected|a damaged image)") as error:
            round_trip(feature, data[:size])
    if ending == "avi":  # what the error proposes
        (tmp_path / "FILE").write_bytes(data[: len(data) * 3 // 4])
        [command] = re.findall(r"`(ffmpeg .*?)`", str(error.value))
        subprocess.run([*shlex.split(command), "-v", "error"], cwd=tmp_path, check=True, capture_output=True)
        assert 20 <= len(round_trip(feature, tmp_path / "new.mp4")) < 30


def test_a_long_avi_has_several_parts(monkeypatch):
    monkeypatch.setattr("beam_datasets.intake.video.shutil.which", lambda _: "/missing/ffmpeg")
    whole = b"".join(b"RIFF" + (4 + size).to_bytes(4, "little") + name + bytes(size) for name, size in
                     ((b"AVI ", 20), (b"AVIX", 31)))  # fmt: skip
    for data in (whole, whole + b"\0", whole + b"other", b"RIFF\0\0\0\0AVI " + bytes(8)):
        with pytest.raises(FileNotFoundError):
            read_frames(data, "png")
    for size in (20, len(whole) - 1):
        with raises_with(InputError, expected=re.compile("as the file declares")):
            read_frames(whole[:size], "png")


def test_other_bytes_after_an_mp4(monkeypatch):
    """Players and ffmpeg ignore what follows the last box; a box that is cut off is an error."""
    monkeypatch.setattr("beam_datasets.intake.video.shutil.which", lambda _: "/missing/ffmpeg")
    boxes = [(16).to_bytes(4, "big") + b"ftypisom" + bytes(4), (24).to_bytes(4, "big") + b"mdat" + bytes(16)]
    whole = b"".join(boxes)
    for data in (whole, whole + b"garbage that follows", whole + bytes(9)):
        with pytest.raises(FileNotFoundError):
            read_frames(data, "png")
    long_box = (1).to_bytes(4, "big") + b"mdat" + (32).to_bytes(8, "big") + bytes(16)
    for data in (whole[:-1], boxes[0] + long_box[:-1], boxes[0] + long_box[:12]):
        with raises_with(InputError, expected=re.compile("as the file declares")):
            read_frames(data, "png")


def test_an_ogg_page_that_is_cut_after_its_header():
    """The header says that one more byte of sizes follows."""
    header = b"OggS" + bytes([0, 4]) + bytes(20)
    check_ogg(header + b"\0")
    with pytest.raises(InputError, match="byte 0: expected a whole page"):
        check_ogg(header + b"\1")


def test_video_files_need_ffmpeg(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingDependencyError, match="ffmpeg"):
        round_trip(F.Video(), b"video")


def test_translations():
    feature = F.TranslationVariableLanguages(["en", "fr"])
    got = round_trip(feature, {"fr": ["b", "a"], "en": "c"})
    assert {key: value.tolist() for key, value in got.items()} == {
        "language": [b"en", b"fr", b"fr"],
        "translation": [b"c", b"a", b"b"],
    }
    assert round_trip(feature, {})["language"].shape == (0,)
    assert (feature.languages, feature.num_languages) == (["en", "fr"], 2)
    assert F.Translation(["fr", "en"]).languages == ["en", "fr"]
    with raises_with(FeatureValueError, feature="x", expected="languages of ['en', 'fr']", got="['de']"):
        round_trip(feature, {"de": "x"})
    with pytest.raises(FeatureTypeError, match="^x: list is not a dict"):
        round_trip(feature, [])


# The libraries whose versions determine bytes: recorded for encoded values, in the manifest too


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
    named = [replace(part, libraries=frozenset(names)) for part, names in ((one, "a"), (other, "ab"), (merge([]), "ü"))]
    merged = pickle.loads(pickle.dumps(merge([pickle.loads(pickle.dumps(part)) for part in named])))
    assert (merged.libraries, merged.total) == ({"a", "b", "ü"}, 2)


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
