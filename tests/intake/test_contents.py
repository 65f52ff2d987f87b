"""Files of another format than the expected one are recognized by their first bytes; text never is."""

import bz2
import contextlib
import gzip
import io
import pickle
import re
import sqlite3
import tarfile
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import feather, orc

from beam_datasets.errors import InputError
from beam_datasets.formats.tfrecord import frame
from beam_datasets.intake import signatures
from beam_datasets.intake.contents import HEAD_BYTES, other_content, text_format, wide_encoding
from beam_datasets.intake.examples import open_records
from beam_datasets.intake.image_formats import detect_format
from beam_datasets.intake.images import check_image
from beam_datasets.intake.signatures import SIGNATURES, signature_of
from beam_datasets.intake.sound_layout import KINDS, layout_of
from beam_datasets.intake.streams import CODECS, open_text_bytes
from tests.facts import raises_with
from tests.files.in_process import publish

TABLE = pa.table({"id": [1, 2], "name": ["a", "b"]})
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22e\nsize 12345\n"


def written(write):
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


def zipped(name):
    return written(lambda stream: zipfile.ZipFile(stream, "w").writestr(name, "x"))


def tarred(name):
    member = tarfile.TarInfo(name)
    return written(lambda stream: tarfile.open(fileobj=stream, mode="w").addfile(member))


def database():
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create table t (x)")
        return connection.serialize() if hasattr(connection, "serialize") else b"SQLite format 3\0" + bytes(84)


def stream_of(table):
    return written(lambda stream: pa.ipc.new_stream(stream, table.schema).write_table(table))


CONTENTS = {
    "a Parquet file": written(lambda stream: pq.write_table(TABLE, stream)),
    "an Arrow IPC file": written(lambda stream: feather.write_feather(TABLE, stream)),
    "a Feather file": b"FEA1\0\0\0\0" + bytes(40) + b"FEA1",
    "an Arrow IPC stream": stream_of(TABLE),
    "an ORC file": written(lambda stream: orc.write_table(TABLE, stream)),
    "an Avro file": b"Obj\x01\x04\x14avro.codec\x08null",
    "an SQLite database": database(),
    "a NumPy array": written(lambda stream: np.save(stream, np.arange(3))),
    "a Python pickle": pickle.dumps({"id": [1, 2]}, 4),
    "a TFRecord file": frame(b""),
    "an Excel or other Office document": zipped("[Content_Types].xml"),
    "a zip archive. Unpack it": zipped("data/a.csv"),
    "a tar archive. Unpack it": tarred("data/a.csv"),
    "a Git LFS pointer": POINTER,
    "an LZ4 file. Decompress it": b"\x04\x22\x4d\x18\x64\x40\xa7",
    "a Snappy file. Decompress it": b"\xff\x06\0\0sNaPpY\x01\x0c\0\0",
    "a file of the program compress": b"\x1f\x9d\x90a\xc4",
    "an lzop file. Decompress it": b"\x89LZO\0\r\n\x1a\n\x10",
}


@pytest.mark.parametrize("what", CONTENTS)
def test_text_of_another_format(what, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(CONTENTS[what])
    with raises_with(InputError, path=str(path), expected="text", got=re.compile(f"^{re.escape(what)}")):
        open_text_bytes(str(path))


@pytest.mark.parametrize("kind, name", [("csv", "a.tar.gz"), ("text_lines", "a.tgz.bz2"), ("jsonl", "a.tar")])
def test_an_archive_of_files(tmp_path, kind, name):
    """Its members were rows."""
    path = tmp_path / name
    compress = {".gz": gzip.compress, ".bz2": bz2.compress}.get(path.suffix, bytes)
    path.write_bytes(compress(tarred("a.csv")))
    with pytest.raises(
        InputError, match=f"{name}: expected text, got a tar archive. Unpack it, and give the files in it"
    ):
        publish(kind, path)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
@example("ORC,b\n1,2\n")
@example("PAR1,b\n1,2\n")
@example("PAR1\r\n")
@example("Objects,b\n1,2\n")
@example("SQLite format 3,x\n")
@example("version,https\n")
@example("RIFF,WAVE\n")
@example("GIF89a,b\n1,2\n")
@example("%PDF-1.7,b\n1,2\n")
def test_text_is_text(text):
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le"):
        assert other_content(text.encode(encoding)[:HEAD_BYTES]) == ""


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_text_of_utf_8_is_no_wide_text(text):
    for encoding in ("utf-8", "utf-8-sig", "latin-1"):
        assert wide_encoding(text.encode(encoding, "ignore")) == ""


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("text", ["id,name\n1,a\n", "Größe\n" * 50, '{"a": "é"}\n', "ab"])
def test_wide_text(encoding, text):
    assert wide_encoding(text.encode(encoding)) == encoding
    assert wide_encoding("\ufeff".encode(encoding) + text.encode(encoding)) in ("", "utf-32")


def test_a_long_text_about_git_lfs_is_text():
    assert other_content(POINTER + b"and so on " * 100) == ""


@pytest.mark.parametrize(
    "text, form",
    [
        ("id,name\n1,a\n", "CSV"),
        ("id;name\r\n1;a\r\n2;b", "CSV"),
        ("\ufeffid\tname\n1\tä\n", "CSV"),
        ('{"id": 1}\n{"id": 2}\n', "JSON"),
        ('[\n  {"id": 1}\n]', "JSON"),
        ("[]", "JSON"),
        ("{}\n", "JSON"),
        ("\n<!DOCTYPE html>\n<html>", "an HTML page"),
        ("{'id': 1, 'name': None}\n{'id': 2, 'name': 'x'}\n", ""),
        ("[{'id': 1, 'name': None}]\n", ""),
        ("hello, world\nsecond line\n", ""),
        ("one line, two parts", ""),
        ("", ""),
        ("a\0,b\n1,2\n", ""),
    ],
)
def test_formats_of_text(text, form):
    found = text_format(text.encode())
    assert found.startswith(form)
    assert bool(found) == bool(form)


def test_formats_of_text_that_is_cut_in_a_character():
    text = ("ä,b\n" * HEAD_BYTES).encode()
    assert text_format(text[:HEAD_BYTES]) == text_format(text[: HEAD_BYTES - 5])
    assert text_format("ä,b\n".encode("latin-1") * 9) == ""


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda signature: repr(signature.prefix))
def test_a_signature_is_recognized_wherever_a_file_is_expected(signature):
    """As text if its advice is known, as a sound, and as an image; the errors name the same format."""
    content = signature.prefix + b"\0" * 30
    assert signature_of(content) is signature
    assert detect_format(content) == signature.name
    if signature.advice:
        assert other_content(content) == f"{signature.description}. {signature.advice}"
    if signature.kind == signatures.SOUND and signature.name not in KINDS and signature.name != "Ogg":
        with pytest.raises(InputError, match=f"got {re.escape(signature.name)}. Convert it"):
            layout_of(content)
    if signature.kind in (signatures.TABLE, signatures.ARRAY, signatures.ARCHIVE, signatures.POINTER):
        other = re.escape(other_content(content, signatures.IMAGE))
        with pytest.raises(InputError, match=f"^expected PNG, .*, got {other}$"):
            check_image(content)


