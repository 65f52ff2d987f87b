"""The static pages, as files; tests/browser looks at them in a browser."""

import json
import re

import numpy as np
import pytest
from pyarrow import parquet

import beam_datasets as bd
from beam_datasets import storage
from beam_datasets.cli.site import _do_overlap, croissant
from beam_datasets.diffing import diff
from beam_datasets.formats.tfrecord import frame_all
from tests.hostile import SCRIPT, Hostile, png, publish
from tests.images import undecodable_png
from tests.published import build, flip
from tests.reading.conftest import write_dataset


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = publish(tmp_path_factory.mktemp("data"))
    type("Hostile", (Hostile,), {"VERSION": "1.0.1"}, skip_registration=True)(data_dir=root).build(num_workers=1)
    return root


def check_links(site):
    """Checks that what pages link to is there; the icon is in the pages themselves."""
    for path in site.rglob("*.html"):
        for link in re.findall(r'(?:href|src)="(?!data:)([^"#]+)', path.read_text()):
            assert (path.parent / link).is_file(), (path, link)


def test_the_site(data, run, tmp_path, monkeypatch):
    site = tmp_path / "site"
    assert run("site", data, "--to", site)[:2] == (0, f"2 versions in {site / 'index.html'}\n")
    pages = list(site.rglob("*.html"))
    assert len(pages) == 1 + 2 * 4
    for path in pages:
        text = path.read_text()
        embedded = re.findall(r'<script type="application/ld\+json">(.*?)</script>', text)
        assert len(re.findall("<script", text)) == 1 + len(embedded)
        assert not re.search(r"<[^>]* (on\w+|style)=|javascript:[^<]*>", re.sub("<script type.*?</script>", "", text))
        for one in embedded:
            described = json.loads(one)
            assert described["description"].startswith(SCRIPT)
            assert described["url"] == "index.html"  # not the homepage, which is a script
    check_links(site)
    entries = json.loads((site / "catalog.json").read_text())["datasets"]
    published = bd.builder_from_directory(data / "hostile" / "1.0.1")
    assert [entry["digest"] for entry in entries if entry["dataset"] == "hostile:1.0.1"] == [published.digest]
    changes = json.loads((site / "hostile" / "1.0.1" / "changes.json").read_text())
    assert changes["needed"] == diff("hostile:1.0.0", "hostile:1.0.1", data_dir=data).verdict.needed
    monkeypatch.setattr("beam_datasets.cli.site.diff", None)  # neither is computed again
    monkeypatch.setattr("beam_datasets.cli.site.compute_request", None)
    before = {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}
    assert run("site", data, "--to", site)[0] == 0
    assert {path: path.read_bytes() for path in site.rglob("*") if path.is_file()} == before


def test_directories_that_cannot_be(data, run, tmp_path):
    code, _, err = run("site", data)
    assert (code, "--to" in err) == (2, True)
    code, _, err = run("site", tmp_path / "nothing", "--to", tmp_path / "site")
    assert (code, "the directory does not exist" in err) == (1, True)
    for place in (f"{data}/.", data / "site", data.parent):
        code, _, err = run("site", data, "--to", place)
        assert (code, "expected a directory outside of" in err) == (2, True)
    assert not (tmp_path / "site").exists()
    assert not (data / "index.html").exists()


def test_damage_ends_neither_the_site_nor_the_other_pages(run, tmp_path):
    """Each damaged version has what can be read, and the damage on its page; the others are as without it."""
    root, site = tmp_path / "data", tmp_path / "site"
    for name in ("early", "late", "shut", "whole"):
        write_dataset(root / name / "1.0.0", {"train": [40], "test": [3]}, manifest=True)
    for name, place in (("early", 30), ("late", -30)):  # of the first record, and of one behind the samples
        [shard] = (root / name / "1.0.0").glob("*-train.tfrecord-*-of-00001")
        flip(shard, place)
    (root / "shut" / "1.0.0" / "features.json").write_text("{")
    code, out, err = run("site", root, "--to", site)
    assert (code, out) == (1, f"3 versions in {site / 'index.html'}\n")
    assert [line.partition(":1.0.0: ")[0] for line in err.splitlines() if ":1.0.0: " in line] == [
        "early",
        "late",
        "shut",
    ]
    assert str(root / "early") in err
    shown = {name: (site / name / "1.0.0" / "index.html").read_text() for name in ("early", "late", "whole")}
    assert [text.count("Damaged:</strong>") for text in shown.values()] == [1, 1, 0]
    rows = {name: (site / name / "1.0.0" / "rows-train.html").read_text() for name in shown}
    assert ["Examples 0 to 19 of 40" in text for text in rows.values()] == [True, True, True]
    assert [text.count("Damaged:</strong>") for text in rows.values()] == [1, 0, 0]
    assert rows["early"].count("<tr>") == 1 + 20
    assert "Examples 0 to 2 of 3" in (site / "early" / "1.0.0" / "rows-test.html").read_text()
    assert [name for name in shown if (site / name / "1.0.0" / "statistics.html").exists()] == ["whole"]
    assert "features.json" in (site / "index.html").read_text()
    entries = json.loads((site / "catalog.json").read_text())["datasets"]
    assert [entry["dataset"] for entry in entries] == ["early:1.0.0", "late:1.0.0", "whole:1.0.0"]
    check_links(site)


