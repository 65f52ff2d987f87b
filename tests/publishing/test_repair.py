"""Repairing: what is brought back is what was published, to the byte, and nothing else is changed."""

import dataclasses
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets.errors import DatasetNotFoundError, MetadataError, PathNotFoundError, StorageError
from beam_datasets.formats.index import Index
from beam_datasets.metadata.manifest import Manifest
from beam_datasets.publishing.repair import copy_file
from tests.directories import contents
from tests.facts import raises_with
from tests.published import publish_dataset, restore
from tests.verifying import corruptions

SHARD = "ds-train.tfrecord-00001-of-00004"
INDEX = f"{SHARD}.index"
ADVICE = "give one by --from, or generate a new version"


def changed(before: dict[str, bytes], after: dict[str, bytes]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


@pytest.mark.slow
@pytest.mark.parametrize("corrupt", corruptions.ALL, ids=lambda corrupt: corrupt.__name__)
def test_a_copy_brings_back_all(copy: Path, published: Path, corrupt: corruptions.Corrupt) -> None:
    whole = contents(copy)
    for seed in range(20):
        corrupt(copy, random.Random(seed))
        if bd.verify(copy).findings and "manifest.json" in bd.repair(copy, dry_run=True).refused:
            (copy / "manifest.json").write_bytes(whole["manifest.json"])  # by hand
        damaged = contents(copy)
        planned = bd.repair(copy, copy=published, dry_run=True)
        assert contents(copy) == damaged
        done = bd.repair(copy, copy=published)
        assert [step.file for step in done.steps] == [step.file for step in planned.steps]
        after = contents(copy)
        added = damaged.keys() - whole.keys()
        if corrupt is corruptions.edit_manifest_with_digest:  # it says of itself that it is the published one
            assert not changed(damaged, after) - {step.file for step in done.steps}
        else:
            assert changed(whole, after) == added, (seed, done.refused)
            assert done.after is not None
            assert {finding.file for finding in done.after.findings} == added
        restore(copy, whole)


@pytest.mark.slow
@pytest.mark.parametrize("corrupt", corruptions.ALL, ids=lambda corrupt: corrupt.__name__)
def test_without_a_copy_nothing_wrong_is_written(copy: Path, corrupt: corruptions.Corrupt) -> None:
    whole = contents(copy)
    for seed in range(40):
        corrupt(copy, random.Random(seed))
        damaged = contents(copy)
        done = bd.repair(copy)
        after, steps = contents(copy), {step.file: step for step in done.steps}
        assert changed(damaged, after) == steps.keys(), seed
        assert not any(name in steps for name in after if ".tfrecord-" in name and not name.endswith(".index"))
        for name, step in steps.items():
            if "prove" in step.message or "published one" in step.message:
                assert after[name] == whole[name], (seed, step)
        assert bd.verify(copy) == done.after
        again = bd.repair(copy)
        assert again.steps == ()  # all was done that can be
        restore(copy, whole)


def test_a_directory_that_is_no_copy(copy: Path, published: Path, tmp_path: Path) -> None:
    (copy / SHARD).unlink()
    roots = [published.parent, Path(shutil.copytree(published.parent, tmp_path / "other/ds")).parent]
    for root, below in zip(roots, ("1.0.0", "ds/1.0.0")):
        with raises_with(DatasetNotFoundError, path=str(root), advice=[f" {root / below}?"]):
            bd.repair(copy, copy=root)
        assert bd.repair(copy, copy=root / below, dry_run=True).refused == {}
    with raises_with(DatasetNotFoundError, path=str(tmp_path), advice=None):
        bd.repair(copy, copy=tmp_path)
    later = shutil.copytree(published, tmp_path / "ds/2.0.0")
    manifest = Manifest.from_text((later / "manifest.json").read_bytes(), path="m")
    (later / "manifest.json").write_text(dataclasses.replace(manifest, version="2.0.0").to_text())
    with raises_with(MetadataError, path=str(later), expected="ds:1.0.0", got="ds:2.0.0"):
        bd.repair(copy, copy=later)


def test_a_manifest_cannot_have_files_written_elsewhere(copy: Path, published: Path) -> None:
    before = contents(copy)
    for directory in (copy, shutil.copytree(published, copy.parents[2] / "other" / "ds" / "1.0.0")):
        manifest = Manifest.from_text(before["manifest.json"], path="m")
        outside = {"../../victim.txt": hashlib.sha256(b"mine").hexdigest()}
        pointing = dataclasses.replace(manifest, metadata={**manifest.metadata, **outside})
        (directory / "manifest.json").write_text(pointing.to_text())
    (directory / "../../victim.txt").write_bytes(b"mine")
    done = bd.repair(copy, copy=directory)
    assert "'../../victim.txt'" in done.before.findings[0].message
    assert not (copy / "../../victim.txt").exists()
    assert done.refused.keys() == {"manifest.json"}


def repaired(directory: Path, *files: str, **options: object) -> list[str]:
    """Repairs, and returns what was told of the steps, which are of these files."""
    done = bd.repair(directory, **options)
    assert [step.file for step in done.steps] == list(files)
    return [step.message for step in done.steps]


@pytest.mark.slow
def test_an_index_is_built_from_what_is_left_of_its_keys(copy: Path) -> None:
    whole = contents(copy)
    content = whole[INDEX]
    for place in range(48 + 8 * 15):
        (copy / INDEX).write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        assert "checksums prove it" in repaired(copy, INDEX)[0]
        assert contents(copy) == whole
    for bad in (content[40:], content + b"behind", b"before" + content):
        (copy / INDEX).write_bytes(bad)
        repaired(copy, INDEX)
        assert contents(copy) == whole


def test_an_index_without_keys_serves_all_but_find(copy: Path, published: Path) -> None:
    (copy / INDEX).unlink()
    before = contents(copy)
    (message,) = repaired(copy, INDEX)
    assert "without keys: find() needs them" in message
    assert changed(before, contents(copy)) == {INDEX}
    (finding,) = bd.verify(copy).findings
    assert (finding.file, finding.kind) == (INDEX, "keys")
    assert "it has no sort keys" in finding.message
    there, here = (bd.builder_from_directory(d) for d in (published, copy))
    assert here.digest == there.digest
    assert [e["n"] for e in here.as_dataset("train")[:]] == [e["n"] for e in there.as_dataset("train")[:]]
    with pytest.raises(MetadataError, match="no"):
        [here.as_dataset("train").find(key) for key in range(60)]
    done = bd.repair(copy)
    assert (done.steps, done.refused) == (
        (),
        {INDEX: f"its offsets serve, its keys are lost; only a good copy has them: {ADVICE}"},
    )
    repaired(copy, INDEX, copy=published)
    assert contents(copy) == contents(published)


def test_keys_that_are_positions_are_proved(ordered: Path, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(ordered, tmp_path / "ds" / "1.0.0"))
    for index in directory.glob("*.index"):
        index.unlink()
    assert len(bd.repair(directory).steps) == 6
    assert contents(directory) == contents(ordered)


def test_a_copy_of_another_dataset_is_refused(copy: Path, tmp_path: Path) -> None:
    other = publish_dataset(tmp_path / "other", ordered=True)
    corruptions.flip_in_shard(copy, random.Random(0))
    before = contents(copy)
    done = bd.repair(copy, copy=other)
    assert done.steps == ()
    advice = "give another one than this by --from, or generate a new version"
    assert set(done.refused.values()) == {f"only a good copy can restore it: {advice}"}
    assert contents(copy) == before


def test_no_copy(copy: Path, tmp_path: Path) -> None:
    with raises_with(PathNotFoundError, path=str(tmp_path / "nowhere")):
        bd.repair(copy, copy=tmp_path / "nowhere")
    with raises_with(MetadataError, path=str(copy), advice=["another copy"]):
        bd.repair(copy, copy=copy)


def test_a_damaged_copy_gives_what_is_whole_of_it(copy: Path, published: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(published, tmp_path / "other"))
    for directory, damaged in ((copy, (0, 1)), (other, (1, 2))):
        for shard in damaged:
            path = directory / f"ds-train.tfrecord-{shard:05d}-of-00004"
            path.write_bytes(b"x" + path.read_bytes()[1:])
    done = bd.repair(copy, copy=other)
    assert [step.file for step in done.steps] == ["ds-train.tfrecord-00000-of-00004"]
    assert list(done.refused) == [SHARD]
    assert done.after is not None
    assert [str(lost) for lost in done.after.lost] == ["train[15:16]"]


# ------------------------------------------------------------------------------------------------------------ writing


def test_what_is_written_is_renamed_into_its_place(copy: Path, published: Path) -> None:
    """A reader that has the damaged file open goes on with it; all other files are not even touched."""
    corruptions.cut_between_records(copy, random.Random(3))
    (damaged,) = changed(contents(published), contents(copy))
    inodes = {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in copy.iterdir()}
    with open(copy / damaged, "rb") as file:
        bd.repair(copy, copy=published)
        assert len(file.read()) < (copy / damaged).stat().st_size
    now = {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in copy.iterdir()}
    assert {name for name in now if now[name] != inodes.get(name)} == {damaged}
    assert now.keys() == inodes.keys()


def test_a_copy_that_changes_meanwhile_leaves_the_file_as_it_is(copy: Path, published: Path) -> None:
    (copy / SHARD).write_bytes(b"damaged")
    with raises_with(StorageError, path=str(published / SHARD), outcome="nothing was copied"):
        copy_file(str(published / SHARD), str(copy / SHARD), 12345)
    assert (copy / SHARD).read_bytes() == b"damaged"
    assert not list(copy.glob(".tmp-*"))


def test_a_directory_that_may_not_be_written(copy: Path, published: Path) -> None:
    (copy / SHARD).write_bytes(b"damaged")
    copy.chmod(0o500)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))  # as root may write anywhere
    try:
        with raises_with(StorageError, path=re.compile(re.escape(SHARD))):
            bd.repair(copy, copy=published)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
        copy.chmod(0o700)
    assert (copy / SHARD).read_bytes() == b"damaged"
    assert not list(copy.glob(".tmp-*"))


