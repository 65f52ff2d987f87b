"""Sounds of rows: bytes in Parquet and TFRecord files, paths in CSV files, base64 in JSON lines."""

import base64
import json

import numpy as np
import pytest

from beam_datasets.cli import main
from beam_datasets.errors import InputError
from beam_datasets.files.fields import Field, SoundType, parse_field, to_feature
from beam_datasets.files.sounds import check_sound, completed, values_at
from beam_datasets.formats import example, tfrecord
from beam_datasets.intake.sound import SoundInfo
from beam_datasets.reading.opening import builder_from_directory
from tests.files.conftest import rows_of
from tests.files.in_process import publish
from tests.sounds import NOISE, encoded, packed, wav

MONO = NOISE[:200, 0]


@pytest.mark.parametrize(
    "spec, sound",
    [
        ("audio", SoundType()),
        ("audio:rate=16000", SoundType(16000)),
        ("audio:rate=any,channels=2", SoundType(0, 2)),
        ("audio:rate=8000,channels=1,samples=int24", SoundType(8000, 1, "int24")),
        ("audio:dtype=float32", SoundType(dtype="float32")),
    ],
)
def test_the_type_of_a_column(spec, sound):
    field = parse_field(spec)
    assert field == Field("audio", sound=sound)
    assert str(field) == spec


@pytest.mark.parametrize(
    "spec, problem",
    [
        ("audio[]", "a list of audio cannot be stored"),
        ("audio?", "a sound cannot be missing"),
        ("audio:16000", "not a type of sounds"),
        ("audio:rate=0", "not a type of sounds"),
        ("audio:rate=-1", "not a type of sounds"),
        ("audio:rate=", None),
        ("audio:samples=int17", "not a type of sounds"),
        ("audio:dtype=bool", "not a type of sounds"),
        ("audio:hertz=5", "not a type of sounds"),
        ("int8:rate=5", "is not a type of a feature"),
    ],
)
def test_what_is_no_type(spec, problem):
    if problem is None:
        assert parse_field(spec) == Field("audio")
        return
    with pytest.raises(ValueError, match=problem):
        parse_field(spec)


def test_the_feature_of_a_type():
    first = SoundInfo("WAV", "int24", 48000, 2, 10)
    feature = to_feature(Field("audio", sound=completed(SoundType(), first)))
    assert (feature.shape, feature.dtype, feature.sample_rate, feature.lazy_decode) == (
        (None, 2),
        np.int32,
        48000,
        True,
    )
    given = completed(SoundType(0, 1, dtype="float32"), first)
    feature = to_feature(Field("audio", sound=given))
    assert (feature.shape, feature.dtype, feature.sample_rate) == ((None,), np.float32, None)
    assert to_feature(Field("audio")).dtype == np.int64


def test_sounds_that_differ():
    """Every option that an error proposes accepts the sound."""
    first, asked = SoundInfo("WAV", "int16", 16000, 1, 9), []

    def option(sound):
        asked.append(sound)
        return f"--feature x=audio:{sound}"

    def problem(info, sound=None):
        asked.clear()
        with pytest.raises(ValueError, match=r"^expected") as caught:
            check_sound(info, sound or completed(SoundType(), first), option)
        for each in asked:
            check_sound(info, each, option)
        return str(caught.value)

    check_sound(first, completed(SoundType(), first), option)
    wrong = problem(SoundInfo("WAV", "int16", 44100, 1, 9))
    assert wrong.startswith("expected 16000 samples a second, got 44100. Resample it first, or accept any rate: ")
    assert wrong.endswith("--feature x=audio:rate=any,channels=1,samples=int16")
    assert "expected 1 channel, as was asked for or the first sound has, got 2" in problem(
        SoundInfo("WAV", "int16", 16000, 2, 9)
    )
    wrong = problem(SoundInfo("WAV", "int24", 16000, 1, 9))
    assert wrong.startswith("expected samples of int16, got int24. Convert it first, or store all of them without scal")
    assert wrong.endswith("audio:rate=16000,channels=1,dtype=int32")
    assert "have different scales" in problem(SoundInfo("WAV", "float32", 16000, 1, 9))
    assert "samples that int16 holds, got int24" in problem(SoundInfo("W", "int24", 1, 1, 9), SoundType(dtype="int16"))
    check_sound(SoundInfo("WAV", "int24", 1, 1, 9), SoundType(dtype="float32"), option)


