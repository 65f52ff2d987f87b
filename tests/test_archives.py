"""Archives that are unpacked or read in place, and those that are damaged or unsafe."""

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from beam_datasets.downloads import (
    DownloadError,
    DownloadManager,
    DownloadSettings,
    ExtractMethod,
    extract,
    iter_archive,
)
from beam_datasets.limits import VARIABLE
from tests.facts import raises_with

CONTENT = bytes(range(256)) * 4000
FILES = {"a.txt": b"a" * 10_000, "deep/er/b.txt": b"b", ".hidden": b"h", "c~": b"c"}


def manager(directory: Path, **settings: Any) -> DownloadManager:
    return DownloadManager(DownloadSettings(directory / "downloads", **settings))


def write_archive(path: Path, files: dict[str, bytes], *, link: str | None = None) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return path
    mode: Any = "w:" + path.suffix[1:].removesuffix("tar").replace("tgz", "gz")
    with tarfile.open(path, mode) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        if link:
            member = tarfile.TarInfo("link")
            member.type, member.linkname = tarfile.SYMTYPE, link
            tar.addfile(member)
    return path


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz", "x.tgz", "x.tar.bz2"])
def test_archives(tmp_path: Path, name: str) -> None:
    path = write_archive(tmp_path / name, FILES)
    directory = manager(tmp_path).extract(path)
    assert {str(f.relative_to(directory)): f.read_bytes() for f in directory.rglob("*") if f.is_file()} == FILES
    want = {name: content for name, content in FILES.items() if name[0] != "." and name[-1] != "~"}
    assert {name: file.read() for name, file in iter_archive(path)} == want
    assert manager(tmp_path).extract([path]) == [directory]
    if name != "x.zip":
        assert {n: f.read() for n, f in iter_archive(path, ExtractMethod.TAR_STREAM)} == want


@pytest.mark.parametrize("module, ending", [(gzip, ".gz"), (bz2, ".bz2")])
def test_compressed_files(tmp_path: Path, module: Any, ending: str) -> None:
    path = tmp_path / f"x{ending}"
    path.write_bytes(module.compress(CONTENT))
    assert manager(tmp_path).extract(path).read_bytes() == CONTENT
    assert [(name, file.read()) for name, file in iter_archive(path)] == [("", CONTENT)]


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz"])
@pytest.mark.parametrize("member", ["../out", "/etc/out", "a/../../out", "..\\out", "\\\\host\\out", "C:\\out", "."])
def test_paths_that_climb_out_are_refused(tmp_path: Path, name: str, member: str) -> None:
    path = write_archive(tmp_path / name, {"good": b"", member: b"x"})
    with raises_with(DownloadError, path=str(path), got=[repr(member)]):
        manager(tmp_path).extract(path)
    assert not [file for file in tmp_path.rglob("*") if file.name in ("good", "out")]


@pytest.mark.parametrize("names", ["a a/b", "a/b a", "x" * 300, "a/" * 2000 + "b"], ids=range(4))
@pytest.mark.parametrize("kind", ["x.zip", "x.tar"])
def test_paths_that_no_file_can_have(tmp_path: Path, names: str, kind: str) -> None:
    path = write_archive(tmp_path / kind, dict.fromkeys(names.split(), b"x"))
    with raises_with(DownloadError, path=str(path)):
        manager(tmp_path).extract(path)
    assert not list((tmp_path / "downloads" / "extracted").iterdir())


def test_links_and_bombs_are_refused(tmp_path: Path, monkeypatch: Any) -> None:
    path = write_archive(tmp_path / "x.tar", {"a": b"1"}, link="/etc/passwd")
    with raises_with(DownloadError, path=str(path), got=["'link'"], advice=["iter_archive()"]):
        manager(tmp_path).extract(path)
    assert [name for name, _ in iter_archive(path)] == ["a"]
    path = write_archive(tmp_path / "y.tar", {"a": b"1"}, link="a")
    assert [(name, file.read()) for name, file in iter_archive(path)] == [("a", b"1"), ("link", b"1")]
    assert [name for name, _ in iter_archive(path, ExtractMethod.TAR_STREAM)] == ["a", "link"]
    monkeypatch.setattr("beam_datasets.limits.MAX_UNPACKED", 1 << 20)
    monkeypatch.setattr("beam_datasets.downloads.archives._MAX_RATIO", 100)
    bomb = write_archive(tmp_path / "bomb.zip", {"a": bytes(10 << 20)})
    packed = tmp_path / "bomb.gz"
    packed.write_bytes(gzip.compress(bytes(10 << 20)))
    for path, method in ((bomb, ExtractMethod.ZIP), (packed, ExtractMethod.GZIP)):
        with raises_with(
            DownloadError,
            path=str(path),
            expected="1,048,576 bytes",
            advice=[f"{VARIABLE}={4 << 20} ", "iter_archive()"],
        ):
            extract(path, method, tmp_path / "target")
        assert not (tmp_path / "target").exists()
        monkeypatch.setenv(VARIABLE, str(10 << 20))
        extract(path, method, tmp_path / "unpacked" / method.value)
        monkeypatch.delenv(VARIABLE)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
