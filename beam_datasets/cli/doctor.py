"""`beam-datasets doctor`: checks whether datasets can be built on an engine."""

from __future__ import annotations

from collections.abc import Sequence

from beam_datasets import catalog
from beam_datasets.cli.options import (
    DATA_DIR,
    SHARED_DISK,
    STORAGE_OPTIONS,
    Command,
    Option,
    as_usage_errors,
    comma_separated,
    engine_options,
    whole_number,
)
from beam_datasets.cli.printing import say
from beam_datasets.extras import importing_beam

COMMAND = Command(
    "doctor",
    """\
Checks an engine before you build datasets on it, and prints the result of each check: addresses, slots, versions,
access to data_dir and spill_dir from this machine and the workers, packages, clocks, memory.

The command runs a small job on the workers and leaves no files. The exit code is 1 if a check fails, because a build
would fail too. A warning shows a setting that should be changed although builds can run.""",
    (
        DATA_DIR,
        STORAGE_OPTIONS,
        Option(
            "--spill_dir",
            "DIR",
            "directory that builds will use for spilled records; all workers must be able to access it",
        ),
        SHARED_DISK,
        Option(
            "--num_workers",
            "N",
            "number of worker processes of a local run; 0 means one per core; default: one per core",
            type=whole_number,
        ),
        Option(
            "--packages",
            "A,B.C",
            "modules that workers must be able to import, such as the module of your builder",
            type=comma_separated,
        ),
    ),
    usage="[options] [options of Beam]",
)


def run(args: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    from beam_datasets.cli.options import parse_with_beam

    parsed, beam_options = parse_with_beam(COMMAND.parser(), args)
    with importing_beam():
        from beam_datasets.engines.doctor import examine
    root_dir = catalog.root_dir(parsed.data_dir, parsed.storage_options)
    failures = warnings = 0
    with as_usage_errors("doctor"):
        for finding in examine(root_dir, engine_options(parsed, beam_options), packages=parsed.packages or ()):
            failures += not finding.is_good
            warnings += finding.is_warning
            word = "FAIL" if not finding.is_good else "warn" if finding.is_warning else "ok  "
            say(f"{word}  {finding.check}: {finding.text}")
    result = f"Checks that failed: {failures}" if failures else "All checks passed"
    say(f"{result}{f'; warnings: {warnings}' if warnings else ''}.")
    return 1 if failures else 0
