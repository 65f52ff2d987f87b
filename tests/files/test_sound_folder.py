"""Folders of sounds named after their labels: stored unchanged or as samples, alike and whole."""

import io
import json
import tarfile
import wave

import numpy as np
import PIL.Image
import pytest

import beam_datasets as bd
from beam_datasets.cli import main
from beam_datasets.cli.explorer import pages
from beam_datasets.errors import InputError
from beam_datasets.features import Audio
from beam_datasets.files.sound_folder import SoundFolder
from beam_datasets.files.split_assignment import SplitBy
from beam_datasets.reading.opening import builder_from_directory
from tests.files.conftest import rows_of
from tests.sounds import FLOAT, NOISE, encoded, packed, wav

MONO = NOISE[:200, 0]
KINDS = {"cat/a.wav": "WAV", "cat/b.flac": "FLAC", "dog/c.aiff": "AIFF", "dog/d.w64": "W64"}


@pytest.fixture
def sounds(files):
    for name, form in KINDS.items():
        files.write(name, encoded(MONO, form))
    return files


def features_of(directory):
    return builder_from_directory(directory).info.features


def examples_of(folder, **options):
    """Returns {file: example} as the builder reads them, and its features."""
    builder = SoundFolder(root=str(folder), **options)
    sources = builder.split_generators(None)
    items = [item for source in sources.values() for unit in source.units for item in source.read(unit)]
    return {item[0]: item[1] for item in items}, builder.info.features


@pytest.mark.parametrize("options", [(), ("--no_lazy_decode",)])
def test_sounds_are_published(sounds, options):
    made = sounds.build("sound_folder", *options)
    audio = features_of(made)["audio"]
    assert (audio.shape, audio.dtype, audio.sample_rate) == ((None,), np.int16, 16000)
    assert audio.lazy_decode == (not options)
    found = {row["audio/filename"].decode(): row for row in rows_of(made)}
    assert found.keys() == KINDS.keys()
    for name, row in found.items():
        np.testing.assert_array_equal(row["audio"], MONO)
        assert row["audio"].dtype == np.int16
        assert row["label"] == ["cat", "dog"].index(name[:3])


def test_files_are_stored_unchanged(sounds):
    found, features = examples_of(sounds.folder)
    assert {name: bytes(example["audio"]) for name, example in found.items()} == {
        name: (sounds.folder / name).read_bytes() for name in KINDS
    }
    assert list(features) == ["audio", "audio/filename", "label"]


def test_splits(sounds):
    eighty = {"train": "80%", "test": "20%"}
    for options in ({"splits": eighty}, {"splits": eighty, "stratify": "label"}):
        sources = SoundFolder(root=str(sounds.folder), **options).split_generators(None)
        assert [*sources] == ["train", "test"]
    with pytest.raises(ValueError, match=r"expected a column of \('label', 'audio/filename'\)"):
        SoundFolder(root=str(sounds.folder), split_by=SplitBy(group="size"), splits=eighty)
    for split in ("train", "test"):
        sounds.write(f"deep/{split}/cat/x.wav", encoded(MONO))
    found = SoundFolder(root=str(sounds.folder / "deep")).split_generators(None)
    assert {split: len(source.units) for split, source in found.items()} == {"train": 1, "test": 1}


@pytest.mark.slow
def test_another_rate_is_bad(sounds):
    """The option that the error proposes accepts it, and keeps the rate."""
    sounds.write("dog/fast.wav", encoded(MONO, rate=44100))
    failed = sounds.fails("sound_folder")
    assert "dog/fast.wav: expected 16000 samples a second, got 44100. Resample it first, or accept any rate: " in failed
    assert "--sample_rate any\n" in failed
    assert "expected 44100 samples a second, got 16000" in sounds.fails("sound_folder", "--sample_rate=44100")
    sounds.build("sound_folder", "--skip_bad")
    assert "left out: 1" in sounds.said()
    made = sounds.build("sound_folder", "--sample_rate=any")
    assert features_of(made)["audio"].sample_rate is None
    rates = {row["audio/filename"].decode(): row["audio/sample_rate"] for row in rows_of(made)}
    assert rates == {**dict.fromkeys(KINDS, 16000), "dog/fast.wav": 44100}


def test_other_samples_are_bad(sounds):
    sounds.write("dog/deep.wav", wav(packed([1, 2, -3], 3), bits=24, rate=16000))
    with pytest.raises(InputError, match=r"deep.wav: expected samples of int16, got int24.*--dtype int32\n"):
        examples_of(sounds.folder)
    for lazy in (True, False):
        found, features = examples_of(sounds.folder, sample_rate=16000, dtype="int32", lazy_decode=lazy)
        assert features["audio"].dtype == np.int32
        stored = bd.features.compile_encoder(features)(found["dog/deep.wav"])
        assert bd.features.compile_decoder(features)(stored)["audio"].tolist() == [1, 2, -3]
    sounds.build("sound_folder", "--dtype=int32")
    said = sounds.said()
    assert "sounds with samples of int24, which are not scaled to int32: 1\n" in said
    assert f"sounds with samples of int16, which are not scaled to int32: {len(KINDS)}\n" in said
    sounds.write("dog/float.wav", wav(np.zeros(3, "<f4").tobytes(), bits=32, tag=FLOAT, rate=16000))
    with pytest.raises(InputError, match="float.wav: expected samples that int32 holds, got float32. Convert it first"):
        examples_of(sounds.folder, dtype="int32")
    sounds.write("dog/stereo.wav", encoded(NOISE))
    found, _ = examples_of(sounds.folder, dtype="int32", skip_bad=True)
    assert found.keys() == {*KINDS, "dog/deep.wav"}
    (sounds.folder / "dog/float.wav").unlink()
    with pytest.raises(
        InputError, match="stereo.wav: expected 1 channel, as was asked for or the first sound has, got 2"
    ):
        examples_of(sounds.folder, dtype="int32")


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("dtype, subtype", [(np.float32, "FLOAT"), (np.float64, "DOUBLE")])
def test_channels_and_floats_are_those_of_the_first_file(files, lazy, dtype, subtype):
    floats = np.sin(np.arange(100, dtype=dtype)).reshape(-1, 2)
    for name in ("a/1.wav", "b/2.wav"):
        files.write(name, encoded(floats, "WAV", subtype))
    found, features = examples_of(files.folder, lazy_decode=lazy)
    assert (features["audio"].shape, features["audio"].dtype) == ((None, 2), dtype)
    stored = bd.features.compile_encoder(features)(found["b/2.wav"])
    np.testing.assert_array_equal(bd.features.compile_decoder(features)(stored)["audio"], floats)


