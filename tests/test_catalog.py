import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import beam_datasets as bd
from beam_datasets import catalog
from beam_datasets.cli import main
from beam_datasets.errors import DatasetNotFoundError, MetadataError
from beam_datasets.metadata.version import Version
from tests.facts import raises_with
from tests.permissions import closed_directory

TFDS = Path(__file__).parent / "data/tfds"


def publish(root, *names):
    """Makes directories look published; a name that ends in '!' lacks features.json."""
    for name in names:
        folder = root / name.rstrip("!")
        folder.mkdir(parents=True)
        (folder / "dataset_info.json").write_text("{}")
        if not name.endswith("!"):
            (folder / "features.json").write_text("{}")


@pytest.fixture
def root(tmp_path):
    publish(
        tmp_path,
        "digits/1.0.0",
        "digits/1.2.0",
        "digits/2.0.0",
        "digits/9.9.9!",
        "multi/small/1.0.0",
        "multi/big-2.x/3.1.4",
    )
    publish(tmp_path, "digits/incomplete.AB12CD_3.0.0", "digits/3.0!")
    (tmp_path / "digits/8.0.0").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "downloads/extracted").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(catalog, "_registered", {})


def found(root, name, **kwargs):
    return os.path.relpath(catalog.find_dataset_dir(name, root, **kwargs), root)


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    "name, kwargs, expected",
    [
        ("digits", {}, "digits/2.0.0"),
        ("Digits", {}, "digits/2.0.0"),
        ("digits:1.*.*", {}, "digits/1.2.0"),
        ("digits:1.0.0", {}, "digits/1.0.0"),
        ("digits", {"version": "1.0.0"}, "digits/1.0.0"),
        ("digits", {"version": Version("1.0.0")}, "digits/1.0.0"),
        ("digits", {"version": "latest"}, "digits/2.0.0"),
        ("multi/small", {}, "multi/small/1.0.0"),
        ("multi", {"config": "big-2.x"}, "multi/big-2.x/3.1.4"),
        ("multi/big-2.x:3.*.*", {}, "multi/big-2.x/3.1.4"),
    ],
)
def test_find(root, name, kwargs, expected):
    assert found(root, name, **kwargs) == expected


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    "name, message",
    [
        ("/nowhere digits", "'digits' is published in .*/nowhere: the directory does not exist. Give the directory"),
        ("/empty digits", "published datasets: none"),
        ("digit", r"no dataset 'digit' is published .*; published datasets: digits, multi\. Did you mean 'digits'\?"),
        ("empty", r"no dataset 'empty' is published"),
        ("digits:9.9.9", r"digits in .* has no version 9\.9\.9; published versions: 1\.0\.0, 1\.2\.0, 2\.0\.0\."),
        ("digits:3.*.*", r"has no version 3\.\*\.\*; published versions: 1\.0\.0, 1\.2\.0, 2\.0\.0\."),
        ("multi", r"multi in .* has the configs big-2\.x, small and no default one; .* 'multi/big-2\.x'"),
        ("multi/smal", r"has no config 'smal'; published configs: big-2\.x, small\. Did you mean 'small'\?"),
        ("digits/small", r"digits in .* has no config 'small'; published configs: none\."),
        ("multi/small:2.0.0", r"multi/small in .* has no version 2\.0\.0; published versions: 1\.0\.0\."),
    ],
)  # fmt: skip
def test_not_found_lists_what_is_published(root, name, message):
    folder, _, name = name.rpartition(" ")
    with pytest.raises(DatasetNotFoundError, match=message):
        catalog.find_dataset_dir(name, f"{root}{folder}")


