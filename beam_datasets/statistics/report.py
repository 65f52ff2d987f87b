"""Statistics as JSON values, and the files in which they are saved."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets import catalog, storage
from beam_datasets.errors import LostExamplesError, MetadataError, StorageError
from beam_datasets.features import ClassLabel
from beam_datasets.features.trees import display_names
from beam_datasets.metadata.version import Version
from beam_datasets.native import crc32c
from beam_datasets.statistics.sketches import Spread, histogram, values_of
from beam_datasets.statistics.summary import (
    LABEL,
    SHOWN_BYTES,
    TEXT,
    LeafFeature,
    Summary,
    empty,
    gather,
    merge,
    prepare_request,
)
from beam_datasets.statistics.texts import notebook_tables

if TYPE_CHECKING:
    from beam_datasets.statistics.summary import Gathered, StatisticsRequest

FORMAT = 5
FOLDER = ".stats"
"""A directory beside the versions of a dataset, with a file for each version. No reader, TensorFlow Datasets included,
takes a name that begins with a dot for a version."""

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
TOP = 20


@dataclass(frozen=True)
class Statistics:
    """Statistics of slices of a dataset.

    Attributes:
        dataset: its name, config and version.
        digest: digest of the published version.
        directory: the version's.
        slices: name -> {'examples': number, 'features': name -> statistics}; see docs/how-to/stats.md.
        unknown: the names of features of unknown classes, which are left out.
    """

    dataset: str
    digest: str
    directory: str
    slices: dict[str, Any]
    unknown: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """Returns the statistics as HTML tables, which notebooks show."""
        return notebook_tables(self.dataset, self.digest, self.slices)

    def to_json(self) -> dict[str, Any]:
        """Returns the statistics as JSON values, without the directory, which may be moved."""
        content = {
            "format": FORMAT,
            "dataset": self.dataset,
            "digest": self.digest,
            "unknown": list(self.unknown),
            "slices": self.slices,
        }
        return content | {"crc32c": _checksum(content)}

    @classmethod
    def from_json(cls, content: Any, directory: str) -> Statistics:
        """Returns the statistics of the values of `to_json`.

        Raises:
            MetadataError: they have another format, or were changed.
        """
        try:
            if content["format"] != FORMAT:
                raise MetadataError(expected=f"statistics of format {FORMAT}", got=f"{content['format']!r:.100}")
            if content["crc32c"] != _checksum({name: content[name] for name in content if name != "crc32c"}):
                raise MetadataError("statistics: the checksum does not match; they were changed after they were saved")
            return cls(content["dataset"], content["digest"], directory, content["slices"], tuple(content["unknown"]))
        except (KeyError, TypeError) as error:
            raise MetadataError(expected="statistics", got=f"{error!r}") from None


def _checksum(content: dict[str, Any]) -> str:
    """Returns the CRC-32C of JSON values in hexadecimal digits; it does not depend on order and layout."""
    return f"{crc32c(json.dumps(content, sort_keys=True).encode()):08x}"


def compute(
    name_or_dir: str | os.PathLike[str],
    splits: Sequence[Any] | None = None,
    features: Sequence[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Statistics:
    """Returns the statistics of a dataset, computed in this process. For the arguments, see `prepare_request`.

    `beam_datasets.beam.reports.run_stats` has workers compute them.
    """
    return compute_request(prepare_request(name_or_dir, splits, features, data_dir, storage_options))


def compute_request(request: StatisticsRequest) -> Statistics:
    """Computes the requested statistics in this process."""
    return conclude(merge(gather(run, request) for run in request.runs()), request)


def conclude(gathered: Gathered, request: StatisticsRequest) -> Statistics:
    """Returns the statistics of all summaries.

    Raises:
        LostExamplesError: the number of examples differs from the length of the slices.
    """
    slices, names = {}, display_names(request.features.decoded())
    for number, (name, runs) in enumerate(request.slices):
        summaries = gathered.get(number) or [empty(leaf) for leaf in request.leaves]
        for summary in summaries:
            if (num_examples := summary.counts["examples"]) != runs.num_examples:
                raise LostExamplesError(
                    f"{name!r}: {num_examples} examples were summed up of {runs.num_examples}. The engine lost or "
                    "duplicated some",
                    path=request.directory,
                    split=name,
                    expected=f"{runs.num_examples} examples",
                    got=f"{num_examples}",
                    outcome="nothing was saved",
                    advice="Run it again.",
                )
        features = {
            names.get(leaf.path, leaf.path): _feature(leaf, summary) for leaf, summary in zip(request.leaves, summaries)
        }
        slices[name] = {"examples": int(runs.num_examples), "features": features}
    return Statistics(request.full_name, request.digest, request.directory, slices, unknown_names(request))


def unknown_names(request: StatisticsRequest) -> tuple[str, ...]:
    """Returns the names of the features that cannot be read, because their classes are not known."""
    names = display_names(request.features.decoded())
    return tuple(names.get(path, path) for path in request.unknown)


def saved_path(directory: str) -> str:
    """Returns the path of the statistics of a whole dataset: beside the version's directory, never in it.

    >>> saved_path("/data/digits/1.0.0")
    '/data/digits/.stats/1.0.0.json'
    """
    directory = storage.normalize(directory)
    return storage.join(storage.dirname(directory), FOLDER, storage.basename(directory) + ".json")


def stale_paths(folder: str, *, unneeded: Collection[str] = ()) -> list[str]:
    """Returns the paths of saved statistics of versions that are not published any more, or will be removed.

    They contain values of examples.

    Args:
        folder: the directory of the versions of a dataset.
        unneeded: the directories of published versions that will be removed.
    """
    names = storage.list_dir(storage.join(folder, FOLDER), missing_ok=True)
    versions = [version for name in names if Version.is_valid(version := name.removesuffix(".json"))]
    directories = [storage.join(folder, version) for version in versions]
    return [
        saved_path(directory)
        for directory in directories
        if directory in unneeded or not catalog.is_published(directory)
    ]


def save(statistics: Statistics) -> str:
    """Saves the statistics of a whole dataset, and returns the path of the file.

    Raises:
        StorageError: they cannot be written.
    """
    path = saved_path(statistics.directory)
    storage.make_dirs(storage.dirname(path))
    storage.write_bytes(path, json_text(statistics).encode())
    return path


def read_saved(request: StatisticsRequest) -> Statistics | None:
    """Returns the saved statistics of a whole dataset; None if there are none of this digest and format.

    Also returns None if they lack a feature whose class is known by now.
    """
    try:
        content = json.loads(storage.read_bytes(saved_path(request.directory)))
        statistics = Statistics.from_json(content, request.directory)
    except (StorageError, MetadataError, ValueError, RecursionError):
        return None
    return (
        statistics
        if statistics.digest == request.digest and {*statistics.unknown} <= {*unknown_names(request)}
        else None
    )


def json_text(statistics: Statistics) -> str:
    """Returns the statistics as JSON, the same text for the same statistics; slices and features keep their order."""
    return json.dumps(statistics.to_json(), indent=1, allow_nan=False) + "\n"


# ----------------------------------------------------------------------------------------------------------- a feature


def _feature(leaf: LeafFeature, summary: Summary) -> dict[str, Any]:
    """Returns the JSON object of the statistics of a feature.

    It has `type`, `kind`, the counts `values`, `missing` and others that occur, the statistics of `_spread`, and those
    of `_label_counts` or `_summarize_values`.
    """
    counts = summary.counts
    statistics: dict[str, Any] = {
        "type": leaf.type,
        "kind": leaf.kind,
        "values": counts["values"],
        "missing": counts["missing"],
    }
    names = ("zeros", "nan", "inf", "-inf", "empty", "unreadable", "damaged")
    statistics |= {name: counts[name] for name in names if name in counts}
    statistics |= {
        name: _spread(spread) for name, spread in summary.spreads.items() if name != "values" and spread.count
    }
    if "values" in summary.spreads:
        statistics |= _spread(summary.spreads["values"])
    if leaf.kind == LABEL:
        return statistics | _label_counts(leaf.feature, summary)
    return statistics | _summarize_values(leaf, summary)


def _spread(spread: Spread) -> dict[str, Any]:
    """Returns the statistics of numbers as a JSON object; {} if there are no numbers.

    It has `min`, `max`, `min_at` and `max_at` (indices of their examples), `mean`, `std`, `quantiles` and
    `quantile_errors` by share, such as {'0.5': 3}, and `histogram`.
    """
    if not spread.count:
        return {}
    mean, deviation = spread.mean_and_deviation()
    quantiles = {f"{share:g}": spread.quantile(share) for share in QUANTILES}
    return {
        "min": spread.value(spread.low),
        "max": spread.value(spread.high),
        "min_at": spread.low_at,
        "max_at": spread.high_at,
        "mean": mean,
        "std": deviation,
        "quantiles": {share: value for share, (value, _) in quantiles.items()},
        "quantile_errors": {share: error for share, (_, error) in quantiles.items()},
        "histogram": histogram(spread),
    }


def _label_counts(feature: Any, summary: Summary) -> dict[str, Any]:
    """Returns {'labels': [[index, name or None, count], ...], 'distinct': number, 'distinct_exact': True}.

    The labels are in the order of the classes, and include classes that do not occur; `distinct` counts the others.
    """
    counts: dict[int, int] = summary.labels or {}
    names = feature.label_names if isinstance(feature, ClassLabel) else None
    class_numbers = range(feature.num_classes or 0)
    numbers = sorted({*counts, *class_numbers})
    labels = [[n, names[n] if names and 0 <= n < len(names) else None, counts.get(n, 0)] for n in numbers]
    return {"labels": labels, "distinct": len(counts), "distinct_exact": True}


def _summarize_values(leaf: LeafFeature, summary: Summary) -> dict[str, Any]:
    """Returns {'distinct': number of distinct values, 'distinct_exact': whether it is exact}.

    For texts and numbers it also has `top`, the most frequent values that occur more than once as [value, count], and
    `top_exact`.
    """
    values: Any = summary.values
    statistics = {"distinct": min(values.distinct(), summary.counts["values"]), "distinct_exact": values.complete}
    if leaf.kind not in (TEXT, "number"):
        return statistics
    total = summary.counts["values"]
    top = [(_value_to_json(leaf, summary, value), count) for value, count in values.top(TOP, total) if count > 1]
    return statistics | {"top": [[value, count] for value, count in top], "top_exact": values.complete}


def _value_to_json(leaf: LeafFeature, summary: Summary, value: Any) -> Any:
    """Returns a frequent value as a value of JSON: a number, or a text of at most `SHOWN_BYTES` bytes and "...".

    Args:
        leaf: the feature.
        summary: its summary, which has the type of its numbers.
        value: the text as bytes, or the 64 bits that represent the number.
    """
    if leaf.kind != TEXT:
        return values_of(np.array([value], np.uint64), summary.spreads["values"].kind).tolist()[0]
    if len(value) <= SHOWN_BYTES:
        return value.decode("utf-8", "backslashreplace")
    return value[:SHOWN_BYTES].decode("utf-8", "ignore") + "..."
