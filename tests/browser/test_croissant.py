"""The metadata of the site, read by the library of Croissant."""

import json

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets.cli import main
from tests.published import build

SKIP = "`make test-browser` installs it"
mlcroissant = pytest.importorskip("mlcroissant", reason=SKIP)
pd = pytest.importorskip("pandas", reason=SKIP)
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def site(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    assert main(["site", str(data), "--to", str(folder), "--no_statistics", "--no_changes"]) == 0
    return folder


@pytest.mark.parametrize("name", ["words/1.1.0", "hostile/1.0.0", "words_part/1.0.0"])
def test_records_are_loaded(site, data, name):
    loaded = mlcroissant.Dataset(site / name / "croissant.json")
    published = bd.builder_from_directory(data / name)
    assert loaded.metadata.name == published.info.display_name
    assert {one.uuid for one in loaded.metadata.record_sets} == set(published.info.splits)
    for split in published.info.splits:
        records = list(loaded.records(split))
        expected = published.as_dataset(split)[: len(records)]
        assert len(records) == 20
        texts = [record[f"{split}/text"].decode() for record in records]
        assert texts == [_text(example["text"]) for example in expected]
        label = "label" if "label" in published.info.features else "kind"
        names = published.info.features[label].label_names
        assert [record[f"{split}/{label}"].decode() for record in records] == [names[e[label]] for e in expected]
        if "id" in published.info.features:
            assert [record[f"{split}/id"] for record in records] == [int(example["id"]) for example in expected]


def test_large_integers_beside_missing_ones_and_features_without_name(tmp_path):
    """All but the feature without a name is loaded; pandas alone would make floats of integers."""
    numbers = {"int": [2**62 + 1, None, -(2**53) - 1], "unsigned": [None, 2**64 - 1, 1]}
    features = {name: bd.features.Scalar(name.replace("unsigned", "uint") + "64", optional=True) for name in numbers}
    rows = [(n, {"": n, "n": n, **{name: values[n] for name, values in numbers.items()}}) for n in range(3)]
    build(tmp_path / "data", features | {"": np.int64, "n": np.int64}, {"train": rows}, name="gaps")
    assert main(["site", str(tmp_path / "data"), "--to", str(tmp_path / "site"), "--no_statistics"]) == 0
    loaded = mlcroissant.Dataset(tmp_path / "site" / "gaps" / "1.0.0" / "croissant.json").records("train")
    records = sorted(loaded, key=lambda record: record["train/n"])
    for name, values in numbers.items():
        assert [None if pd.isna(record[f"train/{name}"]) else record[f"train/{name}"] for record in records] == values


def _text(value):
    return value.decode() if isinstance(value, bytes) else value


def test_addresses_are_absolute_if_the_url_is_known(data, tmp_path):
    command = ["site", str(data), "--to", str(tmp_path), "--no_statistics", "--no_changes"]
    assert main([*command, "--url", "https://example.org/data/"]) == 0
    found = json.loads((tmp_path / "words" / "1.1.0" / "croissant.json").read_text())
    assert found["url"] == "https://example.org/data/words/1.1.0/"
    assert all(file["contentUrl"].startswith(found["url"]) for file in found["distribution"])
    assert mlcroissant.Dataset(found).metadata.url == found["url"]
