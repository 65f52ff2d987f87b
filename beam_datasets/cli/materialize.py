"""`beam-datasets materialize` and `export`: write slices as a new dataset, or as files of other formats."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence

from beam_datasets.catalog import is_published
from beam_datasets.cli.build import publishing_in
from beam_datasets.cli.options import (
    DATA_DIR_HELP,
    SHARDS,
    SHARED_DISK,
    SOURCES,
    STALL_TIMEOUT,
    Command,
    Flag,
    Group,
    Option,
    UsageError,
    as_usage_errors,
    comma_separated,
    engine_group,
    engine_options,
    given,
    storage_options,
    whole_number,
)
from beam_datasets.cli.printing import bytes_bar, say, splits_table, table
from beam_datasets.cli.resolve import make_importable
from beam_datasets.display.text import size_text
from beam_datasets.exporting.run import FORMATS, ExportPlan, plan_export
from beam_datasets.features.trees import display_names
from beam_datasets.formats.tfrecord import OVERHEAD
from beam_datasets.materializing.plan import Job, plan_job
from beam_datasets.materializing.selection import SelectedSplit
from beam_datasets.reading.opening import builder_from_directory

MATERIALIZE = Command(
    "materialize",
    """\
Writes slices of a published dataset as a new dataset; without --split, the whole dataset.

SOURCE is name[/config][:version], or the directory of a version, including versions of TensorFlow Datasets.

  beam-datasets materialize digits --split 'train=train[:80%]' --split 'validation=train[80%:]' --to digits_split
  beam-datasets materialize digits --split 'train+more/digits:train[:10%]' --to joined
  beam-datasets materialize digits --source_data_dir /central --data_dir /mine --num_shards 8""",
    (
        Option("source", "SOURCE"),
        Option(
            "--split",
            "[NAME=]EXPRESSION",
            "a split to write, such as 'train=train[:80%]'; can be repeated. SOURCE:train means a split of "
            "another dataset. Default: all splits as they are",
            repeated=True,
        ),
        Option(
            "--to",
            "NAME[/CONFIG][:VERSION]",
            "name, config and version to write; omitted parts are those of the source",
        ),
        Option(
            "--source",
            "LABEL=SOURCE",
            "label for another dataset, to use in expressions of --split; can be repeated",
            repeated=True,
            dest="sources",
        ),
        Option(
            "--features",
            "A,B.C",
            "keep only these features, such as a,b.c for feature a and feature c inside of b",
            type=comma_separated,
        ),
        Option(
            "--filter",
            "MODULE:FUNCTION",
            "keep the examples for which a function returns True: MODULE:FUNCTION or path/to/file.py:FUNCTION",
        ),
        Option(
            "--where",
            "CONDITION",
            "keep the examples for which this condition in SQL is true, such as \"label = 'dog' and length(text) >"
            ' 100"',
        ),
        Option(
            "--reshuffle",
            "SALT",
            "shuffle the examples again, by the hash of this text and their keys; default: keep the order",
        ),
        Flag("--refuse_repeats", "fail if a key occurs more than once in a split; without it, all are kept"),
        *SOURCES,
        SHARDS,
        engine_group("this process, without Beam"),
    ),
    usage="SOURCE [options] [options of Beam]",
    example="NAME --split 'train=train[:10%]' --to PART --data_dir DIR",
)


def run_materialize(args: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    parsed, beam_options = MATERIALIZE.parse_with_beam(args)
    from beam_datasets.jobs import check_job, run_job

    with as_usage_errors("materialize"):
        job = _job(parsed, beam_options)
        to_come = _format_plan(job)
    say(f"{job.info.display_name} -> {job.info.data_dir}")
    say(to_come)
    if parsed.dry_run:
        with as_usage_errors("materialize"):
            check_job(job, engine_options(parsed, beam_options))
        if parsed.where is not None:
            say(_format_chosen(job, job.count_chosen()))
        say("Nothing was run (--dry_run).")
        return 0
    start_time = time.monotonic()
    with publishing_in(job.info.data_dir):
        with as_usage_errors("materialize"), bytes_bar("Materialize") as show:
            total = _num_bytes_to_write(job)
            progress = (
                None
                if show is None
                else lambda progress_now: show(progress_now.bytes_encoded + progress_now.bytes_written, total)
            )
            directory = run_job(job, engine_options(parsed, beam_options), progress)
        if not is_published(directory):  # a job that is not waited for
            say(f"Submitted; it will publish in {directory}")
            return 0
        splits = builder_from_directory(directory).info.splits
        say(splits_table(splits))
        if parsed.where is not None:
            say(_format_chosen(job, {name: split.num_examples for name, split in splits.items()}))
        say(f"Published in {directory} after {time.monotonic() - start_time:.1f} s")
    return 0


def _format_chosen(job: Job, counts: Mapping[str, int]) -> str:
    """Returns a line for each split, such as "train: selected 1,200 of 60,000 records"; `counts` has the former."""
    return "\n".join(
        f"{split.name}: selected {counts[split.name]:,} of {split.num_examples:,} records" for split in job.splits
    )


def _num_bytes_to_write(job: Job) -> int | None:
    """Returns the number of bytes that the run writes, twice that of the records if it spills them; None if unknown."""
    if job.plan is not None:
        return job.num_bytes
    return 2 * job.num_bytes if job.transform is None and job.lineage.reshuffle is not None else None


def _job(parsed: argparse.Namespace, beam_options: Sequence[str]) -> Job:
    """Plans the job; a file of `--filter` becomes importable, also by Beam's workers.

    Raises:
        ValueError: the workers cannot import the file.
    """
    file = (parsed.filter or "").rpartition(":")[0]
    if file.endswith(".py"):
        if beam_options:
            from beam_datasets.engines.engine import check_code_is_shared

            check_code_is_shared(file, beam_options, shared_disk=parsed.shared_disk)
        make_importable(os.path.dirname(os.path.abspath(file)))
    return plan_job(**given(parsed, plan_job) | {"sources": dict(map(_parse_source, parsed.sources or ()))})


def _parse_source(text: str) -> tuple[str, str]:
    """Returns (label, source) of a text LABEL=SOURCE: ("more", "/data/digits/1.0.0").

    Raises:
        UsageError: the text has another form.
    """
    label, equals, source = text.partition("=")
    if not (label and equals and source):
        raise UsageError(f"--source is {text!r}; write --source LABEL=SOURCE, such as --source more=/data/digits/1.0.0")
    return label, source


def _format_plan(job: Job) -> str:
    """Returns a table of the selected source splits and of the splits to write."""
    rows = [_plan_row(split, job.num_shards(split)) for split in job.splits]
    lines = [table(["split", "of", "reads shards", "records", "bytes", "writes shards"], rows)]
    if job.lineage.features is not None:
        names = display_names(job.info.features)
        lines.append(f"features: {', '.join(names.get(name, name) for name in job.lineage.features)}")
    if job.lineage.filter is not None:
        lines.append(f"filter: {job.lineage.filter}")
    if job.lineage.reshuffle is not None:
        lines.append(f"order: shuffled with the salt {job.lineage.reshuffle!r}")
    lines += [f"note: {note}" for note in job.notes]
    return "\n".join(lines)


def _plan_row(split: SelectedSplit, num_shards: int | None) -> list[str | int]:
    """Returns [split, expression, shards to read, records, size as text, shards to write] for the table of the plan.

    The size does not include the framing of the records. `num_shards` is None if the size rule chooses the number.
    """
    files = split.files
    names = {files.filename(run) for run in range(len(files))}
    about = "" if split.exact else "about "
    shards = num_shards or "by size"
    num_bytes = split.num_bytes - OVERHEAD * files.num_examples  # as the result's splits have it
    return [split.name, split.expression, len(names), files.num_examples, about + size_text(num_bytes), shards]


# --------------------------------------------------------------------------------------------------------------- export


EXPORT = Command(
    "export",
    """\
