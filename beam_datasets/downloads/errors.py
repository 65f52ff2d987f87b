"""The error of downloads and archives."""

from __future__ import annotations

from beam_datasets.errors import BeamDatasetsError


class DownloadError(BeamDatasetsError):
    """A file could not be fetched, is not the one that was recorded, or is not an archive that can be unpacked."""
