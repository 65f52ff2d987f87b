"""What a finding says: the file, the byte, the record, and the examples that are lost."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets.errors import DatasetNotFoundError, MetadataError
from beam_datasets.formats import tfrecord
from beam_datasets.metadata.manifest import Manifest
from beam_datasets.verifying import Finding, Lost, Report, scan
from beam_datasets.verifying import report as report_module
from tests.directories import contents
from tests.facts import raises_with
from tests.published import edit_json, restore
from tests.verifying import corruptions

SHARD = "ds-train.tfrecord-00001-of-00004"
SHORT = "ds-test.tfrecord-00001-of-00002"


def one(directory: Path, **options: object) -> Finding:
    """The only finding."""
    findings = bd.verify(directory, **options).findings
    assert len(findings) == 1, findings
    return findings[0]


def bounds(path: Path) -> list[int]:
    return [int(offset) for offset in tfrecord.scan(path.read_bytes(), path=str(path))]


def damage(path: Path, *places: int) -> None:
    content = bytearray(path.read_bytes())
    for place in places:
        content[place] ^= 0x10
    path.write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize("indexed", [True, False])
def test_each_flipped_byte_of_a_shard_is_of_one_record(request: pytest.FixtureRequest, indexed: bool) -> None:
    """Without an index, what is behind a bad length is lost."""
    directory: Path = request.getfixturevalue("copy" if indexed else "bare")
    path, whole = directory / SHORT, contents(directory)
    ends = bounds(path)
    for place in range(ends[-1]):
        damage(path, place)
        record = int(np.searchsorted(ends, place, side="right")) - 1
        finding, loses_rest = one(directory), not indexed and place - ends[record] < 12
        assert (finding.file, finding.offset, finding.record) == (SHORT, ends[record], record), place
        assert finding.lost == Lost("test", 6 + record, 12 if loses_rest else 7 + record)
        assert ("the rest of the file is lost" in finding.message) == loses_rest
        restore(directory, whole)


@pytest.mark.slow
def test_each_cut_of_a_shard_loses_what_is_behind_it(copy: Path) -> None:
    path = copy / SHORT
    content, ends = path.read_bytes(), bounds(path)
    for size in range(len(content)):
        path.write_bytes(content[:size])
        record = int(np.searchsorted(ends, size, side="right")) - 1
        finding = one(copy)
        assert (finding.kind, finding.offset, finding.record) == ("cut", ends[record], record), size
        assert finding.lost == Lost("test", 6 + record, 12)


def test_neighbours_are_one_stretch(copy: Path) -> None:
    ends = bounds(copy / SHARD)
    damage(copy / SHARD, ends[3] + 20, ends[4] + 20, ends[5] + 20, ends[9] + 20)
    report = bd.verify(copy)
    assert [(f.offset, f.record, str(f.lost)) for f in report.findings] == [
        (ends[3], 3, "train[18:21]"),
        (ends[9], 9, "train[24:25]"),
    ]
    assert "(the first of 3 records)" in report.findings[0].message
    assert (report.num_lost, list(map(str, report.lost))) == (4, ["train[18:21]", "train[24:25]"])


def test_so_many_stretches_are_told_apart(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_MAX_DAMAGES", 3)
    ends = bounds(copy / SHARD)
    damage(copy / SHARD, *(ends[i] + 20 for i in range(0, 14, 2)))
    report = bd.verify(copy)
    assert list(map(str, report.lost)) == ["train[15:16]", "train[17:18]", "train[19:28]"]
    assert "reported as one range" in report.findings[-1].message


@pytest.mark.parametrize("read_bytes", [1, 100, 300, 1 << 20])
def test_what_is_read_at_a_time_changes_nothing(copy: Path, monkeypatch: pytest.MonkeyPatch, read_bytes: int) -> None:
    ends = bounds(copy / SHARD)
    damage(copy / SHARD, ends[3] + 20, ends[7] + 2, ends[14] + 20)
    whole = bd.verify(copy).findings
    monkeypatch.setattr(scan, "READ_BYTES", read_bytes)
    assert bd.verify(copy).findings == whole
    assert [str(finding.lost) for finding in whole] == ["train[18:19]", "train[22:23]", "train[29:30]"]


def test_a_record_that_is_whole_but_not_the_published_one(copy: Path) -> None:
    path = copy / SHARD
    content, ends = path.read_bytes(), bounds(path)
    path.write_bytes(content[: ends[3]] + content[ends[4] : ends[5]] + content[ends[3] : ends[4]] + content[ends[5] :])
    finding = one(copy)
    assert (finding.file, finding.kind, finding.offset, str(finding.lost)) == (SHARD, "replaced", None, "train[15:30]")
    assert "The records are whole, but not all are the published ones" in finding.message


@pytest.mark.parametrize("change", [-1, 7])
def test_a_shard_of_another_size_is_blamed_alone(copy: Path, change: int) -> None:
    """Its records are as many, so that only their bytes tell: the total is as it was published."""
    content = corruptions.records(copy / SHARD)
    content[4] = content[4][:change] if change < 0 else content[4] + bytes(change)
    corruptions.write_records(copy / SHARD, content)
    finding = one(copy)
    assert (finding.file, finding.kind, str(finding.lost)) == (SHARD, "replaced", "train[15:30]")


def test_a_total_that_no_shard_explains_is_blamed_beside_a_replaced_one(copy: Path) -> None:
    shutil.copy(copy / "ds-train.tfrecord-00003-of-00004", copy / SHARD)
    manifest = Manifest.from_text((copy / "manifest.json").read_bytes(), path="")
    content = json.loads(manifest.to_text())
    content["splits"]["train"]["num_bytes"][0] += 5
    (copy / "manifest.json").write_text(Manifest._from_json(content).to_text())
    found = {finding.file: finding for finding in bd.verify(copy).findings}
    assert found.keys() == {SHARD, "manifest.json", "dataset_info.json"}
    total = sum(manifest.splits["train"].num_bytes)
    assert f"has {total} bytes of records, but by the file it has {total + 5}" in found["manifest.json"].message


def test_what_follows_the_last_record(copy: Path) -> None:
    path = copy / SHARD
    content = path.read_bytes()
    for more, message in ((b"x" * 5, "5 bytes follow"), (tfrecord.frame(b"xyz"), "1 records follow")):
        path.write_bytes(content + more)
        finding = one(copy)
        assert (finding.kind, finding.record, finding.lost) == ("size", 15, None)
        assert message in finding.message


def test_an_index_says_why(copy: Path) -> None:
    path = copy / f"{SHARD}.index"
    content = path.read_bytes()
    cases = {
        content[:100]: ("index", "has 100 bytes"),
        content[:-1]: ("index", "an index of 15 records has"),
        b"x" + content[1:]: ("index", "is not an index"),
        content[:60] + b"\xff" + content[61:]: ("index", "CRC of the offsets"),
        content[:-1] + bytes([content[-1] ^ 1]): ("keys", "CRC of the keys"),
        (copy / "ds-test.tfrecord-00000-of-00002.index").read_bytes(): ("index", "its CRC-32C is"),
    }
    for bad, (kind, message) in cases.items():
        path.write_bytes(bad)
        finding = one(copy)
        assert (finding.file, finding.kind, finding.lost) == (path.name, kind, None)
        assert message in finding.message
        assert str(copy) not in str(finding)
    path.unlink()
    assert one(copy).message == "the file does not exist"


def test_features_of_another_dataset(bare: Path) -> None:
    tree = bd.features.FeaturesDict({"n": np.int64, "tag": bd.features.Text()})
    (bare / "features.json").write_text(bd.features.to_json_text(tree))
    report = bd.verify(bare)
    assert {(f.kind, f.record, f.lost) for f in report.findings} == {("example", 0, None)}
    assert "it has label, text, values, which the features do not name, and not tag" in report.findings[0].message


def test_decoding_finds_what_parses_and_does_not_decode(bare: Path) -> None:
    (bare / "label.labels.txt").unlink()
    edit_json(
        bare / "features.json",
        lambda tree: tree["featuresDict"]["features"]["values"]["sequence"].update(length="5"),  # type: ignore[index]
    )
    report = bd.verify(bare, decode=True)
    assert len(report.findings) == 6
    assert "does not fit the features: values" in report.findings[0].message
    assert "(the first of 15 records)" in report.findings[0].message


def test_an_edited_label_file(copy: Path, bare: Path) -> None:
    (copy / "label.labels.txt").write_text("even\nuneven\n")
    assert one(copy).file == "label.labels.txt"
    (bare / "label.labels.txt").write_text("even\nodd\nneither\n")
    assert "has 3 names for the 2 classes" in one(bare).message


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["dataset_info.json", "features.json", "label.labels.txt", "manifest.json", f"{SHORT}.index"]
)
def test_each_byte_of_another_file_is_blamed_on_that_file_alone(copy: Path, name: str) -> None:
    path = copy / name
    content = path.read_bytes()
    for place in range(len(content)):
        for size, bit in ((len(content), 1 << place % 7), (place, 0))[: 2 if place % 5 == 0 else 1]:
            damaged = bytearray(content[:size])
            if bit:
                damaged[place] ^= bit
            path.write_bytes(damaged)
            assert one(copy).file == name, (place, bit)


def test_small_files_that_are_gone(copy: Path) -> None:
    whole = contents(copy)
    kinds = {"dataset_info.json": "missing", "features.json": "missing", "label.labels.txt": "missing"}
    for name, kind in {**kinds, "manifest.json": "manifest"}.items():
        (copy / name).unlink()
        finding = one(copy)
        assert (finding.file, finding.kind) == (name, kind)
        restore(copy, whole)
    for name in ("manifest.json", "dataset_info.json"):
        (copy / name).unlink()
    report = bd.verify(copy)
    assert [finding.file for finding in report.findings] == ["manifest.json", "dataset_info.json"]
    assert report.num_records == 72  # the files' names say which shards there are
    assert any("how many examples" in text for text in report.not_known)


def test_no_dataset(tmp_path: Path) -> None:
    with raises_with(DatasetNotFoundError, path=str(tmp_path / "nowhere")):
        bd.verify(tmp_path / "nowhere")
    with raises_with(DatasetNotFoundError, path=str(tmp_path), mentions=["dataset_info.json"]):
        bd.verify(tmp_path)
    (tmp_path / "ds-train.tfrecord-00000-of-00001").touch()
    with raises_with(ValueError, mentions=["jobs must", "1", "got 0"]):
        bd.verify(tmp_path, jobs=0)
    with raises_with(TypeError, mentions=["decode", "'no'"]):
        bd.verify(tmp_path, decode="no")  # type: ignore[arg-type]


def test_another_format(bare: Path) -> None:
    edit_json(bare / "dataset_info.json", lambda info: info.update(fileFormat="array_record"))
    with raises_with(MetadataError, path=str(bare), expected=["tfrecord"], got="array_record"):
        bd.verify(bare)


@pytest.mark.parametrize("has_manifest", [True, False])
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["directory", "FIFO"])
def test_what_is_no_file_in_the_place_of_an_index(
    copy: Path, make: Callable[[Path], object], has_manifest: bool
) -> None:
    """Nothing of it was read, so no checksum is told."""
    if not has_manifest:
        (copy / "manifest.json").unlink()
    index = f"{SHARD}.index"
    (copy / index).unlink()
    make(copy / index)
    (finding,) = [finding for finding in bd.verify(copy).findings if finding.kind != "manifest"]
    what = "Is a directory" if make is Path.mkdir else "it is not a regular file but a FIFO (a named pipe)"
    assert str(finding) == f"{index}: unreadable: {what}"
    assert finding.lost is None


def test_huge_numbers_allocate_nothing(bare: Path) -> None:
    edit_json(
        bare / "dataset_info.json",
        lambda info: info["splits"][0]["shardLengths"].__setitem__(0, str(1 << 58)),  # type: ignore[index]
    )
    assert any(str(1 << 58) in finding.message for finding in bd.verify(bare).findings)


def test_any_number_of_jobs_finds_the_same(published: Path) -> None:
    assert len({repr(bd.verify(published, jobs=jobs)) for jobs in (1, 2, 5, None)}) == 1


def test_one_job_per_core_that_the_process_may_use(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container or `taskset` gives fewer cores than the machine has."""

    def refuse(*arguments: object) -> None:
        raise AssertionError("expected no threads")

    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(report_module, "usable_cores", lambda: 1)
    monkeypatch.setattr(report_module, "ThreadPoolExecutor", refuse)
    assert bd.verify(published).whole


