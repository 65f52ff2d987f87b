"""Sound files: read whole, as exact numbers, or refused with a reason."""

import collections
import io
import struct
import tracemalloc
import wave

import numpy as np
import pytest
import soundfile

from beam_datasets.errors import InputError
from beam_datasets.intake.sound import checked, read_sound
from beam_datasets.intake.sound_layout import _mpeg_frame, ogg_checksum
from beam_datasets.limits import MAX_SAMPLES
from tests.sounds import ALAW, FLOAT, NOISE, ULAW, chunk, encoded, flac, packed, wav

SMALL = [1, 2, -3]
WHOLE = {  # kind of file -> samples of it
    ("WAV", "PCM_16"): "int16",
    ("WAV", "PCM_24"): "int24",
    ("WAV", "PCM_32"): "int32",
    ("WAV", "PCM_U8"): "int8",
    ("WAV", "FLOAT"): "float32",
    ("WAV", "DOUBLE"): "float64",
    ("WAV", "ALAW"): "int16",
    ("WAV", "ULAW"): "int16",
    ("WAVEX", "PCM_16"): "int16",
    ("WAVEX", "FLOAT"): "float32",
    ("WAVEX", "ULAW"): "int16",
    ("RF64", "PCM_16"): "int16",
    ("RF64", "FLOAT"): "float32",
    ("W64", "PCM_24"): "int24",
    ("FLAC", "PCM_S8"): "int8",
    ("FLAC", "PCM_16"): "int16",
    ("FLAC", "PCM_24"): "int24",
    ("AIFF", "PCM_S8"): "int8",
    ("AIFF", "PCM_16"): "int16",
    ("AIFF", "PCM_24"): "int24",
    ("AIFF", "FLOAT"): "float32",
    ("AIFF", "DOUBLE"): "float64",
    ("AIFF", "ALAW"): "int16",
    ("OGG", "VORBIS"): "int16",
    ("OGG", "OPUS"): "int16",
    ("MP3", "MPEG_LAYER_III"): "int16",
}
LOSSY = ("OGG", "MP3")


def problem_of(data):
    with pytest.raises(InputError) as caught:
        read_sound(data)
    return str(caught.value)


@pytest.mark.parametrize("part", range(4, 16))
def test_the_kind_of_samples_is_the_whole_guid(part):
    data = bytearray(encoded(NOISE, "WAVEX", "PCM_16"))
    guid = data.index(bytes.fromhex("800000aa00389b71")) - 8
    data[guid + part] ^= 1
    assert problem_of(bytes(data)).startswith("expected a kind of samples that is known, got b'")


def test_ambisonic_samples_are_plain():
    data = encoded(NOISE, "WAVEX", "PCM_16")
    plain, ambisonic = (bytes.fromhex(text) for text in ("00001000800000aa00389b71", "2107d3118644c8c1ca000000"))
    assert plain in data
    assert np.array_equal(read_sound(data.replace(plain, ambisonic)).samples, NOISE)


@pytest.mark.parametrize("form, subtype", WHOLE)
@pytest.mark.parametrize("channels", [1, 2])
def test_samples_are_those_of_soundfile(form, subtype, channels):
    data = encoded(NOISE[:, :channels], form, subtype)
    sound, samples = read_sound(data), WHOLE[form, subtype]
    expected, rate = soundfile.read(io.BytesIO(data), dtype="float64", always_2d=True)
    assert (sound.info.samples, sound.info.sample_rate, sound.info.channels) == (samples, rate, channels)
    assert sound.samples.shape == expected.shape == (sound.info.frames, channels)
    assert sound.info.kind == {"WAVEX": "WAV", "RF64": "WAV", "W64": "WAV"}.get(form, form)
    if samples.startswith("int"):
        expected = expected * 2.0 ** (int(samples[3:]) - 1)
    if form in LOSSY:  # whose decoder's floats differ in the last bit if soundfile has sought to the beginning
        np.testing.assert_allclose(sound.samples, np.clip(np.rint(expected), -32768, 32767), rtol=0, atol=1)
    else:
        np.testing.assert_array_equal(sound.samples, expected)


@pytest.mark.parametrize("bits, width, valid", [(16, 2, 12), (12, 2, 12), (24, 3, 20), (20, 3, 20), (32, 4, 24)])
def test_valid_bits_are_in_the_upper_bits_of_the_container(bits, width, valid):
    shift = 8 * width - valid
    sound = read_sound(wav(packed([n << shift for n in SMALL], width), bits=bits, valid=valid))
    assert sound.info.samples == f"int{8 * width}"
    assert sound.samples.tolist() == [[n << shift] for n in SMALL]
    plain = read_sound(wav(packed([n << shift for n in SMALL], width), bits=bits))
    assert plain.samples.tolist() == sound.samples.tolist()