def test_values_at_paths():
    row = {"a": {"b": [{"c": b"1"}, {"c": None}, {"c": b"2"}, {}]}, "x/y": b"3", "n": None}
    assert list(values_at(row, "a/b/c")) == [b"1", b"2"]
    assert list(values_at(row, "x/y")) == [b"3"]
    assert list(values_at(row, "n")) == list(values_at(row, "none/of")) == []


@pytest.fixture
def sounds(files):
    """Two sounds beside the files that name them."""
    for name, form in (("a", "WAV"), ("b", "FLAC")):
        files.write(f"sounds/{name}.{form.lower()}", encoded(MONO, form))
    return files


def check(directory, name="sound", count=2):
    """Checks the published sounds, and that the files are stored as they are."""
    feature = builder_from_directory(directory).info.features[name]
    assert (feature.dtype, feature.shape, feature.sample_rate) == (np.int16, (None,), 16000)
    found = rows_of(directory)
    assert len(found) == count
    for row in found:
        np.testing.assert_array_equal(row[name], MONO)


def test_paths_in_csv_and_json_lines(sounds):
    path = sounds.write("a.csv", "id,sound\n1,sounds/a.wav\n2,sounds/b.flac\n")
    check(sounds.build("csv", f"--pattern={path}", "--feature=sound=audio"))
    path = sounds.write("a.jsonl", '{"o": [{"sound": "sounds/a.wav"}]}\n{"o": [{"sound": "sounds/b.flac"}]}\n')
    made = sounds.build("jsonl", f"--pattern={path}", "--feature=o/sound=audio")
    assert [row["o"]["sound"][0].tolist() for row in rows_of(made)] == [MONO.tolist()] * 2


@pytest.mark.slow
def test_bytes_in_json_lines_parquet_and_tfrecords(files):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    contents = [encoded(MONO, form) for form in ("WAV", "FLAC")]
    rows = [{"sound": {"b64": base64.b64encode(data).decode()}} for data in contents]
    path = files.write("a.jsonl", "\n".join(map(json.dumps, rows)))
    check(files.build("jsonl", f"--pattern={path}", "--feature=sound=audio"))
    path = files.write("a.parquet")
    pq.write_table(pa.table({"sound": contents}), path)
    check(files.build("parquet", f"--pattern={path}", "--feature=sound=audio"))
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    pq.write_table(pa.table({"sound": pa.array([{"bytes": data, "path": "x"} for data in contents], kind)}), path)
    check(files.build("parquet", f"--pattern={path}", "--feature=sound=audio"))
    path = files.write("a.tfrecord")
    with path.open("wb") as stream:
        for data in contents:
            stream.write(tfrecord.frame(example.serialize({"sound": [data]})))
    check(files.build("tfrecord", f"--pattern={path}", "--feature=sound=audio"))


