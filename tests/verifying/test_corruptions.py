"""A thousand random corruptions of a small dataset, each of which is found; and nothing said of a whole one."""

import random
from pathlib import Path

import pytest

import beam_datasets as bd
from tests.directories import contents
from tests.published import restore
from tests.verifying.corruptions import ALL, OF_TFDS, Corrupt, Damaged, edit_info, shards

SPEC_DATASETS = sorted(path.parent for path in (Path(__file__).parents[1] / "data" / "tfds").rglob("dataset_info.json"))


def found(directory: Path, damaged: Damaged) -> bool:
    """Whether verifying names what was damaged."""
    named = {finding.file for finding in bd.verify(directory, jobs=1).findings}
    return all(group & named for group in damaged.groups)


@pytest.mark.parametrize("total", [200, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("corrupt", ALL, ids=lambda corrupt: corrupt.__name__)
def test_each_corruption_is_found(copy: Path, corrupt: Corrupt, total: int) -> None:
    whole = contents(copy)
    for seed in range(-(-total // len(ALL))):
        damaged = corrupt(copy, random.Random(seed))
        assert contents(copy) != whole, seed
        assert found(copy, damaged), (seed, damaged, bd.verify(copy).findings)
        restore(copy, whole)
    assert bd.verify(copy).whole


@pytest.mark.parametrize("corrupt", OF_TFDS, ids=lambda corrupt: corrupt.__name__)
def test_each_that_can_be_known_is_found_without_a_manifest(bare: Path, corrupt: Corrupt) -> None:
    whole = contents(bare)
    for seed in range(60):
        damaged = corrupt(bare, random.Random(seed))
        if corrupt is edit_info:  # which of the two was edited, nothing says
            damaged = Damaged([{"dataset_info.json", *(path.name for path in shards(bare))}])
        if damaged.groups != [{"label.labels.txt"}]:  # nothing says that there are labels, nor what they are called
            assert found(bare, damaged), (seed, damaged, bd.verify(bare).findings)
        restore(bare, whole)


@pytest.mark.parametrize("decode", [False, True])
def test_nothing_is_said_of_a_whole_dataset(published: Path, ordered: Path, as_tfds: Path, decode: bool) -> None:
    for directory in (published, ordered, as_tfds):
        report = bd.verify(directory, decode=decode)
        assert report.whole, report.findings
        assert (report.dataset, report.num_shards, report.num_records) == ("ds:1.0.0", 6, 72)
        assert bool(report.not_known) == (directory == as_tfds)


@pytest.mark.parametrize("directory", SPEC_DATASETS, ids=lambda path: path.parent.name)
@pytest.mark.parametrize("decode", [False, True])
def test_nothing_is_said_of_what_tfds_wrote(directory: Path, decode: bool) -> None:
    assert bd.verify(directory, decode=decode).findings == ()
