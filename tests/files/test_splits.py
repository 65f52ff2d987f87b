"""Rows to splits: every row in exactly one, by its key alone."""

import pytest

from beam_datasets.files.splits import Share, shares


def test_every_key_in_one_split():
    found = shares({"train": "70%", "val": "12.5%", "test": "17.5%"}, "*.csv")
    counts = dict.fromkeys(found, 0)
    for key in [*range(2000), *map("img_{}".format, range(2000)), "", "\ud800"]:
        [name] = [name for name, share in found.items() if share.has(key)]
        counts[name] += 1
    assert counts["train"] == pytest.approx(2800, rel=0.05)
    assert counts["val"] == pytest.approx(500, rel=0.15)


def test_assignment_is_a_format():
    share = shares({"train": "50%", "test": "50%"}, "x")["train"]
    assert [key for key in range(10) if share.has(key)] == [0, 2, 4, 5, 7, 8]
    assert share.has(4) == share.has("4")


def test_patterns():
    assert shares({"train": "a*", "test": "b*"}, None) == {"train": Share("a*"), "test": Share("b*")}
    assert shares({"train": ["a*", "c"], "test": "b*"}, None) == {"train": Share(("a*", "c")), "test": Share("b*")}
    assert shares(None, "a*") == {"train": Share("a*")}
    assert shares({"train": "100%"}, "a*")["train"].is_all


@pytest.mark.parametrize(
    "splits, pattern, message",
    [
        (None, None, "no input"),
        ({}, None, "no input"),
        ({"train": "80%", "test": "20%"}, None, "of which files"),
        ({"train": "80%", "test": "b*"}, None, "of which files"),
        ({"train": "80%", "test": "b*"}, "x", "'test' is 'b"),
        ({"train": ["80%", "20%"]}, "x", "patterns of files, or one percentage"),
        ({"train": ["a*", "b*"]}, "x", "'train' is .'a.', 'b.'.: with a pattern"),
        ({"train": []}, None, "patterns of files"),
        ({"train": "80%", "test": "10%"}, "x", "add up to 90, not 100"),
        ({"train": "80%", "test": "20.5%"}, "x", "add up to 100.5, not 100"),
    ],
)
def test_refused(splits, pattern, message):
    with pytest.raises(ValueError, match=message):
        shares(splits, pattern)
