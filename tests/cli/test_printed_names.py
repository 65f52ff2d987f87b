"""What commands print of nested names, bools and appended files, from files to the published version."""

import json
import os
import shutil

import pytest

import beam_datasets as bd
from beam_datasets.cli.main import main

CSV = ["--from", "csv", "--pattern", "*.csv"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A directory with files of nested rows and of CSV rows, and a dataset of each in `data`; tests copy it."""
    folder = tmp_path_factory.mktemp("built")
    rows = [{"id": i, "paid": i % 2 == 0, "product": {"title": f"p{i}", "used": i < 2}} for i in range(4)]
    (folder / "orders.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "rows.csv").write_text("id,code,ok\n1,a,true\n2,b,false\n3,c,true\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for kind, name, pattern in (("jsonl", "orders", "orders.jsonl"), ("csv", "rows", "*.csv")):
            args = ["build", kind, "--name", name, "--pattern", pattern, "--key", "id", "--data_dir", "data"]
            assert main([*args, "--num_workers", "1", "--quiet"]) == 0
    return folder


@pytest.fixture
def orders(built, tmp_path, monkeypatch):
    """The current directory: a copy of `built`, whose `data` is the root of the datasets."""
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BEAM_DATASETS_DATA_DIR", "data")
    return tmp_path


def test_nested_names_have_dots(orders, run):
    _, out, _ = run("head", "orders", "-n", "1")
    assert "\n  product.title: 'p" in out
    assert "\n  product.used: " in out
    ds = bd.load("orders", split="train")
    assert "product.title=" in repr(bd.show_examples(ds))
    assert "product.title" in ds.batch(2)._repr_html_()
    for form in (out, repr(bd.show_examples(ds)), ds.batch(2)._repr_html_()):
        assert "product/title" not in form
    rows = [{"id": i, "paid": True, "product": {"title": f"q{i}", "used": i < 2, "new": 1}} for i in range(4)]
    (orders / "orders.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    args = ["--name", "orders", "--pattern", "orders.jsonl", "--key", "id", "--version", "2.0.0", "--num_workers", "1"]
    assert run("build", "jsonl", *args)[0] == 0
    _, out, _ = run("diff", "orders:1.0.0", "orders:2.0.0")
    assert "\n  + product.new: " in out
    assert "    - product.title: 'p" in out
    assert "product/" not in out


@pytest.mark.parametrize("name", ["product.title", "product/title"])
def test_features_that_are_kept_have_dots(orders, run, name):
    args = ["materialize", "orders", "--to", "titles", "--features", name, "--num_workers", "1"]
    assert "\nfeatures: product.title\n" in run(*args)[1]
    for command in (["info", "titles"], ["list", "--versions"]):
        out = run(*command)[1]
        assert "features: product.title" in out
        assert "product/" not in out


@pytest.mark.slow
def test_bools_are_shown_as_bools(orders, run):
    _, out, _ = run("stats", "orders")
    assert "\npaid          False 50.0%, True 50.0%\n" in out
    assert "2 zero" not in out
    assert run("stats", "orders", "--html", "page.html")[0] == 0
    page = (orders / "page.html").read_text()
    assert ">False<" in page
    assert ">True<" in page
    (orders / "more.csv").write_text("id,code,ok\n1,x,false\n")
    code, _, err = run("append", "rows", *CSV)
    assert code == 1
    for ok, letter in ((True, "a"), (False, "x")):
        line = next(line for line in err.splitlines() if f"code: {letter!r}" in line)
        assert f"ok: {ok}" in line
    (orders / "twice.jsonl").write_text('{"id": 1, "a": {"b": true}}\n{"id": 1, "a": {"b": false}}\n')
    code, _, err = run("build", "jsonl", "--name", "twice", "--pattern", "twice.jsonl", "--key", "id")
    assert code == 1
    assert "a.b: True" in err
    assert "a.b: False" in err


def test_published_columns_are_not_said_to_become_text(orders, run, caplog):
    (orders / "more.csv").write_text("id,code,ok\n" + "".join(f"{i},{i},true\n" for i in range(10, 17)) + "20,x,true\n")
    code, out, _ = run("append", "rows", *CSV)
    assert (code, "Published in" in out) == (0, True)
    assert "'code'" not in caplog.text
    code, _, err = run("build", "csv", "--name", "others", "--pattern", "more.csv", "--num_workers", "1")
    assert (code, "--feature code=string" in err) == (1, True)


def test_split_is_checked_if_nothing_is_new(orders, run):
    code, _, err = run("append", "rows", *CSV, "--split", "nonsense")
    assert (code, "expected a split of rows:1.0.0 (train), got 'nonsense'" in err) == (1, True)
    for value in ("train=80%", "train=data/*.csv", "50%"):
        code, _, err = run("append", "rows", *CSV, "--split", value)
        assert (code, f"are given by --splits here: --splits {value}" in err) == (2, True)
    code, out, _ = run("append", "rows", *CSV, "--split", "train=train[:80%]")
    assert (code, "Nothing changes" in out) == (0, True)


def test_nothing_is_said_to_be_published_of_files_that_were_not_taken(orders, run):
    _, out, _ = run("append", "rows", *CSV)
    assert out.endswith("1.0.0 has all of it. Nothing was published.\n")
    _, out, _ = run("append", "rows", *CSV, "--dry_run")
    assert out.endswith("1.0.0 has all of it. Nothing was published. What builds the new examples was run: csv.\n")
    (orders / "rows.csv").write_text("id,code,ok\n1,a,true\n2,b,false\n3,c,true\n4,d,true\n")
    os.utime(orders / "rows.csv", (1, 1))
    code, out, _ = run("append", "rows", *CSV)
    assert code == 0  # also if other files are new, which are published
    assert "has all of it" not in out
    assert "no file is new, and those that have changed were not taken. Nothing was published." in out


def test_what_errors_propose_works(orders, run):
    (orders / "day_1.csv").write_text("id,n\n" + "".join(f"{i},{i}\n" for i in range(40)))
    shares = ["--split", "train=80%", "--split", "test=20%"]
    args = ["--pattern", "day_1.csv", "--key", "id", "--data_dir", "data", "--num_workers", "1"]
    assert run("build", "csv", "--name", "days", *args, *shares)[0] == 0
    (orders / "day_2.csv").write_text("id,n\n90,1\n91,2\n")
    day_2 = ["append", "days", "--data_dir", "data", "--from", "csv", "--pattern", "day_2.csv"]
    _, _, err = run("append", "days")
    assert "Type `beam-datasets append NAME --from csv --pattern NEW.csv --data_dir DIR`" in err
    _, _, err = run(*day_2, *shares)
    assert "--splits train=80%" in err
    assert run(*day_2, "--splits", "train=80%", "--splits", "test=20%")[0] == 0
    _, _, err = run("append", "days", "--data_dir", "data", "--delete", "id=3")
    assert "--delete keys.txt" in err
    (orders / "keys.txt").write_text("3\n")
    assert run("append", "days", "--data_dir", "data", "--delete", "keys.txt")[0] == 0
    _, _, err = run("stats", "days", "n")
    assert "Did you mean '--features n'?" in err
    assert run("stats", "days", "--features", "n")[0] == 0
    _, _, err = run("verify", "days", "--num_workers", "2")
    assert "--jobs N reads N shards at once" in err
    assert run("verify", "days", "--jobs", "2")[0] == 0