def test_nothing_is_done_to_a_whole_dataset(published: Path) -> None:
    before = contents(published)
    done = bd.repair(published)
    assert (done.steps, done.refused, done.before.whole) == ((), {}, True)
    assert done.after == done.before
    assert contents(published) == before


def test_flags_are_bools(published: Path) -> None:
    for name in ("dry_run", "decode"):
        with pytest.raises(TypeError, match=f"^{name} .*'no'"):
            bd.repair(published, **{name: "no"})


def test_materialized_keys_are_proved_too(copy: Path) -> None:
    """Keys of several stretches, as an index of a materialized dataset has them."""
    index = Index.from_bytes((copy / INDEX).read_bytes(), path="")
    keys = np.array(index.keys)
    keys = np.concatenate([keys[8:], keys[:8]])
    content = Index(np.array(index.offsets), keys, unsorted=True).to_bytes()
    (copy / INDEX).write_bytes(content[:41] + bytes([content[41] ^ 1]) + content[42:])
    text = json.loads((copy / "manifest.json").read_text())
    from crc32c import crc32c

    text["splits"]["train"]["index_crc32c"][1] = f"{crc32c(content):08x}"
    (copy / "manifest.json").write_text(Manifest._from_json(text).to_text())
    repaired(copy, INDEX)
    assert (copy / INDEX).read_bytes() == content


