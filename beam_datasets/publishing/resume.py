"""Resuming failed runs: the files that they leave for `--resume`, and how a later run finds and validates them.

A run that spills its payload writes `resume.json` into its spill directory when it starts: the fingerprint of all
inputs that affect the bytes of encoded units. A later run has its own id and directories. It reads the checkpoints of
earlier runs in place, and deletes these runs' directories when the version is published.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from beam_datasets import storage
from beam_datasets.errors import ResumeError, StorageError
from beam_datasets.passwords import without_passwords
from beam_datasets.publishing import runs
from beam_datasets.publishing.fingerprints import may_name_secret
from beam_datasets.publishing.owners import Owner
from beam_datasets.publishing.runs import SPILL_SUFFIX, has_units

RESUME_FILE = "resume.json"
KEEP_SECONDS = 60.0
"""A run that fails after more seconds keeps its finished units; one that was started with --resume always does."""
CHANGED = "changed"
"""Value of the option `resume` that accepts units of a builder that has changed since."""
_PROGRAMS = {
    "/beam-datasets": "beam-datasets",
    "/beam_datasets/cli/__main__.py": "beam-datasets",
    "/beam_datasets/beam/main.py": "python -m beam_datasets.beam.main",
}


@dataclass(frozen=True)
class Resumable:
    """The content of resume.json.

    Attributes:
        target: the version's directory, as URL without options.
        fingerprint: {name of an input that decides the bytes of units: its value or digest}.
        accepted: digests of other fingerprints whose units the user has declared valid.
        always: whether units are kept even if the run fails early.
        command: the command that starts the run again, for messages; None if it is unknown or contains credentials.
    """

    target: str
    fingerprint: Mapping[str, str]
    accepted: Sequence[str] = ()
    always: bool = False
    command: str | None = None

    @property
    def digest(self) -> str:
        """The first 32 hexadecimal digits of the SHA-256 of the fingerprint."""
        return hashlib.sha256(json.dumps(self.fingerprint, sort_keys=True).encode()).hexdigest()[:32]

    def save(self, spill_dir: str) -> None:
        """Writes resume.json."""
        content = json.dumps(dataclasses.asdict(self), indent=1)
        storage.write_bytes(storage.join(spill_dir, RESUME_FILE), content.encode())

    @classmethod
    def load(cls, spill_dir: str) -> Resumable | None:
        """Returns the content of resume.json; None if it is missing or damaged."""
        try:
            return cls(**json.loads(storage.read_bytes(storage.join(spill_dir, RESUME_FILE))))
        except (StorageError, ValueError, TypeError):
            return None


@dataclass(frozen=True)
class Attempt:
    """An earlier run of the same version.

    Attributes:
        job: the run's id.
        staging_dir: its staging directory, which need not exist any more.
        spill_dir: its spill directory.
    """

    job: str
    staging_dir: str
    spill_dir: str

    def remove(self) -> None:
        """Deletes its files."""
        for directory in (self.spill_dir, self.staging_dir):
            storage.remove_tree(directory)


def find_attempts(resumable: Resumable, run: runs.Run, resume: bool | str) -> tuple[list[Attempt], Resumable]:
    """Returns the earlier runs whose finished units may be used, and `resumable` with the fingerprints that it accepts.

    Args:
        resumable: content of resume.json of the run that is about to start.
        run: the run that is about to start. Directories of earlier runs are beside its own.
        resume: 'changed' accepts units of a builder that has changed since; with True they are a ResumeError.

    Raises:
        ResumeError: the builder has changed, or a run of this machine is still active.
    """
    attempts, accepted = [], {resumable.digest}
    earlier_runs = list(_find_earlier_runs(run))
    for attempt, earlier in earlier_runs:
        owner = Owner.read(attempt.spill_dir) or Owner.read(attempt.staging_dir)
        if owner is not None and owner.is_here and owner.is_running and owner.is_local:
            raise ResumeError(
                f"run {attempt.job} ({owner.text}) is still active",
                path=resumable.target,
                advice="Wait until it has ended.",
            )
        if earlier.digest == resumable.digest:
            accepted.update(earlier.accepted)
        attempts.append(attempt)
    changed_runs = [earlier for _, earlier in earlier_runs if earlier.digest not in accepted]
    if changed_runs and resume != CHANGED:
        changes = "\n  ".join(_describe_changes(changed_runs[-1].fingerprint, resumable.fingerprint))
        raise ResumeError(
            f"the dataset has changed since the run that is to be resumed:\n  {changes}\n"
            f"If its finished units are valid nevertheless, use --resume {CHANGED}. To encode all units again, omit "
            "--resume.",
            path=resumable.target,
        )
    accepted.update(earlier.digest for earlier in changed_runs)
    return attempts, dataclasses.replace(resumable, accepted=sorted(accepted - {resumable.digest}))


def _find_earlier_runs(run: runs.Run) -> Iterator[tuple[Attempt, Resumable]]:
    """Yields the earlier runs of a version that have finished units."""
    target = run.target
    for folder in dict.fromkeys((storage.dirname(target), storage.dirname(run.spill_dir or target))):
        for name in runs.names_in(folder):
            match = runs.STAGING_NAME.fullmatch(name)
            if match is None or match["name"] != storage.basename(target) + SPILL_SUFFIX or match["job"] == run.job:
                continue
            spill_dir = storage.join(folder, name)
            earlier = Resumable.load(spill_dir) if has_units(spill_dir) else None
            if earlier is not None and earlier.target == storage.url(target):
                yield Attempt(match["job"], runs.staging_dir(target, match["job"]), spill_dir), earlier


def _describe_changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """Yields a line "name: old -> new" for each name whose value differs; "missing" is the value of an absent name."""
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield f"{name}: {old.get(name, 'missing')} -> {new.get(name, 'missing')}"


def keeps_units(run: runs.Run, spill_dir: str) -> bool:
    """Returns whether a failed run has finished units, and ran for `KEEP_SECONDS` or was started with `--resume`."""
    resumable = Resumable.load(spill_dir)
    if resumable is None or not has_units(spill_dir):
        return False
    return resumable.always or time.time() - run.owner.started >= KEEP_SECONDS


def hint(spill_dir: str) -> str:
    """Returns the command that continues a failed run; "the same command with --resume" if it is not known."""
    resumable = Resumable.load(spill_dir)
    return (resumable and resumable.command) or "the same command with --resume"


def command_to_resume() -> str | None:
    """Returns the command line of this process with `--resume`; None if it is another's or contains credentials."""
    program = next((text for path, text in _PROGRAMS.items() if sys.argv[0].endswith(path)), None)
    if program is None:
        return None
    text = f"{program} {shlex.join([*sys.argv[1:], *([] if '--resume' in sys.argv else ['--resume'])])}"
    return None if may_name_secret(text) or without_passwords(text) != text else text
