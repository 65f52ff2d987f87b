"""Appending of files to versions that lack rows or columns of their files, compared with lists of the rows."""

import json
import warnings
from pathlib import Path

import pytest

import beam_datasets as bd
from beam_datasets.errors import DuplicateKeyError, InputError, NoExamplesError
from beam_datasets.files.jsonl import Jsonl
from beam_datasets.files.split_assignment import SplitBy
from tests.files.days import rows_of

GROUPS = {"split_by": SplitBy(group="user"), "splits": {"train": "60%", "test": "40%"}}
SHARES = {"splits": {"train": "60%", "test": "40%"}}
COUNT = 40


def day(number):
    """Returns the rows of a day; each user has rows on all days."""
    return [{"id": f"{number}-{n}", "user": f"u{n % 20}", "n": n, "note": "x"} for n in range(COUNT)]


def write_day(root, number, rows=None):
    """Writes the file of a day."""
    (root / "in").mkdir(exist_ok=True)
    lines = [json.dumps(row) + "\n" for row in (day(number) if rows is None else rows)]
    (root / "in" / f"{number}.jsonl").write_text("".join(lines))


def files(root, **options):
    """Returns the builder of the nightly command."""
    return Jsonl(name="ds", pattern=f"{root}/in/*.jsonl", data_dir=root, **options)


