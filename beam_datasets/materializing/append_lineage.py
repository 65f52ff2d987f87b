"""Lineage and input files of an appended version, merged from those of the published version and of the new data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from beam_datasets.materializing.merging import Counts
from beam_datasets.materializing.selection import Built, SelectedSplit
from beam_datasets.materializing.source_versions import described
from beam_datasets.metadata.inputs import Inputs
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
    datasets: Sequence[ReadOnlyBuilder], merged: Mapping[str, Sequence[SelectedSplit]], features: Any
) -> Inputs | None:
    """Returns the input files of the next version, with the columns of all datasets; None if no files are known.

    Files of datasets that are only partly read are left out.

    Args:
        datasets: the datasets, the published version first. Columns that any of them lacks become optional.
        merged: split -> its parts, in the order of the datasets.
        features: the features of the next version.
    """
    inputs_by_dir = {each.dataset_dir: staged_inputs.read_inputs(each.dataset_dir) for each in datasets}
    known_inputs = [inputs for inputs in inputs_by_dir.values() if inputs]
    fully_read = [inputs_by_dir[each.dataset_dir] for each in _fully_read(datasets, merged)]
    files = [inputs for inputs in fully_read if inputs and inputs.files]  # of a slice, only options are known
    types = {name: spec for each in known_inputs for name, spec in each.columns.items()}
    lacking = {
        name
        for name in types
        if (name in features and getattr(features[name], "optional", False))
        or any(name not in each.info.features for each in datasets)
        or any(each.columns.get(name, "").endswith("?") for each in known_inputs)
    }
    columns = {name: f"{spec.rstrip('?')}?" if name in lacking else spec for name, spec in types.items()}
    if not files:
        return None
    return replace(reduce(Inputs.with_files, files), columns=columns).with_options_of(known_inputs)


def _fully_read(
    datasets: Sequence[ReadOnlyBuilder], merged: Mapping[str, Sequence[SelectedSplit]]
) -> list[ReadOnlyBuilder]:
    """Returns the datasets whose examples are all read, so that their input files can be recorded.

    Args:
        datasets: the datasets, whose indices the reads of `merged` contain.
        merged: split -> its parts.
    """
    num_read: Counter[int] = Counter()
    ends: Counter[tuple[int, str]] = Counter()
    reads = [read for parts in merged.values() for selected_split in parts for read in selected_split.reads]
    for read in sorted(reads, key=lambda read: read.start):  # two splits may read the same examples
        source_split = read.dataset, read.split
        num_read[read.dataset] += max(read.stop - max(read.start, ends[source_split]), 0)
        ends[source_split] = max(read.stop, ends[source_split])
    totals = [sum(split.num_examples for split in one.info.splits.values()) for one in datasets]
    return [one for number, one in enumerate(datasets) if num_read[number] == totals[number]]