def test_integers_of_all_sizes_by_hand():
    for bits in (16, 24, 32):
        for valid in (None, bits):
            edges = [*SMALL, (1 << (bits - 1)) - 1, -(1 << (bits - 1))]
            data = packed(edges, bits // 8)
            assert read_sound(wav(data, bits=bits, valid=valid)).samples.ravel().tolist() == edges
    data = packed(SMALL, 3, "big")
    assert read_sound(wav(data, bits=24, order=">")).samples.ravel().tolist() == SMALL
    assert read_sound(wav(bytes([0, 127, 128, 129, 255]), bits=8)).samples.ravel().tolist() == [-128, -1, 0, 1, 127]
    floats = np.array([0.1, 1.5, -2.0, np.inf, np.nan], "<f4")
    for valid in (None, 32):
        found = read_sound(wav(floats.tobytes(), bits=32, tag=FLOAT, valid=valid)).samples.ravel()
        np.testing.assert_array_equal(found, floats)


def test_the_module_wave_reads_the_same():
    with wave.open(io.BytesIO(encoded())) as file:
        expected = np.frombuffer(file.readframes(-1), "<i2").reshape(-1, 2)
    np.testing.assert_array_equal(read_sound(encoded()).samples, expected)


def _expanded(code, tag):
    """Returns the number of a byte of A-law or u-law, by G.711."""
    if tag == ULAW:
        code ^= 0xFF
        size = (((code & 15) << 3) + 132 << (code >> 4 & 7)) - 132
        return -size if code & 0x80 else size
    code ^= 0x55
    exponent, mantissa = code >> 4 & 7, (code & 15) << 4
    size = mantissa + 8 if exponent == 0 else mantissa + 264 << (exponent - 1)
    return size if code & 0x80 else -size


@pytest.mark.parametrize("tag", [ALAW, ULAW])
@pytest.mark.parametrize("valid", [None, 8])
def test_companded_samples_by_the_standard(tag, valid):
    found = read_sound(wav(bytes(range(256)), bits=8, tag=tag, valid=valid)).samples.ravel()
    assert found.tolist() == [_expanded(code, tag) for code in range(256)]


@pytest.mark.parametrize("bits", [8, 16, 24])
@pytest.mark.parametrize("declare", [True, False])
@pytest.mark.parametrize("md5", [True, False])
def test_flac_with_and_without_length_and_checksum(bits, declare, md5):
    samples = np.tile([*SMALL, (1 << (bits - 1)) - 1, -(1 << (bits - 1))], 60).reshape(-1, 2)
    data = flac(samples, bits, declare=declare, md5=md5)
    assert read_sound(data).samples.tolist() == samples.tolist()
    for size in (1, 30, 200):
        assert "lost sync" in problem_of(data[:-size])


def test_flac_of_other_content_than_its_header_declares():
    samples = np.arange(100).reshape(-1, 2)
    data, other = flac(samples, 16), flac(samples + 1, 16)
    assert "the checksum in the FLAC file" in problem_of(data[:26] + other[26:42] + data[42:])
    assert "expected 100 samples, as the file declares, got 50" in problem_of(data[:24] + b"\0d" + data[26:])
    for bits in (12, 20):
        assert f"8, 16 or 24 bits, got {bits} bits" in problem_of(flac(samples, bits))


@pytest.mark.parametrize("form, subtype", WHOLE)
def test_a_cut_file_is_an_error(form, subtype):
    data = encoded(NOISE[:1000], form, subtype)
    for size in (1, 2, 3, 4, 7, 8, 60, 500, len(data) - 20, len(data) - 4):
        problem_of(data[:-size])


def test_the_error_of_a_cut_file_says_how_much_is_missing():
    data = encoded(NOISE[:200])
    expected = "expected 844 bytes, as chunk 'data' declares, got 744: the end of the file is missing"
    assert expected in problem_of(data[:-100])
    assert "got 843" in problem_of(data[:-1])
    vorbis = encoded(form="OGG")
    assert "the last page declares" in problem_of(vorbis[:-1])
    last = vorbis.rfind(b"OggS")
    assert "expected the last page of the OGG file" in problem_of(vorbis[:last])
    mp3 = encoded(form="MP3")
    assert "as its last frame declares" in problem_of(mp3[:-1])
    size = _last_mp3_frame(mp3)
    assert "frames, as its header declares" in problem_of(mp3[:-size])


def _last_mp3_frame(data):
    return len(data) - data.rfind(data[:2])


@pytest.mark.parametrize("content", [b"", b"\0\5\x16\7" + bytes(99), None], ids=["empty", "AppleDouble", "folder"])
def test_attributes_of_macos_in_the_working_directory(tmp_path, monkeypatch, content):
    """libsndfile would take an MP3 file without a name for a part of them."""
    sounds = {form: encoded(form=form) for form in ("WAV", "FLAC", "OGG", "AIFF", "MP3")}
    expected = {form: read_sound(data) for form, data in sounds.items()}
    if content is None:
        (tmp_path / ".AppleDouble").mkdir()
    else:
        (tmp_path / "._").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    for form, data in sounds.items():
        sound = read_sound(data)
        assert sound.info == expected[form].info
        np.testing.assert_array_equal(sound.samples, expected[form].samples)
    with pytest.raises(InputError):
        read_sound(sounds["MP3"][:-50])


@pytest.mark.parametrize("subtype", ["PCM_S8", "PCM_U8", "PCM_16", "PCM_24", "PCM_32", "ULAW", "ALAW", "FLOAT"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("frames", [1, 700, 701])
def test_aiff_with_an_odd_number_of_bytes(subtype, channels, frames):
    """libsndfile counts the padding as samples where the number of bytes is odd."""
    samples = np.random.default_rng(frames).integers(-9999, 9999, (frames, channels), np.int16)
    file = io.BytesIO()
    soundfile.write(file, samples, 8000, format="AIFF", subtype=subtype)
    data = file.getvalue()
    bits = {"PCM_S8": 8, "PCM_U8": 8, "PCM_24": 24, "PCM_32": 32}.get(subtype, 16)
    dtype = "float32" if subtype == "FLOAT" else "int16" if bits <= 16 else "int32"
    expected = soundfile.read(io.BytesIO(data), dtype=dtype, always_2d=True)[0]
    if bits in (8, 24):
        expected >>= 8
    np.testing.assert_array_equal(read_sound(data).samples, expected)
    for size in (1, 2):
        problem_of(data[:-size])


@pytest.mark.parametrize("form", ["WAV", "FLAC", "OGG", "AIFF", "MP3"])
def test_two_sounds_in_one_file_are_an_error(form):
    data = encoded(form=form)
    problem_of(data + data)


APE_ITEM = struct.pack("<II", 3, 0) + b"Title\0abc"


def ape_tag(*, has_header):
    """Returns an APEv2 tag of one item."""
    header, footer = (
        b"APETAGEX" + struct.pack("<IIII8x", 2000, len(APE_ITEM) + 32, 1, has_header << 31 | is_header << 29)
        for is_header in (True, False)
    )
    return (header if has_header else b"") + APE_ITEM + footer


@pytest.mark.parametrize("tail", [b"TAG" + bytes(125), ape_tag(has_header=True), ape_tag(has_header=False)])
def test_tags_after_flac(tail):
    """libsndfile loses the synchronization there."""
    data = encoded(form="FLAC")
    v1 = b"TAG" + b"title".ljust(125, b"\0")
    for tags in (tail, tail + v1) if tail[:3] != b"TAG" else (tail,):
        np.testing.assert_array_equal(read_sound(data + tags).samples, read_sound(data).samples)
        problem_of(data[:-9] + tags)
        problem_of(data + b"\1" + tags)


@pytest.mark.parametrize("form", ["WAV", "AIFF", "MP3", "OGG"])
def test_tags_and_padding_after_the_sound_are_no_samples(form):
    data = encoded(form=form)
    expected = read_sound(data).samples
    v1 = b"TAG" + bytes(125)
    ape = b"APETAGEX" + struct.pack("<III8x", 2000, 32 + 10, 1) + bytes(10)
    ape_footer = b"APETAGEX" + struct.pack("<IIII8x", 2000, 32, 0, 0)
    for tail in (v1, bytes(64), ape_footer + v1):
        np.testing.assert_array_equal(read_sound(data + tail).samples, expected)
    assert ape
    for junk in (b"\1", b"garbage", b"some bytes that no header declares"):
        problem_of(data + junk)


@pytest.mark.parametrize("form", ["WAV", "FLAC", "MP3"])
def test_an_id3_tag_before_the_sound(form):
    data = encoded(form=form)
    tag = b"ID3\4\0\0" + bytes([0, 0, 1, 2]) + bytes(130)
    np.testing.assert_array_equal(read_sound(tag + data).samples, read_sound(data).samples)
    assert "as its ID3 tag declares" in problem_of(tag[:100])


def test_other_chunks_around_the_samples():
    data = encoded(NOISE[:100], "WAV")
    expected = read_sound(data).samples
    for extra in (chunk(b"LIST", b"INFOabc"), chunk(b"bext", bytes(602)), chunk(b"odd ", b"123")):
        for parts in (data[:36] + extra + data[36:], data + extra):
            sized = parts[:4] + struct.pack("<I", len(parts) - 8) + parts[8:]
            np.testing.assert_array_equal(read_sound(sized).samples, expected)
    assert "chunk 'LIST' declares" in problem_of(data + chunk(b"LIST", b"INFOabcd")[:-2])
    odd = wav(bytes([1, 2, 3]), bits=8)
    assert read_sound(odd[:-1]).samples.tolist() == read_sound(odd).samples.tolist()  # the padding is missing


def test_headers_that_were_never_finished():
    data = encoded(NOISE[:100], "WAV")
    no_size = data[:4] + b"\xff\xff\xff\xff" + data[8:]
    np.testing.assert_array_equal(read_sound(no_size).samples, NOISE[:100])
    unknown = no_size[:40] + b"\xff\xff\xff\xff" + no_size[44:]
    assert "chunk 'data': expected its size, got none" in problem_of(unknown)
    assert "chunk 'data': expected its size, got none" in problem_of(no_size[:40] + bytes(4) + no_size[44:])
    assert "expected the name of a chunk" in problem_of(no_size[:40] + bytes([2, 0, 0, 0]) + no_size[44:])
    assert "expected 900 bytes, as the header declares" in problem_of(data[:4] + struct.pack("<I", 892) + data[8:])


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("riff", [None, 0, 36, 0xFFFFFFFF], ids=["whole", "zero", "header", "unknown"])
def test_samples_behind_a_size_of_zero(order, riff):
    """Silence was a sound of 0 samples, and samples that are printable were a chunk that is cut off."""
    samples = [bytes(1), bytes(2), bytes(7), bytes(8), bytes(4000), bytes(400) + NOISE.tobytes(), b"\1\0"]
    samples += [b"abc", b"abcd\xff\xff\xff\x7f" * 99, b" " * 400, NOISE.tobytes(), bytes(99) + b"TAG" + bytes(125)]
    empty = wav(b"", order=order)
    for content in samples:
        size = len(empty) - 8 + len(content) if riff is None else riff
        data = empty[:4] + struct.pack(f"{order}I", size) + empty[8:] + content
        assert "chunk 'data': expected its size, got none" in problem_of(data), content[:8]


def test_samples_of_aiff_behind_a_size_of_zero():
    data = encoded(NOISE[:100], "AIFF")
    place = data.index(b"SSND")
    for size in (0, 8):
        for samples in (bytes(200), NOISE[:100].tobytes(), bytes(8)):
            changed = data[: place + 4] + struct.pack(">I", size) + bytes(8) + samples
            changed = changed[:4] + bytes(4) + changed[8:]
            assert "chunk 'SSND': expected its size, got none" in problem_of(changed)


def test_chunks_and_tags_behind_an_empty_sound():
    """Chunks and tags behind the samples of an empty sound are none of them, nor are zeros behind these."""
    empty, v1 = wav(b""), b"TAG" + bytes(125)
    info = chunk(b"LIST", b"INFOabcd")
    id3 = b"ID3\4\0\0" + bytes([0, 0, 0, 20]) + bytes(20)
    for tail in (b"", v1, info, info + bytes(64), info + v1, ape_tag(has_header=True), id3):
        data = empty[:4] + struct.pack("<I", len(empty) - 8 + len(tail)) + empty[8:] + tail
        assert read_sound(data).samples.shape == (0, 1), tail[:8]
    cut_off = encoded(NOISE[:100], "WAV")[:60]
    assert "chunk 'data' declares" in problem_of(cut_off)


@pytest.mark.parametrize(
    "data, problem",
    [
        (b"", "expected a sound, got an empty file"),
        (b"hello", "expected WAV, FLAC, OGG, MP3 or AIFF, got a text that begins with b'hello'. Leave"),
        (b"\0\0\0\x20ftypM4A " + bytes(99), "an MPEG-4 file"),
        (b"\xff\xf1" + bytes(99), "an AAC file"),
        (b".snd" + bytes(99), "an AU file"),
        (b"RIFF\0\0\0\0WAVE", "expected one chunk 'data', got 0"),
        (b"RIFF\0\0\0\0WAVEfmt ", "expected a chunk, got b'fmt '"),
        (wav(bytes(24), bits=64), "got PCM of 64 bits"),
        (wav(bytes(24), bits=16, tag=FLOAT), "got floats of 16 bits"),
        (wav(bytes(24), bits=4, tag=0x11), "got IMA ADPCM"),
        (wav(bytes(24), tag=0x55), "got MP3"),
        (wav(bytes(24), tag=0x1234), "got the format 0x1234"),
        (wav(packed(SMALL, 4), bits=24, align=4), "1 channels of 24 bits (24 valid) in 4 bytes"),
        (wav(bytes(24), rate=0), "fields agree"),
        (wav(bytes(24), channels=2, align=2), "fields agree"),
        (wav(bytes(23)), "whole frames of 2 bytes, got 23 bytes"),
        (
            encoded(NOISE[:, 0], "AIFF", "PCM_16")[:20] + b"\0\2" + encoded(NOISE[:, 0], "AIFF", "PCM_16")[22:],
            "declare",
        ),
        (encoded(form="AU"), "an AU file"),
        (encoded(form="CAF"), "a CAF file"),
        (encoded(NOISE, "WAV", "MS_ADPCM"), "got MS ADPCM"),
        (b"\xff\xfet\0e\0x\0t\0", "begins with b'\\xff\\xfet"),
        (bytes(100), "begins with b'\\x00"),
        (NOISE.tobytes(), "samples alone, without a header (.pcm, .raw)"),
    ],
)
def test_what_is_no_sound_or_not_exact(data, problem):
    assert problem in problem_of(data)


def test_empty_sounds():
    for data in (wav(b""), encoded(NOISE[:0], "WAV", "FLOAT"), flac(NOISE[:0], 16), encoded(NOISE[:0], "AIFF")):
        assert len(read_sound(data).samples) == 0


def test_checksums_of_ogg_pages():
    def slowly(page):
        register = 0
        for byte in page:
            register ^= byte << 24
            for _ in range(8):
                register = (register << 1) & 0xFFFFFFFF ^ (0x04C11DB7 if register >> 31 else 0)
        return register

    for page in (b"", b"OggS", bytes(range(256)), encoded(form="OGG")[:58]):
        assert ogg_checksum(page) == slowly(page)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate", [8000, 16000, 44100, 48000])
def test_mp3_that_does_not_declare_its_length(rate, channels):
    """libsndfile guesses it from the first frame, which is much larger than the others here."""
    samples = np.concatenate([np.tile(NOISE[:, :channels], (4, 1)), np.zeros((20_000, channels), np.int16)])
    whole = encoded(samples, "MP3", rate=rate, bitrate_mode="VARIABLE", compression_level=0.1)
    first = whole.index(b"\xff", 100)
    while _mpeg_frame(whole, first) is None:
        first = whole.index(b"\xff", first + 1)
    for data in (whole[first:], whole[first:] + b"TAG" + bytes(125)):
        found = read_sound(data).samples
        assert not len(found) % 576
        expected = read_sound(whole).samples
        assert 0 < len(found) - len(expected) < 4 * 1152
        delay = min(range(len(found) - len(expected)), key=lambda n: _difference(found[n:], expected[:999]))
        assert _difference(found[delay:], expected) <= 1
    guessed = soundfile.info(io.BytesIO(whole[first:])).frames
    assert guessed < len(found) * 0.8 or channels == 2  # so that this tests something
    for size in (1, 50):
        problem_of(whole[first:-size])


def _difference(found, expected):
    return np.abs(found[: len(expected)].astype(int) - expected).max()


def test_clipped_samples_of_lossy_files():
    """A decoder's samples above 1.0 become the largest integer; libsndfile alone would turn their sign."""
    loud = np.sign(np.sin(np.arange(8000) / 3)).astype(np.float32)
    for form in LOSSY:
        data = encoded(loud, form)
        floats = soundfile.read(io.BytesIO(data), dtype="float32")[0]
        assert np.abs(floats).max() > 1.0
        expected = np.clip(np.rint(floats * 32768.0), -32768, 32767)
        np.testing.assert_allclose(read_sound(data).samples[:, 0], expected, rtol=0, atol=1)


def test_the_limit_of_samples_can_be_raised(monkeypatch):
    monkeypatch.setattr("beam_datasets.intake.sound.MAX_SAMPLES", 3)
    data = wav(np.arange(4, dtype="<i2").tobytes())
    assert "the sound has 4 samples, more than 3. If that is right, set the environment variable" in problem_of(data)
    monkeypatch.setenv("BEAM_DATASETS_MAX_ELEMENTS", "4")
    assert read_sound(data).samples.size == 4


@pytest.mark.parametrize("data", [flac(NOISE[:50], 16, declare=False), encoded(NOISE[:50], "OGG", "VORBIS")])
def test_the_limit_holds_for_sounds_of_undeclared_length(data, monkeypatch):
    monkeypatch.setattr("beam_datasets.intake.sound.MAX_SAMPLES", 99)
    assert "the sound has 100 samples, more than 99. If that is right, set the environment" in problem_of(data)
    monkeypatch.setattr("beam_datasets.intake.sound.MAX_SAMPLES", 100)
    assert read_sound(data).samples.shape == (50, 2)


def test_a_header_allocates_nothing():
    huge = flac(NOISE[:40], 16)
    fields = int.from_bytes(huge[18:26], "big")
    for frames in (1 << 31, MAX_SAMPLES // 2, (1 << 36) - 1):
        data = huge[:18] + (fields & ~((1 << 36) - 1) | frames).to_bytes(8, "big") + huge[26:]
        tracemalloc.start()
        problem = problem_of(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert f"expected {frames:,} samples" in problem or f"more than {MAX_SAMPLES:,}. If" in problem
        assert peak < 64 << 20
    data = wav(bytes(24))
    assert "the end of the file is missing" in problem_of(data[:40] + struct.pack("<I", 1 << 31) + data[44:])


def test_checked_sounds_know_their_content():
    sound = checked(encoded(form="FLAC"))
    assert sound == encoded(form="FLAC")
    assert (sound.info.frames, sound.info.samples) == (3000, "int16")


def mutations(data, number, seed):
    """Yields copies of a file with a few bytes cut, flipped, added or removed, half of them in its header."""
    random = np.random.default_rng(seed)
    for way in random.integers(4, size=number):
        place = int(random.integers(len(data) if random.random() < 0.5 else 128))
        size = int(random.integers(1, 9))
        if way == 0:
            yield way, data[:place]
        elif way == 1:
            yield way, data[:place] + bytes([data[place] ^ 1 << size - 1]) + data[place + 1 :]
        elif way == 2:
            yield way, data[:place] + random.bytes(size) + data[place:]
        else:
            yield way, data[:place] + data[place + size :]


@pytest.mark.parametrize("form", ["WAV", "FLAC", "OGG", "AIFF"])
def test_mutations_are_read_whole_or_refused(form):
    """A flip of a sample of WAV cannot be seen; any other change of a file's bytes, or of FLAC and OGG, can."""
    data = encoded(NOISE[:400], form)
    whole, found = read_sound(data), collections.Counter()
    for way, changed in mutations(data, 200, seed=3):
        try:
            sound = read_sound(changed)
        except InputError:
            found["error"] += 1
            continue
        assert sound.samples.shape == whole.samples.shape
        assert way == 1
        is_same = np.array_equal(sound.samples, whole.samples)
        assert is_same or form in ("WAV", "AIFF")
        found["same" if is_same else "flipped"] += 1
    assert found["error"] > 100


def _aiff(*chunks):
    body = b"AIFF" + b"".join(name + struct.pack(">I", len(data)) + data for name, data in chunks)
    return b"FORM" + struct.pack(">I", len(body)) + body


def test_an_id3_chunk_is_no_tag():
    """AIFF files end in a chunk `ID3 `, whose name begins as a tag of ID3 does."""
    common = struct.pack(">HIH", 1, 3, 16) + bytes.fromhex("400bfa00000000000000")  # 8000 as an 80-bit float
    data = _aiff((b"COMM", common), (b"SSND", bytes(8) + packed(SMALL, 2, "big")), (b"ID3 ", b"ID3\4\0\0\0\0\0\0"))
    sound = read_sound(data)
    assert (sound.samples.ravel().tolist(), sound.info.sample_rate) == (SMALL, 8000)


def test_big_endian_wave_extensible():
    data = wav(packed(SMALL, 4, "big"), bits=32, valid=32, order=">")
    assert read_sound(data).samples.ravel().tolist() == SMALL
