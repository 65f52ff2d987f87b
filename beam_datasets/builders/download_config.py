"""Options of generating a dataset, under the names of TensorFlow Datasets."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

BUILD_OPTIONS = (
    "num_shards", "min_shard_size", "max_shard_size", "max_examples_per_split", "ignore_duplicates", "beam_options",
    "manual_dir", "register_checksums", "verify_ssl",
)  # fmt: skip
"""Fields of `DownloadConfig` that are arguments of `DatasetBuilder.build` under the same names."""


@dataclass
class DownloadConfig:
    """Options of generating a dataset, under the names of TensorFlow Datasets; see `DatasetBuilder.build`.

    Attributes:
        manual_dir: directory of files that the user must download by hand.
        extract_dir: has no meaning here: archives are unpacked in the download directory.
        register_checksums: the checksums of downloads are recorded instead of checked.
        force_checksums_validation: a download without recorded checksum is an error.
        verify_ssl: whether certificates of servers are verified.
        override_max_simultaneous_downloads: maximum number of simultaneous downloads; None for the builder's
            MAX_SIMULTANEOUS_DOWNLOADS.
        try_download_gcs: has no meaning here: nothing is taken from the bucket of TensorFlow Datasets.
        num_shards, min_shard_size, max_shard_size, max_examples_per_split, ignore_duplicates, beam_options: see
            `DatasetBuilder.build`.
        download_mode, compute_stats, beam_runner, nondeterministic_order: not supported; any value that is true raises
            an error that names the replacement.

    Raises:
        ValueError: one of the unsupported options is given.
    """

    manual_dir: str | os.PathLike[str] | None = None
    extract_dir: str | os.PathLike[str] | None = None
    register_checksums: bool = False
    force_checksums_validation: bool = False
    verify_ssl: bool = True
    override_max_simultaneous_downloads: int | None = None
    try_download_gcs: bool = False
    num_shards: int | None = None
    min_shard_size: int | None = None
    max_shard_size: int | None = None
    max_examples_per_split: int | None = None
    ignore_duplicates: bool = False
    beam_options: Any = None
    download_mode: Any = None
    compute_stats: Any = None
    beam_runner: Any = None
    nondeterministic_order: bool = False

    def __post_init__(self) -> None:
        """Checks the fields.

        Raises:
            ValueError: a field has a value for which this package has no equivalent.
        """
        for name, instead in {
            "download_mode": "build(overwrite=True) replaces a published version",
            "compute_stats": "use `beam-datasets stats`",
            "beam_runner": "give beam_options=['--runner=...']",
            "nondeterministic_order": "the order is always determined by the keys",
        }.items():
            if getattr(self, name):
                raise ValueError(f"DownloadConfig({name}={getattr(self, name)!r}) has no equivalent here: {instead}.")
