"""Who may put a version in place where there is no rename: on an object store, whose only sure step is a creation.

A publisher creates a claim, `<dataset_dir>/.publishing/<number>.json`, on the condition that there is none of this
number, and renews it while it works. The highest number holds. A claim that was not renewed for `LEASE_SECONDS`, or
whose process is gone, as its own machine and container can tell, is a dead one: the next publisher creates the number
after it.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass

from beam_datasets import storage
from beam_datasets.errors import AlreadyPublishedError, PathNotFoundError, StorageError
from beam_datasets.writing.owners import Owner

CLAIMS_DIR = ".publishing"
LEASE_SECONDS = 600
RENEW_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to put a version in place.

    Attributes:
        path: the claim's own.
        job: whose it is.
        host: name of the publisher's machine.
        pid: its process there.
        renewed: when it last said that it lives, in seconds since the epoch.
        space: in which process numbers are unique, see `Owner`.
        began: when the process began, likewise.
    """

    path: str
    job: str
    host: str
    pid: int
    renewed: float
    space: str = ""
    began: int | None = None

    @classmethod
    def new(cls, path: str, job: str) -> Claim:
        """Returns a claim of this process."""
        owner = Owner.of_this_process(job, time.time(), "")
        return cls(path, job, owner.host, owner.pid, owner.started, owner.space, owner.began)

    @classmethod
    def read(cls, path: str) -> Claim:
        """Returns what a claim says; one that cannot be read is of nobody, and dead."""
        try:
            content = json.loads(storage.read_bytes(path))
            began = content.get("began")
            return cls(
                path,
                str(content["job"]),
                str(content["host"]),
                int(content["pid"]),
                float(content["renewed"]),
                str(content.get("space", "")),
                None if began is None else int(began),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls(path, "", "", 0, 0.0)

    @property
    def text(self) -> bytes:
        """What stands in the claim."""
        content = asdict(self)
        del content["path"]
        return json.dumps(content).encode()

    @property
    def is_alive(self) -> bool:
        """Whether its publisher may still be at work."""
        owner = Owner(self.job, self.host, self.pid, self.renewed, space=self.space, began=self.began)
        if owner.is_here and not owner.runs:
            return False
        return time.time() - self.renewed < LEASE_SECONDS

    def renewed_now(self) -> Claim:
        """Writes that the publisher lives, if it last did so some time ago; returns the claim as it is then."""
        if time.time() - self.renewed < RENEW_SECONDS:
            return self
        claim = Claim.new(self.path, self.job)
        storage.write_bytes(claim.path, claim.text)
        return claim


def take(dataset_dir: str, job: str) -> Claim:
    """Returns the claim of a job on a directory, which is created unless it has one.

    Raises:
        AlreadyPublishedError: somebody else is publishing there.
    """
    while True:
        number, last = latest(dataset_dir)
        if last is not None and last.job == job:
            return last
        if last is not None and last.is_alive:
            seconds = time.time() - last.renewed
            raise AlreadyPublishedError(
                f"{dataset_dir} is being published by job {last.job} (process {last.pid} on {last.host}, which said so "
                f"{seconds:.0f} s ago). Wait for it; if it is dead, publishing is possible again "
                f"{max(0, LEASE_SECONDS - seconds):.0f} s from now."
            )
        claim = Claim.new(storage.join(dataset_dir, CLAIMS_DIR, f"{number + 1:08d}.json"), job)
        try:
            storage.create_bytes(claim.path, claim.text)
        except FileExistsError:
            continue  # somebody was faster; or it is ours, and the answer was lost
        return claim


def latest(dataset_dir: str) -> tuple[int, Claim | None]:
    """Returns the highest number that was claimed, and the claim; 0 and None where there is none."""
    folder = storage.join(dataset_dir, CLAIMS_DIR)
    try:
        names = [name for name in storage.list_dir(folder) if name.removesuffix(".json").isdigit()]
        if not names:
            return 0, None
        return int(max(names).removesuffix(".json")), Claim.read(storage.join(folder, max(names)))
    except PathNotFoundError:
        return 0, None


def check_held(dataset_dir: str, claim: Claim) -> None:
    """Checks that nobody took the place of a publisher that was silent for too long.

    Raises:
        StorageError: somebody did.
    """
    _, last = latest(dataset_dir)
    if last is None or last.path != claim.path or last.job != claim.job:
        raise StorageError(
            f"{dataset_dir}: job {claim.job} was silent for more than {LEASE_SECONDS} s, and another publisher took "
            "its place; this one published nothing."
        )
