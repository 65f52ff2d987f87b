"""Compressed streams: Python's own modules and zstandard are the oracle."""

import bz2
import gzip
import io
import lzma
import random
import re
import zlib

import pytest
import zstandard

from beam_datasets import limits
from beam_datasets.errors import InputError
from beam_datasets.intake import streams
from beam_datasets.intake.streams import CODECS, LineLimited, codec_of, decompressed, open_text_bytes
from tests.facts import raises_with

CONTENT = bytes(random.Random(7).choices(b"0123456789abcdef,\n", k=50_000))
COMPRESS = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "lzma": lambda data: lzma.compress(data, lzma.FORMAT_ALONE),
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
    "zlib": zlib.compress,
}
BY_NAME = {codec.name: codec for codec in CODECS}


def read(name, data):
    return decompressed(io.BytesIO(data), BY_NAME[name], "in/a").read()


@pytest.fixture(params=COMPRESS)
def codec(request):
    return request.param


def test_streams_one_after_the_other(codec):
    one, other = COMPRESS[codec](CONTENT), COMPRESS[codec](b"more")
    assert read(codec, one) == CONTENT
    assert read(codec, one + other + one) == CONTENT + b"more" + CONTENT
    assert read(codec, COMPRESS[codec](b"")) == b""


def test_zeros_after_a_stream_are_no_content(codec):
    one = COMPRESS[codec](CONTENT)
    assert read(codec, one + b"\0" * 1000) == CONTENT
    assert read(codec, one + b"\0" * 1000 + one) == CONTENT * 2
    assert read(codec, one + b"\0" * (1 << 20) + one) == CONTENT * 2


def read_up_to_error(stream):
    """Returns what precedes an error, and the error."""
    found = b""
    while True:
        try:
            block = stream.read1()
        except InputError as error:
            return found, str(error)
        if not block:
            return found, ""
        found += block


def test_a_cut_anywhere_is_an_error_after_what_precedes_it(codec):
    data = COMPRESS[codec](CONTENT)
    for cut in {0, 1, 2, 5, 11, *range(20, len(data), 997), *range(len(data) - 30, len(data))}:
        stream = decompressed(io.BytesIO(data[:cut]), BY_NAME[codec], "in/a")
        found, problem = read_up_to_error(stream)
        assert problem.startswith(f"in/a, byte {cut}: expected the end of the {codec} stream")
        assert CONTENT.startswith(found)
        assert read_up_to_error(stream) == (b"", problem)  # a second read does not take it for the end


