"""An appended version has the bytes of one generation of all its examples: against a dict of what it should hold."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
import weakref
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets import storage
from beam_datasets.errors import (
    AlreadyPublishedError,
    BeamDatasetsError,
    CorruptRecordError,
    DuplicateKeyError,
    SplitError,
)
from beam_datasets.materializing import merging, records, selection
from beam_datasets.materializing.append_options import ON_DUPLICATE, AppendOptions
from beam_datasets.materializing.append_plan import plan_append
from beam_datasets.materializing.appending import run_append
from beam_datasets.materializing.plan import plan_job
from beam_datasets.materializing.run import run_in_process
from beam_datasets.options import EngineOptions
from beam_datasets.shuffle import merge
from tests.cases import cases
from tests.facts import raises_with
from tests.materializing.generated import FEATURES, content, generate
from tests.published import flip
from tests.reading.conftest import write_dataset

ROOT = Path(__file__).resolve().parents[2]
keys = st.integers(0, 60)
numbers = st.dictionaries(keys, st.integers(0, 9), min_size=1, max_size=40)


@contextlib.contextmanager
def ranges_of(num_records, files):
    """Cuts keys into ranges of so many records and files, of which about as many shards as records stay open.

    Runs of so many bytes are written from where they were read.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "RANGE_RECORDS", num_records)
        patch.setattr(merging, "RANGE_FILES", files)
        patch.setattr(merging, "MAX_OPEN_SHARDS", num_records)
        patch.setattr(merge, "MIN_RUN_BYTES", num_records)
        yield


ranges = st.sampled_from([(3, 2), (1, 1), (1 << 16, 4)])


def shards(draw, examples):
    return draw(st.integers(1, min(6, len(examples))))


def planned(new, source="ds", **options):
    return plan_append(source, new, AppendOptions(**options))


@given(st.data(), numbers, st.booleans(), st.randoms(use_true_random=False))
@cases(15, in_full=40)
def test_any_division_and_order_gives_the_bytes_of_one_generation(data, examples, ordered, rng):
    order = rng.sample(sorted(examples), len(examples))
    cuts = sorted(data.draw(st.lists(st.integers(1, len(order)), max_size=3)))
    parts = [part for part in ([order[a:b] for a, b in zip([0, *cuts], [*cuts, len(order)])]) if part]
    with tempfile.TemporaryDirectory() as root, ranges_of(*data.draw(ranges)):
        made = []
        for i, part in enumerate(parts):
            some = {key: examples[key] for key in part}
            made.append(
                generate(root, {"train": some}, name=f"p{i}", num_shards=shards(data.draw, some), ordered=ordered)
            )
        first = generate(root, {"train": {key: examples[key] for key in parts[0]}}, ordered=ordered)
        asked = shards(data.draw, examples)
        together = data.draw(st.booleans())
        last = first
        if together:
            last = Path(bd.append("ds", made[1:], data_dir=root, num_shards=asked))
        else:
            for i, more in enumerate(made[1:]):
                last = Path(bd.append("ds", more, data_dir=root, num_shards=asked if i == len(made) - 2 else None))
        if len(made) == 1:
            assert last == first
            return
        assert last.name == f"{2 if together else len(made)}.0.0"
        whole = generate(f"{root}/whole", {"train": examples}, num_shards=asked, ordered=ordered)
        assert content(last) == content(whole)
        dataset = bd.load("ds", split="train", data_dir=root)
        assert {key: dataset.find(key) is not None for key in examples} == dict.fromkeys(examples, True)


