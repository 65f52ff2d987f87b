"""The versions that a job reads: their description in a lineage, and the check that they are unchanged."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from beam_datasets import catalog, storage
from beam_datasets.errors import BeamDatasetsError
from beam_datasets.metadata.info import INFO_FILE
from beam_datasets.metadata.lineage import Lineage, SourceDataset
from beam_datasets.reading.opening import ReadOnlyBuilder, builder_from_directory


def described(builder: ReadOnlyBuilder) -> SourceDataset:
    """Returns the description of a source for a manifest, without its directory, so that it is equal for copies."""
    name, manifest = (builder.name, builder.config_name, str(builder.version)), builder.manifest
    if manifest is not None:
        return SourceDataset(*name, manifest.digest, "manifest", manifest.source)
    digest = hashlib.sha256()
    for file in (INFO_FILE, catalog.FEATURES_FILE, *sorted(builder.info.features.label_files())):
        digest.update(storage.read_bytes(storage.join(builder.dataset_dir, file)))
    return SourceDataset(*name, digest.hexdigest(), "metadata")


def check_unchanged(sources: Iterable[str], lineage: Lineage) -> None:
    """Checks that the directories of sources still contain the versions of a lineage, in its order.

    Raises:
        BeamDatasetsError: a version was built again in the meantime, so the records that were read may be of either.
    """
    for directory, planned_source in zip(sources, lineage.datasets, strict=True):
        digest = described(builder_from_directory(directory)).digest
        if digest != planned_source.digest:
            raise BeamDatasetsError(
                expected=f"{planned_source.full_name} with the digest {planned_source.digest}",
                got=f"{digest}: it was built again while it was read",
                path=directory,
                outcome="nothing was published",
                advice="Run it again.",
            )