Writes slices of a published dataset as files of another format, in dataset order; without --split, the whole dataset.

SOURCE is name[/config][:version], or the directory of a version, including versions of TensorFlow Datasets.

  beam-datasets export digits --format parquet --to digits_parquet
  beam-datasets export digits --split 'train=train[:10%]' --format jsonl --features label --to some_labels
  beam-datasets export digits --split train --format webdataset --num_shards 8 --to digits_tar""",
    (
        Option("source", "SOURCE"),
        Option(
            "--format",
            "FORMAT",
            ", ".join(FORMATS),
            required=True,
            choices=tuple(FORMATS),
        ),
        Option("--to", "DIR", "directory to create; existing files are not overwritten", required=True),
        Option(
            "--split",
            "[NAME=]EXPRESSION",
            "a split to write, such as 'train=train[:80%]'; can be repeated. Default: all splits as they are",
            repeated=True,
        ),
        Option(
            "--data_dir",
            "DATA_DIR",
            DATA_DIR_HELP,
        ),
        Option(
            "--features",
            "A,B.C",
            "export only these features, such as a,b.c for feature a and feature c inside of b",
            type=comma_separated,
        ),
        Option("--binary", "A,B.C", "features whose strings are bytes, not text", type=comma_separated, default=()),
        storage_options("--storage_options", "the store of --to"),
        storage_options("--source_storage_options", "the stores of sources"),
        Flag("--dry_run", "print what would be written, and write nothing"),
        SHARDS,
        Group(
            "engine (these options do not affect the written bytes)",
            Option(
                "--num_workers",
                "N",
                "number of processes of a local run; 0 means one per core; default: this process",
                type=whole_number,
            ),
            STALL_TIMEOUT,
            SHARED_DISK,
        ),
    ),
    usage="SOURCE --format FORMAT --to DIR [options] [options of Beam]",
    example="NAME --format parquet --to DIR --data_dir DIR",
)


def run_export(args: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    from beam_datasets.jobs import check_export, run_export

    parsed, beam_options = EXPORT.parse_with_beam(args)
    with as_usage_errors("export"):
        plan = plan_export(**given(parsed, plan_export))
    say(f"{plan.info.display_name} -> {plan.target} ({plan.format.name})")
    say(_format_export(plan))
    if parsed.dry_run:
        with as_usage_errors("export"):
            check_export(plan, engine_options(parsed, beam_options))
        say("Nothing was run (--dry_run).")
        return 0
    start_time = time.monotonic()
    with as_usage_errors("export"), bytes_bar("Export") as show:
        progress = None if show is None else lambda num_bytes: show(num_bytes, None)
        directory = run_export(plan, engine_options(parsed, beam_options), progress)
    say(f"Exported to {directory} after {time.monotonic() - start_time:.1f} s")
    return 0


def _format_export(plan: ExportPlan) -> str:
    """Returns a table of the selected source splits and of the splits to write, followed by the features."""
    rows = [
        [
            split.split,
            plan.lineage.splits[split.split].expression,
            split.num_examples,
            size_text(split.num_bytes),
            split.num_shards,
        ]
        for split in plan.splits
    ]
    return f"{plan.info.features!r}\n" + table(["split", "of", "examples", "records", "files"], rows)
