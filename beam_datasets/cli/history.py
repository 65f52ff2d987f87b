"""`beam-datasets tag`, `prune`, `publish` and `gc`: manage versions, kept results and leftover files."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Sequence

from beam_datasets import storage
from beam_datasets.cli.options import (
    DATA_DIR,
    STORAGE_OPTIONS,
    Command,
    Flag,
    Option,
    UsageError,
    as_usage_errors,
    given,
    number,
    whole_number,
    with_underscores,
)
from beam_datasets.cli.printing import plural, say, table
from beam_datasets.display.text import size_text
from beam_datasets.errors import StorageError
from beam_datasets.materializing.history import add_tag, plan_prune, remove_tag, remove_version
from beam_datasets.metadata.version import Version
from beam_datasets.publishing.leftovers import Leftover, find_leftovers, give_up, remove_leftover
from beam_datasets.publishing.renumbering import publish_as

TAG = Command(
    "tag",
    "Gives a tag to a published version; `beam-datasets prune` does not remove versions with tags.",
    (
        Option("dataset", "DATASET", "name[/config][:version]; without a version, the one that `load` reads"),
        Option("tag", "TAG", "the tag: letters, digits, '.', '-' and '_'"),
        Flag("--remove", "remove the tag"),
        DATA_DIR,
        STORAGE_OPTIONS,
    ),
    example="NAME:1.0.0 TAG --data_dir DIR",
)
PRUNE = Command(
    "prune",
    """\
Lists old versions of a dataset that are not needed, and removes them with --yes. It keeps the highest versions, and
versions in the lineage of another dataset in DATA_DIR.

  beam-datasets prune clicks --data_dir data --keep 7 --keep_tagged""",
    (
        Option("dataset", "DATASET", "name[/config]"),
        Option("--keep", "N", "number of the highest versions to keep", type=whole_number, required=True),
        Flag("--keep_tagged", "keep versions that have tags; without it, an old version with a tag is an error"),
        Flag("--yes", "remove the versions; without it, they are only listed"),
        DATA_DIR,
        STORAGE_OPTIONS,
    ),
    example="NAME --keep 3 --data_dir DIR",
)


def run_tag(args: Sequence[str]) -> int:
    """Gives a tag to a version, or removes it."""
    parsed = TAG.parse(args)
    change = remove_tag if parsed.remove else add_tag
    with as_usage_errors():
        of = change(parsed.dataset, parsed.tag, parsed.data_dir, parsed.storage_options)
    say(f"{parsed.tag} {'is removed from' if parsed.remove else '->'} {of}")
    return 0


def run_prune(args: Sequence[str]) -> int:
    """Lists or removes the versions that nothing needs."""
    from beam_datasets.statistics.report import stale_paths

    parsed = PRUNE.parse(args)
    with as_usage_errors():
        versions = plan_prune(parsed.dataset, **given(parsed, plan_prune))
    sizes = {}
    for version in versions:
        with contextlib.suppress(FileNotFoundError):  # another process has removed it meanwhile
            sizes[version] = storage.usage(version.directory).num_bytes
    judged = list(sizes)
    rows = [[version.name, size_text(sizes[version]), version.kept or "to be removed"] for version in judged]
    say(table(["version", "files", ""], rows, left_aligned=(0, 2)))
    old = [version for version in judged if not version.kept]
    if parsed.yes:
        removed = {}
        for version in old:
            with contextlib.suppress(FileNotFoundError):
                num_bytes = storage.freed([version.directory])  # of shared shards, those without another name by now
                if remove_version(version):
                    removed[version] = num_bytes
        summary = f"{plural(len(removed), 'version')}, {size_text(sum(removed.values()))}, removed"
        if refused := [version.name for version in old if version not in removed]:
            reason = "each was tagged or published again, or another process removed it"
            summary = f"{f'{summary}; ' if removed else ''}not removed: {', '.join(refused)} ({reason})"
    else:
        freed = storage.freed(version.directory for version in old)
        summary = f"{plural(len(old), 'version')}, {size_text(freed)}; --yes removes them"
    unneeded = () if parsed.yes else [version.directory for version in old]
    stale = stale_paths(storage.dirname(versions[-1].directory), unneeded=unneeded)
    for path in stale:
        say(f"statistics of a removed version: {path}, {'removed' if parsed.yes else 'to be removed'}")
        if parsed.yes:
            storage.remove(path)
    if not old:
        summary = f"{plural(len(stale), 'file')} of statistics{', removed' if parsed.yes else '; --yes removes them'}"
    say(summary if old or stale else "nothing to remove")
    return 0


PUBLISH = Command(
    "publish",
    """\
Publishes a result that `build --check_against` refused and kept, under another version. The shards are reused, and
the metadata is written again.""",
    (
        Option("result", "RESULT", "directory of the result, as shown in the error of `build`"),
        Option("--version", "VERSION", "version to publish it as, such as 2.0.0", required=True),
        STORAGE_OPTIONS,
    ),
    example="RESULT --version 2.0.0",
)


def run_publish(args: Sequence[str]) -> int:
    """Publishes a kept result and prints where."""
    parsed = PUBLISH.parse(args)
    if not Version.is_valid(parsed.version):
        raise UsageError(f"--version: expected a version such as 2.0.0, got {parsed.version!r}")
    directory = publish_as(storage.with_options(parsed.result, parsed.storage_options), parsed.version)
    say(f"Published in {directory}")
    return 0


# ------------------------------------------------------------------------------------------------------------ leftovers


FAILED = 1
_HOUR = 3600.0
GC = Command(
    "gc",
    """\