def test_damage_that_only_the_comparison_finds(run, tmp_path):
    """It is as other damage: on the page, on standard error, and in the exit code."""
    root, site = tmp_path / "data", tmp_path / "site"
    for version in ("1.0.0", "1.0.1"):
        write_dataset(root / "late" / version, {"train": [40 + int(version[-1])]}, manifest=True)
    [shard] = (root / "late" / "1.0.0").glob("*-train.tfrecord-*-of-00001")
    flip(shard, -30)
    code, out, err = run("site", root, "--to", site, "--no_statistics")
    assert (code, out) == (1, f"2 versions in {site / 'index.html'}\n")
    assert (err.startswith("late:1.0.1: "), str(shard) in err) == (True, True)
    shown = [(site / "late" / version / "index.html").read_text() for version in ("1.0.0", "1.0.1")]
    assert [text.count("Damaged:</strong>") for text in shown] == [0, 1]
    assert "Changes since" not in shown[1]


def test_examples_in_another_format_are_damage_of_their_version(run, tmp_path):
    """TensorFlow Datasets also writes ArrayRecord, of which the metadata can be read alone."""
    for name, change in (("foreign", {"fileFormat": "array_record"}), ("whole", {})):
        file = write_dataset(tmp_path / "data" / name / "1.0.0", {"train": [2]}) / "dataset_info.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"name": name} | change))
    code, out, err = run("site", tmp_path / "data", "--to", tmp_path / "site")
    assert (code, out) == (1, f"2 versions in {tmp_path / 'site' / 'index.html'}\n")
    assert err.startswith("foreign:1.0.0: ")
    for page in ("index", "rows-train"):
        assert "stored as tfrecord" in (tmp_path / "site" / "foreign" / "1.0.0" / f"{page}.html").read_text()
    assert "rows-train.html" in (tmp_path / "site" / "index.html").read_text()
    check_links(tmp_path / "site")


def test_values_that_differ_between_examples(run, tmp_path):
    """Each sample is a table, whatever examples contain: no label, few and many items, large integers, no images."""
    features = {
        "label": bd.features.ClassLabel(names=["cat", "dog"]),
        "many": bd.features.Sequence(np.float32),
        "large": np.uint64,
        "larges": bd.features.Sequence(np.uint64),
        "pictures": bd.features.Sequence(bd.features.Image(shape=(None, None, 1))),
        "boxes": bd.features.Sequence({"in": bd.features.Sequence({"x": np.int64})}),
    }
    stored = bd.features.compile_encoder(bd.features.FeaturesDict(features | {"label": np.int64}))
    large = [2**64 - 1, 0, 2**63]
    records = [
        stored(
            {
                "label": (-1, 1, 99)[n],
                "many": [0.5] * 700 * n,
                "large": large[n],
                "larges": large[:n],
                "pictures": [png(3, 2)] * n,
                "boxes": [{"in": [{"x": 1}] * n}] * 2,
            }
        )
        for n in range(3)
    ]
    (tmp_path / "records").write_bytes(b"".join(frame_all(records)))
    bd.adopt(tmp_path / "records", features, name="mixed", data_dir=tmp_path / "data", disable_shuffling=True)
    write_dataset(tmp_path / "data" / "nothing" / "1.0.0", {})
    assert run("site", tmp_path / "data", "--to", tmp_path / "site") == (
        0,
        f"2 versions in {tmp_path / 'site' / 'index.html'}\n",
        "",
    )
    folder = tmp_path / "site" / "mixed" / "1.0.0"
    rows = parquet.read_table(folder / "sample-train.parquet").to_pylist()
    assert [row["label"] for row in rows] == [None, "dog", "99"]
    assert [row["many"] for row in rows] == [[0.5] * min(700 * n, 1000) for n in range(3)]
    assert [row["large"] for row in rows] == large
    assert [row["larges"] for row in rows] == [large[:n] for n in range(3)]
    assert [len(row["pictures"]) for row in rows] == [0, 1, 2]
    assert all((folder / picture).is_file() for row in rows for picture in row["pictures"])
    described = json.loads((folder / "croissant.json").read_text())
    kinds = {field["name"]: field["dataType"] for field in described["recordSet"][0]["field"]}
    assert (kinds["large"], kinds["larges"], kinds["label"]) == ("sc:Integer", "sc:Integer", "sc:Text")
    assert "Splits" in (tmp_path / "site" / "nothing" / "1.0.0" / "index.html").read_text()


