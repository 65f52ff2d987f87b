"""Tags, `prune` and `list --versions`: what stays is compared with what is written down for each case."""

import json
import re
import shutil
import uuid

import pytest

import beam_datasets as bd
from beam_datasets import storage
from beam_datasets.cli.main import main
from beam_datasets.display.text import size_text
from beam_datasets.errors import BeamDatasetsError, DatasetNotFoundError, PathExistsError, PathNotFoundError
from beam_datasets.materializing import history
from tests.facts import raises_with
from tests.materializing.generated import generate


def days(root, number):
    """Publishes ds:1.0.0, and appends to it every day, to ds:`number`.0.0."""
    generate(root, {"train": {0: 0}})
    for day in range(1, number):
        generate(root, {"train": {day: day}}, name=f"day_{day}")
        bd.append("ds", f"day_{day}", data_dir=root)


def kept(root, keep, **options):
    return {each.name: each.kept for each in history.plan_prune("ds", keep, data_dir=root, **options)}


@pytest.mark.parametrize("remote", [False, True])
def test_what_stays(tmp_path, remote):
    root = f"memory://{uuid.uuid4().hex}/data" if remote else str(tmp_path)
    days(root, 7)
    names = [f"ds:{n}.0.0" for n in range(1, 8)]
    assert [name for name, why in kept(root, 2).items() if not why] == names[:5]
    bd.materialize("ds:2.0.0", data_dir=root, to="part")
    bd.materialize("part", data_dir=root, to="part_of_part")  # names ds:2.0.0 in the lineage of part
    storage.remove_tree(f"{root}/part")
    bd.materialize("ds:3.0.0", data_dir=root, to="ds:8.0.0")
    history.add_tag("ds:5.0.0", "paper", root)
    with raises_with(BeamDatasetsError, got="ds:5.0.0", mentions=["'paper'"], advice=["--keep_tagged"]):
        kept(root, 2)
    plan = history.plan_prune("ds", 2, keep_tagged=True, data_dir=root)
    assert {each.name: each.kept for each in plan} == {
        "ds:1.0.0": "",
        "ds:2.0.0": "the lineage of part_of_part:2.0.0 names it",
        "ds:3.0.0": "the lineage of ds:8.0.0 names it",
        "ds:4.0.0": "",
        "ds:5.0.0": "tag paper",
        "ds:6.0.0": "",
        "ds:7.0.0": "one of the highest 2",
        "ds:8.0.0": "one of the highest 2",
    }
    history.add_tag("ds:6.0.0", "late", root)  # after the plan
    assert [each.name for each in plan if not each.kept and history.remove_version(each)] == ["ds:1.0.0", "ds:4.0.0"]
    assert list(kept(root, 2, keep_tagged=True)) == [f"ds:{n}.0.0" for n in (2, 3, 5, 6, 7, 8)]
    assert bd.verify(f"{root}/ds/7.0.0").whole
    assert len(bd.load("ds:latest", split="train", data_dir=root)) == 3


def test_versions_that_only_removed_ones_name_are_removed_with_them(tmp_path):
    days(tmp_path, 2)
    bd.materialize("ds:1.0.0", data_dir=tmp_path, to="ds:3.0.0")
    bd.append("ds", "day_1", data_dir=tmp_path)
    assert [name for name, why in kept(tmp_path, 1).items() if not why] == ["ds:1.0.0", "ds:2.0.0", "ds:3.0.0"]
    assert kept(tmp_path, 2)["ds:1.0.0"] == "the lineage of ds:3.0.0 names it"
    (tmp_path / "day_1/1.0.0/manifest.json").write_text("{}")
    with raises_with(BeamDatasetsError, mentions=["day_1/1.0.0/manifest.json", "nothing was removed"]):
        kept(tmp_path, 1)


def test_a_second_prune_removes_what_a_killed_one_left_on_a_store(tmp_path, monkeypatch):
    root = f"memory://{uuid.uuid4().hex}/data"
    days(root, 3)
    [first, second, third] = history.plan_prune("ds", 1, data_dir=root)

    def killed(path):
        for name in storage.list_dir(path)[: 2 if path == second.directory else 0]:
            storage.remove(f"{path}/{name}")
        raise KeyboardInterrupt

    for version in (first, second):  # after the deletion of dataset_info.json, and of some of the other files
        with monkeypatch.context() as patch:
            patch.setattr(storage, "remove_tree", killed)
            with pytest.raises(KeyboardInterrupt):
                history.remove_version(version)
    plan = history.plan_prune("ds", 1, data_dir=root)
    assert [(each.name, each.kept) for each in plan] == [
        ("ds:1.0.0", ""),
        ("ds:2.0.0", ""),
        ("ds:3.0.0", "one of the highest 1"),
    ]
    assert all(history.remove_version(each) for each in plan[:2])
    assert [each.name for each in history.plan_prune("ds", 1, data_dir=root)] == [third.name]
    assert not storage.is_dir(f"{root}/ds/1.0.0")
    assert not storage.is_dir(f"{root}/ds/2.0.0")
    generate(root, {"train": {0: 0}})  # the number is free again
    assert kept(root, 1)["ds:1.0.0"] == ""


