"""`beam-datasets export`: slices of a published dataset become files of other formats."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from beam_datasets.cli.options import (
    DATA_DIR_HELP,
    Parser,
    UsageError,
    add_shard_options,
    add_store_options,
    as_usage_errors,
    check_beam_options,
    num_shards,
    size_in_bytes,
    until_dashes,
)
from beam_datasets.cli.progress_bar import bytes_bar
from beam_datasets.cli.tables import size_text, table
from beam_datasets.cli.terminal import say
from beam_datasets.exporting.formats import NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from beam_datasets.exporting.plan import ExportPlan

USAGE = "beam-datasets export SOURCE --format FORMAT --to DIR [options] [options of Beam]"
DESCRIPTION = """\
Writes slices of a published dataset as files of another format, in dataset order; without --split all of it.

SOURCE is name[/config][:version], or the directory of a version, those of TensorFlow Datasets too.

  beam-datasets export digits --format parquet --to digits_parquet
  beam-datasets export digits --split 'train=train[:10%]' --format jsonl --features label --to some_labels
  beam-datasets export digits --split train --format webdataset --num_shards 8 --to digits_tar"""


def run(args: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    from beam_datasets.exports import run_plan

    known, beam_options = _parse(list(args))
    with as_usage_errors("export"):
        plan = _plan(known)
    say(f"{plan.info.display_name} -> {plan.directory} ({plan.format.name})")
    say(_to_come(plan))
    if known.dry_run:
        say("Nothing was run (--dry_run).")
        return 0
    started = time.monotonic()
    with as_usage_errors("export"), bytes_bar("Export") as show:
        engine = {"num_workers": known.num_workers, "shared_disk": known.shared_disk}
        progress = None if show is None else lambda done: show(done, None)
        directory = run_plan(plan, beam_options, {**engine, "progress": progress})
    say(f"Exported to {directory} after {time.monotonic() - started:.1f} s")
    return 0


def _parse(args: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Returns our own options, and the rest for Beam, checked."""
    args, unchecked = until_dashes(args)
    parser = _parser()
    if not args:
        raise UsageError(f"which dataset? {USAGE}")
    known, rest = parser.parse_known_args(args)
    for option, name in (("row_group_size", "parquet"), ("group_size", "arrayrecord")):
        if getattr(known, option) is not None and known.format != name:
            raise UsageError(f"--{option} is an option of {name}; {known.format} has none of that name")
    check_beam_options(rest, parser)
    return known, [*rest, *unchecked]


def _parser() -> Parser:
    parser = Parser(
        "beam-datasets export",
        usage=USAGE,
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("source", metavar="SOURCE")
    add("--format", required=True, choices=NAMES, metavar="FORMAT", help=", ".join(NAMES))
    add("--to", required=True, metavar="DIR", help="the directory to make; nothing that exists is overwritten")
    add(
        "--split",
        action="append",
        metavar="[NAME=]EXPRESSION",
        help="a split to write, such as 'train=train[:80%%]'; can be repeated. Default: all splits as they are",
    )
    add("--data_dir", help=f"root of the datasets: {DATA_DIR_HELP}")
    add("--features", metavar="A,B/C", help="only these features; can be nested")
    add("--binary", metavar="A,B/C", help="features whose strings are bytes, not text")
    add_store_options(parser, of="the store of --to")
    add_store_options(parser, prefix="source_", of="the stores of sources")
    add("--dry_run", action="store_true", help="say what would be written, and do nothing")
    add("--debug", action="store_true", help="show the traceback of an error")
    add_shard_options(parser)
    group = parser.add_argument_group("formats")
    group.add_argument(
        "--row_group_size", type=size_in_bytes, metavar="SIZE", help="of parquet, in memory; default 32MiB"
    )
    group.add_argument(
        "--group_size", type=int, metavar="N", help="of arrayrecord: records that are compressed together; default 1"
    )
    group = parser.add_argument_group("engine (they change no byte)")
    group.add_argument(
        "--num_workers", type=int, metavar="N", help="processes of a local run, 0 for one a core; default: this one"
    )
    group.add_argument("--shared_disk", action="store_true", help="remote workers see this machine's paths")
    return parser


def _plan(known: argparse.Namespace) -> ExportPlan:
    from beam_datasets.exporting.formats import format_of
    from beam_datasets.exporting.plan import plan_export

    options = {"row_group_bytes": known.row_group_size, "group_size": known.group_size}
    return plan_export(
        known.source,
        known.to,
        format_of(known.format, **options),
        split=known.split,
        data_dir=known.data_dir,
        features=_names(known.features),
        binary=_names(known.binary) or (),
        num_shards=num_shards(known.num_shards),
        min_shard_size=known.min_shard_size,
        max_shard_size=known.max_shard_size,
        storage_options=known.storage_options,
        source_storage_options=known.source_storage_options,
    )


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def _to_come(plan: ExportPlan) -> str:
    """Returns a table of what is read and what is written, and the features."""
    rows = [
        [
            split.name,
            plan.lineage.splits[split.name].expression,
            split.num_examples,
            size_text(split.num_bytes),
            split.num_shards,
        ]
        for split in plan.splits
    ]
    return f"{plan.info.features!r}\n" + table(["split", "of", "examples", "records", "files"], rows)
