"""`stats` and `export`: what they print, where they write, and what they say of mistakes."""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets.beam import main as module
from beam_datasets.extras import install_command
from beam_datasets.statistics import compute
from beam_datasets.statistics.report import json_text, saved_path
from beam_datasets.statistics.summary import prepare_request
from tests.directories import contents
from tests.exporting.conftest import dataset_of


def test_a_table(copy, run):
    code, out, err = run("stats", copy, "--split", "train", "--num_workers", 1)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "ds:1.0.0, train: 60 examples"
    assert " ".join(lines[2].split()) == "feature type values missing distinct min median mean max std"
    assert lines[3].split() == ["label", "label", "60", "0", "2"]
    assert lines[4].split() == ["n", "int64", "60", "0", "60", "0", "29", "29.5", "59", "17.32"]
    assert "label   even 50.0%, odd 50.0%" in lines
    assert lines[-1].startswith("4 features of 60 examples in ")
    assert max(map(len, lines)) <= 100


def test_saved_beside(copy, run):
    before = contents(copy)
    place = copy.parent / ".stats" / "1.0.0.json"
    assert saved_path(str(copy)) == str(place)
    for args in (["--no_save"], ["--split", "train"], ["--features", "n"]):
        assert run("stats", copy, "--num_workers", 1, *args)[0] == 0
        assert not place.exists()
    _, out, _ = run("stats", copy, "--num_workers", 1)
    assert out.endswith(f"; saved in {place}\n")
    assert place.read_text() == json_text(compute(copy))
    assert contents(copy) == before
    assert bd.verify(copy).whole
    assert [bd.builder("ds", data_dir=copy.parents[1]).dataset_dir] == [str(copy)]
    _, again, _ = run("stats", copy)
    assert again.endswith("4 features of 72 examples; saved before\n")
    assert again.splitlines()[:-1] == out.splitlines()[:-1]
    assert "saved in" in run("stats", copy, "--again", "--num_workers", 1)[1]
    place.write_text(place.read_text().replace(compute(copy).digest, "0" * 64))
    assert "saved in" in run("stats", copy, "--num_workers", 1)[1]
    place.write_text(place.read_text().replace('"distinct_exact"', '"distinct_exakt"'))
    assert "saved in" in run("stats", copy, "--num_workers", 1)[1]


def test_a_place_that_cannot_be_written(copy, run):
    (copy.parent / ".stats").write_text("a file")
    code, out, err = run("stats", copy, "--num_workers", 1)
    assert (code, "4 features of 72 examples" in out) == (0, True)
    assert err.startswith(f"not saved: {copy.parent}")
    assert "--no_save" in err


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_slices_and_features_keep_their_order(copy, run, workers):
    """Slices are in the order asked for, else in the dataset's, whatever computes them, also when read again."""
    info = bd.builder_from_directory(copy).info
    asked = ["train[:3]", "test", "all", "train"]
    for args, names in ([], list(info.splits)), ([f"--split={name}" for name in asked], asked):
        for again in ("--again", "--num_workers=1"):
            code, out, _ = run("stats", copy, *args, "--json", "--num_workers", workers, again)
            slices = json.loads(out)["slices"]
            assert (code, list(slices)) == (0, names)
            assert list(slices[names[0]]["features"]) == list(info.features)
            text = run("stats", copy, *args, "--num_workers", workers, "--html", copy.parent / "page.html")[1]
            assert re.findall(r"^ds:1\.0\.0, (.*): \d+ examples?$", text, re.MULTILINE) == names
            assert re.findall("\u25a0</span> (.*?): ", (copy.parent / "page.html").read_text()) == names


def test_one_process_computes_up_to_a_size(copy, run, monkeypatch):
    """`stats` runs a pipeline if workers are asked for, or from `MIN_BEAM_BYTES` on if there are several cores."""
    size, calls = prepare_request(copy).num_bytes, []
    monkeypatch.setattr(
        "beam_datasets.beam.reports.run_stats", lambda request, options, **_: calls.append(1) or compute(copy)
    )
    for smallest, cores, args, expected in (
        (size + 1, 4, [], 0),
        (size, 4, [], 1),
        (size, 1, [], 0),
        (size, 4, ["--num_workers", "1"], 0),
        (size + 1, 1, ["--num_workers", "2"], 1),
        (size + 1, 1, ["--runner", "FnApiRunner"], 1),
    ):
        calls.clear()
        monkeypatch.setattr("beam_datasets.cli.stats.MIN_BEAM_BYTES", smallest)
        monkeypatch.setattr("beam_datasets.cli.stats.usable_cores", lambda cores=cores: cores)
        assert run("stats", copy, "--again", *args)[0] == 0
        assert len(calls) == expected, (smallest, cores, args)


