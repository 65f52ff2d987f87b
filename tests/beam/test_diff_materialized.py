"""Comparing what was materialized: keys ascend in stretches, and are made by the rules of the sources."""

from pathlib import Path

import pytest

import beam_datasets as bd
from tests.diffing.versions import PETS, example

pytestmark = pytest.mark.filterwarnings("ignore:.*not in hash order:UserWarning")  # of the slices that are cut
TRAIN = PETS.splits["train"]
EDITED = {key: value for key, value in TRAIN.items() if key != "key 3"} | {"key 7": example(99), "key 20": example(20)}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    PETS.write(root, "1.0.0")
    PETS.but(splits={**PETS.splits, "train": EDITED}).write(root, "2.0.0")
    wanted = {
        "cut": {"split": {"whole": "train[10:]+test+train[:10]"}},
        "mixed": {"split": {"whole": "train+test"}, "reshuffle": "salt"},
        "other": {"split": {"whole": "train+test"}, "reshuffle": "pepper"},
    }
    for name, options in wanted.items():
        for version in ("1.0.0", "2.0.0"):
            bd.materialize(
                f"pets:{version}",
                to=f"{name}:{version}",
                data_dir=root,
                num_workers=1,
                num_shards=3,
                **options,  # type: ignore[arg-type]
            )
    return root


@pytest.mark.parametrize("name, moved", [("cut", 1), ("mixed", 0), ("other", 0)])
def test_keys_pair_what_was_materialized_alike(name: str, moved: int, root: Path) -> None:
    same = bd.diff(f"{name}:1.0.0", f"{name}:1.0.0", data_dir=root).splits["whole"]
    assert (same.by, same.same, same.differs) == ("keys", 26, False)
    found = bd.diff(f"{name}:1.0.0", f"{name}:2.0.0", data_dir=root).splits["whole"]
    # What is in train[10:] of one version and in train[:10] of the other stands elsewhere.
    assert (found.same, found.changed, found.removed, found.added, found.moved) == (24 - moved, 1, 1, 1, moved)
    assert found.by == "keys"


def test_other_orders_are_compared_by_index(root: Path) -> None:
    found = bd.diff("mixed:1.0.0", "other:1.0.0", data_dir=root)
    split = found.splits["whole"]
    assert (split.by, split.why) == ("index", "the two versions made their keys in different ways")
    assert (split.same + split.moved, split.changed, split.removed, split.added) == (26, 0, 0, 0)
    assert (found.verdict.needed, found.verdict.given, found.verdict.kept) == ("MAJOR", None, True)