@pytest.mark.usefixtures("registry")
def test_paths_in_place_of_names_are_hinted_at(root, monkeypatch):
    monkeypatch.chdir(Path(root).parent)
    data = Path(root).name
    for data_dir in ("nowhere", root):
        with pytest.raises(DatasetNotFoundError, match=f"directory {data}/digits: 'digits' with data_dir='{data}'"):
            catalog.find_dataset_dir(f"{data}/digits", data_dir)
    above = f"give the one above, data_dir='{root}'"
    for name, folder in (("digits", "digits"), ("digits", "digits/1.0.0"), ("multi", "multi/small/1.0.0")):
        with pytest.raises(DatasetNotFoundError, match=above):
            catalog.find_dataset_dir(name, f"{root}/{folder}")
    with pytest.raises(ValueError, match="not a dataset name; .* builder_from_directory"):
        catalog.find_dataset_dir(f"{root}/digits")


@pytest.mark.usefixtures("registry")
def test_a_directory_of_a_registered_dataset_in_place_of_its_parent_is_hinted_at(root):
    class Digits(bd.DatasetBuilder):
        VERSION = "2.0.0"

        def _info(self):
            return bd.DatasetInfo(builder=self, features={"n": "int64"})

        def _split_generators(self):
            return {}

    assert catalog.find_dataset_dir(Digits.name, root) == f"{root}/digits/2.0.0"
    with pytest.raises(DatasetNotFoundError, match=f"version of its code, .* give the one above, data_dir='{root}'"):
        catalog.find_dataset_dir("digits", f"{root}/digits")


def test_lists(root):
    assert catalog.list_published("multi", root) == ["multi/big-2.x:3.1.4", "multi/small:1.0.0"]
    assert catalog.list_published("digits", root) == ["digits:1.0.0", "digits:1.2.0", "digits:2.0.0"]
    assert catalog.list_datasets(root) == ["digits", "multi"]
    assert catalog.list_configs("multi", root) == ["big-2.x", "small"]
    assert catalog.list_configs("digits", root) == []
    assert list(map(str, catalog.list_versions("digits", data_dir=root))) == ["1.0.0", "1.2.0", "2.0.0"]
    assert list(map(str, catalog.list_versions("multi", "small", data_dir=root))) == ["1.0.0"]
    assert catalog.list_versions("nope", data_dir=root) == []


def test_default_config(root):
    assert catalog.default_config("multi", root) is None
    catalog.write_default_config("multi", "small", root)
    assert catalog.default_config("multi", root) == "small"
    assert found(root, "multi") == "multi/small/1.0.0"
    assert (root / "multi/.config/metadata.json").read_text() == '{"default_config_name": "small"}'


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"default_config_name": "../x"}', '{"default_config_name": 5}', "5"]
)
def test_a_damaged_default_config(root, text):
    catalog.write_default_config("multi", "small", root)
    path = root / "multi/.config/metadata.json"
    path.write_text(text)
    with raises_with(MetadataError, path=str(path), mentions=["default config"]):
        catalog.find_dataset_dir("multi", root)


def test_where_datasets_stand_by_default(monkeypatch, tmp_path):
    for name in catalog.DATA_DIR_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert catalog.root_dir() == os.path.expanduser("~/beam_datasets")
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    assert catalog.root_dir() == str(tmp_path / "tfds")
    monkeypatch.setenv("BEAM_DATASETS_DATA_DIR", str(tmp_path / "ours"))
    assert catalog.root_dir() == str(tmp_path / "ours")
    assert catalog.root_dir(tmp_path) == str(tmp_path)
    assert catalog.root_dir("s3://bucket/data/") == "s3://bucket/data"


class FakeBuilder(SimpleNamespace):
    @staticmethod
    def configs():
        return {"small": None}


@pytest.mark.usefixtures("registry")
def test_which_rule_chose_a_version(root):
    catalog.write_default_config("multi", "small", root)
    directory = catalog.find_dataset_dir("digits", root)
    assert catalog.version_rule("digits", directory) == "version 2.0.0: the highest of 3 that are published"
    for name in ("digits:2.0.0", "digits:latest", directory):
        assert catalog.version_rule(name, directory) == ""
    assert catalog.version_rule("multi", catalog.find_dataset_dir("multi", root)) == ""  # the only one


