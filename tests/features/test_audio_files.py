"""Audio features of sound files: stored as samples or as files, with the numbers, rate and channels that files have."""

import io
import re
import sys

import numpy as np
import pytest
import soundfile

from beam_datasets import features as F
from beam_datasets.errors import (
    FeatureError,
    FeatureOverflowError,
    FeatureTypeError,
    FeatureValueError,
    MissingDependencyError,
)
from beam_datasets.features.config import from_json
from beam_datasets.formats import example
from beam_datasets.intake import sound
from tests.facts import raises_with
from tests.sounds import FLOAT, NOISE, encoded, packed, wav

MONO = NOISE[:, 0]
EDGES = [1, 2, -3, -32768, 32767]
BOTH = pytest.mark.parametrize("lazy", [False, True])


def stored(feature, value):
    return F.compile_encoder({"x": feature})({"x": value})


def round_trip(feature, value):
    return F.compile_decoder({"x": feature})(stored(feature, value))["x"]


@BOTH
@pytest.mark.parametrize("encoding", ["none", "zlib", "bytes"])
def test_files_as_paths_open_files_and_bytes(tmp_path, encoding, lazy):
    feature = F.Audio(encoding=encoding, lazy_decode=lazy, dtype=np.int32, sample_rate=16000)
    for form in ("WAV", "FLAC", "AIFF"):
        file = tmp_path / f"sound.{form}"
        file.write_bytes(encoded(MONO, form))
        for given in (file, str(file), file.read_bytes(), io.BytesIO(file.read_bytes())):
            got = round_trip(feature, given)
            assert got.dtype == np.int32
            np.testing.assert_array_equal(got, MONO)


def test_lazily_decoded_files_are_stored_as_they_are():
    feature = F.Audio(lazy_decode=True)
    for form in ("WAV", "FLAC", "OGG", "MP3", "AIFF"):
        data = encoded(MONO, form)
        assert example.parse(stored(feature, data)) == {"x": [data]}
        assert example.parse(stored(feature, sound.checked(data))) == {"x": [data]}


@BOTH
@pytest.mark.parametrize(
    "data, dtype, expected",
    [
        (wav(packed(EDGES, 2)), "int64", EDGES),
        (wav(packed(EDGES, 2)), "int16", EDGES),
        (wav(packed(EDGES, 2)), "float32", EDGES),  # not scaled, as TFDS has them
        (wav(packed(EDGES, 2)), "float64", EDGES),
        (wav(bytes([129, 130, 125]), bits=8), "int64", [1, 2, -3]),
        (wav(bytes([129, 130, 125]), bits=8), "int8", [1, 2, -3]),
        (wav(packed(EDGES, 3), bits=24), "int64", EDGES),
        (wav(packed(EDGES, 3), bits=24), "float32", EDGES),
        (wav(packed(EDGES, 4), bits=32), "int32", EDGES),
        (wav(packed([1 << 4, -3 << 4], 2), bits=16, valid=12), "int64", [16, -48]),
        (wav(packed([5, 6], 2)), "uint8", [5, 6]),
        (wav(np.array([0.1, -1.5], "<f4").tobytes(), tag=FLOAT, bits=32), "float32", [np.float32(0.1), -1.5]),
        (wav(np.array([0.1, -1.5], "<f4").tobytes(), tag=FLOAT, bits=32), "float64", [np.float32(0.1), -1.5]),
        (wav(np.array([0.5, -1.5], "<f8").tobytes(), tag=FLOAT, bits=64), "float32", [0.5, -1.5]),
    ],
)
def test_samples_are_not_scaled(data, dtype, expected, lazy):
    got = round_trip(F.Audio(dtype=dtype, lazy_decode=lazy), data)
    assert got.dtype == dtype
    assert got.tolist() == expected


@BOTH
@pytest.mark.parametrize("form", ["OGG", "MP3"])
def test_lossy_files_have_16_bit_integers(form, lazy):
    data = encoded(MONO, form)
    floats = soundfile.read(io.BytesIO(data), dtype="float32")[0]
    for dtype in ("int64", "int16", "float32"):
        got = round_trip(F.Audio(dtype=dtype, lazy_decode=lazy), data)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, np.clip(floats * 32768.0, -32768, 32767), atol=1.5)


