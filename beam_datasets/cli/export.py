"""`beam-datasets export`: slices of a published dataset become files of other formats."""

from __future__ import annotations

import argparse
import inspect
import time
from collections.abc import Sequence

from beam_datasets.cli.options import DATA_DIR_HELP, SHARDS, STORAGE, Command, as_usage_errors, num_shards
from beam_datasets.cli.printing import bytes_bar, say, size_text, table
from beam_datasets.exporting.run import FORMATS, ExportPlan, plan_export

COMMAND = Command(
    "export",
    """\
Writes slices of a published dataset as files of another format, in dataset order; without --split all of it.

SOURCE is name[/config][:version], or the directory of a version, those of TensorFlow Datasets too.

  beam-datasets export digits --format parquet --to digits_parquet
  beam-datasets export digits --split 'train=train[:10%]' --format jsonl --features label --to some_labels
  beam-datasets export digits --split train --format webdataset --num_shards 8 --to digits_tar""",
    f"""
source SOURCE
--format FORMAT  {", ".join(FORMATS)}
--to DIR  the directory to make; nothing that exists is overwritten
--split [NAME=]EXPRESSION...  a split to write, such as 'train=train[:80%]'; can be repeated. Default: all splits as
  they are
--data_dir DATA_DIR  root of the datasets: {DATA_DIR_HELP}
--features A,B/C  only these features; can be nested
--binary A,B/C  features whose strings are bytes, not text
--storage{STORAGE.format("the store of --to")}
--source_storage{STORAGE.format("the stores of sources")}
--dry_run  say what would be written, and do nothing
{SHARDS}
engine (they change no byte):
--num_workers N  processes of a local run, 0 for one a core; default: this one
--shared_disk  remote workers see this machine's paths
""",
    usage="SOURCE --format FORMAT --to DIR [options] [options of Beam]",
    settings={
        "--format": {"required": True, "choices": [*FORMATS]},
        "--to": {"required": True},
        "--binary": {"default": ()},
    },
)


def run(args: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    from beam_datasets.jobs import run_export

    known, beam_options = COMMAND.parse_with_beam(args)
    with as_usage_errors("export"):
        plan = _plan(known)
    say(f"{plan.info.display_name} -> {plan.target} ({plan.format.name})")
    say(_to_come(plan))
    if known.dry_run:
        say("Nothing was run (--dry_run).")
        return 0
    started = time.monotonic()
    with as_usage_errors("export"), bytes_bar("Export") as show:
        engine = {"num_workers": known.num_workers, "shared_disk": known.shared_disk}
        progress = None if show is None else lambda done: show(done, None)
        directory = run_export(plan, beam_options, {**engine, "progress": progress})
    say(f"Exported to {directory} after {time.monotonic() - started:.1f} s")
    return 0


def _plan(known: argparse.Namespace) -> ExportPlan:
    given = {name: getattr(known, name) for name in inspect.signature(plan_export).parameters}
    return plan_export(**given | {"num_shards": num_shards(known.num_shards)})


def _to_come(plan: ExportPlan) -> str:
    """Returns a table of what is read and what is written, and the features."""
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