@given(st.data(), numbers, numbers, st.sets(keys, max_size=10), st.sampled_from(ON_DUPLICATE), st.booleans())
@cases(15, in_full=60)
def test_replacing_and_deleting_is_that_of_a_dict(data, old, new, delete, on_duplicate, ordered):
    common = (old.keys() & new.keys()) - delete
    differing = {key for key in common if old[key] != new[key]}
    expected = {**new, **old} if on_duplicate == "keep_old" else {**old, **new}
    expected = {key: n for key, n in expected.items() if key not in delete}
    with tempfile.TemporaryDirectory() as root, ranges_of(*data.draw(ranges)):
        parent = generate(root, {"train": old}, num_shards=shards(data.draw, old), ordered=ordered)
        generate(root, {"train": new}, name="more", num_shards=shards(data.draw, new), ordered=ordered)

        def append():
            listed = [str(key) for key in delete]
            plan = planned(["more"], on_duplicate=on_duplicate, delete=listed, data_dir=root)
            return plan, run_append(plan) if plan.has_changes else str(parent)

        fails = common if on_duplicate == "error" else differing if on_duplicate == "skip_identical" else ()
        if fails or not expected:
            with pytest.raises(DuplicateKeyError if fails else BeamDatasetsError) as error:
                append()
            if fails:  # the examples that it names have the same key
                places = re.findall(r"(\w+):1.0.0:(train\[\d+:\d+\])", str(error.value))
                named = [bd.load(name, split=split, data_dir=root) for name, split in places]
                assert any(n.find(key) == m.find(key) == 0 for n, m in [named] for key in fails)
                shown = re.findall(r"\n  n: (\d+), text", str(error.value))
                assert shown == [str(read[0]["n"]) for read in named]
            assert [path.name for path in (Path(root) / "ds").iterdir()] == ["1.0.0"]
            return
        plan, directory = append()
        added = len(new.keys() - old.keys() - delete)
        replaced = len(differing) if on_duplicate == "replace" else 0
        counts = merging.Counts(added, replaced, len(delete & old.keys()), len(new) - added - replaced)
        assert plan.splits[0].counts == counts
        assert dict(plan.deletions) == {
            str(key): True if key in old else False if key in new else None for key in delete
        }
        whole = generate(f"{root}/whole", {"train": expected}, ordered=ordered)
        if old == expected:
            assert directory == str(parent)
        else:
            assert content(Path(directory)) == content(whole)


@given(st.data(), st.sampled_from(ON_DUPLICATE), st.sets(keys, max_size=3))
@cases(30)
def test_a_key_stands_once_in_a_dataset_whose_rows_are_split_by_a_value(data, on_duplicate, delete):
    """Against a dict of what each key's split and value are after each of several days."""
    days = data.draw(
        st.lists(st.dictionaries(keys, st.integers(0, 9), min_size=1, max_size=30), min_size=2, max_size=4)
    )
    days[0] |= {100: 0, 101: 1, 102: 2}  # so that no split loses all
    expected, fails = {}, False
    for number, day in enumerate(days):
        for key, n in day.items():
            is_known = number and key in expected
            fails |= is_known and key not in delete and (
                on_duplicate == "error" or (on_duplicate == "skip_identical" and expected[key] != n)
            )  # fmt: skip
            expected[key] = expected[key] if is_known and on_duplicate == "keep_old" else n
    with tempfile.TemporaryDirectory() as root, ranges_of(*data.draw(ranges)):
        made = [generate(root, by_split(day), name=f"day_{number}") for number, day in enumerate(days)]
        new = [selection.Built(made[i], f"day {i}", rows_of(days[i])) for i in range(1, len(days))]
        options = {"on_duplicate": on_duplicate, "delete": delete, "data_dir": root}
        wanted = by_split({key: n for key, n in expected.items() if key not in delete})
        if fails:
            with pytest.raises(DuplicateKeyError):
                planned(new, made[0], **options)
            return
        plan = planned(new, made[0], **options)
        if not plan.has_changes:
            assert wanted == by_split(days[0])
            return
        directory = Path(run_append(plan))
        assert content(directory)[0] == content(generate(f"{root}/whole", wanted, name="day_0"))[0]
        left = {split: set(some) - set(wanted[split]) - delete for split, some in by_split(days[0]).items()}
        assert {split: sum(n for (old, _), n in plan.moved.items() if old == split) for split in left} == {
            split: len(some) for split, some in left.items()
        }