@BOTH
def test_samples_that_the_dtype_does_not_hold(lazy):
    floats = wav(np.array([0.0, 1.0], "<f4").tobytes(), tag=FLOAT, bits=32)
    advice = "Give the feature dtype=np.float32"
    with raises_with(FeatureValueError, feature="x", expected="integers", got=re.compile("float32"), advice=advice):
        round_trip(F.Audio(lazy_decode=lazy), floats)
    assert round_trip(F.Audio(dtype=np.float32, lazy_decode=lazy), floats).tolist() == [0.0, 1.0]
    with pytest.raises(FeatureOverflowError, match="^x: the sound: 32768 does not fit int16"):
        round_trip(F.Audio(dtype=np.int16, lazy_decode=lazy), wav(packed([32768], 3), bits=24))
    exact = wav(packed([(1 << 24) + 1], 4), bits=32)
    with raises_with(FeatureValueError, feature="x", advice=re.compile("allow_rounding=True")):
        round_trip(F.Audio(dtype=np.float32, lazy_decode=lazy), exact)
    rounded = F.Audio(dtype=np.float32, lazy_decode=lazy, allow_rounding=True)
    assert round_trip(rounded, exact).tolist() == [1 << 24]


@BOTH
def test_another_rate_is_an_error(tmp_path, lazy):
    file = tmp_path / "a.wav"
    file.write_bytes(encoded(MONO, rate=44100))
    feature = F.Audio(sample_rate=16000, lazy_decode=lazy)
    facts = {"feature": "x", "expected": re.compile("^16000 samples a second"), "got": "44100"}
    with raises_with(FeatureValueError, **facts) as error:
        round_trip(feature, file)
    assert str(file) in str(error.value)
    with raises_with(FeatureValueError, **facts):
        round_trip(feature, sound.checked(file.read_bytes()))
    for rate in (44100, None):
        assert len(round_trip(F.Audio(sample_rate=rate, lazy_decode=lazy), file)) == len(MONO)


def test_a_stored_file_of_another_rate_is_read():
    """TFDS publishes such datasets: to it the rate is only a number."""
    record = stored(F.Audio(lazy_decode=True), encoded(MONO, rate=44100))
    decode = F.compile_decoder({"x": F.Audio(lazy_decode=True, sample_rate=16000)})
    np.testing.assert_array_equal(decode(record)["x"], MONO)


@BOTH
@pytest.mark.parametrize("content, options, problem", [
    (wav(np.zeros(2, "<f4").tobytes(), tag=FLOAT, bits=32), {}, "expected integers, got a file of float32 samples."),
    (wav(packed([32768], 3), bits=24), {"dtype": np.int16}, "32768 does not fit int16"),
    (wav(packed([1, 2], 2)), {"shape": (3,)}, "the value has the shape"),
    (wav(packed([(1 << 24) + 1], 4), bits=32), {"dtype": np.float32}, "expected a number that float32 holds"),
])  # fmt: skip
def test_errors_about_samples_name_the_file(tmp_path, lazy, content, options, problem):
    (tmp_path / "a.wav").write_bytes(content)
    with pytest.raises(FeatureError) as caught:
        round_trip(F.Audio(lazy_decode=lazy, **options), tmp_path / "a.wav")
    assert str(caught.value).startswith(f"x: the sound '{tmp_path}/a.wav': {problem}")


@BOTH
def test_another_length_is_an_error(lazy):
    feature = F.Audio(shape=(3,), lazy_decode=lazy)
    assert round_trip(feature, wav(packed([1, 2, 3], 2))).tolist() == [1, 2, 3]
    for given in (wav(packed([1, 2], 2)), sound.checked(wav(packed([1, 2], 2)))):
        with raises_with(FeatureValueError, feature="x", expected="the shape (3,)", got="(2,)"):
            round_trip(feature, given)


def test_channels():
    data = encoded(NOISE)
    for shape in ((None, 2), (3000, 2), (None, None)):
        np.testing.assert_array_equal(round_trip(F.Audio(shape=shape, lazy_decode=True), data), NOISE)
    np.testing.assert_array_equal(round_trip(F.Audio(shape=(None, 2)), data), NOISE)
    advice = re.compile(r"shape=\(None, 2\)")
    with raises_with(FeatureValueError, feature="x", expected=re.compile("^1 channels"), got="2", advice=advice):
        round_trip(F.Audio(), data)
    with raises_with(FeatureValueError, feature="x", expected=re.compile("^2 channels"), got="1"):
        round_trip(F.Audio(shape=(None, 2)), encoded(MONO))


