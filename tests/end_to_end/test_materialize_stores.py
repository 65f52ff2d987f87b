"""Slices from and to object stores: the same bytes as on a disk, and ranges of what is needed only."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

import beam_datasets as bd
from beam_datasets import storage
from beam_datasets.materializing import records
from tests.end_to_end.numbers_dataset import Numbers
from tests.engines.object_stores import ObjectStore, object_store
from tests.engines.test_object_stores import digests, use

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("obstore")
WAYS: dict[str, dict[str, Any]] = {
    "copy": {},
    "filter": {"filter": lambda example: bool(example["id"] % 3)},
    "reshuffle": {"reshuffle": "x", "features": ["id"]},
}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with object_store("s3", tmp_path) as running:
        use(running, monkeypatch)
        yield running


@pytest.fixture
def flaky(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with object_store("s3", tmp_path, fail=0.1, stall=0.005) as running:
        use(running, monkeypatch)
        yield running


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> str:
    builder = Numbers(data_dir=tmp_path_factory.mktemp("local"), count=1000)
    return builder.build(num_shards={"train": 4, "test": 2}, num_workers=1)


def run(source: str, data_dir: str, way: str, **options: Any) -> str:
    """Materializes, and returns the directory. Expects a warning that a split of two parts is not in hash order."""
    slices = {"a": "train[10%:60%]+test", "b": "train[90%:]"}
    kept: Any = pytest.warns(UserWarning, match="not in hash order")
    with contextlib.nullcontext() if "reshuffle" in WAYS[way] else kept:
        return bd.materialize(
            source, split=slices, to="made", data_dir=data_dir, num_shards={"a": 3}, **WAYS[way], **options
        )


def upload(local: str, store: ObjectStore) -> str:
    """Returns the directory of a copy in a store."""
    remote = f"{store.url}/data/numbers/1.0.0"
    for name in storage.list_dir(local):
        storage.write_bytes(f"{remote}/{name}", storage.read_bytes(f"{local}/{name}"))
    return remote


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_the_bytes_are_those_of_a_local_disk(
    store: ObjectStore, local: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(records, "REMOTE_CHUNK", 50_000)
    remote = upload(local, store)
    expected = digests(run(local, str(tmp_path / "expected"), way, num_workers=1))
    assert digests(run(remote, f"{store.url}/out", way, num_workers=2)) == expected
    assert digests(run(remote, str(tmp_path / "down"), way, num_workers=1)) == expected
    assert digests(run(local, f"{store.url}/up", way, num_workers=1)) == expected
    assert storage.list_dir(f"{store.url}/out/made") == ["1.0.0"]
    with pytest.raises(bd.errors.AlreadyPublishedError):
        run(remote, f"{store.url}/out", way)
    with pytest.raises(bd.errors.BeamDatasetsError, match="is the source itself"):
        bd.materialize("numbers", data_dir=f"{store.url}/data")


@pytest.mark.slow
def test_an_unreliable_store_loses_nothing(flaky: ObjectStore, local: str, tmp_path: Path) -> None:
    made = run(upload(local, flaky), f"{flaky.url}/out", "filter", num_workers=2)
    assert digests(made) == digests(run(local, str(tmp_path), "filter", num_workers=1))