def test_paths_of_samples_are_those_of_files(data):
    published, file = bd.builder("hostile:1.0.0", data_dir=data), "sample-%C3%A9.parquet"  # of a split 'é'
    for base, address in (("", file), ("https://example.org/", "https://example.org/sample-%25C3%25A9.parquet")):
        [described] = croissant(published, {"é": (file, "0", [])}, base)["distribution"]
        assert described["contentUrl"] == address


def test_damaged_images_are_missing(run, tmp_path):
    rows = [(0, {"picture": png(30, 20)}), (1, {"picture": undecodable_png(30, 20, colour=0)})]
    picture = bd.features.Image(shape=(None, None, 1))
    build(tmp_path / "data", {"picture": picture}, {"train": rows}, name="damaged")
    assert run("site", tmp_path / "data", "--to", tmp_path / "site")[0] == 0
    folder = tmp_path / "site" / "damaged" / "1.0.0"
    rows = parquet.read_table(folder / "sample-train.parquet").to_pylist()
    assert sorted(row["picture"] is None for row in rows) == [False, True]
    for page in ("rows-train.html", "statistics.html"):
        [source] = re.findall(r'<img [^>]*src="([^"]*)"', (folder / page).read_text())
        assert (folder / source).is_file()
    assert (folder / "rows-train.html").read_text().count("damaged</span>") == 1


@pytest.mark.slow
def test_what_is_left_out(data, run, tmp_path):
    for path in data.rglob(".stats/*.json"):
        path.unlink()
    assert run("site", data, "--to", tmp_path, "--no_statistics", "--no_changes")[0] == 0
    assert not [*tmp_path.rglob("statistics.*"), *tmp_path.rglob("changes.json")]
    check_links(tmp_path)


def test_types_are_those_of_features_where_the_samples_have_no_value(run, tmp_path):
    f = bd.features
    features = {
        "float": f.Scalar(np.float32, optional=True),
        "int": f.Scalar(np.int64, optional=True),
        "bool": f.Scalar(np.bool_, optional=True),
        "label": f.ClassLabel(names=["cat", "dog"]),
        "number": f.ClassLabel(num_classes=3),
        "text": f.Text(),
        "list": f.Sequence(np.int32),
        "boxes": f.Sequence({"x": np.float64, "name": f.Text()}),
        "images": f.Sequence(f.Image()),
    }
    missing = {"float": None, "int": None, "bool": None, "label": -1, "number": 2, "text": "", "list": [], "images": []}
    rows = [(n, missing | {"boxes": {"x": [], "name": []}}) for n in range(3)]
    build(tmp_path / "data", features, {"train": rows}, name="gaps")
    assert run("site", tmp_path / "data", "--to", tmp_path / "site")[0] == 0
    described = json.loads((tmp_path / "site" / "gaps" / "1.0.0" / "croissant.json").read_text())
    assert {field["name"]: field["dataType"].removeprefix("sc:") for field in described["recordSet"][0]["field"]} == {
        "float": "Float",
        "int": "Integer",
        "bool": "Boolean",
        "label": "Text",
        "number": "Integer",
        "text": "Text",
        "list": "Integer",
        "boxes/x": "Float",
        "boxes/name": "Text",
        "images": "Text",
    }


def test_places_in_a_store_and_on_a_disk(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    apart = [("s3://b/site", str(tmp_path)), ("s3://b/site", "s3://b/data"), ("s3://b/data2", "s3://b/data")]
    apart += [(str(tmp_path / "data2"), str(tmp_path / "data"))]
    one_in_the_other = [("s3://b/data/site", "s3://b/data"), ("s3://b", "s3://b/data"), ("s3://b/data", "s3://b/data/")]
    one_in_the_other += [(str(tmp_path / "link" / "site"), str(tmp_path / "data"))]
    assert [pair for pair in apart if _do_overlap(*map(storage.normalize, pair))] == []
    assert [pair for pair in one_in_the_other if not _do_overlap(*map(storage.normalize, pair))] == []