def test_an_unfinished_version_is_no_higher_one(root):
    (root / "digits/9.0.0").mkdir()
    note = catalog.note_on_names("digits", f"{root}/digits/1.0.0", "1.0.0")
    assert note.startswith("Higher versions are published: without its builder imported, 'digits' means 2.0.0;")
    assert catalog.note_on_names("digits", f"{root}/digits/2.0.0", "2.0.0") == ""


@pytest.mark.usefixtures("registry")
def test_a_bare_name_means_the_version_of_the_code(root, monkeypatch):
    made = []

    class Digits(FakeBuilder):
        name = "digits"
        builder_config = None
        version = "1.0.0"

        def __init__(self, data_dir, config, **kwargs):
            made.append(kwargs)
            super().__init__(dataset_dir=f"{data_dir}/digits/{self.version}")

    catalog.register(Digits)
    with pytest.warns(
        UserWarning, match="'digits' means 1.0.0 here, .* means 2.0.0, .*'digits:1.0.0' or 'digits:latest'"
    ):
        assert found(root, "digits") == "digits/1.0.0"
    assert found(root, "digits") == "digits/1.0.0"  # once
    assert found(root, "digits/a=1") == "digits/1.0.0"
    assert (
        catalog.version_rule("digits", f"{root}/digits/1.0.0")
        == "version 1.0.0: the one of the builder that is imported"
    )
    assert made == [{}, {}, {"a": 1}]
    assert found(root, "digits:*.*.*") == "digits/2.0.0"
    monkeypatch.setattr(Digits, "version", "4.0.0")
    with pytest.raises(
        DatasetNotFoundError,
        match=r"4\.0\.0, the version of its code, .*; published versions: digits:1\.0\.0, digits:1\.2\.0",
    ):
        catalog.find_dataset_dir("digits", root)


def test_a_version_that_this_user_may_not_enter(capsys):
    """Permission denied with the path, not "no dataset is published"."""
    with closed_directory("small/1.0.0") as root:
        said = rf"^{root}/small/1.0.0/\w+.json: Permission denied"
        for name in ("small", "small:1.0.0", "small:1.*.*"):
            with pytest.raises(PermissionError, match=said):
                bd.load(name, data_dir=root)
        with pytest.raises(PermissionError, match=said):
            bd.builder_from_directory(f"{root}/small/1.0.0")
        with pytest.raises(DatasetNotFoundError, match="no dataset 'other' .* published datasets: small"):
            bd.load("other", data_dir=root)
        assert main(["list", "--data_dir", root]) == 0
        printed = capsys.readouterr()
        assert "small:1.0.0         ?" in printed.out
        assert f"{root}/small/1.0.0/dataset_info.json: Permission denied" in printed.err
        assert main(["info", "small", "--data_dir", root]) == 1
        assert "Permission denied" in capsys.readouterr().err


def test_a_dataset_that_this_user_may_not_enter(capsys):
    """The same one directory higher."""
    with closed_directory("small") as root:
        with pytest.raises(PermissionError, match=f"^{root}/small: Permission denied"):
            bd.load("small", data_dir=root)
        assert main(["list", "--data_dir", root]) == 0
        assert f"{root}/small: Permission denied" in capsys.readouterr().err


@pytest.mark.usefixtures("registry")
def test_a_version_without_metadata_may_be_unfinished_or_damaged(tmp_path):
    """On a store, a version that is being published or removed has the same files as a damaged one."""
    directory = tmp_path / "pets" / "1.0.0"
    directory.mkdir(parents=True)
    (directory / "manifest.json").write_text("{}")
    advice = f"{directory} is not complete: it is being published, was partly removed, or is damaged. To check it: "
    with pytest.raises(DatasetNotFoundError, match=re.escape(f"{advice}beam-datasets verify {directory}.")):
        catalog.find_dataset_dir("pets", str(tmp_path))
