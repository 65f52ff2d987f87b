"""Runs that publish a directory: their identity, their files, and the final decision about them."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from beam_datasets import catalog, storage
from beam_datasets.errors import AlreadyPublishedError, StorageError
from beam_datasets.metadata.info import INFO_FILE
from beam_datasets.metadata.manifest import MANIFEST_FILE, RUN_FILE
from beam_datasets.publishing.owners import Owner
from beam_datasets.publishing.staged_files import StagedFile

PUBLISH, ABANDON = "publish", "abandon"
LOG_PREFIX = "incomplete.log."
"""Prefix of the names of files with the output of the workers of a failed run."""
WORKERS_FILE = "workers.log"
"""Name of the file, in the directory of a version, with the output of the workers that built it."""
LAST_LINES_SUFFIXES = (".last", ".last.1")
"""Suffixes of the names of the files with the last lines of a long `Run.worker_log`, the later lines first."""
RUNS_PREFIX = "incomplete.runs."
"""The prefix of the names of directories with the records of runs; TFDS and `catalog` skip `incomplete.*`."""
EXPORT_FILE = "_export.json"
"""The marker of an export. Readers of Parquet directories skip names that begin with an underscore."""

STAGING_NAME = re.compile(r"incomplete\.(?P<job>[0-9A-Za-z]+)_(?P<name>.+)")
"""Names of staging directories."""
PUBLISHED_FROM = re.compile(r"(?P<staging>incomplete\..+)\.[0-9a-f]{8}")
"""Names of directories in which the files of a staging directory are while a version is published on a disk."""
SPILL_SUFFIX = ".spill"
"""The suffix of the name of a spill directory, which begins as that of the staging directory."""
CHECKPOINT_SUFFIX, SHARDS_SUFFIX = ".units.json", ".shards.json"
"""The suffixes of files that record finished units, and staged shards; see `units`."""
RESULT_DIR = "result"
"""Directory in a staging directory of an object store with a complete version that was not published."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run that publishes one directory.

    Attributes:
        target: the directory.
        owner: the process that runs it, with the run's id.
        marker: the file that makes the directory visible, created last.
        spill_dir: directory of intermediate files; None if there are none.
        is_reserved: the launcher reserves the directory before the job; False in pipelines of users.
        is_awaited: the launcher waits for the end of the job, and then deletes intermediate files; if False, the last
            phase deletes them.
    """

    target: str
    owner: Owner
    marker: str = INFO_FILE
    spill_dir: str | None = None
    is_reserved: bool = True
    is_awaited: bool = True

    @property
    def job(self) -> str:
        """The run's id."""
        return self.owner.job

    @property
    def staging_dir(self) -> str:
        """The directory in which the run puts its files together; see the function `staging_dir`."""
        return staging_dir(self.target, self.job)

    @property
    def is_remote(self) -> bool:
        """Whether the directory is on an object store."""
        return storage.is_remote(self.target)

    @property
    def submitted_file(self) -> str:
        """Path of a file that the launcher writes just before it submits the job to an engine."""
        return storage.join(self.staging_dir, "submitted")

    @property
    def is_dead(self) -> bool:
        """Whether the run has certainly ended: its process is gone, and no engine has its job."""
        if self.owner.is_dead or not self.is_reserved:
            return self.owner.is_dead
        return self.owner.is_gone and not storage.exists(self.submitted_file)

    @property
    def worker_log(self) -> str:
        """Path in the directory for temporary files: output of local worker processes while the run is active."""
        return storage.join(tempfile.gettempdir(), f"beam_datasets-workers-{self.job}.log")

    def remove_worker_log(self) -> None:
        """Removes the output of local worker processes in the directory for temporary files."""
        for suffix in ("", *LAST_LINES_SUFFIXES):
            storage.remove(self.worker_log + suffix)

    @property
    def kept_log(self) -> str:
        """Path of the file that keeps the output of the workers if the run fails, beside its staging directory.

        A run in a temporary directory, as of `build --overwrite`, keeps it next to that directory, which is removed.
        """
        folder, _, staged_name = self.target.partition("/incomplete.")
        return storage.join(folder if staged_name else storage.dirname(self.target), f"{LOG_PREFIX}{self.job}")

    @property
    def text(self) -> str:
        """The run and its owner, for messages: 'run 1f2e3d4c (process 7 on host, FlinkRunner, since ...)'."""
        runner = f", {self.owner.runner}" if self.owner.runner else ""
        return f"run {self.job} ({self.owner.text}{runner}, since {utc(self.owner.started)})"

    def to_json(self) -> bytes:
        """Returns the content of the run's reservation."""
        return encode_json(
            {
                "owner": asdict(self.owner),
                "marker": self.marker,
                "spill_dir": self.spill_dir and storage.url(self.spill_dir),
                "is_reserved": self.is_reserved,
            }
        )

    @classmethod
    def from_json(cls, text: bytes, *, target: str) -> Run:
        """Returns the run of a reservation.

        Raises:
            ValueError: the content is damaged.
        """
        content = json.loads(text)
        spill_dir = content["spill_dir"]
        if spill_dir is not None:
            spill_dir = storage.with_options_if_remote(spill_dir, None, other_path=target)
        is_reserved = bool(content.get("is_reserved"))  # records of earlier versions of this package lack it
        return cls(target, Owner.from_json(content["owner"]), str(content["marker"]), spill_dir, is_reserved)


