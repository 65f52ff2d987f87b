"""What is published, as values that JSON expresses, and lineage as text: for `info`, `list`, `explore` and `site`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beam_datasets import catalog, storage
from beam_datasets.cli.printing import size_text
from beam_datasets.errors import BeamDatasetsError, PathPermissionError
from beam_datasets.metadata.info import INFO_FILE, DatasetInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from beam_datasets.metadata.manifest import Lineage
    from beam_datasets.reading.opening import ReadOnlyBuilder


def info_json(published: ReadOnlyBuilder) -> dict[str, Any]:
    """Returns what a published dataset is as values that JSON expresses."""
    info, lineage = published.info, published.lineage
    return {
        "dataset": info.display_name,
        "directory": str(info.data_dir),
        "digest": published.digest,
        "description": info.description,
        "homepage": info.homepage,
        "citation": info.citation,
        "license": info.license,
        "metadata": info.metadata,
        "features": info.features.to_json(),
        "supervised_keys": info.supervised_keys,
        "disable_shuffling": info.disable_shuffling,
        "splits": _splits_json(info),
        "lineage": None if lineage is None else lineage.to_json(),
    }


def _splits_json(info: DatasetInfo) -> dict[str, Any]:
    return {
        name: {"examples": split.num_examples, "shards": split.num_shards, "bytes": split.num_bytes}
        for name, split in info.splits.items()
    }


def lineage_facts(lineage: Lineage) -> Iterator[str]:
    """Yields how a materialized dataset was made of its sources."""
    for name, split in lineage.splits.items():
        if lineage.appended is None or split.expression != name:  # the counts show what was deleted
            yield f"{name} = {split.expression}"
    for name, counts in (lineage.appended or {}).items():
        yield f"{name}: {', '.join(f'{count:,} {kind}' for kind, count in counts.items())}"
    if lineage.features is not None:
        yield f"only the features {', '.join(lineage.features)}"
    if lineage.filter is not None:
        yield f"only examples that pass {lineage.filter}"
    if lineage.reshuffle is not None:
        yield f"in a new order, of the salt {lineage.reshuffle!r}"


def list_dataset(name: str, root: str) -> list[dict[str, Any]]:
    """Returns what is listed of a dataset: its versions, or why they are unknown."""
    try:
        return [listed(full, storage.join(root, full.replace(":", "/"))) for full in catalog.list_published(name, root)]
    except PathPermissionError as error:
        return [{"dataset": name, "directory": storage.join(root, name), "error": str(error)}]


def listed(name: str, directory: str) -> dict[str, Any]:
    """Returns what is listed of a version: its splits, or why they are unknown."""
    found: dict[str, Any] = {"dataset": name, "directory": directory}
    try:
        path = storage.join(directory, INFO_FILE)
        return found | {"splits": _splits_json(DatasetInfo.from_json_text(storage.read_bytes(path), path=path))}
    except BeamDatasetsError as error:
        return found | {"error": str(error)}


def totals(listed: dict[str, Any]) -> dict[str, Any]:
    """Returns the sums over the splits of what is listed of a version."""
    splits = listed.get("splits", {}).values()
    sums = {what: sum(split[what] for split in splits) for what in ("examples", "shards", "bytes")}
    return sums | {"size": size_text(sums["bytes"])}
