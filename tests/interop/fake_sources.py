"""Fake sources of builders of TFDS, as values: what is found at URLs and in the manual directory, in a few lines each.

A source is {place: content}. A place is a pattern of URLs, or `manual/` and a path in the manual directory; `a|b`
stands for two places with the same content. A content is bytes, or {path: content} for an archive or a directory.
`{i}` in a text is the number of a row, as are `I` and `F` in JSON: an integer and a float.
"""

from __future__ import annotations

import bz2
import fnmatch
import gzip
import io
import json
import posixpath
import random
import tarfile
import urllib.parse
import wave
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
from PIL import Image

Content = bytes | Mapping[str, Any]
Source = Mapping[str, Content]
I, F = object(), object()  # noqa: E741
ROWS = 5


def lines(row: str, head: str = "", n: int = ROWS) -> bytes:
    """Returns rows of text below a head line."""
    return "".join(f"{line}\n" for line in [*[head] * bool(head), *(_filled(row, i) for i in range(n))]).encode()


def jsonl(row: Any, n: int = ROWS) -> bytes:
    """Returns JSON values, one a line."""
    return "".join(json.dumps(_filled(row, i)) + "\n" for i in range(n)).encode()


def json_of(value: Any, i: int = 0) -> bytes:
    """Returns a JSON value."""
    return json.dumps(_filled(value, i)).encode()


def rows(row: Any, n: int = ROWS) -> Any:
    """Returns a list of JSON values."""
    return [_filled(row, i) for i in range(n)]


def _filled(value: Any, i: int) -> Any:
    if isinstance(value, str):
        return value.replace("{i}", str(i)).replace("{f}", str(i / 10)).replace("{b}", str(i % 2))
    if isinstance(value, Mapping):
        return {key: _filled(child, i) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_filled(child, i) for child in value]
    return i if value is I else i / 10 if value is F else value


def pixels(height: int, width: int, channels: int = 3) -> Any:
    """Returns an image of noise."""
    size = height * width * channels
    noise = np.frombuffer(random.Random(size).randbytes(size), np.uint8).reshape(height, width, channels)
    return noise[..., 0] if channels == 1 else noise


def png(height: int, width: int, channels: int = 3) -> bytes:
    """Returns an image file."""
    return bytes(imagecodecs.png_encode(pixels(height, width, channels)))


def jpg(height: int, width: int) -> bytes:
    """Returns an image file."""
    return bytes(imagecodecs.jpeg_encode(pixels(height, width)))


def tif(height: int, width: int) -> bytes:
    """Returns an image file."""
    file = io.BytesIO()
    Image.fromarray(pixels(height, width)).save(file, "TIFF")
    return file.getvalue()


def wav(count: int, rate: int = 16000) -> bytes:
    """Returns an audio file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, rate, count, "NONE", ""))
        writer.writeframes(np.arange(count, dtype="<i2").tobytes())
    return file.getvalue()


def npy(array: Any) -> bytes:
    """Returns a file of NumPy."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(arrays: dict[str, Any]) -> bytes:
    """Returns a file of several arrays."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def files(source: Source) -> Iterator[tuple[str, bytes]]:
    """Yields (path, content) of the files of a directory."""
    for places, content in source.items():
        for place in places.split("|"):
            if isinstance(content, bytes):
                yield place, content
            else:
                yield from ((posixpath.join(place, path), inner) for path, inner in files(content))


def packed(source: Source, name: str) -> bytes:
    """Returns an archive, of the kind that its name says: a tar file, or a zip file."""
    file = io.BytesIO()
    if ".tar" in name or name.endswith("gz"):
        mode: Any = "w:gz" if name.endswith("gz") else "w:bz2" if name.endswith("bz2") else "w"
        with tarfile.open(fileobj=file, mode=mode) as tar:
            for path, content in files(source):
                member = tarfile.TarInfo(path)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    else:
        with zipfile.ZipFile(file, "w") as archive:
            for path, content in files(source):
                archive.writestr(path, content)
    return file.getvalue()


def write_manual(source: Source, directory: Path) -> None:
    """Writes what is in the manual directory; archives as what their names say."""
    for place, content in source.items():
        if not place.startswith("manual/"):
            continue
        name = place.removeprefix("manual/")
        if not isinstance(content, bytes) and name.endswith((".zip", ".tar", ".gz", ".tgz")):
            content = packed(content, name)
        for path, data in files({name: content}):
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


def response(source: Source, url: str) -> tuple[bytes, str | None]:
    """Returns what a server sends for a URL, and the name of the file if the URL does not have it.

    Raises:
        KeyError: nothing is there.
    """
    web = [(place, found) for places, found in source.items() for place in places.split("|") if "manual/" not in places]
    content = next((found for place, found in web if fnmatch.fnmatchcase(url, f"*{place}*")), None)
    if content is None:
        raise KeyError(f"the fake sources have nothing at {url}")
    name = posixpath.basename(urllib.parse.urlsplit(url).path)
    if not isinstance(content, bytes):
        is_named = name.lower().endswith((".zip", ".tar", ".tgz", ".gz", ".bz2"))
        return (packed(content, name), None) if is_named else (packed(content, "sent.zip"), "sent.zip")
    if name.endswith(".gz"):
        return gzip.compress(content, mtime=0), None
    return (bz2.compress(content), None) if name.endswith(".bz2") else (content, None)
