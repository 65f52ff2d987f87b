"""Objects, and lists of objects, that are missing in files that are appended, compared with the rows."""

import json

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets.errors import InputError
from beam_datasets.files.jsonl import Jsonl
from tests.files.days import rows_of

FULL = {"place": {"zip": "1", "at": {"x": 2, "tags": ["a"]}}, "items": [{"sku": "a", "n": 1}]}
NO_PLACE, NO_ITEMS = {**FULL, "place": None}, {**FULL, "items": None}
EMPTY = {"place": {"zip": None, "at": {"x": None, "tags": []}}, "items": []}


def plain(value):
    """Returns a decoded value as JSON has it."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, np.ndarray)):
        return [plain(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value if value is None else value.item()


def expected(row):
    """Returns the decoded example of a row."""
    return {name: EMPTY[name] if row.get(name) is None else row[name] for name in EMPTY}


def nights(root, first, others, **options):
    """Builds the first rows, and appends each of the others by one constant command; compares all of them."""
    (root / "in").mkdir()
    rows = {}

    def write(number, file_rows):
        content = {f"{number}-{n}": row for n, row in enumerate(file_rows)}
        rows.update(content)
        text = "".join(json.dumps({"id": key, **row}) + "\n" for key, row in content.items())
        (root / "in" / f"{number}.jsonl").write_text(text)
        return Jsonl(name="ds", pattern=f"{root}/in/*.jsonl", key="id", data_dir=root, **options)

    made = write(0, first).build(num_workers=1)
    for number, row in enumerate(others, 1):
        made = bd.append("ds", write(number, [row]), data_dir=root)
    read = {each.pop("id"): each for each in map(plain, rows_of(made))}
    for each in read.values():
        if each["items"] == {"sku": [], "n": []} or isinstance(each["items"], dict):
            each["items"] = [dict(zip(each["items"], item)) for item in zip(*each["items"].values())]
    assert read == {key: expected(row) for key, row in rows.items()}


@pytest.mark.slow
@pytest.mark.parametrize("present", [True, False])
def test_an_object_that_may_be_missing_may_be_missing_in_all_rows_of_a_file(tmp_path, present):
    """The build accepted null; a file with null in each row was refused with advice that failed."""
    other = NO_PLACE if present else {"items": FULL["items"]}
    nights(tmp_path, [FULL, NO_PLACE, FULL], [other, FULL, other])


@pytest.mark.slow
@pytest.mark.parametrize("other", [NO_ITEMS, {"place": FULL["place"]}, {}])
def test_a_list_of_objects_that_is_declared_to_be_missing_may_be_so_on_each_night(tmp_path, other):
    """The option is recorded, and may be given again, also if no row of a file has the column."""
    nights(tmp_path, [FULL, NO_PLACE], [other, FULL, other], features={"items": "?"})


@pytest.mark.slow
def test_an_option_of_the_build_is_recorded(tmp_path):
    (tmp_path / "in").mkdir()
    for number, row in enumerate([FULL, {"place": FULL["place"]}, NO_ITEMS]):
        (tmp_path / f"in/{number}.jsonl").write_text(json.dumps({"id": number, **row}) + "\n")
        options = {"features": {"items": "?"}} if number == 0 else {}
        builder = Jsonl(name="ds", pattern=f"{tmp_path}/in/*.jsonl", key="id", data_dir=tmp_path, **options)
        made = bd.append("ds", builder, data_dir=tmp_path) if number else builder.build(num_workers=1)
    assert len(rows_of(made)) == 3


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"union_features": True}, {}])
def test_an_object_that_each_published_row_has(tmp_path, options):
    """The advice of the error is followed."""
    (tmp_path / "in").mkdir()
    for number, row in enumerate([FULL, NO_PLACE]):
        (tmp_path / f"in/{number}.jsonl").write_text(json.dumps({"id": number, **row}) + "\n")
        builder = Jsonl(name="ds", pattern=f"{tmp_path}/in/*.jsonl", key="id", data_dir=tmp_path)
        if number == 0:
            builder.build(num_workers=1)
        elif options:
            assert len(rows_of(bd.append("ds", builder, data_dir=tmp_path, **options))) == 2
        else:
            with pytest.raises(InputError, match="published version has one in each row; --union_features") as error:
                bd.append("ds", builder, data_dir=tmp_path)
            assert "{" not in str(error.value)