def test_a_report_is_json(copy: Path) -> None:
    damage(copy / SHARD, 30)
    report = bd.verify(copy)
    content = json.loads(json.dumps(report.to_json()))
    assert Report.from_json(content) == report
    assert (content["whole"], content["lost"], content["examples_lost"]) == (False, ["train[15:16]"], 1)
    assert content["findings"][0]["remedy"].startswith("--repair --from COPY")


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30), st.integers(1, 9))))
def test_lost_ranges_are_a_union(ranges: list[tuple[str, int, int]]) -> None:
    findings = tuple(Finding("f", None, None, "record", "", Lost(s, a, a + n)) for s, a, n in ranges)
    report = Report("", "", findings, (), 0, 0, 0)
    expected = {(split, i) for split, start, count in ranges for i in range(start, start + count)}
    united = [(lost.split, i) for lost in report.lost for i in range(lost.start, lost.stop)]
    assert sorted(united) == sorted(expected)
    assert report.num_lost == len(expected)


@pytest.mark.parametrize("text", ["[]", '[["a", 1]]', '"ab"', "{"])
def test_metadata_of_the_author_that_are_no_object(copy: Path, text: str) -> None:
    (copy / "manifest.json").unlink()
    (copy / "metadata.json").write_text(text)
    messages = [finding.message for finding in bd.verify(copy).findings if finding.file == "metadata.json"]
    assert messages
    assert all("it is not a JSON object" in message for message in messages)