def test_tags(tmp_path):
    days(tmp_path, 2)
    assert (
        history.add_tag("ds", "now", tmp_path) == history.add_tag("ds:2.0.0", "now", tmp_path) == f"{tmp_path}/ds/2.0.0"
    )
    with raises_with(PathExistsError, got="2.0.0", advice=["--remove"]):
        history.add_tag("ds:1.0.0", "now", tmp_path)
    with pytest.raises(DatasetNotFoundError):
        history.add_tag("ds:9.0.0", "never", tmp_path)
    with pytest.raises(ValueError, match="^tag.* got '../up'"):
        history.add_tag("ds", "../up", tmp_path)
    assert history.tags_in(f"{tmp_path}/ds") == {"now": "2.0.0"}
    with raises_with(PathNotFoundError, path=f"{tmp_path}/ds/1.0.0", got="2.0.0", mentions=["'now'"]):
        history.remove_tag("ds:1.0.0", "now", tmp_path)
    assert history.remove_tag("ds:2.0.0", "now", tmp_path) == "2.0.0"
    history.add_tag("ds", "now", tmp_path)
    assert history.remove_tag("ds", "now", tmp_path) == "2.0.0"
    with raises_with(PathNotFoundError, path=f"{tmp_path}/ds", got="now"):
        history.remove_tag("ds", "now", tmp_path)
    assert bd.verify(tmp_path / "ds/2.0.0").whole


def test_a_tag_without_a_version_is_of_the_one_that_readers_get(tmp_path, monkeypatch):
    """That of the registered builder, as for `load`, although a higher version is published."""
    for version in ("1.1.0", "3.0.0"):
        generate(tmp_path, {"train": {"a": 1}}, version=version)
    monkeypatch.setattr("beam_datasets.catalog._registered", {})

    class Ds(bd.DatasetBuilder):
        VERSION = "1.1.0"

        def _info(self):
            return bd.DatasetInfo(builder=self, features={"n": "int64"})

        def _split_generators(self):
            return {}

    with pytest.warns(UserWarning, match="3.0.0"):
        assert history.add_tag("ds", "paper", tmp_path) == f"{tmp_path}/ds/1.1.0"
    assert history.add_tag("ds:latest", "next", tmp_path) == f"{tmp_path}/ds/3.0.0"