def test_channels_of_stored_files_are_mixed_as_by_tfds():
    stereo = wav(packed([[1, 2], [-1, -2], [32767, 32767], [-32768, -32767]], 2), channels=2)
    assert round_trip(F.Audio(lazy_decode=True), stereo).tolist() == [1, -2, 32767, -32768]
    three = wav(packed([[1, 2, 3], [-1, -1, -1], [5, 5, 5]], 2), channels=3)
    assert round_trip(F.Audio(lazy_decode=True), three).tolist() == [1, -3, 3]
    mono = round_trip(F.Audio(shape=(None, 3), lazy_decode=True), wav(packed([1, -2], 2)))
    assert mono.tolist() == [[1, 1, 1], [-2, -2, -2]]
    with raises_with(FeatureValueError, feature="x", expected="2 channels", got=re.compile("^3")):
        round_trip(F.Audio(shape=(None, 2), lazy_decode=True), three)
    floats = wav(np.array([0.25, 0.75], "<f4").tobytes(), tag=FLOAT, bits=32, channels=2)
    assert round_trip(F.Audio(dtype=np.float32, lazy_decode=True), floats).tolist() == [0.5]


@BOTH
def test_damaged_files_are_not_stored(lazy):
    for data in (encoded(MONO)[:-1], encoded(MONO, "FLAC")[:-1], b"", b"no sound at all", encoded(MONO, "OGG")[:-9]):
        with pytest.raises(FeatureValueError, match="^x: the sound: expected"):
            stored(F.Audio(lazy_decode=lazy), data)
    record = example.serialize({"x": [b"no sound at all"]})
    with pytest.raises(FeatureValueError, match="^x: expected WAV, FLAC, OGG, MP3 or AIFF, got a text that begins"):
        F.compile_decoder({"x": F.Audio(lazy_decode=True)})(record)


@BOTH
def test_a_format_that_is_declared(lazy):
    for name in ("wav", "WAV", None, "m4a"):
        np.testing.assert_array_equal(round_trip(F.Audio(file_format=name, lazy_decode=lazy), encoded(MONO)), MONO)
    with raises_with(FeatureValueError, feature="x", expected=re.compile("^'mp3'"), got="WAV"):
        round_trip(F.Audio(file_format="mp3", lazy_decode=lazy), encoded(MONO))


def test_flac_that_is_decoded_when_read_has_the_dtypes_of_tfds():
    with pytest.raises(ValueError, match=r"one of \('uint8', 'int16', 'int32'\), as for TFDS, not int64"):
        F.Audio(file_format="flac", lazy_decode=True)
    feature = F.Audio(file_format="flac", lazy_decode=True, dtype=np.int16)
    np.testing.assert_array_equal(round_trip(feature, encoded(MONO, "FLAC")), MONO)
    F.Audio(file_format="flac")
    node = feature.to_json()
    published = from_json({**node, "audio": {**node["audio"], "dtype": "int64"}})
    assert (published.dtype, published.lazy_decode) == (np.int64, True)
    np.testing.assert_array_equal(round_trip(published, encoded(MONO, "FLAC")), MONO)


def test_what_is_no_file():
    with raises_with(FeatureTypeError, feature="x", expected=re.compile("an array, a list, a path"), got="int"):
        round_trip(F.Audio(lazy_decode=True), 5)
    with raises_with(FeatureTypeError, feature="x", expected=re.compile("an array, a list, a path"), got="list"):
        round_trip(F.Audio(lazy_decode=True), [1, 2])
    with pytest.raises(FeatureValueError, match="^x: the file '/nowhere.wav' cannot be read"):
        round_trip(F.Audio(), "/nowhere.wav")


def test_sound_files_need_soundfile(monkeypatch):
    sound._stream_class.cache_clear()
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(MissingDependencyError, match=r"sound files need soundfile.*\[audio\]"):
        round_trip(F.Audio(), encoded(MONO, "FLAC"))
    assert len(round_trip(F.Audio(), encoded(MONO))) == len(MONO)  # not needed for WAV files of 16 bits