@pytest.mark.parametrize("suffix", [".tar", ".tar.gz"])
@pytest.mark.parametrize("place", [1, 2, 3])
def test_members_after_a_link_are_read(tmp_path: Path, kind: bytes, suffix: str, place: int) -> None:
    """To open a link, `tarfile` reads the headers of the whole archive."""
    files = {"a": b"1", "b": b"22", "c/d": bytes(3000)}
    path = tmp_path / f"x{suffix}"
    with tarfile.open(path, f"w:{'gz' if suffix.endswith('gz') else ''}") as tar:
        for number, (name, content) in enumerate(files.items(), 1):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
            if number == place:
                link = tarfile.TarInfo("link")
                link.type, link.linkname = kind, "a"
                tar.addfile(link)
    expected = [*files.items()]
    expected.insert(place, ("link", b"1"))
    for method in (None, ExtractMethod.TAR_STREAM):
        assert [(name, file.read()) for name, file in iter_archive(path, method)] == expected


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
@pytest.mark.parametrize("before", ["", "a", "a link"])
def test_a_header_of_a_tar_archive_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: bytes, before: str
) -> None:
    """`tarfile` reads it at once; a member of the same size is read."""
    monkeypatch.setattr("beam_datasets.limits.MAX_HEADER", 4096)
    header, member, link = (tarfile.TarInfo(name) for name in ("header", "a", "link"))
    header.type, header.size, member.size = kind, 5000, 6000
    link.type, link.linkname = tarfile.SYMTYPE, "a"
    one = member.tobuf() + bytes(6144)
    first = {"": b"", "a": one, "a link": one + link.tobuf()}[before]
    if kind in (tarfile.XHDTYPE, tarfile.XGLTYPE):
        content = b"5000 comment=" + b"x" * 4986 + b"\n"
    else:
        content = b"x" * 4999 + b"\0"
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(first + header.tobuf() + content + bytes(120) + one + bytes(1024)))
    seen = []
    with raises_with(DownloadError, path=str(path), got="5,120", advice=[f"{VARIABLE}=5120 "]):
        seen.extend(file.read() for _, file in iter_archive(path))
    monkeypatch.setenv(VARIABLE, "5120")
    assert [file.read() for _, file in iter_archive(path)] == [bytes(6000)] * (len(before.split()) + 1)


def test_devices_and_pipes_are_left_out(tmp_path: Path, caplog: Any) -> None:
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as tar:
        for name, kind in (("pipe", tarfile.FIFOTYPE), ("disk", tarfile.BLKTYPE), ("a", tarfile.REGTYPE)):
            member = tarfile.TarInfo(name)
            member.type = kind
            tar.addfile(member)
    directory = manager(tmp_path).extract(path)
    assert [file.name for file in directory.iterdir()] == ["a"]
    assert [record.getMessage().partition("x.tar: ")[2] for record in caplog.records] == [
        "the device or pipe 'pipe' is left out",
        "the device or pipe 'disk' is left out",
    ]
    assert [name for name, _ in iter_archive(path)] == ["a"]


def test_members_that_cannot_be_unpacked(tmp_path: Path) -> None:
    """They are errors where they are read: a builder may leave them out."""
    path = tmp_path / "x.zip"
    data = write_archive(path, {"a": b"text", "b": b"more"}).read_bytes()
    entry = data.index(b"PK\1\2")
    for place, value, got in ((8, 1, "'a' encrypted"), (10, 9, "'a' by method 9")):
        path.write_bytes(data[: entry + place] + bytes([value]) + data[entry + place + 1 :])
        with raises_with(DownloadError, path=str(path), got=got, advice=["manual_dir"]):
            manager(tmp_path).extract(path)
        contents = {}
        for name, member in iter_archive(path):
            with member:
                try:
                    contents[name] = member.read().decode()
                except DownloadError as error:
                    contents[name] = error.got
        assert contents.pop("b") == "more"
        assert contents["a"] == got