@pytest.mark.slow
def test_rows_with_bad_sounds(sounds):
    """The errors name row, file and way out; --skip_bad leaves the rows out."""
    sounds.write("sounds/cut.wav", encoded(MONO)[:-1])
    sounds.write("sounds/fast.wav", encoded(MONO, rate=44100))
    sounds.write("sounds/deep.wav", wav(packed([1, 2], 3), bits=24, rate=16000))
    names = ["a.wav", "cut.wav", "fast.wav", "deep.wav", "missing.wav", "b.flac"]
    path = sounds.write("a.csv", "sound\n" + "".join(f"sounds/{name}\n" for name in names))
    made = sounds.build("csv", f"--pattern={path}", "--feature=sound=audio", "--skip_bad")
    assert "left out: 4" in sounds.said()
    check(made)
    for name, problem in [
        ("cut.wav", "cut.wav: expected 444 bytes, as chunk 'data' declares, got 443"),
        ("fast.wav", "fast.wav: expected 16000 samples a second, got 44100"),
        ("missing.wav", "missing.wav cannot be read"),
    ]:
        path.write_text(f"sound\nsounds/a.wav\nsounds/{name}\n")
        failed = sounds.fails("csv", f"--pattern={path}", "--feature=sound=audio")
        assert f"{path}, line 3: column 'sound': " in failed
        assert problem in failed
    path.write_text("sound\nsounds/a.wav\nsounds/fast.wav\nsounds/deep.wav\n")
    spec = "--feature=sound=audio:rate=any,channels=1,dtype=int32"
    assert sorted(len(row["sound"]) for row in rows_of(sounds.build("csv", f"--pattern={path}", spec))) == [2, 200, 200]
    path.write_text("sound\nsounds/cut.wav\n")
    assert "feature 'sound': expected a sound, got none" in sounds.fails(
        "csv", f"--pattern={path}", "--feature=sound=audio"
    )


@pytest.mark.parametrize("name, problem", [
    ("fast.wav", "expected 16000 samples a second, got 44100"), ("two.wav", "expected 1 channel, "),
    ("deep.wav", "expected samples of int16, got int24"),
])  # fmt: skip
def test_the_file_of_a_sound_that_differs_is_named(tmp_path, name, problem):
    """As that of a damaged one: its path may be in one of many columns."""
    content = {
        "fast.wav": {"rate": 44100},
        "two.wav": {"samples": np.stack([MONO, MONO], 1)},
        "deep.wav": {"subtype": "PCM_24"},
    }
    (tmp_path / "a.wav").write_bytes(encoded(MONO))
    (tmp_path / name).write_bytes(encoded(**{"samples": MONO, **content[name]}))
    (tmp_path / "a.csv").write_text(f"sound\na.wav\n{name}\n")
    with pytest.raises(InputError) as caught:
        publish("csv", tmp_path / "a.csv", "--feature=sound=audio")
    assert f"line 3: column 'sound': {tmp_path / name}: {problem}" in str(caught.value)


def test_a_missing_sound(sounds):
    path = sounds.write("a.jsonl", '{"sound": "sounds/a.wav"}\n{"sound": null}\n')
    args = (f"--pattern={path}", "--feature=sound=audio")
    assert "the sound is missing, which cannot be stored; leave out such rows by --skip_bad" in sounds.fails(
        "jsonl", *args
    )
    check(sounds.build("jsonl", *args, "--skip_bad"), count=1)


@pytest.mark.slow
def test_appending_rows_with_sounds(sounds, capsys):
    """A later day has the type of the published column; another rate or a missing sound is an error."""
    day = sounds.write("day1.jsonl", '{"sound": "sounds/a.wav", "n": 1}\n')
    data_dir = str(sounds.build("jsonl", f"--pattern={day}", "--feature=sound=audio").parent.parent)
    sounds.write("sounds/fast.wav", encoded(MONO, rate=44100))

    def append(text):
        path = sounds.write("day2.jsonl", text)
        code = main(["append", "made", "--data_dir", data_dir, "--from", "jsonl", f"--pattern={path}"])
        return code, capsys.readouterr().err

    assert "expected 16000 samples a second, got 44100" in append('{"sound": "sounds/fast.wav", "n": 2}\n')[1]
    missing = append('{"sound": "sounds/b.flac", "n": 2}\n{"sound": null, "n": 3}\n')[1]
    assert "the sound is missing, which cannot be stored" in missing
    assert append('{"sound": "sounds/b.flac", "n": 2}\n')[0] == 0
    found = rows_of(f"{data_dir}/made/2.0.0")
    assert [row["sound"].tolist() for row in found] == [MONO.tolist()] * 2
