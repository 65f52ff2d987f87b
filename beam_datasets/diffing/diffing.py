"""`diff`: compares two versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beam_datasets import catalog, storage
from beam_datasets.arguments import boolean
from beam_datasets.diffing.features import Reader, compare_features
from beam_datasets.diffing.result import DatasetDiff, judge
from beam_datasets.diffing.splits import Options, diff_split
from beam_datasets.errors import SplitError, StoreOptionsError
from beam_datasets.metadata.names import did_you_mean
from beam_datasets.reading.opening import ReadOnlyBuilder

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    Version = ReadOnlyBuilder | str | os.PathLike[str]


def diff(
    old: Version,
    new: Version,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    splits: str | Iterable[str] | None = None,
    examples: int = 3,
    trust_checksums: bool = False,
    progress: Callable[[int], object] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> DatasetDiff:
    """Returns how two published versions differ, and which version number the changes need.

    Examples are paired by their keys in one pass over the indexes, or by index if a version has no keys. The records of
    a pair are compared byte by byte, and if they differ, by their decoded values. Memory does not grow with the
    dataset.

    Args:
        old: the old version: a name as 'digits:1.0.0', a directory, or what `builder_from_directory` returns.
        new: the new version.
        data_dir: root of the datasets, for names.
        splits: names of the splits to compare; None for all.
        examples: how many to return of each kind of difference in a split.
        trust_checksums: whether shards that have the same size and CRC-32C in both manifests count as the same,
            unread. Of shards that differ, one in four billion has the same CRC-32C.
        progress: called from time to time with the number of examples, of both versions together, that were compared
            since the last call.
        storage_options: of the store of `data_dir` and of versions that are URLs; see `beam_datasets.builder`. For two
            stores give what `builder_from_directory` returns.

    Raises:
        DatasetNotFoundError: a version is not published.
        SplitError: neither version has one of the splits.
        ValueError: the new version's number is lower than the old one's, or another argument is unusable.
        BeamDatasetsError: a version is damaged.
    """
    if examples < 0:
        raise ValueError(f"examples is {examples}; needed: how many to show of each kind, 0 or more.")
    one, other = open_versions(old, new, data_dir=data_dir, storage_options=storage_options)
    same = (one.name, one.config_name) == (other.name, other.config_name)
    if same and other.version < one.version:
        raise ValueError(
            f"the new version, {other.info.display_name}, has a lower number than the old one, "
            f"{one.info.display_name}; give the old one first."
        )
    names = _chosen(one, other, splits)
    shared = compare_features(one.info.features, other.info.features)
    reader = Reader(one.info.features, other.info.features, shared)
    options = Options(examples, boolean("trust_checksums", trust_checksums), progress or (lambda count: None))
    found = {name: diff_split(one, other, name, reader, options) for name in names}
    return DatasetDiff(
        old=one.info.display_name,
        new=other.info.display_name,
        old_dir=one.dataset_dir,
        new_dir=other.dataset_dir,
        features=shared.changes,
        splits=found,
        whole=splits is None,
        verdict=judge(one.info, other.info, shared.changes, found.values()),
    )


def open_versions(
    old: Version,
    new: Version,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> tuple[ReadOnlyBuilder, ReadOnlyBuilder]:
    """Returns the two versions, opened; for the arguments and errors see `diff`."""
    root = storage.with_options_if_remote(catalog.root_dir(data_dir), storage_options)
    opened = []
    for version in (old, new):
        if not isinstance(version, ReadOnlyBuilder):
            directory = catalog.find_published(version, root)
            version = ReadOnlyBuilder(storage.with_options_if_remote(directory, storage_options))
        opened.append(version)
    if storage_options and not any(storage.is_remote(builder.dataset_dir) for builder in opened):
        directories = " and ".join(builder.dataset_dir for builder in opened)
        raise StoreOptionsError(f"storage_options are for URLs; {directories} are local paths. Leave them out")
    return opened[0], opened[1]


def _chosen(old: ReadOnlyBuilder, new: ReadOnlyBuilder, splits: str | Iterable[str] | None) -> list[str]:
    known = list(dict.fromkeys([*old.info.splits, *new.info.splits]))
    names = known if splits is None else [splits] if isinstance(splits, str) else list(dict.fromkeys(splits))
    for name in names:
        if name not in known:
            raise SplitError(
                f"neither version has a split {name!r}; there are {', '.join(known) or 'none'}."
                f"{did_you_mean(name, known)} Whole splits are compared, not slices."
            )
    return names
