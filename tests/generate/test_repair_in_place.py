"""Repair where something that is not a file stands in a file's place."""

import os
import shutil
from pathlib import Path

import pytest

import beam_datasets as bd
from tests.generate.test_repair import ADVICE, INDEX, SHARD, repaired
from tests.published import contents


@pytest.mark.parametrize("with_copy", [False, True])
@pytest.mark.parametrize("file", [SHARD, INDEX, "manifest.json", "dataset_info.json", "features.json"])
def test_a_directory_in_a_files_place_keeps_nothing_else_from_repair(
    copy: Path,
    published: Path,
    file: str,
    with_copy: bool,
) -> None:
    other = "ds-train.tfrecord-00002-of-00004.index"
    (copy / other).write_bytes((copy / other).read_bytes()[:-1])
    (copy / file).unlink()
    (copy / file).mkdir()
    refusal = {file: "a directory stands in its place; move that away first"}
    for dry_run in (True, False):
        done = bd.repair(copy, copy=published if with_copy else None, dry_run=dry_run)
        assert ([step.file for step in done.steps], done.refused) == ([other], refusal)
    assert done.after is not None
    assert file in {finding.file for finding in done.after.findings}
    assert (copy / other).is_file()
    (copy / file).rmdir()
    bd.repair(copy, copy=published)
    assert contents(copy) == contents(published)


def test_keys_that_cannot_be_read_are_not_given_up(copy: Path, ordered: Path, tmp_path: Path) -> None:
    """A disk or a store that fails may serve again; what is proved is written."""
    (copy / INDEX).unlink()
    os.mkfifo(copy / INDEX)
    done = bd.repair(copy)
    assert (done.steps, done.refused) == ((), {INDEX: f"its keys cannot be read; only a good copy has them: {ADVICE}"})
    assert (copy / INDEX).is_fifo()
    directory = Path(shutil.copytree(ordered, tmp_path / "ds" / "1.0.0"))
    (directory / INDEX).unlink()
    os.mkfifo(directory / INDEX)
    repaired(directory, INDEX)
    assert contents(directory) == contents(ordered)
