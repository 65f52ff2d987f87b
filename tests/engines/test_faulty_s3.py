"""Reading from a real S3 server through a proxy that damages, cuts, drops and delays answers, with a cache."""

from pathlib import Path

import pytest

import beam_datasets as bd
from beam_datasets.storage import caching
from tests.cases import repeated
from tests.end_to_end.numbers_dataset import Numbers
from tests.engines.object_stores import faulty, forget_options, use, versity_store, versitygw
from tests.published import upload

pytest.importorskip("obstore")
READS = repeated(50)


def records(directory: str, seed: int) -> list[bytes]:
    dataset = bd.builder_from_directory(directory).as_dataset("train").raw()
    return list(dataset.shuffle(seed) if seed else dataset)


@pytest.mark.slow
def test_reads_through_a_faulty_proxy_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the cache that they leave has nothing of what was damaged on the way."""
    program = versitygw(build=True)
    if program is None:
        pytest.skip("versitygw needs Go")
    monkeypatch.setattr(caching, "PIECE_BYTES", 2000)
    cache = tmp_path / "cache"
    monkeypatch.setenv("BEAM_DATASETS_CACHE_DIR", str(cache))
    local = Numbers(data_dir=tmp_path / "data", count=300).build(num_shards={"train": 3, "test": 1}, num_workers=1)
    expected = [records(local, seed) for seed in range(3)]
    with versity_store(program, tmp_path) as store:
        use(store, monkeypatch)
        remote = upload(Path(local), f"{store.url}/numbers/1.0.0")
        with faulty(store, tmp_path, damage=0.1) as proxy:
            use(proxy, monkeypatch)
            for number in range(READS):
                assert records(remote, number % 3) == expected[number % 3]
                for piece in sorted(cache.glob("*/*-*"))[number % 2 :: 2]:  # so that the store is asked again
                    piece.unlink()
            assert records(remote, 0) == expected[0]
            pieces = {piece: piece.read_bytes() for piece in cache.glob("*/*-*")}
            assert pieces
        use(store, monkeypatch)
        for seed in range(3):
            assert records(remote, seed) == expected[seed]
        assert all(piece.read_bytes() == content for piece, content in pieces.items())  # they were read, not fetched
    forget_options()
