"""Options of an append, the choice of the published version, and the number of the next version."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from beam_datasets import catalog, storage
from beam_datasets.arguments import boolean, integer
from beam_datasets.errors import AlreadyPublishedError, BeamDatasetsError, VersionError
from beam_datasets.materializing.plan import target_dir
from beam_datasets.materializing.selection import NameOrDir, Sources
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.metadata.keys import Key
from beam_datasets.metadata.version import Version, VersionOrStr
from beam_datasets.options import ShardingOptions
from beam_datasets.publishing.publication import check_free
from beam_datasets.reading.opening import ReadOnlyBuilder

ON_DUPLICATE = ("error", "keep_old", "replace", "skip_identical")
NEXT = "next"
_DATA_FILE = re.compile(r".*\.(csv|tsv|jsonl?|parquet|txt|tfrecord)(\.\w+)?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class AppendOptions:
    """Options of an append; see the arguments of `append`.

    Raises:
        TypeError, ValueError: an option is invalid.
    """

    split: Any = None
    new_splits: bool = False
    version: VersionOrStr = NEXT
    on_duplicate: str = "error"
    delete: Iterable[Key] = ()
    data_dir: NameOrDir | None = None
    source_data_dir: NameOrDir | None = None
    storage_options: Mapping[str, Any] | None = None
    source_storage_options: Mapping[str, Any] | None = None
    num_shards: int | Mapping[str, int | None] | None = None
    min_shard_size: int | None = None
    max_shard_size: int | None = None
    share_shards: bool = False
    union_features: bool = False
    max_rejected: int = 0

    def __post_init__(self) -> None:
        """Checks the fields.

        Raises:
            TypeError: a field has another type.
            ValueError: a field has an invalid value, or two fields exclude each other.
        """
        self.sharding  # noqa: B018  # checks the numbers
        object.__setattr__(self, "max_rejected", integer("max_rejected", self.max_rejected, at_least=0))
        for name in ("new_splits", "share_shards", "union_features"):
            boolean(name, getattr(self, name))
        if self.share_shards and self.num_shards is not None:
            raise ValueError("share_shards keeps the shards that are published, so it takes no num_shards.")
        if self.on_duplicate not in ON_DUPLICATE:
            raise ValueError(f"on_duplicate: expected one of {', '.join(ON_DUPLICATE)}, got {self.on_duplicate!r}.")
        delete: Any = self.delete
        if isinstance(delete, (str, bytes)) or not isinstance(delete, Iterable):
            raise TypeError(f"delete: expected a list of keys, got {type(delete).__name__}: {delete!r:.100}")
        object.__setattr__(self, "delete", tuple(delete))

    @cached_property
    def sharding(self) -> ShardingOptions:
        """The options that decide the number and size of the shards."""
        return ShardingOptions.of(
            num_shards=self.num_shards, min_shard_size=self.min_shard_size, max_shard_size=self.max_shard_size
        )

    def open_parent(self, source: NameOrDir) -> tuple[ReadOnlyBuilder, DatasetInfo]:
        """Returns the published version to append to, and the info of the next version.

        Raises:
            DatasetNotFoundError: the published version does not exist.
            VersionError: the next version is not a new MAJOR version.
            AlreadyPublishedError: the next version is already published.
            BeamDatasetsError: the directory of the published version is not named after its version.
            TypeError: `source` is neither a name nor a directory.
        """
        if not isinstance(source, (str, os.PathLike)):
            raise TypeError(f"source: expected a dataset's name or directory, got {source!r:.100}")
        sources = Sources([target_dir(catalog.root_dir(self.data_dir), self.storage_options)], {}, self.storage_options)
        parent = sources.opened[sources.open(catalog.latest(source))]
        if storage.basename(parent.dataset_dir) != str(parent.version):
            raise BeamDatasetsError(
                f"expected a directory called {parent.version}, as the version is; the next version is put beside it",
                path=parent.dataset_dir,
                advice="Materialize the dataset first.",
            )
        info = _next_info(parent, self.version)
        if catalog.is_published(info.data_dir):
            raise AlreadyPublishedError(
                f"{info.display_name} is already published in {info.data_dir}: expected a number that is not, for "
                f"what is appended to {parent.version}",
                got=info.display_name,
                advice=(
                    "If another run published it meanwhile, run this again; otherwise append to the highest version, "
                    "or give a higher number."
                ),
            )
        check_free(info.data_dir, info.display_name)
        return parent, info

    def sources(self, new: NameOrDir | ReadOnlyBuilder, parent_dir: str) -> Sources:
        """Opens a dataset to append to the version in `parent_dir`; returns its sources, with this dataset first.

        Raises:
            TypeError: `new` is neither a dataset's name or directory nor a builder.
        """
        roots = [self.data_dir, None] if self.source_data_dir is None else [self.source_data_dir]
        sources = Sources(roots, {}, self.source_storage_options, parent_dir, names_first=True)
        hint = "Give a bd.DatasetBuilder that yields the new examples, or the name of a published dataset."
        if isinstance(new, str) and _DATA_FILE.fullmatch(new) and not storage.is_dir(new):
            raise TypeError(
                f"new: expected a published dataset or a builder, got a file of data: {new!r}. Give the builder of its "
                f"format, as in `from beam_datasets.files.csv import Csv` and Csv(name='NAME', pattern={new!r})."
            )
        if isinstance(new, ReadOnlyBuilder):
            sources.opened.append(new)
        elif not isinstance(new, (str, os.PathLike)):
            raise TypeError(
                f"new: expected a dataset's name or directory, a builder, or a list of these, got "
                f"{type(new).__name__}: {new!r:.100}. {hint}"
            )
        else:
            sources.open(new)
        return sources


def _next_info(parent: ReadOnlyBuilder, requested: VersionOrStr) -> DatasetInfo:
    """Returns the published version's info, with the version and directory of the next one.

    Raises:
        VersionError: the wanted version is not a new MAJOR version.
    """
    lowest = Version(f"{parent.version.major + 1}.0.0")
    version = lowest if requested == NEXT else Version(requested)
    if version < lowest:
        raise VersionError(
            expected=(
                f"version {lowest} or higher after {parent.version}, because slices get other examples (a MAJOR change)"
            ),
            got=f"{version}",
            advice="Leave the version out, or give 'next'.",
        )
    directory = storage.join(storage.dirname(parent.dataset_dir), str(version))
    return parent.info.replace(version=version, data_dir=directory)
