"""What the machine and plain Python can do with the records that beam_datasets wrote: limits, not datasets.

All but `rows` and `deflate` read the shards of the directory, framed records, before the clock runs or while it does.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import struct
import subprocess
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import crc32c
import imagecodecs
import numpy as np
import obstore
from remote import url_of
from steps import CORES, FILES_MADE, FILES_READ, LIMITS, PICKS, Job, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PACKAGES = ("crc32c", "imagecodecs")
IMAGE_DATA = 41  # bytes of a PNG with one IDAT chunk before its data; behind them are 16


def _shards(job: Job) -> list[Path]:
    found = Path(job.directory).rglob("*.tfrecord-*")
    shards = sorted(path for path in found if path.suffix != ".index" and "copies" not in path.parts)
    if not shards:
        raise FileNotFoundError(f"{job.directory} has no shards.")
    return shards


def _masked_crc(data: bytes) -> int:
    crc = crc32c.crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _checked(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while head := file.read(12):
            length, crc = struct.unpack("<QI", head)
            record = file.read(length)
            if crc != _masked_crc(head[:8]) or struct.unpack("<I", file.read(4))[0] != _masked_crc(record):
                raise ValueError(f"{path}: a record is damaged")
            yield record


def _records(job: Job) -> list[bytes]:
    return [record for path in _shards(job) for record in _checked(path)]


def _rows(job: Job) -> Callable[[], Iterable[Any]]:
    return job.rows


def _write(job: Job) -> Callable[[], int]:
    records, target = _records(job), Path(job.directory, "plain")

    def run() -> int:
        keyed = [(hashlib.md5(str(key).encode()).digest(), record) for (key, _), record in zip(job.rows(), records)]
        keyed.sort()
        with target.open("wb") as file:
            for _, record in keyed:
                length = struct.pack("<Q", len(record))
                file.write(length)
                file.write(struct.pack("<I", _masked_crc(length)))
                file.write(record)
                file.write(struct.pack("<I", _masked_crc(record)))
        return len(keyed)

    return run


def _read(job: Job) -> Callable[[], Iterable[Any]]:
    shards = _shards(job)
    return lambda: (record for path in shards for record in _checked(path))


def _read_at_random(job: Job) -> Callable[[], int]:
    places = [place for path in _shards(job) for place in _places(path)]
    picks = random.Random(0).sample(places, min(len(places), PICKS))

    def run() -> int:
        for file, offset, size in picks:
            framed = os.pread(file, size, offset)
            if struct.unpack("<I", framed[-4:])[0] != _masked_crc(framed[12:-4]):
                raise ValueError(f"the record at {offset:,} is damaged")
        return len(picks)

    return run


def _places(path: Path) -> Iterator[tuple[int, int, int]]:
    """Yields (open file, offset, size) of each framed record."""
    file, offset = os.open(path, os.O_RDONLY), 0
    for record in _checked(path):
        yield file, offset, len(record) + 16
        offset += len(record) + 16


def _copy_files(job: Job) -> Callable[[], int]:
    source, target = _shards(job)[0].parent, Path(job.directory, "copies")
    shutil.rmtree(target, ignore_errors=True)

    def run() -> int:
        subprocess.run(["cp", "-r", source, target], check=True)
        return job.count

    return run


def _files(job: Job) -> list[Path]:
    return [path for shard in _shards(job) for path in (shard, shard.with_name(shard.name + ".index"))]


def _read_files(job: Job) -> Callable[[], int]:
    paths = list(map(str, _files(job)))

    def run() -> int:
        for path in paths:
            file = os.open(path, os.O_RDONLY)
            left = os.fstat(file).st_size
            while left > 0:
                left -= len(os.read(file, 1 << 18))
            os.close(file)
        return job.count

    return run


def _make_files(job: Job) -> Callable[[], int]:
    sources, target = _files(job), Path(job.directory, "copies")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    places = [(str(path), str(target / f".{path.name}"), str(target / path.name)) for path in sources]

    def run() -> int:
        for source, unfinished, finished in places:
            with open(source, "rb", buffering=0) as old, open(unfinished, "xb", buffering=0) as new:
                while data := old.read(1 << 20):
                    new.write(data)
            os.replace(unfinished, finished)
        return job.count

    return run


def _copy_memory(job: Job) -> Callable[[], int]:
    source = np.concatenate([np.fromfile(path, np.uint8) for path in _shards(job)])
    target = np.ones_like(source)  # pages are touched before the clock runs

    def run() -> int:
        np.copyto(target, source)
        return job.count

    return run


def _checksum(job: Job) -> Callable[[], int]:
    records = _records(job)

    def run() -> int:
        for record in records:
            crc32c.crc32c(record)
        return job.count

    return run


def _deflate(job: Job) -> Callable[[], int]:
    images = [bytes(row["image"]) for _, row in job.rows()]

    def run() -> int:
        for image in images:  # looking for runs alone, as beam_datasets does
            compressor = zlib.compressobj(6, zlib.DEFLATED, 12, 6, zlib.Z_RLE)
            compressor.compress(image)
            compressor.flush()
        return len(images)

    return run


def _inflate(job: Job) -> Callable[[], int]:
    files = [record[record.index(b"\x89PNG") :] for record in _records(job)]
    streams = [file[IMAGE_DATA : file.index(b"IEND") - 8] for file in files]

    def run() -> int:
        for stream in streams:
            zlib.decompress(stream, bufsize=1024)
        return len(streams)

    return run


def _get(job: Job) -> Callable[[], int]:
    store = obstore.store.from_url(url_of(job.directory))
    names = [path.relative_to(job.directory).as_posix() for path in _shards(job)]

    def run() -> int:
        with ThreadPoolExecutor(8) as pool:
            for _ in pool.map(lambda name: obstore.get(store, name).bytes(), names):
                pass
        return job.count

    return run


def _decode(job: Job, *, threads: int) -> Callable[[], int]:
    files = [record[record.index(b"\xff\xd8\xff") : record.rindex(b"\xff\xd9") + 2] for record in _records(job)]

    def decode(start: int) -> None:
        pixels = np.empty((32, 240, 320, 3), np.uint8)
        for file, target in zip(files[start : start + 32], pixels):
            imagecodecs.jpeg8_decode(file, outcolorspace="RGB", out=target)

    def run() -> int:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(decode, range(0, len(files), 32)))
        return len(files)

    return run


STEPS = {
    "rows": Step("making the rows, nothing else", LIMITS, _rows),
    "write": Step("a plain loop: MD5, sort, CRC-32C, one file; records made before", LIMITS, _write),
    "deflate": Step("zlib alone, compressing", LIMITS, _deflate),
    "read": Step("a plain loop: records with their CRC-32C", LIMITS, _read),
    "read_at_random": Step("a plain loop: pread and CRC-32C", LIMITS, _read_at_random),
    "inflate": Step("zlib alone, decompressing", LIMITS, _inflate),
    "decode": Step("imagecodecs alone, one thread", LIMITS, partial(_decode, threads=1)),
    "decode_on_threads": Step("imagecodecs alone, on all cores", LIMITS, partial(_decode, threads=CORES)),
    "get": Step("one obstore client that gets the same files", LIMITS, _get),
    "crc": Step("CRC-32C of each record alone", LIMITS, _checksum),
    "memcpy": Step("memcpy of the same bytes", LIMITS, _copy_memory),
    "read_files": Step("each file read", FILES_READ, _read_files),
    "make_files": Step("each file copied and renamed", FILES_MADE, _make_files),
    "cp": Step("cp of the same files", LIMITS, _copy_files),
}
