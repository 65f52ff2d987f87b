"""What the machine and plain Python can do with records of 1 kB: the limits that stand beside the systems."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
from typing import TYPE_CHECKING

import crc32c
import numpy as np
from steps import GENERATE, ONE_BY_ONE, Job, Step

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGES = ("crc32c",)


def _masked_crc(data: bytes) -> int:
    crc = crc32c.crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _loop(job: Job) -> Callable[[], int]:
    def run() -> int:
        records = [(hashlib.md5(str(key).encode()).digest(), row["data"]) for key, row in job.rows()]
        records.sort()
        with open(_file(job), "wb") as file:
            for _, record in records:
                length = struct.pack("<Q", len(record))
                file.write(length)
                file.write(struct.pack("<I", _masked_crc(length)))
                file.write(record)
                file.write(struct.pack("<I", _masked_crc(record)))
        return len(records)

    return run


def _read(job: Job) -> Callable[[], int]:
    def run() -> int:
        count = 0
        with open(_file(job), "rb") as file:
            while head := file.read(12):
                length, crc = struct.unpack("<QI", head)
                record = file.read(length)
                if crc != _masked_crc(head[:8]) or struct.unpack("<I", file.read(4))[0] != _masked_crc(record):
                    raise ValueError(f"{_file(job)}: record {count} is damaged")
                count += 1
        return count

    return run


def _file(job: Job) -> str:
    return os.path.join(job.directory, "records")


def _records(job: Job) -> list[bytes]:
    return [row["data"] for _, row in job.rows()]


def _copy_file(job: Job) -> Callable[[], int]:
    with open(_file(job), "wb") as file:
        file.writelines(_records(job))

    def run() -> int:
        subprocess.run(["cp", _file(job), f"{_file(job)}.copy"], check=True)
        return job.count

    return run


def _copy_memory(job: Job) -> Callable[[], int]:
    source = np.frombuffer(b"".join(_records(job)), np.uint8)
    target = np.zeros_like(source) + np.uint8(1)  # pages are touched before the clock starts

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


STEPS = {
    "generate": Step("a plain loop: MD5, sort, CRC-32C, one file", GENERATE, _loop),
    "crc": Step("CRC-32C of each record alone", GENERATE, _checksum),
    "cp": Step("cp of a file", GENERATE, _copy_file),
    "memcpy": Step("copy in memory", GENERATE, _copy_memory),
    "one_by_one": Step("a plain loop: records with their CRC-32C", ONE_BY_ONE, _read),
}
