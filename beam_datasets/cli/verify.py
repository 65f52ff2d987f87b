"""`beam-datasets verify`: compares a dataset with the published checksums, lists lost examples, and repairs files."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Collection, Iterator, Sequence

from beam_datasets import catalog
from beam_datasets.cli.options import (
    DATASET,
    NO_WAIT,
    SHARED_DISK,
    STALL_TIMEOUT,
    Command,
    Flag,
    Group,
    Option,
    UsageError,
    as_usage_errors,
    check_beam_options,
    engine_options,
    given,
    near_option,
    storage_options,
    until_dashes,
    whole_number,
)
from beam_datasets.cli.printing import bytes_bar, plural, say
from beam_datasets.display.text import size_text
from beam_datasets.publishing.repair import Repair, repair
from beam_datasets.verifying import Finding, Report, verify

FOUND = 1
COMMAND = Command(
    "verify",
    """\
Reads a complete published dataset and compares it with the published checksums. Reports damage with file, byte and
record, and the lost examples. Changes nothing without --repair.

The exit code is 0 if there are no findings (with --repair: if none remain), and 1 otherwise.""",
    (
        *DATASET,
        Flag("--decode", "also decode each record, including images; much slower"),
        Option("--jobs", "N", "number of shards to read concurrently; default: one per core", type=whole_number),
        Flag("--json", "print the result as JSON"),
        Group(
            "repair",
            Flag("--repair", "restore files that can be rebuilt from the others, and print each step"),
            Option("--from", "COPY", "restore files from this other copy of the dataset", dest="copy"),
            storage_options("--from_storage_options", "the copy's store", dest="copy_storage_options"),
            Flag("--dry_run", "print the repairs without writing anything"),
        ),
        Group(
            "as a pipeline",
            Flag("--beam", "verify in a Beam pipeline; other options are passed to Beam"),
            Option(
                "--report",
                "FILE",
                "file for the report of the pipeline; this machine and all workers must be able to access it",
            ),
            Option(
                "--num_workers",
                "N",
                "number of worker processes of a local run; 0 means one per core; default: one per core",
                type=whole_number,
            ),
            STALL_TIMEOUT,
            SHARED_DISK,
            NO_WAIT,
        ),
    ),
    example="NAME --data_dir DIR",
)


def run(args: Sequence[str]) -> int:
    """Prints the findings about a dataset, and repairs it with --repair; returns 0, or `FOUND` if it is damaged."""
    parser = COMMAND.parser()
    args, unchecked = until_dashes(args)
    parsed, beam_args = parser.parse_known_args(args)
    _check_options(parsed, [*beam_args, *unchecked], parser)
    if parsed.beam:
        check_beam_options(beam_args, parser)
        return _verify_on_beam(parsed, [*beam_args, *unchecked])
    directory = catalog.find_published(parsed.dataset, parsed.data_dir, parsed.storage_options)
    return _repair(directory, parsed) if parsed.repair else _verify(directory, parsed)


def _check_options(parsed: argparse.Namespace, unknown_args: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Checks that the options go together.

    It raises a UsageError, or ends the process, if they do not.

    Args:
        parsed: parsed options of the command.
        unknown_args: arguments that are not options of the command; with --beam they are Beam's.
        parser: parser whose `error` ends the process.
    """
    if unknown_args and not parsed.beam:
        parser.error(
            f"unknown option {unknown_args[0]}; options of Beam need --beam.{near_option(unknown_args, parser)}"
        )
    needs = {
        "--from": (parsed.copy, "--repair"),
        "--from_storage_options": (parsed.copy_storage_options, "--repair"),
        "--dry_run": (parsed.dry_run, "--repair"),
        "--report": (parsed.report, "--beam"),
        "--num_workers": (parsed.num_workers, "--beam"),
        "--shared_disk": (parsed.shared_disk, "--beam"),
        "--no_wait": (not parsed.wait, "--beam"),
    }
    for name, (value, requirement) in needs.items():
        if value and not getattr(parsed, requirement.removeprefix("--")):
            jobs = "; --jobs N reads N shards at once" if name == "--num_workers" else ""
            raise UsageError(f"{name} means nothing without {requirement}{jobs}")
    if parsed.beam and parsed.repair:
        raise UsageError("a repair is made here, not by a pipeline: leave out --beam")
    if parsed.jobs is not None and (parsed.jobs < 1 or parsed.beam):
        requirement = (
            "leave it out with --beam" if parsed.beam else "expected how many shards to read at once, 1 or more"
        )
        raise UsageError(f"--jobs is {parsed.jobs}; {requirement}")


def _verify(directory: str, parsed: argparse.Namespace) -> int:
    """Verifies a version, prints the report, and returns the exit status: 0, or `FOUND` if something is damaged."""
    start_time = time.monotonic()
    with bytes_bar("Verify") as progress:
        report = verify(directory, decode=parsed.decode, jobs=parsed.jobs, progress=progress)
    return _show(report, parsed, start_time)