@pytest.mark.parametrize("what", CONTENTS)
def test_advice_fits_what_is_expected(what):
    """Text, tables and records are written as other tables; pixels and samples as images and sounds."""
    content = CONTENTS[what]
    advice = {kind: other_content(content, kind) for kind in (signatures.TABLE, signatures.IMAGE, signatures.SOUND)}
    assert all(text.startswith(what.partition(".")[0]) for text in advice.values())
    for kind in (signatures.IMAGE, signatures.SOUND):
        assert not re.search(r"\. (Write it|Save it) as (Parquet|CSV)", advice[kind])
    with pytest.raises(InputError, match=re.escape(f"got {advice[signatures.SOUND]}")):
        layout_of(content)


@pytest.mark.parametrize(
    "content, kind, advice",
    [
        (CONTENTS["a NumPy array"], signatures.IMAGE, "a NumPy array. Save its pixels as PNG"),
        (CONTENTS["a NumPy array"], signatures.SOUND, "a NumPy array. Save its samples as WAV"),
        (CONTENTS["a Python pickle"], signatures.IMAGE, "a Python pickle. Save its pixels as PNG"),
        (CONTENTS["an Avro file"], signatures.IMAGE, "an Avro file. Leave it out, or write it as Parquet"),
        (zipped("[Content_Types].xml"), signatures.IMAGE, "Office document. Save its pictures as PNG or JPEG"),
        (b"\x1f\x8b\x08\0" + bytes(30), signatures.IMAGE, "a gzip file. Decompress it"),
        (b"fLaC\0\0\0\x22" + bytes(34), signatures.IMAGE, "a sound (FLAC). Build sounds by their folders: "),
        (b"fLaC\0\0\0\x22" + bytes(34), signatures.TABLE, "a sound (FLAC). Build sounds by their folders: "),
        (b"RIFF\x24\0\0\0WAVEfmt ", signatures.TABLE, "a sound (WAV). Build sounds by their folders: "),
        (b"RIFF\x24\0\0\0WEBPVP8 ", signatures.TABLE, "an image (WebP). Build images by their folders: "),
        (b"\xff\xd8\xff\xf7\0\x0b\x08", signatures.TABLE, "an image (JPEG-LS). Build images by their folders: "),
        (b"II*\0\x08\0\0\0", signatures.SOUND, "an image (TIFF). Build images by their folders: "),
        (b"%PDF-1.7\n%\xe2\xe3", signatures.TABLE, "a PDF document. Extract its text, or its tables as CSV"),
        (b"<!DOCTYPE html>\n<html>", signatures.SOUND, "instead of the file. Get the file again"),
    ],
)
def test_advice_for_a_file_of_another_kind(content, kind, advice):
    assert advice in other_content(content, kind)


def test_a_video_is_no_image():
    with pytest.raises(InputError, match=r"got a video \(MP4\); save its frames as PNG"):
        check_image(b"\0\0\0\x18ftypisom\0\0\2\0isomiso2")


def test_signatures_are_listed_once():
    assert len({signature.prefix for signature in SIGNATURES}) == len(SIGNATURES)
    assert {codec.magic for codec in CODECS if codec.magic} == {
        signature.prefix for signature in SIGNATURES if signature.kind == signatures.COMPRESSED and not signature.advice
    }


def test_pointers_of_git_lfs_elsewhere(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(POINTER)
    with raises_with(InputError, path=str(path), expected="a TFRecord file", got=re.compile("^a Git LFS pointer")):
        open_records(str(path))
    with pytest.raises(InputError, match="expected a sound, got a Git LFS pointer"):
        layout_of(POINTER)
