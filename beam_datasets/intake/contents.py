"""Recognition of files of another format than the expected one, by their first bytes.

Text is decoded without an error if the encoding has a character for each byte, such as latin-1, so bytes of another
format would become examples.
"""

from __future__ import annotations

import re

from beam_datasets.formats.tfrecord import HEADER, find_signature_problem
from beam_datasets.intake.image_formats import HTML, format_of
from beam_datasets.intake.signatures import ARCHIVE, AS_CSV, POINTER, signature_of

HEAD_BYTES = 1 << 12  # bytes at the beginning of a file that `other_content` needs

_MAX_POINTER = 1024  # bytes; a longer file is a text about Git LFS
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_OFFICE = (b"[Content_Types].xml", b"_rels/", b"xl/", b"docProps/", b"mimetypeapplication/vnd.oasis")
_JSON = re.compile(r"\s*(\[\s*)?(\{\s*[\"}]|(?<=\[)\s*\])")
_DELIMITERS = ",\t;|"
_PICKLE = re.compile(rb"\x80[\x04\x05]\x95.{6}\0\0", re.DOTALL)
_ARROW_STREAM = re.compile(rb"\xff\xff\xff\xff..\0\0\x10\0\0\0", re.DOTALL)


def other_content(head: bytes) -> str:
    r"""Returns what a file is that cannot be text, and what to do, as a clause; '' if it may be text, also compressed.

    A pointer of Git LFS is text, and is recognized too.

    Args:
        head: the first HEAD_BYTES of the file, or all of it.

    >>> other_content(b"PAR1\x15\x04"), other_content(b"PAR1,x")
    ('a Parquet file. Build it as one: `beam-datasets build parquet`', '')
    """
    signature = signature_of(head)
    if signature and signature.kind == POINTER and len(head) < _MAX_POINTER:
        return f"{signature.name}. Get the file: `git lfs pull`"
    if signature and signature.kind == ARCHIVE and head[30:].startswith(_OFFICE):
        return f"an Excel or other Office document. {AS_CSV}"
    if signature and signature.advice and (_CONTROL.search(head, 0, 64) or not signature.prefix.isascii()):
        return f"{signature.description}. {signature.advice}"
    if len(head) > HEADER.size and not find_signature_problem(head):
        return "a TFRecord file. Build it as one: `beam-datasets build tfrecord`"
    if _ARROW_STREAM.match(head):
        return "an Arrow IPC stream. Write it as Parquet"
    return "a Python pickle. Write it as Parquet" if _PICKLE.match(head) else ""


def text_format(head: bytes) -> str:
    r"""Returns the format of a text by its beginning, and what to do, as a clause; '' if it is unknown.

    Args:
        head: the first bytes of the text, in UTF-8.

    >>> text_format(b"id,name\n1,a\n"), text_format(b'{"id": 1}'), text_format(b"some\ntext")
    ('CSV. Build it as such: `beam-datasets build csv`', 'JSON. Build it as such: `beam-datasets build jsonl`', '')
    """
    head = head.removeprefix(b"\xef\xbb\xbf")
    text = head.decode("utf-8", "ignore")
    if _CONTROL.search(head) or "\ufffd" in text or len(text.encode()) + 4 < len(head):
        return ""
    if format_of(head) == HTML:
        return f"{HTML}, perhaps the error page of a server, instead of the file. Get the file again"
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