# ------------------------------------------------------------------------- what is not a file in a file's place


@pytest.mark.parametrize("with_copy", [False, True])
@pytest.mark.parametrize("file", [SHARD, INDEX, "manifest.json", "dataset_info.json", "features.json"])
def test_a_directory_in_a_files_place_keeps_nothing_else_from_repair(
    copy: Path,
    published: Path,
    file: str,
    with_copy: bool,
) -> None:
    other = "ds-train.tfrecord-00002-of-00004.index"
    (copy / other).write_bytes((copy / other).read_bytes()[:-1])
    (copy / file).unlink()
    (copy / file).mkdir()
    refusal = {file: "a directory has its name; move that away first"}
    for dry_run in (True, False):
        done = bd.repair(copy, copy=published if with_copy else None, dry_run=dry_run)
        assert ([step.file for step in done.steps], done.refused) == ([other], refusal)
    assert done.after is not None
    assert file in {finding.file for finding in done.after.findings}
    assert (copy / other).is_file()
    (copy / file).rmdir()
    if file == "manifest.json":
        shutil.copy(published / file, copy / file)
    bd.repair(copy, copy=published)
    assert contents(copy) == contents(published)


def test_keys_that_cannot_be_read_are_not_given_up(copy: Path, ordered: Path, tmp_path: Path) -> None:
    """A disk or a store that fails may serve again; what is proved is written."""
    (copy / INDEX).unlink()
    os.mkfifo(copy / INDEX)
    done = bd.repair(copy)
    assert (done.steps, done.refused) == ((), {INDEX: f"its keys cannot be read; only a good copy has them: {ADVICE}"})
    assert (copy / INDEX).is_fifo()
    directory = Path(shutil.copytree(ordered, tmp_path / "ds" / "1.0.0"))
    (directory / INDEX).unlink()
    os.mkfifo(directory / INDEX)
    repaired(directory, INDEX)
    assert contents(directory) == contents(ordered)
