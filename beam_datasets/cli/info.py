"""`beam-datasets info` and `list`: print a published dataset, and the list of all."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_datasets import catalog, storage
from beam_datasets.cli.options import DATA_DIR, DATASET, STORAGE_OPTIONS, Command, Flag
from beam_datasets.cli.printing import say, say_values, splits_table, table
from beam_datasets.display.text import size_text
from beam_datasets.errors import BeamDatasetsError, PathNotFoundError, PathPermissionError
from beam_datasets.features.stacking import describe_missing
from beam_datasets.features.trees import display_names
from beam_datasets.materializing.history import tags_in
from beam_datasets.metadata.info import INFO_FILE, DatasetInfo
from beam_datasets.metadata.lineage import Lineage
from beam_datasets.metadata.manifest import RUN_FILE
from beam_datasets.passwords import without_passwords
from beam_datasets.publishing import run_report
from beam_datasets.publishing.runs import utc
from beam_datasets.reading.opening import ReadOnlyBuilder, builder_from_directory, open_published

INFO = Command(
    "info",
    "Prints a description of a published dataset.",
    (
        *DATASET,
        Flag("--json", "print the result as JSON"),
    ),
    example="NAME --data_dir DIR",
)
LIST = Command(
    "list",
    "Lists the published datasets.",
    (
        Flag(
            "--versions",
            "also print the size of each version's files, its time of publication, its tags, and its source datasets",
        ),
        DATA_DIR,
        STORAGE_OPTIONS,
        Flag("--json", "print the list as JSON, with each split"),
    ),
)


def run_info(args: Sequence[str]) -> int:
    """Prints a description of a published dataset."""
    parsed = INFO.parse(args)
    published = open_published(parsed.dataset, parsed.data_dir, parsed.storage_options)
    if parsed.json:
        say_values(json.dumps(info_json(published), indent=1))
        return 0
    info = published.info
    for text in (info.display_name, info.description, info.homepage):
        if text:
            say_values(text)
    if rule := catalog.version_rule(parsed.dataset, published.dataset_dir):
        say(rule)
    say(str(info.data_dir))
    say_values(repr(info.features))
    if missing_values := describe_missing(info.features):
        say_values(missing_values)
    if info.supervised_keys:
        say(f"supervised keys: {info.supervised_keys}")
    say(splits_table(info.splits))
    if left_out := run_report.left_out_of(str(info.data_dir)):
        say(f"left out of the source: {sum(each['number'] for each in left_out):,}; {RUN_FILE} lists the reasons")
    if published.lineage:
        say_values("\n".join(lineage_lines(published.lineage, display_names(info.features))))
    return 0


def lineage_lines(lineage: Lineage, names: Mapping[str, str], indent: str = "") -> Iterator[str]:
    """Yields the lineage of a materialized dataset, a fact a line, with that of its sources indented.

    Args:
        lineage: the lineage.
        names: see `lineage_facts`.
        indent: prefix of each line.
    """
    yield from (f"{indent}{fact}" for fact in lineage_facts(lineage, names))
    for dataset in lineage.datasets:
        yield f"{indent}source: {dataset.full_name} (SHA-256 of its {dataset.digest_of}: {dataset.digest[:12]}...)"
        if dataset.source is not None:
            path = f"the lineage of {dataset.full_name}"
            yield from lineage_lines(Lineage.from_json(dataset.source, path=path), names, f"{indent}  ")


def run_list(args: Sequence[str]) -> int:
    """Prints the published datasets of a data_dir, a version a line."""
    parsed = LIST.parse(args)
    root = catalog.root_dir(parsed.data_dir, parsed.storage_options)
    names = catalog.list_datasets(root)
    if not names and not storage.is_dir(root):
        raise PathNotFoundError(
            f"{root}: {catalog.explain_missing_directory(root)}. Give the directory of the datasets: --data_dir"
        )
    versions = [listed for name in names for listed in list_dataset(name, root)]
    if parsed.versions:
        versions = [each | _read_history(each["directory"]) for each in versions]
    if parsed.json:
        say(json.dumps(versions, indent=1))
    elif not versions:
        say(f"nothing is published in {root}")
    else:
        header, rows = ["dataset", "examples", "shards", "size"], list(map(_totals_row, versions))
        if parsed.versions:
            header += ["files", "published", "tags", "contents"]
            rows = [
                [
                    *row,
                    size_text(each["file_bytes"]),
                    each["published"] or "?",
                    ", ".join(each["tags"]),
                    _format_contents(each),
                ]
                for row, each in zip(rows, versions)
            ]
        say(table(header, rows, left_aligned=(0, 5, 6, 7), short=(7,) if parsed.versions else ()))
    return 0


def _format_contents(facts: dict[str, Any]) -> str:
    """Returns the splits of a version and the clauses about its sources as text: "train 60,000, test 10,000; ..."."""
    splits = ", ".join(f"{name} {split['examples']:,}" for name, split in facts.get("splits", {}).items())
    return "; ".join([splits, *facts["contents"]])


def _read_history(directory: str) -> dict[str, Any]:
    """Returns {'file_bytes': number, 'published': UTC time or None, 'tags': [...], 'contents': [...]} of a version.

    `contents` are clauses about the sources of a materialized dataset. Facts that cannot be read are 0, None or [].

    Args:
        directory: the directory of the version.
    """
    facts: dict[str, Any] = {"file_bytes": 0, "published": None, "tags": [], "contents": []}
    with contextlib.suppress(BeamDatasetsError, ValueError, KeyError, TypeError):
        facts["file_bytes"] = storage.usage(directory).num_bytes
        tags = tags_in(storage.dirname(directory))
        facts["tags"] = sorted(tag for tag, version in tags.items() if version == storage.basename(directory))
        builder = builder_from_directory(directory)
        lineage = builder.lineage
        if lineage is not None:
            facts["contents"] = list(lineage_facts(lineage, display_names(builder.info.features)))
            if lineage.appended is None:
                facts["contents"].append(f"source: {' and '.join(each.full_name for each in lineage.datasets)}")
        run = json.loads(storage.read_bytes(storage.join(directory, RUN_FILE)))
        facts["published"] = utc(run["started"] + run["seconds"])
    return facts


def _totals_row(listed: dict[str, Any]) -> list[Any]:
    """Returns [dataset, examples, shards, size as text]; "?" for the totals of a version whose error is printed."""
    if "error" in listed:
        say(listed["error"], file=sys.stderr)
        return [listed["dataset"], "?", "?", "?"]
    sums = totals(listed)
    return [listed["dataset"], sums["examples"], sums["shards"], sums["size"]]


def info_json(published: ReadOnlyBuilder) -> dict[str, Any]:
    """Returns the JSON object of `info --json`: name, directory, digest, description, features, splits, lineage, ..."""
    info, lineage = published.info, published.lineage
    return {
        "dataset": info.display_name,
        "directory": without_passwords(str(info.data_dir)),
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
    """Returns {split: {"examples": number, "shards": number, "bytes": number}}."""
    return {
        name: {"examples": split.num_examples, "shards": split.num_shards, "bytes": split.num_bytes}
        for name, split in info.splits.items()
    }


def lineage_facts(lineage: Lineage, names: Mapping[str, str]) -> Iterator[str]:
    """Yields clauses about how a materialized dataset was made, such as "train = a+b" or "features: a".

    Args:
        lineage: the lineage.
        names: name of a feature in records -> its name for people, as of `display_names`; others are not changed.
    """
    for name, split in lineage.splits.items():
        if lineage.appended is None or split.expression != name:  # the counts show what was deleted
            yield f"{name} = {split.expression}"
    for name, counts in (lineage.appended or {}).items():
        yield f"{name}: {', '.join(f'{count:,} {kind}' for kind, count in counts.items())}"
    if lineage.features is not None:
        yield f"features: {', '.join(names.get(name, name) for name in lineage.features)}"
    if lineage.filter is not None:
        yield f"filter: {lineage.filter}"
    if lineage.reshuffle is not None:
        yield f"order: shuffled with the salt {lineage.reshuffle!r}"


def list_dataset(name: str, root: str) -> list[dict[str, Any]]:
    """Returns the entries of `listed` for all versions of a dataset; one entry with `error` if they are unknown."""
    try:
        return [listed(full, storage.join(root, full.replace(":", "/"))) for full in catalog.list_published(name, root)]
    except PathPermissionError as error:
        return [{"dataset": name, "directory": storage.join(root, name), "error": str(error)}]


def listed(name: str, directory: str) -> dict[str, Any]:
    """Returns {'dataset': name, 'directory': path, 'splits': {name: {'examples', 'shards', 'bytes'}}} of a version.

    If the metadata cannot be read, it has 'error', a text, in place of 'splits'.
    """
    entry: dict[str, Any] = {"dataset": name, "directory": directory}
    try:
        path = storage.join(directory, INFO_FILE)
        return entry | {"splits": _splits_json(DatasetInfo.from_json_text(storage.read_bytes(path), path=path))}
    except BeamDatasetsError as error:
        return entry | {"error": str(error)}


def totals(listed: dict[str, Any]) -> dict[str, Any]:
    """Returns the sums over the splits of an entry of `listed`, and the bytes as text.

    >>> split = {"examples": 3, "shards": 1, "bytes": 9}
    >>> totals({"splits": {"train": split, "test": split}})
    {'examples': 6, 'shards': 2, 'bytes': 18, 'size': '18 B'}
    """
    splits = listed.get("splits", {}).values()
    sums = {quantity: sum(split[quantity] for split in splits) for quantity in ("examples", "shards", "bytes")}
    return sums | {"size": size_text(sums["bytes"])}
