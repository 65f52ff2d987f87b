"""`beam-datasets gc`: what killed runs left in a data_dir, and its removal."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from beam_datasets import storage
from beam_datasets.cli.options import STORAGE_OPTIONS, Command, UsageError
from beam_datasets.cli.printing import say, size_text, table
from beam_datasets.errors import StorageError
from beam_datasets.generate.leftovers import WEEK, Leftover, find_leftovers, give_up, remove_leftover

FAILED = 1
_HOUR = 3600.0
COMMAND = Command(
    "gc",
    """\
Lists what killed runs left in DATA_DIR: staging directories (incomplete.*), versions of an object store that a run has
reserved, unfinished files (.tmp-*); of an object store, also what killed appends of this machine built in the directory
for temporary files. With --yes it removes what is abandoned, and finishes runs that had decided to publish. Nothing
that is published is touched, and no link is followed.

Whether a run of this machine is alive is known from its process. Files of another machine, or of an unknown one, count
as abandoned if nothing in them was changed for --older_than hours. A reservation never expires: if its process cannot
be asked, give the run up with --abandon RUN. Should it be alive, it fails and publishes nothing.""",
    f"""
data_dir DATA_DIR  directory of datasets, or one below it
{STORAGE_OPTIONS}
--yes  remove what is abandoned; without it, nothing is removed
--abandon RUN  give up the run with this id, which may be alive; removes nothing else
--older_than HOURS  default: 168, a week
""",
    settings={"--older_than": {"default": WEEK / _HOUR}},
)


def run(args: Sequence[str]) -> int:
    """Prints what killed runs left, and removes it if asked to; returns 1 if something could not be removed."""
    known = COMMAND.parse(args)
    if not 0 <= known.older_than < float("inf"):
        raise UsageError(f"--older_than is {known.older_than}; expected hours, 0 or more")
    root = storage.with_options(known.data_dir, known.storage_options)
    older_than, now = known.older_than * _HOUR, time.time()
    found = find_leftovers(root, older_than=older_than)
    if not found:
        say(f"nothing is left over in {root}")
        return 0
    rows = [_row(leftover, root, now) for leftover in found]
    say(table(["left over", "size", "changed", ""], rows, left=(0, 3)))
    if known.abandon:
        return _give_up(known.abandon, found, root)
    abandoned = [leftover for leftover in found if leftover.abandoned]
    if known.yes:
        return _remove(abandoned, root, older_than)
    size = size_text(sum(leftover.num_bytes for leftover in abandoned))
    say(f"{len(abandoned)} of {len(found)} abandoned, {size}" + ("; --yes removes them" if abandoned else ""))
    return 0


def _row(leftover: Leftover, root: str, now: float) -> list[str]:
    path = leftover.path.removeprefix(f"{root.rstrip('/')}/")
    state = f"{'abandoned' if leftover.abandoned else 'kept'}: {leftover.reason}"
    return [path, size_text(leftover.num_bytes), _ago(now - leftover.modified), state]


def _ago(seconds: float) -> str:
    """Returns how long ago something was, for people.

    >>> _ago(30), _ago(5400), _ago(200_000)
    ('0 min ago', '1.5 h ago', '2.3 days ago')
    """
    if seconds < 3600:
        return f"{max(0, seconds) / 60:.0f} min ago"
    return f"{seconds / 3600:.1f} h ago" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days ago"


def _give_up(job: str, found: Sequence[Leftover], root: str) -> int:
    """Gives up a run, or finishes it if it had decided to publish."""
    runs = [leftover for leftover in found if leftover.kind == "run" and leftover.job == job]
    if not runs:
        known = ", ".join(str(leftover.job) for leftover in found if leftover.kind == "run")
        raise UsageError(
            f"--abandon: expected the id of a run that has reserved a version, got {job}; {known or 'none'}"
        )
    for leftover in runs:
        say(f"run {job} is {give_up(leftover, root)}")
    return 0


def _remove(abandoned: Sequence[Leftover], root: str, older_than: float) -> int:
    """Removes leftovers, one after another, and prints what came of it."""
    removed, failed = [], 0
    for leftover in abandoned:
        try:
            if remove_leftover(leftover, root, older_than=older_than):
                removed.append(leftover)
        except StorageError as error:
            failed += 1
            say(f"not removed: {error}", file=sys.stderr)
    say(f"{len(removed)} removed, {size_text(sum(leftover.num_bytes for leftover in removed))}")
    return FAILED if failed else 0