def _verify_on_beam(parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    """Verifies a dataset in a Beam pipeline, prints the report and returns the exit code."""
    from beam_datasets.beam.reports import run_verify as run_pipeline

    start_time = time.monotonic()
    with as_usage_errors("verify"):
        engine = engine_options(parsed, beam_options)
        report = run_pipeline(parsed.dataset, engine, **given(parsed, run_pipeline))
    if report is None:  # the job is not waited for
        say(f"Submitted; its report will be {parsed.report}")
        return 0
    return _show(report, parsed, start_time)


def _show(report: Report, parsed: argparse.Namespace, start_time: float) -> int:
    """Prints a report as text or JSON; returns the exit status: 0, or `FOUND` if something is damaged.

    Args:
        report: the report.
        parsed: the options of the command.
        start_time: when the check began, by `time.monotonic`, in seconds.
    """
    if parsed.json:
        say(json.dumps(report.to_json(), indent=1))
    else:
        say("\n".join(report_lines(report, time.monotonic() - start_time)))
    return 0 if report.whole else FOUND


def _repair(directory: str, parsed: argparse.Namespace) -> int:
    """Repairs a dataset, or lists the repairs of a dry run, and returns the exit code."""
    on_step = None if parsed.json or parsed.dry_run else (lambda step: say(f"wrote {step}"))
    with bytes_bar("Verify") as progress:
        options = given(parsed, repair) | {"storage_options": None}  # the directory has them
        result = repair(directory, **options, progress=progress, on_step=on_step)
    say(json.dumps(repair_json(result), indent=1) if parsed.json else "\n".join(repair_lines(result)))
    return 0 if (result.before if result.after is None else result.after).whole else FOUND


def report_lines(report: Report, seconds: float | None = None, refused: Collection[str] = ()) -> Iterator[str]:
    """Yields a report as lines for people.

    Args:
        report: the report to show.
        seconds: duration of the check; None leaves it out.
        refused: the files that a repair left as they are: it is not recommended for them, unless they cannot be read.
    """
    yield f"{report.dataset or 'a dataset'} in {report.directory}"
    for finding in report.findings:
        yield str(finding)
        if finding.lost is not None:
            yield f"    lost: {finding.lost}, {plural(len(finding.lost), 'example')}"
    yield from _remedies([f for f in report.findings if f.file not in refused or f.kind == "unreadable"])
    yield from (f"not known: {text}" for text in report.not_known)
    duration = "" if seconds is None else f" in {seconds:.1f} s"
    yield f"{_result(report)}; {_format_counts(report)}{duration}"


def _remedies(findings: Sequence[Finding]) -> Iterator[str]:
    """Yields lines: a heading, then each advice once, after the kinds of its findings; nothing without findings."""
    kinds: dict[str, dict[str, None]] = {}
    for finding in findings:
        kinds.setdefault(finding.remedy, {})[finding.kind] = None
    if kinds:
        yield "what can be done:"
    yield from (f"    {', '.join(finding_kinds)}: {remedy}" for remedy, finding_kinds in kinds.items())


def _result(report: Report) -> str:
    """Returns "whole", or a summary such as "2 findings in 1 file, 10 examples lost: train[0:10]"."""
    if report.whole:
        return "whole"
    files = len({finding.file for finding in report.findings})
    lost_text = "no example is lost"
    if report.num_lost:
        ranges = list(map(str, report.lost))
        ranges_text = "+".join(ranges) if len(ranges) <= 8 else f"{'+'.join(ranges[:8])}+..."
        lost_text = f"{plural(report.num_lost, 'example')} lost: {ranges_text}"
    if report.num_unread:
        verb = "was" if report.num_unread == 1 else "were"
        unread = f"{plural(report.num_unread, 'record')} over the limit {verb} not read and may be damaged"
        lost_text = f"{lost_text}; {unread}" if report.num_lost else unread
    return f"{plural(len(report.findings), 'finding')} in {plural(files, 'file')}, {lost_text}"


def _format_counts(report: Report) -> str:
    """Returns a clause about the amount that was read: "read 8 shards, 1,000 records, 1.5 MiB"."""
    counts = f"{plural(report.num_shards, 'shard')}, {plural(report.num_records, 'record')}"
    return f"read {counts}, {size_text(report.num_bytes)}"


def repair_lines(result: Repair) -> Iterator[str]:
    """Yields the result of a repair as text: files that it left, and the report after it; the steps of a dry run."""
    if result.after is None:
        yield from report_lines(result.before, refused=result.refused)
        yield from (f"would write {step}" for step in result.steps)
    yield from (f"left as it is {file}: {reason}" for file, reason in result.refused.items())
    if result.after is None:
        yield "nothing was written (--dry_run)"
    else:
        yield from report_lines(result.after, refused=result.refused)


def repair_json(result: Repair) -> dict[str, object]:
    """Returns {'before': report, 'steps': [{'file', 'message'}, ...], 'refused': {file: reason}, 'after': report}.

    The values are those of JSON; 'after' is None for a dry run.
    """
    return {
        "before": result.before.to_json(),
        "steps": [{"file": step.file, "message": step.message} for step in result.steps],
        "refused": result.refused,
        "after": None if result.after is None else result.after.to_json(),
    }
