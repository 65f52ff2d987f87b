"""Statistics computed here, without a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beam_datasets.statistics.gathering import gather, merge, prepare
from beam_datasets.statistics.report import Statistics, conclude

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from beam_datasets.statistics.gathering import Gathered, Request


def compute(
    name_or_dir: str | os.PathLike[str],
    splits: Sequence[Any] | None = None,
    features: Sequence[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Statistics:
    """Returns the statistics of a dataset, computed in this process; the arguments are those of `gathering.prepare`.

    `beam_datasets.beam.stats.run` has workers compute them.
    """
    return compute_request(prepare(name_or_dir, splits, features, data_dir, storage_options))


def compute_request(request: Request) -> Statistics:
    """Returns the statistics that are asked for, computed in this process."""
    gathered: Gathered = {}
    for run in request.runs():
        gathered = merge(gathered, gather(run, request))
    return conclude(gathered, request)
