"""`ShardFile` against an index and checksums that are made of the whole content."""

import numpy as np
import pytest

from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import Index
from beam_datasets.native import crc32c
from beam_datasets.publishing.shard_file import ShardFile, WrittenShard

RECORDS = [b"", b"one", b"a longer record", b"x" * 1000]
FRAMED = [tfrecord.frame(record) for record in RECORDS]
SIZES = np.array([len(framed) for framed in FRAMED])
KEYS = np.arange(64, dtype=np.uint8).reshape(4, 16)


def write_in_parts(path, **options):
    """Returns the shard of all records: written by two calls that cut a record, indexed by two others."""
    content = b"".join(FRAMED)
    with ShardFile(str(path), **options) as shard_file:
        shard_file.add_to_index(SIZES[:1], KEYS[:1])
        shard_file.write([content[:20], content[20:30]])
        shard_file.write([content[30:]])
        shard_file.add_to_index(SIZES[1:].astype(np.uint32), KEYS[1:])
    return shard_file.finish("train", 3, part=1)


def test_what_is_written_does_not_depend_on_how_it_is_divided(tmp_path):
    path = tmp_path / "shard"
    shard = write_in_parts(path)
    assert path.read_bytes() == b"".join(FRAMED)
    index = (tmp_path / "shard.index").read_bytes()
    assert index == Index(np.cumsum([0, *SIZES]), KEYS).to_bytes()
    num_bytes, file_bytes = sum(map(len, RECORDS)), sum(map(len, FRAMED))
    sums = crc32c(path.read_bytes()), crc32c(index)
    assert shard == WrittenShard("train", 3, 1, str(path), 4, num_bytes, file_bytes, *sums)


def test_only_the_index_of_a_file_that_exists_is_written(tmp_path):
    written = write_in_parts(tmp_path / "written")
    path = tmp_path / "there"
    path.write_bytes(b"".join(FRAMED))
    path.chmod(0o444)
    shard = write_in_parts(path, exists=True)
    assert (shard.crc32c, shard.index_crc32c) == (written.crc32c, written.index_crc32c)
    assert path.stat().st_mode & 0o777 == 0o444


def test_copied_files_are_concatenated(tmp_path):
    write_in_parts(tmp_path / "part")
    with ShardFile(str(tmp_path / "joined")) as joined:
        for _ in range(2):
            joined.copy(str(tmp_path / "part"))
            joined.add_to_index(SIZES, None)
    shard = joined.finish("train", 0)
    assert (tmp_path / "joined").read_bytes() == b"".join(FRAMED * 2)
    index = Index.from_bytes((tmp_path / "joined.index").read_bytes(), path="joined.index")
    assert (len(index), index.keys, shard.num_examples) == (8, None, 8)
    assert shard.crc32c == crc32c(b"".join(FRAMED * 2))


def test_an_error_leaves_no_file(tmp_path):
    with pytest.raises(BufferError), ShardFile(str(tmp_path / "shard")) as shard_file:
        shard_file.write([*FRAMED, memoryview(b"x" * 9)[::2]])
    assert not list(tmp_path.iterdir())


def test_a_shard_without_records_has_an_index(tmp_path):
    with ShardFile(str(tmp_path / "shard")) as shard_file:
        pass
    shard = shard_file.finish("train", 0)
    assert (shard.num_examples, shard.num_bytes, shard.file_bytes, shard.crc32c) == (0, 0, 0, 0)
    assert (tmp_path / "shard.index").read_bytes() == Index([0]).to_bytes()


def test_a_linked_shard_has_the_same_files(tmp_path):
    shard = write_in_parts(tmp_path / "shard")
    linked = shard.linked(str(tmp_path / "linked"))
    assert linked.path == str(tmp_path / "linked")
    for suffix in ("", ".index"):
        assert (tmp_path / f"linked{suffix}").samefile(tmp_path / f"shard{suffix}")