@pytest.mark.parametrize("name", ["x.zip", "x.tar.gz", "x.gz", "x.bz2"])
def test_damaged_archives(tmp_path: Path, name: str) -> None:
    whole = {"x.gz": gzip.compress(CONTENT), "x.bz2": bz2.compress(CONTENT)}.get(name)
    path = tmp_path / name
    content = whole or write_archive(path, {"a": CONTENT}).read_bytes()
    for damaged in (content[: len(content) // 2], b"<html>", b""):
        path.write_bytes(damaged)
        with raises_with(DownloadError, path=str(path), expected="an archive"):
            manager(tmp_path).extract(path)
        for read in (lambda file: file.read(), lambda file: file.readlines()):
            with raises_with(DownloadError, path=str(path), expected="an archive"):
                [read(file) for _, file in iter_archive(path)]
    assert not [f for f in (tmp_path / "downloads" / "extracted").rglob("*") if f.is_file()]


def test_files_of_this_machine(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "a b.zip", {"a/b.txt": CONTENT})
    made = manager(tmp_path)
    for given in (path, str(path), path.as_uri()):
        assert made.download(given) == path
        for directory in (made.download_and_extract(given), made.extract(given)):
            assert (directory / "a" / "b.txt").read_bytes() == CONTENT
        assert [file.read() for _, file in made.iter_archive(given)] == [CONTENT]
    assert made.download({"all": [tmp_path]}) == {"all": [tmp_path]}
    with raises_with(DownloadError, path=str(tmp_path / "gone.zip")):
        made.download(tmp_path / "gone.zip")


@pytest.mark.parametrize("method", ["download", "extract", "iter_archive"])
def test_paths_that_are_not_of_this_machine(tmp_path: Path, method: str) -> None:
    open_archive = getattr(manager(tmp_path), method)
    with raises_with(DownloadError, path=str(tmp_path / "gone.zip")):
        open_archive((tmp_path / "gone.zip").as_uri())
    with raises_with(DownloadError, path=f"file://other{tmp_path}/a.zip", got="one of 'other'"):
        open_archive(f"file://other{tmp_path}/a.zip")
    if method != "download":
        with raises_with(DownloadError, path="https://example.org/a.zip", advice=["`download`"]):
            open_archive("https://example.org/a.zip")


@pytest.mark.parametrize(
    "name", ["x.tar.gz", *(pytest.param(v, marks=pytest.mark.slow) for v in ("x.tar", "x.tar.bz2", "x.tar.xz"))]
)
def test_a_tar_archive_is_read_to_its_end(tmp_path: Path, name: str) -> None:
    """`tarfile` takes a missing end, and a damaged header, for the end of an archive."""
    path = write_archive(tmp_path / name, {"a": CONTENT, "b": bytes(1024), "c": CONTENT})
    suffix = name.removeprefix("x.tar")
    compress = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[suffix]
    opened = {"": open, ".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}[suffix]
    with opened(path, "rb") as file:
        content = file.read()
    headers = [place for place in range(0, len(content), 512) if content[place + 257 : place + 262] == b"ustar"]
    damaged = bytearray(content)
    damaged[headers[1] + 3] ^= 1
    packed = compress(content)
    end = headers[2] + 512 + (len(CONTENT) + 511) // 512 * 512
    contents = [content[:place] for place in (headers[1], headers[2], end, end + 512)]
    contents += [bytes(damaged), content + b"x" * 512]
    for data in [*map(compress, contents), *([packed[:-1]] if suffix else [])]:
        path.write_bytes(data)
        with raises_with(DownloadError, path=str(path), expected="an archive"):
            list(iter_archive(path))
    path.write_bytes(packed)
    assert [name for name, _ in iter_archive(path)] == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz"])
def test_a_file_of_an_archive_is_like_any_other(tmp_path: Path, name: str) -> None:
    for member, file in iter_archive(write_archive(tmp_path / name, {"a/b.txt": CONTENT})):
        assert (member, file.seekable(), file.readable()) == ("a/b.txt", True, True)
        assert file.seek(-10, os.SEEK_END) == file.tell() == len(CONTENT) - 10
        assert file.read() == CONTENT[-10:]
        assert file.seek(3) == 3
        assert file.readline() == io.BytesIO(CONTENT[3:]).readline()
        file.close()
        assert file.closed
