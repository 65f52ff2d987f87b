"""Lineage and input files of an appended version, merged from those of the published version and of the new data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from beam_datasets.features.trees import iter_nested_features
from beam_datasets.materializing.merging import Counts
from beam_datasets.materializing.selection import Built, SelectedSplit, fully_read_datasets
from beam_datasets.materializing.source_versions import described
from beam_datasets.metadata.inputs import DELETE, Inputs, deleted_hashes
from beam_datasets.metadata.keys import Key
from beam_datasets.metadata.lineage import Ascent, Lineage, SplitLineage
from beam_datasets.publishing import staged_inputs
from beam_datasets.reading.opening import ReadOnlyBuilder


def make_lineage(
    datasets: Sequence[ReadOnlyBuilder], merged: Mapping[str, Sequence[SelectedSplit]], counts: Mapping[str, Counts]
) -> Lineage:
    """Returns the lineage of the next version: the sources of each split, and the numbers of changed examples.

    Args:
        datasets: the datasets, the published version first.
        merged: split -> its parts, in the order of the datasets.
        counts: split -> its numbers of added, replaced, deleted and skipped examples.
    """
    sources = [
        replace(described(one), name=one.builder_name, version=None) if isinstance(one, Built) else described(one)
        for one in datasets
    ]
    if datasets[0].lineage is not None and datasets[0].lineage.appended is not None:
        sources[0] = replace(
            sources[0], source=None
        )  # the source's manifest has it; otherwise appends would nest deeply
    splits = {}
    for name, parts in ((name, merged[name]) for name in counts):
        expression = "+".join(selected_split.expression for selected_split in parts)
        reads = tuple(read for selected_split in parts for read in selected_split.reads)
        splits[name] = SplitLineage(expression, reads, (Ascent(0, parts[0].runs[0].rules),))
    return Lineage(tuple(sources), splits, appended={name: count._asdict() for name, count in counts.items()})


def join_inputs(
    datasets: Sequence[ReadOnlyBuilder],
    merged: Mapping[str, Sequence[SelectedSplit]],
    features: Any,
    deletions: Sequence[tuple[Key, bool | None]],
) -> Inputs | None:
    """Returns the input files of the next version, with the columns of all datasets; None if no inputs are known.

    Files of datasets that are only partly read are left out. Keys and splits are those of the published version. If it
    has no record, they are those of the first dataset that has one; several published splits stay unknown.

    Args:
        datasets: the datasets, the published version first. Columns that any of them lacks become optional.
        merged: split -> its parts, in the order of the datasets.
        features: the features of the next version.
        deletions: see `AppendPlan`.
    """
    inputs_by_dir = {each.dataset_dir: staged_inputs.read_inputs(each.dataset_dir) for each in datasets}
    known_inputs = [inputs for inputs in inputs_by_dir.values() if inputs]
    if not known_inputs:
        return None
    base = replace(known_inputs[0], files={}, checksums={}, selected_by=(), deleted=(), unselected_splits=())
    if inputs_by_dir[datasets[0].dataset_dir] is None and len(datasets[0].info.splits) > 1:
        base = replace(base, splits=None)
    selected = [each for parts in merged.values() for each in parts]
    fully_read = [
        inputs for each in fully_read_datasets(datasets, selected) if (inputs := inputs_by_dir[each.dataset_dir])
    ]
    if deleted := [key for key, was_published in deletions if was_published is not None]:
        fully_read.append(Inputs(selected_by=(DELETE,), deleted=deleted_hashes(deleted)))
    stored = {name for name, *_ in iter_nested_features(features)}
    types = {
        name: spec
        for each in known_inputs
        for name, spec in each.columns.items()
        if spec != "drop" or name not in stored  # another dataset has it, so later appends read it
    }
    lacking = {
        name
        for name in types
        if (name in features and getattr(features[name], "optional", False))
        or any(name not in each.info.features for each in datasets)
        or any(each.columns.get(name, "").endswith("?") for each in known_inputs)
    }
    columns = {
        name: f"{spec.rstrip('?')}?" if name in lacking and spec != "drop" else spec for name, spec in types.items()
    }
    joined = replace(reduce(Inputs.with_files, fully_read, base), columns=columns).with_options_of(known_inputs)
    if known_inputs[0].selected_by and not known_inputs[0].files:  # else its own files would count as new ones
        return replace(joined, files={}, checksums={})
    return joined
