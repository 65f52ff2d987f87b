"""Recognition of files of another format than the expected one, by their first bytes.

Text is decoded without an error if the encoding has a character for each byte, such as latin-1, so bytes of another
format would become examples.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

from beam_datasets.formats.tfrecord import HEADER, find_signature_problem
from beam_datasets.intake.image_formats import HTML, detect_format
from beam_datasets.intake.signatures import (
    ARCHIVE,
    ARRAY,
    AS_CSV,
    AS_IMAGES,
    AS_SOUNDS,
    COMPRESSED,
    DOCUMENT,
    IMAGE,
    POINTER,
    SOUND,
    TABLE,
    UNPACK,
    signature_of,
)

HEAD_BYTES = 1 << 12  # bytes at the beginning of a file that `other_content` needs

_MAX_POINTER = 1024  # bytes; a longer file is a text about Git LFS
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_OFFICE = (b"[Content_Types].xml", b"_rels/", b"xl/", b"docProps/", b"mimetypeapplication/vnd.oasis")
_JSON = re.compile(r"\s*(\[\s*)?(\{\s*[\"}]|(?<=\[)\s*\])")
_DELIMITERS = ",\t;|"
_WIDE_BYTES = 256  # that decide whether a text is of UTF-16 or UTF-32
_ZEROS = {"utf-16-le": (1, 3), "utf-16-be": (0, 2), "utf-32-le": (1, 2, 3), "utf-32-be": (0, 1, 2)}
"""Encoding -> the places of zeros in four bytes of ASCII."""
_PICKLE = re.compile(rb"\x80[\x04\x05]\x95.{6}\0\0", re.DOTALL)
_PDF = re.compile(rb"%PDF-\d\.\d[\r\n]")
_TAR = re.compile(rb".{257}ustar[\0 ]", re.DOTALL)
_ARROW_STREAM = re.compile(rb"\xff\xff\xff\xff..\0\0\x10\0\0\0", re.DOTALL)

_HTML_OF_SERVER = f"{HTML}, perhaps the error page of a server, instead of the file"


def other_content(head: bytes, expected: str = TABLE) -> str:
    r"""Returns the format of a file that is neither text nor of the expected kind, with advice; '' if it is unknown.

    A pointer of Git LFS is text, and is recognized too. Compressed content is not recognized where text is expected.

    Args:
        head: the first HEAD_BYTES of the file, or all of it.
        expected: the expected kind of content, which affects the advice: TABLE, also for text; IMAGE or SOUND.

    >>> other_content(b"PAR1\x15\x04"), other_content(b"PAR1,x")
    ('a Parquet file. Build it as one: `beam-datasets build parquet`', '')
    >>> other_content(b"\x93NUMPY\x01"), other_content(b"\x93NUMPY\x01", IMAGE)
    ('a NumPy array. Write it as Parquet', 'a NumPy array. Save its pixels as PNG')
    """
    content = _content_of(head)
    if content is None and expected != TABLE:
        content = _content_without_pixels_or_samples(head)
    if content is None or content.kind == expected != TABLE:
        return ""
    advice = _ADVICE.get((expected, content.kind), content.advice)
    if content.kind == TABLE and expected != TABLE:
        advice = f"Leave it out, or {advice[0].lower()}{advice[1:]}"
    return f"{content.description}. {advice}"


class _Content(NamedTuple):
    """A format that is recognized by its first bytes: see `Signature`."""

    description: str
    kind: str
    advice: str


_ADVICE = {
    (IMAGE, ARRAY): "Save its pixels as PNG",
    (SOUND, ARRAY): "Save its samples as WAV",
    (IMAGE, DOCUMENT): "Save its pictures as PNG or JPEG",
    (SOUND, DOCUMENT): "Leave it out",
}
"""(what is expected, kind of the file) -> what to do, where it is not the advice for text."""
_RIFF = {
    b"WAVE": _Content("a sound (WAV)", SOUND, AS_SOUNDS),
    b"WEBP": _Content("an image (WebP)", IMAGE, AS_IMAGES),
}


def _content_of(head: bytes) -> _Content | None:
    """Returns the format of content that cannot be text, or is a pointer of Git LFS; None if it is unknown."""
    signature = signature_of(head)
    if signature and signature.kind == POINTER and len(head) < _MAX_POINTER:
        return _Content(signature.name, POINTER, "Get the file: `git lfs pull`")
    if signature and signature.kind == ARCHIVE and head[30:].startswith(_OFFICE):
        return _Content("an Excel or other Office document", DOCUMENT, AS_CSV)
    has_control = bool(_CONTROL.search(head, 0, 64))
    if signature and signature.advice and (has_control or not signature.prefix.isascii()):
        return _Content(signature.description, signature.kind, signature.advice)
    if _PDF.match(head):
        return _Content("a PDF document", DOCUMENT, "Extract its text, or its tables as CSV")
    if head[:4] == b"RIFF" and has_control and head[8:12] in _RIFF:
        return _RIFF[head[8:12]]
    if len(head) > HEADER.size and not find_signature_problem(head):
        return _Content("a TFRecord file", TABLE, "Build it as one: `beam-datasets build tfrecord`")
    if _TAR.match(head) and b"\0" in head[:100]:  # the name of the first file fills 100 bytes
        return _Content("a tar archive", ARCHIVE, UNPACK)
    if _ARROW_STREAM.match(head):
        return _Content("an Arrow IPC stream", TABLE, "Write it as Parquet")
    return _Content("a Python pickle", ARRAY, "Write it as Parquet") if _PICKLE.match(head) else None


def _content_without_pixels_or_samples(head: bytes) -> _Content | None:
    """Returns the format of a compressed file or an HTML page, where an image or a sound is expected; or None."""
    signature = signature_of(head)
    if signature and signature.kind == COMPRESSED:
        return _Content(signature.name, COMPRESSED, "Decompress it")
    if detect_format(head) == HTML:
        return _Content(_HTML_OF_SERVER, POINTER, "Get the file again")
    return None


def wide_encoding(head: bytes) -> str:
    """Returns the encoding of text whose characters have two or four bytes; '' if unknown, or UTF-16 by its mark.

    It is recognized by zeros in the same places of the first characters, which text in Latin letters has, or by the
    byte order mark of UTF-32. That of UTF-16 is no UTF-8, which is an error where the text is decoded.

    >>> wide_encoding("id,n".encode("utf-16-le")), wide_encoding("id,n".encode("utf-32-be")), wide_encoding(b"id,n")
    ('utf-16-le', 'utf-32-be', '')
    """
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    sample = head[: min(len(head) // 4 * 4, _WIDE_BYTES)]
    if not sample or head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return ""
    zeros = tuple(sample[index::4].count(0) / (len(sample) // 4) for index in range(4))  # in each byte of four
    for name, places in _ZEROS.items():
        if all(share > 0.9 if index in places else share == 0 for index, share in enumerate(zeros)):
            return name
    return ""


def iconv_name(encoding: str) -> str:
    """Returns the name that the program iconv has for UTF-16 or UTF-32, of which Python's normalized name is given.

    Other names are returned unchanged.

    >>> iconv_name("utf-16-le"), iconv_name("utf-16")
    ('utf-16le', 'utf-16')
    """
    return re.sub(r"^(utf-(?:16|32))-([lb]e)$", r"\1\2", encoding)


def text_format(head: bytes) -> str:
    r"""Returns the format of a text by its beginning, with advice, as a clause; '' if it is unknown.

    Args:
        head: the first bytes of the text, in UTF-8.

    >>> text_format(b"id,name\n1,a\n"), text_format(b'{"id": 1}'), text_format(b"some\ntext")
    ('CSV. Build it as such: `beam-datasets build csv`', 'JSON. Build it as such: `beam-datasets build jsonl`', '')
    """
    head = head.removeprefix(b"\xef\xbb\xbf")
    text = head.decode("utf-8", "ignore")
    if _CONTROL.search(head) or "\ufffd" in text or len(text.encode()) + 4 < len(head):
        return ""
    if detect_format(head) == HTML:
        return f"{_HTML_OF_SERVER}. Get the file again"
    if _JSON.match(text):
        return "JSON. Build it as such: `beam-datasets build jsonl`"
    if text.startswith(("{", "[")):
        return ""
    lines = [line for line in text.splitlines()[:3] if line]
    for delimiter in _DELIMITERS:
        counts = {line.count(delimiter) for line in lines}
        if len(lines) > 1 and len(counts) == 1 and counts != {0}:
            option = "" if delimiter == "," else f" --delimiter {delimiter!r}"
            return f"CSV. Build it as such: `beam-datasets build csv{option}`"
    return ""