def test_one_process_computes_without_beam(copy, run, monkeypatch):
    for package in ("beam", "engines"):
        for name in [name for name in sys.modules if name.startswith(f"beam_datasets.{package}")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr(bd, package, raising=False)
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    """Without a runner or workers, `stats` needs no pipeline: one process computes it."""
    code, out, err = run("stats", copy, "--json", "--again")
    assert (code, out, err) == (0, json_text(compute(copy)), "")
    assert (copy.parent / ".stats" / "1.0.0.json").read_text() == out
    for options in (["--runner", "FlinkRunner"], ["--report", "r.json"], ["--num_workers", "2"]):
        code, out, err = run("stats", copy, "--again", *options)
        assert (code, out, err) == (1, "", f"beam-datasets: this needs Apache Beam: {install_command('beam')}\n")


class Page(HTMLParser):
    """What a page has."""

    def __init__(self, text):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in ("meta", "input", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_a_page(tmp_path, run):
    examples = [{"<i>": i % 7, "text": "<script>alert('1')</script>", "x": np.float32(i)} for i in range(50)]
    directory = dataset_of(tmp_path, {"<i>": np.int64, "text": bd.features.Text(), "x": np.float32}, examples)
    target = tmp_path / "page.html"
    target.write_text("what was there before")
    code, out, _ = run("stats", directory, "--html", target, "--num_workers", 1)
    assert (code, out.endswith(f"; page in {target}\n")) == (0, True)
    page = Page(target.read_text())
    assert page.open == []
    assert page.tags.count("script") == 1  # that of the package
    assert "i" not in page.tags
    assert "<script>alert('1')</script>" in page.text
    assert target.read_text().count('<svg class="plot"') == 2
    assert all(link.startswith("#") for link in page.links)
    assert "http:" not in target.read_text()


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["--split", "trian"], 1, "Did you mean 'train'?"),
        (["--split", "train[:101%]"], 1, "101"),
        (["--features", "nn"], 1, "ds:1.0.0 has no feature 'nn' with statistics; it has label, n, text, values."),
        (["--features", ","], 2, "write names with commas between"),
        (["--html", "."], 2, "--html is '.', where no file can be written: /"),
        (["--html", ""], 2, "--html is '', where no file can be written: the path is empty"),
        (["--html", "nowhere/page.html"], 2, "nowhere: the directory does not exist; make it first"),
        (["--html", "/dev/null"], 2, "where no file can be written: /dev/null: it is not a regular file"),
        (["--again", "--report", "nope/r.json"], 2, "nope: the directory does not exist; make it first"),
        (["--again", "--report", "."], 2, "report is '.', where no file can be written"),
        (["--wrong"], 2, "unknown option --wrong"),
        (["--num_workers", "0", "--again"], 2, "num_workers"),
    ],
)
def test_mistakes(published, run, args, code, said):
    found, out, err = run("stats", published, "--no_save", *args)
    assert (found, out) == (code, "")
    assert said in err
    assert "Traceback" not in err


# `beam-datasets export`: what it prints, and what it says of what cannot be


DATA = Path(__file__).resolve().parents[1] / "data" / "tfds"
SOURCE = ["spec_inter", "--data_dir", str(DATA), "--num_workers", "1"]


def test_exports_and_says_what(tmp_path, run):
    to = tmp_path / "out"
    options = ["--format", "parquet", "--to", str(to), "--split", "few=train[:10%]", "--split", "test=train[90%:]"]
    code, said, _ = run("export", *SOURCE, *options, "--num-shards", "few=2", "--features", "idx, name")
    assert code == 0
    assert f"spec_inter:1.2.3 -> {to} (parquet)" in said
    assert "few    train[:10%]        41" in said
    assert f"Exported to {to} after" in said
    assert sorted(path.name for path in to.iterdir()) == [
        "_export.json",
        *(f"few-0000{i}-of-00002.parquet" for i in range(2)),
        "test-00000-of-00001.parquet",
    ]


def test_dry_run_writes_nothing(tmp_path, run):
    code, out, _ = run("export", *SOURCE, "--format", "jsonl", "--to", tmp_path / "out", "--dry_run")
    assert (code, out.endswith("Nothing was run (--dry_run).\n")) == (0, True)
    assert not list(tmp_path.iterdir())


def test_the_module_does_the_same(tmp_path):
    to = tmp_path / "out"
    assert module.main(["export", "--dataset", *SOURCE, "--format", "jsonl", "--to", str(to)]) == 0
    assert len((to / "train-00000-of-00001.jsonl").read_text().splitlines()) == 411


TO = ["--format", "jsonl", "--to", "{}/out"]


@pytest.mark.parametrize(
    "args, code, problem",
    [
        ([], 2, "which dataset? beam-datasets export SOURCE"),
        (["digits"], 2, "the following arguments are required: --format, --to"),
        ([*SOURCE, "--format", "parket", *TO[2:]], 2, "got 'parket'"),
        (["inter", *SOURCE[1:], *TO], 1, "no dataset 'inter'"),
        ([*SOURCE, *TO, "--split", "trian"], 1, "Did you mean 'train'?"),
        ([*SOURCE, *TO, "--fromat", "x"], 2, "unknown option --fromat"),
        ([*SOURCE, *TO, "--to", "{}"], 1, "existing files are not overwritten"),
        ([*SOURCE, *TO, "--to", "{}/file/out"], 1, "{}/file/out: this directory cannot be made: Not a directory"),
        ([*SOURCE, *TO, "--to", "{}/file/deep/out"], 1, "{}/file/deep: this directory cannot be made: Not a directory"),
    ],
)
def test_mistakes_of_exports(tmp_path, run, args, code, problem):
    (tmp_path / "file").touch()
    found, _, err = run("export", *(arg.format(tmp_path) for arg in args))
    assert (found, problem.format(tmp_path) in err) == (code, True), err
    assert "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
