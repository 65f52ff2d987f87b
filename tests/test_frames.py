"""Whose code a file is of, here and on another machine."""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import beam_datasets
from beam_datasets import frames

PACKAGE = Path(beam_datasets.__file__).parent
SITE = "/usr/local/lib/python3.12/site-packages"


def test_every_file_of_the_package_is_its_own() -> None:
    names = [path.relative_to(PACKAGE.parent).as_posix() for path in PACKAGE.rglob("*.py")]
    assert len(names) > 100
    for name in names:
        for file in (str(PACKAGE.parent / name), f"/there/{name}", f"{SITE}/{name}", f"C:\\there\\{name}"):
            assert frames.is_own(file), file
            assert not frames.is_authors(file), file


@pytest.mark.parametrize(
    "file",
    [
        "/home/me/digits.py",
        "/home/me/beam_datasets/digits.py",
        "/home/me/beam_datasets/datasets/transforms.py",
        f"{PACKAGE}_of_mine/digits.py",
        f"{PACKAGE.parent}/digits.py",
        "digits.py",
        "<stdin>",
    ],
)
def test_authors(file: str) -> None:
    assert frames.is_authors(file)


@pytest.mark.parametrize(
    "file",
    [
        json.__file__,
        sysconfig.__file__,
        np.__file__,
        f"{SITE}/pandas/core/frame.py",
        "/usr/lib/python3/dist-packages/yaml/loader.py",
        "/usr/local/lib/python3.12/threading.py",
        "apache_beam/runners/common.py",
        "/src/sdks/python/apache_beam/runners/common.py",
        "numpy/random/mtrand.pyx",
        "<frozen importlib._bootstrap>",
        "<string>",
    ],
)
def test_others(file: str) -> None:
    assert not frames.is_authors(file)
    assert not frames.is_own(file)


def test_places() -> None:
    def fail() -> None:
        json.loads("{")

    with pytest.raises(ValueError, match="Expecting") as caught:
        fail()
    found = frames.of(caught.value)
    assert [frame.function for frame in found[:3]] == ["test_places", "fail", "loads"]
    mine = frames.last_of_author(found)
    assert str(mine) == f"{__file__}:{fail.__code__.co_firstlineno + 1} in fail"
    assert frames.last_of_author(found[2:]) is None
    assert frames.entry_of_installed(found) is None
