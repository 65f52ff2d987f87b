"""A process that publishes a small version by the phases that the Beam stages call; races and kills start many."""

import os
import sys
from collections.abc import Mapping
from typing import Any

import crc32c

from beam_datasets import catalog, storage
from beam_datasets.errors import AlreadyPublishedError
from beam_datasets.metadata.manifest import MANIFEST_FILE, RUN_FILE, Manifest
from beam_datasets.metadata.names import FilenameTemplate
from beam_datasets.publishing import phases
from tests.publishing.publications import announced, staged

REFUSED = 3
"""Exit code: another run has published, or is publishing."""

VERSION = "1.0.0"


def run(data_dir: str, env: Mapping[str, str], count: int, ready: Any = None) -> None:
    """Publishes `ds` with this many examples, in a shard for each five; exits with `REFUSED` if that is refused.

    Args:
        data_dir: root of the datasets.
        env: environment variables that lead to the store.
        count: number of examples.
        ready: a barrier at which the processes of a race wait for each other.
    """
    os.environ.update(env)
    if ready is not None:
        ready.wait()
    try:
        publish_numbers(data_dir, count)
    except AlreadyPublishedError:
        sys.exit(REFUSED)


def publish_numbers(data_dir: str, count: int) -> None:
    """Publishes `ds` with this many examples."""
    publication = announced(data_dir, num_shards=count // 5)
    with phases.staging(publication):
        phases.publish(publication, *staged(publication, count))


def check_version(data_dir: str, name: str = "ds") -> bool:
    """Returns whether a dataset is published, after checking its files with the checksums of its manifest."""
    place = storage.join(data_dir, name, VERSION)
    if not catalog.is_published(place):
        return False
    manifest = Manifest.from_text(storage.read_bytes(storage.join(place, MANIFEST_FILE)), path=place)
    wanted = {MANIFEST_FILE, RUN_FILE, *manifest.metadata}
    for split, columns in manifest.splits.items():
        for number, shard_name in enumerate(FilenameTemplate(manifest.name, split).filenames(columns.num_shards)):
            shard, index = (storage.read_bytes(storage.join(place, f"{shard_name}{end}")) for end in ("", ".index"))
            sums = columns.file_bytes[number], columns.crc32c[number], columns.index_crc32c[number]
            assert (len(shard), crc32c.crc32c(shard), crc32c.crc32c(index)) == sums, f"{place}: {shard_name}"
            wanted |= {shard_name, f"{shard_name}.index"}
    assert wanted == set(storage.list_dir(place)), place
    return True