def append(root, builder=None, **options):
    """Appends the files as the nightly command does; returns the directory of the published version."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bd.append("ds", files(root) if builder is None else builder, data_dir=root, **options)


def contents(directory):
    """Returns {split: its rows, sorted by their keys, with texts for bytes}."""
    text = lambda value: value.decode() if isinstance(value, bytes) else int(value)  # noqa: E731
    return {
        split: sorted(
            ({name: text(value) for name, value in row.items()} for row in rows_of(directory, split)),
            key=lambda row: row["id"],
        )
        for split in bd.builder_from_directory(directory).info.splits
    }


def is_low(example):
    """A filter."""
    return example["n"] < 30


SELECTIONS = {
    "where": ({"where": "user <> 'u7'"}, lambda row: row["user"] != "u7"),
    "filter": ({"filter": is_low}, lambda row: row["n"] < 30),
    "features": ({"features": ["id", "user", "n"]}, lambda row: True),
    "both": ({"features": ["id", "n"], "where": "user <> 'u7'"}, lambda row: row["user"] != "u7"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("selection", "options"), [*((each, GROUPS) for each in SELECTIONS), ("where", SHARES), ("both", {})]
)
def test_the_unchanged_nightly_command_adds_the_new_rows_only(tmp_path, selection, options):
    """It repeated all rows in `train` and brought back those of the condition, as the record of the files was lost."""
    arguments, keeps = SELECTIONS[selection]
    write_day(tmp_path, 1)
    files(tmp_path, key="id", **options).build(num_workers=1)
    bd.materialize("ds", to="ds:2.0.0", data_dir=tmp_path, **arguments)
    for number in (2, 3):
        write_day(tmp_path, number)
        made = append(tmp_path)
        assert append(tmp_path) == made  # nothing is new
    names = arguments.get("features", ["id", "user", "n", "note"])
    rows = [row for row in day(1) if keeps(row)] + day(2) + day(3)
    whole = Jsonl(name="whole", pattern=f"{tmp_path}/in/*.jsonl", data_dir=tmp_path, key="id", **options)
    split_of = {row["id"]: split for split, built in contents(whole.build(num_workers=1)).items() for row in built}
    expected = {
        split: sorted(
            ({name: row[name] for name in names} for row in rows if split_of[row["id"]] == split),
            key=lambda row: row["id"],
        )
        for split in contents(made)
    }
    assert contents(made) == expected
    assert sum(map(len, expected.values())) == len(rows)


@pytest.mark.slow
def test_a_slice_does_not_read_its_files_again(tmp_path):
    write_day(tmp_path, 1)
    files(tmp_path, key="id", **GROUPS).build(num_workers=1)
    made = bd.materialize(
        "ds", to="ds:2.0.0", split={"train": "train[:50%]", "test": "test"}, data_dir=tmp_path, where="n < 35"
    )
    kept = contents(made)
    write_day(tmp_path, 2)
    appended = contents(append(tmp_path))
    for split in ("train", "test"):
        assert [row for row in appended[split] if row["id"].startswith("1-")] == kept[split]
    assert sorted(row["id"] for rows in appended.values() for row in rows if row["id"].startswith("2-")) == sorted(
        row["id"] for row in day(2)
    )


@pytest.mark.parametrize("options", [SHARES, GROUPS], ids=["shares", "groups"])
def test_a_selected_split_gets_no_rows_of_the_others(tmp_path, options):
    """Each append ended in an error about the split that was not selected."""
    write_day(tmp_path, 1)
    files(tmp_path, key="id", **options).build(num_workers=1)
    bd.materialize("ds", to="ds:2.0.0", split="train", data_dir=tmp_path)
    write_day(tmp_path, 2)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        made = bd.append("ds", files(tmp_path, key="id"), data_dir=tmp_path)
    assert append(tmp_path) == made  # the file is known, though not all of its rows were taken
    whole = Jsonl(name="whole", pattern=f"{tmp_path}/in/*.jsonl", data_dir=tmp_path, key="id", **options)
    expected = contents(whole.build(num_workers=1))
    assert contents(made) == {"train": expected["train"]}
    num_left_out = sum(row["id"].startswith("2-") for row in expected["test"])
    note = f"left out: {num_left_out} new examples of the split test, which --split of materialize did not select."
    assert any(str(each.message).startswith(note) for each in notes)


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["of both splits", "of the other split"])
def test_rows_of_a_split_that_was_not_selected_can_be_added_later(tmp_path, rows):
    """The advice of the note is followed; it named an option that adds no rows of a file that is known."""
    write_day(tmp_path, 1)
    files(tmp_path, key="id", **SHARES).build(num_workers=1)
    published = bd.materialize("ds", to="ds:2.0.0", split="train", data_dir=tmp_path)
    write_day(tmp_path, 2)
    new = Jsonl(name="new", pattern=f"{tmp_path}/in/2.jsonl", data_dir=tmp_path, key="id", **SHARES)
    expected = contents(new.build(num_workers=1))
    if rows == "of the other split":
        write_day(tmp_path, 2, expected["test"])
        expected["train"] = []
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        made = bd.append("ds", files(tmp_path), data_dir=tmp_path)
    note = str(notes[-1].message)
    assert note.startswith(f"left out: {len(expected['test'])} new examples of the split test, ")
    assert "If nothing was published, --new_splits (new_splits=True) adds them; otherwise, build" in note
    assert note.endswith("--from DIRECTORY --split test --new_splits")
    if made == published:
        made = append(tmp_path, new_splits=True)
    else:
        made = append(tmp_path, "new", split="test", new_splits=True)
    assert contents(made)["test"] == expected["test"]
    write_day(tmp_path, 3)
    later = contents(append(tmp_path))
    expected["train"] = sorted(contents(published)["train"] + expected["train"], key=lambda row: row["id"])
    assert {name: [row for row in rows if row["id"] < "3"] for name, rows in later.items()} == expected
    assert sum(map(len, later.values())) == sum(map(len, expected.values())) + COUNT


@pytest.mark.slow
def test_new_splits_add_the_rows_of_a_split_that_was_not_selected(tmp_path):
    write_day(tmp_path, 1)
    files(tmp_path, key="id", **SHARES).build(num_workers=1)
    bd.materialize("ds", to="ds:2.0.0", split="train", data_dir=tmp_path)
    write_day(tmp_path, 2)
    whole = Jsonl(name="whole", pattern=f"{tmp_path}/in/*.jsonl", data_dir=tmp_path, key="id", **SHARES)
    expected = contents(whole.build(num_workers=1))
    expected["test"] = [row for row in expected["test"] if row["id"].startswith("2-")]
    assert contents(append(tmp_path, new_splits=True)) == expected


def test_a_split_that_the_source_does_not_have_is_an_error(tmp_path):
    """Its rows were left out, as if `--split` had not selected it."""
    write_day(tmp_path, 1, [{"id": "1-0", "part": "train"}, {"id": "1-1", "part": "test"}])
    options = {"key": "id", "split_by": SplitBy(column="part")}
    files(tmp_path, **options).build(num_workers=1)
    bd.materialize("ds", to="ds:2.0.0", split="train", data_dir=tmp_path)
    for number, other in [(2, "test"), (3, "extra")]:
        write_day(tmp_path, number, [{"id": f"{number}-0", "part": "train"}, {"id": f"{number}-1", "part": other}])
        if other == "test":
            assert [row["id"] for row in contents(append(tmp_path))["train"]] == ["1-0", "2-0"]
    with pytest.raises(bd.errors.BeamDatasetsError, match="got 'extra'"):
        append(tmp_path)


@pytest.mark.slow
def test_rows_that_a_condition_left_out_do_not_come_back_with_changed_files(tmp_path):
    """The advice of the error is followed."""
    write_day(tmp_path, 1)
    files(tmp_path, key="id", **GROUPS).build(num_workers=1)
    bd.materialize("ds", to="ds:2.0.0", where="user <> 'u7'", data_dir=tmp_path)
    write_day(tmp_path, 2)
    append(tmp_path, take_changed=True)  # no file has changed
    changed = [{**row, "note": "corrected"} for row in day(1)]
    write_day(tmp_path, 1, changed)
    with pytest.raises(InputError, match=r"rows that --where \"user <> 'u7'\" did not select could come back"):
        append(tmp_path, take_changed=True, on_duplicate="replace")
    other = Jsonl(name="ds", pattern=f"{tmp_path}/in/1.jsonl", data_dir=tmp_path / "other", key="id", **GROUPS)
    other.build(num_workers=1)
    selected = bd.materialize("ds", to="ds:2.0.0", where="user <> 'u7'", data_dir=tmp_path / "other")
    made = append(tmp_path, selected, on_duplicate="replace")
    rows = [row for row in changed if row["user"] != "u7"] + day(2)
    assert sorted((row["id"], row["note"]) for built in contents(made).values() for row in built) == sorted(
        (row["id"], row["note"]) for row in rows
    )
    assert append(tmp_path, take_changed=True, on_duplicate="replace") == made  # the file is known as it is now


@pytest.mark.slow
def test_deleted_rows_do_not_come_back_with_changed_files(tmp_path):
    write_day(tmp_path, 1)
    files(tmp_path, key="id", **GROUPS).build(num_workers=1)
    append(tmp_path, (), delete=["1-3"])
    write_day(tmp_path, 2)
    append(tmp_path)
    write_day(tmp_path, 1, [{**row, "note": "corrected"} for row in day(1)])
    with pytest.raises(InputError, match=r"rows of 3\.0\.0 were removed by --delete, .* expected --delete FILE"):
        append(tmp_path, take_changed=True, on_duplicate="replace")
    made = append(tmp_path, take_changed=True, on_duplicate="replace", delete=["1-3"])
    ids = sorted(row["id"] for built in contents(made).values() for row in built)
    assert ids == sorted(row["id"] for row in day(1) + day(2) if row["id"] != "1-3")


@pytest.mark.parametrize(
    ("selection", "options"),
    [
        ("where", "--where 'n > 1'"),
        pytest.param("slice", r"--split 'train=train\[:5\]'", marks=pytest.mark.slow),
        pytest.param("delete", "removed by --delete", marks=pytest.mark.slow),
    ],
)
def test_rows_that_a_source_of_several_lacks_do_not_come_back(tmp_path, selection, options):
    """The condition of the source was forgotten, as were its files."""
    write_day(tmp_path, 1)
    files(tmp_path, key="id").build()
    if selection == "delete":
        append(tmp_path, (), delete=["1-0"])
    elif selection == "where":
        bd.materialize("ds", to="ds:2.0.0", data_dir=tmp_path, where="n > 1")
    other = Jsonl(name="other", pattern=f"{tmp_path}/other/in/2.jsonl", data_dir=tmp_path, key="id")
    (tmp_path / "other").mkdir()
    write_day(tmp_path / "other", 2)
    other.build()
    split = {"train": "train[:5]" if selection == "slice" else "train", "test": "other:train"}
    made = bd.materialize("ds", to="ds:3.0.0", data_dir=tmp_path, split=split)
    kept = contents(made)["train"]

    def check_refused():
        nightly = Jsonl(name="ds", splits={"train": f"{tmp_path}/in/*.jsonl"}, key="id", data_dir=tmp_path)
        with pytest.raises(InputError, match=f"{options}.* could come back because .* does not record its files"):
            append(tmp_path, nightly, on_duplicate="keep_old")

    check_refused()
    write_day(tmp_path, 3)
    new = Jsonl(name="new", pattern=f"{tmp_path}/in/3.jsonl", data_dir=tmp_path, key="id")
    made = append(tmp_path, new.build())  # as the error says
    assert [row for row in contents(made)["train"] if row["id"] < "3"] == kept
    check_refused()


@pytest.mark.parametrize(
    ("deletions", "other"),
    [
        ([["2-0"]], ["1-0"]),  # a row of a new file, left out when it is appended
        pytest.param([["1-0"], ["2-0"]], ["1-0"], marks=pytest.mark.slow),
        pytest.param([["1-0", "2-0"]], ["2-0", "3-0"], marks=pytest.mark.slow),
    ],
)
def test_all_deleted_keys_are_needed_to_take_changed_files(tmp_path, deletions, other):
    """Those of new files were not recorded, and any other key was enough."""
    write_day(tmp_path, 1)
    files(tmp_path, key="id").build()
    write_day(tmp_path, 2)
    for keys in deletions:
        append(tmp_path, delete=keys)
    for number in (1, 2):
        write_day(tmp_path, number, [{**row, "note": "corrected"} for row in day(number)])
    for keys, got in [((), "got none"), (other, "which lack 1 of them")]:
        with pytest.raises(InputError, match=rf"were removed by --delete, .*{got}"):
            append(tmp_path, take_changed=True, on_duplicate="replace", delete=keys)
    deleted = {key for keys in deletions for key in keys}
    made = append(tmp_path, take_changed=True, on_duplicate="replace", delete=deleted)
    rows = sorted((row["id"], row["note"]) for row in contents(made)["train"])
    assert rows == sorted((row["id"], "corrected") for row in day(1) + day(2) if row["id"] not in deleted)


@pytest.mark.slow
def test_integers_and_their_digits_are_the_same_deleted_keys(tmp_path):
    write_day(tmp_path, 1, [{"id": number, "note": "x"} for number in range(4)])
    files(tmp_path, key="id").build()
    append(tmp_path, (), delete=["2"])
    write_day(tmp_path, 1, [{"id": number, "note": "corrected"} for number in range(4)])
    made = append(tmp_path, take_changed=True, on_duplicate="replace", delete=[2])
    assert [row["id"] for row in contents(made)["train"]] == [0, 1, 3]


def test_the_splits_of_halves_are_not_those_of_the_source(tmp_path):
    write_day(tmp_path, 1)
    files(tmp_path, key="id").build(num_workers=1)
    halves = {"train": "train[:10]", "test": "train[10:]"}
    bd.materialize("ds", to="ds:2.0.0", split=halves, data_dir=tmp_path)
    write_day(tmp_path, 2)
    with pytest.raises(InputError, match="expected the options that assign new rows to the splits train, test"):
        append(tmp_path)


@pytest.mark.slow
def test_splits_that_are_not_recorded_must_be_given(tmp_path):
    """All rows were added to `train`, and those of `test` again."""
    write_day(tmp_path, 1)
    made = files(tmp_path, key="id", **GROUPS).build(num_workers=1)
    Path(made, "inputs.json").unlink()
    (tmp_path / "in/1.jsonl").rename(tmp_path / "1.jsonl")
    for number in (2, 3):
        write_day(tmp_path, number)
        with pytest.raises(InputError, match="expected the options that assign new rows to the splits train, test"):
            append(tmp_path, files(tmp_path, key="id"))
        made = append(tmp_path, files(tmp_path, key="id", **GROUPS))
    ids = sorted(row["id"] for rows in contents(made).values() for row in rows)
    assert ids == sorted(row["id"] for number in (1, 2, 3) for row in day(number))
    users = [{row["user"] for row in rows} for rows in contents(made).values()]
    assert not users[0] & users[1]
    (tmp_path / "1.jsonl").rename(tmp_path / "in/1.jsonl")
    with pytest.raises(DuplicateKeyError, match="in split"):  # shares put keys into the other split
        append(tmp_path, files(tmp_path, key="id", **SHARES))
    test_files = {"splits": {"test": f"{tmp_path}/in/4.jsonl"}}
    write_day(tmp_path, 4)
    assert len(contents(append(tmp_path, Jsonl(name="ds", key="id", **test_files)))["test"]) > COUNT


def test_rows_that_cannot_be_used_are_counted_once(tmp_path):
    """They were counted once for each split, and once more."""
    write_day(tmp_path, 1)
    files(tmp_path, key="id", split_by=SplitBy(group="user"), splits={"train": "60%", "a": "20%", "b": "20%"}).build()
    write_day(tmp_path, 2, [{**row, "n": f"x{row['n']}"} for row in day(2)])
    with pytest.raises(NoExamplesError, match=rf"left out: {COUNT}\n"):
        append(tmp_path, files(tmp_path, skip_bad=True))
