"""Publishes a kept result as another version, because its own version was too low for its changes."""

from __future__ import annotations

from dataclasses import replace

from beam_datasets import storage
from beam_datasets.errors import StorageError
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.metadata.inputs import Inheritance
from beam_datasets.metadata.manifest import MANIFEST_FILE, Manifest
from beam_datasets.metadata.version import Version, VersionOrStr
from beam_datasets.options import ShardingOptions
from beam_datasets.publishing import compatibility, staged_files
from beam_datasets.publishing.content import ContentCounts, SplitCounts, kept_shards
from beam_datasets.publishing.phases import publish, staging
from beam_datasets.publishing.publication import Publication, Workers, announce
from beam_datasets.publishing.runs import RESULT_DIR


def publish_as(result_dir: str, version: VersionOrStr) -> str:
    """Publishes a result that was kept because its version was too low for its changes, as another version.

    Shards are unchanged; metadata and manifest are written again.

    Args:
        result_dir: directory of the result, as the error named it.
        version: the new number.

    Returns:
        The directory of the published version, next to the directory of the rejected one.

    Raises:
        AlreadyPublishedError: the version is published, or another run holds it.
        StorageError: `result_dir` is not the directory of such a result.
        VersionError: the number is too low for how the examples differ from those of the version published before it.
    """
    from beam_datasets.reading.opening import builder_from_directory

    result = storage.normalize(result_dir)
    root = storage.dirname(result) if storage.basename(result) == RESULT_DIR else result
    path = storage.join(result, MANIFEST_FILE)
    if not storage.basename(root).startswith("incomplete.") or not storage.exists(path):
        raise StorageError(
            f"expected a result that was kept, in incomplete.* and with {MANIFEST_FILE}",
            path=result,
            advice="Give the directory that the error of the refused run names; `beam-datasets gc DATA_DIR` lists the "
            "directories that are kept.",
        )
    manifest = Manifest.from_text(storage.read_bytes(path), path=path)
    info = builder_from_directory(result).info
    publication = _announce_renumbered(info, storage.join(storage.dirname(root), str(Version(version))), manifest)
    compatibility.check_number(publication.target, result)
    columns = {split: manifest.splits[split] for split in info.splits}  # the manifest has them by name
    shards = [shard for split in columns for shard in kept_shards(manifest.name, split, columns[split])]
    with staging(publication):
        folder = staged_files.new_dir(publication.staging_dir)
        for shard in shards:
            for name in (shard.path, f"{shard.path}.index"):
                staged_files.link_or_copy(storage.join(result, name), storage.join(folder, name))
        staged = [replace(shard, path=storage.join(folder, shard.path)) for shard in shards]
        counts = [SplitCounts(split, c.num_shards, sum(c.num_examples)) for split, c in columns.items()]
        directory = publish(replace(publication, inheritance=Inheritance([result])), ContentCounts(counts), staged)
    storage.remove_tree(root)
    return directory


def _announce_renumbered(info: DatasetInfo, dataset_dir: str, manifest: Manifest) -> Publication:
    """Announces a complete result under the version that a directory names; returns the publication.

    Args:
        info: description of the result.
        dataset_dir: directory of the new version; its base name is the version.
        manifest: manifest of the result.
    """
    publication = announce(
        info.replace(version=Version(storage.basename(dataset_dir)), data_dir=dataset_dir),
        dataset_dir,
        workers=Workers(name=""),
        sharding=ShardingOptions(),
        builder=manifest.builder,
        source=manifest.source,
    )
    return replace(publication, options=manifest.options)
