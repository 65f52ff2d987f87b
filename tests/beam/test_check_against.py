"""Builds that are checked against what was published before."""

import time
from pathlib import Path
from typing import Any, NoReturn

import pytest

from beam_datasets.errors import ResultKeptError, VersionError
from beam_datasets.publishing import compatibility
from beam_datasets.publishing.compatibility import earlier_version
from beam_datasets.publishing.renumbering import publish_as
from tests.beam.squares import builder


class Unread:
    """A source that nobody may read."""

    def __iter__(self) -> NoReturn:
        raise AssertionError("the job was started")


def versions(data_dir: Path) -> list[str]:
    return sorted(path.name for path in (data_dir / "squares" / "small").iterdir())


@pytest.mark.parametrize("num_workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_number_that_promises_too_much_publishes_nothing(tmp_path: Path, num_workers: int) -> None:
    """What only the examples tell is said when all is written, which is kept to be published under another."""
    builder("1.0.0", tmp_path).build(num_workers=1)
    refused = (
        r"squares/small:1\.0\.1 was not published: it was compared with squares/small:1\.0\.0\.\n"
        r"  MAJOR  split 'train': 1 removed, of 20 examples\n"
        r"Needed: MAJOR; 1\.0\.0 -> 1\.0\.1 is a PATCH version, which is too low for the changes\. Call it 2\.0\.0\."
    )
    with pytest.raises(ResultKeptError, match=refused) as error:
        builder("1.0.1", tmp_path, range(19)).build(num_workers=num_workers, check_against="latest")
    (kept,) = (tmp_path / "squares" / "small").glob("incomplete.*_1.0.1")
    assert str(error.value).endswith(f"To publish it under that number: beam-datasets publish {kept} --version 2.0.0")
    assert versions(tmp_path) == ["1.0.0", kept.name]
    assert publish_as(str(kept), "2.0.0") == str(tmp_path / "squares" / "small" / "2.0.0")
    assert versions(tmp_path) == ["1.0.0", "2.0.0"]
    assert_as_built(tmp_path, "2.0.0", range(19))


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_comparison_that_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_workers: int) -> None:
    """The launcher looks for the directories of the run meanwhile, which has only the files of the result then."""
    builder("1.0.0", tmp_path).build(num_workers=1)
    check = compatibility.check

    def check_slowly(*arguments: Any) -> None:
        time.sleep(4)
        check(*arguments)

    monkeypatch.setattr(compatibility, "check", check_slowly)
    with pytest.raises(ResultKeptError):
        builder("1.0.1", tmp_path, range(19)).build(num_workers=num_workers, check_against="latest")
    (kept,) = (tmp_path / "squares" / "small").glob("incomplete.*_1.0.1")
    assert publish_as(str(kept), "2.0.0") == str(tmp_path / "squares" / "small" / "2.0.0")
    builder("2.0.1", tmp_path, range(19)).build(num_workers=num_workers, check_against="latest")
    assert versions(tmp_path) == ["1.0.0", "2.0.0", "2.0.1"]


def assert_as_built(data_dir: Path, version: str, values: range) -> None:
    """Checks that a version is, byte by byte, what a build of this number would have published."""
    built = builder(version, data_dir.parent / f"{data_dir.name}-again", values).build(num_workers=1)
    found = {
        where: {path.name: path.read_bytes() for path in Path(where).iterdir() if path.name != "run.json"}
        for where in (built, str(data_dir / "squares" / "small" / version))
    }
    one, other = found.values()
    assert one == other


@pytest.mark.slow
def test_the_number_decides(tmp_path: Path) -> None:
    """What features and description tell is said before the job starts."""
    builder("1.0.0", tmp_path).build(num_workers=1, check_against="latest")  # there is nothing to check against yet
    builder("1.0.1", tmp_path).build(num_workers=1, check_against="latest", num_shards={"train": 4})
    with pytest.raises(VersionError, match=r"MINOR  feature 'm' was added: int64") as error:
        builder("1.0.2", tmp_path, Unread(), m=1).build(num_workers=1, check_against="1.0.0")  # type: ignore[arg-type]
    assert not isinstance(error.value, ResultKeptError)
    assert versions(tmp_path) == ["1.0.0", "1.0.1"]
    builder("1.1.0", tmp_path, m=1).build(num_workers=1, check_against="1.0.0")
    builder("1.1.1", tmp_path, range(5)).build(num_workers=1)  # nobody asked
    assert versions(tmp_path) == ["1.0.0", "1.0.1", "1.1.0", "1.1.1"]


def test_which_version_is_checked_against(tmp_path: Path) -> None:
    for version in ("1.0.0", "1.2.0", "3.0.0"):
        builder(version, tmp_path).build(num_workers=1)
    (tmp_path / "squares" / "small" / "1.5.0").mkdir()  # not published
    wanted = builder("2.0.0", tmp_path)
    folder = str(tmp_path / "squares" / "small")
    assert earlier_version(wanted.dataset_dir) == f"{folder}/1.2.0"
    assert earlier_version(wanted.dataset_dir, "1.0.0") == f"{folder}/1.0.0"
    assert earlier_version(builder("1.0.0", tmp_path).dataset_dir) is None
    for other in ("3.0.0", "1.5.0"):
        with pytest.raises(VersionError, match=rf"cannot be checked against {other}.* are 1\.0\.0, 1\.2\.0\."):
            wanted.build(num_workers=1, check_against=other)
    with pytest.raises(ValueError, match="'last' is not a version"):
        wanted.build(num_workers=1, check_against="last")
    assert not (tmp_path / "squares" / "small" / "2.0.0").exists()