def test_a_cut_second_stream_and_other_bytes_after_the_first_are_errors(codec):
    data = COMPRESS[codec](CONTENT)
    for rest in (data[:-1], data[: len(data) // 2], b"x", b"garbage after the end", b"\x1f", b"\0" * 7 + b"x"):
        with pytest.raises(InputError, match=r"^in/a, byte \d+: expected"):
            read(codec, data + rest)


@pytest.mark.parametrize("codec", ["gzip", "bzip2", "xz", "zstd", "zlib"], indirect=True)  # lzma has no checksum
def test_damage_is_an_error(codec):
    data, rng = COMPRESS[codec](CONTENT), random.Random(3)
    for _ in range(60):
        place, bit = rng.randrange(10, len(data)), 1 << rng.randrange(8)  # the header of gzip has a time
        damaged = bytearray(data)
        damaged[place] ^= bit
        found, problem = read_up_to_error(decompressed(io.BytesIO(bytes(damaged)), BY_NAME[codec], "in/a"))
        assert problem.startswith("in/a, byte ") or found == CONTENT  # a bit without a meaning


def test_frames_of_zstd_without_content():
    skipped = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"notes"
    data = COMPRESS["zstd"](CONTENT)
    assert read("zstd", skipped + data + skipped) == CONTENT


def test_memory_stays_bounded():
    zeros = COMPRESS["zstd"](bytes(1 << 28))
    stream = decompressed(io.BytesIO(zeros), BY_NAME["zstd"], "in/a")
    assert sum(len(block) for block in iter(lambda: stream.read(1 << 20), b"")) == 1 << 28
    sizes = [len(block) for block in streams._blocks(io.BytesIO(gzip.compress(bytes(1 << 25))), streams.GZIP, "a")]
    assert max(sizes) <= streams.MAX_BLOCK


@pytest.mark.parametrize(
    "name, content, problem",
    [
        ("a.csv", gzip.compress(b"x"), "ends in .gz"),
        ("a.csv", lzma.compress(b"x"), "ends in .xz"),
        ("a.csv", bz2.compress(b"x"), "ends in .bz2"),
        ("a.csv", zstandard.compress(b"x"), "ends in .zst"),
        ("a.csv", b"PK\x03\x04\0\0", "a zip archive"),
        ("a.csv.gz", gzip.compress(b"PK\x03\x04\0\0"), "a zip archive"),
        ("a.csv.gz", gzip.compress(gzip.compress(b"x")), "still compressed, by gzip, after .* Decompress it once"),
        ("a.csv.gz", gzip.compress(bz2.compress(b"x")), "still compressed, by bzip2, after .* Decompress it once"),
        ("a.csv.br", b"\x8b\x02\x80a,b\n1,2\n\x03", "got a file compressed by Brotli. Decompress it"),
        ("a.csv.snappy", b"\x08\x1ca,b\n1,2\n", "got a file compressed by Snappy. Decompress it"),
    ],
    ids=range(10),
)
def test_text_that_is_compressed_or_an_archive(tmp_path, name, content, problem):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=problem):
        open_text_bytes(str(path))


def test_text_whose_name_ends_like_that_of_a_compressed_file(tmp_path):
    """Text in other encodings, damaged text, and text of DOS were called compressed."""
    text = "x,ü\r\n" * 4096
    encodings = ["utf-8", "latin-1", "cp1252", "cp850", "cp037", "shift_jis", "utf-16", "utf-16-le", "utf-32"]
    for suffix in (".br", ".sz", ".Snappy"):
        path = tmp_path / f"a{suffix}"
        for encoding in encodings:
            path.write_bytes(text.replace("ü", "ソ" if encoding == "shift_jis" else "ü").encode(encoding))
            with open_text_bytes(str(path), encoding) as stream:
                assert stream.read() == path.read_bytes()
        for content in (b"x,\xff\n", b"x,1\r\n\x1a", text.encode("latin-1"), text.encode("utf-16")):
            path.write_bytes(content)
            with open_text_bytes(str(path)) as stream:
                assert stream.read() == content


def test_files_compressed_without_magic_in_other_encodings(tmp_path):
    """A wide encoding that is not named is reported as such, also where the name ends like that of Snappy."""
    compressed = b"\x8b\x02\x80a,b\n1,2\n\x03"
    path = tmp_path / "a.br"
    path.write_bytes(compressed)
    for encoding in (None, "utf-8", "latin-1", "cp1252", "shift_jis"):
        with raises_with(InputError, path=str(path), got="a file compressed by Brotli"):
            open_text_bytes(str(path), encoding)
    path = tmp_path / "a.sz"
    path.write_bytes("x,y\n1,2\n".encode("utf-16-be"))
    with raises_with(InputError, path=str(path), advice=re.compile("^Name it: --encoding utf-16")):
        open_text_bytes(str(path), "utf-8")


@pytest.mark.parametrize(
    "name, data, advice",
    [
        (
            "zstd",
            zstandard.ZstdCompressor(
                dict_data=zstandard.train_dictionary(1000, [CONTENT[i : i + 100] for i in range(0, 50_000, 100)])
            ),
            "dictionary",
        ),
        (
            "zstd",
            zstandard.ZstdCompressor(compression_params=zstandard.ZstdCompressionParameters(window_log=30)),
            "window",
        ),
        ("xz", [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}], "smaller dictionary"),
    ],
    ids=["dictionary", "window", "xz"],
)
def test_streams_that_are_not_damaged_and_not_read(name, data, advice, monkeypatch):
    """They were called damaged, to be fetched again."""
    if name == "xz":
        stored = lzma.compress(CONTENT, filters=data)
    else:
        compressor = data.compressobj()
        stored = compressor.compress(CONTENT) + compressor.flush()
    advice_pattern = re.compile(rf"^Decompress it.* {advice}.*(?<={limits.VARIABLE}=)(\d+)|^Decompress it with")
    with raises_with(InputError, path="in/a", advice=advice_pattern) as raised:
        read(name, stored)
    if value := advice_pattern.search(str(raised.value.advice))[1]:
        monkeypatch.setenv(limits.VARIABLE, value)
        assert read(name, stored) == CONTENT


def test_text_that_begins_as_bzip2_does(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"BZhops,1\n")
    with open_text_bytes(str(path)) as stream:
        assert stream.read() == b"BZhops,1\n"


def test_a_line_without_end_is_an_error(monkeypatch):
    monkeypatch.setattr(limits, "MAX_LINE", 1000)
    good = b"".join(b"%d\n" % i * 50 for i in range(100))
    assert LineLimited(io.BufferedReader(io.BytesIO(good)), "in/a").read() == good
    with raises_with(InputError, path="in/a", offset=len(good), expected=re.compile("1,000 bytes$")):
        LineLimited(io.BufferedReader(io.BytesIO(good + b"x" * 1001)), "in/a").read()
    monkeypatch.setenv(limits.VARIABLE, "1001")
    assert len(LineLimited(io.BufferedReader(io.BytesIO(good + b"x" * 1001)), "in/a").read()) == len(good) + 1001


def test_suffixes():
    assert {codec_of(f"a{suffix}").name for suffix in (".gz", ".GZ")} == {"gzip"}
    assert codec_of("a.gz/b.csv") is None


@pytest.mark.parametrize("character", ["x", "é", "日", "😀"])
def test_text_is_checked_in_blocks(character):
    """A character may be cut between two blocks; bytes that are not UTF-8 are found wherever they are."""
    content = (character * 50 + "\n").encode() * 5000
    assert len(content) > 2 * io.DEFAULT_BUFFER_SIZE
    limited = LineLimited(io.BufferedReader(io.BytesIO(content)), "in/a")
    while limited.read(1001):
        assert limited.is_utf8
    for place in (0, len(content) // 2, len(content)):
        damaged = content[:place] + b"\xff" + content[place:]
        limited = LineLimited(io.BufferedReader(io.BytesIO(damaged)), "in/a")
        read = 0
        while block := limited.read(1001):
            read += len(block)
            assert limited.is_utf8 or read > place
        assert not limited.is_utf8
    limited = LineLimited(io.BufferedReader(io.BytesIO(content + b"\xc3")), "in/a")  # a character that is cut off
    while limited.read(1001):
        pass
    assert not limited.is_utf8
