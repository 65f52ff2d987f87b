"""The process that owns a run: owner.json in its directories, and whether the process is still running."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass, fields
from typing import Any

from beam_datasets import storage
from beam_datasets.errors import StorageError

OWNER_FILE = "owner.json"
LOCAL_RUNNERS = ("", "FnApiRunner", "DirectRunner", "BundleBasedDirectRunner", "SwitchingDirectRunner")
"""Beam's runners that run on this machine and end with the process that started them; '' is an unnamed one."""
IN_PROCESS = "in process"
"""In place of a runner's name: a run without Beam, in the process that started it."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that runs a job.

    Attributes:
        job: unique to the run.
        host: name of the machine.
        pid: the process there.
        started: start of the job, in seconds since the epoch.
        runner: name of the runner.
        pid_namespace: scope in which process numbers are unique: this boot of the machine, and the container; '' if
            unknown.
        start_ticks: start of the process, in ticks since the machine booted; None if unknown.
    """

    job: str
    host: str
    pid: int
    started: float
    runner: str = ""
    pid_namespace: str = ""
    start_ticks: int | None = None

    @classmethod
    def of_this_process(cls, job: str, start_time: float, runner: str) -> Owner:
        """Returns this process as the owner of a job.

        Args:
            job: id of the job, unique to the run.
            start_time: start of the job, in seconds since the epoch.
            runner: name of the runner.
        """
        return cls(
            job, socket.gethostname(), os.getpid(), start_time, runner, _pid_namespace(), _start_ticks(os.getpid())
        )

    @classmethod
    def from_json(cls, content: Any) -> Owner:
        """Returns the owner from the dict of an owner.json, whose names are the attributes; others are ignored.

        For example, {'job': 'a1', 'host': 'node1', 'pid': 7, 'started': 1.5}.

        Raises:
            ValueError: `host`, `job`, `pid` or `started` is missing or has another type.
        """
        field_values = {field.name: content[field.name] for field in fields(cls) if field.name in content}
        if {"job", "host", "pid", "started"} - set(field_values) or not isinstance(field_values["host"], str):
            raise ValueError("host, job, pid or started is missing")
        if type(field_values["pid"]) is not int or field_values["pid"] < 1:
            raise ValueError(f"pid is {field_values['pid']!r}")
        return cls(**field_values)

    @classmethod
    def read(cls, directory: str) -> Owner | None:
        """Returns the owner of a staging or spill directory; None if it has no readable owner.json."""
        try:
            return cls.from_json(json.loads(storage.read_bytes(storage.join(directory, OWNER_FILE))))
        except (StorageError, ValueError, TypeError):
            return None

    def write(self, directory: str) -> None:
        """Writes owner.json into a staging or spill directory."""
        text = json.dumps(asdict(self), indent=1, sort_keys=True)
        storage.write_bytes(storage.join(directory, OWNER_FILE), text.encode())

    @property
    def text(self) -> str:
        """The process, for messages: "process 4711 on host-a"."""
        return f"process {self.pid} on {self.host}"

    @property
    def is_dead(self) -> bool:
        """Whether the run has certainly ended: its process is gone, and a local run ends with its process."""
        return self.is_gone and self.is_local

    @property
    def is_gone(self) -> bool:
        """Whether the process has certainly ended."""
        return bool(self.pid_namespace) and self.is_here and not self.is_running

    @property
    def is_local(self) -> bool:
        """Whether the run ends with its process."""
        return self.runner in (*LOCAL_RUNNERS, IN_PROCESS)

    @property
    def is_here(self) -> bool:
        """Whether this process can see the owner: same machine, same boot, same container."""
        return self.host == socket.gethostname() and self.pid_namespace in ("", _pid_namespace())

    @property
    def is_running(self) -> bool:
        """Whether the process, one of this machine, still runs; False if its id now belongs to a later process."""
        if not _is_there(self.pid):
            return False
        return self.start_ticks is None or self.start_ticks == _start_ticks(self.pid)


def remove_owned(directory: str) -> None:
    """Removes a local directory, owner.json last, so that another process can go on if this one is killed."""
    for name in storage.list_dir(directory, missing_ok=True):
        path = storage.join(directory, name)
        if name != OWNER_FILE:
            (storage.remove_tree if storage.is_dir(path) else storage.remove)(path)
    storage.remove_tree(directory)


def _is_there(pid: int) -> bool:
    """Returns whether a process of this machine exists and has not ended; a zombie counts as ended."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass  # another user's
    return (_read_stat(pid) or ["R"])[0] not in "ZX"  # dead, but its parent has not waited for it


def _start_ticks(pid: int) -> int | None:
    """Returns the start of a process, in clock ticks since the boot; None if no such process is visible."""
    stat = _read_stat(pid)
    return int(stat[19]) if stat is not None else None


def _read_stat(pid: int) -> list[str] | None:
    """Returns the fields of /proc/PID/stat from the state on (man proc_pid_stat); None if the file does not exist."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def _pid_namespace() -> str:
    """Returns "<boot id> pid:[<number>]", which identifies what process ids refer to; "" if /proc cannot be read."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""