Lists leftovers of killed runs in DATA_DIR: staging directories (incomplete.*), unfinished files (.tmp-*), and on an
object store, reserved versions and the temporary files of `append` on this machine. With --yes, it removes abandoned
leftovers, and completes runs that had decided to publish. Published files are never changed, and links are not
followed.

A run of this machine is abandoned if its process has ended. A run of another or an unknown machine is abandoned if its
files have not changed for --older_than hours. Reservations never expire: if the process cannot be checked, abandon the
run with --abandon RUN. If the run is still active, it then fails and publishes nothing.""",
    (
        Option("data_dir", "DATA_DIR", "directory of datasets, or a directory below it"),
        STORAGE_OPTIONS,
        Flag("--yes", "remove abandoned leftovers; without it, they are only listed"),
        Option("--abandon", "RUN", "abandon the run with this id, even if it may be active; removes nothing else"),
        Option(
            "--older_than",
            "HOURS",
            "hours without changes after which files of another machine or of an "
            "unknown run count as abandoned; default: 168 (a week)",
            type=number,
            default=168.0,
        ),
    ),
    example="DATA_DIR",
)


def run_gc(args: Sequence[str]) -> int:
    """Prints the leftovers of killed runs, and removes them if asked to; returns 1 if one could not be removed."""
    # other commands have the option --data_dir
    parsed = GC.parse([arg.removeprefix("--data_dir=") for arg in with_underscores(args) if arg != "--data_dir"])
    if not 0 <= parsed.older_than < float("inf"):
        raise UsageError(f"--older_than is {parsed.older_than}; expected hours, 0 or more")
    root = storage.with_options(parsed.data_dir, parsed.storage_options)
    older_than, current_time = parsed.older_than * _HOUR, time.time()
    leftovers = find_leftovers(root, older_than=older_than)
    if not leftovers:
        say(f"nothing is left over in {root}")
        return 0
    rows = [_leftover_row(leftover, root, current_time) for leftover in leftovers]
    say(table(["left over", "size", "changed", ""], rows, left_aligned=(0, 3)))
    if parsed.abandon:
        return _give_up(parsed.abandon, leftovers, root)
    abandoned = [leftover for leftover in leftovers if leftover.abandoned]
    if parsed.yes:
        return _remove(abandoned, root, older_than)
    size = size_text(sum(leftover.num_bytes for leftover in abandoned))
    say(f"{len(abandoned)} of {len(leftovers)} abandoned, {size}" + ("; --yes removes them" if abandoned else ""))
    return 0


def _leftover_row(leftover: Leftover, root: str, current_time: float) -> list[str]:
    """Returns the table cells of a leftover: path relative to the root, size, age, "abandoned: ..." or "kept: ...".

    Args:
        leftover: the leftover.
        root: root of the datasets.
        current_time: the time of the table, in seconds since the epoch.
    """
    path = leftover.path.removeprefix(f"{root.rstrip('/')}/")
    state = f"{'abandoned' if leftover.abandoned else 'kept'}: {leftover.reason}"
    return [path, size_text(leftover.num_bytes), _format_age(current_time - leftover.modified), state]


def _format_age(seconds: float) -> str:
    """Returns an age in seconds as text.

    >>> _format_age(30), _format_age(5400), _format_age(200_000)
    ('0 min ago', '1.5 h ago', '2.3 days ago')
    """
    if seconds < 3600:
        return f"{max(0, seconds) / 60:.0f} min ago"
    return f"{seconds / 3600:.1f} h ago" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days ago"


def _give_up(job: str, leftovers: Sequence[Leftover], root: str) -> int:
    """Gives up a run, or finishes it if it had decided to publish.

    Args:
        job: id of the run.
        leftovers: the leftovers in `root`, with those of other runs.
        root: root of the datasets.

    Returns:
        The exit code, 0.
    """
    runs = [leftover for leftover in leftovers if leftover.kind == "run" and leftover.job == job]
    if not runs:
        known_jobs = ", ".join(str(leftover.job) for leftover in leftovers if leftover.kind == "run")
        raise UsageError(
            f"--abandon: expected the id of a run that has reserved a version, got {job}; {known_jobs or 'none'}"
        )
    for leftover in runs:
        say(f"run {job} is {give_up(leftover, root)}")
    return 0


def _remove(abandoned: Sequence[Leftover], root: str, older_than: float) -> int:
    """Removes leftovers one after another, and prints how many were removed.

    Args:
        abandoned: the leftovers.
        root: root of the datasets.
        older_than: seconds without a change after which a leftover counts as abandoned.

    Returns:
        The exit code: `FAILED` if one could not be removed, otherwise 0.
    """
    removed, num_failed = [], 0
    for leftover in abandoned:
        try:
            if remove_leftover(leftover, root, older_than=older_than):
                removed.append(leftover)
        except StorageError as error:
            num_failed += 1
            say(f"not removed: {error}", file=sys.stderr)
    say(f"{len(removed)} removed, {size_text(sum(leftover.num_bytes for leftover in removed))}")
    return FAILED if num_failed else 0