def test_damaged_sounds(sounds):
    """They end the run with an error that names the file, or are left out, also if one is the first file."""
    damaged = {
        "cat/_0.wav": (encoded(MONO)[:-1], "expected 444 bytes, as chunk 'data' declares, got 443"),
        "dog/cut.flac": (encoded(MONO, "FLAC")[:-1], "lost sync"),
        "dog/cut.ogg": (encoded(MONO, "OGG")[:-1], "the last page declares"),
        "dog/notes.txt": (b"notes", "expected WAV, FLAC, OGG, MP3 or AIFF, got a text that begins with b'notes'"),
        "dog/empty.wav": (b"", "expected a sound, got an empty file"),
    }
    for name, (data, problem) in damaged.items():
        file = sounds.write(name, data)
        with pytest.raises(InputError) as caught:
            examples_of(sounds.folder)
        assert str(caught.value).startswith(f"{file}: ")
        assert problem in str(caught.value)
        if name != "dog/empty.wav":
            file.unlink()
    for name, (data, _) in damaged.items():
        sounds.write(name, data)
    sounds.write("dog/.hidden.wav", b"left out")
    assert f"{sounds.folder}/cat/_0.wav: expected 444 bytes" in sounds.fails("sound_folder")
    assert {row["audio/filename"].decode() for row in rows_of(sounds.build("sound_folder", "--skip_bad"))} == set(KINDS)
    assert "left out: 5" in sounds.said()


def test_a_folder_without_a_sound(files):
    files.write("cat/a.txt", b"text")
    with pytest.raises(
        InputError, match="expected a sound, got none that can be read. The first: .*a.txt: expected WAV"
    ):
        examples_of(files.folder, skip_bad=True)


@pytest.mark.parametrize("options", [{"dtype": "int17"}, {"sample_rate": 0}, {"sample_rate": "all"}])
def test_wrong_arguments(options):
    [name] = options
    with pytest.raises(ValueError, match=f"^{name}: expected "):
        SoundFolder(root="in", **options)


def picture():
    stream = io.BytesIO()
    PIL.Image.new("RGB", (3, 2)).save(stream, "PNG")
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["image_folder", "sound_folder"])
def test_appending(files, tmp_path, kind, caplog):
    """A folder is appended like any builder, here in the process itself; what was left out is counted."""
    data = picture() if kind == "image_folder" else encoded(MONO)
    for name in ("in/cat/a", "in/dog/b", "more/cat/n", "more/dog/m"):
        files.write(f"../{name}", data)
    files.write("../more/dog/bad", b"bad")
    data_dir = files.build(kind).parent.parent
    args = ["append", "made", "--data_dir", str(data_dir), "--from", kind, "--root", str(tmp_path / "more")]
    assert main([*args, "--skip_bad"]) == 0
    assert "left out: 1" in caplog.text
    assert len(rows_of(data_dir / "made" / "2.0.0")) == 4


@pytest.mark.slow
def test_exports_and_the_explorer(sounds, tmp_path):
    made = sounds.build("sound_folder")
    for kind in ("jsonl", "parquet", "webdataset"):
        out = tmp_path / kind
        assert main(["export", str(made), "--to", str(out), "--format", kind]) == 0
    [file] = (tmp_path / "jsonl").glob("*.jsonl")
    assert len([json.loads(line)["audio"]["b64"] for line in file.read_text().splitlines()]) == 4
    [table] = (tmp_path / "parquet").glob("*.parquet")
    again = sounds.build("parquet", f"--pattern={table}", "--feature=audio=audio")
    assert sorted(row["audio"].tolist() for row in rows_of(again)) == [MONO.tolist()] * 4
    endings = {}
    [tar] = (tmp_path / "webdataset").glob("*.tar")
    for name in _names_in(tar):
        endings.setdefault(name.split(".", 1)[1], []).append(name)
    assert {"audio.wav", "audio.flac", "audio.aiff", "audio.w64"} <= endings.keys()
    for name, form in KINDS.items():
        body, media_type = pages._sound((sounds.folder / name).read_bytes(), Audio())
        assert media_type == {"FLAC": "audio/flac"}.get(form, "audio/wav")
        if form in ("AIFF", "W64"):
            with wave.open(io.BytesIO(body)) as file:
                assert (file.getframerate(), file.getnframes()) == (16000, 200)


def _names_in(path):
    with tarfile.open(path) as tar:
        return tar.getnames()


def test_the_commands_that_look_at_examples(sounds, capsys):
    made = sounds.build("sound_folder")
    sounds.said()
    for command in ("head", "stats", "info"):
        assert main([command, str(made)]) == 0
    said = capsys.readouterr().out
    assert "audio: int16 (200,)" in said
    assert "Audio(shape=(None,), dtype=int16)" in said
    assert main(["verify", str(made), "--decode"]) == 0
