"""Tags of versions, and removal of old versions that no dataset needs.

A tag is a file with a version in it, `.config/tags/<tag>` beside the versions of a dataset or config. On an object
store `.config/removed/<version>` marks a version that is being removed: a later `prune` finishes a killed one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from beam_datasets import catalog, storage
from beam_datasets.arguments import integer
from beam_datasets.catalog import DataDir, Options
from beam_datasets.errors import BeamDatasetsError, PathExistsError, PathNotFoundError
from beam_datasets.materializing.source_versions import described
from beam_datasets.metadata.info import INFO_FILE
from beam_datasets.metadata.lineage import Lineage
from beam_datasets.metadata.names import DatasetName
from beam_datasets.metadata.version import Version
from beam_datasets.publishing import store_commit
from beam_datasets.reading.opening import ReadOnlyBuilder, builder_from_directory

_TAG = re.compile(r"\w[\w.\-]*")


@dataclass(frozen=True)
class Judged:
    """A published version, and why it stays.

    Attributes:
        name: name of the version, `name/config:version`.
        directory: directory of the version.
        kept: why it stays; '' if it can be removed.
    """

    name: str
    directory: str
    kept: str = ""


def add_tag(name: str, tag: str, data_dir: DataDir = None, storage_options: Options = None) -> str:
    """Gives a tag to a published version, which `prune` keeps then; returns the version's directory.

    Args:
        name: name of the version, such as 'clicks:3.0.0'; without a version, the one that readers of the name get.
        tag: a word with letters, digits, `.`, `-` and `_`.
        data_dir: root of the datasets.
        storage_options: options of its store.

    Raises:
        DatasetNotFoundError: the version is not published.
        PathExistsError: another version has the tag.
        ValueError: the name or the tag cannot be read.
    """
    if not _TAG.fullmatch(tag):
        raise ValueError(f"tag: expected letters, digits, '.', '-' and '_', got {tag!r}")
    directory = catalog.find_dataset_dir(name, catalog.root_dir(data_dir, storage_options))
    path, version = _tag_path(storage.dirname(directory), tag), storage.basename(directory)
    try:
        storage.create_bytes(path, version.encode())
    except FileExistsError:
        tagged_version = storage.read_bytes(path).decode()
        if tagged_version != version:
            raise PathExistsError(
                f"version {tagged_version} has the tag already",
                path=path,
                got=tagged_version,
                advice="Remove it first (--remove).",
            ) from None
    return directory


def remove_tag(name: str, tag: str, data_dir: DataDir = None, storage_options: Options = None) -> str:
    """Removes a tag of a dataset, and returns the version that had it.

    Args:
        name: name of the dataset, such as 'clicks' or 'clicks:3.0.0'.
        tag: the tag.
        data_dir: root of the datasets.
        storage_options: options of its store.

    Raises:
        PathNotFoundError: no version has the tag; or `name` has a version, and another one has the tag.
    """
    directory = catalog.find_dataset_dir(name, catalog.root_dir(data_dir, storage_options))
    folder, version = storage.dirname(directory), storage.basename(directory)
    versions_by_tag = tags_in(folder)
    if tag not in versions_by_tag:
        raise PathNotFoundError(
            f"no version has the tag {tag!r}; tags: {', '.join(versions_by_tag) or 'none'}", path=folder, got=tag
        )
    if DatasetName.parse(name).version is not None and versions_by_tag[tag] != version:
        raise PathNotFoundError(
            f"expected the tag {tag!r}, but version {versions_by_tag[tag]} has it",
            path=directory,
            got=versions_by_tag[tag],
        )
    storage.remove(_tag_path(folder, tag))
    return versions_by_tag[tag]


def tags_in(folder: str) -> dict[str, str]:
    """Returns {tag: version} of the versions in a directory."""
    tags = _tag_path(folder)
    names = storage.list_dir(tags, missing_ok=True)
    return {name: storage.read_bytes(storage.join(tags, name)).decode() for name in names if _TAG.fullmatch(name)}


def _tag_path(folder: str, *tag: str) -> str:
    """Returns the path of the directory of the tags of a dataset, or, with a tag, that of its file."""
    return storage.join(folder, catalog.CONFIG_DIR, "tags", *tag)


def plan_prune(
    name: str, keep: int, *, keep_tagged: bool = False, data_dir: DataDir = None, storage_options: Options = None
) -> list[Judged]:
    """Returns the versions of a dataset with the reason why each is kept, '' if it can be removed; lowest first.

    Versions whose removal was interrupted come before the others. A version is kept if it is one of the highest `keep`,
    has a tag, or is named in the lineage of a dataset in `data_dir` that is kept itself. A version that was only
    appended to may be removed, because the next version has all its records.

    Args:
        name: name of the dataset, such as 'clicks' or 'clicks/small'.
        keep: number of the highest versions that stay.
        keep_tagged: whether versions with tags may be older; otherwise such a version is an error.
        data_dir: root of the datasets.
        storage_options: options of its store.

    Raises:
        BeamDatasetsError: an old version has a tag, or a dataset of `data_dir` cannot be opened, so that what it needs
            is unknown.
        ValueError: `name` has a version, or `keep` is not 1 or more.
    """
    keep = integer("keep", keep, at_least=1, at_most=2**31)
    if DatasetName.parse(name).version is not None:
        raise ValueError(f"expected a dataset without a version, got {name!r}")
    root = catalog.root_dir(data_dir, storage_options)
    folder = storage.dirname(catalog.find_dataset_dir(f"{name}:latest", root))
    all_versions = list(_list_published(root))
    versions = sorted((each for each in all_versions if storage.dirname(each.directory) == folder), key=_parse_version)
    label = versions[-1].name.rpartition(":")[0]
    reasons = {each.name: f"one of the highest {keep}" for each in versions[-keep:]}
    tagged = {f"{label}:{version}": tag for tag, version in tags_in(folder).items()}
    for each in versions:
        if each.name not in reasons and each.name in tagged:
            if not keep_tagged:
                raise BeamDatasetsError(
                    f"{each.name} has the tag {tagged[each.name]!r}",
                    got=each.name,
                    advice="Keep versions with tags (--keep_tagged), or remove the tag.",
                )
            reasons[each.name] = f"tag {tagged[each.name]}"
    builders = {each.name: published for each in all_versions if (published := _open_judged(each)) is not None}
    digests = {name: described(published).digest for name, published in builders.items()}
    needs = {name: set(_source_names(published.lineage, digests)) for name, published in builders.items()}
    while new_reasons := {
        need: f"the lineage of {by} names it"
        for by, names in needs.items()
        for need in names
        if (by in reasons or not by.startswith(f"{label}:")) and need.startswith(f"{label}:") and need not in reasons
    }:
        reasons |= new_reasons
    judged = [Judged(each.name, each.directory, reasons.get(each.name, "")) for each in versions]
    return [*(Judged(f"{label}:{name}", storage.join(folder, name)) for name in _find_half_removed(folder)), *judged]


def _open_judged(judged: Judged) -> ReadOnlyBuilder | None:
    """Opens a version; returns None if another process has removed it in the meantime."""
    try:
        return builder_from_directory(judged.directory)
    except BeamDatasetsError as error:
        if not catalog.is_published(judged.directory):
            return None
        problem = f"{str(error).rstrip('.')}. What {judged.name} needs is unknown, so nothing was removed."
        raise BeamDatasetsError(problem, advice="Repair it, or move it away.") from error


def _find_half_removed(folder: str) -> list[str]:
    """Returns the versions, such as "1.0.0", whose removal from an object store was not completed; [] on a disk."""
    marks = _mark_path(folder)
    names = storage.list_dir(marks, missing_ok=True) if storage.is_remote(folder) else []
    return [name for name in names if Version.is_valid(name) and not catalog.is_published(storage.join(folder, name))]


def _mark_path(folder: str, *version: str) -> str:
    """Returns the path of the directory of marks of removed versions, or, with a version, that of its mark."""
    return storage.join(folder, catalog.CONFIG_DIR, "removed", *version)


def _parse_version(judged: Judged) -> Version:
    """Returns the version number, which is the last part of the directory."""
    return Version(storage.basename(judged.directory))


def _list_published(root: str) -> Iterator[Judged]:
    """Yields all published versions of all datasets below a root directory."""
    for name in catalog.list_datasets(root):
        for full in catalog.list_published(name, root):
            yield Judged(full, storage.join(root, full.replace(":", "/")))


def _source_names(lineage: Lineage | None, digests: Mapping[str, str]) -> Iterator[str]:
    """Yields the names of the datasets that a lineage names, except those that were appended to.

    A dataset that was built only to be appended may have the name of a published version. Its digest then differs from
    the digest of the published version in `digests`.
    """
    if lineage is None:
        return
    for dataset in lineage.datasets[lineage.appended is not None :]:
        if lineage.appended is None or digests.get(dataset.full_name) == dataset.digest:
            yield dataset.full_name
        if dataset.source is not None:
            source = Lineage.from_json(dataset.source, path=f"the lineage of {dataset.full_name}")
            yield from _source_names(source, digests)


def remove_version(version: Judged) -> bool:
    """Removes a version, unless it was tagged meanwhile or is published again; returns whether it was removed.

    The version's saved statistics stay; see `statistics.report.stale_paths`.

    On a disk it is first renamed, in one step. On an object store it is marked, then dataset_info.json is deleted,
    without which it does not count as a version; if the process is killed, `plan_prune` finds the mark.

    Raises:
        StorageError: it cannot be removed.
    """
    folder, number = storage.dirname(version.directory), storage.basename(version.directory)
    if number in tags_in(folder).values():
        return False
    if not storage.is_remote(version.directory):
        storage.remove_tree(version.directory)
        return True
    if store_commit.holder(version.directory) is not None:
        return False
    storage.write_bytes(_mark_path(folder, number), b"")
    storage.remove(storage.join(version.directory, INFO_FILE))
    storage.remove_tree(version.directory)
    storage.remove(_mark_path(folder, number))
    return True