@dataclass(frozen=True, slots=True)
class Decision:
    """Final decision about a run; it never changes.

    Attributes:
        job: the run's id.
        kind: 'publish' or 'abandon'.
        digest: identifies the content that is published.
        files: all files of the directory that is published, the marker included.
        by: name of the person or program that abandoned the run.
    """

    job: str
    kind: str
    digest: str = ""
    files: Sequence[StagedFile] = ()
    by: str = ""

    def to_json(self) -> bytes:
        """Returns the content of the decision's file."""
        return encode_json({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def from_json(cls, text: bytes) -> Decision:
        """Returns the decision that a file holds.

        Raises:
            ValueError: the content is damaged.
        """
        content = json.loads(text)
        return cls(**{**content, "files": [StagedFile(*file) for file in content["files"]]})


def utc(seconds: float) -> str:
    """Returns a time, in seconds since 1970, for messages: "2026-01-31 23:59:59 UTC"."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def already_published(name: str, target: str) -> AlreadyPublishedError:
    """Returns the error that dataset `name` is published in `target`, with the run that did so if recorded."""
    by = ""
    with contextlib.suppress(StorageError, ValueError, KeyError, TypeError):
        report = json.loads(storage.read_bytes(storage.join(target, RUN_FILE)))
        by = f", by run {report['job']}, which started {utc(report['started'])}"
    return AlreadyPublishedError(
        f"{name} is already published in {target}{by}. A published version never changes",
        got=name,
        advice="To publish again, raise the version: VERSION in the class of a builder, --version for files such as "
        "csv, --to NAME:VERSION (to='NAME:VERSION') for materialize. `beam-datasets build` leaves it as it is with "
        "--skip_published, and replaces it on a local disk with --overwrite.",
    )


def staging_dir(target: str, job: str) -> str:
    """Returns the staging directory of a run: <parent of target>/incomplete.<job>_<name of target>."""
    return storage.join(storage.dirname(target), f"incomplete.{job}_{storage.basename(target)}")


def runs_dir(target: str) -> str:
    """Returns the directory of the records of the runs that publish `target`."""
    return storage.join(storage.dirname(target), RUNS_PREFIX + storage.basename(target))


def has_units(spill_dir: str) -> bool:
    """Returns whether a spill directory contains units or shards that a later run can reuse."""
    return any(name.endswith((CHECKPOINT_SUFFIX, SHARDS_SUFFIX)) for name in names_in(spill_dir))


def names_in(directory: str) -> list[str]:
    """Returns the names in a directory; [] if it cannot be listed, such as after its deletion."""
    try:
        return storage.list_dir(directory)
    except StorageError:
        return []


def is_complete(target: str) -> bool:
    """Returns whether a directory has the marker files of a published dataset or of an export."""
    names = ((INFO_FILE, MANIFEST_FILE), (EXPORT_FILE,))
    return any(all(storage.exists(storage.join(target, name)) for name in marker_files) for marker_files in names)


def encode_json(content: Any) -> bytes:
    """Returns a value as JSON with sorted keys: b'{"a": 1, "b": null}'."""
    return json.dumps(content, sort_keys=True).encode()


def is_published_by(job: str, dataset_dir: str) -> bool:
    """Returns whether this very run has published already (an engine may run any step again, even then)."""
    path = storage.join(dataset_dir, RUN_FILE)
    if not catalog.is_published(dataset_dir) or not storage.exists(path):
        return False
    try:
        report = json.loads(storage.read_bytes(path))
    except ValueError:  # it is only a report, and may be damaged
        return False
    return isinstance(report, dict) and report.get("job") == job
