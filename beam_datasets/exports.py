"""`export`: slices of published datasets become files of other formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beam_datasets.arguments import asks_for_beam
from beam_datasets.errors import without_beam

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from beam_datasets.exporting.plan import ExportPlan
    from beam_datasets.exporting.writing import Format

    NameOrDir = str | os.PathLike[str]


def export(
    source: NameOrDir,
    to: NameOrDir,
    format: str | Format = "parquet",
    *,
    beam_options: Any | Sequence[str] | None = None,
    num_workers: int | None = None,
    shared_disk: bool = False,
    progress: Callable[[int], None] | None = None,
    **request: Any,
) -> str:
    """Writes slices of a published dataset as files of another format, and returns their directory.

    Dataset order is kept: the files of a split, one behind the other, are the slice. Images are not decoded.
    `_export.json` beside them describes them and their source.

    Args:
        source: a published dataset: a name such as 'digits' or 'digits/small:1.*.*', or a version's directory, also
            one that TensorFlow Datasets wrote.
        to: the directory to make; it is visible when all is written.
        format: 'parquet', 'jsonl', 'webdataset' or 'arrayrecord'; or one with options, such as
            `exporting.parquet.Parquet(row_group_bytes=1 << 20)`.
        beam_options: Beam's pipeline options; without a runner, FnApiRunner. Without `beam_options` and `num_workers`
            this process writes one file after the other, without Beam.
        num_workers: processes of a local run; 0 for one a core.
        shared_disk: remote workers see this machine's paths.
        progress: called about twice a second with how many bytes this process or a local run has written so far.
        **request: what to export:

            * split: {name: expression}, such as {'train': 'train[:80%]', 'validation': 'train[80%:]'}; or texts
              'NAME=EXPRESSION', one or several; the name can be left out if the expression has a single split. None
              for all splits, as they are.
            * data_dir: root of the datasets, for a name; None for $BEAM_DATASETS_DATA_DIR, $TFDS_DATA_DIR or
              ~/beam_datasets.
            * features: which features are exported, nested ones as 'objects/label'; None for all.
            * binary: features whose strings are bytes, not text.
            * num_shards: files of each split, one number for all or {split: number}; None chooses by the size rule.
            * min_shard_size: lower limit of the size rule in bytes of the source; None for 64 MiB.
            * max_shard_size: upper limit of the size rule in bytes of the source; None for 1 GiB.
            * storage_options: of the store of `to`; see `beam_datasets.materialize`.
            * source_storage_options: of the store of the source, see there.

    Raises:
        DatasetNotFoundError: the source does not exist.
        SplitError: an expression cannot be read, does not fit, or selects nothing.
        PathExistsError: something is at `to` already.
        MissingDependencyError: the format's package is not installed.
        BeamDatasetsError: any other reason why nothing was exported.
        ValueError: an argument is unusable.
    """
    from beam_datasets.exporting.plan import ExportRequest

    plan = ExportRequest(source, to, format, **request).plan()
    engine = {"num_workers": num_workers, "shared_disk": shared_disk, "progress": progress}
    return run_export(plan, beam_options, engine)


def run_export(plan: ExportPlan, beam_options: Any, engine: dict[str, Any]) -> str:
    """Exports by Beam if a runner or workers are asked for, otherwise in this process; returns the directory.

    Args:
        plan: what to export.
        beam_options: see `export`.
        engine: `num_workers`, `shared_disk` and `progress`, see `export`.

    Raises:
        MissingDependencyError: Beam is asked for and not installed.
        BeamDatasetsError: any other reason why nothing was exported.
    """
    if asks_for_beam(beam_options, engine):
        try:
            from beam_datasets.beam import export as pipeline
        except ImportError as error:
            raise without_beam("a run with a runner or num_workers", error) from error
        return pipeline.run(plan, beam_options=beam_options, **engine)
    from beam_datasets.exporting.run import run_in_process

    return run_in_process(plan, **engine)