def test_shared_shards_are_not_counted_as_freed(tmp_path, capsys):
    splits = {f"day_{number}": {number: number} for number in range(3)}
    generate(tmp_path, {"day_0": splits["day_0"]})
    for number in (1, 2):
        more = generate(tmp_path, {f"day_{number}": splits[f"day_{number}"]}, name=f"more_{number}")
        bd.append("ds", more, data_dir=tmp_path, new_splits=True, share_shards=True)
    expected = 0
    for version in ("1.0.0", "2.0.0"):
        for path in (tmp_path / "ds" / version).iterdir():
            expected += 0 if ".tfrecord" in path.name else path.stat().st_size
    for option, end in (("--keep_tagged", "; --yes removes them"), ("--yes", ", removed")):
        assert main(["prune", "ds", "--keep=1", option, f"--data_dir={tmp_path}"]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == f"2 versions, {size_text(expected)}{end}"


def test_a_version_that_another_process_removes_is_not_counted(tmp_path, monkeypatch, capsys):
    days(tmp_path, 3)

    def also_the_next(version):
        shutil.rmtree(tmp_path / "ds/2.0.0")
        return history.remove_version(version)

    monkeypatch.setattr("beam_datasets.cli.history.remove_version", also_the_next)
    assert main(["prune", "ds", "--keep=1", "--yes", f"--data_dir={tmp_path}"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 version, ")
    assert [path.name for path in (tmp_path / "ds").glob("?.0.0")] == ["3.0.0"]


@pytest.mark.parametrize("name", ["_open_judged", "described"])
def test_a_version_that_another_process_removes_during_the_plan_is_no_error(tmp_path, monkeypatch, capsys, name):
    days(tmp_path, 3)
    real = getattr(history, name)

    def after_a_removal(given):
        shutil.rmtree(tmp_path / "ds/1.0.0", ignore_errors=True)
        return real(given)

    monkeypatch.setattr(history, name, after_a_removal)
    assert main(["prune", "ds", "--keep=1", "--yes", f"--data_dir={tmp_path}"]) == 0
    words = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert words == ["version", "ds:2.0.0", "ds:3.0.0", "1"]
    assert [path.name for path in (tmp_path / "ds").glob("?.0.0")] == ["3.0.0"]


def test_versions_that_are_not_removed_are_named(tmp_path, monkeypatch, capsys):
    days(tmp_path, 3)
    monkeypatch.setattr("beam_datasets.cli.history.remove_version", lambda version: version.name == "ds:2.0.0")
    assert main(["prune", "ds", "--keep=1", "--yes", f"--data_dir={tmp_path}"]) == 0
    assert ", removed; not removed: ds:1.0.0 (" in capsys.readouterr().out
    monkeypatch.setattr("beam_datasets.cli.history.remove_version", lambda version: False)
    assert main(["prune", "ds", "--keep=1", "--yes", f"--data_dir={tmp_path}"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("not removed: ds:1.0.0, ds:2.0.0 (")


def test_contents_list_splits_in_their_order(tmp_path, capsys):
    generate(tmp_path, {"train": {1: 1}, "test": {2: 2}})
    generate(tmp_path, {"test": {4: 4}, "train": {3: 3}}, name="more")
    made = bd.append("ds", "more", data_dir=tmp_path)
    lineage = bd.builder_from_directory(made).lineage
    assert [*lineage.splits] == [*lineage.appended] == ["train", "test"]
    assert main(["list", "--versions", f"--data_dir={tmp_path}"]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("ds:2.0.0")]
    assert re.search("train 2, test 2; train = train.*; test = test.*; train: 1 added.*; test: 1 added", line)


def test_contents_name_what_a_version_was_materialized_of(tmp_path, capsys):
    """A version that `prune` keeps for it."""
    days(tmp_path, 2)
    bd.materialize("ds:1.0.0", data_dir=tmp_path, to="both", split={"train": "train+day_1:train"})
    assert main(["list", "--versions", f"--data_dir={tmp_path}"]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("both:1.0.0")]
    assert line.endswith("train 2; train = train+day_1:1.0.0:train; source: ds:1.0.0 and day_1:1.0.0")


def test_the_commands(tmp_path, capsys):
    days(tmp_path, 3)

    def run(*args):
        code = main([*args, f"--data_dir={tmp_path}"])
        return code, capsys.readouterr().out

    assert run("tag", "ds:1.0.0", "paper") == (0, f"paper -> {tmp_path}/ds/1.0.0\n")
    out = run("prune", "ds", "--keep=1", "--keep_tagged")[1]
    assert [line.split()[0] for line in out.splitlines()] == ["version", "ds:1.0.0", "ds:2.0.0", "ds:3.0.0", "1"]
    assert "; --yes removes them" in out
    assert (tmp_path / "ds/2.0.0").exists()
    out = run("list", "--versions")[1]
    [line] = [line for line in out.splitlines() if line.startswith("ds:2.0.0")]
    assert re.search(r"20\d\d-\d\d-\d\d .* UTC +train 2; train = train\+day_1:1.0.0:train; train: 1 added", line)
    out = run("list", "--versions", "--json")[1]
    assert [each["tags"] for each in json.loads(out) if each["dataset"].startswith("ds:")] == [["paper"], [], []]
    assert run("prune", "ds", "--keep=1", "--keep_tagged", "--yes")[1].splitlines()[-1].startswith("1 version, ")
    assert sorted(path.name for path in (tmp_path / "ds").iterdir()) == [".config", "1.0.0", "3.0.0"]
    assert run("prune", "ds", "--keep=1", "--keep_tagged")[1].endswith("nothing to remove\n")
    assert run("tag", "ds", "paper", "--remove") == (0, "paper is removed from 1.0.0\n")
    for args in (["prune", "ds"], ["prune", "ds", "--keep=0"], ["prune", "ds:1.0.0", "--keep=1"]):
        assert run(*args)[0] == 2


def test_prune_removes_the_statistics_of_removed_versions(tmp_path, capsys):
    """They contain values of examples, which stayed after these were deleted."""
    days(tmp_path, 3)
    for version in (1, 2, 3):
        assert main(["stats", f"ds:{version}.0.0", f"--data_dir={tmp_path}"]) == 0
    shutil.rmtree(tmp_path / "ds/1.0.0")  # as an earlier version of the library, whose statistics stayed
    saved = tmp_path / "ds/.stats"
    assert main(["prune", "ds", "--keep=1", f"--data_dir={tmp_path}"]) == 0
    out = capsys.readouterr().out
    for version in "1.0.0", "2.0.0":
        assert f"statistics of a removed version: {saved}/{version}.json, to be removed" in out
    assert f"version: {saved}/3.0.0.json" not in out
    assert main(["prune", "ds", "--keep=3", f"--data_dir={tmp_path}"]) == 0
    assert capsys.readouterr().out.endswith("\n1 file of statistics; --yes removes them\n")
    assert sorted(path.name for path in saved.iterdir()) == ["1.0.0.json", "2.0.0.json", "3.0.0.json"]
    assert main(["prune", "ds", "--keep=1", "--yes", f"--data_dir={tmp_path}"]) == 0
    assert [path.name for path in saved.iterdir()] == ["3.0.0.json"]
    assert main(["prune", "ds", "--keep=1", "--yes", f"--data_dir={tmp_path}"]) == 0
    assert capsys.readouterr().out.endswith("nothing to remove\n")
    (saved / "1.0.0.json").write_text("{}")
    assert main(["prune", "ds", "--keep=1", "--yes", f"--data_dir={tmp_path}"]) == 0
    assert capsys.readouterr().out.endswith("\n1 file of statistics, removed\n")
