"""Which files are this package's, an author's and a library's, here and on another machine."""

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
    "file, is_authors",
    [
        ("/home/me/digits.py", True),
        ("/home/me/beam_datasets/digits.py", True),
        ("/home/me/beam_datasets/datasets/transforms.py", True),
        (f"{PACKAGE}_of_mine/digits.py", True),
        (f"{PACKAGE.parent}/digits.py", True),
        ("digits.py", True),
        ("<stdin>", True),
        (json.__file__, False),
        (sysconfig.__file__, False),
        (np.__file__, False),
        (f"{SITE}/pandas/core/frame.py", False),
        ("/usr/lib/python3/dist-packages/yaml/loader.py", False),
        ("/usr/local/lib/python3.12/threading.py", False),
        ("apache_beam/runners/common.py", False),
        ("/src/sdks/python/apache_beam/runners/common.py", False),
        ("numpy/random/mtrand.pyx", False),
        ("<frozen importlib._bootstrap>", False),
        ("<string>", False),
    ],
)
def test_files_of_authors_and_of_libraries(file: str, is_authors: bool) -> None:
    assert frames.is_authors(file) == is_authors
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