@pytest.mark.parametrize(
    ("days", "moved", "counts"),  # of the splits together: added, replaced and deleted
    [
        ([{1: 1}], {("split_0", "split_1"): 1}, (1, 0, 1)),
        ([{1: 1}, {1: 2}], {("split_0", "split_2"): 1}, (1, 0, 1)),
        ([{1: 1}, {1: 3}], {}, (0, 1, 0)),
        ([{1: 1}, {1: 0}], {}, (0, 0, 0)),
        ([{1: 1}, {1: 3}, {1: 2}], {("split_0", "split_2"): 1}, (1, 0, 1)),
        ([{1: 3}, {1: 1}, {1: 2}, {1: 6}], {}, (0, 1, 0)),
        ([{2: 1}, {2: 2}], {}, (1, 0, 0)),
    ],
    ids=["once", "twice", "and back", "and back as it was", "back and away", "changed and back", "new"],
)
def test_moves_are_those_of_published_examples_from_first_to_last(tmp_path, days, moved, counts):
    days = [{1: 0, 100: 0, 101: 1, 102: 2}, *days]
    parent, *made = [generate(tmp_path, by_split(day), name=f"day_{number}") for number, day in enumerate(days)]
    new = [selection.Built(each, "a day", rows_of(day)) for each, day in zip(made, days[1:])]
    plan = planned(new, parent, on_duplicate="replace", data_dir=tmp_path)
    assert plan.moved == moved
    assert tuple(sum(some) for some in zip(*(split.counts[:3] for split in plan.splits))) == counts


def by_split(day):
    splits = {}
    for key, n in day.items():
        splits.setdefault(f"split_{n % 3}", {})[key] = n
    return splits


def rows_of(day):
    return lambda: iter([{split: list(some)} for split, some in by_split(day).items()])


