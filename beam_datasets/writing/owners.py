"""Who owns a staging directory: its owner.json, and whether that process still runs."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass, fields

from beam_datasets import storage
from beam_datasets.errors import StorageError

OWNER_FILE = "owner.json"
LOCAL_RUNNERS = ("", "FnApiRunner", "DirectRunner", "BundleBasedDirectRunner", "SwitchingDirectRunner")
"""Runners of Beam that run in this machine and end with the process that started them; '' is where none is named."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that runs a job.

    Attributes:
        job: unique to the run.
        host: name of the machine.
        pid: the process there.
        started: when the job began, in seconds since the epoch.
        runner: name of the runner.
        space: in which process numbers are unique: this start of the machine, and the container; '' where the system
            does not tell.
        began: when the process began, in ticks since the machine was started; None where the system does not tell.
    """

    job: str
    host: str
    pid: int
    started: float
    runner: str = ""
    space: str = ""
    began: int | None = None

    @classmethod
    def of_this_process(cls, job: str, started: float, runner: str) -> Owner:
        """Returns this process as the owner of a job."""
        return cls(job, socket.gethostname(), os.getpid(), started, runner, _space(), _began(os.getpid()))

    @classmethod
    def read(cls, staging_dir: str) -> Owner | None:
        """Returns the owner of a staging directory; None where it does not say it."""
        try:
            content = json.loads(storage.read_bytes(storage.join(staging_dir, OWNER_FILE)))
            return cls(**{field.name: content[field.name] for field in fields(cls) if field.name in content})._checked()
        except (StorageError, ValueError, TypeError):
            return None

    def _checked(self) -> Owner:
        if not isinstance(self.host, str) or type(self.pid) is not int or self.pid < 1:
            raise ValueError("this is no owner")
        return self

    def write(self, staging_dir: str) -> None:
        """Makes the staging directory this owner's."""
        text = json.dumps(asdict(self), indent=1, sort_keys=True)
        storage.write_bytes(storage.join(staging_dir, OWNER_FILE), text.encode())

    @property
    def is_here(self) -> bool:
        """Whether this process can tell if it runs: it is of this machine, not started anew since, and container."""
        return self.host == socket.gethostname() and self.space in ("", _space())

    @property
    def runs(self) -> bool:
        """Whether the process, which is here, is there: it, not a later one of the same number."""
        if not _is_there(self.pid):
            return False
        return self.began is None or self.began == _began(self.pid)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass  # another user's
    return (_stat(pid) or ["R"])[0] not in "ZX"  # dead, though nobody has asked yet how it ended


def _began(pid: int) -> int | None:
    stat = _stat(pid)
    return int(stat[19]) if stat is not None else None


def _stat(pid: int) -> list[str] | None:
    """Returns what Linux says of a process, from its state on (man proc_pid_stat); None where there is no such file."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def _space() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""
