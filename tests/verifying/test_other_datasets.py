"""Datasets that are not of a builder on a local disk: materialized, adopted, on an object store, of others."""

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crc32c import crc32c

import beam_datasets as bd
from beam_datasets import storage
from beam_datasets.formats import tfrecord
from beam_datasets.formats.example import serialize
from beam_datasets.formats.index import Index
from beam_datasets.metadata.manifest import Manifest
from tests.directories import contents
from tests.published import edit_json, restore, upload

EXPRESSION = "train=test+train[40:]+train[:20]"


@pytest.fixture(scope="module")
def materialized(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset whose keys begin anew, within shards and where one begins."""
    root = tmp_path_factory.mktemp("materialized")
    with pytest.warns(UserWarning, match="not in hash order"):
        made = bd.materialize(published, split=EXPRESSION, to="parts", data_dir=root, num_shards=4, num_workers=1)
    return Path(getattr(made, "dataset_dir", made))


def test_keys_begin_anew_where_the_manifest_says_and_nowhere_else(materialized: Path, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(materialized, tmp_path / "parts" / "1.0.0"))
    path = directory / "manifest.json"
    content = json.loads(path.read_text())
    keys = content["source"]["splits"]["train"]["keys"]
    starts = [start for start, _ in keys]
    assert starts == [0, 12, 32]
    assert bd.verify(directory, decode=True).whole
    for gone in (1, 2):
        content["source"]["splits"]["train"]["keys"] = [key for i, key in enumerate(keys) if i != gone]
        path.write_text(Manifest._from_json(content).to_text())
        (finding,) = bd.verify(directory).findings
        shard = int(finding.file.partition(".tfrecord-")[2][:5])
        assert (finding.kind, shard * 13 + (finding.record or 0)) == ("keys", starts[gone])


def test_one_without_keys(as_tfds: Path, tmp_path: Path) -> None:
    made = bd.materialize(as_tfds, split="train=train[:30]", to="bare", data_dir=tmp_path, num_workers=1)
    directory = Path(getattr(made, "dataset_dir", made))
    whole = contents(directory)
    assert bd.verify(directory).whole
    index = min(directory.glob("*.index"))
    index.unlink()
    assert [step.file for step in bd.repair(directory).steps] == [index.name]
    assert contents(directory) == whole


# ---------------------------------------------------------------------------------------------------------- adopted


def bare_files(directory: Path, names: list[str]) -> dict[str, Any]:
    for number, name in enumerate(names):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(tfrecord.frame(serialize({"n": [n]})) for n in (1 << 7 * number, 1, 2, 3, 4)))
    return {"n": np.int64}


@pytest.mark.parametrize(
    "names",
    [["part-00000", "part-00001", "part-00002"], ["in/x-00000-of-00002.rec", "in/x-00001-of-00002.rec"]],
    ids=str,
)
def test_an_adopted_one(tmp_path: Path, names: list[str]) -> None:
    directory = tmp_path / "files"
    features = bare_files(directory, [*names, "other.rec"])
    patterns = {"train": str(directory / names[0].replace("00000", "*")), "test": str(directory / "other.rec")}
    bd.adopt(patterns, features, name="bare")
    assert bd.verify(directory, decode=True).whole
    last = directory / names[-1]
    extra = directory / names[-1].replace(f"{len(names) - 1:05d}", f"{len(names):05d}")
    shutil.copy(last, extra)
    (finding,) = bd.verify(directory).findings
    assert (finding.file, finding.kind) == (str(extra.relative_to(directory)), "extra")
    extra.unlink()
    content = last.read_bytes()
    last.write_bytes(content[:-1] + b"x")
    last.with_name(f"{last.name}.index").unlink()
    report = bd.verify(directory)
    assert [(f.file, f.kind) for f in report.findings] == [(names[-1], "record"), (f"{names[-1]}.index", "index")]
    assert [len(lost) for lost in report.lost] == [1]
    done = bd.repair(directory)
    assert done.refused[f"{names[-1]}.index"] == "its shard must be whole first"
    last.write_bytes(content)
    assert [step.message for step in bd.repair(directory).steps] == [
        "built again from the shard and the keys that are left; checksums prove it"
    ]
    assert bd.verify(directory).whole


# ----------------------------------------------------------------------------------------------------- object stores


def test_on_an_object_store(published: Path, as_tfds: Path) -> None:
    pytest.importorskip("obstore")
    for directory in (published, as_tfds):
        url = upload(directory, f"memory://{uuid.uuid4().hex}/data/ds/1.0.0")
        assert bd.verify(url).findings == ()
        name = "ds-train.tfrecord-00002-of-00004"
        content = (directory / name).read_bytes()
        storage.write_bytes(storage.join(url, name), content[:50] + b"\x00\x01" + content[52:])
        storage.write_bytes(storage.join(url, "ds-train.tfrecord-00004-of-00005"), content)
        found = bd.verify(url).findings
        local = [(f.file, f.kind, f.record) for f in found]
        assert local == [("ds-train.tfrecord-00004-of-00005", "extra", None), (name, "record", 0)]
        done = bd.repair(url, copy=directory)
        if directory == published:
            assert [step.file for step in done.steps] == [name]
            assert storage.read_bytes(storage.join(url, name)) == content
        else:  # no manifest has its checksum
            assert "manifest.json is missing" in done.refused[name]
        storage.remove(storage.join(url, name))
        (missing,) = [f for f in bd.verify(url).findings if f.kind == "missing"]
        assert (missing.file, str(missing.lost)) == (name, "train[30:45]")


# ------------------------------------------------------------------------------------------- what other libraries make


def test_connectors_that_are_not_known(bare: Path) -> None:
    text = (bare / "features.json").read_text()
    (bare / "features.json").write_text(text.replace("core.features.text_feature.Text", "their.own.Connector"))
    for decode in (False, True):
        report = bd.verify(bare, decode=decode)
        assert report.whole, report.findings
        assert "what the features text hold: --imports the module that registers their class" in report.not_known


def test_numbers_of_bytes_with_framing(bare: Path) -> None:
    """TensorFlow Datasets counts the framing where it leaves the order of examples to chance; and sometimes nothing."""
    sizes = {split: sum(p.stat().st_size for p in bare.glob(f"ds-{split}.*")) for split in ("train", "test")}
    whole = contents(bare)
    for change, is_whole in ((0, True), (1, False), (None, True)):

        def edit(info: Any, change: int | None = change) -> None:
            for split in info["splits"]:
                split.pop("numBytes")
                if change is not None:
                    split["numBytes"] = str(sizes[split["name"]] + change)

        edit_json(bare / "dataset_info.json", edit)
        assert bd.verify(bare).whole == is_whole
        restore(bare, whole)


def test_shards_of_alternative_formats_are_not_too_many(bare: Path) -> None:
    (bare / "ds-train.array_record-00000-of-00001").touch()
    (bare / "stats.json").touch()
    (bare / "notes").mkdir()
    assert [finding.file for finding in bd.verify(bare).findings] == ["ds-train.array_record-00000-of-00001"]
    edit_json(bare / "dataset_info.json", lambda info: info.update(alternativeFileFormats=["array_record"]))
    assert bd.verify(bare).whole


def test_an_index_that_was_published_wrong(copy: Path) -> None:
    """All checksums fit, but the index does not fit its shard."""
    shard = "ds-train.tfrecord-00001-of-00004"
    index = Index.from_bytes((copy / f"{shard}.index").read_bytes(), path="")
    offsets = np.array(index.offsets)
    offsets[3] += 1
    content = Index(offsets, np.array(index.keys)).to_bytes()
    (copy / f"{shard}.index").write_bytes(content)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["splits"]["train"]["index_crc32c"][1] = f"{crc32c(content):08x}"
    (copy / "manifest.json").write_text(Manifest._from_json(manifest).to_text())
    (finding,) = bd.verify(copy).findings
    assert (finding.file, finding.kind, finding.record) == (f"{shard}.index", "index", 3)
    assert "by the index record 3 begins at byte 289, in the shard at 288" in finding.message