@pytest.mark.slow
@pytest.mark.parametrize(("kills", "races"), [(30, 20)])
def test_killed_and_concurrent_appends_publish_the_right_version_or_nothing(tmp_path, kills, races):
    command = [sys.executable, "-m", "tests.materializing.append_trials", tmp_path, str(kills), str(races)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stderr


def test_of_two_appends_the_second_is_to_run_again(tmp_path):
    generate(tmp_path, {"train": {1: 1}})
    generate(tmp_path, {"train": {2: 2}}, name="more")
    plan = planned(["more"], data_dir=tmp_path)
    made = bd.append("ds", "more", data_dir=tmp_path)
    with raises_with(AlreadyPublishedError, got="ds:2.0.0", mentions=[made, "run "], advice=["Another run", "run "]):
        run_append(plan)


def test_splits_that_one_side_lacks_and_a_slice(tmp_path):
    train, test = {n: n for n in range(20)}, {n: n for n in range(5)}
    generate(tmp_path, {"train": train, "test": test}, num_shards=2)
    generate(tmp_path, {"train": {n: n for n in range(20, 40)}, "extra": test}, name="more", num_shards=3)
    with raises_with(SplitError, expected=["ds:1.0.0", "train, test"], got="'extra'", advice=["--new_splits"]):
        bd.append("ds", "more", data_dir=tmp_path)
    directory = Path(bd.append("ds", "more", data_dir=tmp_path, num_shards={"train": 4}, new_splits=True))
    union = {"train": train | {n: n for n in range(20, 40)}, "test": test, "extra": test}
    whole = generate(tmp_path / "whole", union, num_shards={"train": 4})
    assert content(directory) == content(whole)
    sliced = bd.append(tmp_path / "ds" / "1.0.0", tmp_path / "more" / "1.0.0", split="train[:7]", version="3.0.0")
    assert bd.builder_from_directory(sliced).info.splits["train"].num_examples == 27


def test_a_new_split_of_which_nothing_stays_is_not_written(tmp_path):
    generate(tmp_path, {"train": {1: 1}})
    generate(tmp_path, {"train": {2: 2}, "extra": {3: 3}}, name="more")
    made = Path(bd.append("ds", "more", data_dir=tmp_path, new_splits=True, delete=[3]))
    assert content(made) == content(generate(tmp_path / "whole", {"train": {1: 1, 2: 2}}))
    assert list(bd.builder_from_directory(made).lineage.splits) == ["train"]
    assert bd.append("ds", "more", data_dir=tmp_path, split="extra", new_splits=True, delete=[3]) == str(made)


def test_a_scalar_is_a_tensor_without_dimensions(tmp_path):
    def with_tensor(**bounds):
        tensor = bd.features.Tensor(shape=(), dtype="int64", **bounds)
        return bd.features.FeaturesDict({"n": tensor, "text": bd.features.Text()})

    generate(tmp_path, {"train": {1: 1, 2: 2}})
    generate(tmp_path, {"train": {3: 3}}, name="more", features=with_tensor())
    made = bd.append("ds", "more", data_dir=tmp_path)
    assert bd.builder_from_directory(made).info.features == FEATURES
    assert content(Path(made)) == content(generate(tmp_path / "whole", {"train": {1: 1, 2: 2, 3: 3}}))
    again = bd.append("more", "ds:1.0.0", data_dir=tmp_path, union_features=True)
    assert bd.builder_from_directory(again).info.features == with_tensor()
    generate(tmp_path, {"train": {3: 3}}, name="bounded", features=with_tensor(minimum=0))
    with raises_with(BeamDatasetsError, mentions=["bounded:1.0.0", "ds:2.0.0", "feature 'n'"]):
        bd.append("ds", "bounded", data_dir=tmp_path)


def test_lineage_names_the_parent_and_the_counts_and_does_not_grow(tmp_path):
    generate(tmp_path, {"train": {1: 1, 2: 2, 3: 3}})
    sizes = []
    for i in range(3):
        generate(tmp_path, {"train": {2: 7 + i, 10 + i: 1}}, name=f"more{i}")
        made = bd.builder_from_directory(
            bd.append("ds", f"more{i}", data_dir=tmp_path, on_duplicate="replace", delete=[1, "1", "no such"])
        )
        sizes.append(len(json.dumps(made.lineage.to_json())))
    assert planned([], data_dir=tmp_path, delete=[2, "2"]).deletions == ((2, True), ("2", True))
    lineage = made.lineage
    assert [dataset.full_name for dataset in lineage.datasets] == ["ds:3.0.0", "more2:1.0.0"]
    assert lineage.appended == {"train": {"added": 1, "replaced": 1, "deleted": 0, "skipped": 0}}
    assert lineage.splits["train"].expression == "train+more2:1.0.0:train"
    assert max(sizes) - min(sizes) < 10
    assert bd.verify(made.dataset_dir).whole


def test_a_builder_is_built_in_a_directory_that_is_removed(tmp_path):
    class More(bd.DatasetBuilder, skip_registration=True):
        VERSION = "1.0.0"

        def _info(self):
            return bd.DatasetInfo(builder=self, features=FEATURES)

        def _split_generators(self):
            return {"train": [(n, {"n": n, "text": "x" * (n % 7)}) for n in range(5, 9)]}

        def elsewhere(self, data_dir):  # stands for the run of a pipeline
            generate(data_dir, {"train": {n: n for n in range(5, 9)}}, name="more")
            made = super().elsewhere(data_dir)
            made.build = lambda **_: f"{data_dir}/more/1.0.0"
            return made

    generate(tmp_path, {"train": {n: n for n in range(5)}})
    directory = bd.append("ds", More(data_dir=tmp_path), data_dir=tmp_path)
    assert content(Path(directory)) == content(generate(tmp_path / "whole", {"train": {n: n for n in range(9)}}))
    assert sorted(path.name for path in (tmp_path / "ds").iterdir()) == ["1.0.0", "2.0.0"]


@pytest.mark.parametrize(
    ("split", "expression"),
    [
        ("train=train", "train+more:1.0.0:train"),
        ("train=train[:1]+train[1:]", "train+more:1.0.0:train[:1]+more:1.0.0:train[1:]"),
        ("train=train+yet:train", "train+more:1.0.0:train+yet:1.0.0:train"),
        ("train=yet:train", "train+yet:1.0.0:train"),
    ],
)
def test_the_lineage_names_the_dataset_of_each_term(tmp_path, split, expression):
    for number, name in enumerate(["ds", "more", "yet"]):
        generate(tmp_path, {"train": {n: n for n in range(2 * number, 2 * number + 2)}}, name=name)

    def ids(directory):
        return sorted(row["n"] for row in bd.builder_from_directory(directory).as_dataset("train"))

    made = bd.append("ds", "more", split=split, data_dir=tmp_path)
    found = bd.builder_from_directory(made).lineage.splits["train"].expression
    assert found == expression
    again = bd.materialize("ds:1.0.0", split=f"train={found}", to="again", data_dir=tmp_path, reshuffle="salt")
    assert ids(again) == ids(made)


@pytest.mark.filterwarnings("ignore:split .train.. it is a concatenation")
def test_a_concatenation_is_appended_to_as_its_error_says(tmp_path):
    generate(tmp_path, {"train": {n: n for n in range(9)}})
    generate(tmp_path, {"train": {9: 9}}, name="more")
    split = {"train": "train[4:]+train[:4]"}
    bd.materialize("ds", split=split, to="joined", data_dir=tmp_path)
    bd.materialize("joined", reshuffle="x", to="shuffled", data_dir=tmp_path)
    advice = "Append to its source, and materialize that again."
    for name in "joined", "shuffled":  # an order of its own does not help, but it does to delete
        with raises_with(BeamDatasetsError, advice=[advice]):
            bd.append(name, "more", data_dir=tmp_path)
    bd.append("ds", "more", data_dir=tmp_path)
    bd.materialize("ds", split=split, to="joined:2.0.0", data_dir=tmp_path)
    assert sorted(e["n"] for e in bd.load("joined", split="train", data_dir=tmp_path)) == [*range(10)]
    bd.append("shuffled", (), delete=[3], data_dir=tmp_path)
    assert sorted(e["n"] for e in bd.load("shuffled", split="train", data_dir=tmp_path)) == [0, 1, 2, *range(4, 9)]


def test_what_cannot_be_appended(tmp_path):
    generate(tmp_path, {"train": {n: n for n in range(9)}, "test": {1: 1}})
    generate(tmp_path, {"train": {9: 9}}, name="more")
    other = bd.features.FeaturesDict({"n": bd.features.Scalar("int32"), "text": bd.features.Text()})
    generate(tmp_path, {"train": {9: 9}}, name="other", features=other)
    generate(tmp_path, {"train": {9: 9}}, name="integers", ordered=True)
    write_dataset(tmp_path / "tfds" / "1.0.0", {"train": [5]}, indexed=False)
    with pytest.warns(UserWarning, match="occur more than once"):
        bd.materialize("ds", split={"train": "train+train"}, to="salted", reshuffle="x", data_dir=tmp_path)

    class More:  # a builder, of which nothing is asked before the other arguments are checked
        elsewhere = None

    with pytest.warns(UserWarning, match="concatenation"):
        bd.materialize("ds", split={"train": "train[4:]+train[:4]"}, to="joined", data_dir=tmp_path)
    one_rule = {"expected": "keys made by one rule"}
    for source, new, options, wanted in [
        ("ds", "other", {}, {"mentions": ["other:1.0.0", "ds:1.0.0", "feature 'n'"]}),
        ("ds", "integers", {}, {**one_rule, "split": "train", "got": ["'train'", "integer keys"]}),
        ("ds", "more", {"split": "trian=train"}, {"got": "'trian'", "advice": ["'train'"]}),
        ("ds", "more", {"split": "test=train"}, {**one_rule, "split": "test", "got": ["'test'"]}),
        ("tfds", (), {"delete": [1]}, {"split": "train", "expected": "shards with recorded keys"}),
        ("joined", "more", {}, {"split": "train", "got": "a concatenation of 2 parts"}),
        ("ds", "more", {"version": "1.1.0"}, {"expected": ["2.0.0", "1.0.0"], "got": "1.1.0"}),
        ("ds", "more", {"version": "1.0.0"}, {"expected": ["2.0.0", "1.0.0"], "got": "1.0.0"}),
        ("ds", "more", {"on_duplicate": "keep"}, {"mentions": ["on_duplicate", "error, keep_old", "'keep'"]}),
        ("ds", "more", {"num_shards": {"tset": 2}}, {"mentions": ["num_shards", "tset"]}),
        *(
            ("integers", (), {"delete": [key]}, {"expected": ["an integer"], "got": repr(key)})
            for key in ("a", "0_9", "09", "+9", "\u0669")
        ),
        ("integers", (), {"delete": [f"{2**127}"]}, {"expected": ["2**127"], "got": f"{2**127}"}),
        ("ds", "ds", {"delete": [3]}, {"split": "train", "mentions": ["ds:1.0.0:train"]}),
        ("ds", (), {"delete": [1]}, {"split": "test", "mentions": ["keys to delete"]}),
        ("ds", (), {"delete": "12"}, {"mentions": ["delete", "str", "'12'"]}),
        ("ds", None, {}, {"mentions": ["new", "NoneType"]}),
        ("ds", (), {"delete": b"12"}, {"mentions": ["delete", "bytes"]}),
        ("salted", "salted", {}, {**one_rule, "split": "train", "got": ["'train', shuffled by 'x'"]}),
        ("ds", "more", {"ignore_duplicates": True}, {"mentions": ["'ignore_duplicates'", "'on_duplicate'"]}),
        ("ds", More(), {"max_examples_per_split": 5}, {"mentions": ["'max_examples_per_split'"]}),
        ("ds", More(), {"on_duplicate": "keep"}, {"mentions": ["on_duplicate", "error, keep_old", "'keep'"]}),
        ("ds", More(), {"version": "1.1.0"}, {"expected": ["2.0.0"], "got": "1.1.0"}),
        ("ds", More(), {"num_shards": 0}, {"mentions": ["num_shards is 0", "at least 1"]}),
        ("ds", More(), {"delete": "12"}, {"mentions": ["delete", "'12'"]}),
        ("ds", More, {}, {"mentions": ["new:", "a builder", "type: <class", "More"]}),
        (More(), "more", {}, {"mentions": ["source:", "<", "More object"]}),
        *(
            ("ds", "more", {name: "no"}, {"mentions": [name, "'no'"]})
            for name in ("new_splits", "share_shards", "union_features", "take_changed", "compare_checksums")
        ),
    ]:
        with raises_with((BeamDatasetsError, TypeError, ValueError), **wanted):
            bd.append(source, new, data_dir=tmp_path, **options)
    bd.append("ds", "more", data_dir=tmp_path)
    with raises_with(AlreadyPublishedError, got="ds:2.0.0", advice=["run this again", "highest version"]):
        bd.append("ds:1.0.0", More(), data_dir=tmp_path)
    with pytest.raises(AlreadyPublishedError):
        planned(["more"], "ds:1.0.0", data_dir=tmp_path)
    assert sorted(path.name for path in (tmp_path / "ds").iterdir()) == ["1.0.0", "2.0.0"]


def test_a_damaged_record_is_named_and_nothing_is_published(tmp_path):
    directory = generate(tmp_path, {"train": {n: n for n in range(9)}})
    generate(tmp_path, {"train": {n: n for n in range(9, 20)}}, name="more")
    shard = directory / "ds-train.tfrecord-00000-of-00001"
    flip(shard, -6)
    with raises_with(CorruptRecordError, path=str(shard), record=8):
        bd.append("ds", "more", data_dir=tmp_path)
    assert [path.name for path in (tmp_path / "ds").iterdir()] == ["1.0.0"]


@pytest.mark.parametrize("key", [9, 8], ids=["same keys", "another key"])
def test_a_source_that_is_built_again_after_the_plan_is_named_and_nothing_is_published(tmp_path, key):
    generate(tmp_path, {"train": {n: n for n in range(9)}})
    more = generate(tmp_path, {"train": {9: 9}}, name="more")
    plan = planned(["more"], data_dir=tmp_path, on_duplicate="keep_old")
    job = plan_job("ds", split="train=train+more:train", to="copy", data_dir=tmp_path, reshuffle="x")
    shutil.rmtree(more)
    generate(tmp_path, {"train": {key: 2}}, name="more")
    wanted = {"path": str(more), "expected": ["more:1.0.0"]} if key == 9 else {}
    with raises_with(BeamDatasetsError, **wanted, outcome="nothing was published", advice="Run it again."):
        run_append(plan)
    with raises_with(BeamDatasetsError, path=str(more), expected=["more:1.0.0"], advice="Run it again."):
        run_in_process(job, EngineOptions())
    assert [path.name for path in (tmp_path / "ds").iterdir()] == ["1.0.0"]
    assert not (tmp_path / "copy").exists()


def test_few_shards_of_many_sources_are_open_at_once(tmp_path, monkeypatch):
    alive, most = weakref.WeakSet(), []

    class Counted(records.Shard):
        def __init__(self, *args):
            super().__init__(*args)
            alive.add(self)
            most.append(len(alive))

    monkeypatch.setattr(records, "Shard", Counted)
    monkeypatch.setattr(merging, "MAX_OPEN_SHARDS", 3)
    monkeypatch.setattr("beam_datasets.execute.tasks.num_threads", lambda: 1)
    examples = [{n: n for n in range(i * 9, i * 9 + 9)} for i in range(10)]
    made = [generate(tmp_path, {"train": some}, name=f"d{i}", num_shards=3) for i, some in enumerate(examples)]
    directory = bd.append(made[0], made[1:])
    assert max(most) <= 3 + 3 + 1
    whole = {n: n for some in examples for n in some}
    assert {e["n"] for e in bd.builder_from_directory(directory).as_dataset("train")} == set(whole)


def test_in_an_object_store(tmp_path):
    root = f"memory://{uuid.uuid4().hex}/data"
    generate(root, {"train": {n: n for n in range(50)}}, num_shards=3)
    generate(root, {"train": {n: n % 9 for n in range(40, 70)}}, name="more", num_shards=2)
    directory = bd.append("ds", "more", data_dir=root, num_shards=4, on_duplicate="replace", delete=[3])
    expected = {n: n if n < 40 else n % 9 for n in range(70) if n != 3}
    whole, _, splits = content(generate(tmp_path, {"train": expected}, num_shards=4))
    assert {name: bytes(storage.read_bytes(f"{directory}/{name}")) for name in whole} == whole
    assert bd.builder_from_directory(directory).manifest.splits["train"].num_examples == splits["train"]["num_examples"]


@given(st.data(), numbers, numbers, st.sets(keys, max_size=3), st.integers(1, 400))
@cases(20)
def test_shared_shards_are_the_published_files_and_all_examples_are_there(data, old, new, delete, min_shard_size):
    expected = {key: n for key, n in {**old, **new}.items() if key not in delete}
    with tempfile.TemporaryDirectory() as root, ranges_of(*data.draw(ranges)):
        parent = generate(root, {"train": old}, num_shards=shards(data.draw, old), ordered=True)
        generate(root, {"train": new}, name="more", num_shards=shards(data.draw, new), ordered=True)
        before = {path.stat().st_ino: path.read_bytes() for path in parent.glob("*tfrecord*")}
        if not expected or expected == old:
            return
        options = {"on_duplicate": "replace", "delete": delete, "min_shard_size": min_shard_size}
        made = Path(bd.append("ds", "more", data_dir=root, share_shards=True, **options))
        shared = [path for path in made.glob("*tfrecord*") if path.stat().st_ino in before]
        assert all(path.read_bytes() == before[path.stat().st_ino] for path in shared)
        # a published shard, except a small last one, is shared exactly if no key in its range is changed
        changed = {key for key in old.keys() | expected.keys() if old.get(key) != expected.get(key)}
        in_shards, at = [], 0
        for length in bd.builder_from_directory(parent).info.splits["train"].shard_lengths:
            in_shards.append(sorted(old)[at : at + length])
            at += length
        firsts = [some[0] for some in in_shards[1:]] + [in_shards[-1][-1] + 1]
        alike = [not any(some[0] <= key < end for key in changed) for some, end in zip(in_shards, firsts)]
        assert len(shared) // 2 in (sum(alike), sum(alike) - 1)
        shutil.rmtree(parent)
        dataset = bd.builder_from_directory(made).as_dataset("train")
        in_order = bd.load("ds", split="train", data_dir=root, read_config=bd.ReadConfig(interleave_cycle_length=1))
        assert [example["n"] for example in in_order] == [expected[key] for key in sorted(expected)]
        assert all(dataset.find(key) is not None for key in expected)
        assert bd.verify(made).whole


def test_shards_that_are_symbolic_links_are_shared_as_files(tmp_path):
    """As those in the cache of a tool that keeps versions of data."""
    parent = generate(tmp_path, {"train": {n: n for n in range(50)}}, num_shards=3, ordered=True)
    more = generate(tmp_path, {"train": {n: n for n in range(50, 60)}}, name="more", ordered=True)
    cache = tmp_path / "cache"
    cache.mkdir()
    for path in parent.glob("*tfrecord*"):
        path.rename(cache / path.name)
        path.symlink_to(os.path.relpath(cache / path.name, parent))
    made = Path(bd.append("ds", more, data_dir=tmp_path, share_shards=True, min_shard_size=1))
    assert not any(path.is_symlink() for path in made.iterdir())
    assert sum(path.stat().st_nlink == 2 for path in made.glob("*.tfrecord-?????-of-?????")) == 3
    shutil.rmtree(cache)
    assert bd.verify(made).whole


def test_of_shuffled_splits_those_without_changes_are_shared(tmp_path):
    days = {f"day_{i}": {n: n for n in range(i, i + 30)} for i in range(3)}
    for root in (str(tmp_path), f"memory://{uuid.uuid4().hex}/data"):
        generate(root, days, num_shards=2)
        generate(root, {"day_2": {77: 77}, "day_3": {1: 1}}, name="more")
        plan = planned(["more"], data_dir=root, share_shards=True, new_splits=True)
        assert [(split.split, len(split.shared)) for split in plan.splits] == [
            ("day_0", 2), ("day_1", 2), ("day_2", 0), ("day_3", 0)
        ]  # fmt: skip
        made = run_append(plan)
        storage.remove_tree(f"{root}/ds/1.0.0")
        assert bd.verify(made).whole
        union = days | {"day_2": days["day_2"] | {77: 77}, "day_3": {1: 1}}
        whole = content(
            generate(tmp_path / ("store" if "://" in root else "disk"), union, num_shards={"day_0": 2, "day_1": 2})
        )[0]
        assert {name: bytes(storage.read_bytes(f"{made}/{name}")) for name in whole} == whole
    with pytest.raises(ValueError, match="share_shards .*num_shards"):
        bd.append("ds", "more", data_dir=tmp_path, share_shards=True, num_shards=2)


@pytest.mark.slow
def test_no_example_moves_to_another_split_in_100_published_appends(tmp_path):
    split_of = bd.SplitByHash({"train": 0.7, "validation": 0.1, "test": 0.2})
    seen = {}
    for day in range(101):
        made = {split: {} for split in split_of.names}
        for key in range(day * 20, day * 20 + 30):  # ten of each day come again the next day
            made[split_of(f"user {key % 333}")][key] = key
        splits = {split: examples for split, examples in made.items() if examples}
        generate(tmp_path, splits, name="more" if day else "ds", version=f"{day + 1}.0.0")
        if day:
            bd.append("ds", f"more:{day + 1}.0.0", data_dir=tmp_path, on_duplicate="skip_identical")
        builder = bd.builder("ds:latest", data_dir=tmp_path)
        assert builder.version == f"{day + 1}.0.0"
        if day % 10 == 0:
            found = {row["n"]: split for split in split_of.names for row in builder.as_dataset(split)}
            assert found.items() >= seen.items()
            assert len(found) == sum(split.num_examples for split in builder.info.splits.values()) == day * 20 + 30
            seen = found
