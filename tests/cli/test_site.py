"""The static pages, as files; tests/browser looks at them in a browser."""

import json
import re

import pytest
from pyarrow import parquet

import beam_datasets as bd
from beam_datasets.diffing import diff
from tests.hostile import SCRIPT, Hostile, png, publish


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = publish(tmp_path_factory.mktemp("data"))
    type("Hostile", (Hostile,), {"VERSION": "1.0.1"}, skip_registration=True)(data_dir=root).build(num_workers=1)
    return root


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
        for link in re.findall(r'(?:href|src)="([^"#]+)', text):
            assert (path.parent / link).is_file(), link
        for one in embedded:
            described = json.loads(one)
            assert described["description"].startswith(SCRIPT)
            assert described["url"] == "index.html"  # not the homepage, which is a script
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
    code, _, err = run("site", data, "--to", f"{data}/.")
    assert (code, "expected another directory" in err) == (2, True)
    assert not (tmp_path / "site").exists()
    assert not (data / "index.html").exists()


def test_damaged_images_are_missing(run, tmp_path):
    class Damaged(bd.DatasetBuilder, skip_registration=True):
        """A dataset."""

        VERSION = "1.0.0"
        name = "damaged"

        def _info(self):
            return bd.DatasetInfo(builder=self, features={"picture": bd.features.Image(shape=(None, None, 1))})

        def _split_generators(self):
            return {"train": [(0, {"picture": png(30, 20)}), (1, {"picture": png(30, 20)[:-20]})]}

    Damaged(data_dir=tmp_path / "data").build(num_workers=1)
    assert run("site", tmp_path / "data", "--to", tmp_path / "site")[0] == 0
    folder = tmp_path / "site" / "damaged" / "1.0.0"
    rows = parquet.read_table(folder / "sample-train.parquet").to_pylist()
    assert sorted(row["picture"] is None for row in rows) == [False, True]
    for page in ("rows-train.html", "statistics.html"):
        [source] = re.findall(r'<img [^>]*src="([^"]*)"', (folder / page).read_text())
        assert (folder / source).is_file()
    assert (folder / "rows-train.html").read_text().count("damaged</span>") == 1


def test_what_is_left_out(data, run, tmp_path):
    for path in data.rglob(".stats/*.json"):
        path.unlink()
    assert run("site", data, "--to", tmp_path, "--no_statistics", "--no_changes")[0] == 0
    assert not [*tmp_path.rglob("statistics.*"), *tmp_path.rglob("changes.json")]
    for path in tmp_path.rglob("*.html"):
        for link in re.findall(r'(?:href|src)="([^"#]+)', path.read_text()):
            assert (path.parent / link).is_file(), link
