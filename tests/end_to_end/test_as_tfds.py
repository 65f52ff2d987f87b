"""From the same inputs the same datasets as TensorFlow Datasets wrote: each record in its place, small files alike."""

import hashlib
import json
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from beam_datasets.formats import tfrecord
from beam_datasets.metadata.shards import shard_ends
from tests.end_to_end.spec_datasets import BEAM_DATASETS, DATASETS, TFDS_DATA

OURS = (".index", "manifest.json", "run.json")


def record_hashes(path: Path) -> list[str]:
    """Returns the first 16 digits of the sha256 of each record, as the dumps have them."""
    data = path.read_bytes()
    records = tfrecord.unframe(data, tfrecord.scan(data, path=str(path)), path=str(path))
    return [hashlib.sha256(record).hexdigest()[:16] for record in records]


def dump_of(place: str) -> dict:
    return json.loads((TFDS_DATA / f"{place.replace('/', '__')}.dump.json").read_text())


def without_module(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if '"moduleName"' not in line)


@pytest.mark.parametrize("builder, arguments, num_shards, place", DATASETS, ids=[d[3] for d in DATASETS])
def test_the_same_directory(tmp_path, builder, arguments, num_shards, place):
    made = Path(builder(data_dir=tmp_path, **arguments).build(num_shards=num_shards, num_workers=1))
    assert made == tmp_path / place
    theirs, dump = TFDS_DATA / place, dump_of(place)
    files = sorted(path.name for path in made.iterdir() if not path.name.endswith(OURS))
    assert files == dump["files"]
    assert {name: record_hashes(made / name) for name in dump["records"]} == dump["records"]
    for name in set(files) - dump["records"].keys():
        assert without_module((made / name).read_text()) == without_module((theirs / name).read_text()), name


@pytest.mark.parametrize("builder, num_shards, place", BEAM_DATASETS, ids=[d[2] for d in BEAM_DATASETS])
def test_the_same_order_as_the_beam_writer(tmp_path, builder, num_shards, place):
    made = Path(builder(data_dir=tmp_path).build(num_shards=num_shards, num_workers=1))
    dump = dump_of(place)
    ours = {
        path.name: record_hashes(path)
        for path in sorted(made.iterdir())
        if "tfrecord" in path.name and path.suffix != ".index"
    }
    for split in dump["splits"]:
        mine = [hashes for name, hashes in ours.items() if f"-{split}." in name]
        theirs = [hashes for name, hashes in sorted(dump["records"].items()) if f"-{split}." in name]
        in_order = list(chain(*mine))
        assert in_order == list(chain(*theirs))
        assert np.cumsum([len(hashes) for hashes in mine]).tolist() == shard_ends(len(in_order), len(mine))
